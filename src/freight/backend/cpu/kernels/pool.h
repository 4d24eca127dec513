// Pooling of channels-last tensors (N, H, W, C), f32 or bf16, vectorized over channels. One row of the result per call.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace freight::cpu {

struct PoolRange {
  int64_t from, to;
};

// max_pool records for max_pool_grad where a maximum is: its flat index in the input plane, an i32 (-1 where a window
// has only padding), or its place in the window, a byte, where that has 256 pixels at most. The bytes are adjacent.
enum class MaxPlaces : uint8_t { indices, bytes };

struct PoolGeometry {
  int64_t n = 1, channels = 1;
  int64_t in[2] = {1, 1}, out[2] = {1, 1}, kernel[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0};
  bool count_include_pad = true;
  MaxPlaces places = MaxPlaces::indices;

  // The input positions of window o along an axis, and the windows that cover input position i. They are computed anew
  // each time: kept, those of a long row would take several times its memory.
  PoolRange window(int axis, int64_t o) const {
    const int64_t start = o * stride[axis] - pad[axis];
    return {std::max<int64_t>(start, 0), std::min(start + kernel[axis], in[axis])};
  }
  PoolRange covering(int axis, int64_t i) const {
    const int64_t last = i + pad[axis], first = last - kernel[axis] + 1;
    return {first <= 0 ? 0 : steps(axis, first + stride[axis] - 1), std::min(steps(axis, last) + 1, out[axis])};
  }
  // Where the input pixel (h, w) is in window (oh, ow).
  int64_t place_in_window(int64_t oh, int64_t ow, int64_t h, int64_t w) const {
    return (h + pad[0] - oh * stride[0]) * kernel[1] + w + pad[1] - ow * stride[1];
  }

 private:
  // pixels / stride, for which most strides take no division.
  int64_t steps(int axis, int64_t pixels) const {
    const auto by = static_cast<uint64_t>(stride[axis]);
    return (by & (by - 1)) == 0 ? pixels >> std::countr_zero(by) : pixels / stride[axis];
  }
};

struct PoolTable {
  // y and the places of its numbers, row `row` of n * out[0].
  void (*max)(const PoolGeometry& g, const void* x, void* y, void* places, int64_t row);
  // y alone. `line`: room for in[1] * channels floats and a vector.
  void (*max_values)(const PoolGeometry& g, const void* x, void* y, float* line, int64_t row);
  // dx, row `row` of n * in[0]: every input element collects from the windows that chose it.
  void (*max_grad)(const PoolGeometry& g, const void* dy, const void* places, void* dx, int64_t row);
  void (*average)(const PoolGeometry& g, const void* x, void* y, int64_t row);
  void (*average_grad)(const PoolGeometry& g, const void* dy, void* dx, int64_t row);
};
struct PoolTables {
  PoolTable f32, bf16;
};
const PoolTables& pool_tables();

}  // namespace freight::cpu
