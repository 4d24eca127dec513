// See xgboost_fit.h.
#include "freight/tables/xgboost_fit.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "freight/base/clock.h"
#include "freight/base/cpu_share.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/metrics/scores.h"
#include "freight/tables/rank_work.h"
#include "freight/tables/shared_rows.h"
#include "freight/tables/xgboost_bins.h"
#include "freight/tables/xgboost_job.h"
#include "freight/train/class_weights.h"
#include "freight/train/metric.h"

namespace freight::tables {

namespace {

// If there are at most this many rounds, all are shown; of more rounds, about the second number.
constexpr int64_t kReportedRounds = 50, kShownOfMore = 25;
constexpr XgboostVersion kDevices = {2, 0, 0};

// A part of the data as an XGBoost matrix, which copies the rows.
XgboostHandle matrix_of(const Xgboost& library, const TreeColumns& columns, const store::Rows& rows,
                        const std::string& threads) {
  XgboostHandle matrix = matrix_of_features(library, columns, columns.features(rows.values), threads);
  void* const made = matrix.get();
  std::vector<float> labels;
  for (int64_t i = 0; i < rows.count(); ++i) {
    labels.push_back(rows.classification() ? static_cast<float>(rows.labels.data<int64_t>()[i])
                                           : rows.labels.data<float>()[i]);
  }
  library.check(library->XGDMatrixSetFloatInfo(made, "label", labels.data(), labels.size()), "the labels");
  if (rows.ranked) set_groups(library, matrix, rows);
  return matrix;
}

XgboostHandle booster_of(const Xgboost& library, const TreeParameters& parameters, std::vector<void*> matrices) {
  void* made = nullptr;
  library.check(library->XGBoosterCreate(matrices.data(), matrices.size(), &made), "a booster");
  XgboostHandle booster = owned_booster(library, made);
  for (const auto& [name, value] : parameters) {
    library.check(library->XGBoosterSetParam(made, name.c_str(), value.c_str()), cat(name, "=", value));
  }
  return booster;
}

// The device that a booster reports to use: XGBoost falls back to the CPU if a GPU is not available.
std::string device_of(const Xgboost& library, const XgboostHandle& booster) {
  uint64_t length = 0;
  const char* text = nullptr;
  library.check(library->XGBoosterSaveJsonConfig(booster.get(), &length, &text), "its configuration");
  const auto j = io::try_parse_json<nlohmann::json>({text, length});
  const auto at = nlohmann::json::json_pointer("/learner/generic_param/device");
  return j && j->contains(at) && j->at(at).is_string() ? j->at(at).get<std::string>() : std::string("cpu");
}

// True if the requested GPU is used, and not another one.
bool same_gpu(const std::string& asked, const std::string& used) {
  const size_t colon = asked.find(':');
  if (colon == std::string::npos) return on_gpu(used);
  const size_t digit = std::min(asked.find_first_not_of('0', colon + 1), asked.size() - 1);
  return used == cat("cuda:", asked.substr(digit));
}

void need_gpu(const Xgboost& library, const XgboostHandle& booster, const std::string& asked) {
  if (const std::string used = device_of(library, booster); !same_gpu(asked, used)) {
    fail(ErrorKind::device, "--device", "got ", asked, ", but XGBoost found no such GPU and would continue with ", used,
         " (", library.path(), ", ", library.version().text(), "); freight devices lists those that are there");
  }
}

// The weights of the classes, counting the rows' own weights; empty without --class-weight.
std::vector<float> weights_of(const train::Config& c, const RowData& data) {
  if (c.class_weight == "none") return {};
  const auto* label = data.train.labels.data<int64_t>();
  train::ClassCounts classes{data.shape.classes, std::vector<double>(data.shape.classes.size())};
  for (int64_t i = 0; i < data.train.count(); ++i) {
    classes.counts[static_cast<size_t>(label[i])] += data.train.weight(i);
  }
  const std::vector<double> weights = train::class_weights(c.class_weight, classes);
  return {weights.begin(), weights.end()};
}

// The steps that rank 0 asks the other ranks to make.
enum class FitStep : int64_t { round, predict_train, predict_test, leave };

// The training or the held-out rows as an XGBoost matrix.
struct TreeSplit {
  const store::Rows& rows;
  std::vector<int64_t> borders;    // of the ranks' shares; with one process the first and the last row
  XgboostHandle matrix = nullptr;  // of this process's share; null if that is empty
};

// A fit: the booster, both splits of the data, and the best round. With `ranks` all of them construct it with equal
// settings and data; rank 0 then leads by rounds(), and the others follow().
class TreeFit {
 public:
  TreeFit(const Xgboost& library, const train::Config& config, const RowData& data, TreeLearner::Kind kind,
          job::Ranks* ranks)
      : library_(library),
        data_(data),
        ranks_(ranks),
        settings_(tree_settings(config, data, library, kind)),
        columns_(data.shape.columns, data.train),
        weights_(weights_of(config, data)),
        device_(config.backend),
        threads_(cat(config.deterministic ? 1 : thread_count())),
        seconds_(config.fit_seconds),
        train_{data.train, shares(data.train)},
        test_{data.held_out, shares(data.held_out)} {
    if (config.metric != "auto" || data.train.ranked) metric_ = train::metric_for(config, data.shape.classes.size());
    library_.hear_warnings();
    if (!data.folder.empty() && !(library.version() < kOldestPages)) pages_.emplace();
    malloc_trim(0);  // what reading the table has freed lies between what stays
    train_.matrix = ranks ? training_share() : training_matrix();
    test_.matrix = ranks ? held_out_share() : held_out_matrix();
    if (ranks) job_.emplace(library, *ranks, device_);
    std::vector<void*> matrices = {train_.matrix.get()};
    if (test_.matrix) matrices.push_back(test_.matrix.get());
    booster_ = booster_of(library_, settings_.parameters, matrices);
    std::vector<const char*> kinds = columns_.kinds();  // for programs that read the trees
    library_.check(library_->XGBoosterSetStrFeatureInfo(booster_.get(), "feature_type", kinds.data(), kinds.size()),
                   "the column types");
  }

