// See state_shares.h.
#include "freight/job/state_shares.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "freight/base/device_collectives.h"
#include "freight/base/strings.h"

namespace freight::job {

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

// The weights become what their owners (ranks) made of them: `owners` has one for each.
void broadcast(DeviceCollectives& ranks, const std::vector<Variable>& variables, const std::vector<int>& owners) {
  ranks.together([&] {
    for (size_t i = 0; i < variables.size(); ++i) {
      void* const at = variables[i].array().storage()->on_device(ranks.memory(), DeviceAccess::update);
      ranks.broadcast(at, static_cast<int64_t>(variables[i].type().bytes()), DType::u8, owners[i]);
    }
  });
}

// The bytes that each rank keeps.
std::vector<size_t> loads_of(const std::vector<size_t>& bytes, const StateDeal& deal) {
  std::vector<size_t> loads(static_cast<size_t>(deal.world));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int r = 0; r < deal.world; ++r) loads[static_cast<size_t>(r)] += deal.keeps(i, r) ? bytes[i] : 0;
  }
  return loads;
}

}  // namespace

StateDeal state_deal(const std::vector<size_t>& bytes, int world) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  StateDeal deal{.owner = std::vector<int>(bytes.size()), .world = world};
  std::vector<size_t> owned(static_cast<size_t>(world));
  for (const size_t i : order) {
    const auto least = std::min_element(owned.begin(), owned.end());
    *least += bytes[i];
    deal.owner[i] = static_cast<int>(least - owned.begin());
  }
  return deal;
}

size_t largest_share(const std::vector<size_t>& bytes, int world) {
  const std::vector<size_t> loads = loads_of(bytes, state_deal(bytes, world));
  return *std::max_element(loads.begin(), loads.end());
}

std::vector<size_t> state_bytes(const optim::Optimizer& optimizer) {
  std::vector<size_t> bytes(optimizer.parameters().size());
  for (const optim::Optimizer::State& s : optimizer.whole_states()) {
    if (s.parameter) bytes[*s.parameter] += s.state.variable.type().bytes();
  }
  return bytes;
}

StateShares::StateShares(optim::Optimizer& optimizer, Ranks& ranks)
    : optimizer_(optimizer),
      ranks_(ranks),
      deal_(state_deal(state_bytes(optimizer), ranks.world())),
      rank_(ranks.rank()) {
  std::vector<bool> own;
  for (size_t i = 0; i < deal_.owner.size(); ++i) own.push_back(deal_.keeps(i, rank_));
  optimizer_.keep_states_of(own);
}

void StateShares::hand_over_weights() const {
  if (deal_.everywhere()) return;
  const std::vector<int>& givers = deal_.owner;
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

std::vector<nn::NamedArray> StateShares::gathered() const {
  std::vector<nn::NamedArray> all;
  for (const optim::Optimizer::State& s : optimizer_.whole_states()) {
    if (!s.parameter || deal_.keeps(*s.parameter, 0)) continue;
    // A rank that does not keep it takes part all the same, and forgets it.
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
    if (!whole[i].parameter || mine(whole[i])) continue;
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

}  // namespace freight::job
