// The scalar expressions that generated kernels hold.
#include "freight/backend/gpu/scalar.h"

#include <gtest/gtest.h>

namespace freight::gpu {
namespace {

TEST(ScalarExpressions, FractionsHaveTheTypeOfTheOperands) {
  EXPECT_EQ(filled("0.5 * a + 1e-3 / b", DType::f32, {"x", "y1"}), "(0.5f) * x + (0.001f) / y1");
  EXPECT_EQ(filled("0.1f * a", DType::f64, {"x"}), "(0.1) * x") << "f32 would keep half of the digits";
  EXPECT_EQ(filled("exp2(a) * 2 + 0.25f", DType::bf16, {"x"}), "exp2(x) * 2 + (0.25f)");
}

}  // namespace
}  // namespace freight::gpu
