// Plans and their cache: what makes two graphs share a plan, failures that leave nothing behind, addresses that move,
// states updated in place, buffers that never overlap while both are alive. Each trap of the design has a test here.
#include "freight/run/plan.h"
#include "freight/base/error.h"
#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

const Type kVector{DType::f32, {65}};

// x * factor + s; s becomes s + x.
Graph small_step(double factor, const char* name = "x", const Type& t = kVector) {
  Graph g;
  Builder b(g);
  const Ex x{&b, b.one(Op::input, LeafAttrs{name, t}, {})};
  const Ex s{&b, b.one(Op::state, LeafAttrs{"s", t}, {})};
  g.outputs = {(x * factor + s).v};
  g.updates = {{s.v, (s + x).v}};
  return g;
}

RunOptions on(const std::string& name) {
  RunOptions options;
  options.backend = name;
  options.deterministic = true;
  return options;
}

class PlanOn : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { clear_plan_cache(); }
  RunOptions options() const { return on(GetParam()); }
};

TEST_P(PlanOn, EqualStructureSharesAPlanWhateverTheNames) {
  const auto first = plan_for(small_step(2), options());
  EXPECT_EQ(plan_for(small_step(2, "image"), options()), first);
  EXPECT_EQ(plan_cache_stats().hits, 1);
  EXPECT_EQ(plan_cache_stats().misses, 1);
}

TEST_P(PlanOn, AnotherConstantTypeOrBackendIsAnotherPlan) {
  const auto first = plan_for(small_step(2), options());
  EXPECT_NE(plan_for(small_step(3), options()), first);
  EXPECT_NE(plan_for(small_step(2, "x", {DType::f32, {64}}), options()), first);
  EXPECT_NE(plan_for(small_step(2), on("null")), first);
  EXPECT_EQ(plan_cache_stats().misses, 4);
  // And each computes with its own constant.
  const Array x = random_array({kVector, Fill::normal}, 1);
  const std::vector<Array> s2 = {Array(DType::f32, kVector.shape)}, s3 = {Array(DType::f32, kVector.shape)};
  const float y2 = run_planned(GetParam(), small_step(2), {x}, s2)[0].data<float>()[0];
  const float y3 = run_planned(GetParam(), small_step(3), {x}, s3)[0].data<float>()[0];
  EXPECT_FLOAT_EQ(y2, 2 * x.data<float>()[0]);
  EXPECT_FLOAT_EQ(y3, 3 * x.data<float>()[0]);
}

TEST_P(PlanOn, AGraphAtAnAddressUsedBeforeGetsItsOwnPlan) {
  for (int i = 0; i < 50; ++i) {
    auto g = std::make_unique<Graph>(small_step(i));  // often at the address of the last one
    const Array x = random_array({kVector, Fill::normal}, 1);
    const std::vector<Array> s = {Array(DType::f32, kVector.shape)};
    EXPECT_FLOAT_EQ(run_planned(GetParam(), *g, {x}, s)[0].data<float>()[1],
                    static_cast<float>(i) * x.data<float>()[1]);
  }
}

TEST_P(PlanOn, AFailureLeavesNothingInTheCache) {
  Graph broken = small_step(2);
  broken.values[broken.outputs[0]].type.shape = {3};
  for (int i = 0; i < 2; ++i) EXPECT_THROW(plan_for(broken, options()), Error);
  EXPECT_EQ(plan_cache_stats().size, 0);
  EXPECT_THROW(plan_for(small_step(2), on("no such device")), Error);
  EXPECT_EQ(plan_cache_stats().size, 0);
  EXPECT_NE(plan_for(small_step(2), options()), nullptr);
}

TEST_P(PlanOn, TheCacheIsBoundedAndForgetsTheOldest) {
  const auto first = plan_for(small_step(-1), options());
  for (int i = 0; i < 200; ++i) plan_for(small_step(i), options());
  const PlanCacheStats stats = plan_cache_stats();
  EXPECT_LT(stats.size, 200);
  EXPECT_EQ(stats.size + stats.evictions, 201);
  EXPECT_NE(plan_for(small_step(-1), options()), first);
}

TEST_P(PlanOn, InputsAndOutputsMayMoveBetweenCalls) {
  const Graph g = small_step(2);
  const Array s(DType::f32, kVector.shape);
  Executable e(plan_for(g, options()), {s.storage()});
  float sum = 0;
  std::vector<Array> alive;
  for (int i = 0; i < 5; ++i) {
    const Array x = random_array({kVector, Fill::normal}, static_cast<uint64_t>(i));
    const Array y(DType::f32, kVector.shape);
    e.run({x}, {y});
    EXPECT_FLOAT_EQ(y.data<float>()[7], 2 * x.data<float>()[7] + sum);
    sum += x.data<float>()[7];
    if (i % 2) alive.push_back(x);  // so that the next ones lie elsewhere
    if (i % 2) alive.push_back(y);
  }
}

TEST_P(PlanOn, StatesAreUpdatedInPlace) {
  const Graph g = small_step(2);
  const auto plan = plan_for(g, options());
  EXPECT_TRUE(plan->memory().late_updates.empty()) << print(*plan);
  const Array s(DType::f32, kVector.shape), x = random_array({kVector, Fill::normal}, 1), y(DType::f32, kVector.shape);
  const void* address = s.raw();
  Executable e(plan, {s.storage()});
  for (int i = 0; i < 3; ++i) e.run({x}, {y});
  EXPECT_EQ(s.raw(), address);
  EXPECT_FLOAT_EQ(s.data<float>()[3], 3 * x.data<float>()[3]);
}

