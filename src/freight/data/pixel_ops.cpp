// See pixel_ops.h. All arithmetic is f32 as torchvision's is; values are cut off, not rounded, where torchvision does
// so.
#include "freight/data/pixel_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace freight::data {

namespace {
uint8_t cut(float v) { return static_cast<uint8_t>(std::clamp(v, 0.0f, 255.0f)); }

// factor * value + (1 - factor) * other.
uint8_t blend(uint8_t value, float other, float factor) {
  return cut(factor * static_cast<float>(value) + (1.0f - factor) * other);
}

uint8_t gray(const Planes& p, int64_t i) {
  const uint8_t* x = p.pixels + i;
  const int64_t n = p.plane();
  return static_cast<uint8_t>(0.2989f * static_cast<float>(x[0]) + 0.587f * static_cast<float>(x[n]) +
                              0.114f * static_cast<float>(x[2 * n]));
}

// Every value of a channel is replaced by a table's entry.
void look_up(uint8_t* values, int64_t n, const std::array<uint8_t, 256>& table) {
  for (int64_t i = 0; i < n; ++i) values[i] = table[values[i]];
}

struct Hsv {
  float h, s, v;  // 0 to 1
};

Hsv hsv_of(float r, float g, float b) {
  const float top = std::max({r, g, b}), low = std::min({r, g, b}), range = top - low;
  if (range == 0) return {0, 0, top};
  const float rc = (top - r) / range, gc = (top - g) / range, bc = (top - b) / range;
  const float h = top == r ? bc - gc : top == g ? 2.0f + rc - bc : 4.0f + gc - rc;
  return {std::fmod(h / 6.0f + 1.0f, 1.0f), range / top, top};
}

std::array<float, 3> rgb_of(const Hsv& c) {
  const float sector = std::floor(c.h * 6.0f), f = c.h * 6.0f - sector, v = c.v;
  const float p = v * (1.0f - c.s), q = v * (1.0f - c.s * f), t = v * (1.0f - c.s * (1.0f - f));
  switch (static_cast<int>(sector) % 6) {
    case 0: return {v, t, p};
    case 1: return {q, v, p};
    case 2: return {p, v, t};
    case 3: return {p, q, v};
    case 4: return {t, p, v};
    default: return {v, p, q};
  }
}
}  // namespace

void adjust_brightness(const Planes& p, float factor) {
  std::array<uint8_t, 256> table;
  for (size_t v = 0; v < 256; ++v) table[v] = blend(static_cast<uint8_t>(v), 0.0f, factor);
  look_up(p.pixels, 3 * p.plane(), table);
}

void adjust_contrast(const Planes& p, float factor) {
  int64_t sum = 0;
  for (int64_t i = 0; i < p.plane(); ++i) sum += gray(p, i);
  const auto mean = static_cast<float>(static_cast<double>(sum) / static_cast<double>(p.plane()));
  std::array<uint8_t, 256> table;
  for (size_t v = 0; v < 256; ++v) table[v] = blend(static_cast<uint8_t>(v), mean, factor);
  look_up(p.pixels, 3 * p.plane(), table);
}

void adjust_saturation(const Planes& p, float factor) {
  for (int64_t i = 0; i < p.plane(); ++i) {
    const float g = gray(p, i);
    for (int64_t c = 0; c < 3; ++c) {
      uint8_t& v = p.pixels[c * p.plane() + i];
      v = blend(v, g, factor);
    }
  }
}

