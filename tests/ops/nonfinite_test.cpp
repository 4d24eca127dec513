// NaN, infinities, -0 and subnormal numbers in every operand of every op, at places that vectors, their tails and tiles
// see: the planned step gives what the definition gives, for each implementation that a plan may choose. Written
// because an activation that rode on a product turned NaN into 0, so that a lost run looked like a sound one.
#include <cmath>
#include <limits>

#include "freight/backend/choices.h"
#include "freight/run/executable.h"
#include "tests/ops/op_suite.h"

namespace freight::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSubnormal = 1e-40f;
constexpr float kPlanted[] = {kNan, kInf, -kInf, -0.0f, kSubnormal};

// How far a kernel may differ from the definition in where numbers that are not finite come out; never in that they do.
enum class Rule {
  same,     // at the same places, of the same kind
  spreads,  // convolutions: a padding of zeros counts as zeros times NaN, and Winograd's method mixes the pixels of a
            // tile
  whole,    // recurrent layers: products with a first state of zeros are not taken; some result is not finite
  masked,  // attention: what a mask hides is not read, where the definition takes zero times NaN; what is finite agrees
};

Rule rule_of(const Graph& g) {
  Rule rule = Rule::same;
  for (const Node& n : g.nodes) {
    if (info(n.op).kind == OpKind::convolve) rule = Rule::spreads;
    const std::string op = name(n.op);
    if (op.find("recurrent") != std::string::npos) return Rule::whole;
    if (op.find("attention") != std::string::npos) return Rule::masked;
  }
  return rule;
}

double largest_finite(const std::vector<Array>& arrays) {
  double largest = 1e-6;
  for (const Array& a : arrays) {
    for (double v : a.to_vector<double>()) largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
  }
  return largest;
}

bool all_finite(const std::vector<Array>& arrays) {
  for (const Array& a : arrays) {
    for (double v : a.to_vector<double>()) {
      if (!std::isfinite(v)) return false;
    }
  }
  return true;
}

// `kinds`: infinities and NaN are told apart (roundings of 16 bits may make the one of the other).
bool agrees(double got, double expected, double allowed, Rule rule, bool kinds) {
  if (std::isfinite(expected))
    return (rule != Rule::same && !std::isfinite(got)) || std::fabs(got - expected) <= allowed;
  if (rule == Rule::whole || rule == Rule::masked) return true;  // the caller looks at all results together
  if (rule == Rule::spreads || !kinds) return !std::isfinite(got);
  return std::isnan(expected) ? std::isnan(got) : got == expected;
}

::testing::AssertionResult agree(const std::vector<Array>& got, const std::vector<Array>& expected, double tolerance,
                                 Rule rule, bool kinds) {
  if (rule != Rule::masked && all_finite(got) && !all_finite(expected))
    return ::testing::AssertionFailure() << "what is not finite is lost";
  const double largest = largest_finite(expected);
  for (size_t k = 0; k < got.size(); ++k) {
    const std::vector<double> g = got[k].to_vector<double>(), e = expected[k].to_vector<double>();
    for (size_t i = 0; i < e.size(); ++i) {
      if (agrees(g[i], e[i], tolerance * (std::fabs(e[i]) + largest), rule, kinds)) continue;
      return ::testing::AssertionFailure() << "output " << k << ", element " << i << " of "
                                           << to_string(expected[k].shape()) << " is " << g[i] << ", expected " << e[i];
    }
  }
  return ::testing::AssertionSuccess();
}

Array planted(const Array& a, int64_t at, float value) {
  Array wide = a.cast(DType::f64).clone();
  wide.data<double>()[at] = value;
  return wide.cast(a.dtype());
}

int64_t steps_of(const OpCase& c) {
  for (const Array& a : c.inputs) {
    if (a.shape().rank() == 3) return a.shape()[1];
  }
  return 0;
}

// What of a case is not asked for: rows that sgd_rows does not touch do not see the rate, and a single step of a
// recurrent layer multiplies no state.
bool unread(const OpCase& c, size_t operand) {
  if (rule_of(c.graph) == Rule::whole) return steps_of(c) == 1;
  for (const Node& n : c.graph.nodes) {
    if (n.op == Op::sgd_rows && operand == 3) return true;
  }
  return false;
}

