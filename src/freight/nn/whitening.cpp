// See whitening.h. All in one thread and in the images' order, so that the same images give the same bits anywhere.
#include "freight/nn/whitening.h"

#include <algorithm>
#include <cmath>

#include "freight/backend/ref/dense.h"
#include "freight/base/error.h"
#include "freight/ir/type.h"

namespace freight::nn {

namespace {
constexpr double kEpsilon = 5e-4;  // added to each variance, so that directions of mere noise stay small
}  // namespace

Whitening::Whitening(const Shape& weight) : weight_(weight), numbers_(weight.numel() / weight[0]) {
  sums_.assign(static_cast<size_t>(numbers_ * numbers_), 0.0);
}

void Whitening::add(const Array& images) {
  const Shape& s = images.shape();
  if (s.rank() != 4 || images.dtype() != DType::f32 || s[1] != weight_[1] || s[2] < weight_[2] || s[3] < weight_[3]) {
    fail(ErrorKind::data, "whiten", "expected images f32 (N, ", weight_[1], ", H, W) of ", weight_[2], " x ",
         weight_[3], " pixels or more, got ", Type{images.dtype(), s});
  }
  const int64_t channels = s[1], rows = s[2], columns = s[3], n = numbers_;
  std::vector<double> window(static_cast<size_t>(n)), of_image(sums_.size());
  const float* image = images.data<float>();
  for (int64_t i = 0; i < s[0]; ++i, image += channels * rows * columns) {
    std::fill(of_image.begin(), of_image.end(), 0.0);
    for (int64_t y = 0; y + weight_[2] <= rows; ++y) {
      for (int64_t x = 0; x + weight_[3] <= columns; ++x) {
        double* to = window.data();
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t dy = 0; dy < weight_[2]; ++dy) {
            const float* from = image + (c * rows + y + dy) * columns + x;
            for (int64_t dx = 0; dx < weight_[3]; ++dx) *to++ = static_cast<double>(from[dx]);
          }
        }
        for (int64_t a = 0; a < n; ++a) {
          double* sum = of_image.data() + a * n;
          for (int64_t b = a; b < n; ++b) sum[b] += window[static_cast<size_t>(a)] * window[static_cast<size_t>(b)];
        }
      }
    }
    for (size_t k = 0; k < sums_.size(); ++k) sums_[k] += of_image[k];
    windows_ += (rows - weight_[2] + 1) * (columns - weight_[3] + 1);
  }
}

Array Whitening::filters() const {
  if (windows_ < numbers_) {
    fail(ErrorKind::data, "whiten", "expected at least ", numbers_, " windows, one per value of a window, got ",
         windows_, "; use more or larger images");
  }
  const dense::OwnedMatrix covariance(numbers_, numbers_), directions(numbers_, numbers_);
  for (size_t i = 0; i < sums_.size(); ++i) covariance[0][i] = sums_[i] / static_cast<double>(windows_);
  std::vector<double> variances(static_cast<size_t>(numbers_));  // ascending
  dense::eigh(covariance, dense::Triangle::upper, variances.data(), directions);
  Array out(DType::f32, weight_);
  float* w = out.data<float>();
  const int64_t pairs = weight_[0] / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t from = numbers_ - 1 - i;
    const double scale = 1 / std::sqrt(std::max(variances[static_cast<size_t>(from)], 0.0) + kEpsilon);
    for (int64_t k = 0; k < numbers_; ++k) {
      const auto v = static_cast<float>(directions[k][from] * scale);
      w[i * numbers_ + k] = v;
      w[(pairs + i) * numbers_ + k] = -v;
    }
  }
  return out;
}

}  // namespace freight::nn
