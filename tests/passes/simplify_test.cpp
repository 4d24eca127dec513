// Each rewrite of simplify on the smallest graph that has it: which nodes are left, and that the value is the same; and
// what looks alike but must stay.
#include <cmath>
#include <functional>
#include <limits>

#include "freight/base/strings.h"
#include "tests/support/graphs.h"

namespace freight::test {
namespace {

using Make = std::function<Ex(Builder& b, Ex x, Ex y)>;  // of x f32[4,6] and y f32[4,6]

struct Rewrite {
  const char* name;
  Make make;
  const char* left;  // the ops that are left, leaves apart, in order: "neg add"; splats as "constant"
};
void PrintTo(const Rewrite& r, std::ostream* out) { *out << r.name; }

Ex shaped(Builder& b, Ex x, Op op, const Attrs& a) { return {&b, b.one(op, a, {x.v})}; }
Ex narrow(Builder& b, Ex x, int64_t from, int64_t to) {
  return {&b, b.slice(x.v, {0, from}, {x.shape()[0], to}, {1, 1})};
}
// The part with `low` zeros before it and `high` behind it along axis 1.
Ex padded(Builder& b, Ex x, int64_t low, int64_t high, double value = 0, int64_t interior = 0) {
  return {&b, b.pad(x.v, {0, low}, {0, high}, {0, interior}, value)};
}
Ex number(Builder& b, double value, const Shape& shape = {4, 6}) {
  return {&b, b.constant(value, {DType::f32, shape})};
}
Ex turned(Builder& b, Ex x) { return {&b, b.transpose(x.v, {1, 0})}; }

// `to` where x compares so with `bound`, else x.
Ex clip(Builder& b, Op comparison, Ex x, double bound, double to) {
  return {&b, b.where(b.binary(comparison, x.v, number(b, bound).v), number(b, to).v, x.v)};
}

const Rewrite kRewrites[] = {
    // Numbers.
    {"neg_of_a_number", [](Builder& b, Ex x, Ex) { return x * -number(b, 3); }, "constant mul"},
    {"square_of_a_number", [](Builder& b, Ex x, Ex) { return x * apply(Op::square, number(b, 3)); }, "constant mul"},
    {"sqrt_of_a_number", [](Builder& b, Ex x, Ex) { return x * apply(Op::sqrt, number(b, 3)); }, "constant mul"},
    {"rsqrt_of_a_number", [](Builder& b, Ex x, Ex) { return x * apply(Op::rsqrt, number(b, 3)); }, "constant mul"},
    {"reciprocal_of_a_number", [](Builder& b, Ex x, Ex) { return x * apply(Op::reciprocal, number(b, 3)); },
     "constant mul"},
    {"exp_of_a_number", [](Builder& b, Ex x, Ex) { return x * apply(Op::exp, number(b, 3)); }, "constant mul"},
    {"log_of_a_number", [](Builder& b, Ex x, Ex) { return x * apply(Op::log, number(b, 3)); }, "constant mul"},
    {"sum_of_numbers", [](Builder& b, Ex x, Ex) { return x * (number(b, 3) + number(b, 4)); }, "constant mul"},
    {"difference_of_numbers", [](Builder& b, Ex x, Ex) { return x * (number(b, 3) - number(b, 4)); }, "constant mul"},
    {"product_of_numbers", [](Builder& b, Ex x, Ex) { return x * (number(b, 3) * number(b, 4)); }, "constant mul"},
    {"quotient_of_numbers", [](Builder& b, Ex x, Ex) { return x * (number(b, 3) / number(b, 4)); }, "constant mul"},
    {"numbers_in_a_row", [](Builder& b, Ex x, Ex) { return x * ((number(b, 3) + 1.0) * 2.0 - 0.5); }, "constant mul"},
    {"cast_of_a_number",
     [](Builder& b, Ex x, Ex) {
       return x * Ex{&b, b.cast(b.constant(3, {DType::f64, {4, 6}}), DType::f32)};
     },
     "constant mul"},
    {"view_of_a_number",
     [](Builder& b, Ex x, Ex) {
       return x * shaped(b, number(b, 2, {1, 6}), Op::broadcast, ShapeAttrs{{4, 6}});
     },
     "constant mul"},
    {"sum_over_a_number",
     [](Builder& b, Ex x, Ex) {
       return x * Ex{&b, b.broadcast(b.sum(number(b, 0.5).v, {0}), {4, 6})};
     },
     "constant mul"},
    // Neutral elements, either way round.
    {"plus_0", [](Builder&, Ex x, Ex) { return -(x + 0.0); }, "neg"},
    {"0_plus", [](Builder& b, Ex x, Ex) { return -(number(b, 0) + x); }, "neg"},
    {"minus_0", [](Builder&, Ex x, Ex) { return -(x - 0.0); }, "neg"},
    {"times_1", [](Builder&, Ex x, Ex) { return -(x * 1.0); }, "neg"},
    {"1_times", [](Builder& b, Ex x, Ex) { return -(number(b, 1) * x); }, "neg"},
    {"by_1", [](Builder&, Ex x, Ex) { return -(x / 1.0); }, "neg"},
    {"neg_of_neg", [](Builder&, Ex x, Ex y) { return -(-x) + y; }, "add"},
    {"where_of_equals", [](Builder&, Ex x, Ex y) { return -select(x > y, x, x); }, "neg"},
    {"cast_to_its_own_type", [](Builder& b, Ex x, Ex) { return -shaped(b, x, Op::cast, CastAttrs{DType::f32}); },
     "neg"},
    {"copy", [](Builder& b, Ex x, Ex) { return -shaped(b, x, Op::copy, NoAttrs{}); }, "neg"},
    {"stop_gradient", [](Builder& b, Ex x, Ex) { return -shaped(b, x, Op::stop_gradient, NoAttrs{}); }, "neg"},
    {"pad_by_nothing", [](Builder& b, Ex x, Ex) { return -padded(b, x, 0, 0); }, "neg"},
    {"concat_of_one", [](Builder& b, Ex x, Ex) { return -shaped(b, x, Op::concat, AxisAttrs{1}); }, "neg"},
    {"sum_over_no_axis", [](Builder& b, Ex x, Ex) { return -shaped(b, x, Op::sum, AxesAttrs{{}}); }, "neg"},
    {"maximum_over_no_axis", [](Builder& b, Ex x, Ex) { return -shaped(b, x, Op::reduce_max, AxesAttrs{{}}); }, "neg"},
    {"minimum_over_no_axis", [](Builder& b, Ex x, Ex) { return -shaped(b, x, Op::reduce_min, AxesAttrs{{}}); }, "neg"},
    // Views.
    {"reshape_of_reshape",
     [](Builder& b, Ex x, Ex) {
       return Ex{&b, b.reshape(b.reshape(x.v, {24}), {2, 12})};
     },
     "reshape"},
    {"reshape_and_back",
     [](Builder& b, Ex x, Ex) {
       return -Ex{&b, b.reshape(b.reshape(x.v, {24}), {4, 6})};
     },
     "neg"},
    {"broadcast_of_broadcast",
     [](Builder& b, Ex x, Ex) {
       return Ex{&b, b.broadcast(b.broadcast(b.reshape(x.v, {4, 6, 1, 1}), {4, 6, 2, 1}), {4, 6, 2, 3})};
     },
     "reshape broadcast"},
    {"transpose_and_back", [](Builder& b, Ex x, Ex) { return -turned(b, turned(b, x)); }, "neg"},
    {"transpose_of_transpose",
     [](Builder& b, Ex x, Ex) {
       return Ex{&b, b.transpose(b.transpose(b.reshape(x.v, {2, 3, 4}), {1, 2, 0}), {1, 2, 0})};
     },
     "reshape transpose"},
    {"transpose_by_nothing",
     [](Builder& b, Ex x, Ex) {
       return -Ex{&b, b.transpose(x.v, {0, 1})};
     },
     "neg"},
    {"slice_of_all", [](Builder& b, Ex x, Ex) { return -narrow(b, x, 0, 6); }, "neg"},
    {"part_of_a_sum", [](Builder& b, Ex x, Ex y) { return -narrow(b, x + y, 2, 4); }, "slice slice add neg"},
    // Transposes of matmuls.
    {"transposed_left",
     [](Builder& b, Ex x, Ex y) {
       return Ex{&b, b.matmul(turned(b, x).v, y.v)};
     },
     "matmul"},
    {"transposed_right",
     [](Builder& b, Ex x, Ex y) {
       return Ex{&b, b.matmul(x.v, turned(b, y).v)};
     },
     "matmul"},
    {"transposed_twice",
     [](Builder& b, Ex x, Ex y) {
       return Ex{&b, b.matmul(turned(b, x).v, y.v, true, true)};
     },
     "matmul"},
    {"transposed_in_a_batch",
     [](Builder& b, Ex x, Ex y) {
       const Value l = b.reshape(x.v, {2, 3, 4}), r = b.reshape(y.v, {2, 3, 4});
       return Ex{&b, b.matmul(b.transpose(l, {0, 2, 1}), r)};
     },
     "reshape reshape matmul"},
    // Clips.
    {"clip_above", [](Builder& b, Ex x, Ex) { return clip(b, Op::ge, x, 1, 1); }, "constant minimum"},
    {"clip_above_at_more", [](Builder& b, Ex x, Ex) { return clip(b, Op::gt, x, 1, 1); }, "constant minimum"},
    {"clip_below", [](Builder& b, Ex x, Ex) { return clip(b, Op::le, x, 1, 1); }, "constant maximum"},
    {"clip_below_at_less", [](Builder& b, Ex x, Ex) { return clip(b, Op::lt, x, 1, 1); }, "constant maximum"},
    // Transposes of triangles.
    {"transposed_triangle",
     [](Builder& b, Ex x, Ex y) {
       const Ex square = narrow(b, x, 0, 4);
       return Ex{&b, b.one(Op::solve_triangular, TriangularAttrs{.unit_diagonal = true}, {turned(b, square).v, y.v})};
     },
     "slice solve_triangular"},
    {"transposed_triangle_on_the_right",
     [](Builder& b, Ex x, Ex y) {
       const Ex square = narrow(b, x, 0, 4), right = narrow(b, y, 0, 4);
       return Ex{&b, b.one(Op::solve_triangular,
                           TriangularAttrs{.upper = true, .transposed = true, .unit_diagonal = true, .right = true},
                           {turned(b, square).v, right.v})};
     },
     "slice slice solve_triangular"},
    // Equal nodes.
    {"equal_nodes", [](Builder&, Ex x, Ex y) { return apply(Op::exp, x) * y + apply(Op::exp, x) * y; }, "exp mul add"},
    {"equal_behind_a_rewrite", [](Builder&, Ex x, Ex y) { return (x + 0.0) * y + x * y; }, "mul add"},
    // Gradients of slices.
    {"pads_side_by_side", [](Builder& b, Ex x, Ex y) { return padded(b, x, 0, 6) + padded(b, y, 6, 0); }, "concat"},
    {"pads_the_other_way_round", [](Builder& b, Ex x, Ex y) { return padded(b, y, 6, 0) + padded(b, x, 0, 6); },
     "concat"},
    {"pads_with_zeros_around", [](Builder& b, Ex x, Ex y) { return padded(b, x, 1, 8) + padded(b, y, 7, 2); },
     "concat pad"},
    {"three_pads_in_any_order",
     [](Builder& b, Ex x, Ex y) {
       return padded(b, x, 0, 12) + padded(b, apply(Op::exp, x), 12, 0) + padded(b, y, 6, 6);
     },
     "exp concat"},

    // ---- What must stay ----
    {"clip_to_another_number", [](Builder& b, Ex x, Ex) { return clip(b, Op::ge, x, 1, 2); },
     "constant constant ge where"},
    {"clip_at_0_may_change_a_sign", [](Builder& b, Ex x, Ex) { return clip(b, Op::le, x, 0, 0); },
     "constant le where"},
    {"times_0_may_be_nan", [](Builder&, Ex x, Ex) { return x * 0.0; }, "constant mul"},
    {"minus_itself_may_be_nan", [](Builder&, Ex x, Ex) { return x - x; }, "sub"},
    {"0_minus", [](Builder& b, Ex x, Ex) { return number(b, 0) - x; }, "constant sub"},
    {"1_by", [](Builder& b, Ex x, Ex) { return number(b, 1) / x; }, "constant div"},
    {"quotient_by_itself_may_be_nan", [](Builder&, Ex x, Ex) { return x / x; }, "div"},
    {"exp_of_log", [](Builder&, Ex x, Ex) { return apply(Op::exp, apply(Op::log, x)); }, "log exp"},
    {"operands_swapped", [](Builder&, Ex x, Ex y) { return (x - y) * (y - x); }, "sub sub mul"},
    {"cast_there_and_back_rounds",
     [](Builder& b, Ex x, Ex) {
       return Ex{&b, b.cast(b.cast(x.v, DType::bf16), DType::f32)};
     },
     "cast cast"},
    {"broadcast_of_reshape",
     [](Builder& b, Ex x, Ex) {
       return Ex{&b, b.broadcast(b.reshape(x.v, {4, 6, 1}), {4, 6, 2})};
     },
     "reshape broadcast"},
    {"reshape_of_transpose",
     [](Builder& b, Ex x, Ex) {
       return Ex{&b, b.reshape(turned(b, x).v, {4, 6})};
     },
     "transpose reshape"},
    {"slice_of_a_part", [](Builder& b, Ex x, Ex) { return narrow(b, x, 1, 6); }, "slice"},
    {"part_of_a_sum_that_is_read_whole",
     [](Builder& b, Ex x, Ex y) {
       const Ex s = x + y;
       return narrow(b, s, 2, 4) * narrow(b, s * s, 2, 4);
     },
     "add mul slice slice mul"},
    {"part_of_a_sum_with_a_bias",
     [](Builder& b, Ex x, Ex y) {
       return narrow(b, x + Ex{&b, b.broadcast(b.sum(y.v, {0}), {4, 6})}, 2, 4);
     },
     "sum broadcast add slice"},
    {"matmul_with_the_batch_turned",
     [](Builder& b, Ex x, Ex y) {
       const Value l = b.reshape(x.v, {2, 3, 4}), r = b.reshape(y.v, {3, 4, 2});
       return Ex{&b, b.matmul(b.transpose(l, {1, 0, 2}), r)};
     },
     "reshape reshape transpose matmul"},
    {"pads_with_a_gap", [](Builder& b, Ex x, Ex y) { return padded(b, x, 0, 7) + padded(b, y, 7, 0); }, "pad pad add"},
    {"pads_that_overlap", [](Builder& b, Ex x, Ex y) { return padded(b, x, 0, 5) + padded(b, y, 5, 0); },
     "pad pad add"},
    {"pads_with_another_number", [](Builder& b, Ex x, Ex y) { return padded(b, x, 0, 6, 1) + padded(b, y, 6, 0, 1); },
     "pad pad add"},
    {"pads_with_gaps_inside",
     [](Builder& b, Ex x, Ex y) { return padded(b, x, 0, 11, 0, 1) + padded(b, y, 11, 0, 0, 1); }, "pad pad add"},
    {"differences_of_pads", [](Builder& b, Ex x, Ex y) { return padded(b, x, 0, 6) - padded(b, y, 6, 0); },
     "pad pad sub"},
};

struct TwoInputs {
  Graph g;
  Builder b{g};
  Ex x{&b, b.one(Op::input, LeafAttrs{"x", {DType::f32, {4, 6}}}, {})};
  Ex y{&b, b.one(Op::input, LeafAttrs{"y", {DType::f32, {4, 6}}}, {})};
};

std::string ops_left(const Graph& g) {
  std::vector<std::string> ops;
  for (const Node& n : g.nodes) {
    if (n.op != Op::input && n.op != Op::state) ops.emplace_back(name(n.op));
  }
  return join(ops, " ");
}

class SimplifyRule : public testing::TestWithParam<Rewrite> {};

TEST_P(SimplifyRule, LeavesTheseNodesAndTheSameValue) {
  TwoInputs n;
  n.g.outputs = {GetParam().make(n.b, n.x, n.y).v};
  const Graph after = passes::simplify(n.g);
  verify(after, "simplify");
  EXPECT_EQ(ops_left(after), GetParam().left) << print(n.g) << print(after);
  EXPECT_EQ(after.leaves(Op::input).size(), 2u);  // the signature stays, whether they are read or not
  const std::vector<Array> in{random_array({{DType::f32, {4, 6}}, Fill::positive}, 1),
                              random_array({{DType::f32, {4, 6}}, Fill::normal}, 2)};
  EXPECT_TRUE(close(interpret(after, in)[0], interpret(n.g, in)[0], 1e-6)) << print(after);
  EXPECT_TRUE(structurally_equal(passes::simplify(after), after)) << "another walk finds more: " << print(after);
}
INSTANTIATE_TEST_SUITE_P(All, SimplifyRule, testing::ValuesIn(kRewrites),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(Simplify, InfinitiesAndNotANumberComeOutAsTheyWent) {
  TwoInputs n;
  n.g.outputs = {(n.x * 0.0).v, (n.x - n.x).v, (n.x / n.x).v, (n.x * 1.0 + 0.0).v, select(n.x > n.y, n.x, n.x).v};
  Array special(DType::f32, {4, 6});
  const float odd[] = {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN(), 0, 1e38f, -1};
  for (int64_t i = 0; i < special.numel(); ++i) special.data<float>()[i] = odd[i % 6];
  const std::vector<Array> in{special, random_array({{DType::f32, {4, 6}}, Fill::normal}, 2)};
  const std::vector<Array> want = interpret(n.g, in), got = interpret(passes::simplify(n.g), in);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 0)) << i;
}

TEST(Simplify, AClippedNotANumberStaysOne) {
  Graph g;
  Builder b(g);
  const Ex x{&b, b.one(Op::input, LeafAttrs{"x", {DType::f32, {4}}}, {})};
  g.outputs = {b.where(b.binary(Op::ge, x.v, b.constant_like(6, x.v)), b.constant_like(6, x.v), x.v),
               b.where(b.binary(Op::lt, x.v, b.constant_like(-6, x.v)), b.constant_like(-6, x.v), x.v)};
  const Graph after = passes::simplify(g);
  EXPECT_EQ(count(after, Op::minimum) + count(after, Op::maximum), 2) << print(after);
  Array in(DType::f32, {4});
  const float kValues[] = {NAN, INFINITY, -INFINITY, 6};
  std::copy(std::begin(kValues), std::end(kValues), in.data<float>());
  const std::vector<Array> out = interpret(after, {in});
  const std::vector<float> above = out[0].to_vector<float>(), below = out[1].to_vector<float>();
  EXPECT_TRUE(std::isnan(above[0]) && std::isnan(below[0]));
  EXPECT_EQ(std::vector<float>(above.begin() + 1, above.end()), (std::vector<float>{6, -INFINITY, 6}));
  EXPECT_EQ(std::vector<float>(below.begin() + 1, below.end()), (std::vector<float>{INFINITY, -6, 6}));
}

TEST(Simplify, IntegersAreNotComputedAsRealNumbers) {
  Graph g;
  Builder b(g);
  const auto whole = [&](double v) { return b.constant(v, {DType::i32, {3}}); };
  g.outputs = {b.binary(Op::div, whole(7), whole(2)), b.binary(Op::add, whole(2147483647), whole(1)),
               b.cast(b.constant(2.75, {DType::f32, {3}}), DType::i32)};
  const Graph after = passes::simplify(g);
  const std::vector<Array> want = interpret(g, {}), got = interpret(after, {});
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 0)) << i << print(after);
}

