// See state_shares.h.
#include "freight/train/state_shares.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "freight/base/strings.h"
#include "freight/train/device_sums.h"

namespace freight::train {

namespace {

// Smaller tensors travel together, since each message costs its start.
constexpr size_t kTogether = size_t{1} << 20;

// Gives all ranks what the arrays' owner has in them, in one message.
void broadcast_together(Ranks& ranks, const std::vector<Array>& arrays, std::vector<char>& buffer, int owner) {
  size_t bytes = 0;
  for (const Array& a : arrays) bytes += a.bytes();
  buffer.resize(bytes);
  size_t at = 0;
  for (const Array& a : arrays) {
    if (ranks.rank() == owner) std::memcpy(buffer.data() + at, a.raw(), a.bytes());
    at += a.bytes();
  }
  ranks.broadcast(buffer.data(), bytes, owner);
  if (ranks.rank() == owner) return;
  at = 0;
  for (const Array& a : arrays) {
    std::memcpy(a.raw(), buffer.data() + at, a.bytes());
    at += a.bytes();
  }
}

// The bytes that each rank keeps.
std::vector<size_t> loads_of(const std::vector<size_t>& bytes, const StateDeal& deal) {
  std::vector<size_t> loads(static_cast<size_t>(deal.world));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int r = 0; r < deal.world; ++r) loads[static_cast<size_t>(r)] += deal.keeps(i, r) ? bytes[i] : 0;
  }
  return loads;
}

Copies copies_in(Ranks& ranks) { return ranks.members() ? Copies::two : Copies::one; }

}  // namespace

StateDeal state_deal(const std::vector<size_t>& bytes, int world, Copies copies) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  StateDeal deal{.owner = std::vector<int>(bytes.size()), .world = world, .copies = copies};
  std::vector<size_t> owned(static_cast<size_t>(world));
  for (const size_t i : order) {
    const auto least = std::min_element(owned.begin(), owned.end());
    *least += bytes[i];
    deal.owner[i] = static_cast<int>(least - owned.begin());
  }
  return deal;
}

size_t largest_share(const std::vector<size_t>& bytes, int world, Copies copies) {
  const std::vector<size_t> loads = loads_of(bytes, state_deal(bytes, world, copies));
  return *std::max_element(loads.begin(), loads.end());
}

std::vector<size_t> state_bytes(const optim::Optimizer& optimizer) {
  std::vector<size_t> bytes(optimizer.parameters().size());
  for (const optim::Optimizer::State& s : optimizer.whole_states()) {
    if (s.parameter) bytes[*s.parameter] += s.state.variable.type().bytes();
  }
  return bytes;
}

StateShares::StateShares(optim::Optimizer& optimizer, Ranks& ranks, int world)
    : optimizer_(optimizer),
      ranks_(ranks),
      deal_(state_deal(state_bytes(optimizer), world, copies_in(ranks))),
      rank_(ranks.rank()),
      held_(optimizer.parameters().size(), true) {  // zeros, or those of a checkpoint that each process reads
  if (ranks.members()) {
    const std::vector<size_t> loads = loads_of(state_bytes(optimizer), deal_);
    rank_ = static_cast<int>(std::max_element(loads.begin(), loads.end()) - loads.begin());
  }
  keep_own_part();
}

void StateShares::keep_own_part() {
  std::vector<bool> own;
  for (size_t i = 0; i < deal_.owner.size(); ++i) own.push_back(deal_.keeps(i, rank_));
  optimizer_.keep_part(own);
}

void StateShares::hand_over_weights() const {
  if (!deal_.everywhere()) hand_over(deal_.owner);  // where each has all, each has made all new weights
}

void StateShares::hand_over(const std::vector<int>& givers) const {
  if (DeviceCollectives* const devices = ranks_.devices()) {
    return broadcast(*devices, optimizer_.parameters(), givers);
  }
  std::vector<char> buffer;
  for (int giver = 0; giver < ranks_.world(); ++giver) {
    std::vector<Array> together;
    size_t bytes = 0;
    for (size_t i = 0; i < givers.size(); ++i) {
      if (givers[i] != giver) continue;
      const Array a = optimizer_.parameters()[i].array();
      if (a.bytes() >= kTogether) {
        ranks_.broadcast(a.raw(), a.bytes(), giver);
        continue;
      }
      if (bytes + a.bytes() > kTogether) {
        broadcast_together(ranks_, together, buffer, giver);
        together.clear();
        bytes = 0;
      }
      together.push_back(a);
      bytes += a.bytes();
    }
    broadcast_together(ranks_, together, buffer, giver);
  }
}

