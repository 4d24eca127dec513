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

// The times of a candidate on a machine where other programs compute do not agree.
TEST_F(KernelChoices, FoundByDisturbedMeasurementsAreKeptAndMarked) {
  int wait = 5;
  const Choices::Candidate disturbed{"tiles", [&] {
                                       return [&](int) {
                                         std::this_thread::sleep_for(std::chrono::milliseconds(wait));
                                         wait *= 2;
                                       };
                                     }};
  Taking library{300};
  const std::string path = cache_.path() + "/choices.txt";
  EXPECT_EQ(Choices("choices.txt").fastest("sum f32[8]", {disturbed, library.as("library")}), 0u);
  EXPECT_EQ(io::read_text(path), "tiles?1 sum f32[8]\n");
  wait = 5;
  Choices again("choices.txt", 0, [] { return true; });
  EXPECT_EQ(again.fastest("sum f32[8]", {disturbed, library.as("library")}), 0u);
  EXPECT_EQ(again.fastest("sum f32[8]", {disturbed, library.as("library")}), 0u);  // not by the same process
  EXPECT_EQ(io::read_text(path), "tiles?1 sum f32[8]\ntiles?2 sum f32[8]\n");
}

TEST_F(KernelChoices, FoundByDisturbedMeasurementsAreMeasuredAgainUpToThreeTimesWhileNoOtherProgramComputes) {
  const std::string path = cache_.path() + "/choices.txt",
                    known = "slow?1 a f32[8]\nslow?2 b f32[8]\nslow?3 c f32[8]\n";
  Taking slow{5}, fast{1};
  const std::vector<Choices::Candidate> both{slow.as("slow"), fast.as("fast")};
  testing::put(path, known);
  Choices busy("choices.txt", 0, [] { return false; });
  for (const char* step : {"a f32[8]", "b f32[8]", "c f32[8]"}) EXPECT_EQ(busy.fastest(step, both), 0u) << step;
  Choices alone("choices.txt", 0, [] { return true; });
  ChoiceRule rule(ChoiceRule::Unknown::guessed);
  EXPECT_EQ(alone.fastest("a f32[8]", both, &rule), 0u);
  EXPECT_EQ(rule.guesses(), 0u);
  EXPECT_EQ(alone.fastest("c f32[8]", both), 0u);
  EXPECT_EQ(slow.runs + fast.runs, 0);
  EXPECT_EQ(io::read_text(path), known);
  EXPECT_EQ(alone.fastest("a f32[8]", both), 1u);
  EXPECT_EQ(alone.fastest("b f32[8]", both), 1u);
  EXPECT_GT(fast.runs, 0);
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

// What lies in the file of choices, which step is asked for, and which of the candidates tiles, library, blocks it
// gets.
struct Guess {
  const char *known, *asked;
  size_t chosen;
};

TEST_F(KernelChoices, GuessThoseOfTheNearestKnownStep) {
  const Guess cases[] = {
      {"library matmul f32[64,8][8,1]", "matmul f32[64,8][8,1]", 1},   // known itself
      {"library matmul f32[64,8][8,1]", "matmul f32[100,8][8,1]", 1},  // another batch
      {"library matmul f32[64,8][8,1]\nblocks matmul f32[128,8][8,1]", "matmul f32[80,8][8,1]", 1},
      {"library matmul f32[64,8][8,1]\nblocks matmul f32[128,8][8,1]", "matmul f32[120,8][8,1]", 2},
      {"library matmul f32[64,9][9,1]\nblocks matmul f32[32,8][8,1]", "matmul f32[33,8][8,1]", 2},
      {"library matmul f32[64,8][8,1]", "matmul f32[600,8][8,1]", 0},    // too far
      {"library matmul f32[64,8][8,1]", "matmul f32[64,8][1,64]", 0},    // another layout
      {"library matmul f32[64,8][8,1]", "matmul f32[1,8][8,1]", 0},      // a vector
      {"library matmul f32[64,8][8,1]", "matmul bf16[60,8][8,1]", 0},    // another type
      {"library matmul f32[64,8][8,1]", "matmul ta f32[60,8][8,1]", 0},  // another product
      {"library matmul f32[64,8][8,1] on 4 threads", "matmul f32[60,8][8,1] on 2 threads", 0},
      {"gone matmul f32[64,8][8,1]\nlibrary matmul f32[90,8][8,1]", "matmul f32[64,8][8,1]", 1},  // no such candidate
      {"", "matmul f32[64,8][8,1]", 0},
  };
  for (const Guess& c : cases) {
    const std::string file = cat(cache_.path(), "/choices.txt"), content = cat(c.known, "\n");
    testing::put(file, content);
    Taking tiles, library, blocks;
    Choices choices("choices.txt");
    ChoiceRule rule(ChoiceRule::Unknown::guessed);
    EXPECT_EQ(choices.fastest(c.asked, {tiles.as("tiles"), library.as("library"), blocks.as("blocks")}, &rule),
              c.chosen)
        << c.known << " for " << c.asked;
    EXPECT_EQ(tiles.runs + library.runs + blocks.runs, 0);
    EXPECT_EQ(io::read_text(file), content);  // a guess is not written down
  }
}

TEST_F(KernelChoices, GuessWhatIsMadeAtOnceUnlessTheStepItselfIsKnown) {
  testing::put(cat(cache_.path(), "/choices.txt"), "library matmul f32[8,4]\n");
  Taking library, tiles;
  std::vector<Choices::Candidate> both{library.as("library"), tiles.as("tiles")};
  both[1].guess = true;
  Choices choices("choices.txt");
  ChoiceRule rule(ChoiceRule::Unknown::guessed);
  EXPECT_EQ(choices.fastest("matmul f32[8,4]", both, &rule), 0u);
  EXPECT_EQ(choices.fastest("matmul f32[9,4]", both, &rule), 1u);
  EXPECT_EQ(choices.fastest("matmul ta f32[9,4]", both, &rule), 1u);
  EXPECT_EQ(library.runs + tiles.runs, 0);
}

// A file of more than 8 MiB is not read.
TEST_F(KernelChoices, AreReadUpToEightMebibytes) {
  const std::string known = "library matmul f32[8,4]\n";
  constexpr size_t kMost = size_t{8} << 20;
  for (const size_t bytes : {kMost - 1, kMost, kMost + 1}) {
    std::string content = "library ";
    content.resize(bytes - known.size() - 1, 'x');
    testing::put(cat(cache_.path(), "/choices.txt"), cat(content, "\n", known));
    Taking library, tiles;
    std::vector<Choices::Candidate> both{library.as("library"), tiles.as("tiles")};
    both[1].guess = true;
    ChoiceRule rule(ChoiceRule::Unknown::guessed);
    EXPECT_EQ(Choices("choices.txt").fastest("matmul f32[8,4]", both, &rule), bytes <= kMost ? 0u : 1u) << bytes;
  }
}

TEST_F(KernelChoices, FirstShapesAreMeasuredUnlessACandidateIsMadeAtOnce) {
  Taking library, tiles;
  std::vector<Choices::Candidate> both{library.as("library"), tiles.as("tiles")};
  Choices choices("choices.txt");
  ChoiceRule rule(ChoiceRule::Unknown::measured_or_at_once);
  both[1].guess = true;
  EXPECT_EQ(choices.fastest("matmul f32[8,4]", both, &rule), 1u);
  EXPECT_EQ(library.runs + tiles.runs, 0);
  EXPECT_EQ(rule.guesses(), 1u);
  both[1].guess = false;
  choices.fastest("matmul f32[800,400]", both, &rule);
  EXPECT_GT(library.runs, 0);
  EXPECT_GT(tiles.runs, 0);
  EXPECT_EQ(rule.guesses(), 1u);
}

TEST_F(KernelChoices, ACandidateThatHasClearlyLostIsRunNoFurtherNorIsTheOneThatWon) {
  int runs = 0;
  const auto busy_for = [&](const char* name, int microseconds) {
    return Choices::Candidate{name, [&runs, microseconds] {
                                return [&runs, microseconds](int times) {
                                  using Clock = std::chrono::steady_clock;
                                  runs += times;
                                  const auto end = Clock::now() + std::chrono::microseconds(times * microseconds);
                                  while (Clock::now() < end) continue;
                                };
                              }};
  };
  Choices choices("choices.txt");
  int fewest = 1 << 30;
  for (int n = 8; n < 16 && fewest >= 150; ++n) {  // a run that was held up says nothing of a candidate
    runs = 0;
    EXPECT_EQ(choices.fastest(cat("sum f32[", n, "]"), {busy_for("slow", 60), busy_for("fast", 20)}), 1u);
    fewest = std::min(fewest, runs);
  }
  EXPECT_LT(fewest, 150);  // 4 ms of each are 200 runs and 66
}

TEST_F(KernelChoices, GuessesAreCountedUntilTheStepIsMeasured) {
  testing::put(cat(cache_.path(), "/choices.txt"), "b sum f32[8]\n");
  Taking a, b;
  const std::vector<Choices::Candidate> both{a.as("a"), b.as("b")};
  Choices choices("choices.txt");
  const auto guesses = [&](const char* step) {
    ChoiceRule rule(ChoiceRule::Unknown::guessed);
    choices.fastest(step, both, &rule);
    return rule.guesses();
  };
  EXPECT_EQ(guesses("sum f32[8]"), 0u);
  EXPECT_EQ(guesses("sum f32[9]"), 1u);
  EXPECT_EQ(a.runs, 0);
  choices.fastest("sum f32[9]", both);
  EXPECT_GT(a.runs, 0);
  EXPECT_EQ(guesses("sum f32[9]"), 0u);
}

// So that eager results have the same bits however a program's work is cut into plans.
TEST_F(KernelChoices, WhatHoldsForTheProcessIsNotChangedByAMeasurement) {
  testing::put(cat(cache_.path(), "/choices.txt"), "slow sum f32[8]\n");
  Taking slow{3}, fast{0};
  const std::vector<Choices::Candidate> both{slow.as("slow"), fast.as("fast")};
  Choices choices("choices.txt");
  const auto eager = [&] {
    ChoiceRule rule(ChoiceRule::Unknown::guessed, ChoiceRule::Lasting::process);
    return choices.fastest("sum f32[9]", both, &rule);
  };
  EXPECT_EQ(eager(), 0u);
  EXPECT_EQ(choices.fastest("sum f32[9]", both), 1u);
  EXPECT_EQ(eager(), 0u);
}

}  // namespace
}  // namespace freight::test