  // Runs rounds until all are done, the held-out loss no longer improves, or `on_round` stops the fit. `left` is called
  // when the other ranks are released, which also happens between steps if rank 0 fails.
  void rounds(const std::function<bool(const Round&)>& on_round, const std::function<void()>& left) {
    try {
      boost(on_round);
    } catch (...) {
      if (!in_step_) {
        leave();
        left();
      }
      throw;
    }
    leave();
    left();
  }

  void follow() {
    for (;;) {
      auto step = FitStep::leave;
      ranks_->broadcast(&step, sizeof step);
      if (step == FitStep::round) next_round();
      if (step == FitStep::predict_train) predictions(train_, step);
      if (step == FitStep::predict_test) predictions(test_, step);
      if (step == FitStep::leave) return job_->leave();
    }
  }

  std::shared_ptr<const store::RowModel> model(const std::string& learner) const {
    const int64_t kept = settings_.early_stop > 0 ? best_ : fitted_;
    const XgboostHandle booster = kept < fitted_ ? first_rounds(library_, booster_.get(), kept) : booster_;
    const Array stored = saved_booster(library_, booster.get(), "ubj", "the saved model");
    TreeFitRecord record{.learner = learner, .version = library_.version().text(), .rounds = kept, .fitted = fitted_};
    return std::make_shared<XgboostModel>(library_, stored, columns_, static_cast<int64_t>(data_.shape.classes.size()),
                                          std::move(record), "the fitted model");
  }

 private:
  void boost(const std::function<bool(const Round&)>& on_round) {
    const int64_t period = settings_.rounds <= kReportedRounds ? 1 : settings_.rounds / kShownOfMore;
    int64_t last_told = 0;
    bool on = true;
    while (on) {
      next_round();
      const bool stops = settings_.early_stop > 0 && !improves();
      const bool asked = signals::stop_requested();
      const bool late = seconds_ > 0 && seconds_since(began_) > seconds_;
      on = fitted_ < settings_.rounds && !stops && !late;
      if (on && !asked && fitted_ % period != 0) continue;
      Round round{.number = fitted_, .of = settings_.rounds};
      round.loss = evaluate(predictions(train_, FitStep::predict_train), data_.train).loss;
      if (data_.held_out.count() > 0) {
        const Array held_out = predictions(test_, FitStep::predict_test);
        round.test = evaluate(held_out, data_.held_out);
        if (metric_) round.test->metric = metrics::score_of(*metric_, held_out, data_.held_out.truth());
      }
      round.best = settings_.early_stop > 0 ? std::optional(best_ > last_told)
                   : round.test             ? std::nullopt
                                            : std::optional(false);
      last_told = fitted_;
      // Trees, which stay, lie between freed predictions: the heap would grow by the size of these in most rounds.
      malloc_trim(0);
      on = on_round(round) && on;
    }
  }

