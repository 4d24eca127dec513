// WebP through libwebp, lossy and lossless, whole or a part of it; no animations. Transparency is composited on white.
#include <webp/decode.h>

#include <algorithm>

#include "freight/base/error.h"
#include "freight/io/codecs_internal.h"

namespace freight::io {

bool is_webp(ByteView bytes) {
  const auto has = [&](size_t at, const char* text) { return std::equal(text, text + 4, bytes.begin() + at); };
  return bytes.size() >= 12 && has(0, "RIFF") && has(8, "WEBP");
}

void decode_webp(ByteView bytes, const std::string& name, const ChooseRegion& choose, Image& out, ImageRoom& room) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) fail(ErrorKind::runtime, name, "libwebp is of another version than its header");
  WebPBitstreamFeatures& features = config.input;
  if (WebPGetFeatures(bytes.data(), bytes.size(), &features) != VP8_STATUS_OK) {
    fail(ErrorKind::data, name, "bad WebP image: the header is damaged or truncated");
  }
  if (features.has_animation) fail(ErrorKind::data, name, "bad WebP image: expected a single image, got an animation");
  const int64_t rows = features.height, columns = features.width;
  check_image_size("WebP", name, rows, columns, bytes.size());
  room.take(rows * columns);

  ImageRegion part = choose(rows, columns);
  // Without the rows below a part, damage in them would not be seen.
  if (!part.sound) part = {.rows = rows, .columns = columns};
  // Colors are interpolated between pixels, and stored for every other one.
  constexpr int64_t kMargin = 2;
  const auto begin = [](int64_t first) { return std::max<int64_t>(0, first - kMargin) & ~int64_t{1}; };
  const int64_t y = begin(part.y), x = begin(part.x);
  out.rows = std::min(rows, part.y + part.rows + kMargin) - y;
  out.columns = std::min(columns, part.x + part.columns + kMargin) - x;
  out.channels = 3;
  out.scale = 1;
  out.y = static_cast<double>(y);
  out.x = static_cast<double>(x);
  config.options.use_cropping = 1;
  config.options.crop_top = static_cast<int>(y);
  config.options.crop_left = static_cast<int>(x);
  config.options.crop_height = static_cast<int>(out.rows);
  config.options.crop_width = static_cast<int>(out.columns);

  const int64_t stored = features.has_alpha ? 4 : 3;
  const auto bytes_of = [&](int64_t channels) { return static_cast<size_t>(out.rows * out.columns * channels); };
  Bytes& target = features.has_alpha ? out.spare : out.buffer;
  for (Bytes* b : {&out.buffer, &target}) {
    if (const size_t need = Image::kOffset + bytes_of(stored); b->size() < need) *b = Bytes(need);
  }
  config.output.colorspace = features.has_alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = target.data() + Image::kOffset;
  config.output.u.RGBA.stride = static_cast<int>(out.columns * stored);
  config.output.u.RGBA.size = bytes_of(stored);
  if (WebPDecode(bytes.data(), bytes.size(), &config) != VP8_STATUS_OK) {
    fail(ErrorKind::data, name, "bad WebP image: the data is damaged or truncated");
  }
  if (features.has_alpha) {
    lay_on_white(target.data() + Image::kOffset, out.rows * out.columns, 3, out.buffer.data() + Image::kOffset);
  }
}

}  // namespace freight::io
