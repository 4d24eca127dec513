// x[...] against NumPy: the values and shapes are its.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "freight/base/error.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "tests/support/error_of.h"

namespace freight::test {
namespace {

using Ints = std::vector<int>;

Tensor a() { return reshape(arange(24), {2, 3, 4}); }
Tensor places(const Ints& v) { return Tensor::of<int32_t>(v, {std::ssize(v)}); }

void expect(const Tensor& got, const Shape& shape, const Ints& values) {
  EXPECT_EQ(got.shape(), shape);
  EXPECT_EQ(got.to_vector<int>(), values);
}

TEST(Indexing, IntegersSlicesEllipsisAndNewAxes) {
  expect(a()[1], {3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  expect(a()[{-1, 0}], {4}, {12, 13, 14, 15});
  expect(a()[{Slice{}, Slice{1}, Slice{.step = 2}}], {2, 2, 2}, {4, 6, 8, 10, 16, 18, 20, 22});
  expect(a()[{ellipsis, -1}], {2, 3}, {3, 7, 11, 15, 19, 23});
  expect(a()[{0, ellipsis, 1}], {3}, {1, 5, 9});
  expect(a()[{Slice{}, newaxis, 0, Slice{.stop = 2}}], {2, 1, 2}, {0, 1, 12, 13});
  expect(a()[{1, 2, Slice{-2, 100}}], {2}, {22, 23});
}

TEST(Indexing, TensorsOfIntegersNameElementsOrPairs) {
  expect(a()[{places({1, 0, -1}), 0}], {3, 4}, {12, 13, 14, 15, 0, 1, 2, 3, 12, 13, 14, 15});
  expect(a()[{Slice{}, Tensor::of<int64_t>({{0, 2}, {1, -3}}), 0}], {2, 2, 2}, {0, 8, 4, 0, 12, 20, 16, 12});
  expect(a()[{places({0, 1}), places({2, -1})}], {2, 4}, {8, 9, 10, 11, 20, 21, 22, 23});
  const Tensor x = cast(a(), DType::f32);
  const Tensor dx = grad(sum(x[{places({1, 1}), 0}]), std::vector<Tensor>{x})[0];
  EXPECT_EQ(sum(dx).item<float>(), 8);
  EXPECT_EQ(dx.to_vector<float>()[12], 2);
}

TEST(Indexing, MasksTakeWhatIsTrue) {
  const Tensor one = a()[1];
  expect(one[equal(remainder(one, 3), 0)], {4}, {12, 15, 18, 21});
  expect(a()[{Slice{}, a()[0] > 6}], {2, 5}, {7, 8, 9, 10, 11, 19, 20, 21, 22, 23});
  expect(a()[places({1, 0}) > 0], {1, 3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(a()[a() > 100].shape(), (Shape{0}));
}

using freight::testing::message_of;

TEST(Indexing, WhatDoesNotFitIsNamed) {
  const auto message = [](std::initializer_list<Index> indices) {
    const std::vector<Index> all(indices);
    return message_of([&] {
      (all.size() == 1   ? a()[all[0]]
       : all.size() == 2 ? a()[{all[0], all[1]}]
       : all.size() == 3 ? a()[{all[0], all[1], all[2]}]
                         : a()[{all[0], all[1], all[2], all[3]}])
          .array();
    });
  };
  EXPECT_NE(message({2}).find("index 2 is outside of axis 0 of i32[2,3,4]"), std::string::npos) << message({2});
  EXPECT_NE(message({0, 0, 0, 0}).find("got indices for 4 axes"), std::string::npos);
  EXPECT_NE(message({ellipsis, ellipsis}).find("only one ellipsis"), std::string::npos);
  EXPECT_NE(message({Slice{.step = -1}}).find("flip() reverses"), std::string::npos);
  EXPECT_NE(message({places({0, 2})}).find("index out of range: expected 0 to 1, got 2"), std::string::npos);
  EXPECT_NE(message({places({-3})}).find("index out of range: expected 0 to 1, got -3"), std::string::npos);
  EXPECT_NE(message({zeros({2})}).find("indices must be integers or bool: got f32[2]"), std::string::npos);
  EXPECT_NE(message({places({1, 1, 1}) > 0}).find("a mask must have the sizes"), std::string::npos);
  // NumPy moves the picked axes to the front here, which nobody expects.
  EXPECT_NE(message({0, Slice{}, places({1})}).find("adjacent"), std::string::npos);
  EXPECT_NE(message({places({1}), Slice{}, places({1})}).find("adjacent"), std::string::npos);
  EXPECT_NE(message({places({1}), Slice{}, 0}).find("adjacent"), std::string::npos);
  auto step = compile([](const Tensor& x) { return sum(x[x > 0]); });
  EXPECT_NE(message_of([&] { step(ones({3})); }).find("unknown shape"), std::string::npos);
}

TEST(Indexing, ErrorsTellTheUsersLine) {
  const std::string masked = message_of([] { a()[places({1, 1, 1}) > 0]; });
  EXPECT_NE(masked.find("indexing_test.cpp"), std::string::npos) << masked;
  const std::string listed = message_of([] { a()[{0, ellipsis, ellipsis}]; });
  EXPECT_NE(listed.find("indexing_test.cpp"), std::string::npos) << listed;
  const std::string beyond = message_of([] { a()[places({0, 2})].array(); });
  EXPECT_NE(beyond.find("indexing_test.cpp"), std::string::npos) << beyond;
}

// Assigning to a part would change a tensor that is thrown away.
template <class T>
concept AssignsParts = requires(T x) {
  x[0] = x;
};
static_assert(!AssignsParts<Tensor>);

TEST(Arrays, NestedRowsMakeTensors) {
  const Tensor x = Tensor::of<float>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Tensor::of<int64_t>({7, 8}).shape(), (Shape{2}));
  EXPECT_EQ(Tensor::of<double>({{{1}, {2}}}).shape(), (Shape{1, 2, 1}));
  EXPECT_EQ(Tensor::of<float>({{1}, {2}, {3}}).shape(), (Shape{3, 1}));
  EXPECT_NE(message_of([] {
              Tensor::of<float>({{1, 2}, {3}});
            }).find("nested rows differ in length"),
            std::string::npos);
}

TEST(Arrays, PrintAsInNumPy) {
  std::ostringstream out;
  out << Tensor::of<float>({{1, 2.5f}, {-3, 0.1f}}) << '\n' << arange(3) << '\n' << (arange(2) > 0);
  EXPECT_EQ(out.str(), "[[ 1.   2.5]\n [-3.   0.1]]\n[0 1 2]\n[False  True]");
}

}  // namespace
}  // namespace freight::test
