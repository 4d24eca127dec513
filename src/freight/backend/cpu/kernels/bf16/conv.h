// Gradients of convolutions in bf16 on the blocks of blocks.h. What oneDNN does as well is left to it.
//
// That of a weight: all images' rows lie one behind the other in a sequence of pixels, x between margins of zeros, dy
// as far apart, with zeros where x has its margins. Then dw of a filter tap is the product of the two sequences, one
// moved by as many pixels as the tap says: both are packed once for all taps (x twice, for even and for odd moves). A
// filter that steps over x sees sequences of every other pixel. What is not finite meets the margins' zeros: it spoils
// all taps of its channel.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/bf16/gemm.h"
#include "freight/backend/cpu/kernels/conv.h"

namespace freight::cpu {

class Bf16GradWeight {
 public:
  // False where a row of the result is so long that what is packed would leave the caches.
  static bool fits(const ConvProblem& p) { return p.ow <= 1024; }
  // One group, no dilation; any strides and padding.
  explicit Bf16GradWeight(const ConvProblem& problem);
  // x (N, H, W, C), dy (N, OH, OW, O) channels-last -> dw (O, C, KH, KW) row-major.
  void run(const Bf16* x, const Bf16* dy, Bf16* dw, void* scratch) const;
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  // The pixels of x from this row and column of the filter on, with its strides between them: a sequence. Two streams
  // each of a packed panel hold it in pairs from its first pixel on, and from its second; -1: no tap wants them.
  struct Phase {
    int64_t row, column;
    int64_t even = -1, odd = -1;
  };
  // A tap of the filter, which sees a phase's sequence moved by `shift` pixels.
  struct Tap {
    int64_t number, phase, shift;
  };
  // Panels of columns in chunks of pixels.
  struct Task {
    int64_t panel0, panel1, chunk0, chunk1;
  };
  struct Memory;
  int64_t& stream_of(const Tap& tap);
  void share_work();
  void place_columns(const std::vector<Tap>& taps);
  bool packed_before() const { return groups_ == 0; }
  int64_t chunk_steps(int64_t chunk) const;
  int64_t row_numbers() const { return row_tiles_ * chunk_ * kSide / 2; }
  template <class Row>
  void place(const Bf16** at, int64_t begin, int64_t steps, const Row& row) const;
  void pack_rows(const Bf16* dy, int64_t chunk, const Bf16** at, Bf16* rows) const;
  void pack_columns(const Bf16* x, const Task& task, int64_t chunk, const Memory& memory) const;
  void multiply(const Bf16* x, const Bf16* dy, const Task& task, const Memory& memory, float* sums) const;
  void finish(const float* sums, int64_t row_tile, int64_t column_tile, Bf16* dw) const;
  Memory memory() const;

  static constexpr int64_t kSide = Bf16Table::kSide;
  ConvProblem p_;
  bool together_ = false;          // few channels: a column for each number of a filter's row
  int64_t lines_ = 0, taps_ = 0;   // columns of a tap; taps, of which each is then a row of the filter
  int64_t width_ = 0;              // pixels of a row of x with its margins, where channels lie together
  int64_t row_ = 0, image_ = 0;    // pixels of a sequence from one row, one image to the next
  int64_t steps_ = 0, chunk_ = 0;  // pixels: all; those that are packed together, whole pieces
  int64_t halo_ = 0;               // pixels that a tap moves a sequence by at most
  int64_t row_tiles_ = 0, column_tiles_ = 0, panels_ = 0;
  int64_t streams_ = 0, stream_ = 0;  // of a packed panel; numbers of one: 16 columns of a chunk
  std::vector<Phase> phases_;
  std::vector<int64_t> tap_at_;       // where the sums of each tap lie
  std::vector<ptrdiff_t> column_at_;  // of each tile of columns and tap: where it begins in the packed panels
  std::vector<int64_t> cuts_;         // the same in parts that are multiplied at once
  std::vector<Bf16> zeros_;           // a pixel of a margin
  // Few sums: groups of chunks leave sums of their own, which are added in order, and pack what they need. Many: tasks
  // for parts of the columns, which share the rows that were packed before.
  int64_t groups_ = 0, tasks_ = 1, panel_block_ = 1;  // groups_ 0: many
  int64_t at_numbers_ = 0, line_numbers_ = 0;         // see Memory
  size_t scratch_bytes_ = 0, thread_bytes_ = 0;
};

// The input gradient of a 1x1 convolution with steps and without margins: dy by the weight, pixel by pixel, spread over
// a dx that is zero elsewhere.
class Bf16SpreadProduct {
 public:
  explicit Bf16SpreadProduct(const ConvProblem& problem);
  // dy (N, OH, OW, O), w (O, C) -> dx (N, H, W, C), channels-last.
  void run(const Bf16* dy, const Bf16* w, Bf16* dx, void* scratch) const;
  size_t scratch_bytes() const { return static_cast<size_t>(p_.n * p_.oh * p_.ow * p_.c) * sizeof(Bf16); }

 private:
  ConvProblem p_;
  Bf16Gemm product_;
};

}  // namespace freight::cpu
