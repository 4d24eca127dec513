// Images: PNG variants, JPEG whole and in parts, WebP, BMP, PPM, npy, and damaged files.
#include "freight/io/image.h"

#include <gtest/gtest.h>
#include <png.h>
#include <webp/encode.h>

#include <atomic>
#include <chrono>
#include <list>
#include <thread>

#include "freight/io/npy.h"
#include "tests/support/files.h"
#include "tests/support/jpeg.h"

namespace freight::io {
namespace {
using namespace freight::testing;

Array ramp(const Shape& shape) {
  Array a(DType::u8, shape);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
  return a;
}

TEST(Image, PngRoundTripsGrayAndColor) {
  const TemporaryDir dir;
  for (const Shape& shape : {Shape{5, 9, 1}, Shape{5, 9, 3}, Shape{1, 1, 3}}) {
    const Array a = ramp(shape);
    save_png(dir / "a.png", a);
    const Array b = load_image(dir / "a.png");
    EXPECT_EQ(b.shape(), shape);
    EXPECT_EQ(b.to_vector<int>(), a.to_vector<int>());
  }
  EXPECT_EQ(decode_image(encode_png(ramp({4, 6})), "x").shape(), (Shape{4, 6, 1}));
}

TEST(Image, NpyImagesMayBePlanesOrFloats) {
  const TemporaryDir dir;
  save_npy(dir / "p.npy", ramp({3, 2, 5}));
  const Array p = load_image(dir / "p.npy");
  EXPECT_EQ(p.shape(), (Shape{2, 5, 3}));
  EXPECT_EQ(p.data<uint8_t>()[1], static_cast<uint8_t>(10 * 7));  // plane 1, pixel 0
  save_npy(dir / "f.npy", Array::of<float>({0.0f, 0.5f, 1.0f, 0.25f}, {2, 2}));
  EXPECT_EQ(load_image(dir / "f.npy").to_vector<int>(), (std::vector<int>{0, 128, 255, 64}));
  for (const Shape& none : {Shape{0, 28}, Shape{28, 0, 3}, Shape{3, 0, 5}}) {
    save_npy(dir / "n.npy", Array(DType::u8, none));
    expect_error(ErrorKind::data, {"n.npy", "no pixels"}, [&] { load_image(dir / "n.npy"); });
  }
  save_npy(dir / "g.npy", Array::of<float>({0.0f, 7.0f}, {1, 2}));
  expect_error(ErrorKind::data, {"g.npy", "element 1 is 7"}, [&] { load_image(dir / "g.npy"); });
  save_npy(dir / "h.npy", ramp({2, 2, 2, 2}));
  expect_error(ErrorKind::data, {"h.npy", "[2,2,2,2]"}, [&] { load_image(dir / "h.npy"); });
}

TEST(Image, EveryTruncationOfAPngIsRefused) {
  const std::string good = text_of(encode_png(ramp({6, 6, 3})));
  for (size_t n = 0; n < good.size(); n += 3) {
    expect_error(ErrorKind::data, {"cut.png"}, [&] { decode_image(bytes_of(good.substr(0, n)), "cut.png"); });
  }
}

struct PngSettings {
  int channels = 3;  // 2 and 4: with alpha
  int filter = PNG_ALL_FILTERS;
  int interlace = PNG_INTERLACE_NONE;
  size_t chunk = 8192;  // bytes of each IDAT chunk
};

// u8 (H, W, channels) by libpng.
std::string png_of(const Array& image, const PngSettings& settings = {}) {
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop head = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep data, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), n);
      },
      nullptr);
  const Shape& s = image.shape();
  png_set_IHDR(png, head, static_cast<png_uint_32>(s[1]), static_cast<png_uint_32>(s[0]), 8,
               kTypes[settings.channels - 1], settings.interlace, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_set_filter(png, PNG_FILTER_TYPE_BASE, settings.filter);
  png_set_compression_buffer_size(png, settings.chunk);
  png_write_info(png, head);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < s[0]; ++y) rows.push_back(image.data<uint8_t>() + y * s[1] * settings.channels);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &head);
  return out;
}

// Alternating noise, flat parts and slopes of all signs: every branch of every filter.
Array uneven(int64_t rows, int64_t columns, int channels) {
  Array a(DType::u8, {rows, columns, channels});
  uint32_t state = 1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    state = state * 1664525 + 1013904223;
    const int64_t slope = i * 5 / columns - i / 3;
    a.data<uint8_t>()[i] = static_cast<uint8_t>(i / 40 % 3 == 0 ? state >> 24 : i / 40 % 3 == 1 ? 200 : slope);
  }
  return a;
}

