// The two plain formats: BMP (uncompressed: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits; transparency of the
// later headers is composited on white) and PPM/PGM (P2, P3,
// P5, P6, up to 16 bits). Layouts: Microsoft's BITMAPINFOHEADER to BITMAPV5HEADER and netpbm's ppm(5).
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "freight/base/error.h"
#include "freight/io/codecs_internal.h"
#include "freight/io/little_endian_internal.h"

namespace freight::io {

namespace {
struct Reader {
  ByteView bytes;
  const std::string& name;
  const char* format;

  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(ErrorKind::data, name, "bad ", format, " image: ", parts...);
  }
  uint32_t le(size_t at, size_t size) const {
    if (at > bytes.size() || bytes.size() - at < size) bad("the header is cut off after ", bytes.size(), " bytes");
    return static_cast<uint32_t>(little_endian(bytes.subspan(at, size)));
  }
};

// One color of a 16 or 32 bit pixel: the bits of a mask, scaled to 0..255.
struct Channel {
  uint32_t mask = 0;
  uint8_t of(uint32_t pixel) const {
    if (mask == 0) return 0;
    const int low = std::countr_zero(mask);
    const uint64_t v = (pixel & mask) >> low, top = mask >> low;
    return static_cast<uint8_t>((v * 255 + top / 2) / top);
  }
};

struct BmpHead {
  size_t pixels = 0, palette = 0, color_bytes = 4;  // offsets; bytes per palette entry
  int64_t rows = 0, columns = 0;
  bool top_down = false;
  uint32_t bits = 0, colors = 0;
  Channel rgb[3], alpha;  // no mask: all is opaque
};

BmpHead bmp_head(const Reader& r) {
  BmpHead h;
  h.pixels = r.le(10, 4);
  const uint32_t size = r.le(14, 4);
  uint32_t compression = 0;
  if (size == 12) {
    h.columns = r.le(18, 2);
    h.rows = r.le(20, 2);
    h.bits = r.le(24, 2);
    h.color_bytes = 3;
  } else if (size >= 40) {
    h.columns = static_cast<int32_t>(r.le(18, 4));
    h.rows = static_cast<int32_t>(r.le(22, 4));
    h.bits = r.le(28, 2);
    compression = r.le(30, 4);
    h.colors = r.le(46, 4);
    h.top_down = h.rows < 0;
    h.rows = std::abs(h.rows);
  } else {
    r.bad("unknown header of ", size, " bytes");
  }
  check_image_size("BMP", r.name, h.rows, h.columns, r.bytes.size());
  constexpr uint32_t kPlain = 0, kMasks = 3, kAlphaMasks = 6, kHeadWithAlpha = 56;
  const bool alpha = compression == kAlphaMasks || (compression == kMasks && size >= kHeadWithAlpha);
  if (compression == kAlphaMasks) compression = kMasks;
  if (compression != kPlain && compression != kMasks) {
    r.bad("compressed by method ", compression, ", expected an uncompressed one; save it as PNG");
  }
  const bool depth = h.bits == 1 || h.bits == 4 || h.bits == 8 || h.bits == 16 || h.bits == 24 || h.bits == 32;
  if (!depth || (compression == kMasks && h.bits != 16 && h.bits != 32)) r.bad("got ", h.bits, " bits per pixel");
  h.palette = 14 + size;
  if (compression == kMasks) {
    for (size_t c = 0; c < 3; ++c) h.rgb[c].mask = r.le(54 + 4 * c, 4);
    if (alpha) h.alpha.mask = r.le(54 + 4 * 3, 4);
  } else if (h.bits == 16) {
    for (size_t c = 0; c < 3; ++c) h.rgb[c].mask = 0x1fu << (10 - 5 * c);
  } else if (h.bits == 32) {
    for (size_t c = 0; c < 3; ++c) h.rgb[c].mask = 0xffu << (16 - 8 * c);
  }
  if (h.bits <= 8 && h.colors == 0) h.colors = 1u << h.bits;
  return h;
}

// Numbers of a PPM header and of the text forms, with comments between them.
struct PpmText {
  const Reader& r;
  size_t at = 2;

  uint32_t next() {
    const ByteView b = r.bytes;
    for (;;) {
      while (at < b.size() && (b[at] == ' ' || (b[at] >= '\t' && b[at] <= '\r'))) ++at;
      if (at == b.size() || b[at] != '#') break;
      while (at < b.size() && b[at] != '\n') ++at;
    }
    const size_t first = at;
    uint64_t v = 0;
    while (at < b.size() && b[at] >= '0' && b[at] <= '9' && v <= std::numeric_limits<uint32_t>::max()) {
      v = v * 10 + (b[at++] - '0');
    }
    if (at == first && at == b.size()) r.bad("cut off after ", b.size(), " bytes");
    if (at == first || v > std::numeric_limits<int32_t>::max()) r.bad("no number at byte ", first);
    return static_cast<uint32_t>(v);
  }
};
}  // namespace

bool is_bmp(ByteView bytes) { return bytes.size() >= 2 && bytes[0] == 'B' && bytes[1] == 'M'; }

