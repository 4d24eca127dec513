// What the tests of the CPU backend's kernels share: random operands, runs with several thread counts, a convolution in
// plain loops.
#pragma once
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "freight/backend/cpu/kernels/conv.h"
#include "freight/base/array.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"

namespace freight::cpu {

inline Array random(int64_t n, uint64_t seed) {
  Array a(DType::f32, {n});
  PhiloxStream r(seed, 0, 1);
  for (int64_t i = 0; i < n; ++i) a.data<float>()[i] = r.uniform(-1, 1);
  return a;
}
inline Array scratch(size_t bytes) { return Array(DType::u8, {static_cast<int64_t>(bytes) + 64}); }

// The problem with the extents of its result; behind the image the padding may differ from that before it.
inline ConvProblem with_result(ConvProblem p, int64_t behind_h, int64_t behind_w) {
  p.oh = (p.h + p.pad_h + behind_h - p.kh) / p.stride_h + 1;
  p.ow = (p.w + p.pad_w + behind_w - p.kw) / p.stride_w + 1;
  return p;
}

// Runs with one, two and five threads (a kernel is made for each) and expects equal bits.
template <class F>
void for_any_threads(F run) {
  const int threads = omp_get_max_threads();
  Array first;
  for (int n : {1, 2, 5}) {
    omp_set_num_threads(n);
    const Array got = run();
    if (!first.defined()) first = got;
    EXPECT_EQ(std::memcmp(first.raw(), got.raw(), got.bytes()), 0) << n << " threads";
  }
  omp_set_num_threads(threads);
}

// Random operands of a convolution and what it must give: y with its bias, dx and dw of dy, in double.
struct ConvReference {
  explicit ConvReference(const ConvProblem& p)
      : x(random(p.n * p.h * p.w * p.c, 1)),
        w(random(p.o * p.c * p.kh * p.kw, 2)),
        b(random(p.o, 3)),
        dy(random(p.n * p.oh * p.ow * p.o, 4)),
        y(static_cast<size_t>(dy.numel())),
        dx(static_cast<size_t>(x.numel())),
        dw(static_cast<size_t>(w.numel())) {
    for (int64_t i = 0; i < dy.numel(); ++i) {
      const int64_t o = i % p.o, ow = i / p.o % p.ow, oh = i / p.o / p.ow % p.oh, n = i / p.o / p.ow / p.oh;
      const auto out = static_cast<double>(dy.data<float>()[i]);
      y[static_cast<size_t>(i)] = static_cast<double>(b.data<float>()[o]);
      for (int64_t j = 0; j < p.c * p.kh * p.kw; ++j) {
        const int64_t kw = j % p.kw, kh = j / p.kw % p.kh, c = j / p.kw / p.kh;
        const int64_t h = oh * p.stride_h + kh - p.pad_h, q = ow * p.stride_w + kw - p.pad_w;
        if (h < 0 || h >= p.h || q < 0 || q >= p.w) continue;
        const int64_t pixel = ((n * p.h + h) * p.w + q) * p.c + c, weight = o * p.c * p.kh * p.kw + j;
        const auto in = static_cast<double>(x.data<float>()[pixel]);
        const auto factor = static_cast<double>(w.data<float>()[weight]);
        y[static_cast<size_t>(i)] += in * factor;
        dx[static_cast<size_t>(pixel)] += out * factor;
        dw[static_cast<size_t>(weight)] += in * out;
      }
    }
  }
  Array x, w, b, dy;
  std::vector<double> y, dx, dw;
};

// `tolerance` is a share of the largest expected value.
inline void expect_near(const Array& got, const std::vector<double>& expected, bool relu, double tolerance) {
  double largest = 1e-3;
  for (double v : expected) largest = std::max(largest, std::fabs(v));
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double e = expected[static_cast<size_t>(i)];
    ASSERT_NEAR(static_cast<double>(got.data<float>()[i]), relu ? std::max(e, 0.0) : e, tolerance * largest) << i;
  }
}

}  // namespace freight::cpu
