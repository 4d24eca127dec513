// See evaluate.h.
#include "freight/train/evaluate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/data/class_names.h"
#include "freight/data/resample.h"
#include "freight/job/ranks.h"
#include "freight/models/loss.h"
#include "freight/nn/evaluating.h"
#include "freight/ops/ops.h"
#include "freight/run/plan.h"
#include "freight/train/diverged.h"
#include "freight/train/step_internal.h"

namespace freight::train {

namespace {

// (N, C, H, W) mirrored left to right.
Tensor mirrored(const Tensor& x) {
  const int64_t width = x.dim(3);
  return gather(x, (width - 1) - arange(width), 3);
}

// Moved by one pixel along both axes; what leaves the image is lost, what enters repeats the edge.
Tensor shifted(const Tensor& x, bool down) {
  Tensor out = x;
  for (int axis : {2, 3}) {
    const int64_t n = x.dim(axis);
    const Tensor edge = narrow(out, axis, down ? 0 : n - 1, 1), rest = narrow(out, axis, down ? 0 : 1, n - 1);
    out = concat(down ? std::vector<Tensor>{edge, rest} : std::vector<Tensor>{rest, edge}, axis);
  }
  return out;
}

// A net whose result is the mean over views of its input.
class Views final : public nn::Module {
 public:
  Views(std::shared_ptr<nn::Module> net, TestViews views) : net_(std::move(net)), views_(views) {}
  Tensor forward(const Tensor& x) override {
    const auto both = [&](const Tensor& v) { return ((*net_)(v) + (*net_)(mirrored(v))) * 0.5; };
    if (views_ == TestViews::flip) return both(x);
    return both(x) * 0.5 + (both(shifted(x, true)) + both(shifted(x, false))) * 0.25;
  }

 private:
  std::shared_ptr<nn::Module> net_;
  TestViews views_;
};

models::Model with_views(const models::Model& model, TestViews views) {
  if (views == TestViews::one) return model;
  if (model.input.shape.rank() != 3 || model.input.shape[1] < 2 || model.input.shape[2] < 2) {
    fail(ErrorKind::usage, "--tta", "model ", model.name, " takes ", model.input, ", expected images (C, H, W)");
  }
  models::Model out = model;
  out.net = std::make_shared<Views>(model.net, views);
  return out;
}

// Loss, number right and count of each batch of an epoch, where ranks share them.
class BatchFigures {
 public:
  using Figures = std::array<double, 3>;
  BatchFigures(int64_t batches, job::Ranks* ranks) : ranks_(ranks) {
    if (ranks) by_batch_.resize(static_cast<size_t>(batches));
  }
  // Takes the figures of this rank's next batch.
  void add(const Figures& batch) {
    if (ranks_) by_batch_[static_cast<size_t>(share_of_batches(ranks_).number(added_++))] = batch;
  }
  // Their sums over all batches, in the order of batches. The ranks' requests are exchanged before.
  Figures of_all() {
    ranks_->agree(ranks_->gather(ranks_->take_request()));
    const std::vector<Figures> by_rank = ranks_->gather(by_batch_);
    Figures sum{};
    for (size_t batch = 0; batch < by_batch_.size(); ++batch) {
      for (size_t i = 0; i < sum.size(); ++i) {
        double value = 0;  // one rank has evaluated the batch, the others have zeros
        for (size_t at = batch; at < by_rank.size(); at += by_batch_.size()) value += by_rank[at][i];
        sum[i] += value;
      }
    }
    return sum;
  }

 private:
  job::Ranks* ranks_;
  std::vector<Figures> by_batch_;
  int64_t added_ = 0;
};

// The predictions and targets of each batch. Ranks exchange them as bytes: two arrays for each batch, with its number.
class BatchPredictions {
 public:
  explicit BatchPredictions(job::Ranks* ranks) : ranks_(ranks) {}

  // Takes the predictions of this rank's next batch; of an empty one nothing.
  void add(const Array& outputs, const Array& targets) {
    const int64_t number = share_of_batches(ranks_).number(added_++);
    if (!outputs.defined()) return;
    batches_[number] = {outputs.clone(), targets.clone()};
  }

  Predictions of_all() {
    if (ranks_) exchange();
    Predictions all;
    if (batches_.empty()) return all;
    int64_t count = 0;
    for (const auto& [number, batch] : batches_) count += batch.outputs.shape()[0];
    const auto join = [&](Array Predictions::*part) {
      const Array& first = batches_.begin()->second.*part;
      Shape shape = first.shape();
      shape[0] = count;
      all.*part = Array(first.dtype(), shape);
      auto* to = static_cast<char*>((all.*part).raw());
      for (const auto& [number, batch] : batches_) {
        std::memcpy(to, (batch.*part).raw(), (batch.*part).bytes());
        to += (batch.*part).bytes();
      }
    };
    join(&Predictions::outputs);
    join(&Predictions::targets);
    batches_.clear();
    return all;
  }

