// What every backend must do with NaN, infinities, -0 and subnormal numbers, as checks of planned steps against the
// definition: values planted in each operand of a case, and graphs whose activations ride on products, convolutions and
// pooling. tests/ops, tests/gpu and tests/cuda run them on their devices.
#pragma once
#include <cmath>
#include <limits>

#include "freight/base/error.h"
#include "freight/run/executable.h"

#include "tests/ops/op_suite.h"

namespace freight::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
// Of f32 and bf16, and of f16.
inline constexpr float kSubnormal = 1e-40f, kHalfSubnormal = 0x1p-23f;
inline constexpr float kPlanted[] = {kNan, kInf, -kInf, -0.0f, kSubnormal};

// How far a kernel may differ from the definition in where numbers that are not finite come out; never in that they do.
enum class Rule {
  same,     // at the same places, of the same kind
  spreads,  // convolutions: a padding of zeros counts as zeros times NaN, and Winograd's method mixes the pixels of a
            // tile
  whole,    // recurrent layers: products with a first state of zeros are not taken; some result is not finite
  refused,  // linear algebra: which results are not finite depends on the order of elimination; or an error of the data
  masked,  // attention: what a mask hides is not read, where the definition takes zero times NaN; what is finite agrees
};

inline Rule rule_of(const Graph& g) {
  Rule rule = Rule::same;
  if (has_linear_algebra(g)) return Rule::refused;
  for (const Node& n : g.nodes) {
    if (info(n.op).kind == OpKind::convolve) rule = Rule::spreads;
    const std::string op = name(n.op);
    if (op.find("recurrent") != std::string::npos) return Rule::whole;
    if (op.find("attention") != std::string::npos) return Rule::masked;
  }
  return rule;
}

inline double largest_finite(const std::vector<Array>& arrays) {
  double largest = 1e-6;
  for (const Array& a : arrays) {
    for (double v : a.to_vector<double>()) largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
  }
  return largest;
}

inline bool all_finite(const std::vector<Array>& arrays) {
  for (const Array& a : arrays) {
    for (double v : a.to_vector<double>()) {
      if (!std::isfinite(v)) return false;
    }
  }
  return true;
}

// `kinds`: infinities and NaN are told apart (roundings of 16 bits may make the one of the other).
inline bool agrees(double got, double expected, double allowed, Rule rule, bool kinds) {
  if (std::isfinite(expected))
    return (rule != Rule::same && !std::isfinite(got)) || std::fabs(got - expected) <= allowed;
  if (rule >= Rule::whole) return true;  // the caller looks at all results together
  if (rule == Rule::spreads || !kinds) return !std::isfinite(got);
  return std::isnan(expected) ? std::isnan(got) : got == expected;
}

inline ::testing::AssertionResult agree(const std::vector<Array>& got, const std::vector<Array>& expected,
                                        double tolerance, Rule rule, bool kinds) {
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

inline Array planted(const Array& a, int64_t at, float value) {
  Array wide = a.cast(DType::f64).clone();
  wide.data<double>()[at] = value;
  return wide.cast(a.dtype());
}

inline int64_t steps_of(const OpCase& c) {
  for (const Array& a : c.inputs) {
    if (a.shape().rank() == 3) return a.shape()[1];
  }
  return 0;
}

// What of a case is not asked for: rows that sgd_rows does not touch do not see the rate, and a single step of a
// recurrent layer multiplies no state.
inline bool unread(const OpCase& c, size_t operand) {
  if (rule_of(c.graph) == Rule::whole) return steps_of(c) == 1;
  for (const Node& n : c.graph.nodes) {
    if (n.op == Op::sgd_rows && operand == 3) return true;
  }
  return false;
}

// One value in one element of one operand.
struct Plant {
  size_t operand = 0;
  int64_t at = 0;
  float value = 0;
};

// Each value in each floating operand, at a few places in turn.
inline std::vector<Plant> plants_of(const OpCase& c) {
  std::vector<Plant> all;
  size_t turn = 0;
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    const int64_t n = c.inputs[k].numel();
    const DType dtype = c.inputs[k].dtype();
    if (!is_floating(dtype) || n == 0 || unread(c, k)) continue;
    const int64_t places[] = {n - 1, 0, n / 2, n * 3 / 4};
    for (const float value : kPlanted) {
      if (rule_of(c.graph) == Rule::masked && std::isinf(value)) continue;  // infinite scores: each form has its limits
      for (int repeat = 0; repeat < (n > 16 ? 2 : 1); ++repeat) {
        const bool half = value == kSubnormal && dtype == DType::f16;
        all.push_back({k, places[turn++ % 4], half ? kHalfSubnormal : value});
      }
    }
  }
  return all;
}

// The results, or none where elements are refused.
template <class F>
std::vector<Array> unless_refused(const F& results) {
  try {
    return results();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data) throw;
    return {};
  }
}

// Results of linear algebra: where the definition refuses a matrix, they are refused, or not all finite; and where it
// does not compute them all, they are not taken for sound.
inline ::testing::AssertionResult gives_or_refuses(const std::vector<Array>& got, const std::vector<Array>& expected,
                                                   double tolerance) {
  const bool sound = !expected.empty() && all_finite(expected);
  if (!sound && (got.empty() || !all_finite(got))) return ::testing::AssertionSuccess();
  if (!sound) return ::testing::AssertionFailure() << "what is not finite, or is refused, is lost";
  if (got.empty()) return ::testing::AssertionFailure() << "refused what the definition computes";
  return agree(got, expected, tolerance, Rule::refused, true);
}

