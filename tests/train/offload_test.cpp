// Training with activations and optimizer state in host memory: the same bits, within the limit.
#include <algorithm>

#include "freight/base/storage_use.h"
#include "freight/run/executable.h"
#include "tests/support/offloaded.h"

namespace freight::train {
namespace {

class WithinLimits : public testing::TestWithParam<LimitedNet> {};

TEST_P(WithinLimits, TrainsToTheSameBits) { trains_within_any_limit("cpu", GetParam(), 3); }

INSTANTIATE_TEST_SUITE_P(Nets, WithinLimits, testing::ValuesIn(kSmallNets),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(WithinHalf, Resnet50TrainsToTheSameBits) {
  const auto run = [](const ArenaLimit& limit) {
    seed(3);
    return trained("cpu", models::create("resnet50", {.classes = 4, .size = {96, 96}}), 8, 2, 0.01, limit);
  };
  const TrainedNet whole = run({});
  const size_t half = whole.plan->arena_bytes() / 2;
  const TrainedNet t = run({.offload = Offload::automatic, .bytes = half, .speed = {}});
  EXPECT_EQ(t.losses, whole.losses);
  EXPECT_EQ(t.states, whole.states);
  EXPECT_LE(t.plan->arena_bytes(), half);
}

// The indices of a pool whose windows overlap, too: its gradient must still run as the kernel that sums them in order.
TEST(WithinHalf, Resnet18TrainsToTheSameBitsWithAllThatCanBeAway) {
  const auto run = [](const ArenaLimit& limit) {
    seed(3);
    return trained("cpu", models::create("resnet18", {.classes = 4, .size = {64, 64}}), 4, 2, 0.01, limit);
  };
  const TrainedNet whole = run({}), t = run({.offload = Offload::activations, .bytes = 1, .speed = {}});
  EXPECT_EQ(t.losses, whole.losses);
  EXPECT_EQ(t.states, whole.states);
  const Graph& g = t.plan->graph();
  EXPECT_TRUE(std::any_of(g.nodes.begin(), g.nodes.end(),
                          [&](const Node& n) { return n.op == Op::max_pool_grad && g.def(n.in(1)).op == Op::fetch; }));
}

TEST(OffloadPlans, BothArenasAreWhatIsAllocated) {
  seed(3);
  const models::Model model = models::create("lenet");
  const size_t whole = trained("cpu", model, 16, 1, 0.01).plan->arena_bytes();
  const TrainedNet t = trained("cpu", model, 16, 1, 0.01, {Offload::activations, whole * 6 / 10, {}});
  ASSERT_GT(t.plan->host_bytes(), 0u);
  std::vector<std::shared_ptr<Storage>> states;
  for (Value v : t.plan->graph().leaves(Op::state)) {
    states.push_back(Storage::allocate(t.plan->graph().type(v).bytes()));
  }
  int64_t constants = 0;
  for (Value v : t.plan->graph().leaves(Op::constant)) {
    constants += static_cast<int64_t>(t.plan->graph().type(v).bytes());
  }
  const int64_t before = storage_bytes();
  const Executable executable(t.plan, states);
  EXPECT_EQ(storage_bytes() - before,
            static_cast<int64_t>(t.plan->arena_bytes() + t.plan->kept_bytes() + t.plan->host_bytes()) + constants);
}

}  // namespace
}  // namespace freight::train
