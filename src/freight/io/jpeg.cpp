// JPEG through libjpeg-turbo, whole or a part of it, at full size or coarser. libjpeg reports errors by a callback that
// must not return: it jumps back into the function of this file that called it, which holds no objects with
// destructors. A file that ends early is an error here, not a gray patch.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>  // needs cstddef and cstdio before it

#include <jerror.h>

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/io/codecs_internal.h"

namespace freight::io {

namespace {
// Each scan of a progressive file goes over all pixels, and a file of some hundred kB may hold thousands of them.
// Encoders write 10 to 20; where an image is small, more do no harm.
constexpr int kUsualScans = 20, kMostScans = 100;
constexpr int64_t kScannedPixels = int64_t{1} << 28;

int most_scans(int64_t pixels) {
  return static_cast<int>(std::clamp<int64_t>(kScannedPixels / std::max<int64_t>(pixels, 1), kUsualScans, kMostScans));
}

struct Decoder {
  jpeg_decompress_struct jpeg{};
  jpeg_progress_mgr progress{};
  jpeg_error_mgr errors{};
  jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = "";
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }
};

void failed(j_common_ptr info) {
  auto* d = static_cast<Decoder*>(info->client_data);
  info->err->format_message(info, d->message);
  longjmp(d->jump, 1);
}
// Level -1 is a warning about damaged data. Missing data is a fault; stray bytes, common in the wild, are not.
void message(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE) failed(info);
}

// Asked after every row of blocks.
void count_scans(j_common_ptr info) {
  auto* d = static_cast<Decoder*>(info->client_data);
  const int most = most_scans(int64_t{d->jpeg.image_height} * d->jpeg.image_width);
  if (d->jpeg.input_scan_number <= most) return;
  std::snprintf(d->message, sizeof d->message, "more than %d scans for an image of this size", most);
  longjmp(d->jump, 1);
}

// Reads the header and chooses the output: gray, RGB, or CMYK where the file is CMYK or YCCK.
bool read_header(Decoder* d, const uint8_t* data, size_t size) {
  if (setjmp(d->jump)) return false;
  jpeg_create_decompress(&d->jpeg);
  d->jpeg.client_data = d;
  d->progress.progress_monitor = count_scans;
  d->jpeg.progress = &d->progress;
  jpeg_mem_src(&d->jpeg, data, size);
  jpeg_read_header(&d->jpeg, TRUE);
  if (d->jpeg.num_components == 1) {
    d->jpeg.out_color_space = JCS_GRAYSCALE;
  } else if (d->jpeg.num_components == 4) {
    d->jpeg.out_color_space = JCS_CMYK;
  } else {
    d->jpeg.out_color_space = JCS_RGB;
  }
  return true;
}

// Starts decoding columns [x, x + columns) or somewhat more: x and columns become what it is.
bool start(Decoder* d, JDIMENSION* x, JDIMENSION* columns) {
  if (setjmp(d->jump)) return false;
  jpeg_start_decompress(&d->jpeg);
  if (*x > 0 || *columns < d->jpeg.output_width) jpeg_crop_scanline(&d->jpeg, x, columns);
  return true;
}

// libjpeg-turbo gives the rows that share a row of colors together, two mostly.
constexpr JDIMENSION kRowsAtOnce = 4;

// Decodes rows [y, y + rows) to `out`, row_bytes apart. What lies above is read, not transformed; what lies below too,
// unless the file is sound, and the last row of all is decoded (libjpeg would otherwise leave the bytes after the last
// wanted row unread, and damage in them unseen).
bool decode(Decoder* d, JDIMENSION y, JDIMENSION rows, bool sound, uint8_t* out, size_t row_bytes) {
  if (setjmp(d->jump)) return false;
  if (y > 0) jpeg_skip_scanlines(&d->jpeg, y);
  while (d->jpeg.output_scanline < y + rows) {
    JSAMPROW next[kRowsAtOnce];
    const JDIMENSION done = d->jpeg.output_scanline - y, n = std::min(kRowsAtOnce, rows - done);
    for (JDIMENSION i = 0; i < n; ++i) next[i] = out + (done + i) * row_bytes;
    jpeg_read_scanlines(&d->jpeg, next, n);
  }
  if (sound) return true;
  if (const JDIMENSION left = d->jpeg.output_height - d->jpeg.output_scanline; left > 0) {
    // The rows to come are read, not transformed.
    for (int i = 0; i < d->jpeg.num_components; ++i) d->jpeg.comp_info[i].component_needed = FALSE;
    if (left > 1) jpeg_skip_scanlines(&d->jpeg, left - 1);
    JSAMPROW spare = out + rows * row_bytes;
    jpeg_read_scanlines(&d->jpeg, &spare, 1);
  }
  jpeg_finish_decompress(&d->jpeg);
  return true;
}

