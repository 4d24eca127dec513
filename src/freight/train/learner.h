// Learner: a type of model with its training. Networks are one (net_learner.cpp); boosted trees, forests and linear
// models are others (tables/row_learner.h). train, eval, predict, serve, report and models show use this interface and
// store::Bundle, and know no learner by name.
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

// The data and settings for evaluating a saved model, from the flags of `eval` and `report`. Unset fields are as in
// training.
struct MeasureRequest {
  std::string data = {}, data_dir = {};
  std::string split = "test";  // test, val or train
  std::optional<double> val_split = {};
  std::optional<int64_t> seed = {};
  std::optional<std::string> text_column = {}, label_column = {};  // for texts
  std::optional<std::string> target = {}, group_column = {};       // for tables
  std::optional<std::string> tta = {};                             // for images
  std::string device = "auto";
  int64_t batch_size = 256, workers = -1;
  bool deterministic = false;              // fixed kernel choices: bitwise the same on any number of ranks
  std::optional<data::OnBad> on_bad = {};  // unset: as in training, and OnBad::error for other data
  std::function<void(const data::BadSample&)> left_out = {};
  std::function<void(const std::string&)> note = [](const std::string&) {};
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  job::Ranks* ranks = nullptr;  // ranks that each evaluate some of the batches; null: only this process
  std::function<bool(int64_t done, int64_t all)> poll = [](int64_t, int64_t) { return true; };
};
// The treatment of evaluation samples that cannot be read.
data::BadSamples bad_samples(const MeasureRequest& request, const TrainedOn& on);
struct Measurement {
  Evaluation figures;
  std::vector<metrics::Score> scores = {};  // of models of rows
  std::string data;
  const char* unit = "samples";
  // The evaluated split, if it is not the requested one: "val" for a validation set, "all" for data without one.
  std::string part = {};
};
struct MeasuredRows {
  store::Rows rows;
  std::string data, note;
  std::string part = {};  // as in Measurement
};

class Learner {
 public:
  virtual ~Learner() = default;
  // The name in --model and in saved models: "net", "baseline".
  virtual std::string name() const = 0;
  virtual std::string doc() const = 0;  // one line
  // True if a network has the same name: the name then means this learner if the data is a table (is_table).
  virtual bool beside_net() const { return false; }
  // True if several ranks can train one model together.
  virtual bool fits_by_several() const { return false; }
  // Sets this learner's values of fields that it shares with others, such as the learning rate if it is kAutomaticRate.
  virtual void choose(Config&) const {}
  // Prepares a run; see train::prepare.
  virtual std::unique_ptr<Prepared> prepare(const Config& config, PrepareOptions options) const = 0;
  // Evaluates a saved model of this learner; `path` is the model's file. Throws Error.
  virtual Measurement measure(store::Bundle bundle, const std::string& path, const MeasureRequest& request) const = 0;
  // The rows to evaluate a model for tables on. Throws Error(usage) if the model is not for tables.
  virtual MeasuredRows rows_to_measure(const store::Bundle& bundle, const std::string& path,
                                       const MeasureRequest& request) const = 0;
};

// Registers a learner for the rest of the process, from any thread; store::register_row_model registers its saved
// models. Throws Error(usage) if another learner, or a network (unless Learner::beside_net), has its name.
void register_learner(std::shared_ptr<const Learner> learner);
// All registered learners; the one for networks is the first.
std::vector<const Learner*> learners();
// The learner with that name; null if there is none.
const Learner* find_learner(const std::string& name);
// True if the data of a configuration is a table, not arrays, images or texts.
bool is_table(const Config& config, const data::Source& source);
// The learner that a configuration requests (asked_model); null if it names a network, or nothing.
const Learner* named_learner(const Config& config, const data::Source& source);
// The learner that trains a configuration: the one that its model names, else the one for networks.
const Learner& learner_of(const Config& config, const data::Source& source);
// True if that is the learner for networks.
bool is_network(const Config& config, const data::Source& source);
// The default learner for tables.
inline constexpr const char* kLearnerOfTables = "gbdt";
// The model that a configuration names, or the default for tables if it names a target; "": the data's default.
std::string asked_model(const Config& config, const data::Source& source);
// Throws Error(usage) if the configuration's model cannot be trained on several devices.
void need_several(const Config& config, const data::Source& source);
// The learner that fitted a saved model.
const Learner& learner_of(const store::Bundle& bundle);
// Throws Error(usage) if `model`, the value of --model, names a learner for tables that is not also a network. `what`:
// what needs a network ("freight plan").
void need_net_model(const std::string& model, const std::string& what);

}  // namespace freight::train
