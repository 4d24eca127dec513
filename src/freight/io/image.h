// Images: PNG, JPEG and npy in, PNG out. An image is a u8 array (H, W, C) with C 1 (grey) or 3 (RGB).
// Grey stays grey; palettes expand; 16 bits become 8; transparency is composited on white; CMYK becomes RGB.
// Faults are Error(data) that names the file.
#pragma once
#include <string>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::io {

Array load_image(const std::string& path);
// Recognises the format by content. Npy images are (H, W), (H, W, C) or (C, H, W): integers 0..255 or floats 0..1.
Array decode_image(ByteView bytes, const std::string& name);

// image: u8 (H, W), (H, W, 1) or (H, W, 3).
Bytes encode_png(const Array& image);
void save_png(const std::string& path, const Array& image);

// Whether the name ends like an image that load_image reads (.png, .jpg, .jpeg, .npy).
bool is_image_name(const std::string& path);

}  // namespace freight::io
