// See gemm.h. Decides at plan time which side lies in vectors, what is packed, and how the result is cut into tasks.
// Each element of the result is summed in one order whatever the cut, so bits do not depend on threads.
#include "freight/backend/cpu/kernels/gemm.h"

#include <algorithm>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm_tile.h"
#include "freight/backend/cpu/kernels/scratch.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kRowBlock = 96;        // rows that share a panel while it is in cache
constexpr int64_t kDepthBlock = 512;     // steps per pass where the result can be read back
constexpr double kSerialFlops = 400000;  // below, a parallel region costs more than it saves

}  // namespace

struct Gemm::Call {
  const float *a, *b;  // rows and columns as computed
  float* c;
  const float *bias, *residual;
  float* panels;
};

Gemm::Gemm(const GemmProblem& problem) : p_(problem) {
  const GemmTable& table = gemm_table();
  rows_ = std::min(table.rows, table.rows_of_one);
  width_ = 2 * table.lanes;
  const bool b_vectors = p_.b_col == 1 || p_.n == 1, a_vectors = p_.a_row == 1;
  // Without contiguous vectors on either side the smaller one is packed; long sums need the result to be read back,
  // which the transposed store cannot.
  swapped_ = !b_vectors && (a_vectors || p_.m < p_.n) && p_.k <= 4096;
  m_ = swapped_ ? p_.n : p_.m;
  n_ = swapped_ ? p_.m : p_.n;
  a_row_ = swapped_ ? p_.b_col : p_.a_row;
  a_col_ = swapped_ ? p_.b_row : p_.a_col;
  b_row_ = swapped_ ? p_.a_col : p_.b_row;
  b_col_ = swapped_ ? p_.a_row : p_.b_col;
  panels_ = ceil_div(n_, width_);
  // A panel read in place must be contiguous in vectors, short enough for the first-level cache and free of steps that
  // fall on the same cache sets.
  const bool aliases = (b_row_ * 4) % 512 == 0 && p_.k > 16;
  pack_all_ = b_col_ != 1 || ((aliases || p_.k > 256) && m_ > 4 * rows_);
  pack_rows_ = a_col_ != 1 && (a_row_ != 1 || ((a_col_ * 4) % 512 == 0 && p_.k > 16) || p_.k > 128);
  k_block_ = swapped_ || p_.k <= kDepthBlock + 256 ? p_.k : kDepthBlock;
  row_block_ = std::max<int64_t>(kRowBlock / rows_ * rows_, rows_);
  const int64_t threads = thread_count();
  const double flops = 2.0 * static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.k);
  if (p_.batch == 1 && flops > kSerialFlops && threads > 1) {
    const int64_t row_tiles = ceil_div(m_, rows_);
    double best = 1e30;
    for (int64_t r = 1; r <= threads; ++r) {
      if (threads % r != 0) continue;
      const int64_t c = threads / r;
      // Tiles of the busiest task; cutting rows costs a second region where panels are packed.
      const double cost =
          static_cast<double>(ceil_div(row_tiles, r) * ceil_div(panels_, c)) * (r > 1 && pack_all_ ? 1.02 : 1.0);
      if (cost < best) {
        best = cost;
        row_tasks_ = r;
        panel_tasks_ = c;
      }
    }
  }
  const size_t panel_bytes = static_cast<size_t>(p_.k * width_) * sizeof(float);
  panel_bytes_ = panel_bytes;
  const size_t all_panels = pack_all_ ? panel_bytes * static_cast<size_t>(panels_) : n_ % width_ ? panel_bytes : 0;
  const size_t row_bytes =
      pack_rows_ ? static_cast<size_t>(std::min(row_block_, ceil_div(m_, rows_) * rows_) * k_block_) * 4 : 0;
  thread_bytes_ = row_bytes + (p_.batch > 1 ? all_panels : 0);
  scratch_bytes_ = p_.batch > 1 ? 0 : all_panels;
  if (thread_bytes_ > 0) reserve_thread_scratch(thread_bytes_ + 64);
}

