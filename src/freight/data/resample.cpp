// See resample.h. Resizing is separable: columns first, then rows, in f32, rounded once at the end.
#include "freight/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::data {

namespace {

// The source positions [first, first + weights.size()) that make one destination position; the weights sum to 1.
struct Tap {
  int64_t first = 0;
  std::vector<float> weights;
};

// Pixel centres are at i + 1/2; the filter is max(0, 1 - |d| / support).
std::vector<Tap> taps(int64_t from, int64_t to) {
  std::vector<Tap> all(static_cast<size_t>(to));
  const double scale = static_cast<double>(from) / static_cast<double>(to), support = std::max(1.0, scale);
  for (int64_t i = 0; i < to; ++i) {
    Tap& t = all[static_cast<size_t>(i)];
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    t.first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - support)));
    const int64_t end = std::min(from, static_cast<int64_t>(std::ceil(centre + support)));
    double sum = 0;
    for (int64_t s = t.first; s < end; ++s) {
      const double w = std::max(0.0, 1.0 - std::fabs(static_cast<double>(s) + 0.5 - centre) / support);
      t.weights.push_back(static_cast<float>(w));
      sum += w;
    }
    for (float& w : t.weights) w = static_cast<float>(static_cast<double>(w) / sum);
  }
  return all;
}

uint8_t pixel(float v) { return static_cast<uint8_t>(std::clamp(std::lround(v), 0L, 255L)); }

void need_picture(const char* op, const Array& image) {
  if (image.dtype() != DType::u8 || image.shape().rank() != 3 || image.numel() == 0) {
    fail(ErrorKind::data, op, "need a u8 picture (H, W, C): got ", to_string(image.dtype()), " ", image.shape());
  }
}

}  // namespace

Array with_channels(const Array& image, int64_t channels) {
  need_picture("with_channels", image);
  const int64_t have = image.shape()[2], pixels = image.shape()[0] * image.shape()[1];
  if (have == channels) return image;
  if (!(have == 1 && channels == 3) && !(have == 3 && channels == 1)) {
    fail(ErrorKind::data, "with_channels", "no way from ", have, " to ", channels, " channels");
  }
  Array out(DType::u8, {image.shape()[0], image.shape()[1], channels});
  const uint8_t* src = image.data<uint8_t>();
  uint8_t* dst = out.data<uint8_t>();
  for (int64_t i = 0; i < pixels; ++i) {
    if (channels == 3) {
      std::fill_n(dst + 3 * i, 3, src[i]);
    } else {
      const uint8_t* p = src + 3 * i;
      dst[i] = pixel(0.299f * static_cast<float>(p[0]) + 0.587f * static_cast<float>(p[1]) +
                     0.114f * static_cast<float>(p[2]));
    }
  }
  return out;
}

Array resized(const Array& image, int64_t rows, int64_t columns) {
  need_picture("resized", image);
  const int64_t h = image.shape()[0], w = image.shape()[1], c = image.shape()[2];
  if (h == rows && w == columns) return image;
  const std::vector<Tap> across = taps(w, columns), down = taps(h, rows);
  const uint8_t* src = image.data<uint8_t>();
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  std::vector<float> middle(at(h * columns * c));  // (H, columns, C)
  for (int64_t y = 0; y < h; ++y) {
    for (int64_t x = 0; x < columns; ++x) {
      const Tap& t = across[at(x)];
      float* to = middle.data() + (y * columns + x) * c;
      for (size_t k = 0; k < t.weights.size(); ++k) {
        const uint8_t* from = src + (y * w + t.first + static_cast<int64_t>(k)) * c;
        for (int64_t j = 0; j < c; ++j) to[j] += t.weights[k] * static_cast<float>(from[j]);
      }
    }
  }
  Array out(DType::u8, {rows, columns, c});
  std::vector<float> line(at(columns * c));
  for (int64_t y = 0; y < rows; ++y) {
    const Tap& t = down[at(y)];
    std::fill(line.begin(), line.end(), 0.0f);
    for (size_t k = 0; k < t.weights.size(); ++k) {
      const float* from = middle.data() + (t.first + static_cast<int64_t>(k)) * columns * c;
      for (size_t j = 0; j < line.size(); ++j) line[j] += t.weights[k] * from[j];
    }
    std::transform(line.begin(), line.end(), out.data<uint8_t>() + y * columns * c, pixel);
  }
  return out;
}

Dataset resized(const Dataset& set, int64_t rows, int64_t columns) {
  const Shape s = set.images.shape();
  if (s.rank() == 4 && s[2] == rows && s[3] == columns) return set;
  if (set.images.dtype() != DType::u8 || s.rank() != 4) {
    fail(ErrorKind::data, set.name, "only u8 pictures (C, H, W) can be resized to ", rows, "x", columns,
         ": samples are ", set.images.dtype(), set.sample_shape());
  }
  Dataset out = set;
  out.images = Array(DType::u8, {s[0], s[1], rows, columns});
  const int64_t from = s[2] * s[3], to = rows * columns;
  auto* src = static_cast<uint8_t*>(set.images.raw());
  auto* dst = static_cast<uint8_t*>(out.images.raw());
  parallel_for(s[0] * s[1], [&](int64_t i) {  // a channel of a sample is a picture of one channel
    const Array plane(DType::u8, {s[2], s[3], 1},
                      Storage::borrow(src + i * from, static_cast<size_t>(from), set.images.storage()));
    std::memcpy(dst + i * to, resized(plane, rows, columns).raw(), static_cast<size_t>(to));
  });
  return out;
}

}  // namespace freight::data
