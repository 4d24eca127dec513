// Element types beside those that most programs use (i8, i16, u16, u32, u64, c64, c128). For every row of the ops' test
// rows that moves elements there is the right result, on each backend; ops that compute refuse complex numbers, naming
// op, type and place. What an op that moves elements has to give is found by moving their numbers in i64 instead.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "freight/base/error.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "tests/ops/carried_types.h"
#include "tests/support/error_of.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

class Carried : public ::testing::TestWithParam<DType> {};

TEST_P(Carried, OpsThatComputeRefuseComplexNumbersByName) {
  const DType dtype = GetParam();
  if (computes(dtype)) return;  // integer_types_test.cpp
  int refused = 0;
  for (const OpRow& row : op_rows()) {
    const Typed t = typed(row, dtype);
    if (!is_carried_row(row, t) || element_types(info(row.op).infer) == dtypes::kAll) continue;
    const std::string what = to_string(t.row);
    const Error e = testing::error_of([&] { graph_for(t.row); });
    EXPECT_EQ(e.op(), name(row.op)) << what << ": " << e.what();
    EXPECT_NE(e.message().find(cat("does not compute in ", dtype, ": ")), std::string::npos) << what << e.what();
    EXPECT_NE(std::string(e.what()).find("layer1.fc, net.cpp:7"), std::string::npos) << e.what();
    ++refused;
  }
  EXPECT_GT(refused, 100);
}

TEST_P(Carried, OpsThatMoveThemMoveThemRight) {
  const std::vector<CarriedCase> cases = carried_cases(GetParam());
  EXPECT_GT(cases.size(), 40u);
  for (const CarriedCase& c : cases) {
    const Graph back = parse(print(c.graph), "text");  // the source line is a comment
    EXPECT_TRUE(structurally_equal(back, c.graph)) << print(back) << print(c.graph);
    for (const std::string& backend : computing_backends())
      EXPECT_TRUE(same_bytes(run_planned(backend, c.graph, c.in)[0], c.need)) << backend << ": " << c.what;
  }
}

TEST_P(Carried, ViewsOfThemAreReadInAnyLayout) {
  const DType dtype = GetParam();
  const Array x = elements(dtype, {4, 5, 6}, 0), y = elements(dtype, {6, 4}, 500);
  Graph g;
  Builder b(g);
  const Value a = b.one(Op::input, LeafAttrs{"x", {dtype, {4, 5, 6}}}, {}),
              c = b.one(Op::input, LeafAttrs{"y", {dtype, {6, 4}}}, {});
  const Value part = b.one(Op::reshape, ShapeAttrs{{4, 6}}, {b.slice(a, {0, 2, 0}, {4, 3, 6}, {1, 1, 1})});
  const Value turned = b.one(Op::transpose, PermAttrs{{1, 0}}, {part});
  const Value wide = b.one(Op::concat, AxisAttrs{1}, {turned, c});  // (6, 8)
  const Value same = b.one(Op::eq, NoAttrs{}, {turned, c});
  g.outputs = {wide, b.one(Op::where, NoAttrs{}, {same, c, turned}), b.cast(same, dtype)};
  for (const std::string& backend : computing_backends()) {
    const std::vector<Array> out = run_planned(backend, g, {x, y});
    const size_t size = size_of(dtype);
    const auto at = [&](const Array& of, int64_t i) {
      return static_cast<const char*>(of.raw()) + static_cast<size_t>(i) * size;
    };
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t k = 0; k < 4; ++k) {
        const char* const element = at(x, k * 30 + 12 + i);
        EXPECT_EQ(std::memcmp(at(out[0], i * 8 + k), element, size), 0) << backend;
        EXPECT_EQ(std::memcmp(at(out[0], i * 8 + 4 + k), at(y, i * 4 + k), size), 0) << backend;
        EXPECT_EQ(std::memcmp(at(out[1], i * 4 + k), element, size), 0) << backend;
      }
    }
  }
}

