// The optimizer's states, dealt out over the ranks of a run (ZeRO stage 1, Rajbhandari et al. 2020, arXiv:1910.02054):
// each rank keeps those of some parameters and steps these; then all have the new weights from who made them. Tensors
// stay whole, since some optimizers step matrices as such. Every rank has all sums of gradients, as ever, so that
// clipping by the global norm, loss scaling and every bit of the weights are what they are without it. Sums of the own
// part alone (a reduce-scatter) would move a third less, and need a second block of memory to arrive in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "freight/job/ranks.h"
#include "freight/optim/optimizer.h"

namespace freight::job {

// Says who keeps the states of each parameter.
struct StateDeal {
  std::vector<int> owner = {};  // by parameter: the rank that hands the new weights over
  int world = 1;
  bool keeps(size_t parameter, int rank) const { return owner[parameter] == rank; }
  bool everywhere() const { return world == 1; }
};

// The deal of states that take so many bytes, by parameter: the largest first, each to the rank that owns least.
StateDeal state_deal(const std::vector<size_t>& bytes, int world);
// Bytes of the rank that keeps most.
size_t largest_share(const std::vector<size_t>& bytes, int world);
// The bytes of a parameter's states, by parameter.
std::vector<size_t> state_bytes(const optim::Optimizer& optimizer);

class StateShares {
 public:
  // Has the optimizer keep this rank's part of a deal over the ranks. Both outlive it.
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
  // True where every rank keeps all states.
  bool everywhere() const { return deal_.everywhere(); }

 private:
  bool mine(const optim::Optimizer::State& s) const { return deal_.keeps(*s.parameter, rank_); }

  optim::Optimizer& optimizer_;
  Ranks& ranks_;
  StateDeal deal_;
  int rank_;                           // of this process in that deal
  std::map<size_t, Variable> filled_;  // by number of the state: what is held for hand_out()
};

}  // namespace freight::job
