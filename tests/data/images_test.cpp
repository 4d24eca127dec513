// Images on disk as data sets: layouts, splits, and every kind of file that is not what it should be.
#include "freight/data/image_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include "freight/data/catalog.h"
#include "freight/data/image_cache.h"
#include "freight/data/loader.h"
#include "freight/data/source.h"
#include "freight/io/image.h"
#include "tests/support/files.h"
#include "tests/support/jpeg.h"

namespace freight::data {
namespace {
using namespace freight::testing;
namespace fs = std::filesystem;

// Below `root`: `n` small images in each named folder, of changing formats.
void write_images(const std::string& root, const std::vector<std::string>& folders, int n) {
  int number = 0;
  for (const std::string& folder : folders) {
    fs::create_directories(root + "/" + folder);
    for (int i = 0; i < n; ++i, ++number) {
      const std::string path = cat(root, "/", folder, "/p", i);
      const Array pixels = waves(20 + number % 7, 30, 3, number);
      if (i % 2) {
        io::save_png(path + ".PNG", pixels);
      } else {
        io::write_file_atomic(path + ".jpg", encode_jpeg(pixels));
      }
    }
  }
}
ImageOptions small() { return {.train_crop = 16}; }
TrainTest load_small(const std::string& path, double split = -1) {
  ImageOptions o = small();
  o.val_split = split;
  return load_image_source(path, "p", o);
}
// "a/p0.jpg" of every sample.
std::vector<std::string> names(const Dataset& set) {
  std::vector<std::string> out;
  for (const std::string& p : set.files->paths) {
    out.push_back((fs::path(p).parent_path().filename() / fs::path(p).filename()).string());
  }
  return out;
}

TEST(ImageFolder, ClassesAreTheSortedFoldersOfTrain) {
  for (const char* val : {"val", "valid", "validation"}) {
    const TemporaryDir dir;
    write_images(dir / "train", {"b", "a", "B", "c10", "c9", ".hidden"}, 3);
    write_images(dir / val, {"c9", "B"}, 2);
    EXPECT_TRUE(is_image_source(dir.path()));
    const auto [train, test] = load_small(dir.path());
    EXPECT_EQ(train.classes, (std::vector<std::string>{"B", "a", "b", "c10", "c9"}));
    EXPECT_EQ(train.count(), 15);
    EXPECT_EQ(test.count(), 4);
    EXPECT_EQ(test.labels.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 4, 4}));
    EXPECT_EQ(names(test)[3], "c9/p1.PNG");
    EXPECT_EQ(train.sample_shape(), (Shape{3, 16, 16}));
    EXPECT_EQ(train.mean[0], 0.485f);
  }
}

TEST(ImageFolder, OtherFilesAreLeftAsideAndSaidSo) {
  const TemporaryDir dir;
  write_images(dir / "train", {"a", "b"}, 2);
  write_images(dir / "val", {"a"}, 2);
  write_images(dir / "train", {"a/deeper"}, 1);
  io::write_file_atomic(dir / "train/a/readme.txt", std::string_view("x"));
  io::write_file_atomic(dir / "train/a/.DS_Store", std::string_view("x"));
  const Dataset train = load_small(dir.path()).train;
  EXPECT_EQ(train.count(), 5);
  EXPECT_NE(train.note.find("readme.txt"), std::string::npos) << train.note;
  EXPECT_EQ(train.note.find("DS_Store"), std::string::npos);
}

TEST(ImageFolder, WhatIsNotReadIsCountedByFormat) {
  const TemporaryDir dir;
  write_images(dir / "train", {"a", "b"}, 2);
  write_images(dir / "val", {"a"}, 2);
  for (const char* name : {"a/1.heic", "b/2.HEIC", "a/3.avif", "b/4.txt"}) put(dir / "train" + "/" + name, "x");
  for (const char* name : {"5.jpg", "6.svg", "labels.csv"}) put(dir / "train" + "/" + name, "x");
  const std::string note = load_small(dir.path()).train.note;
  EXPECT_NE(note.find("4 files were not read: 2 .heic, 1 .avif (formats of images that are not read: convert them to "
                      "PNG or JPEG), 1 .txt"),
            std::string::npos)
      << note;
  EXPECT_NE(note.find("2 images are in " + (dir / "train") + " itself, in no folder of a class"), std::string::npos)
      << note;
}

