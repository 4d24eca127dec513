// See augment.h.
#include "freight/data/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/usage.h"
#include "freight/data/image_cache.h"

namespace freight::data {

namespace {
constexpr uint32_t kAugmentStream = 0x61756775, kColorStream = 0x636f6c6f, kEraseStream = 0x65726173,
                   kMirrorStream = 0x6d697272;
constexpr int64_t kLargePlane = 64 * 64;  // a batch of smaller images stays in the caches

// The numbers of one sample in one epoch.
PhiloxStream draws(uint64_t seed, int64_t index, int64_t epoch, uint32_t stream) {
  return {seed ^ static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15ull, static_cast<uint64_t>(epoch), stream};
}

int32_t offset(PhiloxStream& r, int reach) {
  return static_cast<int32_t>(r.below(2 * static_cast<uint32_t>(reach) + 1)) - reach;
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
  const bool image = s.rank() == 3;
  if (image) {
    rows_ = s[1];
    columns_ = s[2];
  } else {
    columns_ = channels_ == 0 ? 0 : s.numel() / channels_;
  }
  const int reach = std::max(augment.shift, augment.crop_padding);
  need_at_least("augment", "shift and padding", std::min(augment.shift, augment.crop_padding), 0);
  if (reach > 0 || augment.flip) need_images("augment", "shift, crop or flip", set);
  if (image && reach >= std::min(rows_, columns_)) {
    fail(ErrorKind::usage, "augment", "a shift of ", reach, " moves images of ", rows_, " x ", columns_, " away");
  }
  const auto c = static_cast<size_t>(channels_);
  if (set.files && reach > 0) {
    fail(ErrorKind::usage, "augment", "shift and crop padding are for samples in memory; the images of ", set.name,
         " take random crops");
  }
  if (!set.files && augment.random_crop) {
    fail(ErrorKind::usage, "augment", "random resized crops are for images in files; ", set.name,
         " is in memory and takes shift or crop padding");
  }
  const auto& crop = augment.crop;
  if (!(crop.min_area > 0 && crop.min_area <= crop.max_area && crop.max_area <= 1 && crop.min_ratio > 0 &&
        crop.min_ratio <= crop.max_ratio)) {
    fail(ErrorKind::usage, "augment",
         "random crop: expected 0 < min <= max and a fraction of at most 1, got a fraction of the area from ",
         crop.min_area, " to ", crop.max_area, " and a ratio from ", crop.min_ratio, " to ", crop.max_ratio);
  }
  check_colors();
  const bool normalize = augment.normalize && !set.mean.empty();
  if (normalize && (set.mean.size() != c || set.std.size() != c)) {
    fail(ErrorKind::usage, "augment", "mean and std have ", set.mean.size(), " and ", set.std.size(),
         " values, expected one per channel: ", c);
  }
  const double unit = set.files || set.images.dtype() == DType::u8 ? 255.0 : 1.0;
  for (size_t i = 0; i < c; ++i) {
    const double mean = normalize ? set.mean[i] : 0.0, deviation = normalize ? set.std[i] : 1.0;
    scale_.push_back(static_cast<float>(1.0 / (unit * deviation)));
    bias_.push_back(static_cast<float>(-mean / deviation));
  }
}

void Transform::check_colors() const {
  const Augment& a = augment_;
  for (const double v : {a.color_jitter.brightness, a.color_jitter.contrast, a.color_jitter.saturation}) {
    need_between("augment", "color jitter", v, 0, 10);
  }
  need_between("augment", "hue jitter", a.color_jitter.hue, 0, 0.5);
  need_between("augment", "RandAugment operations", a.rand_augment, 0, kAugmentOps);
  need_between("augment", "RandAugment magnitude", a.rand_augment_magnitude, 0, kMagnitudes - 1);
  need_between("augment", "random erasing probability", a.random_erase, 0, 1);
  const Shape s = set_->sample_shape();
  const bool u8 = set_->files || set_->images.dtype() == DType::u8;
  if (recolors() && !(u8 && s.rank() == 3 && s[0] == 3)) {
    fail(ErrorKind::usage, "augment", "color jitter and RandAugment need u8 color images (3, H, W): samples of ",
         set_->name, " are ", u8 ? "u8 " : "floats ", s);
  }
  if (a.random_erase > 0) need_images("augment", "random erasing", *set_);
}

bool Transform::recolors() const { return augment_.color_jitter.any() || augment_.rand_augment > 0; }

Draw Transform::draw(int64_t index, int64_t epoch) const {
  Draw draw;
  draw.sample = static_cast<int32_t>(index);
  const int reach = std::max(augment_.shift, augment_.crop_padding);
  if (!set_->files) {
    if (reach > 0) {
      PhiloxStream r = draws(seed_, index, epoch, kAugmentStream);
      draw.dy = offset(r, reach);
      draw.dx = offset(r, reach);
    }
    draw.flip = mirrors(index, epoch) ? 1 : 0;
  }
  if (augment_.random_erase > 0) draw_erased(index, epoch, draw);
  return draw;
}

bool Transform::mirrors(int64_t index, int64_t epoch) const {
  return augment_.flip && ((draws(seed_, index, 0, kMirrorStream).bits() ^ static_cast<uint32_t>(epoch)) & 1) != 0;
}

void Transform::read_image(int64_t index, int64_t epoch, const PlaneTarget& dst, Scratch& scratch) const {
  const ImageFiles& files = *set_->files;
  const auto i = static_cast<size_t>(index);
  const std::string& path = files.paths[i];
  io::ByteView bytes = files.kept->find(i);
  bool sound = !bytes.empty();
  uint64_t state = 0;
  if (!sound) {
    bytes = io::read_file(path, scratch.file, state);
    sound = files.kept->sound(i, state);
  }
  PhiloxStream r = draws(seed_, index, epoch, kAugmentStream);
  const Mirror mirror = mirrors(index, epoch) ? Mirror::yes : Mirror::no;
  const ImageGeometry& geometry = files.geometry;
  if (augment_.random_crop) {
    scratch.reader.random_view(bytes, path, geometry, augment_.crop, mirror, r, dst, sound);
  } else {
    scratch.reader.evaluation_view(bytes, path, geometry, mirror, dst, sound);
  }
  if (!sound) files.kept->keep(i, bytes, state);
  constexpr size_t kLargeFile = size_t{32} << 20;
  if (scratch.file.size() > kLargeFile) scratch.file = io::Bytes();
}

void Transform::recolor(int64_t index, int64_t epoch, Scratch& scratch) const {
  PhiloxStream r = draws(seed_, index, epoch, kColorStream);
  const Planes planes{scratch.planes.data(), rows_, columns_};
  if (augment_.rand_augment > 0) {
    rand_augment(planes, augment_.rand_augment, augment_.rand_augment_magnitude, r, scratch.spare);
  }
  if (augment_.color_jitter.any()) color_jitter(planes, augment_.color_jitter, r);
}

// torchvision.transforms.RandomErasing with its bounds: 2 to 33 % of the area, sides up to 1 to 3.3, ten draws. What is
// erased becomes 0, the mean color of normalized samples.
void Transform::draw_erased(int64_t index, int64_t epoch, Draw& draw) const {
  PhiloxStream r = draws(seed_, index, epoch, kEraseStream);
  if (static_cast<double>(r.uniform()) >= augment_.random_erase) return;
  const auto area = static_cast<float>(rows_ * columns_);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const float target = area * r.uniform(0.02f, 0.33f), side = std::log(3.3f);
    const float ratio = std::exp(r.uniform(-side, side));
    const auto h = static_cast<int32_t>(std::lround(std::sqrt(target * ratio)));
    const auto w = static_cast<int32_t>(std::lround(std::sqrt(target / ratio)));
    if (h >= rows_ || w >= columns_) continue;
    draw.top = static_cast<int32_t>(r.below(static_cast<uint32_t>(rows_ - h + 1)));
    draw.left = static_cast<int32_t>(r.below(static_cast<uint32_t>(columns_ - w + 1)));
    draw.bottom = draw.top + h;
    draw.right = draw.left + w;
    return;
  }
}

void Transform::erase(const Draw& draw, float* dst) const {
  const int64_t planes = channels_last_ ? 1 : channels_, step = channels_last_ ? channels_ : 1;
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t y = draw.top; y < draw.bottom; ++y) {
      std::fill_n(dst + ((p * rows_ + y) * columns_ + draw.left) * step, (draw.right - draw.left) * step, 0.0f);
    }
  }
}

