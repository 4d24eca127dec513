// See memory.h.
#include "freight/backend/gpu/opencl/memory.h"

#include <algorithm>
#include <cstdint>

#include "freight/base/error.h"
#include "freight/base/library.h"

namespace freight::opencl {

namespace {
// No address of the host: an operand of one kind taken for the other is found out.
constexpr uintptr_t kFirst = uintptr_t{1} << 60, kPage = 4096;
}  // namespace

class Memory::QueueEvent final : public Event {
 public:
  explicit QueueEvent(const Memory& memory) : memory_(memory) {}
  ~QueueEvent() override { forget(); }
  QueueEvent(const QueueEvent&) = delete;
  QueueEvent& operator=(const QueueEvent&) = delete;
  void set(Queue queue) override {
    forget();
    check(api_.EnqueueMarkerWithWaitList(memory_.queue(queue), 0, nullptr, &event_), "an event");
    check(api_.Flush(memory_.queue(queue)), "an event");  // else nobody outside of the queue may wait for it
  }
  void await(Queue queue) override {
    check(api_.EnqueueMarkerWithWaitList(memory_.queue(queue), 1, &event_, nullptr), "an event");
  }
  void wait() override {
    if (event_) check(api_.WaitForEvents(1, &event_), "the device's work");
  }

 private:
  void forget() {
    if (event_ && !leaving()) api_.ReleaseEvent(event_);
    event_ = nullptr;
  }
  const Memory& memory_;
  const Api& api_ = api();
  cl_event event_ = nullptr;
};

std::unique_ptr<gpu::QueuedMemory::Event> Memory::make_event() { return std::make_unique<QueueEvent>(*this); }

Memory::Memory(cl_device_id device) : api_(api()), device_(device), next_(kFirst) {
  cl_int status = CL_SUCCESS;
  context_ = api_.CreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
  check(status, "cannot open the device");
  for (cl_command_queue& q : queues_) {
    q = api_.CreateCommandQueue(context_, device_, 0, &status);
    check(status, "cannot make a command queue");
  }
  open();
}

void* Memory::allocate(size_t bytes, cl_mem_flags flags) {
  cl_int status = CL_SUCCESS;
  const size_t size = std::max<size_t>(bytes, 64);
  const cl_mem handle = api_.CreateBuffer(context_, flags, size, nullptr, &status);
  const bool on_host = (flags & CL_MEM_ALLOC_HOST_PTR) != 0;
  check(status, cat("cannot allocate ", human_bytes(static_cast<double>(bytes)),
                    on_host ? " of pinned memory" : " on the device")
                    .c_str());
  std::lock_guard lock(mutex_);
  const uintptr_t address = next_;
  next_ += (size / kPage + 2) * kPage;
  blocks_[address] = {handle, size, on_host};
  return reinterpret_cast<void*>(address);
}

void Memory::release(void* address) noexcept {
  std::lock_guard lock(mutex_);
  const auto it = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (it == blocks_.end()) return;
  api_.ReleaseMemObject(it->second.handle);
  blocks_.erase(it);
}

Memory::BufferOffset Memory::find(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  auto it = blocks_.upper_bound(at);
  FREIGHT_CHECK(it != blocks_.begin(), "an operand does not lie on the OpenCL device");
  --it;
  FREIGHT_CHECK(at - it->first <= it->second.bytes, "an operand does not lie on the OpenCL device");
  return {it->second.handle, at - it->first};
}

void* Memory::pin(size_t bytes) {
  void* const address = allocate_host(bytes);
  cl_int status = CL_SUCCESS;
  void* host = api_.EnqueueMapBuffer(queue(kTransfers), find(address).block, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                     bytes, 0, nullptr, nullptr, &status);
  check(status, "cannot pin memory of the host");
  pinned_[host] = address;
  return host;
}

void Memory::unpin(void* host) noexcept {
  release(pinned_[host]);
  pinned_.erase(host);
}

void Memory::send(void* to, const void* from, size_t bytes) {
  const BufferOffset t = find(to);
  check(api_.EnqueueWriteBuffer(queue(kTransfers), t.block, CL_FALSE, t.offset, bytes, from, 0, nullptr, nullptr),
        "upload");
}

void Memory::fetch(void* to, const void* from, size_t bytes) {
  const BufferOffset f = find(from);
  check(api_.EnqueueReadBuffer(queue(), f.block, CL_FALSE, f.offset, bytes, to, 0, nullptr, nullptr), "download");
}

size_t Memory::free_bytes() const {
  cl_ulong total = 0;
  check(api_.GetDeviceInfo(device_, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof total, &total, nullptr), "the device's memory");
  const size_t used = allocated_bytes();
  return total > used ? static_cast<size_t>(total) - used : 0;
}

size_t Memory::allocated_bytes() const {
  std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [address, block] : blocks_) sum += block.on_host ? 0 : block.bytes;
  return sum;
}

void Memory::copy(void* to, const void* from, size_t bytes, Queue queue) {
  if (bytes == 0) return;
  const BufferOffset t = find(to), f = find(from);
  check(api_.EnqueueCopyBuffer(this->queue(queue), f.block, t.block, f.offset, t.offset, bytes, 0, nullptr, nullptr),
        "copy");
}

void Memory::wait() {
  for (const cl_command_queue q : queues_) check(api_.Finish(q), "the device's work");
}

}  // namespace freight::opencl
