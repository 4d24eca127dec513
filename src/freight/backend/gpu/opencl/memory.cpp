// See memory.h.
#include "freight/backend/gpu/opencl/memory.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "freight/backend/gpu/faults.h"
#include "freight/base/error.h"

namespace freight::opencl {

namespace {
// No address of the host: an operand of one kind taken for the other is found out.
constexpr uintptr_t kFirst = uintptr_t{1} << 60, kPage = 4096;

// Waits for an event, if there is one, and lets go of it.
void finish(const Api& api, cl_event& event) {
  if (!event) return;
  const cl_int status = api.WaitForEvents(1, &event);
  api.ReleaseEvent(event);
  event = nullptr;
  check(status, "the device's work");
}
}  // namespace

class Memory::EventMark final : public DeviceMark {
 public:
  explicit EventMark(const Memory& memory) : memory_(memory) {}
  ~EventMark() override { forget(); }
  EventMark(const EventMark&) = delete;
  EventMark& operator=(const EventMark&) = delete;
  void set(Queue queue) override {
    forget();
    check(memory_.api_.EnqueueMarkerWithWaitList(memory_.queue(queue), 0, nullptr, &event_), "an event");
    check(memory_.api_.Flush(memory_.queue(queue)), "an event");  // else nobody outside of the queue may wait for it
  }
  void await(Queue queue) override {
    check(memory_.api_.EnqueueMarkerWithWaitList(memory_.queue(queue), 1, &event_, nullptr), "an event");
  }

 private:
  void forget() {
    if (event_) memory_.api_.ReleaseEvent(event_);
    event_ = nullptr;
  }
  const Memory& memory_;  // outlives the plans: it is the backend's
  cl_event event_ = nullptr;
};

// The bytes, and the words that report faults.
class Memory::EventRead final : public DeviceRead {
 public:
  EventRead(Memory& memory, const void* from, size_t bytes) : memory_(memory), bytes_(bytes) {
    const Part p = memory.find(from), faults = memory.find(memory.fault_words_);
    try {
      enqueue(p, faults);
    } catch (...) {  // what was enqueued writes here
      memory.api_.Finish(memory.queue_);
      if (done_) memory.api_.ReleaseEvent(done_);
      throw;
    }
  }
  ~EventRead() override {
    if (!done_) return;
    memory_.api_.WaitForEvents(1, &done_);
    memory_.api_.ReleaseEvent(done_);
  }
  EventRead(const EventRead&) = delete;
  EventRead& operator=(const EventRead&) = delete;
  void take(void* to) override {
    finish(memory_.api_, done_);
    std::copy(bytes_.begin(), bytes_.end(), static_cast<char*>(to));
    gpu::throw_fault(words_, memory_, memory_.fault_words_);
  }

 private:
  void enqueue(const Part& p, const Part& faults) {
    check(memory_.api_.EnqueueReadBuffer(memory_.queue_, faults.block, CL_FALSE, faults.offset, sizeof words_, words_,
                                         0, nullptr, nullptr),
          "download");
    // The queue is in order: the last is there when all is.
    check(memory_.api_.EnqueueReadBuffer(memory_.queue_, p.block, CL_FALSE, p.offset, bytes_.size(), bytes_.data(), 0,
                                         nullptr, &done_),
          "download");
    check(memory_.api_.Flush(memory_.queue_), "download");
  }

