// PartialSums: the sums of a rank's shards while it computes them, one shard after the other (sharded_step.cpp). The
// tree over all shards is comm/tree_sum.h's, whose parts that are complete lie here.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "freight/base/array.h"
#include "freight/comm/tree_sum.h"

namespace freight::train {

// Sums of 1, 2, 4, ... shards that are complete, so that the tree of comm/tree_sum.h grows with one shard at a time.
class PartialSums {
 public:
  explicit PartialSums(size_t floats) : floats_(floats) {}
  void start() { counts_.clear(); }
  void add(const float* block) {
    keep(block);
    counts_.push_back(1);
    while (counts_.size() > 1 && counts_.back() == counts_[counts_.size() - 2]) fold();
  }
  // Gives all that was added as one sum, and begins anew.
  void finish(float* to) {
    while (counts_.size() > 1) fold();
    std::memcpy(to, sums_[0].raw(), floats_ * sizeof(float));
    counts_.clear();
  }
  // The same of some elements alone, where the last shard's lie in `to` already; nothing is forgotten.
  void finish_within(float* to, int64_t from, int64_t count) const {
    for (size_t i = counts_.size(); i-- > 0;) {
      const void* const both[] = {sums_[i].data<float>() + from, to + from};
      comm::tree_sum(both, 2, to + from, count, DType::f32);
    }
  }
  size_t bytes() const { return sums_.size() * floats_ * sizeof(float); }

 private:
  void keep(const float* block) {
    const size_t at = counts_.size();
    if (at == sums_.size()) sums_.emplace_back(DType::f32, Shape{static_cast<int64_t>(floats_)});
    std::memcpy(sums_[at].raw(), block, floats_ * sizeof(float));
  }
  void fold() {
    const size_t at = counts_.size() - 2;
    const void* const both[] = {sums_[at].raw(), sums_[at + 1].raw()};
    comm::tree_sum(both, 2, sums_[at].raw(), static_cast<int64_t>(floats_), DType::f32);
    counts_[at] += counts_.back();
    counts_.pop_back();
  }

  size_t floats_;
  std::vector<Array> sums_;
  std::vector<int64_t> counts_;  // shards in each
};

}  // namespace freight::train
