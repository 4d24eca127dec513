// See queued_memory.h.
#include "freight/backend/gpu/queued_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "freight/backend/gpu/faults.h"

namespace freight::gpu {

namespace {
constexpr size_t kLeastBytes = size_t{64} << 10, kLeastForRead = 4096, kMostBytes = size_t{16} << 20;
}

// Its bytes, then the words that report faults.
class QueuedMemory::Read final : public DeviceRead {
 public:
  Read(std::shared_ptr<QueuedMemory> memory, size_t bytes)
      : memory_(std::move(memory)), bytes_(bytes), buffer_(memory_->idle_buffer(bytes + kWords)) {}
  ~Read() override {
    const auto entered = memory_->enter();
    if (!arrived_) memory_->drain();  // what was enqueued writes there
    memory_->idle_.push_back(std::move(buffer_));
  }
  void enqueue(const void* from) {
    if (bytes_ > 0) memory_->fetch(buffer_.host, from, bytes_);
    memory_->fetch(static_cast<char*>(buffer_.host) + bytes_, memory_->fault_words_, kWords);
    buffer_.used->set(Queue::kernels);
  }
  void take(void* to) override {
    buffer_.used->wait();
    arrived_ = true;
    std::memcpy(to, buffer_.host, bytes_);
    int64_t words[2];
    std::memcpy(words, static_cast<const char*>(buffer_.host) + bytes_, kWords);
    throw_fault(words, *memory_, memory_->fault_words_);
  }

 private:
  static constexpr size_t kWords = sizeof kNoFault;
  std::shared_ptr<QueuedMemory> memory_;
  size_t bytes_;
  Buffer buffer_;
  bool arrived_ = false;
};

void QueuedMemory::open() {
  try {
    paced_ = make_event();
    fault_words_ = allocate(sizeof kNoFault);
    upload(fault_words_, kNoFault, sizeof kNoFault);
  } catch (...) {
    close();
    throw;
  }
}

void QueuedMemory::close() noexcept {
  release(fault_words_);
  for (Buffer& b : buffers_) release(b);
  for (Buffer& b : idle_) release(b);
  buffers_ = {};
  idle_.clear();
  paced_.reset();
}

void QueuedMemory::release(Buffer& buffer) noexcept {
  if (buffer.device) release(buffer.device);
  if (buffer.host) unpin(buffer.host);
  buffer.device = buffer.host = nullptr;
  buffer.bytes = 0;
}

// The one whose turn it is, large enough and no longer used by anything enqueued.
QueuedMemory::Buffer& QueuedMemory::next_buffer(size_t bytes) {
  Buffer& b = buffers_[next_];
  next_ = (next_ + 1) % buffers_.size();
  if (!b.arrived) b.arrived = make_event();
  if (!b.used) b.used = make_event();
  b.used->wait();
  if (b.bytes < bytes) {
    release(b);
    const size_t size = std::max(kLeastBytes, std::bit_ceil(bytes));
    b.host = pin(size);
    b.device = allocate(size);
    b.bytes = size;
  }
  return b;
}

// One that nobody uses any more, or a new one.
QueuedMemory::Buffer QueuedMemory::idle_buffer(size_t bytes) {
  Buffer b;
  const auto it = std::find_if(idle_.begin(), idle_.end(), [&](const Buffer& i) { return i.bytes >= bytes; });
  if (it != idle_.end()) {
    b = std::move(*it);
    idle_.erase(it);
  } else {
    b.used = make_event();
    b.bytes = std::max(kLeastForRead, std::bit_ceil(bytes));
    b.host = pin(b.bytes);
  }
  return b;
}

void QueuedMemory::upload(void* to, const void* from, size_t bytes) {
  const auto entered = enter();
  for (size_t done = 0; done < bytes;) {
    const size_t n = std::min(bytes - done, kMostBytes);
    Buffer& b = next_buffer(n);
    std::memcpy(b.host, static_cast<const char*>(from) + done, n);
    send(b.device, b.host, n);
    b.arrived->set(kTransfers);
    b.arrived->await(Queue::kernels);
    copy(static_cast<char*>(to) + done, b.device, n, Queue::kernels);
    b.used->set(Queue::kernels);
    done += n;
  }
}

void QueuedMemory::download(void* to, const void* from, size_t bytes) {
  const auto entered = enter();  // all pieces are of one point of the queue
  size_t done = 0;
  do {
    const size_t n = std::min(bytes - done, kMostBytes - sizeof kNoFault);
    read_later(static_cast<const char*>(from) + done, n)->take(static_cast<char*>(to) + done);
    done += n;
  } while (done < bytes);
}

std::unique_ptr<DeviceRead> QueuedMemory::read_later(const void* from, size_t bytes) {
  const auto entered = enter();
  auto read = std::make_unique<Read>(shared_from_this(), bytes);
  read->enqueue(from);
  return read;
}

// One run may compute and one wait behind it.
void QueuedMemory::pace() {
  const auto entered = enter();
  paced_->wait();
  paced_->set(Queue::kernels);
}

}  // namespace freight::gpu
