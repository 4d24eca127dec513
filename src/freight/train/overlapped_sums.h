// Sums of gradients over ranks, made beside the steps of the backward half by a thread of their own. The parts of a
// block of memory lie in the order in which the plan makes them; pieces of it, the same on all ranks, travel in order
// as soon as this rank has all their parts. How pieces are cut is passes/pieces.h. What is not summed when the plan has
// run is summed by the thread that would else wait for it.
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
#include "freight/passes/pieces.h"
#include "freight/run/collectives.h"
#include "freight/train/step_timeline.h"

namespace freight::train {

class OverlappedSums final : public Collectives {
 public:
  // `comm` outlives it. From begin() to finish() nobody else uses it.
  explicit OverlappedSums(comm::Comm& comm) : comm_(comm) {}
  // Where a step is not over, the ranks are told so.
  ~OverlappedSums() override;
  OverlappedSums(const OverlappedSums&) = delete;
  OverlappedSums& operator=(const OverlappedSums&) = delete;

  // The block's parts: `sizes` floats each, behind each other. They travel as one piece until cut().
  void lay(float* block, const std::vector<int64_t>& sizes);
  // Each piece ends in front of the part of that number. Between steps.
  void cut(const std::vector<size_t>& ends);

  // Where the sums of a step are made. `watched` only notes when parts are ready.
  enum class Mode : uint8_t { watched, beside };
  // A step begins. `prepare` makes of so many floats, from a number of the block on, what this rank brings to the sum.
  using Prepare = std::function<void(int64_t from, int64_t count)>;
  void begin(Mode mode, Prepare prepare = {});
  void ready(void* data) override;
  // This rank's plan has run: what it did not hand over is ready, too.
  void computed();
  // Returns when all is summed: here, but for what the thread has begun. Throws what a sum threw.
  void finish();

  // Of the last step: the parts with the seconds from begin() to ready(), and to computed().
  std::vector<Summand> summands() const;
  double compute_seconds() const { return compute_; }
  // The sums that it made beside, from begin() on. After finish().
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
    size_t piece = 0;
    bool ready = false;
    double seconds = 0;  // since begin()
  };

  void mark(PendingGradient& part, double seconds);
  void work();
  void wait_for_more(uint32_t than, bool within_step);
  uint32_t sum_published();
  double sum(size_t piece);  // returns its bytes

  comm::Comm& comm_;
  std::vector<PendingGradient> parts_;  // in the order of addresses
  std::vector<size_t> ends_;            // of pieces
  Mode mode_ = Mode::watched;
  Prepare prepare_;
  std::chrono::steady_clock::time_point begun_;
  double compute_ = 0;
  Times times_;
  std::vector<size_t> missing_;  // parts of each piece of this step
  size_t complete_ = 0;          // pieces of this step, in order, of which nothing is missing

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

}  // namespace freight::train
