// Internal to io/image: one decoder per format, each in a file of its own. All take bytes and a name for messages, give
// u8 (H, W, C) with C 1 or 3, and throw Error(data).
#pragma once
#include <string>

#include "freight/base/array.h"
#include "freight/io/file.h"
#include "freight/io/image.h"

namespace freight::io {

inline constexpr int64_t kMaxPixels = int64_t{1} << 27;

bool is_png(ByteView bytes);
bool is_jpeg(ByteView bytes);
bool is_bmp(ByteView bytes);
bool is_netpbm(ByteView bytes);
bool is_webp(ByteView bytes);
bool is_gif(ByteView bytes);
bool is_tiff(ByteView bytes);

// They take `room` before they allocate pixels.
Array decode_bmp(ByteView bytes, const std::string& name, ImageRoom& room);
Array decode_netpbm(ByteView bytes, const std::string& name, ImageRoom& room);
Array decode_gif(ByteView bytes, const std::string& name, ImageRoom& room);
Array decode_tiff(ByteView bytes, const std::string& name, ImageRoom& room);
// These leave out what is not wanted: see decode_part in image.h.
void decode_jpeg(ByteView bytes, const std::string& name, const ChooseRegion& choose, Image& out, ImageRoom& room);
void decode_png(ByteView bytes, const std::string& name, const ChooseRegion& choose, Image& out, ImageRoom& room);
void decode_webp(ByteView bytes, const std::string& name, const ChooseRegion& choose, Image& out, ImageRoom& room);
// PNG of the usual kind, without libpng; false for any other file, of which it says nothing. Calls `take` with the size
// before it allocates, and `choose` when it is certain to succeed.
bool decode_plain_png(ByteView bytes, const std::function<void(int64_t rows, int64_t columns)>& take,
                      const ChooseRegion& choose, Image& out);

// Makes `out` an image that was decoded whole.
void set_whole(Image& out, Array pixels);
// Composites pixels on white: (pixels, channels + 1), the last of which is alpha, to (pixels, channels).
void lay_on_white(const uint8_t* src, int64_t pixels, int64_t channels, uint8_t* dst);

// Throws Error(data) for images that are empty or have more than kMaxPixels pixels. `format` starts the complaint.
void check_image_size(const char* format, const std::string& name, int64_t rows, int64_t columns, size_t bytes);

}  // namespace freight::io
