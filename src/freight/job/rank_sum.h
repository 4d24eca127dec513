// The sum of a block of host memory over ranks, in one piece when it is asked for, or beside the steps of the backward
// pass by a thread of its own. The summands of the block lie in the order in which the plan makes them; pieces of it,
// the same on all ranks, travel in order as soon as this rank has all their summands. How pieces are cut is
// passes/pieces.h. What is not summed when the plan has run is summed by the thread that would else wait for it.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "freight/comm/comm.h"
#include "freight/job/pieces_internal.h"
#include "freight/job/step_timeline.h"
#include "freight/passes/pieces.h"
#include "freight/run/collectives.h"

namespace freight::job {

class RankSum final : public Collectives {
 public:
  // `comm` outlives it. From begin() to finish() nobody else uses it.
  explicit RankSum(comm::Comm& comm) : comm_(comm) {}
  // Where a step is not over, the ranks are told so.
  ~RankSum() override;
  RankSum(const RankSum&) = delete;
  RankSum& operator=(const RankSum&) = delete;

  // The block's summands: `sizes` floats each, behind each other. They travel as one piece until cut().
  void lay(float* block, const std::vector<int64_t>& sizes);
  // Each piece ends in front of the summand of that number. Between steps.
  void cut(const std::vector<size_t>& ends);

  // When the sums of a step are made: behind the run, when finish() asks for them, or beside it.
  enum class Mode : uint8_t { behind, beside };
  // A step begins. `prepare` makes of so many floats, from a number of the block on, what this rank brings to the sum.
  using Prepare = std::function<void(int64_t from, int64_t count)>;
  void begin(Mode mode, Prepare prepare = {});
  void ready(void* data) override;
  // This rank's plan has run: what it did not hand over is ready, too.
  void computed();
  // Returns when all is summed: here, but for what the thread has begun. Throws what a sum threw.
  void finish();

  // Of the last step: the summands with the seconds from begin() to ready(), and to computed().
  std::vector<freight::Summand> summands() const;
  double compute_seconds() const { return compute_; }
  // The sums of the last step, from begin() on. After finish().
  const std::vector<SumTime>& sum_times() const { return sum_times_; }
  // Of all steps beside compute so far: their number, seconds in sums, and of these those that finish() waited for.
  struct Times {
    int64_t steps = 0;
    double sums = 0, waited = 0;
  };
  const Times& times() const { return times_; }

 private:
  struct PendingGradient {
    float* at;
    int64_t size;
    double seconds = 0;  // since begin()
  };

  void mark(size_t summand, double seconds);
  void work();
  void wait_for_more(uint32_t than, bool within_step);
  uint32_t sum_published();
  void sum(size_t first, size_t end);  // summands

  comm::Comm& comm_;
  std::vector<PendingGradient> parts_;  // in the order of addresses
  PieceOrder pieces_;
  Mode mode_ = Mode::behind;
  Prepare prepare_;
  std::chrono::steady_clock::time_point begun_;
  double compute_ = 0;
  Times times_;

  std::thread thread_;
  // Pieces of all steps so far that may be summed; the thread sleeps on it. Whatever a sum reads is written before.
  std::atomic<uint32_t> published_{0};
  std::atomic<bool> busy_{false}, over_{false};  // a sum runs; the object goes
  std::mutex turn_;                              // whoever has it sums, and sees all below
  uint32_t first_ = 0, summed_ = 0;              // pieces of the steps before, and of all
  std::vector<SumTime> sum_times_;               // of this step
  std::exception_ptr error_;
  int naps_ = kMostNaps;  // the thread's: of its next wait
  static constexpr int kMostNaps = 4;
};

// The line start + per_byte * bytes of this job's all-reduce, from some sums that all ranks make together now; rank
// 0's, on all.
SumCost measure_sums(comm::Comm& comm);

}  // namespace freight::job