TEST(Image, PngOfEveryFilterIsReadWholeAndInPart) {
  for (const int channels : {1, 2, 3, 4}) {
    const Array pixels = uneven(37, 29, channels);
    const int colors = channels <= 2 ? 1 : 3;
    std::vector<int> expected;  // on white
    for (int64_t i = 0; i < 37 * 29; ++i) {
      const uint8_t* p = pixels.data<uint8_t>() + i * channels;
      const int alpha = channels == colors ? 255 : p[colors];
      for (int c = 0; c < colors; ++c) expected.push_back((p[c] * alpha + 255 * (255 - alpha) + 127) / 255);
    }
    for (const PngSettings& settings : {PngSettings{.filter = PNG_FILTER_NONE}, PngSettings{.filter = PNG_FILTER_SUB},
                                        PngSettings{.filter = PNG_FILTER_UP}, PngSettings{.filter = PNG_FILTER_AVG},
                                        PngSettings{.filter = PNG_FILTER_PAETH}, PngSettings{.chunk = 40},
                                        PngSettings{.interlace = PNG_INTERLACE_ADAM7}}) {
      PngSettings s = settings;
      s.channels = channels;
      const std::string file = png_of(pixels, s);
      EXPECT_EQ(decode_image(bytes_of(file), "a.png").to_vector<int>(), expected) << channels << " " << s.filter;
      Image part;
      for (const ImageRegion& p : {ImageRegion{5, 7, 20, 11}, ImageRegion{0, 0, 1, 1}, ImageRegion{36, 28, 1, 1}}) {
        ImageRoom room;
        decode_part(
            bytes_of(file), "a.png", [&](int64_t, int64_t) { return p; }, part, room);
        ASSERT_GE(part.y + static_cast<double>(part.rows), p.y + p.rows);
        ASSERT_GE(part.x + static_cast<double>(part.columns), p.x + p.columns);
        for (int64_t y = p.y; y < p.y + p.rows; ++y) {
          for (int64_t i = p.x * colors; i < (p.x + p.columns) * colors; ++i) {
            const int64_t at =
                (y - static_cast<int64_t>(part.y)) * part.columns * colors + i - static_cast<int64_t>(part.x) * colors;
            ASSERT_EQ(part.pixels()[at], expected[static_cast<size_t>(y * 29 * colors + i)])
                << channels << " " << s.filter;
          }
        }
      }
    }
  }
}

TEST(Image, DamageAnywhereInAPngIsFound) {
  const std::string good = png_of(uneven(16, 16, 3), {.chunk = 100});
  constexpr size_t kMagic = 8;
  for (size_t i = kMagic; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    Image out;
    ImageRoom room;
    const auto top = [](int64_t, int64_t columns) { return ImageRegion{.rows = 1, .columns = columns, .sound = true}; };
    expect_error(ErrorKind::data, {"bad.png"}, [&] { decode_part(bytes_of(bad), "bad.png", top, out, room); });
  }
}

TEST(Image, APngThatClaimsAbsurdSizeIsRefusedBeforeAllocating) {
  std::string bad = text_of(encode_png(ramp({6, 6})));
  const std::string ihdr = "IHDR" + be32(60000) + be32(60000) + bad.substr(24, 5);
  bad.replace(12, 17, ihdr);
  bad.replace(29, 4, be32(crc32(bytes_of(ihdr))));
  expect_error(ErrorKind::data, {"bad.png", "60000"}, [&] { decode_image(bytes_of(bad), "bad.png"); });
}

TEST(Image, OtherFormatsAreNamed) {
  expect_error(ErrorKind::data, {"a.img", "PNG, JPEG, WebP, GIF, TIFF, BMP, PPM or npy"},
               [] { decode_image(bytes_of("IMG89a..."), "a.img"); });
}

double mean_difference(const Array& a, const Array& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += std::abs(a.data<uint8_t>()[i] - b.data<uint8_t>()[i]);
  return sum / static_cast<double>(a.numel());
}

