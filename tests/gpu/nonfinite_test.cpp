// NaN, infinities, -0 and subnormal numbers in every operand of every op and of what is fused, on the test's device
// (device.h): what the definition gives.
#include <algorithm>

#include "tests/gpu/device.h"
#include "tests/ops/nonfinite.h"
#include "tests/support/rounding_casts.h"

namespace freight::test {
namespace {

class GpuNonfinite : public testing::TestWithParam<Op> {};

TEST_P(GpuNonfinite, GivesWhatTheDefinitionGives) {
  NEEDS_TEST_DEVICE();
  std::vector<OpCase> cases = cases_with_gradients(GetParam());
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::vector<OpCase> more = cases_in(GetParam(), dtype);
    cases.insert(cases.end(), more.begin(), more.end());
  }
  // Interpreting the definition takes nearly all of the time: of many cases each has fewer values of its own.
  check_planted(cases, test_device(), 1e-4, cases.size() > 20 ? 2 : 8);
}

std::vector<Op> other_ops() {
  std::vector<Op> ops = ops_of_gpus();
  ops.erase(std::remove_if(ops.begin(), ops.end(), is_linear_algebra), ops.end());
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, GpuNonfinite, testing::ValuesIn(other_ops()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

// A matrix that is refused ends a run: each case has a plan of its own, and those of one kind have the same kernels.
TEST(GpuLinearAlgebra, GivesRefusesOrSpreadsWhatIsNotFinite) {
  NEEDS_TEST_DEVICE();
  for (const Op op : {Op::lu_factor, Op::cholesky, Op::qr, Op::solve_triangular}) {
    std::vector<OpCase> cases;
    for (const OpRow& row : op_rows()) {
      const Graph g = graph_of(row);
      if (row.op == op) cases.push_back({to_string(row), g, inputs_of(row, g, 1), row.slack});
    }
    for (size_t i = 1; i < cases.size(); i += 1 + cases.size() / 5) check_planted({cases[i]}, test_device(), 1e-4, 6);
  }
}

class GpuNonfiniteJoined : public testing::TestWithParam<DType> {};

TEST_P(GpuNonfiniteJoined, GivesWhatTheDefinitionGives) {
  NEEDS_TEST_DEVICE();
  check_planted(joined_cases(GetParam()), test_device(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuNonfiniteJoined, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) { return cat(instance.param); });

TEST(GpuCasts, To16BitsRoundInsideOfRegions) {
  NEEDS_TEST_DEVICE();
  for (const DType low : {DType::bf16, DType::f16}) {
    std::vector<RoundingCase> cases = rounding_cases(low);
    if (test_device_has_f64()) cases.push_back(rounding_of_f64(low));
    for (const RoundingCase& c : cases) check_rounding(c, low, test_device());
  }
}

}  // namespace
}  // namespace freight::test
