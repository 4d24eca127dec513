// See row_learner.h.
#include "freight/tables/row_learner.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/duration.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/metrics/decision.h"
#include "freight/store/column_gaps.h"
#include "freight/tables/rank_work.h"
#include "freight/tables/row_parts.h"
#include "freight/tables/selection_internal.h"
#include "freight/train/config_fields.h"
#include "freight/train/metric.h"
#include "freight/train/prepared_internal.h"
#include "freight/train/record_internal.h"

namespace freight::tables {

namespace {

constexpr int64_t kUsualFolds = 5;
constexpr double kUsualBudget = 60;  // seconds
using train::kValidationPart;

// Refuses flags that this learner would ignore. Values from the dataset's recipe, which is for networks, are not
// refused.
void refuse_other_flags(const train::Config& c, const data::Source& source, const RowLearner& learner,
                        const std::function<bool(const std::string&)>& flag_is_given) {
  train::Trained trained{.kind = train::FlagKind::table, .name = learner.name(), .flags = learner.flags()};
  trained.flags.insert(trained.flags.end(), {"--task", "--metric", "--folds", "--threshold"});
  try {
    trained.usual.push_back(train::recipe(source, c.recipe));
  } catch (const Error&) {  // data without a recipe
  }
  train::need_flags_of(trained, c, flag_is_given);
  if (c.backend != "auto" && c.backend != "cpu" && !learner.runs_on(c.backend)) {
    refuse_value("--device", c.backend, cat("--model ", learner.name(), " runs on the CPU, expected cpu"));
  }
  if (c.precision != train::Config().precision) {
    refuse_flag_of("--precision", "networks", cat(learner.name(), " computes in ", learner.compute()));
  }
}

bool ranks(const std::string& objective) { return objective == "ndcg" || objective == "pairwise"; }

}  // namespace

RowSource row_source(const train::Config& config, data::Source data) {
  return {.data = std::move(data),
          .target = config.target,
          .columns = config.columns,
          .header = config.header,
          .drop = config.drop,
          .types = config.types,
          .task = config.task,
          .weight_column = config.weight_column,
          .group_column = config.group_column,
          .split_by = config.split_by,
          .val_split = config.val_split,
          .seed = static_cast<uint64_t>(config.seed),
          .values = config.objective != train::Config().objective,
          .ranking = config.task == "ranking"};
}

void settle_ranking(train::Config& c, const RowLearner& learner) {
  if (c.task == "multilabel") {
    refuse_value("--task", c.task, "it is for networks that read lists of images or texts, not for table models");
  }
  if (ranks(c.objective) && c.task == "auto") c.task = "ranking";
  if (c.task != "ranking") {
    if (!ranks(c.objective)) return;
    fail(ErrorKind::usage, "--objective", c.objective, " ranks rows: expected ranking, got --task ", c.task);
  }
  if (!learner.fits_rankings()) {
    std::vector<std::string> others;
    for (const train::Learner* l : train::learners()) {
      const auto* const of_rows = dynamic_cast<const RowLearner*>(l);
      if (of_rows && of_rows->fits_rankings()) others.push_back(l->name());
    }
    fail(ErrorKind::usage, "--task", "--model ", learner.name(), " does not rank: expected ", join(others, " or "));
  }
  if (c.group_column.empty()) {
    fail(ErrorKind::usage, "--task",
         "ranking needs --group-column COL: rows with the same value in it, those of a query, are ",
         "ranked among each other");
  }
  if (c.objective != train::Config().objective && !ranks(c.objective)) {
    fail(ErrorKind::usage, "--objective", c.objective, " is for values: a ranking has ndcg or pairwise");
  }
}

namespace {

struct RowRun;

// The fit of a run: how far it came, and the model that it made.
class RowFit {
 public:
  explicit RowFit(const RowRun& run) : run_(run) {}
  void train(train::RunRecorder& to, train::Observer& observer);

