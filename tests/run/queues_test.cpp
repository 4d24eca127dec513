// Queues of a plan: whatever two steps of different queues do to the same bytes is ordered, and copies are beside the
// kernels otherwise.
#include "freight/run/plan.h"
#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

// By step: those that are done before it begins, as the queues' own order and PlanStep::after have it.
std::vector<std::vector<bool>> done_before(const Plan& plan) {
  const size_t count = plan.steps().size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
  int64_t last[kQueues] = {-1, -1, -1};
  for (size_t i = plan.once_steps(); i < count; ++i) {
    const PlanStep& s = plan.steps()[i];
    const auto join = [&](int64_t step) {
      if (step < 0) return;
      const auto k = static_cast<size_t>(step);
      before[i][k] = true;
      for (size_t j = 0; j < count; ++j) before[i][j] = before[i][j] || before[k][j];
    };
    join(last[static_cast<size_t>(s.queue)]);
    for (const int32_t a : s.after) join(a);
    last[static_cast<size_t>(s.queue)] = static_cast<int64_t>(i);
  }
  return before;
}

// Whether both use some byte that one of them writes.
bool conflict(const Plan& plan, const PlanStep& a, const PlanStep& b) {
  const auto buffers = [&](const PlanStep& s, bool written) {
    const Node& n = plan.graph().node(s.node);
    std::vector<Buffer> all;
    for (Value v : written ? n.outputs : n.inputs) {
      all.push_back(plan.memory().buffers[plan.placed().place(v).root]);
    }
    if (written) all.push_back(plan.memory().scratch[s.node]);
    return all;
  };
  const auto meet = [](const std::vector<Buffer>& x, const std::vector<Buffer>& y) {
    for (const Buffer& p : x) {
      for (const Buffer& q : y) {
        if (p.kind != q.kind || p.kind == MemoryKind::none || p.bytes == 0 || q.bytes == 0) continue;
        const bool arena = p.kind == MemoryKind::arena || p.kind == MemoryKind::host;
        if (arena ? p.offset < q.offset + q.bytes && q.offset < p.offset + p.bytes : p.index == q.index) return true;
      }
    }
    return false;
  };
  const auto wa = buffers(a, true), wb = buffers(b, true);
  return meet(wa, wb) || meet(wa, buffers(b, false)) || meet(buffers(a, false), wb);
}

TEST(Queues, StepsThatUseTheSameBytesAreOrderedInRandomPlans) {
  int copies = 0, kernels_beside = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraphOptions options;
    options.nodes = 40;
    const RandomProgram p = random_program(seed, options);
    RunOptions o{.backend = fusing_backend(), .deterministic = true};
    o.limit = {.offload = Offload::activations,
               .bytes = plan_for(p.graph, o)->arena_bytes() * (40 + seed % 50) / 100,
               .speed = {}};
    for (size_t i = 0; i < p.states.size(); i += 2) o.host_states.push_back(static_cast<int32_t>(i));
    const auto plan = plan_for(p.graph, o);
    const auto before = done_before(*plan);
    const auto& steps = plan->steps();
    for (size_t i = plan->once_steps(); i < steps.size(); ++i) {
      copies += steps[i].queue != Queue::kernels;
      for (size_t k = plan->once_steps(); k < i; ++k) {
        if (steps[i].queue == steps[k].queue) continue;
        kernels_beside += !before[i][k];
        ASSERT_TRUE(before[i][k] || !conflict(*plan, steps[i], steps[k])) << k << " and " << i << "\n" << print(*plan);
      }
    }
    // The run ends when all copies have.
    for (const Queue q : {Queue::to_host, Queue::to_device}) {
      for (size_t i = steps.size(); i-- > plan->once_steps();) {
        if (steps[i].queue != q) continue;
        bool waited = std::count(plan->last_copies().begin(), plan->last_copies().end(), static_cast<int32_t>(i)) > 0;
        for (size_t k = i + 1; k < steps.size(); ++k)
          waited = waited || (steps[k].queue == Queue::kernels && before[k][i]);
        for (const int32_t l : plan->last_copies()) waited = waited || before[static_cast<size_t>(l)][i];
        EXPECT_TRUE(waited) << i << print(*plan);
        break;
      }
    }
  }
  EXPECT_GT(copies, 200);
  EXPECT_GT(kernels_beside, copies);
}

}  // namespace
}  // namespace freight::test
