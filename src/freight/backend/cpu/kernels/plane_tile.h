// One row of a convolution of a single channel into few: the lanes of a vector are neighboring pixels, so that all of
// them are used; each weight is broadcast. Unit stride. Chosen per CPU by Highway.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

namespace freight::cpu {

struct PlaneRow {
  const float* x = nullptr;  // the window of the first pixel; rows of the image `row` floats apart
  ptrdiff_t row = 0;
  int64_t kh = 0, kw = 0;
  const float* w = nullptr;     // (kh, kw, outputs)
  const float* bias = nullptr;  // (outputs)
  bool relu = false;
  float most = std::numeric_limits<float>::infinity();
  float* y = nullptr;  // (pixels, outputs)
  int64_t pixels = 0;  // where they are fewer than `lanes`, as many as that are read
};

struct PlaneTable {
  static constexpr int kMaxOutputs = 8;
  int lanes = 0;
  void (*run[kMaxOutputs])(const PlaneRow&);  // by the number of outputs - 1
};
const PlaneTable& plane_table();

}  // namespace freight::cpu
