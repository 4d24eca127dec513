// The register tiles of f32 products (backend/cpu/kernels/gemm_tile.h) in plain loops, with the lanes and rows that an
// instruction set has: so that every machine tests what products make of them, AVX-512's where the processor lacks it.
#pragma once
#include <cmath>
#include <utility>

#include "freight/backend/cpu/kernels/gemm_tile.h"

namespace freight::cpu::emulated {

template <int kLanes, int kR, int kVectors>
void tile(const GemmTile<float>& t) {
  for (int i = 0; i < kR; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      const bool last = v + 1 == kVectors;
      for (int lane = 0; lane < (last && i >= t.whole_rows ? t.last_columns : kLanes); ++lane) {
        float sum = 0;
        for (int64_t s = 0; s < t.segments; ++s) {
          for (int64_t j = 0; j < t.length; ++j) {
            sum = std::fma(t.a[i * t.a_row + s * t.a_segment + j * t.a_step],
                           t.b[v * t.b_vector + s * t.b_segment + j * t.b_step + lane], sum);
          }
        }
        const ptrdiff_t at = i * t.c_row + v * t.c_vector + lane;
        if (t.accumulate) sum += t.c[at];
        if (t.subtract) sum = t.c[at] - sum;
        if (t.column_bias) sum += t.column_bias[v * t.c_vector + lane];
        if (t.row_bias) sum += t.row_bias[i];
        if (t.residual) sum += t.residual[at];
        t.c[at] = t.relu && sum <= 0 ? 0 : sum;
      }
    }
  }
}

inline void pack(float* dst, ptrdiff_t group, const float* src, ptrdiff_t k_stride, ptrdiff_t j_stride, int64_t steps,
                 int64_t columns, int width) {
  for (int64_t first = 0; first < columns; first += width, dst += group) {
    for (int64_t k = 0; k < steps; ++k) {
      for (int64_t j = 0; j < width; ++j)
        dst[k * width + j] = first + j < columns ? src[k * k_stride + (first + j) * j_stride] : 0;
    }
  }
}

template <int kLanes, int kVectors, int... kR>
void fill(GemmTable<float>& t, std::integer_sequence<int, kR...>) {
  for (auto& tiles : t.tile) ((tiles[kR][kVectors - 1] = tile<kLanes, kR + 1, kVectors>), ...);
}

template <int kLanes, int kRows>
const GemmTable<float>& gemm_table() {
  static const GemmTable<float> kTable = [] {
    constexpr int kRowsOfOne = kRows < 8 ? 8 : kRows;
    GemmTable<float> t{.rows = kRows, .rows_of_one = kRowsOfOne, .lanes = kLanes, .tile = {}, .pack = pack};
    fill<kLanes, 1>(t, std::make_integer_sequence<int, kRowsOfOne>());
    fill<kLanes, 2>(t, std::make_integer_sequence<int, kRows>());
    return t;
  }();
  return kTable;
}

}  // namespace freight::cpu::emulated
