// JPEG through libjpeg-turbo. libjpeg reports errors by a callback that must not return: it jumps back into
// `run_decoder`, which holds no objects with destructors. A file that ends early is an error here, not a grey patch.
#include "freight/io/jpeg_internal.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>  // needs cstddef and cstdio before it

#include <jerror.h>

#include "freight/base/error.h"

namespace freight::io {

namespace {
constexpr int64_t kMaxPixels = int64_t{1} << 27;

struct Decoder {
  jpeg_decompress_struct jpeg{};
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

// Reads the header and chooses the output: grey, RGB, or CMYK where the file is CMYK or YCCK.
bool start(Decoder* d, const uint8_t* data, size_t size) {
  if (setjmp(d->jump)) return false;
  jpeg_create_decompress(&d->jpeg);
  d->jpeg.client_data = d;
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
// Decodes all rows to `out`, row_bytes apart.
bool decode(Decoder* d, uint8_t* out, size_t row_bytes) {
  if (setjmp(d->jump)) return false;
  jpeg_start_decompress(&d->jpeg);
  while (d->jpeg.output_scanline < d->jpeg.output_height) {
    JSAMPROW row = out + d->jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&d->jpeg, &row, 1);
  }
  jpeg_finish_decompress(&d->jpeg);
  return true;
}
}  // namespace

Array decode_jpeg(ByteView bytes, const std::string& name) {
  Decoder d;
  d.jpeg.err = jpeg_std_error(&d.errors);
  d.errors.error_exit = failed;
  d.errors.emit_message = message;
  d.jpeg.client_data = &d;
  if (!start(&d, bytes.data(), bytes.size())) fail(ErrorKind::data, name, "bad JPEG image: ", d.message);
  const int64_t height = d.jpeg.image_height, width = d.jpeg.image_width;
  if (height * width > kMaxPixels) {
    fail(ErrorKind::data, name, "bad JPEG image: ", width, " x ", height, " pixels, the limit is ", kMaxPixels);
  }
  const bool cmyk = d.jpeg.out_color_space == JCS_CMYK;
  const int64_t stored = cmyk ? 4 : d.jpeg.out_color_space == JCS_RGB ? 3 : 1;
  Bytes pixels(static_cast<size_t>(height * width * stored));
  if (!decode(&d, pixels.data(), static_cast<size_t>(width * stored))) {
    fail(ErrorKind::data, name, "bad JPEG image: ", d.message);
  }
  Array out(DType::u8, {height, width, cmyk ? 3 : stored});
  auto* dst = out.data<uint8_t>();
  if (!cmyk) {
    if (pixels.size() > 0) std::memcpy(dst, pixels.data(), pixels.size());
    return out;
  }
  // Adobe's programs store CMYK inverted (255 = no ink) and mark it; without the mark 255 is full ink.
  const int flip = d.jpeg.saw_Adobe_marker ? 0 : 255;
  const uint8_t* src = pixels.data();
  for (int64_t i = 0; i < height * width; ++i, src += 4) {
    const int light = src[3] ^ flip;
    for (int c = 0; c < 3; ++c) *dst++ = static_cast<uint8_t>(((src[c] ^ flip) * light + 127) / 255);
  }
  return out;
}

}  // namespace freight::io