  const RowLearner& fitted_by() const;
  const std::optional<double>& threshold() const { return threshold_; }
  const std::shared_ptr<const store::RowModel>& model() const { return model_; }
  const train::Result& so_far() const { return so_far_; }

 private:
  Array predictions_for(const store::Rows& rows) const;
  train::Evaluation figures_of(const Array& predictions, const store::Rows& of) const;
  Candidate compared(train::RunRecorder& to, train::Observer& observer);
  void choose_threshold(const Array& predictions, const metrics::Truth& truth);
  void fit(const Candidate& chosen, train::RunRecorder& to, train::Observer& observer);

  const RowRun& run_;
  const RowLearner* fitted_by_ = nullptr;            // null: the run's own
  std::optional<double> threshold_;                  // metrics::predicted_class
  std::shared_ptr<const store::RowModel> on_folds_;  // the best of the comparison, fitted without the first fold
  std::shared_ptr<const store::RowModel> model_;
  train::Result so_far_;
};

// A run of a learner of rows, with all that is settled before it begins.
struct RowRun : train::Prepared {
  RowRun(const RowLearner& l, const train::Config& c, train::PrepareOptions options) : learner(l), fitting(*this) {
    const auto flag_is_given = options.flag_is_given;
    const data::Source data = std::move(options.source);
    begin(*this, named(c), std::move(options));
    FREIGHT_CHECK(!ranks || ranks->first(), "ranks behind the first follow it: they prepare no run of rows");
    if (ranks) work = std::make_unique<RankWork>(*ranks);
    refuse_other_flags(config, data, learner, flag_is_given);
    settle_ranking(config, learner);
    if (start.checkpoint) {
      fail(ErrorKind::usage, "--resume", "--model ", learner.name(),
           " is fitted at once and cannot resume: ", "without --resume it is fitted from scratch (--overwrite)");
    }
    data::BadSamples bad;
    if (config.on_bad_sample != "error") {
      bad = {.on_bad = data::OnBad::skip, .report = [this](const data::BadSample& b) { left_out.add(b); }};
    }
    const std::vector<std::string> flags = learner.flags();
    const bool counts = config.task == "counts" && config.objective == train::Config().objective;
    if (counts && std::find(flags.begin(), flags.end(), "--objective") != flags.end()) config.objective = "poisson";
    choose_rate(!flag_is_given, data);
    data.need();
    const bool whole = joins_held_out(data);
    if (whole) config.val_split = 0;  // so that `eval` cannot measure the model on rows it was fitted to
    RowSource source = row_source(config, data);
    source.test = config.test;
    source.whole = whole;
    source.bad = std::move(bad);
    source.several = ranks != nullptr;
    source.folder = learner.folder_for(config, source);
    rows = learner.read(source);
    rows.together = work.get();
    if (whole) rows.held_out = rows.own_test;
    class_names = rows.shape.classes;
    fingerprint = rows.fingerprint;
    metric = train::metric_for(config, rows.shape.classes.size());
    check_threshold();
    told_cost = learner.cost(config, rows);
    plan_comparison();
    if (config.metric == "auto" && !compares && rows.shape.classes.size() == 2) {
      train::Config by_rank = config;  // AUC is expected for two classes; log loss and accuracy are shown anyway
      by_rank.metric = "auc";
      metric = train::metric_for(by_rank, 2);
    }
  }

  // If a program starts from a recipe and then sets `model`, the recipe's rate, which is for a network, is replaced.
  void choose_rate(bool by_program, const data::Source& source) {
    const std::vector<std::string> flags = learner.flags();
    if (by_program && config.lr != train::kAutomaticRate &&
        std::find(flags.begin(), flags.end(), "--lr") != flags.end()) {
      try {
        if (config.lr == train::recipe(source, config.recipe).lr) {
          notes.push_back(cat("the learning rate ", config.lr, " belongs to the recipe, for networks: ", learner.name(),
                              " uses its own"));
          config.lr = train::kAutomaticRate;
        }
      } catch (const Error&) {  // data without a recipe
      }
    }
    if (config.lr != train::kAutomaticRate) return;
    train::Config own;
    learner.choose(own);
    config.lr = own.lr;
  }

