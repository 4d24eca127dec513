// Strangers at the port or name where ranks meet: many connections that say nothing, or little at a time, and more than
// rank 0 may have files open. The ranks are let in, and rank 0 does not spin.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <chrono>
#include <cstddef>
#include <cstring>

#include "freight/comm/acceptor_internal.h"
#include "freight/comm/host_rendezvous.h"
#include "freight/comm/network_rendezvous.h"
#include "tests/comm/ranks.h"

namespace freight::test {
namespace {

void allow_files(rlim_t count) {
  rlimit most{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &most), 0);
  most.rlim_cur = count == 0 ? most.rlim_max : count;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &most), 0);
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int connect_to_port(int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<uint16_t>(port));
  ::inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(s, reinterpret_cast<const sockaddr*>(&a), sizeof(a)) == 0) return s;
  ::close(s);
  return -1;
}

int connect_to_name(const std::string& job) {
  const std::string name = std::string(1, '\0') + cat("freight-", static_cast<int64_t>(::geteuid()), "-", job);
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path, name.data(), name.size());
  const int s = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (::connect(s, reinterpret_cast<const sockaddr*>(&a), length) == 0) return s;
  ::close(s);
  return -1;
}

// Opens `idle` connections that stay silent and `slow` ones that send a byte now and then, says so, and keeps them.
std::string crowd(int idle, int slow, const std::function<int()>& connect, int say_so) {
  allow_files(0);
  std::vector<int> all;
  for (int tries = 0; static_cast<int>(all.size()) < idle + slow && tries < 20000; ++tries) {
    const int s = connect();
    if (s < 0) ::usleep(2000);
    if (s >= 0) all.push_back(s);
  }
  const char done = static_cast<int>(all.size()) == idle + slow ? 'y' : 'n';
  if (::write(say_so, &done, 1) != 1) return "cannot write";
  for (;;) {
    for (int i = 0; i < slow; ++i) ::send(all[static_cast<size_t>(i)], "F", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    ::usleep(100000);
  }
}

// Rank 0 listens with `files` at most, then the crowd comes (the third process), then rank 1.
std::vector<RankEnd> meet_in_a_crowd(int idle, int slow, rlim_t files, const std::function<void(int rank)>& meet,
                                     const std::function<int()>& connect) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  Ranks ranks(3, [&](int r) -> std::string {
    if (r == 2) return crowd(idle, slow, connect, ends[1]);
    char there = 0;
    if (r == 1 && (::read(ends[0], &there, 1) != 1 || there != 'y')) return "the crowd is not there";
    if (r == 0) allow_files(files);
    const double before = processor_seconds();
    meet(r);
    const double used = processor_seconds() - before;
    return used < 2 ? "came through" : cat("took ", used, " s of a processor");
  });
  std::vector<RankEnd> all = {ranks.finish_one(0, 60), ranks.finish_one(1, 10)};
  ::close(ends[0]);
  ::close(ends[1]);
  return all;
}

// The sockets that connect to a port stay open as long as this.
struct Callers {
  std::vector<int> all;
  ~Callers() {
    for (const int s : all) ::close(s);
  }
};

// Connections are accepted in their order; those beyond the limit wait.
TEST(Acceptor, KeepsSixtyFourStrangersAtATime) {
  struct Joining {
    comm::Descriptor socket;
    int rank = -1;
    std::chrono::steady_clock::time_point connected_at = std::chrono::steady_clock::now();
  };
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  ::inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
  socklen_t size = sizeof a;
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&a), size), 0);
  ASSERT_EQ(::listen(listener, 128), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&a), &size), 0);
  comm::Acceptor acceptor;
  acceptor.open(comm::Descriptor(listener));
  Callers callers;
  std::vector<Joining> joining;
  const auto connect = [&] {
    callers.all.push_back(connect_to_port(ntohs(a.sin_port)));
    for (Joining& g : joining)
      g.connected_at = std::chrono::steady_clock::now();  // however slow the test is, none has been here for long
    comm::Descriptor accepted = acceptor.accept_connection(joining, SOCK_NONBLOCK);
    if (accepted.get() < 0) return false;
    joining.push_back({std::move(accepted)});
    return true;
  };
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(connect()) << i;
  EXPECT_FALSE(connect());
  joining[0].rank = 1;  // an identified rank does not count
  EXPECT_TRUE(connect());
  EXPECT_FALSE(connect());
}

