// The loss of predictions for rows.
#include <gtest/gtest.h>

#include <cmath>

#include "freight/tables/row_learner.h"
#include "tests/support/files.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;

TEST(RowEvaluation, TheLossOfARankingIsOneMinusNdcg) {
  store::Rows rows{Array(DType::f64, {10, 1}), Array::of<float>({3, 2, 0, 1, 2, 0, 0, 1, 0, 2}, {10})};
  rows.groups = Array::of<int64_t>({7, 7, 7, 7, 7, 7, 2, 2, 2, 2}, {10});
  rows.ranked = true;
  const Array predictions = Array::of<float>({0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f, 0.5f, 0.5f, 0.5f, 0.1f}, {10, 1});
  EXPECT_NEAR(tables::evaluate(predictions, rows).loss, 1 - (0.9686383655679716 + 0.5514674554383182) / 2, 1e-12);
  EXPECT_FALSE(tables::evaluate(predictions, rows).top1);
  Array broken = Array::of<float>(std::vector<float>(10, NAN), {10, 1});
  expect_error(ErrorKind::diverged, {"NaN or infinite"}, [&] { tables::evaluate(broken, rows); });
}

}  // namespace
}  // namespace freight::tables
