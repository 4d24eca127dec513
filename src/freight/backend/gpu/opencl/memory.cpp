// See memory.h.
#include "freight/backend/gpu/opencl/memory.h"

#include <algorithm>
#include <cstdint>

#include "freight/backend/gpu/faults.h"
#include "freight/base/error.h"

namespace freight::opencl {

namespace {
// No address of the host: an operand of one kind taken for the other is found out.
constexpr uintptr_t kFirst = uintptr_t{1} << 60, kPage = 4096;
}  // namespace

Memory::Memory(cl_device_id device) : api_(api()), device_(device), next_(kFirst) {
  cl_int status = CL_SUCCESS;
  context_ = api_.CreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
  check(status, "cannot open the device");
  queue_ = api_.CreateCommandQueue(context_, device_, 0, &status);
  check(status, "cannot make a command queue");
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

void Memory::upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const Part p = find(to);
  check(api_.EnqueueWriteBuffer(queue_, p.block, CL_TRUE, p.offset, bytes, from, 0, nullptr, nullptr), "upload");
}

void Memory::download(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const Part p = find(from), faults = find(fault_words_);
  int64_t words[2] = {0, 0};  // come with what is waited for anyway: the queue is in order
  check(api_.EnqueueReadBuffer(queue_, faults.block, CL_FALSE, faults.offset, sizeof words, words, 0, nullptr, nullptr),
        "download");
  check(api_.EnqueueReadBuffer(queue_, p.block, CL_TRUE, p.offset, bytes, to, 0, nullptr, nullptr), "download");
  if (words[0] == 0) return;
  upload(fault_words_, gpu::kNoFault, sizeof gpu::kNoFault);
  gpu::throw_fault(words);
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

void Memory::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const Part t = find(to), f = find(from);
  check(api_.EnqueueCopyBuffer(queue_, f.block, t.block, f.offset, t.offset, bytes, 0, nullptr, nullptr), "copy");
}

void Memory::wait() { check(api_.Finish(queue_), "the device's work"); }

}  // namespace freight::opencl