void adjust_sharpness(const Planes& p, float factor, std::vector<uint8_t>& scratch) {
  if (p.rows <= 2 || p.columns <= 2) return;
  // The blurred image keeps the border; elsewhere a 3 x 3 mean with five times the weight in the middle.
  for (int64_t c = 0; c < 3; ++c) {
    uint8_t* plane = p.pixels + c * p.plane();
    scratch.assign(plane, plane + p.plane());
    const uint8_t* old = scratch.data();
    for (int64_t i = 0; i < p.plane(); ++i) {
      const int64_t y = i / p.columns, x = i % p.columns;
      if (y == 0 || x == 0 || y == p.rows - 1 || x == p.columns - 1) {
        plane[i] = blend(old[i], old[i], factor);
        continue;
      }
      int sum = 4 * old[i];
      for (int64_t dy = -p.columns; dy <= p.columns; dy += p.columns) {
        for (int64_t dx = -1; dx <= 1; ++dx) sum += old[i + dy + dx];
      }
      plane[i] = blend(old[i], std::nearbyint(static_cast<float>(sum) / 13.0f), factor);
    }
  }
}

void adjust_hue(const Planes& p, float turn) {
  uint8_t* r = p.pixels;
  uint8_t* g = r + p.plane();
  uint8_t* b = g + p.plane();
  for (int64_t i = 0; i < p.plane(); ++i) {
    Hsv c =
        hsv_of(static_cast<float>(r[i]) / 255.0f, static_cast<float>(g[i]) / 255.0f, static_cast<float>(b[i]) / 255.0f);
    c.h += turn;
    c.h -= std::floor(c.h);
    const auto rgb = rgb_of(c);
    const auto narrow = [](float v) { return cut(v * 255.999f); };
    r[i] = narrow(rgb[0]);
    g[i] = narrow(rgb[1]);
    b[i] = narrow(rgb[2]);
  }
}

void posterize(const Planes& p, int bits) {
  const auto mask = static_cast<uint8_t>(0xff00 >> bits);
  for (int64_t i = 0; i < 3 * p.plane(); ++i) p.pixels[i] &= mask;
}

void solarize(const Planes& p, float threshold) {
  for (int64_t i = 0; i < 3 * p.plane(); ++i) {
    uint8_t& v = p.pixels[i];
    if (static_cast<float>(v) >= threshold) v = static_cast<uint8_t>(255 - v);
  }
}

void autocontrast(const Planes& p) {
  for (int64_t c = 0; c < 3; ++c) {
    uint8_t* plane = p.pixels + c * p.plane();
    const auto [low, high] = std::minmax_element(plane, plane + p.plane());
    if (*low == *high) continue;
    const auto least = static_cast<float>(*low), scale = 255.0f / (static_cast<float>(*high) - least);
    std::array<uint8_t, 256> table;
    for (size_t v = 0; v < 256; ++v) table[v] = cut((static_cast<float>(v) - least) * scale);
    look_up(plane, p.plane(), table);
  }
}

void equalize(const Planes& p) {
  for (int64_t c = 0; c < 3; ++c) {
    uint8_t* plane = p.pixels + c * p.plane();
    std::array<int64_t, 256> count{};
    for (int64_t i = 0; i < p.plane(); ++i) ++count[plane[i]];
    int64_t last = 0;  // pixels of the largest value that occurs
    for (const int64_t n : count) last = n > 0 ? n : last;
    const int64_t step = (p.plane() - last) / 255;
    if (step == 0) continue;
    std::array<uint8_t, 256> table{};
    int64_t below = 0;
    for (size_t v = 0; v + 1 < 256; ++v) {
      below += count[v];
      table[v + 1] = static_cast<uint8_t>(std::clamp<int64_t>((below + step / 2) / step, 0, 255));
    }
    look_up(plane, p.plane(), table);
  }
}

void warp(const Planes& p, const AffineMap& map, std::vector<uint8_t>& scratch) {
  scratch.assign(p.pixels, p.pixels + 3 * p.plane());
  for (int64_t y = 0; y < p.rows; ++y) {
    const float v = static_cast<float>(y) + 0.5f - map.center_y;
    for (int64_t x = 0; x < p.columns; ++x) {
      const float u = static_cast<float>(x) + 0.5f - map.center_x;
      const auto from_x = static_cast<int64_t>(std::nearbyint(map.a * u + map.b * v + map.c + map.center_x - 0.5f));
      const auto from_y = static_cast<int64_t>(std::nearbyint(map.d * u + map.e * v + map.f + map.center_y - 0.5f));
      const bool inside = from_x >= 0 && from_x < p.columns && from_y >= 0 && from_y < p.rows;
      for (int64_t c = 0; c < 3; ++c) {
        p.pixels[c * p.plane() + y * p.columns + x] =
            inside ? scratch[static_cast<size_t>(c * p.plane() + from_y * p.columns + from_x)] : uint8_t{0};
      }
    }
  }
}