 private:
  static void append(std::string& text, const void* bytes, size_t count) {
    text.append(static_cast<const char*>(bytes), count);
  }
  // A type and a shape of at most four axes, as the fixed part of an array in a text.
  struct Header {
    int64_t number = 0, dtype = 0, rank = 0, extents[4] = {};
  };
  static void put(std::string& text, int64_t number, const Array& array) {
    Header h{.number = number, .dtype = static_cast<int64_t>(array.dtype()), .rank = array.shape().rank()};
    FREIGHT_CHECK(h.rank <= 4, "predictions have few axes");
    std::copy(array.shape().begin(), array.shape().end(), h.extents);
    append(text, &h, sizeof h);
    append(text, array.raw(), array.bytes());
  }
  static Array take(const char*& at, int64_t& number) {
    Header h;
    std::memcpy(&h, at, sizeof h);
    at += sizeof h;
    number = h.number;
    Array array(static_cast<DType>(h.dtype), Shape(h.extents, h.extents + h.rank));
    std::memcpy(array.raw(), at, array.bytes());
    at += array.bytes();
    return array;
  }
  void exchange() {
    std::string mine;
    for (const auto& [number, batch] : batches_) {
      put(mine, number, batch.outputs);
      put(mine, number, batch.targets);
    }
    batches_.clear();
    for (const std::string& of_rank : ranks_->from_all(mine)) {
      for (const char *at = of_rank.data(), *end = at + of_rank.size(); at < end;) {
        int64_t number = 0;
        Array outputs = take(at, number), targets = take(at, number);
        batches_[number] = {outputs, targets};
      }
    }
  }

  job::Ranks* ranks_;
  std::map<int64_t, Predictions> batches_;  // by number
  int64_t added_ = 0;
};

}  // namespace

data::Share share_of_batches(job::Ranks* ranks) {
  if (!ranks) return {};
  if (ranks->weights().empty()) return {.of = ranks->world(), .first = ranks->rank(), .end = ranks->rank() + 1};
  // In turns of four batches for each rank, of which those who are faster get more.
  const job::ShardAssignment turn{.shards = int64_t{4} * ranks->world(),
                                  .rank = ranks->rank(),
                                  .world = ranks->world(),
                                  .counts = job::dealt(int64_t{4} * ranks->world(), ranks->weights(), 1)};
  return {.of = turn.shards, .first = turn.first(), .end = turn.first() + turn.count()};
}

bool parse_test_views(const std::string& name, TestViews& out) {
  constexpr std::pair<const char*, TestViews> kNames[] = {
      {"none", TestViews::one}, {"flip", TestViews::flip}, {"shift", TestViews::shift}};
  for (const auto& [known, views] : kNames) {
    if (name == known) return out = views, true;
  }
  return false;
}

struct Evaluator::State {
  // (images, labels) -> (summed loss, number right)
  struct EvaluationStep {
    models::Model model;
    std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& y) const {
      const auto [outputs, losses] = models::score(model, x, y, {.reduction = Reduction::sum});
      return {losses, right_of(model, outputs, y)};
    }
  };
  // The same, and the predictions.
  struct PredictingStep {
    models::Model model;
    std::array<Tensor, 3> operator()(const Tensor& x, const Tensor& y) const {
      const auto [outputs, losses] = models::score(model, x, y, {.reduction = Reduction::sum});
      return {losses, right_of(model, outputs, y), cast(models::predictions_of(model, outputs), DType::f32)};
    }
  };
  // Loss and number right of a batch; its predictions go to `to`.
  std::array<Tensor, 2> run(const data::FeedBatch& b, BatchPredictions& to) {
    if (keep == Keep::figures) {
      const auto [loss, right] = step(b.inputs, b.targets);
      return {loss, right};
    }
    const auto [loss, right, predicted] = predicting(b.inputs, b.targets);
    to.add(predicted.array(), b.targets);
    return {loss, right};
  }
  models::Model& model;
  int64_t batch_size;
  DType compute;
  Keep keep;
  Compiled<EvaluationStep> step;
  Compiled<PredictingStep> predicting;
  Predictions predictions = {};
};