TEST(ImageFolder, ATestPartBesideTheOneForValidationIsKnown) {
  const TemporaryDir dir;
  write_images(dir / "train", {"a", "b"}, 4);
  EXPECT_FALSE(load_small(dir.path()).test.test_apart);
  write_images(dir / "test", {"a"}, 3);
  EXPECT_FALSE(load_small(dir.path()).test.test_apart);
  ImageOptions o = small();
  o.val_split = 0.25;
  EXPECT_TRUE(load_image_source(dir.path(), "p", o).test.test_apart);
  o.held_out = HeldOut::test;
  EXPECT_EQ(load_image_source(dir.path(), "p", o).test.count(), 3);
  write_images(dir / "val", {"a"}, 2);
  EXPECT_TRUE(load_small(dir.path()).test.test_apart);
}

TEST(ImageFolder, ImagesMayAllLieInFoldersWithinTheirClasses) {
  const TemporaryDir dir;
  write_images(dir / "set/train", {"n01/images", "n02/images"}, 2);
  write_images(dir / "set/val", {"n01/images"}, 2);
  io::write_file_atomic(dir / "set/train/n01/boxes.txt", std::string_view("x"));
  EXPECT_TRUE(is_image_source(dir / "set"));
  EXPECT_TRUE(is_image_source(dir / "set/train"));
  EXPECT_EQ(load_small(dir / "set").train.classes, (std::vector<std::string>{"n01", "n02"}));
  fs::create_directories(dir / "texts");
  EXPECT_FALSE(is_image_source(dir.path()));  // a folder of sets
}

TEST(ImageFolder, AClassThatTrainLacksIsAnError) {
  const TemporaryDir dir;
  write_images(dir / "train", {"rose", "tulip"}, 2);
  write_images(dir / "val", {"rose", "tulips"}, 2);
  expect_error(ErrorKind::data, {"val/tulips", "class tulips is not in", "did you mean tulip?"},
               [&] { load_small(dir.path()); });
  fs::rename(dir / "val/tulips", dir / "val/oak");
  expect_error(ErrorKind::data, {"class oak is not in", "/train, whose classes are rose, tulip"},
               [&] { load_small(dir.path()); });
}

TEST(ImageFolder, AnEmptyClassIsNamed) {
  const TemporaryDir dir;
  write_images(dir / "train", {"rose", "tulip"}, 2);
  fs::create_directory(dir / "train/moss");
  io::write_file_atomic(dir / "train/moss/list.txt", std::string_view("x"));
  expect_error(ErrorKind::data, {"train/moss", "no images", "jpg", "1 other"}, [&] { load_small(dir.path()); });
}

TEST(ImageFolder, OneRootIsSplitByClassAndSeed) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a", "b", "lonely"}, 10);
  for (int i = 1; i < 10; ++i) fs::remove(dir / cat("lonely/p", i, i % 2 ? ".PNG" : ".jpg"));
  const auto [train, test] = load_small(dir.path(), 0.3);
  EXPECT_EQ(train.count() + test.count(), 21);
  EXPECT_EQ(test.labels.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(train.classes.size(), 3u);
  EXPECT_NE(test.note.find("30.0 %"), std::string::npos) << test.note;
  std::set<std::string> all(train.files->paths.begin(), train.files->paths.end());
  all.insert(test.files->paths.begin(), test.files->paths.end());
  EXPECT_EQ(all.size(), 21u);
  EXPECT_EQ(names(load_small(dir.path(), 0.3).test), names(test));
  ImageOptions other = small();
  other.val_split = 0.3;
  other.split_seed = 1;
  EXPECT_NE(names(load_image_source(dir.path(), "p", other).test), names(test));
  expect_error(ErrorKind::usage, {"--val-split", "got 0"}, [&] { load_small(dir.path(), 0.0); });
  expect_error(ErrorKind::usage, {"--val-split", "got 1"}, [&] { load_small(dir.path(), 1.0); });
}

