// A net in training: model, optimizer, averages, the compiled step and the evaluation between steps, as a configuration
// says. Runs train with it; plans (plan/step_plan.h) and trials of a batch size make one without data. It knows the
// types of a batch, but neither data sets nor files.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "freight/data/tokens.h"
#include "freight/models/models.h"
#include "freight/optim/ema.h"
#include "freight/optim/optimizer.h"
#include "freight/train/config.h"
#include "freight/train/evaluate.h"
#include "freight/train/step.h"

namespace freight::job {
class StateShares;
}  // namespace freight::job

namespace freight::train {

// The samples, without the batch axis, whose features are trained and evaluated in their place (feature_task.h).
struct FeatureSamples {
  Type trained;
  std::optional<Type> tested = {};  // none: evaluation takes samples, through the whole network
};

// The plans of a training and what else decides its memory. It refers into its NetTraining, which must outlive it.
struct Planned {
  const Config& config;
  const models::Model& model;
  const optim::Optimizer& optimizer;
  const optim::EMA* ema;  // or null
  Type inputs, targets;   // of a full batch
  std::vector<TrainStep::Run> step;
  std::shared_ptr<const Plan> evaluation;             // of a full batch, or null
  Type test_inputs, test_targets;                     // of that batch
  int64_t evaluation_batch, train_count, test_count;  // counts: of samples, or of a corpus's tokens
  size_t data_bytes = 0;                              // of the training set, where it lies on the device
  size_t kept_bytes = 0;                              // Task::kept_bytes and TrainStep::kept_bytes
  bool images_in_files = false;                       // threads decode samples when they are read
  int64_t ranks = 1;                                  // that share a batch
  data::DocumentLengths lengths = {};                 // Task::lengths
  bool writes = true;                                 // checkpoints, of all states
  size_t drawn_bytes = 0;                             // of weights that are in memory already
  std::optional<FeatureSamples> features = {};        // where `inputs` are features of such samples
};

// The shards into which a configuration cuts its batches; `ranks` may be null.
job::Sharding sharding_of(const Config& config, job::Ranks* ranks);

struct NetTraining {
  // Freezes layers and makes the optimizer; allocates nothing. `config` must outlive it.
  NetTraining(const Config& config, models::Model model, std::shared_ptr<optim::Optimizer> own_optimizer = nullptr);
  ~NetTraining();
  NetTraining(const NetTraining&) = delete;
  NetTraining& operator=(const NetTraining&) = delete;

  // Plans the step for full batches of these types; once more with other options plans it again. `data`, which must
  // outlive the step, makes the batches itself; null: they are given. `ranks`, with whom the batch is shared, must,
  // too; null: it is not. The averages begin as copies of the weights, which must be there by now.
  void plan_step(const std::pair<Type, Type>& batch_types, const CompileOptions& options,
                 const DeviceData* data = nullptr, job::Ranks* ranks = nullptr);
  // Plans the evaluation of a test set of so many samples, whose batches have these types, in memory beside the step's.
  void plan_evaluation(int64_t test_count, const TestTypes& types);
  // A second evaluator with the same settings, for a network whose function has changed, such as by a temperature.
  std::unique_ptr<Evaluator> make_evaluator();
  // From here on the rest of the model, which takes the features of these samples, is what is trained and evaluated.
  // Before plan_step.
  void train_rest(const FeatureSamples& samples);
  // The counts and bytes of the data are left 0.
  Planned planned() const;

  // Each rank keeps a part of the optimizer's states from here on; before plan_step.
  void share_states(job::Ranks& ranks);
  // The variables beside the model's that a step changes and this process keeps; states_with replaces the optimizer's.
  std::vector<nn::NamedVariable> states() const { return states_with(optimizer->states()); }
  std::vector<nn::NamedVariable> states_with(const std::vector<nn::NamedVariable>& of_optimizer) const;
  // Names the first of weights and states that is not finite; "" where all are.
  std::string first_nonfinite() const;
  // Calls f with the averaged weights in the net's place, where there are any.
  template <class F>
  auto with_averages(F f) {
    struct Swapped {
      optim::EMA* averages;
      explicit Swapped(optim::EMA* a) : averages(a) {
        if (averages) averages->swap();
      }
      void back() {
        if (averages) std::exchange(averages, nullptr)->swap();
      }
      ~Swapped() {  // if f throws: a checkpoint that follows holds the weights, not their averages
        try {
          back();
        } catch (...) {  // a device that is gone: the exception of f is reported
        }
      }
    } swapped(averages.get());
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      swapped.back();
    } else {
      auto result = f();
      swapped.back();
      return result;
    }
  }

  const Config& config;
  Array class_weights;                              // LossOptions::class_weights; to be set before the step is planned
  Evaluator::Keep keep = Evaluator::Keep::figures;  // of evaluations; the same
  models::Model model;
  std::string frozen;  // a line about the layers that are not trained; "" if all are
  std::shared_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::EMA> averages;      // null without model_ema
  std::unique_ptr<job::StateShares> shares;  // null where every process keeps all states
  Type inputs, targets;
  CompileOptions compile;
  optim::UnusedParameters unused;  // known once the step is planned
  std::unique_ptr<TrainStep> step;
  EvaluationBeside evaluation;

 private:
  // The rest of the network behind its frozen part, as it is in training and in evaluation.
  struct Rest {
    FeatureSamples samples;
    models::Model trained, evaluated;
  };
  const models::Model& stepped() const { return rest_ ? rest_->trained : model; }
  models::Model& evaluated() { return rest_ && rest_->samples.tested ? rest_->evaluated : model; }

  std::unique_ptr<Rest> rest_;  // null where samples are trained
};

}  // namespace freight::train