void Gemm::pack_panels(const Call& call, int64_t first, int64_t last) const {
  const GemmTable& table = gemm_table();
  for (int64_t panel = first; panel < last; ++panel) {
    if (!packed(panel)) continue;
    float* dst = call.panels + (pack_all_ ? panel * p_.k * width_ : 0);
    const int columns = static_cast<int>(std::min<int64_t>(width_, n_ - panel * width_));
    table.pack(dst, call.b + panel * width_ * b_col_, b_row_, b_col_, p_.k, columns, width_);
  }
}

void Gemm::multiply(const Call& call, int64_t row0, int64_t row1, int64_t panel0, int64_t panel1) const {
  const GemmTable& table = gemm_table();
  float* packed_rows = pack_rows_ ? static_cast<float*>(thread_scratch(thread_bytes_ + 64)) : nullptr;
  if (packed_rows && p_.batch > 1) packed_rows += (thread_bytes_ - static_cast<size_t>(row_block_ * k_block_) * 4) / 4;
  alignas(64) float bias_tail[2 * 16] = {};
  if (call.bias && !swapped_ && n_ % width_ != 0) {
    std::copy(call.bias + (panels_ - 1) * width_, call.bias + n_, bias_tail);
  }
  alignas(64) float corner[GemmTable::kMaxRows * 2 * 16];
  const int lanes = table.lanes;
  for (int64_t k0 = 0; k0 < p_.k; k0 += k_block_) {
    const int64_t steps = std::min(k_block_, p_.k - k0);
    const bool last = k0 + steps == p_.k;
    for (int64_t block = row0; block < row1; block += row_block_) {
      const int64_t block_end = std::min(block + row_block_, row1);
      if (pack_rows_) {
        for (int64_t i = block; i < block_end; i += rows_) {
          const int count = static_cast<int>(std::min<int64_t>(rows_, block_end - i));
          table.pack(packed_rows + (i - block) * steps, call.a + i * a_row_ + k0 * a_col_, a_col_, a_row_, steps, count,
                     rows_);
        }
      }
      for (int64_t panel = panel0; panel < panel1; ++panel) {
        const int64_t column = panel * width_;
        const int columns = static_cast<int>(std::min<int64_t>(width_, n_ - column));
        const int vectors = columns > lanes ? 2 : 1;
        GemmTile t;
        if (packed(panel)) {
          t.b = call.panels + (pack_all_ ? panel * p_.k * width_ : 0) + k0 * width_;
          t.b_step = width_;
        } else {
          t.b = call.b + column + k0 * b_row_;
          t.b_step = b_row_;
        }
        t.b_vector = lanes;
        t.length = steps;
        t.last_columns = columns - (vectors - 1) * lanes;
        t.c_vector = lanes;
        t.accumulate = k0 > 0;
        t.relu = last && p_.relu && !swapped_;
        for (int64_t i = block; i < block_end; i += rows_) {
          const int count = static_cast<int>(std::min<int64_t>(rows_, block_end - i));
          if (pack_rows_) {
            t.a = packed_rows + (i - block) * steps;
            t.a_row = 1;
            t.a_step = rows_;
          } else {
            t.a = call.a + i * a_row_ + k0 * a_col_;
            t.a_row = a_row_;
            t.a_step = a_col_;
          }
          const auto& fns = table.tile[pack_rows_ || a_col_ != 1 ? 1 : 0];
          if (!swapped_) {
            t.c = call.c + i * p_.c_row + column;
            t.c_row = p_.c_row;
            t.column_bias = !(last && call.bias) ? nullptr : columns < width_ ? bias_tail : call.bias + column;
            t.residual = last && call.residual ? call.residual + i * p_.c_row + column : nullptr;
            fns[count - 1][vectors - 1](t);
            continue;
          }
          t.c = corner;
          t.c_row = width_;
          t.last_columns = lanes;
          fns[count - 1][vectors - 1](t);
          for (int j = 0; j < columns; ++j) {
            float* c = call.c + (column + j) * p_.c_row + i;
            const float* r = call.residual ? call.residual + (column + j) * p_.c_row + i : nullptr;
            for (int q = 0; q < count; ++q) {
              float v = corner[q * width_ + j];
              if (call.bias) v += call.bias[i + q];
              if (r) v += r[q];
              c[q] = p_.relu && v <= 0 ? 0.0f : v;
            }
          }
        }
      }
    }
  }
}

