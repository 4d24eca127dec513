// Where a run begins: with its first step, or at a checkpoint; and its claim on the output directory.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "freight/train/checkpoint.h"
#include "freight/train/config.h"

namespace freight::train {

struct StartPoint {
  std::shared_ptr<RunLock> lock;         // of the output directory, where something lay in it before
  std::optional<Checkpoint> checkpoint;  // what the run goes on from; none for a new run
  bool in_its_directory = false;         // the run goes on in the directory of the checkpoint's run
  std::vector<std::string> notes, warnings;
  std::optional<RunPosition> told = {};  // where the run stands, by the rank that found the checkpoint

  RunPosition place() const { return checkpoint ? checkpoint->place : told.value_or(RunPosition{}); }
};

// Says what config.resume means; `found` is what it led to where that was looked for. Settles config.output_dir and
// config.overwrite. Throws Error: usage where the directory cannot be had, checkpoint.
StartPoint start_point(Config& config, std::optional<Found> found);

}  // namespace freight::train
