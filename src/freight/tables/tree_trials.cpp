// The settings of trees that --tune tries.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>
#include <variant>

#include "freight/base/parse_number.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/tables/xgboost_learner.h"

namespace freight::tables {

namespace {

using train::Config;

constexpr uint32_t kTrialStream = 0x54524c53;  // "TRLS"

enum class Scale { linear, log, whole };

// A setting that is drawn at random, unless the user set it.
struct SearchRange {
  const char* flag;
  std::variant<double Config::*, int64_t Config::*> member;
  Scale scale;
  double low, high;
};

// The ranges of Grinsztajn, Oyallon and Varoquaux, "Why do tree-based models still outperform deep learning on tabular
// data?" (NeurIPS 2022), except for the learning rate: with one below 0.02 the fit is not complete after 1,000 rounds.
const SearchRange kRangesOfGbdt[] = {
    {"--lr", &Config::lr, Scale::log, 0.02, 0.3},
    {"--max-depth", &Config::max_depth, Scale::whole, 2, 11},
    {"--min-child-weight", &Config::min_child_weight, Scale::log, 1, 100},
    {"--subsample", &Config::subsample, Scale::linear, 0.5, 1},
    {"--colsample", &Config::colsample, Scale::linear, 0.5, 1},
    {"--lambda", &Config::lambda, Scale::log, 1, 4},
};
// The settings that matter according to Probst, Wright and Boulesteix, "Hyperparameters and tuning strategies for
// random forest" (2019): columns per split, rows per tree, size of leaves.
const SearchRange kRangesOfForest[] = {
    {"--max-depth", &Config::max_depth, Scale::whole, 6, 24},
    {"--min-child-weight", &Config::min_child_weight, Scale::log, 1, 20},
    {"--subsample", &Config::subsample, Scale::linear, 0.5, 1},
    {"--colsample", &Config::colsample, Scale::linear, 0.2, 1},
};

// A number that equals its text in three digits, so that the flags shown are the settings that were tried.
double drawn(const SearchRange& range, double u) {
  double v = range.scale == Scale::log ? range.low * std::pow(range.high / range.low, u)
                                       : range.low + u * (range.high - range.low);
  if (range.scale == Scale::whole) v = std::floor(range.low + u * (range.high - range.low + 1));
  return parse_number<double>(significant(v, 3)).value_or(v);
}

}  // namespace

std::optional<Candidate> TreeLearner::trial(const Config& config, int64_t number) const {
  Candidate c{.learner = this, .config = config};
  const Config usual;
  Config chosen;  // after the learner has chosen its defaults
  choose(chosen);
  std::vector<std::string> flags;
  const auto draw = [&](const SearchRange& range, uint64_t place) {
    const double v =
        drawn(range, static_cast<double>(random_uniform(static_cast<uint64_t>(config.seed),
                                                        static_cast<uint64_t>(number), kTrialStream, place)));
    std::visit(
        [&](auto member) {
          if (config.*member != usual.*member && config.*member != chosen.*member) return;  // the user's own value
          c.config.*member = static_cast<std::remove_reference_t<decltype(c.config.*member)>>(v);
          flags.push_back(cat(range.flag, " ", v));
        },
        range.member);
  };
  uint64_t place = 0;
  if (kind_ == Kind::gbdt) {
    for (const SearchRange& range : kRangesOfGbdt) draw(range, place++);
  } else {
    for (const SearchRange& range : kRangesOfForest) draw(range, place++);
  }
  if (flags.empty()) return {};
  c.settings = join(flags, " ");
  return c;
}

}  // namespace freight::tables
