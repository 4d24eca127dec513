// A convolution as oneDNN and our own kernels are asked for it. Included by conv*.cpp only.
#pragma once
#include <vector>

#include "freight/backend/cpu/dnnl_support.h"
#include "freight/backend/cpu/kernels/conv.h"

namespace freight::cpu {

// The weight with groups as an axis of its own: (g, O/g, C/g, kernel...).
inline Type grouped(const Type& w, int64_t groups) {
  if (groups == 1) return w;
  Type t = w;
  t.shape[0] = w.shape[0] / groups;
  t.shape.insert(0, groups);
  return t;
}

// A convolution or one of its gradients: its attributes, the types of its image, weight and result, and what oneDNN is
// asked for it.
struct ConvOp {
  ConvAttrs a;
  Type x, w, y;
  Op op;

  ConvOp(const Node& node, const Type& in0, const Type& in1, const Type& out) : a(attrs<ConvAttrs>(node)), op(node.op) {
    if (op == Op::conv) {
      x = in0;
      w = in1;
      y = out;
    } else if (op == Op::conv_grad_input) {
      y = in0;
      w = in1;
      x = out;
    } else {
      x = in0;
      y = in1;
      w = out;
    }
  }

  bool empty() const { return x.numel() == 0 || w.numel() == 0 || y.numel() == 0; }
  bool dilated() const {  // which filters of one tap are not, whatever the attribute
    for (int i = 0; i < a.dilation.rank(); ++i)
      if (a.dilation[i] != 1 && w.shape[i + 2] != 1) return true;
    return false;
  }
  std::vector<int64_t> dilations() const {
    std::vector<int64_t> d;
    for (int64_t v : a.dilation) d.push_back(v - 1);
    return d;
  }
  dnnl::memory::desc activation(const Type& t) const {
    // The strides as they are, also of a single channel: oneDNN tells formats apart by them.
    return {t.shape.vector(), dnnl_type(t.dtype), channels_last_strides(t.shape).vector()};
  }

  dnnl::convolution_forward::primitive_desc forward(const dnnl::memory::desc& weights, bool bias,
                                                    const dnnl::primitive_attr& attr) const {
    const auto s = a.stride.vector(), lo = a.pad_low.vector(), hi = a.pad_high.vector(), d = dilations();
    dnnl::memory::desc b;  // of nothing: without bias
    if (bias) b = {{y.shape[1]}, dnnl_type(y.dtype), dnnl::memory::format_tag::x};
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, activation(x), weights, b,
             activation(y), s, d, lo, hi},
            attr,
            dnnl_engine()};
  }
  dnnl::convolution_forward::primitive_desc hint() const {
    return forward(dnnl_any(grouped(w, a.groups)), false, dnnl_attributes());
  }
  template <class Backward>  // dnnl::convolution_backward_data or _weights
  typename Backward::primitive_desc backward(const dnnl::memory::desc& weights) const {
    const auto s = a.stride.vector(), lo = a.pad_low.vector(), hi = a.pad_high.vector(), d = dilations();
    return {{dnnl::algorithm::convolution_direct, activation(x), weights, activation(y), s, d, lo, hi},
            dnnl_attributes(),
            dnnl_engine(),
            hint()};
  }
  // The weight format that the primitive would like best.
  dnnl::memory::desc wanted() const {
    const auto any = dnnl_any(grouped(w, a.groups));
    if (op == Op::conv) return forward(any, a.epilogue.bias, dnnl_attributes()).weights_desc();
    if (op == Op::conv_grad_input) return backward<dnnl::convolution_backward_data>(any).weights_desc();
    return backward<dnnl::convolution_backward_weights>(any).diff_weights_desc();
  }
  dnnl::memory::desc weight_desc(const Layout& layout) const {
    if (layout.blocked) return dnnl_desc(w, layout);
    return dnnl_desc(grouped(w, a.groups), Layout::row_major(grouped(w, a.groups).shape));
  }
};

// The convolution in the numbers that the kernels read.
ConvProblem plain_problem(const ConvOp& p);
// The layout (kernel..., O) of a depthwise weight (O, 1, kernel...).
Layout taps_first(const Shape& weight);

}  // namespace freight::cpu