// The move alone, u8 to u8.
void Transform::move_planes(const uint8_t* src, const Draw& move, uint8_t* dst) const {
  for (int64_t c = 0; c < channels_; ++c, src += rows_ * columns_) {
    for (int64_t y = 0; y < rows_; ++y) {
      const int64_t from_y = y + move.dy;
      for (int64_t x = 0; x < columns_; ++x) {
        const int64_t moved = x + move.dx, from_x = move.flip != 0 ? columns_ - 1 - moved : moved;
        const bool inside = from_y >= 0 && from_y < rows_ && moved >= 0 && moved < columns_;
        *dst++ = inside ? src[from_y * columns_ + from_x] : uint8_t{0};
      }
    }
  }
}

template <class T>
void Transform::write(const T* src, const Draw& move, float* dst) const {
  const int64_t plane = rows_ * columns_;
  const int64_t pixel_step = channels_last_ ? channels_ : 1;
  for (int64_t c = 0; c < channels_; ++c) {
    const T* from = src + c * plane;
    float* to = channels_last_ ? dst + c : dst + c * plane;
    const float scale = scale_[static_cast<size_t>(c)], bias = bias_[static_cast<size_t>(c)];
    const auto value = [&](T x) { return static_cast<float>(x) * scale + bias; };
    if (move.dy == 0 && move.dx == 0 && move.flip == 0) {
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
      if (move.flip != 0) {
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

void Transform::apply(int64_t index, int64_t epoch, float* dst, Scratch& scratch) const {
  const int64_t n = channels_ * rows_ * columns_;
  const bool u8 = set_->files || set_->images.dtype() == DType::u8;
  const Draw drawn = draw(index, epoch);
  // Rows of an image go into the batch as they are made: while they are on their way to memory, the next ones are.
  const bool direct =
      set_->files && !recolors() && !channels_last_ && channels_ == 3 && rows_ * columns_ >= kLargePlane;
  if ((set_->files && !direct) || recolors()) scratch.planes.resize(static_cast<size_t>(n));
  if (set_->files) {
    read_image(index, epoch, direct ? PlaneTarget(dst, scale_.data(), bias_.data()) : scratch.planes.data(), scratch);
  } else if (!u8) {
    write(static_cast<const float*>(set_->images.raw()) + index * n, drawn, dst);
  } else if (const uint8_t* src = static_cast<const uint8_t*>(set_->images.raw()) + index * n; recolors()) {
    move_planes(src, drawn, scratch.planes.data());
  } else {
    write(src, drawn, dst);
  }
  if (recolors()) recolor(index, epoch, scratch);
  if ((set_->files && !direct) || recolors()) write<uint8_t>(scratch.planes.data(), Draw{}, dst);
  erase(drawn, dst);
}

}  // namespace freight::data
