// Ranks that meet over a network: who is let in, and who is named when one is lost. Some tests have hosts of their own,
// network namespaces, and say where there can be none.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/comm/hosts.h"
#include "tests/comm/ranks.h"
#include "tests/support/error_of.h"

namespace freight::test {
namespace {

using comm::Comm;
using comm::Transport;

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string sum_for_ever(Comm& c) {
  std::vector<float> data(100000, 1.0f);
  for (int64_t step = 0;; ++step) {
    c.at_step(step);
    c.all_reduce(data.data(), 1 + step * 7919 % 100000, DType::f32);
  }
}

std::string join_and(const comm::Launch& launch, const std::function<std::string(Comm&)>& body, double timeout = 60) {
  return body(*join_by(Transport::gloo, launch, timeout));
}

TEST(LossOverANetwork, FiftyKillsAreNamedByAllOthersWithinThreeSeconds) {
  std::mt19937 random(11);  // NOLINT: the same kills in every run
  for (int round = 0; round < 50; ++round) {
    const int world = 2 + static_cast<int>(random() % 3),
              victim = static_cast<int>(random() % static_cast<unsigned>(world));
    const std::string job = new_job();
    SharedCounter met;
    Ranks ranks(world, [&](int r) {
      return join_and(launch_of(job, r, world), [&](Comm& c) {
        met.add();
        return sum_for_ever(c);
      });
    });
    ASSERT_TRUE(met.reaches(world));
    ::usleep(static_cast<unsigned>(random() % 100000));
    const auto killed = std::chrono::steady_clock::now();
    ASSERT_EQ(::kill(ranks.process(victim), SIGKILL), 0);
    const std::vector<RankEnd> ends = ranks.finish(30, victim);
    EXPECT_LT(seconds_since(killed), 3.0) << "round " << round;
    for (int r = 0; r < world; ++r) {
      if (r == victim) continue;
      const std::string& report = ends[static_cast<size_t>(r)].report;
      const std::string named = cat("rank ", victim, " failed: its process ", ranks.process(victim), " on host ");
      EXPECT_TRUE(holds(report, "error 7: all_reduce: ") && holds(report, named) &&
                  holds(report, " ended or was killed; rank ") &&
                  holds(report, cat("(rank ", r, " of ", world, ", step ")))
          << "round " << round << ": " << report;
    }
  }
}

TEST(LossOverANetwork, AStoppedProcessIsNamedWithinThreeSeconds) {
  for (const int victim : {0, 1}) {
    const std::string job = new_job();
    SharedCounter stops;
    Ranks ranks(3, [&](int r) {
      return join_and(launch_of(job, r, 3), [&](Comm& c) -> std::string {
        c.at_step(41);
        c.barrier();
        c.at_step(42);
        if (r == victim) {
          stops.add();
          ::raise(SIGSTOP);
        }
        int64_t v = 0;
        c.all_reduce(&v, 1, DType::i64);
        return "came through";
      });
    });
    ASSERT_TRUE(stops.reaches(1));
    const auto stopped = std::chrono::steady_clock::now();
    const std::vector<RankEnd> ends = ranks.finish(20, victim);
    EXPECT_LT(seconds_since(stopped), 3.0);
    for (int r = 0; r < 3; ++r) {
      if (r == victim) continue;
      const std::string& report = ends[static_cast<size_t>(r)].report;
      EXPECT_TRUE(holds(report, cat("error 7: all_reduce: rank ", victim, " failed: its process ",
                                    ranks.process(victim), " on host ")) &&
                  holds(report, " sent no heartbeat for 2.5 s, though its host responds: it is stopped or hung") &&
                  holds(report, cat("rank ", victim, " was last in barrier at step 41")) && holds(report, "step 42"))
          << report;
    }
    // It wakes up in a job that is over, and says so, too.
    ASSERT_EQ(::kill(ranks.process(victim), SIGCONT), 0);
    const std::string own = ranks.finish_one(victim, 10).report;
    EXPECT_TRUE(holds(own, "error 7: all_reduce: rank ")) << own;
  }
}

// Its heartbeats come: it is slow, and not lost.
TEST(LossOverANetwork, ASlowRankIsNamedAsSlowAndNotAsLost) {
  const std::string job = new_job();
  Ranks ranks(2, [&](int r) {
    ::testing::internal::CaptureStderr();
    std::string end = join_and(launch_of(job, r, 2), [&](Comm& c) -> std::string {
      c.at_step(7);
      c.barrier();
      if (r == 1) ::usleep(8'500'000);
      c.barrier();
      return "came through";
    });
    return end + ": " + ::testing::internal::GetCapturedStderr();
  });
  const std::vector<RankEnd> ends = ranks.finish(30);
  const std::string& told = ends[0].report;
  EXPECT_TRUE(holds(told, "came through: ") && holds(told, "rank 1 on host ") &&
              holds(told, " is slow: rank 0 waits for it in barrier at step 7 for 5 s; its heartbeats arrive"))
      << told;
  EXPECT_EQ(ends[1].report, "came through: ");
}

TEST(LossOverANetwork, ARankThatLivesAndDoesNotComeIsNamedWhenTheTimeIsOver) {
  const std::string job = new_job();
  Ranks ranks(2, [&](int r) {
    return join_and(
        launch_of(job, r, 2),
        [&](Comm& c) -> std::string {
          c.barrier();
          if (r == 1) ::usleep(5'000'000);
          c.barrier();
          return "came through";
        },
        2);
  });
  const std::vector<RankEnd> ends = ranks.finish(30);
  EXPECT_TRUE(holds(ends[0].report, "error 7: barrier: rank 1 did not respond within 2 s: its process ") &&
              holds(ends[0].report, "is alive, but slow or hung; rank 1 was last in barrier at step 0"))
      << ends[0].report;
  EXPECT_TRUE(holds(ends[1].report, "error 7: barrier: rank 1 did not respond within 2 s")) << ends[1].report;
}

class OnHosts : public ::testing::Test {
 protected:
  static comm::Launch launch_on(int rank, int world) {
    comm::Launch l = {.rank = rank, .world = world, .local_rank = 0, .local_world = 1};
    l.master_address = Hosts::address(0);
    l.master_port = 29500;
    return l;
  }
  // Runs body(comm) as rank r of `world` on host r.
  static Ranks::Body on_own_host(const Hosts& hosts, int world, const std::function<std::string(Comm&)>& body) {
    return [&hosts, world, body](int r) {
      return hosts.enter(r) ? join_and(launch_on(r, world), body) : "cannot enter its namespace";
    };
  }
};
#define NEED(hosts) \
  if (!(hosts).why_not().empty()) GTEST_SKIP() << (hosts).why_not()

TEST_F(OnHosts, SumsAreTheSameAsOnOneHost) {
  const Hosts hosts(3);
  NEED(hosts);
  const auto body = [](Comm& c) {
    std::vector<float> data(1'500'000);
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = 1.0f / static_cast<float>(i + 7 * static_cast<size_t>(c.rank() + 1));
    c.all_reduce(data.data(), static_cast<int64_t>(data.size()), DType::f32);
    uint64_t hash = 1469598103934665603ULL;  // FNV-1a
    for (const float v : data) {
      uint32_t bits = 0;
      std::memcpy(&bits, &v, sizeof(bits));
      hash = (hash ^ bits) * 1099511628211ULL;
    }
    return cat(hash);
  };
  const std::vector<std::string> one_host = reports_of(3, body);
  Ranks ranks(3, on_own_host(hosts, 3, body));
  for (const RankEnd& e : ranks.finish()) EXPECT_EQ(e.report, one_host[0]);
}

TEST_F(OnHosts, ACutLinkIsNamedWithinThreeSecondsByBothSides) {
  for (const int victim : {0, 2}) {
    const Hosts hosts(3);
    NEED(hosts);
    SharedCounter met;
    Ranks ranks(3, on_own_host(hosts, 3, [&](Comm& c) {
                  met.add();
                  return sum_for_ever(c);
                }));
    ASSERT_TRUE(met.reaches(3));
    ::usleep(700'000);
    const auto cut = std::chrono::steady_clock::now();
    ASSERT_TRUE(hosts.cut(victim));
    const std::vector<RankEnd> ends = ranks.finish(30);
    EXPECT_LT(seconds_since(cut), 3.0);
    for (int r = 0; r < 3; ++r) {
      // Ranks other than 0 see their way to rank 0 alone.
      const int missed = r == victim && victim != 0 ? 0 : victim == 0 && r == 0 ? -1 : victim;
      const std::string& report = ends[static_cast<size_t>(r)].report;
      EXPECT_TRUE(holds(report, "error 7: all_reduce: rank ") && holds(report, "and its host does not respond") &&
                  holds(report, " was last in all_reduce of f32[") &&
                  (missed < 0 || holds(report, cat("rank ", missed, " failed: its process "))))
          << report;
    }
  }
}

// Listens on the interface that was named, and on no other.
TEST_F(OnHosts, TheMeetingIsBoundToItsInterfaceAlone) {
  const Hosts hosts(2);
  NEED(hosts);
  Ranks ranks(2, [&](int r) -> std::string {
    if (!hosts.enter(r)) return "cannot enter its namespace";
    if (r == 1) {  // from the host of rank 0, by another interface
      if (!hosts.enter(0)) return "cannot enter its namespace";
      const auto answers = [](const std::string& address) {
        const int s = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in a{};
        a.sin_family = AF_INET;
        a.sin_port = htons(29500);
        ::inet_pton(AF_INET, address.c_str(), &a.sin_addr);
        const bool yes = ::connect(s, reinterpret_cast<const sockaddr*>(&a), sizeof(a)) == 0;
        ::close(s);
        return yes;
      };
      for (int i = 0; i < 100 && !answers(Hosts::address(0)); ++i) ::usleep(10000);
      return cat(answers("127.0.0.1"), " ", answers(Hosts::address(0)));
    }
    ::setenv("FREIGHT_INTERFACE", "e0", 1);
    return join_and(
        launch_on(0, 2), [](Comm&) { return std::string("came through"); }, 2.5);
  });
  const std::vector<RankEnd> ends = ranks.finish();
  EXPECT_EQ(ends[1].report, "false true");
  EXPECT_TRUE(holds(ends[0].report, cat("rank 1 did not respond within 2.5 s to host "))) << ends[0].report;
}

TEST_F(OnHosts, AHostThatDoesNotAnswerIsNamedWithTheTime) {
  const Hosts hosts(2);
  NEED(hosts);
  Ranks ranks(1, [&](int) -> std::string {
    if (!hosts.enter(1)) return "cannot enter its namespace";
    comm::Launch l = launch_on(1, 2);
    l.master_address = Hosts::address(7);
    return join_and(
        l, [](Comm&) { return std::string("came through"); }, 0.5);
  });
  const std::string report = ranks.finish()[0].report;
  EXPECT_TRUE(
      holds(report, "error 7: rendezvous: rank 0 at '10.77.0.8' (10.77.0.8), port 29500 does not respond: host ") &&
      holds(report, " tried it for 0.5 s"))
      << report;
}

std::string meeting_of_two(const std::string& job, int rank, const std::function<void(comm::Launch&)>& change,
                           double timeout = 3) {
  comm::Launch l = launch_of(job, rank, 2);
  change(l);
  return join_and(
      l, [](Comm&) { return std::string("came through"); }, timeout);
}

TEST(NetworkMeeting, NamesNobodyWhoListens) {
  const std::string job = new_job();
  Ranks ranks(1, [&](int) {
    return meeting_of_two(
        job, 1, [](comm::Launch&) {}, 0.3);
  });
  const std::string report = ranks.finish()[0].report;
  EXPECT_TRUE(holds(report, "error 7: rendezvous: rank 0 at '127.0.0.1' (127.0.0.1), port ") &&
              holds(report, "tried it for 0.3 s: its host responds, but no process listens there"))
      << report;
}

TEST(NetworkMeeting, RefusesAPortThatIsInUse) {
  const std::string job = new_job();
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<uint16_t>(launch_of(job, 0, 2).master_port));
  ASSERT_EQ(::bind(s, reinterpret_cast<const sockaddr*>(&a), sizeof(a)), 0);
  ASSERT_EQ(::listen(s, 1), 0);
  Ranks ranks(1, [&](int) { return meeting_of_two(job, 0, [](comm::Launch&) {}); });
  const std::string report = ranks.finish()[0].report;
  EXPECT_TRUE(holds(report, "error 2: rendezvous: port ") && holds(report, " is in use") &&
              holds(report, "MASTER_PORT"))
      << report;
  ::close(s);
}

TEST(NetworkMeeting, RefusesAnotherTokenAndGoesOnWithoutItsOwner) {
  const std::string job = new_job();
  Ranks ranks(3, [&](int r) -> std::string {
    if (r != 2) {
      return join_and(launch_of(job, r, 2), [](Comm& c) -> std::string {
        c.barrier();
        return "came through";
      });
    }
    ::setenv("FREIGHT_TOKEN", "not the token of this job", 1);
    comm::join_job(launch_of(job, 1, 2), {.timeout = 5, .transport = Transport::gloo});
    return "came through";
  });
  const std::vector<RankEnd> ends = ranks.finish(30);
  EXPECT_EQ(ends[0].report, "came through");
  EXPECT_EQ(ends[1].report, "came through");
  EXPECT_TRUE(holds(ends[2].report, "error 2: rendezvous: it was given a different token") ||
              holds(ends[2].report, "error 7: rendezvous: rank 0 at"))
      << ends[2].report;
}

TEST(NetworkMeeting, SaysThatSomebodyCameWithAnotherToken) {
  const std::string job = new_job();
  Ranks ranks(2, [&](int r) -> std::string {
    ::setenv("FREIGHT_TOKEN", r == 0 ? "the first one's token" : "the other one's token", 1);
    comm::join_job(launch_of(job, r, 2), {.timeout = 1.5, .transport = Transport::gloo});
    return "came through";
  });
  const std::vector<RankEnd> ends = ranks.finish(30);
  EXPECT_TRUE(holds(ends[0].report, "error 7: rendezvous: rank 1 did not respond within 1.5 s") &&
              holds(ends[0].report, "a process on 127.0.0.1 has another token"))
      << ends[0].report;
  EXPECT_TRUE(holds(ends[1].report, "error 2: rendezvous: it was given a different token")) << ends[1].report;
}

// A rank 0 that is none cannot make a rank believe it is one.
TEST(NetworkMeeting, RefusesAHostThatDoesNotKnowTheToken) {
  const std::string job = new_job();
  const int port = launch_of(job, 0, 2).master_port;
  Ranks ranks(2, [&](int r) -> std::string {
    if (r == 1) return meeting_of_two(job, 1, [](comm::Launch&) {});
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(static_cast<uint16_t>(port));
    if (::bind(s, reinterpret_cast<const sockaddr*>(&a), sizeof(a)) != 0 || ::listen(s, 1) != 0) return "cannot listen";
    const int guest = ::accept(s, nullptr, nullptr);
    const std::string text = "FREIGHT1" + std::string(8000, '\0');
    return ::write(guest, text.data(), text.size()) > 0 && ::usleep(500000) == 0 ? "" : "cannot write";
  });
  const std::string report = ranks.finish(30)[1].report;
  EXPECT_TRUE(holds(report, "error 2: rendezvous: the process that listens at '127.0.0.1'") && holds(report, "token"))
      << report;
}

TEST(NetworkMeeting, IsNotDisturbedByStrangersAtThePort) {
  const std::string job = new_job();
  const int port = launch_of(job, 0, 2).master_port;
  Ranks ranks(3, [&](int r) -> std::string {
    if (r < 2) {
      if (r == 1) ::usleep(500000);
      return meeting_of_two(
          job, r, [](comm::Launch&) {}, 20);
    }
    std::vector<int> sockets;
    for (int i = 0; i < 20; ++i) {
      ::usleep(20000);
      const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in a{};
      a.sin_family = AF_INET;
      a.sin_port = htons(static_cast<uint16_t>(port));
      ::inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
      if (::connect(s, reinterpret_cast<const sockaddr*>(&a), sizeof(a)) != 0) continue;
      const std::string text = i % 3 == 0 ? "GET / HTTP/1.1\r\n\r\n" : std::string(i % 3 == 1 ? 4000 : 0, 'x');
      [[maybe_unused]] const ssize_t n = ::send(s, text.data(), text.size(), MSG_NOSIGNAL);
      sockets.push_back(s);
    }
    for (const int s : sockets) ::close(s);
    return "came through";
  });
  for (const RankEnd& e : ranks.finish(30)) EXPECT_EQ(e.report, "came through");
}

TEST(NetworkMeeting, RefusesALoopbackAddressOnSeveralHosts) {
  const auto two_hosts = [](comm::Launch& l) {
    l.local_world = 1;
    l.local_rank = 0;
    l.master_address = "localhost";
  };
  const std::string job = new_job();
  Ranks ranks(2, [&](int r) { return meeting_of_two(job, r, two_hosts); });
  for (const RankEnd& e : ranks.finish(30)) {
    EXPECT_TRUE(holds(e.report, "error 2: rendezvous: the job has several hosts, and on host ") &&
                holds(e.report, "the name 'localhost' of rank 0's host leads to ") && holds(e.report, "MASTER_ADDR"))
        << e.report;
  }
}

TEST(NetworkMeeting, RefusesALoopbackInterfaceOnSeveralHosts) {
  const std::string job = new_job();
  Ranks ranks(1, [&](int) -> std::string {
    ::setenv("FREIGHT_TOKEN", "the secret of the tests", 1);
    comm::Launch l = launch_of(job, 0, 2);
    l.local_world = 1;
    comm::join_job(l, {.timeout = 20, .transport = Transport::gloo, .interface = "lo"});
    return "came through";
  });
  const std::string report = ranks.finish(10)[0].report;
  EXPECT_TRUE(holds(report, "error 2: --interface: got 'lo' (127.0.0.1), which no other host reaches")) << report;
}

TEST(NetworkMeeting, RefusesWhatWasNotSaid) {
  struct Row {
    std::function<void(comm::Launch&, comm::JobOptions&)> change;
    const char* part;
  };
  const Row rows[] = {
      {[](comm::Launch& l, comm::JobOptions&) { l.master_port = 0; }, "MASTER_PORT: is not set"},
      {[](comm::Launch& l, comm::JobOptions&) { l.master_address = "", l.local_world = 1; }, "MASTER_ADDR: is not set"},
      {[](comm::Launch&, comm::JobOptions&) { ::unsetenv("FREIGHT_TOKEN"); }, "FREIGHT_TOKEN: is not set"},
      {[](comm::Launch&, comm::JobOptions&) { ::setenv("FREIGHT_TOKEN", "short", 1); },
       "has 5 characters, expected 16"},
      {[](comm::Launch&, comm::JobOptions& o) { o.interface = "eth77"; }, "--interface: expected one of lo ("},
      {[](comm::Launch& l, comm::JobOptions&) { l.master_address = "192.0.2.1"; },
       "'192.0.2.1' leads to 192.0.2.1, which host "},
      {[](comm::Launch& l, comm::JobOptions&) { l.master_address = "no.such.host.invalid"; },
       "cannot find the address of 'no.such.host.invalid'"},
      {[](comm::Launch&, comm::JobOptions&) { ::setenv("FREIGHT_GLOO", "/nowhere/libgloo.so.0", 1); },
       "Gloo: moves bytes between hosts and cannot be used: there is no file /nowhere/libgloo.so.0"},
      {[](comm::Launch&, comm::JobOptions&) { ::setenv("FREIGHT_GLOO", "libz.so.1", 1); }, "not Gloo"},
      {[](comm::Launch&, comm::JobOptions& o) { o.transport = comm::parse_transport("--comm", "glue"); },
       "--comm: unknown value: expected one of auto, shared, gloo, nccl, got glue"},
  };
  for (const Row& row : rows) {
    const std::string job = new_job();
    Ranks ranks(1, [&](int) -> std::string {
      comm::Launch l = launch_of(job, 0, 2);
      comm::JobOptions o = {.timeout = 1, .transport = Transport::gloo};
      ::setenv("FREIGHT_TOKEN", "the secret of the tests", 1);
      row.change(l, o);
      comm::join_job(l, o);
      return "came through";
    });
    const std::string report = ranks.finish(30)[0].report;
    EXPECT_TRUE(holds(report, row.part)) << row.part << " is not in: " << report;
  }
}

TEST(NetworkMeeting, TakesTheTokenOfAFileThatRankZeroMakes) {
  const std::string path = cat(::testing::TempDir(), "token-", static_cast<int64_t>(::getpid()));
  std::filesystem::remove(path);
  const auto meet = [&] {
    const std::string job = new_job();
    Ranks ranks(2, [&](int r) -> std::string {
      ::unsetenv("FREIGHT_TOKEN");
      if (r == 0) ::usleep(200000);
      comm::join_job(launch_of(job, r, 2), {.timeout = 10, .transport = Transport::gloo, .token_file = path})
          ->barrier();
      return "";
    });
    return ranks.finish(30);
  };
  for (const RankEnd& e : meet()) EXPECT_EQ(e.report, "");
  struct stat s {};
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  std::string token;
  std::ifstream(path) >> token;
  EXPECT_EQ(token.size(), 32u);
  for (const RankEnd& e : meet()) EXPECT_EQ(e.report, "");  // the file that is there serves, too
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  for (const RankEnd& e : meet()) EXPECT_TRUE(holds(e.report, "other users can read or write it")) << e.report;
  std::filesystem::remove(path);
}

TEST(Engine, FitsTheHostsUnlessItIsNamed) {
  comm::Launch one = launch_of(new_job(), 0, 2), two = one;
  two.local_world = 1;
  EXPECT_EQ(comm::transport_for(one), Transport::shared_memory);
  EXPECT_EQ(comm::transport_for(two), Transport::gloo);
  EXPECT_EQ(comm::transport_for(one, {.transport = Transport::gloo}), Transport::gloo);
  ::setenv("FREIGHT_COMM", "gloo", 1);
  EXPECT_EQ(comm::transport_for(one), Transport::gloo);
  EXPECT_EQ(comm::transport_for(one, {.transport = Transport::shared_memory}), Transport::shared_memory);
  ::unsetenv("FREIGHT_COMM");
}

}  // namespace
}  // namespace freight::test