void need_fit(const models::Model& model, const data::Dataset& set) {
  const auto refuse = [&](const auto&... difference) {
    fail(ErrorKind::usage, "data", "model ", model.name, " does not fit dataset ", set.name, ": ", difference...);
  };
  if (model.reads_tokens()) refuse("it reads text, the samples are numbers ", set.sample_shape());
  if (model.input.shape != set.sample_shape()) {
    refuse("it expects samples ", model.input.shape, ", got ", set.sample_shape());
  }
  if (model.own.loss) return;  // says itself what targets it takes
  const int64_t outputs = model.classes();
  const bool labels = model.loss == models::Loss::multilabel;
  if (labels || set.multilabel()) {
    if (!labels) refuse("its loss is ", models::to_string(model.loss), ", the samples have several labels each");
    if (!set.multilabel())
      refuse("it predicts several labels per sample, the samples have ",
             set.classification() ? "a class each" : "values", " (--task multilabel)");
    if (outputs != set.class_count()) refuse("it predicts ", outputs, " labels, the data has ", set.class_count());
    return;
  }
  if (models::regresses(model.loss)) {
    const int64_t values = set.labels.numel() / set.count();
    if (set.classification()) {
      refuse("it is a regression model (loss ", models::to_string(model.loss), "), the targets are classes");
    }
    if (outputs != values) refuse("it returns ", outputs, " values per sample, the targets have ", values);
  } else {
    if (!set.classification()) {
      refuse("it is a classifier (loss ", models::to_string(model.loss),
             "), the targets are regression values; use linear_regression, or a "
             "spec with ",
             "\"loss\": \"mse\"");
    }
    if (outputs < set.class_count()) refuse("it returns ", outputs, " classes, the data has ", set.class_count());
  }
}

namespace {
// Pixels of files and of known sets become what the model was trained on: arrays of one's own were read as that
// already.
void as_recorded(data::Dataset& set, const store::Preprocessing& p) {
  if (set.meaning.values != data::Values::unstated) return;
  if (!set.files) {
    if (set.images.dtype() == DType::u8) set.images = data::picture_sample(set.images, p.arrays, set.name);
    return;
  }
  if (!p.arrays.takes_pictures()) data::picture_sample(Array(DType::u8, {1}), p.arrays, set.name);  // throws
  if (p.arrays.values != data::Values::scaled) return;
  // Pixels / 255 are v; the model's mean and deviation are those of low + span v.
  const double low = p.arrays.range.low, span = p.arrays.range.high - low;
  if (set.mean.empty()) {
    set.mean.assign(static_cast<size_t>(p.input[0]), 0.0f);
    set.std.assign(static_cast<size_t>(p.input[0]), 1.0f);
  }
  for (float& m : set.mean) m = static_cast<float>((static_cast<double>(m) - low) / span);
  for (float& s : set.std) s = static_cast<float>(static_cast<double>(s) / span);
}
}  // namespace

void adapt(data::Dataset& set, const store::Bundle& bundle) {
  const store::Preprocessing& p = bundle.preprocessing;
  set.mean = p.mean;
  set.std = p.std;
  const bool images = p.input.rank() == 3 && set.sample_shape().rank() == 3;
  if (set.files && images && (p.input[0] == 1 || p.input[0] == 3)) {
    set.files = std::make_shared<data::ImageFiles>(set.files->paths, p.geometry());
  } else if (images && set.images.dtype() == DType::u8 && set.sample_shape()[0] == p.input[0]) {
    set = data::resized(set, p.input[1], p.input[2]);
  }
  need_fit(bundle.model, set);
  as_recorded(set, p);
  // Class folders of another set may be fewer, and then have other numbers.
  if (!set.files || set.classes == bundle.classes) return;
  const auto outputs = static_cast<size_t>(bundle.model.classes());
  if (bundle.classes.empty() && !set.classes.empty() && set.classes.size() != outputs) {
    fail(ErrorKind::data, set.name, "has ", set.classes.size(), " classes, the model has ", with_commas(outputs),
         " without names, so it is unknown which are meant: fine-tune it on this data (freight train --weights)");
  }
  if (bundle.classes.empty()) return;
  std::vector<int64_t> number;
  for (const std::string& name : set.classes) {
    const auto it = std::find(bundle.classes.begin(), bundle.classes.end(), name);
    if (it == bundle.classes.end()) {
      fail(ErrorKind::data, set.name, "has class ", name, ", the model has ", join(bundle.classes, ", "),
           data::class_hint(name, bundle.classes));
    }
    number.push_back(it - bundle.classes.begin());
  }
  std::vector<int64_t> labels = set.labels.to_vector<int64_t>();
  for (int64_t& label : labels) label = number[static_cast<size_t>(label)];
  set.labels = Array::of<int64_t>(labels, set.labels.shape());
  set.classes = bundle.classes;
}

