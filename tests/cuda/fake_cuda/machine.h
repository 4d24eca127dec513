// The fake device: its memory with, beside every four bytes, who wrote and read them; streams, events and graphs as one
// list of operations that are executed, in the order they were enqueued, when the host waits.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda/fake_cuda/fake_cuda.h"

namespace fake {

constexpr size_t kActors = 5;  // the host is 0, streams follow
using Clock = std::array<uint32_t, kActors>;

struct Operation {
  size_t actor = 0;
  std::function<void()> work;
  Clock host = {};  // what the host had waited for when it enqueued this
};

struct StreamState {
  size_t actor = 0;
};
struct EventState {
  Clock clock = {};
};
struct GraphState {
  std::vector<std::function<void()>> work;
};

class Machine {
 public:
  Machine();

  void fault(const std::string& text);
  // As tests have it: from then on nothing works.
  bool lost() const { return told.lose_after >= 0 && told.kernels > told.lose_after; }
  // Waiting, allocating and loading are not allowed while a stream is captured.
  bool forbidden_in_capture(const char* what);

  unsigned long long allocate(size_t bytes);
  bool release(unsigned long long address);
  bool on_device(const void* p) const { return static_cast<size_t>(static_cast<const char*>(p) - base_) < kSpace; }

  void enqueue(StreamState* stream, std::function<void()> work);
  void record(EventState* event, StreamState* stream);
  void wait(StreamState* stream, EventState* event);
  void host_waits(StreamState* stream);
  void host_waits(EventState* event);
  void flush();
  void copy(void* to, const void* from, size_t bytes);

  // Of the operation at work.
  void read(const void* p, unsigned bytes);
  void write(void* p, unsigned bytes);

  FakeCuda told;
  StreamState* captured = nullptr;
  std::vector<std::function<void()>> capture;
  std::string at_work;  // name of the kernel or copy

 private:
  static constexpr size_t kSpace = size_t{16} << 30, kUnit = 4;
  struct Unit {
    uint32_t written_at = 0;  // the writer's clock, 0: never
    uint8_t writer = 0;
    Clock read_at = {};  // by actor
  };
  void conflict(const char* what, size_t offset);

  char* base_ = nullptr;
  size_t next_ = 256;
  std::map<unsigned long long, size_t> blocks_;
  std::vector<Unit> units_;
  std::vector<Operation> pending_;
  std::array<Clock, kActors> clocks_ = {};
  size_t actor_ = 0;
};

Machine& machine();

}  // namespace fake
