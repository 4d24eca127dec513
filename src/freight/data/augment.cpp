// See augment.h.
#include "freight/data/augment.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/philox.h"

namespace freight::data {

namespace {
constexpr uint32_t kAugmentStream = 0x61756775;

// How a picture moves: dst(y, x) = src(y + dy, x + dx), mirrored first where flip is set.
struct Move {
  int64_t dy = 0, dx = 0;
  bool flip = false;
};

int64_t offset(PhiloxStream& r, int reach) {
  return static_cast<int64_t>(r.below(2 * static_cast<uint32_t>(reach) + 1)) - reach;
}

// dst = src * scale + bias; blocks of a constant length, which the compiler turns into vector code.
template <class T>
void scale_run(const T* __restrict__ src, float* __restrict__ dst, int64_t n, float scale, float bias) {
  constexpr int64_t kBlock = 16;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (int64_t k = 0; k < kBlock; ++k) dst[i + k] = static_cast<float>(src[i + k]) * scale + bias;
  }
  for (; i < n; ++i) dst[i] = static_cast<float>(src[i]) * scale + bias;
}
}  // namespace

Transform::Transform(const Dataset& set, const Augment& augment, uint64_t seed, bool channels_last)
    : set_(&set), augment_(augment), seed_(seed), channels_last_(channels_last) {
  const Shape s = set.sample_shape();
  channels_ = s[0];
  const bool picture = s.rank() == 3;
  if (picture) {
    rows_ = s[1];
    columns_ = s[2];
  } else {
    columns_ = channels_ == 0 ? 0 : s.numel() / channels_;
  }
  const int reach = std::max(augment.shift, augment.crop_padding);
  if (augment.shift < 0 || augment.crop_padding < 0)
    fail(ErrorKind::usage, "augment", "shift and padding must be >= 0");
  if (!picture && (reach > 0 || augment.flip)) {
    fail(ErrorKind::usage, "augment", "shift, crop and flip need images (C, H, W): samples of ", set.name, " are ", s);
  }
  if (picture && reach >= std::min(rows_, columns_)) {
    fail(ErrorKind::usage, "augment", "a shift of ", reach, " moves images of ", rows_, " x ", columns_, " away");
  }
  const auto c = static_cast<size_t>(channels_);
  const bool normalize = augment.normalize && !set.mean.empty();
  if (normalize && (set.mean.size() != c || set.std.size() != c)) {
    fail(ErrorKind::usage, "augment", "mean and std have ", set.mean.size(), " and ", set.std.size(),
         " values, need one per channel: ", c);
  }
  const double unit = set.images.dtype() == DType::u8 ? 255.0 : 1.0;
  for (size_t i = 0; i < c; ++i) {
    const double mean = normalize ? set.mean[i] : 0.0, deviation = normalize ? set.std[i] : 1.0;
    scale_.push_back(static_cast<float>(1.0 / (unit * deviation)));
    bias_.push_back(static_cast<float>(-mean / deviation));
  }
}

template <class T>
void Transform::image(const T* src, int64_t index, int64_t epoch, float* dst) const {
  Move move;
  const int reach = std::max(augment_.shift, augment_.crop_padding);
  if (reach > 0 || augment_.flip) {
    PhiloxStream r(seed_ ^ static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15ull, static_cast<uint64_t>(epoch),
                   kAugmentStream);
    if (reach > 0) {
      move.dy = offset(r, reach);
      move.dx = offset(r, reach);
    }
    move.flip = augment_.flip && (r.bits() & 1);
  }
  const int64_t plane = rows_ * columns_;
  const int64_t pixel_step = channels_last_ ? channels_ : 1;
  for (int64_t c = 0; c < channels_; ++c) {
    const T* from = src + c * plane;
    float* to = channels_last_ ? dst + c : dst + c * plane;
    const float scale = scale_[static_cast<size_t>(c)], bias = bias_[static_cast<size_t>(c)];
    const auto value = [&](T x) { return static_cast<float>(x) * scale + bias; };
    if (reach == 0 && !move.flip) {
      if (pixel_step == 1) {
        scale_run(from, to, plane, scale, bias);
      } else {
        for (int64_t i = 0; i < plane; ++i) to[i * pixel_step] = value(from[i]);
      }
      continue;
    }
    const float black = value(T{});
    const int64_t begin = std::max<int64_t>(0, -move.dx), end = std::min(columns_, columns_ - move.dx);
    for (int64_t y = 0; y < rows_; ++y, to += columns_ * pixel_step) {
      const int64_t source_row = y + move.dy;
      if (source_row < 0 || source_row >= rows_) {
        for (int64_t x = 0; x < columns_; ++x) to[x * pixel_step] = black;
        continue;
      }
      const T* row = from + source_row * columns_;
      for (int64_t x = 0; x < begin; ++x) to[x * pixel_step] = black;
      if (move.flip) {
        for (int64_t x = begin; x < end; ++x) to[x * pixel_step] = value(row[columns_ - 1 - (x + move.dx)]);
      } else if (pixel_step == 1) {
        scale_run(row + begin + move.dx, to + begin, end - begin, scale, bias);
      } else {
        for (int64_t x = begin; x < end; ++x) to[x * pixel_step] = value(row[x + move.dx]);
      }
      for (int64_t x = end; x < columns_; ++x) to[x * pixel_step] = black;
    }
  }
}

void Transform::apply(int64_t index, int64_t epoch, float* dst) const {
  const int64_t n = channels_ * rows_ * columns_;
  if (set_->images.dtype() == DType::u8) {
    image(static_cast<const uint8_t*>(set_->images.raw()) + index * n, index, epoch, dst);
  } else {
    image(static_cast<const float*>(set_->images.raw()) + index * n, index, epoch, dst);
  }
}

}  // namespace freight::data
