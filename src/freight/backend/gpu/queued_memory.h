// The memories of all drivers have the same queues: a queue for kernels, one each for the plan's copies to
// the host and from it, and one for transfers. What the host sends goes through pinned buffers and, by the queue for
// transfers, into a device buffer beside each; the kernels' queue copies it to its place when its turn comes. So a
// batch crosses over while the step before computes, and the addresses that kernels see never change.
#pragma once
#include <array>
#include <mutex>
#include <vector>

#include "freight/base/device_memory.h"

namespace freight::gpu {

class QueuedMemory : public DeviceMemory, public std::enable_shared_from_this<QueuedMemory> {
 public:
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  std::unique_ptr<DeviceRead> read_later(const void* from, size_t bytes) override;
  std::unique_ptr<DeviceMark> mark() override { return make_event(); }
  void pace() override;
  // Where kernels report indices out of range (faults.h). Reads throw what they find there.
  void* fault_words() const { return fault_words_; }
  // Keeps other threads from transfers meanwhile.
  virtual std::unique_lock<std::recursive_mutex> enter() const { return std::unique_lock(entered_); }

 protected:
  static constexpr Queue kTransfers = static_cast<Queue>(kQueues);
  // A mark that the host waits for, too; not where it was never set.
  class Event : public DeviceMark {
   public:
    virtual void wait() = 0;
  };
  // An event refers to its memory: who holds a mark holds the memory longer.
  virtual std::unique_ptr<Event> make_event() = 0;
  // Memory of the host for send() and fetch(), which enqueue: in the queue for transfers, and in that of the kernels.
  virtual void* pin(size_t bytes) = 0;
  virtual void unpin(void* host) noexcept = 0;
  virtual void send(void* to, const void* from, size_t bytes) = 0;
  virtual void fetch(void* to, const void* from, size_t bytes) = 0;
  // Returns when the kernels' queue is done, whatever came of it.
  virtual void drain() noexcept = 0;

  // For a driver's constructor, when all of the above can be called, and for the end, when no queue works any more.
  void open();
  void close() noexcept;

 private:
  struct Buffer {
    size_t bytes = 0;
    void *host = nullptr, *device = nullptr;  // of those for reads the host's alone
    std::unique_ptr<Event> arrived;           // on the device
    std::unique_ptr<Event> used;              // both sides may be written again
  };
  class Read;
  Buffer& next_buffer(size_t bytes);
  Buffer idle_buffer(size_t bytes);
  void release(Buffer& buffer) noexcept;
  using DeviceMemory::release;

  mutable std::recursive_mutex entered_;
  std::array<Buffer, 4> buffers_;
  size_t next_ = 0;
  std::vector<Buffer> idle_;      // for reads
  std::unique_ptr<Event> paced_;  // behind the run before the last
  void* fault_words_ = nullptr;
};

}  // namespace freight::gpu
