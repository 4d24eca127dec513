// Jobs whose processes may end and come back: the others meet anew, and what they compute together is what an
// undisturbed job computes. The processes are this program again, as its disabled test.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "freight/base/clock.h"
#include "freight/base/strings.h"
#include "freight/comm/launcher.h"
#include "freight/comm/membership.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

using comm::JobEnd;
using testing::read_text;

constexpr int kShards = 8, kSteps = 60;

// The number that a step adds, of one shard.
int64_t value_of(int64_t step, int64_t shard) { return (step * 31 + shard * 7 + 1) * (step % 5 + 1); }

int64_t undisturbed() {
  int64_t sum = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t shard = 0; shard < kShards; ++shard) sum += value_of(step, shard);
  }
  return sum;
}

struct Counted {
  int64_t step = 0, sum = 0;
};

// "1:20:kill 0:30:stop": process 1 is killed at step 20, when it lives for the first time.
void suffer(const std::string& dir, int number, int64_t step) {
  std::istringstream events(std::getenv("ELASTIC_EVENTS"));
  for (std::string event; events >> event;) {
    const std::vector<std::string> words = split(event, ':');
    const std::string mark = cat(dir, "/once-", event);
    if (std::stoi(words[0]) != number || std::stoll(words[1]) != step || std::filesystem::exists(mark)) continue;
    testing::put(mark, "");
    if (words[2] == "kill") ::raise(SIGKILL);
    if (words[2] == "stop") ::raise(SIGSTOP);
    if (words[2] == "fail") std::_Exit(3);
    if (words[2] == "lost") std::_Exit(7);
  }
}

// Does steps from the state of whoever is furthest, until a meeting is due. True when all are done.
bool count_with(comm::Comm& all, comm::Membership& members, Counted& state, bool& known, const std::string& dir) {
  const int64_t mine = known ? state.step : -1;
  std::vector<int64_t> steps(static_cast<size_t>(all.world()));
  all.all_gather(&mine, steps.data(), 1, DType::i64);
  const auto root = static_cast<int>(std::max_element(steps.begin(), steps.end()) - steps.begin());
  all.broadcast(&state, 2, DType::i64, root);
  known = true;
  if (all.rank() == 0 && !members.events().empty()) {
    std::ofstream(dir + "/events", std::ios::app) << members.events() << "; " << all.world() << "\n";
  }
  members.settle();
  while (state.step < kSteps) {
    suffer(dir, members.number(), state.step);
    int64_t sums[2] = {0, members.called() ? 1 : 0};
    for (int64_t s = all.rank(); s < kShards; s += all.world()) sums[0] += value_of(state.step, s);
    all.all_reduce(sums, 2, DType::i64);
    state.sum += sums[0];
    ++state.step;
    members.did_step();
    ::usleep(3000);
    if (sums[1] > 0) return false;
  }
  all.barrier();
  return true;
}

TEST(ElasticProcess, DISABLED_CountsWithTheOthers) {
  const std::string dir = std::getenv("ELASTIC_DIR");
  const std::unique_ptr<comm::Membership> members = comm::Membership::of_process(comm::read_launch_environment());
  ASSERT_NE(members, nullptr);
  members->need_same(17);
  suffer(dir, members->number(), -1);
  Counted state;
  bool known = false, done = false;
  std::unique_ptr<comm::Comm> all;
  for (bool broken = false; !done;) {
    if (all && broken) all->abort("it meets anew");
    all.reset();
    try {
      all = members->meet(20);
    } catch (const Error& e) {
      testing::put(cat(dir, "/over-", members->number()), e.what());
      std::_Exit(7);
    }
    try {
      done = count_with(*all, *members, state, known, dir);
      broken = false;
    } catch (const Error& e) {
      ASSERT_EQ(e.kind(), ErrorKind::peer_lost) << e.what();
      broken = true;
    }
  }
  if (all->rank() == 0) testing::put(dir + "/sum", cat(state.sum));
}

