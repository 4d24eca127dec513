// The loader: order, augmentation, equality over worker counts, resume, buffers that stay with who holds them.
#include "freight/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "freight/data/digits.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;

// n images of 3x4x5 whose bytes tell sample, channel and place.
Dataset colour_set(int64_t n) {
  Dataset s;
  s.name = "colours";
  s.images = Array(DType::u8, {n, 3, 4, 5});
  s.labels = Array(DType::i64, {n});
  s.classes = numbered_classes(n);
  for (int64_t i = 0; i < s.images.numel(); ++i) s.images.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37 % 251 + 1);
  std::iota(s.labels.data<int64_t>(), s.labels.data<int64_t>() + n, 0);
  return s;
}
struct Seen {
  std::vector<int64_t> labels;
  std::vector<float> pixels;
  std::vector<int64_t> counts;
  friend bool operator==(const Seen&, const Seen&) = default;
};
Seen walk(Loader& loader, int64_t epoch, int64_t first = 0) {
  Seen seen;
  for (const Batch& b : loader.epoch(epoch, first)) {
    for (const int64_t y : b.labels.to_vector<int64_t>()) seen.labels.push_back(y);
    for (const float x : b.images.to_vector<float>()) seen.pixels.push_back(x);
    seen.counts.push_back(b.count);
    EXPECT_EQ(b.images.shape()[0], b.count);
  }
  return seen;
}

TEST(LoaderTest, EveryEpochHoldsEverySampleOnceInAnOrderOfItsOwn) {
  Loader loader(colour_set(53), {.batch_size = 8, .shuffle = true, .seed = 5});
  const Seen a = walk(loader, 0), b = walk(loader, 1);
  EXPECT_EQ(a.counts, (std::vector<int64_t>{8, 8, 8, 8, 8, 8, 5}));
  EXPECT_EQ(std::set<int64_t>(a.labels.begin(), a.labels.end()).size(), 53u);
  EXPECT_NE(a.labels, b.labels);
  EXPECT_EQ(walk(loader, 0), a);
  Loader other(colour_set(53), {.batch_size = 8, .shuffle = true, .seed = 6});
  EXPECT_NE(walk(other, 0).labels, a.labels);
}

// The batches of several loaders, piece behind piece, as those of one.
Seen joined(const std::vector<Seen>& pieces, int64_t batches) {
  Seen all;
  const size_t sample = 3 * 4 * 5;
  std::vector<size_t> at(pieces.size(), 0), row(pieces.size(), 0);
  for (int64_t b = 0; b < batches; ++b) {
    int64_t count = 0;
    for (size_t p = 0; p < pieces.size(); ++p) {
      const auto n = static_cast<size_t>(pieces[p].counts.at(at[p]++));
      const auto from = static_cast<std::ptrdiff_t>(row[p]), to = static_cast<std::ptrdiff_t>(row[p] + n);
      const auto width = static_cast<std::ptrdiff_t>(sample);
      all.labels.insert(all.labels.end(), pieces[p].labels.begin() + from, pieces[p].labels.begin() + to);
      all.pixels.insert(all.pixels.end(), pieces[p].pixels.begin() + from * width,
                        pieces[p].pixels.begin() + to * width);
      row[p] += n;
      count += static_cast<int64_t>(n);
    }
    all.counts.push_back(count);
  }
  return all;
}

TEST(LoaderTest, PiecesOfBatchesAreTogetherTheBatches) {
  for (const int workers : {0, 2}) {
    for (const bool drop_last : {true, false}) {
      LoaderOptions o{.batch_size = 10,
                      .shuffle = true,
                      .seed = 3,
                      .drop_last = drop_last,
                      .workers = workers,
                      .augment = {.shift = 1, .flip = true}};
      Loader whole(colour_set(53), o);
      for (const int64_t of : {2, 3, 4, 12}) {
        std::vector<std::unique_ptr<Loader>> loaders;
        for (int64_t i = 0; i < of; ++i) {
          o.share = {.of = of, .first = i, .end = i + 1, .cut = true};
          loaders.push_back(std::make_unique<Loader>(colour_set(53), o));
          EXPECT_EQ(loaders.back()->batches_per_epoch(), whole.batches_per_epoch());
        }
        for (const auto& [epoch, first] : {std::pair<int64_t, int64_t>{0, 0}, {1, 0}, {1, 2}}) {
          std::vector<Seen> pieces;
          for (const auto& loader : loaders) pieces.push_back(walk(*loader, epoch, first));
          EXPECT_EQ(joined(pieces, whole.batches_per_epoch() - first), walk(whole, epoch, first)) << of;
        }
      }
    }
  }
}

