// Batches of tokens: buckets with exact counts, windows with every target once, the same for every number of threads.
#include "freight/data/tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "freight/base/threads.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;

// Document i has i % 70 + 1 tokens, all of them i + 2, and the label i.
std::shared_ptr<TokenSet> documents(int64_t n) {
  auto set = std::make_shared<TokenSet>();
  for (int64_t i = 0; i < n; ++i) {
    set->tokens.insert(set->tokens.end(), static_cast<size_t>(i % 70 + 1), static_cast<int32_t>(i + 2));
    set->offsets.push_back(static_cast<int64_t>(set->tokens.size()));
    set->labels.push_back(i);
  }
  return set;
}
std::shared_ptr<TokenSet> corpus(int64_t n) {
  auto set = std::make_shared<TokenSet>();
  for (int64_t i = 0; i < n; ++i) set->tokens.push_back(static_cast<int32_t>(i + 2));
  set->offsets.push_back(n);
  return set;
}

struct Seen {
  std::vector<int64_t> labels;   // in order
  std::vector<int64_t> lengths;  // of the batches
  int64_t count = 0;
};
Seen run(Feed& feed, int64_t epoch) {
  Seen s;
  feed.start(epoch);
  int64_t batches = 0;
  while (const FeedBatch* b = feed.next()) {
    ++batches;
    s.count += b->count;
    s.lengths.push_back(b->inputs.shape()[1]);
    for (const int64_t label : b->targets.to_vector<int64_t>()) s.labels.push_back(label);
  }
  EXPECT_EQ(batches, feed.batches_per_epoch());
  EXPECT_EQ(s.count, feed.count_per_epoch());
  EXPECT_EQ(feed.next(), nullptr);
  return s;
}

TEST(Buckets, AreDoubledUpToTheLongest) {
  EXPECT_EQ(bucket_lengths(256), (std::vector<int64_t>{32, 64, 128, 256}));
  EXPECT_EQ(bucket_lengths(100), (std::vector<int64_t>{32, 64, 100}));
  EXPECT_EQ(bucket_lengths(32), (std::vector<int64_t>{32}));
  EXPECT_EQ(bucket_lengths(5), (std::vector<int64_t>{5}));
}

TEST(DocumentFeed, HoldsEveryDocumentOnceInTheLeastLengthThatFits) {
  const auto set = documents(300);
  for (const bool mixed : {false, true}) {
    const auto feed = document_feed(set, {16, 64, 70}, {.batch_size = 13, .shuffle = mixed, .seed = 5});
    std::set<int64_t> seen;
    feed->start(2);
    while (const FeedBatch* b = feed->next()) {
      const int64_t length = b->inputs.shape()[1];
      ASSERT_EQ(b->inputs.dtype(), DType::i32);
      for (int64_t i = 0; i < b->count; ++i) {
        const int64_t document = b->targets.data<int64_t>()[i], tokens = document % 70 + 1;
        EXPECT_TRUE(seen.insert(document).second);
        EXPECT_EQ(length, tokens <= 16 ? 16 : tokens <= 64 ? 64 : 70);
        for (int64_t t = 0; t < length; ++t) {
          ASSERT_EQ(b->inputs.data<int32_t>()[i * length + t], t < tokens ? document + 2 : 0);
        }
      }
    }
    EXPECT_EQ(seen.size(), 300u);
  }
}

TEST(DocumentFeed, IsAFunctionOfSeedAndEpoch) {
  const TokenFeedOptions o{.batch_size = 16, .shuffle = true, .seed = 7};
  const auto a = document_feed(documents(500), {32, 70}, o), b = document_feed(documents(500), {32, 70}, o);
  const Seen first = run(*a, 0), second = run(*a, 1);
  EXPECT_EQ(first.labels, run(*b, 0).labels);
  EXPECT_EQ(first.labels, run(*a, 0).labels);  // again, after another epoch
  EXPECT_NE(first.labels, second.labels);
  EXPECT_NE(first.labels, run(*document_feed(documents(500), {32, 70}, {.batch_size = 16, .shuffle = true}), 0).labels);
  // Batches of the buckets are mixed, too.
  EXPECT_FALSE(std::is_sorted(first.lengths.begin(), first.lengths.end()));
  EXPECT_EQ(first.count, 500);
}

TEST(DocumentFeed, DropsShortBatchesOnlyWhereThereAreFullOnes) {
  auto set = documents(70);  // 32 documents of up to 32 tokens, 38 longer ones
  const auto feed = document_feed(set, {32, 69, 70}, {.batch_size = 10, .drop_last = true});
  EXPECT_EQ(feed->batches_per_epoch(), 3 + 3 + 1);
  EXPECT_EQ(run(*feed, 0).count, 30 + 30 + 1);
  EXPECT_EQ(run(*document_feed(set, {32, 69, 70}, {.batch_size = 10}), 0).count, 70);
  expect_error(ErrorKind::usage, {"document 64 has 65 tokens"}, [&] { document_feed(set, {64}, {}); });
  expect_error(ErrorKind::usage, {"batch size"}, [&] { document_feed(set, {70}, {.batch_size = 0}); });
}

