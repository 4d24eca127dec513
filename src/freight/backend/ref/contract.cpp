// Contractions of the reference backend: batched matmul, and the convolution with its two gradients, which walk the
// same (output, kernel, input) triples. Products accumulate in double; the epilogue acts before the result is rounded.
// Letters: N batch, C channels, O output channels, G groups, M K N of a matmul.
#include <algorithm>
#include <cmath>

#include "freight/backend/ref/kernels.h"

namespace freight::ref {

namespace {

template <class C>
C relu(C v) {
  return v != v || v > 0 ? v : C{0};
}

// + bias, + residual, relu, minimum, silu, in this order; the extra inputs follow the two operands. column(i): the bias
// of element i.
template <class C, class F>
void finish(const Call& call, const Epilogue& epilogue, F column) {
  C* y = call.out[0].as<C>();
  size_t extra = 2;
  const C* bias = epilogue.bias ? call.in[extra++].as<C>() : nullptr;
  const C* residual = epilogue.residual ? call.in[extra].as<C>() : nullptr;
  for (int64_t i = 0; i < call.out[0].numel(); ++i) {
    if (bias) accumulate(y[i], bias[column(i)]);
    if (residual) accumulate(y[i], residual[i]);
    if (epilogue.relu) y[i] = relu(y[i]);
    if constexpr (std::is_same_v<C, double>) {
      y[i] = y[i] > epilogue.most ? epilogue.most : y[i];
      if (epilogue.silu) y[i] *= 1 / (1 + std::exp(-y[i]));
    }
  }
}

void matmul(const Call& call) {
  const auto& attrs = call.get<MatmulAttrs>();
  const Shape &sa = call.in[0].shape(), &sy = call.out[0].shape();  // (..., M, K), (..., M, N)
  const int rank = sy.rank();
  const int64_t m = sy[rank - 2], n = sy[rank - 1], k = sa[attrs.trans_a ? rank - 2 : rank - 1];
  int64_t batches = 1;
  for (int i = 0; i < rank - 2; ++i) batches *= sy[i];
  by_kind(call.out[0], [&]<class C>(C) {
    for (int64_t batch = 0; batch < batches; ++batch) {
      const C* a = call.in[0].as<C>() + batch * m * k;
      const C* b = call.in[1].as<C>() + batch * k * n;
      C* y = call.out[0].as<C>() + batch * m * n;
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          C dot{0};
          for (int64_t p = 0; p < k; ++p) {
            accumulate(dot, multiply(attrs.trans_a ? a[p * m + i] : a[i * k + p],
                                     attrs.trans_b ? b[j * k + p] : b[p * n + j]));
          }
          y[i * n + j] = dot;
        }
      }
    }
    finish<C>(call, attrs.epilogue, [n](int64_t i) { return i % n; });
  });
}

// f(index into x, index into w, index into y) for every product of a convolution.
template <class F>
void each_product(const ConvAttrs& a, const Shape& x, const Shape& w, const Shape& y, F f) {
  const Window window(x, y, {w.begin() + 2, w.end()}, a.stride, a.pad_low, a.dilation);
  const int64_t channels = w[1], outputs = w[0] / a.groups;  // of a group
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t o = 0; o < w[0]; ++o) {
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t x0 = (n * x[1] + o / outputs * channels + c) * window.in_plane();
        const int64_t w0 = (o * channels + c) * window.kernel[0] * window.kernel[1];
        const int64_t y0 = (n * w[0] + o) * window.out_plane();
        for (int64_t p = 0; p < window.out_plane(); ++p) {
          window.each(p, [&](int64_t i, int64_t k) { f(x0 + i, w0 + k, y0 + p); });
        }
      }
    }
  }
}

// The products of a convolution of x (N, C, spatial) with w (O, C/G, kernel) to y (N, O, spatial), summed into
// whichever of the three is the result.
void convolve(const Call& call, const Tensor& x, const Tensor& w, const Tensor& y) {
  const auto& attrs = call.get<ConvAttrs>();
  by_kind(y, [&]<class C>(C) {
    C *const xs = x.as<C>(), *const ws = w.as<C>(), *const ys = y.as<C>();
    std::fill_n(call.out[0].as<C>(), call.out[0].numel(), C{0});
    each_product(attrs, x.shape(), w.shape(), y.shape(), [&](int64_t i, int64_t j, int64_t k) {
      switch (call.op) {
        case Op::conv: return accumulate(ys[k], multiply(xs[i], ws[j]));
        case Op::conv_grad_input: return accumulate(xs[i], multiply(ys[k], ws[j]));
        default: return accumulate(ws[j], multiply(xs[i], ys[k]));
      }
    });
    const int64_t outputs = w.shape()[0], plane = Shape(y.shape().begin() + 2, y.shape().end()).numel();
    if (call.op == Op::conv) finish<C>(call, attrs.epilogue, [&](int64_t i) { return i / plane % outputs; });
  });
}
void conv(const Call& call) { convolve(call, call.in[0], call.in[1], call.out[0]); }
void conv_grad_input(const Call& call) { convolve(call, call.out[0], call.in[1], call.in[0]); }
void conv_grad_weight(const Call& call) { convolve(call, call.in[0], call.out[0], call.in[1]); }

}  // namespace

KernelTable contract_kernels() {
  return {
      {Op::matmul, matmul},
      {Op::conv, conv},
      {Op::conv_grad_input, conv_grad_input},
      {Op::conv_grad_weight, conv_grad_weight},
  };
}

}  // namespace freight::ref