// Runs the case with each value planted in each floating operand, at a few places in turn, under one plan.
void check_planted(const OpCase& c, const std::string& backend, double tolerance) {
  RunOptions options;
  options.backend = backend;
  options.deterministic = true;
  Executable executable(plan_for(c.graph, options), {});
  std::vector<Array> outputs;
  bool narrow = false;
  for (Value v : c.graph.outputs) outputs.emplace_back(c.graph.type(v).dtype, c.graph.type(v).shape);
  for (const ValueInfo& v : c.graph.values) narrow = narrow || wide(v.type.dtype) != v.type.dtype;
  const Rule rule = rule_of(c.graph);
  size_t turn = 0;
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    const int64_t n = c.inputs[k].numel();
    if (!is_floating(c.inputs[k].dtype()) || n == 0 || unread(c, k)) continue;
    const int64_t places[] = {n - 1, 0, n / 2, n * 3 / 4};
    for (float value : kPlanted) {
      if (rule == Rule::masked && std::isinf(value)) continue;  // infinite scores: limits of their own in each form
      for (int repeat = 0; repeat < (n > 16 ? 2 : 1); ++repeat) {
        const int64_t at = places[turn++ % 4];
        std::vector<Array> inputs = c.inputs;
        inputs[k] = planted(inputs[k], at, value);
        executable.run(inputs, outputs);
        auto result =
            agree(outputs, interpret(c.graph, inputs), (narrow ? 1.0 / 16 : tolerance) * c.slack, rule, !narrow);
        if (!result && value == kSubnormal) {  // the CPU's kernels may take subnormal numbers for 0
          inputs[k] = planted(c.inputs[k], at, 0);
          result = agree(outputs, interpret(c.graph, inputs), (narrow ? 1.0 / 16 : tolerance) * c.slack, rule, !narrow);
        }
        ASSERT_TRUE(result) << value << " at element " << at << " of operand " << k << " on " << backend << " of "
                            << c.what << "\n"
                            << print(c.graph).substr(0, 2000);
      }
    }
  }
}

// Without a mask, NaN in queries, keys or values reaches the result.
TEST(NonfiniteAttention, NanIsNotLost) {
  for (const OpRow& row : op_rows()) {
    if (row.op != Op::attention && row.op != Op::attention_grad) continue;
    const auto& a = std::get<AttentionAttrs>(row.attrs);
    if (a.causal || a.lengths || row.in[0].type.numel() == 0) continue;
    const Graph g = graph_of(row);
    for (size_t k = 0; k < row.in.size(); ++k) {
      std::vector<Array> inputs = inputs_of(row, g, 1);
      inputs[k] = planted(inputs[k], inputs[k].numel() / 2, kNan);
      if (all_finite(interpret(g, inputs))) continue;
      EXPECT_FALSE(all_finite(run_planned("cpu", g, inputs))) << "operand " << k << " of " << to_string(row);
    }
  }
}

class Nonfinite : public testing::TestWithParam<Op> {};

TEST_P(Nonfinite, GivesWhatTheDefinitionGives) {
  for (const OpCase& c : cases_with_gradients(GetParam())) check_planted(c, "cpu", 1e-4);
}

