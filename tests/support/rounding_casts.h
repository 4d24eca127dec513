// Graphs that become one region, in which values are cast to 16 bits and read on: what a cast rounds is rounded for
// every reader, as it is where each node is a step of its own. All results are exact, so that bits are compared.
#pragma once
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "freight/base/strings.h"

#include "tests/support/graphs.h"
#include "tests/support/run.h"

namespace freight::test {

struct RoundingCase {
  std::string what;
  Graph graph;
  std::vector<Array> inputs;
};

// Halfway cases, the ends of both ranges and numbers that 16 bits do not hold; none whose square f32 does not hold is
// summed.
inline Array numbers_to_round(const Shape& shape) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> some = {0.1f,      -1.1f,    1 + 0x1p-8f, 1 + 0x1.8p-7f, 1 + 0x1p-11f,  1 + 0x1.8p-10f,
                                   65519.0f,  65520.0f, -65536.0f,   3.4e38f,       6e-8f,         -2.9e-8f,
                                   6.103e-5f, -0.0f,    inf,         -inf,          std::nanf(""), 1000.3f};
  Array a(DType::f32, shape);
  for (int64_t i = 0; i < a.numel(); ++i) {
    a.data<float>()[i] = some[static_cast<size_t>(i) % some.size()] * (i < std::ssize(some) ? 1.0f : 1.37f);
  }
  return a;
}

inline RoundingCase made_case(const std::string& what, const std::vector<Array>& inputs,
                              const std::function<std::vector<Ex>(Builder&, const std::vector<Ex>&)>& body) {
  RoundingCase c{what, {}, inputs};
  Builder b(c.graph);
  std::vector<Ex> leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type type{inputs[i].dtype(), inputs[i].shape()};
    leaves.push_back({&b, b.one(Op::input, LeafAttrs{cat("x", i), type}, {})});
  }
  for (const Ex& e : body(b, leaves)) c.graph.outputs.push_back(e.v);
  return c;
}

// `low`: bf16 or f16.
inline std::vector<RoundingCase> rounding_cases(DType low) {
  const auto cast = [](const Ex& x, DType to) { return Ex{x.b, x.b->cast(x.v, to)}; };
  const auto there_and_back = [=](const Ex& x) { return cast(cast(x, low), DType::f32); };
  const Array x = numbers_to_round({9, 37});
  std::vector<int32_t> whole(64);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<int32_t>(i * i * i * 97 + i);
  std::vector<float> near_one(9 * 37);
  for (size_t i = 0; i < near_one.size(); ++i) near_one[i] = 1 + static_cast<float>(i * 7 % 333) / 333;
  const Array ones = Array::of<float>(near_one, {9, 37});
  std::vector<RoundingCase> cases;
  using Many = std::vector<Ex>;
  cases.push_back(made_case("read in f32 again", {x}, [=](Builder&, const Many& in) {
    const Ex back = there_and_back(in[0]);
    return Many{back, in[0] - back, back * 3.0};
  }));
  cases.push_back(made_case("stored and read", {x}, [=](Builder&, const Many& in) {
    const Ex stored = cast(in[0], low);
    return Many{stored, cast(stored, DType::f32) - in[0]};
  }));
  cases.push_back(made_case("through a relu", {x}, [=](Builder& b, const Many& in) {
    const Ex y = apply(Op::relu, cast(in[0] - 0.25, low)), none{&b, b.constant(0, {low, {9, 37}})};
    return Many{y, Ex{&b, b.binary(Op::gt, y.v, none.v)}};
  }));
  cases.push_back(made_case("summed", {ones}, [=](Builder&, const Many& in) {
    const Ex back = there_and_back(in[0] * in[0]);
    return Many{sum(back, {1}), sum(back, {0})};
  }));
  cases.push_back(made_case("one per row", {x, numbers_to_round({9, 1})}, [=](Builder&, const Many& in) {
    return Many{there_and_back(in[0]) * 3.0, in[0] - expand(there_and_back(in[1]), {9, 37})};
  }));
  cases.push_back(made_case("of integers", {Array::of<int32_t>(whole, {64})}, [=](Builder&, const Many& in) {
    return Many{there_and_back(in[0]) * 3.0, cast(in[0], low)};
  }));
  cases.push_back(made_case("of small integers", {Array::of<int32_t>(whole, {64}).cast(DType::u8)},
                            [=](Builder&, const Many& in) { return Many{there_and_back(in[0]) * 3.0}; }));
  const DType other = low == DType::bf16 ? DType::f16 : DType::bf16;
  cases.push_back(made_case("of the other 16 bits", {x.cast(other)}, [=](Builder&, const Many& in) {
    return Many{there_and_back(in[0]) * 3.0, cast(in[0], low)};
  }));
  cases.push_back(made_case("a number", {x.cast(low)}, [=](Builder& b, const Many& in) {
    const Ex tenth{&b, b.constant(0.1, {low, {9, 37}})}, third{&b, b.constant(1.0 / 3, {DType::f32, {9, 37}})};
    return Many{cast(select(in[0] > 1.0, in[0], tenth), DType::f32) * 3.0,
                cast(in[0], DType::f32) - there_and_back(third)};
  }));
  return cases;
}
inline RoundingCase rounding_of_f64(DType low) {
  return made_case("of f64", {numbers_to_round({64}).cast(DType::f64)}, [=](Builder& b, const std::vector<Ex>& in) {
    const Value back = b.cast(b.cast(in[0].v, low), DType::f64);
    return std::vector<Ex>{{&b, back}, Ex{&b, back} - in[0]};
  });
}

// Equal bits, but for those of a NaN.
inline ::testing::AssertionResult same_bits(const Array& got, const Array& expected) {
  const auto g = got.to_vector<double>(), e = expected.to_vector<double>();
  if (got.dtype() != expected.dtype() || g.size() != e.size()) return ::testing::AssertionFailure() << "another type";
  for (size_t i = 0; i < e.size(); ++i) {
    if (std::isnan(e[i]) && std::isnan(g[i])) continue;
    if (std::bit_cast<uint64_t>(g[i]) != std::bit_cast<uint64_t>(e[i])) {
      return ::testing::AssertionFailure() << "element " << i << " is " << g[i] << ", expected " << e[i];
    }
  }
  return ::testing::AssertionSuccess();
}

inline void check_rounding(const RoundingCase& c, DType low, const std::string& device) {
  const std::vector<Array> expected = interpret(c.graph, c.inputs), got = run_planned(device, c.graph, c.inputs);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(same_bits(got[i], expected[i])) << cat(low) << ", " << c.what << ", result " << i << " on " << device;
  }
}

}  // namespace freight::test