TEST(ImageFolder, ASplitOfAFolderThatHasOneIsRefused) {
  const TemporaryDir dir;
  write_images(dir / "train", {"a", "b"}, 4);
  write_images(dir / "val", {"a"}, 2);
  write_images(dir / "test", {"b"}, 3);
  expect_error(ErrorKind::usage, {"--val-split", "got 0.2", "/val"}, [&] { load_small(dir.path(), 0.2); });
  EXPECT_EQ(load_small(dir.path()).test.count(), 2);
  ImageOptions o = small();
  o.held_out = HeldOut::test;
  EXPECT_EQ(load_image_source(dir.path(), "p", o).test.count(), 3);
  fs::remove_all(dir / "val");  // without val, the test part serves, unless a split is asked for
  EXPECT_EQ(load_small(dir.path()).test.count(), 3);
  EXPECT_EQ(load_small(dir.path(), 0.25).test.count(), 2);
}

TEST(ImageFolder, SizesThatCannotWorkAreRefused) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a"}, 4);
  expect_error(ErrorKind::usage, {"--val-resize-size", "got 20", "32"},
               [&] { load_image_source(dir.path(), "p", {.train_crop = 32, .val_resize = 20}); });
  expect_error(ErrorKind::usage, {"--train-crop-size", "got -3"},
               [&] { load_image_source(dir.path(), "p", {.train_crop = -3}); });
  const TrainTest sets = load_image_source(dir.path(), "p", {});
  EXPECT_EQ(sets.test.files->geometry, (ImageGeometry{3, 224, 224, 256}));
}

