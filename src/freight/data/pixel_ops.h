// Operations on the pixels of a color image, as torchvision defines them for u8 tensors
// (torchvision.transforms.functional), for color jitter and RandAugment. An image is u8 planes (3, H, W), changed in
// place.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/base/philox.h"

namespace freight::data {

// A color image, u8 (3, H, W), that is changed in place.
struct Planes {
  uint8_t* pixels = nullptr;                        // the first plane
  int64_t rows = 0, columns = 0;                    // H, W
  int64_t plane() const { return rows * columns; }  // pixels of a plane
};

// Blends with black. A factor of 1 keeps the image, 0 returns the other one, above 1 extrapolates.
void adjust_brightness(const Planes& p, float factor);
// Blends with the mean gray, as above.
void adjust_contrast(const Planes& p, float factor);
// Blends with the gray image, as above.
void adjust_saturation(const Planes& p, float factor);
// Blends with a blurred image, as above.
void adjust_sharpness(const Planes& p, float factor, std::vector<uint8_t>& scratch);
// Shifts the hue by `turn`, a fraction of the hue circle from -1/2 to 1/2.
void adjust_hue(const Planes& p, float turn);
// Keeps the upper `bits` (0 to 8) of each value.
void posterize(const Planes& p, int bits);
// Inverts values from `threshold` on.
void solarize(const Planes& p, float threshold);
// Stretches each channel to 0..255.
void autocontrast(const Planes& p);
void equalize(const Planes& p);  // makes the histogram of each channel flat
// The result at (x, y) is the source at (a x + b y + c, d x + e y + f), relative to the point (center_x, center_y) in
// pixels from the upper left corner: the nearest pixel, black outside.
struct AffineMap {
  float a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;  // rows of the map
  float center_x = 0, center_y = 0;                // in pixels
};
void warp(const Planes& p, const AffineMap& map, std::vector<uint8_t>& scratch);  // moves the pixels by the map

// torchvision.transforms.ColorJitter: brightness, contrast and saturation by a factor within 1 +- strength, and a hue
// shift of up to +- hue, in random order.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;                             // strengths; 0: off
  bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }  // whether anything changes
};
void color_jitter(const Planes& p, const ColorJitter& jitter, PhiloxStream& random);  // samples and applies it

// RandAugment (Cubuk et al. 2020), torchvision.transforms.RandAugment with its 14 operations and 31 magnitudes.
inline constexpr int kMagnitudes = 31;  // magnitudes are 0 to 30
// The operations of RandAugment.
enum class AugmentOp {
  identity,  // changes nothing
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize
};
inline constexpr int kAugmentOps = 14;  // their number
// Applies one operation at `magnitude` 0..30; `negative` reverses its direction if it has one.
void apply_augment_op(const Planes& p, AugmentOp op, int magnitude, bool negative, std::vector<uint8_t>& scratch);
// Applies `operations` random operations one after the other.
void rand_augment(const Planes& p, int operations, int magnitude, PhiloxStream& random, std::vector<uint8_t>& scratch);

}  // namespace freight::data