namespace {
uint32_t pixel_of(const uint8_t* row, size_t column, uint32_t bits) {
  uint32_t pixel = 0;
  std::memcpy(&pixel, row + column * (bits / 8), bits / 8);
  return pixel;
}

// True if some pixel is not transparent. Programs that know no transparency leave its bits 0 throughout: such an image
// is opaque, as browsers take it.
bool has_alpha(const BmpHead& h, const uint8_t* pixels, size_t row_bytes) {
  if (h.alpha.mask == 0) return false;
  for (int64_t y = 0; y < h.rows; ++y) {
    for (int64_t x = 0; x < h.columns; ++x) {
      if (pixel_of(pixels + static_cast<size_t>(y) * row_bytes, static_cast<size_t>(x), h.bits) & h.alpha.mask)
        return true;
    }
  }
  return false;
}
}  // namespace

Array decode_bmp(ByteView bytes, const std::string& name, ImageRoom& room) {
  const Reader r{bytes, name, "BMP"};
  const BmpHead h = bmp_head(r);
  const size_t row_bytes = (static_cast<size_t>(h.columns) * h.bits + 31) / 32 * 4;
  if (h.pixels > bytes.size() || (bytes.size() - h.pixels) / row_bytes < static_cast<size_t>(h.rows)) {
    r.bad("cut off: ", bytes.size(), " bytes, expected ", h.pixels + row_bytes * static_cast<size_t>(h.rows));
  }
  room.take(h.rows * h.columns);
  Array out(DType::u8, {h.rows, h.columns, 3});
  uint8_t* dst = out.data<uint8_t>();
  const bool alpha = has_alpha(h, bytes.data() + h.pixels, row_bytes);
  for (int64_t y = 0; y < h.rows; ++y) {
    const size_t stored = static_cast<size_t>(h.top_down ? y : h.rows - 1 - y);
    const uint8_t* row = bytes.data() + h.pixels + stored * row_bytes;
    for (int64_t x = 0; x < h.columns; ++x, dst += 3) {
      const auto column = static_cast<size_t>(x);
      if (h.bits <= 8) {
        const size_t bit = column * h.bits;
        const uint32_t color = row[bit / 8] >> (8 - h.bits - bit % 8) & ((1u << h.bits) - 1);
        if (color >= h.colors) r.bad("color ", color, " of a palette of ", h.colors);
        const uint32_t bgr = r.le(h.palette + color * h.color_bytes, 3);
        for (int c = 0; c < 3; ++c) dst[c] = static_cast<uint8_t>(bgr >> (16 - 8 * c));
      } else if (h.bits == 24) {
        for (size_t c = 0; c < 3; ++c) dst[c] = row[3 * column + 2 - c];
      } else {
        const uint32_t pixel = pixel_of(row, column, h.bits);
        const unsigned opaque = alpha ? h.alpha.of(pixel) : 255;
        for (int c = 0; c < 3; ++c) {
          dst[c] = static_cast<uint8_t>((h.rgb[c].of(pixel) * opaque + 255 * (255 - opaque) + 127) / 255);
        }
      }
    }
  }
  return out;
}

bool is_netpbm(ByteView bytes) {
  return bytes.size() >= 2 && bytes[0] == 'P' &&
         (bytes[1] == '2' || bytes[1] == '3' || bytes[1] == '5' || bytes[1] == '6');
}

Array decode_netpbm(ByteView bytes, const std::string& name, ImageRoom& room) {
  const Reader r{bytes, name, "PPM"};
  PpmText text{r};
  const int64_t channels = bytes[1] == '3' || bytes[1] == '6' ? 3 : 1;
  const bool binary = bytes[1] >= '5';
  const int64_t columns = text.next(), rows = text.next();
  const uint32_t top = text.next();
  check_image_size("PPM", name, rows, columns, bytes.size());
  if (top < 1 || top > 65535) r.bad("largest value ", top, ", expected 1 to 65535");
  const size_t size = top > 255 ? 2 : 1, first = text.at + 1, left = bytes.size() - std::min(bytes.size(), first);
  const int64_t n = rows * columns * channels;
  // In text a value takes a digit and a blank at least.
  if (left < (binary ? static_cast<size_t>(n) * size : static_cast<size_t>(n) * 2 - 1)) {
    r.bad("cut off: ", left, " bytes of pixels for ", columns, " x ", rows);
  }
  room.take(rows * columns);
  Array out(DType::u8, {rows, columns, channels});
  uint8_t* dst = out.data<uint8_t>();
  const uint8_t* src = bytes.data() + first;
  for (int64_t i = 0; i < n; ++i, src += size) {
    const uint32_t v = !binary ? text.next() : size == 1 ? src[0] : static_cast<uint32_t>(src[0]) << 8 | src[1];
    if (v > top) r.bad("value ", v, " above the largest, ", top);
    dst[i] = static_cast<uint8_t>((v * 255 + top / 2) / top);
  }
  return out;
}

}  // namespace freight::io