TEST(LoaderTest, WholeBatchesAreDealtToReadersInTurn) {
  Loader whole(colour_set(53), {.batch_size = 8});
  const Seen all = walk(whole, 0);
  for (const int64_t of : {2, 3, 9}) {
    std::vector<int64_t> labels;
    for (int64_t r = 0; r < of; ++r) {
      Loader loader(colour_set(53), {.batch_size = 8, .share = {.of = of, .first = r, .end = r + 1}});
      int64_t number = r;
      for (const Batch& b : loader.epoch(0)) {
        EXPECT_EQ(b.index, number);
        EXPECT_EQ(b.labels.to_vector<int64_t>()[0], number * 8);
        for (const int64_t y : b.labels.to_vector<int64_t>()) labels.push_back(y);
        number += of;
      }
      EXPECT_GE(number, 7);
    }
    std::sort(labels.begin(), labels.end());
    EXPECT_EQ(labels, all.labels);
  }
}

class LoaderWorkers : public ::testing::TestWithParam<int> {};
TEST_P(LoaderWorkers, GiveTheSameBatches) {
  LoaderOptions o{.batch_size = 7, .shuffle = true, .seed = 9, .workers = 0, .augment = {.shift = 2, .flip = true}};
  Loader plain(colour_set(60), o);
  o.workers = GetParam();
  Loader threaded(colour_set(60), o);
  for (int64_t e = 0; e < 3; ++e) EXPECT_EQ(walk(plain, e), walk(threaded, e));
}
INSTANTIATE_TEST_SUITE_P(All, LoaderWorkers, ::testing::Values(1, 2, 5));

TEST(LoaderTest, ResumesAtAnyBatch) {
  Loader loader(colour_set(40), {.batch_size = 6, .shuffle = true, .workers = 2, .augment = {.shift = 1}});
  const Seen all = walk(loader, 3), rest = walk(loader, 3, 4);
  EXPECT_EQ(rest.labels, std::vector<int64_t>(all.labels.begin() + 24, all.labels.end()));
  EXPECT_EQ(rest.pixels, std::vector<float>(all.pixels.begin() + 24 * 60, all.pixels.end()));
  EXPECT_TRUE(walk(loader, 3, 7).labels.empty());
}

TEST(LoaderTest, DropsTheShortBatchWhenAsked) {
  Loader loader(colour_set(20), {.batch_size = 6, .drop_last = true});
  EXPECT_EQ(walk(loader, 0).counts, (std::vector<int64_t>{6, 6, 6}));
  EXPECT_EQ(loader.samples_per_epoch(), 18);
}

TEST(LoaderTest, NormalizesAndOrdersMemory) {
  Dataset set = colour_set(3);
  set.mean = {0.1f, 0.2f, 0.3f};
  set.std = {0.5f, 0.25f, 2.0f};
  Loader planes(set, {.batch_size = 3}), pixels(set, {.batch_size = 3, .channels_last = true});
  const Array a = planes.epoch(0).begin()->images, b = pixels.epoch(0).begin()->images;
  EXPECT_EQ(a.shape(), (Shape{3, 3, 4, 5}));
  EXPECT_EQ(b.shape(), (Shape{3, 4, 5, 3}));
  for (int64_t n = 0; n < 3; ++n) {
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t i = 0; i < 20; ++i) {
        const float x = static_cast<float>(set.images.data<uint8_t>()[(n * 3 + c) * 20 + i]) / 255.0f;
        const auto k = static_cast<size_t>(c);
        EXPECT_NEAR(a.data<float>()[(n * 3 + c) * 20 + i], (x - set.mean[k]) / set.std[k], 1e-5);
        EXPECT_EQ(a.data<float>()[(n * 3 + c) * 20 + i], b.data<float>()[(n * 20 + i) * 3 + c]);
      }
    }
  }
}

TEST(LoaderTest, ShiftMovesWholeImagesAndFillsWithBlack) {
  Dataset set;
  set.name = "dot";
  set.images = Array(DType::u8, {64, 1, 5, 5});
  set.labels = Array(DType::i64, {64});
  set.classes = {"a"};
  for (int64_t i = 0; i < 64; ++i) set.images.data<uint8_t>()[i * 25 + 12] = 255;  // the middle
  std::set<int64_t> places;
  Loader loader(set, {.batch_size = 64, .augment = {.shift = 2}});
  for (const Batch& b : loader.epoch(0)) {
    for (int64_t i = 0; i < 64; ++i) {
      const float* p = b.images.data<float>() + i * 25;
      EXPECT_EQ(std::accumulate(p, p + 25, 0.0f), 1.0f);
      places.insert(std::max_element(p, p + 25) - p);
    }
  }
  EXPECT_GT(places.size(), 12u);
}

