// The order in which values of ranks are added.
#include "freight/comm/tree_sum.h"

#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "tests/comm/values.h"
#include "tests/support/error_of.h"

namespace freight::test {
namespace {

template <class T>
void expect_tree(int parts, int64_t count) {
  std::vector<std::vector<T>> values;
  std::vector<const void*> from;
  for (int p = 0; p < parts; ++p) values.push_back(values_of<T>(p, count));
  for (const auto& v : values) from.push_back(v.data());
  std::vector<T> sum(static_cast<size_t>(count) + 1, T{7});
  comm::tree_sum(from.data(), parts, sum.data(), count, DTypeOf<T>::value);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(same_bits(sum[static_cast<size_t>(i)], expected_sum<T>(parts, i))) << parts << " parts, element " << i;
  }
  EXPECT_EQ(sum.back(), T{7}) << "wrote behind the end";
}

TEST(TreeSum, AddsNeighborsThenTheirNeighbors) {
  for (int parts = 1; parts <= 17; ++parts) {
    for (const int64_t count : {0, 1, 7, 255, 256, 257, 512, 1000, 2049}) {
      expect_tree<float>(parts, count);
      expect_tree<double>(parts, count);
      expect_tree<int64_t>(parts, count);
    }
  }
}

TEST(TreeSum, KeepsTheBracketsOfFive) {
  const float tiny = 0x1p-24f;  // 1 + tiny is 1, but 1 + (tiny + tiny) is not
  const float values[] = {1, tiny, tiny, tiny, tiny};
  const void* from[5];
  for (int i = 0; i < 5; ++i) from[i] = &values[i];
  float sum = 0;
  comm::tree_sum(from, 5, &sum, 1, DType::f32);
  EXPECT_EQ(sum, ((1 + tiny) + (tiny + tiny)) + tiny);
  EXPECT_NE(sum, 1 + tiny + tiny + tiny + tiny);
}

TEST(TreeSum, MayReplaceAnOperand) {
  for (int parts = 1; parts <= 5; ++parts) {
    for (int replaced = 0; replaced < parts; ++replaced) {
      std::vector<std::vector<double>> values;
      std::vector<const void*> from;
      for (int p = 0; p < parts; ++p) values.push_back(values_of<double>(p, 700));
      for (const auto& v : values) from.push_back(v.data());
      std::vector<double>& out = values[static_cast<size_t>(replaced)];
      comm::tree_sum(from.data(), parts, out.data(), 700, DType::f64);
      for (int64_t i = 0; i < 700; ++i) {
        ASSERT_TRUE(same_bits(out[static_cast<size_t>(i)], expected_sum<double>(parts, i)));
      }
    }
  }
}

TEST(TreeSum, RefusesTypesThatItCannotAdd) {
  const uint8_t a = 1;
  const void* const from[] = {&a};
  uint8_t to = 0;
  const Error e = testing::error_of([&] { comm::tree_sum(from, 1, &to, 1, DType::u8); });
  EXPECT_EQ(e.kind(), ErrorKind::usage);
  EXPECT_NE(std::string(e.what()).find("expected f32, f64 or i64, got u8"), std::string::npos) << e.what();
}

}  // namespace
}  // namespace freight::test
