// Evaluation: the model's loss, and top-1 accuracy if it predicts classes, over a data set, exactly once per sample,
// with the network in evaluation mode.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "freight/data/feed.h"
#include "freight/store/bundle.h"
#include "freight/trace/compile.h"

namespace freight::job {
class Ranks;
}  // namespace freight::job

namespace freight::train {

struct Evaluation {
  int64_t count = 0;                // of the samples that could be read; of a language model, tokens
  double loss = 0;                  // mean over them, in nats for classes and tokens
  std::optional<double> top1 = {};  // percent; none for a model that regresses values
  double seconds = 0;
  std::optional<double> metric = {};  // mean over them of the model's own metric, which takes the place of top1
};

// The predictions of a model for the samples of an evaluation, in their order, and the targets.
struct Predictions {
  Array outputs;  // f32 (N, K): probabilities of classes, or values
  Array targets;  // i64 (N), or f32 (N) or (N, K)

  int64_t count() const { return outputs.defined() ? outputs.shape()[0] : 0; }
};

// Throws Error(usage) if the set does not fit the model: samples of another shape, values for a model that predicts
// classes or the other way round, more classes or another number of values than the model predicts.
void need_fit(const models::Model& model, const data::Dataset& set);
// Makes another data set fit the model: its preprocessing (sizes too) instead of the set's own, and for images in
// files class numbers by the class names of the model. Throws Error(data) for classes that the model lacks, and as
// need_fit.
void adapt(data::Dataset& set, const store::Bundle& bundle);

// Test-time augmentation of images: the mean of the results over several views of each sample. flip: the image and its
// mirror image. shift: those two, and each shifted by one pixel down and right, and up and left, at half the weight.
enum class TestViews { one, flip, shift };
// "none", "flip" or "shift"; false for other names.
bool parse_test_views(const std::string& name, TestViews& out);

inline constexpr int64_t kEvaluationBatch = 256;  // during training, at most

struct EvaluationOptions {
  int workers = -1;  // of the loader
  data::BadSamples bad = {};
  job::Ranks* ranks = nullptr;  // or null; each measures some of the batches
};
// The batches of an evaluation that a rank measures; all where `ranks` is null.
data::Share share_of_batches(job::Ranks* ranks);

// Keeps the compiled step between calls, so that every epoch replays the same plan.
class Evaluator {
 public:
  // Throws Error(usage) for views of a model that does not take images (C, H, W).
  enum class Keep { figures, predictions };  // of a run; those of a language model cannot be kept
  Evaluator(models::Model& model, const CompileOptions& options, int64_t batch_size, TestViews views = TestViews::one,
            Keep keep = Keep::figures);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  // Runs an epoch of the feed. `poll` is called between batches; returning false stops, and the result is that of the
  // batches so far. Throws Error(data) naming `what` where nothing could be read.
  // Given `ranks`, the feed is this rank's share of whole batches (data/loader.h), rank r's of world R those of number
  // r, r + R and so on, and the result that of all ranks' batches: each is measured once, and their figures are added
  // in the order of the batches, as one process does.
  Evaluation run(data::Feed& feed, const std::string& what,
                 const std::function<bool(int64_t done, int64_t total)>& poll = {}, job::Ranks* ranks = nullptr);
  // The same over all samples of a set.
  Evaluation run(const data::Dataset& set, const std::function<bool(int64_t done, int64_t total)>& poll = {},
                 const EvaluationOptions& options = {});
  // The predictions of the last run, of all ranks' batches in their order; none unless they are kept.
  const Predictions& predictions() const;
  // The plan for batches of these types; runs nothing.
  std::shared_ptr<const Plan> plan(const Type& x, const Type& y);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Inputs and targets of a test batch of so many samples.
using TestTypes = std::function<std::pair<Type, Type>(int64_t batch_size)>;
// The evaluation between training steps.
struct EvaluationBeside {
  std::unique_ptr<Evaluator> evaluator;
  int64_t batch = 0;
  Type inputs, targets;              // of a full batch
  std::shared_ptr<const Plan> plan;  // of a full batch
};
// The training step beside which the evaluation runs: the samples it runs at once, and the bytes of its arenas.
struct StepBeside {
  int64_t samples = 1;
  size_t arena_bytes = 0;
};
// Plans the evaluation in batches of kEvaluationBatch, or of the whole test set if that is smaller. If this needs a
// larger arena than the training step, in batches of the number of samples that the step runs at once.
EvaluationBeside evaluation_beside(models::Model& model, const CompileOptions& options, TestViews views,
                                   const StepBeside& step, int64_t test_count, const TestTypes& types,
                                   Evaluator::Keep keep = Evaluator::Keep::figures);

}  // namespace freight::train
