// Functions of the channels of pixels that lie side by side, which a convolution has just left in a cache. All run on
// the calling thread.
#pragma once
#include <cstdint>

namespace freight::cpu {

// Channels [first, end) of `pixels` pixels of so many channels.
struct Pixels {
  float* v = nullptr;
  int64_t pixels = 0, channels = 0, first = 0, end = 0;
};

// x sigmoid(x). As by its definition, the result for -infinity is NaN.
void silu_in_place(float* v, int64_t n);
void silu_in_place(const Pixels& p);
void sigmoid_in_place(float* v, int64_t n);
// The sum over the pixels, for each channel, at its place in `sums`.
void sum_pixels(const Pixels& p, float* sums);
// Multiplies each channel by a number of its own.
void scale_pixels(const Pixels& p, const float* by);

}  // namespace freight::cpu
