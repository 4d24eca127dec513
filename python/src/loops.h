// Loops over views of one shape and any strides: axes that lie together are joined, the axis with the smallest strides
// is the innermost, and large loops are cut into pieces for the pool's threads.
#pragma once
#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "freight/base/threads.h"
#include "view.h"

namespace freight::python {

inline constexpr int64_t kParallelElements = 1 << 15;  // below it a parallel region costs more than it saves

// N views as addresses and strides in bytes.
template <int N>
struct Loop {
  int rank = 0;
  int64_t extent[Shape::kMaxRank];
  int64_t stride[N][Shape::kMaxRank];
  char* data[N];
  bool empty = false;

  Loop(const Shape& shape, const std::array<const View*, N>& views) {
    // Views of one row-major layout, the usual case, are one axis.
    bool plain = true;
    for (const View* v : views) plain = plain && (v->rank() == 0 || (v->shape == shape && v->is_contiguous()));
    for (int k = 0; k < N; ++k) data[k] = views[static_cast<size_t>(k)]->data;
    if (plain) {
      rank = 1;
      extent[0] = shape.numel();
      empty = extent[0] == 0;
      for (int k = 0; k < N; ++k) {
        const View& v = *views[static_cast<size_t>(k)];
        stride[k][0] = v.rank() == 0 ? 0 : static_cast<int64_t>(v.item_size());
      }
      return;
    }
    std::array<int, Shape::kMaxRank> order;
    int axes = 0;
    for (int a = 0; a < shape.rank(); ++a) {
      if (shape[a] == 0) empty = true;
      if (shape[a] != 1) order[static_cast<size_t>(axes++)] = a;
    }
    int64_t steps[N][Shape::kMaxRank];
    for (int k = 0; k < N; ++k) {
      const View& v = *views[static_cast<size_t>(k)];
      const int missing = shape.rank() - v.rank();
      for (int a = 0; a < shape.rank(); ++a) {
        const bool repeats = a < missing || v.shape[a - missing] == 1;
        steps[k][a] = repeats ? 0 : v.strides[a - missing] * static_cast<int64_t>(v.item_size());
      }
    }
    // Largest strides first, by the first view in which the strides of two axes differ.
    std::stable_sort(order.begin(), order.begin() + axes, [&](int a, int b) {
      for (int k = 0; k < N; ++k) {
        const int64_t x = std::abs(steps[k][a]), y = std::abs(steps[k][b]);
        if (x != y && x != 0 && y != 0) return x > y;
      }
      return false;
    });
    for (int i = 0; i < axes; ++i) {
      const int a = order[static_cast<size_t>(i)];
      bool joins = rank > 0;
      for (int k = 0; k < N && joins; ++k) joins = stride[k][rank - 1] == steps[k][a] * shape[a];
      if (joins) {
        extent[rank - 1] *= shape[a];
      } else {
        extent[rank++] = shape[a];
      }
      for (int k = 0; k < N; ++k) stride[k][rank - 1] = steps[k][a];
    }
    if (rank == 0) {
      rank = 1;
      extent[0] = 1;
      for (int k = 0; k < N; ++k) stride[k][0] = 0;
    }
  }

  int64_t numel() const {
    int64_t n = empty ? 0 : 1;
    for (int a = 0; a < rank && n; ++a) n *= extent[a];
    return n;
  }

  // inner(n, addresses, strides) for every row of the innermost axis, in order.
  template <class Inner>
  void run(Inner&& inner) const {
    if (!empty) run_outer(inner, 0, extent[0]);
  }
  // The same on several threads: rows must be independent of each other. `weight`: elements of work for each of here.
  template <class Inner>
  void run_parallel(Inner&& inner, int64_t weight = 1) const {
    const int64_t n = numel() * weight;
    if (n < 2 * kParallelElements || extent[0] < 2 || thread_count() == 1) return run(inner);
    const int64_t chunks = std::min<int64_t>({n / kParallelElements, extent[0], 64});
    parallel_for(chunks, [&](int64_t c) { run_outer(inner, extent[0] * c / chunks, extent[0] * (c + 1) / chunks); });
  }
  // The same in pieces of the innermost axis, which must be independent of each other.
  template <class Inner>
  void run_pieces(Inner&& inner, int64_t most) const {
    const int64_t n = extent[rank - 1];
    parallel_for((n + most - 1) / most, numel() >= 2 * kParallelElements, [&](int64_t c) {
      Loop piece(*this);
      piece.extent[rank - 1] = std::min(most, n - c * most);
      for (int k = 0; k < N; ++k) piece.data[k] += c * most * stride[k][rank - 1];
      piece.run(inner);
    });
  }

 private:
  template <class Inner>
  void run_outer(Inner& inner, int64_t begin, int64_t end) const {
    int64_t steps[N];
    char* at[N];
    for (int k = 0; k < N; ++k) {
      steps[k] = stride[k][rank - 1];
      at[k] = data[k] + begin * stride[k][0];
    }
    if (rank == 1) return inner(end - begin, at, steps);
    int64_t index[Shape::kMaxRank];
    std::fill_n(index, rank, 0);
    index[0] = begin;
    while (true) {
      inner(extent[rank - 1], at, steps);
      int a = rank - 2;
      for (; a >= 0; --a) {
        for (int k = 0; k < N; ++k) at[k] += stride[k][a];
        if (++index[a] < (a == 0 ? end : extent[a])) break;
        if (a == 0) return;
        for (int k = 0; k < N; ++k) at[k] -= stride[k][a] * extent[a];
        index[a] = 0;
      }
    }
  }
};

// f(lane of each view: address of its first element and stride in bytes) for all lanes along `axis`: views have the
// same shape but for that axis.
template <size_t N, class F>
void for_each_lane(const std::array<const View*, N>& views, int axis, F&& f) {
  std::array<View, N> first;
  std::array<const View*, N> pointers;
  int64_t step[N];
  bool empty = false;
  int64_t longest = 1;
  for (size_t k = 0; k < N; ++k) {
    const View& v = *views[k];
    longest = std::max(longest, v.shape[axis]);
    step[k] = v.strides[axis] * static_cast<int64_t>(v.item_size());
    first[k] = v;
    first[k].shape.erase(axis);
    first[k].strides.erase(axis);
    pointers[k] = &first[k];
    empty = empty || first[k].numel() == 0;
  }
  if (empty) return;
  const Loop<static_cast<int>(N)> loop(first[0].shape, pointers);
  loop.run_parallel(
      [&](int64_t n, char** at, const int64_t* strides) {
        char* here[N];
        for (size_t k = 0; k < N; ++k) here[k] = at[k];
        for (int64_t i = 0; i < n; ++i) {
          f(here, step);
          for (size_t k = 0; k < N; ++k) here[k] += strides[k];
        }
      },
      longest);
}

}  // namespace freight::python