TEST_P(Carried, EagerAndCompiledFunctionsTakeThem) {
  const DType dtype = GetParam();
  const Array x = elements(dtype, {3, 4}, 7);
  const Tensor t(x);
  EXPECT_TRUE(same_bytes(flip(flip(t, 0), 0).array(), x));
  EXPECT_TRUE(same_bytes(compile([](const Tensor& v) {
                           return concat({v, v}, 0);
                         })(t)
                             .array()
                             .reshaped({6, 4}),
                         concat({t, t}, 0).array()));
  EXPECT_EQ(sum(equal(t, t)).item<int>(), 12);
  EXPECT_EQ(sum(not_equal(cast(zeros({5}), dtype), 0)).item<int>(), 0);
  EXPECT_EQ(equal(full({2}, 7, dtype), 7).to_vector<int>(), (std::vector<int>{1, 1}));
  if (computes(dtype)) return;
  const auto refusal = [&](auto&& f) { return testing::message_of(f); };
  const std::string named = cat("in ", dtype);
  EXPECT_NE(refusal([&] { t + t; }).find("add: does not compute " + named), std::string::npos);
  EXPECT_NE(refusal([&] { -t; }).find("negative: does not compute " + named), std::string::npos);
  EXPECT_NE(refusal([&] { max(t); }).find("max: does not compute " + named), std::string::npos);
  EXPECT_NE(refusal([&] { t + t; }).find("carried_types_test.cpp:"), std::string::npos);
  EXPECT_NE(refusal([&] { t < t; }).find("less: does not compute " + named), std::string::npos);
  EXPECT_NE(refusal([&] { einsum("ij->i", {t}); }).find("einsum: does not compute " + named), std::string::npos);
}
TEST_P(Carried, VariablesKeepThem) {
  const DType dtype = GetParam();
  const Array x = elements(dtype, {5}, 3), y = elements(dtype, {5}, 900);
  const Variable v("v", {dtype, {5}});
  EXPECT_EQ(sum(not_equal(v, 0)).item<int>(), 0);
  v.assign(x);
  auto swap = compile([&](const Tensor& next) {
    const Tensor before = v.value();
    v.assign(next);
    return before;
  });
  EXPECT_TRUE(same_bytes(swap(y).array(), x));
  EXPECT_TRUE(same_bytes(swap(x).array(), y));
  EXPECT_TRUE(same_bytes(v.array(), x));
}

INSTANTIATE_TEST_SUITE_P(All, Carried, ::testing::ValuesIn(carried_types()),
                         [](const auto& p) { return freight::to_string(p.param); });

TEST(CarriedSums, AreThoseOfI64AndU64OrRefused) {
  EXPECT_EQ(sum(Tensor::of<int8_t>({127, 127, -3}, {3})).item<int64_t>(), 251);
  EXPECT_EQ(sum(Tensor::of<uint32_t>({4294967295u, 1}, {2})).item<int64_t>(), 4294967296);
  EXPECT_EQ(prod(Tensor::of<int16_t>({300, 300}, {2})).item<int64_t>(), 90000);
  EXPECT_EQ(sum(Tensor::of<uint64_t>({uint64_t{1} << 63, 5}, {2})).item<uint64_t>(), (uint64_t{1} << 63) + 5);
  for (const DType dtype : {DType::c64, DType::c128}) {
    for (const auto& f : {sum, prod}) {
      EXPECT_NE(testing::message_of([&] {
                  f(cast(ones({3}), dtype), {}, Keep::no);
                }).find(cat("does not compute in ", dtype)),
                std::string::npos);
    }
  }
}

TEST(CarriedCasts, AreNumPys) {
  for (const CarriedCase& c : cast_cases()) {
    EXPECT_TRUE(same_or_nan(c.in[0].cast(c.need.dtype()), c.need)) << c.what;
    for (const std::string& backend : computing_backends())
      EXPECT_TRUE(same_or_nan(run_planned(backend, c.graph, c.in)[0], c.need)) << backend << ": " << c.what;
  }
}

