// Graphs: table order, text round trip, verification, structural identity, gradients as graphs.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <variant>

#include "freight/base/error.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"

namespace freight {
namespace {

Value input(Builder& b, const char* name, const Type& type) { return b.one(Op::input, LeafAttrs{name, type}, {}); }

// relu(x w^T + bias) summed, with one state update.
Graph small_graph() {
  Graph g;
  Builder b(g, "enc.fc1", "train.cpp:42");
  const Value x = input(b, "x", {DType::f32, {64, 784}});
  const Value w = b.one(Op::state, LeafAttrs{"w", {DType::f32, {128, 784}}}, {});
  const Value bias = b.one(Op::state, LeafAttrs{"b", {DType::f32, {128}}}, {});
  const Ex y{&b, b.matmul(x, w, false, true)};
  const Ex z = apply(Op::relu, y + Ex{&b, b.broadcast_axis(bias, 1, y.shape())});
  const Value loss = b.sum(z.v, {0, 1});
  g.outputs = {loss};
  g.updates = {{bias, (Ex{&b, bias} * 0.5 + 1e-3).v}};
  return g;
}

TEST(OpTable, EveryRowStandsAtItsEnumerator) {
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    EXPECT_EQ(static_cast<int>(row.op), i) << row.name;
    Op parsed;
    ASSERT_TRUE(parse_op(row.name, parsed));
    EXPECT_EQ(parsed, row.op);
    EXPECT_EQ(row.kind == OpKind::composite, row.decompose != nullptr) << row.name;
    const bool pointwise = row.kind == OpKind::unary || row.kind == OpKind::binary || row.kind == OpKind::ternary;
    EXPECT_EQ(pointwise, std::string_view(row.scalar) != "") << row.name;
  }
}

// Passes and backends tell the ops of these kinds apart one by one, and would take a new one for another.
TEST(OpTable, KindsWhoseOpsAreKnownOneByOneHoldTheseAlone) {
  const std::map<OpKind, std::set<std::string>> known = {
      {OpKind::leaf, {"input", "state", "constant"}},
      {OpKind::generator, {"iota", "random_uniform", "random_normal"}},
      {OpKind::view, {"reshape", "transpose", "broadcast", "slice"}},
      {OpKind::movement, {"copy", "offload", "fetch", "pad", "concat"}},
      {OpKind::reduce, {"sum", "reduce_max", "reduce_min"}},
      {OpKind::contract, {"matmul"}},
      {OpKind::convolve, {"conv", "conv_grad_input", "conv_grad_weight"}},
      {OpKind::collective, {"all_reduce"}},
      {OpKind::pool, {"max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad"}},
      {OpKind::fused, {"fused"}},
  };
  std::map<OpKind, std::set<std::string>> found;
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    if (known.count(row.kind)) found[row.kind].insert(row.name);
    const bool pointwise = row.kind == OpKind::unary || row.kind == OpKind::binary || row.kind == OpKind::ternary;
    EXPECT_TRUE(!pointwise || row.op == Op::cast || std::holds_alternative<NoAttrs>(row.attrs))
        << row.name << ": the scalar expression sees no attributes; docs/extend/op.md says what such an op is";
  }
  for (const auto& [kind, names] : known) EXPECT_EQ(found[kind], names) << "docs/extend/op.md says which kind is right";
}

TEST(GraphText, RoundTripKeepsStructureNamesAndScopes) {
  const Graph g = small_graph();
  verify(g);
  const Graph back = parse(print(g));
  verify(back);
  EXPECT_TRUE(structurally_equal(g, back));
  EXPECT_EQ(structural_hash(g), structural_hash(back));
  EXPECT_EQ(leaf_name(back, back.leaves(Op::input)[0]), "x");
  EXPECT_EQ(back.nodes[3].scope, "enc.fc1");
}

