// See mix.h.
#include "freight/data/mix.h"

#include <algorithm>
#include <cmath>

#include "freight/base/philox.h"

namespace freight::data {

namespace {
constexpr uint32_t kMixStream = 0x6d697875;

// Marsaglia and Tsang 2000; for alpha < 1 with the boost of their section 6.
double gamma_draw(double alpha, PhiloxStream& random) {
  const auto uniform = [&] { return (static_cast<double>(random.bits()) + 0.5) * 0x1p-32; };
  if (alpha < 1) {
    const double boosted = gamma_draw(alpha + 1, random);
    return boosted * std::pow(uniform(), 1 / alpha);
  }
  const double d = alpha - 1.0 / 3.0, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const auto x = static_cast<double>(random.normal());
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}
double beta_draw(double alpha, PhiloxStream& random) {
  const double a = gamma_draw(alpha, random), b = gamma_draw(alpha, random);
  return a + b > 0 ? a / (a + b) : 0.5;  // both underflow for a tiny alpha
}

// row i = keep * row i + (1 - keep) * row i - 1, all by the old values; row -1 is `before`.
void blend_with_neighbor(float* rows, int64_t count, int64_t size, const float* before, float keep) {
  for (int64_t i = count; i-- > 0;) {
    float* row = rows + i * size;
    const float* other = i > 0 ? row - size : before;
    for (int64_t k = 0; k < size; ++k) row[k] = keep * row[k] + (1 - keep) * other[k];
  }
}
}  // namespace

void mix_samples(const Mix& mix, uint64_t seed, int64_t epoch, int64_t batch, const MixedRows& r) {
  PhiloxStream random(seed ^ static_cast<uint64_t>(batch) * 0x9E3779B97F4A7C15ull, static_cast<uint64_t>(epoch),
                      kMixStream);
  const bool cut = mix.cutmix_alpha > 0 && (mix.mixup_alpha == 0 || (random.bits() & 1));
  double keep = beta_draw(cut ? mix.cutmix_alpha : mix.mixup_alpha, random);
  const int64_t size = r.sample.numel();
  if (!cut) {
    blend_with_neighbor(r.images, r.count, size, r.image_before, static_cast<float>(keep));
  } else {
    // A rectangle of the share 1 - keep around a random point; what of it lies outside does not count.
    const int64_t h = r.sample[r.channels_last ? 0 : 1], w = r.sample[r.channels_last ? 1 : 2],
                  channels = r.sample[r.channels_last ? 2 : 0];
    const auto y = static_cast<int64_t>(random.below(static_cast<uint32_t>(h))),
               x = static_cast<int64_t>(random.below(static_cast<uint32_t>(w)));
    const double half = 0.5 * std::sqrt(1 - keep);
    const auto half_h = static_cast<int64_t>(half * static_cast<double>(h)),
               half_w = static_cast<int64_t>(half * static_cast<double>(w));
    const int64_t y0 = std::max<int64_t>(y - half_h, 0), y1 = std::min(y + half_h, h),
                  x0 = std::max<int64_t>(x - half_w, 0), x1 = std::min(x + half_w, w);
    const int64_t planes = r.channels_last ? 1 : channels, step = r.channels_last ? channels : 1;
    for (int64_t i = r.count; i-- > 0;) {
      float* to = r.images + i * size;
      const float* from = i > 0 ? to - size : r.image_before;
      for (int64_t p = 0; p < planes; ++p) {
        for (int64_t row = y0; row < y1; ++row) {
          const int64_t at = ((p * h + row) * w + x0) * step;
          std::copy_n(from + at, (x1 - x0) * step, to + at);
        }
      }
    }
    keep = 1 - static_cast<double>((y1 - y0) * (x1 - x0)) / static_cast<double>(h * w);
  }
  blend_with_neighbor(r.labels, r.count, r.classes, r.label_before, static_cast<float>(keep));
}

}  // namespace freight::data
