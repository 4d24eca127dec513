// See array.h.
#include "freight/base/array.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/storage_use.h"
#include "freight/base/threads.h"

namespace freight {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
std::atomic<int64_t> g_storage_bytes{0};

// Large blocks come from the system, full of zeros, on pages of its large size where it has them: kernels that step
// over long rows would otherwise wait for addresses to be looked up.
bool is_large(size_t bytes) { return bytes >= 2 * kHugePage; }

size_t rounded(size_t bytes) {
  const size_t unit = is_large(bytes) ? kHugePage : 64;
  return (bytes + unit - 1) / unit * unit;
}

void* allocate_large(size_t bytes) {
  const size_t size = rounded(bytes);
  void* p = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* begin = static_cast<char*>(p);
  auto* aligned = begin + (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (aligned > begin) munmap(begin, static_cast<size_t>(aligned - begin));
  if (aligned < begin + kHugePage) munmap(aligned + size, static_cast<size_t>(begin + kHugePage - aligned));
  madvise(aligned, size, MADV_HUGEPAGE);  // a hint: refused where the system has none
  return aligned;
}

// Bytes of the host, as they were.
class HostRead final : public DeviceRead {
 public:
  HostRead(const void* from, size_t bytes)
      : bytes_(static_cast<const char*>(from), static_cast<const char*>(from) + bytes) {}
  void take(void* to) override { std::memcpy(to, bytes_.data(), bytes_.size()); }

 private:
  std::vector<char> bytes_;
};

}  // namespace

size_t block_bytes(size_t bytes) { return is_large(bytes) ? rounded(bytes) : bytes; }

int64_t storage_bytes() { return g_storage_bytes; }

struct Storage::OnDevice {
  OnDevice(std::shared_ptr<DeviceMemory> where, size_t bytes, DeviceSide on)
      : memory(std::move(where)),
        side(on),
        address(side == DeviceSide::host ? memory->allocate_host(bytes) : memory->allocate(bytes)) {}
  ~OnDevice() { memory->release(address); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  std::shared_ptr<DeviceMemory> memory;
  DeviceSide side;
  void* address;
  bool stale = true;    // the host may have newer bytes
  bool newest = false;  // the host and the other devices have older bytes
};

Storage::Storage() = default;

std::shared_ptr<Storage> Storage::allocate(size_t bytes) {
  std::shared_ptr<Storage> s(new Storage);
  s->size_ = bytes;
  const size_t size = std::max<size_t>(rounded(bytes), 64);
  s->data_ = is_large(bytes) ? allocate_large(bytes) : std::aligned_alloc(64, size);
  if (!s->data_) fail(ErrorKind::capacity, "memory", "cannot allocate ", human_bytes(static_cast<double>(bytes)));
  s->owned_ = true;
  g_storage_bytes += static_cast<int64_t>(bytes);
  if (!is_large(bytes)) std::memset(s->data_, 0, size);
  return s;
}

std::shared_ptr<Storage> Storage::borrow(void* data, size_t bytes, std::shared_ptr<void> owner) {
  std::shared_ptr<Storage> s(new Storage);
  s->data_ = data;
  s->size_ = bytes;
  s->owner_ = std::move(owner);
  return s;
}

Storage::OnDevice* Storage::copy_in(const DeviceMemory* memory) const {
  for (const auto& copy : copies_) {
    if (copy->memory.get() == memory) return copy.get();
  }
  return nullptr;
}

void Storage::download_newest() const {
  for (const auto& copy : copies_) {
    if (copy->newest) copy->memory->download(data_, copy->address, size_);
    copy->newest = false;
  }
}

void* Storage::on_device(const std::shared_ptr<DeviceMemory>& memory, DeviceAccess access, DeviceSide side) {
  std::lock_guard lock(mutex_);
  OnDevice* copy = copy_in(memory.get());
  if (copy && copy->side != side) {
    download_newest();
    copies_.erase(std::find_if(copies_.begin(), copies_.end(), [&](const auto& c) { return c.get() == copy; }));
    copy = nullptr;
  }
  if (!copy) {
    copy = copies_.emplace_back(std::make_unique<OnDevice>(memory, size_, side)).get();
    on_devices_.store(true, std::memory_order_release);
  }
  if (access != DeviceAccess::write && copy->stale) {
    download_newest();
    memory->upload(copy->address, data_, size_);
  }
  copy->stale = false;
  if (access == DeviceAccess::read) return copy->address;
  for (const auto& other : copies_) {
    other->newest = other.get() == copy;
    other->stale = other.get() != copy;
  }
  return copy->address;
}

void Storage::send(const std::shared_ptr<DeviceMemory>& memory, void* to, size_t bytes) const {
  std::lock_guard lock(mutex_);
  const OnDevice* copy = copy_in(memory.get());
  if (copy && !copy->stale) return memory->copy(to, copy->address, bytes, Queue::kernels);
  download_newest();
  memory->upload(to, data_, bytes);
}

std::unique_ptr<DeviceRead> Storage::read_later(size_t offset, size_t bytes) const {
  std::lock_guard lock(mutex_);
  for (const auto& copy : copies_) {
    if (!copy->stale) return copy->memory->read_later(static_cast<char*>(copy->address) + offset, bytes);
  }
  return std::make_unique<HostRead>(static_cast<const char*>(data_) + offset, bytes);
}

void Storage::to_host() const {
  std::lock_guard lock(mutex_);
  download_newest();
  for (const auto& copy : copies_) copy->stale = true;
}

Storage::~Storage() {
  if (!owned_) return;
  g_storage_bytes -= static_cast<int64_t>(size_);
  if (is_large(size_)) {
    munmap(data_, rounded(size_));
  } else {
    std::free(data_);
  }
}

namespace {
// Extents of 0 count as 1: strides are products of the others.
const Shape& countable(DType dtype, const Shape& shape) {
  double elements = 1;
  for (const int64_t d : shape) {
    if (d < 0) fail(ErrorKind::usage, "array", "sizes must not be negative: got ", dtype, shape);
    elements *= static_cast<double>(d > 0 ? d : 1);
  }
  if (elements > 0x1p48) {
    fail(ErrorKind::usage, "array", dtype, shape, " has too many elements: expected at most ", 0x1p48, ", got ",
         elements);
  }
  return shape;
}
}  // namespace

Array::Array(DType dtype, const Shape& shape) : dtype_(dtype), shape_(countable(dtype, shape)) {
  storage_ = Storage::allocate(bytes());
}

Array::Array(DType dtype, const Shape& shape, std::shared_ptr<Storage> storage)
    : dtype_(dtype), shape_(countable(dtype, shape)), storage_(std::move(storage)) {
  if (!storage_ || storage_->size() < bytes()) {
    fail(ErrorKind::usage, "array", "storage too small: expected ", bytes(), " bytes for ", dtype, shape);
  }
}

void Array::expect(DType dtype) const {
  if (dtype != dtype_) fail(ErrorKind::usage, "array", "element type differs: expected ", dtype_, ", got ", dtype);
}

void Array::need_count(size_t values) const {
  if (values == static_cast<size_t>(numel())) return;
  fail(ErrorKind::usage, "array", "expected ", numel(), ", got ", values, " elements for ", dtype_, shape_);
}

Array Array::clone() const {
  Array a(dtype_, shape_);
  parallel_copy(a.raw(), raw(), bytes());
  return a;
}

Array Array::reshaped(const Shape& shape) const {
  if (countable(dtype_, shape).numel() != numel())
    fail(ErrorKind::usage, "array", "cannot reshape ", shape_, " to ", shape);
  Array a = *this;
  a.shape_ = shape;
  return a;
}

Array Array::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  if (is_complex(dtype_) && !is_complex(dtype) && dtype != DType::boolean) {
    fail(ErrorKind::usage, "cast", "the imaginary parts would be lost: got ", dtype_, shape_, ", asked for ", dtype);
  }
  Array out(dtype, shape_);
  const int64_t n = numel();
  dispatch(dtype_, [&]<class S>(S) {
    const S* src = static_cast<const S*>(raw());
    dispatch(dtype, [&]<class D>(D) {
      D* dst = static_cast<D*>(out.raw());
      for (int64_t i = 0; i < n; ++i) dst[i] = element_cast<D>(src[i]);
    });
  });
  return out;
}

template std::vector<float> Array::to_vector() const;
template std::vector<double> Array::to_vector() const;
template std::vector<int32_t> Array::to_vector() const;
template std::vector<int64_t> Array::to_vector() const;

}  // namespace freight
