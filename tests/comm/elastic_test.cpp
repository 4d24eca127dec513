// Jobs whose processes may end and come back: the others meet anew, and what they compute together is what an
// undisturbed job computes. The processes are this program again, as its disabled test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
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
#include "tests/comm/hosts.h"
#include "tests/comm/ranks.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

// Tests of this room start this program again with a filter of one case. A process of a sharded run
// (GTEST_TOTAL_SHARDS) would hand its shard down to them, and most would run nothing.
class ChildrenRunAllCases : public ::testing::Environment {
 public:
  void SetUp() override {
    ::unsetenv("GTEST_TOTAL_SHARDS");
    ::unsetenv("GTEST_SHARD_INDEX");
  }
};
const auto* const kChildrenRunAllCases = ::testing::AddGlobalTestEnvironment(new ChildrenRunAllCases);

using comm::JobEnd;
using testing::read_text;

constexpr int kShards = 8;

int64_t steps_of_job() {
  const char* const text = std::getenv("ELASTIC_STEPS");
  return text ? std::atoll(text) : 60;
}

// The number that a step adds, of one shard.
int64_t value_of(int64_t step, int64_t shard) { return (step * 31 + shard * 7 + 1) * (step % 5 + 1); }

int64_t undisturbed(int64_t steps) {
  int64_t sum = 0;
  for (int64_t step = 0; step < steps; ++step) {
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
  for (const int64_t last = steps_of_job(); state.step < last;) {
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

// A thing that a job has one of: the first rank holds it, as that of a run holds the run's lock.
class Lead {
 public:
  explicit Lead(const std::string& dir) : fd_(::open((dir + "/lead").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}
  ~Lead() { ::close(fd_); }
  Lead(const Lead&) = delete;
  Lead& operator=(const Lead&) = delete;
  bool take() const { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0; }

 private:
  int fd_;
};

// Counts to the end with those that are there; the sum of the first rank. "over: WHY" where the job does not go on.
std::string count_to_the_end(comm::Membership& members, const std::string& dir) {
  const Lead lead(dir);
  members.need_same(17);
  members.ask_before_leading([&] { return lead.take(); });
  suffer(dir, members.number(), -1);
  Counted state;
  bool known = false, done = false;
  std::unique_ptr<comm::Comm> all;
  for (bool broken = false; !done;) {
    if (all && broken) all->abort("it meets anew");
    all.reset();
    try {
      all = members.meet(20);
    } catch (const Error& e) {
      return cat("over: ", e.what());
    }
    if (all->rank() == 0 && !lead.take()) return "another leads, too";
    try {
      done = count_with(*all, members, state, known, dir);
      broken = false;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::peer_lost) return e.what();
      broken = true;
    }
  }
  return all->rank() == 0 ? cat(state.sum) : "";
}

TEST(ElasticProcess, DISABLED_CountsWithTheOthers) {
  const std::string dir = std::getenv("ELASTIC_DIR");
  const std::unique_ptr<comm::Membership> members = comm::Membership::of_process(comm::read_launch_environment());
  ASSERT_NE(members, nullptr);
  const std::string end = count_to_the_end(*members, dir);
  if (end.rfind("over", 0) == 0) {
    testing::put(cat(dir, "/over-", members->number()), end);
    std::_Exit(7);
  }
  ASSERT_EQ(end.find_first_not_of("0123456789"), std::string::npos) << end;
  if (!end.empty()) testing::put(dir + "/sum", end);
}

class ElasticJob : public ::testing::Test {
 protected:
  JobEnd run(const std::string& events, int world, comm::Elastic bounds, int64_t steps = 60) {
    ::setenv("ELASTIC_EVENTS", events.c_str(), 1);
    ::setenv("ELASTIC_STEPS", cat(steps).c_str(), 1);
    steps_ = steps;
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
    EXPECT_EQ(text("sum"), cat(undisturbed(steps_)));
  }

  const testing::TemporaryDir dir_;
  double seconds_ = 0;
  int64_t steps_ = 0;
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

// The same over a network. A process that comes back takes a while, hence more steps.
class ElasticNetworkJob : public ElasticJob {
 protected:
  JobEnd run(const std::string& events, int world, int least, int64_t steps = 600) {
    return ElasticJob::run(events, world, {least, world, true}, steps);
  }
};

TEST_F(ElasticNetworkJob, GoesOnWithoutARankThatWasKilledAndLetsItIn) {
  expect_all_counted(run("1:20:kill", 3, 1));
  const std::string events = text("events");
  EXPECT_EQ(events.find("rank 1 ended or was killed"), 0) << events;
  EXPECT_NE(events.find("rank 1 is back; 3\n"), std::string::npos) << events;
}

TEST_F(ElasticNetworkJob, GoesOnWithoutTheFirstRankAndTheNext) {
  expect_all_counted(run("0:10:kill 1:300:kill", 3, 1));
  EXPECT_NE(text("events").find("rank 0 ended or was killed"), std::string::npos) << text("events");
  EXPECT_NE(text("events").find("rank 1 ended or was killed"), std::string::npos) << text("events");
}

TEST_F(ElasticNetworkJob, GoesOnWhereSeveralAreLostAtOnce) {
  expect_all_counted(run("0:15:kill 1:15:kill 2:15:kill 3:300:kill", 4, 1));
}

TEST_F(ElasticNetworkJob, StartsARankAgainThatWasLostBeforeTheFirstMeeting) {
  expect_all_counted(run("0:-1:kill 2:-1:kill", 3, 1, 30));
  EXPECT_EQ(text("events"), "");
}

TEST_F(ElasticNetworkJob, GivesUpARankThatWasStopped) {
  expect_all_counted(run("0:10:stop", 3, 1));
  EXPECT_NE(text("events").find("rank 0 "), std::string::npos) << text("events");
}

TEST_F(ElasticNetworkJob, IsOverWhereARankFailsOfItself) {
  const JobEnd end = run("1:20:fail", 3, 1, 100'000);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(text("sum"), "");
}

// Processes on hosts of their own that no launcher watches.
class ElasticOnHosts : public ::testing::Test {
 protected:
  static constexpr int kHosts = 3;
  std::unique_ptr<Ranks> start(const Hosts& hosts, int64_t steps) const {
    std::string doors = "doors 1";
    for (int h = 0; h < kHosts; ++h) doors += cat(" ", Hosts::address(h), ":", 29700 + h);
    return start(steps, kHosts, 1, doors, [&hosts](int r) { return hosts.enter(r); });
  }
  // The processes of a job with those doors, of which so many are on each host.
  std::unique_ptr<Ranks> start(int64_t steps, int world, int local_world, const std::string& doors,
                               const std::function<bool(int)>& enter) const {
    ::setenv("ELASTIC_EVENTS", "", 1);
    ::setenv("ELASTIC_STEPS", cat(steps).c_str(), 1);
    return std::make_unique<Ranks>(world, [&](int r) -> std::string {
      if (!enter(r)) return "cannot enter its namespace";
      const std::pair<const char*, std::string> settings[] = {{"FREIGHT_RANK", cat(r)},
                                                              {"FREIGHT_WORLD_SIZE", cat(world)},
                                                              {"FREIGHT_LOCAL_RANK", cat(r % local_world)},
                                                              {"FREIGHT_LOCAL_WORLD_SIZE", cat(local_world)},
                                                              {"FREIGHT_JOB", "hosts"},
                                                              {"FREIGHT_ELASTIC", doors},
                                                              {"FREIGHT_TERMINAL", ""},
                                                              {"FREIGHT_TOKEN", "the tests' own secret"}};
      for (const auto& [name, value] : settings) ::setenv(name, value.c_str(), 1);
      const auto members = comm::Membership::of_process(comm::read_launch_environment());
      return count_to_the_end(*members, dir_.path());
    });
  }
  // Waits until the first rank has noted `text`.
  bool noted(const std::string& text) const {
    for (int i = 0; i < 6000; ++i, ::usleep(10'000)) {
      if (std::filesystem::exists(dir_ / "events") && read_text(dir_ / "events").find(text) != std::string::npos) {
        return true;
      }
    }
    return false;
  }
  static void all_met() { ::usleep(1'500'000); }

  const testing::TemporaryDir dir_;
};

TEST_F(ElasticOnHosts, AJobOfWhichTooFewAreLeftIsOverAndSaysWho) {
  const std::string doors = cat("doors 2 127.0.0.1:", free_port(), " 127.0.0.1:", free_port());
  const auto ranks = start(100'000, 2, 2, doors, [](int) { return true; });
  all_met();
  ::kill(ranks->process(1), SIGKILL);
  const std::vector<RankEnd> ends = ranks->finish(60, 1);
  EXPECT_NE(ends[0].report.find("over: elastic: rank 1 ended or was killed; 1 is left, need 2"), std::string::npos)
      << ends[0].report;
}

TEST_F(ElasticOnHosts, TheOthersGoOnWithoutAHostThatIsCutOffUntilItIsBack) {
  constexpr int64_t kSteps = 3000;
  const Hosts hosts(kHosts);
  if (!hosts.why_not().empty()) GTEST_SKIP() << hosts.why_not();
  const auto ranks = start(hosts, kSteps);
  all_met();
  ASSERT_TRUE(hosts.cut(2));
  EXPECT_TRUE(noted("rank 2 does not answer, nor does its host; 2\n"));
  ASSERT_TRUE(hosts.mend(2));
  EXPECT_TRUE(noted("rank 2 is back; 3\n"));
  const std::vector<RankEnd> ends = ranks->finish(120);
  EXPECT_EQ(ends[0].report, cat(undisturbed(kSteps)));
  EXPECT_EQ(ends[1].report, "");
  EXPECT_EQ(ends[2].report, "");
}

TEST_F(ElasticOnHosts, TheNextRankGoesOnWhereTheHostOfTheFirstIsLost) {
  constexpr int64_t kSteps = 1500;
  const Hosts hosts(kHosts);
  if (!hosts.why_not().empty()) GTEST_SKIP() << hosts.why_not();
  const auto ranks = start(hosts, kSteps);
  all_met();
  ASSERT_TRUE(hosts.cut(0));
  ::kill(ranks->process(0), SIGKILL);  // of which the cut line tells nobody
  const std::vector<RankEnd> ends = ranks->finish(120, 0);
  EXPECT_EQ(ends[1].report, cat(undisturbed(kSteps)));
  EXPECT_EQ(ends[2].report, "");
  EXPECT_EQ(read_text(dir_ / "events"), "rank 0 does not answer, nor does its host; 2\n");
}

TEST_F(ElasticOnHosts, RanksOfAnotherLauncherFindEachOtherByTheHostsThatAreNamed) {
  constexpr int64_t kSteps = 1500;
  const Hosts hosts(kHosts);
  if (!hosts.why_not().empty()) GTEST_SKIP() << hosts.why_not();
  ::setenv("ELASTIC_EVENTS", "", 1);
  ::setenv("ELASTIC_STEPS", cat(kSteps).c_str(), 1);
  Ranks ranks(kHosts, [&](int r) -> std::string {
    if (!hosts.enter(r)) return "cannot enter its namespace";
    std::vector<std::string> names;
    for (int h = 0; h < kHosts; ++h) names.push_back(Hosts::address(h));
    ::setenv("FREIGHT_TOKEN", "the tests' own secret", 1);
    const comm::Launch launch{.rank = r,
                              .world = kHosts,
                              .job = "named",
                              .master_address = names[0],
                              .master_port = 29700,
                              .source = "torchrun"};
    return count_to_the_end(*comm::Membership::of_launcher(launch, {}, 1, names), dir_.path());
  });
  all_met();
  ASSERT_TRUE(hosts.cut(0));
  ::kill(ranks.process(0), SIGKILL);
  const std::vector<RankEnd> ends = ranks.finish(120, 0);
  EXPECT_EQ(ends[1].report, cat(undisturbed(kSteps)));
  EXPECT_EQ(ends[2].report, "");
}

// The first rank lives, and so the run is its own: the others wait until they reach it, and go on with it.
TEST_F(ElasticOnHosts, OfTwoPartsTheOneWithTheFirstRankGoesOn) {
  constexpr int64_t kSteps = 3000;
  const Hosts hosts(kHosts);
  if (!hosts.why_not().empty()) GTEST_SKIP() << hosts.why_not();
  const auto ranks = start(hosts, kSteps);
  all_met();
  ASSERT_TRUE(hosts.cut(0));
  EXPECT_TRUE(noted("rank 2 does not answer, nor does its host; 1\n"));
  ASSERT_TRUE(hosts.mend(0));
  EXPECT_TRUE(noted("is back"));
  const std::vector<RankEnd> ends = ranks->finish(120);
  EXPECT_EQ(ends[0].report, cat(undisturbed(kSteps)));
  EXPECT_EQ(ends[1].report, "");
  EXPECT_EQ(ends[2].report, "");
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
