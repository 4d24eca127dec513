// Batches of samples that a program makes.
#include <gtest/gtest.h>

#include "freight/data/feed.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {

using freight::testing::expect_error;

// The input of sample i of an epoch is (epoch, i), its target i.
MadeSample sample(int64_t epoch, int64_t i) {
  return {Array::of<float>({static_cast<float>(epoch), static_cast<float>(i)}, {2}), Array::of<int64_t>({i}, {})};
}

std::vector<std::vector<int64_t>> targets(Feed& feed, int64_t epoch, int64_t first_batch = 0) {
  std::vector<std::vector<int64_t>> all;
  feed.start(epoch, first_batch);
  while (const FeedBatch* b = feed.next()) {
    EXPECT_EQ(b->inputs.shape(), (Shape{b->count, 2}));
    EXPECT_EQ(b->inputs.to_vector<float>()[0], static_cast<float>(epoch));
    all.push_back(b->targets.to_vector<int64_t>());
  }
  return all;
}

TEST(MadeFeed, GivesEachSampleOnceInOrderFromAnyBatchOn) {
  const auto feed = made_feed(sample, {.count = 7, .batch_size = 3});
  EXPECT_EQ(feed->batches_per_epoch(), 3);
  EXPECT_EQ(feed->count_per_epoch(), 7);
  EXPECT_EQ(targets(*feed, 0), (std::vector<std::vector<int64_t>>{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(targets(*feed, 4, 1), (std::vector<std::vector<int64_t>>{{3, 4, 5}, {6}}));
  const auto whole = made_feed(sample, {.count = 7, .batch_size = 3, .drop_last = true});
  EXPECT_EQ(whole->batches_per_epoch(), 2);
  EXPECT_EQ(whole->count_per_epoch(), 6);
  EXPECT_EQ(targets(*whole, 1), (std::vector<std::vector<int64_t>>{{0, 1, 2}, {3, 4, 5}}));
}

TEST(MadeFeed, ASampleOfAnotherTypeIsNamed) {
  const auto other = [](int64_t epoch, int64_t i) {
    MadeSample s = sample(epoch, i);
    if (i == 4) s.input = Array::of<float>({1, 2, 3}, {3});
    if (i == 5) s.target = Array::of<float>({1}, {});
    return s;
  };
  const auto feed = made_feed(other, {.count = 8, .batch_size = 5});
  feed->start(2);
  expect_error(ErrorKind::usage, {"made_feed", "input of sample 4 of epoch 2", "f32[3]", "f32[2]"},
               [&] { feed->next(); });
  const auto pairs = made_feed(other, {.count = 8, .batch_size = 4});
  pairs->start(0, 1);
  expect_error(ErrorKind::usage, {"made_feed", "input of sample 5", "f32[2]", "f32[3]"}, [&] { pairs->next(); });
}

TEST(MadeFeed, NoSamplesAreRefused) {
  expect_error(ErrorKind::usage, {"made_feed", "got 0 samples"}, [] { made_feed(sample, {.count = 0}); });
  expect_error(ErrorKind::usage, {"made_feed", "got 3 samples in batches of 4", "at least 4"},
               [] { made_feed(sample, {.count = 3, .batch_size = 4, .drop_last = true}); });
  expect_error(ErrorKind::usage, {"made_feed", "no function"}, [] { made_feed(nullptr, {.count = 3}); });
}

}  // namespace
}  // namespace freight::data
