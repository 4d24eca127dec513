// Arithmetic in i8 to u64 on the test's device (device.h): NumPy's results, bit for bit.
#include "tests/ops/integer_types.h"

#include "tests/gpu/device.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

class GpuIntegers : public ::testing::TestWithParam<DType> {};

TEST_P(GpuIntegers, AreNumPysBitForBit) {
  NEEDS_TEST_DEVICE();
  expect_numpys_integers(
      GetParam(), true, [](const Graph& g, const std::vector<Array>& in) { return run_planned(test_device(), g, in); });
}

INSTANTIATE_TEST_SUITE_P(All, GpuIntegers, ::testing::ValuesIn(integer_types()),
                         [](const auto& p) { return freight::to_string(p.param); });

}  // namespace
}  // namespace freight::test
