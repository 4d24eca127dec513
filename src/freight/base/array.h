// Array: a dense row-major host array (element type, shape, bytes), the currency between files, loaders, plans and
// users. Copies share their storage; `clone` makes a deep copy. Storage is 64-byte aligned and zero-initialized.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "freight/base/dtype.h"
#include "freight/base/shape.h"

namespace freight {

class DeviceMemory;
class DeviceRead;

// Tells what a device is about to do with a block.
enum class DeviceAccess : uint8_t { read, write, update };
// Where its copy of a block lies: in its own memory, or in pinned memory of the host.
enum class DeviceSide : uint8_t { device, host };

// A block of memory at an address that never moves. It may have a copy on each device; the bytes cross over when a side
// that has older ones asks for them and only then. Threads that only read may ask for any side at once.
class Storage {
 public:
  static std::shared_ptr<Storage> allocate(size_t bytes);
  // Storage that borrows memory of someone else; `owner` keeps it alive.
  static std::shared_ptr<Storage> borrow(void* data, size_t bytes, std::shared_ptr<void> owner);
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  // The host's address. What a device wrote is brought back first, and the host is taken to write through it until the
  // device asks again: after a run on a device get the address anew.
  void* data() const {
    if (on_devices_.load(std::memory_order_acquire)) to_host();
    return data_;
  }
  size_t size() const { return size_; }
  // The address of the copy in `memory`, made at first need, with the newest bytes unless the device only writes. From
  // a write on the device's bytes are the newest. The address holds until the copy is asked for on another side.
  void* on_device(const std::shared_ptr<DeviceMemory>& memory, DeviceAccess access,
                  DeviceSide side = DeviceSide::device);
  // Enqueues a copy of the first `bytes`, the newest there are, to an address in `memory`. No copy in `memory` is made.
  void send(const std::shared_ptr<DeviceMemory>& memory, void* to, size_t bytes) const;
  // The newest `bytes` from `offset` on, as they are once what the device was given so far is done.
  std::unique_ptr<DeviceRead> read_later(size_t offset, size_t bytes) const;

 private:
  struct OnDevice;
  Storage();
  void to_host() const;
  OnDevice* copy_in(const DeviceMemory* memory) const;
  void download_newest() const;
  void* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<void> owner_;
  bool owned_ = false;
  std::vector<std::unique_ptr<OnDevice>> copies_;  // at most one per device
  std::atomic<bool> on_devices_ = false;           // there are copies
  mutable std::mutex mutex_;                       // guards the copies: readers on several threads may ask at once
};

class Array {  // A handle of elements in memory.
 public:
  Array() = default;
  Array(DType dtype, const Shape& shape);  // zeros
  Array(DType dtype, const Shape& shape, std::shared_ptr<Storage> storage);
  template <class T>
  static Array of(const std::vector<T>& values, const Shape& shape) {  // Error(usage) where the counts differ
    Array a(DTypeOf<T>::value, shape);
    a.need_count(values.size());
    T* to = static_cast<T*>(a.raw());
    for (const T value : values) *to++ = value;  // vector<bool> has no data()
    return a;
  }

  DType dtype() const { return dtype_; }                                           // the element type
  const Shape& shape() const { return shape_; }                                    // the extents, slowest axis first
  int64_t numel() const { return shape_.numel(); }                                 // the number of elements
  size_t bytes() const { return static_cast<size_t>(numel()) * size_of(dtype_); }  // the size of all elements
  bool defined() const { return storage_ != nullptr; }                  // false for Array(), which has no memory
  const std::shared_ptr<Storage>& storage() const { return storage_; }  // the memory

  void* raw() const { return storage_ ? storage_->data() : nullptr; }  // the first element; null where undefined
  // Typed pointer; throws Error(usage) when T is not the element type.
  template <class T>
  T* data() const {
    expect(DTypeOf<T>::value);
    return static_cast<T*>(raw());
  }
  // All elements converted to T (element_cast); throws Error(usage) for complex elements as real numbers.
  template <class T>
  std::vector<T> to_vector() const;
  Array clone() const;  // a copy with memory of its own
  // Same storage under another shape of equal element count.
  Array reshaped(const Shape& shape) const;
  // Element conversion (element_cast). Throws Error(usage) for complex elements as real numbers.
  Array cast(DType dtype) const;

 private:
  void expect(DType dtype) const;
  void need_count(size_t values) const;
  DType dtype_ = DType::f32;
  Shape shape_;
  std::shared_ptr<Storage> storage_;
};

template <class T>
std::vector<T> Array::to_vector() const {
  std::vector<T> out(static_cast<size_t>(numel()));
  dispatch(dtype_, [&]<class S>(S) {
    const S* src = static_cast<const S*>(raw());
    for (size_t i = 0; i < out.size(); ++i) out[i] = element_cast<T>(src[i]);
  });
  return out;
}
// Programs take these from the library: each is fifteen conversions to compile.
extern template std::vector<float> Array::to_vector() const;
extern template std::vector<double> Array::to_vector() const;
extern template std::vector<int32_t> Array::to_vector() const;
extern template std::vector<int64_t> Array::to_vector() const;

}  // namespace freight
