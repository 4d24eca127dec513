// Memory of a training step by kind, read from its plans and its variables: nothing is run or allocated.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "freight/ir/type.h"

namespace freight {
class Plan;
}

namespace freight::plan {

// Bytes are for these, in the order of listings.
enum class Part : uint8_t {
  weights,       // and running statistics
  optimizer,     // moments and counts
  averages,      // of the weights
  accumulators,  // of gradients over the parts of a batch
  activations,   // of the forward half
  gradients,     // of weights
  signals,       // of the backward half: gradients of activations
  workspaces,    // of kernels
  packing,       // of the arena: between tensors, where none fits
  constants,     // that steps read
  staging,       // batches that are being read ahead, and the files of a small set of images
  evaluation,    // arena of the evaluation step, and its batches that are being read ahead
  checkpoint,    // the copy that is being written while the run goes on
  process,       // of a run on a processor: threads, kernels compiled at run time, pages of libraries
  host,          // no part of the total: what was offloaded, and for a device beside it staging and checkpoint too
};
inline constexpr size_t kParts = 15;
const char* to_string(Part part);

// A tensor, or a workspace, that is alive at the peak.
struct LiveTensor {
  std::string path;  // of the module; "" outside of all
  std::string what;  // the op that makes it
  Type type;         // of a workspace u8[bytes]
  size_t bytes = 0;
  Part part = Part::activations;
};

struct ArenaUse {
  std::array<size_t, kParts> bytes{};  // by kind, at the peak; their sum is the arena
  std::vector<LiveTensor> live;        // largest first
  std::string peak;                    // the step at the peak
};
// Bytes of the constants that a plan's steps read: zeros, tables.
size_t constant_bytes(const Plan& plan);
// The arena of a training step's plan. The peak is the step with the largest sum of live tensors.
ArenaUse arena_use(const Plan& plan);

}  // namespace freight::plan
