// The built-in data set `digits`: 28x28 gray handwritten-looking digits, drawn by code, so that Freight trains and
// tests without any file. Each sample is a pure function of its number: strokes of one of several writing styles,
// jittered control points, an affine map, a smooth warp, a pen of varying pressure, contrast and noise, all from
// Philox.
#pragma once
#include <cstdint>

#include "freight/data/dataset.h"

namespace freight::data {

inline constexpr int64_t kDigitsTrain = 20000, kDigitsTest = 4000;

// 20,000 train and 4,000 test samples, u8 (N, 1, 28, 28), classes balanced. The same bytes for any number of threads.
// Measured with PyTorch: see digits.cpp.
TrainTest make_digits();
// Samples [first, first + n) of the endless sequence that the set is the head of.
Dataset draw_digits(int64_t first, int64_t n);

}  // namespace freight::data
