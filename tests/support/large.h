// Ops on operands of about 2^31 bytes and elements. Operands are zeros, which take no memory until they are written,
// but for small whole numbers planted at both ends and around the places that 31 and 32 bits cannot count: what these
// must become is summed up in double, and everything else must be as nothing was planted.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "freight/backend/choices.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/ir/builder.h"
#include "tests/support/large_case.h"
#include "tests/support/large_layers.h"
#include "tests/support/large_linalg.h"
#include "tests/support/run.h"

namespace freight::test {

// Both ends, the middle, and where bytes and elements leave 31 and 32 bits, each with its neighbors.
inline std::set<int64_t> edges(int64_t elements, DType dtype) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  std::set<int64_t> places;
  for (const int64_t p : {int64_t{0}, elements / 2, elements - 1, (int64_t{1} << 31) / size, (int64_t{1} << 32) / size,
                          int64_t{1} << 31, int64_t{1} << 32}) {
    for (int64_t place = p - 1; place <= p + 1; ++place) {
      if (place >= 0 && place < elements) places.insert(place);
    }
  }
  return places;
}

// Sums of products of these are exact also in bf16.
inline double planted(int64_t place) { return static_cast<double>(1 + place % 3); }

inline void put(const Array& a, int64_t place, double value) {
  dispatch(a.dtype(), [&]<class T>(T) { static_cast<T*>(a.raw())[place] = element_cast<T>(value); });
}
inline double at(const Array& a, int64_t place) {
  return dispatch(a.dtype(), [&]<class T>(T) { return element_cast<double>(static_cast<const T*>(a.raw())[place]); });
}
inline Array zeros_but(DType dtype, const Shape& shape, const std::set<int64_t>& places) {
  Array a(dtype, shape);
  for (const int64_t place : places) put(a, place, planted(place));
  return a;
}

// All elements are `background`, but those of `expected`. What is planted is whole, so that rounding hides nothing.
inline void expect_only(const Array& got, const std::map<int64_t, double>& expected, double background = 0) {
  const auto same = [](double a, double b) { return std::fabs(a - b) <= 0.01 * std::max(1.0, std::fabs(b)); };
  int64_t others = 0, elsewhere = 0;
  dispatch(got.dtype(), [&]<class T>(T) {
    const T* values = static_cast<const T*>(got.raw());
    for (int64_t i = 0; i < got.numel(); ++i) {
      const auto v = element_cast<double>(values[i]);
      if (v == background || same(v, background)) continue;
      ++others;
      if (expected.count(i) == 0 && elsewhere++ < 3)
        ADD_FAILURE() << "element " << i << " is " << v << ", need " << background;
    }
  });
  const auto wanted = std::count_if(expected.begin(), expected.end(),
                                    [&](const auto& entry) { return !same(entry.second, background); });
  EXPECT_EQ(others, wanted);
  int shown = 0;
  for (const auto& [place, value] : expected) {
    if (!same(at(got, place), value) && shown++ < 3)
      ADD_FAILURE() << "element " << place << " is " << at(got, place) << ", need " << value;
  }
}

// A graph of one op on these operands.
inline std::vector<Array> run_op(const RunGraph& run, Op op, const Attrs& attrs, const std::vector<Array>& operands) {
  Graph g;
  Builder b(g);
  std::vector<Value> in;
  for (const Array& a : operands) in.push_back(b.one(Op::input, LeafAttrs{"x", {a.dtype(), a.shape()}}, {}));
  g.outputs = b.add(op, attrs, in);
  return run(g, operands);
}

// --- products ---

struct LargeProduct {
  DType dtype = DType::f32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool trans_a = false, trans_b = false;
};

