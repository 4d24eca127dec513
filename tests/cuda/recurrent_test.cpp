// Recurrent layers by cuDNN, on a fake of it that computes NVIDIA's equations, with weights in an order of its own and
// a memory between the passes that only it can read. What it cannot tell is whether NVIDIA's library agrees.
#include <gtest/gtest.h>

#include "freight/backend/gpu/cuda/dnn.h"
#include "freight/run/plan.h"

#include "tests/cuda/fake.h"
#include "tests/ops/op_suite.h"
#include "tests/support/offloaded.h"

namespace freight::test {
namespace {

class CudaRecurrent : public OnFakeLibraries {
 protected:
  CudaRecurrent() { clear_plan_cache(); }
};

struct Sizes {
  int64_t n, t, d, h;  // samples, steps, inputs, hidden numbers
};

// y of a layer and, with `gradients` cotangents as further inputs, the gradients of each by all operands.
OpCase layer_case(DType dtype, const Sizes& z, const RecurrentAttrs& a, int gradients = 1) {
  Graph g;
  Builder b(g);
  const auto input = [&](DType t, const Shape& s) { return b.one(Op::input, LeafAttrs{"x", {t, s}}, {}); };
  const int64_t gates = (a.gru ? 3 : 4) * z.h;
  const DType w = wide(dtype);
  std::vector<Value> in{input(dtype, {z.n, z.t, z.d}), input(w, {gates, z.d}), input(w, {gates}),
                        input(w, {gates, z.h})};
  if (a.gru) in.push_back(input(w, {z.h}));
  if (a.lengths) in.push_back(input(DType::i32, {z.n}));
  const std::vector<Value> layer = b.add(Op::recurrent_layer, RecurrentLayerAttrs{a}, in);
  in.insert(in.end(), layer.begin(), layer.end());
  g.outputs = {layer[0]};
  for (int i = 0; i < gradients; ++i) {
    std::vector<Value> of = in;
    of.push_back(input(dtype, {z.n, z.t, z.h}));
    for (Value v : b.add(Op::recurrent_layer_grad, RecurrentLayerAttrs{a}, of)) g.outputs.push_back(v);
  }
  std::vector<Array> arrays;
  for (Value v : g.leaves(Op::input)) {
    Array x = random_array({g.type(v), Fill::unit, z.t + 1}, 5 + arrays.size());
    // Weights that 16 bits hold, and small enough for states that are no signs.
    if (is_floating(x.dtype())) {
      for (int64_t i = 0; i < x.numel(); ++i) {
        if (x.dtype() == DType::f32) x.data<float>()[i] *= 0.5f;
      }
      x = x.cast(dtype).cast(x.dtype());
    }
    arrays.push_back(x);
  }
  return {cat(dtype, a.gru ? " gru " : " lstm ", z.n, "x", z.t, "x", z.d, "x", z.h, a.reverse ? " reverse" : "",
              a.lengths ? " counts" : ""),
          g, arrays, 4};
}

std::vector<RecurrentAttrs> kinds() {
  std::vector<RecurrentAttrs> all;
  for (int bits = 0; bits < 8; ++bits) {
    all.push_back({.gru = (bits & 1) != 0, .reverse = (bits & 2) != 0, .lengths = (bits & 4) != 0});
  }
  return all;
}

std::vector<OpCase> all_layers(int gradients = 1) {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const RecurrentAttrs& a : kinds()) {
      for (const Sizes& z : {Sizes{1, 1, 1, 1}, Sizes{3, 4, 7, 5}, Sizes{6, 3, 4, 9}})
        cases.push_back(layer_case(dtype, z, a, gradients));
    }
  }
  return cases;
}

TEST_F(CudaRecurrent, LayersAndTheirGradientsAreThoseOfTheOracle) {
  const std::vector<OpCase> cases = all_layers();
  compare_together(cases, "cuda:0");
  EXPECT_EQ(fake().library_layers, static_cast<int64_t>(3 * cases.size()));
}

TEST_F(CudaRecurrent, WhereTheLibraryHasNoneTheStepsAreGeneratedKernels) {
  const Told none("FAKE_CUDNN_HAS_NO_LAYERS");
  compare_together(all_layers(), "cuda:0");
  EXPECT_EQ(fake().library_layers, 0);
}

