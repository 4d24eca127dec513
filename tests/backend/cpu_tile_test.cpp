// Fused regions on the CPU backend against the reference backend, larger than one tile and one task: layouts,
// broadcasts, reductions over any axes, in-place results, equal bits for any number of threads.
#include <omp.h>

#include <cstring>
#include <limits>

#include "freight/backend/backend.h"
#include "freight/backend/region.h"
#include "freight/base/strings.h"
#include "freight/ir/builder.h"
#include "tests/support/arrays.h"

namespace freight::test {
namespace {

// A node with its operands' layouts, run by one backend on given inputs (in memory order of their layouts).
struct Step {
  Graph graph;
  std::vector<Layout> in, out;

  Step(std::shared_ptr<const Graph> body, bool channels_last) {
    std::vector<Value> inputs;
    for (Value v : body->leaves(Op::input))
      inputs.push_back(graph.add(Op::input, LeafAttrs{"x", body->type(v)}, {})[0]);
    graph.outputs = graph.add(Op::fused, FusedAttrs{body}, inputs);
    const auto layout = [&](Value v) {
      const Shape& s = graph.type(v).shape;
      return channels_last ? Layout::channels_last(s) : Layout::row_major(s);
    };
    for (Value v : inputs) in.push_back(layout(v));
    for (Value v : graph.outputs) out.push_back(layout(v));
  }

  std::vector<Array> run(const std::string& name, const std::vector<Array>& inputs, int overwritten_input = -1) const {
    const Node& node = graph.def(graph.outputs[0]);
    StepSpec spec{&graph, &node, {}, {}, true, false};
    for (size_t i = 0; i < in.size(); ++i) spec.in.push_back({graph.type(node.inputs[i]), in[i]});
    for (size_t i = 0; i < out.size(); ++i) spec.out.push_back({graph.type(node.outputs[i]), out[i]});
    const auto kernel = backend(name).prepare(spec);
    std::vector<Array> given, results;
    std::vector<void*> operands;
    for (const Array& a : inputs) {
      given.push_back(a.clone());
      operands.push_back(given.back().raw());
    }
    for (size_t i = 0; i < out.size(); ++i) {
      const Type& t = graph.type(node.outputs[i]);
      results.push_back(i == 0 && overwritten_input >= 0 ? given[static_cast<size_t>(overwritten_input)]
                                                         : Array(t.dtype, t.shape));
      operands.push_back(results.back().raw());
    }
    Array scratch(DType::u8, {static_cast<int64_t>(kernel->scratch_bytes()) + 64});
    operands.push_back(scratch.raw());
    kernel->run(operands.data());
    return results;
  }
};

void expect_equal_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(std::memcmp(a[i].raw(), b[i].raw(), a[i].bytes()), 0) << "output " << i;
}

// Runs the body on cpu and ref in both layouts, and on cpu with one and two threads.
void check(const std::shared_ptr<Graph>& body, double tolerance, bool in_place = false) {
  std::vector<Array> inputs;
  uint64_t seed = 1;
  for (Value v : body->leaves(Op::input)) {
    const Type& t = body->type(v);
    if (t.dtype == DType::i64) {
      Array key(DType::i64, t.shape);
      for (int64_t i = 0; i < t.numel(); ++i) key.data<int64_t>()[i] = i % 7;
      inputs.push_back(key);
    } else {
      inputs.push_back(random_array({t, Fill::unit}, seed++));
    }
  }
  for (bool channels_last : {false, true}) {
    SCOPED_TRACE(channels_last ? "channels-last" : "row-major");
    const Step step(body, channels_last);
    const std::vector<Array> expected = step.run("ref", inputs), got = step.run("cpu", inputs);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(close(got[i], expected[i], tolerance)) << "output " << i << "\n" << print(*body);
    if (in_place) expect_equal_bits(step.run("cpu", inputs, 0), got);
    const int threads = omp_get_max_threads();
    for (int n : {1, 2, 3}) {
      omp_set_num_threads(n);
      expect_equal_bits(step.run("cpu", inputs), got);
    }
    omp_set_num_threads(threads);
  }
}

struct Body {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Builder b{*graph};
  Ex input(const Shape& shape, DType dtype = DType::f32) {
    return {&b, b.one(Op::input, LeafAttrs{"x", {dtype, shape}}, {})};
  }
  Ex spread(Ex x, const Shape& shape) { return {&b, b.broadcast(x.v, shape)}; }
  Ex reduce(Op op, Ex x, const Shape& axes) { return {&b, b.one(op, AxesAttrs{axes}, {x.v})}; }
  void returns(const std::vector<Ex>& values) {
    for (Ex v : values) graph->outputs.push_back(v.v);
  }
};

const Shape kShapes[] = {{1, 1, 1, 1},    {7, 1, 1, 5},    {65, 17, 3, 1},  {3, 5, 40, 31},
                         {2, 48, 23, 31}, {2, 2100, 2, 2}, {20000, 1, 1, 2}};

TEST(CpuTile, PointwiseRegionsWithBroadcastOperandsAgreeWithTheReference) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(to_string(s));
    Body k;
    const Ex x = k.input(s), scale = k.spread(k.input({1, s[1], 1, 1}), s),
             per_row = k.spread(k.input({s[0], 1, 1, 1}), s);
    const Ex one = k.spread(k.input({1, 1, 1, 1}), s), map = k.spread(k.input({1, 1, s[2], s[3]}), s);
    const Ex y = apply(Op::relu, (x - one) * scale * (scale + 2.0) + per_row) - map * x;
    k.returns({y, select(x > 0.0, y, scale)});
    check(k.graph, 1e-5, true);
  }
}