inline void check_product(const RunGraph& run, const LargeProduct& p) {
  std::set<int64_t> batches, rows, columns, depth;
  const auto matrix = [&](int64_t slow, int64_t fast, std::set<int64_t>& of_slow, std::set<int64_t>& of_fast) {
    for (const int64_t place : edges(p.batch * slow * fast, p.dtype)) {
      batches.insert(place / fast / slow);
      of_slow.insert(place / fast % slow);
      of_fast.insert(place % fast);
    }
  };
  if (p.trans_a) {
    matrix(p.k, p.m, depth, rows);
  } else {
    matrix(p.m, p.k, rows, depth);
  }
  if (p.trans_b) {
    matrix(p.n, p.k, columns, depth);
  } else {
    matrix(p.k, p.n, depth, columns);
  }
  matrix(p.m, p.n, rows, columns);
  const auto shape = [&](int64_t slow, int64_t fast) {
    return p.batch == 1 ? Shape{slow, fast} : Shape{p.batch, slow, fast};
  };
  const Array a(p.dtype, p.trans_a ? shape(p.k, p.m) : shape(p.m, p.k)),
      b(p.dtype, p.trans_b ? shape(p.n, p.k) : shape(p.k, p.n));
  const auto of_a = [&](int64_t z, int64_t i, int64_t q) { return planted(z + i * 5 + q * 7); };
  const auto of_b = [&](int64_t z, int64_t q, int64_t j) { return planted(z * 2 + q + j * 11); };
  std::map<int64_t, double> expected;
  for (const int64_t z : batches) {
    for (const int64_t q : depth) {
      for (const int64_t i : rows) put(a, z * p.m * p.k + (p.trans_a ? q * p.m + i : i * p.k + q), of_a(z, i, q));
      for (const int64_t j : columns) put(b, z * p.k * p.n + (p.trans_b ? j * p.k + q : q * p.n + j), of_b(z, q, j));
    }
    for (const int64_t i : rows) {
      for (const int64_t j : columns) {
        double& sum = expected[(z * p.m + i) * p.n + j];
        for (const int64_t q : depth) sum += of_a(z, i, q) * of_b(z, q, j);
      }
    }
  }
  expect_only(run_op(run, Op::matmul, MatmulAttrs{p.trans_a, p.trans_b, {}}, {a, b})[0], expected);
}

// --- convolutions ---

struct LargeConv {
  Op op = Op::conv;
  DType dtype = DType::f32;
  int64_t n = 1, c = 1, o = 1, h = 1, w = 1;  // h = 0: one spatial axis
  int64_t kernel = 3, stride = 1, pad = 1, dilation = 1, groups = 1;

