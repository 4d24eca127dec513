// Products of bf16 in blocks of 32 x 32 sums in f32, on AMX's tiles or by avx512_bf16's dot products: blocks, the
// packing that they read, and what is done with their sums. Everything else about products of bf16 is in bf16/gemm.h.
//
// A panel holds 32 lines (rows of the left operand, columns of the right one) in pieces of 32 steps of the sum: two
// tiles of 16 rows of 64 bytes. Left: a row is a line, 32 steps. Right: a row is two steps of 16 lines, the steps of a
// line side by side. Four lines go to the first tile, the next four to the second and so on: that is how rows of memory
// interleave at once. What is missing at the ends is zero.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

namespace freight::cpu {

using Bf16 = uint16_t;  // the bits

// The lines of a panel: element (step, line) of a matrix lies at from[step * step_stride + line * line_stride]; one
// stride is 1. Or, where `steps_at` is given, at from[steps_at[step] + line].
struct Bf16Lines {
  const Bf16* from = nullptr;
  ptrdiff_t step_stride = 1, line_stride = 1;
  int64_t steps = 0, lines = 0;  // at most 32 lines
  const int32_t* steps_at = nullptr;
};

// Where the sums of a block go, rounded to T: bf16 or f32.
template <class T>
struct BlockResult {
  T* to = nullptr;
  ptrdiff_t row = 0;
  int64_t rows = 0, columns = 0;
  bool turned = false;  // the block is transposed: its columns are rows of the result
  bool relu = false, stream = false;
  float most = std::numeric_limits<float>::infinity();
  const T* bias = nullptr;      // one per column
  const T* residual = nullptr;  // as `to` lies
};
using Bf16Result = BlockResult<Bf16>;

struct Bf16TileTable;

// The magnitudes of the f32 numbers of a panel that are not zero, as their bits without the sign, doubled: these
// compare as the magnitudes do, and infinities and NaN are the largest.
struct SplitRange {
  uint32_t least = ~uint32_t{0}, most = 0;
};

struct Bf16Table {
  static constexpr int64_t kSide = 32, kSteps = 32;  // lines of a panel; steps of a piece
  static constexpr int64_t kPiece = kSide * kSteps;  // numbers
  static constexpr int64_t kBlock = kSide * kSide;   // sums: row by row
  enum class Operand : uint8_t { left, right };
  // Where the panels' order has a line: row of the first tile, and from 16 on of the second.
  static constexpr int64_t place(int64_t line) { return line % 8 / 4 * 16 + line / 8 * 4 + line % 4; }

  const char* name;
  // Around the blocks that a thread computes.
  void (*begin)();
  void (*end)();
  // sums = a b, or sums + a b; rows and columns in the panels' order, which finish() undoes.
  void (*block)(const Bf16* a, const Bf16* b, int64_t pieces, float* sums, bool accumulate);
  // The same, while another block's sums, which may lie where these will, are finished.
  void (*block_meanwhile)(const Bf16* a, const Bf16* b, int64_t pieces, float* sums, bool accumulate,
                          const float* finished, const Bf16Result& result);
  // Into consecutive pieces.
  void (*pack)(Bf16* to, const Bf16Lines& lines, Operand side);
  void (*finish)(const float* sums, const Bf16Result& result);
  const Bf16TileTable* tiles;  // bf16/tiles.h

  // Numbers of f32 as sums of three numbers of bf16: the nearest one, the one nearest to what is left, and the rest,
  // whose packed panels lie `part` numbers apart. sums = a b, or sums + a b, by the six products of parts that a sum in
  // f32 can tell from nothing (Henry, Tang, Heinecke: "Leveraging the bfloat16 Artificial Intelligence Datatype For
  // Higher-Precision Computations", 2019). Parts and sums below 2^-126 are lost; infinities and numbers above bf16's
  // largest, 3.39e38, become NaN: see bf16/split.h. Null where f32's own instructions are as fast.
  static constexpr int64_t kParts = 3;
  void (*block_split)(const Bf16* a, int64_t a_part, const Bf16* b, int64_t b_part, int64_t pieces, float* sums,
                      bool accumulate) = nullptr;
  // `rows` rows of n numbers -> three times as many, of `to_row` numbers each, one part behind the other. Widens
  // `range` by them.
  void (*split)(Bf16* to, int64_t to_row, const float* from, ptrdiff_t row, int64_t rows, int64_t n,
                SplitRange& range) = nullptr;
  void (*finish_f32)(const float* sums, const BlockResult<float>& result) = nullptr;
};

// Null where the processor has neither.
const Bf16Table* bf16_table();
// The table of f32 products by parts: the fastest one if it has them, else null.
const Bf16Table* split_table();
// While one lives, that is another table: so that tests reach products by parts on every processor.
class ForcedSplitTable {
 public:
  explicit ForcedSplitTable(const Bf16Table& table);
  ~ForcedSplitTable();
  ForcedSplitTable(const ForcedSplitTable&) = delete;
  ForcedSplitTable& operator=(const ForcedSplitTable&) = delete;
};
// The size of the second-level cache that blocks are cut for.
int64_t cache_bytes();
// All that this processor can run, the fastest first; for tests.
const Bf16Table* const* bf16_tables(int& count);

}  // namespace freight::cpu
