// The sum of a block of host memory over ranks: in one piece on request, or overlapped with the backward pass by a
// thread. The summands of the block are in the order in which the plan computes them. Pieces of it, the same on all
// ranks, are summed in order, each as soon as this rank has all of its summands; passes/pieces.h cuts them. Pieces that
// are left when the plan has run are summed by the calling thread, which would otherwise wait.
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
  // `comm` outlives it, and must not be used elsewhere between begin() and finish().
  explicit RankSum(comm::Comm& comm) : comm_(comm) {}
  // Aborts the job of the other ranks if a step has not been finished.
  ~RankSum() override;
  RankSum(const RankSum&) = delete;
  RankSum& operator=(const RankSum&) = delete;

  // Sets the block and its contiguous summands of `sizes` floats each. They are one piece until cut().
  void lay(float* block, const std::vector<int64_t>& sizes);
  // Sets the pieces: each ends before the summand with that index. Is called between steps.
  void cut(const std::vector<size_t>& ends);

  // The sums of a step are made after the run, by finish() (behind), or overlapped with it (beside).
  enum class Mode : uint8_t { behind, beside };
  // Begins a step. `prepare` computes this rank's contribution in `count` floats of the block, from index `from` on.
  using Prepare = std::function<void(int64_t from, int64_t count)>;
  void begin(Mode mode, Prepare prepare = {});
  void ready(void* data) override;
  // Is called when this rank's plan has run: summands that it did not pass on are ready, too.
  void computed();
  // Sums the remaining pieces, except the one that the thread has begun, and returns when all are summed. Throws the
  // errors of the sums.
  void finish();

  // The summands of the last step with the seconds from begin() to ready(), and the seconds to computed().
  std::vector<freight::Summand> summands() const;
  double compute_seconds() const { return compute_; }
  // The times of the last step's sums, in seconds since begin(). Valid after finish().
  const std::vector<SumTime>& sum_times() const { return sum_times_; }
  // Totals of all overlapped steps so far: their number, the seconds in sums, and the seconds that finish() waited.
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
  std::vector<PendingGradient> summands_;  // in the order of addresses
  PieceOrder pieces_;
  Mode mode_ = Mode::behind;
  Prepare prepare_;
  std::chrono::steady_clock::time_point begun_;
  double compute_ = 0;
  Times times_;

  std::thread thread_;
  // The number of pieces that may be summed, over all steps so far; the thread sleeps on it. It is published after the
  // data of the pieces is written.
  std::atomic<uint32_t> published_{0};
  std::atomic<bool> busy_{false}, over_{false};  // a sum is running; the object is being destroyed
  std::mutex turn_;                              // its owner makes sums, and may use the members below
  uint32_t first_ = 0, summed_ = 0;              // pieces of all earlier steps; pieces summed so far
  std::vector<SumTime> sum_times_;               // of this step
  std::exception_ptr error_;
  int naps_ = kMostNaps;  // used by the thread: short sleeps in its next wait
  static constexpr int kMostNaps = 4;
};

// Fits the cost of this job's all-reduce, start + per_byte * bytes, to some sums that all ranks make now. All ranks get
// rank 0's result.
SumCost measure_sums(comm::Comm& comm);

}  // namespace freight::job
