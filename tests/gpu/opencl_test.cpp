// The OpenCL driver: every op of the table against the oracle in f64, on the first device there is. On a machine without
// one the tests skip themselves.
#include "freight/backend/gpu/opencl/opencl.h"

#include "tests/ops/op_suite.h"

namespace freight::test {
namespace {

#define NEEDS_OPENCL() \
  if (opencl_devices().devices.empty()) GTEST_SKIP() << opencl_devices().why_none

class OpenClOps : public testing::TestWithParam<Op> {
 protected:
  static void compare(const std::vector<OpCase>& cases) {
    for (const OpCase& c : cases) {
      SCOPED_TRACE(c.what);
      EXPECT_NO_THROW(compare_with_oracle(c, {"opencl:0"}));
    }
  }
};

// One test per op, so that its kernels are compiled once: nearly all of the time goes into the driver's compiler.
TEST_P(OpenClOps, AgreesWithTheOracleInAllTypesAndOnViews) {
  NEEDS_OPENCL();
  compare(cases_with_gradients(GetParam()));
  compare(cases_of_views(GetParam()));
  compare(cases_in(GetParam(), DType::bf16));
  compare(cases_in(GetParam(), DType::f16));
  if (opencl_devices().devices[0].f64) compare(cases_in(GetParam(), DType::f64));
}

INSTANTIATE_TEST_SUITE_P(Ops, OpenClOps, testing::ValuesIn(ops_with_rows()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace freight::test
