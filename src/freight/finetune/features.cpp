// See features.h. The features are a data set of rows of numbers, so that a Loader orders and batches them exactly as
// it does the samples.
#include "freight/finetune/features.h"

#include <algorithm>
#include <cstring>

#include "freight/base/error.h"
#include "freight/io/file_memory.h"

namespace freight::finetune {

namespace {

// The batches of as many data sets as there are views.
class ViewsFeed final : public data::Feed {
 public:
  explicit ViewsFeed(std::vector<std::unique_ptr<data::Feed>> views)
      : views_(std::move(views)), now_(views_[0].get()) {}

  int64_t batches_per_epoch() const override { return now_->batches_per_epoch(); }
  int64_t count_per_epoch() const override { return now_->count_per_epoch(); }
  void start(int64_t epoch, int64_t first_batch) override {
    now_ = views_[static_cast<size_t>(epoch) % views_.size()].get();
    now_->start(epoch, first_batch);
  }
  data::FeedBatch* next() override { return now_->next(); }
  std::string sample_name(int64_t row) const override { return now_->sample_name(row); }
  double wait_seconds() const override {
    double sum = 0;
    for (const auto& view : views_) sum += view->wait_seconds();
    return sum;
  }

 private:
  std::vector<std::unique_ptr<data::Feed>> views_;
  data::Feed* now_;
};

// The samples of the numbers that another feed gives.
class NumberedFeed final : public data::Feed {
 public:
  NumberedFeed(data::Dataset set, std::unique_ptr<data::Feed> numbers)
      : set_(std::move(set)), numbers_(std::move(numbers)) {}

  int64_t batches_per_epoch() const override { return numbers_->batches_per_epoch(); }
  int64_t count_per_epoch() const override { return numbers_->count_per_epoch(); }
  void start(int64_t epoch, int64_t first_batch) override { numbers_->start(epoch, first_batch); }
  data::FeedBatch* next() override {
    const data::FeedBatch* const b = numbers_->next();
    if (!b) return nullptr;
    const std::vector<int64_t> numbers = b->targets.to_vector<int64_t>();
    batch_ = {data::selected_rows(set_.images, numbers), data::selected_rows(set_.labels, numbers), b->count};
    return &batch_;
  }
  double wait_seconds() const override { return numbers_->wait_seconds(); }

 private:
  data::Dataset set_;
  std::unique_ptr<data::Feed> numbers_;
  data::FeedBatch batch_;
};

std::span<std::byte> rows_of(const Array& all, int64_t first, int64_t end) {
  const size_t row = all.bytes() / static_cast<size_t>(all.shape()[0]);
  return {static_cast<std::byte*>(all.raw()) + static_cast<size_t>(first) * row,
          static_cast<size_t>(end - first) * row};
}

// Copies the rows of a batch to their place.
void put_rows(const Array& rows, const Array& to, int64_t first) {
  std::memcpy(rows_of(to, first, first + rows.shape()[0]).data(), rows.raw(), rows.bytes());
}

Array row_of(const Array& all, int64_t row) { return data::selected_rows(all, {row}); }

}  // namespace

double feature_bytes(const FrozenPart& part, int64_t samples, int64_t views) {
  return 4.0 * static_cast<double>(part.width()) * static_cast<double>(samples) * static_cast<double>(views);
}

FeatureSet::FeatureSet(const FrozenPart& part, const FeatureOptions& o) : options_(o) {
  Shape targets = o.target.shape;
  targets.insert(0, o.samples);
  const Array labels = io::zeros_in({}, o.target.dtype, targets);
  for (int64_t view = 0; view < o.views; ++view) {
    data::Dataset set;
    set.name = o.name;
    set.labels = labels;
    set.classes = o.classes;
    set.images = io::zeros_in(o.folder, DType::f32, {o.samples, 1, part.width()});
    views_.push_back(std::move(set));
  }
}

Compiled<std::function<Tensor(const Tensor&)>> feature_function(const FrozenPart& part, CompileOptions options) {
  options.frozen = true;
  options.recompute = Recompute::none;
  options.limit = {};
  options.input_names = {"inputs"};
  return {[&part](const Tensor& x) { return part.features(x); }, std::move(options)};
}

bool FeatureSet::fill(const Section& s, data::Feed& feed, Compiled<std::function<Tensor(const Tensor&)>>& extract,
                      const Poll& poll) {
  const data::Dataset& set = views_[static_cast<size_t>(s.view)];
  FREIGHT_CHECK(s.first % options_.batch == 0 && s.end <= options_.samples, "a section begins with a batch");
  int64_t done = s.first;
  feed.start(s.view, s.first / options_.batch);
  while (done < s.end) {
    const data::FeedBatch* const b = feed.next();
    FREIGHT_CHECK(b && done + b->inputs.shape()[0] <= s.end, "the feed has other batches than the section");
    put_rows(extract(b->inputs).array(), set.images, done);
    put_rows(b->targets, set.labels, done);
    done += b->inputs.shape()[0];
    if (!poll(done - s.first)) return false;
  }
  return true;
}

bool FeatureSet::fill(data::Feed& feed, data::Feed& numbers, Compiled<std::function<Tensor(const Tensor&)>>& extract,
                      const Poll& poll) {
  const data::Dataset& set = views_[0];
  int64_t done = 0;
  feed.start(0, 0);
  numbers.start(0, 0);
  while (const data::FeedBatch* const b = feed.next()) {
    const data::FeedBatch* const of = numbers.next();
    FREIGHT_CHECK(of && of->targets.numel() == b->inputs.shape()[0], "the numbers are those of the batch");
    const Array features = extract(b->inputs).array();
    for (int64_t i = 0; i < of->targets.numel(); ++i) {
      const int64_t sample = of->targets.data<int64_t>()[i];
      put_rows(row_of(features, i), set.images, sample);
      put_rows(row_of(b->targets, i), set.labels, sample);
    }
    done += of->targets.numel();
    if (!poll(done)) return false;
  }
  FREIGHT_CHECK(done == options_.samples, "every sample is in a batch");
  return true;
}

std::unique_ptr<data::Feed> FeatureSet::feed(std::unique_ptr<data::Feed> numbers) const {
  return std::make_unique<NumberedFeed>(views_[0], std::move(numbers));
}

std::vector<std::span<std::byte>> FeatureSet::bytes_of(const Section& s) {
  const data::Dataset& set = views_[static_cast<size_t>(s.view)];
  return {rows_of(set.images, s.first, s.end), rows_of(set.labels, s.first, s.end)};
}

std::unique_ptr<data::Feed> FeatureSet::feed(const data::LoaderOptions& given) const {
  data::LoaderOptions options = given;
  options.augment = {};
  options.mix = {};
  options.views = 0;
  options.workers = 0;  // copying rows is cheaper than handing them over
  std::vector<std::unique_ptr<data::Feed>> feeds;
  for (const data::Dataset& view : views_) feeds.push_back(data::loader_feed(view, options));
  return std::make_unique<ViewsFeed>(std::move(feeds));
}

}  // namespace freight::finetune
