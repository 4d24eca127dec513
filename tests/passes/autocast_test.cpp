// Mixed precision: what each op is computed in, how few casts there are, which types stay, and how far results and
// gradients of small nets come from those in f32.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "freight/backend/cpu/kernels/bf16/dots.h"
#include "freight/base/strings.h"
#include "freight/freight.h"
#include "freight/run/plan.h"
#include "tests/ops/op_rows.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

// The policy, said a second time: a change of the table must be meant.
const std::map<Precision, std::set<std::string>> kPolicy = {
    {Precision::low, {"matmul", "conv", "conv_grad_input", "conv_grad_weight"}},
    {Precision::low_if_supported,
     {"attention", "attention_grad", "recurrent", "recurrent_grad", "recurrent_layer", "recurrent_layer_grad"}},
    {Precision::match_first_input, {"batch_norm", "batch_norm_inference", "layer_norm", "group_norm"}},
    {Precision::match_inputs,
     {"neg",
      "abs",
      "sign",
      "floor",
      "ceil",
      "round",
      "relu",
      "logical_not",
      "is_finite",
      "add",
      "stop_gradient",
      "sub",
      "mul",
      "maximum",
      "minimum",
      "eq",
      "ne",
      "lt",
      "le",
      "gt",
      "ge",
      "logical_and",
      "logical_or",
      "where",
      "reshape",
      "transpose",
      "broadcast",
      "slice",
      "copy",
      "offload",
      "fetch",
      "pad",
      "concat",
      "max_pool",
      "max_pool_grad",
      "avg_pool",
      "avg_pool_grad",
      "gather",
      "gather_elements",
      "check_index",
      "dropout"}},
};

TEST(Autocast, EveryOpHasThePolicyThatIsStatedHere) {
  size_t listed = 0;
  for (const auto& [precision, names] : kPolicy) listed += names.size();
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    Precision expected = Precision::full;
    for (const auto& [precision, names] : kPolicy) {
      if (names.count(row.name)) expected = precision, --listed;
    }
    EXPECT_EQ(static_cast<int>(row.precision), static_cast<int>(expected)) << row.name;
  }
  EXPECT_EQ(listed, 0u) << "a name above is no op";
}

// x times 1 by a contraction: a value that is 16 bits wide, and a reader that wants it so.
Value through_matmul(Builder& b, Value x) {
  const Shape shape = b.shape(x);
  const Value one = b.constant(1, {DType::f32, {1, 1}});
  return b.reshape(b.matmul(b.reshape(x, {shape.numel(), 1}), one), shape);
}

class Policy : public testing::TestWithParam<Op> {};

