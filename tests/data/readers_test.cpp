// Readers of data sets: IDX, CIFAR, npz; the catalog; and each fault with the file it names.
#include <gtest/gtest.h>

#include <algorithm>

#include "freight/data/arrays.h"
#include "freight/data/catalog.h"
#include "freight/data/cifar.h"
#include "freight/data/digits.h"
#include "freight/data/idx.h"
#include "freight/data/source.h"
#include "freight/io/npy.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;

std::string idx_images(uint32_t n, const std::string& pixels) {
  return std::string("\0\0\x08\x03", 4) + be32(n) + be32(2) + be32(2) + pixels;
}
std::string idx_labels(const std::string& labels) {
  return std::string("\0\0\x08\x01", 4) + be32(static_cast<uint32_t>(labels.size())) + labels;
}
void write(const std::string& path, const std::string& text) { io::write_file_atomic(path, std::string_view(text)); }
// A set of three train and one test images, with some files replaced.
void write_idx(const TemporaryDir& dir) {
  write(dir / "train-images-idx3-ubyte", idx_images(3, std::string("abcdefghijkl")));
  write(dir / "train-labels.idx1-ubyte", idx_labels(std::string("\x00\x01\x09", 3)));
  write(dir / "t10k-images.idx3-ubyte.gz", gzip_stored(idx_images(1, "wxyz")));
  write(dir / "t10k-labels-idx1-ubyte.gz", gzip_stored(idx_labels("\x02")));
}

TEST(Idx, ReadsBothSpellingsPlainAndCompressed) {
  const TemporaryDir dir;
  write_idx(dir);
  const auto [train, test] = load(dir.path());
  EXPECT_EQ(train.images.shape(), (Shape{3, 1, 2, 2}));
  EXPECT_EQ(train.images.data<uint8_t>()[11], 'l');
  EXPECT_EQ(train.labels.to_vector<int>(), (std::vector<int>{0, 1, 9}));
  EXPECT_EQ(test.count(), 1);
  EXPECT_EQ(test.split, "test");
  EXPECT_EQ(test.mean, train.mean);
}

struct BadIdx {
  const char* what;
  const char* file;
  std::string bytes;
  std::string says;
};
class IdxBad : public ::testing::TestWithParam<BadIdx> {};
TEST_P(IdxBad, IsRefusedWithFileAndFault) {
  const TemporaryDir dir;
  write_idx(dir);
  write(dir / GetParam().file, GetParam().bytes);
  expect_error(ErrorKind::data, {GetParam().file, GetParam().says}, [&] { load(dir.path()); });
}
constexpr const char* kImages = "train-images-idx3-ubyte";
constexpr const char* kLabels = "train-labels-idx1-ubyte";
INSTANTIATE_TEST_SUITE_P(
    All, IdxBad,
    ::testing::Values(
        BadIdx{"empty", kImages, "", "truncated"}, BadIdx{"magic", kImages, "PNG image", "wrong magic"},
        BadIdx{"type", kImages, std::string("\0\0\x0d\x03", 4) + std::string(24, 'x'), "type 13"},
        BadIdx{"truncated", kImages, idx_images(3, "abcdefghijk"), "truncated"},
        BadIdx{"too_long", kImages, idx_images(3, "abcdefghijklm"), "bytes after"},
        BadIdx{"absurd_axes", kImages, std::string("\0\0\x08\xff", 4), "255 axes"},
        BadIdx{"absurd_extents", kImages, std::string("\0\0\x08\x03", 4) + std::string(12, '\xff'), "truncated"},
        BadIdx{"no_axes", kImages, std::string("\0\0\x08\0x", 5), "0 axes"},
        BadIdx{"flat_images", kImages, idx_labels("abc"), "3 axes"},
        BadIdx{"cut_gzip", "t10k-labels-idx1-ubyte.gz", gzip_stored(idx_labels("\x02")).substr(0, 25), "truncated"},
        BadIdx{"label_range", kLabels, idx_labels(std::string("\x00\x0a\x01", 3)), "sample 1 has 10, expected 0 to 9"},
        BadIdx{"counts", kLabels, idx_labels(std::string("\x00\x01", 2)), "2 labels for 3 samples"},
        BadIdx{"no_samples", kImages, idx_images(0, ""), "no samples"}),
    [](const auto& p) { return p.param.what; });

TEST(Idx, NamesAFileThatIsMissing) {
  const TemporaryDir dir;
  write_idx(dir);
  std::filesystem::remove(dir / "t10k-labels-idx1-ubyte.gz");
  expect_error(ErrorKind::data, {dir.path(), "t10k-labels-idx1-ubyte"}, [&] { load(dir.path()); });
}