  // Where learners or settings are compared on folds and the test part is another file, no row needs to be held out.
  bool joins_held_out(const data::Source& data) const {
    const bool compared_on_folds = learner.chooses() || config.folds > 0 || config.tune > 0;
    return compared_on_folds && (!config.test.empty() || !data.table().test.empty());
  }

  void check_threshold() const {
    const bool asked = config.threshold > 0 || !config.threshold_rule.empty();
    if (asked && rows.shape.classes.size() != 2) {
      fail(ErrorKind::usage, "--threshold", "is for two classes: column ", rows.target, " contains ",
           rows.shape.classes.empty() ? std::string("values") : cat(rows.shape.classes.size(), " classes"));
    }
  }

  // Settles what is compared, before anything is written.
  void plan_comparison() {
    comparison.whole = learner.candidates(config, rows, comparison.left_out);
    const bool choice = !comparison.whole.empty();
    if (!choice) comparison.whole = {{.learner = &learner, .config = config}};
    std::vector<Candidate> tuned;  // those that have settings to try, in turn: of each learner its usual settings
    for (const Candidate& c : comparison.whole) {
      const bool again =
          std::any_of(tuned.begin(), tuned.end(), [&](const Candidate& t) { return t.learner == c.learner; });
      if (!again && c.learner->trial(c.config, 0)) tuned.push_back(c);
    }
    if (config.tune > 0 && tuned.empty()) {
      fail(ErrorKind::usage, "--tune", "tries settings of gbdt and forest: --model ", learner.name(),
           choice ? " has neither here" : " has none to try");
    }
    for (int64_t i = 0; i < config.tune; ++i) {
      const auto among = static_cast<int64_t>(tuned.size());
      const Candidate& c = tuned[static_cast<size_t>(i % among)];
      comparison.trials.push_back(*c.learner->trial(c.config, i / among));
    }
    compares = choice || config.tune > 0 || config.folds > 0;
    excludes({"--split-by", !config.split_by.empty()},
             {choice             ? "--model auto"
              : config.folds > 0 ? "--folds"
                                 : "--tune",
              compares},
             "it validates on the last rows, and these split at random");
    requires_flag({"--time-budget", !config.time_budget.empty()}, {"--model auto, --tune or --folds", compares},
                  "it is for comparing");
    if (!compares) return;
    comparison.metric = metric;
    comparison.folds = config.folds > 0 ? config.folds : std::min(kUsualFolds, rows.train.count());
    comparison.seed = static_cast<uint64_t>(config.seed);
    if (!config.time_budget.empty()) {
      comparison.seconds = parse_seconds("--time-budget", config.time_budget);
    } else if (choice || config.tune > 0) {
      comparison.seconds = kUsualBudget;
    }
    told_cost.bytes += rows.train.values.bytes();  // a fold's rows are a copy
    note_small_classes();
    if (!config.split_by.empty()) {
      notes.push_back(cat("folds are random, not by ", config.split_by,
                          ": models are fitted on rows that are later than some of the rows they are evaluated on"));
    }
  }

  void note_small_classes() {
    if (!rows.train.classification()) return;
    std::vector<int64_t> counts(rows.shape.classes.size());
    for (int64_t i = 0; i < rows.train.count(); ++i) {
      ++counts[static_cast<size_t>(rows.train.labels.data<int64_t>()[i])];
    }
    const auto least = std::min_element(counts.begin(), counts.end());
    if (*least >= comparison.folds) return;
    notes.push_back(cat("class ", rows.shape.classes[static_cast<size_t>(least - counts.begin())], " has ", *least,
                        " training rows, fewer than the ", comparison.folds, " folds: some folds do not report it"));
  }

