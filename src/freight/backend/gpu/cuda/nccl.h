// Sums and moves between the CUDA devices of several processes by NVIDIA's NCCL, which is found at run time like the
// driver. It knows neither how ranks meet nor what they train: the caller passes the unique id from rank 0
// to the others, and tells which rank is lost.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "freight/backend/gpu/cuda/abi.h"
#include "freight/base/device_collectives.h"
#include "freight/base/library.h"

namespace freight::cuda {

// The library as found; its version is 22809 of 2.28.9. Loads it, but opens no device.
const Library& find_nccl();
std::string nccl_name();  // "NCCL 2.28.9", where it is found

struct NcclFunctions {
  FREIGHT_NCCL_FUNCTIONS(FREIGHT_POINTER)
};
const NcclFunctions& nccl_functions();  // loaded

// NCCL's unique id of a communicator: rank 0 makes it, and all ranks join with its bytes.
std::string new_nccl_id();

struct NcclJob {
  int rank = 0, world = 1;
  std::string id;                            // new_nccl_id() of rank 0
  double timeout = 120;                      // seconds that devices wait for each other
  std::function<std::string()> lost = {};    // the rank that is known to be lost, in words; "": none is
  std::function<std::string()> others = {};  // what the others do, in words, for when time is over
};

// Meets the other ranks, each with the device of its memory, of which each has another one. A thread of its own looks
// twenty times a second whether NCCL reports an error, whether a rank is lost while devices wait for it, or whether
// time is over; then it ends what was enqueued, which else would never end (NCCL does not see that a process of its
// host was killed). Throws Error(peer_lost) where a rank is lost meanwhile or does not come in time, Error(device)
// where the library cannot be used, or says so.
std::unique_ptr<DeviceCollectives> join_nccl(const std::shared_ptr<DeviceMemory>& memory, const NcclJob& job);

}  // namespace freight::cuda
