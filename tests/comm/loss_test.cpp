// Ranks say so when one of them is killed, stops, leaves, gives up or calls something else.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "freight/base/strings.h"
#include "tests/comm/ranks.h"

namespace freight::test {
namespace {

using comm::Comm;

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class ByEngine : public ::testing::TestWithParam<comm::Transport> {
 protected:
  static std::vector<std::string> by_engine(int world, const std::function<std::string(Comm&)>& body) {
    return reports_of(world, body, 60, GetParam());
  }
};
class LossByEngine : public ByEngine {};
class UnequalCalls : public ByEngine {};
const auto kEngines = ::testing::Values(comm::Transport::shared_memory, comm::Transport::gloo);
const auto name_engine = [](const auto& row) {
  return std::string(row.param == comm::Transport::gloo ? "Gloo" : "SharedMemory");
};
INSTANTIATE_TEST_SUITE_P(All, LossByEngine, kEngines, name_engine);
INSTANTIATE_TEST_SUITE_P(All, UnequalCalls, kEngines, name_engine);

std::vector<std::string> shared_files() {
  std::vector<std::string> names;
  for (const auto& f : std::filesystem::directory_iterator("/dev/shm")) {
    names.push_back(f.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Sums of changing sizes without an end.
std::string reduce_for_ever(Comm& c) {
  std::vector<float> data(100000, 1.0f);
  for (int64_t step = 0;; ++step) {
    c.at_step(step);
    c.all_reduce(data.data(), 1 + step * 7919 % 100000, DType::f32);
  }
}

TEST(LossOfARank, FiftyKillsAreNamedByAllOthersWithinThreeSeconds) {
  const std::vector<std::string> before = shared_files();
  std::mt19937 random(7);  // NOLINT: the same kills in every run
  for (int round = 0; round < 50; ++round) {
    const int world = 2 + static_cast<int>(random() % 3),
              victim = static_cast<int>(random() % static_cast<unsigned>(world));
    const std::string job = new_job();
    Ranks ranks(world, [&](int r) { return reduce_for_ever(*comm::join_shared_memory(launch_of(job, r, world))); });
    ::usleep(static_cast<unsigned>(20000 + random() % 60000));
    const auto killed = std::chrono::steady_clock::now();
    ASSERT_EQ(::kill(ranks.process(victim), SIGKILL), 0);
    const std::vector<RankEnd> ends = ranks.finish(30, victim);
    EXPECT_LT(seconds_since(killed), 3.0);
    for (int r = 0; r < world; ++r) {
      if (r == victim) continue;
      const std::string& report = ends[static_cast<size_t>(r)].report;
      // A rank may be killed before it met the others.
      const bool met = holds(report, cat("rank ", victim, " failed: its process ", ranks.process(victim))) &&
                       holds(report, cat("(rank ", r, " of ", world, ", step ")) && holds(report, ", host ");
      const bool before_meeting = holds(report, "rendezvous: rank ") &&
                                  holds(report, "ended before all ranks had joined") &&
                                  holds(report, cat("rank ", victim));
      EXPECT_TRUE(holds(report, "error 7: ") && (met || before_meeting)) << "round " << round << ": " << report;
    }
  }
  EXPECT_EQ(shared_files(), before);
}

// Whoever waits for a rank in another way than by a collective asks.
TEST_P(LossByEngine, IsToldOutsideOfCollectives) {
  const std::string job = new_job();
  SharedCounter left;  // ranks that have left the barrier, in which the loss would be an error
  Ranks ranks(2, [&](int r) -> std::string {
    const auto c = join_by(GetParam(), launch_of(job, r, 2));
    c->at_step(5);
    c->barrier();
    if (const std::string lost = c->lost(); !lost.empty()) return "too early: " + lost;
    const std::string whereabouts = c->whereabouts();
    c->barrier();
    left.add();
    if (r == 1 && left.reaches(2)) ::raise(SIGKILL);
    const auto start = std::chrono::steady_clock::now();
    while (c->lost().empty() && seconds_since(start) < 30) ::usleep(10000);
    return whereabouts + " / " + c->lost();
  });
  const std::string report = ranks.finish(60, 1)[0].report;
  EXPECT_TRUE(holds(report, "rank 1 was last in barrier at step 5, its process ")) << report;
  EXPECT_TRUE(holds(report, cat("/ rank 1 failed: its process ", ranks.process(1)))) << report;
  EXPECT_TRUE(holds(report, " ended or was killed; rank 1 was last in barrier at step 5")) << report;
}

TEST(LossOfARank, NothingIsLeftWhenAllAreKilled) {
  const std::vector<std::string> before = shared_files();
  const std::string job = new_job();
  {
    Ranks ranks(3, [&](int r) { return reduce_for_ever(*comm::join_shared_memory(launch_of(job, r, 3))); });
    ::usleep(100000);
  }
  EXPECT_EQ(shared_files(), before);
  // The name of the rendezvous is free again.
  Ranks again(2, [&](int r) {
    comm::join_shared_memory(launch_of(job, r, 2))->barrier();
    return std::string();
  });
  for (const RankEnd& e : again.finish()) EXPECT_EQ(e.report, "");
}

TEST(LossOfARank, AStoppedProcessIsNamedWhenTheTimeIsOver) {
  const std::string job = new_job();
  Ranks ranks(3, [&](int r) {
    const auto c = comm::join_shared_memory(launch_of(job, r, 3), {.timeout = 2});
    c->at_step(41);
    c->barrier();
    if (r == 1) ::raise(SIGSTOP);
    c->at_step(42);
    int64_t v = 0;
    c->all_reduce(&v, 1, DType::i64);
    return std::string("came through");
  });
  const std::vector<RankEnd> ends = ranks.finish(20, 1);
  for (const int r : {0, 2}) {
    const std::string& report = ends[static_cast<size_t>(r)].report;
    EXPECT_TRUE(holds(report, "error 7: all_reduce: rank 1 did not respond within 2 s: its process ") &&
                holds(report, "is stopped; rank 1 was last in barrier at step 41") && holds(report, "step 42"))
        << report;
  }
  // It wakes up in a job that is over, and says so, too.
  ASSERT_EQ(::kill(ranks.process(1), SIGCONT), 0);
  const std::string own = ranks.finish_one(1, 10).report;
  EXPECT_TRUE(holds(own, "error 7: all_reduce: rank 1 did not respond within 2 s") && holds(own, "(rank 1 of 3"))
      << own;
}

TEST_P(LossByEngine, ARankThatLeavesInGoodOrderIsMissedByName) {
  const std::vector<std::string> reports = by_engine(3, [](Comm& c) -> std::string {
    c.barrier();
    if (c.rank() == 2) return "left";
    c.at_step(5);
    c.barrier();
    return "came through";
  });
  EXPECT_EQ(reports[2], "left");
  for (const int r : {0, 1}) {
    const std::string& report = reports[static_cast<size_t>(r)];
    EXPECT_TRUE(holds(report, "error 7: barrier: rank 2 failed: its process ") && holds(report, " left the job"))
        << report;
  }
}

TEST_P(LossByEngine, ARankThatLeavesAfterTheLastMeetingDisturbsNobody) {
  for (int i = 0; i < 20; ++i) {
    expect_well(by_engine(3, [](Comm& c) {
      double v = 1;
      c.all_reduce(&v, 1, DType::f64);
      return v == 3 ? std::string() : cat("got ", v);
    }));
  }
}

TEST_P(LossByEngine, AbortReachesAllWithItsReason) {
  const std::vector<std::string> reports = by_engine(3, [](Comm& c) -> std::string {
    c.at_step(9);
    if (c.rank() == 1) {
      c.abort("the disk is full");
      c.barrier();
    }
    std::vector<double> v(5000);
    for (;;) c.all_reduce(v.data(), 5000, DType::f64);
  });
  for (const std::string& report : reports) {
    EXPECT_TRUE(holds(report, "error 7: ") && holds(report, "rank 1 gave up at step 9: the disk is full")) << report;
  }
}

TEST_P(UnequalCalls, AreRefusedAndBothAreNamed) {
  struct Row {
    std::function<void(Comm&)> first, second;
    const char *one, *other;
  };
  static std::vector<float> data(1 << 18), more(1 << 19);
  const Row rows[] = {
      {[](Comm& c) { c.all_reduce(data.data(), 10, DType::f32); },
       [](Comm& c) { c.all_reduce(data.data(), 11, DType::f32); }, "all_reduce of f32[10]", "all_reduce of f32[11]"},
      {[](Comm& c) { c.all_reduce(data.data(), 10, DType::f32); },
       [](Comm& c) { c.all_reduce(data.data(), 100000, DType::f32); }, "all_reduce of f32[10]",
       "all_reduce of f32[100000]"},
      {[](Comm& c) { c.all_reduce(data.data(), 10, DType::f32); },
       [](Comm& c) { c.all_reduce(data.data(), 10, DType::f64); }, "all_reduce of f32[10]", "all_reduce of f64[10]"},
      {[](Comm& c) { c.all_reduce(data.data(), 10, DType::f32); },
       [](Comm& c) { c.all_gather(data.data(), more.data(), 10, DType::f32); }, "all_reduce of f32[10]",
       "all_gather of f32[10]"},
      {[](Comm& c) { c.broadcast(data.data(), 10, DType::u8, 0); },
       [](Comm& c) { c.broadcast(data.data(), 10, DType::u8, 1); }, "broadcast of u8[10] from rank 0",
       "broadcast of u8[10] from rank 1"},
      {[](Comm& c) { c.all_gather(data.data(), more.data(), 4, DType::i64); }, [](Comm& c) { c.barrier(); },
       "all_gather of i64[4]", "barrier"},
      {[](Comm& c) { c.all_reduce(data.data(), 0, DType::f32); }, [](Comm& c) { c.barrier(); }, "all_reduce of f32[0]",
       "barrier"},
  };
  for (const Row& row : rows) {
    const std::vector<std::string> reports = by_engine(3, [&](Comm& c) -> std::string {
      c.at_step(3);
      c.barrier();
      c.rank() == 2 ? row.second(c) : row.first(c);
      return "came through";
    });
    for (const std::string& report : reports) {
      EXPECT_TRUE(holds(report, "error 2: ") && holds(report, "ranks call different collectives: ") &&
                  holds(report, row.one) && holds(report, row.other) && holds(report, "step 3"))
          << report;
    }
  }
}

TEST_P(UnequalCalls, EndTheJobForEveryLaterCall) {
  const std::vector<std::string> reports = by_engine(2, [](Comm& c) -> std::string {
    float v = 0;
    try {
      c.broadcast(&v, 1, DType::f32, c.rank());
    } catch (const Error&) {
      c.barrier();
    }
    return "came through";
  });
  for (const std::string& r : reports) EXPECT_TRUE(holds(r, "error 2: barrier: ranks call different")) << r;
}

TEST(Meeting, NamesRanksThatDoNotCome) {
  const std::string job = new_job();
  Ranks ranks(2, [&](int r) {
    comm::join_shared_memory(launch_of(job, r, 4), {.timeout = 2});
    return std::string("came through");
  });
  for (const RankEnd& e : ranks.finish(20)) {
    EXPECT_TRUE(holds(e.report, "error 7: rendezvous: ranks 2, 3 did not respond within 2 s")) << e.report;
  }
}

TEST(Meeting, NamesRankZeroThatDoesNotCome) {
  const std::string job = new_job();
  Ranks ranks(1, [&](int) {
    comm::join_shared_memory(launch_of(job, 1, 2), {.timeout = 0.3});
    return std::string("came through");
  });
  EXPECT_TRUE(holds(ranks.finish(20)[0].report, "error 7: rendezvous: rank 0 did not respond within 0.3 s"));
}

// Needs root: it takes another user's part.
TEST(Meeting, RefusesANameThatAnotherUserHolds) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr uid_t kNobody = 65534;
  const std::string job = new_job(), name = std::string(1, '\0') + "freight-0-" + job;
  Ranks ranks(2, [&](int r) -> std::string {
    if (r == 1) {
      ::usleep(200000);  // the other listens by now
      comm::join_shared_memory(launch_of(job, 1, 2), {.timeout = 5});
      return "came through";
    }
    if (::setuid(kNobody) != 0) return "cannot become another user";
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), a.sun_path);
    const int s = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    if (::bind(s, reinterpret_cast<const sockaddr*>(&a), length) != 0 || ::listen(s, 1) != 0) return "cannot listen";
    pollfd p = {.fd = s, .events = POLLIN, .revents = 0};
    return ::poll(&p, 1, 10000) == 1 ? "" : "nobody came";
  });
  const std::vector<RankEnd> ends = ranks.finish(20);
  EXPECT_EQ(ends[0].report, "");
  EXPECT_TRUE(holds(ends[1].report, "error 2: rendezvous: a process of another user listens")) << ends[1].report;
}

TEST(Meeting, RefusesRanksThatWereToldDifferentThings) {
  const std::string job = new_job();
  Ranks worlds(2, [&](int r) {
    comm::join_shared_memory(launch_of(job, r, 2 + r), {.timeout = 20});
    return std::string("came through");
  });
  for (const RankEnd& e : worlds.finish(30)) {
    EXPECT_TRUE(holds(e.report, "error 2: rendezvous: rank 1 ")) << e.report;
    EXPECT_TRUE(holds(e.report, " was started with 3 ranks, rank 0 (process ")) << e.report;
  }
  const std::string twins = new_job();
  Ranks same(3, [&](int r) {
    comm::join_shared_memory(launch_of(twins, r == 0 ? 0 : 1, 3), {.timeout = 20});
    return std::string("came through");
  });
  for (const RankEnd& e : same.finish(30)) {
    EXPECT_TRUE(holds(e.report, "error 2: rendezvous: two processes claim to be rank 1: ")) << e.report;
  }
}

}  // namespace
}  // namespace freight::test
