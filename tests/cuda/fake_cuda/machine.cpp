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

Machine::Machine() {
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

unsigned long long Machine::allocate(size_t bytes) {
  if (static_cast<int64_t>(bytes) > told.free_bytes) return 0;
  char* address = base_ + next_;
  next_ += (bytes + 255) / 256 * 256 + 256;  // addresses are never given again
  units_.resize(next_ / kUnit);
  std::memset(address, 0xff, bytes);  // NaN
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

void Machine::enqueue(StreamState* stream, std::function<void()> work) {
  if (captured == stream && captured) {
    capture.push_back(std::move(work));
    return;
  }
  pending_.push_back({stream->actor, std::move(work), clocks_[0]});
}

void Machine::record(EventState* event, StreamState* stream) {
  if (forbidden_in_capture("an event")) return;
  pending_.push_back({stream->actor, [this, event] { event->clock = clocks_[actor_]; }, clocks_[0]});
}

namespace {
void join(Clock& to, const Clock& from) {
  for (size_t i = 0; i < kActors; ++i) to[i] = std::max(to[i], from[i]);
}
}  // namespace

void Machine::wait(StreamState* stream, EventState* event) {
  if (forbidden_in_capture("an event")) return;
  pending_.push_back({stream->actor, [this, event] { join(clocks_[actor_], event->clock); }, clocks_[0]});
}

void Machine::host_waits(StreamState* stream) {
  ++told.host_waits;
  flush();
  join(clocks_[0], clocks_[stream->actor]);
}

void Machine::host_waits(EventState* event) {
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
    o.work();
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
  auto block = blocks_.upper_bound(address);
  if (block != blocks_.begin()) --block;
  fault(at_work + ": " + what + " at byte " + std::to_string(address - block->first) + " of a block of " +
        std::to_string(block->second));
}

void Machine::read(const void* p, unsigned bytes) {
  if (!on_device(p)) return;
  const auto offset = static_cast<size_t>(static_cast<const char*>(p) - base_);
  for (size_t i = offset / kUnit; i <= (offset + bytes - 1) / kUnit; ++i) {
    if (i >= units_.size()) return conflict("reads beyond all blocks", offset);
    Unit& u = units_[i];
    if (u.written_at == 0) conflict("reads what nothing has written", offset);
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
