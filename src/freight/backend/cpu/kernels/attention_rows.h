// Blocks of scores that attention turns into weights and gradients, each in one pass. Rows are queries, columns keys;
// `keys` columns lie in a row of `row` floats, a multiple of the vector's lanes, and of row r those from
// `seen(r)` = first_seen + r * more on do not count. Chosen per CPU by Highway.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace freight::cpu {

struct ScoreBlock {
  float* scores = nullptr;  // products of queries and keys; becomes weights
  int64_t row = 0, rows = 0, keys = 0;
  int64_t first_seen = 0, more = 0;
  float scale = 1;
  int64_t seen(int64_t r) const { return std::clamp<int64_t>(first_seen + r * more, 0, keys); }
};

struct AttentionTable {
  // Scores become exp(scale score - m) with m[r] the maximum of what row r has met: it and sums[r] are brought up to
  // date, and row r of y (d numbers) is rescaled to the new maximum unless the block is the row's first.
  void (*weights)(const ScoreBlock& b, float* m, float* sums, float* y, ptrdiff_t y_row, int64_t d, bool first);
  // Scores become p = exp(scale score - lse[r]), and dp becomes scale p (dp - delta[r]).
  void (*gradients)(const ScoreBlock& b, float* dp, const float* lse, const float* delta);
  // out[r] = sum of a b over row r of d numbers.
  void (*dots)(float* out, const float* a, ptrdiff_t a_row, const float* b, ptrdiff_t b_row, int64_t rows, int64_t d);
};
const AttentionTable& attention_table();

}  // namespace freight::cpu
