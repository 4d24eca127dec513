// These options say what a plan may do to live in a device's memory that is smaller than it would like, and what it
// may assume of its states. remat.cpp and offload.cpp do it, and fold.cpp, and once_steps in memory.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace freight {

// Which activations of a training step are computed again instead of kept.
enum class Recompute : uint8_t {
  // Nothing of it.
  none,
  automatic,  // what memory traffic alone pays for: no contraction, convolution or attention runs twice
  all,        // anything
};

// Names what waits in host memory, so that the arena stays within a limit.
enum class Offload : uint8_t {
  // Nothing of it.
  none,
  activations,  // as many to host memory as the arena's limit asks for
  optimizer,    // the state of the optimizer: there all the time
  all,          // optimizer, and activations as in automatic
  automatic,    // each activation is kept, computed again or offloaded, whatever costs least
};

// "none", "auto", "all".
const std::vector<std::string>& recompute_names();
const std::string& to_string(Recompute recompute);  // its name among these
// "none", "activations", "optimizer", "all", "auto".
const std::vector<std::string>& offload_names();
const std::string& to_string(Offload offload);  // its name among these
// Throw Error(usage) for another word.
Recompute parse_recompute(const std::string& word);
Offload parse_offload(const std::string& word);  // as parse_recompute

// Figures of a device by which copying is held against computing again, per second.
struct DeviceSpeed {
  double transfer = 6e9;  // bytes, to host memory or from it
  double bytes = 2e10;    // of the device's memory, read or written
  double flops = 2e11;    // of its arithmetic
  bool beside = false;    // copies to the host and from it run beside the kernels
  friend bool operator==(const DeviceSpeed&, const DeviceSpeed&) = default;
};

// The time of a sum over ranks is start + per_byte * bytes, in seconds. These are Gloo's over 1 Gbit/s
// (bench/results/2026-11-27-gloo-epyc-2-cores.txt); a job measures its own.
struct SumCost {
  double start = 4e-4, per_byte = 8.4e-9;                             // seconds, and seconds per byte
  double of(double bytes) const { return start + per_byte * bytes; }  // seconds that a sum of so many bytes takes
  friend bool operator==(const SumCost&, const SumCost&) = default;
};

// The memory that a plan may take for its activations, and what may be done to keep it.
struct ArenaLimit {
  Offload offload = Offload::none;  // what may wait in host memory
  size_t bytes = 0;                 // that the plan's arena may have; 0: any number
  DeviceSpeed speed = {};           // by which the choice is made
  friend bool operator==(const ArenaLimit&, const ArenaLimit&) = default;
};

// That a step changes its states, or somebody between two steps; or that they are constants of the plan's life, so that
// what depends on them alone is computed once.
enum class States : uint8_t { change, frozen };

}  // namespace freight
