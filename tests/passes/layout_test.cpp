// Where values lie: conversions stand where a wish is not met and nowhere else, views are aliases, outputs are
// row-major values of their own.
#include <algorithm>
#include <functional>

#include "freight/passes/passes.h"
#include "freight/passes/placement.h"
#include "tests/support/random_graph.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

using passes::layout;

int copies(const PlacedGraph& p) {
  return static_cast<int>(
      std::count_if(p.graph.nodes.begin(), p.graph.nodes.end(), [](const Node& n) { return n.op == Op::copy; }));
}
bool lies(const PlacedGraph& p, Value v, Layout (*as)(const Shape&)) {
  const Shape& s = p.graph.type(v).shape;
  return same_layout(s, p.place(v).layout, as(s));
}
bool mixed(const Shape& s) { return !same_layout(s, Layout::row_major(s), Layout::channels_last(s)); }

Value tensor(Builder& b, const Shape& s, Op kind = Op::input) {
  return b.one(kind, LeafAttrs{"x", {DType::f32, s}}, {});
}
Value conv3(Builder& b, Value x, int64_t to) {
  const Value w = tensor(b, {to, b.shape(x)[1], 3, 3}, Op::state);
  return b.one(Op::conv, ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {}, {}}, {x, w});
}

// The elements from the first of its root to its last one.
bool within_root(const PlacedGraph& p, Value v) {
  const Place& place = p.place(v);
  const Shape& s = p.graph.type(v).shape;
  if (s.numel() == 0 || place.layout.blocked) return true;
  int64_t last = place.offset;
  for (int i = 0; i < s.rank(); ++i) last += (s[i] - 1) * place.layout.strides[i];
  return place.offset >= 0 && last < p.graph.type(place.root).numel();
}

TEST(Layout, NetsOfOneLayoutHaveNoConversion) {
  for (const std::string& device : computing_backends()) {
    Graph g;
    Builder b(g);
    const Value x = tensor(b, {8, 12}), w = tensor(b, {12, 16}, Op::state), bias = tensor(b, {16}, Op::state);
    const Ex h = apply(Op::relu, Ex{&b, b.matmul(x, w)} + Ex{&b, b.broadcast_axis(bias, 1, {8, 16})});
    const Value loss = b.reshape(b.sum(apply(Op::square, h).v, {0, 1}), {});
    const std::vector<Value> gradients = grad(g, loss, {w, bias});
    g.outputs = {b.unary(Op::exp, loss)};
    g.updates = {{w, (Ex{&b, w} - Ex{&b, gradients[0]}).v}, {bias, (Ex{&b, bias} - Ex{&b, gradients[1]}).v}};
    const PlacedGraph p = layout(run_pipeline(g, backend(device)), backend(device), {States::change, true});
    EXPECT_EQ(copies(p), 0) << device << "\n" << print(p.graph);
  }
}

TEST(Layout, ANetOfConvolutionsConvertsItsInputAndItsResultAlone) {
  Graph g;
  Builder b(g);
  Value h = tensor(b, {2, 3, 6, 6});
  for (int i = 0; i < 4; ++i) {
    h = b.unary(Op::tanh, conv3(b, h, 5));
    h = b.binary(Op::mul, h, b.broadcast_axis(tensor(b, {5}, Op::state), 1, b.shape(h)));  // rides along, leads not
    if (i == 1) h = b.add(Op::max_pool, PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {0, 0}, true, {}}, {h})[0];
  }
  g.outputs = {conv3(b, h, 5)};
  const PlacedGraph p = layout(g, backend(fusing_backend()));
  EXPECT_EQ(copies(p), 2) << print(p.graph);
  EXPECT_EQ(p.graph.def(p.graph.outputs[0]).op, Op::copy);
  for (const Node& n : p.graph.nodes) {
    const bool activation = info(n.op).kind != OpKind::leaf && info(n.op).kind != OpKind::view;
    if (!activation || n.out() == p.graph.outputs[0]) continue;
    EXPECT_TRUE(lies(p, n.out(), Layout::channels_last)) << name(n.op);
  }
}

