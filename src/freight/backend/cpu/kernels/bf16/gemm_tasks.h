// How the threads share a product on blocks of bf16 (bf16/gemm.h, bf16/dot_gemm.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/base/threads.h"

namespace freight::cpu {

// The operands of one product; bias and residual may be null.
template <class T>
struct GemmCall {
  const T *a, *b;
  T* c;
  const T *bias, *residual;
};

// Rows and columns of the result that one task computes.
struct GemmPart {
  int64_t row0, row1, column0, column1;
};

// `most` made smaller so that all blocks of n are nearly equal, in whole units.
inline int64_t even_block(int64_t n, int64_t most, int64_t unit) {
  return round_up(ceil_div(n, ceil_div(n, std::max(most, unit))), unit);
}

// The rows of a product at most that is computed as the transposed one.
inline constexpr int64_t kTurnedRows = 64;
// Turns a product of few rows by a matrix whose columns lie along the steps; returns whether it did.
inline bool turn(GemmProblem& p) {
  if (p.packed || p.batch != 1 || p.m > kTurnedRows || p.b_col == 1 || p.n <= p.m) return false;
  std::swap(p.m, p.n);
  std::swap(p.a_row, p.b_col);
  std::swap(p.a_col, p.b_row);
  return true;
}

class GemmTasks {
 public:
  static int64_t panels(int64_t lines) { return ceil_div(lines, Bf16Table::kSide); }

  GemmTasks() = default;
  // The cut that leaves the largest part smallest: its products of two panels, and its panels of the left and right
  // operand, which cost so many products beside.
  GemmTasks(const GemmProblem& p, double left, double right) {
    constexpr double kSerialFlops = 4e6;  // below, a parallel region costs more than it saves
    const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    const int64_t threads = p.batch == 1 && flops > kSerialFlops ? thread_count() : 1;
    double least = 1e300;
    for (int64_t r = 1; r <= threads; ++r) {
      if (threads % r != 0) continue;
      const auto rows = static_cast<double>(ceil_div(panels(p.m), r));
      const auto columns = static_cast<double>(ceil_div(panels(p.n), threads / r));
      const double cost = rows * columns + rows * left + columns * right;
      if (cost < least) {
        least = cost;
        rows_ = r;
        columns_ = threads / r;
      }
    }
  }
  // Lines of the largest part, in whole panels.
  int64_t rows_of_part(const GemmProblem& p) const { return ceil_div(panels(p.m), rows_) * Bf16Table::kSide; }
  int64_t columns_of_part(const GemmProblem& p) const { return ceil_div(panels(p.n), columns_) * Bf16Table::kSide; }

  // multiply(call, part) for parts of all products of a batch, of `rows_at_once` rows at most, by all threads.
  template <class T, class F>
  void run(const GemmProblem& p, const GemmCall<T>& whole, int64_t rows_at_once, const F& multiply) const {
    const auto multiply_rows = [&](const GemmCall<T>& call, const GemmPart& part) {
      for (int64_t row = part.row0; row < part.row1; row += rows_at_once)
        multiply(call, GemmPart{row, std::min(row + rows_at_once, part.row1), part.column0, part.column1});
    };
    if (p.batch > 1) {
      parallel_for(p.batch, [&](int64_t i) {
        multiply_rows({whole.a + i * p.a_batch, whole.b + i * p.b_batch, whole.c + i * p.c_batch, whole.bias,
                       whole.residual ? whole.residual + i * p.c_batch : nullptr},
                      {0, p.m, 0, p.n});
      });
      return;
    }
    const auto start = [](int64_t lines, int64_t tasks, int64_t i) {
      return std::min(panels(lines) * i / tasks * Bf16Table::kSide, lines);
    };
    parallel_for(rows_ * columns_, [&](int64_t task) {
      const int64_t r = task % rows_, q = task / rows_;
      multiply_rows(whole, {start(p.m, rows_, r), start(p.m, rows_, r + 1), start(p.n, columns_, q),
                            start(p.n, columns_, q + 1)});
    });
  }

 private:
  int64_t rows_ = 1, columns_ = 1;
};

}  // namespace freight::cpu