TEST(ImageCsv, ListsPathsAndLabels) {
  const TemporaryDir dir;
  write_images(dir.path(), {"x", "y"}, 3);
  io::write_file_atomic(dir / "train.csv",
                        std::string_view("\xef\xbb\xbflabel,path\r\n\"red, dark\",x/p0.jpg\r\nblue,\"x/p1.PNG\"\r\n"
                                         "\r\nblue,y/p0.jpg\r\n"));
  io::write_file_atomic(dir / "val.csv", std::string_view("path,label\ny/p1.PNG,blue"));
  const auto [train, test] = load_small(dir.path());
  EXPECT_EQ(train.classes, (std::vector<std::string>{"blue", "red, dark"}));
  EXPECT_EQ(train.labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(train.files->paths[1], dir / "x/p1.PNG");
  EXPECT_EQ(test.labels.to_vector<int64_t>(), (std::vector<int64_t>{0}));
  io::write_file_atomic(dir / "val.csv", std::string_view("path,label\ny/p1.PNG,blue\ny/p0.jpg,green"));
  expect_error(ErrorKind::data, {"val.csv:3", "green", "blue"}, [&] { load_small(dir.path()); });
}

TEST(ImageCsv, NamesMayLookLikeNumbersWithZerosInFront) {
  const TemporaryDir dir;
  write_images(dir.path(), {"x"}, 3);
  io::write_file_atomic(dir / "train.csv", std::string_view("x/p0.jpg,007\nx/p1.PNG,bond\nx/p2.jpg,7\n"));
  io::write_file_atomic(dir / "val.csv", std::string_view("x/p0.jpg,007\n"));
  const auto [train, test] = load_small(dir.path());
  EXPECT_EQ(train.classes, (std::vector<std::string>{"007", "7", "bond"}));
  EXPECT_EQ(train.labels.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(test.labels.to_vector<int64_t>(), (std::vector<int64_t>{0}));
}

TEST(ImageCsv, OneFileOfNumbersIsSplit) {
  const TemporaryDir dir;
  write_images(dir.path(), {"x"}, 10);
  std::string text;
  for (int i = 0; i < 10; ++i) text += cat("x/p", i, i % 2 ? ".PNG" : ".jpg", ",", i % 2 ? 10 : 2, "\n");
  io::write_file_atomic(dir / "all.csv", std::string_view(text));
  EXPECT_TRUE(is_image_source(dir / "all.csv"));
  const auto [train, test] = load_small(dir / "all.csv");
  EXPECT_EQ(train.class_count(), 11);
  EXPECT_EQ(train.count(), 8);
  EXPECT_EQ(test.labels.to_vector<int64_t>(), (std::vector<int64_t>{2, 10}));
  io::write_file_atomic(dir / "bad.csv", std::string_view("a.jpg,1\nb.jpg\n"));
  expect_error(ErrorKind::data, {"bad.csv:2", "expected 2 fields as in the first line, got 1"},
               [&] { load_small(dir / "bad.csv"); });
  io::write_file_atomic(dir / "bad.csv", std::string_view("a.jpg,1\nb.jpg,2\nc, the first.jpg,1\n"));
  expect_error(ErrorKind::data, {"bad.csv:3", "expected 2 fields as in the first line, got 3"},
               [&] { load_small(dir / "bad.csv"); });
  io::write_file_atomic(dir / "bad.csv", std::string_view("a.jpg,1\n\"b.jpg,2\n"));
  expect_error(ErrorKind::data, {"bad.csv:2", "never closed"}, [&] { load_small(dir / "bad.csv"); });
  io::write_file_atomic(dir / "text.csv", std::string_view("a review,1\nanother,2\n"));
  EXPECT_FALSE(is_image_source(dir / "text.csv"));
}

// Files that cannot be read, one per fault, beside good ones; their names.
std::vector<std::string> write_bad_files(const std::string& dir) {
  const std::string good = encode_jpeg(waves(40, 40)), png = text_of(io::encode_png(waves(30, 30)));
  std::string corrupt = good;
  std::fill_n(corrupt.begin() + static_cast<int64_t>(good.size() * 4 / 5), 30, '\xff');  // past the header
  std::string flipped = png;
  flipped[png.size() / 2] = static_cast<char>(~flipped[png.size() / 2]);
  const std::vector<std::pair<std::string, std::string>> files = {
      {"bad-corrupt.jpg", corrupt},
      {"bad-empty.jpg", ""},
      {"bad-flipped.png", flipped},
      {"bad-text.png", "no image at all"},
      {"bad-truncated.jpg", good.substr(0, good.size() * 3 / 4)},
      {"bad-truncated.png", png.substr(0, png.size() - 20)}};
  std::vector<std::string> paths;
  for (const auto& [name, content] : files) {
    io::write_file_atomic(dir + "/" + name, std::string_view(content));
    paths.push_back(dir + "/" + name);
  }
  return paths;
}

TEST(BadSamples, VerificationNamesEveryOne) {
  const TemporaryDir dir;
  write_images(dir / "train", {"a", "b"}, 5);
  write_images(dir / "val", {"a"}, 2);
  write_images(dir / "test", {"a"}, 2);
  EXPECT_TRUE(verify(dir.path()).ok());
  const std::vector<std::string> bad = write_bad_files(dir / "train/b");
  io::write_file_atomic(dir / "test/a/zero.webp", std::string_view(""));
  const Verification v = verify(dir.path());
  EXPECT_FALSE(v.ok());
  EXPECT_EQ(v.images, 10 + 2 + 3 + static_cast<int64_t>(bad.size()));
  std::vector<std::string> named;
  for (const BadSample& b : v.bad) {
    named.push_back(b.path);
    EXPECT_FALSE(b.reason.empty());
  }
  ASSERT_EQ(named.size(), bad.size() + 1);
  EXPECT_EQ(named[0], dir / "test/a/zero.webp");
  EXPECT_TRUE(std::equal(bad.begin(), bad.end(), named.begin() + 1));
}

class BadSamples : public ::testing::TestWithParam<int> {};  // workers
TEST_P(BadSamples, StopTheLoaderOrAreLeftOutAndNamed) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a", "b"}, 12);
  const std::vector<std::string> bad = write_bad_files(dir / "b");
  const Dataset set = load_small(dir.path(), 0.01).train;
  int64_t expected = 0;
  for (const std::string& p : set.files->paths) expected += std::find(bad.begin(), bad.end(), p) == bad.end();
  const auto total = static_cast<size_t>(set.count() - expected);
  LoaderOptions o{.batch_size = 4, .shuffle = true, .workers = GetParam(), .augment = {.random_crop = true}};
  expect_error(ErrorKind::data, {dir / "b/bad-"}, [&] {
    Loader loader(set, o);
    for (const Batch& b : loader.epoch(0)) (void)b;
  });
  std::set<std::string> named;
  o.bad = {.on_bad = OnBad::skip, .report = [&](const BadSample& b) { EXPECT_TRUE(named.insert(b.path).second); }};
  Loader loader(set, o);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    int64_t seen = 0;
    for (const Batch& b : loader.epoch(epoch)) {
      EXPECT_GT(b.count, 0);
      EXPECT_EQ(b.images.shape()[0], b.count);
      EXPECT_EQ(b.labels.numel(), b.count);
      seen += b.count;
    }
    EXPECT_EQ(seen, expected);
  }
  EXPECT_EQ(named.size(), total);
}
TEST_P(BadSamples, LeaveTheOtherSamplesTheirNeighborsInEachPieceOfAMixedBatch) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a", "b"}, 5);
  write_bad_files(dir / "b");
  const Dataset set = load_small(dir.path(), 0.01).train;
  LoaderOptions o{.batch_size = 5, .shuffle = true, .workers = GetParam(), .mix = {.mixup_alpha = 1}};
  o.bad.on_bad = OnBad::skip;
  const auto rows = [&](int64_t of) {
    std::vector<std::unique_ptr<Loader>> readers;
    for (int64_t i = 0; i < of; ++i) {
      o.share = {.of = of, .first = i, .end = i + 1, .cut = true};
      readers.push_back(std::make_unique<Loader>(set, o));
      readers.back()->epoch(0);
    }
    std::vector<float> all;
    while (true) {
      for (const auto& reader : readers) {
        const Batch* b = reader->next();
        if (!b) return all;
        for (const float x : b->images.to_vector<float>()) all.push_back(x);
        for (const float x : b->labels.to_vector<float>()) all.push_back(x + 100);
      }
    }
  };
  // Images lie before labels in each piece: sorted, the rows can be compared.
  const auto sorted = [&](int64_t of) {
    std::vector<float> all = rows(of);
    std::sort(all.begin(), all.end());
    return all;
  };
  const std::vector<float> whole = sorted(1);
  for (const int64_t of : {2, 3, 5}) EXPECT_TRUE(sorted(of) == whole) << of;
}
INSTANTIATE_TEST_SUITE_P(Workers, BadSamples, ::testing::Values(0, 1, 3));

