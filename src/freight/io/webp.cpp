// WebP through libwebp, lossy and lossless; of an animation, which is no image, nothing. Transparency is composited
// on white.
#include <webp/decode.h>

#include <algorithm>

#include "freight/base/error.h"
#include "freight/io/codecs_internal.h"

namespace freight::io {

bool is_webp(ByteView bytes) {
  const auto has = [&](size_t at, const char* text) { return std::equal(text, text + 4, bytes.begin() + at); };
  return bytes.size() >= 12 && has(0, "RIFF") && has(8, "WEBP");
}

Array decode_webp(ByteView bytes, const std::string& name, ImageRoom& room) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes.data(), bytes.size(), &features) != VP8_STATUS_OK) {
    fail(ErrorKind::data, name, "bad WebP image: the header is damaged or truncated");
  }
  if (features.has_animation) fail(ErrorKind::data, name, "bad WebP image: expected a single image, got an animation");
  const int64_t rows = features.height, columns = features.width;
  check_image_size("WebP", name, rows, columns, bytes.size());
  room.take(rows * columns);
  Array out(DType::u8, {rows, columns, 3});
  const auto damaged = [&] { fail(ErrorKind::data, name, "bad WebP image: the data is damaged or truncated"); };
  if (!features.has_alpha) {
    if (!WebPDecodeRGBInto(bytes.data(), bytes.size(), out.data<uint8_t>(), out.bytes(), static_cast<int>(3 * columns)))
      damaged();
    return out;
  }
  Bytes rgba(static_cast<size_t>(rows * columns) * 4);
  if (!WebPDecodeRGBAInto(bytes.data(), bytes.size(), rgba.data(), rgba.size(), static_cast<int>(4 * columns)))
    damaged();
  const uint8_t* src = rgba.data();
  uint8_t* dst = out.data<uint8_t>();
  for (int64_t i = 0; i < rows * columns; ++i, src += 4) {
    for (int c = 0; c < 3; ++c) *dst++ = static_cast<uint8_t>((src[c] * src[3] + 255 * (255 - src[3]) + 127) / 255);
  }
  return out;
}

}  // namespace freight::io
