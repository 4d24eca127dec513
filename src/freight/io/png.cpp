// PNG through libpng, both ways; png_rows.cpp reads the usual kind faster. See image.h.
// libpng reports errors by longjmp: the functions that set the jump hold no objects with destructors.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "freight/base/error.h"
#include "freight/io/codecs_internal.h"

namespace freight::io {

namespace {
constexpr uint8_t kPngMagic[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

struct PngSource {
  ByteView bytes;
  size_t at = 0;
  char message[160] = "";
};

void png_read(png_structp png, png_bytep out, size_t n) {
  auto* s = static_cast<PngSource*>(png_get_io_ptr(png));
  if (n > s->bytes.size() - s->at) png_error(png, "truncated file");
  std::memcpy(out, s->bytes.data() + s->at, n);
  s->at += n;
}
void png_failed(png_structp png, png_const_charp text) {
  auto* s = static_cast<PngSource*>(png_get_error_ptr(png));
  std::snprintf(s->message, sizeof s->message, "%s", text);
  longjmp(png_jmpbuf(png), 1);
}
void png_warned(png_structp, png_const_charp) {}

// Reads everything up to the pixels, with all conversions to 8 bits set up. False on a fault.
bool png_start(png_structp png, png_infop head, PngSource* s) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, s, png_read);
  // Texts and color profiles are not used, and a hundred of them, packed, take a GiB and seconds: they are passed
  // over.
  static constexpr png_byte kUnused[] = "zTXt\0iTXt\0tEXt\0iCCP\0sPLT\0hIST\0pCAL\0sCAL\0eXIf";
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kUnused, static_cast<int>(sizeof kUnused / 5));
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
  png_read_info(png, head);
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, head);
  return true;
}
bool png_pixels(png_structp png, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

struct PngSink {
  std::vector<uint8_t> bytes;
};
void png_write(png_structp png, png_bytep data, size_t n) {
  auto* sink = static_cast<PngSink*>(png_get_io_ptr(png));
  sink->bytes.insert(sink->bytes.end(), data, data + n);
}
bool png_emit(png_structp png, png_infop head, PngSink* sink, const Array* image, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  const Shape& s = image->shape();
  const bool gray = s.rank() == 2 || s[2] == 1;
  png_set_write_fn(png, sink, png_write, nullptr);
  png_set_IHDR(png, head, static_cast<png_uint_32>(s[1]), static_cast<png_uint_32>(s[0]), 8,
               gray ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, head);
  png_write_image(png, rows);
  png_write_end(png, head);
  return true;
}
}  // namespace

bool is_png(ByteView bytes) { return bytes.size() >= 8 && std::equal(kPngMagic, kPngMagic + 8, bytes.begin()); }

namespace {
// Any image. `take` is called with its size before memory is allocated.
Array decode_by_libpng(ByteView bytes, const std::string& name,
                       const std::function<void(int64_t rows, int64_t columns)>& take) {
  PngSource source{bytes};
  struct Handle {
    png_structp png = nullptr;
    png_infop head = nullptr;
    ~Handle() { png_destroy_read_struct(&png, &head, nullptr); }
  } h;
  h.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, png_failed, png_warned);
  if (h.png) h.head = png_create_info_struct(h.png);
  if (!h.head) fail(ErrorKind::runtime, name, "cannot start the PNG reader");
  if (!png_start(h.png, h.head, &source)) fail(ErrorKind::data, name, "bad PNG image: ", source.message);
  const int64_t height = png_get_image_height(h.png, h.head), width = png_get_image_width(h.png, h.head);
  const int stored = png_get_channels(h.png, h.head);  // 1 gray, 2 gray + alpha, 3 RGB, 4 RGBA
  const uint64_t row_bytes = png_get_rowbytes(h.png, h.head);
  take(height, width);
  // One stored bit is the least that a pixel of 8 to 32 bits comes from, before compression.
  if (static_cast<uint64_t>(height) * row_bytes / 32 > bytes.size() * kMaxInflateRatio) {
    fail(ErrorKind::data, name, "bad PNG image: ", width, " x ", height, " pixels in ", bytes.size(), " bytes");
  }
  Bytes pixels(static_cast<size_t>(height) * row_bytes);
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data() + y * row_bytes;
  if (!png_pixels(h.png, rows.data())) fail(ErrorKind::data, name, "bad PNG image: ", source.message);

  const int channels = stored <= 2 ? 1 : 3;
  Array out(DType::u8, {height, width, channels});
  auto* dst = out.data<uint8_t>();
  for (size_t y = 0; y < rows.size(); ++y) {
    const uint8_t* src = rows[y];
    if (stored == channels) {
      std::memcpy(dst, src, static_cast<size_t>(width * channels));
    } else {
      lay_on_white(src, width, channels, dst);
    }
    dst += width * channels;
  }
  return out;
}
}  // namespace

void decode_png(ByteView bytes, const std::string& name, const ChooseRegion& choose, Image& out, ImageRoom& room) {
  bool taken = false;
  const auto take = [&](int64_t rows, int64_t columns) {
    check_image_size("PNG", name, rows, columns, bytes.size());
    if (!std::exchange(taken, true)) room.take(rows * columns);
  };
  if (decode_plain_png(bytes, take, choose, out)) return;
  set_whole(out, decode_by_libpng(bytes, name, take));
  choose(out.rows, out.columns);
}

Bytes encode_png(const Array& image) {
  const Shape& s = image.shape();
  if (image.dtype() != DType::u8 || s.rank() < 2 || s.rank() > 3 || (s.rank() == 3 && s[2] != 1 && s[2] != 3) ||
      s[0] < 1 || s[1] < 1) {
    fail(ErrorKind::usage, "png", "expected u8 (H, W), (H, W, 1) or (H, W, 3), got ", image.dtype(), s);
  }
  const int64_t row = s[1] * (s.rank() == 3 ? s[2] : 1);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < s[0]; ++y) rows.push_back(image.data<uint8_t>() + y * row);
  PngSource fault{};
  struct Handle {
    png_structp png = nullptr;
    png_infop head = nullptr;
    ~Handle() { png_destroy_write_struct(&png, &head); }
  } h;
  h.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &fault, png_failed, png_warned);
  if (h.png) h.head = png_create_info_struct(h.png);
  PngSink sink;
  if (!h.head || !png_emit(h.png, h.head, &sink, &image, rows.data())) {
    fail(ErrorKind::runtime, "png", "cannot encode ", s, ": ", fault.message);
  }
  Bytes out(sink.bytes.size());
  std::copy(sink.bytes.begin(), sink.bytes.end(), out.data());
  return out;
}

}  // namespace freight::io
