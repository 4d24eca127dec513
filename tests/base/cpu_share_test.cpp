// What others take of the processors: quotas of control groups, busy ticks, and a pool that gives way.
#include "freight/base/cpu_share.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "freight/base/env.h"

namespace freight::test {
namespace {

TEST(CpuShare, ReadsQuotas) {
  EXPECT_EQ(parse_quota("150000 100000"), 1.5);
  EXPECT_EQ(parse_quota("50000 100000\n"), 0.5);
  for (const char* none : {"max 100000", "-1 100000", "0 100000", "100000 0", "100000", "", "junk"})
    EXPECT_EQ(parse_quota(none), std::nullopt) << none;
}

TEST(CpuShare, CountsBusyTicksOfItsProcessors) {
  //                        user nice system idle disk irq soft steal
  const std::string text =
      "cpu  1000 900 800 700 600 500 400 300 0 0\n"
      "cpu0 100 7 20 5000 60 3 2 1 50 0\n"
      "cpu1 200 9 30 4000 70 4 3 2 0 0\n"
      "cpu10 1 0 0 9 0 0 0 0 0 0\n"
      "intr 12345 0 1\n";
  EXPECT_EQ(busy_ticks(text, {0}), 126);
  EXPECT_EQ(busy_ticks(text, {0, 1}), 126 + 239);
  EXPECT_EQ(busy_ticks(text, {10}), 1);
  EXPECT_EQ(busy_ticks(text, {5}), 0);
  EXPECT_EQ(busy_ticks("", {0}), 0);
}

TEST(CpuShare, CountsThreadsThatCanRun) {
  EXPECT_EQ(runnable_threads("6.63 7.82 5.89 8/145 13392\n"), 8);
  EXPECT_EQ(runnable_threads(""), 0);
}

TEST(CpuShare, IgnoresABurstOfOneSample) {
  LastingUse use;
  EXPECT_EQ(use.take(0), 0);
  EXPECT_EQ(use.take(1), 0);
  EXPECT_EQ(use.take(0), 0);
  EXPECT_EQ(use.take(1), 0);
  EXPECT_EQ(use.take(0.9), 0.9);
  EXPECT_NEAR(use.take(0), 0.63, 1e-9);
  EXPECT_NEAR(use.take(1), 0.441, 1e-9);
  EXPECT_EQ(use.take(1), 1);
}

// As many programs as there are processors do nothing but compute.
TEST(CpuShare, UsesFewerThreadsWhileOthersCompute) {
  const int processors = omp_get_num_procs();
  if (processors < 2) GTEST_SKIP() << "one processor";
  if (env::get("FREIGHT_SHARE_CPUS") == "0") GTEST_SKIP() << "FREIGHT_SHARE_CPUS=0";
  std::vector<pid_t> others;
  for (int i = 0; i < processors; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (volatile int64_t n = 0;;) n = n + 1;
    }
    ASSERT_GT(child, 0);
    others.push_back(child);
  }
  EXPECT_FALSE(CpuShare::alone());
  int share = processors;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (share == processors && std::chrono::steady_clock::now() < end) {
    CpuShare::touch();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    share = CpuShare::of(processors);
  }
  for (const pid_t child : others) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  EXPECT_LT(share, processors);
  EXPECT_GE(share, 1);
  EXPECT_GT(CpuShare::others(), 0.5);
  EXPECT_EQ(CpuShare::of(1), 1);
}

}  // namespace
}  // namespace freight::test