TEST_P(Policy, IsWhatThePassDoes) {
  for (const OpRow& row : op_rows()) {
    bool plain = row.op == GetParam() && row.op != Op::cast && row.op != Op::one_hot &&
                 row.op != Op::attention_grad;  // say their own type, or need more operands
    for (const Operand& o : row.in)
      plain = plain && o.type.numel() > 0 && (o.type.dtype == DType::f32 || !is_floating(o.type.dtype));
    if (!plain) continue;
    SCOPED_TRACE(to_string(row));
    Graph g;
    Builder b(g);
    std::vector<Value> in;
    bool floating = false;
    for (const Operand& o : row.in) {
      const Value x = b.one(Op::input, LeafAttrs{"x", o.type}, {});
      in.push_back(o.type.dtype == DType::f32 ? through_matmul(b, x) : x);
      floating = floating || o.type.dtype == DType::f32;
    }
    bool empty = false;  // nobody can want it
    for (Value v : b.add(row.op, row.attrs, in)) {
      const bool widens = b.type(v).dtype == DType::f32 && b.type(v).numel() > 0;
      empty = empty || b.type(v).numel() == 0;
      g.outputs.push_back(widens ? through_matmul(b, v) : v);
    }
    if (empty) continue;
    for (const DType low : {DType::bf16, DType::f16}) {
      const Graph cast = passes::autocast(g, low);
      verify(cast, "autocast");
      ASSERT_EQ(cast.outputs.size(), g.outputs.size());
      for (size_t i = 0; i < g.outputs.size(); ++i) EXPECT_EQ(cast.type(cast.outputs[i]), g.type(g.outputs[i]));
      // The node of the op is the first one that is none of ours.
      const auto is_ours = [&](const Node& n) {
        return n.op == Op::input || n.op == Op::cast || n.op == Op::constant || n.op == Op::reshape ||
               n.op == Op::matmul;
      };
      const Node* node = nullptr;
      for (const Node& n : cast.nodes) {
        if (n.op == row.op && (!is_ours(n) || equal(n.attrs, row.attrs))) node = &n;
      }
      if (is_ours(*node)) continue;  // reshape, matmul: seen in the net below
      if (!is_floating(cast.type(node->out()).dtype) && info(row.op).precision != Precision::full)
        continue;  // takes what there is
      const Precision p = info(row.op).precision == Precision::low_if_supported ? Precision::full
                                                                                : info(row.op).precision;  // no device
      for (size_t i = 0; i < row.in.size(); ++i) {
        if (row.in[i].type.dtype != DType::f32) continue;
        const bool narrow =
            p == Precision::low || p == Precision::match_inputs || (p == Precision::match_first_input && i == 0);
        EXPECT_EQ(cast.type(node->in(static_cast<int>(i))).dtype, narrow ? low : DType::f32) << "operand " << i;
      }
      const Type first = cast.type(node->out());
      if (!is_floating(first.dtype)) continue;
      EXPECT_EQ(first.dtype, p == Precision::full || !floating ? DType::f32 : low);
      for (size_t i = 1; i < node->outputs.size(); ++i) EXPECT_NE(cast.type(node->outputs[i]).dtype, low);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Policy, testing::ValuesIn(ops_with_rows()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

// Traces f(input) once and gives the graph as a step has it.
template <class F>
Graph traced(F&& f, const Type& input) {
  auto step = compile(std::forward<F>(f), CompileOptions{.backend = "ref"});
  return step.graph(input);
}

int count(const Graph& g, Op op, DType result) {
  int n = 0;
  for (const Node& node : g.nodes) n += node.op == op && g.type(node.out()).dtype == result;
  return n;
}

TEST(Autocast, AWeightIsCastOnceAndItsGradientsAddUpInF32) {
  seed(1);
  const Variable w("w", {DType::f32, {8, 8}}, nn::init::uniform(-1, 1), Variable::Role::parameter);
  optim::SGD sgd({w}, {.lr = 0.1, .momentum = 0.9});
  const Graph g = passes::simplify(passes::autocast(traced(
                                                        [&](const Tensor& x) {
                                                          Tensor h = x;
                                                          for (int i = 0; i < 4; ++i) h = relu(matmul(h, transpose(w)));
                                                          const Tensor loss = mean(square(h));
                                                          sgd.step(loss);
                                                          return loss;
                                                        },
                                                        {DType::f32, {4, 8}}),
                                                    DType::bf16));
  int of_state = 0;
  for (const Node& n : g.nodes) {
    if (n.op != Op::cast) continue;
    Value v = n.in(0);
    while (info(g.def(v).op).kind == OpKind::view) v = g.def(v).in(0);
    of_state += g.def(v).op == Op::state;
  }
  EXPECT_EQ(of_state, 1);
  EXPECT_EQ(count(g, Op::matmul, DType::bf16), 4 + 3 + 4);  // forward, to the inputs of layers 2 to 4, to the weight
  EXPECT_EQ(count(g, Op::matmul, DType::f32), 0);
  EXPECT_EQ(count(g, Op::relu, DType::bf16), 4);
  EXPECT_EQ(count(g, Op::add, DType::bf16), 0);
  EXPECT_EQ(count(g, Op::add, DType::f32), 3);
  for (const Update& u : g.updates) EXPECT_EQ(g.type(u.next).dtype, DType::f32);
  EXPECT_EQ(g.type(g.outputs[0]).dtype, DType::f32);
}

TEST(Autocast, BiasAndReluStillRideOnTheContraction) {
  seed(1);
  nn::Sequential net(nn::Linear(16, 16), nn::ReLU(), nn::Linear(16, 16));
  auto f = compile([&](const Tensor& x) { return net(x); },
                   CompileOptions{.backend = fusing_backend(), .deterministic = true, .compute = DType::bf16});
  const auto plan = f.plan(Type{DType::f32, {4, 16}});
  int with_relu = 0, with_bias = 0;
  for (const Node& n : plan->graph().nodes) {
    if (n.op != Op::matmul) continue;
    EXPECT_EQ(plan->graph().type(n.out()).dtype, DType::bf16);
    with_relu += attrs<MatmulAttrs>(n).epilogue.relu;
    with_bias += attrs<MatmulAttrs>(n).epilogue.bias;
  }
  EXPECT_EQ(with_relu, 1);
  EXPECT_EQ(with_bias, 2);
}

TEST(Autocast, TheBiasOfALayerOverStepsRidesInOneRounding) {
  seed(1);
  nn::Sequential net(nn::Linear(16, 16), nn::GELU(), nn::Linear(16, 16));
  auto f = compile([&](const Tensor& x) { return net(x); },
                   CompileOptions{.backend = fusing_backend(), .deterministic = true, .compute = DType::bf16});
  const auto plan = f.plan(Type{DType::f32, {4, 8, 16}});  // (N, T, C)
  int with_bias = 0;
  for (const Node& n : plan->graph().nodes) with_bias += n.op == Op::matmul && attrs<MatmulAttrs>(n).epilogue.bias;
  EXPECT_EQ(with_bias, 2);
}

TEST(Autocast, ActivationsAndTheirGradientsAreStoredIn16BitsInAResidualNet) {
  seed(1);
  nn::Conv2d first(3, 16, 3, {.padding = 1}), second(16, 16, 3, {.padding = 1}), third(16, 16, 3, {.padding = 1});
  nn::BatchNorm2d norm1(16), norm2(16), norm3(16);
  nn::Linear head(16 * 8 * 8, 5);
  std::vector<Variable> parameters;
  for (nn::Module* m : std::vector<nn::Module*>{&first, &second, &third, &norm1, &norm2, &norm3, &head}) {
    m->train();
    for (const Variable& p : m->parameters()) parameters.push_back(p);
  }
  optim::SGD sgd(parameters, {.lr = 0.1});
  auto f = compile(
      [&](const Tensor& x) {
        const Tensor a = max_pool2d(relu(norm1(first(x))), {.kernel = 2});
        const Tensor b = relu(norm2(second(a)) + a);
        const Tensor c = relu(norm3(third(b)) + b);
        const Tensor loss = mean(square(head(flatten(c))));
        sgd.step(loss);
        return loss;
      },
      CompileOptions{.backend = fusing_backend(), .deterministic = true, .compute = DType::bf16});
  const auto plan = f.plan(Type{DType::f32, {8, 3, 16, 16}});
  const Graph& g = plan->graph();
  int stored = 0;
  for (const Node& n : g.nodes) {
    if (info(n.op).kind == OpKind::leaf || info(n.op).kind == OpKind::view) continue;
    for (Value v : n.outputs) {
      if (g.type(v).numel() < 8 * 16 * 8 * 8) continue;  // weights have fewer elements
      EXPECT_NE(g.type(v).dtype, DType::f32) << name(n.op) << " in " << n.scope << " stores " << to_string(g.type(v));
      stored += g.type(v).dtype == DType::bf16;
    }
  }
  EXPECT_GE(stored, 12);
}

// Gradients of a loss behind norm(x w) w with respect to w, after autocast, decomposed and simplified.
Graph norm_between_products(Op norm) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {8, 16}}}, {});
  const auto state = [&](const char* name, const Shape& s) {
    return b.one(Op::state, LeafAttrs{name, {DType::f32, s}}, {});
  };
  const Value w = state("w", {16, 16}), scale = state("scale", {16}), shift = state("shift", {16});
  const Value y = b.add(norm, NormAttrs{.eps = 1e-5, .axes = 1}, {b.matmul(x, w), scale, shift})[0];
  g.outputs = grad(g, b.sum(b.unary(Op::square, b.matmul(y, w)), {0, 1}), {w, scale});
  return passes::simplify(passes::decompose(passes::autocast(g, DType::bf16), nullptr));
}

