// The sum of gradients in host memory: GradientSum over comm/comm.h, whose ranks meet in shared memory or by Gloo. The
// summands lie behind each other in one block, so that a block is what travels. The parts of a rank are added while it
// computes them, in the tree of comm/tree_sum.h. The sums over ranks are made behind the last part, or beside it where
// that pays (rank_sum.h), which the first steps decide.
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "freight/base/array.h"
#include "freight/job/gradient_sum.h"
#include "freight/job/rank_sum.h"

namespace freight::job {

// As Collectives it sums within the plans of parts that run side by side (run_side_by_side).
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
  bool beside() const override { return beside_; }
  static size_t kept_bytes(size_t block, const Sharding& sharding);

  // If the parts of a rank run side by side, each has a block of its own, as large as this one.
  const Array& block() const { return block_; }
  // Says of each of this rank's parts, in order, whether it runs: the others have no samples.
  void run_side_by_side(std::vector<bool> running) { running_ = std::move(running); }
  // Takes a part's block, or zeros for null, in place of begin_part() and end_part().
  void put_part(int64_t number, const float* block);
  // Sums over the parts that run side by side, and over the ranks.
  bool sum_within(std::span<void* const> parts, const Type& type) override;
  void ready(void*) override {}  // parts that run side by side leave their gradients in their blocks

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
  bool own_memory_;      // of the device that computes
  bool in_tree_;         // the sum of this rank's parts is a branch of the tree over all
  bool overlaps_;        // sums over ranks may be made beside the last part
  bool beside_ = false;  // they are
  bool within_last_ = false;
  int64_t steps_ = 0;
  std::vector<Variable> summands_;
  Array block_;
  // Sums of 1, 2, 4, ... parts of this step that are complete, and the number of parts in each: the tree grows by a
  // part at a time. The last part stays in the block.
  std::vector<Array> kept_;
  std::vector<int64_t> counts_;
  Array slots_, all_slots_;         // of this rank's parts, and of all, where they meet in no tree over the ranks' own
  std::unique_ptr<RankSum> ranks_;  // null where this rank's sum is all, or where slots are gathered
  std::chrono::steady_clock::time_point begun_;
  double before_last_ = 0;  // seconds from start() to the last part
  std::vector<SumTime> sum_times_;
  std::vector<bool> running_;
  std::vector<double> total_, mine_, all_;  // memory of sums within, of any type
};

}  // namespace freight::job
