// A batch is cut into shards, of which a process computes some; the step on them is train/part_step.h.
#pragma once
#include <cstdint>
#include <vector>

#include "freight/data/share.h"

namespace freight::job {

class Ranks;

// A batch is cut into shards, which are dealt to the ranks in order and as evenly as possible: 8 to 3 ranks as 3, 3, 2.
// Ranks that are not alike get more or fewer of them, or larger and smaller ones.
struct ShardAssignment {
  int64_t shards = 1;                // of the batch
  int rank = 0, world = 1;           // this rank, and the number of ranks
  std::vector<int64_t> counts = {};  // of shards, by rank; empty: even ones
  std::vector<int64_t> widths = {};  // of each shard of a rank, by rank, relative to the others'; empty: all are alike

  int64_t first_of(int r) const;  // the first shard of rank r; of r = world all there are
  int64_t count_of(int r) const { return first_of(r + 1) - first_of(r); }  // of the shards of rank r
  int64_t first() const { return first_of(rank); }                         // the first shard of this rank
  int64_t count() const { return count_of(rank); }                         // of the shards of this rank
  int64_t most() const;                                                    // of a rank
  // The pieces of every batch that the rank reads.
  data::Share pieces() const;
  // Samples of the smallest shard of a batch of n.
  int64_t least_rows(int64_t n) const;
  // True where the sum over all shards in a fixed tree (comm/tree_sum.h) is the tree over the ranks' own sums.
  bool aligned() const;
};

// `total` things in parts proportional to the weights, of which each is `least` or more: total >= least * parts.
std::vector<int64_t> dealt(int64_t total, const std::vector<double>& weights, int64_t least);

// The division of the batches of a run into shards.
struct Sharding {
  int64_t shards = 0;      // 0: the batch is not cut
  bool exact = false;      // the same bits on any number of ranks
  int64_t batch_size = 0;  // samples of a full batch, of all ranks
  // BatchNorm takes its statistics over the whole batch, not over each shard.
  bool shared_statistics = false;
  Ranks* ranks = nullptr;        // or null: this process computes all shards. Outlives the step
  ShardAssignment deal() const;  // of the shards to the ranks
  // True if each rank adds its shards: in an exact sum, only if these are branches of the tree over all shards.
  bool adds_by_rank() const { return !exact || !ranks || deal().aligned(); }
  // The shards of each rank where some get more of them than others without being faster; empty elsewhere.
  std::vector<double> unequal_work() const;
};

}  // namespace freight::job
