// An epoch that is drawn by class: classes and their samples are equally frequent, and epochs differ.
#include "freight/data/class_draw.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace freight::data {
namespace {

TEST(ClassDraw, MakesClassesAndTheirSamplesEquallyFrequent) {
  std::vector<int64_t> labels(101, 0);
  for (int i = 0; i < 7; ++i) labels[static_cast<size_t>(i * 13)] = 2;  // class 1 has no samples
  std::vector<int64_t> of_rare(2);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const std::vector<int64_t> drawn = draw_by_class(labels, 3, epoch);
    ASSERT_EQ(drawn.size(), labels.size());
    std::vector<int64_t> times(labels.size());
    for (const int64_t i : drawn) ++times[static_cast<size_t>(i)];
    int64_t rare = 0, least = 1000, most = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != 2) {
        EXPECT_LE(times[i], 1);
        continue;
      }
      rare += times[i];
      least = std::min(least, times[i]);
      most = std::max(most, times[i]);
    }
    EXPECT_LE(most - least, 1);
    of_rare[static_cast<size_t>(epoch)] = rare;
  }
  EXPECT_EQ(of_rare[0] + of_rare[1], 101) << "the odd sample goes round";
  EXPECT_EQ(draw_by_class(labels, 3, 1), draw_by_class(labels, 3, 1));
  EXPECT_NE(draw_by_class(labels, 3, 1), draw_by_class(labels, 3, 2));
  EXPECT_NE(draw_by_class(labels, 3, 1), draw_by_class(labels, 4, 1));
  EXPECT_TRUE(draw_by_class({}, 0, 0).empty());
}

}  // namespace
}  // namespace freight::data