TEST(Autocast, ANormsScaleIsNotRoundedForItsGradientAndSumsAreOfF32) {
  for (const Op norm : {Op::layer_norm, Op::batch_norm}) {
    const Graph g = norm_between_products(norm);
    for (const Node& n : g.nodes) {
      if (is_reduce(n.op) || n.op == Op::square) {  // a square is summed at once
        EXPECT_EQ(g.type(n.in(0)).dtype, DType::f32) << name(norm);
      }
      if (n.op != Op::cast || g.type(n.out()).dtype != DType::bf16) continue;
      const Value root = passes::memory_roots(g)[n.in(0)];
      EXPECT_FALSE(g.def(root).op == Op::state && g.type(root).numel() == 16) << name(norm);
    }
  }
}

// A device with attention and recurrent layers in 16 bits.
class Offering final : public Backend {
 public:
  std::string name() const override { return "offering"; }
  std::string description() const override { return "offers, runs nothing"; }
  bool has_kernel(const Graph&, const Node&) const override { return true; }
  bool narrows(const Graph&, const Node& node, DType) const override {
    const auto* attention = std::get_if<AttentionAttrs>(&node.attrs);
    return !attention || !attention->second;
  }
  std::unique_ptr<Kernel> prepare(const StepSpec&) override { return nullptr; }
};

