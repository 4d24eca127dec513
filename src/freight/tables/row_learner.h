// RowLearner: a learner whose samples are rows of named columns. It has what all such learners need: it refuses flags
// that they lack, writes the run directory, evaluates held-out rows, and evaluates saved models. A learner adds reading
// data, the cost of fitting, and fitting (docs/extend/learner.md).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/store/row_model.h"
#include "freight/train/learner.h"

namespace freight::tables {

class RankWork;

// The rows of a table, read and split.
struct RowData {
  store::RowShape shape;                   // the columns and classes
  std::string target;                      // the target column
  store::Rows train, held_out;             // the training set, and the rows held out from it
  store::Rows own_test = {};               // rows of the source's test set; no rows if it has none
  std::vector<std::string> notes;          // on how the data was read and split
  std::vector<std::string> warnings = {};  // on columns that leak the target or are useless
  uint64_t fingerprint = 0;                // of the cells of the training set
  double share = 1;                        // the fraction of the files' bytes that was read (RowSource::most_bytes)
  std::string folder = {};                 // of the source: the rows are on disk
  RankWork* together = nullptr;            // shares the fit with other ranks; null: this process fits alone
};

// The request to read a table.
struct RowSource {
  data::Source data = {};   // the opened table
  std::string target = {};  // a name or a number from 1; empty chooses
  std::string test = {};    // the path of a test set; empty: none
  // The values of the flags with these names.
  std::string columns = {}, header = {}, drop = {}, types = {}, task = "auto";
  std::string weight_column = {}, group_column = {}, split_by = {};  // the same
  double val_split = -1;                                             // the fraction that is held out; below 0: a fifth
  uint64_t seed = 0;                                                 // of the split
  data::BadSamples bad = {};                                         // the treatment of rows that cannot be read
  bool whole = false;       // nothing is held out: all rows are in the training set
  bool test_part = false;   // reads the test set of a built-in table instead of its training set
  bool values = false;      // regression, even if the target's numbers look like classes
  bool ranking = false;     // the target has relevance labels, by which the rows of a group are ranked
  uint64_t most_bytes = 0;  // the maximum bytes of the files to read (data/cells.h); 0: all
  std::string folder = {};  // keeps the rows in files of this folder; empty: in memory
  bool several = false;     // several ranks fit the rows
  // The shape of a saved model that is evaluated: rows are converted to it, and either split may be empty. Null:
  // columns and classes are those of the training set.
  const store::RowShape* known = nullptr;
};

// A pass of a fit, such as a round of boosting, with the model after it. A learner without passes reports one.
struct Round {
  int64_t number = 1;                      // from 1
  std::optional<int64_t> of = 1;           // the maximum number of passes; empty: not known before the last one
  double loss = 0;                         // the mean over the training rows
  const store::RowModel* model = nullptr;  // as it is after the pass
  // The evaluation on the held-out rows, if the learner makes it itself; the model may then be null.
  std::optional<train::Evaluation> test = {};
  std::optional<bool> best = {};  // true if this round's model is the best so far; empty: the evaluation decides
};

// The work of a fit of trees, in which every level of a tree reads all cells.
struct TreeFitWork {
  int64_t rounds = 1, trees_of_round = 1;  // the maximum number of rounds, and the trees of each
  int64_t levels = 1;                      // the maximum depth of a tree
};

// The request for the rows of a source by a configuration; the caller adds the test set (`test`, `whole`) and the
// treatment of rows that cannot be read (`bad`).
RowSource row_source(const train::Config& config, data::Source data);

class RowLearner;

// A learner with settings, which a run compares with others (selection_internal.h).
struct Candidate {
  const RowLearner* learner = nullptr;  // which fits it
  train::Config config;                 // with the settings to try
  std::string settings = {};            // settings that differ from the requested ones, as flags: "--lr 0.05"
  bool reference = false;               // measured beside the others, and never chosen
};

// A learner whose samples are rows of named columns (docs/extend/learner.md).
class RowLearner : public train::Learner {
 public:
  // Reads all rows of both splits. Throws Error: data, usage.
  virtual RowData read(const RowSource& source) const = 0;
  // The flags of this learner in addition to those of all learners, by their names in train/config_fields.h: "--lr".
  virtual std::vector<std::string> flags() const { return {}; }
  // True if it fits rankings (Config::task).
  virtual bool fits_rankings() const { return false; }
  // True if it runs on that device ("cuda:1"). The CPU is always supported.
  virtual bool runs_on(const std::string&) const { return false; }
  // A folder for the rows of this source (RowSource::folder) if they should be kept on disk; empty: in memory. Throws
  // Error(usage) if that was requested and does not work with the other settings.
  virtual std::string folder_for(const train::Config&, const RowSource&) const { return {}; }
  // Estimates, before anything is fitted, the bytes in addition to the data, and the seconds of a round on this
  // machine.
  virtual train::Cost cost(const train::Config& config, const RowData& data) const = 0;
  // The work of a fit of trees, from which freight plan estimates the time on other devices; empty for other learners.
  virtual std::optional<TreeFitWork> tree_work(const train::Config&, const RowData&) const { return {}; }
  // Fits a model. Equal data and configurations give bitwise equal models, unless `config.fit_seconds` ends the fit.
  // `on_round` is called after each round; if it returns false, the fit ends with the model so far. Throws
  // Error(diverged) if the model is not finite.
  virtual std::shared_ptr<const store::RowModel> fit(const train::Config& config, const RowData& data,
                                                     const std::function<bool(const Round&)>& on_round) const = 0;

