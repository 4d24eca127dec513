// Batches that a program makes as a Task; see task.h. What they are is read off the first of them.
#include "freight/base/error.h"
#include "freight/train/task.h"

namespace freight::train {

namespace {

class FeedTask : public Task {
 public:
  FeedTask(const Config& config, const Own& own) : c_(config), feeds_(*own.feeds) {
    if (!own.model) {
      fail(ErrorKind::usage, "train", "custom feeds need a custom network: Own::model is empty");
    }
    if (!feeds_.train) fail(ErrorKind::usage, "train", feeds_.name, " has no feed for training: set Feeds::train");
    model_ = *own.model;
    refuse_given({{"--task", c_.task != Config().task}, {"--group-column", !c_.group_column.empty()}},
                 "is for lists, arrays and tables, not for custom feeds");
    set_loss(model_, c_, {});
    refuse_flags();
    look_at(train_feed({}), "train", first_train_);
    if (feeds_.test) look_at(test_feed(c_.batch_size, {}), "test", first_test_);
  }

  models::Model make_model() const override { return model_; }
  store::Preprocessing preprocessing() const override { return {.input = model_.input.shape, .mean = {}, .std = {}}; }
  std::vector<std::string> classes() const override {
    const bool numbered = feeds_.classes.empty() && !models::regresses(model_.loss);
    return numbered ? data::numbered_classes(model_.classes()) : feeds_.classes;
  }

  std::unique_ptr<data::Feed> train_feed(const data::Share& share) const override {
    return data::share_of(feeds_.train(c_.batch_size), share);
  }
  std::unique_ptr<data::Feed> test_feed(int64_t batch_size, const data::Share& share) const override {
    return data::share_of(feeds_.test(batch_size), share);
  }
  std::pair<Type, Type> batch_types() const override { return first_train_.types; }
  std::pair<Type, Type> test_types(int64_t batch_size) const override {
    std::pair<Type, Type> types = first_test_.types;
    types.first.shape[0] = types.second.shape[0] = batch_size;
    return types;
  }

  int64_t train_count() const override { return first_train_.count; }
  int64_t test_count() const override { return first_test_.count; }
  bool validates() const override { return feeds_.validation; }
  uint64_t fingerprint() const override { return feeds_.fingerprint; }
  std::vector<std::string> notes() const override { return {}; }
  const char* unit() const override { return "sample"; }
  std::string example() const override { return {}; }

 private:
  struct First {
    std::pair<Type, Type> types;  // of a full batch
    int64_t count = 0;            // of an epoch
  };

  void look_at(const std::unique_ptr<data::Feed>& feed, const char* part, First& out) const {
    const std::string what = cat(feeds_.name, ", ", part);
    if (!feed || feed->batches_per_epoch() < 1) fail(ErrorKind::usage, what, "the feed has no batch");
    feed->start(0);
    const data::FeedBatch* batch = feed->next();
    if (!batch) fail(ErrorKind::usage, what, "the feed has no batch");
    const Array &x = batch->inputs, &y = batch->targets;
    if (!x.defined() || !y.defined() || x.shape().rank() < 1 || y.shape().rank() < 1 || x.shape()[0] < 1 ||
        x.shape()[0] != y.shape()[0]) {
      fail(ErrorKind::usage, what, "a batch needs as many targets as inputs, on axis 0: got ",
           x.defined() ? cat(x.dtype(), x.shape()) : "no inputs", " and ",
           y.defined() ? cat(y.dtype(), y.shape()) : "no targets");
    }
    // Held-out samples may be longer or larger than those of training, where the network takes them.
    const Type need = model_.batch_type(x.shape()[0]);
    const bool fits = &out == &first_test_ ? x.shape().rank() == need.shape.rank() : x.shape() == need.shape;
    if (x.dtype() != need.dtype || !fits) {
      fail(ErrorKind::usage, what, "the feed returns ", x.dtype(), x.shape(), ", the network ", model_.name, " takes ",
           need);
    }
    out.types = {{x.dtype(), x.shape()}, {y.dtype(), y.shape()}};
    out.types.first.shape[0] = out.types.second.shape[0] = c_.batch_size;
    out.count = feed->count_per_epoch();
  }

  // Refuses flags that change the samples of a dataset: batches of a program have none.
  void refuse_flags() const {
    const std::string why = cat("is for datasets: ", feeds_.name, " makes its batches itself");
    refuse_given({{"--num-classes", c_.num_classes > 0},
                  {"--val-split", c_.val_split >= 0},
                  {"--sample-by", c_.sample_by != Config().sample_by}},
                 why);
    refuse_given(image_flags(c_), why);
  }

  Config c_;
  Feeds feeds_;
  models::Model model_;
  First first_train_, first_test_;
};

}  // namespace

std::unique_ptr<Task> make_feed_task(const Config& config, const Own& own) {
  return std::make_unique<FeedTask>(config, own);
}

}  // namespace freight::train
