// Products of bf16 whose operands move along each other, as those of a convolution's taps do: tiles of 16 lines on
// their own, packed so that they can begin at any step. What a tile holds is said in bf16/blocks.h.
#pragma once
#include "freight/backend/cpu/kernels/bf16/blocks.h"

namespace freight::cpu {

// The lines of a panel whose steps lie anywhere, for products that move one operand along the other. Its two tiles are
// packed apart, each one piece behind the other: in a right operand two steps further is 64 bytes further. Up to 16
// lines are one tile, in their own order.
struct Bf16Sequence {
  const Bf16* const* steps_at = nullptr;  // 33 more than `steps` can be read
  ptrdiff_t first = 0;                    // numbers from there to the first line
  int64_t steps = 0, lines = 0;           // steps: even; of a left operand one piece
  ptrdiff_t second = 0;                   // from the first tile to the second
  ptrdiff_t odd = 0;                      // right: from these tiles to the same of one step later; 0: none
};

// One tile of rows, or two, by up to six (three) tiles of columns.
struct Bf16Tiles {
  static constexpr int kMost = 6;
  static constexpr int64_t kSums = 16 * 16;
  const Bf16 *a = nullptr, *a2 = nullptr;
  const Bf16* b[kMost] = {};
  int count = 0;
  float *sums = nullptr, *sums2 = nullptr;  // `count` tiles each
  ptrdiff_t next = 0;                       // from there to the sums that come next, which are asked for
};

struct Bf16TileTable {
  // The line of a panel that row i of its first or second tile (0, 1) holds.
  static constexpr int64_t line(int64_t tile, int64_t i) { return i / 4 * 8 + tile * 4 + i % 4; }

  void (*pack)(Bf16* to, const Bf16Sequence& sequence, Bf16Table::Operand side);
  // Between Bf16Table's begin() and end(): sums = a b, or sums + a b.
  void (*multiply)(const Bf16Tiles& tiles, int64_t pieces, bool accumulate);
  // The first n sums of each column j of 16 rows, rounded to bf16, go to to + at[j]; at -1: nowhere.
  void (*finish)(const float* const* rows, int64_t n, Bf16* to, const int32_t* at);
};

// The tables that bf16_tables() gives.
extern const Bf16TileTable kAmxTiles, kDotsTiles;

}  // namespace freight::cpu
