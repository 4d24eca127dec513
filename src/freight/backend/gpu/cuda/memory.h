// Memory and work of one CUDA device: its primary context and a stream for each queue (gpu/queued_memory.h).
#pragma once
#include <atomic>
#include <set>
#include <string>

#include "freight/backend/gpu/cuda/driver.h"
#include "freight/backend/gpu/queued_memory.h"

namespace freight::cuda {

class Memory final : public gpu::QueuedMemory {
 public:
  Memory(const Driver& driver, int index);
  ~Memory() override;

  void* allocate(size_t bytes) override;
  void* allocate_host(size_t bytes) override;
  void release(void* address) noexcept override;
  size_t free_bytes() const override;
  void copy(void* to, const void* from, size_t bytes, Queue queue) override;
  void wait() override;
  bool records() const override { return true; }
  std::unique_ptr<DeviceRecording> record(const std::function<void()>& work) override;

  const Driver& driver() const { return driver_; }
  Stream stream(Queue queue = Queue::kernels) const { return streams_[static_cast<size_t>(queue)]; }
  // True while what is enqueued becomes part of a recording.
  bool recording() const { return recording_; }
  // Makes the device's context current on this thread and keeps other threads from enqueueing meanwhile: what they did
  // would become part of a recording.
  std::unique_lock<std::recursive_mutex> enter() const override;
  // Makes the context current on this thread, which enqueues nothing and so keeps nobody out.
  void look_in() const { driver_.context_set(context_); }
  // Says that the work that was enqueued will never be done: from now on every wait of the host throws Error(peer_lost)
  // with these words. From any thread.
  void give_up(const std::string& why) noexcept;
  // Says that whatever would never have been done is gone from the queues: waits are sound again.
  void recover() noexcept { given_up_.store(false, std::memory_order_release); }

 private:
  class StreamEvent;
  void need_sound() const;
  std::unique_ptr<Event> make_event() override;
  void* pin(size_t bytes) override { return allocate_host(bytes); }
  void unpin(void* host) noexcept override { release(host); }
  void send(void* to, const void* from, size_t bytes) override;
  void fetch(void* to, const void* from, size_t bytes) override;
  void drain() noexcept override { driver_.stream_wait(stream()); }
  Status wait_for_all() const;

  const Driver& driver_;
  int index_;
  inline static std::atomic<uint64_t> made_ = 0;
  const uint64_t serial_ = ++made_;  // a context that is opened anew may lie where the last one did
  Device device_ = 0;
  Context context_ = nullptr;
  std::array<Stream, kQueues + 1> streams_ = {};
  std::set<void*> pinned_;  // blocks of allocate_host()
  bool recording_ = false;
  std::atomic<bool> given_up_ = false;
  std::string why_given_up_ = {};  // written before
};

}  // namespace freight::cuda
