// Normal draws in large numbers equal those of the formula, one by one.
#include "freight/base/normal_draws.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "freight/base/philox.h"

namespace freight::test {
namespace {

// The C library's functions give these draws for a pair of a block's words.
std::pair<float, float> box_muller(uint32_t length, uint32_t angle_word) {
  const float u = (static_cast<float>(length >> 8) + 1.0f) * 0x1p-24f, radius = std::sqrt(-2.0f * std::log(u));
  const float angle = 6.2831853f * uniform_from_bits(angle_word);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

TEST(NormalDraws, HaveTheBitsOfTheCLibrarysFunctions) {
  constexpr int64_t kFirst = 77, kCount = (1 << 21) + 3;
  constexpr uint64_t kKey = 12345, kCounter = 0x8000000000000000ull;
  std::vector<float> draws(kCount + 1, 9.0f);
  normal_draws(draws.data(), kCount, kKey, kCounter, kFirst);
  int64_t differ = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const Philox4 r = philox(kKey, static_cast<uint64_t>(kFirst + i / 4), kCounter);
    const auto [cosine, sine] = box_muller(r.v[i % 4 / 2 * 2], r.v[i % 4 / 2 * 2 + 1]);
    const float expected = i % 2 ? sine : cosine, got = draws[static_cast<size_t>(i)];
    differ += std::bit_cast<uint32_t>(expected) != std::bit_cast<uint32_t>(got);
  }
  EXPECT_EQ(differ, 0);
  EXPECT_EQ(draws.back(), 9.0f);  // nothing behind them is written
}

}  // namespace
}  // namespace freight::test