std::string StateShares::find_holders(bool valid) {
  const size_t n = held_.size();
  std::vector<uint8_t> mine(n);
  for (size_t i = 0; i < n; ++i) mine[i] = valid && held_[i] ? 1 : 0;
  found_.assign(n * static_cast<size_t>(ranks_.world()), 0);
  ranks_.comm().all_gather(mine.data(), found_.data(), static_cast<int64_t>(n), DType::u8);
  holder_.assign(n, -1);
  std::string first;
  size_t lost = 0;
  const std::vector<size_t> bytes = state_bytes(optimizer_);
  for (size_t i = 0; i < n; ++i) {
    for (int r = ranks_.world(); r-- > 0;) holder_[i] = has(i, r) ? r : holder_[i];
    if (holder_[i] >= 0) continue;
    if (lost++ == 0) first = optimizer_.parameters()[i].name();
  }
  return lost > 1 ? cat(first, " and ", lost - 1, " more") : first;
}

void StateShares::deal_anew() {
  StateDeal next = state_deal(state_bytes(optimizer_), ranks_.world(), copies_in(ranks_));
  receive(next);
  for (size_t i = 0; i < held_.size(); ++i) held_[i] = has(i, ranks_.rank()) || next.keeps(i, ranks_.rank());
  ranks_.wait_for_all();
  deal_ = std::move(next);
  rank_ = ranks_.rank();
  for (const optim::Optimizer::State& s : optimizer_.whole_states()) {
    if (s.parameter && !mine(s)) s.state.variable.release();
  }
  for (size_t i = 0; i < held_.size(); ++i) held_[i] = deal_.keeps(i, rank_);
  keep_own_part();
}

// Takes the states that this rank is dealt and has not from whoever has them.
void StateShares::receive(const StateDeal& next) {
  const auto lacks = [&](size_t parameter, int rank) { return next.keeps(parameter, rank) && !has(parameter, rank); };
  for (const optim::Optimizer::State& s : optimizer_.whole_states()) {
    if (!s.parameter) continue;
    bool moves = false;
    for (int r = 0; r < ranks_.world(); ++r) moves = moves || lacks(*s.parameter, r);
    if (!moves) continue;
    const Variable& own = s.state.variable;
    const bool here = has(*s.parameter, ranks_.rank()) || lacks(*s.parameter, ranks_.rank());
    const Array array = here ? own.array() : Array(own.type().dtype, own.shape());
    ranks_.broadcast(array.raw(), array.bytes(), holder_[*s.parameter]);
  }
}

std::vector<nn::NamedArray> StateShares::gathered() const {
  std::vector<nn::NamedArray> all;
  for (const optim::Optimizer::State& s : optimizer_.whole_states()) {
    if (!s.parameter || deal_.keeps(*s.parameter, 0)) continue;
    // A rank that is neither of both takes part all the same, and forgets it.
    const Variable& own = s.state.variable;
    const Array array = mine(s) ? own.array() : Array(own.type().dtype, own.shape());
    ranks_.broadcast(array.raw(), array.bytes(), deal_.owner[*s.parameter]);
    if (ranks_.first()) all.push_back({s.state.name, array});
  }
  return all;
}

std::vector<nn::NamedVariable> StateShares::to_be_filled() {
  std::vector<nn::NamedVariable> all;
  const std::vector<optim::Optimizer::State>& whole = optimizer_.whole_states();
  for (size_t i = 0; i < whole.size(); ++i) {
    all.push_back(whole[i].state);
    if (!whole[i].parameter || mine(whole[i]) || ranks_.members()) continue;
    all.back().variable = Variable(whole[i].state.variable.name(), whole[i].state.variable.type());
    filled_[i] = all.back().variable;
  }
  return all;
}

void StateShares::hand_out() {
  const std::vector<optim::Optimizer::State>& whole = optimizer_.whole_states();
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!whole[i].parameter || deal_.keeps(*whole[i].parameter, 0)) continue;
    const Variable& own = whole[i].state.variable;
    const Variable scratch = mine(whole[i]) ? own : ranks_.first() ? filled_.at(i) : Variable(own.name(), own.type());
    const Array array = scratch.array();
    ranks_.broadcast(array.raw(), array.bytes());
    filled_.erase(i);
  }
}

std::vector<nn::NamedVariable> StateShares::common() const {
  std::vector<nn::NamedVariable> all;
  for (const optim::Optimizer::State& s : optimizer_.whole_states()) {
    if (!s.parameter) all.push_back(s.state);
  }
  return all;
}

}  // namespace freight::train
