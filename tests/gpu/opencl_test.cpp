// The OpenCL driver: every op of the table against the reference backend, on the first device there is. On a machine
// without one the tests skip themselves.
#include <cmath>

#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/base/error.h"

#include "tests/ops/op_rows.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

#define NEEDS_OPENCL() \
  if (opencl_devices().devices.empty()) GTEST_SKIP() << opencl_devices().why_none

void compare(const Graph& g, const std::vector<Array>& inputs, double slack) {
  double allowed = tolerance(DType::f32) * slack;
  for (const ValueInfo& v : g.values) {
    if (wide(v.type.dtype) != v.type.dtype) allowed = std::max(allowed, tolerance(v.type.dtype) * std::min(slack, 4.0));
  }
  const std::vector<Array> expected = interpret(retype(g, DType::f64), retype(inputs, DType::f64));
  const std::vector<Array> got = run_planned("opencl:0", g, inputs);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(close(got[i], expected[i], allowed)) << "output " << i << " of\n" << print(g).substr(0, 2000);
  }
}

// By kind of op, so that they run side by side: nearly all of the time goes into the driver's compiler.
class OpenClOps : public testing::TestWithParam<OpKind> {};

TEST_P(OpenClOps, AgreeWithTheOracle) {
  NEEDS_OPENCL();
  for (const OpRow& row : op_rows()) {
    if (info(row.op).kind != GetParam()) continue;
    SCOPED_TRACE(to_string(row));
    const Graph g = graph_of(row);
    EXPECT_NO_THROW(compare(g, inputs_of(row, g, 1), row.slack));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, OpenClOps,
                         testing::Values(OpKind::leaf, OpKind::generator, OpKind::unary, OpKind::binary,
                                         OpKind::ternary, OpKind::view, OpKind::movement, OpKind::reduce,
                                         OpKind::contract, OpKind::convolve, OpKind::pool, OpKind::index,
                                         OpKind::composite));

}  // namespace
}  // namespace freight::test
