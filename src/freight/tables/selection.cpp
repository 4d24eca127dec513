// See selection_internal.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/tables/rank_work.h"
#include "freight/tables/row_parts.h"
#include "freight/tables/selection_internal.h"

namespace freight::tables {

namespace {

constexpr double kForComparing = 0.8;  // of the time; the rest is for the fit on all rows
constexpr double kForFirst = 0.5;      // of that, for the candidates themselves where further settings follow
constexpr int64_t kKeepOneOf = 3;      // of the settings, from a share of the rows to one three times as large
constexpr int64_t kFewestRows = 1000;  // a share of fewer would rank settings by chance
constexpr double kForever = std::numeric_limits<double>::infinity();

std::string name_of(const Candidate& c) {
  return c.settings.empty() ? c.learner->name() : cat(c.learner->name(), " ", c.settings);
}

double stored_bytes(const store::RowModel& model) {
  io::SafeTensors file;
  model.write(file);
  double bytes = 0;
  for (const auto& [name, array] : file.tensors) bytes += static_cast<double>(array.bytes() + name.size());
  for (const auto& [key, value] : file.metadata) bytes += static_cast<double>(key.size() + value.size());
  return bytes;
}

// The figures of one candidate on the folds.
struct FoldFigures {
  std::vector<double> scores;  // of folds
  std::vector<std::shared_ptr<const store::RowModel>> models;
  std::vector<Array> predictions, labels, weights;
  double fit_seconds = 0, row_seconds = 0;  // sums
  int64_t rows = 0;

  double mean() const {
    return std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
  }
  double deviation() const {
    if (scores.size() < 2) return 0;
    double squares = 0;
    for (const double s : scores) squares += (s - mean()) * (s - mean());
    return std::sqrt(squares / static_cast<double>(scores.size() - 1));
  }
};

class Comparison {
 public:
  Comparison(const RowData& data, const SelectionRequest& request)
      : data_(data), r_(request), fold_of_(folds_of(data.train, request.folds, request.seed)) {}

  Selected run() {
    board_.left_out = r_.left_out;
    const double end = r_.seconds > 0 ? kForComparing * r_.seconds : kForever;
    measure_whole(r_.whole, r_.trials.empty() ? end : kForFirst * end);
    halve(end);
    if (!best_) {
      fail(ErrorKind::runtime, "--model", "no model could be fitted: ", join(board_.left_out, "; "));
    }
    return chosen();
  }

 private:
  double now() const { return seconds_since(began_); }
  bool goes_on(const std::string& what) {
    stopped_ = stopped_ || !r_.goes_on(what);
    return !stopped_;
  }
  // Nothing stops while there is nothing to show yet.
  bool over(double end) const { return best_ && (stopped_ || now() >= end); }

  void measure_whole(const std::vector<Candidate>& candidates, double end) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& c = candidates[i];
      if (over(end) && !c.reference) {
        if (!stopped_) board_.left_out.push_back(cat(name_of(c), ": not reached within the time budget"));
        continue;
      }
      const double share = std::max(end - now(), 0.0) / static_cast<double>(candidates.size() - i);
      if (const auto m = tried(c, r_.folds, 1, c.reference ? kForever : now() + share)) enter(c, *m);
    }
  }

