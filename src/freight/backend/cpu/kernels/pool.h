// Pooling of channels-last tensors (N, H, W, C), f32 or bf16, vectorised over channels. One row of the result per call.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace freight::cpu {

struct PoolRange {
  int64_t from, to;
};

struct PoolGeometry {
  int64_t n = 1, channels = 1;
  int64_t in[2] = {1, 1}, out[2] = {1, 1}, kernel[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0};
  bool count_include_pad = true;
  // By axis: the input positions of each window, and the windows that cover each input position.
  std::vector<PoolRange> window[2] = {}, covering[2] = {};

  void find_ranges() {
    for (int a = 0; a < 2; ++a) {
      for (int64_t o = 0; o < out[a]; ++o) {
        const int64_t start = o * stride[a] - pad[a];
        window[a].push_back({std::max<int64_t>(start, 0), std::min(start + kernel[a], in[a])});
      }
      for (int64_t i = 0; i < in[a]; ++i) {
        const int64_t last = i + pad[a], first = last - kernel[a] + 1;
        covering[a].push_back(
            {first <= 0 ? 0 : (first + stride[a] - 1) / stride[a], std::min(last / stride[a] + 1, out[a])});
      }
    }
  }
};

struct PoolTable {
  // y and the flat index of the maximum in the input plane (-1: window of padding only), row `row` of n * out[0].
  void (*max)(const PoolGeometry& g, const void* x, void* y, int32_t* index, int64_t row);
  // y alone. `line`: room for in[1] * channels floats and a vector.
  void (*max_values)(const PoolGeometry& g, const void* x, void* y, float* line, int64_t row);
  // dx, row `row` of n * in[0]: every input element collects from the windows that chose it.
  void (*max_grad)(const PoolGeometry& g, const void* dy, const int32_t* index, void* dx, int64_t row);
  void (*average)(const PoolGeometry& g, const void* x, void* y, int64_t row);
  void (*average_grad)(const PoolGeometry& g, const void* dy, void* dx, int64_t row);
};
struct PoolTables {
  PoolTable f32, bf16;
};
const PoolTables& pool_tables();

}  // namespace freight::cpu
