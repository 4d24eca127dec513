// See feed.h; feeds of tokens: tokens.cpp.
#include "freight/data/feed.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "freight/base/error.h"

namespace freight::data {

namespace {

class LoaderFeed : public Feed {
 public:
  LoaderFeed(Dataset set, const LoaderOptions& options) : loader_(std::move(set), options) {}

  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t count_per_epoch() const override { return loader_.samples_per_epoch(); }
  void start(int64_t epoch, int64_t first_batch) override { loader_.epoch(epoch, first_batch); }
  FeedBatch* next() override {
    batch_ = {};  // the loader reuses buffers that nobody holds
    const Batch* b = loader_.next();
    if (!b) return nullptr;
    batch_ = {b->images, b->labels, b->count};
    return &batch_;
  }
  std::optional<BatchRecipe> recipe(std::string& why) const override { return loader_.recipe(why); }
  Array draws(int64_t epoch) const override { return loader_.draws(epoch); }
  double wait_seconds() const override { return loader_.wait_seconds(); }

 private:
  Loader loader_;
  FeedBatch batch_;
};

class MadeFeed : public Feed {
 public:
  using Make = std::function<MadeSample(int64_t epoch, int64_t number)>;
  MadeFeed(Make make, const MadeFeedOptions& options) : make_(std::move(make)), options_(options) {
    const int64_t least = options.drop_last ? options.batch_size : 1;
    if (!make_ || options.batch_size < 1 || options.count < least) {
      fail(ErrorKind::usage, "made_feed", "got ", options.count, " samples in batches of ", options.batch_size,
           make_ ? "" : " and no function that computes them", ": expected at least ", least);
    }
  }

  int64_t batches_per_epoch() const override {
    return (options_.count + (options_.drop_last ? 0 : options_.batch_size - 1)) / options_.batch_size;
  }
  int64_t count_per_epoch() const override {
    return options_.drop_last ? batches_per_epoch() * options_.batch_size : options_.count;
  }
  void start(int64_t epoch, int64_t first_batch) override {
    epoch_ = epoch;
    batch_number_ = first_batch;
  }
  FeedBatch* next() override {
    if (batch_number_ >= batches_per_epoch()) return nullptr;
    const auto began = std::chrono::steady_clock::now();
    const int64_t first = batch_number_++ * options_.batch_size;
    const int64_t n = std::min(options_.batch_size, options_.count - first);
    for (int64_t i = 0; i < n; ++i) {
      const MadeSample sample = make_(epoch_, first + i);
      if (i == 0) batch_ = {rows_of(sample.input, n), rows_of(sample.target, n), n};
      put(sample.input, "input", i, first + i, batch_.inputs);
      put(sample.target, "target", i, first + i, batch_.targets);
    }
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return &batch_;
  }
  std::string sample_name(int64_t row) const override {
    return cat("sample ", (batch_number_ - 1) * options_.batch_size + row, " of epoch ", epoch_, " of the custom feed");
  }
  double wait_seconds() const override { return seconds_; }

 private:
  static Array rows_of(const Array& sample, int64_t n) {
    if (!sample.defined()) fail(ErrorKind::usage, "made_feed", "a sample has no input or no target: set both arrays");
    Shape shape = sample.shape();
    shape.insert(0, n);
    return {sample.dtype(), shape};
  }
  void put(const Array& sample, const char* what, int64_t row, int64_t number, const Array& batch) const {
    const Shape& of = batch.shape();
    const Shape need(of.begin() + 1, of.end());
    if (!sample.defined() || sample.dtype() != batch.dtype() || sample.shape() != need) {
      fail(ErrorKind::usage, "made_feed", "the ", what, " of sample ", number, " of epoch ", epoch_, ": expected ",
           batch.dtype(), need, ", as the samples before it, got ", sample.dtype(), sample.shape());
    }
    std::memcpy(static_cast<char*>(batch.raw()) + static_cast<size_t>(row) * sample.bytes(), sample.raw(),
                sample.bytes());
  }

  Make make_;
  MadeFeedOptions options_;
  int64_t epoch_ = 0, batch_number_ = 0;
  double seconds_ = 0;
  FeedBatch batch_;
};

// Rows [first, first + count) of an array, in its memory.
Array rows_in(const Array& a, int64_t first, int64_t count) {
  Shape shape = a.shape();
  const size_t row = shape[0] == 0 ? 0 : a.bytes() / static_cast<size_t>(shape[0]);
  shape[0] = count;
  auto* data = static_cast<char*>(a.raw()) + static_cast<size_t>(first) * row;
  return {a.dtype(), shape, Storage::borrow(data, static_cast<size_t>(count) * row, a.storage())};
}

class ShareFeed : public Feed {
 public:
  ShareFeed(std::unique_ptr<Feed> whole, const Share& share) : whole_(std::move(whole)), share_(share) {}

  int64_t batches_per_epoch() const override { return whole_->batches_per_epoch(); }
  int64_t count_per_epoch() const override { return whole_->count_per_epoch(); }
  void start(int64_t epoch, int64_t first_batch) override {
    whole_->start(epoch, first_batch);
    at_ = first_batch * (share_.cut ? share_.of : 1);
    batch_ = nullptr;
  }
  FeedBatch* next() override {
    for (;; ++at_) {
      const int64_t place = at_ % share_.of;
      if (!share_.cut || place == 0 || !batch_) batch_ = whole_->next();
      if (!batch_) return nullptr;
      if (place < share_.first || place >= share_.end) continue;
      ++at_;
      if (!share_.cut) return batch_;
      return cut(place);
    }
  }
  std::string sample_name(int64_t row) const override { return whole_->sample_name(first_ + row); }
  double wait_seconds() const override { return whole_->wait_seconds(); }

 private:
  FeedBatch* cut(int64_t piece) {
    const auto [first, count] = share_.rows(piece, batch_->inputs.shape()[0]);
    first_ = first;
    piece_ = {rows_in(batch_->inputs, first, count), rows_in(batch_->targets, first, count)};
    piece_.count = counted(piece_.targets);
    return &piece_;
  }

  std::unique_ptr<Feed> whole_;
  Share share_;
  int64_t at_ = 0;  // the next number, of all in the epoch
  FeedBatch* batch_ = nullptr;
  FeedBatch piece_;
  int64_t first_ = 0;
};

}  // namespace

bool at_places(const Array& y) { return y.dtype() == DType::i32 && y.shape().rank() > 1; }

int64_t counted(const Array& y) {
  if (!at_places(y)) return y.shape()[0];
  return std::count_if(y.data<int32_t>(), y.data<int32_t>() + y.numel(), [](int32_t t) { return t >= 0; });
}

std::unique_ptr<Feed> share_of(std::unique_ptr<Feed> whole, const Share& share) {
  if (share.of == 1 || !whole) return whole;
  return std::make_unique<ShareFeed>(std::move(whole), share);
}

std::unique_ptr<Feed> made_feed(std::function<MadeSample(int64_t, int64_t)> make, const MadeFeedOptions& options) {
  return std::make_unique<MadeFeed>(std::move(make), options);
}

std::unique_ptr<Feed> loader_feed(Dataset set, const LoaderOptions& options) {
  return std::make_unique<LoaderFeed>(std::move(set), options);
}

}  // namespace freight::data
