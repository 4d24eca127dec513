// See memory.h.
#include "freight/backend/gpu/cuda/memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "freight/backend/gpu/faults.h"
#include "freight/base/env.h"
#include "freight/base/error.h"

namespace freight::cuda {

namespace {

Address number(const void* address) { return reinterpret_cast<Address>(address); }

// A captured graph: one launch for all that it holds.
class GraphRecording final : public DeviceRecording {
 public:
  GraphRecording(std::shared_ptr<Memory> memory, GraphExec exec) : memory_(std::move(memory)), exec_(exec) {}
  ~GraphRecording() override {
    const auto entered = memory_->enter();
    memory_->driver().stream_wait(memory_->stream());  // it may be running
    memory_->driver().graph_exec_destroy(exec_);
  }
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;
  void enqueue() override {
    const auto entered = memory_->enter();
    check(memory_->driver(), memory_->driver().graph_launch(exec_, memory_->stream()), "a step");
  }

 private:
  std::shared_ptr<Memory> memory_;
  GraphExec exec_;
};

class EventMark final : public DeviceMark {
 public:
  explicit EventMark(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {
    const auto entered = memory_->enter();
    check(memory_->driver(), memory_->driver().event_create(&event_, kEventWithoutTiming), "cannot make an event");
  }
  ~EventMark() override {
    const auto entered = memory_->enter();
    memory_->driver().event_destroy(event_);
  }
  EventMark(const EventMark&) = delete;
  EventMark& operator=(const EventMark&) = delete;
  // In a recording, the queues become branches of the graph, and these calls its edges.
  void set(Queue queue) override {
    const auto entered = memory_->enter();
    check(memory_->driver(), memory_->driver().event_record(event_, memory_->stream(queue)), "an event");
  }
  void await(Queue queue) override {
    const auto entered = memory_->enter();
    check(memory_->driver(), memory_->driver().stream_wait_event(memory_->stream(queue), event_, 0), "an event");
  }

 private:
  std::shared_ptr<Memory> memory_;
  Event event_ = nullptr;
};

}  // namespace

// Its bytes, then the words that report faults.
class Memory::PinnedRead final : public DeviceRead {
 public:
  PinnedRead(std::shared_ptr<Memory> memory, const void* from, size_t bytes)
      : memory_(std::move(memory)), bytes_(bytes), read_(memory_->idle_read(bytes + kWords)) {
    const Driver& d = memory_->driver();
    auto* host = static_cast<char*>(read_.host);
    try {
      check(d, d.copy_to_host(host, number(from), bytes, memory_->stream_), "download");
      check(d, d.copy_to_host(host + bytes, number(memory_->fault_words_), kWords, memory_->stream_), "download");
      check(d, d.event_record(read_.done, memory_->stream_), "download");
    } catch (...) {  // what was enqueued writes there
      d.stream_wait(memory_->stream_);
      memory_->idle_reads_.push_back(read_);
      throw;
    }
  }
  ~PinnedRead() override {
    const auto entered = memory_->enter();
    memory_->driver().event_wait(read_.done);
    memory_->idle_reads_.push_back(read_);
  }
  PinnedRead(const PinnedRead&) = delete;
  PinnedRead& operator=(const PinnedRead&) = delete;
  void take(void* to) override {
    const auto entered = memory_->enter();
    check(memory_->driver(), memory_->driver().event_wait(read_.done), "download");
    std::memcpy(to, read_.host, bytes_);
    int64_t words[2];
    std::memcpy(words, static_cast<const char*>(read_.host) + bytes_, kWords);
    gpu::throw_fault(words, *memory_, memory_->fault_words_);
  }

