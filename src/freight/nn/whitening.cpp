// See whitening.h. All in one thread and in the images' order, so that the same images give the same bits anywhere.
#include "freight/nn/whitening.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "freight/base/error.h"
#include "freight/ir/type.h"

namespace freight::nn {

namespace {
constexpr double kLeastVariance = 5e-4;  // added to each: directions of mere noise stay small
}  // namespace

Whitening::Whitening(const Shape& weight) : weight_(weight), numbers_(weight.numel() / weight[0]) {
  sums_.assign(static_cast<size_t>(numbers_ * numbers_), 0.0);
}

void Whitening::add(const Array& images) {
  const Shape& s = images.shape();
  if (s.rank() != 4 || images.dtype() != DType::f32 || s[1] != weight_[1] || s[2] < weight_[2] || s[3] < weight_[3]) {
    fail(ErrorKind::data, "whiten", "got ", Type{images.dtype(), s}, ", need pictures f32 (N, ", weight_[1],
         ", H, W) of ", weight_[2], " x ", weight_[3], " pixels or more");
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
    fail(ErrorKind::data, "whiten", "got ", windows_,
         " windows of the pictures, need as many as one has numbers: ", numbers_);
  }
  std::vector<double> variance = sums_;
  for (double& v : variance) v /= static_cast<double>(windows_);
  const Spectrum s = spectrum(variance);
  Array out(DType::f32, weight_);
  float* w = out.data<float>();
  const int64_t pairs = weight_[0] / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    const double scale = 1 / std::sqrt(std::max(s.values[static_cast<size_t>(i)], 0.0) + kLeastVariance);
    for (int64_t k = 0; k < numbers_; ++k) {
      const auto v = static_cast<float>(s.vectors[static_cast<size_t>(i * numbers_ + k)] * scale);
      w[i * numbers_ + k] = v;
      w[(pairs + i) * numbers_ + k] = -v;
    }
  }
  return out;
}

Spectrum spectrum(const std::vector<double>& matrix) {
  const auto n = static_cast<size_t>(std::llround(std::sqrt(static_cast<double>(matrix.size()))));
  std::vector<double> a = matrix, v(n * n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    v[i * n + i] = 1;
    for (size_t j = 0; j < i; ++j) a[i * n + j] = a[j * n + i];
  }
  // Numbers x and y that lie at i and j become c x - s y and s x + c y.
  const auto rotate = [](std::vector<double>& m, size_t i, size_t j, double c, double s) {
    const double x = m[i], y = m[j];
    m[i] = c * x - s * y;
    m[j] = s * x + c * y;
  };
  constexpr int kSweeps = 50;  // it takes about eight
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double beside = 0, diagonal = 0;
    for (size_t i = 0; i < n; ++i) {
      diagonal += a[i * n + i] * a[i * n + i];
      for (size_t j = i + 1; j < n; ++j) beside += a[i * n + j] * a[i * n + j];
    }
    if (beside <= 1e-26 * diagonal) break;
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = std::copysign(1.0, theta) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (size_t k = 0; k < n; ++k) rotate(a, k * n + p, k * n + q, c, s);
        for (size_t k = 0; k < n; ++k) rotate(a, p * n + k, q * n + k, c, s);
        for (size_t k = 0; k < n; ++k) rotate(v, p * n + k, q * n + k, c, s);
      }
    }
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return a[i * n + i] > a[j * n + j]; });
  Spectrum out;
  for (const size_t i : order) {
    out.values.push_back(a[i * n + i]);
    out.vectors.insert(out.vectors.end(), v.begin() + static_cast<std::ptrdiff_t>(i * n),
                       v.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
  }
  return out;
}

}  // namespace freight::nn
