// Folds of labels, without a table or a network.
#include "freight/metrics/folds.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/files.h"

namespace freight::metrics {
namespace {

using freight::testing::expect_error;

// 70 samples of class 0 and 35 of class 1.
FoldedSamples unbalanced() {
  Array labels(DType::i64, {105});
  for (int64_t i = 0; i < 105; ++i) labels.data<int64_t>()[i] = i % 3 == 0 ? 1 : 0;
  return {.labels = labels};
}

TEST(Folds, EachHasItsShareOfEachClassAndTheSeedDrawsThem) {
  const FoldedSamples samples = unbalanced();
  const std::vector<int64_t> fold_of = folds_of(samples, {.folds = 5, .seed = 3});
  std::map<int64_t, int64_t> all, second;
  for (size_t i = 0; i < fold_of.size(); ++i) {
    ++all[fold_of[i]];
    second[fold_of[i]] += samples.labels.data<int64_t>()[i];
  }
  ASSERT_EQ(all.size(), 5u);
  for (const auto& [fold, count] : all) {
    EXPECT_EQ(count, 21) << fold;
    EXPECT_EQ(second[fold], 7) << fold;
  }
  EXPECT_EQ(folds_of(samples, {.folds = 5, .seed = 3}), fold_of);
  EXPECT_NE(folds_of(samples, {.folds = 5, .seed = 4}), fold_of);
  EXPECT_NE(folds_of(samples, {.folds = 5, .seed = 3, .division = 1}), fold_of);
}

TEST(Folds, AreMadeOfWholeGroups) {
  FoldedSamples samples = unbalanced();
  samples.groups = Array(DType::i64, {105});
  for (int64_t i = 0; i < 105; ++i) samples.groups->data<int64_t>()[i] = i * i % 11;
  EXPECT_EQ(samples.units(), 6);
  const std::vector<int64_t> fold_of = folds_of(samples, {.folds = 3});
  std::map<int64_t, std::set<int64_t>> folds_of_group;
  for (size_t i = 0; i < fold_of.size(); ++i) {
    folds_of_group[samples.groups->data<int64_t>()[i]].insert(fold_of[i]);
  }
  for (const auto& [group, folds] : folds_of_group) EXPECT_EQ(folds.size(), 1u) << group;
  expect_error(ErrorKind::usage, {"--folds", "got 7", "6 groups of training rows"},
               [&] { folds_of(samples, {.folds = 7}); });
}

TEST(Folds, InsideAndOutsideAreAllSamples) {
  const std::vector<int64_t> fold_of = {0, 1, 2, 1, 0};
  EXPECT_EQ(fold_samples(fold_of, 1, FoldSide::inside), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(fold_samples(fold_of, 1, FoldSide::outside), (std::vector<int64_t>{0, 2, 4}));
  expect_error(ErrorKind::usage, {"--folds", "got 1"}, [] { folds_of(unbalanced(), {.folds = 1}); });
}

}  // namespace
}  // namespace freight::metrics
