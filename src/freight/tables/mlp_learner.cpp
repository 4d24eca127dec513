// See mlp_learner.h.
#include "freight/tables/mlp_learner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/job/signals.h"
#include "freight/ops/index.h"
#include "freight/optim/ema.h"
#include "freight/optim/optimizer.h"
#include "freight/tables/mlp_model.h"
#include "freight/tables/table.h"
#include "freight/trace/compile.h"
#include "freight/trace/device.h"
#include "freight/train/folds.h"

namespace freight::tables {

namespace {

constexpr double kMlpRate = 4e-3, kMlpDecay = 1e-3;
constexpr double kMlpAveraging = 0.998;  // of the weights, over steps: what answers
constexpr int64_t kMlpEpochs = 60, kMlpBatch = 128, kMlpPatience = 8;
constexpr int64_t kMlpFolds = 7;             // of the training rows, one of which says when to end
constexpr int64_t kLeastRowsToHoldOut = 20;  // of fewer rows all are fitted, for all epochs
constexpr uint32_t kMlpOrder = 0x6d6c70f1;   // stream of draws

using RowNumbers = std::vector<int64_t>;

void shuffle_rows(RowNumbers& rows, PhiloxStream draws) {
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[draws.below(static_cast<uint32_t>(i))]);
}

// The rows that are fitted, and those that say when to end: a fold of the training rows, with its share of every class
// or of small and large values, and without rows of a group that is fitted.
struct MlpParts {
  store::Rows fitted, watched;  // watched: none, where all are fitted
};
MlpParts parts_of(const store::Rows& rows, uint64_t seed, bool watch) {
  const MlpParts whole{rows, train::rows_at(rows, {})};
  if (!watch || rows.count() < kLeastRowsToHoldOut) return whole;
  const std::vector<int64_t> fold_of = train::folds_of(rows, kMlpFolds, seed);
  RowNumbers fitted, watched;
  for (size_t i = 0; i < fold_of.size(); ++i) (fold_of[i] == 0 ? watched : fitted).push_back(static_cast<int64_t>(i));
  if (fitted.empty() || watched.empty()) return whole;  // all rows are of one group
  return {train::rows_at(rows, fitted), train::rows_at(rows, watched)};
}

// Weights of rows, f32 (N), 1 in the mean; 1 each where the table has none.
Array mlp_weights_of(const store::Rows& rows) {
  const int64_t n = rows.count();
  Array out(DType::f32, {n});
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += rows.weight(i);
  if (sum <= 0)
    fail(ErrorKind::data, "--weight-column", "no row that is fitted counts for anything: got weights of 0 alone");
  for (int64_t i = 0; i < n; ++i) {
    out.data<float>()[i] = static_cast<float>(rows.weight(i) * static_cast<double>(n) / sum);
  }
  return out;
}

MlpTarget target_of_rows(const store::Rows& rows, int64_t classes) {
  MlpTarget target{.classes = classes};
  if (classes > 0) return target;
  const auto* const y = rows.labels.data<float>();
  double n = 0, variance = 0;
  for (int64_t i = 0; i < rows.count(); ++i) n += rows.weight(i);
  for (int64_t i = 0; i < rows.count(); ++i) target.mean += rows.weight(i) * static_cast<double>(y[i]) / n;
  for (int64_t i = 0; i < rows.count(); ++i) {
    variance += rows.weight(i) * std::pow(static_cast<double>(y[i]) - target.mean, 2) / n;
  }
  if (variance > 0) target.scale = std::sqrt(variance);
  return target;
}

// Targets of the net: classes i32 (N), or scaled values f32 (N).
Array mlp_targets(const store::Rows& rows, const MlpTarget& target) {
  if (target.classes > 0) return rows.labels.cast(DType::i32);
  Array out(DType::f32, {rows.count()});
  for (int64_t i = 0; i < rows.count(); ++i) {
    out.data<float>()[i] =
        static_cast<float>((static_cast<double>(rows.labels.data<float>()[i]) - target.mean) / target.scale);
  }
  return out;
}

// An epoch of a small table has some steps, too: a batch is at most a 32nd of the rows, but for 32 rows. Batches of 32
// predicted yacht, concrete and energy best, among 8 to 128.
int64_t batch_of(const train::Config& config, int64_t rows) {
  constexpr int64_t kLeastSteps = 32, kLeastBatch = 32;
  return std::min({config.batch_size, rows, std::max(rows / kLeastSteps, kLeastBatch)});
}

// The fitted rows where the step gathers its batches, its inputs being their numbers.
class MlpSteps {
 public:
  MlpSteps(MlpNet& net, const MlpColumns& columns, const MlpTarget& target, const store::Rows& rows,
           const train::Config& config)
      : averages_(net, {.decay = kMlpAveraging}),
        optimizer_(net.parameters(), {.lr = config.lr, .weight_decay = config.weight_decay, .decay_norm_bias = false}),
        rows_(rows.count()),
        batch_(batch_of(config, rows_)),
        seed_(static_cast<uint64_t>(config.seed)) {
    const MlpColumns::Encoded all = columns.encode(rows.values, 0, rows_, rows_);
    const auto kept = [](const char* name, const Array& a) {
      Variable v(name, {a.dtype(), a.shape()});
      v.set(a);
      return v;
    };
    const Variable numbers = kept("mlp.numbers", all.numbers), words = kept("mlp.words", all.words),
                   targets = kept("mlp.targets", mlp_targets(rows, target)),
                   weights = kept("mlp.weights", mlp_weights_of(rows));
    auto step = [this, &net, numbers, words, targets, weights, classes = target.classes](const Tensor& batch) {
      const Tensor outputs = net(gather(numbers, batch), gather(words, batch));
      const Tensor loss = mlp_loss(outputs, gather(targets, batch), gather(weights, batch), classes);
      optimizer_.step(loss);
      averages_.update();
      return loss;
    };
    auto compiled =
        std::make_shared<Compiled<decltype(step)>>(step, CompileOptions{.backend = "cpu", .deterministic = true});
    step_ = [compiled](const Array& batch) { return (*compiled)(batch).template item<double>(); };
  }
  MlpSteps(const MlpSteps&) = delete;
  MlpSteps& operator=(const MlpSteps&) = delete;

