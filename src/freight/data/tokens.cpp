// See tokens.h. Batches are copied out of memory when they are asked for: that is far quicker than handing them between
// threads, so there are no workers.
#include "freight/data/tokens.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/data/class_draw.h"

namespace freight::data {

namespace {

constexpr uint32_t kBucketStream = 0x62756b74, kBatchStream = 0x62746368, kWindowStream = 0x77696e64;
constexpr int64_t kFirstBucket = 32;

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class T>
void shuffle(std::vector<T>& list, PhiloxStream random) {
  for (size_t i = list.size(); i-- > 1;) std::swap(list[i], list[random.below(static_cast<uint32_t>(i + 1))]);
}

void need_batch_size(const TokenFeedOptions& o) {
  need_at_least("feed", "batch size", static_cast<double>(o.batch_size), 1);
}

// The number of the least of `lengths` that document i fits into.
size_t bucket_of(const TokenSet& set, int64_t i, const std::vector<int64_t>& lengths) {
  const auto it = std::lower_bound(lengths.begin(), lengths.end(), set.length(i));
  if (it == lengths.end()) {
    fail(ErrorKind::usage, "feed", "document ", i, " has ", set.length(i), " tokens, more than the longest batch");
  }
  return static_cast<size_t>(it - lengths.begin());
}

// Both feeds share this: a list of batches per epoch, made one by one.
class TokenFeed : public Feed {
 public:
  void start(int64_t epoch, int64_t first_batch) override {
    arrange(epoch);
    at_ = first_batch;
  }
  FeedBatch* next() override {
    if (at_ >= batches_per_epoch()) return nullptr;
    const double start = clock_seconds();
    batch_ = make(at_++);
    waited_ += clock_seconds() - start;
    return &batch_;
  }
  double wait_seconds() const override { return waited_; }

 protected:
  TokenFeed(std::shared_ptr<const TokenSet> tokens, const TokenFeedOptions& o) : set(std::move(tokens)), options(o) {
    need_batch_size(o);
  }
  virtual void arrange(int64_t epoch) = 0;
  virtual FeedBatch make(int64_t number) const = 0;
  const std::shared_ptr<const TokenSet> set;
  const TokenFeedOptions options;

 private:
  FeedBatch batch_;
  int64_t at_ = std::numeric_limits<int64_t>::max() / 2;
  double waited_ = 0;
};

class DocumentFeed final : public TokenFeed {
 public:
  DocumentFeed(std::shared_ptr<const TokenSet> documents, std::vector<int64_t> lengths, const TokenFeedOptions& o)
      : TokenFeed(std::move(documents), o), lengths_(std::move(lengths)), members_(lengths_.size()) {
    std::vector<int64_t> all(static_cast<size_t>(set->count()));
    std::iota(all.begin(), all.end(), int64_t{0});
    fill(all);
    arrange(0);
  }

  int64_t batches_per_epoch() const override { return static_cast<int64_t>(batches_.size()); }
  int64_t count_per_epoch() const override {
    return std::accumulate(batches_.begin(), batches_.end(), int64_t{0},
                           [](int64_t n, const BucketSlice& p) { return n + p.count; });
  }

 private:
  struct BucketSlice {
    size_t bucket = 0;
    int64_t first = 0, count = 0;  // of the bucket's order
  };

  void fill(const std::vector<int64_t>& documents) {
    for (std::vector<int64_t>& bucket : members_) bucket.clear();
    for (const int64_t i : documents) members_[bucket_of(*set, i, lengths_)].push_back(i);
  }

  void arrange(int64_t epoch) override {
    if (options.by_class) fill(draw_by_class(set->labels, options.seed, epoch));
    order_ = members_;
    batches_.clear();
    for (size_t b = 0; b < order_.size(); ++b) {
      if (options.shuffle) {
        shuffle(order_[b],
                PhiloxStream(options.seed, static_cast<uint64_t>(epoch), kBucketStream + static_cast<uint32_t>(b)));
      }
      const auto n = static_cast<int64_t>(order_[b].size());
      const int64_t batches = batches_of(n, options);
      for (int64_t i = 0; i < batches; ++i) {
        const int64_t first = i * options.batch_size;
        batches_.push_back({b, first, std::min(options.batch_size, n - first)});
      }
    }
    if (options.shuffle) {
      shuffle(batches_, PhiloxStream(options.seed, static_cast<uint64_t>(epoch), kBatchStream));
    }
  }

  FeedBatch make(int64_t number) const override {
    const BucketSlice& piece = batches_[static_cast<size_t>(number)];
    const int64_t length = options.numbers ? 0 : lengths_[piece.bucket];
    FeedBatch b{Array(DType::i32, {piece.count, length}), Array(DType::i64, {piece.count}), piece.count};
    const auto first = order_[piece.bucket].begin() + piece.first;
    if (options.numbers) {
      std::copy_n(first, piece.count, b.targets.data<int64_t>());
      return b;
    }
    if (set->targets.defined()) {
      b.targets = selected_rows(set->targets, {first, first + piece.count});
    }
    for (int64_t i = 0; i < piece.count; ++i) {
      const int64_t document = first[i];
      const auto begin = set->tokens.begin() + set->offsets[static_cast<size_t>(document)];
      std::copy_n(begin, set->length(document), b.inputs.data<int32_t>() + i * length);
      if (!set->labels.empty()) b.targets.data<int64_t>()[i] = set->labels[static_cast<size_t>(document)];
    }
    return b;
  }

