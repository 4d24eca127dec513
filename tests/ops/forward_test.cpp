// Every op on every backend through passes and plan, generated from op_rows.h: results and gradients against the oracle
// in f64, in f32, bf16 and f16, with operands that are views; the text form; behaviour at NaN and infinity.
#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/error.h"

#include "tests/ops/op_suite.h"

namespace freight::test {
namespace {

TEST(OpRows, EveryOpOfTheTableHasOne) {
  const std::vector<Op> covered = ops_with_rows();
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    if (op == Op::input || op == Op::state || op == Op::fused) continue;  // no result of their own to check
    EXPECT_NE(std::find(covered.begin(), covered.end(), op), covered.end())
        << name(op) << " has no row in tests/ops/op_rows.h";
  }
}

class Forward : public testing::TestWithParam<Op> {};

void compare(const std::vector<OpCase>& cases) {
  for (const OpCase& c : cases) compare_with_oracle(c, computing_backends());
}

TEST_P(Forward, AgreesWithTheOracle) { compare(cases_with_gradients(GetParam())); }
TEST_P(Forward, AgreesWhenOperandsAreViews) { compare(cases_of_views(GetParam())); }
TEST_P(Forward, AgreesInBf16) { compare(cases_in(GetParam(), DType::bf16)); }
TEST_P(Forward, AgreesInF16) { compare(cases_in(GetParam(), DType::f16)); }

TEST_P(Forward, TextFormRoundTrips) {
  for (const OpRow& row : op_rows()) {
    if (row.op != GetParam()) continue;
    const Graph g = with_gradients(graph_of(row, Through::slice));
    verify(g);
    const Graph back = parse(print(g));
    verify(back);
    EXPECT_TRUE(structurally_equal(g, back)) << print(g) << print(back);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Forward, testing::ValuesIn(ops_with_rows()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST(SpecialValues, PointwiseOpsTreatThemAsTheOracleDoes) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> specials = {nan,  inf,   -inf, 0.0f,  -0.0f,  1.0f, -1.0f,
                                       0.5f, -2.5f, 3.5f, 1e30f, -1e30f, 90.0f};
  std::vector<float> left, right;
  for (float a : specials) {
    for (float b : specials) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  const auto n = static_cast<int64_t>(left.size());
  const std::vector<Array> inputs = {Array::of<float>(left, {n}), Array::of<float>(right, {n})};
  for (Op op : ops_with_rows()) {
    const OpInfo& row = info(op);
    if ((row.kind != OpKind::unary && row.kind != OpKind::binary) || op == Op::cast) continue;
    if (op == Op::logical_not || op == Op::logical_and || op == Op::logical_or) continue;
    if (op == Op::sin || op == Op::cos || op == Op::tan) continue;  // f32 range reduction at 1e30 is not asked for
    SCOPED_TRACE(row.name);
    Graph g;
    Builder b(g);
    std::vector<Value> in;
    for (int i = 0; i < 2; ++i) in.push_back(b.one(Op::input, LeafAttrs{"x", {DType::f32, {n}}}, {}));
    g.outputs = b.add(op, NoAttrs{}, {in.begin(), in.begin() + row.min_inputs});
    const Array expected = interpret(g, inputs)[0];
    const std::vector<double> e = expected.to_vector<double>();
    for (const std::string& backend : computing_backends()) {
      const std::vector<double> got = run_planned(backend, g, inputs)[0].to_vector<double>();
      for (size_t i = 0; i < e.size(); ++i) {
        const bool same = std::isnan(e[i])   ? std::isnan(got[i])
                          : std::isinf(e[i]) ? e[i] == got[i]
                                             : std::fabs(got[i] - e[i]) <= 1e-5 * std::fabs(e[i]) + 1e-30;
        EXPECT_TRUE(same) << backend << " at (" << left[i] << ", " << right[i] << "): " << got[i] << ", expected "
                          << e[i];
      }
    }
  }
}

TEST(SpecialValues, MaximaAndTheirIndicesPreferTheFirstNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = Array::of<float>({1, nan, 7, nan, 2, 2, 9, 9, -1, -1, -3, -3}, {3, 4});
  Graph g;
  Builder b(g);
  const Value v = b.one(Op::input, LeafAttrs{"x", {DType::f32, {3, 4}}}, {});
  for (Op op : {Op::argmax, Op::argmin}) g.outputs.push_back(b.one(op, AxisAttrs{1}, {v}));
  for (Op op : {Op::reduce_max, Op::reduce_min}) g.outputs.push_back(b.one(op, AxesAttrs{{1}}, {v}));
  for (const std::string& backend : computing_backends()) {
    const std::vector<Array> out = run_planned(backend, g, {x});
    EXPECT_EQ(out[0].to_vector<int>(), (std::vector<int>{1, 2, 0})) << backend;
    EXPECT_EQ(out[1].to_vector<int>(), (std::vector<int>{1, 0, 2})) << backend;
    EXPECT_TRUE(std::isnan(out[2].to_vector<float>()[0])) << backend;
    EXPECT_TRUE(std::isnan(out[3].to_vector<float>()[0])) << backend;
  }
}

TEST(SpecialValues, IntegersWrapAndDivideTowardZero) {
  Graph g;
  Builder b(g);
  const Type t{DType::i32, {4}};
  const Value x = b.one(Op::input, LeafAttrs{"x", t}, {}), y = b.one(Op::input, LeafAttrs{"y", t}, {});
  for (Op op : {Op::div, Op::remainder, Op::mul}) g.outputs.push_back(b.binary(op, x, y));
  const std::vector<Array> in = {Array::of<int>({7, -7, 7, 65536}, {4}), Array::of<int>({2, 2, -2, 65536}, {4})};
  for (const std::string& backend : computing_backends()) {
    const std::vector<Array> out = run_planned(backend, g, in);
    EXPECT_EQ(out[0].to_vector<int>(), (std::vector<int>{3, -3, -3, 1})) << backend;
    EXPECT_EQ(out[1].to_vector<int>(), (std::vector<int>{1, -1, 1, 0})) << backend;
    EXPECT_EQ(out[2].to_vector<int>(), (std::vector<int>{14, -14, -14, 0})) << backend;
  }
}

TEST(Embedding, ThePaddingRowReceivesNoGradient) {
  Graph g;
  Builder b(g);
  const Value i = b.one(Op::input, LeafAttrs{"i", {DType::i32, {3}}}, {});
  const Value w = b.one(Op::input, LeafAttrs{"w", {DType::f32, {4, 2}}}, {});
  const Value y = b.one(Op::embedding, EmbeddingAttrs{2}, {i, w});
  const Value loss = b.reshape(b.sum(y, {0, 1}), {});
  g.outputs = grad(g, loss, {w});
  for (const std::string& backend : computing_backends()) {
    const Array dw = run_planned(
        backend, g, {Array::of<int>({2, 1, 1}, {3}), random_array({{DType::f32, {4, 2}}, Fill::normal}, 1)})[0];
    EXPECT_EQ(dw.to_vector<float>(), (std::vector<float>{0, 0, 2, 2, 0, 0, 0, 0})) << backend;
  }
}

TEST(Indexing, AnIndexOutOfRangeNamesItselfAndTheRange) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {4, 2}}}, {});
  const Value i = b.one(Op::input, LeafAttrs{"i", {DType::i64, {3}}}, {});
  g.outputs = {b.one(Op::gather, AxisAttrs{0}, {x, i})};
  try {
    run_planned("ref", g, {Array(DType::f32, {4, 2}), Array::of<int64_t>({0, 4, 1}, {3})});
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::data);
    EXPECT_NE(std::string(e.what()).find("got 4, need 0 to 3"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace freight::test