comm::NetworkPlan network_plan(int rank, int world, int port, double timeout) {
  return {.rank = rank,
          .world = world,
          .host = "127.0.0.1",
          .port = port,
          .token = "the secret of the tests",
          .several_hosts = false,
          .timeout = timeout};
}

std::vector<std::string> endpoints_of_two(int rank) {
  return rank == 0 ? std::vector<std::string>{"", "a"} : std::vector<std::string>{"b", ""};
}

void meet_over_network(int rank, int port) {
  const auto met = comm::rendezvous_on_network(network_plan(rank, 2, port, 40),
                                               [&](const std::string&) { return endpoints_of_two(rank); });
  const auto other = static_cast<size_t>(1 - rank);
  if (met.peers.at(other).endpoint != endpoints_of_two(1 - rank)[static_cast<size_t>(rank)]) {
    throw Error(ErrorKind::runtime, "test", "got another endpoint", "");
  }
}

// The addresses that a rank tells: below the limit, at it, and one above.
TEST(NetworkMeeting, HandsOnTwoHundredAndFiftySixBytesOfEachRank) {
  for (const size_t bytes : {255, 256, 257}) {
    const int port = free_port();
    Ranks ranks(2, [&](int r) -> std::string {
      const std::string endpoint(bytes, r == 0 ? 'a' : 'b');
      const auto met =
          comm::rendezvous_on_network(network_plan(r, 2, port, bytes > 256 ? 1 : 20), [&](const std::string&) {
            return r == 0 ? std::vector<std::string>{"", endpoint} : std::vector<std::string>{endpoint, ""};
          });
      return met.peers.at(static_cast<size_t>(1 - r)).endpoint == std::string(bytes, r == 0 ? 'b' : 'a') ? "met"
                                                                                                         : "differs";
    });
    for (const RankEnd& e : ranks.finish(40)) EXPECT_EQ(e.report == "met", bytes <= 256) << bytes << " " << e.report;
  }
}

TEST(Strangers, AThousandIdleAndTwoHundredSlowOnesKeepNoRankOut) {
  for (const rlim_t files : {rlim_t{0}, rlim_t{40}}) {
    const int port = free_port();
    const auto ends = meet_in_a_crowd(
        1000, 200, files, [&](int r) { meet_over_network(r, port); }, [&] { return connect_to_port(port); });
    for (const RankEnd& e : ends) EXPECT_EQ(e.report, "came through") << files;
  }
}

TEST(Strangers, OfTheSameUserKeepNoRankOut) {
  for (const rlim_t files : {rlim_t{0}, rlim_t{40}}) {
    const std::string job = new_job();
    const auto meet = [&](int r) {
      const comm::HostRendezvous m =
          comm::rendezvous_on_host({.job = job, .rank = r, .world = 2, .bytes = 4096, .timeout = 40});
      ::close(m.file);
    };
    const auto ends = meet_in_a_crowd(100, 0, files, meet, [&] { return connect_to_name(job); });
    for (const RankEnd& e : ends) EXPECT_EQ(e.report, "came through") << files;
  }
}

// Ranks are never sent away to make room: where there are more of them than files, the message says so.
TEST(Strangers, ALimitOfFilesThatKeepsRanksOutIsNamed) {
  const int port = free_port();
  const std::string job = new_job();
  constexpr int kWorld = 12;
  const auto few = [](int r) {
    if (r == 0) allow_files(static_cast<rlim_t>(::dup(0)) + 6);
  };
  const auto expect_named = [](const std::string& report) {
    EXPECT_TRUE(report.find("error 7: rendezvous: rank") == 0 &&
                report.find(" did not respond within 2 s") != report.npos &&
                report.find(" files open, and may open no more (ulimit -n)") != report.npos)
        << report;
  };
  Ranks network(kWorld, [&](int r) -> std::string {
    few(r);
    std::vector<std::string> endpoints(kWorld, "c");
    endpoints[static_cast<size_t>(r)] = "";
    const double before = processor_seconds();
    try {
      comm::rendezvous_on_network(network_plan(r, kWorld, port, 2), [&](const std::string&) { return endpoints; });
    } catch (const Error&) {
      if (r == 0 && processor_seconds() - before > 1) return "spins";
      throw;
    }
    return "came through";
  });
  expect_named(network.finish(30)[0].report);
  Ranks host(kWorld, [&](int r) -> std::string {
    few(r);
    comm::rendezvous_on_host({.job = job, .rank = r, .world = kWorld, .bytes = 4096, .timeout = 2});
    return "came through";
  });
  expect_named(host.finish(30)[0].report);
}

}  // namespace
}  // namespace freight::test
