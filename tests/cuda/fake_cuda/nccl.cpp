// The fake NCCL: collectives between the fake devices of several processes, through memory that these share. What a
// rank brings is published when the call is made, since NVIDIA's devices need no wait of their host to go on; the
// result is made when the device's work is executed, and waits for the others like theirs do: until they come, or for
// ever. Breaches of NCCL's rules are faults.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/fake_cuda/interfaces.h"
#include "tests/cuda/fake_cuda/machine.h"

namespace {

using fake::machine;
using namespace fake::nccl;

constexpr int kMostRanks = 8;
constexpr uint64_t kCalls = 1024;            // that a rank may be ahead
constexpr size_t kArea = size_t{256} << 20;  // bytes of a rank that are under way
constexpr unsigned kHangs = 120;             // seconds after which a test is told so
constexpr unsigned kAbortHangs = 20;         // of an abort

enum class Kind : uint8_t { all_reduce, all_gather, broadcast };
constexpr const char* kNames[] = {"ncclAllReduce", "ncclAllGather", "ncclBroadcast"};

struct Call {
  Kind kind = Kind::all_reduce;
  int type = 0, operation = 0, root = 0;
  uint64_t count = 0;
  int64_t graph =
      0;  // of the communicator's graphs the one that it is part of, which is the same on all ranks; 0: none
  bool operator==(const Call&) const = default;
};
std::string text_of(const Call& c) {
  return std::string(kNames[static_cast<size_t>(c.kind)]) + " of " + std::to_string(c.count) + " elements of type " +
         std::to_string(c.type) + (c.kind == Kind::broadcast ? " from rank " + std::to_string(c.root) : "") +
         (c.graph ? " in graph " + std::to_string(c.graph) : "");
}

// The others see this of a rank.
struct Seat {
  std::atomic<uint32_t> joined;
  std::atomic<uint64_t> published, done;  // calls
  struct Published {
    Call call;
    uint64_t offset;
  };
  Published calls[kCalls];
};
struct Shared {
  Seat seats[kMostRanks];
};
constexpr size_t kSharedBytes = (sizeof(Shared) + 4095) / 4096 * 4096 + kMostRanks * kArea;

struct UniqueId {
  char text[128];
};
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

struct Communicator {
  int rank, world;
  bool blocks;
  char* memory;
  uint64_t given = 0;               // calls, those of a graph at each launch
  uint64_t shown = 0;               // calls that were published
  int64_t graphs = 0, capture = 0;  // captures that have calls of it, and the driver's number of the last one
  size_t cursor = 0;                // in this rank's area
  // Held by what graphs have of it: they must be gone before it can go.
  std::shared_ptr<char> in_graphs = std::make_shared<char>();
  std::atomic<uint64_t> executed = 0;  // calls
  std::atomic<bool> aborted = false;
  std::atomic<int> error = kOk, under_way = 0;  // answers "in progress" so often yet

