// Every op of the table on the test's device (device.h) against the oracle in f64.
#include "freight/base/error.h"

#include "tests/gpu/device.h"
#include "tests/ops/op_suite.h"

namespace freight::test {
namespace {

class GpuOps : public testing::TestWithParam<Op> {};

// One plan, and so one program, per op: nearly all of the time goes into the driver's compiler.
TEST_P(GpuOps, AgreesWithTheOracleInAllTypesAndOnViews) {
  NEEDS_TEST_DEVICE();
  const Op op = GetParam();
  std::vector<OpCase> cases = cases_with_gradients(op);
  const auto append = [&](const std::vector<OpCase>& more) { cases.insert(cases.end(), more.begin(), more.end()); };
  append(cases_of_views(op));
  append(cases_in(op, DType::bf16));
  append(cases_in(op, DType::f16));
  if (test_device_has_f64()) append(cases_in(op, DType::f64));
  compare_together(cases, test_device());
}

TEST(GpuSpecialValues, AreTreatedAsTheOracleDoes) {
  NEEDS_TEST_DEVICE();
  pointwise_special_values_agree({test_device()});
  maxima_prefer_the_first_nan({test_device()});
  integers_wrap_and_divide_toward_zero({test_device()});
}

// Rows of x by gather, and the sums of the indices that are 0 and 1.
Graph picks(int64_t rows, int64_t count) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {rows}}}, {});
  const Value i = b.one(Op::input, LeafAttrs{"i", {DType::i64, {count}}}, {});
  g.outputs = {b.one(Op::gather, AxisAttrs{0}, {x, i}), b.one(Op::scatter_add, ScatterAttrs{0, 2}, {i, i})};
  return g;
}

TEST(GpuIndexing, AnIndexOutOfRangeIsReportedWithTheResultsAndOnlyOnce) {
  NEEDS_TEST_DEVICE();
  const Array x = Array::of<float>({1, 2, 3, 4}, {4});
  const Graph g = picks(4, 3);
  for (const int64_t bad : {int64_t{4}, int64_t{-1}, int64_t{1} << 40}) {
    const std::vector<Array> out = run_planned(test_device(), g, {x, Array::of<int64_t>({0, bad, 1}, {3})});
    try {
      out[0].to_vector<float>();
      FAIL() << "index " << bad << " was not reported";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::data);
      EXPECT_NE(std::string(e.what()).find(cat("index out of range: expected 0 to 3, got ", bad)), std::string::npos)
          << e.what();
    }
    EXPECT_EQ(out[0].to_vector<float>(), (std::vector<float>{1, 0, 2}));
  }
  const std::vector<Array> fine = run_planned(test_device(), g, {x, Array::of<int64_t>({0, 1, 1}, {3})});
  EXPECT_EQ(fine[0].to_vector<float>(), (std::vector<float>{1, 2, 2}));
  EXPECT_EQ(fine[1].to_vector<int64_t>(), (std::vector<int64_t>{0, 2}));
}

// An index out of range may read another one, which is not the cause.
TEST(GpuIndexing, TheFirstIndexOutOfRangeIsTheOneThatIsNamed) {
  NEEDS_TEST_DEVICE();
  Graph g;
  Builder b(g);
  const Value table = b.one(Op::input, LeafAttrs{"table", {DType::i64, {3}}}, {});
  const Value i = b.one(Op::input, LeafAttrs{"i", {DType::i64, {2}}}, {});
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {5}}}, {});
  const Value next = b.one(Op::gather, AxisAttrs{0}, {table, i});
  const Value beyond = b.binary(Op::add, next, b.constant(100, {DType::i64, {2}}));
  g.outputs = {b.one(Op::gather, AxisAttrs{0}, {x, beyond})};
  const std::vector<Array> out = run_planned(
      test_device(), g,
      {Array::of<int64_t>({70, 1, 2}, {3}), Array::of<int64_t>({9, 9}, {2}), Array::of<float>({1, 2, 3, 4, 5}, {5})});
  try {
    out[0].to_vector<float>();
    FAIL() << "index 9 was not reported";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("index out of range: expected 0 to 2, got 9"), std::string::npos) << e.what();
  }
}

TEST(GpuIndexing, ALabelThatNamesNoClassIsReportedByTheLoss) {
  NEEDS_TEST_DEVICE();
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {2, 3}}}, {});
  const Value labels = b.one(Op::input, LeafAttrs{"y", {DType::i64, {2}}}, {});
  g.outputs = {b.one(Op::cross_entropy, CrossEntropyAttrs{}, {x, labels})};
  const Array logits = Array::of<float>({0, 0, 0, 0, 0, 0}, {2, 3});
  for (const int64_t bad : {int64_t{3}, int64_t{-100}}) {
    const std::vector<Array> out = run_planned(test_device(), g, {logits, Array::of<int64_t>({1, bad}, {2})});
    try {
      out[0].to_vector<float>();
      FAIL() << "label " << bad << " was not reported";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(cat("index out of range: expected 0 to 2, got ", bad)),
                std::string::npos)
          << e.what();
    }
  }
}

TEST(GpuLinearAlgebra, EigenvaluesAndSingularValuesAreRefusedByNameWhereNoLibraryComputesThem) {
  NEEDS_TEST_DEVICE();
  if (test_device().find("cuda") == 0) {  // by cuSOLVER
    for (const Op op : {Op::eigh, Op::svd, Op::eig, Op::lstsq}) {
      compare_together(cases_with_gradients(op), test_device());
      compare_together(cases_in(op, DType::f64), test_device());
    }
    return;
  }
  for (const OpRow& row : op_rows()) {
    if (!is_spectral(row.op) || row.in[0].type.numel() == 0) continue;
    const Graph g = graph_of(row);
    try {
      run_planned(test_device(), g, inputs_of(row, g, 1));
      ADD_FAILURE() << to_string(row) << " ran";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::device);
      EXPECT_NE(std::string(e.what()).find(
                    cat(name(row.op == Op::lstsq ? Op::svd : row.op), ": GPU backends have no kernel for this op")),
                std::string::npos)
          << e.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, GpuOps, testing::ValuesIn(ops_of_gpus()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace freight::test
