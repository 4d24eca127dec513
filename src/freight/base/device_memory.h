// Memory that a device works on and the host cannot address. Kernels' operands, arenas and the device's copies of
// Storage lie there. What an address means is the device's business; the host only adds numbers of bytes to it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace freight {

// What a device is given waits in queues that work beside each other, each in order: its kernels and whatever goes with
// them, and the copies to pinned memory of the host and from it in a queue each.
enum class Queue : uint8_t { kernels, to_host, to_device };
inline constexpr size_t kQueues = 3;

// A place in a queue that another one waits for.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  // From now on: behind everything that `queue` was given so far.
  virtual void set(Queue queue) = 0;
  // What `queue` is given from now on begins when everything before the mark is done.
  virtual void await(Queue queue) = 0;
};

// Work that a device repeats as one.
class DeviceRecording {
 public:
  virtual ~DeviceRecording() = default;
  virtual void enqueue() = 0;
};

// Bytes on their way to the host.
class DeviceRead {
 public:
  virtual ~DeviceRead() = default;
  // Returns when they are there, and waits for nothing that was enqueued after them. Throws what download() does.
  virtual void take(void* to) = 0;
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // A block of at least `bytes` with undefined contents. Throws Error(capacity) where the device has no more.
  virtual void* allocate(size_t bytes) = 0;
  // The same in memory of the host from and to which the device copies at full speed (pinned). Kernels do not use it.
  virtual void* allocate_host(size_t bytes) = 0;
  virtual void release(void* address) noexcept = 0;
  // Of the device's memory: what may still be allocated, as far as is known.
  virtual size_t free_bytes() const = 0;
  // Transfers take their turn behind everything that the queue was given before, uploads and downloads that of the
  // kernels. After upload() the host may change its bytes again; download() returns when the bytes are there.
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes, Queue queue) = 0;
  // A download that is not waited for: the bytes as they are when everything enqueued before is done.
  virtual std::unique_ptr<DeviceRead> read_later(const void* from, size_t bytes) = 0;
  // What orders the queues.
  virtual std::unique_ptr<DeviceMark> mark() = 0;
  // Returns when everything enqueued is done. Throws Error(device) where some of it failed.
  virtual void wait() = 0;
  // Called before a run: returns when the device may be given another.
  virtual void pace() { wait(); }
  // Whether record() can be asked: runs are then bound to addresses that stay.
  virtual bool records() const { return false; }
  // Instead of being done, what `work` enqueues is kept, to be enqueued as one with the same addresses. All of it must
  // have run before. Null where the device would rather not.
  virtual std::unique_ptr<DeviceRecording> record(const std::function<void()>&) { return nullptr; }
};

}  // namespace freight