  int64_t out(int64_t extent) const { return (extent + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1; }
};

// Visits the taps of each result pixel of `pixels` (n, oh, ow) that lie in the image: f(pixel, tap, image pixel).
template <class F>
void each_tap(const LargeConv& p, const std::set<int64_t>& pixels, const F& f) {
  const int64_t ow = p.out(p.w), oh = p.h == 0 ? 1 : p.out(p.h), rows = p.h == 0 ? 1 : p.kernel,
                h = std::max<int64_t>(p.h, 1);
  for (const int64_t pixel : pixels) {
    const int64_t n = pixel / ow / oh, y = pixel / ow % oh, x = pixel % ow;
    for (int64_t tap = 0; tap < rows * p.kernel; ++tap) {
      const int64_t i = p.h == 0 ? 0 : y * p.stride - p.pad + tap / p.kernel * p.dilation,
                    j = x * p.stride - p.pad + tap % p.kernel * p.dilation;
      if (i >= 0 && i < h && j >= 0 && j < p.w) f(pixel, tap, (n * h + i) * p.w + j);
    }
  }
}

// Plants pixels of the operands, in the order in which channels-last tensors lie, and sums by taps.
inline void check_conv(const RunGraph& run, const LargeConv& p) {
  const int64_t h = std::max<int64_t>(p.h, 1), oh = p.h == 0 ? 1 : p.out(p.h), ow = p.out(p.w),
                taps = (p.h == 0 ? 1 : p.kernel) * p.kernel, in_group = p.c / p.groups, out_group = p.o / p.groups;
  const auto image = [&](int64_t channels, bool result) {
    Shape s{p.n, channels};
    if (p.h != 0) s.push_back(result ? oh : h);
    s.push_back(result ? ow : p.w);
    return s;
  };
  const Shape of_x = image(p.c, false), of_y = image(p.o, true);
  Shape of_w{p.o, in_group};
  if (p.h != 0) of_w.push_back(p.kernel);
  of_w.push_back(p.kernel);
  // Result pixels that see what is planted in x, or that are planted themselves.
  std::set<int64_t> results, pixels;
  for (const int64_t place : edges(of_y.numel(), p.dtype)) results.insert(place / p.o);
  for (const int64_t place : edges(of_x.numel(), p.dtype)) {
    const int64_t pixel = place / p.c, n = pixel / p.w / h;
    const int64_t y = std::min((pixel / p.w % h + p.pad) / p.stride, oh - 1),
                  x = std::min((pixel % p.w + p.pad) / p.stride, ow - 1);
    results.insert((n * oh + y) * ow + x);
  }
  each_tap(p, results, [&](int64_t, int64_t, int64_t pixel) { pixels.insert(pixel); });
  const auto place = [](int64_t pixel, int64_t channel, int64_t channels, int64_t plane) {
    return (pixel / plane * channels + channel) * plane + pixel % plane;
  };
  const auto x_at = [&](int64_t pixel, int64_t c) { return place(pixel, c, p.c, h * p.w); };
  const auto y_at = [&](int64_t pixel, int64_t o) { return place(pixel, o, p.o, oh * ow); };
  const auto weight = [](int64_t i) { return static_cast<double>(i * 5 % 7 - 3); };
  const auto operand = [&](const Shape& shape, const std::set<int64_t>& of, int64_t channels, const auto& where) {
    Array a(p.dtype, shape);
    for (const int64_t pixel : of) {
      for (int64_t c = 0; c < channels; ++c) put(a, where(pixel, c), planted(pixel + c));
    }
    return a;
  };
  Array w(p.dtype, of_w);
  for (int64_t i = 0; i < w.numel(); ++i) put(w, i, weight(i));
  const auto each_product = [&](int64_t pixel, int64_t tap, int64_t seen, const auto& f) {
    for (int64_t o = 0; o < p.o; ++o) {
      for (int64_t k = 0; k < in_group; ++k) {
        const int64_t c = o / out_group * in_group + k;
        f(o, c, (o * in_group + k) * taps + tap, y_at(pixel, o), x_at(seen, c));
      }
    }
  };
  const Shape spatial = Shape::filled(p.h == 0 ? 1 : 2, 1);
  const auto all = [&](int64_t v) { return Shape::filled(spatial.rank(), v); };
  ConvAttrs attrs{all(p.stride), all(p.pad), all(p.pad), all(p.dilation), p.groups, {}, {}};
  std::map<int64_t, double> expected;
  if (p.op == Op::conv) {
    // All results that see a planted pixel.
    std::set<int64_t> seeing;
    for (const int64_t pixel : results) {
      const int64_t reach = (p.dilation * (p.kernel - 1)) / p.stride + 1, n = pixel / ow / oh;
      for (int64_t y = pixel / ow % oh - reach; y <= pixel / ow % oh + reach; ++y) {
        for (int64_t v = pixel % ow - reach; v <= pixel % ow + reach; ++v) {
          if (y >= 0 && y < oh && v >= 0 && v < ow) seeing.insert((n * oh + y) * ow + v);
        }
      }
    }
    each_tap(p, seeing, [&](int64_t pixel, int64_t tap, int64_t seen) {
      if (pixels.count(seen) == 0) return;
      each_product(pixel, tap, seen, [&](int64_t, int64_t c, int64_t i, int64_t to, int64_t) {
        expected[to] += planted(seen + c) * weight(i);
      });
    });
    const Array x = operand(of_x, pixels, p.c, x_at);
    return expect_only(run_op(run, p.op, attrs, {x, w})[0], expected);
  }
  const Array dy = operand(of_y, results, p.o, y_at);
  each_tap(p, results, [&](int64_t pixel, int64_t tap, int64_t seen) {
    each_product(pixel, tap, seen, [&](int64_t o, int64_t c, int64_t i, int64_t, int64_t from) {
      if (p.op == Op::conv_grad_input) {
        expected[from] += planted(pixel + o) * weight(i);
      } else {
        expected[i] += planted(pixel + o) * planted(seen + c);
      }
    });
  });
  attrs.shape = p.op == Op::conv_grad_input ? of_x : of_w;
  const std::vector<Array> in =
      p.op == Op::conv_grad_input ? std::vector{dy, w} : std::vector{operand(of_x, pixels, p.c, x_at), dy};
  expect_only(run_op(run, p.op, attrs, in)[0], expected);
}

// --- the rest ---

constexpr int64_t kHalf = int64_t{1} << 30, kWhole = int64_t{1} << 31;

// Sums, maxima and copies of what is planted, each beyond 2^31 elements.
inline void check_reduction(const RunGraph& run, const Shape& shape, const Shape& axes, Op op) {
  const Array x = zeros_but(DType::u8, shape, edges(shape.numel(), DType::u8));
  Graph g;
  Builder b(g);
  const Value in = b.one(Op::input, LeafAttrs{"x", {DType::u8, shape}}, {});
  g.outputs = {b.one(op, AxesAttrs{axes}, {op == Op::sum ? b.cast(in, DType::f32) : in})};
  std::map<int64_t, double> expected;
  for (const int64_t place : edges(shape.numel(), DType::u8)) {
    const int64_t to = axes.rank() == 2 ? 0 : axes[0] == 0 ? place % shape[1] : place / shape[1];
    double& v = expected[to];
    v = op == Op::sum ? v + planted(place) : std::max(v, planted(place));
  }
  expect_only(run(g, {x})[0], expected);
}

// The largest of 0, 1, 2, ... and how many there are, which nothing in memory holds.
inline void check_counting(const RunGraph& run) {
  const int64_t n = kWhole + 9;
  Graph g;
  Builder b(g);
  const Value numbers = b.one(Op::iota, IotaAttrs{{n}, 0, DType::i64}, {});
  g.outputs = {b.reduce_max(numbers, {0}), b.sum(b.binary(Op::sub, numbers, numbers), {0})};
  const std::vector<Array> y = run(g, {});
  EXPECT_EQ(y[0].data<int64_t>()[0], n - 1);
  EXPECT_EQ(y[1].data<int64_t>()[0], 0);
}

// Small operands expanded to more than 2^31 elements: sum over i, j of x_i y_j.
inline void check_expanded(const RunGraph& run) {
  const int64_t rows = 46400, columns = 46401;
  const Array x = zeros_but(DType::f32, {rows, 1}, {0, 7, rows - 1}),
              y = zeros_but(DType::f32, {1, columns}, {0, 9, columns - 1});
  Graph g;
  Builder b(g);
  const auto expanded = [&](const Array& a) {
    return b.broadcast(b.one(Op::input, LeafAttrs{"x", {DType::f32, a.shape()}}, {}), {rows, columns});
  };
  const Value wide = expanded(x), high = expanded(y);
  g.outputs = {b.sum(b.binary(Op::mul, wide, high), {0, 1})};
  double sums[2] = {};
  for (const int64_t i : {int64_t{0}, int64_t{7}, rows - 1}) sums[0] += planted(i);
  for (const int64_t j : {int64_t{0}, int64_t{9}, columns - 1}) sums[1] += planted(j);
  expect_only(run(g, {x, y})[0], {{0, sums[0] * sums[1]}});
}

inline void check_pointwise(const RunGraph& run, DType from, DType to, int64_t n) {
  const std::set<int64_t> places = edges(n, from);
  std::map<int64_t, double> expected;
  for (const int64_t place : places) expected[place] = to == DType::boolean ? 1 : planted(place);
  expect_only(run_op(run, Op::cast, CastAttrs{to}, {zeros_but(from, {n}, places)})[0], expected);
}

inline void check_transposed(const RunGraph& run, int64_t rows, int64_t columns) {
  const std::set<int64_t> places = edges(rows * columns, DType::u8);
  std::map<int64_t, double> expected;
  for (const int64_t place : places) expected[place % columns * rows + place / columns] = planted(place);
  expect_only(run_op(run, Op::transpose, PermAttrs{{1, 0}}, {zeros_but(DType::u8, {rows, columns}, places)})[0],
              expected);
}

inline void check_concat(const RunGraph& run, const std::vector<Shape>& shapes, int64_t axis) {
  std::vector<Array> in;
  std::map<int64_t, double> expected;
  int64_t before = 0, columns = 0;
  for (const Shape& s : shapes) columns += s[1];
  for (const Shape& s : shapes) {
    const std::set<int64_t> places = edges(s.numel(), DType::u8);
    in.push_back(zeros_but(DType::u8, s, places));
    for (const int64_t place : places) {
      const int64_t to = axis == 0 ? before + place : place / s[1] * columns + before + place % s[1];
      expected[to] = planted(place);
    }
    before += axis == 0 ? s.numel() : s[1];
  }
  expect_only(run_op(run, Op::concat, AxisAttrs{axis}, in)[0], expected);
}

inline void check_slice(const RunGraph& run, int64_t n, int64_t start, int64_t step) {
  const std::set<int64_t> places = edges(n, DType::u8);
  std::map<int64_t, double> expected;
  for (const int64_t place : places) {
    if (place >= start && (place - start) % step == 0) expected[(place - start) / step] = planted(place);
  }
  const Array x = zeros_but(DType::u8, {n}, places);
  expect_only(run_op(run, Op::slice, SliceAttrs{{start}, {n}, {step}}, {x})[0], expected);
}

inline void check_pad(const RunGraph& run, int64_t n, int64_t low, int64_t high, int64_t interior) {
  const std::set<int64_t> places = edges(n, DType::u8);
  std::map<int64_t, double> expected;
  for (const int64_t place : places) expected[low + place * (interior + 1)] = planted(place);
  const Array x = zeros_but(DType::u8, {n}, places);
  const std::vector<Array> y = run_op(run, Op::pad, PadAttrs{{low}, {high}, {interior}, 7}, {x});
  int64_t sevens = 0, others = 0;
  for (int64_t i = 0; i < y[0].numel(); ++i) {
    const uint8_t v = y[0].data<uint8_t>()[i];
    sevens += v == 7;
    others += v != 7 && v != 0;
  }
  EXPECT_EQ(sevens, low + high + interior * (n - 1));
  EXPECT_EQ(others, static_cast<int64_t>(expected.size()));
  for (const auto& [place, value] : expected) EXPECT_EQ(at(y[0], place), value) << place;
}

inline void check_gather(const RunGraph& run, int64_t rows, int64_t width) {
  const std::set<int64_t> places = edges(rows * width, DType::u8);
  std::vector<int64_t> picked;
  for (const int64_t place : places) {
    if (picked.empty() || picked.back() != place / width) picked.push_back(place / width);
  }
  std::map<int64_t, double> expected;
  for (size_t i = 0; i < picked.size(); ++i) {
    for (const int64_t place : places) {
      if (place / width == picked[i]) expected[static_cast<int64_t>(i) * width + place % width] = planted(place);
    }
  }
  const Array x = zeros_but(DType::u8, {rows, width}, places),
              index = Array::of(picked, {static_cast<int64_t>(picked.size())});
  expect_only(run_op(run, Op::gather, AxisAttrs{0}, {x, index})[0], expected);
}

inline void check_scatter(const RunGraph& run, int64_t rows, int64_t width) {
  std::vector<int64_t> picked;
  std::map<int64_t, double> expected;
  for (const int64_t place : edges(rows * width, DType::f32)) picked.push_back(place / width);
  const auto n = static_cast<int64_t>(picked.size());
  Array updates(DType::f32, {n, width});
  for (int64_t i = 0; i < n * width; ++i) {
    put(updates, i, planted(i));
    expected[picked[static_cast<size_t>(i / width)] * width + i % width] += planted(i);
  }
  expect_only(run_op(run, Op::scatter_add, ScatterAttrs{0, rows}, {Array::of(picked, {n}), updates})[0], expected);
}

inline void check_argmax(const RunGraph& run, int64_t rows, int64_t columns) {
  const Array x(DType::f32, {rows, columns});
  std::map<int64_t, double> expected;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t place = i + 1 == rows ? columns - 1 : columns / 2 + i;
    put(x, i * columns + place, 2);
    expected[i] = static_cast<double>(place);
  }
  const std::vector<Array> y = run_op(run, Op::argmax, AxisAttrs{1}, {x});
  for (const auto& [row, place] : expected) EXPECT_EQ(at(y[0], row), place) << row;
}

