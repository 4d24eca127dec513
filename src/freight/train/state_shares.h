// The optimizer's states, dealt out over the ranks of a run (ZeRO stage 1, Rajbhandari et al. 2020, arXiv:1910.02054):
// each rank keeps those of some parameters and steps these; then all have the new weights from who made them. Tensors
// stay whole, since some optimizers step matrices as such. Every rank has all sums of gradients, as ever, so that
// clipping by the global norm, loss scaling and every bit of the weights are what they are without it. Sums of the own
// part alone (a reduce-scatter) would move a third less, and need a second block of memory to arrive in.
//
// An elastic run's states outlive the loss of a rank: two ranks keep each of them, and both step it by the same sums,
// to the same bits. A copy that is sent after each step instead would move twice the weights' bytes; one that is sent
// now and then would send the run back.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "freight/optim/optimizer.h"
#include "freight/train/ranks.h"

namespace freight::train {

// The number of ranks that keep a state.
enum class Copies : uint8_t { one, two };

// Says who keeps the states of each parameter.
struct StateDeal {
  std::vector<int> owner = {};  // by parameter: the rank that hands the new weights over
  int world = 1;
  Copies copies = Copies::one;  // two: the next rank keeps them, too
  bool keeps(size_t parameter, int rank) const {
    return owner[parameter] == rank || (copies == Copies::two && (owner[parameter] + 1) % world == rank);
  }
  bool everywhere() const { return world == 1 || (copies == Copies::two && world == 2); }
};

// The deal of states that take so many bytes, by parameter: the largest first, each to the rank that owns least.
StateDeal state_deal(const std::vector<size_t>& bytes, int world, Copies copies = Copies::one);
// Bytes of the rank that keeps most.
size_t largest_share(const std::vector<size_t>& bytes, int world, Copies copies = Copies::one);
// The bytes of a parameter's states, by parameter.
std::vector<size_t> state_bytes(const optim::Optimizer& optimizer);

class StateShares {
 public:
  // Has the optimizer keep this rank's part of a deal over `world` ranks alone; of an elastic job, which has not met by
  // then, the largest part. Both outlive it.
  StateShares(optim::Optimizer& optimizer, Ranks& ranks, int world);

  // All ranks call each of these together.
  // The parameters become what their owners made of them.
  void hand_over_weights() const;
  // The states that rank 0 does not keep, on rank 0 alone: for a checkpoint.
  std::vector<nn::NamedArray> gathered() const;
  // Gives every rank its part of what rank 0 took from a checkpoint.
  void hand_out();

  // The same after another meeting of an elastic job, in this order. find_holders() looks who has what: `valid`, this
  // rank's states are those of the run. It returns parameters of which nobody has the states, "fc1.weight and 3 more",
  // or "". hand_over_found() is hand_over_weights() by those who were found.
  std::string find_holders(bool valid);
  void hand_over_found() const { hand_over(holder_); }
  // Deals the states by the ranks that there are now. Nobody forgets one before all have theirs, so that a rank that is
  // lost meanwhile takes none along.
  void deal_anew();

  // Gives rank 0 all states, to take values from a checkpoint, and each rank of an elastic job; they are held until
  // hand_out(), or deal_anew().
  std::vector<nn::NamedVariable> to_be_filled();
  // The states that every rank keeps: counts.
  std::vector<nn::NamedVariable> common() const;
  // True where every rank keeps all states.
  bool everywhere() const { return deal_.everywhere(); }

 private:
  bool mine(const optim::Optimizer::State& s) const { return deal_.keeps(*s.parameter, rank_); }
  void keep_own_part();
  void hand_over(const std::vector<int>& givers) const;
  bool has(size_t parameter, int rank) const {
    return found_[static_cast<size_t>(rank) * held_.size() + parameter] > 0;
  }
  void receive(const StateDeal& next);

  optim::Optimizer& optimizer_;
  Ranks& ranks_;
  StateDeal deal_;
  int rank_;                           // of this process in that deal
  std::map<size_t, Variable> filled_;  // by number of the state: what is held for hand_out()
  // An elastic job, by parameter: whether this process has its states; the same of the ranks that are there, one behind
  // the other; and the first that has them, -1 where nobody does.
  std::vector<bool> held_;
  std::vector<uint8_t> found_;
  std::vector<int> holder_;
};

}  // namespace freight::train
