// The functions of SiLU (kernels/activations.h): found in what the op table makes of silu and its gradient, and
// computed by each instruction set as the formulas say in double. So is sigmoid.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/backend/cpu/kernels/activations.h"
#include "freight/passes/passes.h"
#include "tests/backend/activation_program.h"
#include "tests/backend/aligned_scratch.h"
#include "tests/support/arrays.h"
#include "tests/support/run.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

using testing::count_of;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TileProgram written_out(int64_t n) { return testing::activation_program(Op::silu, {}, n); }
int functions_in(const TileProgram& p) {
  const TileProgram q = with_activations(p);
  return count_of(q, TileFunction::silu) + count_of(q, TileFunction::silu_slope);
}

TEST(Silu, IsFoundInItsDefinitionAndItsGradient) {
  const TileProgram found = with_activations(written_out(5));
  EXPECT_EQ(count_of(found, TileFunction::silu), 1);
  EXPECT_EQ(count_of(found, TileFunction::silu_slope), 1);
  TileProgram exact = written_out(5);
  exact.round_each = true;
  EXPECT_EQ(functions_in(exact), 0);
}

TEST(Silu, IsNotSeenWhereANumberOrAnOperandDiffers) {
  const TileProgram plain = written_out(5);
  int changed = 0;
  for (size_t i = 0; i < plain.values.size(); ++i) {
    TileProgram p = plain;
    TileValue& v = p.values[i];
    const bool last = p.stores[1].value == static_cast<int>(i);  // g times the slope
    if (last) continue;
    if (v.kind == TileValue::Kind::constant) {
      v.number *= 1.001;
    } else if (v.kind == TileValue::Kind::op && v.b >= 0) {
      (v.a == 0 ? v.a : v.b) = 1;  // g
    } else {
      continue;
    }
    ++changed;
    EXPECT_LT(functions_in(p), functions_in(plain)) << "value " << i;
  }
  EXPECT_GE(changed, 5);
}

// y = silu(x), dx = its slope.
struct Computed {
  std::vector<float> y, dx;
};
Computed computed(std::vector<float> x) {
  const auto kernel = TileKernel::compile(written_out(static_cast<int64_t>(x.size())));
  testing::AlignedScratch scratch(kernel->scratch_bytes());
  Computed c{std::vector<float>(x.size()), std::vector<float>(x.size())};
  std::vector<float> g(x.size(), 1.0f);
  void* operands[] = {x.data(), g.data(), c.y.data(), c.dx.data()};
  kernel->run(operands, scratch.get());
  return c;
}

TEST(Silu, AndItsGradientAreThoseOfTheFormulasInDouble) {
  std::vector<float> x = {0, -0.0f, 1e-30f, -1e-30f, 1e30f, -1e30f, 3e38f, -3e38f, 1e8f, -1e8f, 1e-40f, -1e-40f};
  for (int i = -110000; i <= 110000; ++i) x.push_back(static_cast<float>(i) * 1e-3f + 1e-5f);
  test::for_each_simd_target([&] {
    const Computed c = computed(x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = double{x[i]}, s = 1 / (1 + std::exp(-v)), rest = 1 / (1 + std::exp(v));
      ASSERT_NEAR(double{c.y[i]}, v * s, 3e-7 * std::fabs(v * s) + 2e-8) << v;
      ASSERT_NEAR(double{c.dx[i]}, s + v * s * rest, 3e-7) << v;
    }
  });
}

TEST(Silu, KeepsItsRelativeAccuracyWhereItIsSmall) {
  std::vector<float> x;
  for (int i = 0; i < 87000; ++i) x.push_back(static_cast<float>(i) * -1e-3f - 1e-5f);
  test::for_each_simd_target([&] {
    const Computed c = computed(x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = double{x[i]}, s = 1 / (1 + std::exp(-v));
      // The exponent is a multiple of x, which has been rounded.
      ASSERT_NEAR(double{c.y[i]} / (v * s), 1, 4e-7 + 9e-8 * std::fabs(v)) << v;
    }
  });
}

TEST(Silu, OfSpecialValuesIsThatOfItsDefinition) {
  test::for_each_simd_target([&] {
    const Computed c = computed({kInf, -kInf, kNan, 0.0f, -0.0f, 200, -200});
    EXPECT_EQ(c.y[0], kInf);
    EXPECT_TRUE(std::isnan(c.y[1]) && std::isnan(c.y[2]));                           // -infinity times 0
    EXPECT_TRUE(std::isnan(c.dx[0]) && std::isnan(c.dx[1]) && std::isnan(c.dx[2]));  // infinity times 0
    EXPECT_TRUE(c.y[3] == 0 && !std::signbit(c.y[3]) && c.y[4] == 0 && std::signbit(c.y[4]));
    EXPECT_TRUE(c.y[5] == 200 && c.dx[5] == 1);
    EXPECT_TRUE(c.y[6] == 0 && c.dx[6] == 0);
  });
}

TEST(Silu, SigmoidErrsByFewUnitsOfTheLastPlaceEverywhere) {
  std::vector<float> x = {kInf, -kInf, kNan, 0, -0.0f, 1e30f, -1e30f};
  const size_t specials = x.size();
  for (int i = -104000; i <= 104000; ++i) x.push_back(static_cast<float>(i) * 1e-3f + 1e-5f);
  TileProgram p;
  p.space = Shape{static_cast<int64_t>(x.size())};
  const int v = p.apply(Op::sigmoid, DType::f32, p.input(0, DType::f32, Strides{1}));
  p.stores.push_back({.value = v, .operand = 1, .strides = Strides{1}});
  test::for_each_simd_target([&] {
    const auto kernel = TileKernel::compile(p);
    std::vector<float> y(x.size());
    testing::AlignedScratch scratch(kernel->scratch_bytes());
    void* operands[] = {x.data(), y.data()};
    kernel->run(operands, scratch.get());
    EXPECT_TRUE(y[0] == 1 && y[1] == 0 && std::isnan(y[2]) && y[3] == 0.5f && y[4] == 0.5f && y[5] == 1 && y[6] == 0);
    for (size_t i = specials; i < x.size(); ++i) {
      const double s = 1 / (1 + std::exp(-double{x[i]}));
      ASSERT_NEAR(double{y[i]}, s, 3.5e-7 * s + 2.9e-45) << x[i];
    }
  });
}

// Of planned steps: in bf16, g and x are rounded, and nothing inside the slope.
TEST(Silu, AndItsGradientAgreeWithTheReference) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Type type{dtype, {3, 7, 33}};
    Graph graph;
    Builder b(graph);
    const Value x = b.one(Op::input, LeafAttrs{"x", type}, {}), g = b.one(Op::input, LeafAttrs{"g", type}, {});
    const Value y = b.one(Op::silu, {}, {x});
    const Value loss = b.sum(b.cast(b.binary(Op::mul, y, g), DType::f32), {0, 1, 2});
    const std::vector<Value> gradients = grad(graph, loss, {x, g});
    graph.outputs = {y, loss, gradients[0], gradients[1]};
    const std::vector<Array> inputs = {test::random_array({type, test::Fill::normal}, 1),
                                       test::random_array({type, test::Fill::unit}, 2)};
    const std::vector<Array> expected = test::run_planned("ref", graph, inputs);
    test::for_each_simd_target([&] {
      const std::vector<Array> got = test::run_planned("cpu", graph, inputs);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(test::close(got[i], expected[i], dtype == DType::f32 ? 2e-6 : 8e-3)) << dtype << " output " << i;
      }
    });
  }
}

}  // namespace
}  // namespace freight::cpu