TEST(CpuTile, ElementTypesMixAsInTheReference) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(to_string(s));
    Body k;
    const Ex x = k.input(s, DType::bf16), label = k.spread(k.input({s[0], 1, 1, 1}, DType::i64), s);
    const Ex iota{&k.b, k.b.one(Op::iota, IotaAttrs{s, 1, DType::i64}, {})};
    const Ex hit{&k.b, k.b.binary(Op::eq, label.v, iota.v)};
    const Ex wide{&k.b, k.b.cast(x.v, DType::f64)}, number{&k.b, k.b.cast(label.v, DType::f32)};
    k.returns({select(hit, x, -x), hit, wide * wide + 1.0, number * 0.5, label * iota + iota});
    check(k.graph, 1e-2);
  }
}

TEST(CpuTile, ReductionsOverAnyAxesAgreeWithTheReference) {
  const Shape axes[] = {{0}, {1}, {3}, {0, 1}, {0, 2, 3}, {1, 2, 3}, {2, 3}, {1, 3}, {0, 2}, {0, 1, 2, 3}};
  for (const Shape& s : kShapes) {
    for (const Shape& a : axes) {
      SCOPED_TRACE(to_string(s) + to_string(a));
      Body k;
      const Ex x = k.input(s), scale = k.spread(k.input({1, s[1], 1, 1}), s);
      const Ex y = x * scale + 0.5;
      k.returns({y, k.reduce(Op::sum, y, a), k.reduce(Op::reduce_max, x, a), k.reduce(Op::sum, y * y, a),
                 k.reduce(Op::reduce_min, y, a)});
      check(k.graph, 3e-6);
      Body integers;
      const Ex i = integers.input(s, DType::i64);
      integers.returns({integers.reduce(Op::sum, i, a), integers.reduce(Op::reduce_max, i, a)});
      check(integers.graph, 0);
    }
  }
}

TEST(CpuTile, ReductionsThatAreReadInsideAgreeWithTheReference) {
  const Shape axes[] = {{1}, {3}, {2, 3}, {0, 2, 3}, {1, 2, 3}};
  for (const Shape& s : kShapes) {
    for (const Shape& a : axes) {
      SCOPED_TRACE(to_string(s) + to_string(a));
      Body k;
      const Ex x = k.input(s);
      const Ex e = apply(Op::exp, x - k.spread(k.reduce(Op::reduce_max, x, a), s));
      const Ex total = k.reduce(Op::sum, e, a);
      k.returns({e / k.spread(total, s), apply(Op::log, total), total});
      check(k.graph, 1e-5);
    }
  }
}