// Two epochs in a row show both sides of every image, and each epoch about as many of either.
TEST(LoaderTest, FlipsMirrorEachImageEveryOtherEpoch) {
  constexpr int64_t kCount = 200;
  const Dataset set = colour_set(kCount);
  Loader loader(set, {.batch_size = kCount, .augment = {.flip = true, .normalize = false}});
  const auto mirrored = [&](int64_t epoch) {
    const Array seen = loader.epoch(epoch).begin()->images;
    std::vector<bool> out;
    for (int64_t i = 0; i < kCount; ++i) {
      const float first = seen.data<float>()[i * 60] * 255;
      const auto* pixels = set.images.data<uint8_t>() + i * 60;
      out.push_back(std::lround(first) == pixels[4]);
      EXPECT_EQ(std::lround(first), pixels[out.back() ? 4 : 0]);
    }
    return out;
  };
  const std::vector<bool> first = mirrored(0);
  EXPECT_NEAR(std::count(first.begin(), first.end(), true), kCount / 2, 30);
  std::vector<bool> other = first;
  other.flip();
  EXPECT_EQ(mirrored(1), other);
  EXPECT_EQ(mirrored(2), first);
}

TEST(LoaderTest, ABatchThatIsKeptStaysIntact) {
  for (const int workers : {0, 2}) {
    Loader loader(colour_set(30), {.batch_size = 5, .workers = workers});
    std::vector<Array> kept;
    for (const Batch& b : loader.epoch(0)) kept.push_back(b.labels);
    std::vector<int64_t> all;
    for (const Array& a : kept) {
      for (const int64_t y : a.to_vector<int64_t>()) all.push_back(y);
    }
    std::vector<int64_t> want(30);
    std::iota(want.begin(), want.end(), 0);
    EXPECT_EQ(all, want);
  }
}

TEST(LoaderTest, BuffersAreReused) {
  Loader loader(colour_set(300), {.batch_size = 5, .workers = 1, .prefetch = 2});
  std::set<const void*> addresses;
  for (int64_t e = 0; e < 3; ++e) {
    for (const Batch& b : loader.epoch(e)) addresses.insert(b.images.raw());
  }
  EXPECT_LE(addresses.size(), 3u);
}

TEST(LoaderTest, EpochsThatGoOnEqualEpochsThatBeginAnew) {
  const LoaderOptions o{.batch_size = 4, .shuffle = true, .workers = 3, .prefetch = 7, .augment = {.flip = true}};
  Loader going(colour_set(10), o);
  for (const int64_t epoch : {0, 1, 2, 2, 5, 6, 0, 1}) {
    Loader fresh(colour_set(10), o);
    EXPECT_EQ(walk(going, epoch), walk(fresh, epoch)) << epoch;
    if (epoch == 5) going.epoch(9, 2);  // and one that nobody walks over
  }
}

TEST(LoaderTest, MemoryBoundsTheBatchesAhead) {
  std::set<const void*> addresses;
  Loader loader(colour_set(300), {.batch_size = 10, .workers = 4, .prefetch = 20, .prefetch_bytes = 3 * 10 * 60 * 4});
  for (const Batch& b : loader.epoch(0)) addresses.insert(b.images.raw());
  EXPECT_LE(addresses.size(), 3u);
}

TEST(LoaderTest, StopsCleanlyInTheMiddleOfAnEpoch) {
  for (int round = 0; round < 20; ++round) {
    Loader loader(colour_set(200), {.batch_size = 3, .workers = 3, .prefetch = 4});
    int seen = 0;
    for (const Batch& b : loader.epoch(0)) {
      (void)b;
      if (++seen == round) break;
    }
    if (round % 2) walk(loader, 1);  // an epoch after one that was left
  }
}

TEST(LoaderTest, FillsMemoryOfTheCaller) {
  Loader loader(colour_set(20), {.batch_size = 6, .shuffle = true, .workers = 0});
  const Seen all = walk(loader, 2);
  std::vector<float> images(6 * 60);
  std::vector<int64_t> labels(6);
  EXPECT_EQ(loader.fill(2, 1, images.data(), labels.data()), 6);
  EXPECT_EQ(labels, std::vector<int64_t>(all.labels.begin() + 6, all.labels.begin() + 12));
  EXPECT_EQ(images, std::vector<float>(all.pixels.begin() + 360, all.pixels.begin() + 720));
  EXPECT_EQ(loader.fill(1, 3, images.data(), labels.data()), 2);
}

