// See collectives.h.
#include "freight/run/collectives.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"
#include "freight/ir/attrs.h"
#include "freight/passes/passes.h"
#include "freight/run/plan.h"

namespace freight {

namespace {

class AllReduce final : public Kernel {
 public:
  AllReduce(std::shared_ptr<DeviceMemory> memory, size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  void run(void* const* operands) override {
    if (operands[0] == operands[1] || bytes_ == 0) return;
    if (memory_) {
      memory_->copy(operands[1], operands[0], bytes_, Queue::kernels);
    } else {
      parallel_copy(operands[1], operands[0], bytes_);
    }
  }
  std::string name() const override { return "all_reduce"; }

 private:
  std::shared_ptr<DeviceMemory> memory_;
  size_t bytes_;
};

}  // namespace

SumOrder order_of_sums(const Plan& plan) {
  const Graph& g = plan.graph();
  const auto is_sum = [](const Node& n) { return n.op == Op::all_reduce; };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), is_sum)) return {};
  const ByNode<bool> within = passes::sums_read_within(g);
  ByValue<std::string> state_of(g);
  for (const Update& u : g.updates) state_of[u.next] = leaf_name(g, u.state);
  SumOrder order;
  const std::hash<std::string> hash;
  for (const PlanStep& s : plan.steps()) {
    const Node& n = g.node(s.node);
    if (!is_sum(n)) continue;
    const uint64_t own = hash(within[s.node] ? cat(g.type(n.out()), " ", n.scope) : state_of[n.out()]);
    order.hash = hash_combine(order.hash, own);
    if (!within[s.node]) {
      order.behind.push_back({state_of[n.out()], attrs<PieceAttrs>(n).piece});
      continue;
    }
    order.within.push_back(g.type(n.out()));
    order.hash_within = hash_combine(order.hash_within, own);
  }
  return order;
}

std::unique_ptr<Kernel> make_all_reduce(std::shared_ptr<DeviceMemory> memory, const Type& type) {
  return std::make_unique<AllReduce>(std::move(memory), type.bytes());
}

}  // namespace freight
