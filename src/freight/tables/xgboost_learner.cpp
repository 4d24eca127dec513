// See xgboost_learner.h.
#include "freight/tables/xgboost_learner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/cpu_share.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/tables/table.h"
#include "freight/tables/xgboost_bins.h"
#include "freight/train/scores.h"
#include "freight/train/signals.h"

namespace freight::tables {

namespace {

constexpr int64_t kToldRounds = 50, kShownOfMore = 25;  // up to so many are all shown; of more, about so many
constexpr XgboostVersion kDevices = {2, 0, 0};
constexpr double kSecondsOfCell = 1.6e-9;  // measured, of a level of a tree on a core
// Measured: a cell as the number of its bin, twice; where it is kept itself, as f32 and XGBoost's own pair of column
// and value, too.
constexpr double kBytesOfBins = 2, kBytesOfCell = 4 + 8 + 2;
// XGBoost keeps on the disk pages of cells, 8 bytes each, and reads some ahead.
constexpr int64_t kCellsOfPage = 1 << 20;
constexpr double kPagesAtOnce = 8;

// A part of the data as XGBoost has it. It copies the rows.
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

// The device that a booster uses, as it says itself: where a GPU is not to be had it goes on with the CPU.
std::string device_of(const Xgboost& library, const XgboostHandle& booster) {
  uint64_t length = 0;
  const char* text = nullptr;
  library.check(library->XGBoosterSaveJsonConfig(booster.get(), &length, &text), "its configuration");
  const auto j = io::try_parse_json<nlohmann::json>({text, length});
  const auto at = nlohmann::json::json_pointer("/learner/generic_param/device");
  return j && j->contains(at) && j->at(at).is_string() ? j->at(at).get<std::string>() : std::string("cpu");
}

bool on_gpu(const std::string& device) { return starts_with(device, "cuda"); }

// Another GPU than the one that was asked for is as little.
bool same_gpu(const std::string& asked, const std::string& used) {
  const size_t colon = asked.find(':');
  if (colon == std::string::npos) return on_gpu(used);
  const size_t digit = std::min(asked.find_first_not_of('0', colon + 1), asked.size() - 1);
  return used == cat("cuda:", asked.substr(digit));
}

void need_gpu(const Xgboost& library, const XgboostHandle& booster, const std::string& asked) {
  if (const std::string used = device_of(library, booster); !same_gpu(asked, used)) {
    fail(ErrorKind::device, "--device", "got ", asked, ", but XGBoost found no such GPU and would go on with ", used,
         " (", library.path(), ", ", library.version().text(), "); freight devices lists those that are there");
  }
}

// Before anything is fitted: a library without CUDA, or no GPU that it could use.
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

double row_weight(const store::Rows& rows, int64_t row) {
  return rows.weights ? static_cast<double>(rows.weights->data<float>()[row]) : 1.0;
}

// Weights by which all classes weigh alike; empty without them. The rows' own weights say how much of a class there is.
std::vector<float> weights_of(const train::Config& c, const train::RowData& data) {
  if (c.class_weight != "balanced") return {};
  const int64_t n = data.train.count();
  const auto* label = data.train.labels.data<int64_t>();
  std::vector<double> sums(data.shape.classes.size());
  double all = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double w = row_weight(data.train, i);
    sums[static_cast<size_t>(label[i])] += w;
    all += w;
  }
  std::vector<float> weights;
  for (const double sum : sums) {
    weights.push_back(static_cast<float>(sum > 0 ? all / (static_cast<double>(sums.size()) * sum) : 1));
  }
  return weights;
}

// One fit: the booster, both parts of the data, and which round was the best.
class TreeFit {
 public:
  TreeFit(const Xgboost& library, const train::Config& config, const train::RowData& data, TreeLearner::Kind kind)
      : library_(library),
        data_(data),
        settings_(tree_settings(config, data, library, kind)),
        columns_(data.shape.columns, data.train.values),
        weights_(weights_of(config, data)),
        device_(config.backend),
        seconds_(config.fit_seconds) {
    if (config.metric != "auto" || data.train.ranked) metric_ = train::metric_for(config, data.shape.classes.size());
    library_.hear_warnings();
    const std::string threads = cat(config.deterministic ? 1 : thread_count());
    if (!data.folder.empty() && !(library.version() < kOldestPages)) pages_.emplace();
    train_ = training_matrix(threads);
    test_ = held_out_matrix(threads);
    booster_ = booster_of(library_, settings_.parameters, {train_.get(), test_.get()});
    std::vector<const char*> kinds = columns_.kinds();  // for those who read the trees elsewhere
    library_.check(library_->XGBoosterSetStrFeatureInfo(booster_.get(), "feature_type", kinds.data(), kinds.size()),
                   "the kinds of columns");
  }

