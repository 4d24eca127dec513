// Attributes of nodes: plain structs in one variant. Each struct lists its fields once in `visit`;
// equality, hashing, printing and parsing are derived from that list (attrs.cpp, print.cpp, parse.cpp).
// Shapes in attributes hold extents, axes or per-axis numbers, as the comments say.
#pragma once
#include <memory>
#include <string>
#include <variant>

#include "freight/base/array.h"
#include "freight/ir/type.h"

namespace freight {

struct Graph;

struct NoAttrs {
  template <class S, class V>
  static void visit(S&, V&&) {}
};
// input, state: the name by which the program knows the tensor; its type.
struct LeafAttrs {
  std::string name;
  Type type;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("name", s.name);
    v("type", s.type);
  }
};
// constant: one number everywhere (splat), or, where `data` is defined, a dense array.
struct ConstantAttrs {
  Type type;
  double value = 0;
  Array data;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("type", s.type);
    v("value", s.value);
    v("data", s.data);
  }
};
struct CastAttrs {
  DType dtype = DType::f32;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("dtype", s.dtype);
  }
};
struct AxisAttrs {
  int64_t axis = 0;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("axis", s.axis);
  }
};
// Reductions: sorted axes; the result keeps them with extent 1.
struct AxesAttrs {
  Shape axes;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("axes", s.axes);
  }
};
// reshape, broadcast: the result's shape. broadcast needs equal rank and expands extents of 1.
struct ShapeAttrs {
  Shape shape;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("shape", s.shape);
  }
};
// transpose: result axis i is input axis perm[i].
struct PermAttrs {
  Shape perm;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("perm", s.perm);
  }
};
// slice: per axis [start, limit) by positive step.
struct SliceAttrs {
  Shape start, limit, step;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("start", s.start);
    v("limit", s.limit);
    v("step", s.step);
  }
};
// pad: per axis, elements before, after and between (interior) those of the input, all equal to `value`.
struct PadAttrs {
  Shape low, high, interior;
  double value = 0;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("low", s.low);
    v("high", s.high);
    v("interior", s.interior);
    v("value", s.value);
  }
};
// iota: 0, 1, 2, ... along `axis`.
struct IotaAttrs {
  Shape shape;
  int64_t axis = 0;
  DType dtype = DType::i32;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("shape", s.shape);
    v("axis", s.axis);
    v("dtype", s.dtype);
  }
};
// random_*: draws keyed by (seed, step) = the input i64[2], and by `stream`, a number unique to the node within the
// program.
struct RandomAttrs {
  Shape shape;
  int64_t stream = 0;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("shape", s.shape);
    v("stream", s.stream);
  }
};
// What a contraction or convolution does to its result before it is stored, in this order:
// + bias (an extra input, one number per output column / channel), + residual (an extra input of the result's type),
// activation.
struct Epilogue {
  bool bias = false, residual = false, relu = false;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("bias", s.bias);
    v("residual", s.residual);
    v("relu", s.relu);
  }
};
struct MatmulAttrs {
  bool trans_a = false, trans_b = false;
  Epilogue epilogue;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("trans_a", s.trans_a);
    v("trans_b", s.trans_b);
    Epilogue::visit(s.epilogue, v);
  }
};
// Convolutions; one number per spatial axis. `shape` is the result's shape for the two gradients, empty for the forward
// op.
struct ConvAttrs {
  Shape stride, pad_low, pad_high, dilation;
  int64_t groups = 1;
  Shape shape;
  Epilogue epilogue;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("stride", s.stride);
    v("pad_low", s.pad_low);
    v("pad_high", s.pad_high);
    v("dilation", s.dilation);
    v("groups", s.groups);
    v("shape", s.shape);
    Epilogue::visit(s.epilogue, v);
  }
};
// Pooling; one number per spatial axis. `shape` is the pooled input's shape for the gradients, empty for the forward
// ops.
struct PoolAttrs {
  Shape kernel, stride, pad_low, pad_high;
  bool count_include_pad = true;  // average: divide by the kernel's size, or by the number of elements inside the image
  Shape shape;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("kernel", s.kernel);
    v("stride", s.stride);
    v("pad_low", s.pad_low);
    v("pad_high", s.pad_high);
    v("count_include_pad", s.count_include_pad);
    v("shape", s.shape);
  }
};
// scatter_add, scatter_elements_add: the result has `size` rows along `axis`.
struct ScatterAttrs {
  int64_t axis = 0, size = 0;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("axis", s.axis);
    v("size", s.size);
  }
};
struct OneHotAttrs {
  int64_t depth = 0;
  DType dtype = DType::f32;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("depth", s.depth);
    v("dtype", s.dtype);
  }
};
struct AdaptivePoolAttrs {
  Shape output;  // spatial extents of the result
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("output", s.output);
  }
};
struct GeluAttrs {
  bool tanh = false;  // the tanh approximation instead of erf
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("tanh", s.tanh);
  }
};
struct DropoutAttrs {
  double p = 0.5;
  int64_t stream = 0;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("p", s.p);
    v("stream", s.stream);
  }
};
struct CrossEntropyAttrs {
  double label_smoothing = 0;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("label_smoothing", s.label_smoothing);
  }
};
// batch, layer and group norm. layer_norm normalises the last `axes` axes; group_norm uses `groups`.
struct NormAttrs {
  double eps = 1e-5;
  int64_t axes = 1, groups = 1;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("eps", s.eps);
    v("axes", s.axes);
    v("groups", s.groups);
  }
};
struct EmbeddingAttrs {
  int64_t padding_idx = -1;  // the row that receives no gradient; -1: none
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("padding_idx", s.padding_idx);
  }
};
struct SgdAttrs {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("momentum", s.momentum);
    v("dampening", s.dampening);
    v("weight_decay", s.weight_decay);
    v("nesterov", s.nesterov);
  }
};
struct AdamAttrs {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW: the decay acts on the weights, not on the gradient
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("beta1", s.beta1);
    v("beta2", s.beta2);
    v("eps", s.eps);
    v("weight_decay", s.weight_decay);
    v("decoupled", s.decoupled);
  }
};
// fused: a body of pointwise, broadcast and reduce nodes that one kernel executes. Body input i is node input i.
struct FusedAttrs {
  std::shared_ptr<const Graph> body;
  template <class S, class V>
  static void visit(S& s, V&& v) {
    v("body", s.body);
  }
};

using Attrs = std::variant<NoAttrs, LeafAttrs, ConstantAttrs, CastAttrs, AxisAttrs, AxesAttrs, ShapeAttrs, PermAttrs,
                           SliceAttrs, PadAttrs, IotaAttrs, RandomAttrs, MatmulAttrs, ConvAttrs, PoolAttrs,
                           ScatterAttrs, OneHotAttrs, AdaptivePoolAttrs, GeluAttrs, DropoutAttrs, CrossEntropyAttrs,
                           NormAttrs, EmbeddingAttrs, SgdAttrs, AdamAttrs, FusedAttrs>;

bool equal(const Attrs& a, const Attrs& b);
uint64_t hash(const Attrs& a);
// Mixes `value` into a running 64-bit hash.
uint64_t hash_combine(uint64_t seed, uint64_t value);

}  // namespace freight
