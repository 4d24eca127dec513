// The settings of a fit of trees: converts flags of the command to parameters of XGBoost.
#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/tables/xgboost_learner.h"

namespace freight::tables {

namespace {

constexpr int64_t kRounds = 1000, kEarlyStop = 20, kTreesOfForest = 100;
constexpr int64_t kLevels = 6, kLevelsOfForest = 12;
constexpr XgboostVersion kQuantiles = {2, 0, 0}, kOwnStart = {2, 0, 0};
// For a column with at most this many categories a split separates one category from the rest; with more it divides
// them into two sets, found by the order of their gradients. On adult the first gave a test AUC of 0.928, the second,
// XGBoost's default from 4 categories on, 0.927.
constexpr int64_t kWordsOneByOne = 50;

std::string name_of_objective(const train::Config& c, const RowData& data) {
  const size_t classes = data.shape.classes.size();
  if (classes > 0) return classes > 2 ? "multi:softprob" : "binary:logistic";
  if (data.train.ranked) return c.objective == "pairwise" ? "rank:pairwise" : "rank:ndcg";
  if (c.objective == "quantile") return "reg:quantileerror";
  if (c.objective == "poisson") return "count:poisson";
  return "reg:" + (c.objective == "auto" ? std::string("squarederror") : c.objective);
}

int64_t levels_of(const train::Config& c, bool forest) {
  if (c.max_depth > 0) return c.max_depth;
  return forest ? kLevelsOfForest : kLevels;
}
int64_t trees_of_forest(const train::Config& c) { return c.trees > 0 ? c.trees : kTreesOfForest; }
int64_t rounds_of(const train::Config& c, bool forest) {
  if (forest) return 1;
  return c.rounds > 0 ? c.rounds : kRounds;
}

// Converts "age=1,hours=-1" to "(0,1,0,-1)".
std::string constraints(const std::string& text, const std::vector<store::Column>& columns) {
  std::vector<std::string> signs(columns.size(), "0"), names;
  for (const store::Column& c : columns) names.push_back(c.name);
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.rfind('=');
    const std::string name = part.substr(0, equals), sign = equals == std::string::npos ? "" : part.substr(equals + 1);
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) refuse_column("--monotone", name, names, "the table (COLUMN=1,COLUMN=-1)");
    const auto place = static_cast<size_t>(at - names.begin());
    if (columns[place].words)
      fail(ErrorKind::usage, "--monotone", "column ", name, " contains categories, which have no order");
    if (sign != "1" && sign != "+1" && sign != "-1" && sign != "0") {
      fail(ErrorKind::usage, "--monotone", "column ", name, ": expected 1 where the prediction increases with it, ",
           "-1 where it decreases, got '", sign, "'");
    }
    signs[place] = sign == "+1" ? "1" : sign;
  }
  return cat("(", join(signs, ","), ")");
}

// The initial prediction of boosting: the mean, or the value with the least loss. XGBoost from 2.0 on finds it itself.
double start_of(const std::string& objective, bool balanced, const store::Rows& rows) {
  const int64_t n = rows.count();
  if (objective == "binary:logistic") {
    if (balanced) return 0.5;
    const auto* label = rows.labels.data<int64_t>();
    double second = 0, all = 0;
    for (int64_t i = 0; i < n; ++i) {
      second += rows.weight(i) * static_cast<double>(label[i]);
      all += rows.weight(i);
    }
    return second / all;
  }
  const auto* label = rows.labels.data<float>();
  if (objective == "reg:absoluteerror") {
    std::vector<std::pair<float, double>> sorted;  // (label, weight)
    double all = 0, below = 0;
    for (int64_t i = 0; i < n; ++i) {
      sorted.emplace_back(label[i], rows.weight(i));
      all += rows.weight(i);
    }
    std::sort(sorted.begin(), sorted.end());
    size_t middle = 0;
    while (middle + 1 < sorted.size() && (below += sorted[middle].second) <= all / 2) ++middle;
    return static_cast<double>(sorted[middle].first);
  }
  double sum = 0, all = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += rows.weight(i) * static_cast<double>(label[i]);
    all += rows.weight(i);
  }
  return sum / all;
}

void check_objective(const train::Config& c, const RowData& data, const Xgboost& library,
                     const std::string& objective) {
  const auto& classes = data.shape.classes;
  if (classes.size() == 1) {
    fail(ErrorKind::data, c.data, "column ", data.target, " contains only the class ", classes[0],
         ": there is nothing to classify");
  }
  const auto only_for = [&](const char* flag, bool given, bool fits, const std::string& what) {
    if (given && !fits) fail(ErrorKind::usage, flag, "is for ", what, ": the objective is ", objective);
  };
  const train::Config usual;
  only_for("--class-weight", c.class_weight != "none", !classes.empty(), "classes");
  only_for("--quantile", c.quantile != usual.quantile, c.objective == "quantile", "--objective quantile");
  only_for("--tweedie-power", c.tweedie_power != usual.tweedie_power, c.objective == "tweedie", "--objective tweedie");
  if (c.objective == "quantile" && library.version() < kQuantiles) {
    fail(ErrorKind::device, "--objective", "quantile is in XGBoost from ", kQuantiles.text(), " on: ", library.path(),
         " is ", library.version().text(),
         "; install a newer one (pip install xgboost-cpu) or name one by --xgboost PATH");
  }
  if (objective != "count:poisson" && objective != "reg:tweedie") return;
  const auto* label = data.train.labels.data<float>();
  const float* const low = std::min_element(label, label + data.train.count());
  if (*low < 0) {
    fail(ErrorKind::data, c.data, "column ", data.target, ": --objective ", c.objective,
         " predicts values of at least 0: ", "got ", *low);
  }
  if (*std::max_element(label, label + data.train.count()) == 0) {
    fail(ErrorKind::data, c.data, "column ", data.target, ": all values are 0: --objective ", c.objective,
         " needs some above");
  }
}

}  // namespace