TEST(GraphText, AttributesOfAllKindsRoundTrip) {
  Graph body;
  Builder inner(body);
  const Value p = input(inner, "0", {DType::f32, {4, 6}});
  body.outputs = {inner.sum(inner.unary(Op::exp, p), {1})};
  Graph g;
  Builder b(g);
  const Value x = input(b, "x \"quoted\"", {DType::f32, {4, 6}});
  const Value i = b.one(Op::constant, ConstantAttrs{{DType::i64, {3}}, 0, Array::of<int64_t>({-1, 0, 5}, {3})}, {});
  const Value f = b.one(Op::constant, ConstantAttrs{{DType::f32, {2}}, 0, Array::of<float>({0.1f, 1e-30f}, {2})}, {});
  const Value image = input(b, "image", {DType::f32, {1, 2, 8, 8}});
  const auto pooled = b.add(Op::max_pool, PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {0, 0}, true, {}}, {image});
  const auto region = b.add(Op::fused, FusedAttrs{std::make_shared<const Graph>(body)}, {x});
  g.outputs = {i, f, pooled[0], pooled[1], region[0], b.pad(x, {0, 1}, {2, 0}, {1, 0}, -0.5)};
  const Graph back = parse(print(g));
  EXPECT_TRUE(structurally_equal(g, back)) << print(g) << print(back);
}

TEST(GraphText, ErrorsNameSourceAndLine) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse(text, "bug.graph");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message("graph {\n  %0 = inptu \"x\" : f32[2]\n}").find("unknown op `inptu` (bug.graph:2)"),
            std::string::npos);
  EXPECT_NE(message("graph {\n  %0 = input \"x\" : f32[2]\n  return %7\n}").find("%7 is not defined (bug.graph:3)"),
            std::string::npos);
  EXPECT_NE(message("graph {").find("bug.graph:1"), std::string::npos);
  EXPECT_NE(message("graph { %0 = neg(%0) : f32[2] }").find("not defined"), std::string::npos);
}

TEST(Infer, MatmulErrorNamesAxesScopeAndLine) {
  Graph g;
  Builder b(g, "enc.fc1", "train.cpp:42");
  const Value x = input(b, "x", {DType::f32, {64, 128}}), w = input(b, "w", {DType::f32, {256, 10}});
  try {
    b.matmul(x, w);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "matmul: inner dimensions differ: lhs f32[64,128] axis 1 = 128, rhs f32[256,10] axis 0 = 256 "
                 "(enc.fc1, train.cpp:42)");
    EXPECT_EQ(e.kind(), ErrorKind::usage);
  }
}

// Attributes come from files, too: what they add up to must be a number before it is compared with anything.
TEST(Infer, AttributesThatOverflowAreRefused) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  Graph g;
  Builder b(g);
  const Value x = input(b, "x", {DType::f32, {1, 1, 4, 4}}), w = input(b, "w", {DType::f32, {1, 1, 2, 2}});
  const Value index = input(b, "i", {DType::i64, {4}}), key = input(b, "k", {DType::i64, {2}});
  const Shape none{0, 0, 0, 0}, one{1, 1};
  const auto refused = [&](Op op, const Attrs& a, const std::vector<Value>& in) {
    try {
      b.add(op, a, in);
      ADD_FAILURE() << name(op) << " accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
    }
  };
  refused(Op::pad, PadAttrs{{kLargest, 0, 0, 0}, {kLargest, 0, 0, 0}, none}, {x});
  refused(Op::pad, PadAttrs{none, none, {0, 0, 0, kLargest}}, {x});
  refused(Op::conv, ConvAttrs{one, {kLargest, 0}, {kLargest, 0}, one, 1, {}, {}}, {x, w});
  refused(Op::conv, ConvAttrs{one, {0, 0}, {0, 0}, {kLargest, 1}, 1, {}, {}}, {x, w});
  refused(Op::conv, ConvAttrs{one, {0, 0}, {0, 0}, one, kLargest, {}, {}}, {x, w});
  refused(Op::conv_grad_input, ConvAttrs{one, {0, 0}, {0, 0}, one, 1, {1, 1, -8, -8}, {}}, {x, w});
  refused(Op::avg_pool, PoolAttrs{{kLargest, 2}, {kLargest, 1}, {kLargest - 1, 0}, {0, 0}, true, {}}, {x});
  refused(Op::scatter_add, ScatterAttrs{int64_t{1} << 32, 4}, {index, index});
  refused(Op::scatter_add, ScatterAttrs{0, int64_t{1} << 62}, {index, index});
  refused(Op::random_uniform, RandomAttrs{{-2}, 1}, {key});
  refused(Op::iota, IotaAttrs{{-1}, 0, DType::i32}, {});
  refused(Op::reshape, ShapeAttrs{{int64_t{1} << 32, int64_t{1} << 32}}, {x});
  refused(Op::broadcast, ShapeAttrs{{-1, 1, 4, 4}}, {x});
  refused(Op::one_hot, OneHotAttrs{-1, DType::f32}, {index});
  refused(Op::input, LeafAttrs{"n", {DType::f32, {-1}}}, {});
}

