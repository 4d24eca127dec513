// Small JPEG files for tests, written by libjpeg: any color space, subsampling and quality; and an image to put in.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <jpeglib.h>  // needs cstddef and cstdio before it

#include "freight/base/array.h"

namespace freight::testing {

struct JpegSettings {
  J_COLOR_SPACE space = JCS_RGB;  // of the pixels: JCS_GRAYSCALE, JCS_RGB, JCS_CMYK
  int quality = 90;
  int across = 2, down = 2;  // subsampling of the colors
  bool progressive = false;
  bool adobe_marker = true;  // of CMYK
};

// pixels: u8 (H, W, C) with 1, 3 or 4 channels as the color space has.
inline std::string encode_jpeg(const Array& pixels, const JpegSettings& settings = {}) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_height = static_cast<JDIMENSION>(pixels.shape()[0]);
  jpeg.image_width = static_cast<JDIMENSION>(pixels.shape()[1]);
  jpeg.input_components = static_cast<int>(pixels.shape()[2]);
  jpeg.in_color_space = settings.space;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, settings.quality, TRUE);
  if (settings.space == JCS_RGB) {
    jpeg.comp_info[0].h_samp_factor = settings.across;
    jpeg.comp_info[0].v_samp_factor = settings.down;
  }
  if (!settings.adobe_marker) jpeg.write_Adobe_marker = FALSE;
  if (settings.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  const auto row_bytes = static_cast<size_t>(pixels.shape()[1] * pixels.shape()[2]);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = pixels.data<uint8_t>() + jpeg.next_scanline * row_bytes;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string out(reinterpret_cast<const char*>(memory), size);
  std::free(memory);
  return out;
}

// u8 (rows, columns, channels): smooth waves, different in every channel and for every `number`.
inline Array waves(int64_t rows, int64_t columns, int64_t channels = 3, int number = 0) {
  Array a(DType::u8, {rows, columns, channels});
  uint8_t* p = a.data<uint8_t>();
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < columns; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const double v = std::sin(0.11 * static_cast<double>(x * (c + 1)) + number) +
                         std::cos(0.07 * static_cast<double>(y * (c + 2)) + 2.0 * number);
        *p++ = static_cast<uint8_t>(127.5 + 60 * v);
      }
    }
  }
  return a;
}

}  // namespace freight::testing
