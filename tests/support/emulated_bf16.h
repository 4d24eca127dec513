// The table of AMX's products of bf16 (backend/cpu/kernels/bf16/blocks.h) in plain loops, so that every machine tests
// what is made of it. Rounds as the processor does: Intel's Software Developer's Manual, TDPBF16PS and VCVTNE2PS2BF16.
#pragma once
#include <cmath>
#include <limits>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/base/dtype.h"

namespace freight::cpu::emulated {

// Numbers below 2^-126 count as 0, as operands and as results.
inline float flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }
inline float widened(Bf16 bits) { return flushed(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16)); }
inline Bf16 narrowed(float x) { return BFloat16(flushed(x)).bits; }
inline float as_float(float x) { return x; }
inline float as_float(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }
inline void put(float x, float& to) { to = x; }
inline void put(float x, Bf16& to) { to = narrowed(x); }

// Number `step` of a line in a packed piece, the line by its place.
inline Bf16& left_at(Bf16* piece, int64_t place, int64_t step) { return piece[place * Bf16Table::kSteps + step]; }
inline Bf16& right_at(Bf16* piece, int64_t place, int64_t step) {
  return piece[place / 16 * (Bf16Table::kPiece / 2) + step / 2 * 32 + place % 16 * 2 + step % 2];
}

inline void pack(Bf16* to, const Bf16Lines& l, Bf16Table::Operand side) {
  for (int64_t k = 0; k < l.steps; k += Bf16Table::kSteps, to += Bf16Table::kPiece) {
    for (int64_t line = 0; line < Bf16Table::kSide; ++line) {
      for (int64_t i = 0; i < Bf16Table::kSteps; ++i) {
        const int64_t step = k + i, place = Bf16Table::place(line);
        const bool there = line < l.lines && step < l.steps;
        const ptrdiff_t at = !there       ? 0
                             : l.steps_at ? l.steps_at[step] + line
                                          : step * l.step_stride + line * l.line_stride;
        (side == Bf16Table::Operand::left ? left_at(to, place, i) : right_at(to, place, i)) =
            there ? l.from[at] : Bf16{0};
      }
    }
  }
}

// sums + the product of a piece of two panels. Even and odd steps have sums of their own until the end of the piece.
inline void multiply_piece(const Bf16* a, const Bf16* b, float* sums) {
  float left[Bf16Table::kSteps], right[Bf16Table::kSide][Bf16Table::kSteps];
  for (int64_t q = 0; q < Bf16Table::kSide; ++q) {
    for (int64_t k = 0; k < Bf16Table::kSteps; ++k) right[q][k] = widened(right_at(const_cast<Bf16*>(b), q, k));
  }
  for (int64_t p = 0; p < Bf16Table::kSide; ++p) {
    for (int64_t k = 0; k < Bf16Table::kSteps; ++k) left[k] = widened(left_at(const_cast<Bf16*>(a), p, k));
    for (int64_t q = 0; q < Bf16Table::kSide; ++q) {
      float even = 0, odd = 0;
      for (int64_t k = 0; k < Bf16Table::kSteps; k += 2) {
        even = flushed(std::fma(left[k], right[q][k], even));
        odd = flushed(std::fma(left[k + 1], right[q][k + 1], odd));
      }
      float& sum = sums[p * Bf16Table::kSide + q];
      sum = flushed(flushed(sum) + flushed(even + odd));
    }
  }
}

inline void begin_sums(float* sums, bool accumulate) {
  for (int64_t i = 0; !accumulate && i < Bf16Table::kBlock; ++i) sums[i] = 0;
}

inline void block(const Bf16* a, const Bf16* b, int64_t pieces, float* sums, bool accumulate) {
  begin_sums(sums, accumulate);
  for (int64_t i = 0; i < pieces; ++i) multiply_piece(a + i * Bf16Table::kPiece, b + i * Bf16Table::kPiece, sums);
}

inline void block_split(const Bf16* a, int64_t a_part, const Bf16* b, int64_t b_part, int64_t pieces, float* sums,
                        bool accumulate) {
  constexpr int kProducts[][2] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
  begin_sums(sums, accumulate);
  for (int64_t i = 0; i < pieces; ++i) {
    for (const auto& [left, right] : kProducts)
      multiply_piece(a + left * a_part + i * Bf16Table::kPiece, b + right * b_part + i * Bf16Table::kPiece, sums);
  }
}

template <class T>
void finish(const float* sums, const BlockResult<T>& r) {
  for (int64_t i = 0; i < r.rows; ++i) {
    for (int64_t j = 0; j < r.columns; ++j) {
      const int64_t row = Bf16Table::place(r.turned ? j : i), column = Bf16Table::place(r.turned ? i : j);
      float v = sums[row * Bf16Table::kSide + column];
      if (r.bias) v += as_float(r.bias[j]);
      if (r.residual) v += as_float(r.residual[i * r.row + j]);
      if (r.relu && v <= 0) v = 0;
      put(v > r.most ? static_cast<float>(r.most) : v, r.to[i * r.row + j]);
    }
  }
}

inline void block_meanwhile(const Bf16* a, const Bf16* b, int64_t pieces, float* sums, bool accumulate,
                            const float* finished, const Bf16Result& result) {
  finish(finished, result);
  block(a, b, pieces, sums, accumulate);
}

inline void split(Bf16* to, int64_t to_row, const float* from, ptrdiff_t row, int64_t rows, int64_t n,
                  SplitRange& range) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float x = from[i * row + j];
      const uint32_t size = std::bit_cast<uint32_t>(x) << 1;
      range.most = std::max(range.most, size);
      if (size > 0) range.least = std::min(range.least, size);
      for (int64_t p = 0; p < Bf16Table::kParts; ++p) {
        const Bf16 bits = narrowed(x);
        to[(p * rows + i) * to_row + j] = bits;
        x -= as_float(bits);
      }
    }
  }
}

inline const Bf16Table& table() {
  static const Bf16Table kTable{.name = "emulated",
                                .begin = [] {},
                                .end = [] {},
                                .block = block,
                                .block_meanwhile = block_meanwhile,
                                .pack = pack,
                                .finish = finish<Bf16>,
                                .tiles = nullptr,
                                .block_split = block_split,
                                .split = split,
                                .finish_f32 = finish<float>};
  return kTable;
}

}  // namespace freight::cpu::emulated