TEST(Idx, ReadsRealMnist) {
  const std::string root = real_data("mnist/train-images-idx3-ubyte.gz");
  if (root.empty()) GTEST_SKIP() << "the real MNIST files are not here (set FREIGHT_DATA)";
  const auto [train, test] = load("mnist", {.data_dir = root});
  EXPECT_EQ(train.count(), 60000);
  EXPECT_EQ(test.count(), 10000);
  EXPECT_NEAR(train.mean[0], 0.1307, 1e-4);
  EXPECT_NEAR(train.std[0], 0.3081, 1e-4);
  EXPECT_EQ(train.labels.data<int64_t>()[0], 5);
  EXPECT_TRUE(verify("mnist", {.data_dir = root}).ok());
}

std::string cifar_record(char label, char pixel) { return label + std::string(3072, pixel); }

TEST(Cifar, ReadsRecordsAndNamesFaults) {
  const TemporaryDir dir;
  for (int i = 1; i <= 5; ++i) write(dir / cat("data_batch_", i, ".bin"), cifar_record('\x03', static_cast<char>(i)));
  write(dir / "test_batch.bin", cifar_record('\x09', 'x') + cifar_record('\x00', 'y'));
  const auto [train, test] = load(dir.path());
  EXPECT_EQ(train.images.shape(), (Shape{5, 3, 32, 32}));
  EXPECT_EQ(test.count(), 2);
  EXPECT_EQ(test.classes[9], "truck");
  write(dir / "data_batch_4.bin", cifar_record('\x0a', 'x'));
  expect_error(ErrorKind::data, {"data_batch_4.bin", "record 0 has 10"}, [&] { load(dir.path()); });
  write(dir / "data_batch_4.bin", cifar_record('\x01', 'x').substr(1));
  expect_error(ErrorKind::data, {"data_batch_4.bin", "3072 bytes", "multiple of 3073"}, [&] { load(dir.path()); });
  std::filesystem::remove(dir / "data_batch_4.bin");
  expect_error(ErrorKind::data, {"data_batch_4.bin", "No such file"}, [&] { load(dir.path()); });
}

TEST(Cifar, ReadsTheFineLabelsOfCifar100) {
  const TemporaryDir dir;
  write(dir / "train.bin", "\x05" + cifar_record('\x63', 'a'));
  write(dir / "test.bin", "\x05" + cifar_record('\x00', 'a'));
  EXPECT_EQ(load(dir.path()).train.labels.data<int64_t>()[0], 99);
  EXPECT_EQ(load(dir.path()).train.class_count(), 100);
}

