// See mlp_learner.h.
#include "freight/tables/mlp_learner.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/models/models.h"
#include "freight/tables/mlp_model.h"
#include "freight/tables/row_parts.h"
#include "freight/tables/table.h"
#include "freight/trace/device.h"
#include "freight/train/trainer.h"

namespace freight::tables {

namespace {

constexpr double kMlpRate = 4e-3, kMlpDecay = 1e-3;
constexpr double kMlpAveraging = 0.998;  // decay of the moving average of the weights; the average predicts
constexpr int64_t kMlpEpochs = 60, kMlpBatch = 128, kMlpPatience = 8;
constexpr int64_t kMlpFolds = 7;             // folds of the training rows; one decides when training ends
constexpr int64_t kLeastRowsToHoldOut = 20;  // with fewer rows none is held out, and all epochs are trained

// The number of times that each row counts: by its weight, with a mean of 1.
std::vector<double> mlp_row_weights(const store::Rows& rows) {
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = 0; i < rows.count(); ++i) sum += weights.emplace_back(rows.weight(i));
  for (double& w : weights) w *= sum > 0 ? static_cast<double>(weights.size()) / sum : 0;
  return weights;
}

bool any_column_differs(const Array& encoded, const store::Rows& rows) {
  const int64_t width = encoded.shape()[1];
  const float* first = nullptr;  // of the rows that count
  for (int64_t i = 0; i < rows.count(); ++i) {
    const float* const row = encoded.data<float>() + i * width;
    if (rows.weight(i) == 0) continue;
    if (first && !std::equal(row, row + width, first)) return true;
    if (!first) first = row;
  }
  return false;
}

// A value to predict is (value - mean) / deviation for the network; a class is its number.
struct MlpTarget {
  double mean = 0, deviation = 1;
};
MlpTarget target_of_rows(const store::Rows& rows) {
  MlpTarget target;
  if (rows.classification()) return target;
  const std::vector<double> weights = mlp_row_weights(rows);
  const auto n = static_cast<double>(rows.count());
  const auto* const y = rows.labels.data<float>();
  double variance = 0;
  for (size_t i = 0; i < weights.size(); ++i) target.mean += weights[i] * static_cast<double>(y[i]) / n;
  for (size_t i = 0; i < weights.size(); ++i) {
    variance += weights[i] * std::pow(static_cast<double>(y[i]) - target.mean, 2) / n;
  }
  if (variance > 0) target.deviation = std::sqrt(variance);
  return target;
}

// Rows as a data set of the trainer: inputs as MlpColumns::encode makes them, targets f32 (N, 2) as MlpNet takes them.
data::Dataset dataset_of(const MlpColumns& columns, const store::Rows& rows, const MlpTarget& target) {
  const std::vector<double> weights = mlp_row_weights(rows);
  data::Dataset set;
  set.images = columns.encode(rows.values);
  set.labels = Array(DType::f32, {rows.count(), 2});
  float* to = set.labels.data<float>();
  for (int64_t i = 0; i < rows.count(); ++i) {
    const double y = rows.classification() ? static_cast<double>(rows.labels.data<int64_t>()[i])
                                           : static_cast<double>(rows.labels.data<float>()[i]);
    *to++ = static_cast<float>((y - target.mean) / target.deviation);
    *to++ = static_cast<float>(weights[static_cast<size_t>(i)]);
  }
  return set;
}

// Gives small tables enough steps per epoch: a batch is at most a 32nd of the rows, or 32 rows if that is more. Of 8 to
// 128, batches of 32 were best on UCI's yacht, concrete and energy. The batches of an epoch skip few rows.
int64_t batch_of(const train::Config& config, int64_t rows) {
  constexpr int64_t kLeastSteps = 32, kLeastBatch = 32;
  const int64_t n = std::max<int64_t>(rows, 1);
  const int64_t most = std::min({config.batch_size, n, std::max(n / kLeastSteps, kLeastBatch)});
  return n / ((n + most - 1) / most);
}

train::Config training_of(const train::Config& asked, int64_t rows) {
  train::Config c;
  c.data = asked.data;
  c.backend = "cpu";
  c.deterministic = true;  // equal weights for any number of threads
  c.seed = asked.seed;
  c.workers = asked.workers;
  c.epochs = asked.epochs;
  c.batch_size = batch_of(asked, rows);
  c.optimizer = "adamw";
  c.lr = asked.lr;
  c.weight_decay = asked.weight_decay;
  c.decay_norm_bias = false;
  c.clip_grad_norm = asked.clip_grad_norm;
  c.model_ema = kMlpAveraging;
  return c;
}

// Follows the training of the network: makes a model of each epoch's weights, keeps the best, and ends the run where
// it is not improved upon for some epochs or the caller says so.
class MlpEpochs : public train::Observer {
 public:
  using OnRound = std::function<bool(const Round&)>;
  struct Settings {
    int64_t bins = 0, classes = 0, patience = 0;  // 0: the last weights are kept
    double unit = 1;                              // of the training loss
  };
  MlpEpochs(const MlpColumns& columns, const Settings& settings, const OnRound& on_round)
      : columns_(columns), s_(settings), on_round_(on_round) {}