  // Rank 0 announces the next step to the others.
  void announce(FitStep step) {
    in_step_ = true;
    if (ranks_ && ranks_->first()) ranks_->broadcast(&step, sizeof step);
  }
  void leave() {
    if (!ranks_) return;
    announce(FitStep::leave);
    job_->leave();
  }

  void next_round() {
    announce(FitStep::round);
    CpuShare::touch();  // XGBoost's threads may be those of this program's pool
    const int result = library_->XGBoosterUpdateOneIter(booster_.get(), static_cast<int>(fitted_), train_.matrix.get());
    check(result, cat("round ", fitted_ + 1));
    if (++fitted_ == 1 && on_gpu(device_)) need_gpu(library_, booster_, device_);
    if (ranks_) agree_to_stop();
    in_step_ = false;
  }
  // A signal to any rank stops all.
  void agree_to_stop() { ranks_->agree(ranks_->gather(ranks_->take_request())); }
  void check(int result, const std::string& what) const {
    if (ranks_) {
      check_together(library_, *ranks_, result, what);
    } else {
      library_.check(result, what);
    }
  }

  std::vector<int64_t> shares(const store::Rows& rows) const {
    return ranks_ ? shares_of(rows, ranks_->world()) : std::vector<int64_t>{0, rows.count()};
  }
  int64_t begin_of(const TreeSplit& split) const {
    return split.borders[ranks_ ? static_cast<size_t>(ranks_->rank()) : 0];
  }
  int64_t end_of(const TreeSplit& split) const {
    return split.borders[ranks_ ? static_cast<size_t>(ranks_->rank()) + 1 : 1];
  }

  // The weights of the training rows; empty if all are equal.
  std::vector<float> row_weights() const {
    std::vector<float> of_rows;
    if (weights_.empty() && !data_.train.weights) return of_rows;
    for (int64_t i = 0; i < data_.train.count(); ++i) of_rows.push_back(static_cast<float>(weight(data_.train, i)));
    return of_rows;
  }
  // The training rows as an XGBoost matrix.
  XgboostHandle training_matrix() const {
    const std::vector<float> weights = row_weights();
    if (pages_) return in_pages(data_.train, weights, "train");
    if (bins()) return binned_matrix(library_, columns_, data_.train, {.weights = weights, .threads = threads_});
    XgboostHandle cells = matrix_of(library_, columns_, data_.train, threads_);
    if (!weights.empty()) set_weights(library_, cells, data_.train, weights);
    return cells;
  }
  // True if XGBoost gets the rows in batches and keeps their bins. A GPU makes its own bins from values.
  bool bins() const { return !on_gpu(device_) && can_be_binned(data_.train); }
  // This rank's rows, in bins whose borders are those of all rows. The borders that XGBoost itself merges from the
  // ranks, if it gets values, depend on the number of ranks.
  XgboostHandle training_share() const {
    const int64_t begin = begin_of(train_), end = end_of(train_);
    const std::vector<float> weights = row_weights();
    const store::Rows own = rows_between(data_.train, begin, end);
    const std::vector<float> of_own =
        weights.empty() ? weights : std::vector<float>(weights.begin() + begin, weights.begin() + end);
    if (bins()) {
      const XgboostHandle all = training_matrix();
      return binned_matrix(library_, columns_, own, {.weights = of_own, .threads = threads_, .bins_of = all});
    }
    XgboostHandle cells = matrix_of(library_, columns_, own, threads_);
    if (!of_own.empty()) set_weights(library_, cells, own, of_own);
    return cells;
  }
  XgboostHandle held_out_share() const {
    const int64_t begin = begin_of(test_), end = end_of(test_);
    if (begin == end) return nullptr;
    return matrix_of(library_, columns_, rows_between(data_.held_out, begin, end), threads_);
  }
  // XGBoost predicts more slowly from bins than from values.
  XgboostHandle held_out_matrix() const {
    if (data_.held_out.count() == 0) return nullptr;
    if (pages_) return in_pages(data_.held_out, {}, "test");
    const std::vector<float> alike;
    if (!data_.folder.empty())
      return binned_matrix(library_, columns_, data_.held_out, {.weights = alike, .threads = threads_});
    return matrix_of(library_, columns_, data_.held_out, threads_);
  }
  XgboostHandle in_pages(const store::Rows& rows, const std::vector<float>& weights, const char* name) const {
    return paged_matrix(library_, columns_, rows,
                        {.weights = weights, .threads = threads_, .cells_at_once = kCellsOfPage},
                        cat(pages_->path(), "/", name));
  }
  // The product of the row's own weight and its class's.
  double weight(const store::Rows& rows, int64_t row) const {
    const double own = rows.weight(row);
    return weights_.empty()
               ? own
               : own * static_cast<double>(weights_[static_cast<size_t>(rows.labels.data<int64_t>()[row])]);
  }