TEST_P(PlanOn, TwoStatesCanChangePlaces) {
  Graph g;
  Builder b(g);
  const Value s = b.one(Op::state, LeafAttrs{"s", kVector}, {}), t = b.one(Op::state, LeafAttrs{"t", kVector}, {});
  g.updates = {{s, t}, {t, s}};
  const Array a = random_array({kVector, Fill::normal}, 1), c = random_array({kVector, Fill::normal}, 2);
  const Array a0 = a.clone(), c0 = c.clone();
  run_planned(GetParam(), g, {}, {a, c});
  EXPECT_TRUE(close(a, c0, 0));
  EXPECT_TRUE(close(c, a0, 0));
}

TEST_P(PlanOn, AStateReadAfterItsUpdateIsComputedShowsItsOldValue) {
  Graph g;
  Builder b(g);
  const Ex s{&b, b.one(Op::state, LeafAttrs{"s", kVector}, {})};
  const Ex next = s * 2.0 + 1.0;
  g.outputs = {(next - s).v, s.v, next.v};
  g.updates = {{s.v, next.v}};
  const Array state = random_array({kVector, Fill::normal}, 1), before = state.clone();
  const std::vector<Array> out = run_planned(GetParam(), g, {}, {state});
  const float old = before.data<float>()[5];
  EXPECT_FLOAT_EQ(out[0].data<float>()[5], old + 1);
  EXPECT_FLOAT_EQ(out[1].data<float>()[5], old);
  EXPECT_FLOAT_EQ(out[2].data<float>()[5], 2 * old + 1);
  EXPECT_FLOAT_EQ(state.data<float>()[5], 2 * old + 1);
}

TEST_P(PlanOn, WrongShapesAndCountsAreNamed) {
  const Array s(DType::f32, kVector.shape), x(DType::f32, kVector.shape), narrow(DType::f32, {64});
  Executable e(plan_for(small_step(2), options()), {s.storage()});
  EXPECT_THROW(e.run({narrow}, {x}), Error);
  EXPECT_THROW(e.run({}, {x}), Error);
  EXPECT_THROW(e.run({x}, {Array(DType::f64, kVector.shape)}), Error);
  EXPECT_THROW(Executable(plan_for(small_step(2), options()), {}), Error);
}

TEST_P(PlanOn, BuffersAliveTogetherNeverOverlap) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Plan plan(smooth_program_f32(5000 + seed).graph, options());
    const MemoryPlan& m = plan.memory();
    std::vector<Buffer> buffers;
    const Graph& g = plan.graph();
    for (const Value v : g.value_ids()) {
      if (plan.placed().place(v).root == v && m.buffers[v].kind == MemoryKind::arena) buffers.push_back(m.buffers[v]);
    }
    for (const Buffer& s : m.scratch) {
      if (s.kind == MemoryKind::arena && s.bytes > 0) buffers.push_back(s);
    }
    const auto overlap = [](auto a0, auto a1, auto b0, auto b1) { return a0 < b1 && b0 < a1; };
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_LE(buffers[i].offset + buffers[i].bytes, plan.arena_bytes());
      for (size_t j = 0; j < i; ++j) {
        const Buffer &a = buffers[i], &b = buffers[j];
        const bool shared = a.offset == b.offset;  // a result over the operand that dies in the same step
        if (!overlap(a.first, a.last + 1, b.first, b.last + 1) || shared) continue;
        EXPECT_FALSE(overlap(a.offset, a.offset + a.bytes, b.offset, b.offset + b.bytes))
            << "seed " << 5000 + seed << ": bytes " << a.offset << "+" << a.bytes << " in steps " << a.first << "-"
            << a.last << " and " << b.offset << "+" << b.bytes << " in steps " << b.first << "-" << b.last << "\n"
            << print(g);
      }
    }
    EXPECT_GE(plan.arena_bytes(), plan.lower_bound_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, PlanOn, testing::ValuesIn(computing_backends()),
                         [](const auto& instance) { return instance.param; });

// Steps (8, 1, 16) are row-major and channels-last at once. Laid across each other, every element of a result would be
// written to a line of its own, and what reads it would jump.
TEST(PlanLayouts, StepsOfASequenceAreJoinedOneAfterTheOther) {
  Graph g;
  Builder b(g);
  std::vector<Value> steps;
  for (int i = 0; i < 5; ++i) {
    const Ex x{&b, b.one(Op::input, LeafAttrs{cat("x", i), {DType::f32, {8, 1, 16}}}, {})};
    steps.push_back(b.one(Op::relu, NoAttrs{}, {(x * 2.0).v}));
  }
  const Value all = b.one(Op::concat, AxisAttrs{1}, steps);
  g.outputs = {b.one(Op::sum, AxesAttrs{{0, 1}}, {all})};
  const Plan plan(g, on("cpu"));
  int joined = 0;
  for (const Node& n : plan.graph().nodes) {
    if (n.op != Op::concat) continue;
    ++joined;
    const Shape& s = plan.graph().type(n.out()).shape;
    EXPECT_TRUE(same_layout(s, plan.placed().place(n.out()).layout, Layout::row_major(s)));
  }
  EXPECT_EQ(joined, 1);
}

TEST(PlanText, IsTheSameForEqualGraphs) {
  const Graph g = small_step(2);
  EXPECT_EQ(print(Plan(g, on("null"))), print(Plan(g, on("null"))));
}

}  // namespace
}  // namespace freight::test
