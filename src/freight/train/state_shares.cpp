// See state_shares.h.
#include "freight/train/state_shares.h"

#include <algorithm>
#include <cstring>
#include <numeric>

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

std::vector<size_t> loads_of(const std::vector<size_t>& bytes, const std::vector<int>& owner, int world) {
  std::vector<size_t> loads(static_cast<size_t>(world));
  for (size_t i = 0; i < bytes.size(); ++i) loads[static_cast<size_t>(owner[i])] += bytes[i];
  return loads;
}

}  // namespace

std::vector<int> owners_of(const std::vector<size_t>& bytes, int world) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  std::vector<int> owner(bytes.size());
  std::vector<size_t> loads(static_cast<size_t>(world));
  for (const size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += bytes[i];
    owner[i] = static_cast<int>(least - loads.begin());
  }
  return owner;
}

size_t largest_share(const std::vector<size_t>& bytes, int world) {
  const std::vector<size_t> loads = loads_of(bytes, owners_of(bytes, world), world);
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
    : optimizer_(optimizer), ranks_(ranks), owner_(owners_of(state_bytes(optimizer), ranks.world())) {
  std::vector<bool> own;
  for (const int owner : owner_) own.push_back(owner == ranks.rank());
  optimizer.keep_part(own);
}

void StateShares::hand_over_weights() const {
  if (DeviceCollectives* const devices = ranks_.devices()) {
    return broadcast(*devices, optimizer_.parameters(), owner_);
  }
  std::vector<char> buffer;
  for (int owner = 0; owner < ranks_.world(); ++owner) {
    std::vector<Array> together;
    size_t bytes = 0;
    for (size_t i = 0; i < owner_.size(); ++i) {
      if (owner_[i] != owner) continue;
      const Array a = optimizer_.parameters()[i].array();
      if (a.bytes() >= kTogether) {
        ranks_.broadcast(a.raw(), a.bytes(), owner);
        continue;
      }
      if (bytes + a.bytes() > kTogether) {
        broadcast_together(ranks_, together, buffer, owner);
        together.clear();
        bytes = 0;
      }
      together.push_back(a);
      bytes += a.bytes();
    }
    broadcast_together(ranks_, together, buffer, owner);
  }
}

std::vector<nn::NamedArray> StateShares::gathered() const {
  std::vector<nn::NamedArray> all;
  for (const optim::Optimizer::State& s : optimizer_.whole_states()) {
    if (!s.parameter || owner_[*s.parameter] == 0) continue;
    // A rank that is neither of both takes part all the same, and forgets it.
    const Variable& own = s.state.variable;
    const Array array = mine(s) ? own.array() : Array(own.type().dtype, own.shape());
    ranks_.broadcast(array.raw(), array.bytes(), owner_[*s.parameter]);
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
    held_[i] = all.back().variable;
  }
  return all;
}

void StateShares::hand_out() {
  const std::vector<optim::Optimizer::State>& whole = optimizer_.whole_states();
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!whole[i].parameter || owner_[*whole[i].parameter] == 0) continue;
    const Variable& own = whole[i].state.variable;
    const Variable scratch = mine(whole[i]) ? own : ranks_.first() ? held_.at(i) : Variable(own.name(), own.type());
    const Array array = scratch.array();
    ranks_.broadcast(array.raw(), array.bytes());
    held_.erase(i);
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
