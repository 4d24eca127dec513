// Every op that ONNX files are written of, one small file each, against our own result; and what has no form in ONNX.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "freight/deploy/onnx_graph_internal.h"
#include "freight/ops/ops.h"
#include "freight/trace/scope.h"
#include "freight/trace/tracer.h"
#include "tests/deploy/onnx_runtime.h"

namespace freight::deploy {
namespace {

using freight::testing::expect_error;

struct Case {
  const char* name;
  std::function<Tensor(const Tensor& x)> f;  // x f32 (N, 4, 6)
};

// Writes f for any batch.
void write(const std::string& file, const std::function<Tensor(const Tensor&)>& f) {
  std::vector<onnx::Probe> probes;
  std::vector<Array> captured, states;
  for (const int64_t batch : {1009, 1013}) {
    const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
    const trace::Recording recording(tape);
    tape->finish({tape->value_of(f(tape->input("x", {DType::f32, {batch, 4, 6}})))});
    captured = tape->captured();
    states.clear();
    for (const auto& v : tape->variables()) {
      states.emplace_back(v->type.dtype, v->type.shape, v->materialize());
    }
    probes.push_back({batch, 0, onnx::prepared(tape->graph())});
  }
  std::string why;
  const auto family = onnx::Family::of(std::move(probes), why);
  ASSERT_TRUE(family) << why;
  onnx::Model model{.name = "case",
                    .producer_version = "0",
                    .nodes = {},
                    .initializers = {},
                    .inputs = {},
                    .outputs = {},
                    .metadata = {}};
  onnx::write_graph(*family, captured, states, "y", model);
  onnx::save(file, model);
}

Tensor number_of(const Tensor& condition) { return where(condition, 1.0, -1.0); }
Tensor per_row(int64_t n) { return cast(arange(n), DType::f32); }

// -0.8 to 0.8 in some order.
Tensor spread(const Shape& shape) {
  return reshape((remainder(per_row(shape.numel()) * 37.0, 17.0) - 8.0) * 0.1, shape);
}
// Tokens of each sample, from none on: where the first number of a step is largest.
Tensor tokens(const Tensor& x) { return argmax(select(x, 2, 0), 1); }

const Case kCases[] = {
    {"neg abs sign", [](const Tensor& x) { return -x + abs(x) * 3.0 + sign(x); }},
    {"exp expm1", [](const Tensor& x) { return exp(x) + expm1(x); }},
    {"log log1p", [](const Tensor& x) { return log(abs(x) + 0.5) + log1p(abs(x)); }},
    {"sqrt rsqrt reciprocal square",
     [](const Tensor& x) { return sqrt(abs(x)) + rsqrt(abs(x) + 1.0) + reciprocal(abs(x) + 2.0) + square(x); }},
    {"sin cos tan tanh", [](const Tensor& x) { return sin(x) + cos(x) + tan(x * 0.5) + tanh(x); }},
    {"sigmoid softsign erf relu", [](const Tensor& x) { return sigmoid(x) + softsign(x) * 2.0 + erf(x) + relu(x); }},
    {"floor ceil round", [](const Tensor& x) { return floor(x) + ceil(x) * 10.0 + round(x * 2.0) * 100.0; }},
    {"gelu silu elu softplus",
     [](const Tensor& x) { return gelu(x) + gelu(x, GeluKind::tanh) + silu(x) + elu(x) + softplus(x); }},
    {"logic",
     [](const Tensor& x) { return number_of(logical_or(logical_and(x > 0.5, x < 1.0), logical_not(x >= -1.0))); }},
    {"comparisons",
     [](const Tensor& x) {
       return number_of(equal(round(x), 0.0)) + number_of(not_equal(round(x), 1.0)) * 2.0 + number_of(x <= 0.25) * 4.0;
     }},
    {"is_finite", [](const Tensor& x) { return number_of(is_finite(x)) + number_of(is_finite(x / 0.0)) * 2.0; }},
    {"sub div pow", [](const Tensor& x) { return (1.0 - x) / (abs(x) + 1.0) + pow(abs(x) + 0.5, x); }},
    {"maximum minimum remainder",
     [](const Tensor& x) { return maximum(x, 0.3) + minimum(x, -0.2) * 2.0 + remainder(x * 5.0, 2.0); }},
    {"integers",
     [](const Tensor& x) {
       const Tensor n = cast(x * 10.0, DType::i32);
       return cast(maximum(n, 2) + cast(sum(n, 2, Keep::yes) * 3, DType::i32) - max(n, 1, Keep::yes), DType::f32);
     }},
    {"sum mean",
     [](const Tensor& x) {
       return sum(x, 2, Keep::yes) + mean(x, {1, 2}, Keep::yes);
     }},
    {"max min", [](const Tensor& x) { return max(x, 1, Keep::yes) - min(x, 2, Keep::yes); }},
    {"argmax argmin", [](const Tensor& x) { return cast(argmax(x, 2) * 10 + argmin(x, 2), DType::f32); }},
    {"reshape permute flatten",
     [](const Tensor& x) {
       return reshape(permute(x, {2, 0, 1}), {3, 2, -1, 2});
     }},
    {"batch in the middle and at the end",
     [](const Tensor& x) {
       return transpose(reshape(x, {-1, 24}), 0, 1) * 2.0;
     }},
    {"broadcast that stays",
     [](const Tensor& x) {
       return reshape(broadcast_to(unsqueeze(x, 1), {x.dim(0), 5, 4, 6}), {x.dim(0), 5, 24});
     }},
    {"a number for every sample",
     [](const Tensor& x) {
       return matmul(full({x.dim(0), 3, 4}, 0.5), x);
     }},
    {"places", [](const Tensor& x) { return x * cast(iota(x.shape(), 0), DType::f32) + per_row(6); }},
    {"slice select",
     [](const Tensor& x) { return slice(x, 2, 1, 6, 2) * unsqueeze(select(x, 2, 3), 2) + narrow(x, 2, 2, 3); }},
    {"pad",
     [](const Tensor& x) {
       return pad(x, {0, 1, 0}, {0, 0, 2}, 7.0);
     }},
    {"concat",
     [](const Tensor& x) {
       return concat({x, x * 2.0, zeros(x.shape())}, 1);
     }},
    {"concat of batches",
     [](const Tensor& x) {
       return concat({x, ones({2, 4, 6})}, 0);
     }},
    {"matmul", [](const Tensor& x) { return matmul(matmul(x, transpose(x)), x); }},
    {"matmul of a transposed", [](const Tensor& x) { return matmul(transpose(x), x); }},
    {"matmul of matrices",
     [](const Tensor& x) {
       return matmul(reshape(x, {-1, 6}), reshape(per_row(18), {6, 3}));
     }},
    {"transposed convolutions",
     [](const Tensor& x) {
       const Tensor image = reshape(x, {-1, 4, 3, 2});
       const ConvTransposeOptions strided{.stride = {3, 2}, .padding = {1, 0}, .output_padding = {2, 1}, .dilation = 2};
       return concat({reshape(conv_transpose2d(image, spread({4, 3, 2, 3})) + spread({1, 3, 1, 1}), {-1, 48}),
                      reshape(conv_transpose2d(image, spread({4, 2, 3, 2}), strided), {-1, 2 * 11 * 6})},
                     1);
     }},
    {"pools",
     [](const Tensor& x) {
       return max_pool1d(x, {.kernel = 3, .stride = 2, .padding = 1}) +
              avg_pool1d(x, {.kernel = 3, .stride = 2, .padding = 1}) +
              avg_pool1d(x, {.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false});
     }},
    {"averages that reach beyond the padding",
     [](const Tensor& x) {
       return concat({avg_pool1d(x, {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}),
                      avg_pool1d(x, {.kernel = 3, .stride = 2, .ceil_mode = true})},
                     2);
     }},
    {"a one-hot row", [](const Tensor& x) { return one_hot(argmax(x, 2), 6); }},
    {"pool to cells",
     [](const Tensor& x) {
       return adaptive_avg_pool2d(unsqueeze(x, 1), {3, 4});
     }},
    {"group_norm", [](const Tensor& x) { return group_norm(x, 2, ones({4}), zeros({4})); }},
    {"softmax", [](const Tensor& x) { return softmax(x, 1) + log_softmax(x, 2); }},
    {"a number that follows the batch",
     [](const Tensor& x) {
       const auto n = static_cast<double>(x.dim(0));
       return x * n + x * x * (1 / (3 * n)) + mean(x, 0, Keep::yes);
     }},
    {"statistics of the batch", [](const Tensor& x) { return batch_norm(x, spread({4}), spread({4})).y; }},
    {"gather", [](const Tensor& x) { return gather(x, remainder(arange(8), 6), 2); }},
    {"sinh cosh asin acos atan asinh acosh atanh",
     [](const Tensor& x) {
       const Tensor small = x / (abs(x) + 1.0);
       return sinh(x) + cosh(x) + asin(small) + acos(small) + atan(x) + asinh(x) + acosh(abs(x) + 1.0) + atanh(small);
     }},
    {"log2 log10 logaddexp",
     [](const Tensor& x) {
       const Tensor none = where(x > 1.0, -INFINITY, x);
       return exp(logaddexp(none, none)) + logaddexp(x, x * 30.0) + log2(abs(x) + 0.5) * 3.0 + log10(abs(x) + 0.5);
     }},
    {"copysign floor_divide signbit",
     [](const Tensor& x) {
       const Tensor zeros = where(x > 0.0, 0.0, -x * 0.0);
       return copysign(x, -x) + copysign(2.0, zeros) * 10.0 + floor_divide(x * 10.0, 3.0) * 100.0 +
              number_of(signbit(x));
     }},
    {"atan2 hypot",
     [](const Tensor& x) {
       const Tensor other = flip(x, 2), zeros = where(x > 0.0, 0.0, -x * 0.0), tops = where(x > 1.0, 0.0, x);
       return atan2(x, other) + atan2(zeros, other) * 3.0 + atan2(other, zeros) * 9.0 + atan2(zeros, -zeros) * 27.0 +
              hypot(x * 3.0, other) + hypot(tops, tops);
     }},
    {"argsort sort topk",
     [](const Tensor& x) {
       const Tensor coarse = round(x);
       const auto [most, at] = topk(x, 3, 2);
       return cast(argsort(coarse, 2) + argsort(coarse, 2, Order::descending) * 10, DType::f32) +
              sort(x, 1).values * 1e-2 + cast(argsort(cast(coarse, DType::i8), 2), DType::f32) +
              sum(most, 2, Keep::yes) + cast(sum(at, 2, Keep::yes), DType::f32);
     }},
    {"sort of the batch", [](const Tensor& x) { return sort(x, 0).values; }},
    {"casts of numbers beyond the range",
     [](const Tensor& x) {
       const auto back = [](const Tensor& t, DType to) { return cast(cast(t, to), DType::f32); };
       return back(where(x > 2.0, NAN, x * 100.0), DType::i8) + back(x * 1e3, DType::u8) * 1e-2 +
              back(x * 1e5, DType::i16) * 1e-5 + back(x * 1e10, DType::i32) * 1e-10 +
              back(x * 1e20, DType::i64) * 1e-20;
     }},
    {"places of maxima, and back to them",
     [](const Tensor& x) {
       const auto [y, places] = max_pool2d_with_indices(unsqueeze(x, 1), {.kernel = {2, 3}, .stride = {2, 2}});
       const Tensor flat = reshape(places, {-1, 4}), values = reshape(y, {-1, 4});
       return scatter_elements(zeros({x.dim(0), 24}), flat, values, 1) + cast(sum(flat, 1, Keep::yes), DType::f32);
     }},
    {"scatter",
     [](const Tensor& x) {
       return scatter_add(Tensor::of<int32_t>({0, 8, 3, 3, 0, 1}, {6}), x, 9, 2) +
              scatter_add(Tensor::of<int32_t>({0, 1, 1, 0, 4, 5}, {2, 3}), reshape(x, {-1, 4, 2, 3}), 9, 2) +
              concat(
                  {scatter(x, Tensor::of<int32_t>({4, 1}, {2}), narrow(x, 2, 2, 2) * 2.0, 2), zeros({x.dim(0), 4, 3})},
                  2);
     }},
    {"nan that is filled in", [](const Tensor& x) { return where(is_nan(where(x > 1.0, NAN, x)), 5.0, x); }},
    {"gather_elements", [](const Tensor& x) { return gather_elements(x, argmax(x, 2, Keep::yes), 2); }},
    {"embedding one_hot",
     [](const Tensor& x) {
       const Tensor index = argmax(x, 1);
       return embedding(index, reshape(per_row(8), {4, 2}), {.padding_idx = 1}) + sum(one_hot(index, 4), 2, Keep::yes);
     }},
    {"attention",
     [](const Tensor& x) {
       const Tensor q = reshape(x, {-1, 2, 6, 2});
       return attention(q, q * 0.5, q + 1.0, {.causal = true, .lengths = cast(argmax(max(x, 1), 1), DType::i32)});
     }},
    {"attention with a mask that hides all keys from the last query",
     [](const Tensor& x) {
       const Tensor q = reshape(x, {-1, 2, 6, 2});
       return attention(q, q * 0.5, q + 1.0, {.mask = iota({6, 6}, 1) > iota({6, 6}, 0)});
     }},
    {"lstm",
     [](const Tensor& x) {
       const Tensor part = linear(x, spread({12, 6}), spread({12}));
       return lstm(part, spread({12, 3})) + lstm(part, spread({12, 3}), {.reverse = true}) * 2.0;
     }},
    {"lstm behind a term per step, of as many steps as gates",
     [](const Tensor& x) {
       return lstm(linear(x, spread({4, 6})) + reshape(spread({4}), {1, 4, 1}), spread({4, 1}));
     }},
    {"lstm of texts",
     [](const Tensor& x) {
       const Tensor part = reshape(x, {-1, 3, 8});
       return lstm(part, spread({8, 2}), {.counts = tokens(part)});
     }},
    {"gru",
     [](const Tensor& x) {
       const Tensor part = linear(x, spread({9, 6}), spread({9})), h = spread({9, 3});
       return gru(part, h, spread({3})) + gru(part, h, spread({3}), {.reverse = true, .counts = tokens(x)}) * 2.0;
     }},
    {"gru of texts",
     [](const Tensor& x) {
       return gru(x, spread({6, 2}), spread({2}), {.counts = tokens(x)});
     }},
};

TEST(OnnxOps, AgreeWithOurs) {
  if (freight::testing::peer_python().empty()) GTEST_SKIP() << "needs tests/requirements.txt";
  test::Runtime runtime;
  std::vector<Array> expected;
  std::vector<std::string> names;
  for (const Case& c : kCases) {
    const std::string file = runtime / cat(names.size(), ".onnx");
    SCOPED_TRACE(c.name);
    write(file, c.f);
    for (const int64_t batch : {1, 3}) {
      Array x(DType::f32, {batch, 4, 6});
      for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>((i * 37) % 101 - 50) / 21.0f;
      runtime.add(file, x);
      expected.push_back(c.f(Tensor(x)).array().clone());
      names.push_back(cat(c.name, ", batch ", batch));
    }
  }
  const std::vector<Array> results = runtime.results();
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_LE(test::relative_difference(results[i], expected[i]), 1e-5) << names[i];
  }
}

TEST(OnnxOps, AnOpWithoutAFormIsNamedWithItsLayer) {
  const testing::TemporaryDir dir;
  expect_error(ErrorKind::usage, {"export", "nextafter", "layer3.odd"}, [&] {
    write(dir / "m.onnx", [](const Tensor& x) {
      const Scope outer("layer3"), inner("odd");
      return nextafter(x, 1.0);
    });
  });
  expect_error(ErrorKind::usage, {"export", "random_uniform"}, [&] {
    write(dir / "m.onnx", [](const Tensor& x) { return x + random_uniform({4, 6}); });
  });
  expect_error(ErrorKind::usage, {"export", "ONNX has no form of svd"},
               [&] { write(dir / "m.onnx", [](const Tensor& x) { return svdvals(x); }); });
  expect_error(ErrorKind::usage, {"export", "ONNX has no form of lu_factor"},
               [&] { write(dir / "m.onnx", [](const Tensor& x) { return det(matmul(x, transpose(x))); }); });
  EXPECT_EQ(dir.entries(), 0u);
}

// The whole net may depend on the batch, but only by extents.
TEST(OnnxOps, ANetThatIsAnotherForEachBatchIsRefused) {
  const auto why = [](const std::function<Tensor(const Tensor&)>& f) {
    std::vector<onnx::Probe> probes;
    for (const int64_t batch : {1009, 1013}) {
      const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
      const trace::Recording recording(tape);
      tape->finish({tape->value_of(f(tape->input("x", {DType::f32, {batch, 4, 6}})))});
      probes.push_back({batch, 0, onnx::prepared(tape->graph())});
    }
    std::string reason;
    EXPECT_FALSE(onnx::Family::of(std::move(probes), reason));
    return reason;
  };
  EXPECT_NE(why([](const Tensor& x) { return x.dim(0) == 1009 ? x : x * 2.0; }).find("other operations"),
            std::string::npos);
  EXPECT_NE(why([](const Tensor& x) { return x * std::sqrt(static_cast<double>(x.dim(0))); }).find("constant"),
            std::string::npos);
}

}  // namespace
}  // namespace freight::deploy