 private:
  static constexpr size_t kWords = sizeof gpu::kNoFault;
  std::shared_ptr<Memory> memory_;
  size_t bytes_;
  Read read_;
};

Memory::Memory(const Driver& driver, int index) : driver_(driver), index_(index) {
  check(driver_, driver_.device_get(&device_, index), "cannot find the device");
  check(driver_, driver_.context_retain(&context_, device_), "cannot open the device");
  const auto entered = enter();
  for (Stream* s : {&streams_[0], &streams_[1], &streams_[2], &transfers_}) {
    check(driver_, driver_.stream_create(s, kNonBlockingStream), "cannot make a stream");
  }
  check(driver_, driver_.event_create(&paced_, kEventWithoutTiming), "cannot make an event");
  fault_words_ = allocate(sizeof gpu::kNoFault);
  upload(fault_words_, gpu::kNoFault, sizeof gpu::kNoFault);
}

Memory::~Memory() {
  if (!context_) return;
  const auto entered = enter();
  release(fault_words_);
  for (const Stream s : {streams_[0], streams_[1], streams_[2], transfers_}) {
    driver_.stream_wait(s);
    driver_.stream_destroy(s);
  }
  driver_.event_destroy(paced_);
  for (Buffer& b : buffers_) {
    release(b);
    if (!b.used) continue;
    driver_.event_destroy(b.arrived);
    driver_.event_destroy(b.used);
  }
  for (const Read& r : idle_reads_) {
    driver_.release_host(r.host);
    driver_.event_destroy(r.done);
  }
  driver_.context_release(device_);
}

std::unique_lock<std::recursive_mutex> Memory::enter() const {
  std::unique_lock lock(mutex_);
  static thread_local uint64_t t_current = 0;
  if (t_current != serial_) {
    driver_.context_set(context_);
    t_current = serial_;
  }
  return lock;
}

void* Memory::allocate(size_t bytes) {
  const auto entered = enter();
  FREIGHT_CHECK(!recording_, "memory is allocated while a step is recorded");
  Address address = 0;
  const Status status = driver_.allocate(&address, std::max<size_t>(bytes, 256));
  if (status == kOutOfMemory) {
    size_t free = 0, total = 0;
    driver_.memory_info(&free, &total);
    const auto text = [](size_t n) { return human_bytes(static_cast<double>(n)); };
    fail(ErrorKind::capacity, "cuda", "device cuda:", index_, " has too little memory left: got ", text(free),
         " free of ", text(total), ", need ", text(bytes),
         "; other programs may hold the rest (nvidia-smi lists them); a smaller --batch-size or --grad-accum needs "
         "less");
  }
  check(driver_, status, cat("cannot allocate ", human_bytes(static_cast<double>(bytes))).c_str());
  return reinterpret_cast<void*>(address);
}

size_t Memory::free_bytes() const {
  const auto entered = enter();
  size_t free = 0, total = 0;
  check(driver_, driver_.memory_info(&free, &total), "the device's memory");
  return free;
}

void* Memory::allocate_host(size_t bytes) {
  const auto entered = enter();
  FREIGHT_CHECK(!recording_, "memory is pinned while a step is recorded");
  void* address = nullptr;
  const size_t size = std::max<size_t>(bytes, 256);
  check(driver_, driver_.allocate_host(&address, size, 0),
        cat("cannot pin ", human_bytes(static_cast<double>(bytes)), " of the host's memory").c_str());
  pinned_[static_cast<const char*>(address)] = size;
  return address;
}

bool Memory::pinned(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  const auto it = pinned_.upper_bound(at);
  return it != pinned_.begin() && at < std::prev(it)->first + std::prev(it)->second;
}

void Memory::release(void* address) noexcept {
  if (!address) return;
  const auto entered = enter();
  wait_for_all();  // something enqueued may still use it
  if (pinned_.erase(static_cast<const char*>(address)) > 0) {
    driver_.release_host(address);
  } else {
    driver_.release(number(address));
  }
}

void Memory::release(Buffer& buffer) noexcept {
  if (buffer.device) driver_.release(buffer.device);
  if (buffer.host) driver_.release_host(buffer.host);
  buffer.device = 0;
  buffer.host = nullptr;
  buffer.bytes = 0;
}

// The one whose turn it is, large enough and no longer used by anything enqueued.
Memory::Buffer& Memory::next_buffer(size_t bytes) {
  Buffer& b = buffers_[next_];
  next_ = (next_ + 1) % kBuffers;
  if (!b.used) {
    check(driver_, driver_.event_create(&b.arrived, kEventWithoutTiming), "cannot make an event");
    check(driver_, driver_.event_create(&b.used, kEventWithoutTiming), "cannot make an event");
  }
  check(driver_, driver_.event_wait(b.used), "a transfer");
  if (b.bytes < bytes) {
    release(b);
    const size_t size = std::max(kLeastBytes, std::bit_ceil(bytes));
    check(driver_, driver_.allocate_host(&b.host, size, 0), "cannot pin memory of the host");
    b.device = number(allocate(size));
    b.bytes = size;
  }
  return b;
}

void Memory::upload(void* to, const void* from, size_t bytes) {
  const auto entered = enter();
  FREIGHT_CHECK(!recording_, "the host sends bytes while a step is recorded");
  if (pinned(to)) {
    check(driver_, driver_.stream_wait(stream_), "upload");  // something enqueued may still read it
    std::memcpy(to, from, bytes);
    return;
  }
  for (size_t done = 0; done < bytes;) {
    const size_t n = std::min(bytes - done, kMostBytes);
    Buffer& b = next_buffer(n);
    std::memcpy(b.host, static_cast<const char*>(from) + done, n);
    check(driver_, driver_.copy_to_device(b.device, b.host, n, transfers_), "upload");
    check(driver_, driver_.event_record(b.arrived, transfers_), "upload");
    check(driver_, driver_.stream_wait_event(stream_, b.arrived, 0), "upload");
    check(driver_, driver_.copy(number(to) + done, b.device, n, stream_), "upload");
    check(driver_, driver_.event_record(b.used, stream_), "upload");
    done += n;
  }
}

void Memory::download(void* to, const void* from, size_t bytes) {
  const auto entered = enter();
  FREIGHT_CHECK(!recording_, "the host asks for bytes while a step is recorded");
  fetch(to, from, bytes);
  int64_t words[2];
  fetch(words, fault_words_, sizeof words);  // what was waited for is done: this waits for itself alone
  gpu::throw_fault(words, *this, fault_words_);
}

// One that nobody uses any more, or a new one.
Memory::Read Memory::idle_read(size_t bytes) {
  for (size_t i = 0; i < idle_reads_.size(); ++i) {
    if (idle_reads_[i].bytes < bytes) continue;
    const Read r = idle_reads_[i];
    idle_reads_.erase(idle_reads_.begin() + static_cast<std::ptrdiff_t>(i));
    return r;
  }
  Read r{.bytes = std::max<size_t>(bytes, 4096)};
  check(driver_, driver_.event_create(&r.done, kEventWithoutTiming), "cannot make an event");
  check(driver_, driver_.allocate_host(&r.host, r.bytes, 0), "cannot pin memory of the host");
  return r;
}

std::unique_ptr<DeviceRead> Memory::read_later(const void* from, size_t bytes) {
  const auto entered = enter();
  FREIGHT_CHECK(!recording_ && !pinned(from), "a read is not a part of a step, and is one of the device's memory");
  return std::make_unique<PinnedRead>(shared_from_this(), from, bytes);
}

void Memory::fetch(void* to, const void* from, size_t bytes) {
  if (pinned(from)) {
    check(driver_, driver_.stream_wait(stream_), "download");
    std::memcpy(to, from, bytes);
    return;
  }
  for (size_t done = 0; done < bytes;) {
    const size_t n = std::min(bytes - done, kMostBytes);
    Buffer& b = next_buffer(n);
    check(driver_, driver_.copy_to_host(b.host, number(from) + done, n, stream_), "download");
    check(driver_, driver_.event_record(b.used, stream_), "download");
    check(driver_, driver_.event_wait(b.used), "download");
    std::memcpy(static_cast<char*>(to) + done, b.host, n);
    done += n;
  }
}

void Memory::copy(void* to, const void* from, size_t bytes, Queue queue) {
  if (bytes == 0) return;
  const auto entered = enter();
  const Stream s = stream(queue);
  const Status status = pinned(to)     ? driver_.copy_to_host(to, number(from), bytes, s)
                        : pinned(from) ? driver_.copy_to_device(number(to), from, bytes, s)
                                       : driver_.copy(number(to), number(from), bytes, s);
  check(driver_, status, "copy");
}

std::unique_ptr<DeviceMark> Memory::mark() { return std::make_unique<EventMark>(shared_from_this()); }

Status Memory::wait_for_all() const {
  Status status = kSuccess;
  for (const Stream s : streams_) {
    const Status now = driver_.stream_wait(s);
    if (status == kSuccess) status = now;
  }
  return status;
}

void Memory::wait() {
  const auto entered = enter();
  check(driver_, wait_for_all(), "the device's work");
}

// One run may compute and one wait behind it.
void Memory::pace() {
  const auto entered = enter();
  check(driver_, driver_.event_wait(paced_), "the device's work");
  check(driver_, driver_.event_record(paced_, stream_), "the device's work");
}

std::unique_ptr<DeviceRecording> Memory::record(const std::function<void()>& work) {
  if (env::get("FREIGHT_CUDA_GRAPH") == "0") return nullptr;
  const auto entered = enter();
  check(driver_, driver_.capture_begin(stream_, kCaptureOfThread), "cannot begin to record a step");
  Graph graph = nullptr;
  recording_ = true;
  try {
    work();
  } catch (...) {
    recording_ = false;
    driver_.capture_end(stream_, &graph);
    if (graph) driver_.graph_destroy(graph);
    throw;
  }
  recording_ = false;
  check(driver_, driver_.capture_end(stream_, &graph), "cannot record a step");
  GraphExec exec = nullptr;
  const Status status = driver_.graph_instantiate(&exec, graph, 0);
  driver_.graph_destroy(graph);
  check(driver_, status, "cannot make a graph of a step");
  auto recording = std::make_unique<GraphRecording>(shared_from_this(), exec);
  check(driver_, driver_.graph_upload(exec, stream_), "cannot make a graph of a step");
  return recording;
}

}  // namespace freight::cuda