  train::RunSummary summary() const override {
    train::RunSummary s = train::common_summary(*this);
    s.model = learner.name();
    s.device = learner.runs_on(config.backend) ? config.backend : cpu_info().model;
    s.train_count = rows.train.count();
    s.test_count = measured().count();
    s.warnings.insert(s.warnings.end(), rows.warnings.begin(), rows.warnings.end());
    s.classes = static_cast<int64_t>(rows.shape.classes.size());
    s.unit = "row";
    s.measured = measured_part();
    s.held_out = own_test() ? kValidationPart : s.measured;
    s.ranks = rows.train.ranked;
    if (std::filesystem::is_regular_file(config.data)) s.example = shell_word(config.data);
    s.batch_size = rows.train.count();
    s.epochs = s.steps = 1;
    s.planned_bytes = static_cast<size_t>(told_cost.bytes);
    s.notes.insert(s.notes.begin(), rows.notes.begin(), rows.notes.end());
    if (rows.held_out.count() == 0 && learner.reads_held_out(config) && !compares) {
      const auto trees = learner.tree_work(config, rows);
      s.notes.push_back(cat("there is no validation set for early stopping",
                            trees ? cat(": all ", trees->rounds, " rounds are fitted (--rounds)") : std::string()));
    }
    if (ranks) {
      s.devices = ranks->world();
      s.notes.push_back(cat(s.devices, " devices fit trees together, each on its shard of the rows",
                            learner.chooses() ? "; other models are fitted by the first" : ""));
    }
    return s;
  }
  train::Cost cost() const override { return told_cost; }
  std::string description() const override {
    nlohmann::ordered_json j = {{"learner", learner.name()}, {"target", rows.target}, {"columns", {}}};
    for (const store::Column& c : rows.shape.columns) {
      j["columns"].push_back({{"name", c.name}, {"kind", c.words ? "categories" : "numbers"}});
    }
    for (const store::IgnoredColumn& s : rows.shape.ignored_columns) {
      j["ignored_columns"].push_back({{"name", s.name}, {"kind", s.kind}});
    }
    return j.dump(2);
  }
  store::Bundle bundle(const train::RunPosition& place) const override {
    store::Bundle b;
    b.classes = class_names;
    b.provenance = train::provenance(config, fingerprint, place.step, place.test, measured_part());
    b.provenance["target"] = rows.target;
    if (!own_test()) b.provenance["held_out"] = measured_part();
    if (judged()) metrics::write_metric(metric, b.provenance);
    if (!config.test.empty()) b.provenance["test_data"] = train::base_name(config.test);
    if (!config.columns.empty()) b.provenance["columns"] = config.columns;
    if (config.header != train::Config().header) b.provenance["header"] = config.header;
    if (!config.split_by.empty()) b.provenance["split_by"] = config.split_by;
    b.learner = fitting.fitted_by().name();
    b.threshold = fitting.threshold();
    b.columns = rows.shape.columns;
    b.ignored_columns = rows.shape.ignored_columns;
    b.rows = fitting.model();
    b.samples = store::sampled(*b.rows, b.columns, rows.train.values);
    return b;
  }
  std::string pass() const override { return fitting.fitted_by().pass(); }
  std::string compute() const override { return fitting.fitted_by().compute(); }
  std::string metric_name() const override { return judged() ? metric.name : std::string(); }
  // True if there is a metric besides the loss. Accuracy suffices for more than two classes, without a request.
  bool judged() const { return config.metric != "auto" || compares || rows.shape.classes.size() <= 2; }

  void train(train::RunRecorder& to, train::Observer& observer) override {
    fitting.train(to, observer);
    if (work) work->finish(result().ended == train::Ended::by_signal);
  }
  const train::Result& result() const override { return fitting.so_far(); }