TEST(LoaderTest, ServesFloatTargets) {
  Dataset s;
  s.name = "table";
  s.images = Array::of<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  s.labels = Array::of<float>({10, 20, 30, 40, 50, 60}, {3, 2});
  s.compute_statistics();
  Loader loader(s, {.batch_size = 2});
  auto it = loader.epoch(0).begin();
  EXPECT_EQ(it->labels.shape(), (Shape{2, 2}));
  EXPECT_EQ(it->labels.to_vector<float>(), (std::vector<float>{10, 20, 30, 40}));
  EXPECT_NEAR(it->images.data<float>()[2], 0.0f, 1e-6);  // the mean row
}

TEST(LoaderTest, MixupBlendsNeighborsAndTheirLabels) {
  for (const int workers : {0, 3}) {
    const LoaderOptions plain{.batch_size = 6, .shuffle = true, .seed = 3, .workers = 0};
    LoaderOptions mixed = plain;
    mixed.workers = workers;
    mixed.mix = {.mixup_alpha = 0.8};
    Loader a(colour_set(18), plain), b(colour_set(18), mixed);
    auto x = a.epoch(0).begin();
    std::set<float> shares;
    for (const Batch& m : b.epoch(0)) {
      ASSERT_EQ(m.labels.shape(), (Shape{6, 18}));
      const float keep = m.labels.data<float>()[x->labels.data<int64_t>()[0]];
      shares.insert(keep);
      for (int64_t i = 0; i < 6; ++i) {
        const int64_t before = (i + 5) % 6;
        for (int64_t k = 0; k < 18; ++k) {
          const float want =
              (k == x->labels.data<int64_t>()[i] ? keep : 0) + (k == x->labels.data<int64_t>()[before] ? 1 - keep : 0);
          ASSERT_NEAR(m.labels.data<float>()[i * 18 + k], want, 1e-6);
        }
        for (int64_t k = 0; k < 60; ++k) {
          const float* p = x->images.data<float>();
          ASSERT_NEAR(m.images.data<float>()[i * 60 + k], keep * p[i * 60 + k] + (1 - keep) * p[before * 60 + k], 1e-5);
        }
      }
      ++x;
    }
    EXPECT_EQ(shares.size(), 3u);  // one draw per batch
  }
}

// The rows of all batches, one behind the other: pixels, then labels.
std::pair<std::vector<float>, std::vector<float>> mixed_rows(const LoaderOptions& options, int64_t batches) {
  const Share& share = options.share;
  std::vector<std::unique_ptr<Loader>> readers;
  for (int64_t piece = 0; piece < share.of; ++piece) {
    LoaderOptions o = options;
    o.share.first = piece;
    o.share.end = piece + 1;
    readers.push_back(std::make_unique<Loader>(colour_set(23), o));
    readers.back()->epoch(1);
  }
  std::pair<std::vector<float>, std::vector<float>> all;
  for (int64_t b = 0; b < batches; ++b) {
    for (const auto& reader : readers) {
      const Batch* piece = reader->next();
      for (const float x : piece->images.to_vector<float>()) all.first.push_back(x);
      for (const float x : piece->labels.to_vector<float>()) all.second.push_back(x);
    }
  }
  return all;
}

TEST(LoaderTest, PiecesOfAMixedBatchAreTheRowsOfTheWholeOne) {
  for (const Mix& mix : {Mix{.mixup_alpha = 1}, Mix{.cutmix_alpha = 1}, Mix{.mixup_alpha = 0.3, .cutmix_alpha = 1}}) {
    for (const bool channels_last : {false, true}) {
      LoaderOptions o{
          .batch_size = 7, .shuffle = true, .seed = 4, .workers = 0, .mix = mix, .channels_last = channels_last};
      const auto whole = mixed_rows(o, 4);  // 7, 7, 7 and 2 samples
      ASSERT_EQ(whole.second.size(), 23u * 23u);
      for (const int64_t of : {2, 3, 7, 9}) {  // of 7 and 9 pieces each has a single sample, or none
        for (const int workers : {0, 2}) {
          o.workers = workers;
          o.share = {.of = of, .cut = true};
          EXPECT_TRUE(mixed_rows(o, 4) == whole) << of << " pieces";
        }
      }
      o.workers = 0;
      o.share = {.of = 3, .cut = true, .bounds = {0, 4, 5, 7}};
      EXPECT_TRUE(mixed_rows(o, 4) == whole) << "uneven pieces";
      o.share = {};
    }
  }
}