  std::vector<int64_t> lengths_;
  std::vector<std::vector<int64_t>> members_, order_;  // document numbers by bucket
  std::vector<BucketSlice> batches_;
};

class WindowFeed final : public TokenFeed {
 public:
  WindowFeed(std::shared_ptr<const TokenSet> corpus, int64_t length, const TokenFeedOptions& o)
      : TokenFeed(std::move(corpus), o), length_(length) {
    need_at_least("--max-length", "tokens of a window", static_cast<double>(length), 1);
    const auto tokens = static_cast<int64_t>(set->tokens.size());
    const int64_t need = options.shuffle ? length + 1 : 2;
    if (tokens < need) {
      fail(ErrorKind::data, "corpus", "too short: expected ", need, " for windows of ", length, ", got ", tokens,
           " tokens; try a smaller --max-length");
    }
    // Shuffled, the beginning moves by less than a window, which a whole window makes room for where there are two.
    const int64_t targets = tokens - 1;
    windows_ = options.shuffle ? std::max<int64_t>(targets / length - 1, 1) : (targets + length - 1) / length;
    room_ = options.shuffle ? std::min(targets - windows_ * length, length - 1) : 0;
    order_.resize(static_cast<size_t>(windows_));
    std::iota(order_.begin(), order_.end(), int64_t{0});
  }

  int64_t batches_per_epoch() const override { return batches_of(windows_, options); }
  int64_t count_per_epoch() const override {
    if (!options.shuffle) return static_cast<int64_t>(set->tokens.size()) - 1;
    return std::min(windows_, batches_per_epoch() * options.batch_size) * length_;
  }

 private:
  void arrange(int64_t epoch) override {
    std::iota(order_.begin(), order_.end(), int64_t{0});
    first_ = 0;
    if (!options.shuffle) return;
    PhiloxStream random(options.seed, static_cast<uint64_t>(epoch), kWindowStream);
    first_ = random.below(static_cast<uint32_t>(room_ + 1));
    shuffle(order_, PhiloxStream(options.seed, static_cast<uint64_t>(epoch), kBatchStream));
  }

  FeedBatch make(int64_t number) const override {
    const int64_t begin = number * options.batch_size, n = std::min(options.batch_size, windows_ - begin);
    FeedBatch b{Array(DType::i32, {n, length_}), Array(DType::i32, {n, length_}), 0};
    const auto last = static_cast<int64_t>(set->tokens.size()) - 1;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = first_ + order_[static_cast<size_t>(begin + i)] * length_;
      const int64_t count = std::min(length_, last - at);
      std::copy_n(set->tokens.begin() + at, count, b.inputs.data<int32_t>() + i * length_);
      int32_t* targets = b.targets.data<int32_t>() + i * length_;
      std::copy_n(set->tokens.begin() + at + 1, count, targets);
      std::fill_n(targets + count, length_ - count, -1);
      b.count += count;
    }
    return b;
  }

  int64_t length_, windows_ = 0, room_ = 0, first_ = 0;
  std::vector<int64_t> order_;
};

}  // namespace

TokenSet encode(const TextPart& part, const Tokenizer& tokenizer, int64_t max_length, Keep keep) {
  const int64_t n = part.count();
  std::vector<std::vector<int32_t>> all(static_cast<size_t>(n));
  std::vector<char> was_cut(static_cast<size_t>(n), 0);
  parallel_for(n, [&](int64_t i) {
    auto& tokens = all[static_cast<size_t>(i)];
    tokens = tokenizer.encode(part.texts[static_cast<size_t>(i)]);
    if (tokens.empty()) tokens.push_back(kUnknown);
    if (max_length > 0 && static_cast<int64_t>(tokens.size()) > max_length) {
      if (keep == Keep::end) std::copy(tokens.end() - max_length, tokens.end(), tokens.begin());
      tokens.resize(static_cast<size_t>(max_length));
      was_cut[static_cast<size_t>(i)] = 1;
    }
  });
  TokenSet set;
  set.labels = part.labels;
  set.targets = part.targets;
  for (const auto& tokens : all) {
    set.tokens.insert(set.tokens.end(), tokens.begin(), tokens.end());
    set.offsets.push_back(static_cast<int64_t>(set.tokens.size()));
  }
  set.cut = std::count(was_cut.begin(), was_cut.end(), 1);
  return set;
}

std::vector<int64_t> bucket_lengths(int64_t max_length) {
  std::vector<int64_t> lengths;
  for (int64_t l = kFirstBucket; l < max_length; l *= 2) lengths.push_back(l);
  lengths.push_back(max_length);
  return lengths;
}

std::vector<LengthCount> count_lengths(const TokenSet& set, const std::vector<int64_t>& lengths) {
  std::vector<LengthCount> counts;
  counts.reserve(lengths.size());
  for (const int64_t l : lengths) counts.push_back({.length = l});
  for (int64_t i = 0; i < set.count(); ++i) ++counts[bucket_of(set, i, lengths)].documents;
  return counts;
}

int64_t batches_of(int64_t samples, const TokenFeedOptions& o) {
  const int64_t full = samples / o.batch_size;
  return samples % o.batch_size == 0 || (o.drop_last && full > 0) ? full : full + 1;
}

std::unique_ptr<Feed> document_feed(std::shared_ptr<const TokenSet> set, std::vector<int64_t> lengths,
                                    const TokenFeedOptions& options) {
  return std::make_unique<DocumentFeed>(std::move(set), std::move(lengths), options);
}

std::vector<int64_t> document_order(const TokenSet& set, const std::vector<int64_t>& lengths) {
  std::vector<int64_t> order(static_cast<size_t>(set.count()));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return bucket_of(set, a, lengths) < bucket_of(set, b, lengths); });
  return order;
}

std::unique_ptr<Feed> window_feed(std::shared_ptr<const TokenSet> set, int64_t length,
                                  const TokenFeedOptions& options) {
  return std::make_unique<WindowFeed>(std::move(set), length, options);
}

}  // namespace freight::data
