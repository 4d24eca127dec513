// Training within limits on the arena: whatever is kept, computed again or offloaded, losses and states are those of
// the run without a limit, to the bit.
#pragma once
#include "freight/base/strings.h"
#include "freight/run/plan.h"
#include "tests/support/trained.h"

namespace freight::train {

// Steps of a plan that copy to host memory or back.
inline int transfers(const Plan& plan) {
  int count = 0;
  for (const PlanStep& s : plan.steps()) {
    const Op op = plan.graph().node(s.node).op;
    count += op == Op::offload || op == Op::fetch;
  }
  return count;
}

struct LimitedNet {
  const char* name;
  models::Model (*make)();
  int64_t batch;
  int limits;  // so many, drawn from 30 to 95 % of the arena of a run without one
  int kept;    // by the plan, of these at least: of a small net workspaces are most of the arena
};

inline void trains_within_any_limit(const std::string& backend, const LimitedNet& net, int steps) {
  constexpr Offload kModes[] = {Offload::activations, Offload::automatic, Offload::all};
  const auto run = [&](const ArenaLimit& limit) {
    seed(3);
    return trained(backend, net.make(), net.batch, steps, 0.02, limit);
  };
  const TrainedNet whole = run({});
  EXPECT_EQ(transfers(*whole.plan), 0);
  EXPECT_NE(whole.losses.front(), whole.losses.back());
  PhiloxStream random(11, static_cast<uint64_t>(net.batch), 0);
  int kept = 0;
  for (int i = 0; i < net.limits; ++i) {
    const double share = 0.3 + 0.65 * random.uniform();
    const auto bytes = static_cast<size_t>(share * static_cast<double>(whole.plan->arena_bytes()));
    SCOPED_TRACE(cat(net.name, " on ", backend, " within ", fixed(100 * share, 0), " %, mode ", i % 3));
    const TrainedNet t = run({.offload = kModes[i % 3], .bytes = bytes, .speed = {}});
    EXPECT_EQ(t.losses, whole.losses);
    EXPECT_EQ(t.states, whole.states);
    kept += t.plan->arena_bytes() <= bytes;
  }
  EXPECT_GE(kept, net.kept) << net.name << " on " << backend;
  const TrainedNet optimizer = run({.offload = Offload::optimizer, .bytes = 0, .speed = {}});
  EXPECT_EQ(optimizer.losses, whole.losses);
  EXPECT_EQ(optimizer.states, whole.states);
  EXPECT_GT(transfers(*optimizer.plan), 0);
}

inline const LimitedNet kSmallNets[] = {
    {"lenet", [] { return models::create("lenet"); }, 32, 6, 1},
    {"resnet20",
     [] {
       return models::create("resnet20", {.size = {16, 16}});
     },
     8, 6, 6},
    {"gpt_char", [] { return models::create("gpt_char", {.vocabulary = 30, .length = 24, .layers = 2, .width = 64}); },
     8, 6, 6}};

}  // namespace freight::train
