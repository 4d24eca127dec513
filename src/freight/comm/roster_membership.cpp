// See membership.h. The launcher of a job on one host writes a table (roster_internal.h) from which its processes know
// who is in it.
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
#include "freight/comm/membership_internal.h"
#include "freight/comm/process_internal.h"
#include "freight/comm/roster_internal.h"
#include "freight/comm/shared_memory.h"

namespace freight::comm {

namespace {

constexpr double kLookAtRoster = 0.1;  // seconds

class RosterMembership final : public Membership {
 public:
  RosterMembership(const Launch& launch, Roster* roster, int bell);
  ~RosterMembership() override;

  int number() const override { return launch_.rank; }
  int most() const override { return launch_.world; }
  void need_same(uint64_t identity) override;
  std::unique_ptr<Comm> meet(double timeout) override;
  void settle() override;
  bool called() const override { return roster_->generation.load(std::memory_order_acquire) != generation_; }
  void did_step() override;
  void end_job(const std::string& why) override;
  bool began() const override { return roster_->began.load() != 0; }
  void begin() override { roster_->began.store(1); }

 private:
  struct List {
    uint32_t generation = 0;
    std::vector<int> members;
    std::string events;
  };
  List await();
  bool doomed() const;
  void ring() const;

  const Launch launch_;
  Roster* const roster_;
  const int bell_;
  uint32_t generation_ = 0;
};

RosterMembership::RosterMembership(const Launch& launch, Roster* roster, int bell)
    : launch_(launch), roster_(roster), bell_(bell) {
  FREIGHT_CHECK(launch.rank >= 0 && static_cast<size_t>(launch.rank) < kMostMembers);
}

RosterMembership::~RosterMembership() { ::munmap(roster_, sizeof(Roster)); }

void RosterMembership::need_same(uint64_t identity) {
  uint64_t known = 0;
  if (roster_->identity.compare_exchange_strong(known, identity) || known == identity) return;
  fail(ErrorKind::usage, "ranks", "rank ", number(), " has another program, data or settings than those that it joins");
}

void RosterMembership::ring() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(bell_, &one, sizeof(one));
}

bool RosterMembership::doomed() const {
  return roster_->broken.load(std::memory_order_acquire) >= generation_ ||
         roster_->over.load(std::memory_order_acquire) != 0;
}

void RosterMembership::did_step() {
  roster_->seats[static_cast<size_t>(number())].steps.fetch_add(1, std::memory_order_relaxed);
}

// The launcher tells the others, but not why: those that saw it say so themselves.
void RosterMembership::end_job(const std::string&) {
  roster_->given_up.store(1, std::memory_order_release);
  ring();
}

void RosterMembership::settle() {
  roster_->seats[static_cast<size_t>(number())].met.store(generation_, std::memory_order_release);
}

// Waits for a newer list that this process is on.
RosterMembership::List RosterMembership::await() {
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

std::unique_ptr<Comm> RosterMembership::meet(double timeout) {
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

}  // namespace

std::unique_ptr<Membership> roster_membership(const Launch& launch, const std::string& text) {
  const auto [table, bell] = descriptors_in<2>("FREIGHT_ELASTIC", text);
  void* const p = ::mmap(nullptr, sizeof(Roster), PROT_READ | PROT_WRITE, MAP_SHARED, table, 0);
  if (p == MAP_FAILED) fail(ErrorKind::runtime, "mmap", "cannot map the job's table: ", std::strerror(errno));
  return std::make_unique<RosterMembership>(launch, static_cast<Roster*>(p), bell);
}

}  // namespace freight::comm