  // Rounds until they are all done, the held-out loss stays, or somebody says stop.
  void rounds(const std::function<bool(const train::Round&)>& told) {
    const int64_t period = settings_.rounds <= kToldRounds ? 1 : settings_.rounds / kShownOfMore;
    int64_t last_told = 0;
    bool on = true;
    while (on) {
      CpuShare::touch();  // XGBoost's threads may be those of this program's pool
      library_.check(library_->XGBoosterUpdateOneIter(booster_.get(), static_cast<int>(fitted_), train_.get()),
                     cat("round ", fitted_ + 1));
      if (++fitted_ == 1 && on_gpu(device_)) need_gpu(library_, booster_, device_);
      const bool stops = settings_.early_stop > 0 && !improves();
      const bool asked = signals::stop_requested();
      const bool late = seconds_ > 0 && seconds_since(began_) > seconds_;
      on = fitted_ < settings_.rounds && !stops && !late;
      if (on && !asked && fitted_ % period != 0) continue;
      train::Round round{.number = fitted_, .of = settings_.rounds};
      round.loss = train::evaluate(answers(train_, data_.train), data_.train).loss;
      const Array held_out = answers(test_, data_.test);
      round.test = train::evaluate(held_out, data_.test);
      if (metric_) round.test->metric = train::score_of(*metric_, held_out, data_.test);
      if (settings_.early_stop > 0) round.best = best_ > last_told;
      last_told = fitted_;
      on = told(round) && on;
    }
  }

  std::shared_ptr<const store::RowModel> model(const std::string& learner) const {
    const int64_t kept = settings_.early_stop > 0 ? best_ : fitted_;
    XgboostHandle booster = booster_;
    if (kept < fitted_) {
      void* sliced = nullptr;
      library_.check(library_->XGBoosterSlice(booster_.get(), 0, static_cast<int>(kept), 1, &sliced),
                     "the best rounds");
      booster = owned_booster(library_, sliced);
    }
    uint64_t length = 0;
    const char* bytes = nullptr;
    library_.check(library_->XGBoosterSaveModelToBuffer(booster.get(), R"({"format": "ubj"})", &length, &bytes),
                   "the stored model");
    Array stored(DType::u8, {static_cast<int64_t>(length)});
    std::copy_n(reinterpret_cast<const uint8_t*>(bytes), length, stored.data<uint8_t>());
    TreesMade made{.learner = learner, .version = library_.version().text(), .rounds = kept, .fitted = fitted_};
    return std::make_shared<Trees>(library_, stored, columns_, static_cast<int64_t>(data_.shape.classes.size()),
                                   std::move(made), "the fitted model");
  }

