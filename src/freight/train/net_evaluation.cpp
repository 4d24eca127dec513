// The evaluation settings of a network's run: metric, early stopping and class weights as its configuration requests,
// and the decisions by the validation set at the end, temperature and threshold.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "freight/base/error.h"
#include "freight/base/listing.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/metrics/decision.h"
#include "freight/models/loss.h"
#include "freight/train/metric.h"
#include "freight/train/net_evaluation_internal.h"

namespace freight::train {

namespace {

// The number of classes that the network predicts; 0 where it predicts none, or has an objective of its own.
size_t told_classes(const models::Model& model) {
  const bool classifies = models::has_accuracy(model) && !model.own.loss && !model.language_model();
  return classifies ? static_cast<size_t>(model.classes()) : 0;
}

bool has_labels(const models::Model& model) { return model.loss == models::Loss::multilabel && !model.own.loss; }

bool chooses_threshold(const NetRun& p) {
  const bool labels = has_labels(p.net->model);
  if ((told_classes(p.net->model) != 2 && !labels) || p.config.threshold > 0) return false;
  if (!p.config.threshold_rule.empty()) return true;
  // The mean of f1 over the labels is best where each is; the other metrics of labels depend on all together.
  return p.metric && (labels ? p.metric->name == "macro_f1" : metrics::has_best_threshold(*p.metric));
}

// Throws Error(data) where the classes of the validation set do not allow the metric, before anything is trained.
void need_defined(const metrics::Metric& metric, const ClassCounts& held_out, int64_t outputs) {
  std::vector<int64_t> labels;  // one sample of each class that there is
  std::vector<std::string> there;
  for (size_t c = 0; c < held_out.counts.size(); ++c) {
    if (held_out.counts[c] == 0) continue;
    labels.push_back(static_cast<int64_t>(c));
    there.push_back(held_out.names[c]);
  }
  const auto n = static_cast<int64_t>(labels.size());
  if (n == 0) return;
  Array even(DType::f32, {n, outputs});
  std::fill_n(even.data<float>(), even.numel(), 1 / static_cast<float>(outputs));
  if (metrics::score_of(metric, even, Array::of<int64_t>(labels, {n}))) return;
  fail(ErrorKind::data, "--metric", metric.name, " is not defined: all validation samples are of class ", there.front(),
       "; another --seed or a larger --val-split may hold out others, or --metric log_loss");
}

void settle_metric(NetRun& p) {
  const Config& c = p.config;
  if (c.metric == Config().metric || c.metric == kByLoss) return;
  const models::Model& model = p.net->model;
  const auto refuse = [&](const std::string& why) { refuse_value("--metric", c.metric, why); };
  if (c.metric == kByOwnMetric) {
    if (!model.own.reports()) refuse("the network has no metric of its own (Objective::metric)");
    return;
  }
  // Counted in each evaluation: other metrics need probabilities, which a loss of the program's own may not have.
  if (c.metric == "accuracy" && model.own.loss && models::has_accuracy(model)) return;
  if (model.own.loss || model.own.metric) {
    refuse("the loss is a function of the program: expected accuracy, for classes, or a function as the metric, too");
  }
  if (model.language_model()) refuse("a language model has its loss and perplexity");
  p.metric = metric_for(c, told_classes(model));
  need_defined(*p.metric, p.task->test_classes(), model.classes());
}

void settle_class_weights(NetRun& p) {
  const Config& c = p.config;
  if (c.class_weight == Config().class_weight) return;
  const ClassCounts classes = p.task->train_classes();
  if (classes.names.empty() || told_classes(p.net->model) == 0) {
    fail(ErrorKind::usage, "--class-weight", "is for samples with a class each: ", c.data,
         p.net->model.own.loss ? " is trained with a loss of the program's own" : " has none");
  }
  const std::vector<double> weights = scaled_class_weights(c.class_weight, classes);
  Array by_output(DType::f32, {p.net->model.classes()});
  std::fill_n(by_output.data<float>(), by_output.numel(), 1.0f);  // outputs without a class have no samples
  std::vector<std::string> texts;
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < weights.size(); ++i) {
    by_output.data<float>()[i] = static_cast<float>(weights[i]);
    if (i < kShown) texts.push_back(cat(classes.names[i], " ", fixed(weights[i], 3)));
  }
  if (weights.size() > kShown) texts.emplace_back("...");
  p.net->class_weights = by_output;
  p.notes.push_back(cat("class weights: ", join(texts, ", ")));
}

// Figures of a class with one validation sample or none say nothing.
void warn_of_rare_classes(NetRun& p) {
  if (p.task->test_count() == 0) return;
  const ClassCounts held_out = p.task->test_classes();
  for (const auto& [count, what] : {std::pair{0.0, "no sample"}, {1.0, "one sample"}}) {
    std::vector<std::string> rare;
    for (size_t i = 0; i < held_out.names.size(); ++i) {
      if (held_out.counts[i] == count) rare.push_back(held_out.names[i]);
    }
    if (rare.empty()) continue;
    const bool one = rare.size() == 1;
    p.start.warnings.push_back(cat("the validation set has ", what, " of ", one ? "class " : "classes ",
                                   join_first(rare, 5), ": figures that depend on ", one ? "it" : "them",
                                   " say little"));
  }
}

void settle_threshold(NetRun& p) {
  const Config& c = p.config;
  const bool asked = c.threshold > 0 || !c.threshold_rule.empty(), labels = has_labels(p.net->model);
  if (const size_t classes = told_classes(p.net->model); asked && classes != 2 && !labels) {
    fail(ErrorKind::usage, "--threshold", "is for two classes, or several labels per sample: ", c.data, " has ",
         classes == 0 ? std::string("no class per sample") : cat(classes, " classes"));
  }
  if (c.threshold == 0) return;
  if (labels) {
    p.thresholds.labels.assign(static_cast<size_t>(p.net->model.classes()), c.threshold);
  } else {
    p.thresholds.second = c.threshold;
  }
}

void settle_calibration(const NetRun& p) {
  if (p.config.calibration == Config().calibration) return;
  const models::Model& model = p.net->model;
  const bool softmax = model.loss == models::Loss::cross_entropy || model.loss == models::Loss::focal;
  if (told_classes(model) > 0 && softmax) return;
  fail(ErrorKind::usage, "--calibration", "temperature is for networks with a loss of cross_entropy or focal: got ",
       model.own.loss           ? std::string("a loss of the program's own")
       : model.language_model() ? std::string("a language model")
                                : models::to_string(model.loss));
}

}  // namespace

