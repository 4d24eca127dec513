// The gradient all-reduce in host memory: a GradientSum over comm/comm.h, by shared memory or Gloo. The summands are
// contiguous in one block, which is what ranks exchange. The parts of a rank are added as it computes them, in the tree
// of comm/tree_sum.h. The sums over ranks are made after the last part, or overlapped with it where that pays
// (rank_sum.h); the first steps measure which.
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "freight/base/array.h"
#include "freight/job/gradient_sum.h"
#include "freight/job/rank_sum.h"

namespace freight::job {

// As Collectives it sums within the plans of interleaved parts (run_interleaved).
class HostSum final : public GradientSum, public Collectives {
 public:
  HostSum(const std::vector<Variable>& summands, const GradientSumOptions& options);
  ~HostSum() override;

  void start() override;
  Collectives* begin_part(int64_t number) override;
  void end_part(int64_t number) override;
  void skip_part(int64_t number, const SumOrder& order) override;
  void finish() override;
  std::span<const SumTime> sum_times() const override { return sum_times_; }
  bool overlaps_next_step() const override { return overlaps_next_; }
  static size_t kept_bytes(size_t block, const Sharding& sharding);

  // If the parts of a rank are interleaved, each has a block of its own, as large as this one.
  const Array& block() const { return block_; }
  // Sets which of this rank's parts run, in order; the others have no samples.
  void run_interleaved(std::vector<bool> running) { running_ = std::move(running); }
  // Adds a part's block, or zeros if it is null. Replaces begin_part() and end_part().
  void put_part(int64_t number, const float* block);
  // Sums over the interleaved parts, and over the ranks.
  bool sum_within(std::span<void* const> parts, const Type& type) override;
  void ready(void*) override {}  // interleaved parts leave their gradients in their blocks

 private:
  float* data() const { return block_.data<float>(); }
  bool is_last(int64_t number) const { return number + 1 == deal_.count(); }
  void lay(const std::vector<Variable>& summands);
  void bring_home() const;
  void keep();
  void fold();
  void add_kept(int64_t from, int64_t count) const;
  void begin_ranks(RankSum::Mode mode);
  void gather_slots();
  void choose();

  Sharding sharding_;
  ShardAssignment deal_;
  bool own_memory_;             // the device that computes has memory of its own
  bool adds_by_rank_;           // the sum of this rank's parts is a branch of the tree over all
  bool overlaps_;               // sums over ranks may overlap with the last part
  bool overlaps_next_ = false;  // the next step overlaps them
  bool within_last_ = false;
  int64_t steps_ = 0;
  std::vector<Variable> summands_;
  Array block_;
  // Sums of 1, 2, 4, ... parts of this step that are complete, and the number of parts in each: the tree grows by a
  // part at a time. The last part stays in the block.
  std::vector<Array> kept_;
  std::vector<int64_t> counts_;
  Array slots_, all_slots_;         // this rank's parts, and all parts, if the tree does not align with the ranks
  std::unique_ptr<RankSum> ranks_;  // null if there is one rank, or if slots are gathered
  std::chrono::steady_clock::time_point begun_;
  double before_last_ = 0;  // seconds from start() to the last part
  std::vector<SumTime> sum_times_;
  std::vector<bool> running_;
  std::vector<double> total_, mine_, all_;  // buffers of sums within plans, for any type
};

}  // namespace freight::job
