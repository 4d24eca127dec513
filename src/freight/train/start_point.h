// The start of a run: its first step or a checkpoint, and the lock on the output directory.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/train/checkpoint.h"
#include "freight/train/config.h"

namespace freight::train {

struct StartPoint {
  std::shared_ptr<RunLock> lock;         // the lock on an output directory that was not empty
  std::optional<Checkpoint> checkpoint;  // the checkpoint to resume from; empty for a new run
  bool in_its_directory = false;         // the run resumes in the directory of the checkpoint's run
  std::vector<std::string> notes, warnings;
  std::optional<RunPosition> received = {};  // the position that rank 0 sent to a rank without the checkpoint

  RunPosition place() const { return checkpoint ? checkpoint->place : received.value_or(RunPosition{}); }
};

// Determines the start from config.resume; `found` is the checkpoint if the caller has already looked for it. Sets
// config.output_dir and config.overwrite. Throws Error: usage if the directory cannot be used, checkpoint.
StartPoint start_point(Config& config, std::optional<Found> found);

}  // namespace freight::train
