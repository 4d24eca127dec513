// The processes of a job from their start to their end.
#include "freight/comm/launcher.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

using comm::JobEnd;
using testing::read_text;

comm::LaunchOptions shell(const testing::TemporaryDir& dir, int world, const std::string& script) {
  return {.command = {"sh", "-c", script}, .world = world, .log_dir = dir / "logs", .grace = 1};
}

// True while the process is there and no zombie.
bool lives(int process) {
  std::string text;
  try {
    text = read_text(cat("/proc/", process, "/stat"));
  } catch (const Error&) {
    return false;
  }
  return text.find(") Z ") == std::string::npos;
}

bool dies_soon(int process) {
  for (int i = 0; i < 100 && lives(process); ++i) ::usleep(20000);
  return !lives(process);
}

int number_in(const std::string& path) {
  for (int i = 0; i < 250; ++i) {
    try {
      if (const std::string text = read_text(path); ends_with(text, "\n")) return std::stoi(text);
    } catch (const Error&) {
    }
    ::usleep(20000);
  }
  return -1;
}

TEST(Launcher, GivesEachProcessItsNumbersAndItsLog) {
  const testing::TemporaryDir dir;
  const testing::ScopedEnvironment stale("FREIGHT_RANK", "77");
  comm::LaunchOptions o =
      shell(dir, 3,
            "echo out $FREIGHT_RANK of $FREIGHT_WORLD_SIZE, $FREIGHT_LOCAL_RANK of $FREIGHT_LOCAL_WORLD_SIZE; "
            "echo job $FREIGHT_JOB >&2; cat");
  o.result = dir / "result";
  const JobEnd end = comm::run_job(o);
  EXPECT_FALSE(end.failed()) << to_string(end);
  EXPECT_EQ(to_string(end), "all ranks succeeded");
  EXPECT_EQ(read_text(o.result), "out 0 of 3, 0 of 3\n");
  const std::string job = read_text(dir / "logs/rank-0.log");
  EXPECT_EQ(job.size(), std::string("job \n").size() + 32) << job;
  for (int r = 1; r < 3; ++r) {
    EXPECT_EQ(read_text(dir / cat("logs/rank-", r, ".log")), cat("out ", r, " of 3, ", r, " of 3\n", job));
  }
}

TEST(Launcher, SharesTheProcessorsAmongTheRanks) {
  const testing::TemporaryDir dir;
  const std::string count = "env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc";  // which follows these as well
  const int all = cpu_info().cores, world = all >= 2 ? 2 : 1;
  ASSERT_FALSE(comm::run_job(shell(dir, world, count)).failed());
  int sum = 0;
  for (int r = 0; r < world; ++r) sum += std::stoi(read_text(dir / cat("logs/rank-", r, ".log")));
  EXPECT_EQ(sum, all);
  comm::LaunchOptions free = shell(dir, world, count);
  free.bound = false;
  ASSERT_FALSE(comm::run_job(free).failed());
  for (int r = 0; r < world; ++r) EXPECT_EQ(std::stoi(read_text(dir / cat("logs/rank-", r, ".log"))), all);
  ASSERT_FALSE(comm::run_job(shell(dir, all + 1, count)).failed());
  for (int r = 0; r <= all; ++r) EXPECT_EQ(std::stoi(read_text(dir / cat("logs/rank-", r, ".log"))), all);
}

TEST(Launcher, NamesTheFirstThatFailsAndEndsTheOthers) {
  const testing::TemporaryDir dir;
  const auto start = std::chrono::steady_clock::now();
  const JobEnd end = comm::run_job(shell(dir, 3, "test $FREIGHT_RANK = 1 && exit 3; exec sleep 60"));
  EXPECT_LT(seconds_since(start), 20);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(to_string(end), cat("rank 1 ended with exit code 3; its log is ", dir / "logs/rank-1.log"));
}

TEST(Launcher, NamesTheSignalThatKilledARank) {
  const testing::TemporaryDir dir;
  const JobEnd end = comm::run_job(shell(dir, 2, "test $FREIGHT_RANK = 1 && kill -9 $$; exec sleep 60"));
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_NE(to_string(end).find("rank 1 was killed by signal 9 (Killed)"), std::string::npos) << to_string(end);
  EXPECT_EQ(read_text(end.log), "rank 1 was killed by signal 9 (Killed) before it printed anything\n");
}

TEST(Launcher, NamesTheCauseRatherThanThoseThatMissedAPeer) {
  const testing::TemporaryDir dir;
  const JobEnd end = comm::run_job(shell(dir, 3, "test $FREIGHT_RANK = 2 && { sleep 0.3; kill -11 $$; }; exit 7"));
  EXPECT_EQ(end.rank, 2);
  EXPECT_EQ(end.signal, SIGSEGV);
  const JobEnd alone = comm::run_job(shell(dir, 2, "test $FREIGHT_RANK = 1 && exit 7; exec sleep 60"));
  EXPECT_EQ(alone.rank, 1);
  EXPECT_EQ(alone.exit_code, 7);
}

