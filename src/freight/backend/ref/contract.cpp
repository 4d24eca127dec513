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

// + bias, + residual, relu, in this order; the extra inputs follow the two operands. column(i): the bias of element i.
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

// The geometry of a convolution with one or two spatial axes, seen as two (a single axis becomes the second).
struct ConvShape {
  int64_t batch, channels, outputs, groups;
  int64_t in[2], out[2], kernel[2], stride[2], pad[2], dilation[2];

  ConvShape(const ConvAttrs& a, const Shape& x, const Shape& w, const Shape& y)
      : batch(x[0]), channels(x[1]), outputs(w[0]), groups(a.groups) {
    const int spatial = x.rank() - 2;
    for (int d = 0; d < 2; ++d) {
      const int s = d - (2 - spatial);  // the spatial axis, -1 for the missing one
      in[d] = s < 0 ? 1 : x[2 + s];
      out[d] = s < 0 ? 1 : y[2 + s];
      kernel[d] = s < 0 ? 1 : w[2 + s];
      stride[d] = s < 0 ? 1 : a.stride[s];
      pad[d] = s < 0 ? 0 : a.pad_low[s];
      dilation[d] = s < 0 ? 1 : a.dilation[s];
    }
  }

  // f(index into x, index into w, index into y) for every product of the convolution.
  template <class F>
  void each(F f) const {
    const int64_t in_group = channels / groups, out_group = outputs / groups;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t o = 0; o < outputs; ++o)
        for (int64_t c = 0; c < in_group; ++c)
          for (int64_t oh = 0; oh < out[0]; ++oh)
            for (int64_t ow = 0; ow < out[1]; ++ow)
              for (int64_t kh = 0; kh < kernel[0]; ++kh)
                for (int64_t kw = 0; kw < kernel[1]; ++kw) {
                  const int64_t ih = oh * stride[0] - pad[0] + kh * dilation[0];
                  const int64_t iw = ow * stride[1] - pad[1] + kw * dilation[1];
                  if (ih < 0 || ih >= in[0] || iw < 0 || iw >= in[1]) continue;
                  const int64_t channel = o / out_group * in_group + c;
                  f(((n * channels + channel) * in[0] + ih) * in[1] + iw,
                    ((o * in_group + c) * kernel[0] + kh) * kernel[1] + kw,
                    ((n * outputs + o) * out[0] + oh) * out[1] + ow);
                }
  }
};

// The products of a convolution of x (N, C, spatial) with w (O, C/G, kernel) to y (N, O, spatial), summed into
// whichever of the three is the result.
void convolve(const Call& call, const Tensor& x, const Tensor& w, const Tensor& y) {
  const auto& attrs = call.get<ConvAttrs>();
  const ConvShape shape(attrs, x.shape(), w.shape(), y.shape());
  by_kind(y, [&]<class C>(C) {
    C *const xs = x.as<C>(), *const ws = w.as<C>(), *const ys = y.as<C>();
    std::fill_n(call.out[0].as<C>(), call.out[0].numel(), C{0});
    shape.each([&](int64_t i, int64_t j, int64_t k) {
      switch (call.op) {
        case Op::conv: return accumulate(ys[k], multiply(xs[i], ws[j]));
        case Op::conv_grad_input: return accumulate(xs[i], multiply(ys[k], ws[j]));
        default: return accumulate(ws[j], multiply(xs[i], ys[k]));
      }
    });
    const int64_t plane = shape.out[0] * shape.out[1];
    if (call.op == Op::conv) finish<C>(call, attrs.epilogue, [&](int64_t i) { return i / plane % shape.outputs; });
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
