// Checkpoints: the directory step-N with model.safetensors (the weights, as a bundle), state.safetensors (what else
// a run needs to resume as if it had never stopped) and manifest.json (size of both, XXH3-128 of each of their
// parts). A checkpoint appears under its name whole or not at all.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/io/digest.h"
#include "freight/io/safetensors.h"
#include "freight/nn/module.h"
#include "freight/store/bundle.h"
#include "freight/train/config.h"
#include "freight/train/evaluate.h"

namespace freight::train {

// The position of a run between two steps. Seed and epoch determine the samples; the number of ranks may change.
struct RunPosition {   // results on another number of ranks are bitwise the same only with --shards
  int64_t step = 0;    // steps done
  int64_t epoch = 1;   // the running one, from 1
  int64_t batch = 0;   // batches of it that are done
  bool closed = true;  // no epoch is in progress: the last one is complete, including its evaluation if one was due
  // Sums over those batches.
  double loss_sum = 0, right = 0;
  int64_t seen = 0;
  double last_loss = 0;
  std::optional<double> lr = {};  // that the observer asked for, in place of the schedule's
  // The score of an evaluation, by which they are compared; the higher, the better. See usual_score.
  double best_score = -std::numeric_limits<double>::infinity();
  int64_t best_step = 0, best_epoch = 0;  // of best_score; 0: none
  Evaluation best_test = {};              // the evaluation that reached it
  Evaluation test = {};                   // the last one
  double train_seconds = 0;
  // Early stopping and the plateau schedule: the best score that counted as an improvement, the evaluations since then
  // (stale), those since then or the last cut of the learning rate (plateau), and the product of the cuts (lr_factor).
  double improved_score = -std::numeric_limits<double>::infinity();
  int64_t stale = 0, plateau = 0;
  double lr_factor = 1;

  // True if this score is the best so far, which is then updated.
  bool improves(double score) {
    const bool best = score > best_score;
    if (best) best_score = score;
    return best;
  }
  // Updates the counts of early stopping and of the plateau schedule by an evaluation's score.
  void count(double score, double least_improvement) {
    const bool improved = score > improved_score + least_improvement;
    stale = improved ? 0 : stale + 1;
    plateau = improved ? 0 : plateau + 1;
    if (improved) improved_score = score;
  }
};
// The metric, where lower is better its negative; else top1, or the negative loss of a regression.
inline double usual_score(const Evaluation& e, bool higher_is_better = true) {
  return e.metric ? (higher_is_better ? *e.metric : -*e.metric) : e.top1.value_or(-e.loss);
}

struct RunState {
  RunPosition place;
  std::vector<nn::NamedVariable> variables;  // of optimizer, averages, loss scale and random numbers
  Config config;
  uint64_t fingerprint = 0;  // of the training data
  bool averaged = false;     // the model has the weights' averages, and the variables "ema." have the weights
  // State that other ranks keep. Its memory is passed to the snapshot.
  std::vector<nn::NamedArray> given = {};
};

// Copies of all values at one moment, to be written while the run goes on.
struct Snapshot {
  int64_t step = 0;
  io::SafeTensors model, state;
  size_t given = 0;  // so many of the state's tensors, the last ones, were given
};
// The values themselves, where the device's memory is the host's: to be written before the run goes on.
Snapshot values_of(const store::Bundle& bundle, const RunState& state);
// `reuse` is one that is not needed any more: its memory is written over, which takes half the time of fresh memory.
Snapshot snapshot(const store::Bundle& bundle, const RunState& state, Snapshot reuse = {});
// Makes the directory, in place of one of that name: at every moment there is a whole one. Throws Error(runtime) where
// it cannot be written, and leaves nothing of it then.
void save_checkpoint(const std::string& dir, const Snapshot& snapshot);

struct Checkpoint {
  std::string dir;
  RunPosition place;
  // Without what belongs to a machine: of paths the last part, but whole where the run's config.json has them.
  Config config;
  uint64_t fingerprint = 0;
  bool averaged = false;  // see RunState
  // The content of the files, read once; restore() lets go of it.
  std::shared_ptr<const io::SafeTensors> model, state;
};

class RunLock;

// The checkpoint to resume from, and warnings about damaged ones that were skipped.
struct Found {
  // Locks the run's directory if the run resumes in it, so that no other process changes the checkpoint.
  std::shared_ptr<RunLock> lock;
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> warnings;
};
// The checkpoint that `resume` means: the path of a run's directory (its newest), of a checkpoint, or of a file in it;
// or "auto": the newest intact one in the output directory, and none if there is no run. `warnings` names the damaged
// ones that auto skips. Throws Error(checkpoint) for a damaged one, with the damaged file and the path of the newest
// intact checkpoint; Error(usage) for a path without one, or if another process uses that run.
Found find_checkpoint(const std::string& resume, const std::string& output_dir);
// Paths of a run's checkpoints, the newest first; nothing is read of them.
std::vector<std::string> checkpoints_of(const std::string& run);
// Takes a checkpoint away: first its name, so that what has the name is whole.
void remove_checkpoint(const std::string& dir);
// Takes away what processes left in a folder of checkpoints that were killed there; a checkpoint that was about to be
// replaced gets its name back. For the holder of the run's lock.
void tidy_checkpoints(const std::string& folder);
// The step that a checkpoint's path names.
int64_t step_of(const std::string& checkpoint);
// Parsers of untrusted input: manifest.json's entry for a file, and the metadata of state.safetensors. Throw
// Error(checkpoint) that names `path` for anything that no checkpoint contains.
io::PartHashes hashes_in(const std::string& manifest, const std::string& file, const std::string& path);
void read_state(const std::map<std::string, std::string>& metadata, const std::string& path, Checkpoint& out);
// The directory of the run that a checkpoint is part of.
std::string run_of(const Checkpoint& checkpoint);
// Puts weights and state back. Throws Error(checkpoint) where they are not those of this net and optimizer. `in_files`
// is what files have in place of the model, if that is something else.
void restore(Checkpoint& checkpoint, models::Model& model, const std::vector<nn::NamedVariable>& variables,
             const models::Model* in_files = nullptr);
// Throws Error(usage) naming flag, old and new value where the configuration would be another run than the
// checkpoint's; its length, and what cannot change results, may differ.
void need_same_run(const Checkpoint& checkpoint, const Config& config);

}  // namespace freight::train
