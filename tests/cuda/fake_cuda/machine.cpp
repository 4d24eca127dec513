// See machine.h.
#include "tests/cuda/fake_cuda/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fake {

Machine& machine() {
  static auto* m = new Machine;  // outlives everybody
  return *m;
}

Machine::Machine() : idle(std::getenv("FAKE_CUDA_IDLE") != nullptr) {
  base_ = static_cast<char*>(
      mmap(nullptr, kSpace, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (const char* text = std::getenv("FAKE_CUDA_FREE")) told.free_bytes = std::atoll(text);
  if (const char* text = std::getenv("FAKE_CUDA_LOSE_AFTER")) told.lose_after = std::atoll(text);
}

void Machine::fault(const std::string& text) {
  if (told.faults.size() < 20) told.faults.push_back(text);
}

bool Machine::forbidden_in_capture(const char* what) {
  if (captured) fault(std::string(what) + " while a stream is captured");
  return captured != nullptr;
}

char* Machine::reserve(size_t bytes) {
  char* address = base_ + next_;
  next_ += (bytes + 255) / 256 * 256 + 256;  // addresses are never given again
  units_.resize(next_ / kUnit);
  std::memset(address, idle ? 0 : 0xff, bytes);  // NaN
  return address;
}

void* Machine::pin(size_t bytes) {
  char* address = reserve(bytes);
  const auto first = static_cast<size_t>(address - base_) / kUnit;
  for (size_t i = first; i < first + (bytes + kUnit - 1) / kUnit; ++i) units_[i].pinned = true;
  pinned_[reinterpret_cast<unsigned long long>(address)] = bytes;
  ++told.live_pinned;
  return address;
}

void Machine::unpin(void* address) {
  flush();
  if (pinned_.erase(reinterpret_cast<unsigned long long>(address)) == 0) fault("memory is unpinned that is not pinned");
  --told.live_pinned;
}

bool Machine::is_pinned(unsigned long long address) const {
  const auto after = pinned_.upper_bound(address);
  return after != pinned_.begin() && address < std::prev(after)->first + std::prev(after)->second;
}

unsigned long long Machine::allocate(size_t bytes) {
  if (static_cast<int64_t>(bytes) > told.free_bytes) return 0;
  char* address = reserve(bytes);
  const auto number = reinterpret_cast<unsigned long long>(address);
  blocks_[number] = bytes;
  told.free_bytes -= static_cast<int64_t>(bytes);
  ++told.allocations;
  ++told.live_blocks;
  return number;
}

bool Machine::release(unsigned long long address) {
  const auto it = blocks_.find(address);
  if (it == blocks_.end()) {
    fault("a block is released that is none");
    return false;
  }
  flush();
  told.free_bytes += static_cast<int64_t>(it->second);
  --told.live_blocks;
  blocks_.erase(it);
  return true;
}

namespace {
void join(Clock& to, const Clock& from) {
  for (size_t i = 0; i < kActors; ++i) to[i] = std::max(to[i], from[i]);
}
}  // namespace

size_t Machine::branch_of(StreamState* stream) const {
  const auto it = std::find(branches_.begin(), branches_.end(), stream);
  return captured && it != branches_.end() ? static_cast<size_t>(it - branches_.begin()) : kActors;
}

void Machine::enqueue(StreamState* stream, std::function<void()> work, Kind kind) {
  if (idle) return;
  if (const size_t branch = branch_of(stream); branch != kActors) {
    ++before_[branch][branch];
    capture_.push_back({branch, std::move(work), kind});
    return;
  }
  pending_.push_back({stream->actor, std::move(work), clocks_[0], kind});
}

void Machine::begin_capture(StreamState* stream) {
  captured = stream;
  ++told.captures;
  capture_.clear();
  at_launch_.clear();
  branches_ = {stream};
  before_ = {Clock{}};
}

bool Machine::end_capture(GraphState& into) {
  captured = nullptr;
  into.work = std::move(capture_);
  into.at_launch = std::move(at_launch_);
  bool joined = true;
  for (size_t b = 1; b < branches_.size(); ++b) joined = joined && before_[0][b] == before_[b][b];
  if (!joined) fault("a captured stream is not joined");
  return joined;
}

void Machine::launch(const GraphState& graph, StreamState* stream) {
  for (const auto& call : graph.at_launch) call();
  for (const Captured& c : graph.work) {
    pending_.push_back({c.branch == 0 ? stream->actor : kFirstBranch + c.branch - 1, c.work, clocks_[0], c.kind, true});
  }
}

void Machine::record(EventState* event, StreamState* stream) {
  if (idle) return;
  if (const size_t branch = branch_of(stream); branch != kActors) {
    event->capture = told.captures;
    event->captured = before_[branch];
    event->edge = std::make_shared<Clock>();
    capture_.push_back({branch, [this, edge = event->edge] { *edge = clocks_[actor_]; }, Kind::other});
    return;
  }
  if (forbidden_in_capture("an event of another stream")) return;
  event->capture = 0;
  ++event->pending;
  const auto work = [this, event] {
    event->clock = clocks_[actor_];
    --event->pending;
  };
  pending_.push_back({stream->actor, work, clocks_[0]});
}

void Machine::wait(StreamState* stream, EventState* event) {
  if (idle) return;
  if (captured && event->capture == told.captures) {
    size_t branch = branch_of(stream);
    if (branch == kActors) {
      branch = branches_.size();
      if (kFirstBranch + branch > kActors) return fault("more captured streams than the fake driver follows");
      branches_.push_back(stream);
      before_.emplace_back();
    }
    join(before_[branch], event->captured);
    capture_.push_back({branch, [this, edge = event->edge] { join(clocks_[actor_], *edge); }, Kind::other});
    return;
  }
  if (forbidden_in_capture("an event of before")) return;
  if (event->capture != 0) return fault("an event of a capture is waited for outside of it");
  pending_.push_back({stream->actor, [this, event] { join(clocks_[actor_], event->clock); }, clocks_[0]});
}

void Machine::host_waits(StreamState* stream) {
  ++told.host_waits;
  flush();
  join(clocks_[0], clocks_[stream->actor]);
}

void Machine::host_waits(EventState* event) {
  if (event->capture != 0) fault("the host waits for an event of a capture");
  ++told.host_waits;
  flush();
  join(clocks_[0], event->clock);
}

void Machine::flush() {
  std::vector<Operation> now;
  now.swap(pending_);
  for (Operation& o : now) {
    actor_ = o.actor;
    join(clocks_[actor_], o.host);
    ++clocks_[actor_][actor_];
    look_beside(o);
    o.work();
  }
}

void Machine::hidden(Kind kind, bool in_graph) {
  if (kind == Kind::collective) {
    ++told.collectives_hidden;
    return;
  }
  told.copies_to_host_hidden += kind == Kind::to_host;
  told.graph_copies_hidden += in_graph;
}

void Machine::look_beside(const Operation& o) {
  const Clock& now = clocks_[actor_];
  if (o.kind == Kind::kernel) {
    last_kernel_[actor_] = now[actor_];
    std::erase_if(crossings_, [&](const Crossing& c) {
      const bool beside = now[c.actor] < c.at;
      if (beside) hidden(c.kind, c.in_graph);
      return true;  // or behind it
    });
  }
  if (o.kind == Kind::to_host || o.kind == Kind::to_device || o.kind == Kind::collective) {
    told.copies_to_host += o.kind == Kind::to_host;
    told.graph_copies += o.in_graph && o.kind != Kind::collective;
    for (size_t a = 0; a < kActors; ++a) {
      if (last_kernel_[a] > now[a]) return hidden(o.kind, o.in_graph);
    }
    crossings_.push_back({actor_, now[actor_], o.kind, o.in_graph});
  }
}

void Machine::copy(void* to, const void* from, size_t bytes) {
  at_work = "copy";
  for (size_t i = 0; i < bytes; i += kUnit) {
    const auto n = static_cast<unsigned>(std::min(kUnit, bytes - i));
    read(static_cast<const char*>(from) + i, n);
    write(static_cast<char*>(to) + i, n);
  }
  std::memcpy(to, from, bytes);
}

void Machine::conflict(const char* what, size_t offset) {
  const auto address = reinterpret_cast<unsigned long long>(base_ + offset);
  const bool pinned = units_[std::min(offset / kUnit, units_.size() - 1)].pinned;
  const auto& blocks = pinned ? pinned_ : blocks_;
  auto block = blocks.upper_bound(address);
  if (block != blocks.begin()) --block;
  fault(at_work + ": " + what + " at byte " + std::to_string(address - block->first) + " of a " +
        (pinned ? "pinned " : "") + "block of " + std::to_string(block->second));
}

void Machine::read(const void* p, unsigned bytes) {
  if (!on_device(p)) return;
  const auto offset = static_cast<size_t>(static_cast<const char*>(p) - base_);
  for (size_t i = offset / kUnit; i <= (offset + bytes - 1) / kUnit; ++i) {
    if (i >= units_.size()) return conflict("reads beyond all blocks", offset);
    Unit& u = units_[i];
    if (u.written_at == 0 && !u.pinned) conflict("reads what nothing has written", offset);
    if (clocks_[actor_][u.writer] < u.written_at) conflict("reads unordered with a write", offset);
    u.read_at[actor_] = clocks_[actor_][actor_];
  }
}

void Machine::write(void* p, unsigned bytes) {
  if (!on_device(p)) return;
  const auto offset = static_cast<size_t>(static_cast<char*>(p) - base_);
  for (size_t i = offset / kUnit; i <= (offset + bytes - 1) / kUnit; ++i) {
    if (i >= units_.size()) return conflict("writes beyond all blocks", offset);
    Unit& u = units_[i];
    if (clocks_[actor_][u.writer] < u.written_at) conflict("writes unordered with a write", offset);
    for (size_t a = 0; a < u.read_at.size(); ++a) {
      if (clocks_[actor_][a] < u.read_at[a]) conflict("writes unordered with a read", offset);
    }
    u.writer = static_cast<uint8_t>(actor_);
    u.written_at = clocks_[actor_][actor_];
  }
}

}  // namespace fake

extern "C" FakeCuda* fake_cuda() { return &fake::machine().told; }
extern "C" void fake_cuda_flush() { fake::machine().flush(); }
