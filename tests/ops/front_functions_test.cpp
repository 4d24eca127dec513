// The functions that users call: argument forms, broadcasting, shapes, and messages. Values of the ops themselves are
// checked by the generated tests beside this file.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "freight/base/error.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

using freight::testing::error_of;
using Floats = std::vector<float>;
using Ints = std::vector<int>;

class Front : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
};

Tensor range(const Shape& shape) { return reshape(cast(arange(shape.numel()), DType::f32), shape); }
Floats values(const Tensor& t) { return t.to_vector<float>(); }
#define EXPECT_MESSAGE(expression, part)                                 \
  do {                                                                   \
    const Error error = error_of([&] { (void)(expression); });           \
    const std::string text = error.what();                               \
    EXPECT_EQ(error.kind(), ErrorKind::usage);                           \
    EXPECT_NE(text.find(part), std::string::npos) << text;               \
    EXPECT_NE(text.find("front_functions_test.cpp"), std::string::npos); \
  } while (0)

TEST_F(Front, OperatorsBroadcastAsInNumPy) {
  const Tensor a = range({2, 3});
  EXPECT_EQ(values(a + Tensor::of<float>({10, 20, 30}, {3})), (Floats{10, 21, 32, 13, 24, 35}));
  EXPECT_EQ(values(a * Tensor::of<float>({1, 10}, {2, 1})), (Floats{0, 1, 2, 30, 40, 50}));
  EXPECT_EQ((range({2, 1}) + range({1, 3})).shape(), (Shape{2, 3}));
  EXPECT_EQ(values(1 - a), (Floats{1, 0, -1, -2, -3, -4}));
  EXPECT_EQ(values(-(a / 2)), (Floats{-0.0f, -0.5f, -1, -1.5f, -2, -2.5f}));
  EXPECT_EQ((range({2, 0}) + 1).shape(), (Shape{2, 0}));
  EXPECT_MESSAGE(a + range({4}), "add: shapes do not broadcast: lhs f32[2,3], rhs f32[4]");
  EXPECT_MESSAGE(a + arange(3), "element types differ: lhs f32[2,3], rhs i32[3]");
}

TEST_F(Front, NumbersTakeTheTypeBesideThem) {
  EXPECT_EQ((arange(3) + 1).dtype(), DType::i32);
  EXPECT_EQ((cast(arange(3), DType::f64) * 0.5).dtype(), DType::f64);
  EXPECT_EQ((2 * arange(3)).to_vector<int>(), (Ints{0, 2, 4}));
}

// Labels are i64, argmax is i32: both count as what they are.
TEST_F(Front, ComparisonsOfIntegersOfTwoTypesAreExact) {
  const auto bits = [](const Tensor& t) { return t.to_vector<int>(); };
  const Tensor labels = Tensor::of<int64_t>({2, 0, int64_t{1} << 32}, {3}), found = Tensor::of<int>({2, 1, 0}, {3});
  EXPECT_EQ(bits(equal(found, labels)), (Ints{1, 0, 0}));
  EXPECT_EQ(bits(not_equal(labels, found)), (Ints{0, 1, 1}));
  EXPECT_EQ(bits(found < labels), (Ints{0, 0, 1}));
  EXPECT_EQ(bits(found >= labels), (Ints{1, 1, 0}));
  EXPECT_EQ(bits(equal(Tensor::of<uint8_t>({255, 1}, {2}), Tensor::of<int8_t>({-1, 1}, {2}))), (Ints{0, 1}));
  EXPECT_EQ(bits(Tensor::of<uint32_t>({4294967295U}, {1}) > Tensor::of<int>({-1}, {1})), (Ints{1}));
  EXPECT_EQ(bits(equal(Tensor::of<uint64_t>({~uint64_t{0}, 5}, {2}), Tensor::of<int64_t>({-1, 5}, {2}))), (Ints{0, 1}));
  EXPECT_EQ(bits(not_equal(Tensor::of<int>({-1}, {}), Tensor::of<uint64_t>({~uint64_t{0}, 0}, {2}))), (Ints{1, 1}));
  EXPECT_EQ(equal(Tensor::of<int>({1, 2}, {2, 1}), Tensor::of<int64_t>({1, 2, 3}, {3})).shape(), (Shape{2, 3}));
  EXPECT_MESSAGE(equal(arange(3), range({3})), "equal: element types differ: lhs i32[3], rhs f32[3]");
  EXPECT_MESSAGE(arange(3) < Tensor::of<int64_t>({1, 2}, {2}), "less: shapes do not broadcast");
  EXPECT_EQ(bits(arange(3) < Tensor::of<uint64_t>({1, 1, 3}, {3})), (Ints{1, 0, 1}));
}

TEST_F(Front, ListsTakeVariablesAndArraysBesideTensors) {
  const Variable v("v", range({2, 2})), w("w", ones({2, 2}));
  EXPECT_EQ(concat({v, w}, 0).shape(), (Shape{4, 2}));
  EXPECT_EQ(values(stack({v, range({2, 2}), Array::of<float>({1, 2, 3, 4}, {2, 2})}, 0)),
            (Floats{0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 4}));
  EXPECT_EQ(values(einsum("ij,jk->ik", {v, w})), (Floats{1, 1, 5, 5}));
  EXPECT_EQ(concat(std::vector<Variable>{v, w}, 1).shape(), (Shape{2, 4}));
  EXPECT_EQ(values(grad(sum(square(concat({v, w}, 0))), std::vector<Variable>{v})[0]), (Floats{0, 2, 4, 6}));
  eval({v, w});
  EXPECT_MESSAGE(concat({range({2}), 1}, 0), "concat: needs tensors: got the number 1; full({}, 1) makes a tensor");
  EXPECT_MESSAGE(stack({v, Tensor()}), "stack: an undefined tensor was used");
  EXPECT_MESSAGE(stack({}), "stack: needs at least one tensor");
}

