// The optimizer state, sharded over the ranks of a run (ZeRO stage 1, Rajbhandari et al. 2020, arXiv:1910.02054): each
// rank keeps the state of some parameters and updates these, then broadcasts the new weights. Tensors stay whole, since
// some optimizers update matrices as a whole. Every rank still has the sums of all gradients, so that clipping by the
// global norm, loss scaling and every bit of the weights are the same as without sharding. A reduce-scatter would move
// a third fewer bytes, but would need a second block of memory for its result.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "freight/job/ranks.h"
#include "freight/optim/optimizer.h"

namespace freight::job {

// The assignment of parameters to the ranks that keep their state.
struct StateDeal {
  std::vector<int> owner = {};  // by parameter: the rank that updates and broadcasts it
  int world = 1;
  bool keeps(size_t parameter, int rank) const { return owner[parameter] == rank; }
  bool everywhere() const { return world == 1; }
};

// Assigns parameters whose states take `bytes`: the largest first, each to the rank that has the fewest bytes so far.
StateDeal state_deal(const std::vector<size_t>& bytes, int world);
// The bytes of the rank that keeps the most.
size_t largest_share(const std::vector<size_t>& bytes, int world);
// The bytes of each parameter's state.
std::vector<size_t> state_bytes(const optim::Optimizer& optimizer);

class StateShares {
 public:
  // Makes the optimizer keep only this rank's part of the state. Both arguments outlive this object.
  StateShares(optim::Optimizer& optimizer, Ranks& ranks);

  // These three are collectives: all ranks call them.
  // Broadcasts each parameter from its owner.
  void hand_over_weights() const;
  // Returns, on rank 0 only, the state that rank 0 does not keep, for a checkpoint.
  std::vector<nn::NamedArray> gathered() const;
  // Sends every rank its part of the state that rank 0 read from a checkpoint.
  void hand_out();

  // Returns variables for the whole state, into which rank 0 reads a checkpoint; they are kept until hand_out().
  std::vector<nn::NamedVariable> to_be_filled();
  // The state that every rank keeps: step counts.
  std::vector<nn::NamedVariable> common() const;
  // True if every rank keeps the whole state.
  bool everywhere() const { return deal_.everywhere(); }

 private:
  bool mine(const optim::Optimizer::State& s) const { return deal_.keeps(*s.parameter, rank_); }

  optim::Optimizer& optimizer_;
  Ranks& ranks_;
  StateDeal deal_;
  int rank_;                           // this process
  std::map<size_t, Variable> filled_;  // by index of the state: values that are kept for hand_out()
};

}  // namespace freight::job