inline ::testing::AssertionResult gives_what_is_defined(const OpCase& c, const Plant& plant,
                                                        const std::vector<Array>& got, double tolerance) {
  bool narrow = false, tanh = false;
  for (const ValueInfo& v : c.graph.values) narrow = narrow || wide(v.type.dtype) != v.type.dtype;
  // Infinity times 1 - tanh^2 is NaN, but infinity where a device's tanh is one rounding below 1 there.
  for (const Node& n : c.graph.nodes) tanh = tanh || n.op == Op::tanh;
  const auto as_with = [&](float value) {
    std::vector<Array> inputs = c.inputs;
    inputs[plant.operand] = planted(inputs[plant.operand], plant.at, value);
    if (rule_of(c.graph) == Rule::refused) {
      const std::vector<Array> expected = unless_refused([&] { return interpret(c.graph, inputs); });
      return gives_or_refuses(got, expected, tolerance * c.slack);
    }
    return agree(got, interpret(c.graph, inputs), (narrow ? 1.0 / 16 : tolerance) * c.slack, rule_of(c.graph),
                 !narrow && !tanh);
  };
  ::testing::AssertionResult result = as_with(plant.value);
  const bool subnormal = plant.value == kSubnormal || plant.value == kHalfSubnormal;
  if (!result && subnormal) result = as_with(0);  // kernels may take subnormal numbers for 0
  return result;
}

// Runs the cases under one plan, each with its values planted in turn; `most`: so many of them, others for each case.
inline void check_planted(const std::vector<OpCase>& cases, const std::string& backend, double tolerance,
                          size_t most = std::numeric_limits<size_t>::max()) {
  const Graph all = side_by_side(cases);
  RunOptions options;
  options.backend = backend;
  options.deterministic = true;
  Executable executable(plan_for(all, options), {});
  std::vector<Array> outputs;
  for (Value v : all.outputs) outputs.emplace_back(all.type(v).dtype, all.type(v).shape);
  std::vector<std::vector<Plant>> plants;
  size_t rounds = 0;
  for (const OpCase& c : cases) {
    std::vector<Plant>& those = plants.emplace_back(plants_of(c));
    if (those.size() > most) {
      const size_t first = plants.size() * most % those.size();
      std::rotate(those.begin(), those.begin() + static_cast<std::ptrdiff_t>(first), those.end());
      those.resize(most);
    }
    rounds = std::max(rounds, those.size());
  }
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<Array> inputs;
    for (size_t i = 0; i < cases.size(); ++i) {
      const size_t first = inputs.size();
      inputs.insert(inputs.end(), cases[i].inputs.begin(), cases[i].inputs.end());
      if (round >= plants[i].size()) continue;
      const Plant& p = plants[i][round];
      inputs[first + p.operand] = planted(inputs[first + p.operand], p.at, p.value);
    }
    if (cases.size() == 1 && round < plants[0].size() && rule_of(cases[0].graph) == Rule::refused) {
      const std::vector<Array> got = unless_refused([&] {
        executable.run(inputs, outputs);
        all_finite(outputs);  // a device refuses when its results are read
        return outputs;
      });
      EXPECT_TRUE(gives_what_is_defined(cases[0], plants[0][round], got, tolerance))
          << plants[0][round].value << " at element " << plants[0][round].at << " of operand "
          << plants[0][round].operand << " on " << backend << " of " << cases[0].what;
      continue;
    }
    executable.run(inputs, outputs);
    auto next = outputs.begin();
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto end = next + static_cast<std::ptrdiff_t>(cases[i].graph.outputs.size());
      if (round < plants[i].size()) {
        const Plant& p = plants[i][round];
        EXPECT_TRUE(gives_what_is_defined(cases[i], p, {next, end}, tolerance))
            << p.value << " at element " << p.at << " of operand " << p.operand << " on " << backend << " of "
            << cases[i].what << "\n"
            << print(cases[i].graph).substr(0, 2000);
        if (::testing::Test::HasFailure()) return;
      }
      next = end;
    }
  }
}

// relu(x w + bias [+ residual]) and relu(conv(x, w) + bias [+ residual]), which a plan joins to one step, and max
// pooling; with their gradients, in which masks and sums ride on products.
inline std::vector<OpCase> joined_cases(DType dtype) {
  std::vector<OpCase> all;
  const auto add = [&](const std::string& what, const Graph& g) {
    std::vector<Array> inputs;
    for (Value v : g.leaves(Op::input)) inputs.push_back(random_array({g.type(v), Fill::unit}, 41 + inputs.size()));
    all.push_back({what, g, inputs, 1});
    // A mask is made of the result, so gradients are compared only where that is the definition's to the bit of a sign:
    // convolutions may spread NaN, and 16 bits round.
    if (dtype != DType::f32 || rule_of(g) == Rule::spreads) return;
    const Graph with = with_gradients(g);
    inputs.clear();
    for (Value v : with.leaves(Op::input))
      inputs.push_back(random_array({with.type(v), Fill::unit}, 41 + inputs.size()));
    all.push_back({what + " with gradients", with, inputs, 1});
  };
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
        add(cat("matmul ", to_string(s), trans ? " transposed" : "", residual ? " residual" : ""), g);
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
      add(cat("conv ", to_string(c.x), " ", to_string(c.w), residual ? " residual" : ""), g);
    }
  }
  for (const Shape& x : {Shape{2, 5, 9, 9}, Shape{2, 32, 8, 8}, Shape{1, 3, 17, 12}}) {
    Graph g;
    Builder b(g);
    const Value in = b.one(Op::input, LeafAttrs{"x", {dtype, x}}, {});
    g.outputs = {b.add(Op::max_pool, PoolAttrs{{3, 3}, {2, 2}, {1, 1}, {1, 1}, true, {}}, {in})[0]};
    add(cat("max_pool ", to_string(x)), g);
  }
  return all;
}

}  // namespace freight::test