// CMYK is stored inverted, 255 for no ink. Adobe's programs began it and mark such files; browsers, Pillow and
// torchvision read files without the mark in the same way, and so do those who wrote them.
void rgb_of_cmyk(const uint8_t* src, uint8_t* dst, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i, src += 4) {
    for (int c = 0; c < 3; ++c) *dst++ = static_cast<uint8_t>((src[c] * src[3] + 127) / 255);
  }
}

// libjpeg-turbo's fast decoder works while 3 KiB of input lie ahead, hence never on a small file and not at a file's
// end. So a small one is copied with end markers behind it: a file that ends early runs into these, which is an error
// as before.
constexpr size_t kSmallFile = 64 << 10, kAhead = 4 << 10;
ByteView with_ends(ByteView bytes, Bytes& padded) {
  if (bytes.size() > kSmallFile) return bytes;
  if (padded.size() < kSmallFile + kAhead) padded = Bytes(kSmallFile + kAhead);
  std::memcpy(padded.data(), bytes.data(), bytes.size());
  static const std::string kEnds = [] {
    std::string ends;
    while (ends.size() < kAhead) ends += {'\xff', static_cast<char>(JPEG_EOI)};
    return ends;
  }();
  std::memcpy(padded.data() + bytes.size(), kEnds.data(), kAhead);
  return {padded.data(), bytes.size() + kAhead};
}

// Eighths of the full size. Only these have SIMD code in libjpeg-turbo: the others are smaller but slower.
unsigned eighths(double shrink) {
  for (const unsigned n : {1u, 2u, 4u}) {
    if (shrink * n >= 8) return n;
  }
  return 8;
}
}  // namespace

bool is_jpeg(ByteView bytes) { return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff; }

void decode_jpeg(ByteView bytes, const std::string& name, const ChooseRegion& choose, Image& out, ImageRoom& room) {
  Decoder d;
  d.jpeg.err = jpeg_std_error(&d.errors);
  d.errors.error_exit = failed;
  d.errors.emit_message = message;
  d.jpeg.client_data = &d;
  const ByteView input = with_ends(bytes, out.padded);
  if (!read_header(&d, input.data(), input.size())) fail(ErrorKind::data, name, "bad JPEG image: ", d.message);
  const int64_t height = d.jpeg.image_height, width = d.jpeg.image_width;
  check_image_size("JPEG", name, height, width, bytes.size());

  const ImageRegion part = choose(height, width);
  FREIGHT_CHECK(part.y >= 0 && part.x >= 0 && part.rows > 0 && part.columns > 0 && part.y + part.rows <= height &&
                    part.x + part.columns <= width,
                "a part outside of the image");
  const unsigned n = eighths(part.shrink);
  d.jpeg.scale_num = n;
  d.jpeg.scale_denom = 8;
  const auto scaled = [&](int64_t v) { return v * n / 8; };
  // Colors are interpolated between columns: beside the part, they need two more to be those of the whole image.
  constexpr int64_t kMargin = 2;
  const int64_t out_rows = (height * n + 7) / 8, out_columns = (width * n + 7) / 8;
  const int64_t y = scaled(part.y), rows = std::min(out_rows, scaled(part.y + part.rows) + 1) - y;
  // Where there are several scans, the coefficients of all pixels are kept.
  room.take(jpeg_has_multiple_scans(&d.jpeg) ? height * width : std::min(rows * out_columns, height * width));
  auto x = static_cast<JDIMENSION>(std::max<int64_t>(0, scaled(part.x) - kMargin));
  auto columns = static_cast<JDIMENSION>(std::min(out_columns, scaled(part.x + part.columns) + 1 + kMargin) - x);
  if (!start(&d, &x, &columns)) fail(ErrorKind::data, name, "bad JPEG image: ", d.message);

  const bool cmyk = d.jpeg.out_color_space == JCS_CMYK;
  const int64_t stored = cmyk ? 4 : d.jpeg.out_color_space == JCS_RGB ? 3 : 1;
  out.rows = rows;
  out.columns = columns;
  out.channels = cmyk ? 3 : stored;
  out.scale = n / 8.0;
  out.y = static_cast<double>(y);
  out.x = x;
  const auto row_bytes = static_cast<size_t>(out.columns * stored);
  const size_t need = Image::kOffset + row_bytes * static_cast<size_t>(rows + 1);  // and the spare row of decode
  Bytes inks;
  Bytes& target = cmyk ? inks : out.buffer;
  if (target.size() < need) target = Bytes(need);
  if (!decode(&d, static_cast<JDIMENSION>(y), static_cast<JDIMENSION>(rows), part.sound, target.data() + Image::kOffset,
              row_bytes)) {
    fail(ErrorKind::data, name, "bad JPEG image: ", d.message);
  }
  if (d.jpeg.src->next_input_byte > input.data() + bytes.size()) {
    fail(ErrorKind::data, name, "bad JPEG image: the file ends too early");
  }
  if (cmyk) {
    if (out.buffer.size() < need) out.buffer = Bytes(need);  // more than three of four
    rgb_of_cmyk(inks.data() + Image::kOffset, out.buffer.data() + Image::kOffset, rows * out.columns);
  }
}

}  // namespace freight::io
