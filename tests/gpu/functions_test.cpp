// The public functions (tests/ops/function_rows.h) on the test's device (device.h) against the oracle in f64, values
// and gradients, plain and with views as operands. FREIGHT_LONG=1 takes all samples, otherwise a part of each header's.
#include "tests/ops/function_rows.h"

#include "tests/gpu/device.h"
#include "tests/ops/case_checks.h"

namespace freight::test {
namespace {

bool is_spectral(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return test::is_spectral(n.op); });
}

class GpuFunctions : public ::testing::TestWithParam<std::string> {};

// One plan, and so one program, for the samples of a header: nearly all of the time goes into the driver's compiler.
TEST_P(GpuFunctions, AgreeWithTheOracle) {
  NEEDS_TEST_DEVICE();
  std::vector<OpCase> cases;
  for (const FunctionRow& row : function_rows()) {
    if (signature_of(row).header != GetParam() + ".h") continue;
    if (!cases.empty() && !drawn(to_string(row), 12)) continue;  // the first one always
    OpCase c = case_of(row);
    if (is_spectral(c.graph)) continue;  // refused: ops_test.cpp
    c.graph = with_gradients(c.graph);
    cases.push_back(c);
    cases.push_back(case_of(row, Through::slice, 2));
  }
  ASSERT_FALSE(cases.empty());
  compare_together(cases, test_device());
}

INSTANTIATE_TEST_SUITE_P(Headers, GpuFunctions,
                         ::testing::Values("elementwise", "reduce", "shape", "index", "sort", "linalg", "conv",
                                           "neural", "sequence", "random"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace freight::test