TEST(BadSamples, AFileThatVanishesIsNamed) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a", "b"}, 4);
  const Dataset set = load_small(dir.path()).train;
  fs::remove(set.files->paths[0]);
  expect_error(ErrorKind::data, {set.files->paths[0]}, [&] {
    Loader loader(set, {.batch_size = 2});
    for (const Batch& b : loader.epoch(0)) (void)b;
  });
}

// The same set, which keeps no file.
Dataset without_cache(Dataset set) {
  auto files = std::make_shared<ImageFiles>(*set.files);
  files->kept = std::make_shared<ImageCache>(files->paths.size(), 0);
  set.files = files;
  return set;
}

TEST(ImageCache, KeepsWhatFitsAndTheFirstOfEqualOnes) {
  ImageCache cache(4, 100);
  const auto file = [](uint8_t content, size_t size) { return std::vector<uint8_t>(size, content); };
  const auto kept = [&](size_t i) {
    const io::ByteView v = cache.find(i);
    return std::vector<uint8_t>(v.begin(), v.end());
  };
  EXPECT_TRUE(cache.find(0).empty());
  cache.keep(0, file(1, 60), 7);
  cache.keep(0, file(2, 30), 7);  // takes no room
  cache.keep(1, file(3, 41), 8);
  cache.keep(2, file(4, 40), 0);
  EXPECT_EQ(kept(0), file(1, 60));
  EXPECT_EQ(kept(1), file(3, 0));
  EXPECT_EQ(kept(2), file(4, 40));
  EXPECT_TRUE(cache.sound(0, 7));
  EXPECT_TRUE(cache.sound(1, 8));  // known, though not kept
  EXPECT_FALSE(cache.sound(1, 7));
  EXPECT_FALSE(cache.sound(2, 0));  // no regular file: nothing tells whether it is the same
  EXPECT_FALSE(cache.sound(3, 7));
}

