// LU of many small matrices at once, in f32 and f64: each lane of a vector holds its own matrix. Chosen per CPU by
// Highway. One matrix alone, or a large one, goes by factor.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace freight::cpu {

template <class T>
struct LaneTable {
  static constexpr int64_t kMostRows = 32;  // beyond, the matrices of all lanes do not stay in the caches
  int lanes = 0;
  // x (count, n, n), up to `lanes` matrices, in place: U on and above the diagonal, L below it; pivots and permutation
  // (count, n) as in LuFactor. `scratch` has scratch_size(n) numbers.
  void (*lu)(T* x, int32_t* pivots, int32_t* permutation, int64_t n, int64_t count, T* scratch);

  // The matrices of all lanes, one of them row by row, and a place per row.
  int64_t scratch_size(int64_t n) const { return (n * n + n) * lanes + n * n; }
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
