// Learner: what turns data into a stored model. A net is one (net_learner.cpp); boosted trees, forests and linear
// models are others (tables/row_learner.h). train, eval, predict, serve, report and models show ask through here and
// through store::Bundle, and know of no learner by name.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/metrics/scores.h"
#include "freight/store/bundle.h"
#include "freight/store/row_model.h"
#include "freight/train/config.h"
#include "freight/train/evaluate.h"
#include "freight/train/prepare.h"
#include "freight/train/trained_on.h"

namespace freight::job {
class Ranks;
}  // namespace freight::job

namespace freight::train {

// A stored model is measured on this, as `eval` and `report` are told. Fields that are not set are as in training.
struct MeasureRequest {
  std::string data = {}, data_dir = {};
  std::string split = "test";  // test, val or train
  std::optional<double> val_split = {};
  std::optional<int64_t> seed = {};
  std::optional<std::string> text_column = {}, label_column = {};  // of texts
  std::optional<std::string> target = {}, group_column = {};       // of tables
  std::optional<std::string> tta = {};                             // of images
  std::string device = "auto";
  int64_t batch_size = 256, workers = -1;
  bool deterministic = false;              // fixed kernel choices: the same bits on any number of ranks
  std::optional<data::OnBad> on_bad = {};  // not set: as in training, and of other data OnBad::error
  std::function<void(const data::BadSample&)> left_out = {};
  std::function<void(const std::string&)> note = [](const std::string&) {};
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  job::Ranks* ranks = nullptr;  // who measure it together, each some of the batches; null: this process alone
  std::function<bool(int64_t done, int64_t all)> poll = [](int64_t, int64_t) { return true; };
};
// The treatment of samples of the data to measure on that cannot be read.
data::BadSamples bad_samples(const MeasureRequest& request, const TrainedOn& on);
struct Measurement {
  Evaluation figures;
  std::vector<metrics::Score> scores = {};  // of models of rows
  std::string data;
  const char* unit = "samples";
  std::string part = {};  // the part that they are of, where it is not the one that was asked for: "val"
};
struct MeasuredRows {
  store::Rows rows;
  std::string data, note;
  std::string part = {};  // "val" where fitting used the rows that were held out (RunSummary::measured)
};

class Learner {
 public:
  virtual ~Learner() = default;
  // The name by which --model and a stored model mean it: "net", "baseline".
  virtual std::string name() const = 0;
  virtual std::string doc() const = 0;  // one line
  // True of one that has the name of a net, too: the name means this learner where the data is a table (is_table).
  virtual bool beside_net() const { return false; }
  // True if several ranks can train one model together.
  virtual bool fits_by_several() const { return false; }
  // Sets what is this learner's own among the fields that it shares with others: its learning rate. A run
  // whose learning rate is left open (kAutomaticRate) takes that.
  virtual void choose(Config&) const {}
  // Reads the data and settles everything before the first step; what train::prepare says holds.
  virtual std::unique_ptr<Prepared> prepare(const Config& config, PrepareOptions options) const = 0;
  // A stored model of this learner on a data set; `path` is the model's file. Throws Error.
  virtual Measurement measure(store::Bundle bundle, const std::string& path, const MeasureRequest& request) const = 0;
  // The samples of a model of rows, for those that look at each. Throws Error(usage) where samples are none.
  virtual MeasuredRows rows_to_measure(const store::Bundle& bundle, const std::string& path,
                                       const MeasureRequest& request) const = 0;
};

// Makes a learner known, from any thread, for the rest of the process; its stored models are made known by
// store::register_row_model. Throws Error(usage) where its name is that of another, or of a net (Learner::beside_net).
void register_learner(std::shared_ptr<const Learner> learner);
// All that are known: nets first.
std::vector<const Learner*> learners();
// The learner of that name; null where there is none.
const Learner* find_learner(const std::string& name);
// True where the data of a configuration are rows of cells, rather than arrays, images or texts.
bool is_table(const Config& config, const data::Source& source);
// The learner that a configuration asks for (asked_model); null where it names a net, or nothing.
const Learner* named_learner(const Config& config, const data::Source& source);
// The learner that trains a configuration: the one that its model names, else that of nets.
const Learner& learner_of(const Config& config, const data::Source& source);
// True where that is the learner of networks.
bool is_network(const Config& config, const data::Source& source);
// The learner of tables where none is said.
inline constexpr const char* kLearnerOfTables = "gbdt";
// The name of the model that a configuration asks for, by itself or by naming what a table tells; "": the data's own.
std::string asked_model(const Config& config, const data::Source& source);
// Throws Error(usage) where several devices do not train what a configuration asks for together.
void need_several(const Config& config, const data::Source& source);
// The learner that fitted a stored model.
const Learner& learner_of(const store::Bundle& bundle);
// Throws Error(usage) where `model`, the value of --model, names a learner other than that of nets, and no net. It says
// `what` asked for a net ("freight plan").
void need_net_model(const std::string& model, const std::string& what);

}  // namespace freight::train