TEST(Image, JpegsOfAllColorSpacesBecomeGrayOrRgb) {
  const Array rgb = waves(40, 56), grey = waves(40, 56, 1);
  EXPECT_LT(mean_difference(decode_image(bytes_of(encode_jpeg(rgb, {.across = 1, .down = 1})), "a.jpg"), rgb), 3);
  EXPECT_LT(mean_difference(decode_image(bytes_of(encode_jpeg(grey, {.space = JCS_GRAYSCALE})), "g.jpg"), grey), 3);
  Array inks(DType::u8, {40, 56, 4});  // as Adobe stores them: 255 is no ink, and black has none
  for (int64_t i = 0; i < 40 * 56; ++i) {
    std::copy_n(rgb.data<uint8_t>() + 3 * i, 3, inks.data<uint8_t>() + 4 * i);
    inks.data<uint8_t>()[4 * i + 3] = 255;
  }
  EXPECT_LT(mean_difference(decode_image(bytes_of(encode_jpeg(inks, {.space = JCS_CMYK})), "c.jpg"), rgb), 3);
  // Without Adobe's mark the inks are inverted all the same: so Pillow, torchvision and browsers read them.
  const std::string unmarked = encode_jpeg(inks, {.space = JCS_CMYK, .adobe_marker = false});
  EXPECT_LT(mean_difference(decode_image(bytes_of(unmarked), "c.jpg"), rgb), 3);
}

// What cameras write in front of a JPEG's tables: an EXIF directory of one entry.
std::string exif_of(int orientation, bool little) {
  const auto number = [&](uint32_t v, size_t size) {
    std::string text = le(v, size);
    if (!little) std::reverse(text.begin(), text.end());
    return text;
  };
  return (little ? "II" : "MM") + number(42, 2) + number(8, 4) + number(1, 2) + number(0x0112, 2) + number(3, 2) +
         number(1, 4) + number(static_cast<uint32_t>(orientation), 2) + std::string(6, '\0');
}
std::string jpeg_with_exif(const std::string& jpeg, int orientation, bool little) {
  const std::string body = std::string("Exif\0\0", 6) + exif_of(orientation, little);
  std::string size = le(body.size() + 2, 2);
  std::reverse(size.begin(), size.end());
  return jpeg.substr(0, 2) + "\xff\xe1" + size + body + jpeg.substr(2);
}

TEST(Image, IsTurnedAsItsExifDataSay) {
  // The values of the tag by their definition, of the image 123 / 456.
  const std::vector<std::pair<Shape, std::vector<int>>> want = {
      {{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2, 3}, {3, 2, 1, 6, 5, 4}}, {{2, 3}, {6, 5, 4, 3, 2, 1}},
      {{2, 3}, {4, 5, 6, 1, 2, 3}}, {{3, 2}, {1, 4, 2, 5, 3, 6}}, {{3, 2}, {4, 1, 5, 2, 6, 3}},
      {{3, 2}, {6, 3, 5, 2, 4, 1}}, {{3, 2}, {3, 6, 2, 5, 1, 4}}};
  const Array pixels = Array::of<uint8_t>({1, 2, 3, 4, 5, 6}, {2, 3, 1});
  const Bytes plain = encode_png(pixels);
  const std::string png(reinterpret_cast<const char*>(plain.data()), plain.size());
  constexpr size_t kHead = 8 + 25;  // the magic and IHDR
  for (int tag = 0; tag <= 9; ++tag) {
    const std::string exif = exif_of(tag, tag % 2);
    std::string size = le(exif.size(), 4);
    std::reverse(size.begin(), size.end());
    std::string chunk = "eXIf" + exif, crc = le(crc32(bytes_of(chunk)), 4);
    std::reverse(crc.begin(), crc.end());
    const std::string file = png.substr(0, kHead) + size + chunk + crc + png.substr(kHead);
    const auto& [shape, values] = want[tag >= 1 && tag <= 8 ? static_cast<size_t>(tag - 1) : 0];
    const Array a = decode_image(bytes_of(file), "a.png");
    EXPECT_EQ(a.shape(), (Shape{shape[0], shape[1], 1})) << tag;
    EXPECT_EQ(a.to_vector<int>(), values) << tag;
    EXPECT_EQ(decode_image(bytes_of(file), "a.png", Orientation::ignore).to_vector<int>(), want[0].second) << tag;
  }
}

TEST(Image, DamagedExifDataTurnNothing) {
  const std::string jpeg = encode_jpeg(waves(20, 30, 1), {.space = JCS_GRAYSCALE});
  const std::string turned = jpeg_with_exif(jpeg, 6, true);
  EXPECT_EQ(decode_image(bytes_of(turned), "a.jpg").shape(), (Shape{30, 20, 1}));
  for (size_t at = 2; at < turned.size() - jpeg.size() + 2; ++at) {
    for (const char value : {'\0', '\xff', '\x7f'}) {
      std::string bad = turned;
      bad[at] = value;
      (void)exif_turn(bytes_of(bad));  // reads within the file: a sanitizer sees to that
      (void)exif_turn(bytes_of(bad.substr(0, at)));
    }
  }
}