TEST(Layout, AnAdaptivePoolOfUnequalWindowsBetweenConvolutionsConvertsNothing) {
  Graph g;
  Builder b(g);
  const Value x = conv3(b, tensor(b, {2, 3, 14, 14}), 5);
  const Value pooled = b.one(Op::adaptive_avg_pool, AdaptivePoolAttrs{{4, 3}}, {x});
  g.outputs = {conv3(b, pooled, 5)};
  const Backend& device = backend(fusing_backend());
  const PlacedGraph p = layout(run_pipeline(g, device), device);
  EXPECT_EQ(copies(p), 2) << print(p.graph);  // of the input and of the result
}

TEST(Layout, AxesOfOneElementDoNotHideTheOrderOfMemory) {
  using Order = std::vector<int>;
  const auto order = [](const Shape& s) { return memory_order(s, channels_last_strides(s)); };
  EXPECT_EQ(order({2, 3, 4, 5}), (Order{0, 2, 3, 1}));
  EXPECT_EQ(order({2, 3, 1, 5}), (Order{0, 2, 3, 1}));
  EXPECT_EQ(order({1, 3, 4, 5}), (Order{0, 2, 3, 1}));
  EXPECT_EQ(memory_order({2, 1, 4, 5}, contiguous_strides({2, 1, 4, 5})), (Order{0, 1, 2, 3}));
  EXPECT_EQ(memory_order({1, 1, 1}, {1, 1, 1}), (Order{0, 1, 2}));
  EXPECT_EQ(memory_order({5, 1, 3}, {1, 1, 5}), (Order{1, 2, 0}));
}

TEST(Layout, ReadersOfOneValueShareItsConversion) {
  Graph g;
  Builder b(g);
  const Value x = tensor(b, {2, 3, 6, 6}), p = conv3(b, x, 4), q = conv3(b, x, 4);
  g.outputs = {b.sum(b.binary(Op::mul, p, q), {0, 1, 2, 3})};
  EXPECT_EQ(copies(layout(g, backend(fusing_backend()))), 1);
}

TEST(Layout, AnOutputThatAPointwiseStepMakesIsWrittenRowMajorAtOnce) {
  Graph g;
  Builder b(g);
  g.outputs = {b.unary(Op::exp, conv3(b, tensor(b, {2, 3, 6, 6}), 4))};
  const PlacedGraph p = layout(g, backend(fusing_backend()));
  EXPECT_EQ(copies(p), 1) << print(p.graph);  // of the input
  EXPECT_TRUE(lies(p, p.graph.outputs[0], Layout::row_major));
}

struct ViewCase {
  const char* name;
  std::function<Value(Builder&, Value)> make;  // of (2, 4, 6, 8), channels-last
  bool alias;
};

TEST(Layout, AViewIsAnAliasWhereStridesCanSayIt) {
  const ViewCase cases[] = {
      {"transpose",
       [](Builder& b, Value x) {
         return b.transpose(x, {0, 2, 3, 1});
       },
       true},
      {"slice",
       [](Builder& b, Value x) {
         return b.slice(x, {0, 1, 2, 0}, {2, 4, 6, 8}, {1, 2, 1, 3});
       },
       true},
      {"an axis of one",
       [](Builder& b, Value x) {
         return b.reshape(x, {2, 1, 4, 6, 8});
       },
       true},
      {"an axis in two",
       [](Builder& b, Value x) {
         return b.reshape(x, {2, 2, 2, 6, 8});
       },
       true},
      {"the image's axes in one",
       [](Builder& b, Value x) {
         return b.reshape(x, {2, 4, 48});
       },
       true},
      {"channels and rows in one",
       [](Builder& b, Value x) {
         return b.reshape(x, {2, 24, 8});
       },
       false},
      {"flat",
       [](Builder& b, Value x) {
         return b.reshape(x, {2, 192});
       },
       false},
      {"flat behind the transpose to how it lies",
       [](Builder& b, Value x) {
         return b.reshape(b.transpose(x, {0, 2, 3, 1}), {2, 192});
       },
       true},
  };
  for (const ViewCase& c : cases) {
    SCOPED_TRACE(c.name);
    Graph g;
    Builder b(g);
    const Value x = b.unary(Op::tanh, conv3(b, tensor(b, {2, 4, 6, 8}), 4));
    const Value view = c.make(b, x);
    Shape all;
    for (int i = 0; i < b.shape(view).rank(); ++i) all.push_back(i);
    g.outputs = {b.sum(view, all)};
    const PlacedGraph p = layout(g, backend(fusing_backend()));
    EXPECT_EQ(copies(p), c.alias ? 1 : 2) << print(p.graph);
    const Value read = p.graph.def(p.graph.outputs[0]).in(0);
    EXPECT_EQ(p.graph.def(p.place(read).root).op, c.alias ? Op::tanh : Op::copy);
  }
}