void settle_evaluation(NetRun& p) {
  const Config& c = p.config;
  settle_metric(p);
  settle_class_weights(p);
  settle_threshold(p);
  settle_calibration(p);
  const bool plateau = c.lr_scheduler == "plateau";
  for (const auto& [flag, given] : {std::pair{"--early-stop", c.early_stop > 0},
                                    {"--lr-scheduler plateau", plateau},
                                    {"--metric loss", c.metric == kByLoss},
                                    {"--metric own", c.metric == kByOwnMetric},
                                    {"--metric", p.metric.has_value()},
                                    {"--threshold", !c.threshold_rule.empty()},
                                    {"--calibration", c.calibration != Config().calibration}}) {
    if (given && p.task->test_count() == 0) {
      fail(ErrorKind::usage, flag, "needs a validation set: ", c.data, " has none");
    }
  }
  requires_flag({"--min-improvement", c.min_improvement > 0},
                {"--early-stop N or --lr-scheduler plateau", c.early_stop > 0 || plateau},
                "it is the minimum improvement that counts for them");
  if (p.stores_best() && !p.recorded) {
    fail(ErrorKind::usage, c.early_stop > 0 ? "--early-stop" : "--metric",
         "stores the weights of the best epoch, and this run writes nothing (PrepareOptions::recorded)");
  }
  if (p.metric || p.thresholds.any() || !c.threshold_rule.empty() || c.class_weight != Config().class_weight) {
    warn_of_rare_classes(p);
  }
  const bool predictions = p.keeps_predictions || p.metric || p.thresholds.any() || chooses_threshold(p) ||
                           c.calibration != Config().calibration;
  if (predictions) p.net->keep = Evaluator::Keep::predictions;
}

double NetRun::score(const Evaluation& e) const {
  if (metric)
    return e.metric && std::isfinite(*e.metric) ? (metric->higher ? *e.metric : -*e.metric)
                                                : -std::numeric_limits<double>::infinity();
  return judged_by_loss() ? -e.loss : usual_score(e, net->model.own.higher_is_better);
}

bool NetRun::judged_by_loss() const {
  if (config.metric == kByLoss) return true;
  const bool usual = config.metric == Config().metric && !net->model.own.reports();
  return usual && (config.early_stop > 0 || config.lr_scheduler == "plateau");
}

std::string NetRun::judged_by() const {
  if (metric) return metric->name;
  if (judged_by_loss()) return "loss";
  const models::Objective& own = net->model.own;
  if (own.reports()) return own.metric_name;
  return models::has_accuracy(net->model) ? "top1" : "loss";
}