TEST_F(Front, TransposesMatricesByTheirMember) {
  EXPECT_EQ(values(range({2, 3}).T()), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(Variable("v", range({2, 2})).T()), (Floats{0, 2, 1, 3}));
  EXPECT_EQ(range({3}).T().shape(), (Shape{3}));
  EXPECT_MESSAGE(range({1, 2, 3}).T(), "T: transposes a matrix: got f32[1,2,3]; transpose(x) swaps the last two axes");
}

TEST_F(Front, ComparisonsAndWhere) {
  const Tensor a = range({4});
  EXPECT_EQ((a > 1).dtype(), DType::boolean);
  EXPECT_EQ(values(cast(a > 1, DType::f32)), (Floats{0, 0, 1, 1}));
  EXPECT_EQ(values(where(logical_and(a >= 1, a < 3), a, -1)), (Floats{-1, 1, 2, -1}));
  EXPECT_EQ(values(where(equal(range({2, 1}), 0), 5, range({3}))), (Floats{5, 5, 5, 0, 1, 2}));
  EXPECT_EQ(values(clamp(a, 1, 2)), (Floats{1, 1, 2, 2}));
  EXPECT_EQ(values(grad(sum(clamp(a, 1, 2.5)), std::vector<Tensor>{a})[0]), (Floats{0, 0, 1, 0}));
}

TEST_F(Front, ReductionsDropOrKeepAxes) {
  const Tensor a = range({2, 3});
  EXPECT_EQ(sum(a).item<float>(), 15);
  EXPECT_EQ(values(sum(a, 0)), (Floats{3, 5, 7}));
  EXPECT_EQ(sum(a, -1, Keep::yes).shape(), (Shape{2, 1}));
  EXPECT_EQ(values(mean(a, {1})), (Floats{1, 4}));
  EXPECT_EQ(values(max(a, {1})), (Floats{2, 5}));
  EXPECT_EQ(min(a, {0, 1}).item<float>(), 0);
  EXPECT_NEAR(var(a).item<float>(), 3.5, 1e-6);
  EXPECT_NEAR(var(a, {}, {.correction = 0}).item<float>(), 17.5 / 6, 1e-6);
  EXPECT_EQ(argmax(a, 1).to_vector<int>(), (Ints{2, 2}));
  EXPECT_EQ(argmin(a, 0, Keep::yes).shape(), (Shape{1, 3}));
  EXPECT_MESSAGE(sum(a, 2), "axis out of range: expected -2 to 1 for f32[2,3], got 2");
  EXPECT_MESSAGE(sum(a, {0, -2}), "an axis is given twice");
  EXPECT_MESSAGE(mean(arange(3)), "expected floating, got i32[3]; cast it first");
}

