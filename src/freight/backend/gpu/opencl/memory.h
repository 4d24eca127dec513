// Memory of an OpenCL device, and its command queues: one for kernels, one each for the plan's copies to the host and
// from it, and one for what the host sends, which goes through pinned buffers into a device buffer beside each; the
// kernels' queue copies it to its place when its turn comes. So a batch crosses over while the step before computes.
// OpenCL 1.2 has handles instead of addresses: every block gets a range of numbers of its own that serve as addresses,
// and a kernel's operand is found again as (handle, offset).
#pragma once
#include <array>
#include <map>
#include <mutex>

#include "freight/backend/gpu/opencl/api.h"
#include "freight/base/device_memory.h"

namespace freight::opencl {

class Memory final : public DeviceMemory {
 public:
  // Context and queue are never released: blocks may outlive everything else of the program.
  explicit Memory(cl_device_id device);

  void* allocate(size_t bytes) override { return allocate(bytes, CL_MEM_READ_WRITE); }
  void* allocate_host(size_t bytes) override { return allocate(bytes, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR); }
  void release(void* address) noexcept override;
  size_t free_bytes() const override;
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes, Queue queue) override;
  std::unique_ptr<DeviceMark> mark() override;
  std::unique_ptr<DeviceRead> read_later(const void* from, size_t bytes) override;
  void wait() override;
  void pace() override;

  struct Part {
    cl_mem block;
    size_t offset;  // bytes
  };
  // Throws Error(runtime) for what is no address of this device.
  Part find(const void* address) const;
  // Where kernels report indices out of range (gpu/faults.h). download() throws what it finds there.
  void* fault_words() const { return fault_words_; }
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
  static constexpr size_t kBuffers = 4, kLeastBytes = size_t{64} << 10, kMostBytes = size_t{16} << 20;
  struct Buffer {
    size_t bytes = 0;
    cl_mem pinned = nullptr, device = nullptr;
    void* host = nullptr;     // of `pinned`
    cl_event used = nullptr;  // both may be written again
  };
  class EventRead;
  class EventMark;
  Buffer& next_buffer(size_t bytes);
  void* allocate(size_t bytes, cl_mem_flags flags);
  const Api& api_;
  cl_device_id device_;
  cl_context context_;
  std::array<cl_command_queue, kQueues> queues_ = {};
  cl_command_queue& queue_ = queues_[0];  // of the kernels
  cl_command_queue transfers_ = nullptr;
  mutable std::mutex mutex_;
  std::map<uintptr_t, Block> blocks_;  // by first address
  uintptr_t next_;
  std::mutex sending_;  // guards what follows
  std::array<Buffer, kBuffers> buffers_;
  size_t next_buffer_ = 0;
  cl_event paced_ = nullptr;  // behind the run before the last
  void* fault_words_;
};

}  // namespace freight::opencl