  // The predictions for all rows of a split, f32 (N, outputs); on ranks that follow they are not meaningful.
  Array predictions(const TreeSplit& split, FitStep step) {
    announce(step);
    Array out = own_predictions(split);
    if (ranks_) out = gathered(split, out);
    in_step_ = false;
    return out;
  }

  // The predictions for this process's share. XGBoost caches the predictions for a matrix, and adds the new trees.
  Array own_predictions(const TreeSplit& split) const {
    const auto classes = static_cast<int64_t>(data_.shape.classes.size());
    Array out(DType::f32, {end_of(split) - begin_of(split), std::max<int64_t>(classes, 1)});
    if (!split.matrix) return out;
    const uint64_t* shape = nullptr;
    uint64_t rank = 0;
    const float* found = nullptr;
    const int result = library_->XGBoosterPredictFromDMatrix(
        booster_.get(), split.matrix.get(),
        R"({"type": 0, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": true})", &shape,
        &rank, &found);
    check(result, "predictions");
    expand_predictions(found, out.shape()[0], classes, out.data<float>());
    return out;
  }
  Array gathered(const TreeSplit& split, const Array& own) const {
    const int64_t width = own.shape()[1];
    int64_t most = 0;  // rows of the largest share
    for (size_t r = 0; r + 1 < split.borders.size(); ++r)
      most = std::max(most, split.borders[r + 1] - split.borders[r]);
    std::vector<float> mine(static_cast<size_t>(most * width)), all(mine.size() * (split.borders.size() - 1));
    std::copy_n(own.data<float>(), own.numel(), mine.begin());
    ranks_->comm().all_gather(mine.data(), all.data(), most * width, DType::f32);
    Array out(DType::f32, {split.rows.count(), width});
    for (size_t r = 0; r + 1 < split.borders.size(); ++r) {
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(r * mine.size()),
                  (split.borders[r + 1] - split.borders[r]) * width, out.data<float>() + split.borders[r] * width);
    }
    return out;
  }

  // False if `early_stop` rounds have passed since the best one. Records this round if it is better.
  bool improves() {
    const Array found = predictions(test_, FitStep::predict_test);
    const double loss = metric_ ? score_as_loss(found) : loss_of(found);
    if (loss < least_ - settings_.min_improvement) {
      least_ = loss;
      best_ = fitted_;
    }
    if (best_ == 0) fail(ErrorKind::diverged, "gbdt", "the validation loss is NaN or infinite after round ", fitted_);
    return fitted_ - best_ < settings_.early_stop;
  }

  // The metric of the held-out rows, negated if higher is better.
  double score_as_loss(const Array& found) const {
    const std::optional<double> score = metrics::score_of(*metric_, found, data_.held_out.truth());
    if (!score) {
      fail(ErrorKind::data, "--metric", "the validation rows have no ", metric_->name,
           ": they are of one class, or all equal; --early-stop 0 fits without it");
    }
    return metric_->higher ? -*score : *score;
  }

  double loss_of(const Array& found) const {
    const int64_t n = data_.held_out.count(), k = found.shape()[1];
    double loss = 0, all = 0;
    for (int64_t i = 0; i < n; ++i) {
      const bool classes = data_.held_out.classification();
      const double label = classes ? static_cast<double>(data_.held_out.labels.data<int64_t>()[i])
                                   : static_cast<double>(data_.held_out.labels.data<float>()[i]);
      const double w = weight(data_.held_out, i);
      loss += w * tree_loss(settings_, found.data<float>() + i * k, label);
      all += w;
    }
    return loss / all;
  }

  const Xgboost& library_;
  const RowData& data_;
  job::Ranks* ranks_;
  TreeSettings settings_;
  TreeColumns columns_;
  std::vector<float> weights_;  // of classes
  std::string device_, threads_;
  double seconds_;  // after which the fit ends; 0: no limit
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<metrics::Metric> metric_;  // replaces the objective's loss
  std::optional<io::ScratchDir> pages_;    // of both matrices, if rows are on disk
  TreeSplit train_, test_;
  std::optional<XgboostJob> job_;  // set if several ranks fit
  XgboostHandle booster_;
  bool in_step_ = false;  // all ranks are in a step together
  int64_t fitted_ = 0, best_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

