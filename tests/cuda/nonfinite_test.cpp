// NaN, infinities, -0 and subnormal numbers in what NVIDIA's libraries compute, on the fakes of them, which lose NaN
// wherever their documentation does not say that it is kept: products, convolutions, attention and recurrent layers.
#include "tests/ops/nonfinite.h"
#include "tests/cuda/fake.h"
#include "tests/support/rounding_casts.h"

namespace freight::test {
namespace {

class CudaNonfinite : public OnFakeLibraries, public ::testing::WithParamInterface<DType> {};

TEST_P(CudaNonfinite, GivesWhatTheDefinitionGives) {
  std::vector<OpCase> cases;
  for (const Op op : {Op::matmul, Op::conv, Op::conv_grad_input, Op::conv_grad_weight, Op::attention,
                      Op::attention_grad, Op::relu, Op::max_pool}) {
    const std::vector<OpCase> more = GetParam() == DType::f32 ? cases_with_gradients(op) : cases_in(op, GetParam());
    cases.insert(cases.end(), more.begin(), more.end());
  }
  check_planted(cases, "cuda:0", 1e-4, 4);  // interpreting the definition takes nearly all of the time
}

TEST_P(CudaNonfinite, WhatRidesOnProductsGivesWhatTheDefinitionGives) {
  check_planted(joined_cases(GetParam()), "cuda:0", 1e-4);
  EXPECT_GT(fake().library_products, 0);
  EXPECT_GT(fake().library_convolutions, 0);
}

TEST_F(OnFake, CastsTo16BitsRoundInsideOfRegions) {
  for (const DType low : {DType::bf16, DType::f16}) {
    std::vector<RoundingCase> cases = rounding_cases(low);
    cases.push_back(rounding_of_f64(low));
    for (const RoundingCase& c : cases) check_rounding(c, low, "cuda:0");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaNonfinite, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) { return cat(instance.param); });

}  // namespace
}  // namespace freight::test