  Seat& seat(int r) const { return reinterpret_cast<Shared*>(memory)->seats[r]; }
  char* area(int r) const { return memory + kSharedBytes - static_cast<size_t>(kMostRanks - r) * kArea; }
  bool all(uint64_t calls, std::atomic<uint64_t> Seat::*of) const {
    for (int r = 0; r < world; ++r) {
      if ((seat(r).*of).load() < calls) return false;
    }
    return true;
  }
  // False where the communicator is aborted meanwhile.
  template <class F>
  bool wait_until(F holds, const char* what) {
    for (uint64_t tries = 0; !holds(); ++tries) {
      if (aborted) return false;
      if (tries > uint64_t{kHangs} * 10000) {
        machine().fault(std::string(what) + " hangs");
        return false;
      }
      usleep(100);
    }
    return !aborted;
  }
};

struct Given {
  Communicator* to;
  Call call;
  const void* from;
  void* into;
  fake::StreamState* stream;
};
thread_local int t_groups = 0;
thread_local std::vector<Given> t_given;
std::atomic<int> g_meetings = 0;

size_t bytes_of(int type) { return type == kByte ? 1 : type == kFloat ? 4 : 8; }
uint64_t brought(const Communicator& c, const Call& call) {
  switch (call.kind) {
    case Kind::broadcast: return call.root == c.rank ? call.count : 0;
    default: return call.count;
  }
}

// Shows the others what this rank brings. Executed when the call is made, or with the graph that it is part of.
void publish(Communicator& c, const Given& g) {
  const uint64_t number = c.shown++;
  machine().at_work = kNames[static_cast<size_t>(g.call.kind)];
  const size_t bytes = brought(c, g.call) * bytes_of(g.call.type);
  if (bytes > 0) machine().read(g.from, static_cast<unsigned>(bytes));
  Seat& mine = c.seat(c.rank);
  if (c.cursor + bytes > kArea || number >= kCalls) {
    const uint64_t free = c.cursor + bytes > kArea ? number : number - kCalls + 1;
    if (!c.wait_until([&] { return c.all(free, &Seat::done); }, "a rank that is ahead")) return;
    if (free == number) c.cursor = 0;
  }
  if (bytes > 0) std::memcpy(c.area(c.rank) + c.cursor, g.from, bytes);
  mine.calls[number % kCalls] = {g.call, c.cursor};
  c.cursor += (bytes + 63) / 64 * 64;
  mine.published.store(number + 1);
}

template <class T>
void add(T* to, const char* from, uint64_t count) {
  const T* const part = reinterpret_cast<const T*>(from);
  for (uint64_t i = 0; i < count; ++i) to[i] += part[i];
}

void make_result(Communicator& c, const Given& g, uint64_t number) {
  const size_t size = bytes_of(g.call.type), n = g.call.count * size;
  const auto part = [&](int r) { return c.area(r) + c.seat(r).calls[number % kCalls].offset; };
  const bool adds = g.call.kind == Kind::all_reduce;
  const size_t bytes = g.call.kind == Kind::all_gather ? n * static_cast<size_t>(c.world) : n;
  if (bytes == 0) return;
  machine().write(g.into, static_cast<unsigned>(bytes));
  char* const into = static_cast<char*>(g.into);
  if (!adds) {
    const bool gathers = g.call.kind == Kind::all_gather;
    for (int r = 0; gathers && r < c.world; ++r) std::memcpy(into + static_cast<size_t>(r) * n, part(r), n);
    if (!gathers) std::memcpy(into, part(g.call.root), n);
    return;
  }
  // The order is a ring's, another one than any of Freight's.
  std::memcpy(into, part(c.world - 1), n);
  for (int r = c.world - 1; r-- > 0;) {
    if (g.call.type == kFloat) add(reinterpret_cast<float*>(into), part(r), g.call.count);
    if (g.call.type == kDouble) add(reinterpret_cast<double*>(into), part(r), g.call.count);
    if (g.call.type == kLong) add(reinterpret_cast<int64_t*>(into), part(r), g.call.count);
  }
}

// Waits for the others and makes the result. Executed when the device is.
void finish(Communicator& c, const Given& g) {
  const uint64_t number = c.executed;
  machine().at_work = kNames[static_cast<size_t>(g.call.kind)];
  const bool there = c.wait_until([&] { return c.all(number + 1, &Seat::published); }, "a collective");
  for (int r = 0; there && r < c.world; ++r) {
    const Call& theirs = c.seat(r).calls[number % kCalls].call;
    if (theirs == g.call) continue;
    machine().fault("rank " + std::to_string(c.rank) + " calls " + text_of(g.call) + ", rank " + std::to_string(r) +
                    " calls " + text_of(theirs));
    c.error = kInvalidUse;
    break;
  }
  const char* fails = std::getenv("FAKE_NCCL_FAILS_AFTER");
  if (fails && number >= static_cast<uint64_t>(std::atoll(fails))) c.error = kRemoteFailed;
  if (there && c.error == kOk) make_result(c, g, number);
  ++machine().told.collectives;
  c.executed = number + 1;
  c.seat(c.rank).done.store(number + 1);
}

int refuse(const std::string& why) {
  machine().fault(why);
  return kInvalidUse;
}

int issue() {
  std::vector<Given> all;
  all.swap(t_given);
  if (all.empty()) return kOk;
  Communicator& c = *all[0].to;
  const bool recorded = machine().captured != nullptr;
  if (recorded && c.capture != machine().told.captures) {
    c.capture = machine().told.captures;
    ++c.graphs;
  }
  for (Given& g : all) {
    g.call.graph = recorded ? c.graphs : 0;
    if (recorded && !machine().captures(g.stream))
      return refuse("a collective of another stream than those that this thread captures");
  }
  const auto count = static_cast<uint64_t>(all.size());
  if (recorded) {
    machine().at_launch([&c, count, held = c.in_graphs] {
      c.given += count;
      machine().told.graph_collectives += static_cast<int64_t>(count);
    });
  } else {
    c.given += count;
  }
  for (const Given& g : all)
    machine().enqueue(
        g.stream, [&c, g] { publish(c, g); }, fake::Kind::other);
  if (!recorded) machine().flush();
  for (const Given& g : all)
    machine().enqueue(
        g.stream, [&c, g] { finish(c, g); }, fake::Kind::collective);
  if (c.blocks) return kOk;
  c.under_way = 2;
  return kUnderWay;
}

int give(const Given& g) {
  Communicator& c = *g.to;
  const std::string name = kNames[static_cast<size_t>(g.call.kind)];
  if (c.aborted) return refuse(name + " of a communicator that was aborted");
  if (c.under_way > 0) return refuse(name + " while the call before is in progress");
  if (!g.stream) return refuse(name + " without a stream");
  const bool adds = g.call.kind == Kind::all_reduce;
  const int type = g.call.type;
  if (type != kFloat && type != kDouble && type != kLong && (adds || type != kByte))
    return refuse(name + " of type " + std::to_string(type));
  if (adds && g.call.operation != kAdded) return refuse(name + " with another operation than a sum");
  if (g.call.root < 0 || g.call.root >= c.world) return refuse(name + " from a rank that there is not");
  const auto of_device = [](const void* p) {
    return machine().on_device(p) && !machine().is_pinned(reinterpret_cast<unsigned long long>(p));
  };
  if (g.call.count > 0 && (!of_device(g.from) || !of_device(g.into)))
    return refuse(name + ": a buffer that is not the device's memory");
  t_given.push_back(g);
  return t_groups > 0 ? kOk : issue();
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  const char* text = std::getenv("FAKE_NCCL_VERSION");
  *version = text ? std::atoi(text) : 22809;
  return kOk;
}
int ncclGetUniqueId(UniqueId* id) {
  const int file = memfd_create("fake_nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(kSharedBytes)) != 0) return kSystemFailed;
  std::memset(id, 0, sizeof(*id));
  std::snprintf(id->text, sizeof id->text, "/proc/%d/fd/%d", getpid(), file);
  ++g_meetings;
  return kOk;
}
#ifndef FAKE_NCCL_IS_OLD
int ncclCommInitRankConfig(Communicator** made, int world, UniqueId id, int rank, const Config* config) {
  *made = nullptr;
  if (!config || config->magic != kMagic || config->version < kOldestVersion || config->size < sizeof(Config))
    return refuse("a configuration that is none");
  if (world < 1 || world > kMostRanks || rank < 0 || rank >= world) return kInvalidArgument;
  id.text[sizeof id.text - 1] = 0;
  const int file = open(id.text, O_RDWR | O_CLOEXEC);
  if (file < 0) return kSystemFailed;
  void* const at = mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (at == MAP_FAILED) return kSystemFailed;
  auto* c = new Communicator{rank, world, config->blocking != 0, static_cast<char*>(at)};
  if (c->seat(rank).joined.exchange(1) != 0) return refuse("a rank joins twice");
  ++machine().told.live_communicators;
  *made = c;
  return kUnderWay;
}
#endif
int ncclCommGetAsyncError(Communicator* c, int* error) {  // from any thread
  *error = c->error;
  if (*error != kOk) return kOk;
  for (int r = 0; r < c->world; ++r) {
    if (c->seat(r).joined.load() == 0) *error = kUnderWay;
  }
  if (c->under_way > 0) {
    --c->under_way;
    *error = kUnderWay;
  }
  return kOk;
}
int ncclCommFinalize(Communicator* c) {
  if (c->executed != c->given) machine().fault("a communicator ends while it has work");
  return kOk;
}
int ncclCommDestroy(Communicator* c) {
  if (c->executed != c->given) machine().fault("a communicator is destroyed while it has work");
  if (c->in_graphs.use_count() > 1) machine().fault("a communicator is destroyed while a graph has calls of it");
  --machine().told.live_communicators;
  munmap(c->memory, kSharedBytes);
  delete c;
  return kOk;
}
// Called from any thread, while another one waits in it. It returns when no graph has calls of it any more.
int ncclCommAbort(Communicator* c) {
  c->aborted = true;
  for (unsigned tries = 0; c->in_graphs.use_count() > 1; ++tries) {
    if (tries > kAbortHangs * 10000) {
      machine().fault("a communicator is aborted by whom its graphs belong to");
      break;
    }
    usleep(100);
  }
  --machine().told.live_communicators;
  return kOk;
}
const char* ncclGetErrorString(int status) {
  switch (status) {
    case kSystemFailed: return "unhandled system error";
    case kInvalidArgument: return "invalid argument";
    case kInvalidUse: return "invalid usage";
    case kRemoteFailed: return "remote process exited or there was a network error";
    default: return status == kOk ? "no error" : "as the fake NCCL was told";
  }
}
const char* ncclGetLastError(Communicator*) { return ""; }
int ncclGroupStart() {
  ++t_groups;
  return kOk;
}
int ncclGroupEnd() {
  if (t_groups == 0) return refuse("ncclGroupEnd without a group");
  return --t_groups > 0 ? kOk : issue();
}
int ncclAllReduce(const void* from, void* into, size_t count, int type, int operation, Communicator* c,
                  fake::StreamState* stream) {
  return give({c, {Kind::all_reduce, type, operation, 0, count}, from, into, stream});
}
int ncclAllGather(const void* from, void* into, size_t count, int type, Communicator* c, fake::StreamState* stream) {
  return give({c, {Kind::all_gather, type, 0, 0, count}, from, into, stream});
}
int ncclBroadcast(const void* from, void* into, size_t count, int type, int root, Communicator* c,
                  fake::StreamState* stream) {
  return give({c, {Kind::broadcast, type, 0, root, count}, from, into, stream});
}
}