// Below each limit of docs/limits.md, at it, and one above.
TEST(Infer, ElementsOfAResultAndPlacesOfAPermutationAreLimited) {
  const auto refusal = [](const Shape& shape, bool permuted) -> std::string {
    Graph g;
    Builder b(g);
    try {
      if (permuted) {
        b.add(Op::lu_factor, LuAttrs{}, {input(b, "x", {DType::f32, shape})});
      } else {
        b.add(Op::iota, IotaAttrs{shape, 0, DType::i32}, {});
      }
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  constexpr int64_t kSide = int64_t{1} << 24, kRows = int64_t{1} << 31;
  for (const int64_t columns : {kSide - 1, kSide}) EXPECT_EQ(refusal({kSide, columns}, false), "");
  EXPECT_NE(refusal({kSide, kSide + 1}, false).find("too many elements"), std::string::npos);
  for (const int64_t rows : {kRows - 1, kRows}) EXPECT_EQ(refusal({rows, 1}, true), "");
  EXPECT_NE(refusal({kRows + 1, 1}, true).find("expected at most 2147483648"), std::string::npos);
}

TEST(Verify, ShowsTheNeighborhoodOfAFault) {
  Graph g = small_graph();
  g.values[g.nodes[3].out()].type.shape = {64, 127};
  try {
    verify(g, "fuse");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("after pass fuse"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("> %3 = matmul"), std::string::npos) << e.what();
  }
}

TEST(StructuralHash, IgnoresNamesButSeesAttributes) {
  Graph a = small_graph(), b = small_graph();
  attrs<LeafAttrs>(b.nodes[0]).name = "other";
  b.nodes[3].scope = "elsewhere";
  EXPECT_TRUE(structurally_equal(a, b));
  EXPECT_EQ(structural_hash(a), structural_hash(b));
  for (Node& n : b.nodes) {
    if (n.op == Op::constant && attrs<ConstantAttrs>(n).value == 0.5) attrs<ConstantAttrs>(n).value = 0.25;
  }
  EXPECT_FALSE(structurally_equal(a, b));
}

TEST(Grad, BuildsOrdinaryNodesAndNeverAnUnneededOne) {
  Graph g = small_graph();
  const Value x = g.leaves(Op::input)[0], w = g.leaves(Op::state)[0];
  const auto d = grad(g, g.outputs[0], {w});
  ASSERT_TRUE(d[0].valid());
  EXPECT_EQ(g.type(d[0]), g.type(w));
  verify(g);
  int matmuls = 0;
  for (const Node& n : g.nodes) matmuls += n.op == Op::matmul;
  EXPECT_EQ(matmuls, 2);  // forward and dW; no dX, which nobody asked for
  const auto missing = grad(g, g.outputs[0], {g.updates[0].next});
  EXPECT_FALSE(missing[0].valid());
  EXPECT_THROW(grad(g, x, {w}), Error);
}

TEST(Cost, CountsAMatmulByItsMultiplyAdds) {
  const Graph g = small_graph();
  EXPECT_EQ(cost(g, g.nodes[3]).flops, 2.0 * 64 * 784 * 128);
  EXPECT_EQ(cost(g, g.nodes[3]).bytes, 4.0 * (64 * 784 + 128 * 784 + 64 * 128));
}

}  // namespace
}  // namespace freight
