// unique and nonzero: NumPy's results in every element type, gradients of the values, and their refusal in compiled
// steps.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "freight/base/dtypes.h"
#include "freight/ops/ops.h"
#include "freight/ops/signature.h"
#include "freight/trace/compile.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

using testing::message_of;

TEST(UniqueElements, AreAscendingWithPlacesAndCountsInEveryType) {
  for (const DType t : dtypes::kAll.without(dtypes::kBool).list()) {
    SCOPED_TRACE(to_string(t));
    const Tensor x = cast(Tensor::of<int>({3, 1, 3, 0, 1, 3}, {2, 3}), t);
    const Unique u = unique(x);
    EXPECT_EQ(u.values.dtype(), t);
    EXPECT_EQ(u.values.to_vector<std::complex<double>>(), (std::vector<std::complex<double>>{0, 1, 3}));
    EXPECT_EQ(u.indices.to_vector<int>(), (std::vector<int>{3, 1, 0}));
    EXPECT_EQ(u.inverse.shape(), (Shape{2, 3}));
    EXPECT_EQ(u.inverse.to_vector<int>(), (std::vector<int>{2, 1, 2, 0, 1, 2}));
    EXPECT_EQ(u.counts.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3}));
  }
  const Unique b = unique(Tensor::of<bool>({true, false, true}, {3}));
  EXPECT_EQ(b.values.to_vector<int>(), (std::vector<int>{0, 1}));
  EXPECT_EQ(b.counts.to_vector<int>(), (std::vector<int>{1, 2}));
}

TEST(UniqueElements, HaveEndsSignsAndNaNsOfTheirOwn) {
  EXPECT_EQ(unique(Tensor::of<uint64_t>({~uint64_t{0}, 1, uint64_t{1} << 63}, {3})).values.to_vector<uint64_t>(),
            (std::vector<uint64_t>{1, uint64_t{1} << 63, ~uint64_t{0}}));
  EXPECT_EQ(unique(Tensor::of<int64_t>({5, INT64_MIN, -1}, {3})).values.to_vector<int64_t>(),
            (std::vector<int64_t>{INT64_MIN, -1, 5}));
  const Unique u = unique(Tensor::of<double>({NAN, 0.0, -0.0, INFINITY, NAN, -INFINITY}, {6}));
  const std::vector<double> values = u.values.to_vector<double>();
  ASSERT_EQ(values.size(), 5u);  // 0 and -0 are one, NaN is no number twice
  EXPECT_EQ(values[0], -INFINITY);
  EXPECT_EQ(values[1], 0.0);
  EXPECT_EQ(values[2], INFINITY);
  EXPECT_TRUE(std::isnan(values[3]) && std::isnan(values[4]));
  EXPECT_EQ(u.counts.to_vector<int>(), (std::vector<int>{1, 2, 1, 1, 1}));
  using Complex = std::complex<float>;
  EXPECT_EQ(unique(Tensor::of<Complex>({{1, 2}, {1, -1}, {0, 5}, {1, 2}}, {4})).values.to_vector<Complex>(),
            (std::vector<Complex>{{0, 5}, {1, -1}, {1, 2}}));
}

TEST(UniqueElements, OfNothingAndOfOneNumberAreVectors) {
  EXPECT_EQ(unique(zeros({0, 3})).values.shape(), (Shape{0}));
  EXPECT_EQ(unique(zeros({0, 3})).inverse.shape(), (Shape{0, 3}));
  EXPECT_EQ(unique(full({}, 4)).values.to_vector<int>(), (std::vector<int>{4}));
}

TEST(UniqueSlices, AreThoseOfNumpyAndPyTorchAlongEachAxis) {
  for (const DType t : {DType::f32, DType::bf16, DType::i64, DType::u8}) {
    SCOPED_TRACE(to_string(t));
    const Tensor x = cast(Tensor::of<int>({2, 1, 2, 1, 0, 3, 0, 5, 2, 1, 2, 1}, {3, 4}), t);
    const Unique rows = unique(x, {.axis = 0}), columns = unique(x, {.axis = -1});
    EXPECT_EQ(rows.values.shape(), (Shape{2, 4}));
    EXPECT_EQ(rows.values.to_vector<int>(), (std::vector<int>{0, 3, 0, 5, 2, 1, 2, 1}));
    EXPECT_EQ(rows.indices.to_vector<int>(), (std::vector<int>{1, 0}));
    EXPECT_EQ(rows.inverse.to_vector<int>(), (std::vector<int>{1, 0, 1}));
    EXPECT_EQ(rows.counts.to_vector<int>(), (std::vector<int>{1, 2}));
    EXPECT_EQ(columns.values.dtype(), t);
    EXPECT_EQ(columns.values.to_vector<int>(), (std::vector<int>{1, 1, 2, 3, 5, 0, 1, 1, 2}));
    EXPECT_EQ(columns.indices.to_vector<int>(), (std::vector<int>{1, 3, 0}));
    EXPECT_EQ(columns.inverse.to_vector<int>(), (std::vector<int>{2, 0, 2, 1}));
    const Tensor blocks = unique(reshape(x, {3, 2, 2}), {.axis = 2}).values;
    EXPECT_EQ(blocks.shape(), (Shape{3, 2, 2}));
    EXPECT_EQ(blocks.to_vector<int>(), (std::vector<int>{1, 2, 1, 2, 3, 0, 5, 0, 1, 2, 1, 2}));
  }
}

