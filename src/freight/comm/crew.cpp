// See crew_internal.h.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/comm/crew_internal.h"

namespace freight::comm {

namespace {

constexpr int64_t kFewSteps = 10;     // a process that ended after fewer steps than this ended soon
constexpr int kTriesBeforeStart = 3;  // of a process that ends before the first meeting
// Members that wait for a meeting whose rest does not come, in seconds: the rest is given up. Where all wait, nobody
// was lost, or that is about to be seen.
constexpr double kMissing = 5, kAllWait = 0.5;

}  // namespace

Crew::Crew(int processes, const Elastic& bounds)
    : bounds_(bounds),
      table_(::memfd_create("freight-roster", MFD_CLOEXEC)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      people_(static_cast<size_t>(processes)),
      stopped_(processes) {
  need_bounds(bounds, processes);
  if (table_.get() < 0 || bell_.get() < 0 || ::ftruncate(table_.get(), sizeof(Roster)) != 0) {
    fail(ErrorKind::runtime, "launcher", "cannot make the job's table: ", std::strerror(errno));
  }
  void* const p = ::mmap(nullptr, sizeof(Roster), PROT_READ | PROT_WRITE, MAP_SHARED, table_.get(), 0);
  if (p == MAP_FAILED) fail(ErrorKind::runtime, "mmap", "cannot map the job's table: ", std::strerror(errno));
  roster_ = static_cast<Roster*>(p);
}

std::string Crew::setting() const { return cat(table_.get(), ",", bell_.get()); }

Crew::~Crew() { ::munmap(roster_, sizeof(Roster)); }

int Crew::count(State state) const {
  return static_cast<int>(
      std::count_if(people_.begin(), people_.end(), [&](const Person& p) { return p.state == state; }));
}

bool Crew::waits() const { return !over_ && !stopping_ && !finishing_ && count(State::due) > 0; }

void Crew::clear_seat(int number) {
  RosterSeat& s = seat(number);
  s.ready = 0;
  s.left = s.met = 0;
  s.steps = 0;
}

void Crew::started(int number, pid_t process) {
  Person& p = person(number);
  p.state = State::starting;
  p.process = process;
  stopped_.forget(number);
  p.given_up.clear();
}

// True before the first meeting, too.
bool Crew::all_have_met() const {
  const auto has_met = [&](int n) { return seat(n).met.load(std::memory_order_acquire) == generation_; };
  return std::all_of(order_.begin(), order_.end(), has_met);
}

// Adds to what the next meeting is told, but for what all members have heard.
void Crew::tell(const std::string& event) {
  if (!order_.empty() && all_have_met()) events_.clear();
  events_ += events_.empty() ? event : ", " + event;
}

void Crew::publish(bool broken) {
  Roster& r = *roster_;
  r.version.fetch_add(1, std::memory_order_acq_rel);
  r.count = static_cast<uint32_t>(order_.size());
  for (size_t i = 0; i < order_.size(); ++i) r.members[i] = static_cast<uint32_t>(order_[i]);
  const size_t n = std::min(events_.size(), r.events.size() - 1);
  std::memcpy(r.events.data(), events_.data(), n);
  r.events[n] = 0;
  if (broken) r.broken.store(generation_, std::memory_order_release);
  r.generation.store(++generation_, std::memory_order_release);
  r.version.fetch_add(1, std::memory_order_acq_rel);
  missing_ = false;
  wake_all(r.generation);
}

void Crew::give_up(const std::string& why) {
  if (over_) return;
  over_ = true;
  events_ = why;
  roster_->over.store(1, std::memory_order_release);
  publish(true);
}

void Crew::hear() {
  if (roster_->given_up.load(std::memory_order_acquire) != 0) give_up("the run was given up: the ranks' logs say why");
}

bool Crew::ended(int number, int code, int signal) {
  hear();
  Person& p = person(number);
  const State was = p.state;
  p.state = State::gone;
  const bool was_member = was == State::member;
  const bool as_asked = stopping_ && code > 128;
  if (signal == 0 && (code == 0 || as_asked)) {
    if (was_member && !finishing_) last_first_ = first();
    finishing_ = finishing_ || was_member;
    if (number == last_first_) last_first_ = -1;
    if (was_member) std::erase(order_, number);
    return true;
  }
  if (over_) return false;
  if (finishing_) {  // the others have done their work; the first has the last word
    if (was_member) std::erase(order_, number);
    return number != last_first_;
  }
  const bool of_itself = signal == 0 && code != static_cast<int>(ErrorKind::peer_lost);
  const std::string how = !p.given_up.empty() ? p.given_up
                          : signal != 0       ? cat("was killed by signal ", signal)
                                              : cat("ended with exit code ", code);
  if (of_itself && (was_member || generation_ == 0)) {
    give_up(cat("rank ", number, " ", how));
    return false;
  }
  if (of_itself) return true;  // one that cannot come back, of which its log tells; the others go on
  return lost(number, how);
}

// Takes a process out of the job. False where too few are left.
bool Crew::lost(int number, const std::string& how) {
  const auto at = std::find(order_.begin(), order_.end(), number);
  if (at == order_.end()) {
    start_again(number);
    if (generation_ > 0 || stopping_ || person(number).state == State::due) return true;
    // It was started in vain so often that the others begin without it.
    if (static_cast<int>(people_.size()) - count(State::gone) >= bounds_.least) {
      tell(cat("rank ", number, " ", how));
      return true;
    }
    give_up(cat("rank ", number, " ", how));
    return false;
  }
  tell(cat("rank ", number, " ", how));
  order_.erase(at);
  if (static_cast<int>(order_.size()) < bounds_.least) {
    give_up(cat("rank ", number, " ", how, "; ", order_.size(), order_.size() == 1 ? " is left" : " are left",
                ", need ", bounds_.least));
    return false;
  }
  start_again(number);
  publish(true);
  return true;
}

void Crew::start_again(int number) {
  if (stopping_) return;
  Person& p = person(number);
  p.quick = seat(number).steps < kFewSteps ? p.quick + 1 : 0;
  if (generation_ == 0 && p.quick >= kTriesBeforeStart) return;
  p.state = State::due;
  p.when = time_of_start(p.quick);
}

// Lets in those that are prepared: at first when all are, then whenever one is.
void Crew::let_in() {
  for (size_t n = 0; n < people_.size(); ++n) {
    Person& p = people_[n];
    if (p.state == State::starting && seat(static_cast<int>(n)).ready == p.process) p.state = State::ready;
  }
  if (count(State::ready) == 0) return;
  if (generation_ == 0 && count(State::starting) + count(State::due) > 0) return;
  // A list that nobody must hurry to is followed after a step. Of two in a row one member would see the first, another
  // the second alone, and they would wait for each other at different meetings.
  if (!all_have_met()) return;
  for (size_t n = 0; n < people_.size(); ++n) {
    if (people_[n].state != State::ready) continue;
    people_[n].state = State::member;
    if (generation_ > 0) tell(cat("rank ", n, " is back"));
    order_.push_back(static_cast<int>(n));
  }
  publish(false);
}

void Crew::look_for_stopped(Orders& orders) {
  std::vector<pid_t> living;
  for (const Person& p : people_) {
    living.push_back(p.state == State::gone || p.state == State::due ? 0 : p.process);
  }
  for (const int n : stopped_.look(living)) {
    if (!person(n).given_up.empty()) continue;
    person(n).given_up = "was stopped and is given up";
    orders.kill.push_back(n);
  }
}

// Members that have left the last meeting wait for a list of which nobody has told the launcher why: one does not come
// (its timeout is over), or all saw something that was none.
void Crew::look_for_missing(Orders& orders) {
  const auto waits = [&](int n) { return seat(n).left.load() == generation_; };
  const auto waiting = std::count_if(order_.begin(), order_.end(), waits);
  if (generation_ == 0 || waiting == 0) {
    missing_ = false;
    return;
  }
  if (!missing_) {
    missing_ = true;
    missing_since_ = Clock::now();
  }
  const double since = seconds_since(missing_since_);
  if (waiting == static_cast<int64_t>(order_.size())) {
    if (since > kAllWait) publish(true);
    return;
  }
  if (since < kMissing) return;
  for (const int n : order_) {
    if (waits(n) || !person(n).given_up.empty()) continue;
    person(n).given_up = "did not come to a meeting and is given up";
    orders.kill.push_back(n);
  }
}

Crew::Orders Crew::look() {
  uint64_t rings = 0;
  [[maybe_unused]] const ssize_t n = ::read(bell_.get(), &rings, sizeof(rings));
  hear();
  Orders orders;
  if (over_) return orders;
  if (finishing_ || stopping_) {  // whoever is not in it by now is not needed
    for (size_t i = 0; i < people_.size(); ++i) {
      Person& p = people_[i];
      if (p.state == State::due) p.state = State::gone;
      const bool outside = p.state == State::starting || p.state == State::ready;
      const bool came_late = finishing_ && p.state == State::member && seat(static_cast<int>(i)).met == 0;
      if (outside || came_late) orders.kill.push_back(static_cast<int>(i));
    }
  } else {
    let_in();
    const int there = count(State::member) + count(State::starting) + count(State::ready);
    int room = (generation_ == 0 ? static_cast<int>(people_.size()) : bounds_.most) - there;
    for (size_t i = 0; i < people_.size() && room > 0; ++i) {
      if (people_[i].state != State::due || people_[i].when > Clock::now()) continue;
      orders.start.push_back(static_cast<int>(i));
      --room;
    }
  }
  look_for_stopped(orders);
  look_for_missing(orders);
  return orders;
}

}  // namespace freight::comm
