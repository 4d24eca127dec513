// Choices by measurement: remembered by the process and on disk, by all that they depend on; what fails is passed over.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "freight/backend/choices.h"
#include "freight/base/error.h"

#include "tests/support/files.h"

namespace freight::test {
namespace {

using freight::testing::ScopedEnvironment;
using freight::testing::TemporaryDir;

// Candidates that take so many milliseconds and count their runs.
struct Taking {
  int milliseconds = 0, runs = 0;
  Choices::Candidate as(const std::string& name) {
    return {name, [this] {
              return [this](int times) {
                runs += times;
                std::this_thread::sleep_for(std::chrono::milliseconds(times * milliseconds));
              };
            }};
  }
};

class KernelChoices : public ::testing::Test {
 protected:
  TemporaryDir cache_;
  ScopedEnvironment environment_{"FREIGHT_CACHE", cache_.path()};
};

TEST_F(KernelChoices, AreMeasuredOnceAndRemembered) {
  Taking slow{5}, fast{1};
  Choices first("some/choices.txt");
  EXPECT_EQ(first.fastest("matmul f32[4,5] of both", {slow.as("tiles"), fast.as("library")}), 1u);
  const int runs = fast.runs;
  EXPECT_GT(runs, 0);
  EXPECT_LE(slow.runs, runs);
  EXPECT_EQ(io::read_text(cache_.path() + "/some/choices.txt"), "library matmul f32[4,5] of both\n");
  Choices second("some/choices.txt");
  EXPECT_EQ(first.fastest("matmul f32[4,5] of both", {slow.as("tiles"), fast.as("library")}), 1u);
  EXPECT_EQ(second.fastest("matmul f32[4,5] of both", {fast.as("library"), slow.as("tiles")}), 0u);
  EXPECT_EQ(fast.runs, runs);
  second.fastest("matmul f32[4,5] of others", {fast.as("library"), slow.as("tiles")});
  EXPECT_GT(fast.runs, runs);
}

TEST_F(KernelChoices, PassOverWhatFailsAtOnce) {
  Taking works{1};
  const Choices::Candidate broken{"broken",
                                  [] { return [](int) { fail(ErrorKind::device, "test", "no such kernel"); }; }};
  Choices choices("choices.txt");
  EXPECT_EQ(choices.fastest("a matmul that a library refuses", {broken, works.as("tiles")}), 1u);
  EXPECT_EQ(choices.fastest("a matmul that all refuse", {broken, broken}), 0u);
}

// A generated kernel may take hundreds of times as long as a library's, whose many runs are to be short.
TEST_F(KernelChoices, RunWhatIsBeatenNoMoreThanItMust) {
  Taking slow{10}, fast{0};
  EXPECT_EQ(Choices("choices.txt").fastest("a large matmul", {slow.as("tiles"), fast.as("library")}), 1u);
  EXPECT_LE(slow.runs, 20);
  EXPECT_GT(fast.runs, slow.runs);
}

TEST_F(KernelChoices, RepeatShortStepsInARun) {
  int most = 0;
  const auto candidate = [&](const char* name) {
    return Choices::Candidate{name, [&] { return [&](int times) { most = std::max(most, times); }; }};
  };
  Choices("choices.txt").fastest("short", {candidate("a"), candidate("b")});
  EXPECT_EQ(most, 1);
  Choices("choices.txt", 1e-3).fastest("shorter", {candidate("a"), candidate("b")});
  EXPECT_GT(most, 1);
}

}  // namespace
}  // namespace freight::test
