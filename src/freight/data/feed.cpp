// See feed.h; feeds of tokens: tokens.cpp.
#include "freight/data/feed.h"

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

}  // namespace

std::unique_ptr<Feed> loader_feed(Dataset set, const LoaderOptions& options) {
  return std::make_unique<LoaderFeed>(std::move(set), options);
}

}  // namespace freight::data
