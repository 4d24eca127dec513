// The memory of a training step by kind, read from its plans and variables; nothing is run or allocated.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "freight/ir/type.h"

namespace freight {
class Plan;
}

namespace freight::plan {

// The uses of bytes, in the order of listings.
enum class Part : uint8_t {
  weights,       // weights and running statistics
  optimizer,     // the optimizer's moments and counts
  averages,      // moving averages of the weights
  accumulators,  // gradients that are accumulated over micro-batches
  activations,   // activations of the forward pass
  gradients,     // gradients of weights
  signals,       // gradients of activations, in the backward pass
  workspaces,    // workspaces of kernels
  packing,       // gaps of the arena between tensors, in which none fits
  constants,     // constants that steps read
  staging,       // batches that are read ahead, and the files of a small set of images
  evaluation,    // the arena of the evaluation step, and its batches that are read ahead
  checkpoint,    // the copy that is written while the run continues
  folds,         // the network that waits while those of folds are trained (--folds)
  process,       // of a run on a CPU: threads, kernels compiled at run time, pages of libraries
  // Not part of the total: what was offloaded, and for a device with its own memory staging and checkpoint, too.
  host,
};
inline constexpr size_t kParts = 16;
const char* to_string(Part part);

// A tensor or workspace that is live at the peak.
struct LiveTensor {
  std::string path;  // the path of its module; "" outside of all
  std::string what;  // the op that makes it
  Type type;         // u8[bytes] for a workspace
  size_t bytes = 0;
  Part part = Part::activations;
};

struct ArenaUse {
  std::array<size_t, kParts> bytes{};  // by kind, at the peak; their sum is the arena
  std::vector<LiveTensor> live;        // largest first
  std::string peak;                    // the step at the peak
};
// The bytes of constants that a plan's steps read, such as zeros and tables.
size_t constant_bytes(const Plan& plan);
// The arena of a training step's plan. The peak is the step with the largest sum of live tensors.
ArenaUse arena_use(const Plan& plan);

}  // namespace freight::plan