// An attention between products, with its gradients by them; with a loss on lse, too, its gradient has a second
// cotangent.
Graph attention_between_products(bool second) {
  Graph g;
  Builder b(g);
  const Shape s = {2, 3, 4, 8};
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, s}}, {});
  const Value w = b.one(Op::state, LeafAttrs{"w", {DType::f32, {2, 3, 8, 8}}}, {});
  std::vector<Value> in;
  for (int i = 0; i < 3; ++i) in.push_back(b.matmul(b.binary(Op::mul, x, b.constant(i + 1, {DType::f32, s})), w));
  in.push_back(b.one(Op::input, LeafAttrs{"mask", {DType::f32, {1, 4, 4}}}, {}));
  const std::vector<Value> y = b.add(Op::attention, AttentionAttrs{.scale = 0.5, .causal = true, .mask = true}, in);
  Value loss = b.sum(b.unary(Op::square, b.matmul(y[0], w)), {0, 1, 2, 3});
  if (second) loss = b.binary(Op::add, loss, b.reshape(b.sum(y[1], {0, 1, 2}), {1, 1, 1, 1}));
  g.outputs = grad(g, loss, {w});
  return passes::dead_code(g);
}

TEST(Autocast, AttentionIsIn16BitsWhereTheDeviceOffersItButForItsMaskAndStatistics) {
  const Graph g = attention_between_products(false);
  const Offering device;
  const Graph low = passes::simplify(passes::autocast(g, DType::bf16, &device));
  verify(low, "autocast");
  int seen = 0;
  for (const Node& n : low.nodes) {
    if (n.op == Op::cast) {
      EXPECT_NE(low.def(n.in(0)).op, Op::attention) << "a result is cast";
      EXPECT_NE(low.def(n.in(0)).op, Op::attention_grad) << "a gradient is cast";
    }
    if (n.op != Op::attention && n.op != Op::attention_grad) continue;
    ++seen;
    for (const auto* list : {&n.inputs, &n.outputs}) {
      for (Value v : *list)
        EXPECT_EQ(low.type(v).dtype, low.type(v).shape.rank() == 4 ? DType::bf16 : DType::f32) << name(n.op);
    }
  }
  EXPECT_EQ(seen, 2);
  const Graph without = passes::autocast(g, DType::bf16);
  EXPECT_EQ(count(without, Op::attention, DType::f32), 1);
  EXPECT_EQ(count(without, Op::attention_grad, DType::f32), 1);
}

