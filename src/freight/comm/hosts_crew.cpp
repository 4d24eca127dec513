// See hosts_crew_internal.h.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/comm/gate_internal.h"
#include "freight/comm/hosts_crew_internal.h"
#include "freight/comm/membership_internal.h"

namespace freight::comm {

namespace {

constexpr double kSoon = 10;  // seconds: a process that ended earlier ended soon after its start
// Exit codes above this tell of a signal, as a shell has it: one from another host says that the process there was
// killed (137), or that ssh lost it (255).
constexpr int kOfSignals = 128;

bool is_free(int port) {
  const Descriptor s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<uint16_t>(port));
  return s.get() >= 0 && ::bind(s.get(), reinterpret_cast<const sockaddr*>(&a), sizeof(a)) == 0;
}

// The first of so many ports in a row at which nothing listens on this host. They lie below those that systems hand
// out, so that none is another program's when a process comes back.
int free_ports(int count) {
  constexpr int kFirst = 20000, kPorts = 10000, kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const Nonce random = new_nonce();
    const int first = kFirst + (random[0] * 256 + random[1]) % (kPorts - count);
    int free = 0;
    while (free < count && is_free(first + free)) ++free;
    if (free == count) return first;
  }
  fail(ErrorKind::runtime, "launcher", "cannot find ", count, " free ports from ", kFirst, " on");
}

}  // namespace

HostsCrew::HostsCrew(const std::vector<std::string>& hosts, int local, const Elastic& bounds)
    : bounds_(bounds), local_(local), people_(hosts.size()), stopped_(static_cast<int>(hosts.size())) {
  const auto processes = static_cast<int>(hosts.size());
  need_bounds(bounds, processes);
  const int port = free_ports(processes);
  setting_ = cat(kDoors, bounds.least);
  for (int n = 0; n < processes; ++n) setting_ += cat(" ", hosts[static_cast<size_t>(n)], ":", port + n);
}

bool HostsCrew::any_runs() const {
  return std::any_of(people_.begin(), people_.end(), [](const Person& p) { return p.process > 0; });
}

bool HostsCrew::waits() const {
  const auto due = [](const Person& p) { return p.due; };
  return !over_ && !stopping_ && !finishing_ && any_runs() && std::any_of(people_.begin(), people_.end(), due);
}

void HostsCrew::started(int number, pid_t process) {
  Person& p = people_[static_cast<size_t>(number)];
  p.process = process;
  p.due = false;
  ++p.starts;
  p.when = Clock::now();
  stopped_.forget(number);
}

bool HostsCrew::ended(int number, int code, int signal) {
  Person& p = people_[static_cast<size_t>(number)];
  const bool soon = seconds_since(p.when) < kSoon;
  p.process = 0;
  if (signal == 0 && (code == 0 || (stopping_ && code > kOfSignals))) {
    finishing_ = true;  // whoever ends well does so when the first has stored all
    return true;
  }
  if (over_) return false;
  if (finishing_) return true;
  const bool killed = signal != 0 || (code > kOfSignals && number >= local_);
  // One that was started again and fails of itself, or finds nobody, is not missed.
  const bool came_in_vain = !killed && p.starts > 1 && soon;
  if ((!killed && !came_in_vain) || !any_runs()) {
    over_ = true;
    return false;
  }
  if (!killed || stopping_) return true;
  p.quick = soon ? p.quick + 1 : 0;
  p.due = true;
  p.when = time_of_start(p.quick);
  return true;
}

Staff::Orders HostsCrew::look() {
  Orders orders;
  if (over_) return orders;
  int room = bounds_.most;
  for (const Person& p : people_) room -= p.process > 0 ? 1 : 0;
  for (size_t n = 0; n < people_.size() && room > 0 && waits(); ++n) {
    if (!people_[n].due || people_[n].when > Clock::now()) continue;
    orders.start.push_back(static_cast<int>(n));
    --room;
  }
  std::vector<pid_t> here;
  for (int n = 0; n < local_; ++n) here.push_back(people_[static_cast<size_t>(n)].process);
  orders.kill = stopped_.look(here);
  return orders;
}

}  // namespace freight::comm