std::optional<TreeFitWork> TreeLearner::tree_work(const train::Config& c, const RowData& data) const {
  const bool forest = kind_ == Kind::forest;
  const auto classes = static_cast<int64_t>(data.shape.classes.size());
  return TreeFitWork{.rounds = rounds_of(c, forest),
                     .trees_of_round = (classes > 2 ? classes : 1) * (forest ? trees_of_forest(c) : 1),
                     .levels = levels_of(c, forest)};
}

TreeSettings tree_settings(const train::Config& c, const RowData& data, const Xgboost& library,
                           TreeLearner::Kind kind) {
  const bool forest = kind == TreeLearner::Kind::forest;
  TreeSettings s{.parameters = {},
                 .objective = name_of_objective(c, data),
                 .rounds = rounds_of(c, forest),
                 .early_stop = forest             ? 0
                               : c.early_stop < 0 ? kEarlyStop
                                                  : c.early_stop,
                 .min_improvement = c.min_improvement,
                 .quantile = c.quantile,
                 .tweedie_power = c.tweedie_power};
  check_objective(c, data, library, s.objective);
  if (data.held_out.count() == 0) {
    if (c.early_stop > 0) {
      refuse_value("--early-stop", cat(c.early_stop), "it needs a validation set, and --val-split 0 leaves none");
    }
    s.early_stop = 0;
  }
  const auto chosen = [&](double asked, double of_gbdt, double of_forest) {
    const double usual = forest ? of_forest : of_gbdt;
    return cat(asked > 0 || (asked == 0 && usual < 1e-3) ? asked : usual);
  };
  const std::string colsample = chosen(c.colsample, 1, 0.8);
  s.parameters = {{"validate_parameters", "1"},
                  {"verbosity", "1"},
                  {"nthread", cat(c.deterministic ? 1 : thread_count())},
                  {"seed", cat(c.seed)},
                  {"objective", s.objective},
                  {"tree_method", "hist"},
                  {"max_cat_to_onehot", cat(kWordsOneByOne)},
                  {"eta", cat(forest                          ? 1.0
                              : c.lr == train::kAutomaticRate ? kGbdtRate
                                                              : c.lr)},
                  {"max_depth", cat(levels_of(c, forest))},
                  {"subsample", chosen(c.subsample, 1, 0.8)},
                  {forest ? "colsample_bynode" : "colsample_bytree", colsample},
                  {"lambda", cat(c.lambda >= 0 ? c.lambda
                                 : forest      ? 1e-5
                                               : 1.0)},
                  {"min_child_weight", cat(c.min_child_weight)}};
  const auto set = [&](const char* name, const std::string& value) { s.parameters.emplace_back(name, value); };
  if (forest) set("num_parallel_tree", cat(trees_of_forest(c)));
  if (c.objective == "quantile") set("quantile_alpha", cat(c.quantile));
  if (c.objective == "tweedie") set("tweedie_variance_power", cat(c.tweedie_power));
  if (!c.monotone.empty()) set("monotone_constraints", constraints(c.monotone, data.shape.columns));
  if (s.objective == "multi:softprob") {
    set("num_class", cat(data.shape.classes.size()));
  } else if (library.version() < kOwnStart && !data.train.ranked) {
    set("base_score", cat(static_cast<float>(start_of(s.objective, c.class_weight == "balanced", data.train))));
  }
  if (c.backend != "auto" && c.backend != "cpu") set("device", c.backend);
  return s;
}

double tree_loss(const TreeSettings& s, const float* prediction, double label) {
  if (s.objective == "binary:logistic" || s.objective == "multi:softprob") {
    const float p = prediction[static_cast<size_t>(label)];
    return -std::log(static_cast<double>(std::max(p, std::numeric_limits<float>::min())));
  }
  const auto y = static_cast<double>(*prediction);
  if (s.objective == "reg:absoluteerror") return std::fabs(y - label);
  if (s.objective == "reg:quantileerror") return std::max(s.quantile * (label - y), (s.quantile - 1) * (label - y));
  const double positive = std::max(y, 1e-30);
  if (s.objective == "count:poisson") return positive - label * std::log(positive);
  if (s.objective == "reg:tweedie") {
    const double r = s.tweedie_power;
    return std::pow(positive, 2 - r) / (2 - r) - label * std::pow(positive, 1 - r) / (1 - r);
  }
  return (y - label) * (y - label);
}

}  // namespace freight::tables