TEST(DocumentFeed, MakesTheBatchesThatTheCountsOfLengthsTell) {
  const std::vector<int64_t> lengths = {32, 69, 70, 128};
  const auto set = documents(70);
  const std::vector<LengthCount> counts = count_lengths(*set, lengths);
  ASSERT_EQ(counts.size(), 4u);
  const int64_t documents_of[] = {32, 37, 1, 0};
  for (size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(counts[i].length, lengths[i]);
    EXPECT_EQ(counts[i].documents, documents_of[i]);
  }
  for (const bool drop : {false, true}) {
    const TokenFeedOptions o{.batch_size = 10, .shuffle = true, .drop_last = drop};
    const auto feed = document_feed(set, lengths, o);
    const Seen seen = run(*feed, 1);
    int64_t all = 0;
    for (const LengthCount& c : counts) {
      EXPECT_EQ(batches_of(c.documents, o), std::count(seen.lengths.begin(), seen.lengths.end(), c.length)) << c.length;
      all += batches_of(c.documents, o);
    }
    EXPECT_EQ(all, drop ? 3 + 3 + 1 : 4 + 4 + 1);
  }
  expect_error(ErrorKind::usage, {"document 69 has 70 tokens"}, [&] { count_lengths(*set, {69}); });
}

TEST(WindowFeed, AsksForEveryTokenButTheFirstOnce) {
  for (const int64_t n : {2, 8, 9, 10, 100}) {
    const auto set = corpus(n);
    const auto feed = window_feed(set, 8, {.batch_size = 3});
    EXPECT_EQ(feed->count_per_epoch(), n - 1);
    feed->start(0);
    int32_t next = 3;
    while (const FeedBatch* b = feed->next()) {
      int64_t asked = 0;
      for (int64_t i = 0; i < b->targets.numel(); ++i) {
        const int32_t x = b->inputs.data<int32_t>()[i], y = b->targets.data<int32_t>()[i];
        if (y < 0) {
          EXPECT_EQ(x, 0);
          continue;
        }
        ++asked;
        EXPECT_EQ(y, next++);
        EXPECT_EQ(x, y - 1);
      }
      EXPECT_EQ(asked, b->count);
    }
    EXPECT_EQ(next, n + 2);
  }
}

TEST(WindowFeed, ShuffledWindowsBeginAtAnotherPlaceEachEpoch) {
  const auto feed = window_feed(corpus(1000), 10, {.batch_size = 8, .shuffle = true, .seed = 1});
  std::set<int32_t> places;
  for (int64_t epoch = 0; epoch < 12; ++epoch) {
    feed->start(epoch);
    std::set<int32_t> targets;
    int32_t least = 2000;
    int64_t count = 0;
    while (const FeedBatch* b = feed->next()) {
      count += b->count;
      for (const int32_t t : b->targets.to_vector<int32_t>()) {
        EXPECT_TRUE(targets.insert(t).second);
        least = std::min(least, t);
      }
    }
    EXPECT_EQ(count, feed->count_per_epoch());
    EXPECT_GE(count, 970);
    places.insert(least);
  }
  EXPECT_GT(places.size(), 4u);
  expect_error(ErrorKind::data, {"too short", "got 10 tokens", "expected 11"},
               [] { window_feed(corpus(10), 10, {.shuffle = true}); });
  EXPECT_EQ(window_feed(corpus(11), 10, {.shuffle = true})->count_per_epoch(), 10);
}

TEST(Encode, CutsAtTheLengthAndNeverGivesNothing) {
  const auto t = learn_tokenizer({"a a b b c c"}, {});
  TextPart part{{"a b c a", "\xe2\x80\x8b", "b"}, {0, 1, 0}, {}};
  const TokenSet set = encode(part, *t, 3);
  EXPECT_EQ(set.offsets, (std::vector<int64_t>{0, 3, 4, 5}));
  EXPECT_EQ(set.tokens, (std::vector<int32_t>{2, 3, 4, kUnknown, 3}));
  EXPECT_EQ(set.cut, 1);
  EXPECT_EQ(encode(part, *t).tokens.size(), 6u);
  EXPECT_EQ(encode(part, *t, 3, Keep::end).tokens, (std::vector<int32_t>{3, 4, 2, kUnknown, 3}));
}

}  // namespace
}  // namespace freight::data