// A part of a turned JPEG has the pixels of the upright whole, at every scale; coarser ones are cut at the far side.
TEST(Image, APartOfATurnedJpegEqualsThatPartOfTheWhole) {
  const std::string jpeg = encode_jpeg(waves(152, 208), {.across = 1, .down = 1});
  for (int tag = 1; tag <= 8; ++tag) {
    const std::string file = jpeg_with_exif(jpeg, tag, false);
    for (const double shrink : {1.0, 2.0, 4.0}) {
      const auto decoded = [&](int64_t y, int64_t x, int64_t rows, int64_t columns, Image& out) {
        ImageRoom room;
        decode_part(
            bytes_of(file), "a.jpg",
            [&](int64_t h, int64_t w) {
              return ImageRegion{
                  .y = y, .x = x, .rows = rows ? rows : h, .columns = columns ? columns : w, .shrink = shrink};
            },
            out, room);
      };
      Image whole, part;
      decoded(0, 0, 0, 0, whole);
      decoded(40, 24, 64, 48, part);
      ASSERT_EQ(whole.rows, (tag > 4 ? 208 : 152) / static_cast<int64_t>(shrink)) << tag;
      ASSERT_LE(part.y, 40 / shrink);
      ASSERT_GE(part.y + static_cast<double>(part.rows), 104 / shrink);
      ASSERT_LE(part.x, 24 / shrink);
      ASSERT_GE(part.x + static_cast<double>(part.columns), 72 / shrink);
      const auto y = static_cast<int64_t>(part.y), x = static_cast<int64_t>(part.x);
      for (int64_t r = 0; r < part.rows; ++r) {
        ASSERT_TRUE(std::equal(part.pixels() + r * part.columns * 3, part.pixels() + (r + 1) * part.columns * 3,
                               whole.pixels() + ((y + r) * whole.columns + x) * 3))
            << tag << " " << shrink << " row " << r;
      }
    }
  }
}

// A part of a JPEG has the very pixels of the whole, at every scale, for every kind of compression.
TEST(Image, APartOfAJpegEqualsThatPartOfTheWhole) {
  const Array pixels = waves(150, 211);
  for (const JpegSettings& settings :
       {JpegSettings{}, JpegSettings{.across = 1, .down = 1}, JpegSettings{.across = 2, .down = 1},
        JpegSettings{.progressive = true}, JpegSettings{.across = 1, .down = 1, .progressive = true}}) {
    const std::string file = encode_jpeg(pixels, settings);
    for (const double shrink : {1.0, 2.0, 4.5, 9.0}) {
      const auto decode = [&](const ImageRegion& part, Image& out) {
        ImageRoom room;
        decode_part(
            bytes_of(file), "a.jpg", [&](int64_t, int64_t) { return part; }, out, room);
      };
      Image whole, part;
      decode({.rows = 150, .columns = 211, .shrink = shrink}, whole);
      EXPECT_EQ(whole.rows, static_cast<int64_t>(std::ceil(150 * whole.scale)));
      EXPECT_LE(1 / whole.scale, shrink);
      for (const ImageRegion& p : {ImageRegion{0, 0, 1, 1}, ImageRegion{0, 0, 150, 100}, ImageRegion{37, 64, 50, 60},
                                   ImageRegion{16, 16, 16, 16}, ImageRegion{149, 210, 1, 1},
                                   ImageRegion{101, 3, 30, 208}, ImageRegion{60, 150, 90, 61}}) {
        ImageRegion q = p;
        q.shrink = shrink;
        q.sound = p.y % 2 == 1;
        decode(q, part);
        EXPECT_EQ(part.scale, whole.scale);
        const auto first = [&](int64_t v) { return static_cast<int64_t>(static_cast<double>(v) * part.scale); };
        const auto top = static_cast<int64_t>(part.y), left = static_cast<int64_t>(part.x);
        ASSERT_LE(top, first(q.y));
        ASSERT_LE(left, first(q.x));
        ASSERT_GE(top + part.rows, std::min(whole.rows, first(q.y + q.rows)));
        ASSERT_GE(left + part.columns, std::min(whole.columns, first(q.x + q.columns)));
        // Without the columns at the part's own borders, whose colors have no neighbors to be interpolated with.
        const int64_t margin = 2;
        for (int64_t y = 0; y < part.rows; ++y) {
          for (int64_t x = left == 0 ? 0 : margin;
               x < part.columns - (left + part.columns == whole.columns ? 0 : margin); ++x) {
            for (int64_t c = 0; c < 3; ++c) {
              ASSERT_EQ(part.pixels()[(y * part.columns + x) * 3 + c],
                        whole.pixels()[((top + y) * whole.columns + left + x) * 3 + c])
                  << "row " << y << " column " << x << " of part " << q.y << "," << q.x << " shrink " << shrink;
            }
          }
        }
      }
    }
  }
}

