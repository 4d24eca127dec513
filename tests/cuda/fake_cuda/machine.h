// The fake device: its memory with, beside every four bytes, who wrote and read them; streams, events and graphs as one
// list of operations that are executed, in the order they were enqueued, when the host waits.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/fake_cuda/fake_cuda.h"

namespace fake {

// The host is 0, streams follow, then the branches of a graph besides the one of the stream that was captured.
constexpr size_t kActors = 10, kFirstBranch = 7;
using Clock = std::array<uint32_t, kActors>;

enum class Kind : uint8_t { kernel, to_host, to_device, collective, other };

struct Operation {
  size_t actor = 0;
  std::function<void()> work;
  Clock host = {};  // what the host had waited for when it enqueued this
  Kind kind = Kind::other;
  bool in_graph = false;
};

struct StreamState {
  size_t actor = 0;
};
// Recorded in a capture, an event is an edge of the graph: of the clock that a launch sets and waits for.
struct EventState {
  std::atomic<int> pending = 0;  // records that are enqueued and not done
  Clock clock = {};
  std::atomic<int64_t> capture = 0;  // in which it was last recorded; 0: in none
  Clock captured = {};               // by branch: the operations before it
  std::shared_ptr<Clock> edge;
};
struct Captured {
  size_t branch;  // 0: of the stream that was captured
  std::function<void()> work;
  Kind kind;
};
struct GraphState {
  std::vector<Captured> work;
  std::vector<std::function<void()>> at_launch;  // called by the host at each launch
};

class Machine {
 public:
  Machine();

  void fault(const std::string& text);
  // As tests have it: from then on nothing works.
  bool lost() const { return told.lose_after >= 0 && told.kernels > told.lose_after; }
  // Waiting, allocating and loading are not allowed while a stream is captured.
  bool forbidden_in_capture(const char* what);

  // A call of a library that may be gone.
  void expect_library(const char* call) {
    if (told.libraries_ended) fault(std::string(call) + " after the library's own end");
  }

  unsigned long long allocate(size_t bytes);
  bool release(unsigned long long address);
  // Memory of the host, to which its writes are not seen.
  void* pin(size_t bytes);
  void unpin(void* address);
  bool is_pinned(unsigned long long address) const;
  bool on_device(const void* p) const { return static_cast<size_t>(static_cast<const char*>(p) - base_) < kSpace; }

  void enqueue(StreamState* stream, std::function<void()> work, Kind kind = Kind::kernel);
  void launch(const GraphState& graph, StreamState* stream);
  // True of a stream that is part of the capture at hand; and a call that each launch of its graph makes.
  bool captures(StreamState* stream) const { return branch_of(stream) != kActors; }
  void at_launch(std::function<void()> call) { at_launch_.push_back(std::move(call)); }
  void begin_capture(StreamState* stream);
  // False: a branch does not end in the stream that was captured.
  bool end_capture(GraphState& into);
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
  const bool idle;
  StreamState* captured = nullptr;
  std::string at_work;  // name of the kernel or copy

 private:
  static constexpr size_t kSpace = size_t{16} << 30, kUnit = 4;
  struct Unit {
    uint32_t written_at = 0;  // the writer's clock, 0: never
    uint8_t writer = 0;
    bool pinned = false;
    Clock read_at = {};  // by actor
  };
  // A copy, or a collective, that a kernel may yet run beside.
  struct Crossing {
    size_t actor;
    uint32_t at;
    Kind kind;
    bool in_graph;
  };
  void conflict(const char* what, size_t offset);
  char* reserve(size_t bytes);
  // Of the captured stream and those that have waited for it since; kActors for another.
  size_t branch_of(StreamState* stream) const;
  // The operation at work is of that kind: what it hides, or is hidden by.
  void look_beside(const Operation& o);
  void hidden(Kind kind, bool in_graph);

  char* base_ = nullptr;
  size_t next_ = 256;
  std::map<unsigned long long, size_t> blocks_;
  std::vector<Unit> units_;
  std::vector<Operation> pending_;
  std::array<Clock, kActors> clocks_ = {};
  size_t actor_ = 0;
  std::map<unsigned long long, size_t> pinned_;
  Clock last_kernel_ = {};  // by actor: when it ran
  std::vector<Crossing> crossings_;
  // Of the capture at hand.
  std::vector<Captured> capture_;
  std::vector<std::function<void()>> at_launch_;
  std::vector<StreamState*> branches_;
  std::vector<Clock> before_;  // by branch: the operations of each before its next
};

Machine& machine();

}  // namespace fake