  // Calls f while the net has the averages of its weights.
  template <class F>
  void with_averages(const F& f) {
    averages_.swap();
    f();
    averages_.swap();
  }

  // The mean loss of the batches of an epoch, from 0 on, or of those before a signal to stop. The last batch takes rows
  // of the first ones to be as large.
  double epoch(int64_t number) {
    RowNumbers order(static_cast<size_t>(rows_));
    std::iota(order.begin(), order.end(), int64_t{0});
    shuffle_rows(order, PhiloxStream(seed_, static_cast<uint64_t>(number), kMlpOrder));
    const int64_t batches = (rows_ + batch_ - 1) / batch_;
    double sum = 0;
    int64_t done = 0;
    // An epoch of a large table takes minutes: who stops it has the weights so far.
    for (int64_t b = 0; b < batches && (b == 0 || !signals::stop_requested()); ++b) {
      Array batch(DType::i32, {batch_});
      for (int64_t i = 0; i < batch_; ++i) {
        batch.data<int32_t>()[i] = static_cast<int32_t>(order[static_cast<size_t>((b * batch_ + i) % rows_)]);
      }
      const double loss = step_(batch);
      if (!std::isfinite(loss)) {
        fail(ErrorKind::diverged, "mlp", "the loss is NaN or infinite in epoch ", number + 1,
             ": expected a lower one (--lr), got a learning rate of ", optimizer_.lr());
      }
      sum += loss;
      ++done;
    }
    return sum / static_cast<double>(done);
  }

