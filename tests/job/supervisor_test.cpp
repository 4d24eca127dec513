// The supervisor: shells stand for ranks, and fail when and as the tests say.
#include "freight/job/supervisor.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace freight::test {
namespace {

using comm::JobEnd;
using job::Supervision;
using testing::read_text;

class Supervisor : public ::testing::Test {
 protected:
  // Runs `script` as each rank. It finds the number of its start in $n, from 1, its device in $device and those of all
  // in $all, as in 0,1,2.
  comm::JobEnd run(int devices, int least, const std::string& script) {
    Supervision s{.launch = {.command = {}, .log_dir = dir_ / "logs", .grace = 1}, .least = least, .most = devices};
    s.devices = devices;
    s.command = [&](const std::vector<int>& used) {
      std::vector<std::string> numbers;
      for (const int d : used) numbers.push_back(cat(d));
      const std::string head =
          cat("all=", join(numbers, ","), "; device=$(echo $all | cut -d, -f$((FREIGHT_RANK + 1)));", " echo x >> ",
              dir_ / "starts-$device; n=$(wc -l < ", dir_ / "starts-$device); ");
      return std::vector<std::string>{"sh", "-c", head + script};
    };
    s.report = [&](const std::string& line) { told_.push_back(line); };
    return job::supervise(s);
  }
  int starts(int device) const {
    const std::string text = read_text(dir_ / cat("starts-", device));
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
  // A command by which a rank says that so many steps are done, below 100.
  static std::string step(const std::string& number) {
    return cat("printf \"\\\\$(printf %03o ", number,
               ")\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0\" 1<>/dev/fd/$FREIGHT_STEPS; ");
  }

  const testing::TemporaryDir dir_;
  std::vector<std::string> told_;
};

TEST_F(Supervisor, StartsAllAgainWhereOneIsKilled) {
  const comm::JobEnd end =
      run(3, 1, cat(step("7"), "test $n -gt 1 && exit 0; test $device = 1 && kill -9 $$; sleep 0.3; exit 7"));
  EXPECT_FALSE(end.failed()) << to_string(end);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(
      told_[0],
      "rank 1 was killed by signal 9 (Killed); last completed step 7; 3 devices restart from the last checkpoint");
  for (int d = 0; d < 3; ++d) EXPECT_EQ(starts(d), 2) << d;
}

TEST_F(Supervisor, LogsOfARestartGoOnBehindTheEarlierOnes) {
  EXPECT_FALSE(run(2, 1, "echo start $n; test $n -gt 1 && exit 0; exit 7").failed());
  EXPECT_EQ(read_text(dir_ / "logs/rank-1.log"), "start 1\nstart 2\n");
}

TEST_F(Supervisor, LeavesOutADeviceThatFailsThreeTimesWithinTenSteps) {
  const comm::JobEnd end =
      run(3, 2, "case $all in *1*) test $device = 1 && kill -9 $$; sleep 0.2; exit 7;; esac; exit 0");
  EXPECT_FALSE(end.failed()) << to_string(end);
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_EQ(told_[2],
            "rank 1 was killed by signal 9 (Killed); its device is skipped, since it failed 3 times within 10 "
            "steps; last completed step 0; 2 devices restart from the last checkpoint");
  EXPECT_EQ(starts(1), 3);
  EXPECT_EQ(starts(2), 4);
}

TEST_F(Supervisor, KeepsADeviceThatGetsFurtherBetweenItsFailures) {
  const comm::JobEnd end =
      run(2, 2,
          cat("test $device = 0 && { ", step("$((n * 20))"), "sleep 0.3; }; test $n = 5 && exit 0; ",
              "test $device = 1 && { sleep 0.1; kill -9 $$; }; exit 7"));
  EXPECT_FALSE(end.failed()) << to_string(end);
  EXPECT_EQ(starts(1), 5);
}

TEST_F(Supervisor, EndsWhereTooFewDevicesAreLeft) {
  const comm::JobEnd end = run(2, 2, "test $device = 1 && kill -9 $$; sleep 0.2; exit 7");
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.signal, 9);
  EXPECT_EQ(starts(0), 3);
}

TEST_F(Supervisor, LeavesOutADeviceThatIsGone) {
  const comm::JobEnd end =
      run(2, 1, cat(step("3"), "test $all = 0 && exit 0; test $device = 1 && exit 4; sleep 0.3; exit 7"));
  EXPECT_FALSE(end.failed()) << to_string(end);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0],
            "rank 1 ended with exit code 4; its device is gone and is skipped; last completed step 3; 1 device "
            "restarts from the last checkpoint");
}

TEST_F(Supervisor, ADeviceThatNeverWasThereEndsTheJob) {
  const comm::JobEnd end = run(2, 1, "test $device = 1 && exit 4; sleep 0.3; exit 7");
  EXPECT_EQ(end.exit_code, 4);
  EXPECT_EQ(starts(0), 1);
}

TEST_F(Supervisor, AFailureOfItsOwnEndsTheJob) {
  const comm::JobEnd end = run(2, 1, "test $device = 1 && exit 3; sleep 0.3; exit 7");
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(starts(0), 1);
}

TEST_F(Supervisor, RanksThatMissEachOtherThreeTimesWithinTenStepsEndTheJob) {
  const comm::JobEnd end = run(2, 1, "exit 7");
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_EQ(starts(0), 3);
}

TEST_F(Supervisor, ARankThatIsStoppedForTooLongIsKilled) {
  const comm::LaunchOptions o{.command = {"sh", "-c", "test $FREIGHT_RANK = 1 && kill -STOP $$; sleep 10; exit 7"},
                              .world = 2,
                              .log_dir = dir_ / "logs",
                              .grace = 0.1,
                              .most_stopped = 0.3};
  const comm::JobEnd end = comm::run_job(o);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.signal, 9);
  EXPECT_NE(to_string(end).find("rank 1 was stopped, and was killed by the supervisor"), std::string::npos);
}

TEST_F(Supervisor, AJobOfWhichAllAreStoppedRests) {
  const comm::LaunchOptions o{.command = {"sh", "-c", "(sleep 1.5; kill -CONT $$) & kill -STOP $$; exit 0"},
                              .world = 2,
                              .log_dir = dir_ / "logs",
                              .most_stopped = 0.3};
  EXPECT_FALSE(comm::run_job(o).failed());
}

TEST_F(Supervisor, AnInheritedCountThatIsNoneIsRefused) {
  const testing::ScopedEnvironment none("FREIGHT_STEPS", "77");
  EXPECT_THROW(job::StepCount::of_process(), Error);
}

}  // namespace
}  // namespace freight::test