// A row of 256 elements or more is a tile by itself, in which what is one number per row or per column is read as such.
TEST(CpuTile, NormalizedRowsAndTheirGradientsAgreeWithTheReference) {
  const Shape shapes[] = {{1, 256}, {37, 256}, {3, 300}, {50, 384}, {7, 1001}, {300, 513}, {2, 5000}};
  for (const Shape& s : shapes) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(cat(s, " ", to_string(dtype)));
      Body k;
      const auto widened = [&](const Shape& shape) { return Ex{&k.b, k.b.cast(k.input(shape, dtype).v, DType::f32)}; };
      const auto narrowed = [&](Ex x) { return Ex{&k.b, k.b.cast(x.v, dtype)}; };
      const auto mean = [&](Ex x) { return k.reduce(Op::sum, x, {1}) * (1.0 / static_cast<double>(s[1])); };
      const Ex x = widened(s) + k.input(s), g = widened(s), per_row = k.input({s[0], 1});
      const Ex gamma = k.spread(widened({1, s[1]}), s), beta = k.spread(k.input({1, s[1]}), s);
      const Ex centered = x - k.spread(mean(x), s);
      const Ex root = apply(Op::rsqrt, mean(apply(Op::square, centered)) + 1e-5);
      const Ex normed = centered * k.spread(root, s), h = g * gamma;
      const Ex dx = k.spread(root, s) * (h - k.spread(mean(h), s) - normed * k.spread(mean(h * normed), s));
      // Steps of other types, which are no links: a label per row against the number of a column.
      const Ex label = k.spread(k.input({s[0], 1}, DType::i64), s);
      const Ex column{&k.b, k.b.one(Op::iota, IotaAttrs{s, 1, DType::i64}, {})};
      const Ex hit{&k.b, k.b.binary(Op::eq, label.v, column.v)};
      k.returns({x, root, narrowed(normed * gamma + beta), dx + k.spread(per_row, s), select(hit, dx, 0.0),
                 k.spread(root, s) + k.spread(per_row, s)});
      check(k.graph, dtype == DType::f32 ? 2e-5 : 1e-2);
    }
  }
}

// Labels are compared with numbers of columns in f32, in which neither -1 nor a large integer becomes one of these.
TEST(CpuTile, ALabelMeetsNoOtherColumnThanItsOwn) {
  for (const int64_t width : {5, 300}) {
    Body k;
    const Shape s{6, width};
    const Ex label = k.spread(k.input({6, 1}, DType::i64), s), x = k.input(s);
    const Ex column{&k.b, k.b.one(Op::iota, IotaAttrs{s, 1, DType::i64}, {})};
    const Ex hit{&k.b, k.b.binary(Op::eq, label.v, column.v)};
    k.returns({select(hit, x, 0.0), k.reduce(Op::sum, select(hit, x, 0.0), {1})});
    const Step step(k.graph, false);
    const std::vector<Array> inputs = {
        Array::of<int64_t>({0, width - 1, -1, width, (int64_t{1} << 24) + 1, int64_t{1} << 32}, {6, 1}),
        random_array({{DType::f32, s}, Fill::unit}, 1)};
    expect_equal_bits(step.run("cpu", inputs), step.run("ref", inputs));
  }
}

// What the gradient of a normalization behind a relu is made of: masks that are tested, stored or made from memory, and
// sums of products. The product, the masks and the condition are read again, or not.
TEST(CpuTile, MasksAndSumsOfProductsAgreeWithTheReference) {
  for (const Shape& s : kShapes) {
    for (bool read_again : {false, true}) {
      SCOPED_TRACE(to_string(s) + (read_again ? " read again" : ""));
      Body k;
      const Ex x = k.input(s), g = k.input(s), scale = k.spread(k.input({1, s[1], 1, 1}), s);
      const Ex stored = k.input(s, DType::boolean);
      const Ex y = apply(Op::relu, x * scale + 0.25), mask = y > 0.0, zero = g * 0.0;
      const Ex kept = select(mask, g, 0.0), also = select(stored, g, 0.0), product = kept * x, scaled = scale * also;
      k.returns({kept, k.reduce(Op::sum, kept, {0, 2, 3}), k.reduce(Op::sum, product, {0, 2, 3}),
                 k.reduce(Op::sum, scaled, {0, 2, 3}), k.reduce(Op::sum, also * 2.0, {0, 2, 3}),
                 select(y > -0.5, g, 0.0), select(stored, zero, g)});
      if (read_again) k.returns({product, y, mask, also});
      check(k.graph, 3e-6, true);
    }
  }
}

TEST(CpuTile, MasksOfSpecialValuesAreThoseOfTheReference) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  Body k;
  const Ex x = k.input({8}), g = k.input({8});
  k.returns({select(apply(Op::relu, x) > 0.0, g, 0.0), select(x > 0.0, g, 0.0)});
  const Step step(k.graph, false);
  const std::vector<Array> inputs = {Array::of<float>({kNan, kInf, -kInf, 0.0f, -0.0f, 1.0f, -1.0f, 2.0f}, {8}),
                                     Array::of<float>({1, 2, kNan, 4, kInf, -0.0f, 7, kNan}, {8})};
  expect_equal_bits(step.run("cpu", inputs), step.run("ref", inputs));
}