Evaluator::Evaluator(models::Model& model, const CompileOptions& options, int64_t batch_size, TestViews views,
                     Keep keep)
    : state_(new State{model, batch_size, options.compute, keep,
                       compile(State::EvaluationStep{with_views(model, views)}, options),
                       compile(State::PredictingStep{with_views(model, views)}, options)}) {}
Evaluator::~Evaluator() = default;

Evaluation Evaluator::run(const data::Dataset& set, const std::function<bool(int64_t, int64_t)>& poll,
                          const EvaluationOptions& options) {
  const std::string what = cat(set.name, ", ", set.split);
  if (set.count() == 0) fail(ErrorKind::data, what, "nothing to evaluate: the split is empty");
  const auto feed = data::loader_feed(set, {.batch_size = state_->batch_size,
                                            .workers = options.workers,
                                            .bad = options.bad,
                                            .share = share_of_batches(options.ranks)});
  return run(*feed, what, poll, options.ranks);
}

const Predictions& Evaluator::predictions() const { return state_->predictions; }

std::shared_ptr<const Plan> Evaluator::plan(const Type& x, const Type& y) {
  const nn::Evaluating evaluating(*state_->model.net);
  return state_->keep == Keep::predictions ? state_->predicting.plan(x, y) : state_->step.plan(x, y);
}

Evaluation Evaluator::run(data::Feed& feed, const std::string& what, const std::function<bool(int64_t, int64_t)>& poll,
                          job::Ranks* ranks) {
  const auto start = std::chrono::steady_clock::now();
  const nn::Evaluating evaluating(*state_->model.net);
  Evaluation e;
  double right_sum = 0;
  BatchFigures figures(feed.batches_per_epoch(), ranks);
  BatchPredictions predictions(ranks);
  feed.start(0);
  while (const data::FeedBatch* b = feed.next()) {
    if (b->inputs.shape()[0] == 0) {  // all were left out
      figures.add({});
      predictions.add({}, {});
      continue;
    }
    const auto [loss, right] = state_->run(*b, predictions);
    const auto batch_loss = static_cast<double>(loss.item<float>());
    if (!std::isfinite(batch_loss)) {
      const std::string sample = first_nonfinite(feed, *b);
      fail(ErrorKind::diverged, what, "the loss of samples ", e.count, " to ", e.count + b->count - 1, " is ",
           std::isnan(batch_loss) ? "nan" : "infinite",
           sample.empty() ? ": the model's predictions for them are NaN or infinite, so there is no metric" : ": ",
           sample, state_->compute == DType::f16 ? "; try --precision bf16 or fp32" : "");
    }
    const double batch_right = static_cast<double>(right.item<float>());
    figures.add({batch_loss, batch_right, static_cast<double>(b->count)});
    e.loss += batch_loss;
    right_sum += batch_right;
    e.count += b->count;
    if (poll && !poll(e.count, feed.count_per_epoch())) break;
  }
  if (ranks) {
    const std::array<double, 3> all = figures.of_all();
    e.loss = all[0];
    right_sum = all[1];
    e.count = static_cast<int64_t>(all[2]);
  }
  if (e.count == 0) fail(ErrorKind::data, what, "nothing to evaluate: no sample can be read");
  if (state_->keep == Keep::predictions) state_->predictions = predictions.of_all();
  e.loss /= static_cast<double>(e.count);
  const double right_mean = right_sum / static_cast<double>(e.count);
  if (state_->model.own.metric) e.metric = right_mean;
  if (models::has_accuracy(state_->model)) e.top1 = 100.0 * right_mean;
  e.seconds = seconds_since(start);
  return e;
}

EvaluationBeside evaluation_beside(models::Model& model, const CompileOptions& options, TestViews views,
                                   const StepBeside& step, int64_t test_count, const TestTypes& types,
                                   Evaluator::Keep keep) {
  int64_t batch = std::min(kEvaluationBatch, std::max<int64_t>(test_count, 1));
  if (batch > step.samples) {
    // Fixed kernels, since measuring those of a batch that is too large takes its memory and seconds of time.
    CompileOptions fixed = options;
    fixed.deterministic = true;
    const auto [x, y] = types(batch);
    if (Evaluator(model, fixed, batch, views, keep).plan(x, y)->arena_bytes() > step.arena_bytes) batch = step.samples;
  }
  EvaluationBeside e{.evaluator = std::make_unique<Evaluator>(model, options, batch, views, keep),
                     .batch = batch,
                     .inputs = {},
                     .targets = {},
                     .plan = nullptr};
  std::tie(e.inputs, e.targets) = types(batch);
  e.plan = e.evaluator->plan(e.inputs, e.targets);
  return e;
}

}  // namespace freight::train