 private:
  optim::EMA averages_;
  optim::AdamW optimizer_;
  int64_t rows_, batch_;
  uint64_t seed_;
  std::function<double(const Array&)> step_;
};

}  // namespace

void MlpLearner::choose(train::Config& config) const {
  config.lr = kMlpRate;
  config.weight_decay = kMlpDecay;
  config.epochs = kMlpEpochs;
  config.batch_size = kMlpBatch;
}

train::RowData MlpLearner::read(const train::RowSource& source) const { return read_table(source); }

train::Cost MlpLearner::cost(const train::Config& config, const train::RowData& data) const {
  const MlpSizes sizes;
  constexpr double kBins = 48, kFlopsPerSecond = 3e10, kAlive = 4;  // activations, gradients and what a step keeps
  const double columns = static_cast<double>(data.shape.columns.size()), rows = static_cast<double>(data.train.count());
  const double batch = static_cast<double>(batch_of(config, static_cast<int64_t>(rows))),
               k = static_cast<double>(sizes.members), width = static_cast<double>(sizes.width),
               layers = static_cast<double>(sizes.layers), in = columns * static_cast<double>(sizes.embedding);
  const double weights =
      columns * kBins * static_cast<double>(sizes.embedding) + in * (width + k) + layers * width * width;
  const double of_batch = batch * (k * (in + layers * width) + columns * kBins);
  const double flops = 6 * rows * k * width * (in + (layers - 1) * width);
  return {.bytes = sizeof(float) * (kAlive * (of_batch + 2 * weights) + 6 * rows * columns),
          .seconds = flops / kFlopsPerSecond};
}

std::shared_ptr<const store::RowModel> MlpLearner::fit(const train::Config& config, const train::RowData& data,
                                                       const std::function<bool(const train::Round&)>& on_round) const {
  const DeviceScope cpu("cpu");
  const int64_t patience = config.early_stop < 0 ? kMlpPatience : config.early_stop;
  const MlpParts parts = parts_of(data.train, static_cast<uint64_t>(config.seed), patience > 0);
  const MlpColumns columns(data.shape, parts.fitted);
  if (columns.numbers() + columns.words() == 0) {
    fail(ErrorKind::data, config.data,
         "no column differs between the rows of training, by words that 5 of them have: there is nothing to learn "
         "from; ",
         "--model baseline predicts what the column ", data.target, " holds");
  }
  MlpMade made{.sizes = {}, .target = target_of_rows(parts.fitted, static_cast<int64_t>(data.shape.classes.size()))};
  const std::unique_ptr<MlpNet> net = make_mlp(columns, made);
  net->start(static_cast<uint64_t>(config.seed));
  MlpSteps steps(*net, columns, made.target, parts.fitted, config);
  const MlpAnswers answers(*net, columns, made.target, MlpAnswers::Weights::changing);
  const double unit = made.target.scale * made.target.scale;  // of a squared error
  double least = std::numeric_limits<double>::infinity();
  std::vector<nn::NamedArray> best;
  bool on = true;
  while (on) {
    train::Round round{.number = ++made.epochs, .of = config.epochs};
    round.loss = steps.epoch(made.epochs - 1) * (made.target.classes > 0 ? 1 : unit);
    const bool watches = parts.watched.count() > 0;
    steps.with_averages([&] {
      const double loss = watches ? train::evaluate(answers(parts.watched.values), parts.watched).loss : 0;
      round.best = !watches || loss < least;
      if (*round.best) {
        least = loss;
        made.kept = made.epochs;
        best = nn::values_of(mlp_weights(*net));
      }
      if (data.test.count() > 0) round.test = train::evaluate(answers(data.test.values), data.test);
    });
    on = made.epochs < config.epochs && (!watches || made.epochs - made.kept < patience);
    on = on_round(round) && on;
  }
  return std::make_shared<MlpModel>(columns, made, best);
}

}  // namespace freight::tables