  // The rows on which the run's figures are measured.
  const store::Rows& measured() const { return own_test() ? rows.own_test : rows.held_out; }
  bool own_test() const { return rows.own_test.values.defined(); }
  // True if a threshold is chosen, on rows that no model was fitted to: those of the folds, or the held-out ones.
  bool chooses_threshold() const {
    if (rows.shape.classes.size() != 2 || config.threshold > 0) return false;
    return !config.threshold_rule.empty() || (judged() && metrics::has_best_threshold(metric));
  }
  // "val" if the held-out rows decide when the fit ends or which threshold is best: only rows that nothing has used are
  // a test set.
  std::string measured_part() const {
    const bool used = !compares && (learner.reads_held_out(config) || chooses_threshold());
    return used && !own_test() && rows.held_out.count() > 0 ? kValidationPart : "test";
  }
  // The configuration, with the learner's name if it names no model.
  train::Config named(train::Config c) const {
    if (!c.model.empty()) return c;
    c.model = learner.name();
    return c;
  }

  const RowLearner& learner;
  std::unique_ptr<RankWork> work;  // null unless several ranks fit
  RowData rows;
  train::Cost told_cost;
  metrics::Metric metric;
  bool compares = false;
  SelectionRequest comparison;  // filled in if `compares`
  RowFit fitting;
};

const RowLearner& RowFit::fitted_by() const { return fitted_by_ ? *fitted_by_ : run_.learner; }

// The figures of predictions to held-out rows.
train::Evaluation RowFit::figures_of(const Array& predictions, const store::Rows& of) const {
  train::Evaluation e = evaluate(predictions, of, threshold_);
  if (run_.judged()) e.metric = metrics::score_of(run_.metric, predictions, of.truth(), threshold_);
  return e;
}

// The best of the compared candidates.
Candidate RowFit::compared(train::RunRecorder& to, train::Observer& observer) {
  SelectionRequest comparison = run_.comparison;
  const double budget = comparison.seconds;
  if (budget > 0) comparison.seconds = std::max(budget - seconds_since(run_.began), 1e-9);
  comparison.goes_on = [&](const std::string& what) {
    if (observer.on_comparison(what).stop) so_far_.ended = train::Ended::by_observer;
    if (signals::stop_requested()) so_far_.ended = train::Ended::by_signal;
    return !so_far_.interrupted();
  };
  Selected s = select(run_.rows, comparison);
  so_far_.comparison = {
      .best = s.board.best(), .pass = s.board.pass, .lines = lines_of(s.board), .json = to_json(s.board)};
  for (const std::string& line : so_far_.comparison->lines) to.note(line);
  observer.on_compared(*so_far_.comparison);
  fitted_by_ = s.candidate.learner;
  choose_threshold(s.predictions, s.truth);
  on_folds_ = s.models.front();
  // A fit that the budget cut short on a fold may need more than the time left: it gets at least 1.5 times a fold's.
  constexpr double kLongerOnAllRows = 1.5;
  const double on_fold = s.board.standings.front().fit_seconds;
  if (budget > 0) {
    s.candidate.config.fit_seconds = std::max(budget - seconds_since(run_.began), kLongerOnAllRows * on_fold);
  }
  return s.candidate;
}

// Chooses the threshold by predictions for rows that the model was not fitted to.
void RowFit::choose_threshold(const Array& predictions, const metrics::Truth& truth) {
  if (run_.rows.shape.classes.size() != 2 || threshold_) return;
  if (run_.config.threshold > 0) {
    threshold_ = run_.config.threshold;
  } else if (run_.chooses_threshold() && truth.labels.shape()[0] > 0) {
    threshold_ = metrics::chosen_threshold(run_.config.threshold_rule, run_.metric, predictions, truth);
  }
}

void RowFit::train(train::RunRecorder& to, train::Observer& observer) {
  Candidate chosen{.learner = &run_.learner, .config = run_.config};
  if (run_.compares) chosen = compared(to, observer);
  if (!so_far_.interrupted()) fit(chosen, to, observer);
  if (run_.compares && so_far_.interrupted()) model_ = on_folds_;  // a whole fit, on most of the rows
  train::RunPosition place;
  place.step = so_far_.steps;
  const Array predictions = predictions_for(run_.rows.held_out);
  choose_threshold(predictions, run_.rows.held_out.truth());
  const store::Rows& measured = run_.measured();
  so_far_.measured = run_.measured_part();
  if (measured.count() > 0) {
    so_far_.test = figures_of(run_.own_test() ? predictions_for(measured) : predictions, measured);
  }
  place.test = so_far_.test;
  so_far_.metric_name = run_.metric_name();
  so_far_.step_seconds = so_far_.train_seconds / static_cast<double>(std::max<int64_t>(so_far_.steps, 1));
  if (so_far_.train_seconds > 0) {
    so_far_.samples_per_second = static_cast<double>(run_.rows.train.count() * so_far_.steps) / so_far_.train_seconds;
  }
  so_far_.parameters = model_->parameters();
  so_far_.output_dir = run_.config.output_dir;
  so_far_.model_path = to.store_model(place);
  so_far_.bad_samples = run_.left_out.samples();
  so_far_.total_seconds = seconds_since(run_.began);
}

Array RowFit::predictions_for(const store::Rows& rows) const {
  return rows.count() > 0 ? store::run(*model_, rows.values) : Array(DType::f32, {0, model_->outputs()});
}

void RowFit::fit(const Candidate& chosen, train::RunRecorder& to, train::Observer& observer) {
  train::RunPosition place;
  RowData part;  // after a comparison the test part decides nothing
  const bool apart = run_.compares && chosen.learner->reads_held_out(chosen.config) && run_.rows.train.count() > 1;
  if (apart) part = with_tenth_out(run_.rows, static_cast<uint64_t>(run_.config.seed));
  const auto fit_began = std::chrono::steady_clock::now();
  auto round_began = fit_began;
  const double samples = static_cast<double>(run_.rows.train.count());
  train::EpochReport last;
  model_ = chosen.learner->fit(chosen.config, apart ? part : run_.rows, [&](const Round& round) {
    const double seconds = seconds_since(round_began);
    place.train_seconds += seconds;
    place.step = round.number;
    last = {.train = {.epoch = round.number,
                      .epochs = round.of.value_or(0),
                      .step = 1,
                      .steps = 1,
                      .total_step = round.number,
                      .loss = round.loss,
                      .mean_loss = round.loss,
                      .samples_per_s = samples / std::max(seconds, 1e-9)},
            .test = round.test,
            .best = false,
            .seconds = seconds};
    if (!last.test && run_.rows.held_out.count() > 0) {
      last.test = figures_of(store::run(*round.model, run_.rows.held_out.values), run_.rows.held_out);
    }
    last.best = round.best ? *round.best : last.test && place.improves(usual_score(*last.test));
    to.trained(last.train, 1, last.seconds);
    if (last.test) to.tested(last.train, *last.test);
    to.epoch(last);
    observer.on_epoch(last);
    const bool asked = observer.wants_step() && observer.on_step(last.train).stop;
    const bool more = !round.of || round.number < *round.of;
    if (more && asked) so_far_.ended = train::Ended::by_observer;
    if (more && signals::stop_requested()) so_far_.ended = train::Ended::by_signal;
    round_began = std::chrono::steady_clock::now();
    const bool late = chosen.config.fit_seconds > 0 && seconds_since(fit_began) > chosen.config.fit_seconds;
    return !so_far_.interrupted() && !late;
  });
  so_far_.train_loss = last.train.loss;
  so_far_.steps = so_far_.epochs = place.step;
  so_far_.train_seconds = place.train_seconds;
}

}  // namespace

train::Evaluation evaluate(const store::RowModel& model, const store::Rows& rows, std::optional<double> threshold) {
  const auto start = std::chrono::steady_clock::now();
  train::Evaluation e = evaluate(store::run(model, rows.values), rows, threshold);
  e.seconds = seconds_since(start);
  return e;
}

namespace {
double ranking_loss(const Array& predictions, const store::Rows& rows) {
  const float* const y = predictions.data<float>();
  if (!std::all_of(y, y + predictions.numel(), [](float v) { return std::isfinite(v); })) return std::nan("");
  return 1 - metrics::score_of({.name = "ndcg", .higher = true}, predictions, rows.truth()).value_or(1);
}
}  // namespace

train::Evaluation evaluate(const Array& predictions, const store::Rows& rows, std::optional<double> threshold) {
  const int64_t n = rows.count(), k = predictions.shape()[1];
  train::Evaluation e{.count = n};
  double right = 0, all = 0;
  for (int64_t i = 0; i < n && !rows.ranked; ++i) {
    const float* y = predictions.data<float>() + i * k;
    const double weight = rows.weight(i);
    all += weight;
    if (rows.classification()) {
      const int64_t label = rows.labels.data<int64_t>()[i];
      if (metrics::predicted_class(y, k, threshold) == label) right += weight;
      e.loss -= weight * std::log(static_cast<double>(std::max(y[label], std::numeric_limits<float>::min())));
    } else {
      const double error = static_cast<double>(y[0]) - static_cast<double>(rows.labels.data<float>()[i]);
      e.loss += weight * error * error;
    }
  }
  if (all == 0) all = 1;  // no rows
  e.loss = rows.ranked ? ranking_loss(predictions, rows) : e.loss / all;
  if (!std::isfinite(e.loss)) {
    fail(ErrorKind::diverged, "evaluate", "the model's predictions for ", n,
         " rows are NaN or infinite: there is no metric");
  }
  if (rows.classification()) e.top1 = 100.0 * right / all;
  return e;
}

std::unique_ptr<train::Prepared> RowLearner::prepare(const train::Config& config, train::PrepareOptions options) const {
  return std::make_unique<RowRun>(*this, config, std::move(options));
}

namespace {
// The column by which training weighed rows; "" where there was none.
std::string weight_column_of(const store::RowShape& shape) {
  for (const store::IgnoredColumn& column : shape.ignored_columns) {
    if (column.kind == store::kWeightColumn) return column.name;
  }
  return {};
}
}  // namespace

train::MeasuredRows RowLearner::rows_to_measure(const store::Bundle& bundle, const std::string& path,
                                                const train::MeasureRequest& request) const {
  const train::TrainedOn on = train::trained_on(bundle, path);
  train::MeasuredRows out{.rows = {}, .data = train::data_to_measure(request.data, on, path), .note = {}};

  const store::RowShape shape{bundle.columns, bundle.classes, bundle.ignored_columns};
  const auto said = [&](const char* key) {
    const auto at = bundle.provenance.find(key);
    return at == bundle.provenance.end() ? std::string() : at->second;
  };
  const std::string groups = request.group_column.value_or(said("group_column"));
  if (bundle.rows->is_ranking() && groups.empty()) {
    fail(ErrorKind::usage, "--group-column", "is missing, and ", path,
         " does not have it: rows of a ranking are evaluated within those with the same value in this column");
  }
  // A separate test set is evaluated in full, unless another dataset or the held-out rows are requested.
  const bool asked = request.val_split || request.seed;  // for a division of its own
  const bool file_of_its_own = request.data.empty() && !on.test.empty() && request.split == "test";
  if (file_of_its_own) out.data = on.test;
  const data::Source found(out.data, {.data_dir = request.data_dir});
  found.need();
  const bool part_of_set = !file_of_its_own && !asked && request.split == "test" && !found.table().test.empty();
  const bool own_test = file_of_its_own || part_of_set;
  const RowSource source{.data = found,
                         .target = request.target.value_or(on.target),
                         .columns = said("columns"),
                         .header = said("header"),
                         .weight_column = weight_column_of(shape),
                         .group_column = groups,
                         .split_by = said("split_by"),
                         .val_split = request.val_split.value_or(on.load.text.val_split),
                         .seed = request.seed ? static_cast<uint64_t>(*request.seed) : on.load.text.split_seed,
                         .bad = train::bad_samples(request, on),
                         .whole = own_test,
                         .test_part = part_of_set,
                         .ranking = bundle.rows->is_ranking(),
                         .known = &shape};
  RowData data = read(source);
  if (!source.weight_column.empty() && !data.train.weights) {
    out.note = cat("rows are not weighted: ", out.data, " has no column ", source.weight_column,
                   ", by which training weighed them");
  }
  if (own_test) {
    out.rows = std::move(data.train);
    return out;
  }
  const bool trained_here = cat(data.fingerprint) == on.fingerprint;
  // Other data than that of training is measured whole: none of it was seen.
  out.rows = request.split == "train" ? data.train : data.held_out;
  if (!trained_here && !asked && request.split != "train") {
    out.rows = joined(data.train, data.held_out);
    out.part = "all";
    out.note = cat(out.note, out.note.empty() ? "" : "; ", "all ", out.rows.count(), " rows of ", out.data,
                   " are evaluated: the model was trained on other data");
  }
  if (request.split == "test" && trained_here && said("held_out") == kValidationPart) out.part = kValidationPart;
  if (out.rows.count() == 0) {
    const bool none_left = trained_here && source.val_split == 0 && request.split != "train";
    fail(ErrorKind::usage, "--split", "no row of ", out.data,
         none_left ? std::string(" was left for validation (--val-split 0): --data names other rows, and --split train "
                                 "measures those of training")
                   : cat(" is in the split ", request.split, ": another --split has them all"));
  }
  return out;
}

train::Measurement RowLearner::measure(store::Bundle bundle, const std::string& path,
                                       const train::MeasureRequest& request) const {
  for (const auto& [flag, given] : {std::pair{"--tta", request.tta.value_or("none") != "none"},
                                    {"--text-column", request.text_column.has_value()},
                                    {"--label-column", request.label_column.has_value()}}) {
    if (given) refuse_flag_of(flag, "networks", cat(path, " reads rows of columns; --target names the target column"));
  }
  if (request.device != "auto" && request.device != "cpu") {
    refuse_value("--device", request.device, cat("a model of ", bundle.learner, " runs on the CPU"));
  }
  const train::MeasuredRows measured = rows_to_measure(bundle, path, request);
  if (!measured.note.empty()) request.note(measured.note);
  store::ColumnGaps gaps;
  gaps.add(bundle.columns, measured.rows.values.array());
  if (request.warn) {
    for (const std::string& gap : gaps.warnings(bundle.columns)) request.warn(gap);
  }
  const auto start = std::chrono::steady_clock::now();
  const Array predictions = store::run(*bundle.rows, measured.rows.values);
  train::Measurement out{.figures = evaluate(predictions, measured.rows, bundle.threshold),
                         .scores = {},
                         .data = measured.data,
                         .unit = "rows",
                         .part = measured.part};
  out.figures.seconds = seconds_since(start);
  const metrics::Metric own = metrics::read_metric(bundle.provenance).value_or(metrics::Metric());
  const metrics::ScoreOptions options{.thresholds = bundle.threshold, .first = own};
  const metrics::Truth truth = measured.rows.truth();
  out.scores = metrics::scores_of(predictions, truth, options);
  for (const std::string& note : metrics::notes_on_scores(predictions, truth, options)) request.note(note);
  return out;
}

}  // namespace freight::tables