TEST(Simplify, LeavesOfOneTypeAndArraysOfOtherNumbersStayApart) {
  Graph g;
  Builder b(g);
  const Type t{DType::f32, {2}};
  const Value s = b.one(Op::state, LeafAttrs{"s", t}, {}), u = b.one(Op::state, LeafAttrs{"u", t}, {});
  const auto dense = [&](uint64_t seed) {
    return b.one(Op::constant, ConstantAttrs{t, 0, random_array({t, Fill::normal}, seed)}, {});
  };
  const Value p = dense(1), q = dense(2), again = dense(1);
  g.outputs = {b.binary(Op::add, s, p), b.binary(Op::add, u, q), b.binary(Op::mul, s, again)};
  const Graph after = passes::simplify(g);
  EXPECT_EQ(after.leaves(Op::state).size(), 2u);
  EXPECT_EQ(after.leaves(Op::constant).size(), 2u) << print(after);
}

TEST(Simplify, RandomDrawsAreEqualOnlyWhereStreamAndKeyAre) {
  Graph g;
  Builder b(g);
  const Value key = b.one(Op::input, LeafAttrs{"key", {DType::i64, {2}}}, {});
  const Value other = b.one(Op::input, LeafAttrs{"other", {DType::i64, {2}}}, {});
  const auto drawn = [&](int64_t stream, Value k) { return b.one(Op::random_uniform, RandomAttrs{{5}, stream}, {k}); };
  g.outputs = {drawn(1, key), drawn(2, key), drawn(1, other), b.unary(Op::neg, drawn(1, key))};
  EXPECT_EQ(ops_left(passes::simplify(g)), "random_uniform random_uniform random_uniform neg");
}

// Eight parts at most: more of them would compute the sum more than once.
TEST(Simplify, ASumThatIsReadInManyPartsIsComputedOnce) {
  for (const int parts : {8, 9}) {
    Graph g;
    Builder b(g);
    const Type t{DType::f32, {4, 90}};
    const Ex x{&b, b.one(Op::input, LeafAttrs{"x", t}, {})}, y{&b, b.one(Op::input, LeafAttrs{"y", t}, {})};
    const Ex sum = x + y;
    for (int i = 0; i < parts; ++i) g.outputs.push_back(b.unary(Op::tanh, narrow(b, sum, 10 * i, 10 * i + 10).v));
    int sums = 0;
    for (const Node& n : passes::simplify(g).nodes) sums += n.op == Op::add;
    EXPECT_EQ(sums, parts == 8 ? 8 : 1);
  }
}

}  // namespace
}  // namespace freight::test