TEST(Layout, OutputsAndNextValuesAreValuesOfTheirOwn) {
  Graph g;
  Builder b(g);
  const Value x = tensor(b, {4, 6}), s = tensor(b, {4, 6}, Op::state), y = b.unary(Op::exp, x);
  g.outputs = {x, y, y, b.transpose(y, {1, 0})};
  g.updates = {{s, y}};
  const PlacedGraph p = layout(g, backend(fusing_backend()));
  EXPECT_EQ(copies(p), 4) << print(p.graph);  // y itself is the next value
  ByValue<bool> seen(p.graph);
  for (Value v : p.graph.results()) {
    EXPECT_FALSE(seen[v]);
    seen[v] = true;
    EXPECT_EQ(p.place(v).root, v);
    EXPECT_NE(info(p.graph.def(v).op).kind, OpKind::leaf);
    EXPECT_TRUE(lies(p, v, Layout::row_major));
  }
}

TEST(Layout, ABackendThatDoesNotAliasViewsGetsThemAsSteps) {
  Graph g;
  Builder b(g);
  g.outputs = {b.unary(Op::exp, b.transpose(tensor(b, {4, 6}), {1, 0}))};
  const PlacedGraph p = layout(g, backend("ref"));
  EXPECT_EQ(copies(p), 0);
  for (const Node& n : p.graph.nodes) EXPECT_EQ(p.is_step(n), info(n.op).kind != OpKind::leaf) << name(n.op);
}

// Every step has the operands that it wants, and every conversion was asked for: its reader wants another layout than
// the one that is there, or it is a result of the graph.
TEST(Layout, RandomGraphsHaveEveryWishMetAndNoConversionTooMany) {
  const Backend& device = backend(fusing_backend());
  int converted = 0, kept = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(cat("seed ", 8000 + seed));
    RandomGraphOptions options;
    options.nodes = 40;
    const RandomProgram program = random_program(8000 + seed, options);
    const Graph g = passes::simplify(passes::decompose(passes::dead_code(program.graph), &device));
    const PlacedGraph p = layout(g, device);
    verify(p.graph, "layout");
    ByValue<bool> result(p.graph);
    for (Value v : p.graph.results()) result[v] = true;
    ByValue<std::vector<Value>> made(p.graph);  // conversions of a value
    for (const Node& n : p.graph.nodes) {
      for (Value v : n.outputs) ASSERT_TRUE(within_root(p, v)) << "%" << v.id << "\n" << print(p.graph);
      if (n.op == Op::copy && !result[n.out()]) {
        ++converted;
        const Shape& s = p.graph.type(n.out()).shape;
        ASSERT_FALSE(same_layout(s, p.place(n.in(0)).layout, p.place(n.out()).layout)) << print(p.graph);
        for (Value other : made[n.in(0)]) {
          ASSERT_FALSE(same_layout(s, p.place(other).layout, p.place(n.out()).layout)) << "twice\n" << print(p.graph);
        }
        made[n.in(0)].push_back(n.out());
      }
      const OpKind kind = info(n.op).kind;
      if (kind != OpKind::convolve && kind != OpKind::pool && kind != OpKind::contract) continue;
      std::vector<Layout> given;
      for (Value v : n.inputs) given.push_back(p.place(v).layout);
      const LayoutPlan plan = device.layouts(p.graph, n, given);
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        ASSERT_TRUE(same_layout(p.graph.type(n.inputs[i]).shape, given[i], plan.in[i])) << name(n.op) << " " << i;
        kept += mixed(p.graph.type(n.inputs[i]).shape) && p.graph.def(n.inputs[i]).op != Op::copy;
      }
    }
    std::vector<Array> before = program.states, after = program.states;
    const std::vector<Array> want = interpret(g, program.inputs, before);
    const std::vector<Array> got = interpret(p.graph, program.inputs, after);
    for (size_t i = 0; i < want.size(); ++i) ASSERT_TRUE(close(got[i], want[i], 0)) << i;
    for (size_t i = 0; i < before.size(); ++i) ASSERT_TRUE(close(after[i], before[i], 0)) << i;
  }
  EXPECT_GT(converted, 60);
  EXPECT_GT(kept, 60);
}

}  // namespace
}  // namespace freight::test
