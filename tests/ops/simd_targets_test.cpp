// The CPU backend's kernels of each instruction set that this processor has: what a plan makes of every op on a
// processor with AVX2, or with nothing but SSE2, and what Winograd's convolutions, attention and recurrent layers make
// of their tables there, against the definition in f64.
#include "tests/support/simd_targets.h"
#include "freight/backend/choices.h"
#include "tests/ops/op_suite.h"

namespace freight::test {
namespace {

void check_with_each_target(const std::vector<OpCase>& cases, size_t choices = 1) {
  std::vector<std::vector<Array>> expected;
  for (const OpCase& c : cases) expected.push_back(expected_of(c));
  for (size_t choice = 0; choice < choices; ++choice) {
    const ForcedChoice forced(choice);
    for_each_simd_target([&] {
      clear_plan_cache();  // of plans with other kernels
      for (size_t i = 0; i < cases.size(); ++i)
        check_results(cases[i], run_planned("cpu", cases[i].graph, cases[i].inputs), expected[i], "cpu");
    });
  }
  clear_plan_cache();
}

class SimdTargets : public testing::TestWithParam<Op> {};

TEST_P(SimdTargets, EachGivesWhatTheDefinitionGives) { check_with_each_target(cases_with_gradients(GetParam())); }

TEST_P(SimdTargets, EachGivesWhatTheDefinitionGivesInBf16) {
  check_with_each_target(cases_in(GetParam(), DType::bf16));
}

INSTANTIATE_TEST_SUITE_P(Ops, SimdTargets, testing::ValuesIn(ops_with_rows()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

OpCase with_inputs(const std::string& what, Graph g, double slack) {
  const Graph with = with_gradients(std::move(g));
  std::vector<Array> inputs;
  for (Value v : with.leaves(Op::input)) inputs.push_back(random_array({with.type(v), Fill::unit}, 51 + inputs.size()));
  return {what, with, inputs, slack};
}

// Filters of 3 x 3 and 5 x 5 over channels that fill vectors of every width, which Winograd's algorithm computes.
TEST(SimdTargetsWinograd, EachGivesWhatTheDefinitionGives) {
  std::vector<OpCase> cases;
  for (const int64_t taps : {3, 5}) {
    for (const auto& [x, outputs] : {std::pair<Shape, int64_t>{Shape{2, 16, 7, 9}, 48}, {Shape{2, 16, 13, 13}, 32}}) {
      const int64_t pad = taps / 2;
      Graph g;
      Builder b(g);
      const Shape w{outputs, x[1], taps, taps};
      g.outputs = {b.one(Op::conv, rows::conv_attrs({1, 1}, {pad, pad}, {pad, pad}, {1, 1}),
                         {b.one(Op::input, LeafAttrs{"x", {DType::f32, x}}, {}),
                          b.one(Op::input, LeafAttrs{"w", {DType::f32, w}}, {})})};
      cases.push_back(with_inputs(cat("conv ", x, " ", w), std::move(g), 8));
    }
  }
  check_with_each_target(cases, 3);
}

}  // namespace
}  // namespace freight::test
