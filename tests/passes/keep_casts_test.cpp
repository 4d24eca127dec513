// Copies of weights in 16 bits that the update writes: which casts become states, and that training gives the same bits
// with them whoever else changes the weights.
#include <gtest/gtest.h>

#include <algorithm>

#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/optim/optim.h"
#include "freight/passes/passes.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"
#include "freight/trace/tracer.h"

namespace freight {
namespace {

// A layer and its step by SGD in bf16, on batches of some sizes.
struct Training {
  DeviceScope on{"cpu"};
  Variable w{"w", Tensor::of<float>(numbers(32 * 16), {32, 16}), Variable::Role::parameter};
  optim::SGD optimizer{{w}, {.lr = 0.1, .momentum = 0.9}};

  static std::vector<float> numbers(size_t n) {
    std::vector<float> out;
    for (size_t i = 0; i < n; ++i) out.push_back(static_cast<float>((i * 7919) % 101) / 101 - 0.5f);
    return out;
  }
  static Tensor batch(int64_t n) { return Tensor::of<float>(numbers(static_cast<size_t>(n * 16)), {n, 16}); }
  auto step(DType compute) {
    return compile(
        [this](const Tensor& x) {
          const Tensor loss = mean(square(linear(x, w) - 1.0));
          optimizer.step(loss);
          return loss;
        },
        {.deterministic = true, .compute = compute});
  }
};

std::vector<float> bits(const Variable& v) { return v.array().to_vector<float>(); }

TEST(KeepCastsTest, TheUpdateWritesTheCopyAndNoStepCastsTheWeight) {
  Training t;
  auto step = t.step(DType::bf16);
  const auto plan = step.plan(Training::batch(8));
  ASSERT_EQ(plan->kept_casts().size(), 1u);
  EXPECT_EQ(plan->kept_casts()[0].dtype, DType::bf16);
  EXPECT_EQ(plan->copy_bytes(), 32u * 16 * 2);
  const std::vector<Value> states = plan->graph().leaves(Op::state);
  const Value weight = states[plan->kept_casts()[0].state];
  EXPECT_EQ(leaf_name(plan->graph(), weight), "w");
  int readers = 0;
  for (const Node& n : plan->graph().nodes) {
    readers += std::count(n.inputs.begin(), n.inputs.end(), weight) > 0;
  }
  EXPECT_EQ(readers, 1) << "the update alone";
  EXPECT_TRUE(plan->memory().late_updates.empty()) << "copies are written in place";
  EXPECT_TRUE(t.step(DType::f32).plan(Training::batch(8))->kept_casts().empty());
}

// Each run is held against one whose function is new and so casts the weight.
TEST(KeepCastsTest, WhoeverChangesTheWeightTheNextStepReadsItAnew) {
  using Change = void (*)(Training&);
  const std::pair<const char*, Change> changes[] = {
      {"nobody", [](Training&) {}},
      {"set", [](Training& t) { t.w.set(0.25); }},
      {"assign", [](Training& t) { t.w.assign(t.w * 0.5); }},
      {"an array", [](Training& t) { t.w.array().data<float>()[3] = 2; }},
      {"another function", [](Training& t) { compile([&] { t.w.assign(t.w + 0.5); })(); }},
      {"another function that keeps copies", [](Training& t) { t.step(DType::bf16)(Training::batch(4)); }},
      {"its executable",
       [](Training& t) {
         auto other = t.step(DType::bf16);
         Executable& run = other.executable(Training::batch(8));
         run.run({Training::batch(8).array()}, {Array(DType::f32, {})});
         t.w.array();
       }},
  };
  for (const auto& [who, change] : changes) {
    Training kept, fresh;
    auto step = kept.step(DType::bf16);
    for (int i = 0; i < 4; ++i) {
      const int64_t n = i % 2 ? 8 : 5;  // two plans that share the copies
      const float a = step(Training::batch(n)).item<float>();
      const float b = fresh.step(DType::bf16)(Training::batch(n)).item<float>();
      EXPECT_EQ(a, b) << who << ", step " << i;
      change(kept);
      change(fresh);
    }
    EXPECT_EQ(bits(kept.w), bits(fresh.w)) << who;
  }
}

TEST(KeepCastsTest, AnArrayThatIsHeldMayBeWrittenBetweenSteps) {
  Training kept, fresh;
  auto step = kept.step(DType::bf16);
  const Array held = kept.w.array();
  for (int i = 0; i < 4; ++i) {
    held.data<float>()[i] = 3;
    fresh.w.array().data<float>()[i] = 3;
    EXPECT_EQ(step(Training::batch(8)).item<float>(), fresh.step(DType::bf16)(Training::batch(8)).item<float>());
  }
  EXPECT_EQ(bits(kept.w), bits(fresh.w));
}

TEST(KeepCastsTest, ATableInWhichRowsChangeIsCastAsBefore) {
  Graph g;
  const Value table = g.add(Op::state, LeafAttrs{"table", {DType::f32, {100, 8}}}, {})[0];
  const Value x = g.add(Op::input, LeafAttrs{"x", {DType::bf16, {4, 8}}}, {})[0];
  const Value rows = g.add(Op::input, LeafAttrs{"rows", {DType::i64, {2}}}, {})[0];
  const Value gradient = g.add(Op::input, LeafAttrs{"g", {DType::f32, {2, 8}}}, {})[0];
  const Value lr = g.add(Op::input, LeafAttrs{"lr", {DType::f32, {}}}, {})[0];
  const Value low = g.add(Op::cast, CastAttrs{DType::bf16}, {table})[0];
  g.outputs = {g.add(Op::matmul, MatmulAttrs{false, true, {}}, {x, low})[0]};
  g.updates = {{table, g.add(Op::sgd_rows, NoAttrs{}, {table, rows, gradient, lr})[0]}};
  EXPECT_TRUE(structurally_equal(passes::keep_casts(g), g));
}

}  // namespace
}  // namespace freight