// Fifty clients that send images of a gigabyte each must not take fifty.
TEST(Image, LargeImagesWaitForEachOther) {
  constexpr int64_t kLargest = int64_t{1} << 27;
  ASSERT_GT(ImageRoom::most(), kLargest);
  std::list<ImageRoom> held;
  for (int64_t left = ImageRoom::most(); left >= kLargest; left -= kLargest) held.emplace_back().take(kLargest);
  EXPECT_EQ(decode_image(encode_png(ramp({4, 6})), "small.png").shape(), (Shape{4, 6, 1}));  // there is room for these
  std::atomic<bool> released{false};
  std::thread next([&] {
    ImageRoom room;
    room.take(kLargest);
    EXPECT_TRUE(released);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  released = true;
  held.pop_front();
  next.join();
}

TEST(Image, DamageOutsideOfThePartIsFoundAsWellUnlessTheFileIsSound) {
  const std::string good = encode_jpeg(waves(160, 160));
  bool sound = false;
  const auto top = [&](int64_t, int64_t columns) { return ImageRegion{.rows = 8, .columns = columns, .sound = sound}; };
  Image out;
  const auto decode = [&](const std::string& bytes, const std::string& name) {
    ImageRoom room;
    decode_part(bytes_of(bytes), name, top, out, room);
  };
  decode(good, "a.jpg");
  for (const size_t n : {good.size() - 1, good.size() * 9 / 10, good.size() / 2}) {
    expect_error(ErrorKind::data, {"cut.jpg"}, [&] { decode(good.substr(0, n), "cut.jpg"); });
  }
  sound = true;
  decode(good.substr(0, good.size() - 1), "cut.jpg");  // is not read so far
}

TEST(Image, EveryTruncationOfAJpegIsRefused) {
  for (const bool progressive : {false, true}) {
    const std::string good = encode_jpeg(waves(32, 32), {.progressive = progressive});
    for (size_t n = 0; n < good.size(); n += 3) {
      expect_error(ErrorKind::data, {"cut.jpg"}, [&] { decode_image(bytes_of(good.substr(0, n)), "cut.jpg"); });
    }
  }
}

// A progressive file with its first scan, of the means of all blocks, there so many times.
std::string with_scans(const std::string& jpeg, size_t scans) {
  const auto marker = [&](size_t from, const char* which) {
    for (size_t at = from; at + 1 < jpeg.size(); ++at) {
      const char next = jpeg[at + 1];
      if (jpeg[at] == '\xff' && next != 0 && (!which || next == *which)) return at;
    }
    return jpeg.size();
  };
  size_t there = 0;
  for (size_t at = marker(0, "\xda"); at < jpeg.size(); at = marker(at + 2, "\xda")) ++there;
  const size_t first = marker(0, "\xda"), end = marker(first + 2, nullptr);
  std::string out = jpeg.substr(0, first);
  for (; there < scans + 1; ++there) out += jpeg.substr(first, end - first);
  return out + jpeg.substr(end);
}

// Each scan costs a pass over all pixels: a file of 290 kB with 400 of them took half a minute.
TEST(Image, AJpegOfManyScansIsRefused) {
  const auto jpeg = [](int64_t rows, int64_t columns) {
    return encode_jpeg(waves(rows, columns, 1), {.space = JCS_GRAYSCALE, .progressive = true});
  };
  const struct {
    std::string file;
    size_t most;
    std::vector<size_t> above;
  } kSizes[] = {{jpeg(32, 32), 100, {101, 5000}},     // of 2.7 million pixels and fewer
                {jpeg(1024, 4096), 64, {65}},         // between
                {jpeg(4096, 4096), 20, {21, 2000}}};  // of 13 million and more
  for (const auto& [file, most, above] : kSizes) {
    for (const size_t scans : {most - 1, most}) EXPECT_NO_THROW(decode_image(bytes_of(with_scans(file, scans)), "f"));
    for (const size_t scans : above) {
      expect_error(ErrorKind::data, {"f: bad JPEG", cat("more than ", most, " scans")},
                   [&, &file = file] { decode_image(bytes_of(with_scans(file, scans)), "f"); });
    }
  }
}

TEST(Image, AJpegOfTwelveOrSixteenBitsIsRefused) {
  std::string jpeg = encode_jpeg(waves(20, 20));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (const char bits : {12, 16}) {
    jpeg[frame + 4] = bits;
    expect_error(ErrorKind::data, {"deep.jpg", "precision", cat(static_cast<int>(bits))},
                 [&] { decode_image(bytes_of(jpeg), "deep.jpg"); });
  }
}

// Small files are decoded with something behind them: what that adds must not make a whole file of a part.
TEST(Image, AJpegWithoutItsEndMarkerIsRefused) {
  const std::string jpeg = encode_jpeg(waves(33, 47));
  ASSERT_EQ(jpeg.substr(jpeg.size() - 2), "\xff\xd9");
  for (const size_t cut : {1, 2}) {
    expect_error(ErrorKind::data, {"cut.jpg"},
                 [&] { decode_image(bytes_of(jpeg.substr(0, jpeg.size() - cut)), "cut.jpg"); });
  }
}

TEST(Image, ASixteenBitPngBecomesEightBits) {
  const TemporaryDir dir;
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = 2;
  image.height = 1;
  image.format = PNG_FORMAT_LINEAR_RGB;  // 16 bits
  const uint16_t pixels[] = {0, 0x8000, 0xffff, 0xffff, 0, 0x1000};
  ASSERT_TRUE(png_image_write_to_file(&image, (dir / "deep.png").c_str(), 0, pixels, 0, nullptr));
  EXPECT_EQ(read_text(dir / "deep.png")[24], 16);  // the bit depth of the header
  EXPECT_EQ(load_image(dir / "deep.png").to_vector<int>(), (std::vector<int>{0, 128, 255, 255, 0, 16}));
}

TEST(Image, WebpWithAndWithoutTransparency) {
  const Array rgb = waves(30, 44);
  uint8_t* memory = nullptr;
  size_t size = WebPEncodeLosslessRGB(rgb.data<uint8_t>(), 44, 30, 44 * 3, &memory);
  const std::string file(reinterpret_cast<char*>(memory), size);
  WebPFree(memory);
  EXPECT_EQ(decode_image(bytes_of(file), "a.webp").to_vector<int>(), rgb.to_vector<int>());
  for (size_t n = 0; n < file.size(); n += 5) {
    expect_error(ErrorKind::data, {"cut.webp"}, [&] { decode_image(bytes_of(file.substr(0, n)), "cut.webp"); });
  }
  const uint8_t clear[] = {10, 20, 30, 0, 10, 20, 30, 255};
  size = WebPEncodeLosslessRGBA(clear, 2, 1, 8, &memory);
  const std::string half(reinterpret_cast<char*>(memory), size);
  WebPFree(memory);
  EXPECT_EQ(decode_image(bytes_of(half), "b.webp").to_vector<int>(), (std::vector<int>{255, 255, 255, 10, 20, 30}));
}

// A part has the very pixels of the whole.
TEST(Image, APartOfAWebpEqualsThatPartOfTheWhole) {
  const Array rgb = uneven(75, 61, 3), rgba = uneven(75, 61, 4);
  std::vector<std::string> files;
  const auto keep = [&](uint8_t* memory, size_t size) {
    files.emplace_back(reinterpret_cast<char*>(memory), size);
    WebPFree(memory);
  };
  uint8_t* memory = nullptr;
  size_t size = WebPEncodeRGB(rgb.data<uint8_t>(), 61, 75, 61 * 3, 80, &memory);
  keep(memory, size);
  size = WebPEncodeLosslessRGB(rgb.data<uint8_t>(), 61, 75, 61 * 3, &memory);
  keep(memory, size);
  size = WebPEncodeRGBA(rgba.data<uint8_t>(), 61, 75, 61 * 4, 80, &memory);
  keep(memory, size);
  for (const std::string& file : files) {
    const Array whole = decode_image(bytes_of(file), "a.webp");
    Image part;
    for (const ImageRegion& p :
         {ImageRegion{5, 7, 20, 11, 1, true}, ImageRegion{0, 0, 1, 1, 1, true}, ImageRegion{74, 60, 1, 1, 1, true},
          ImageRegion{33, 16, 32, 33, 1, true}, ImageRegion{5, 7, 20, 11, 1, false}}) {
      ImageRoom room;
      decode_part(
          bytes_of(file), "a.webp", [&](int64_t, int64_t) { return p; }, part, room);
      for (int64_t y = p.y; y < p.y + p.rows; ++y) {
        for (int64_t i = p.x * 3; i < (p.x + p.columns) * 3; ++i) {
          const int64_t at =
              (y - static_cast<int64_t>(part.y)) * part.columns * 3 + i - static_cast<int64_t>(part.x) * 3;
          ASSERT_EQ(part.pixels()[at], whole.data<uint8_t>()[y * 61 * 3 + i]) << p.y << " " << p.x << " " << p.sound;
        }
      }
    }
  }
}

std::string bmp(int bits, int rows, const std::string& palette, const std::string& pixels, int compression = 0,
                int columns = 2) {
  const std::string info = le(40, 4) + le(static_cast<uint32_t>(columns), 4) + le(static_cast<uint32_t>(rows), 4) +
                           le(1, 2) + le(static_cast<uint32_t>(bits), 2) + le(static_cast<uint32_t>(compression), 4) +
                           std::string(12, '\0') + le(palette.size() / 4, 4) + le(0, 4);
  return "BM" + le(0, 8) + le(54 + palette.size(), 4) + info + palette + pixels;
}

TEST(Image, BmpOfEveryDepth) {
  const auto pixels = [](const std::string& file) { return decode_image(bytes_of(file), "a.bmp").to_vector<int>(); };
  const std::vector<int> want{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const auto text = [](std::initializer_list<int> values) { return std::string(values.begin(), values.end()); };
  // Rows from the bottom, blue first, padded to four bytes; a negative height is from the top.
  EXPECT_EQ(pixels(bmp(24, 2, "", text({9, 8, 7, 12, 11, 10, 0, 0, 3, 2, 1, 6, 5, 4, 0, 0}))), want);
  EXPECT_EQ(pixels(bmp(24, -2, "", text({3, 2, 1, 6, 5, 4, 0, 0, 9, 8, 7, 12, 11, 10, 0, 0}))), want);
  EXPECT_EQ(pixels(bmp(32, -2, "", text({3, 2, 1, 0, 6, 5, 4, 0, 9, 8, 7, 0, 12, 11, 10, 0}))), want);
  const std::string palette = text({3, 2, 1, 0, 6, 5, 4, 0});
  EXPECT_EQ(pixels(bmp(8, 1, palette, text({1, 0, 0, 0}))), (std::vector<int>{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(pixels(bmp(4, 1, palette, text({0x10, 0, 0, 0}))), (std::vector<int>{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(pixels(bmp(1, 1, palette, text({0x40, 0, 0, 0}))), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(pixels(bmp(16, 1, "", le(0x7c00, 2) + le(0x001f, 2))), (std::vector<int>{255, 0, 0, 0, 0, 255}));
  const auto refused = [](const std::string& file, const char* part) {
    expect_error(ErrorKind::data, {"bad.bmp", part}, [&] { decode_image(bytes_of(file), "bad.bmp"); });
  };
  refused(bmp(8, 1, palette, text({2, 0, 0, 0})), "palette of 2");
  refused(bmp(8, 1, palette, text({0, 0, 0, 0}), 1), "uncompressed");
  refused(bmp(24, 60000, "", "", 0, 60000), "60000");
  refused(bmp(24, 0, "", ""), "pixels");
  const std::string good = bmp(24, 1, "", "123456ab");
  for (size_t n = 2; n < good.size(); ++n) refused(good.substr(0, n), "cut off");
}

// 32 bits with masks under a header of version 5; `alpha` is the mask of transparency.
std::string bmp_v5(const std::string& pixels, uint32_t alpha, int compression = 3) {
  const std::string masks = le(0xff0000, 4) + le(0xff00, 4) + le(0xff, 4) + le(alpha, 4);
  const std::string info = le(124, 4) + le(2, 4) + le(1, 4) + le(1, 2) + le(32, 2) +
                           le(static_cast<uint32_t>(compression), 4) + std::string(20, '\0') + masks +
                           std::string(124 - 56, '\0');
  return "BM" + le(0, 8) + le(14 + 124, 4) + info + pixels;
}

TEST(Image, TransparencyOfLaterBmpHeadersIsLaidOnWhite) {
  const auto pixels = [](const std::string& file) { return decode_image(bytes_of(file), "a.bmp").to_vector<int>(); };
  const std::string clear("\x1e\x14\x0a\x00\x1e\x14\x0a\x80", 8);
  EXPECT_EQ(pixels(bmp_v5(clear, 0xff000000)), (std::vector<int>{255, 255, 255, 132, 137, 142}));
  EXPECT_EQ(pixels(bmp_v5(clear, 0)), (std::vector<int>{10, 20, 30, 10, 20, 30}));
  EXPECT_EQ(pixels(bmp_v5(clear, 0xff000000, 0)), (std::vector<int>{10, 20, 30, 10, 20, 30}));  // masks do not count
  const std::string none("\x1e\x14\x0a\x00\x1e\x14\x0a\x00", 8);
  EXPECT_EQ(pixels(bmp_v5(none, 0xff000000)), (std::vector<int>{10, 20, 30, 10, 20, 30})) << "no pixel would be seen";
}

TEST(Image, PpmInAllItsForms) {
  const auto pixels = [](const std::string& file) { return decode_image(bytes_of(file), "a.ppm").to_vector<int>(); };
  const std::vector<int> want{0, 128, 255};
  EXPECT_EQ(pixels(std::string("P6 1 1 255\n") + std::string("\x00\x80\xff", 3)), want);
  EXPECT_EQ(pixels(std::string("P6 # a comment\n1 1\n65535\n") + std::string("\x00\x00\x80\x80\xff\xff", 6)), want);
  EXPECT_EQ(pixels("P3 1 1 255 0 128 255"), want);
  EXPECT_EQ(pixels("P2 3 1 4\n0 2 4"), want);
  EXPECT_EQ(pixels(std::string("P5 3 1 255\n") + std::string("\x00\x80\xff", 3)), want);
  const auto refused = [](const std::string& file, const char* part) {
    expect_error(ErrorKind::data, {"bad.ppm", part}, [&] { decode_image(bytes_of(file), "bad.ppm"); });
  };
  refused("P6 2 2 255\nabc", "cut off");
  refused("P3 1 1 255 0 1", "cut off");
  refused("P3 1 1 9 0 1 70", "above the largest");
  refused("P6 99999999 99999999 255\n", "pixels");
  refused("P6 x", "no number");
}

TEST(Image, AnEmptyFileIsNamed) {
  expect_error(ErrorKind::data, {"a.jpg", "empty"}, [] { decode_image({}, "a.jpg"); });
}

TEST(Image, ReadsWhatPillowWrites) {
  const TemporaryDir dir;
  const std::string script =
      "from PIL import Image; import sys; d = sys.argv[1]; "
      "c = Image.new('RGB', (40, 24), (200, 40, 90)); c.save(d + '/rgb.jpg', quality=95); "
      "c.convert('L').save(d + '/grey.jpg'); c.convert('CMYK').save(d + '/cmyk.jpg', quality=95); "
      "c.convert('P').save(d + '/palette.png'); Image.new('RGBA', (4, 4), (10, 20, 30, 0)).save(d + '/clear.png'); "
      "Image.new('I;16', (4, 4), 0x8000).save(d + '/deep.png'); Image.new('1', (4, 4), 1).save(d + '/bit.png')";
  const std::string python = python_with("PIL");
  if (python.empty()) GTEST_SKIP() << "Pillow (python3-pil) is not here";
  ASSERT_EQ(std::system((python + " -c \"" + script + "\" " + dir.path()).c_str()), 0);
  for (const char* file : {"rgb.jpg", "cmyk.jpg", "palette.png"}) {
    const Array a = load_image(dir / file);
    EXPECT_EQ(a.shape(), (Shape{24, 40, 3})) << file;
    EXPECT_NEAR(a.data<uint8_t>()[0], 200, 12) << file;
    EXPECT_NEAR(a.data<uint8_t>()[1], 40, 12) << file;
    EXPECT_NEAR(a.data<uint8_t>()[2], 90, 12) << file;
  }
  EXPECT_EQ(load_image(dir / "grey.jpg").shape(), (Shape{24, 40, 1}));
  EXPECT_EQ(load_image(dir / "clear.png").data<uint8_t>()[0], 255);
  EXPECT_NEAR(load_image(dir / "deep.png").data<uint8_t>()[0], 128, 1);
  EXPECT_EQ(load_image(dir / "bit.png").data<uint8_t>()[0], 255);
  const std::string jpeg = read_text(dir / "rgb.jpg");
  for (const size_t n : {3ul, 20ul, jpeg.size() / 2, jpeg.size() - 30}) {
    expect_error(ErrorKind::data, {"cut.jpg"}, [&] { decode_image(bytes_of(jpeg.substr(0, n)), "cut.jpg"); });
  }
}

}  // namespace
}  // namespace freight::io