void NetRun::add_figures(Evaluation& e, const Predictions& predictions) const {
  if (predictions.count() == 0) return;
  if (metric) {
    e.metric = metrics::score_of(*metric, predictions.outputs, predictions.targets, thresholds)
                   .value_or(std::numeric_limits<double>::quiet_NaN());
  }
  if (thresholds.second) {
    const metrics::Metric accuracy{.name = "accuracy", .higher = true};
    e.top1 = 100 * metrics::score_of(accuracy, predictions.outputs, predictions.targets, thresholds).value_or(0);
  }
}

std::string NetRun::best_model(int64_t step) const {
  std::vector<std::string> runs = {config.output_dir};
  if (start.checkpoint) runs.push_back(run_of(*start.checkpoint));
  for (const std::string& run : runs) {
    std::string path = cat(run, "/checkpoints/step-", step, "/model.safetensors");
    if (std::filesystem::exists(path)) return path;
  }
  return {};
}

bool NetRun::decides() const { return config.calibration != Config().calibration || chooses_threshold(*this); }

bool NetRun::decide(const Measure& measure, Evaluation& test, std::vector<std::string>& said) {
  const auto evaluated = [&](Evaluator& evaluator) {
    const std::optional<Evaluation> e = measure(evaluator);
    if (!e) return false;
    test = *e;
    stored_predictions = evaluator.predictions();
    return true;
  };
  Evaluator* evaluator = net->evaluation.evaluator.get();
  std::unique_ptr<Evaluator> scaled;  // at the temperature
  if (!evaluated(*evaluator)) return false;
  if (config.calibration != Config().calibration) {
    net->model.temperature = metrics::best_temperature(stored_predictions.outputs, stored_predictions.targets);
    if (net->model.temperature == 1) {
      said.emplace_back("temperature 1: every validation sample is predicted correctly, so none is the best");
    } else {
      const double before = test.loss;
      scaled = net->make_evaluator();
      evaluator = scaled.get();
      if (!evaluated(*evaluator)) return false;
      said.push_back(cat("temperature ", fixed(net->model.temperature, 4), ": validation loss ", fixed(before, 4),
                         " becomes ", fixed(test.loss, 4)));
    }
  }
  if (!chooses_threshold(*this)) return true;
  const double before = test.metric.value_or(0);
  choose_thresholds(said);
  add_figures(test, stored_predictions);
  if (metric && thresholds.any() && *test.metric != before) {
    said.push_back(cat("validation ", metric->name, " ", fixed(before, 4), " becomes ", fixed(*test.metric, 4),
                       " by the threshold"));
  }
  return true;
}

std::vector<metrics::Score> NetRun::scores() const {
  if (stored_predictions.count() == 0) return {};
  const Type targets{stored_predictions.targets.dtype(), stored_predictions.targets.shape()};
  const bool classes = targets.dtype == DType::i64 && targets.shape.rank() == 1;
  if (!classes && targets.dtype != DType::f32 && targets.dtype != DType::u8) return {};
  constexpr int64_t kDraws = 400, kFewest = 100, kMostDrawn = 8'000'000;
  const int64_t draws = std::clamp<int64_t>(kMostDrawn / stored_predictions.count(), kFewest, kDraws);
  return metrics::scores_of(
      stored_predictions.outputs, stored_predictions.targets,
      {.thresholds = thresholds, .first = metric.value_or(metrics::Metric()), .draws = static_cast<int>(draws)});
}

void NetRun::choose_thresholds(std::vector<std::string>& said) {
  const std::string by =
      cat(", by ", config.threshold_rule.empty() ? metric->name : config.threshold_rule, " on the validation set");
  if (has_labels(net->model)) {
    std::vector<metrics::UnmetLabel> unmet;
    thresholds.labels =
        metrics::label_thresholds(config.threshold_rule, stored_predictions.outputs, stored_predictions.targets, unmet);
    std::vector<std::string> all;
    for (size_t c = 0; c < thresholds.labels.size(); ++c) {
      all.push_back(cat(class_names.at(c), " ", fixed(thresholds.labels[c], 4)));
    }
    constexpr size_t kMost = 8;
    said.push_back(cat("thresholds ", join_first(all, kMost), by));
    for (const metrics::UnmetLabel& label : unmet) {
      said.push_back(cat("warning: label ", class_names.at(static_cast<size_t>(label.label)), ": ", label.why,
                         "; its threshold is 0.5"));
    }
    return;
  }
  try {
    thresholds.second = metrics::chosen_threshold(config.threshold_rule, metric.value_or(metrics::Metric()),
                                                  stored_predictions.outputs, stored_predictions.targets);
    said.push_back(cat("threshold ", fixed(*thresholds.second, 4), " for class ", class_names.at(1), by));
  } catch (const Error& e) {  // a network that took hours is stored all the same
    if (e.kind() != ErrorKind::data) throw;
    said.push_back(cat("warning: ", e.what(), "; the model is saved without a threshold"));
  }
}

}  // namespace freight::train