TEST(Arrays, ReadsImagesWithChannelsLastAndFeatures) {
  const TemporaryDir dir;
  Array x(DType::u8, {2, 4, 5, 3});
  x.data<uint8_t>()[1] = 7;  // pixel 0, green
  io::save_npz(dir / "s.npz", {{"x_train", x},
                               {"y_train", Array::of<int64_t>({0, 2}, {2})},
                               {"x_test", x},
                               {"y_test", Array::of<int64_t>({1, 1}, {2})}});
  const auto [train, test] = load(dir / "s.npz");
  EXPECT_EQ(train.images.shape(), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(train.images.data<uint8_t>()[20], 7);
  EXPECT_EQ(train.class_count(), 3);
  io::save_npz(dir / "r.npz",
               {{"x", Array::of<double>({1, 2, 3, 4}, {4, 1})}, {"y", Array::of<double>({1, 2, 3, 4}, {4})}});
  const auto regression = load(dir / "r.npz");
  EXPECT_EQ(regression.train.images.dtype(), DType::f32);
  EXPECT_FALSE(regression.train.classification());
  EXPECT_EQ(regression.test.count(), 1);
}

TEST(Arrays, NamesFaults) {
  const TemporaryDir dir;
  const Array x = Array::of<float>({1, 2, 3, 4}, {2, 2}), y = Array::of<int64_t>({0, 1}, {2});
  io::save_npz(dir / "a.npz", {{"x_train", x}});
  expect_error(ErrorKind::data, {"a.npz", "y_train"}, [&] { load(dir / "a.npz"); });
  io::save_npz(dir / "a.npz", {{"x_train", x}, {"y_train", Array::of<int64_t>({0, 1, 1}, {3})}});
  expect_error(ErrorKind::data, {"a.npz[y_train]", "3 labels for 2 samples"}, [&] { load(dir / "a.npz"); });
  io::save_npz(dir / "a.npz", {{"x_train", x}, {"y_train", Array::of<int64_t>({0, -1}, {2})}});
  expect_error(ErrorKind::data, {"a.npz[y_train]", "sample 1 has -1"}, [&] { load(dir / "a.npz"); });
  io::save_npz(dir / "a.npz",
               {{"x_train", x}, {"y_train", y}, {"x_test", x}, {"y_test", Array::of<int64_t>({0, 5}, {2})}});
  expect_error(ErrorKind::data, {"a.npz[y_test]", "sample 1 has 5"}, [&] { load(dir / "a.npz"); });
}

TEST(Catalog, AMissListsWhereItLookedAndHowToGetTheSet) {
  const TemporaryDir dir;
  const ScopedEnvironment no_data("FREIGHT_DATA", ""), no_cache("FREIGHT_CACHE", dir / "cache");
  expect_error(ErrorKind::data, {"cifar10", dir / "cifar-10-batches-bin", "freight data get cifar10", "--data-dir"},
               [&] { Source("cifar10", {.data_dir = dir.path()}).path(); });
  expect_error(ErrorKind::data, {"mnits", "did you mean mnist?"}, [] { Source("mnits").path(); });
  expect_error(ErrorKind::data, {dir.path(), "no dataset recognized"}, [&] { load(dir.path()); });
}

TEST(Catalog, FindsUsualFolderNames) {
  const TemporaryDir dir;
  std::filesystem::create_directories(dir / "MNIST/raw");
  write(dir / "MNIST/raw/train-images-idx3-ubyte", "x");
  EXPECT_EQ(Source("mnist", {.data_dir = dir.path()}).path(), dir / "MNIST/raw");
}

TEST(Catalog, VerifyReportsAHashThatDiffers) {
  const TemporaryDir dir;
  std::filesystem::create_directories(dir / "mnist");
  write_idx(dir);
  std::filesystem::rename(dir / "train-images-idx3-ubyte", dir / "mnist/train-images-idx3-ubyte");
  std::filesystem::rename(dir / "train-labels.idx1-ubyte", dir / "mnist/train-labels.idx1-ubyte");
  std::filesystem::rename(dir / "t10k-images.idx3-ubyte.gz", dir / "mnist/t10k-images.idx3-ubyte.gz");
  std::filesystem::rename(dir / "t10k-labels-idx1-ubyte.gz", dir / "mnist/t10k-labels-idx1-ubyte.gz");
  const Verification v = verify("mnist", {.data_dir = dir.path()});
  EXPECT_FALSE(v.ok());
  EXPECT_EQ(v.files.size(), 4u);
}

TEST(Digits, AreDeterministicBalancedAndIndependentOfWhereDrawingStarts) {
  const Dataset a = draw_digits(0, 300), b = draw_digits(250, 50);
  EXPECT_EQ(a.slice(250, 50).fingerprint(), b.fingerprint());
  std::vector<int> counts(10);
  for (const int y : a.labels.to_vector<int>()) ++counts[static_cast<size_t>(y)];
  EXPECT_EQ(counts, std::vector<int>(10, 30));
  // Every sample shows something, and not a full square.
  for (int64_t i = 0; i < 300; ++i) {
    const int lit =
        static_cast<int>(std::count_if(a.images.data<uint8_t>() + i * 784, a.images.data<uint8_t>() + (i + 1) * 784,
                                       [](uint8_t p) { return p > 100; }));
    EXPECT_GT(lit, 10) << i;
    EXPECT_LT(lit, 320) << i;
  }
}

TEST(DatasetTest, FingerprintSeesOnePixelAndOneLabel) {
  Dataset a = draw_digits(0, 50);
  const uint64_t before = a.fingerprint();
  a.images.data<uint8_t>()[1000] ^= 1;
  EXPECT_NE(a.fingerprint(), before);
  a.images.data<uint8_t>()[1000] ^= 1;
  a.labels.data<int64_t>()[49] += 1;
  EXPECT_NE(a.fingerprint(), before);
}

TEST(DatasetTest, StatisticsArePerChannel) {
  Dataset s;
  s.images = Array::of<uint8_t>({0, 255, 51, 51, 255, 0, 51, 51}, {2, 2, 1, 2});
  s.compute_statistics();
  EXPECT_FLOAT_EQ(s.mean[0], 0.5f);
  EXPECT_FLOAT_EQ(s.std[0], 0.5f);
  EXPECT_FLOAT_EQ(s.mean[1], 0.2f);
  EXPECT_FLOAT_EQ(s.std[1], 1.0f);  // constant
}

}  // namespace
}  // namespace freight::data