TEST(Autocast, RecurrentLayersAreIn16BitsWhereTheDeviceOffersItButForTheirWeights) {
  for (int bits = 0; bits < 4; ++bits) {
    const bool gru = (bits & 1) != 0, whole = (bits & 2) != 0;
    const Op op = whole ? Op::recurrent_layer : Op::recurrent;
    const Op gradient = whole ? Op::recurrent_layer_grad : Op::recurrent_grad;
    Graph g;
    Builder b(g);
    const int64_t gates = gru ? 24 : 32;
    const auto state = [&](const char* name, const Shape& s) {
      return b.one(Op::state, LeafAttrs{name, {DType::f32, s}}, {});
    };
    const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {2, 5, 6}}}, {});
    std::vector<Value> in{x}, sources;
    if (whole) {
      in.push_back(state("v", {gates, 6}));
      in.push_back(state("bias", {gates}));
    } else {
      sources.push_back(state("v", {2, 6, gates}));
      in[0] = b.matmul(x, sources[0]);
    }
    in.push_back(state("w", {gates, 8}));
    if (gru) in.push_back(state("inside", {8}));
    sources.insert(sources.end(), in.begin() + 1, in.end());
    const RecurrentAttrs a{.gru = gru};
    const Value y = b.add(op, whole ? Attrs(RecurrentLayerAttrs{a}) : Attrs(a), in)[0];
    const Value loss = b.sum(b.unary(Op::square, b.matmul(y, state("u", {2, 8, 3}))), {0, 1, 2});
    g.outputs = grad(g, loss, sources);
    const Offering device;
    const Graph low = passes::simplify(passes::autocast(passes::dead_code(g), DType::bf16, &device));
    verify(low, "autocast");
    int seen = 0;
    for (const Node& n : low.nodes) {
      if (n.op != op && n.op != gradient) continue;
      ++seen;
      for (const auto* list : {&n.inputs, &n.outputs}) {
        for (Value u : *list)
          EXPECT_EQ(low.type(u).dtype, low.type(u).shape.rank() == 3 ? DType::bf16 : DType::f32) << name(n.op);
      }
    }
    EXPECT_EQ(seen, 2);
    const Graph without = passes::autocast(g, DType::bf16);
    EXPECT_EQ(count(without, op, DType::f32), 1);
    EXPECT_EQ(count(without, gradient, DType::f32), 1);
  }
}

// A device that is faster in f32 where the image has one channel.
class Keeping final : public Backend {
 public:
  std::string name() const override { return "keeping"; }
  std::string description() const override { return "keeps f32, runs nothing"; }
  bool has_kernel(const Graph&, const Node&) const override { return true; }
  bool keeps_f32(const Graph& graph, const Node& node, DType dtype) const override {
    return dtype == DType::bf16 && graph.type(node.in(0)).shape[1] == 1;
  }
  std::unique_ptr<Kernel> prepare(const StepSpec&) override { return nullptr; }
};

TEST(Autocast, AConvolutionThatTheDeviceKeepsInF32ReadsItsImageWithoutACast) {
  Graph g;
  Builder b(g);
  const auto leaf = [&](Op op, const char* name, const Shape& s) {
    return b.one(op, LeafAttrs{name, {DType::f32, s}}, {});
  };
  const Value x = leaf(Op::input, "x", {2, 1, 8, 8}), v = leaf(Op::state, "v", {4, 1, 3, 3}),
              w = leaf(Op::state, "w", {4, 4, 3, 3});
  const ConvAttrs a{
      .stride = {1, 1}, .pad_low = {1, 1}, .pad_high = {1, 1}, .dilation = {1, 1}, .shape = {}, .epilogue = {}};
  g.outputs = {b.one(Op::conv, a, {b.unary(Op::relu, b.one(Op::conv, a, {x, v})), w})};
  const Keeping device;
  for (const DType low : {DType::bf16, DType::f16}) {
    const Graph made = passes::dead_code(passes::autocast(g, low, &device));
    verify(made, "autocast");
    const bool kept = low == DType::bf16;
    EXPECT_EQ(count(made, Op::conv, DType::f32), kept ? 1 : 0);
    EXPECT_EQ(count(made, Op::conv, low), kept ? 1 : 2);
    for (const Node& n : made.nodes) {
      EXPECT_FALSE(kept && n.op == Op::cast && made.type(n.in(0)).shape == Shape({2, 1, 8, 8}));
    }
  }
}

// The biases of an LSTM.
TEST(Autocast, ASumOfParametersIsABiasToo) {
  Graph g;
  Builder b(g);
  const auto state = [&](const char* name, const Shape& s) {
    return b.one(Op::state, LeafAttrs{name, {DType::f32, s}}, {});
  };
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {5, 6}}}, {});
  const Value bias = b.binary(Op::add, state("one", {4}), state("other", {4}));
  const Value spread = b.broadcast(b.reshape(bias, {1, 4}), {5, 4});
  g.outputs = {b.matmul(b.binary(Op::add, b.matmul(x, state("v", {6, 4})), spread), state("w", {4, 3}))};
  const Graph low = passes::autocast(g, DType::bf16);
  EXPECT_EQ(count(low, Op::add, DType::bf16), 1);
}