 private:
  // The weights of the training rows; empty where all weigh alike.
  std::vector<float> row_weights() const {
    std::vector<float> of_rows;
    if (weights_.empty() && !data_.train.weights) return of_rows;
    for (int64_t i = 0; i < data_.train.count(); ++i) of_rows.push_back(static_cast<float>(weight(data_.train, i)));
    return of_rows;
  }
  // The training rows as XGBoost has them. A GPU makes bins of its own from cells.
  XgboostHandle training_matrix(const std::string& threads) const {
    const std::vector<float> weights = row_weights();
    if (pages_) return in_pages(data_.train, weights, threads, "train");
    if (!on_gpu(device_) && can_be_binned(data_.train)) {
      return binned_matrix(library_, columns_, data_.train, {.weights = weights, .threads = threads});
    }
    XgboostHandle cells = matrix_of(library_, columns_, data_.train, threads);
    if (!weights.empty()) set_weights(library_, cells, data_.train, weights);
    return cells;
  }
  // XGBoost takes longer to answer bins than cells.
  XgboostHandle held_out_matrix(const std::string& threads) const {
    if (pages_) return in_pages(data_.test, {}, threads, "test");
    const std::vector<float> alike;
    if (!data_.folder.empty())
      return binned_matrix(library_, columns_, data_.test, {.weights = alike, .threads = threads});
    return matrix_of(library_, columns_, data_.test, threads);
  }
  XgboostHandle in_pages(const store::Rows& rows, const std::vector<float>& weights, const std::string& threads,
                         const char* name) const {
    return paged_matrix(library_, columns_, rows,
                        {.weights = weights, .threads = threads, .cells_at_once = kCellsOfPage},
                        cat(pages_->path(), "/", name));
  }
  // By the row itself and by its class.
  double weight(const store::Rows& rows, int64_t row) const {
    const double own = row_weight(rows, row);
    return weights_.empty()
               ? own
               : own * static_cast<double>(weights_[static_cast<size_t>(rows.labels.data<int64_t>()[row])]);
  }

  // XGBoost keeps what it answered to a part, and adds the trees that are new.
  Array answers(const XgboostHandle& matrix, const store::Rows& rows) const {
    const auto classes = static_cast<int64_t>(data_.shape.classes.size());
    const uint64_t* shape = nullptr;
    uint64_t rank = 0;
    const float* found = nullptr;
    library_.check(
        library_->XGBoosterPredictFromDMatrix(
            booster_.get(), matrix.get(),
            R"({"type": 0, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": true})", &shape,
            &rank, &found),
        "predictions");
    Array out(DType::f32, {rows.count(), std::max<int64_t>(classes, 1)});
    spread_answers(found, rows.count(), classes, out.data<float>());
    return out;
  }

  // False where `early_stop` rounds have passed since the best one. Takes note of this one where it is better.
  bool improves() {
    const Array found = answers(test_, data_.test);
    const double loss = metric_ ? score_as_loss(found) : loss_of(found);
    if (loss < least_) {
      least_ = loss;
      best_ = fitted_;
    }
    if (best_ == 0)
      fail(ErrorKind::diverged, "gbdt", "the loss of the held-out rows is not finite after round ", fitted_);
    return fitted_ - best_ < settings_.early_stop;
  }

  // The metric of the held-out rows, turned so that less is better.
  double score_as_loss(const Array& found) const {
    const std::optional<double> score = train::score_of(*metric_, found, data_.test);
    if (!score) {
      fail(ErrorKind::data, "--metric", "the held-out rows give no ", metric_->name,
           ": they are of one class, or all alike; --early-stop 0 fits without it");
    }
    return metric_->higher ? -*score : *score;
  }

  double loss_of(const Array& found) const {
    const int64_t n = data_.test.count(), k = found.shape()[1];
    double loss = 0, all = 0;
    for (int64_t i = 0; i < n; ++i) {
      const bool classes = data_.test.classification();
      const double label = classes ? static_cast<double>(data_.test.labels.data<int64_t>()[i])
                                   : static_cast<double>(data_.test.labels.data<float>()[i]);
      const double w = weight(data_.test, i);
      loss += w * tree_loss(settings_, found.data<float>() + i * k, label);
      all += w;
    }
    return loss / all;
  }

  const Xgboost& library_;
  const train::RowData& data_;
  TreeSettings settings_;
  TreeColumns columns_;
  std::vector<float> weights_;  // of classes
  std::string device_;
  double seconds_;  // after which the fit ends; 0: none
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::optional<train::Metric> metric_;  // in place of the objective's loss
  std::optional<io::ScratchDir> pages_;  // of both matrices, where rows lie on the disk
  XgboostHandle train_, test_, booster_;
  int64_t fitted_ = 0, best_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::string TreeLearner::doc() const {
  return kind_ == Kind::gbdt ? "boosted trees, by XGBoost" : "a random forest, by XGBoost";
}

