// The filters of init `whiten`: the principal directions of the windows of images, each scaled to unit variance, and
// their negatives. Neighboring pixels are so much alike that a net spends its first epochs on telling their
// differences apart; behind such a layer it need not. Coates and Ng 2012; as a fixed first layer Jordan 2024,
// arXiv:2404.00498, section 3.2. Letters: C channels, H W image, h w window.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/base/array.h"

namespace freight::nn {

//   Whitening whitening(conv.weight.shape());
//   whitening.add(images);
//   conv.weight.set(whitening.filters());
class Whitening {
 public:
  // For a weight (out, C, h, w); out is even and at most 2 C h w.
  explicit Whitening(const Shape& weight);
  // Counts all windows of images f32 (N, C, H, W). They should be normalized, to about unit variance and mean 0. In
  // how many calls they come changes nothing. Throws Error(data) for another shape, or none with a window in it.
  void add(const Array& images);
  int64_t windows() const { return windows_; }  // that were added
  // f32 (out, C, h, w): the out / 2 directions of most variance v, divided by sqrt(v + 0.0005), then their negatives.
  // Throws Error(data) where fewer windows were counted than one has numbers.
  Array filters() const;

 private:
  Shape weight_;
  int64_t numbers_;  // C h w
  int64_t windows_ = 0;
  std::vector<double> sums_;  // (C h w, C h w): products of a window's numbers, summed; the upper triangle
};

}  // namespace freight::nn