void Gemm::run(const float* a, const float* b, float* c, const float* bias, const float* residual,
               void* scratch) const {
  if (p_.batch > 1) {
    auto body = [&](int64_t i) {
      Call call{swapped_ ? b + i * p_.b_batch : a + i * p_.a_batch,
                swapped_ ? a + i * p_.a_batch : b + i * p_.b_batch,
                c + i * p_.c_batch,
                bias,
                residual ? residual + i * p_.c_batch : nullptr,
                thread_bytes_ > 0 ? static_cast<float*>(thread_scratch(thread_bytes_ + 64)) : nullptr};
      pack_panels(call, 0, panels_);
      multiply(call, 0, m_, 0, panels_);
    };
    parallel_for(p_.batch, body);
    return;
  }
  const Call call{swapped_ ? b : a, swapped_ ? a : b, c, bias, residual, static_cast<float*>(scratch)};
  const int64_t row_tiles = ceil_div(m_, rows_);
  const auto part = [](int64_t n, int64_t parts, int64_t i) { return n * i / parts; };
  if (row_tasks_ > 1) {
    auto packing = [&](int64_t i) { pack_panels(call, i, i + 1); };
    if (pack_all_) {
      parallel_for(panels_, packing);
    } else {
      pack_panels(call, panels_ - 1, panels_);
    }
  }
  auto body = [&](int64_t task) {
    const int64_t r = task % row_tasks_, q = task / row_tasks_;
    const int64_t panel0 = part(panels_, panel_tasks_, q), panel1 = part(panels_, panel_tasks_, q + 1);
    if (row_tasks_ == 1) pack_panels(call, panel0, panel1);
    multiply(call, part(row_tiles, row_tasks_, r) * rows_, std::min(m_, part(row_tiles, row_tasks_, r + 1) * rows_),
             panel0, panel1);
  };
  parallel_for(row_tasks_ * panel_tasks_, body);
}

int64_t panel_floats(int64_t k, int64_t n) {
  const int64_t width = 2 * gemm_table().lanes;
  return ceil_div(n, width) * width * k;
}

void pack_columns(float* panels, const float* b, ptrdiff_t k_stride, ptrdiff_t n_stride, int64_t k, int64_t n) {
  const int width = 2 * gemm_table().lanes;
  for (int64_t column = 0; column < n; column += width) {
    const int columns = static_cast<int>(std::min<int64_t>(width, n - column));
    gemm_table().pack(panels + column * k, b + column * n_stride, k_stride, n_stride, k, columns, width);
  }
}

void multiply_panels(const PanelProduct& p) {
  const GemmTable& table = gemm_table();
  GemmTile t;
  t.a_row = p.a_row;
  t.a_step = p.a_step;
  t.b_step = 2 * table.lanes;
  t.b_vector = t.c_vector = table.lanes;
  t.length = p.k;
  t.c_row = p.c_row;
  t.accumulate = p.accumulate;
  for (int64_t column = 0; column < p.n; column += t.b_step) {
    const int vectors = p.n - column > table.lanes ? 2 : 1;
    t.b = p.panels + column * p.k;
    t.last_columns = static_cast<int>(std::min<int64_t>(p.n - column - (vectors - 1) * table.lanes, table.lanes));
    const int64_t tiles = ceil_div(p.m, vectors == 2 ? table.rows : table.rows_of_one);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t first = p.m * i / tiles, count = p.m * (i + 1) / tiles - first;
      t.a = p.a + first * p.a_row;
      t.c = p.c + first * p.c_row + column;
      table.tile[p.a_step == 1 ? 0 : 1][count - 1][vectors - 1](t);
    }
  }
}

}  // namespace freight::cpu
