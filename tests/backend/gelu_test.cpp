// The functions of GELU (kernels/gelu.h): found in what the op table makes of gelu and its gradient, and computed by
// each instruction set as the formulas say in double.
#include "freight/backend/cpu/kernels/gelu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "freight/ir/builder.h"
#include "freight/ir/op.h"
#include "freight/ir/vjp.h"
#include "tests/backend/aligned_scratch.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// y = gelu(x), dx = its gradient for g, by the definition and the rule of the table, as a program on x, g -> y, dx.
TileProgram written_out(bool tanh, int64_t n) {
  Graph graph;
  Builder b(graph);
  const Type type{DType::f32, {n}};
  const Value x = b.one(Op::input, LeafAttrs{"x", type}, {}), g = b.one(Op::input, LeafAttrs{"g", type}, {});
  const Value y = b.one(Op::gelu, GeluAttrs{tanh}, {x});
  const Node node = graph.def(y);
  const Value defined = info(Op::gelu).decompose(b, node, {x})[0];
  VjpContext context(b, node, {g}, {true});
  info(Op::gelu).vjp(context);
  TileProgram p;
  p.space = {n};
  std::map<int32_t, int> made;
  for (const Node& d : graph.nodes) {
    double number = 0;
    const auto in = [&](size_t i) { return i < d.inputs.size() ? made.at(d.inputs[i].id) : -1; };
    if (d.op == Op::gelu) continue;
    made[d.out().id] = d.op == Op::input                     ? p.input(d.out() == x ? 0 : 1, DType::f32, {1})
                       : splat_value(graph, d.out(), number) ? p.constant(number, DType::f32)
                                                             : p.apply(d.op, DType::f32, in(0), in(1));
  }
  const auto store = [&](Value v, int operand) {
    p.stores.push_back({.value = made.at(v.id), .dtype = DType::f32, .operand = operand, .strides = {1}});
  };
  store(defined, 2);
  store(context.gradients()[0], 3);
  return p;
}

int count_of(const TileProgram& p, TileFunction f) {
  return static_cast<int>(std::count_if(p.values.begin(), p.values.end(), [&](const TileValue& v) {
    return v.kind == TileValue::Kind::function && v.function == f;
  }));
}

TEST(Gelu, IsFoundInItsDefinitionAndItsGradient) {
  const TileProgram by_erf = with_gelu(written_out(false, 5)), by_tanh = with_gelu(written_out(true, 5));
  EXPECT_GE(count_of(by_erf, TileFunction::gelu_erf), 1);
  EXPECT_EQ(count_of(by_erf, TileFunction::gelu_erf_slope), 1);
  EXPECT_GE(count_of(by_tanh, TileFunction::gelu_tanh), 1);
  EXPECT_EQ(count_of(by_tanh, TileFunction::gelu_tanh_slope), 1);
  TileProgram exact = written_out(false, 5);
  exact.round_each = true;
  EXPECT_EQ(count_of(with_gelu(exact), TileFunction::gelu_erf), 0);
}

TEST(Gelu, IsNotSeenWhereANumberOrAnOperandDiffers) {
  for (const bool tanh : {false, true}) {
    const TileProgram plain = written_out(tanh, 5);
    for (size_t i = 0; i < plain.values.size(); ++i) {
      TileProgram p = plain;
      TileValue& v = p.values[i];
      if (v.kind == TileValue::Kind::constant) {
        v.number *= 1.001;
      } else if (v.kind == TileValue::Kind::op && v.b >= 0 && v.a != v.b && v.a > 1) {
        v.a = 1;  // g
      } else {
        continue;
      }
      const auto slope = tanh ? TileFunction::gelu_tanh_slope : TileFunction::gelu_erf_slope;
      const auto factor = tanh ? TileFunction::gelu_tanh : TileFunction::gelu_erf;
      const TileProgram before = with_gelu(plain), after = with_gelu(p);
      const bool last = p.stores[1].value == static_cast<int>(i) || p.stores[0].value == static_cast<int>(i);
      const auto found = [&](const TileProgram& q) { return count_of(q, slope) + count_of(q, factor); };
      if (last) continue;
      EXPECT_LT(found(after), found(before)) << "value " << i << (tanh ? " by tanh" : " by erf");
    }
  }
}

TEST(Gelu, AndItsGradientAreThoseOfTheFormulasInDouble) {
  std::vector<float> x = {0, -0.0f, kInf, kNan, 1e-30f, -1e-30f, 1e30f, -1e30f, 6.1f, 6.3f, -6.1f, -6.3f};
  for (int i = -9000; i <= 9000; ++i) x.push_back(static_cast<float>(i) * 1e-3f + 1e-5f);
  const auto n = static_cast<int64_t>(x.size());
  const std::vector<float> g(x.size(), 1.0f);
  test::for_each_simd_target([&] {
    for (const bool tanh : {false, true}) {
      const auto kernel = TileKernel::compile(written_out(tanh, n));
      testing::AlignedScratch scratch(kernel->scratch_bytes());
      std::vector<float> y(x.size()), dx(x.size());
      void* operands[] = {x.data(), const_cast<float*>(g.data()), y.data(), dx.data()};
      kernel->run(operands, scratch.get());
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = double{x[i]}, u = 0.7978845608028654 * (v + 0.044715 * v * v * v);
        const double factor = tanh ? 1 / (1 + std::exp(-2 * u)) : 0.5 * std::erfc(-v * 0.7071067811865476);
        const double density = tanh ? 2 * factor * (1 - factor) * 0.7978845608028654 * (1 + 3 * 0.044715 * v * v)
                                    : std::exp(-0.5 * v * v) * 0.3989422804014327;
        if (std::isnan(x[i])) {
          EXPECT_TRUE(std::isnan(y[i]) && std::isnan(dx[i]));
        } else if (std::isinf(x[i])) {
          EXPECT_EQ(y[i], kInf);
          EXPECT_TRUE(std::isnan(dx[i]));  // infinity times 0
        } else {
          const double slope = std::fabs(v) > 20 ? (v > 0 ? 1 : 0) : factor + v * density;
          EXPECT_NEAR(double{y[i]}, v * factor, 4e-7 * std::min(1 + std::fabs(v), 10.0) + 1e-7 * std::fabs(v * factor))
              << x[i];
          // By tanh without a table, 1 - factor has the rounding errors of 1, times up to 35.
          EXPECT_NEAR(double{dx[i]}, slope, tanh ? 4e-6 : 8e-7) << x[i];
        }
      }
    }
  });
}

}  // namespace
}  // namespace freight::cpu