// As BatchNorm's factors and terms in evaluation are behind passes::fold.
TEST(Autocast, AVectorThatFrozenParametersMakeIsABiasToo) {
  Graph g;
  Builder b(g);
  const auto state = [&](const char* name, const Shape& s) {
    return b.one(Op::state, LeafAttrs{name, {DType::f32, s}}, {});
  };
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {5, 6}}}, {});
  const Value bias = b.binary(Op::sub, state("shift", {4}), b.binary(Op::mul, state("mean", {4}), state("a", {4})));
  const Value sum = b.binary(Op::add, b.matmul(x, state("v", {6, 4})), b.broadcast_axis(bias, 1, {5, 4}));
  const Value six = b.constant(6, {DType::f32, {5, 4}});
  g.outputs = {b.matmul(b.binary(Op::minimum, b.unary(Op::relu, sum), six), state("w", {4, 3}))};
  for (const States states : {States::change, States::frozen}) {
    const Graph low = passes::autocast(g, DType::bf16, nullptr, states);
    verify(low, "autocast");
    for (const Op op : {Op::add, Op::relu, Op::minimum})
      EXPECT_EQ(count(low, op, DType::bf16), states == States::frozen ? 1 : 0) << name(op);
    EXPECT_EQ(count(low, Op::mul, DType::f32), 1) << "what makes the bias stays f32";
  }
}

// The table of passes::fold, not that of an embedding, which would be stored in both types.
TEST(Autocast, ATableThatFrozenParametersMakeIsStoredIn16Bits) {
  for (const bool made : {false, true}) {
    Graph g;
    Builder b(g);
    const auto state = [&](const char* name, const Shape& s) {
      return b.one(Op::state, LeafAttrs{name, {DType::f32, s}}, {});
    };
    const Value index = b.one(Op::input, LeafAttrs{"x", {DType::i32, {5}}}, {});
    const Value words = state("words", {9, 4});
    const Value table = made ? b.unary(Op::tanh, words) : words;
    const Value rows = b.one(Op::embedding, EmbeddingAttrs{}, {index, table});
    g.outputs = {b.matmul(rows, state("w", {4, 3}))};
    for (const States states : {States::change, States::frozen}) {
      const Graph low = passes::dead_code(passes::autocast(g, DType::bf16, nullptr, states));
      verify(low, "autocast");
      const bool narrow = made && states == States::frozen;
      EXPECT_EQ(count(low, Op::embedding, narrow ? DType::bf16 : DType::f32), 1) << print(low);
    }
  }
}

TEST(Autocast, ARowByAMatrixStaysF32WhereThatIsFaster) {
  if (!cpu::uses_dots()) GTEST_SKIP() << "the processor computes no products by avx512_bf16";
  const Backend& cpu = backend("cpu");
  for (const int64_t rows : {1, 8}) {
    Graph g;
    Builder b(g);
    const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {rows, 64}}}, {});
    g.outputs = {b.matmul(x, b.one(Op::state, LeafAttrs{"w", {DType::f32, {64, 32}}}, {}))};
    EXPECT_EQ(count(passes::autocast(g, DType::bf16, &cpu), Op::matmul, DType::f32), rows == 1 ? 1 : 0);
  }
}

TEST(Autocast, AGradientOfAttentionThatTheDeviceDoesNotOfferStaysF32BehindOneThatItDoes) {
  const Offering device;
  const Graph low = passes::autocast(attention_between_products(true), DType::f16, &device);
  verify(low, "autocast");
  EXPECT_EQ(count(low, Op::attention, DType::f16), 1);
  EXPECT_EQ(count(low, Op::attention_grad, DType::f32), 1);
}

TEST(Autocast, GradientsOfAnAttentionInF32MeetIn16BitsOnTheirWayToAProduct) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {2, 4, 8}}}, {});
  const Value w = b.one(Op::state, LeafAttrs{"w", {DType::f32, {2, 8, 24}}}, {});
  const Value qkv = b.matmul(x, w);  // (N, T, 3 C), one head
  std::vector<Value> in;
  for (int64_t i = 0; i < 3; ++i)
    in.push_back(b.reshape(b.slice(qkv, {0, 0, 8 * i}, {2, 4, 8 * i + 8}, {1, 1, 1}), {2, 1, 4, 8}));
  const Value y = b.add(Op::attention, AttentionAttrs{.scale = 0.5}, in)[0];
  g.outputs = grad(g, b.sum(b.unary(Op::square, y), {0, 1, 2, 3}), {w});
  const Graph low = passes::simplify(passes::autocast(g, DType::bf16));
  EXPECT_EQ(count(low, Op::attention_grad, DType::f32), 1);
  EXPECT_EQ(count(low, Op::concat, DType::bf16), 1);
  EXPECT_EQ(count(low, Op::concat, DType::f32), 0);
}

