// Factorizations and triangular solves of many small matrices at once, in f32 and f64: each lane of a vector holds its
// own matrix. Chosen per CPU by Highway. One matrix alone, or a large one, goes by factor.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace freight::cpu {

struct TriangularProblem;

template <class T>
struct LaneTable {
  static constexpr int64_t kMostRows = 32;    // beyond, the matrices of all lanes do not stay in the caches
  static constexpr int64_t kMostColumns = 4;  // of right sides; of more, a vector holds columns of one matrix
  int lanes = 0;

  // All of these take up to `lanes` matrices (count, n, n), and scratch_size(n) numbers of scratch memory.
  // x becomes lu, which may be x: U on and above the diagonal, L below it; pivots and permutation (count, n) as in
  // LuFactor. True where a pivot is 0.
  bool (*lu)(const T* x, T* lu, int32_t* pivots, int32_t* permutation, int64_t n, int64_t count, T* scratch);
  // x becomes its factor (CholeskyFactor), which may be x. Gives the first lane whose matrix is not positive definite,
  // times n + 1, plus its minor, from 1; -1: all are.
  int64_t (*cholesky)(const T* x, T* factor, bool upper, int64_t n, int64_t count, T* scratch);
  // x (count, n, k) with a x = b, which may be b: the rows of a are eliminated with those of b beside them, and no
  // factor is stored; k is kMostColumns at most. Gives the first lane whose pivot is 0, times n, plus the pivot; -1:
  // none is.
  int64_t (*system)(const T* a, const T* b, T* x, int64_t n, int64_t k, int64_t count, T* scratch);
  // b becomes x (TriangularSolve), of up to kMostColumns right sides.
  void (*solve)(const TriangularProblem& p, const T* a, T* b, int64_t count, T* scratch);

  // True where many matrices of n rows are done together.
  bool takes(int64_t n, int64_t batch) const { return n <= kMostRows && 2 * batch > lanes && lanes > 1; }
  // The rows of the matrices of all lanes lie so many vectors apart: not on the same few sets of a cache.
  static int64_t row_of(int64_t n) { return (n + 3) / 4 * 4 + 1; }
  // The matrices of all lanes with right sides and the factors of a few columns beside them, and one matrix that nobody
  // reads.
  int64_t scratch_size(int64_t n) const { return (n + 3) * (row_of(n) + 3 * kMostColumns) * lanes + n * n; }
};

const LaneTable<float>& lane_table_f32();
const LaneTable<double>& lane_table_f64();
template <class T>
const LaneTable<T>& lane_table() {
  if constexpr (std::is_same_v<T, float>) {
    return lane_table_f32();
  } else {
    return lane_table_f64();
  }
}

}  // namespace freight::cpu