TEST(UniqueSlices, WithoutElementsAreEqualAndWithNaNsAreNot) {
  EXPECT_EQ(unique(zeros({3, 0}), {.axis = 0}).values.shape(), (Shape{1, 0}));
  EXPECT_EQ(unique(zeros({0, 3}), {.axis = 0}).values.shape(), (Shape{0, 3}));
  const Unique u = unique(Tensor::of<float>({1, NAN, 1, 2, 1, NAN}, {3, 2}), {.axis = 0});
  EXPECT_EQ(u.indices.to_vector<int>(), (std::vector<int>{1, 0, 2}));
  EXPECT_NE(message_of([] {
              unique(ones({2, 2}), {.axis = 2});
            }).find("unique: axis out of range: expected -2 to 1 for f32[2,2], got 2"),
            std::string::npos);
  EXPECT_NE(message_of([] { unique(ones({}), {.axis = 0}); }).find("unique: a tensor of rank 0 has no axes"),
            std::string::npos);
}

TEST(UniqueSlices, HaveTheGradientOfTheFirstOfEach) {
  const Tensor x = Tensor::of<float>({2, 1, 2, 1, 0, 3}, {3, 2});
  EXPECT_EQ(grad(sum(square(unique(x, {.axis = 0}).values)), {x})[0].to_vector<float>(),
            (std::vector<float>{4, 2, 0, 0, 0, 6}));
}

TEST(UniqueElements, HaveTheGradientOfTheFirstOfEach) {
  const Tensor x = Tensor::of<float>({2, 1, 2}, {3});
  EXPECT_EQ(grad(sum(square(unique(x).values)), {x})[0].to_vector<float>(), (std::vector<float>{4, 2, 0}));
}

TEST(UniqueElements, OfViewsAndOfResultsThatArePendingAreRead) {
  const Tensor x = Tensor::of<int>({1, 2, 3, 4, 2, 1}, {2, 3});
  EXPECT_EQ(unique(transpose(x) + 1).indices.to_vector<int>(), (std::vector<int>{0, 2, 4, 1}));
  EXPECT_EQ(unique(slice(x, 1, 0, 3, 2)).values.to_vector<int>(), (std::vector<int>{1, 3, 4}));
}

TEST(NonzeroPlaces, AreThoseOfElementsThatAreNotZeroInEveryType) {
  for (const DType t : dtypes::kAll.list()) {
    const Tensor x = cast(Tensor::of<int>({0, 1, 0, 1, 0, 1}, {2, 3}), t);
    const std::vector<Tensor> places = nonzero(x);
    ASSERT_EQ(places.size(), 2u) << t;
    EXPECT_EQ(places[0].to_vector<int>(), (std::vector<int>{0, 1, 1})) << t;
    EXPECT_EQ(places[1].to_vector<int>(), (std::vector<int>{1, 0, 2})) << t;
  }
  EXPECT_EQ(nonzero(Tensor::of<double>({NAN, -0.0, 5e-324}, {3}))[0].to_vector<int>(), (std::vector<int>{0, 2}));
  EXPECT_EQ(nonzero(zeros({4, 0}))[1].shape(), (Shape{0}));
  EXPECT_NE(message_of([] { nonzero(ones({})); }).find("nonzero: a tensor of rank 0 has no axes"), std::string::npos);
}

TEST(UniqueAndNonzero, AreRefusedInCompiledStepsByName) {
  const Tensor x = ones({3});
  const auto refusal = [&](const auto& f) { return message_of([&] { compile(f)(x); }); };
  EXPECT_NE(refusal([](const Tensor& v) { return unique(v).counts; })
                .find("unique: gives tensors of unknown shape, which a compiled step cannot have: got f32[3]; call it "
                      "outside of the step"),
            std::string::npos);
  EXPECT_NE(refusal([](const Tensor& v) { return nonzero(v)[0]; }).find("nonzero: gives tensors of unknown shape"),
            std::string::npos);
  EXPECT_NE(refusal([](const Tensor& v) { return nonzero(v)[0]; }).find("unique_test.cpp:"), std::string::npos);
}

TEST(UniqueAndNonzero, AreCalledByTheirSignatures) {
  const Signature& s = *functions_named("unique")[0];
  EXPECT_TRUE(s.on_host);
  EXPECT_EQ(types_text(s), "all");
  EXPECT_EQ(invoke(s, {Tensor::of<int>({2, 2, 1}, {3})})[3].to_vector<int>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(invoke(s, {Tensor::of<int>({2, 1, 2, 1}, {2, 2}), int64_t{0}})[0].shape(), (Shape{1, 2}));
  EXPECT_EQ(invoke(*functions_named("nonzero")[0], {Tensor::of<int>({0, 2}, {2})}).size(), 1u);
  EXPECT_FALSE(functions_named("sort")[0]->on_host);
}

}  // namespace
}  // namespace freight
