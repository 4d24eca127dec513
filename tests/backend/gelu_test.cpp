// The functions of GELU (kernels/activations.h): found in what the op table makes of gelu and its gradient, and
// computed by each instruction set as the formulas say in double.
#include "freight/backend/cpu/kernels/activations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/backend/activation_program.h"
#include "tests/backend/aligned_scratch.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TileProgram written_out(bool tanh, int64_t n) { return testing::activation_program(Op::gelu, GeluAttrs{tanh}, n); }
using testing::count_of;

TEST(Gelu, IsFoundInItsDefinitionAndItsGradient) {
  const TileProgram by_erf = with_activations(written_out(false, 5)), by_tanh = with_activations(written_out(true, 5));
  EXPECT_GE(count_of(by_erf, TileFunction::gelu_erf), 1);
  EXPECT_EQ(count_of(by_erf, TileFunction::gelu_erf_slope), 1);
  EXPECT_GE(count_of(by_tanh, TileFunction::gelu_tanh), 1);
  EXPECT_EQ(count_of(by_tanh, TileFunction::gelu_tanh_slope), 1);
  TileProgram exact = written_out(false, 5);
  exact.round_each = true;
  EXPECT_EQ(count_of(with_activations(exact), TileFunction::gelu_erf), 0);
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
      const TileProgram before = with_activations(plain), after = with_activations(p);
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