void TreeLearner::choose(train::Config& config) const {
  if (kind_ == Kind::gbdt) config.lr = kGbdtRate;
}

std::vector<std::string> TreeLearner::flags() const {
  std::vector<std::string> all = {"--objective",      "--quantile",  "--tweedie-power",    "--max-depth",
                                  "--subsample",      "--colsample", "--min-child-weight", "--monotone",
                                  "--class-weight",   "--lambda",    "--xgboost",          "--weight-column",
                                  "--external-memory"};
  const std::vector<std::string> own = kind_ == Kind::gbdt
                                           ? std::vector<std::string>{"--rounds", "--early-stop", "--lr"}
                                           : std::vector<std::string>{"--trees"};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

bool TreeLearner::runs_on(const std::string& device) const { return on_gpu(device); }

train::RowData TreeLearner::read(const train::RowSource& source) const { return read_table(source); }

std::string TreeLearner::folder_for(const train::Config& c, const train::RowSource& source) const {
  if (c.external_memory == "off") return {};
  const char* const against = c.folds > 0                                       ? "--folds"
                              : c.tune > 0                                      ? "--tune"
                              : on_gpu(c.backend)                               ? "--device"
                              : source.ranking && !source.weight_column.empty() ? "--weight-column of a ranking"
                                                                                : nullptr;
  const std::string folder = std::filesystem::temp_directory_path().string();
  if (c.external_memory == "on") {
    if (!against) return folder;
    fail(ErrorKind::usage, "--external-memory", "got on, which does not go with ", against,
         ": need one fit on the CPU");
  }
  const auto free = static_cast<double>(cpu_info().memory_available_bytes);
  return !against && free > 0 && bytes_of_reading(source, free) > free ? folder : std::string();
}

train::Cost TreeLearner::cost(const train::Config& c, const train::RowData& data) const {
  const Xgboost& library = xgboost(c.xgboost);  // a missing one is told before anything is written
  library.hear_warnings();
  check_device(library, c.backend);
  const TreeSettings settings = tree_settings(c, data, library, kind_);
  const train::TreeFitWork work = *tree_work(c, data);
  const auto width = static_cast<double>(data.shape.columns.size());
  const double cells = static_cast<double>(data.train.count()) * width;
  const bool binned = !on_gpu(c.backend) && can_be_binned(data.train);
  const double held = static_cast<double>(data.test.count()) * width;
  double bytes = cells * (binned ? kBytesOfBins : kBytesOfCell) + held * kBytesOfCell;
  if (!data.folder.empty()) {
    bytes = library.version() < kOldestPages ? (cells + held) * kBytesOfBins
                                             : kPagesAtOnce * 8 * static_cast<double>(kCellsOfPage);
  }
  return {.bytes = bytes,
          .seconds = cells * kSecondsOfCell * static_cast<double>(work.levels * work.trees_of_round) / thread_count()};
}

std::shared_ptr<const store::RowModel> TreeLearner::fit(const train::Config& config, const train::RowData& data,
                                                        const std::function<bool(const train::Round&)>& told) const {
  TreeFit fit(xgboost(config.xgboost), config, data, kind_);
  fit.rounds(told);
  return fit.model(name());
}

}  // namespace freight::tables
