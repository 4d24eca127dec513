// Memory and work of one CUDA device: its primary context, a stream for all kernels, one each for the plan's copies to
// the host and from it, and one for transfers.
// What the host sends goes through pinned buffers and, by the stream for transfers, into a device buffer beside each;
// the kernels' stream copies it to its place when its turn comes. So a batch crosses over while the step before
// computes, and the addresses that kernels see never change.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "freight/backend/gpu/cuda/driver.h"
#include "freight/base/device_memory.h"

namespace freight::cuda {

class Memory final : public DeviceMemory, public std::enable_shared_from_this<Memory> {
 public:
  Memory(const Driver& driver, int index);
  ~Memory() override;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* allocate(size_t bytes) override;
  void* allocate_host(size_t bytes) override;
  void release(void* address) noexcept override;
  size_t free_bytes() const override;
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes, Queue queue) override;
  std::unique_ptr<DeviceMark> mark() override;
  std::unique_ptr<DeviceRead> read_later(const void* from, size_t bytes) override;
  void wait() override;
  void pace() override;
  bool records() const override { return true; }
  std::unique_ptr<DeviceRecording> record(const std::function<void()>& work) override;

  const Driver& driver() const { return driver_; }
  // Where kernels report indices out of range (gpu/faults.h). download() throws what it finds there.
  void* fault_words() const { return fault_words_; }
  Stream stream(Queue queue = Queue::kernels) const { return streams_[static_cast<size_t>(queue)]; }
  // Makes the device's context current on this thread and keeps other threads from enqueueing meanwhile: what they did
  // would become part of a recording.
  std::unique_lock<std::recursive_mutex> enter() const;

 private:
  // A read that is not waited for: pinned memory, and when its bytes are there.
  struct Read {
    size_t bytes = 0;
    void* host = nullptr;
    Event done = nullptr;
  };
  class PinnedRead;
  static constexpr size_t kBuffers = 4, kLeastBytes = size_t{64} << 10, kMostBytes = size_t{16} << 20;
  struct Buffer {
    size_t bytes = 0;
    void* host = nullptr;  // pinned
    Address device = 0;
    Event arrived = nullptr;  // on the device
    Event used = nullptr;     // both sides may be written again
  };
  Buffer& next_buffer(size_t bytes);
  void fetch(void* to, const void* from, size_t bytes);
  Status wait_for_all() const;
  Read idle_read(size_t bytes);
  bool pinned(const void* address) const;
  void release(Buffer& buffer) noexcept;

  const Driver& driver_;
  int index_;
  inline static std::atomic<uint64_t> made_ = 0;
  const uint64_t serial_ = ++made_;  // a context that is opened anew may lie where the last one did
  Device device_ = 0;
  Context context_ = nullptr;
  std::array<Stream, kQueues> streams_ = {};
  Stream& stream_ = streams_[0];  // of the kernels
  Stream transfers_ = nullptr;
  mutable std::recursive_mutex mutex_;
  std::array<Buffer, kBuffers> buffers_;
  size_t next_ = 0;
  std::vector<Read> idle_reads_;
  std::map<const char*, size_t> pinned_;  // bytes of the blocks of allocate_host(), by address
  Event paced_ = nullptr;                 // behind the run before the last
  void* fault_words_ = nullptr;
  bool recording_ = false;
};

}  // namespace freight::cuda