TEST(LoaderTest, CutmixSharesOutTheAreaInTheLabels) {
  Dataset set;  // sample i is i everywhere
  set.name = "flat";
  set.images = Array(DType::u8, {8, 1, 16, 16});
  set.labels = Array(DType::i64, {8});
  set.classes = numbered_classes(8);
  for (int64_t i = 0; i < 8; ++i) {
    std::fill_n(set.images.data<uint8_t>() + i * 256, 256, static_cast<uint8_t>(i));
    set.labels.data<int64_t>()[i] = i;
  }
  for (const bool channels_last : {false, true}) {
    Loader loader(set, {.batch_size = 8, .seed = 1, .mix = {.cutmix_alpha = 1}, .channels_last = channels_last});
    std::set<float> shares;
    for (int64_t epoch = 0; epoch < 20; ++epoch) {
      const Batch& b = *loader.epoch(epoch).begin();
      for (int64_t i = 0; i < 8; ++i) {
        const float* p = b.images.data<float>() + i * 256;
        const auto own = std::count_if(p, p + 256, [&](float v) { return std::lround(v * 255) == i; });
        const auto other = std::count_if(p, p + 256, [&](float v) { return std::lround(v * 255) == (i + 7) % 8; });
        ASSERT_EQ(own + other, 256);
        ASSERT_NEAR(b.labels.data<float>()[i * 8 + i], static_cast<float>(own) / 256.0f, 1e-6);
        shares.insert(b.labels.data<float>()[i * 8 + i]);
      }
    }
    EXPECT_GT(shares.size(), 10u);
  }
}

TEST(LoaderTest, ErasesARectangleOfTheMeanColor) {
  Dataset set = colour_set(200);
  set.images = Array(DType::u8, {200, 3, 20, 20});
  std::fill_n(set.images.data<uint8_t>(), set.images.numel(), uint8_t{255});
  Loader loader(set, {.batch_size = 200, .augment = {.random_erase = 0.5}});
  const Batch& b = *loader.epoch(0).begin();
  int64_t erased = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const float* p = b.images.data<float>() + i * 1200;
    const auto n = std::count(p, p + 400, 0.0f);
    erased += n > 0;
    EXPECT_LE(n, 400 / 3 + 10);
    for (int64_t k = 0; k < 400; ++k) ASSERT_EQ(p[k], p[k + 400]);
  }
  EXPECT_NEAR(static_cast<double>(erased), 100, 30);
}

TEST(LoaderTest, RefusesOptionsThatCannotWork) {
  expect_error(ErrorKind::usage, {"batch size", "got 0"}, [] { Loader l(colour_set(3), {.batch_size = 0}); });
  expect_error(ErrorKind::usage, {"no batch"}, [] { Loader l(colour_set(3), {.batch_size = 4, .drop_last = true}); });
  expect_error(ErrorKind::usage, {"shift of 9"}, [] { Loader l(colour_set(3), {.augment = {.shift = 9}}); });
  expect_error(ErrorKind::usage, {"random resized crops", "colours"},
               [] { Loader l(colour_set(3), {.augment = {.random_crop = true}}); });
  expect_error(ErrorKind::usage, {"hue", "0.7"},
               [] { Loader l(colour_set(3), {.augment = {.color_jitter = {.hue = 0.7}}}); });
  expect_error(ErrorKind::usage, {"erasing", "1.5"},
               [] { Loader l(colour_set(3), {.augment = {.random_erase = 1.5}}); });
  expect_error(ErrorKind::usage, {"RandAugment", "color images", "[1,28,28]"},
               [] { Loader l(draw_digits(0, 3), {.augment = {.rand_augment = 2}}); });
  expect_error(ErrorKind::usage, {"position"}, [] { Loader(colour_set(3), {}).epoch(0, 2); });
  Dataset bad = colour_set(3);
  bad.labels.data<int64_t>()[2] = 3;
  expect_error(ErrorKind::data, {"colours", "sample 2 has 3"}, [&] { Loader l(bad, {}); });
}

TEST(LoaderTest, TwoLoopsOverOneLoaderAtATimeAreRefused) {
  Loader loader(colour_set(8), {.batch_size = 2});
  const auto pairs = [&] {
    int n = 0;
    for (const Batch& a : loader.epoch(0)) {
      for (const Batch& b : loader.epoch(0)) n += a.count == b.count ? 1 : 0;
    }
    return n;
  };
  EXPECT_THROW(pairs(), Error);
  EXPECT_EQ(walk(loader, 0).counts.size(), 4u);  // one after the other is what a loader is for
}

TEST(LoaderTest, ClassesWithoutNamesSayWhatIsMissing) {
  Dataset set = colour_set(4);
  set.classes.clear();
  try {
    set.validate("images", "labels");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("data::numbered_classes"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace freight::data