// Windows of `kernel` squared beside each other.
inline void check_pool(const RunGraph& run, Op op, DType dtype, const Shape& shape, int64_t kernel) {
  const std::set<int64_t> places = edges(shape.numel(), dtype);
  const int64_t h = shape[2] / kernel, w = shape[3] / kernel;
  std::map<int64_t, double> expected;
  for (const int64_t place : places) {
    const int64_t plane = place / shape[3] / shape[2], y = place / shape[3] % shape[2] / kernel,
                  x = place % shape[3] / kernel;
    if (y >= h || x >= w) continue;
    double& v = expected[(plane * h + y) * w + x];
    v = op == Op::max_pool ? std::max(v, planted(place)) : v + planted(place) / static_cast<double>(kernel * kernel);
  }
  const Shape window{kernel, kernel}, none{0, 0};
  const PoolAttrs attrs{window, window, none, none, true, {}};
  expect_only(run_op(run, op, attrs, {zeros_but(dtype, shape, places)})[0], expected);
}

inline void check_softmax(const RunGraph& run, int64_t n) {
  const Array x(DType::f32, {1, n});
  const std::set<int64_t> places{0, n / 2, n - 1};
  for (const int64_t place : places) put(x, place, 40);
  const Array y = run_op(run, Op::softmax, AxisAttrs{1}, {x})[0];
  std::map<int64_t, double> expected;
  for (const int64_t place : places) expected[place] = 1.0 / 3;
  expect_only(y, expected);
}

