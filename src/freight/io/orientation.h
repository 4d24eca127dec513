// How a camera was held, as EXIF says it (JPEG, PNG and WebP hold such data, TIFF a tag), and turning an image
// accordingly.
#pragma once
#include <cstdint>
#include <string>

#include "freight/io/file.h"

namespace freight::io {

// Decides if an image is turned as its EXIF data say, or taken as its pixels lie in the file.
enum class Orientation { exif, ignore };
const char* to_string(Orientation orientation);                     // "exif", "ignore"
bool parse_orientation(const std::string& name, Orientation& out);  // false for another word

// How the pixels that are stored become the upright image: pixel (r, c) of it is the stored pixel (r, c), swapped to
// (c, r) where `transposed`, then counted from the last row or column where that is flipped.
struct Turn {
  bool transposed = false, flip_rows = false, flip_columns = false;     // applied in this order
  bool any() const { return transposed || flip_rows || flip_columns; }  // false where nothing turns
};
// The turn that the file's EXIF data ask for; none where there are none, or where they are damaged.
Turn exif_turn(ByteView bytes);

// src: (H, W, C) as stored; dst: (H, W, C), or (W, H, C) where transposed.
void turn_pixels(const uint8_t* src, int64_t rows, int64_t columns, int64_t channels, const Turn& turn, uint8_t* dst);

}  // namespace freight::io
