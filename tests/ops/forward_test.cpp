// Every op on every backend through passes and plan, generated from op_rows.h: results and gradients against the oracle
// in f64, in f32, bf16 and f16, with operands that are views; the text form; behavior at NaN and infinity.
#include <algorithm>

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

void compare(const std::vector<OpCase>& cases) { compare_with_oracle(cases, computing_backends()); }

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

TEST(SpecialValues, PointwiseOpsTreatThemAsTheOracleDoes) { pointwise_special_values_agree(computing_backends()); }
TEST(SpecialValues, MaximaAndTheirIndicesPreferTheFirstNan) { maxima_prefer_the_first_nan(computing_backends()); }
TEST(SpecialValues, IntegersWrapAndDivideTowardZero) { integers_wrap_and_divide_toward_zero(computing_backends()); }

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
    EXPECT_NE(std::string(e.what()).find("expected 0 to 3, got 4"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace freight::test