TEST(Autocast, WhatIsNotF32IsLeftAlone) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f64, {3, 3}}}, {});
  const Value h = b.one(Op::input, LeafAttrs{"h", {DType::bf16, {3, 3}}}, {});
  g.outputs = {b.unary(Op::relu, b.matmul(x, x)), b.unary(Op::exp, b.matmul(h, h))};
  EXPECT_TRUE(structurally_equal(passes::autocast(g, DType::f16), g));
}

// ---- small nets against f32 ----

struct Net {
  const char* name;
  Shape input;
  nn::Sequential (*make)();
  double tolerance;  // of loss and gradients, relative to the largest of each tensor, in bf16
};

const std::vector<Net>& nets() {
  using namespace nn;
  static const std::vector<Net> kNets = {
      {"mlp", {8, 12}, [] { return Sequential(Linear(12, 16), ReLU(), Linear(16, 16), Tanh(), Linear(16, 5)); }, 0.03},
      {"conv_bn",
       {4, 3, 8, 8},
       [] {
         return Sequential(Conv2d(3, 8, 3, {.padding = 1}), BatchNorm2d(8), ReLU(), MaxPool2d(2), Conv2d(8, 8, 3),
                           BatchNorm2d(8), AvgPool2d(2), Flatten(), Linear(8, 5));
       },
       0.06},
      {"attention",
       {2, 6, 8},
       [] { return Sequential(TransformerBlock(8, 2, {.causal = true}), Flatten(), Linear(48, 5)); },
       0.04},
      {"lstm", {4, 9, 6}, [] { return Sequential(LSTM(6, 8, {.last = true}), Linear(8, 5)); }, 0.03},
  };
  return kNets;
}

// Loss and the gradients of all parameters.
std::vector<Array> loss_and_gradients(const Net& net, const std::string& backend, DType compute) {
  seed(5);
  nn::Sequential module = net.make();
  module.train();
  auto f = compile(
      [&](const Tensor& images, const Tensor& labels) {
        const Tensor loss = cross_entropy(module(images), labels);
        std::vector<Tensor> out = grad(loss, module.parameters());
        out.insert(out.begin(), loss);
        return out;
      },
      CompileOptions{.backend = backend, .deterministic = true, .compute = compute});
  Array x = random_array({{DType::f32, net.input}, Fill::normal}, 3), y(DType::i64, {net.input[0]});
  for (int64_t i = 0; i < y.numel(); ++i) y.data<int64_t>()[i] = i % 5;
  std::vector<Array> out;
  for (const Tensor& t : f(x, y)) out.push_back(t.array().clone());
  return out;
}

class SmallNets : public testing::TestWithParam<size_t> {};

TEST_P(SmallNets, LossAndGradientsAreNearThoseInF32) {
  const Net& net = nets()[GetParam()];
  const std::vector<Array> expected = loss_and_gradients(net, "ref", DType::f32);
  bool differs = false;
  for (const auto& [backend, compute] : {std::pair{"ref", DType::bf16}, {"cpu", DType::bf16}, {"ref", DType::f16}}) {
    SCOPED_TRACE(cat(net.name, " on ", backend, " in ", compute));
    const std::vector<Array> got = loss_and_gradients(net, backend, compute);
    const double allowed = compute == DType::bf16 ? net.tolerance : net.tolerance / 6;  // 8 and 11 bits of mantissa
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), DType::f32);
      EXPECT_TRUE(close(got[i], expected[i], allowed, 1e-3)) << "result " << i;
      differs = differs || !close(got[i], expected[i], 1e-5);
    }
  }
  EXPECT_TRUE(differs) << "nothing was computed in 16 bits";
}

INSTANTIATE_TEST_SUITE_P(All, SmallNets, testing::Range(size_t{0}, nets().size()),
                         [](const auto& instance) { return std::string(nets()[instance.param].name); });

}  // namespace
}  // namespace freight::test