bool on_gpu(const std::string& device) { return starts_with(device, "cuda"); }

void check_device(const Xgboost& library, const std::string& device) {
  if (!on_gpu(device)) return;
  if (!library.cuda() || library.version() < kDevices) {
    fail(ErrorKind::device, "--device", "got ", device, ", but ", library.path(), ", XGBoost ",
         library.version().text(), ", is ", library.cuda() ? "too old for this" : "built without CUDA",
         "; install one with it by pip install xgboost, or name its libxgboost.so by --xgboost PATH");
  }
  const Array values = Array::of<double>({0, 1}, {2, 1});
  const store::Rows two{values, Array::of<float>({0, 1}, {2})};
  const std::vector<store::Column> columns = {{.name = "probe"}};
  const XgboostHandle matrix = matrix_of(library, TreeColumns(columns), two, "1");
  const XgboostHandle booster =
      booster_of(library, {{"device", device}, {"tree_method", "hist"}, {"verbosity", "0"}}, {matrix.get()});
  library.check(library->XGBoosterUpdateOneIter(booster.get(), 0, matrix.get()), cat("a tree on ", device));
  need_gpu(library, booster, device);
}

void check_ranks(const Xgboost& library, const RowData& data, const TreeSettings& settings) {
  library.collectives();
  const bool absolute = settings.objective == "reg:absoluteerror";
  if (absolute || settings.objective == "reg:quantileerror") {
    fail(ErrorKind::usage, "--devices", "--objective ", absolute ? "absoluteerror" : "quantile",
         " is fitted by one device: XGBoost averages the quantiles of the devices");
  }
  const auto world = static_cast<int64_t>(data.together->ranks().world());
  const auto units = data.train.ranked ? static_cast<int64_t>(data.train.group_begins().size()) : data.train.count();
  need_part_for_each(
      "--devices",
      {.devices = world, .parts = units, .of = cat(units, data.train.ranked ? " groups" : " rows", " of training")});
}

std::shared_ptr<const store::RowModel> fit_trees(const TreeLearner& learner, const train::Config& config,
                                                 const RowData& data,
                                                 const std::function<bool(const Round&)>& on_round) {
  const Xgboost& library = xgboost(config.xgboost);
  if (!data.together) {
    TreeFit fit(library, config, data, learner.kind(), nullptr);
    fit.rounds(on_round, [] {});
    return fit.model(learner.name());
  }
  // Before the other ranks are called.
  check_ranks(library, data, tree_settings(config, data, library, learner.kind()));
  job::Ranks& ranks = data.together->ranks();
  RankWork::Piece piece(*data.together, learner.name());
  send_fit(ranks, config, data);
  std::shared_ptr<const store::RowModel> model;
  on_thread_of_job([&] {
    TreeFit fit(library, config, data, learner.kind(), &ranks);
    fit.rounds(on_round, [&] { piece.done(); });
    model = fit.model(learner.name());
  });
  return model;
}

void fit_trees_with_rank_zero(const TreeLearner& learner, const train::Config& config, job::Ranks& ranks) {
  const SharedFit shared = receive_fit(ranks, config);
  const Xgboost& library = xgboost(shared.config.xgboost);
  library.hear_warnings();
  check_device(library, shared.config.backend);
  on_thread_of_job([&] { TreeFit(library, shared.config, shared.data, learner.kind(), &ranks).follow(); });
}

}  // namespace freight::tables
