// Hosts on one machine: network namespaces, each with one interface on a common switch, at a limited rate. Needs root.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "freight/base/strings.h"

namespace freight::test {

class Hosts {
 public:
  // Host h has the address 10.77.0.(h + 1) at its interface e0.
  explicit Hosts(int count, const std::string& rate = "1gbit")
      : count_(count), prefix_(cat("frt", static_cast<int64_t>(::getpid()))) {
    why_ = make(rate);
  }
  ~Hosts() {
    run(cat("ip netns del ", switch_name()));
    for (int h = 0; h < count_; ++h) run(cat("ip netns del ", name(h)));
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // "" where all is there, else why not: a test says so and is skipped.
  const std::string& why_not() const { return why_; }
  std::string name(int host) const { return cat(prefix_, "h", host); }
  static std::string address(int host) { return cat("10.77.0.", host + 1); }
  // This process, and what it starts, is on that host from now on.
  bool enter(int host) const {
    const int fd = ::open(cat("/var/run/netns/", name(host)).c_str(), O_RDONLY | O_CLOEXEC);
    const bool there = fd >= 0 && ::setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0) ::close(fd);
    return there;
  }
  bool cut(int host) const { return run(cat("ip -n ", switch_name(), " link set p", host, " down")); }
  bool mend(int host) const { return run(cat("ip -n ", switch_name(), " link set p", host, " up")); }

 private:
  static bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }
  std::string switch_name() const { return prefix_ + "s"; }

  std::string make(const std::string& rate) {
    if (::geteuid() != 0) return "needs root for network namespaces";
    const std::string s = switch_name();
    if (!run("ip netns add " + s)) return "this system makes no network namespaces (ip netns)";
    if (!run(cat("ip -n ", s, " link add name sw type bridge")) || !run(cat("ip -n ", s, " link set sw up"))) {
      return "this system makes no bridges";
    }
    for (int h = 0; h < count_; ++h) {
      const std::string n = name(h);
      const bool made = run("ip netns add " + n) &&
                        run(cat("ip -n ", s, " link add p", h, " type veth peer name e0 netns ", n)) &&
                        run(cat("ip -n ", s, " link set p", h, " master sw up")) &&
                        run(cat("ip -n ", n, " addr add ", address(h), "/24 dev e0")) &&
                        run(cat("ip -n ", n, " link set e0 up")) && run(cat("ip -n ", n, " link set lo up"));
      if (!made) return "this system makes no veth pairs";
      if (!run(cat("tc -n ", n, " qdisc add dev e0 root tbf rate ", rate, " burst 256kb latency 50ms"))) {
        return "this system limits no rates (tc tbf)";
      }
    }
    return "";
  }

  int count_;
  std::string prefix_, why_;
};

}  // namespace freight::test
