// Resampling of images, and the views of training and evaluation that are cut from them.
#include "freight/data/resample.h"

#include <gtest/gtest.h>

#include "freight/data/image_reader.h"
#include "tests/support/files.h"
#include "tests/support/jpeg.h"

namespace freight::data {
namespace {
using namespace freight::testing;

PixelView view_of(const Array& a) { return {a.data<uint8_t>(), a.shape()[0], a.shape()[1], a.shape()[2]}; }

// The whole image or a part of it as planes (C, rows, columns).
std::vector<int> resampled(const Array& a, int64_t rows, int64_t columns, int64_t channels, Mirror mirror = Mirror::no,
                           Box box = {}) {
  if (box.rows == 0) box = {0, 0, static_cast<double>(a.shape()[0]), static_cast<double>(a.shape()[1])};
  Array out(DType::u8, {channels, rows, columns});
  Resampler().run(view_of(a), box, mirror, channels, rows, columns, out.data<uint8_t>());
  return out.to_vector<int>();
}

TEST(Resample, KeepsConstantsMeansAndEqualSizes) {
  Array flat(DType::u8, {9, 13, 3});
  std::fill_n(flat.data<uint8_t>(), flat.numel(), uint8_t{77});
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{4, 5}, {30, 40}, {1, 1}, {9, 26}}) {
    for (const int v : resampled(flat, rows, columns, 3)) ASSERT_EQ(v, 77);
  }
  const Array checks = Array::of<uint8_t>({0, 255, 0, 255, 255, 0, 255, 0}, {2, 4, 1});
  EXPECT_EQ(resampled(checks, 2, 4, 1), checks.to_vector<int>());
  // Antialiased: fine detail averages out instead of one phase being picked.
  for (const int v : resampled(checks, 1, 1, 1)) EXPECT_NEAR(v, 128, 1);
  // Doubling a row of two: the quarter points between the centers, as PIL and PyTorch (antialias=True) give.
  EXPECT_EQ(resampled(Array::of<uint8_t>({0, 100}, {1, 2, 1}), 1, 4, 1), (std::vector<int>{0, 25, 75, 100}));
}

TEST(Resample, MirrorsAndCuts) {
  const Array a = waves(7, 10);
  const std::vector<int> whole = resampled(a, 7, 10, 3), mirrored = resampled(a, 7, 10, 3, Mirror::yes),
                         part = resampled(a, 2, 3, 3, Mirror::no, {4, 5, 2, 3});
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 7; ++y) {
      for (int x = 0; x < 10; ++x) {
        EXPECT_EQ(whole[c * 70 + y * 10 + x], a.data<uint8_t>()[(y * 10 + x) * 3 + c]);
        EXPECT_EQ(mirrored[c * 70 + y * 10 + x], whole[c * 70 + y * 10 + 9 - x]);
        if (y < 2 && x < 3) {
          EXPECT_EQ(part[c * 6 + y * 3 + x], whole[c * 70 + (y + 4) * 10 + x + 5]);
        }
      }
    }
  }
}

TEST(Resample, GrayAndColor) {
  const Array rgb = Array::of<uint8_t>({255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9}, {1, 4, 3});
  EXPECT_EQ(resampled(rgb, 1, 4, 1), (std::vector<int>{76, 150, 29, 9}));
  EXPECT_EQ(resampled(Array::of<uint8_t>({7}, {1, 1, 1}), 1, 1, 3), (std::vector<int>{7, 7, 7}));
}

// Rows that become floats as they are made are those of the bytes: growing, shrinking by little and by much, of any
// alignment.
TEST(Resample, FloatsAreTheBytesScaled) {
  const std::vector<float> scale{0.5f, 0.03f, -1.25f}, bias{-3.0f, 0.7f, 11.0f};
  for (const auto& [channels_in, channels] : {std::pair<int64_t, int64_t>{3, 3}, {1, 3}, {1, 1}}) {
    const Array a = waves(40, 53, channels_in);
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{64, 61}, {30, 64}, {17, 9}, {1, 3}, {50, 20}}) {
      const std::vector<int> bytes = resampled(a, rows, columns, channels, Mirror::yes);
      for (const size_t shift : {0, 1, 5}) {
        std::vector<float> floats(bytes.size() + shift, -1.0f);
        Resampler().run(view_of(a), {0, 0, 40, 53}, Mirror::yes, channels, rows, columns,
                        {floats.data() + shift, scale.data(), bias.data()});
        for (size_t i = 0; i < bytes.size(); ++i) {
          const size_t c = i / static_cast<size_t>(rows * columns);
          ASSERT_EQ(floats[i + shift], static_cast<float>(bytes[i]) * scale[c] + bias[c]) << rows << "x" << columns;
        }
      }
    }
  }
}