// What the library kept serves one gradient, which writes over it; cells and gates it does not give away.
TEST_F(CudaRecurrent, ALayerWithTwoGradientsOrWhoseCellsAreReadIsTakenApart) {
  std::vector<OpCase> cases{layer_case(DType::f32, {3, 4, 7, 5}, {}, 2),
                            layer_case(DType::f32, {3, 4, 7, 5}, {.gru = true}, 2),
                            layer_case(DType::f32, {3, 4, 7, 5}, {}), layer_case(DType::f32, {3, 4, 7, 5}, {}, 0)};
  for (size_t i = 2; i < cases.size(); ++i) {
    for (const Node& n : cases[i].graph.nodes) {
      if (n.op == Op::recurrent_layer) cases[i].graph.outputs.push_back(n.out(static_cast<int>(i) - 1));
    }
  }
  OpCase f64 = layer_case(DType::f64, {3, 4, 7, 5}, {});
  cases.push_back(f64);
  compare_together(cases, "cuda:0");
  EXPECT_EQ(fake().library_layers, 0);
}

const Node* layer_of(const Plan& plan, Op op = Op::recurrent_layer) {
  for (const Node& n : plan.graph().nodes) {
    if (n.op == op) return &n;
  }
  return nullptr;
}

// Of the memory of a result in the library's own format.
size_t kept_bytes(const Plan& plan, Value v) {
  const Layout& layout = plan.placed().place(v).layout;
  EXPECT_TRUE(layout.blocked);
  return layout_bytes(plan.graph().type(v), layout);
}

TEST_F(CudaRecurrent, WithoutAGradientNothingIsKept) {
  for (const RecurrentAttrs& a : kinds()) {
    const auto plan = plan_for(layer_case(DType::f32, {3, 4, 7, 5}, a, 0).graph, {.backend = "cuda:0"});
    const Node* layer = layer_of(*plan);
    ASSERT_TRUE(layer) << print(*plan);
    for (const int kept : {1, 2}) EXPECT_EQ(kept_bytes(*plan, layer->out(kept)), 0u);
  }
}

TEST_F(CudaRecurrent, BothPassesAgreeOnWhatIsKept) {
  const auto plan = plan_for(layer_case(DType::bf16, {3, 4, 7, 5}, {.reverse = true}).graph, {.backend = "cuda:0"});
  const Node *layer = layer_of(*plan), *gradient = layer_of(*plan, Op::recurrent_layer_grad);
  ASSERT_TRUE(layer && gradient) << print(*plan);
  EXPECT_EQ(kept_bytes(*plan, layer->out(1)), 0u);
  EXPECT_GT(kept_bytes(*plan, layer->out(2)), 3u * 4 * 5 * 2);
  EXPECT_EQ(gradient->in(5), layer->out(1));
  EXPECT_EQ(gradient->in(6), layer->out(2));
  verify(plan->graph());
  EXPECT_TRUE(structurally_equal(parse(print(plan->graph())), plan->graph()));
}

// Its products round their operands only where that was asked for.
TEST_F(CudaRecurrent, F32IsRoundedToTf32OnlyOnRequest) {
  const OpCase c = layer_case(DType::f32, {3, 4, 7, 5}, {});
  std::vector<Array> in = c.inputs;
  for (Array& x : in) {
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] += 1e-4f;  // more bits than TF32 has
  }
  const std::vector<Array> expected = interpret(retype(c.graph, DType::f64), retype(in, DType::f64));
  for (const bool tf32 : {false, true}) {
    Executable executable(plan_for(c.graph, {.backend = "cuda:0", .deterministic = true, .tf32 = tf32}), {});
    std::vector<Array> got;
    for (Value v : c.graph.outputs) got.emplace_back(c.graph.type(v).dtype, c.graph.type(v).shape);
    executable.run(in, got);
    EXPECT_EQ(static_cast<bool>(close(got[0], expected[0], 1e-5)), !tf32);
    EXPECT_TRUE(close(got[0], expected[0], 2e-3));
  }
}

TEST_F(CudaRecurrent, DescriptorsGoWithThePlanThatNeedsThem) {
  const auto run = [] {
    const OpCase c = layer_case(DType::f32, {3, 4, 7, 5}, {});
    run_planned("cuda:0", c.graph, c.inputs);
    clear_plan_cache();
    return fake().live_descriptions;
  };
  const int64_t after_one = run();
  EXPECT_EQ(run(), after_one);
}