  // Settings are measured on one fold with a small share of the rows; the better third goes on with three times as
  // many, and what is left of them meets the others on all folds.
  void halve(double end) {
    std::vector<Candidate> left = r_.trials;
    const auto most = static_cast<double>(data_.train.count());
    const double least_share = std::min(1.0, static_cast<double>(kFewestRows) / most);
    double share = 1;
    for (size_t n = left.size(); n > kKeepOneOf; n = (n + kKeepOneOf - 1) / kKeepOneOf) share /= kKeepOneOf;
    while (left.size() > kKeepOneOf && !over(end)) {
      std::vector<std::pair<double, size_t>> ranks;
      std::vector<train::ModelScore> standings;
      const double rung_end = now() + std::max(end - now(), 0.0) / (kKeepOneOf - 1);
      for (size_t i = 0; i < left.size(); ++i) {
        if (over(rung_end)) break;
        const double time = std::max(rung_end - now(), 0.0) / static_cast<double>(left.size() - i);
        const auto m = tried(left[i], 1, std::max(share, least_share), now() + time);
        if (!m) continue;
        ranks.emplace_back(r_.metric.higher ? -m->mean() : m->mean(), i);
        standings.push_back(standing(left[i], *m, false));
      }
      not_reached_ += static_cast<int64_t>(left.size() - ranks.size());
      std::stable_sort(ranks.begin(), ranks.end(), [](auto& a, auto& b) { return a.first < b.first; });
      ranks.resize(std::min(ranks.size(), (left.size() + kKeepOneOf - 1) / kKeepOneOf));
      std::vector<Candidate> better;
      for (const auto& [rank, i] : ranks) better.push_back(left[i]);
      for (train::ModelScore& s : standings) {
        const auto same = [&](const Candidate& c) {
          return c.learner->name() == s.learner && c.settings == s.settings;
        };
        if (std::none_of(better.begin(), better.end(), same)) board_.standings.push_back(std::move(s));
      }
      left = std::move(better);
      share *= kKeepOneOf;
    }
    if (over(end)) {
      not_reached_ += static_cast<int64_t>(left.size());
    } else {
      measure_whole(left, end);
    }
  }

  // True where ranks that fitted together cannot do so any more.
  bool lost(const Error& e) const {
    return e.kind() == ErrorKind::peer_lost || (data_.together && data_.together->failed());
  }

  // Empty where the candidate cannot be fitted, or was stopped before it told anything.
  std::optional<FoldFigures> tried(const Candidate& c, int64_t folds, double share, double until) {
    try {
      return measured(c, folds, share, until);
    } catch (const Error& e) {
      if (r_.whole.size() + r_.trials.size() == 1 || lost(e)) throw;
      board_.left_out.push_back(cat(name_of(c), ": ", e.what()));
      return std::nullopt;
    }
  }

  std::optional<FoldFigures> measured(const Candidate& c, int64_t folds, double share, double until) {
    FoldFigures m;
    for (int64_t fold = 0; fold < folds; ++fold) {
      const std::string what = cat(name_of(c), ", fold ", fold + 1, " of ", folds);
      const bool something = !m.scores.empty() || best_;
      if (!goes_on(what) && something) break;
      const double one = m.models.empty() ? 0 : m.fit_seconds / static_cast<double>(m.models.size());
      if (!m.scores.empty() && now() + one > until) break;
      const RowData part = with_fold_out(data_, fold_of_, fold, share);
      train::Config config = c.config;
      if (until < kForever) {
        const double left = std::max(until - now(), 0.0);
        const double least = best_ && m.scores.empty() ? c.learner->cost(config, part).seconds : 0;
        if (least > left) {
          fail(ErrorKind::runtime, c.learner->name(), "a fit would take ", fixed(least, 0), " s, and there are ",
               fixed(left, 1), " for it");
        }
        config.fit_seconds = std::max(left / static_cast<double>(folds - fold), 1e-3);
      }
      const double before = now();
      const auto model = c.learner->fit(config, part, [&](const Round&) {
        const bool late = config.fit_seconds > 0 && now() - before > config.fit_seconds;
        return goes_on(what) && !late;
      });
      if (stopped_ && something) break;  // an incomplete fit, when there are complete ones
      m.fit_seconds += now() - before;
      m.rows = part.train.count();
      take(m, c, *model, part.held_out);
      m.models.push_back(model);
    }
    if (m.scores.empty()) {
      if (stopped_) return std::nullopt;
      fail(ErrorKind::data, c.learner->name(), "the rows of the folds have no ", r_.metric.name);
    }
    return m;
  }