// Many queries of few keys, all alike: each gets the mean of the values, whose number 3 alone is not 0.
inline void check_attention(const RunGraph& run, int64_t queries) {
  constexpr int64_t kKeys = 8, kWidth = 64;
  const Array q(DType::f32, {1, 1, queries, kWidth}), k(DType::f32, {1, 1, kKeys, kWidth}),
      v(DType::f32, {1, 1, kKeys, kWidth});
  for (int64_t i = 0; i < kKeys; ++i) put(v, i * kWidth + 3, 2);
  const Array y = run_op(run, Op::attention, AttentionAttrs{}, {q, k, v})[0];
  int64_t wrong = 0;
  for (int64_t i = 0; i < y.numel(); ++i) wrong += std::fabs(y.data<float>()[i] - (i % kWidth == 3 ? 2 : 0)) > 1e-5f;
  EXPECT_EQ(wrong, 0);
}

// Products and convolutions by whatever kernel the backend takes, and the other ops.
inline LargeCases large_cases() {
  LargeCases all;
  const auto add = [&](const std::string& what, int64_t gib, const std::function<void(const RunGraph&)>& check,
                       bool quick = false, bool on_gpu = false, size_t ways = 1) {
    all.add({what, gib, check, quick, on_gpu, ways});
  };
  const auto product = [&](const std::string& what, int64_t gib, const LargeProduct& p, bool quick = false,
                           bool on_gpu = false) {
    add(
        what, gib, [p](const RunGraph& run) { check_product(run, p); }, quick, on_gpu, 2);
  };
  // A of just below, at and just above 2^31 bytes, of 2^31 elements, and the same turned.
  constexpr int64_t kRows = kWhole / 4 / 512;
  product("a below 2^31 bytes", 3, {.m = kRows - 1, .n = 8, .k = 512});
  product("a of 2^31 bytes", 3, {.m = kRows, .n = 8, .k = 512});
  product("a above 2^31 bytes", 3, {.m = kRows + 7, .n = 8, .k = 512}, true);
  product("a above 2^32 bytes", 5, {.m = 2 * kRows + 7, .n = 8, .k = 512});
  product("a above 2^31 elements", 10, {.m = 4 * kRows + 7, .n = 8, .k = 512});
  product("a turned above 2^31 bytes", 3, {.m = kRows + 7, .n = 8, .k = 512, .trans_a = true});
  product("a turned above 2^32 bytes", 5, {.m = 2 * kRows + 7, .n = 24, .k = 512, .trans_a = true});
  product("b above 2^31 bytes", 4, {.m = 8, .n = kRows + 9, .k = 512});
  product("b above 2^32 bytes", 6, {.m = 24, .n = 2 * kRows + 9, .k = 512});
  product("b turned above 2^31 bytes", 4, {.m = 8, .n = kRows + 9, .k = 512, .trans_b = true});
  product("b turned above 2^32 bytes", 6, {.m = 24, .n = 2 * kRows + 9, .k = 512, .trans_b = true});
  product("the result above 2^31 bytes", 4, {.m = 32771, .n = 16385, .k = 24});
  product("the result above 2^32 bytes", 6, {.m = 65539, .n = 16389, .k = 24});
  product("rows of the result above 2^31 bytes each", 8, {.m = 2, .n = kHalf / 2 + 5, .k = 2});
  product("few rows above 2^31 bytes each", 8, {.m = 2, .n = 2, .k = kHalf / 2 + 5});
  product("few turned rows above 2^31 bytes each", 8, {.m = 2, .n = 2, .k = kHalf / 2 + 5, .trans_b = true});
  product("a long sum of columns", 8, {.m = 3, .n = 2, .k = kHalf / 2 + 5, .trans_a = true});
  product("many small matrices", 8, {.batch = kWhole / 4 / 256 + 3, .m = 16, .n = 8, .k = 16});
  product("few large matrices", 8, {.batch = 3, .m = kRows / 2 + 3, .n = 24, .k = 512});
  product("bf16, a above 2^31 bytes", 3, {.dtype = DType::bf16, .m = 2 * kRows + 7, .n = 8, .k = 512});
  product("bf16, a above 2^31 elements", 6, {.dtype = DType::bf16, .m = 4 * kRows + 7, .n = 24, .k = 512});
  product("bf16, b above 2^31 elements", 6, {.dtype = DType::bf16, .m = 24, .n = 4 * kRows + 9, .k = 512});

  const auto conv = [&](const std::string& what, int64_t gib, const LargeConv& p) {
    for (const Op op : {Op::conv, Op::conv_grad_input, Op::conv_grad_weight}) {
      LargeConv q = p;
      q.op = op;
      add(
          cat(what, ", ", name(op)), gib, [q](const RunGraph& run) { check_conv(run, q); }, false, false,
          p.kernel == 1 ? 2 : 1);
    }
  };
  conv("one image above 2^31 bytes", 10, {.c = 16, .o = 16, .h = 5803, .w = 5801});
  conv("one image with steps", 8, {.c = 16, .o = 24, .h = 5803, .w = 5801, .stride = 2});
  conv("many images", 9, {.n = 513, .c = 16, .o = 24, .h = 257, .w = 257, .stride = 2});
  conv("1x1", 10, {.c = 16, .o = 16, .h = 5803, .w = 5801, .kernel = 1, .pad = 0});
  conv("1x1 with steps", 8, {.c = 16, .o = 24, .h = 5803, .w = 5801, .kernel = 1, .stride = 2, .pad = 0});
  conv("one channel, 5x5", 8, {.c = 1, .o = 1, .h = 23203, .w = 23201, .kernel = 5, .pad = 2});
  conv("one channel above 2^31 elements", 10, {.c = 1, .o = 2, .h = 46349, .w = 46343, .stride = 4, .pad = 0});
  conv("groups", 10, {.c = 16, .o = 16, .h = 5803, .w = 5801, .groups = 16});
  // Into two channels: oneDNN has no kernel for a weight gradient with steps and a dilation of this size, and its plain
  // loop takes 12 ns for a product.
  conv("dilated", 8, {.c = 16, .o = 2, .h = 5803, .w = 5801, .stride = 2, .pad = 2, .dilation = 2});
  conv("dilated by own steps", 9, {.c = 16, .o = 16, .h = 5803, .w = 5801, .pad = 3, .dilation = 3});
  conv("few groups", 9, {.c = 16, .o = 16, .h = 5803, .w = 5801, .stride = 2, .groups = 4});
  conv("each channel with steps", 9, {.c = 64, .o = 64, .h = 2903, .w = 2901, .stride = 2, .groups = 64});
  conv("a row above 2^31 bytes", 8, {.c = 16, .o = 8, .h = 0, .w = 33554501, .stride = 2});
  conv("a row of one channel", 8, {.c = 1, .o = 1, .h = 0, .w = 536871017, .pad = 0});
  conv("a dilated row", 10, {.c = 16, .o = 16, .h = 0, .w = 33554501, .pad = 40, .dilation = 40});
  conv("a row with wide padding", 10, {.c = 2, .o = 2, .h = 0, .w = 268435501, .kernel = 5, .pad = 8192});
  conv("rows of many channels", 9, {.c = 32768, .o = 2, .h = 0, .w = 16411, .stride = 2});
  conv("bf16, one image above 2^31 bytes", 8,
       {.dtype = DType::bf16, .c = 16, .o = 24, .h = 8209, .w = 8209, .stride = 2});
  conv("many channels", 8, {.c = 2048, .o = 16, .h = 523, .w = 521, .stride = 2});

  add("the largest of 2^31 numbers", 1, check_counting, true, true);
  add("small operands expanded", 1, check_expanded, true, true);
  for (const int64_t more : {-1, 0, 7}) {
    add(
        cat("u8 to bool of 2^31 + ", more), 5,
        [=](const RunGraph& run) { check_pointwise(run, DType::u8, DType::boolean, kWhole + more); }, false, more == 7);
  }
  add("u8 to bf16 above 2^31", 7,
      [](const RunGraph& run) { check_pointwise(run, DType::u8, DType::bf16, kWhole + 7); });
  add("bf16 to u8 above 2^31", 7,
      [](const RunGraph& run) { check_pointwise(run, DType::bf16, DType::u8, kWhole + 7); });
  const Shape matrix{1048577, 2050};
  add(
      "sums of rows", 3, [=](const RunGraph& run) { check_reduction(run, matrix, {1}, Op::sum); }, true, true);
  add(
      "sums of columns", 3, [=](const RunGraph& run) { check_reduction(run, matrix, {0}, Op::sum); }, false, true);
  add(
      "the sum of all", 3,
      [=](const RunGraph& run) {
        check_reduction(run, matrix, {0, 1}, Op::sum);
      },
      false, true);
  add(
      "largest of columns", 3, [=](const RunGraph& run) { check_reduction(run, matrix, {0}, Op::reduce_max); }, false,
      true);
  add(
      "sums of few long rows", 3,
      [](const RunGraph& run) {
        check_reduction(run, {2, kHalf + 5}, {1}, Op::sum);
      },
      false, true);
  add(
      "a transposed matrix", 5, [](const RunGraph& run) { check_transposed(run, 46343, 46349); }, false, true);
  add("a transposed matrix of few rows", 5, [](const RunGraph& run) { check_transposed(run, 3, 715827893); });
  add(
      "rows joined", 5,
      [](const RunGraph& run) {
        check_concat(run, {{kHalf + 3, 1}, {kHalf + 5, 1}}, 0);
      },
      false, true);
  add(
      "columns joined", 5,
      [](const RunGraph& run) {
        check_concat(run, {{32771, 32769}, {32771, 32775}}, 1);
      },
      false, true);
  add(
      "a slice behind 2^31", 3, [](const RunGraph& run) { check_slice(run, kWhole + 70, kWhole - 3, 1); }, false, true);
  add(
      "every third element", 4, [](const RunGraph& run) { check_slice(run, kWhole + 70, 1, 3); }, false, true);
  add(
      "padding", 5, [](const RunGraph& run) { check_pad(run, kWhole - 5, 3, 9, 0); }, false, true);
  add("padding between elements", 5, [](const RunGraph& run) { check_pad(run, kHalf + 5, 1, 1, 1); });
  add(
      "picked rows", 3, [](const RunGraph& run) { check_gather(run, 33554501, 64); }, true, true);
  add("picked long rows", 5, [](const RunGraph& run) { check_gather(run, 3, kHalf - 1); });
  add("scattered rows", 4, [](const RunGraph& run) { check_scatter(run, 8388617, 64); });
  add("the largest of long rows", 4, [](const RunGraph& run) { check_argmax(run, 3, 268435465); });
  add("largest of windows", 6, [](const RunGraph& run) {
    check_pool(run, Op::max_pool, DType::bf16, {2, 1, 33001, 33003}, 8);
  });
  add("means of windows", 4, [](const RunGraph& run) {
    check_pool(run, Op::avg_pool, DType::f32, {1, 1, 24001, 24003}, 2);
  });
  add("attention of many queries", 8, [](const RunGraph& run) { check_attention(run, 8388617); });
  add("softmax of one row", 8, [](const RunGraph& run) { check_softmax(run, kHalf / 2 + 9); });
  add_layers(all);
  add_linalg(all);
  return all;
}

// Runs the quick cases, or all with FREIGHT_LONG=1; one that has no room is told and left out.
inline void check_large(const RunGraph& run, bool on_gpu) {
  const LargeCases cases = large_cases();
  for (const LargeCase& c : cases.all()) {
    const char* only = std::getenv("FREIGHT_LARGE");  // cases whose names begin so
    if (only ? c.what.rfind(only, 0) != 0 : !c.quick && !std::getenv("FREIGHT_LONG")) continue;
    if (on_gpu && !c.on_gpu) continue;
    SCOPED_TRACE(c.what);
    const auto room = static_cast<double>(cpu_info().memory_available_bytes) / 0x1p30;
    if (room < static_cast<double>(c.gib * (on_gpu ? 2 : 1) + 1)) {
      std::printf("[ no room  ] %s takes %lld GiB, %.1f are free\n", c.what.c_str(), static_cast<long long>(c.gib),
                  room);
      continue;
    }
    std::printf("[ case     ] %s\n", c.what.c_str());
    std::fflush(stdout);
    for (size_t way = 0; way < c.ways; ++way) {
      const ForcedChoice forced(way);
      SCOPED_TRACE(cat("kernel ", way));
      try {
        c.check(run);
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
}

}  // namespace freight::test