  void on_checkpoint(const models::Model& model) override {
    last_ = std::make_shared<MlpModel>(columns_, s_.bins, s_.classes, mlp_state(*model.net), "mlp");
  }
  void on_epoch(const train::EpochReport& e) override {
    if (ended_) return;  // a part of an epoch, after which the run stops
    epochs_ = last_->kept = e.train.epoch;
    const bool better = s_.patience == 0 || e.best;
    if (better || !best_) best_ = last_;
    const bool more = on_round_({.number = e.train.epoch,
                                 .of = e.train.epochs,
                                 .loss = e.train.mean_loss * s_.unit,
                                 .model = last_.get(),
                                 .best = better});
    ended_ = !more || (s_.patience > 0 && e.train.epoch - best_->kept >= s_.patience);
  }
  bool wants_step() override { return ended_; }
  train::AfterStep on_step(const train::StepReport&) override { return {.stop = ended_}; }

  std::shared_ptr<const store::RowModel> best() const {
    best_->epochs = epochs_;
    return best_;
  }

 private:
  const MlpColumns& columns_;
  Settings s_;
  const OnRound& on_round_;
  std::shared_ptr<MlpModel> last_, best_;
  int64_t epochs_ = 0;
  bool ended_ = false;
};

}  // namespace

void MlpLearner::choose(train::Config& config) const {
  config.lr = kMlpRate;
  config.weight_decay = kMlpDecay;
  config.epochs = kMlpEpochs;
  config.batch_size = kMlpBatch;
}

RowData MlpLearner::read(const RowSource& source) const { return read_table(source); }

train::Cost MlpLearner::cost(const train::Config& config, const RowData& data) const {
  constexpr double kBins = 48, kFlopsPerSecond = 3e10, kAlive = 4;  // activations, gradients and what a step keeps
  const double columns = static_cast<double>(data.shape.columns.size()), rows = static_cast<double>(data.train.count());
  const double batch = static_cast<double>(batch_of(config, static_cast<int64_t>(rows))),
               k = static_cast<double>(MlpNet::kMembers), width = static_cast<double>(MlpNet::kWidth),
               layers = static_cast<double>(MlpNet::kLayers), in = columns * static_cast<double>(MlpNet::kEmbedding);
  const double weights =
      columns * kBins * static_cast<double>(MlpNet::kEmbedding) + in * (width + k) + layers * width * width;
  const double of_batch = batch * (k * (in + layers * width) + columns * kBins);
  const double flops = 6 * rows * k * width * (in + (layers - 1) * width);
  return {.bytes = sizeof(float) * (kAlive * (of_batch + 2 * weights) + 6 * rows * columns),
          .seconds = flops / kFlopsPerSecond};
}

std::shared_ptr<const store::RowModel> MlpLearner::fit(const train::Config& config, const RowData& data,
                                                       const std::function<bool(const Round&)>& on_round) const {
  const DeviceScope cpu("cpu");
  seed(static_cast<uint64_t>(config.seed));
  const int64_t patience = config.early_stop < 0 ? kMlpPatience : config.early_stop;
  // The rows that say when to end are a fold of those of training, which has its share of every class or of small and
  // large values, and no row of a group that is fitted.
  std::optional<RowData> part;
  if (patience > 0 && data.train.count() >= kLeastRowsToHoldOut) {
    const auto fold_of = folds_of(data.train, kMlpFolds, static_cast<uint64_t>(config.seed));
    part = with_fold_out(data, fold_of, 0);
    if (part->train.count() == 0 || part->held_out.count() == 0) part.reset();  // all rows are of one group
  }
  const store::Rows& rows = part ? part->train : data.train;
  const MlpColumns columns(data.shape.columns, rows);
  const MlpTarget target = target_of_rows(rows);
  const data::Dataset fitted = dataset_of(columns, rows, target);
  if (!any_column_differs(fitted.images, rows)) {
    fail(ErrorKind::data, config.data,
         "every column is constant in the training rows, or has only categories of fewer than 5 rows: there is nothing "
         "to learn from; --model baseline predicts the column ",
         data.target);
  }
  const MlpBins bins = mlp_bins(columns, data.shape.columns, fitted.images, rows);
  const auto classes = static_cast<int64_t>(data.shape.classes.size());
  const auto net = std::make_shared<MlpNet>(columns, bins.count(), classes);
  net->set(bins, target.mean, target.deviation);
  net->draw_scaling();

  // The loss of a batch is that of the members, so that each learns by itself; the best epoch is that of their mean.
  models::Model model{.name = "mlp", .input = {DType::f32, {columns.width()}}, .net = net, .loss = models::Loss::mse};
  model.own = {.loss = [net](const Tensor& outputs, const Tensor& y) { return net->loss_of_members(outputs, y); },
               .metric = [net](const Tensor& outputs, const Tensor& y) { return net->loss_of_mean(outputs, y); },
               .higher_is_better = false};
  train::Config training = training_of(config, rows.count());
  // If no rows are held out, nothing is measured before the end of the run.
  if (!part) training.eval_every = training.epochs;
  const data::Dataset watched = part ? dataset_of(columns, part->held_out, target) : fitted;
  const train::Feeds feeds{
      .train =
          [&](int64_t batch_size) {
            return data::loader_feed(fitted, {.batch_size = batch_size,
                                              .shuffle = true,
                                              .seed = static_cast<uint64_t>(training.seed),
                                              .drop_last = true,
                                              .epochs = training.epochs});
          },
      .test = [&](int64_t batch_size) { return data::loader_feed(watched, {.batch_size = batch_size}); },
      .name = config.data};
  MlpEpochs epochs(columns,
                   {.bins = bins.count(),
                    .classes = classes,
                    .patience = part ? patience : 0,
                    .unit = target.deviation * target.deviation},
                   on_round);
  train::train(training, epochs, {.own = {.model = model, .feeds = feeds}, .recorded = false});
  return epochs.best();
}

}  // namespace freight::tables
