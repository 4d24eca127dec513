// The matrices of a batch on the pool's threads (factor.h).
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/factor.h"
#include "freight/backend/cpu/kernels/lane_factor.h"
#include "freight/base/threads.h"

namespace freight::cpu {

inline size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

// `work` in multiply-adds of one matrix. A parallel region costs more than it saves below some 20 us of arithmetic, and
// within one matrix, where there are many regions, below some milliseconds: threads share a matrix of more than
// `inside`.
inline BatchTasks batch_tasks(int64_t batch, double work, double inside = 2e7) {
  constexpr double kWhole = 4e5;
  BatchTasks t;
  t.batch = batch;
  const int64_t threads = thread_count();
  t.inside = threads > 1 && work > inside && batch < 4 * threads;
  t.tasks = t.inside || work * static_cast<double>(batch) < kWhole ? 1 : std::clamp<int64_t>(batch, 1, threads);
  return t;
}

// Groups of as many matrices as a vector has lanes, of so many multiply-adds each.
template <class T>
BatchTasks lane_tasks(int64_t n, int64_t batch, double work) {
  const LaneTable<T>& lanes = lane_table<T>();
  BatchTasks tasks = batch_tasks(ceil_div(batch, lanes.lanes), work * lanes.lanes);
  tasks.bytes_of_task = whole_lines(static_cast<size_t>(lanes.scratch_size(n)) * sizeof(T));
  return tasks;
}

// The least of the faults that threads find: a matrix and its place as one number, which is below `none`.
class LeastFault {
 public:
  explicit LeastFault(int64_t none) : none_(none), least_(none) {}
  void put(int64_t fault) {
    int64_t known = least_.load();
    while (fault < known && !least_.compare_exchange_weak(known, fault)) {
    }
  }
  bool any() const { return least_.load() != none_; }
  int64_t get() const { return least_.load(); }

 private:
  int64_t none_;
  std::atomic<int64_t> least_;
};

// f(matrix, its task's scratch, whether it may start parallel regions).
template <class F>
void for_matrices(const BatchTasks& tasks, void* scratch, F&& f) {
  parallel_for(tasks.tasks, [&](int64_t i) {
    std::optional<ThreadLimit> one;
    if (!tasks.inside) one.emplace(1);
    char* own = static_cast<char*>(scratch) + static_cast<size_t>(i) * tasks.bytes_of_task;
    for (int64_t k = tasks.batch * i / tasks.tasks; k < tasks.batch * (i + 1) / tasks.tasks; ++k)
      f(k, own, tasks.inside);
  });
}

// The matrix x (m, n) row by row in `to`, which may be x where it lies so.
template <class T>
void read_matrix(T* to, const T* x, const MatrixStrides& strides, int64_t m, int64_t n, bool parallel) {
  if (to == x) return;
  if (strides.row == n && strides.col == 1) {
    if (parallel) return parallel_copy(to, x, static_cast<size_t>(m * n) * sizeof(T));
    std::copy_n(x, m * n, to);
    return;
  }
  constexpr int64_t kRows = 64;
  auto read = [&](int64_t chunk) {
    const int64_t first = chunk * kRows, rows = std::min(kRows, m - first);
    const T* const from = x + first * strides.row;
    if (strides.col != 1) return factor_table<T>().transpose(to + first * n, n, from, strides.col, n, rows);
    for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * strides.row, n, to + (first + i) * n);
  };
  if (parallel) return parallel_for(ceil_div(m, kRows), read);
  for (int64_t chunk = 0; chunk * kRows < m; ++chunk) read(chunk);
}

// The matrices of a whole batch in the same way, by all threads.
template <class T>
void read_matrices(T* to, const T* x, const MatrixStrides& strides, int64_t m, int64_t n, int64_t batch) {
  if (to == x) return;
  const int64_t size = m * n;
  if (strides == MatrixStrides::row_major(m, n))
    return parallel_copy(to, x, static_cast<size_t>(batch * size) * sizeof(T));
  if (batch == 1) return read_matrix(to, x, strides, m, n, size > (int64_t{1} << 16));
  parallel_for(batch, batch * size > (int64_t{1} << 16),
               [&](int64_t i) { read_matrix(to + i * size, x + i * strides.batch, strides, m, n, false); });
}

}  // namespace freight::cpu