class ElasticJob : public ::testing::Test {
 protected:
  JobEnd run(const std::string& events, int world, comm::Elastic bounds) {
    ::setenv("ELASTIC_EVENTS", events.c_str(), 1);
    ::setenv("ELASTIC_DIR", dir_.path().c_str(), 1);
    const auto start = std::chrono::steady_clock::now();
    const JobEnd end = comm::run_job({.command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                                  "--gtest_also_run_disabled_tests", "--gtest_filter=ElasticProcess.*"},
                                      .world = world,
                                      .log_dir = dir_ / "logs",
                                      .grace = 1,
                                      .elastic = bounds});
    seconds_ = seconds_since(start);
    return end;
  }
  std::string text(const std::string& name) const {
    return std::filesystem::exists(dir_ / name) ? read_text(dir_ / name) : "";
  }
  void expect_all_counted(const JobEnd& end) const {
    EXPECT_FALSE(end.failed()) << to_string(end) << read_text(dir_ / "logs/rank-0.log");
    EXPECT_EQ(text("sum"), cat(undisturbed()));
  }

  const testing::TemporaryDir dir_;
  double seconds_ = 0;
};

TEST_F(ElasticJob, GoesOnWithoutARankThatWasKilledAndLetsItIn) {
  expect_all_counted(run("1:20:kill", 3, {1, 3}));
  const std::string events = text("events");
  EXPECT_EQ(events.find("rank 1 was killed by signal 9"), 0) << events;  // it may be back before the others have met
  EXPECT_NE(events.find("rank 1 is back; 3\n"), std::string::npos) << events;
}

TEST_F(ElasticJob, GoesOnWithoutTheFirstRank) {
  expect_all_counted(run("0:10:kill 1:30:kill", 3, {1, 3}));
  EXPECT_NE(text("events").find("rank 0 was killed by signal 9"), std::string::npos) << text("events");
}

TEST_F(ElasticJob, StartsNobodyWhereTheMostAreThere) {
  expect_all_counted(run("2:20:kill", 3, {1, 2}));
  EXPECT_EQ(text("events"), "rank 2 was killed by signal 9; 2\n");
}

TEST_F(ElasticJob, GivesUpARankThatWasStopped) {
  expect_all_counted(run("0:10:stop 2:25:stop", 3, {1, 3}));
  EXPECT_NE(text("events").find("rank 0 was stopped and is given up"), std::string::npos) << text("events");
  EXPECT_LT(seconds_, 20);
}

TEST_F(ElasticJob, StartsARankAgainThatWasLostBeforeTheFirstMeeting) {
  expect_all_counted(run("0:-1:kill 1:-1:lost", 2, {1, 2}));
}

TEST_F(ElasticJob, GoesOnWhereSeveralAreLostAtOnce) {
  expect_all_counted(run("0:15:kill 1:15:kill 2:15:kill 3:40:kill", 4, {1, 4}));
}

TEST_F(ElasticJob, IsOverWhereTooFewAreLeft) {
  const JobEnd end = run("1:20:kill", 2, {2, 2});
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_NE(text("over-0").find("rank 1 was killed by signal 9; 1 is left, need 2"), std::string::npos)
      << text("over-0");
  EXPECT_EQ(text("sum"), "");
}

TEST_F(ElasticJob, IsOverWhereARankFailsOfItself) {
  const JobEnd end = run("1:20:fail", 3, {1, 3});
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(text("sum"), "");
}

TEST(Launcher, RefusesBoundsThatNoElasticJobCanKeep) {
  const testing::TemporaryDir dir;
  for (const comm::Elastic bounds : {comm::Elastic{0, 2}, comm::Elastic{2, 1}, comm::Elastic{1, 3}}) {
    testing::expect_error(ErrorKind::usage, {"of 2 processes, need at least 1"}, [&] {
      comm::run_job({.command = {"true"}, .world = 2, .log_dir = dir / "logs", .elastic = bounds});
    });
  }
}

}  // namespace
}  // namespace freight::test
