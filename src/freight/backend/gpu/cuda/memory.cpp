// See memory.h.
#include "freight/backend/gpu/cuda/memory.h"

#include <algorithm>

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

}  // namespace

class Memory::StreamEvent final : public Event {
 public:
  explicit StreamEvent(const Memory& memory) : memory_(memory) {
    const auto entered = memory_.enter();
    check(memory_.driver_, memory_.driver_.event_create(&event_, kEventWithoutTiming), "cannot make an event");
  }
  ~StreamEvent() override {
    const auto entered = memory_.enter();
    memory_.driver_.event_destroy(event_);
  }
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;
  // In a recording, the queues become branches of the graph, and these calls its edges.
  void set(Queue queue) override {
    const auto entered = memory_.enter();
    check(memory_.driver_, memory_.driver_.event_record(event_, memory_.stream(queue)), "an event");
  }
  void await(Queue queue) override {
    const auto entered = memory_.enter();
    check(memory_.driver_, memory_.driver_.stream_wait_event(memory_.stream(queue), event_, 0), "an event");
  }
  void wait() override {
    const auto entered = memory_.enter();
    check(memory_.driver_, memory_.driver_.event_wait(event_), "the device's work");
    memory_.need_sound();
  }

 private:
  const Memory& memory_;
  cuda::Event event_ = nullptr;
};

std::unique_ptr<gpu::QueuedMemory::Event> Memory::make_event() { return std::make_unique<StreamEvent>(*this); }

Memory::Memory(const Driver& driver, int index) : driver_(driver), index_(index) {
  check(driver_, driver_.device_get(&device_, index), "cannot find the device");
  check(driver_, driver_.context_retain(&context_, device_), "cannot open the device");
  const auto entered = enter();
  for (Stream& s : streams_) check(driver_, driver_.stream_create(&s, kNonBlockingStream), "cannot make a stream");
  open();
}

Memory::~Memory() {
  const auto entered = enter();
  wait_for_all();
  close();
  for (const Stream s : streams_) driver_.stream_destroy(s);
  driver_.context_release(device_);
}

std::unique_lock<std::recursive_mutex> Memory::enter() const {
  auto lock = QueuedMemory::enter();
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
    fail(ErrorKind::capacity, "cuda", "device cuda:", index_, " has too little memory left: needs ", text(bytes),
         ", has ", text(free), " free of ", text(total),
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
  check(driver_, driver_.allocate_host(&address, std::max<size_t>(bytes, 256), 0),
        cat("cannot pin ", human_bytes(static_cast<double>(bytes)), " of the host's memory").c_str());
  pinned_.insert(address);
  return address;
}

void Memory::release(void* address) noexcept {
  if (!address) return;
  const auto entered = enter();
  wait_for_all();  // something enqueued may still use it
  if (pinned_.erase(address) > 0) {
    driver_.release_host(address);
  } else {
    driver_.release(number(address));
  }
}

void Memory::send(void* to, const void* from, size_t bytes) {
  FREIGHT_CHECK(!recording_, "the host sends bytes while a step is recorded");
  check(driver_, driver_.copy(number(to), number(from), bytes, stream(kTransfers)), "upload");
}

void Memory::fetch(void* to, const void* from, size_t bytes) {
  FREIGHT_CHECK(!recording_, "the host asks for bytes while a step is recorded");
  check(driver_, driver_.copy(number(to), number(from), bytes, stream()), "download");
}

// Addresses of the device and of pinned memory are of one space: the driver sees from where to where it goes.
void Memory::copy(void* to, const void* from, size_t bytes, Queue queue) {
  if (bytes == 0) return;
  const auto entered = enter();
  check(driver_, driver_.copy(number(to), number(from), bytes, stream(queue)), "copy");
}

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
  need_sound();
}

void Memory::give_up(const std::string& why) noexcept {
  if (given_up_.load(std::memory_order_acquire)) return;
  try {
    why_given_up_ = why;
  } catch (...) {  // no memory for the text
  }
  given_up_.store(true, std::memory_order_release);
}

void Memory::need_sound() const {
  if (given_up_.load(std::memory_order_acquire)) fail(ErrorKind::peer_lost, "devices", why_given_up_);
}

std::unique_ptr<DeviceRecording> Memory::record(const std::function<void()>& work) {
  if (env::get("FREIGHT_CUDA_GRAPH") == "0") return nullptr;
  const auto entered = enter();
  check(driver_, driver_.capture_begin(stream(), kCaptureOfThread), "cannot begin to record a step");
  Graph graph = nullptr;
  recording_ = true;
  try {
    work();
  } catch (...) {
    recording_ = false;
    driver_.capture_end(stream(), &graph);
    if (graph) driver_.graph_destroy(graph);
    throw;
  }
  recording_ = false;
  check(driver_, driver_.capture_end(stream(), &graph), "cannot record a step");
  GraphExec exec = nullptr;
  const Status status = driver_.graph_instantiate(&exec, graph, 0);
  driver_.graph_destroy(graph);
  check(driver_, status, "cannot make a graph of a step");
  auto recording = std::make_unique<GraphRecording>(std::static_pointer_cast<Memory>(shared_from_this()), exec);
  check(driver_, driver_.graph_upload(exec, stream()), "cannot make a graph of a step");
  return recording;
}

}  // namespace freight::cuda
