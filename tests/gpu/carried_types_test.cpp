// Element types beside those that most programs use, on the test's device (device.h): moved and converted right, or, if
// complex, refused by name.
#include "freight/base/error.h"

#include "tests/gpu/device.h"
#include "tests/ops/carried_types.h"
#include "tests/support/error_of.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

class GpuCarried : public ::testing::TestWithParam<DType> {};

TEST_P(GpuCarried, IntegersAreMovedRightAndComplexNumbersRefusedByName) {
  NEEDS_TEST_DEVICE();
  const DType dtype = GetParam();
  const std::vector<CarriedCase> cases = carried_cases(dtype);
  std::vector<Array> in;
  const Graph all = joined(cases, in);
  if (is_complex(dtype)) {
    const std::string refusal = testing::message_of([&] { run_planned(test_device(), all, in); });
    EXPECT_NE(refusal.find(cat("GPU backends have no kernel for ", dtype, ": got ", dtype)), std::string::npos)
        << refusal;
    return;
  }
  const std::vector<Array> out = run_planned(test_device(), all, in);
  for (size_t i = 0; i < cases.size(); ++i) EXPECT_TRUE(same_bytes(out[i], cases[i].need)) << cases[i].what;
}
INSTANTIATE_TEST_SUITE_P(All, GpuCarried, ::testing::ValuesIn(carried_types()),
                         [](const auto& p) { return freight::to_string(p.param); });

TEST(GpuCarriedCasts, AreNumPys) {
  NEEDS_TEST_DEVICE();
  std::vector<CarriedCase> cases = cast_cases();
  std::erase_if(cases, [](const CarriedCase& c) {
    const DType from = c.in[0].dtype(), to = c.need.dtype();
    return is_complex(from) || is_complex(to) || (!test_device_has_f64() && (from == DType::f64 || to == DType::f64));
  });
  std::vector<Array> in;
  const std::vector<Array> out = run_planned(test_device(), joined(cases, in), in);
  for (size_t i = 0; i < cases.size(); ++i) EXPECT_TRUE(same_or_nan(out[i], cases[i].need)) << cases[i].what;
}

}  // namespace
}  // namespace freight::test
