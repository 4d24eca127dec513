// Data parallel: what summing gradients over several devices adds to a training step. Predicted: latency + bytes /
// bandwidth of a ring, for buckets of gradients in the order in which the plan finishes them, beside the steps that
// follow.
#pragma once
#include <string>
#include <vector>

#include "freight/plan/catalog.h"
#include "freight/plan/work.h"

namespace freight::plan {

// Several devices of one kind: eight in a machine, machines connected by a network.
struct Fleet {
  int64_t devices = 1;
  double network_gbit = 100;  // per second, of a machine
};
inline constexpr int64_t kDevicesPerMachine = 8;

// A link connects neighbours of the ring.
struct Link {
  double gb = 0;  // per second and direction; 0: unknown
  std::string name;
};
// The slowest on the way around: the device's own link, PCIe where it has none for so many, or the network.
Link link_of(const Device& device, const Fleet& fleet);

// `fraction` of the link's rate, `latency` in seconds per hop of the ring.
struct LinkUse {
  double fraction = 0, latency = 0;
};

struct Summing {
  double seconds = 0;  // of all transfers
  double exposed = 0;  // by which the last ends after the last step
};
// `seconds`: of each step of `work`. `bytes` of gradients in all: what no step is seen to finish is sent behind the
// last.
Summing sum_gradients(const std::vector<Work>& work, const std::vector<double>& seconds, double bytes,
                      const Fleet& fleet, const Link& link, const LinkUse& use);

}  // namespace freight::plan