TEST_P(Nonfinite, GivesWhatTheDefinitionGivesInBf16) {
  for (const OpCase& c : cases_in(GetParam(), DType::bf16)) check_planted(c, "cpu", 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Ops, Nonfinite, testing::ValuesIn(ops_with_rows()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

// relu(x w + bias [+ residual]) and relu(conv(x, w) + bias [+ residual]), which a plan joins to one step.
struct Joined {
  std::string what;
  Graph graph;
};

std::vector<Joined> joined_graphs(DType dtype) {
  std::vector<Joined> all;
  for (const bool residual : {false, true}) {
    for (const Shape& s : {Shape{32, 8, 64}, Shape{5, 33, 17}, Shape{66, 40, 65}, Shape{1, 40, 96}}) {
      for (const bool trans : {false, true}) {
        Graph g;
        Builder b(g);
        const Value x = b.one(Op::input, LeafAttrs{"x", {dtype, {s[0], s[1]}}}, {});
        const Shape ws = trans ? Shape{s[2], s[1]} : Shape{s[1], s[2]};
        const Value w = b.one(Op::input, LeafAttrs{"w", {dtype, ws}}, {});
        const Value bias = b.one(Op::input, LeafAttrs{"b", {dtype, {1, s[2]}}}, {});
        Value y = b.one(Op::matmul, MatmulAttrs{false, trans, {}}, {x, w});
        y = b.binary(Op::add, y, b.broadcast(bias, b.shape(y)));
        if (residual) y = b.binary(Op::add, y, b.one(Op::input, LeafAttrs{"r", {dtype, b.shape(y)}}, {}));
        g.outputs = {b.unary(Op::relu, y)};
        all.push_back({cat("matmul ", to_string(s), trans ? " transposed" : "", residual ? " residual" : ""), g});
      }
    }
    struct ConvCase {
      Shape x, w;
      ConvAttrs attrs;
    };
    const std::vector<ConvCase> convs = {
        {{2, 3, 12, 12}, {8, 3, 3, 3}, rows::conv_attrs({1, 1}, {1, 1}, {1, 1}, {1, 1})},
        {{1, 16, 8, 8}, {32, 16, 3, 3}, rows::conv_attrs({1, 1}, {1, 1}, {1, 1}, {1, 1})},
        {{1, 16, 8, 8}, {16, 16, 5, 5}, rows::conv_attrs({1, 1}, {2, 2}, {2, 2}, {1, 1})},
        {{1, 32, 5, 5}, {48, 32, 1, 1}, rows::conv_attrs({1, 1}, {0, 0}, {0, 0}, {1, 1})},
        {{1, 16, 9, 9}, {24, 16, 3, 3}, rows::conv_attrs({2, 2}, {1, 1}, {1, 1}, {1, 1})},
        {{2, 8, 10, 10}, {8, 1, 3, 3}, rows::conv_attrs({1, 1}, {1, 1}, {1, 1}, {1, 1}, 8)},
    };
    for (const ConvCase& c : convs) {
      Graph g;
      Builder b(g);
      const Value x = b.one(Op::input, LeafAttrs{"x", {dtype, c.x}}, {});
      const Value w = b.one(Op::input, LeafAttrs{"w", {dtype, c.w}}, {});
      const Value bias = b.one(Op::input, LeafAttrs{"b", {dtype, {1, c.w[0], 1, 1}}}, {});
      Value y = b.one(Op::conv, c.attrs, {x, w});
      y = b.binary(Op::add, y, b.broadcast(bias, b.shape(y)));
      if (residual) y = b.binary(Op::add, y, b.one(Op::input, LeafAttrs{"r", {dtype, b.shape(y)}}, {}));
      g.outputs = {b.unary(Op::relu, y)};
      all.push_back({cat("conv ", to_string(c.x), " ", to_string(c.w), residual ? " residual" : ""), g});
    }
  }
  for (const Shape& x : {Shape{2, 5, 9, 9}, Shape{2, 32, 8, 8}, Shape{1, 3, 17, 12}}) {
    for (const bool indices : {false, true}) {
      Graph g;
      Builder b(g);
      const Value in = b.one(Op::input, LeafAttrs{"x", {dtype, x}}, {});
      const PoolAttrs attrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}, true, {}};
      g.outputs = {b.add(Op::max_pool, attrs, {in})[0]};
      if (indices) {
        Graph with = with_gradients(g);
        g = with;
      }
      all.push_back({cat("max_pool ", to_string(x), indices ? " and gradient" : ""), g});
    }
  }
  return all;
}

class NonfiniteJoined : public testing::TestWithParam<std::tuple<DType, size_t>> {};

TEST_P(NonfiniteJoined, EveryChoiceGivesWhatTheDefinitionGives) {
  const auto [dtype, choice] = GetParam();
  clear_plan_cache();  // plans made under another choice
  const ForcedChoice forced(choice);
  for (const Joined& j : joined_graphs(dtype)) {
    std::vector<Array> inputs;
    uint64_t seed = 40;
    for (Value v : j.graph.leaves(Op::input)) inputs.push_back(random_array({j.graph.type(v), Fill::unit}, ++seed));
    check_planted({j.what, j.graph, inputs, 1}, "cpu", 1e-4);
  }
  clear_plan_cache();
}

INSTANTIATE_TEST_SUITE_P(Choices, NonfiniteJoined,
                         testing::Combine(testing::Values(DType::f32, DType::bf16), testing::Values(0u, 1u, 2u, 3u)),
                         [](const auto& instance) {
                           return cat(std::get<0>(instance.param), "_choice", std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace freight::test