void color_jitter(const Planes& p, const ColorJitter& jitter, PhiloxStream& random) {
  std::array<int, 4> order{0, 1, 2, 3};
  for (uint32_t i = 4; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  const auto factor = [&](double strength) {
    const auto s = static_cast<float>(strength);
    return random.uniform(std::max(0.0f, 1.0f - s), 1.0f + s);
  };
  // Drawn even where it is not used: the numbers that follow stay the same.
  const float brightness = factor(jitter.brightness), contrast = factor(jitter.contrast),
              saturation = factor(jitter.saturation);
  const auto reach = static_cast<float>(jitter.hue);
  const float hue = random.uniform(-reach, reach);
  for (const int step : order) {
    if (step == 0 && jitter.brightness > 0) adjust_brightness(p, brightness);
    if (step == 1 && jitter.contrast > 0) adjust_contrast(p, contrast);
    if (step == 2 && jitter.saturation > 0) adjust_saturation(p, saturation);
    if (step == 3 && jitter.hue > 0) adjust_hue(p, hue);
  }
}

void apply_augment_op(const Planes& p, AugmentOp op, int magnitude, bool negative, std::vector<uint8_t>& scratch) {
  const float share = static_cast<float>(magnitude) / static_cast<float>(kMagnitudes - 1), sign = negative ? -1 : 1;
  const float shear = sign * 0.3f * share, blend = 1 + sign * 0.9f * share;
  const auto across = static_cast<float>(p.columns), down = static_cast<float>(p.rows);
  const auto reach = [&](float extent) { return sign * std::trunc(150.0f / 331.0f * extent * share); };
  switch (op) {
    case AugmentOp::identity: return;
    case AugmentOp::shear_x: return warp(p, {.b = shear}, scratch);
    case AugmentOp::shear_y: return warp(p, {.d = shear}, scratch);
    case AugmentOp::translate_x: return warp(p, {.c = -reach(across)}, scratch);
    case AugmentOp::translate_y: return warp(p, {.f = -reach(down)}, scratch);
    case AugmentOp::rotate: {
      const float angle = sign * 30.0f * share * std::numbers::pi_v<float> / 180.0f;
      const float c = std::cos(angle), s = std::sin(angle);
      return warp(p, {.a = c, .b = -s, .d = s, .e = c, .center_x = across / 2, .center_y = down / 2}, scratch);
    }
    case AugmentOp::brightness: return adjust_brightness(p, blend);
    case AugmentOp::color: return adjust_saturation(p, blend);
    case AugmentOp::contrast: return adjust_contrast(p, blend);
    case AugmentOp::sharpness: return adjust_sharpness(p, blend, scratch);
    case AugmentOp::posterize: return posterize(p, 8 - static_cast<int>(std::nearbyint(4.0f * share)));
    case AugmentOp::solarize: return solarize(p, 255.0f - 255.0f * share);
    case AugmentOp::autocontrast: return autocontrast(p);
    case AugmentOp::equalize: return equalize(p);
  }
}

void rand_augment(const Planes& p, int operations, int magnitude, PhiloxStream& random, std::vector<uint8_t>& scratch) {
  for (int i = 0; i < operations; ++i) {
    const auto op = static_cast<AugmentOp>(random.below(kAugmentOps));
    apply_augment_op(p, op, magnitude, random.bits() & 1, scratch);
  }
}

}  // namespace freight::data
