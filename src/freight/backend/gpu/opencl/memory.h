// Memory of an OpenCL device, and a command queue for each queue (gpu/queued_memory.h).
// OpenCL 1.2 has handles instead of addresses: every block gets a range of numbers of its own that serve as addresses,
// and a kernel's operand is found again as (handle, offset).
#pragma once
#include <map>
#include <mutex>

#include "freight/backend/gpu/opencl/api.h"
#include "freight/backend/gpu/queued_memory.h"

namespace freight::opencl {

class Memory final : public gpu::QueuedMemory {
 public:
  // Context and queue are never released: blocks may outlive everything else of the program.
  explicit Memory(cl_device_id device);

  void* allocate(size_t bytes) override { return allocate(bytes, CL_MEM_READ_WRITE); }
  void* allocate_host(size_t bytes) override { return allocate(bytes, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR); }
  void release(void* address) noexcept override;
  size_t free_bytes() const override;
  void copy(void* to, const void* from, size_t bytes, Queue queue) override;
  void wait() override;

  struct BufferOffset {
    cl_mem block;
    size_t offset;  // bytes
  };
  // Throws Error(runtime) for what is no address of this device.
  BufferOffset find(const void* address) const;
  // Bytes of all blocks on the device that are allocated.
  size_t allocated_bytes() const;

  cl_device_id device() const { return device_; }
  cl_context context() const { return context_; }
  cl_command_queue queue(Queue queue = Queue::kernels) const { return queues_[static_cast<size_t>(queue)]; }

 private:
  struct Block {
    cl_mem handle;
    size_t bytes;
    bool on_host;
  };
  class QueueEvent;
  std::unique_ptr<Event> make_event() override;
  void* pin(size_t bytes) override;
  void unpin(void* host) noexcept override;
  void send(void* to, const void* from, size_t bytes) override;
  void fetch(void* to, const void* from, size_t bytes) override;
  void drain() noexcept override { api_.Finish(queue()); }
  void* allocate(size_t bytes, cl_mem_flags flags);
  const Api& api_;
  cl_device_id device_;
  cl_context context_;
  std::array<cl_command_queue, kQueues + 1> queues_ = {};
  mutable std::mutex mutex_;
  std::map<uintptr_t, Block> blocks_;  // by first address
  std::map<void*, void*> pinned_;      // addresses by where they are mapped
  uintptr_t next_;
};

}  // namespace freight::opencl
