// RowLearner: a learner whose samples are rows of named columns. What all of these need alike is here: flags that they
// do not have are refused, the run's directory is written, the held-out rows are measured, and stored models are
// measured again. A learner adds how data are read, what fitting costs, and fitting (docs/extend/learner.md).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/store/row_model.h"
#include "freight/train/learner.h"

namespace freight::train {

class RankWork;

struct RowData {
  store::RowShape shape;
  std::string target;  // the target column
  store::Rows train, test;
  store::Rows own_test = {};               // of the source's test part; no rows where it names none
  std::vector<std::string> notes;          // on how they came about
  std::vector<std::string> warnings = {};  // on columns that tell the target, or nothing
  uint64_t fingerprint = 0;                // of the cells of the training part
  double share = 1;                        // of the files' bytes, that the rows are of (RowSource::most_bytes)
  std::string folder = {};                 // that of the source: rows lie on the disk
  RankWork* together = nullptr;            // ranks that fit them besides this process; null: it fits them alone
};

// Those that read a table are asked for this.
struct RowSource {
  data::Source data = {};
  std::string target = {};  // a name or a number from 1; empty chooses
  std::string test = {};    // the path of a test part; empty: none
  // Values of the flags of these names.
  std::string columns = {}, header = {}, drop = {}, types = {}, task = "auto";
  std::string weight_column = {}, group_column = {}, split_by = {};
  double val_split = -1;  // share that is held out; below 0: a fifth
  uint64_t seed = 0;
  data::BadSamples bad = {};
  bool whole = false;       // nothing is held out: all rows are of the training part
  bool test_part = false;   // the test part of a known table is read in place of its rows
  bool values = false;      // the told column holds values, also where its numbers would pass for classes
  bool ranking = false;     // it holds relevances, by which the rows of a group are ranked
  uint64_t most_bytes = 0;  // of the files, that are read (data/cells.h); 0: all
  std::string folder = {};  // of which files hold the rows, in place of memory; empty: in memory
  bool several = false;     // several ranks fit the rows
  // It is that of a stored model to be measured: rows become what it takes, and either part may be empty. Null:
  // columns and classes are those of the training part.
  const store::RowShape* known = nullptr;
};

// One of the passes of a fitting, a round of boosting say, and the model after it. A learner that has none tells one.
struct Round {
  int64_t number = 1, of = 1;
  double loss = 0;  // mean over the training rows
  const store::RowModel* model = nullptr;
  // The held-out part, where the learner measures it itself; the model may be null then.
  std::optional<Evaluation> test = {};
  std::optional<bool> best = {};  // whether the model kept so far is that of this round; empty: by the figures
};

// The work of a fit of trees: every level of a tree looks at all cells.
struct TreeFitWork {
  int64_t rounds = 1, trees_of_round = 1;  // rounds at most
  int64_t levels = 1;                      // of a tree, at most
};

// The rows of a source as a configuration describes them; the caller adds a test part (`test`, `whole`) and what
// becomes of rows that cannot be read (`bad`).
RowSource row_source(const Config& config, data::Source data);

class RowLearner;

// A learner with settings: one of those that a run compares (selection_internal.h).
struct Candidate {
  const RowLearner* learner = nullptr;
  Config config;
  std::string settings = {};  // as flags, where they are not those that were asked for: "--lr 0.05"
};

class RowLearner : public Learner {
 public:
  // All rows of both parts. Throws Error: data, usage.
  virtual RowData read(const RowSource& source) const = 0;
  // Flags that this learner has besides those of every one, as train/config_fields.h names them: "--lr".
  virtual std::vector<std::string> flags() const { return {}; }
  // True where it fits rankings (Config::task).
  virtual bool ranks() const { return false; }
  // True where it runs on that device ("cuda:1") besides the CPU.
  virtual bool runs_on(const std::string&) const { return false; }
  // A folder for the rows of this source (RowSource::folder), where they are better kept on the disk than in memory;
  // empty: in memory. Throws Error(usage) where that is asked for and does not go with the other settings.
  virtual std::string folder_for(const Config&, const RowSource&) const { return {}; }
  // Before anything is fitted: bytes besides the data, and seconds of a round on this machine, for run.json.
  virtual Cost cost(const Config& config, const RowData& data) const = 0;
  // Learners of trees say their work, by which the time on other devices is told before they are fitted (freight plan);
  // empty for others.
  virtual std::optional<TreeFitWork> tree_work(const Config&, const RowData&) const { return {}; }
  // Equal data and configurations give equal models, to the bit, unless the time of `config.fit_seconds` ends the
  // fitting first. `told` hears of each round; false from it ends the fitting with the model so far. Throws
  // Error(diverged) where no finite model comes of it.
  virtual std::shared_ptr<const store::RowModel> fit(const Config& config, const RowData& data,
                                                     const std::function<bool(const Round&)>& told) const = 0;

  // True where several ranks can fit together (RowData::together), and what those behind rank 0 then do: they get
  // settings and rows from rank 0. `config` says what is this process's own: the device and the library's path.
  virtual bool fits_by_several() const { return false; }
  virtual void help(const Config& /*config*/, job::Ranks& /*ranks*/) const {}

  // "round" or "epoch": a pass of the fitting, for those who read of it.
  virtual const char* pass() const { return "round"; }
  // The type that it computes in.
  virtual const char* compute() const { return "f64"; }

  // True where a run with this learner compares others (candidates).
  virtual bool chooses() const { return false; }
  // Those that it compares; empty where it is fitted itself. Reasons why one cannot be among them go to `left_out`.
  virtual std::vector<Candidate> candidates(const Config&, const RowData&, std::vector<std::string>&) const {
    return {};
  }
  // Further settings to try (--tune), drawn from ranges by the seed; empty where there are none to try.
  virtual std::optional<Candidate> trial(const Config&, int64_t /*number*/) const { return {}; }
  // The configuration of the fit on all rows after fits on folds, which found out what held-out rows tell: how many
  // rounds are best.
  virtual Config settled(const Config& config, const std::vector<std::shared_ptr<const store::RowModel>>&) const {
    return config;
  }
  // False where a fit does not depend on the held-out part. Where it does, a tenth of the training rows is held out for
  // the fit after a comparison, so that the test part stays unseen.
  virtual bool reads_held_out(const Config&) const { return true; }

  std::unique_ptr<Prepared> prepare(const Config& config, PrepareOptions options) const final;
  Measurement measure(store::Bundle bundle, const std::string& path, const MeasureRequest& request) const final;
  MeasuredRows rows_to_measure(const store::Bundle& bundle, const std::string& path,
                               const MeasureRequest& request) const final;
};

// Settles whether rows are ranked, which --task and --objective say: the task is "ranking" then. Throws Error(usage)
// where the learner does not rank, or something else does not go with it.
void settle_ranking(Config& config, const RowLearner& learner);

// Mean cross-entropy of classes, with top-1, or mean squared error of values, over all rows; of a ranking 1 - NDCG. A
// probability of 0 counts as the least positive float, so that the loss is finite. `threshold`:
// metrics::predicted_class.
Evaluation evaluate(const store::RowModel& model, const store::Rows& rows, std::optional<double> threshold = {});
// The same of answers that are there: f32 (N, outputs).
Evaluation evaluate(const Array& answers, const store::Rows& rows, std::optional<double> threshold = {});

}  // namespace freight::train
