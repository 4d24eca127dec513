// Parts, or shards, of a batch (micro-batches: what one forward and backward pass computes), assigned to the ranks.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/data/share.h"

namespace freight::job {

class Ranks;

// A batch is cut into shards, which are assigned to the ranks in order and as evenly as possible: 8 shards to 3 ranks
// as 3, 3, 2. Heterogeneous ranks get more or fewer shards, or larger and smaller ones.
struct ShardAssignment {
  int64_t shards = 1;                // of the batch
  int rank = 0, world = 1;           // this rank, and the number of ranks
  std::vector<int64_t> counts = {};  // the number of shards of each rank; empty: as even as possible
  std::vector<int64_t> widths = {};  // the relative size of each rank's shards; empty: all are equal

  int64_t first_of(int r) const;  // the first shard of rank r; for r = world, the number of all shards
  int64_t count_of(int r) const { return first_of(r + 1) - first_of(r); }  // the number of shards of rank r
  int64_t first() const { return first_of(rank); }                         // the first shard of this rank
  int64_t count() const { return count_of(rank); }                         // the number of shards of this rank
  int64_t most() const;                                                    // the largest number of a rank
  // The part of every batch that this rank's loader reads.
  data::Share pieces() const;
  // The number of samples of the smallest shard of a batch of n.
  int64_t least_rows(int64_t n) const;
  // True if the fixed tree over all shards (comm/tree_sum.h) is the same as the tree over the ranks' own sums.
  bool aligned() const;
};

// Divides `total` into integers proportional to the weights, each at least `least`; total >= least * weights.size().
std::vector<int64_t> dealt(int64_t total, const std::vector<double>& weights, int64_t least);

// The division of the batches of a run into shards, on which train/part_step.h makes a step.
struct Sharding {
  int64_t shards = 0;      // 0: the batch is not divided
  bool exact = false;      // bitwise the same results on any number of ranks
  int64_t batch_size = 0;  // samples of a full batch, of all ranks
  // BatchNorm computes its statistics over the whole batch, not over each shard.
  bool shared_statistics = false;
  Ranks* ranks = nullptr;        // outlive the step; null: this process computes all shards
  ShardAssignment deal() const;  // the assignment of shards to ranks
  // True if each rank first adds its own shards. In an exact sum they must be branches of the tree over all shards.
  bool adds_by_rank() const { return !exact || !ranks || deal().aligned(); }
  // The number of shards of each rank if some have more than others without being faster; otherwise empty.
  std::vector<double> unequal_work() const;
};

}  // namespace freight::job