TEST(ImageCache, LargeFilesAndManySmallOnesDoNotOverlap) {
  ImageCache cache(40);
  const auto size = [](size_t i) { return i % 7 == 0 ? (size_t{1} << 20) + i : 300'000 + i; };
  for (size_t i = 0; i < 40; ++i) cache.keep(i, std::vector<uint8_t>(size(i), static_cast<uint8_t>(i)), 1);
  for (size_t i = 0; i < 40; ++i) {
    const io::ByteView v = cache.find(i);
    ASSERT_EQ(v.size(), size(i));
    EXPECT_TRUE(std::all_of(v.begin(), v.end(), [&](uint8_t b) { return b == i; })) << i;
  }
}

// Later epochs decode no more than they need, of the bytes that the first one read: the same batches.
TEST(ImageLoader, SmallSetsAreReadFromTheirFilesOnce) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a", "b"}, 8);
  const Dataset set = load_small(dir.path()).train;
  size_t bytes = 0;
  for (const std::string& path : set.files->paths) bytes += fs::file_size(path);
  EXPECT_EQ(set.files->kept_bytes(), (bytes / ImageCache::kBlock + 1) * ImageCache::kBlock);
  const LoaderOptions options{
      .batch_size = 3, .shuffle = true, .workers = 2, .epochs = 3, .augment = {.random_crop = true, .flip = true}};
  const auto epoch = [&](Loader& loader, int64_t n) {
    std::vector<float> all;
    for (const Batch& b : loader.epoch(n)) {
      for (const float v : b.images.to_vector<float>()) all.push_back(v);
    }
    return all;
  };
  Loader plain(without_cache(set), options), loader(set, options);
  std::vector<std::vector<float>> expected;
  for (int64_t n = 0; n < 3; ++n) expected.push_back(epoch(plain, n));
  EXPECT_EQ(epoch(loader, 0), expected[0]);
  for (const std::string& path : set.files->paths) fs::remove(path);
  for (int64_t n = 1; n < 3; ++n) EXPECT_EQ(epoch(loader, n), expected[static_cast<size_t>(n)]) << n;
}

// What is known of an image holds for the file that it was learnt from: damage done between two epochs is seen.
TEST(ImageLoader, AFileThatIsDamagedBetweenEpochsIsReadToItsEndAgain) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a"}, 4);
  const Dataset set = without_cache(load_small(dir.path()).train);
  const auto& paths = set.files->paths;
  const std::string path = *std::find_if(paths.begin(), paths.end(), [](const auto& p) { return p.ends_with(".jpg"); });
  const std::string good = read_text(path);
  Loader loader(set, {.batch_size = 1, .workers = 0, .epochs = 3, .augment = {.random_crop = true}});
  const auto walk = [&](int64_t epoch) {
    int64_t n = 0;
    for (const Batch& b : loader.epoch(epoch)) n += b.count;
    return n;
  };
  EXPECT_EQ(walk(0), set.count());
  io::write_file_atomic(path, good.substr(0, good.size() - 1));
  expect_error(ErrorKind::data, {path}, [&] { walk(1); });
  io::write_file_atomic(path, good);
  EXPECT_EQ(walk(2), set.count());
}

TEST(ImageLoader, BatchesDoNotDependOnTheWorkers) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a", "b", "c"}, 9);
  const Dataset set = load_small(dir.path()).train;
  const auto walk = [&](int workers, bool channels_last) {
    Loader loader(set, {.batch_size = 5,
                        .shuffle = true,
                        .seed = 4,
                        .workers = workers,
                        .augment = {.random_crop = true,
                                    .flip = true,
                                    .color_jitter = {0.4, 0.4, 0.4, 0.1},
                                    .rand_augment = 2,
                                    .random_erase = 0.5},
                        .mix = {.mixup_alpha = 0.2, .cutmix_alpha = 1},
                        .channels_last = channels_last});
    std::vector<float> all;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      for (const Batch& b : loader.epoch(epoch)) {
        for (const Array& a : {b.images, b.labels}) {
          for (const float v : a.to_vector<float>()) all.push_back(v);
        }
      }
    }
    return all;
  };
  const std::vector<float> one = walk(0, false);
  EXPECT_EQ(walk(1, false), one);
  EXPECT_EQ(walk(4, false), one);
  EXPECT_EQ(walk(3, true), walk(0, true));
}

// The first batches of the next epoch are made while the caller is still in this one: they need no files any more.
// Large images go into the batch row by row, channels last ones by way of bytes: the same values.
TEST(ImageLoader, LargeImagesAreTheSameInBothLayouts) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a", "b"}, 3);
  const Dataset set = load_image_source(dir.path(), "p", {.train_crop = 70}).train;
  const auto batch = [&](bool channels_last) {
    Loader loader(set, {.batch_size = set.count(),
                        .workers = 1,
                        .augment = {.random_crop = true, .flip = true},
                        .channels_last = channels_last});
    return loader.epoch(0).begin()->images.to_vector<float>();
  };
  const std::vector<float> first = batch(false), last = batch(true);
  ASSERT_EQ(first.size(), last.size());
  const auto n = static_cast<size_t>(set.count());
  const size_t plane = 70 * 70;
  for (size_t i = 0; i < n; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      for (size_t p = 0; p < plane; ++p) {
        ASSERT_EQ(first[(i * 3 + c) * plane + p], last[(i * plane + p) * 3 + c]) << i << " " << c << " " << p;
      }
    }
  }
}