TEST(CpuTile, AConditionThatIsOneElementChoosesForTheWholeRegion) {
  for (const Shape& s : kShapes) {
    Body k;
    const Ex p = k.input(s), m = k.input(s), g = k.input(s);
    const Ex sound = k.spread(k.input({1, 1, 1, 1}, DType::boolean), s);
    const Ex next_m = m * 0.9 + g, next_p = p - next_m * 0.1;
    k.returns(
        {select(sound, next_p, p), select(sound, next_m, m), select(sound, Ex{&k.b, k.b.constant_like(2, p.v)}, g)});
    std::vector<Array> inputs;
    for (uint64_t seed = 1; seed <= 3; ++seed) inputs.push_back(random_array({{DType::f32, s}, Fill::unit}, seed));
    for (const float holds : {0.0f, 1.0f}) {
      inputs.resize(3);
      inputs.push_back(Array::of<float>({holds}, {1, 1, 1, 1}).cast(DType::boolean));
      for (const bool channels_last : {false, true}) {
        SCOPED_TRACE(cat(s, channels_last ? " channels-last, " : " row-major, ", holds));
        const Step step(k.graph, channels_last);
        const std::vector<Array> expected = step.run("ref", inputs), got = step.run("cpu", inputs);
        for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], expected[i], 1e-6)) << "output " << i;
        expect_equal_bits(step.run("cpu", inputs, 0), got);
      }
    }
  }
}

// The gradient of a bias behind a concatenation: the part of a tensor, whose pixels are further apart than it has
// channels. Walked over in its own order, its rows are those of memory.
TEST(CpuTile, PartsOfATensorAreReducedInTheirOwnOrder) {
  const Shape part{3, 24, 5, 7}, whole{3, 56, 5, 7};
  for (const Shape& axes : {Shape{0, 2, 3}, Shape{1}, Shape{2, 3}, Shape{0, 1, 2, 3}}) {
    SCOPED_TRACE(to_string(axes));
    Body k;
    k.returns({k.reduce(Op::sum, k.input(part), axes)});
    for (const bool channels_last : {true, false}) {
      Step step(k.graph, channels_last);
      step.in[0] = channels_last ? Layout::channels_last(whole) : Layout::row_major(whole);
      const std::vector<Array> inputs{random_array({{DType::f32, whole}, Fill::unit}, 1)};
      EXPECT_TRUE(close(step.run("cpu", inputs)[0], step.run("ref", inputs)[0], 3e-6));
      const Node& node = step.graph.def(step.graph.outputs[0]);
      StepSpec spec{&step.graph, &node, {}, {}, true, false};
      spec.in.push_back({step.graph.type(node.inputs[0]), step.in[0]});
      spec.out.push_back({step.graph.type(node.outputs[0]), step.out[0]});
      const std::vector<int> order = channels_last ? std::vector<int>{0, 2, 3, 1} : std::vector<int>{0, 1, 2, 3};
      EXPECT_EQ(analyze_region(spec).order, order);
    }
  }
}

TEST(CpuTile, DrawsAreThoseOfTheReferenceInEveryLayout) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(to_string(s));
    Body k;
    const Ex key = k.input({2}, DType::i64);
    k.returns({{&k.b, k.b.one(Op::random_uniform, RandomAttrs{s, 3}, {key.v})}});
    const Step step(k.graph, false);
    const Array seeds = Array::of<int64_t>({77, 5}, {2});
    expect_equal_bits(step.run("cpu", {seeds}), step.run("ref", {seeds}));
    const Step last(k.graph, true);
    expect_equal_bits(last.run("cpu", {seeds}), last.run("ref", {seeds}));
  }
}

TEST(CpuTile, AReductionOfOneElementIsThatElementHoweverLongTheRegionIs) {
  Body k;
  const Ex one = k.reduce(Op::sum, k.input({1, 4, 3, 2}), {0});
  const Ex y = k.spread(one, {5, 4, 3, 2}) + k.input({5, 4, 3, 2});
  k.returns({y, k.reduce(Op::sum, y, {0})});
  check(k.graph, 1e-5);
}

TEST(CpuTile, LongSumsKeepSixDigits) {
  Body k;
  const Ex x = k.input({3000, 1000});
  k.returns({k.reduce(Op::sum, x, {0, 1}), k.reduce(Op::sum, x, {0}), k.reduce(Op::sum, x, {1})});
  const Step step(k.graph, false);
  Array a(DType::f32, {3000, 1000});
  for (int64_t i = 0; i < a.numel(); ++i) a.data<float>()[i] = 0.1f + 1e-3f * static_cast<float>(i % 97);
  const auto expected = step.run("ref", {a}), got = step.run("cpu", {a});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], expected[i], 1e-6)) << i;
}

}  // namespace
}  // namespace freight::test
