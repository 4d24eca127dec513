// Memory that executables of one device share which never run at once: one arena for their intermediate values, and one
// copy of each result of steps that run once. Plans of one network for batches of several sizes then pack its weights
// once.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "freight/base/array.h"
#include "freight/base/device_memory.h"
#include "freight/run/plan.h"

namespace freight {

// Memory of the host where there is no device, else of the device or its pinned memory of the host.
class Arena {
 public:
  Arena(std::shared_ptr<DeviceMemory> memory, size_t bytes, DeviceSide side = DeviceSide::device);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  void* address() const { return address_; }

 private:
  std::shared_ptr<DeviceMemory> memory_;
  std::shared_ptr<Storage> host_;
  void* address_ = nullptr;
};

// The result of steps that run once.
struct KeptValue {
  // How it is computed from the states; the value is the only output, and each value lies as its place says. Values
  // that are computed alike from the same states have the same bytes.
  Graph graph;
  ByValue<Place> places;
  std::vector<std::shared_ptr<Storage>> states;  // in the order of the graph's leaves
  std::shared_ptr<Arena> block;                  // of all values that one executable was the first to keep
  char* address = nullptr;
  bool computed = false;

  bool computed_as(const KeptValue& other) const;
};

class SharedArena {
 public:
  // Held by who runs in it or asks for more of it.
  std::mutex& mutex() { return mutex_; }
  // Where so many bytes are. The address may be another one than before: what lay there is gone.
  void* of(const std::shared_ptr<DeviceMemory>& memory, size_t bytes);
  // The kept values of a plan (null for all others), those of earlier executables where they still live.
  ByValue<std::shared_ptr<KeptValue>> keep(const Plan& plan, const std::vector<std::shared_ptr<Storage>>& states,
                                           const std::shared_ptr<DeviceMemory>& memory);

 private:
  std::mutex mutex_;
  std::unique_ptr<Arena> arena_;
  size_t bytes_ = 0;
  std::vector<std::weak_ptr<KeptValue>> kept_;
};

}  // namespace freight
