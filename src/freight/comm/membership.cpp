// See membership.h.
#include "freight/comm/membership.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/comm/process_internal.h"
#include "freight/comm/roster_internal.h"
#include "freight/comm/shared_memory.h"

namespace freight::comm {

namespace {

constexpr double kLookAtRoster = 0.1;  // seconds
constexpr size_t kInherited = 4;       // descriptors: the table, the bell, and the launcher's two streams

std::array<int, kInherited> inherited_descriptors(const std::string& text) {
  std::array<int, kInherited> all{};
  const std::vector<std::string> words = split(text, ',');
  bool sound = words.size() == all.size();
  for (size_t i = 0; sound && i < all.size(); ++i) {
    const std::string& w = words[i];
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), all[i]);
    sound = error == std::errc() && end == w.data() + w.size() && ::fcntl(all[i], F_GETFD) >= 0;
  }
  if (!sound) {
    fail(ErrorKind::usage, "FREIGHT_ELASTIC", "got '", excerpt(text),
         "', need what freight train --elastic sets: ", "unset it");
  }
  return all;
}

}  // namespace

struct Membership::List {
  uint32_t generation = 0;
  std::vector<int> members;
  std::string events;
};

std::unique_ptr<Membership> Membership::of_process(const Launch& launch) {
  const std::string text = env::get("FREIGHT_ELASTIC");
  if (text.empty() || launch.source != "freight") return nullptr;
  const auto [table, bell, out, err] = inherited_descriptors(text);
  for (const int fd : {table, bell, out, err}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  void* const p = ::mmap(nullptr, sizeof(Roster), PROT_READ | PROT_WRITE, MAP_SHARED, table, 0);
  if (p == MAP_FAILED) fail(ErrorKind::runtime, "mmap", "cannot map the job's table: ", std::strerror(errno));
  return std::unique_ptr<Membership>(new Membership(launch, static_cast<Roster*>(p), bell));
}

Membership::Membership(const Launch& launch, Roster* roster, int bell) : launch_(launch), roster_(roster), bell_(bell) {
  FREIGHT_CHECK(launch.rank >= 0 && static_cast<size_t>(launch.rank) < kMostMembers);
}

Membership::~Membership() { ::munmap(roster_, sizeof(Roster)); }

void Membership::take_terminal() {
  const auto [table, bell, out, err] = inherited_descriptors(env::get("FREIGHT_ELASTIC"));
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
}

void Membership::need_same(uint64_t identity) const {
  uint64_t known = 0;
  if (roster_->identity.compare_exchange_strong(known, identity) || known == identity) return;
  fail(ErrorKind::usage, "ranks", "rank ", number(), " has another program, data or settings than those that it joins");
}

void Membership::ring() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(bell_, &one, sizeof(one));
}

bool Membership::doomed() const {
  return roster_->broken.load(std::memory_order_acquire) >= generation_ ||
         roster_->over.load(std::memory_order_acquire) != 0;
}

bool Membership::called() const { return roster_->generation.load(std::memory_order_acquire) != generation_; }
bool Membership::began() const { return roster_->began.load() != 0; }
void Membership::begin() { roster_->began.store(1); }

void Membership::did_step() {
  roster_->seats[static_cast<size_t>(number())].steps.fetch_add(1, std::memory_order_relaxed);
}

void Membership::settle() {
  roster_->seats[static_cast<size_t>(number())].met.store(generation_, std::memory_order_release);
}

// Waits for a newer list that this process is on.
Membership::List Membership::await() {
  Roster& r = *roster_;
  for (;;) {
    List list;
    const uint32_t version = r.version.load(std::memory_order_acquire);
    list.generation = r.generation.load(std::memory_order_acquire);
    bool on_it = false;
    for (uint32_t i = 0; i < std::min<uint32_t>(r.count.load(), kMostMembers); ++i) {
      list.members.push_back(static_cast<int>(r.members[i].load()));
      on_it = on_it || list.members.back() == number();
    }
    std::array<char, sizeof(r.events)> text = r.events;
    text.back() = 0;
    list.events = text.data();
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 != 0 || r.version.load(std::memory_order_acquire) != version) continue;
    if (r.over.load() != 0) throw Error(ErrorKind::peer_lost, "elastic", list.events, cat("rank ", number()));
    if (on_it && list.generation != generation_) return list;
    sleep_while(r.generation, list.generation, kLookAtRoster);
  }
}

std::unique_ptr<Comm> Membership::meet(double timeout) {
  RosterSeat& seat = roster_->seats[static_cast<size_t>(number())];
  for (;;) {
    seat.left.store(generation_);
    seat.ready.store(::getpid());
    ring();
    const List list = await();
    generation_ = list.generation;
    events_ = list.events;
    Launch l = launch_;
    l.job = cat(launch_.job, ".", generation_);
    l.world = l.local_world = static_cast<int>(list.members.size());
    for (int i = 0; i < l.world; ++i) {
      if (list.members[static_cast<size_t>(i)] == number()) l.rank = l.local_rank = i;
    }
    try {
      return join_shared_memory(l, {.timeout = timeout, .called_off = [this] { return doomed(); }});
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::peer_lost) throw;  // another was lost meanwhile: the next list is without it
    }
  }
}

}  // namespace freight::comm