TEST(ImageLoader, PreparesTheNextEpochBeforeItIsAskedFor) {
  const auto next_epoch_is_there = [](const LoaderOptions& o, int milliseconds = 800) {
    const TemporaryDir dir;
    write_images(dir.path(), {"a", "b"}, 8);
    Loader loader(without_cache(load_small(dir.path()).train), o);
    for (const Batch& b : loader.epoch(0)) (void)b;
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    for (const std::string& path : loader.dataset().files->paths) fs::remove(path);
    try {
      loader.epoch(1).begin();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(next_epoch_is_there({.batch_size = 5, .shuffle = true, .workers = 2}));
  EXPECT_TRUE(next_epoch_is_there({.batch_size = 12, .shuffle = true, .workers = 1, .epochs = 2}));
  // Eight small images are read within a few milliseconds where they are read at all.
  EXPECT_FALSE(next_epoch_is_there({.batch_size = 5, .shuffle = true, .workers = 2, .epochs = 1}, 100));
  // Not shuffled: an evaluation, which asks for epochs as it likes.
  EXPECT_FALSE(next_epoch_is_there({.batch_size = 5, .workers = 2}, 100));
}

TEST(ImageLoader, EvaluationSeesWhatPredictionSees) {
  const TemporaryDir dir;
  write_images(dir.path(), {"a", "b"}, 6);
  Dataset set = load_small(dir.path()).test;
  set.mean.clear();
  set.std.clear();
  Loader loader(set, {.batch_size = 2, .workers = 2});
  int64_t i = 0;
  for (const Batch& b : loader.epoch(0)) {
    for (int64_t k = 0; k < b.count; ++k, ++i) {
      const std::string& path = set.files->paths[static_cast<size_t>(i)];
      const Array view = evaluation_view(io::read_file(path), path, set.files->geometry);
      for (int64_t p = 0; p < view.numel(); ++p) {
        ASSERT_EQ(b.images.data<float>()[k * view.numel() + p],
                  static_cast<float>(view.data<uint8_t>()[p]) * (1.0f / 255.0f));
      }
    }
  }
  EXPECT_EQ(i, set.count());
}

// Real photographs, where they are.
TEST(RealImages, FlowersSplitAndDecode) {
  const std::string root = real_data("flowers");
  if (root.empty()) GTEST_SKIP() << "no flowers in $FREIGHT_DATA or shared/data";
  const auto [train, test] = load("flowers", {.data_dir = root, .images = {.train_crop = 64}});
  EXPECT_EQ(train.class_count(), 5);
  EXPECT_EQ(train.count() + test.count(), 4317);
  Loader loader(test, {.batch_size = 64});
  double sum = 0;
  int64_t n = 0;
  for (const Batch& b : loader.epoch(0)) {
    for (const float v : b.images.to_vector<float>()) sum += static_cast<double>(v);
    n += b.images.numel();
  }
  EXPECT_NEAR(sum / static_cast<double>(n), 0, 0.5);  // near ImageNet's mean
}

TEST(Sources, AFolderIsListedOnce) {
  TemporaryDir dir;
  write_images(dir.path(), {"train/cat", "train/dog", "val/cat", "val/dog"}, 3);
  const Source source(dir.path());
  EXPECT_EQ(source.content(), Content::images);
  EXPECT_FALSE(source.takes_time_to_read());  // looks into all folders
  write_images(dir.path(), {"train/owl", "val/owl"}, 3);
  EXPECT_EQ(source.load({.images = small()}).train.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(Source(dir.path()).load({.images = small()}).train.class_count(), 3);
  // Data that are not there are refused when they are read.
  const Source missing(dir / "none");
  EXPECT_EQ(missing.content(), Content::arrays);
  expect_error(ErrorKind::data, {"none", "no such dataset"}, [&] { missing.load(); });
}

}  // namespace
}  // namespace freight::data
