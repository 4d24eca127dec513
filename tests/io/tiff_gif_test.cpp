// TIFF and GIF: each layout that their libraries write is read as what was written; damaged files, false sizes, and
// images that are named since they are not read.
#include <gif_lib.h>
#include <gtest/gtest.h>
#include <tiffio.h>

#include <algorithm>
#include <vector>

#include "freight/io/codecs_internal.h"
#include "freight/io/image.h"
#include "tests/support/files.h"
#include "tests/support/jpeg.h"

namespace freight::io {
namespace {
using namespace freight::testing;

// A TIFF as the test wants it.
struct Tiff {
  const char* name;
  int photometric = PHOTOMETRIC_RGB, bits = 8, samples = 3;
  int extra = -1;  // what the last sample is: EXTRASAMPLE_...
  bool planes_apart = false, tiled = false, big_endian = false, big_tiff = false;
  int compression = COMPRESSION_NONE;
  int orientation = 0;
};
// libtiff 4.5 refuses uncompressed tiles of less than 1024 bytes, the least that its buffers have.
constexpr int kRows = 21, kColumns = 37, kTile = 32;

// Sample s of pixel (y, x), 0 to 255; in 16 bits 257 times that.
int level(int y, int x, int s) { return (y * 11 + x * 5 + s * 60) % 256; }

void put_sample(const Tiff& t, std::vector<uint8_t>& row, size_t at, int value) {
  if (t.bits == 16) {
    reinterpret_cast<uint16_t*>(row.data())[at] = static_cast<uint16_t>(value * 257);
  } else {
    row[at] = static_cast<uint8_t>(value);
  }
}

std::string tiff_of(const Tiff& t, const TemporaryDir& dir) {
  const std::string path = dir / "written.tif";
  TIFF* const file = TIFFOpen(path.c_str(), t.big_tiff ? "w8" : t.big_endian ? "wb" : "wl");
  TIFFSetField(file, TIFFTAG_IMAGEWIDTH, kColumns);
  TIFFSetField(file, TIFFTAG_IMAGELENGTH, kRows);
  TIFFSetField(file, TIFFTAG_BITSPERSAMPLE, t.bits);
  TIFFSetField(file, TIFFTAG_SAMPLESPERPIXEL, t.samples);
  TIFFSetField(file, TIFFTAG_PHOTOMETRIC, t.photometric);
  TIFFSetField(file, TIFFTAG_COMPRESSION, t.compression);
  TIFFSetField(file, TIFFTAG_PLANARCONFIG, t.planes_apart ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  if (t.orientation > 0) TIFFSetField(file, TIFFTAG_ORIENTATION, t.orientation);
  if (t.extra >= 0) {
    const auto kind = static_cast<uint16_t>(t.extra);
    TIFFSetField(file, TIFFTAG_EXTRASAMPLES, 1, &kind);
  }
  std::vector<uint16_t> palette[3];
  if (t.photometric == PHOTOMETRIC_PALETTE) {
    for (int c = 0; c < 3; ++c) {
      for (int i = 0; i < 256; ++i) palette[c].push_back(static_cast<uint16_t>((i * (c + 1)) % 256 * 257));
    }
    TIFFSetField(file, TIFFTAG_COLORMAP, palette[0].data(), palette[1].data(), palette[2].data());
  }
  const int together = t.planes_apart ? 1 : t.samples, planes = t.planes_apart ? t.samples : 1;
  const int block_rows = t.tiled ? kTile : 5, block_columns = t.tiled ? kTile : kColumns;
  if (t.tiled) {
    TIFFSetField(file, TIFFTAG_TILEWIDTH, kTile);
    TIFFSetField(file, TIFFTAG_TILELENGTH, kTile);
  } else {
    TIFFSetField(file, TIFFTAG_ROWSPERSTRIP, block_rows);
  }
  uint32_t number = 0;
  for (int plane = 0; plane < planes; ++plane) {
    for (int top = 0; top < kRows; top += block_rows) {
      for (int left = 0; left < kColumns; left += block_columns) {
        const int rows = t.tiled ? kTile : std::min(block_rows, kRows - top);
        std::vector<uint8_t> block(static_cast<size_t>(rows * block_columns * together * t.bits / 8));
        size_t at = 0;
        for (int y = 0; y < rows; ++y) {
          for (int x = 0; x < block_columns; ++x) {
            for (int s = 0; s < together; ++s) put_sample(t, block, at++, level(top + y, left + x, plane + s));
          }
        }
        const auto size = static_cast<tmsize_t>(block.size());
        const tmsize_t wrote = t.tiled ? TIFFWriteEncodedTile(file, number++, block.data(), size)
                                       : TIFFWriteEncodedStrip(file, number++, block.data(), size);
        EXPECT_EQ(wrote, size) << t.name;
      }
    }
  }
  TIFFClose(file);
  return read_text(path);
}

// The pixel that such a file shows.
std::vector<int> shown(const Tiff& t, int y, int x) {
  const auto s = [&](int i) { return level(y, x, i); };
  switch (t.photometric) {
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_MINISWHITE: {
      int v = t.photometric == PHOTOMETRIC_MINISBLACK ? s(0) : 255 - s(0);
      if (t.extra == EXTRASAMPLE_UNASSALPHA) v = (v * s(1) + 255 * (255 - s(1)) + 127) / 255;
      return {v};
    }
    case PHOTOMETRIC_PALETTE: return {s(0), s(0) * 2 % 256, s(0) * 3 % 256};
    case PHOTOMETRIC_SEPARATED: {
      const int k = 255 - s(3);
      return {(255 - s(0)) * k / 255, (255 - s(1)) * k / 255, (255 - s(2)) * k / 255};
    }
    default: break;
  }
  std::vector<int> rgb;
  for (int c = 0; c < 3; ++c) {
    rgb.push_back(t.extra == EXTRASAMPLE_UNASSALPHA ? (s(c) * s(3) + 255 * (255 - s(3)) + 127) / 255 : s(c));
  }
  return rgb;
}

const std::vector<Tiff>& tiffs() {
  static const std::vector<Tiff> kAll = {
      {"rgb"},
      {"rgb_lzw", PHOTOMETRIC_RGB, 8, 3, -1, false, false, false, false, COMPRESSION_LZW},
      {"rgb_deflate", PHOTOMETRIC_RGB, 8, 3, -1, false, false, false, false, COMPRESSION_ADOBE_DEFLATE},
      {"rgb_packbits", PHOTOMETRIC_RGB, 8, 3, -1, false, false, false, false, COMPRESSION_PACKBITS},
      {"rgb_16", PHOTOMETRIC_RGB, 16},
      {"rgb_16_big_endian", PHOTOMETRIC_RGB, 16, 3, -1, false, false, true},
      {"rgb_big_tiff", PHOTOMETRIC_RGB, 8, 3, -1, false, false, false, true},
      {"rgb_planes", PHOTOMETRIC_RGB, 8, 3, -1, true},
      {"rgb_tiles", PHOTOMETRIC_RGB, 8, 3, -1, false, true, false, false, COMPRESSION_LZW},
      {"rgb_tiles_of_planes_16", PHOTOMETRIC_RGB, 16, 3, -1, true, true},
      {"rgba", PHOTOMETRIC_RGB, 8, 4, EXTRASAMPLE_UNASSALPHA},
      {"rgba_16", PHOTOMETRIC_RGB, 16, 4, EXTRASAMPLE_UNASSALPHA},
      {"grey", PHOTOMETRIC_MINISBLACK, 8, 1},
      {"grey_white_is_zero", PHOTOMETRIC_MINISWHITE, 8, 1},
      {"grey_16", PHOTOMETRIC_MINISBLACK, 16, 1},
      {"grey_16_white_is_zero", PHOTOMETRIC_MINISWHITE, 16, 1},
      {"grey_16_tiles", PHOTOMETRIC_MINISBLACK, 16, 1, -1, false, true, true},
      {"grey_alpha", PHOTOMETRIC_MINISBLACK, 8, 2, EXTRASAMPLE_UNASSALPHA},
      {"grey_alpha_16", PHOTOMETRIC_MINISBLACK, 16, 2, EXTRASAMPLE_UNASSALPHA},
      {"palette", PHOTOMETRIC_PALETTE, 8, 1},
      {"cmyk", PHOTOMETRIC_SEPARATED, 8, 4},
      {"cmyk_planes", PHOTOMETRIC_SEPARATED, 8, 4, -1, true},
  };
  return kAll;
}

TEST(Tiff, EveryLayoutIsReadAsItWasWritten) {
  const TemporaryDir dir;
  for (const Tiff& t : tiffs()) {
    SCOPED_TRACE(t.name);
    const Array image = decode_image(bytes_of(tiff_of(t, dir)), "a.tif");
    const auto channels = static_cast<int64_t>(shown(t, 0, 0).size());
    ASSERT_EQ(image.shape(), (Shape{kRows, kColumns, channels}));
    int worst = 0;
    const auto* at = image.data<uint8_t>();
    for (int y = 0; y < kRows; ++y) {
      for (int x = 0; x < kColumns; ++x) {
        for (const int want : shown(t, y, x)) worst = std::max(worst, std::abs(*at++ - want));
      }
    }
    // Products with alpha or black are rounded twice in 16 bits, and cut off for CMYK.
    EXPECT_LE(worst, t.extra >= 0 || t.photometric == PHOTOMETRIC_SEPARATED ? 1 : 0);
  }
}

// 16 bits are rounded to 8, as those of a PNG are.
TEST(Tiff, SixteenBitsAreRounded) {
  const TemporaryDir dir;
  Tiff grey{"grey_16", PHOTOMETRIC_MINISBLACK, 16, 1};
  std::string file = tiff_of(grey, dir);
  const uint16_t values[] = {0, 127, 128, 129, 255, 65535 - 129, 65535 - 128, 65535};
  const int want[] = {0, 0, 0, 1, 1, 254, 255, 255};
  const size_t first = 8;  // strips follow the header
  ASSERT_EQ(decode_image(bytes_of(file), "a.tif").data<uint8_t>()[0], level(0, 0, 0));
  for (size_t i = 0; i < std::size(values); ++i) file.replace(first + 2 * i, 2, le(values[i], 2));
  const Array image = decode_image(bytes_of(file), "a.tif");
  for (size_t i = 0; i < std::size(values); ++i) EXPECT_EQ(image.data<uint8_t>()[i], want[i]) << values[i];
}

// The tag means what EXIF's does, and is obeyed or ignored as that is.
TEST(Tiff, TheOrientationTagTurnsAPicture) {
  const TemporaryDir dir;
  for (const bool big : {false, true}) {
    Tiff t{"turned"};
    t.big_tiff = big;
    const Array plain = decode_image(bytes_of(tiff_of(t, dir)), "a.tif");
    for (int tag = 1; tag <= 8; ++tag) {
      t.orientation = tag;
      const std::string file = tiff_of(t, dir);
      const Array stored = decode_image(bytes_of(file), "a.tif", Orientation::ignore);
      EXPECT_EQ(stored.to_vector<int>(), plain.to_vector<int>()) << tag;
      const Array upright = decode_image(bytes_of(file), "a.tif");
      ASSERT_EQ(upright.shape(), tag > 4 ? (Shape{kColumns, kRows, 3}) : (Shape{kRows, kColumns, 3})) << tag;
      // Where the stored image's first pixel lies now.
      const bool last_row = tag == 3 || tag == 4 || tag == 7 || tag == 8;
      const bool last_column = tag == 2 || tag == 3 || tag == 6 || tag == 7;
      const int64_t y = last_row ? upright.shape()[0] - 1 : 0, x = last_column ? upright.shape()[1] - 1 : 0;
      for (int c = 0; c < 3; ++c) {
        EXPECT_EQ(upright.data<uint8_t>()[(y * upright.shape()[1] + x) * 3 + c], plain.data<uint8_t>()[c]) << tag;
      }
    }
  }
}

TEST(Tiff, TruncatedFilesAreRefused) {
  const TemporaryDir dir;
  for (const Tiff& t : tiffs()) {
    const std::string good = tiff_of(t, dir);
    for (size_t n = 0; n < good.size(); n += std::max<size_t>(1, good.size() / 23)) {
      SCOPED_TRACE(cat(t.name, ", ", n, " of ", good.size(), " bytes"));
      expect_error(ErrorKind::data, {"cut.tif"}, [&] { decode_image(bytes_of(good.substr(0, n)), "cut.tif"); });
    }
  }
}

TEST(Tiff, WhatIsNotReadIsSaid) {
  const TemporaryDir dir;
  const Tiff grey{"grey_16", PHOTOMETRIC_MINISBLACK, 16, 1};
  std::string file = tiff_of(grey, dir);
  TIFF* const tiff = TIFFOpen((dir / "written.tif").c_str(), "r+");
  TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_INT);
  TIFFRewriteDirectory(tiff);
  TIFFClose(tiff);
  expect_error(ErrorKind::data, {"signed.tif", "signed integers", "save it with 8 or 16 bits"},
               [&] { decode_image(bytes_of(read_text(dir / "written.tif")), "signed.tif"); });
}

// A GIF: frames of one palette each, of which the first may be interlaced, transparent, or smaller than the canvas.
struct Gif {
  int frames = 1;
  bool interlaced = false;
  int transparent = NO_TRANSPARENT_COLOR;
  int left = 0, top = 0;
};
int index_at(int y, int x) { return (y * 3 + x) % 8; }
GifColorType colour_of(int i) {
  return {static_cast<GifByteType>(i * 30), static_cast<GifByteType>(255 - i * 20), static_cast<GifByteType>(i)};
}

int append_bytes(GifFileType* file, const GifByteType* bytes, int n) {
  static_cast<std::string*>(file->UserData)->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
  return n;
}

std::string gif_of(const Gif& g) {
  constexpr int kRowsOf = 13, kColumnsOf = 10;
  std::string out;
  int error = 0;
  GifFileType* const file = EGifOpen(&out, append_bytes, &error);
  GifColorType colours[8];
  for (int i = 0; i < 8; ++i) colours[i] = colour_of(i);
  ColorMapObject* const map = GifMakeMapObject(8, colours);
  EGifSetGifVersion(file, true);
  EGifPutScreenDesc(file, kColumnsOf + g.left, kRowsOf + g.top, 8, 0, map);
  for (int f = 0; f < g.frames; ++f) {
    GraphicsControlBlock control{};
    control.TransparentColor = g.transparent;
    GifByteType block[4];
    EGifGCBToExtension(&control, block);
    EGifPutExtension(file, GRAPHICS_EXT_FUNC_CODE, 4, block);
    EGifPutImageDesc(file, g.left, g.top, kColumnsOf, kRowsOf, g.interlaced, nullptr);
    const auto line = [&](int y) {
      GifPixelType row[kColumnsOf];
      for (int x = 0; x < kColumnsOf; ++x) row[x] = static_cast<GifPixelType>((index_at(y, x) + f) % 8);
      EGifPutLine(file, row, kColumnsOf);
    };
    if (g.interlaced) {
      constexpr int kFirst[] = {0, 4, 2, 1}, kEvery[] = {8, 8, 4, 2};
      for (int pass = 0; pass < 4; ++pass) {
        for (int y = kFirst[pass]; y < kRowsOf; y += kEvery[pass]) line(y);
      }
    } else {
      for (int y = 0; y < kRowsOf; ++y) line(y);
    }
  }
  EGifCloseFile(file, &error);
  GifFreeMapObject(map);
  return out;
}

TEST(Gif, TheFirstFrameIsReadOnItsCanvas) {
  const Gif kGifs[] = {{},
                       {.interlaced = true},
                       {.frames = 3},
                       {.transparent = 5},
                       {.left = 4, .top = 2},
                       {.frames = 2, .interlaced = true, .transparent = 0, .left = 1, .top = 7}};
  for (const Gif& g : kGifs) {
    SCOPED_TRACE(cat(g.frames, " ", g.interlaced, " ", g.transparent, " ", g.left));
    const Array image = decode_image(bytes_of(gif_of(g)), "a.gif");
    ASSERT_EQ(image.shape(), (Shape{13 + g.top, 10 + g.left, 3}));
    const auto* at = image.data<uint8_t>();
    for (int y = 0; y < 13 + g.top; ++y) {
      for (int x = 0; x < 10 + g.left; ++x, at += 3) {
        GifColorType want{255, 255, 255};
        const int index = y >= g.top && x >= g.left ? index_at(y - g.top, x - g.left) : g.transparent;
        if (index != g.transparent) want = colour_of(index);
        EXPECT_EQ((std::vector<int>{at[0], at[1], at[2]}), (std::vector<int>{want.Red, want.Green, want.Blue}))
            << y << " " << x;
      }
    }
  }
}

TEST(Gif, TruncatedFilesAreRefused) {
  const std::string good = gif_of({.interlaced = true});
  for (size_t n = 0; n + 2 < good.size(); ++n) {  // the last two end the pixels, and the file
    expect_error(ErrorKind::data, {"cut.gif"}, [&] { decode_image(bytes_of(good.substr(0, n)), "cut.gif"); });
  }
}

TEST(Gif, FalseSizesAndColorsAreRefused) {
  std::string huge = gif_of({});
  huge.replace(6, 4, std::string("\xff\xff\xff\xff", 4));
  expect_error(ErrorKind::data, {"huge.gif", "65535 x 65535", "expected 1 to 134217728 pixels"},
               [&] { decode_image(bytes_of(huge), "huge.gif"); });
  expect_error(ErrorKind::data, {"none.gif", "no frame"}, [] {
    const std::string head = gif_of({}).substr(0, 13 + 24);
    decode_image(bytes_of(head + ";"), "none.gif");
  });
}

TEST(Image, FormatsThatAreNotReadAreNamed) {
  const std::pair<std::string, const char*> kFiles[] = {
      {std::string("\0\0\0\x18"
                   "ftypheic",
                   12),
       "HEIC"},
      {std::string("\0\0\0\x1c"
                   "ftypavif",
                   12),
       "AVIF"},
      {"<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>", "SVG"},
      {"<!DOCTYPE html><html>404", "an HTML page"},
      {"8BPS....", "PSD"},
      {"hello", "none of the formats"}};
  for (const auto& [content, format] : kFiles) {
    expect_error(ErrorKind::data, {"a.jpg", cat("got ", format), "expected PNG, JPEG, WebP, GIF, TIFF"},
                 [&, content = content] { decode_image(bytes_of(content), "a.jpg"); });
  }
}

TEST(Image, FilesThatAreNotReadAreCountedByTheirEndings) {
  EXPECT_EQ(count_by_ending({"a/x.HEIC", "b.heic", "c.svg", "d.txt", "e.txt", "f.txt", "a.b/README"}),
            "2 .heic, 1 .svg (formats of images that are not read: convert them to PNG or JPEG), 3 .txt, 1 without an "
            "ending");
  EXPECT_EQ(count_by_ending({"a.avif"}), "1 .avif (a format of images that is not read: convert them to PNG or JPEG)");
  for (const char* name : {"a.gif", "a.TIF", "b.tiff", "c.pgm", "d.jfif"}) EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"a.heic", "a.txt", "gif", ".gif"}) EXPECT_FALSE(is_image_name(name)) << name;
}

}  // namespace
}  // namespace freight::io