TEST_F(Front, ShapesChangeWithoutChangingElements) {
  const Tensor a = range({2, 3, 4});
  EXPECT_EQ(reshape(a, {-1, 6}).shape(), (Shape{4, 6}));
  EXPECT_EQ(flatten(a).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(a, 0, 1).shape(), (Shape{6, 4}));
  EXPECT_EQ(transpose(a).shape(), (Shape{2, 4, 3}));
  EXPECT_EQ(values(transpose(range({2, 3}), 0, 1)), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(permute(a, {2, 0, -2}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(unsqueeze(a, -1).shape(), (Shape{2, 3, 4, 1}));
  EXPECT_EQ(squeeze(unsqueeze(a, 0), 0).shape(), a.shape());
  EXPECT_EQ(broadcast_to(range({3, 1}), {2, 3, 4}).shape(), (Shape{2, 3, 4}));
  EXPECT_MESSAGE(reshape(a, {5, -1}), "cannot infer the -1 in [5,-1] for f32[2,3,4]");
  EXPECT_MESSAGE(reshape(a, {-1, -1}), "at most one size may be -1");
  EXPECT_MESSAGE(squeeze(a, 0), "has size 2, expected 1");
  EXPECT_MESSAGE(broadcast_to(a, {2, 3, 5}), "cannot broadcast f32[2,3,4] to [2,3,5]");
}

TEST_F(Front, SlicesJoinsAndPads) {
  const Tensor a = range({5});
  EXPECT_EQ(values(slice(a, 0, 1, 4)), (Floats{1, 2, 3}));
  EXPECT_EQ(values(slice(a, 0, -2, 100)), (Floats{3, 4}));
  EXPECT_EQ(values(slice(a, 0, 0, 5, 2)), (Floats{0, 2, 4}));
  EXPECT_EQ(slice(a, 0, 4, 2).shape(), (Shape{0}));
  EXPECT_EQ(select(a, 0, -1).item<float>(), 4);
  EXPECT_EQ(values(narrow(a, 0, 1, 2)), (Floats{1, 2}));
  EXPECT_EQ(values(pad(narrow(a, 0, 0, 2), {1}, {2}, 9)), (Floats{9, 0, 1, 9, 9}));
  EXPECT_EQ(values(concat({range({2}), range({1})}, 0)), (Floats{0, 1, 0}));
  EXPECT_EQ(stack({range({2}), range({2})}, 1).shape(), (Shape{2, 2}));
  EXPECT_EQ(values(split(a, {2, 3}, 0)[1]), (Floats{2, 3, 4}));
  EXPECT_EQ(chunk(range({4, 2}), 2, 0)[1].shape(), (Shape{2, 2}));
  EXPECT_MESSAGE(narrow(a, 0, 4, 2), "outside of axis 0 of f32[5]");
  EXPECT_MESSAGE(split(a, {2, 2}, 0), "sizes add up to 4, expected 5");
  EXPECT_MESSAGE(concat({range({2}), range({2, 1})}, 0), "concat");
  EXPECT_MESSAGE(chunk(a, 2, 0), "does not divide into 2");
  EXPECT_EQ(chunk(zeros({0, 3}), 5, 0).size(), 5u);
  EXPECT_MESSAGE(chunk(zeros({0, 3}), int64_t{1} << 60, 0), "expected at most 65536, got 1152921504606846976");
  EXPECT_MESSAGE(chunk(zeros({int64_t{1} << 40}), int64_t{1} << 40, 0), "too many chunks");
}

TEST_F(Front, MatmulFollowsNumPy) {
  EXPECT_EQ(values(matmul(range({2, 3}), range({3, 2}))), (Floats{10, 13, 28, 40}));
  EXPECT_EQ(matmul(range({3}), range({3})).item<float>(), 5);
  EXPECT_EQ(values(matmul(range({2, 3}), range({3}))), (Floats{5, 14}));
  EXPECT_EQ(values(matmul(range({3}), range({3, 2}))), (Floats{10, 13}));
  EXPECT_EQ(matmul(range({4, 5, 3}), range({3, 2})).shape(), (Shape{4, 5, 2}));
  EXPECT_EQ(matmul(range({4, 1, 5, 3}), range({2, 3, 7})).shape(), (Shape{4, 2, 5, 7}));
  EXPECT_EQ(matmul(range({3}), range({2, 3, 7})).shape(), (Shape{2, 7}));
  EXPECT_EQ(linear(range({4, 5, 3}), range({2, 3}), range({2})).shape(), (Shape{4, 5, 2}));
  EXPECT_EQ(values(linear(range({3}), range({2, 3}))), (Floats{5, 14}));
  EXPECT_MESSAGE(matmul(range({2, 3}), range({4, 2})),
                 "matmul: inner dimensions differ: lhs f32[2,3] axis 1 = 3, rhs f32[4,2] axis 0 = 4");
  EXPECT_MESSAGE(matmul(range({2, 2, 3}), range({3, 3, 2})), "batch axes do not broadcast");
  EXPECT_MESSAGE(linear(range({2, 3}), range({2, 4})), "axis 1 = 3, weight f32[2,4] axis 1 = 4");
  EXPECT_MESSAGE(linear(range({2, 3}), range({2, 3}), range({1})),
                 "expected bias (out), got f32[1] with weight f32[2,3]");
}

TEST_F(Front, ConvolutionsAndPools) {
  const Tensor x = range({1, 1, 4, 4});
  EXPECT_EQ(values(conv2d(x, ones({1, 1, 2, 2}), {.stride = 2})), (Floats{10, 18, 42, 50}));
  EXPECT_EQ(values(conv2d(x, ones({2, 1, 4, 4}), Tensor::of<float>({1, 2}, {2}))), (Floats{121, 122}));
  EXPECT_EQ(conv2d(ones({2, 4, 9, 7}), ones({6, 2, 3, 3}), {.stride = {2, 1}, .padding = 1, .groups = 2}).shape(),
            (Shape{2, 6, 5, 7}));
  EXPECT_EQ(conv1d(ones({2, 3, 10}), ones({5, 3, 3}), {.dilation = 2}).shape(), (Shape{2, 5, 6}));
  EXPECT_EQ(conv_transpose2d(ones({1, 4, 5, 5}), ones({4, 2, 3, 3}), {.stride = 2, .padding = 1, .output_padding = 1})
                .shape(),
            (Shape{1, 2, 10, 10}));
  // A row more than the weight reaches is zeros; one that padding had cut off is as without padding.
  EXPECT_EQ(values(conv_transpose2d(ones({1, 1, 1, 2}), ones({1, 1, 1, 1}), {.output_padding = {1, 0}, .dilation = 2})),
            (Floats{1, 1, 0, 0}));
  EXPECT_EQ(values(conv_transpose2d(ones({1, 1, 3, 1}), ones({1, 1, 3, 1}),
                                    {.padding = {1, 0}, .output_padding = {1, 0}, .dilation = {2, 1}})),
            (Floats{1, 2, 1, 2, 1, 1}));
  EXPECT_EQ(values(max_pool2d(x)), (Floats{5, 7, 13, 15}));
  EXPECT_EQ(values(avg_pool2d(x)), (Floats{2.5f, 4.5f, 10.5f, 12.5f}));
  EXPECT_EQ(values(max_pool2d(x, {.kernel = 3, .stride = 2, .ceil_mode = true})), (Floats{10, 11, 14, 15}));
  EXPECT_EQ(max_pool1d(ones({1, 2, 6}), {.kernel = 2}).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(values(max_pool2d(x, {.stride = 1, .dilation = 3})), (Floats{15}));
  const Pooled at = max_pool2d_with_indices(-x, {.stride = 1, .padding = 1, .dilation = 2});
  EXPECT_EQ(values(at.values), (Floats{-5, -4, -5, -6, -1, 0, -1, -2, -5, -4, -5, -6, -9, -8, -9, -10}));
  EXPECT_EQ(at.indices.to_vector<int>(), (Ints{5, 4, 5, 6, 1, 0, 1, 2, 5, 4, 5, 6, 9, 8, 9, 10}));
  EXPECT_MESSAGE(avg_pool2d(x, {.dilation = 2}), "averages have none: got [2,2]");
  EXPECT_MESSAGE(max_pool2d(x, {.kernel = 2, .dilation = 5}), "dilation must be from 1 to the size of the image");
  EXPECT_EQ(values(max_pool2d(x, {.kernel = 1, .dilation = 5})), values(x));  // one element has no distance
  EXPECT_EQ(adaptive_avg_pool2d(x).item<float>(), 7.5f);
  EXPECT_EQ(adaptive_avg_pool2d(ones({1, 1, 5, 7}), {2, 3}).shape(), (Shape{1, 1, 2, 3}));
  EXPECT_MESSAGE(conv2d(ones({1, 3, 8, 8}), ones({4, 2, 3, 3})), "[1,3,8,8] axis 1 = 3, weight [4,2,3,3] needs 2");
  EXPECT_MESSAGE(conv2d(ones({8, 8}), ones({4, 3, 3, 3})), "input must be (N, C, H, W) or (C, H, W): got f32[8,8]");
  EXPECT_MESSAGE(conv2d(x, ones({1, 1, 2, 2}), {.stride = {1, 2, 3}}), "expected 2 entries");
  EXPECT_MESSAGE(conv2d(x, ones({2, 1, 2, 2}), ones({3})), "expected one number per channel, got f32[3]");
}

TEST_F(Front, TransposedConvolutionIsTheGradientOfConvolution) {
  const Tensor w = range({2, 3, 3, 3}) * 0.1, y = range({1, 2, 2, 2}), x = zeros({1, 3, 5, 5});
  const Tensor dx = grad(sum(conv2d(x, w, {.stride = 2}) * y), std::vector<Tensor>{x})[0];
  EXPECT_EQ(values(dx), values(conv_transpose2d(y, w, {.stride = 2})));
}

TEST_F(Front, Indexing) {
  const Tensor table = range({4, 2}), rows = Tensor::of<int64_t>({3, 0}, {2});
  EXPECT_EQ(values(gather(table, rows)), (Floats{6, 7, 0, 1}));
  EXPECT_EQ(values(gather(table, Tensor::of<int64_t>({1}, {1}), 1)), (Floats{1, 3, 5, 7}));
  EXPECT_EQ(values(scatter_add(Tensor::of<int32_t>({1, 1}, {2}), ones({2, 2}), 3)), (Floats{0, 0, 2, 2, 0, 0}));
  EXPECT_EQ(values(gather_elements(table, Tensor::of<int32_t>({1, 0, 1, 0}, {4, 1}))), (Floats{1, 2, 5, 6}));
  EXPECT_EQ(values(one_hot(rows, 4)), (Floats{0, 0, 0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(embedding(zeros({2, 5}, DType::i32), table).shape(), (Shape{2, 5, 2}));
  EXPECT_MESSAGE(gather(table, table), "indices must be integers");
}

TEST_F(Front, AssignmentsTakeTheLastOfTwoForOnePlace) {
  for (const char* device : {"ref", "cpu"}) {
    const DeviceScope on(device);
    const Tensor x = range({3, 2}), u = Tensor::of<float>({10, 20, 30, 40, 50, 60}, {3, 2});
    const Tensor rows = Tensor::of<int>({2, 0, 2}, {3});
    EXPECT_EQ(values(scatter(x, rows, u)), (Floats{30, 40, 2, 3, 50, 60}));
    const std::vector<Tensor> d = grad(sum(scatter(x, rows, u)), std::vector<Tensor>{x, u});
    EXPECT_EQ(values(d[0]), (Floats{0, 0, 1, 1, 0, 0}));
    EXPECT_EQ(values(d[1]), (Floats{0, 0, 1, 1, 1, 1}));
    const Tensor picks = Tensor::of<int64_t>({1, 1, 0, 0, 1, 0}, {3, 2});
    EXPECT_EQ(values(scatter_elements(x, picks, u)), (Floats{0, 20, 40, 3, 60, 50}));
    EXPECT_EQ(values(index_put(x, {Tensor::of<int>({-1, 0}, {2}), Tensor::of<int>({0, 1}, {2})}, 7)),
              (Floats{0, 7, 2, 3, 7, 5}));
    const Tensor start = Tensor::of<int64_t>({1}, {1});
    EXPECT_EQ(values(update_slice(x, narrow(u, 0, 0, 2), start)), (Floats{0, 1, 10, 20, 30, 40}));
    EXPECT_EQ(values(update_slice(x, Tensor::of<float>({7, 8, 9}, {3, 1}), 1, 1)), (Floats{0, 7, 2, 8, 4, 9}));
    const Error beyond = error_of([&] { values(update_slice(x, narrow(u, 0, 0, 2), 2)); });
    EXPECT_EQ(beyond.kind(), ErrorKind::data) << beyond.what();
  }
  const Tensor x = range({3, 2});
  EXPECT_MESSAGE(scatter(x, arange(2), range({2, 3})), "do not fit indices i32[2] of f32[3,2]: expected f32[2,2]");
  EXPECT_MESSAGE(update_slice(x, range({4, 2}), 0), "expected at most 3 there, and the same elsewhere");
  EXPECT_MESSAGE(index_put(x, {range({2})}, 1), "index_put: indices must be integers or bool: got f32[2]");
}

TEST_F(Front, IndexPutTakesMasksAndAccumulates) {
  const auto mask = [](const std::vector<bool>& v, const Shape& shape) { return Tensor(Array::of<bool>(v, shape)); };
  for (const char* device : {"ref", "cpu"}) {
    const DeviceScope on(device);
    const Tensor x = range({3, 2});
    const Tensor rows = mask({true, false, true}, {3}), some = mask({true, false, false, true, true, true}, {3, 2});
    EXPECT_EQ(values(index_put(x, {rows}, Tensor::of<float>({7, 8}, {2}))), (Floats{7, 8, 2, 3, 7, 8}));
    EXPECT_EQ(values(index_put(x, {some}, range({4}) + 1)), (Floats{1, 1, 2, 2, 3, 4}));
    EXPECT_EQ(values(index_put(x, {rows}, 1, {.accumulate = true})), (Floats{1, 2, 2, 3, 5, 6}));
    // A mask over two axes beside an index of the third.
    const Tensor z = range({2, 3, 4}), pairs = mask({true, false, false, false, true, true}, {2, 3});
    const std::vector<float> put = values(index_put(z, {pairs, arange(3)}, -1));
    for (size_t i = 0; i < put.size(); ++i) {
      EXPECT_EQ(put[i], i == 0 || i == 17 || i == 22 ? -1 : static_cast<float>(i)) << i;
    }
    const Tensor u = Tensor::of<float>({10, 20, 30, 40, 50, 60}, {3, 2}), twice = Tensor::of<int>({2, 0, 2}, {3});
    EXPECT_EQ(values(index_put(x, {twice}, u, {.accumulate = true})), (Floats{30, 41, 2, 3, 64, 85}));
    const Tensor columns = Tensor::of<int64_t>({1, -1}, {2}), y = Tensor::of<int64_t>({1, 2}, {2});
    EXPECT_EQ(index_put(cast(x, DType::i64), {full({}, 2, DType::i64), columns}, y, {.accumulate = true})
                  .to_vector<int64_t>(),
              (std::vector<int64_t>{0, 1, 2, 3, 4, 8}));
    const std::vector<Tensor> d = grad(sum(square(index_put(x, {twice}, u, {.accumulate = true}))), {x, u});
    EXPECT_EQ(values(d[0]), (Floats{60, 82, 4, 6, 128, 170}));
    EXPECT_EQ(values(d[1]), (Floats{128, 170, 60, 82, 128, 170}));
  }
  const Tensor x = range({3, 2}), wrong = mask({true, false}, {2});
  EXPECT_MESSAGE(index_put(x, {wrong}, 1), "index_put: a mask must have the sizes of the axes that it selects from");
  EXPECT_MESSAGE(index_put(x, {mask({true, true, true}, {3}), arange(2), arange(2)}, 1),
                 "index_put: expected indices for 1 to 2 axes of f32[3,2], got 3");
  auto step = compile([](const Tensor& t, const Tensor& m) { return index_put(t, {m}, 0); });
  EXPECT_MESSAGE(step(x, mask({true, true, false}, {3})), "index_put: a mask in a compiled step gives a tensor of");
}

// A cache of keys grows by a slice per step, whose place is known when the step runs.
TEST_F(Front, ASliceIsUpdatedInPlaceOfAVariable) {
  const DeviceScope on("cpu");
  Variable cache("cache", {DType::f32, {4, 2}});
  auto step = compile([&](const Tensor& row, const Tensor& at) {
    cache.assign(update_slice(cache, row, at));
    return sum(cache.value());
  });
  for (int i = 0; i < 3; ++i) step(full({1, 2}, i + 1), Tensor::of<int64_t>({3 - i}, {}));
  EXPECT_EQ(values(cache.value()), (Floats{0, 0, 3, 3, 2, 2, 1, 1}));
}

TEST_F(Front, RollsRepeatsTilesAndDifferences) {
  const Tensor x = range({2, 3});
  EXPECT_EQ(values(roll(x, 1, 1)), (Floats{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(values(roll(x, -4, 1)), (Floats{1, 2, 0, 4, 5, 3}));
  EXPECT_EQ(values(repeat(x, {2}, 0)), (Floats{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(values(repeat(x, {0, 2, 1}, 1)), (Floats{1, 1, 2, 4, 4, 5}));
  EXPECT_EQ(values(tile(x, {1, 2})), (Floats{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(tile(x, {2, 1, 1}).shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(values(diff(x * x)), (Floats{1, 3, 7, 9}));
  EXPECT_EQ(values(diff(x * x, 2)), (Floats{2, 2}));
  EXPECT_EQ(diff(x, 5).shape(), (Shape{2, 0}));
  EXPECT_EQ(values(cumprod(x + 1, 1)), (Floats{1, 2, 6, 4, 20, 120}));
  EXPECT_EQ(cumprod(arange(3) + 1, 0).to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 6}));
  EXPECT_MESSAGE(repeat(x, std::vector<int64_t>(2, 1), 1),
                 "repeat: expected times for 3 elements of axis 1 of f32[2,3], got 2");
  EXPECT_MESSAGE(tile(x, {-1}), "tile: expected times of 0 or more, got [-1]");
}

TEST_F(Front, PlacesAmongSortedNumbers) {
  const float nan = NAN, inf = INFINITY;
  const Tensor sorted = Tensor::of<float>({-inf, -1, 0, 0, 2, nan, nan}, {7});
  const Tensor v = Tensor::of<float>({-inf, -2, 0, 1, inf, nan}, {2, 3});
  EXPECT_EQ(searchsorted(sorted, v).to_vector<int>(), (Ints{0, 1, 2, 4, 5, 5}));
  EXPECT_EQ(searchsorted(sorted, v, Side::right).to_vector<int>(), (Ints{1, 1, 4, 4, 5, 7}));
  for (int n = 1; n < 40; ++n) {
    const Tensor all = searchsorted(arange(n) * 2, arange(2 * n + 1) - 1);
    for (int i = 0; i <= 2 * n; ++i) EXPECT_EQ(all.to_vector<int>()[static_cast<size_t>(i)], i / 2) << n;
  }
  EXPECT_MESSAGE(searchsorted(v, v), "searchsorted: the sorted numbers must have one axis: got f32[2,3]");
}

TEST_F(Front, PaddingRowsReceiveNoGradient) {
  const Tensor table = range({3, 2}), index = Tensor::of<int32_t>({0, 1, 1}, {3});
  const auto g = grad(sum(embedding(index, table, {.padding_idx = 0})), std::vector<Tensor>{table});
  EXPECT_EQ(values(g[0]), (Floats{0, 0, 2, 2, 0, 0}));
}

// Values and gradients of PyTorch 2.15. What is scaled differs from it in the last digits of f32 alone.
TEST_F(Front, EmbeddingsScaleLongRowsAndGradientsByFrequency) {
  const Tensor table = Tensor::of<float>({3, 4, 0, 0.5, -6, 8}, {3, 2});
  const Tensor index = Tensor::of<int64_t>({0, 2, 2, 1}, {2, 2}), w = range({2, 2, 2}) + 1;
  const double inf = std::numeric_limits<double>::infinity();
  struct Case {
    EmbeddingRowOptions options;
    Floats rows, gradient;
  };
  const Floats plain{1, 2, 7, 8, 8, 10}, by_frequency{1, 2, 7, 8, 4, 5}, long_rows{3, 4, -6, 8, -6, 8, 0, 0.5};
  const std::vector<Case> cases = {
      {{.max_norm = 5}, {3, 4, -3, 4, -3, 4, 0, 0.5}, plain},
      {{.max_norm = 1, .norm_type = 1}, {3 / 7.f, 4 / 7.f, -3 / 7.f, 4 / 7.f, -3 / 7.f, 4 / 7.f, 0, 0.5}, plain},
      {{.max_norm = 2, .norm_type = inf}, {1.5, 2, -1.5, 2, -1.5, 2, 0, 0.5}, plain},
      {{.max_norm = 0}, {0, 0, 0, 0, 0, 0, 0, 0}, plain},
      {{.scale_grad_by_freq = true}, long_rows, by_frequency},
      {{.padding_idx = 1, .max_norm = 5, .scale_grad_by_freq = true}, {3, 4, -3, 4, -3, 4, 0, 0.5}, {1, 2, 0, 0, 4, 5}},
  };
  for (const char* device : {"ref", "cpu"}) {
    const DeviceScope on(device);
    for (const Case& c : cases) {
      const Tensor y = embedding(index, table, c.options);
      const Floats rows = values(y), gradient = values(grad(sum(y * w), {table})[0]);
      for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], c.rows[i], 1e-6) << i;
      EXPECT_EQ(gradient, c.gradient);
    }
    auto step = compile([&](const Tensor& t) {
      return grad(sum(embedding(index, t, {.max_norm = 5, .scale_grad_by_freq = true}) * w), {t})[0];
    });
    EXPECT_EQ(values(step(table)), by_frequency);
  }
  EXPECT_MESSAGE(embedding(index, table, {.max_norm = -1}), "embedding: max_norm must not be negative: got -1");
  EXPECT_MESSAGE(embedding(index, arange(3), {.max_norm = 1}), "embedding: weight must be (rows, width): got i32[3]");
}

TEST_F(Front, AnEmptyIndexTakesNothingWhateverItsRank) {
  const Tensor x = range({5}), none = zeros({2, 0}, DType::u8);
  EXPECT_EQ(gather_elements(x, none, 0).shape(), (Shape{2, 0}));
  EXPECT_EQ(gather_elements(x, none, 0).dtype(), DType::f32);
  EXPECT_EQ(values(grad(sum(gather_elements(x, none, 0)) + sum(x), {x})[0]), (Floats{1, 1, 1, 1, 1}));
  EXPECT_MESSAGE(gather_elements(x, zeros({2, 0}), 0), "gather_elements: ");
}

TEST_F(Front, AveragesOfIntegersAreRoundedTowardZero) {
  for (const char* device : {"ref", "cpu"}) {
    const DeviceScope on(device);
    const auto numbers = [](const Tensor& y) { return y.to_vector<int64_t>(); };
    using Whole = std::vector<int64_t>;
    const Tensor x = Tensor::of<int64_t>({-7, 3, -5, 8, 2, 1, -9}, {1, 1, 7});
    EXPECT_EQ(numbers(avg_pool1d(x)), (Whole{-2, 1, 1}));
    EXPECT_EQ(numbers(avg_pool1d(x, {.kernel = 3, .stride = 2, .padding = 1})), (Whole{-1, 2, 3, -2}));
    EXPECT_EQ(
        numbers(avg_pool1d(x, {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false})),
        (Whole{-2, 2, 3, -4}));
    EXPECT_EQ(avg_pool1d(cast(x, DType::i8)).dtype(), DType::i8);
    const Tensor image = reshape(arange(25, DType::i64) - 10, {1, 1, 5, 5});
    EXPECT_EQ(numbers(avg_pool2d(image, {.kernel = 2, .stride = 2, .padding = 1})),
              (Whole{-2, -4, -3, -1, -1, 1, 3, 9, 11}));
    EXPECT_EQ(numbers(avg_pool2d(image, {.kernel = {3, 2}, .divisor = -4})), (Whole{6, 3}));
    const int64_t big = int64_t{1} << 40;
    EXPECT_EQ(numbers(avg_pool1d(Tensor::of<int64_t>({big + 1, big + 2, 49, 0}, {1, 1, 4}))), (Whole{big + 1, 24}));
    // Sums of n equal numbers over n: 1 / 49 times 49 is less than 1 in f64.
    for (int64_t n = 1; n <= 200; ++n) {
      EXPECT_EQ(numbers(avg_pool1d(full({1, 1, n}, n - 100, DType::i64), {.kernel = n})), (Whole{n - 100})) << n;
    }
  }
}

TEST_F(Front, LossesAndMetrics) {
  const Tensor logits = Tensor::of<float>({2, 1, 0, 0, 1, 3}, {2, 3}), labels = Tensor::of<int32_t>({0, 1}, {2});
  const double l0 = std::log(std::exp(2.0) + std::exp(1.0) + 1) - 2,
               l1 = std::log(1 + std::exp(1.0) + std::exp(3.0)) - 1;
  EXPECT_NEAR(cross_entropy(logits, labels).item<float>(), (l0 + l1) / 2, 1e-6);
  EXPECT_NEAR(cross_entropy(logits, labels, {.reduction = Reduction::sum}).item<float>(), l0 + l1, 1e-6);
  EXPECT_NEAR(values(cross_entropy(logits, labels, {.reduction = Reduction::none}))[1], l1, 1e-6);
  EXPECT_NEAR(cross_entropy(logits, one_hot(labels, 3)).item<float>(), (l0 + l1) / 2, 1e-6);
  EXPECT_NEAR(nll_loss(log_softmax(logits), labels).item<float>(), (l0 + l1) / 2, 1e-6);
  EXPECT_EQ(count_correct(logits, labels).item<int>(), 1);
  EXPECT_NEAR(mse_loss(range({2}), 3).item<float>(), 6.5, 1e-6);
  EXPECT_NEAR(l1_loss(range({2}), 3).item<float>(), 2.5, 1e-6);
  EXPECT_NEAR(bce_with_logits(zeros({2}), ones({2})).item<float>(), std::log(2.0), 1e-6);
  EXPECT_MESSAGE(cross_entropy(logits, zeros({3}, DType::i32)), "labels has the wrong shape");
  EXPECT_MESSAGE(cross_entropy(logits, labels, {.label_smoothing = 1}), "label smoothing out of range");
  EXPECT_MESSAGE(nll_loss(logits, logits), "expected (N, C) and N integer classes");
  const Tensor column = range({3, 1}), row = range({3});
  EXPECT_MESSAGE(mse_loss(column, row), "mse_loss: shapes differ: expected equal ones, got f32[3,1] and f32[3]");
  EXPECT_MESSAGE(l1_loss(row, column), "l1_loss: shapes differ: expected equal ones, got f32[3] and f32[3,1]");
  EXPECT_MESSAGE(bce_with_logits(column, row),
                 "bce_with_logits: shapes differ: expected equal ones, got f32[3,1] and f32[3]");
}

TEST_F(Front, ActivationsAtTheirKinks) {
  const Tensor x = Tensor::of<float>({-100, -1, 0, 1, 100}, {5});
  EXPECT_EQ(values(leaky_relu(x, 0.1)), (Floats{-10, -0.1f, 0, 1, 100}));
  EXPECT_NEAR(values(elu(x))[0], -1, 1e-6);
  EXPECT_EQ(values(softplus(x))[4], 100);
  EXPECT_NEAR(values(softplus(x))[2], std::log(2.0), 1e-6);
  EXPECT_NEAR(values(silu(x))[3], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(values(gelu(x))[3], 0.8413447, 1e-6);
  EXPECT_NEAR(values(gelu(x, GeluKind::tanh))[3], 0.841192, 1e-6);
  for (float g : values(grad(sum(elu(x) + softplus(x)), std::vector<Tensor>{x})[0])) EXPECT_TRUE(std::isfinite(g));
}

TEST_F(Front, NormalizationsGiveZeroMeanAndUnitVariance) {
  const Tensor x = range({2, 4, 3}) * range({2, 4, 3});
  const BatchNormResult r = batch_norm(x, ones({4}), zeros({4}));
  EXPECT_NEAR(values(mean(r.y, {0, 2}))[1], 0, 1e-5);
  EXPECT_NEAR(values(var(r.y, {0, 2}, {.correction = 0}))[2], 1, 1e-3);
  EXPECT_EQ(r.mean.shape(), (Shape{4}));
  EXPECT_NEAR(values(mean(layer_norm(x, ones({3}), zeros({3})), {2}))[0], 0, 1e-5);
  EXPECT_NEAR(values(mean(group_norm(x, 2, ones({4}), zeros({4})), {1, 2}))[0], 0, 1e-5);
  EXPECT_MESSAGE(group_norm(x, 3, ones({4}), zeros({4})), "do not divide into 3 groups");
  EXPECT_MESSAGE(layer_norm(x, ones({5}), zeros({5})), "expected [3]");
}

// Both moments come from one pass: the variance must survive a mean far from zero, and a value far from the rest, at
// the edge of an image and in its center, about which the moments are taken.
TEST_F(Front, BatchStatisticsHoldFarFromZero) {
  for (const auto& [at, more] : {std::pair{0, 0.0F}, {0, 1e4F}, {8 * 16 + 8, 1e4F}}) {
    for (const char* const device : {"ref", "cpu"}) {
      const DeviceScope on(device);
      Floats x(4096);
      double sum = 0, squares = 0;
      for (size_t i = 0; i < x.size(); ++i) x[i] = 3e4f + static_cast<float>(i * 7919 % 101);
      x[static_cast<size_t>(at)] += more;
      for (float v : x) sum += v;
      for (float v : x) squares += (v - sum / 4096) * (v - sum / 4096);
      const BatchNormResult r = batch_norm(Tensor::of(x, {16, 1, 16, 16}), ones({1}), zeros({1}));
      EXPECT_NEAR(values(r.mean)[0], sum / 4096, 0.02) << device;
      EXPECT_NEAR(values(r.variance)[0] / (squares / 4096), 1, 4 * 4096 * 0x1p-24)
          << device << " " << at << " " << more;
    }
  }
}

TEST_F(Front, ATransposedConvolutionWithMorePaddingThanResultIsRefused) {
  const Tensor x = ones({1, 1, 2, 3}), w = ones({1, 1, 1, 1});
  EXPECT_MESSAGE(conv_transpose2d(x, w, {.padding = 5}),
                 "padding removes more than the whole axis: got padding [5,5] for input f32[1,1,2,3] and weight "
                 "f32[1,1,1,1], which leaves [1,1,-8,-7]");
  EXPECT_MESSAGE(conv_transpose2d(x, w, {.padding = -1}), "padding and output_padding not negative");
  EXPECT_MESSAGE(conv_transpose2d(x, w, {.groups = 2}), "groups must be from 1 to the channels of the input: got 2");
}

TEST_F(Front, DropoutKeepsTheExpectation) {
  seed(1);
  const Floats y = values(dropout(ones({10000}), 0.25));
  double total = 0;
  for (float v : y) {
    EXPECT_TRUE(v == 0 || std::abs(v - 1 / 0.75f) < 1e-6);
    total += v;
  }
  EXPECT_NEAR(total / 10000, 1, 0.03);
  EXPECT_MESSAGE(dropout(ones({2}), 1.5), "expected 0 <= p <= 1");
  EXPECT_EQ(values(dropout(ones({2}), 1)), (Floats{0, 0}));
}

TEST_F(Front, WholeNumbersOfEightBytesAreNotTakenForTheirLowerHalves) {
  const int64_t wrap = int64_t{1} << 32;
  const auto number = [](int64_t n) { return Tensor::of<int64_t>({n}, {1}); };
  const Tensor q = range({1, 1, 3, 2}), x = range({1, 3, 4}) / 8.0, w = range({4, 1}) / 8.0;
  EXPECT_EQ(values(attention(q, q, q, {.lengths = number(wrap + 1)})), values(attention(q, q, q)));
  EXPECT_EQ(values(attention_weights(q, q, {.lengths = number(wrap + 1)})), values(attention_weights(q, q)));
  EXPECT_EQ(values(attention(q, q, q, {.lengths = number(3 - wrap)})),
            values(attention(q, q, q, {.lengths = number(1)})));
  EXPECT_EQ(values(lstm(x, w, {.counts = number(wrap + 1)})), values(lstm(x, w)));
  EXPECT_EQ(count_correct(reshape(q, {3, 2}), Tensor::of<int64_t>({1, wrap + 1, 1}, {3})).item<int>(), 2);
}

TEST(FrontFunctions, OneSampleWithoutBatchAxisIsABatchOfOne) {
  const Tensor x = range({3, 6, 6}), w = range({4, 3, 3, 3}) / 10, bias = range({4}), batch = unsqueeze(x, 0);
  const auto expect = [](const Tensor& lone, const Tensor& of_batch) {
    EXPECT_EQ(lone.shape(), squeeze(of_batch, 0).shape());
    EXPECT_EQ(values(lone), values(of_batch));
  };
  expect(conv2d(x, w), conv2d(batch, w));
  expect(conv2d(x, w, bias, {.padding = 1}), conv2d(batch, w, bias, {.padding = 1}));
  expect(conv_transpose2d(x, range({3, 2, 3, 3})), conv_transpose2d(batch, range({3, 2, 3, 3})));
  expect(max_pool2d(x, {.kernel = 2}), max_pool2d(batch, {.kernel = 2}));
  expect(max_pool2d_with_indices(x).indices, max_pool2d_with_indices(batch).indices);
  expect(avg_pool2d(x, {.kernel = 3}), avg_pool2d(batch, {.kernel = 3}));
  expect(adaptive_avg_pool2d(x, {2, 3}), adaptive_avg_pool2d(batch, {2, 3}));
  const Tensor rows = range({3, 8}), row_batch = unsqueeze(rows, 0);
  expect(conv1d(rows, range({2, 3, 3}), range({2})), conv1d(row_batch, range({2, 3, 3}), range({2})));
  expect(max_pool1d(rows), max_pool1d(row_batch));
  expect(avg_pool1d(rows), avg_pool1d(row_batch));
  const Tensor logits = range({5}) / 3, target = full({}, 2, DType::i64);
  EXPECT_EQ(values(cross_entropy(logits, target)), values(cross_entropy(unsqueeze(logits, 0), unsqueeze(target, 0))));
  EXPECT_EQ(nll_loss(logits, target, {.reduction = Reduction::none}).shape(), Shape{});
  EXPECT_EQ(values(nll_loss(logits, target)), values(-select(logits, 0, 2)));
}

TEST(FrontFunctions, TheVarianceOfFewerElementsThanItsCorrectionIsNaN) {
  EXPECT_TRUE(std::isnan(values(var(range({1}), {}, {.correction = 1}))[0]));
  EXPECT_TRUE(std::isnan(values(stddev(zeros({0})))[0]));
}

TEST(FrontFunctions, LogsumexpOfIntegersIsThatOfFloats) {
  EXPECT_EQ(values(logsumexp(Tensor::of<int64_t>({1, 2, 3}, {3}))), values(logsumexp(range({3}) + 1)));
}

}  // namespace
}  // namespace freight