struct Net {
  const char* name;
  const char* model;
  int64_t layers;
  bool bidirectional;
};
std::ostream& operator<<(std::ostream& out, const Net& n) { return out << n.name; }

class CudaRecurrentNets : public CudaRecurrent, public ::testing::WithParamInterface<Net> {
 protected:
  static models::Model make() {
    const Net& n = net_;
    seed(3);
    return models::create(
        n.model, {.vocabulary = 30, .length = 6, .layers = n.layers, .width = 24, .bidirectional = n.bidirectional});
  }
  int64_t calls() const { return 3 * GetParam().layers * (GetParam().bidirectional ? 2 : 1); }
  void SetUp() override { net_ = GetParam(); }
  static inline Net net_ = {};  // the maker is a plain function
};

constexpr int kSteps = 3;

TEST_P(CudaRecurrentNets, TrainAsOnTheCpuWithOneLaunchPerStep) {
  train::trains_as_on_the_cpu("cuda:0", make, 4, kSteps, 0.02);
  EXPECT_EQ(fake().library_layers, kSteps * calls());
  EXPECT_EQ(fake().captures, 1);
  EXPECT_EQ(fake().graph_launches, kSteps - 1);
}

TEST_P(CudaRecurrentNets, TrainIn16BitsWithTheLayersInThem) {
  const train::TrainedNet expected = train::trained("cpu", make(), 4, kSteps, 0.02);
  for (const DType compute : {DType::bf16, DType::f16}) {
    fake().library_layers = 0;
    const train::TrainedNet got = train::trained("cuda:0", make(), 4, kSteps, 0.02, {}, compute);
    EXPECT_EQ(fake().library_layers, kSteps * calls());
    for (const Op op : {Op::recurrent_layer, Op::recurrent_layer_grad}) {
      const Node* n = layer_of(*got.plan, op);
      ASSERT_TRUE(n);
      int narrow = 0, wrong = 0;
      for (const auto* list : {&n->inputs, &n->outputs}) {
        for (Value v : *list) {
          if (got.plan->placed().place(v).layout.blocked) continue;  // what the library keeps
          const Type& t = got.plan->graph().type(v);
          const DType need = t.shape.rank() == 3 ? compute : DType::f32;
          if (is_floating(t.dtype)) narrow += t.dtype == compute, wrong += t.dtype != need;
        }
      }
      EXPECT_EQ(narrow, op == Op::recurrent_layer ? 2 : 4);  // x y; x y dy dx
      EXPECT_EQ(wrong, 0);
    }
    const double allowed = compute == DType::bf16 ? 4e-3 : 5e-4;  // 8 and 11 bits of mantissa
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], expected.losses[i], allowed * expected.losses[i]) << cat(compute, " step ", i);
    }
  }
}

// What a layer keeps waits in host memory like any activation.
TEST_P(CudaRecurrentNets, WithinALimitTheBitsAreTheSame) {
  const train::TrainedNet whole = train::trained("cuda:0", make(), 4, kSteps, 0.02);
  const size_t bytes = whole.plan->arena_bytes() * 7 / 10;
  for (const Offload mode : {Offload::activations, Offload::automatic, Offload::all}) {
    const train::TrainedNet t =
        train::trained("cuda:0", make(), 4, kSteps, 0.02, {.offload = mode, .bytes = bytes, .speed = {}});
    EXPECT_EQ(t.losses, whole.losses);
    EXPECT_EQ(t.states, whole.states);
  }
}

TEST_P(CudaRecurrentNets, ComputedAgainTheBitsAreTheSame) {
  const train::TrainedNet kept = train::trained("cuda:0", make(), 4, kSteps, 0.02);
  fake().library_layers = 0;
  const train::TrainedNet again = train::trained("cuda:0", make(), 4, kSteps, 0.02, {}, DType::f32, Recompute::all);
  EXPECT_GE(fake().library_layers, kSteps * calls() + (GetParam().layers > 1));  // one alone makes no peak
  EXPECT_EQ(again.losses, kept.losses);
  EXPECT_EQ(again.states, kept.states);
}

INSTANTIATE_TEST_SUITE_P(Nets, CudaRecurrentNets,
                         ::testing::Values(Net{"lstm", "lstm_text", 1, false}, Net{"gru", "gru_text", 1, false},
                                           Net{"lstm_two_layers_both_ways", "lstm_text", 2, true},
                                           Net{"gru_both_ways", "gru_text", 1, true}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace freight::test