TEST(Launcher, KillsWhatDoesNotEndWhenItIsAsked) {
  const testing::TemporaryDir dir;
  const std::string child = dir / "child";
  const auto start = std::chrono::steady_clock::now();
  const JobEnd end =
      comm::run_job(shell(dir, 2,
                          cat("trap '' TERM; if test $FREIGHT_RANK = 0; then until test -s ", child,
                              "; do sleep 0.02; done; exit 1; fi; sleep 60 & echo $! > ", child, "; wait; wait")));
  EXPECT_EQ(end.rank, 0);
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_LT(seconds_since(start), 20);
  EXPECT_TRUE(dies_soon(number_in(child)));
}

TEST(Launcher, WaitsForNoRankThatIsStopped) {
  const testing::TemporaryDir dir;
  comm::LaunchOptions o = shell(dir, 2, "test $FREIGHT_RANK = 0 && kill -STOP $$; sleep 0.5; exit 3");
  o.grace = 60;
  const auto start = std::chrono::steady_clock::now();
  const JobEnd end = comm::run_job(o);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_LT(seconds_since(start), 30);
}

TEST(Launcher, SaysWhyAProgramCannotBeStarted) {
  const testing::TemporaryDir dir;
  testing::expect_error(ErrorKind::usage, {"/no/such/program: cannot be started as rank 0: No such file"},
                        [&] { comm::run_job({.command = {"/no/such/program"}, .world = 2, .log_dir = dir / "logs"}); });
  testing::put(dir / "file", "");
  testing::expect_error(ErrorKind::runtime, {"file/logs: cannot be made"},
                        [&] { comm::run_job({.command = {"true"}, .world = 2, .log_dir = dir / "file/logs"}); });
  testing::expect_error(ErrorKind::usage, {"got 0 processes"},
                        [&] { comm::run_job({.command = {"true"}, .world = 0, .log_dir = dir / "logs"}); });
}

// The launcher in a process of its own, which can be given signals.
pid_t launch_apart(const comm::LaunchOptions& o) {
  const pid_t child = ::fork();
  if (child == 0) {
    const JobEnd end = comm::run_job(o);
    ::_exit(end.forwarded != 0 ? 100 + end.forwarded : end.exit_code);
  }
  return child;
}

TEST(Launcher, HandsSignalsOnToAllRanksOnce) {
  std::signal(SIGINT, SIG_DFL);  // a shell that runs the tests in its background ignores it, and so would all programs
  const testing::TemporaryDir dir;
  const pid_t launcher =
      launch_apart(shell(dir, 2,
                         cat("trap 'echo got >> ", dir / "got-$FREIGHT_RANK", "; exit 0' INT; echo $$ > ",
                             dir / "pid-$FREIGHT_RANK", "; while :; do sleep 0.05; done")));
  for (int r = 0; r < 2; ++r) ASSERT_GT(number_in(dir / cat("pid-", r)), 0);
  ASSERT_EQ(::kill(launcher, SIGINT), 0);
  int status = 0;
  ::waitpid(launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 100 + SIGINT);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(read_text(dir / cat("got-", r)), "got\n");
}

// SIGUSR1 asks to save and go on: jobs that had ended well said that they were stopped by it, and a rank that had no
// handler yet died of it.
TEST(Launcher, ASignalThatAsksToSaveStopsNobody) {
  std::signal(SIGUSR1, SIG_DFL);
  const testing::TemporaryDir dir;
  const pid_t launcher = launch_apart(shell(dir, 2,
                                            cat("echo $$ > ", dir / "pid-$FREIGHT_RANK", "; while [ ! -e ", dir / "go",
                                                " ]; do sleep 0.05; done; echo > ", dir / "done-$FREIGHT_RANK")));
  for (int r = 0; r < 2; ++r) ASSERT_GT(number_in(dir / cat("pid-", r)), 0);
  ASSERT_EQ(::kill(launcher, SIGUSR1), 0);
  ::usleep(200'000);  // a rank that dies of it has time to
  testing::put(dir / "go", "");
  int status = 0;
  ::waitpid(launcher, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(std::filesystem::exists(dir / cat("done-", r)));
}

TEST(Launcher, RanksDieWithALauncherThatIsKilled) {
  const testing::TemporaryDir dir;
  const pid_t launcher = launch_apart(shell(dir, 2, cat("echo $$ > ", dir / "pid-$FREIGHT_RANK", "; exec sleep 60")));
  std::vector<int> ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(number_in(dir / cat("pid-", r)));
  ASSERT_GT(ranks[0], 0);
  ASSERT_GT(ranks[1], 0);
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  for (const int p : ranks) EXPECT_TRUE(dies_soon(p)) << p;
}

}  // namespace
}  // namespace freight::test