  void take(FoldFigures& m, const Candidate& c, const store::RowModel& model, const store::Rows& held_out) {
    const double before = now();
    const Array predictions = store::run(model, held_out.values);
    m.row_seconds += (now() - before) / static_cast<double>(std::max<int64_t>(held_out.count(), 1));
    const double asked = data_.shape.classes.size() == 2 ? c.config.threshold : 0;
    const auto score =
        metrics::score_of(r_.metric, predictions, held_out.truth(), asked > 0 ? std::optional(asked) : std::nullopt);
    if (score && !std::isfinite(*score)) {
      fail(ErrorKind::diverged, "fit", "the predictions for validation rows have no finite ", r_.metric.name);
    }
    if (score) m.scores.push_back(*score);
    m.predictions.push_back(predictions);
    m.labels.push_back(held_out.labels);
    if (held_out.weights) m.weights.push_back(*held_out.weights);
  }

  train::ModelScore standing(const Candidate& c, const FoldFigures& m, bool whole) const {
    const auto fits = static_cast<double>(m.models.size());
    return {.learner = c.learner->name(),
            .settings = c.settings,
            .mean = m.mean(),
            .deviation = m.deviation(),
            .folds = static_cast<int64_t>(m.scores.size()),
            .rows = m.rows,
            .whole = whole,
            .fit_seconds = m.fit_seconds / fits,
            .row_seconds = m.row_seconds / fits,
            .bytes = stored_bytes(*m.models.front())};
  }

  // Takes note of a candidate that was measured on all rows; of equally good ones the first stays the best.
  void enter(const Candidate& c, const FoldFigures& m) {
    board_.standings.push_back(standing(c, m, true));
    if (c.reference) return;
    if (best_ && !better_on_shared_folds(r_.metric, m.scores, best_->scores)) return;
    best_ = m;
    winner_ = c;
  }

  Selected chosen() {
    if (not_reached_ > 0 && !stopped_) {
      board_.left_out.push_back(
          cat(not_reached_, " further settings: not reached within the time budget, or not fitted"));
    }
    std::stable_sort(board_.standings.begin(), board_.standings.end(),
                     [&](const train::ModelScore& a, const train::ModelScore& b) {
                       if (a.whole != b.whole) return a.whole;
                       if (!a.whole && a.rows != b.rows) return a.rows > b.rows;
                       return r_.metric.better(a.mean, b.mean);
                     });
    std::stable_partition(board_.standings.begin(), board_.standings.end(), [&](const train::ModelScore& s) {
      return s.whole && s.learner == winner_.learner->name() && s.settings == winner_.settings;
    });
    board_.metric = r_.metric.name;
    board_.higher = r_.metric.higher;
    board_.pass = winner_.learner->pass();
    board_.folds = r_.folds;
    board_.seconds = now();
    Selected out{.candidate = winner_,
                 .models = best_->models,
                 .predictions = joined(best_->predictions),
                 .truth = joined(best_->labels),
                 .board = std::move(board_),
                 .stopped = stopped_};
    if (!best_->weights.empty()) out.truth.weights = joined(best_->weights);
    out.candidate.config = winner_.learner->settled(winner_.config, best_->models);
    return out;
  }

  const RowData& data_;
  const SelectionRequest& r_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<int64_t> fold_of_;
  std::optional<FoldFigures> best_;
  Candidate winner_;
  train::Leaderboard board_;
  int64_t not_reached_ = 0;
  bool stopped_ = false;
};

}  // namespace

bool better_on_shared_folds(const metrics::Metric& metric, const std::vector<double>& first,
                            const std::vector<double>& second) {
  const size_t shared = std::min(first.size(), second.size());
  const auto mean = [&](const std::vector<double>& scores) {
    const auto end = scores.begin() + static_cast<std::ptrdiff_t>(shared);
    return std::accumulate(scores.begin(), end, 0.0) / static_cast<double>(shared);
  };
  return metric.better(mean(first), mean(second));
}

Selected select(const RowData& data, const SelectionRequest& request) { return Comparison(data, request).run(); }

}  // namespace freight::tables