TEST(CarriedCasts, OutOfRangeGoesToTheNearestEndEverywhere) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> from{kNan, kInf, -kInf, 1e30, -1e30, -0.9, 128, -129, 65536, 4294967296.0, 0x1p64};
  const Array x = Array::of<double>(from, {static_cast<int64_t>(from.size())});
  const auto check = [&]<class T>(T, const std::vector<T>& need) {
    Graph g = graph_for({Op::cast, CastAttrs{DTypeOf<T>::value}, {{{DType::f64, x.shape()}}}});
    EXPECT_EQ(x.cast(DTypeOf<T>::value).template to_vector<T>(), need);
    for (const std::string& backend : computing_backends())
      EXPECT_EQ(run_planned(backend, g, {x})[0].template to_vector<T>(), need) << backend;
  };
  check(int8_t{}, std::vector<int8_t>{0, 127, -128, 127, -128, 0, 127, -128, 127, 127, 127});
  check(uint8_t{}, std::vector<uint8_t>{0, 255, 0, 255, 0, 0, 128, 0, 255, 255, 255});
  check(int16_t{}, std::vector<int16_t>{0, 32767, -32768, 32767, -32768, 0, 128, -129, 32767, 32767, 32767});
  check(uint16_t{}, std::vector<uint16_t>{0, 65535, 0, 65535, 0, 0, 128, 0, 65535, 65535, 65535});
  constexpr uint32_t kTop = 4294967295u;
  check(uint32_t{}, std::vector<uint32_t>{0, kTop, 0, kTop, 0, 0, 128, 0, 65536, kTop, kTop});
  constexpr uint64_t kMost = ~uint64_t{0};
  check(uint64_t{}, std::vector<uint64_t>{0, kMost, 0, kMost, 0, 0, 128, 0, 65536, 4294967296u, kMost});
}

TEST(CarriedCasts, ComplexNumbersLoseNoImaginaryPart) {
  const Array x = Array::of<std::complex<float>>({{1, 2}, {0, 0}, {0, -1}}, {3});
  for (const DType to : {DType::f32, DType::f64, DType::f16, DType::i64, DType::u8, DType::i8}) {
    for (const std::string& message :
         {testing::message_of([&] { (void)x.cast(to); }), testing::message_of([&] { cast(Tensor(x), to); })}) {
      EXPECT_NE(message.find("imaginary"), std::string::npos) << message;
      EXPECT_NE(message.find("c64[3]"), std::string::npos) << message;
      EXPECT_NE(message.find(freight::to_string(to)), std::string::npos) << message;
    }
  }
  EXPECT_NE(testing::message_of([&] { (void)x.to_vector<float>(); }).find("imaginary"), std::string::npos);
  EXPECT_EQ(cast(Tensor(x), DType::boolean).to_vector<int>(), (std::vector<int>{1, 0, 1}));
}

TEST(CarriedConstants, AreWrittenAndReadBack) {
  Graph g;
  const auto add = [&](const Array& a) {
    g.outputs.push_back(g.add(Op::constant, ConstantAttrs{{a.dtype(), a.shape()}, 0, a}, {})[0]);
  };
  add(Array::of<uint64_t>({~uint64_t{0}, 1, uint64_t{1} << 63}, {3}));
  add(Array::of<int8_t>({-128, 127}, {2}));
  add(Array::of<std::complex<float>>({{0.1F, -2.5e-30F}, {INFINITY, -0.0F}}, {2}));
  add(Array::of<std::complex<double>>({{0.1, 1.0 / 3}}, {1}));
  const Graph back = parse(print(g), "text");
  EXPECT_EQ(print(back), print(g));
  for (const std::string& backend : computing_backends()) {
    const std::vector<Array> a = run_planned(backend, g, {}), b = run_planned(backend, back, {});
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(same_bytes(a[i], b[i])) << backend << " " << i;
      EXPECT_TRUE(same_bytes(a[i], std::get<ConstantAttrs>(g.def(g.outputs[i]).attrs).data)) << backend << " " << i;
    }
  }
}

}  // namespace
}  // namespace freight::test
