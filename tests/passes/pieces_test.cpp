// Pieces of sums over ranks: none of all cuts is done before the chosen one.
#include "freight/passes/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "freight/base/philox.h"

namespace freight {
namespace {

// In order of time; seconds and bytes as of small nets over a network.
std::vector<Summand> random_summands(PhiloxStream& random, size_t count) {
  std::vector<Summand> all(count);
  double ready = 0;
  for (Summand& s : all) {
    ready += random.uniform(0, 1e-3);
    s = {.ready = ready, .bytes = random.uniform(0, 2e5)};
  }
  return all;
}

// The time at which all is summed in given pieces.
double pieces_done(const std::vector<Summand>& summands, const std::vector<size_t>& ends, const SumCost& cost) {
  double done = 0;
  size_t i = 0;
  for (const size_t end : ends) {
    double bytes = 0;
    for (; i < end; ++i) bytes += summands[i].bytes;
    done = std::max(done, summands[end - 1].ready) + cost.of(bytes);
  }
  return done;
}

TEST(CutPieces, IsDoneFirstOfAllCuts) {
  PhiloxStream random(11, 0, 0);
  for (int round = 0; round < 200; ++round) {
    const size_t count = 1 + random.below(9);
    const std::vector<Summand> summands = random_summands(random, count);
    const SumCost cost{.start = random.uniform(0, 1e-3), .per_byte = random.uniform(0, 1e-8)};
    const Pieces cut = cut_pieces(summands, cost);
    ASSERT_EQ(cut.ends.back(), count);
    EXPECT_DOUBLE_EQ(pieces_done(summands, cut.ends, cost), cut.done);
    for (uint32_t borders = 0; borders < 1u << (count - 1); ++borders) {
      std::vector<size_t> ends;
      for (size_t i = 1; i <= count; ++i) {
        if (i == count || (borders >> (i - 1) & 1) != 0) ends.push_back(i);
      }
      EXPECT_GE(pieces_done(summands, ends, cost), cut.done * (1 - 1e-12)) << round;
    }
  }
}

TEST(CutPieces, HasOnePieceWhereTheStartCostsAllAndManyWhereItCostsNothing) {
  const std::vector<Summand> summands = {{1, 100}, {2, 100}, {3, 100}};
  EXPECT_EQ(cut_pieces(summands, {.start = 10, .per_byte = 1e-3}).ends, (std::vector<size_t>{3}));
  EXPECT_EQ(cut_pieces(summands, {.start = 0, .per_byte = 1e-2}).ends, (std::vector<size_t>{1, 2, 3}));
  EXPECT_DOUBLE_EQ(cut_pieces(summands, {.start = 0, .per_byte = 1e-2}).done, 4);
  EXPECT_TRUE(cut_pieces({}, {}).ends.empty());
}

TEST(CutPieces, PayBesideWhereATenthIsGained) {
  EXPECT_FALSE(pays_beside(0.92, 1));
  EXPECT_FALSE(pays_beside(1, 1));
  EXPECT_TRUE(pays_beside(0.88, 1));
}

}  // namespace
}  // namespace freight
