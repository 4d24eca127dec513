// See auto_learner.h.
#include "freight/tables/auto_learner.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/tables/table.h"
#include "freight/tables/xgboost_library.h"

namespace freight::tables {

namespace {

bool has_flag(const RowLearner& learner, const char* flag) {
  const std::vector<std::string> flags = learner.flags();
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

// True if all values are whole numbers of at least 0, and some are above it.
bool holds_counts(const store::Rows& rows) {
  if (rows.classification()) return false;
  const auto* v = rows.labels.data<float>();
  const auto end = v + rows.count();
  return std::all_of(v, end, [](float x) { return x >= 0 && x == std::floor(x); }) &&
         std::any_of(v, end, [](float x) { return x > 0; });
}

// The learners that are worth comparing, the quick ones first; those that are not registered are skipped.
std::vector<std::string> names_for(const RowData& data) {
  std::vector<std::string> names;
  if (data.train.ranked) return {"gbdt"};
  if (!data.shape.classes.empty()) names.emplace_back("logistic");
  if (data.shape.classes.empty()) names.emplace_back("ridge");
  if (holds_counts(data.train)) names.emplace_back("poisson");
  names.insert(names.end(), {"gbdt", "forest", "mlp"});
  return names;
}

// Boosted trees are compared in two settings: in tables with little noise, trees that see a fraction of the rows and
// columns are better, in others often those that see all. A setting of the user's is kept.
constexpr double kPart = 0.8;

std::vector<Candidate> with_parts(Candidate usual) {
  if (usual.config.model != "gbdt" || usual.config.subsample > 0 || usual.config.colsample > 0) return {usual};
  Candidate parts = usual;
  parts.config.subsample = parts.config.colsample = kPart;
  parts.settings =
      cat("--subsample ", kPart, " --colsample ", kPart, usual.settings.empty() ? "" : " ", usual.settings);
  return {std::move(usual), std::move(parts)};
}

const RowLearner* registered(const std::string& name) {
  return dynamic_cast<const RowLearner*>(train::find_learner(name));
}

}  // namespace

std::vector<std::string> AutoLearner::flags() const {
  return {"--objective", "--quantile", "--tweedie-power", "--class-weight", "--xgboost", "--weight-column"};
}

bool AutoLearner::runs_on(const std::string& device) const {
  const RowLearner* const trees = registered("gbdt");
  return trees && trees->runs_on(device);
}

RowData AutoLearner::read(const RowSource& source) const { return read_table(source); }

std::vector<Candidate> AutoLearner::candidates(const train::Config& config, const RowData& data,
                                               std::vector<std::string>& left_out) const {
  need_named_xgboost(config.xgboost);
  std::vector<Candidate> all;
  const bool on_device = config.backend != "auto" && config.backend != "cpu";
  for (const std::string& name : names_for(data)) {
    const RowLearner* const learner = registered(name);
    if (!learner) continue;
    Candidate c{.learner = learner, .config = config};
    c.config.model = name;
    learner->choose(c.config);
    if (config.class_weight != "none" && !has_flag(*learner, "--class-weight")) {
      left_out.push_back(cat(name, ": has no --class-weight"));
      continue;
    }
    if (!config.weight_column.empty() && !has_flag(*learner, "--weight-column")) {
      left_out.push_back(cat(name, ": has no --weight-column"));
      continue;
    }
    const bool runs = learner->runs_on(config.backend);
    if (on_device && !runs) {
      c.config.backend = "cpu";
      c.settings = "--device cpu";
    }
    try {
      learner->cost(c.config, data);
    } catch (const Error& e) {
      // A device that the user asked for is never replaced silently.
      if (on_device && runs) throw;
      if (data.together && learner->fits_by_several()) throw;
      left_out.push_back(cat(name, ": ", e.what()));
      continue;
    }
    for (Candidate& one : with_parts(std::move(c))) all.push_back(std::move(one));
  }
  if (all.empty()) {
    fail(ErrorKind::runtime, "--model", "auto has nothing to compare: ", join(left_out, "; "));
  }
  // Shows what the others are better than. No flag changes what it predicts, except weights of rows.
  const RowLearner* const baseline = registered("baseline");
  if (baseline && !data.train.ranked) {
    all.push_back({.learner = baseline, .config = config, .reference = true});
    all.back().config.model = baseline->name();
  }
  return all;
}

train::Cost AutoLearner::cost(const train::Config& config, const RowData& data) const {
  std::vector<std::string> ignored;
  train::Cost most;
  for (const Candidate& c : candidates(config, data, ignored)) {
    const train::Cost one = c.learner->cost(c.config, data);
    most.bytes = std::max(most.bytes, one.bytes);
    most.seconds = std::max(most.seconds, one.seconds);
  }
  return most;
}

std::shared_ptr<const store::RowModel> AutoLearner::fit(const train::Config&, const RowData&,
                                                        const std::function<bool(const Round&)>&) const {
  fail(ErrorKind::usage, "AutoLearner::fit", "auto compares models in a run (train::prepare), and fits none itself");
}

}  // namespace freight::tables
