// Pieces of a step are handed to the thread that sums, or left to the one that waits. Runs that sum beside their steps:
// tests/apps/ranks_test.cpp.
#include "freight/job/rank_sum.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "freight/base/philox.h"

namespace freight::job {
namespace {

// Two ranks, of which the other one brings ones.
class Recorder final : public comm::Comm {
 public:
  int rank() const override { return 0; }
  int world() const override { return 2; }
  bool over_network() const override { return true; }
  void all_reduce(void* data, int64_t count, DType) override {
    calls.emplace_back(static_cast<float*>(data), count);
    if (meanwhile) meanwhile();
    for (int64_t i = 0; i < count; ++i) static_cast<float*>(data)[i] += 1;
  }
  void all_gather(const void*, void*, int64_t, DType) override {}
  void broadcast(void*, int64_t, DType, int) override {}
  void barrier() override {}
  void abort(const std::string&) noexcept override {
    aborted = true;
    aborted.notify_all();
  }
  void at_step(int64_t) override {}
  std::vector<double> waited() const override { return {0, 0}; }

  std::vector<std::pair<float*, int64_t>> calls;
  std::function<void()> meanwhile;
  std::atomic<bool> aborted{false};
};

constexpr size_t kParts = 24;
constexpr int64_t kSize = 16;
constexpr auto kEver = std::chrono::seconds(60);

class RankSumTest : public ::testing::Test {
 protected:
  RankSumTest() : block(kParts * kSize) {}
  float* part(size_t i) { return block.data() + i * kSize; }
  void lay(RankSum& sums, const std::vector<size_t>& ends) {
    sums.lay(block.data(), std::vector<int64_t>(kParts, kSize));
    sums.cut(ends);
  }

  std::vector<float> block;
  Recorder comm;
};

TEST_F(RankSumTest, EachPieceIsSummedOnceAndInOrderWhateverTheOrderOfItsParts) {
  RankSum sums(comm);
  PhiloxStream random(7, 0, 0);
  for (int step = 0; step < 400; ++step) {
    std::vector<size_t> ends;
    for (size_t i = 1; i < kParts; ++i) {
      if (random.below(4) == 0) ends.push_back(i);
    }
    ends.push_back(kParts);
    lay(sums, ends);
    comm.calls.clear();
    int64_t prepared = 0;
    sums.begin(RankSum::Mode::beside, [&](int64_t from, int64_t count) {
      EXPECT_EQ(from, prepared);
      prepared += count;
    });
    std::vector<size_t> order(kParts);
    for (size_t i = 0; i < kParts; ++i) order[i] = i;
    for (size_t i = 0; i + 1 < kParts; ++i) {
      if (random.below(3) == 0) std::swap(order[i], order[i + 1 + random.below(static_cast<uint32_t>(kParts - i - 1))]);
    }
    const size_t handed = kParts - random.below(3);  // computed() takes the rest
    for (size_t i = 0; i < handed; ++i) {
      for (int64_t k = 0; k < kSize; ++k) part(order[i])[k] = static_cast<float>(step);
      sums.ready(part(order[i]));
      if (random.below(40) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the thread falls asleep
    }
    for (size_t i = handed; i < kParts; ++i) {
      for (int64_t k = 0; k < kSize; ++k) part(order[i])[k] = static_cast<float>(step);
    }
    sums.computed();
    sums.finish();
    EXPECT_EQ(prepared, static_cast<int64_t>(kParts) * kSize);
    ASSERT_EQ(comm.calls.size(), ends.size());
    ASSERT_EQ(sums.sum_times().size(), ends.size());
    for (size_t i = 0; i < ends.size(); ++i) EXPECT_EQ(comm.calls[i].first, part(i == 0 ? 0 : ends[i - 1]));
    for (const float v : block) ASSERT_EQ(v, static_cast<float>(step + 1));
  }
  EXPECT_EQ(sums.times().steps, 400);
  EXPECT_FALSE(comm.aborted);
}

TEST_F(RankSumTest, APieceIsSummedWhileTheNextIsComputed) {
  std::counting_semaphore<> summing(0);
  comm.meanwhile = [&] { summing.release(); };
  RankSum sums(comm);
  lay(sums, {4, 8, 16, kParts});
  for (int step = 0; step < 5; ++step) {
    sums.begin(RankSum::Mode::beside);
    for (size_t i = 0; i < 16; ++i) {
      sums.ready(part(i));
      // It comes, if it naps by now or if it sleeps.
      if (i == 7) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      if (i == 3 || i == 7 || i == 15) {
        ASSERT_TRUE(summing.try_acquire_for(kEver)) << "nobody sums part " << i;
      }
    }
    sums.computed();
    sums.finish();
    EXPECT_TRUE(summing.try_acquire());
  }
}

TEST_F(RankSumTest, StepsThatSumBehindSayWhenSummandsWereReady) {
  RankSum sums(comm);
  lay(sums, {kParts});
  sums.begin(RankSum::Mode::behind);
  for (size_t i = 0; i < kParts; ++i) sums.ready(part(i));
  sums.computed();
  EXPECT_TRUE(comm.calls.empty());
  const std::vector<Summand> seen = sums.summands();
  ASSERT_EQ(seen.size(), kParts);
  EXPECT_EQ(seen[0].bytes, kSize * sizeof(float));
  for (size_t i = 1; i < kParts; ++i) EXPECT_GE(seen[i].ready, seen[i - 1].ready);
  EXPECT_LE(seen.back().ready, sums.compute_seconds());
}

TEST_F(RankSumTest, TheErrorOfASumIsThrownWhereTheStepEnds) {
  std::counting_semaphore<> failed(0);
  comm.meanwhile = [&] {
    failed.release();
    throw std::runtime_error("rank 1 is lost");
  };
  RankSum sums(comm);
  lay(sums, {4, kParts});
  sums.begin(RankSum::Mode::beside);
  for (size_t i = 0; i < 4; ++i) sums.ready(part(i));
  ASSERT_TRUE(failed.try_acquire_for(kEver));
  sums.computed();
  EXPECT_THROW(sums.finish(), std::runtime_error);
  EXPECT_EQ(comm.calls.size(), 1u);  // the job is over
}

TEST_F(RankSumTest, AnEndWithinASumIsToldToTheOtherRanks) {
  std::counting_semaphore<> summing(0);
  comm.meanwhile = [&] {
    summing.release();
    comm.aborted.wait(false);  // the other rank does not come
  };
  {
    RankSum sums(comm);
    lay(sums, {4, kParts});
    sums.begin(RankSum::Mode::beside);
    for (size_t i = 0; i < 4; ++i) sums.ready(part(i));
    ASSERT_TRUE(summing.try_acquire_for(kEver));
  }
  EXPECT_TRUE(comm.aborted);
}

}  // namespace
}  // namespace freight::job
