// The optimizer's states, dealt out over the ranks of a run (ZeRO stage 1, Rajbhandari et al. 2020, arXiv:1910.02054):
// each rank keeps those of some parameters and steps these; then all have the new weights from who made them. Tensors
// stay whole, since some optimizers step matrices as such. Every rank has all sums of gradients, as ever, so that
// clipping by the global norm, loss scaling and every bit of the weights are what they are without it. Sums of the own
// part alone (a reduce-scatter) would move a third less, and need a second block of memory to arrive in.
#pragma once
#include <cstddef>
#include <map>
#include <vector>

#include "freight/optim/optimizer.h"
#include "freight/train/ranks.h"

namespace freight::train {

// The rank that keeps a state, by parameter, where each takes so many bytes: the largest first, each to the rank that
// has least.
std::vector<int> owners_of(const std::vector<size_t>& bytes, int world);
// Bytes of the rank that has most.
size_t largest_share(const std::vector<size_t>& bytes, int world);
// The bytes of a parameter's states, by parameter.
std::vector<size_t> state_bytes(const optim::Optimizer& optimizer);

class StateShares {
 public:
  // Has the optimizer keep this rank's part alone. Both outlive it.
  StateShares(optim::Optimizer& optimizer, Ranks& ranks);

  // All ranks call each of these together.
  // The parameters become what their owners made of them.
  void hand_over_weights() const;
  // The states that rank 0 does not keep, on rank 0 alone: for a checkpoint.
  std::vector<nn::NamedArray> gathered() const;
  // Gives every rank its part of what rank 0 took from a checkpoint.
  void hand_out();

  // Gives rank 0 all states, to take values from a checkpoint; they are held until hand_out().
  std::vector<nn::NamedVariable> to_be_filled();
  // The states that every rank keeps: counts.
  std::vector<nn::NamedVariable> common() const;

 private:
  bool mine(const optim::Optimizer::State& s) const { return owner_[*s.parameter] == ranks_.rank(); }

  optim::Optimizer& optimizer_;
  Ranks& ranks_;
  std::vector<int> owner_;           // by parameter
  std::map<size_t, Variable> held_;  // by number of the state
};

}  // namespace freight::train
