// Blocks of scores that attention turns into weights and gradients, each in one pass. Rows are queries, columns keys;
// `keys` columns lie in a row of `row` floats, a multiple of the vector's lanes, and of row r those from
// `seen(r)` = first_seen + r * more on do not count. Chosen per CPU by Highway.
// A score is scale times the product, and where there is a bias, plus that; minus infinity hides a key.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace freight::cpu {

struct ScoreBlock {
  static constexpr int64_t kMostKeys = 64;
  float* scores = nullptr;  // products of queries and keys; becomes weights
  int64_t row = 0, rows = 0, keys = 0;
  int64_t first_seen = 0, more = 0;
  float scale = 1;
  const float* bias = nullptr;  // lies as the scores do, or one row of it is that of all
  int64_t bias_row = 0;
  int64_t seen(int64_t r) const { return std::clamp<int64_t>(first_seen + r * more, 0, keys); }
};

struct AttentionTable {
  // Products become exp(score - m) with m[r] the maximum of what row r has met: it and sums[r] are brought up to date,
  // and row r of y (d numbers) is rescaled to the new maximum unless the sum was 0.
  void (*weights)(const ScoreBlock& b, float* m, float* sums, float* y, ptrdiff_t y_row, int64_t d);
  // Products become p = exp(score - lse[r]), and dp becomes scale p (dp - delta[r]).
  void (*gradients)(const ScoreBlock& b, float* dp, const float* lse, const float* delta);
  // out[r] = sum of a b over row r of d numbers.
  void (*dots)(float* out, const float* a, ptrdiff_t a_row, const float* b, ptrdiff_t b_row, int64_t rows, int64_t d);
  // The block's part of a mask (f32, or bool where it is not `added`) becomes its bias, in the memory that is given:
  // minus infinity where a bool is false, and behind the last key. False where it hides all.
  bool (*read_mask)(ScoreBlock& b, float* bias, const void* mask, ptrdiff_t row, bool added);
};
const AttentionTable& attention_table();

}  // namespace freight::cpu