TEST(CentreCrop, IsTorchvisionsResizeAndCenterCrop) {
  const ImageGeometry g{.channels = 3, .rows = 224, .columns = 224, .resize = 256};
  const Box wide = center_crop(512, 1000, g);  // becomes 256 x 500, then columns 138 to 362
  EXPECT_DOUBLE_EQ(wide.y, 32);
  EXPECT_DOUBLE_EQ(wide.rows, 448);
  EXPECT_DOUBLE_EQ(wide.x, 276);
  EXPECT_DOUBLE_EQ(wide.columns, 448);
  const Box whole = center_crop(30, 50, {.channels = 1, .rows = 8, .columns = 8, .resize = 0});
  EXPECT_DOUBLE_EQ(whole.columns, 50);
  // Smaller than the crop: it grows.
  const Box small = center_crop(10, 10, g);
  EXPECT_NEAR(small.rows, 8.75, 1e-9);
}

TEST(RandomCrop, KeepsToItsBoundsAndToTheImage) {
  const CropRange range;
  double least = 1, most = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    PhiloxStream random(i, 0, 1);
    const Box b = draw_crop(120, 200, range, random);
    ASSERT_GE(b.y, 0);
    ASSERT_GE(b.x, 0);
    ASSERT_LE(b.y + b.rows, 120);
    ASSERT_LE(b.x + b.columns, 200);
    const double share = b.rows * b.columns / (120.0 * 200.0), ratio = b.columns / b.rows;
    ASSERT_GT(ratio, 0.70);
    ASSERT_LT(ratio, 1.40);
    least = std::min(least, share);
    most = std::max(most, share);
  }
  EXPECT_NEAR(least, 0.08, 0.02);
  EXPECT_GT(most, 0.7);
  PhiloxStream random(1, 0, 1);
  const Box strip = draw_crop(10, 1000, {.min_area = 1}, random);  // cannot be had: the middle instead
  EXPECT_EQ(strip.rows, 10);
  EXPECT_EQ(strip.columns, 13);
  EXPECT_EQ(strip.x, 493);
}

// A view of a large JPEG, decoded coarser and in part, against the same view of its pixels decoded whole.
TEST(ImageReader, ScaledDecodingChangesAViewLittle) {
  const Array pixels = waves(640, 900);
  const std::string jpeg = encode_jpeg(pixels, {.quality = 98});
  for (const int64_t side : {40, 100, 300}) {
    const ImageGeometry g{.channels = 3, .rows = side, .columns = side, .resize = side + side / 8};
    Array fast(DType::u8, {3, side, side}), exact(DType::u8, {3, side, side});
    ImageReader().evaluation_view(bytes_of(jpeg), "a.jpg", g, Mirror::no, fast.data<uint8_t>());
    Resampler().run(view_of(pixels), center_crop(640, 900, g), Mirror::no, 3, side, side, exact.data<uint8_t>());
    double sum = 0;
    for (int64_t i = 0; i < fast.numel(); ++i) sum += std::abs(fast.data<uint8_t>()[i] - exact.data<uint8_t>()[i]);
    EXPECT_LT(sum / static_cast<double>(fast.numel()), 3.0) << side;
  }
}

TEST(ImageReader, EveryKindOfImageFitsTheSample) {
  const ImageGeometry g{.channels = 3, .rows = 24, .columns = 24, .resize = 28};
  const TemporaryDir dir;
  io::save_png(dir / "tiny.png", waves(1, 1, 1));
  io::save_png(dir / "narrow.png", waves(300, 2));
  io::save_png(dir / "small.png", waves(10, 12));
  io::write_file_atomic(dir / "grey.jpg", encode_jpeg(waves(50, 60, 1), {.space = JCS_GRAYSCALE}));
  io::write_file_atomic(dir / "inks.jpg", encode_jpeg(waves(50, 60, 4), {.space = JCS_CMYK}));
  io::write_file_atomic(dir / "64-megapixels.jpg",
                        encode_jpeg(Array(DType::u8, {8192, 8192, 1}), {.space = JCS_GRAYSCALE}));
  for (const char* name : {"tiny.png", "narrow.png", "small.png", "grey.jpg", "inks.jpg", "64-megapixels.jpg"}) {
    EXPECT_EQ(evaluation_view(io::read_file(dir / name), name, g).shape(), (Shape{3, 24, 24})) << name;
    ImageReader reader;
    std::vector<uint8_t> out(3 * 24 * 24);
    for (uint64_t i = 0; i < 10; ++i) {
      PhiloxStream random(i, 0, 1);
      reader.random_view(io::read_file(dir / name), name, g, {}, Mirror::yes, random, out.data());
    }
  }
}

}  // namespace
}  // namespace freight::data
