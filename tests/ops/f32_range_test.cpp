// Products in f32 over its range: operands near 1e-34 by operands near 1e34, and in turn, in matrix products,
// convolutions, attention and recurrent layers, with all gradients. Each kernel that a plan may choose, those that
// split numbers into parts of bf16 on every machine, gives what the definition gives in f64.
#include <span>

#include "freight/backend/choices.h"
#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "tests/ops/op_suite.h"
#include "tests/support/emulated_bf16.h"

namespace freight::test {
namespace {

// A graph and by which power of two each input is multiplied; 0 for those behind them.
struct Scaled {
  OpCase c;
  std::vector<int> powers;
};

OpCase with_inputs(const std::string& what, Graph g) {
  const Graph with = with_gradients(std::move(g));
  std::vector<Array> inputs;
  for (Value v : with.leaves(Op::input)) inputs.push_back(random_array({with.type(v), Fill::unit}, 41 + inputs.size()));
  return {what, with, inputs, 1};
}

std::vector<Scaled> scaled_cases() {
  constexpr int kFar = 112;
  std::vector<Scaled> all;
  const auto both_ways = [&](const OpCase& c) {
    all.push_back({c, {-kFar, kFar}});
    all.push_back({c, {kFar, -kFar}});
  };
  const auto input = [](Builder& b, const char* name, const Shape& shape) {
    return b.one(Op::input, LeafAttrs{name, {DType::f32, shape}}, {});
  };
  for (const Shape& batch : {Shape{}, Shape{3}}) {
    for (int form = 0; form < 4; ++form) {
      const bool trans_a = form & 1, trans_b = form & 2;
      Shape x = trans_a ? Shape{40, 66} : Shape{66, 40}, w = trans_b ? Shape{33, 40} : Shape{40, 33};
      for (int64_t n : batch) {
        x.insert(0, n);
        w.insert(0, n);
      }
      Graph g;
      Builder b(g);
      g.outputs = {b.one(Op::matmul, MatmulAttrs{trans_a, trans_b, {}}, {input(b, "x", x), input(b, "w", w)})};
      both_ways(with_inputs(cat("matmul ", x, trans_a ? " transposed " : " ", w, trans_b ? " transposed" : ""), g));
    }
  }
  struct Conv {
    Shape x, w;
    int64_t stride, pad;
  };
  for (const Conv& c : {Conv{{2, 72, 6, 5}, {80, 72, 1, 1}, 1, 0},
                        {{2, 32, 5, 5}, {48, 32, 1, 1}, 1, 0},
                        {{1, 16, 8, 8}, {32, 16, 3, 3}, 1, 1},
                        {{1, 16, 9, 9}, {24, 16, 3, 3}, 2, 1},
                        {{2, 3, 12, 12}, {8, 3, 3, 3}, 1, 1}}) {
    Graph g;
    Builder b(g);
    const ConvAttrs a = rows::conv_attrs({c.stride, c.stride}, {c.pad, c.pad}, {c.pad, c.pad}, {1, 1});
    g.outputs = {b.one(Op::conv, a, {input(b, "x", c.x), input(b, "w", c.w)})};
    both_ways(with_inputs(cat("conv ", c.x, " ", c.w), g));
  }
  for (const OpCase& c : cases_with_gradients(Op::attention)) all.push_back({c, {50, -50, -kFar}});
  for (const OpCase& c : cases_with_gradients(Op::recurrent_layer)) both_ways(c);
  return all;
}

class F32Range : public testing::TestWithParam<size_t> {
 protected:
  static void check() {
    clear_plan_cache();
    const ForcedChoice forced(GetParam());
    for (const Scaled& s : scaled_cases()) {
      std::vector<Array> inputs = s.c.inputs;
      for (size_t i = 0; i < s.powers.size(); ++i) {
        for (float& v : std::span(inputs[i].data<float>(), static_cast<size_t>(inputs[i].numel())))
          v = std::ldexp(v, s.powers[i]);
      }
      const std::vector<Array> got = run_planned("cpu", s.c.graph, inputs);
      const std::vector<Array> expected = interpret(retype(s.c.graph, DType::f64), retype(inputs, DType::f64));
      for (size_t k = 0; k < got.size(); ++k) {
        const std::vector<double> g = got[k].to_vector<double>(), e = expected[k].to_vector<double>();
        double largest = 0;
        for (const double v : e) largest = std::max(largest, std::fabs(v));
        // Plans may take what is below 2^-126 for 0, in each term of a sum.
        const double allowed = 2e-6 * s.c.slack * largest + 0x1p-118;
        for (size_t i = 0; i < e.size(); ++i) {
          ASSERT_LE(std::fabs(g[i] - e[i]), allowed)
              << "output " << k << ", element " << i << " of " << s.c.what << ": " << g[i] << ", need " << e[i];
        }
      }
    }
    clear_plan_cache();
  }
};

TEST_P(F32Range, GivesWhatTheDefinitionGivesInF64) { check(); }

TEST_P(F32Range, GivesWhatTheDefinitionGivesByPartsOnEveryMachine) {
  const cpu::ForcedSplitTable emulated(cpu::emulated::table());
  check();
}

INSTANTIATE_TEST_SUITE_P(Choices, F32Range, testing::Values(0u, 1u, 2u));

}  // namespace
}  // namespace freight::test
