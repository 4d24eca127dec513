// Results of steps that run once, which executables of one arena share.
#include <gtest/gtest.h>

#include "freight/ir/builder.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"
#include "tests/support/arrays.h"
#include "tests/support/random_graph.h"

namespace freight::test {
namespace {

Array filled(const Shape& shape, float number) {
  Array a(DType::f32, shape);
  std::fill_n(a.data<float>(), a.numel(), number);
  return a;
}

// relu(x (factor w)) of samples that are all 1, where `factor w` is computed once.
class Product {
 public:
  Product(int64_t samples, const Array& w, const std::shared_ptr<SharedArena>& arena, double factor = 2)
      : x_(filled({samples, 4}, 1)), y_(DType::f32, {samples, 4}) {
    Graph g;
    Builder b(g);
    const Value in = b.one(Op::input, LeafAttrs{"x", {DType::f32, {samples, 4}}}, {});
    const Value s = b.one(Op::state, LeafAttrs{"w", {DType::f32, {4, 4}}}, {});
    const Value many = b.binary(Op::mul, s, b.constant_like(factor, s));
    g.outputs = {b.unary(Op::relu, b.one(Op::matmul, MatmulAttrs{}, {in, many}))};
    step_ = std::make_unique<Executable>(plan_for(g, {.backend = "ref", .deterministic = true, .frozen = true}),
                                         std::vector<std::shared_ptr<Storage>>{w.storage()},
                                         Executable::Options{.arena = arena});
  }
  float run() {
    step_->run({x_}, {y_});
    return y_.data<float>()[y_.numel() - 1];
  }
  Executable& step() { return *step_; }

 private:
  Array x_, y_;
  std::unique_ptr<Executable> step_;
};

TEST(SharedArena, KeepsOneCopyOfWhatPlansComputeAlike) {
  const auto arena = make_shared_arena();
  const Array w = filled({4, 4}, 1);
  auto two = std::make_unique<Product>(2, w, arena);
  EXPECT_EQ(two->step().plan().once_steps(), 1U) << print(two->step().plan());
  EXPECT_EQ(two->run(), 8);
  std::fill_n(w.data<float>(), w.numel(), 5.0F);
  Product three(3, w, arena), alone(3, w, make_shared_arena());
  EXPECT_EQ(three.run(), 8) << "the state is frozen, and the other plan has doubled it before";
  EXPECT_EQ(alone.run(), 40);
  three.step().thaw();
  EXPECT_EQ(three.run(), 40);
  EXPECT_EQ(two->run(), 40) << "the copy is one";
  two.reset();
  EXPECT_EQ(three.run(), 40) << "the copy outlives the executable that made it";
  std::fill_n(w.data<float>(), w.numel(), 7.0F);
  EXPECT_EQ(Product(5, w, arena).run(), 40);
}

TEST(SharedArena, KeepsWhatIsComputedOtherwiseApart) {
  const auto arena = make_shared_arena();
  const Array w = filled({4, 4}, 1), other = filled({4, 4}, 2);
  Product two(2, w, arena), of_other(2, other, arena), three_times(2, w, arena, 3);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(two.run(), 8);
    EXPECT_EQ(of_other.run(), 16);
    EXPECT_EQ(three_times.run(), 12);
  }
}

// The second executable finds what the first one kept, and computes what it only needed on the way.
TEST(SharedArena, RandomProgramsComputeTheSame) {
  for (uint64_t seed = 1; seed < 25; ++seed) {
    const RandomProgram p = smooth_program_f32(8000 + seed);
    const auto arena = make_shared_arena();
    std::vector<std::vector<Array>> results;
    std::vector<std::unique_ptr<Executable>> steps;
    std::vector<std::shared_ptr<Storage>> states;
    for (const Array& s : p.states) states.push_back(s.storage());
    Graph fewer = p.graph;  // another plan, which shares a part of what the first one keeps
    fewer.updates.clear();
    Graph all = fewer;
    fewer.outputs.resize(1);
    for (const Graph& g : {fewer, all, all}) {
      const bool shared = results.size() < 2;
      steps.push_back(
          std::make_unique<Executable>(plan_for(g, {.backend = "cpu", .deterministic = true, .frozen = true}), states,
                                       Executable::Options{.arena = shared ? arena : make_shared_arena()}));
      std::vector<Array> outputs;
      for (Value v : g.outputs) outputs.emplace_back(g.type(v).dtype, g.type(v).shape);
      for (int call = 0; call < 2; ++call) steps.back()->run(p.inputs, outputs);
      results.push_back(outputs);
    }
    for (size_t i = 0; i < results[1].size(); ++i) {
      EXPECT_TRUE(close(results[1][i], results[2][i], 0, 0)) << "seed " << 8000 + seed << "\n" << print(all);
    }
  }
}

}  // namespace
}  // namespace freight::test