  Memory& memory_;
  std::vector<char> bytes_;
  int64_t words_[2] = {0, 0};
  cl_event done_ = nullptr;
};

Memory::Memory(cl_device_id device) : api_(api()), device_(device), next_(kFirst) {
  cl_int status = CL_SUCCESS;
  context_ = api_.CreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
  check(status, "cannot open the device");
  for (cl_command_queue* q : {&queues_[0], &queues_[1], &queues_[2], &transfers_}) {
    *q = api_.CreateCommandQueue(context_, device_, 0, &status);
    check(status, "cannot make a command queue");
  }
  fault_words_ = allocate(sizeof gpu::kNoFault);
  upload(fault_words_, gpu::kNoFault, sizeof gpu::kNoFault);
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

Memory::Part Memory::find(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  auto it = blocks_.upper_bound(at);
  FREIGHT_CHECK(it != blocks_.begin(), "an operand does not lie on the OpenCL device");
  --it;
  FREIGHT_CHECK(at - it->first <= it->second.bytes, "an operand does not lie on the OpenCL device");
  return {it->second.handle, at - it->first};
}

// The one whose turn it is, large enough and no longer used by anything enqueued.
Memory::Buffer& Memory::next_buffer(size_t bytes) {
  Buffer& b = buffers_[next_buffer_];
  next_buffer_ = (next_buffer_ + 1) % kBuffers;
  finish(api_, b.used);
  if (b.bytes >= bytes) return b;
  if (b.pinned) api_.ReleaseMemObject(b.pinned);
  if (b.device) api_.ReleaseMemObject(b.device);
  b = {};
  const size_t size = std::max(kLeastBytes, std::bit_ceil(bytes));
  cl_int status = CL_SUCCESS;
  b.pinned = api_.CreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, nullptr, &status);
  check(status, "cannot pin memory of the host");
  b.host = api_.EnqueueMapBuffer(transfers_, b.pinned, CL_TRUE, CL_MAP_WRITE, 0, size, 0, nullptr, nullptr, &status);
  check(status, "cannot pin memory of the host");
  b.device = api_.CreateBuffer(context_, CL_MEM_READ_WRITE, size, nullptr, &status);
  check(status, "cannot allocate a buffer for transfers");
  b.bytes = size;
  return b;
}

void Memory::upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const Part t = find(to);
  const std::lock_guard lock(sending_);
  for (size_t done = 0; done < bytes;) {
    const size_t n = std::min(bytes - done, kMostBytes);
    Buffer& b = next_buffer(n);
    std::memcpy(b.host, static_cast<const char*>(from) + done, n);
    cl_event arrived = nullptr;
    check(api_.EnqueueWriteBuffer(transfers_, b.device, CL_FALSE, 0, n, b.host, 0, nullptr, &arrived), "upload");
    const cl_int sent = api_.Flush(transfers_);
    const cl_int status =
        api_.EnqueueCopyBuffer(queue_, b.device, t.block, 0, t.offset + done, n, 1, &arrived, &b.used);
    api_.ReleaseEvent(arrived);
    check(sent, "upload");
    check(status, "upload");
    done += n;
  }
}

void Memory::download(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const Part p = find(from), faults = find(fault_words_);
  int64_t words[2] = {0, 0};  // come with what is waited for anyway: the queue is in order
  check(api_.EnqueueReadBuffer(queue_, faults.block, CL_FALSE, faults.offset, sizeof words, words, 0, nullptr, nullptr),
        "download");
  check(api_.EnqueueReadBuffer(queue_, p.block, CL_TRUE, p.offset, bytes, to, 0, nullptr, nullptr), "download");
  gpu::throw_fault(words, *this, fault_words_);
}

std::unique_ptr<DeviceRead> Memory::read_later(const void* from, size_t bytes) {
  return std::make_unique<EventRead>(*this, from, bytes);
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
  const Part t = find(to), f = find(from);
  check(api_.EnqueueCopyBuffer(this->queue(queue), f.block, t.block, f.offset, t.offset, bytes, 0, nullptr, nullptr),
        "copy");
}

std::unique_ptr<DeviceMark> Memory::mark() { return std::make_unique<EventMark>(*this); }

void Memory::wait() {
  for (const cl_command_queue q : queues_) check(api_.Finish(q), "the device's work");
}

// One run may compute and one wait behind it.
void Memory::pace() {
  const std::lock_guard lock(sending_);
  finish(api_, paced_);
  check(api_.EnqueueMarkerWithWaitList(queue_, 0, nullptr, &paced_), "the device's work");
  check(api_.Flush(queue_), "the device's work");
}

}  // namespace freight::opencl