  // The part of the ranks behind rank 0 in a fit by several (RowData::together): they get settings and rows from rank
  // 0. `config` says what is this process's own: the device and the library's path.
  virtual void fit_with_rank_zero(const train::Config& /*config*/, job::Ranks& /*ranks*/) const {}

  // The name of a pass of the fit in messages: "round" or "epoch".
  virtual const char* pass() const { return "round"; }
  // The type that it computes in.
  virtual const char* compute() const { return "f64"; }

  // True if a run with this learner compares others (candidates).
  virtual bool chooses() const { return false; }
  // The candidates that it compares; empty if it is fitted itself. Adds to the last argument the reasons why others are
  // skipped.
  virtual std::vector<Candidate> candidates(const train::Config&, const RowData&, std::vector<std::string>&) const {
    return {};
  }
  // Further settings to try (--tune), sampled from ranges by the seed; empty if there are none.
  virtual std::optional<Candidate> trial(const train::Config&, int64_t /*number*/) const { return {}; }
  // The configuration for the fit on all rows, with what the fits on folds determined on held-out rows, such as the
  // best number of rounds.
  virtual train::Config settled(const train::Config& config,
                                const std::vector<std::shared_ptr<const store::RowModel>>&) const {
    return config;
  }
  // True if a fit depends on the held-out rows (early stopping). The fit after a comparison then holds out a tenth of
  // the training rows; built-in learners have fixed rounds (gbdt) or hold out rows themselves (mlp) there, and return
  // false.
  virtual bool reads_held_out(const train::Config&) const { return true; }

  std::unique_ptr<train::Prepared> prepare(const train::Config& config, train::PrepareOptions options) const final;
  train::Measurement measure(store::Bundle bundle, const std::string& path,
                             const train::MeasureRequest& request) const final;
  train::MeasuredRows rows_to_measure(const store::Bundle& bundle, const std::string& path,
                                      const train::MeasureRequest& request) const final;
};

// Sets the task to "ranking" if --task or --objective requests it. Throws Error(usage) if the learner does not fit
// rankings, or another setting does not work with them.
void settle_ranking(train::Config& config, const RowLearner& learner);

// Evaluates a model on all rows: mean cross-entropy and top-1 for classes, mean squared error for regression, 1 - NDCG
// for rankings. A probability of 0 counts as the smallest positive float, so that the loss is finite. `threshold`: see
// metrics::predicted_class.
train::Evaluation evaluate(const store::RowModel& model, const store::Rows& rows, std::optional<double> threshold = {});
// The same for given predictions, f32 (N, outputs).
train::Evaluation evaluate(const Array& predictions, const store::Rows& rows, std::optional<double> threshold = {});

}  // namespace freight::tables
