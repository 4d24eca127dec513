// Attributes of nodes: plain structs in one variant. Each struct lists its fields once in FREIGHT_FIELDS;
// equality, hashing, printing and parsing are derived from that list (attrs.cpp, print.cpp, parse.cpp).
// Shapes in attributes hold extents, axes or per-axis numbers, as the comments say.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "freight/base/array.h"
#include "freight/ir/type.h"

namespace freight {

struct Graph;

#define FREIGHT_FIELDS(...)                            \
  static constexpr const char* kFields = #__VA_ARGS__; \
  auto fields() { return std::tie(__VA_ARGS__); }      \
  auto fields() const { return std::tie(__VA_ARGS__); }

// Calls v(name, field) for each field of s; a field of a nested struct goes by its own name.
template <class S, class V>
void visit_fields(S& s, V&& v) {
  std::string_view names = std::remove_const_t<S>::kFields;
  const auto next = [&] {
    const size_t end = std::min(names.find(", "), names.size());
    const std::string_view field = names.substr(0, end);
    names.remove_prefix(std::min(end + 2, names.size()));
    return field.substr(field.rfind('.') + 1);
  };
  std::apply([&](auto&... field) { (v(next(), field), ...); }, s.fields());
}

struct NoAttrs {
  FREIGHT_FIELDS()
};
// input, state: the name by which the program knows the tensor; its type.
struct LeafAttrs {
  std::string name;
  Type type;
  FREIGHT_FIELDS(name, type)
};
// constant: one number everywhere (splat), or, where `data` is defined, a dense array.
struct ConstantAttrs {
  Type type;
  double value = 0;
  Array data;
  FREIGHT_FIELDS(type, value, data)
};
struct CastAttrs {
  DType dtype = DType::f32;
  FREIGHT_FIELDS(dtype)
};
struct AxisAttrs {
  int64_t axis = 0;
  FREIGHT_FIELDS(axis)
};
// Reductions: sorted axes; the result keeps them with extent 1.
struct AxesAttrs {
  Shape axes;
  FREIGHT_FIELDS(axes)
};
// reshape, broadcast: the result's shape. broadcast needs equal rank and expands extents of 1.
struct ShapeAttrs {
  Shape shape;
  FREIGHT_FIELDS(shape)
};
// transpose: result axis i is input axis perm[i].
struct PermAttrs {
  Shape perm;
  FREIGHT_FIELDS(perm)
};
// slice: per axis [start, limit) by positive step.
struct SliceAttrs {
  Shape start, limit, step;
  FREIGHT_FIELDS(start, limit, step)
};
// pad: per axis, elements before, after and between (interior) those of the input, all equal to `value`.
struct PadAttrs {
  Shape low, high, interior;
  double value = 0;
  FREIGHT_FIELDS(low, high, interior, value)
};
// all_reduce: sums of one piece travel together, the first of a step in piece 0.
struct PieceAttrs {
  int64_t piece = 0;
  FREIGHT_FIELDS(piece)
};
// iota: 0, 1, 2, ... along `axis`.
struct IotaAttrs {
  Shape shape;
  int64_t axis = 0;
  DType dtype = DType::i32;
  FREIGHT_FIELDS(shape, axis, dtype)
};
// random_*: draws keyed by (seed, step) = the input i64[2], and by `stream`, a number unique to the node within the
// program.
struct RandomAttrs {
  Shape shape;
  int64_t stream = 0;
  FREIGHT_FIELDS(shape, stream)
};
// What a contraction or convolution does to its result before it is stored, in this order:
// + bias (an extra input, one number per output column / channel), + residual (an extra input of the result's type),
// relu, the minimum with `most` where it is not infinite, silu.
struct Epilogue {
  bool bias = false, residual = false, relu = false;
  double most = std::numeric_limits<double>::infinity();
  bool silu = false;
  bool bounded() const { return most < std::numeric_limits<double>::infinity(); }
  bool activates() const { return relu || bounded() || silu; }
};
struct MatmulAttrs {
  bool trans_a = false, trans_b = false;
  Epilogue epilogue;
  FREIGHT_FIELDS(trans_a, trans_b, epilogue.bias, epilogue.residual, epilogue.relu, epilogue.most, epilogue.silu)
};
// lu_factor: an exact zero pivot is an error of the data, which names the matrix and the pivot.
struct LuAttrs {
  bool refuse_singular = false;
  FREIGHT_FIELDS(refuse_singular)
};
// cholesky: U with U^T U = x, read from the upper triangle, in place of L with L L^T = x, read from the lower one.
struct CholeskyAttrs {
  bool upper = false;
  FREIGHT_FIELDS(upper)
};
// qr: q is square, with columns that complete the basis, and r has the shape of x.
struct QrAttrs {
  bool complete = false;
  FREIGHT_FIELDS(complete)
};
// solve_triangular: the triangle of a that is read, whether a is transposed, whether its diagonal counts as 1 and is
// not read, x a = b in place of a x = b; refuse_singular: a zero on the diagonal is an error of the data.
struct TriangularAttrs {
  bool upper = false, transposed = false, unit_diagonal = false, right = false, refuse_singular = false;
  FREIGHT_FIELDS(upper, transposed, unit_diagonal, right, refuse_singular)
};
// eigh: the triangle of x that is read.
struct EighAttrs {
  bool upper = false;
  FREIGHT_FIELDS(upper)
};
// svd: u and vh are square, with vectors that complete the bases.
struct SvdAttrs {
  bool full = false;
  FREIGHT_FIELDS(full)
};
// lstsq: singular values up to rtol times the largest count as 0.
struct LstsqAttrs {
  double rtol = 0;
  FREIGHT_FIELDS(rtol)
};
// Convolutions; one number per spatial axis. `shape` is the result's shape for the two gradients, empty for the forward
// op.
struct ConvAttrs {
  Shape stride, pad_low, pad_high, dilation;
  int64_t groups = 1;
  Shape shape;
  Epilogue epilogue;
  FREIGHT_FIELDS(stride, pad_low, pad_high, dilation, groups, shape, epilogue.bias, epilogue.residual, epilogue.relu,
                 epilogue.most, epilogue.silu)
};
// Pooling; one number per spatial axis. `shape` is the pooled input's shape for the gradients, empty for the forward
// ops. `dilation`, of maxima alone: from one element of a window to the next; empty: 1.
struct PoolAttrs {
  Shape kernel, stride, pad_low, pad_high;
  bool count_include_pad = true;  // average: divide by the kernel's size, or by the number of elements inside the image
  Shape shape;
  Shape dilation = {};
  FREIGHT_FIELDS(kernel, stride, pad_low, pad_high, count_include_pad, shape, dilation)
};
// scatter_add, scatter_elements_add: the result has `size` rows along `axis`.
struct ScatterAttrs {
  int64_t axis = 0, size = 0;
  FREIGHT_FIELDS(axis, size)
};
struct SortAttrs {
  int64_t axis = 0;
  bool descending = false;
  FREIGHT_FIELDS(axis, descending)
};
// check_index: how many rows there are to name.
struct RowsAttrs {
  int64_t rows = 0;
  FREIGHT_FIELDS(rows)
};
struct OneHotAttrs {
  int64_t depth = 0;
  DType dtype = DType::f32;
  FREIGHT_FIELDS(depth, dtype)
};
struct AdaptivePoolAttrs {
  Shape output;  // spatial extents of the result
  FREIGHT_FIELDS(output)
};
struct GeluAttrs {
  bool tanh = false;  // the tanh approximation instead of erf
  FREIGHT_FIELDS(tanh)
};
struct DropoutAttrs {
  double p = 0.5;
  int64_t stream = 0;
  FREIGHT_FIELDS(p, stream)
};
struct CrossEntropyAttrs {
  double label_smoothing = 0;
  FREIGHT_FIELDS(label_smoothing)
};
// batch, layer and group norm. layer_norm normalizes the last `axes` axes; group_norm uses `groups`.
struct NormAttrs {
  double eps = 1e-5;
  int64_t axes = 1, groups = 1;
  FREIGHT_FIELDS(eps, axes, groups)
};
struct EmbeddingAttrs {
  int64_t padding_idx = -1;  // the row that receives no gradient; -1: none
  FREIGHT_FIELDS(padding_idx)
};
// attention: weights softmax(scale q k^T). causal: a query sees the keys up to its own place; lengths: an input counts
// the keys of each sample; mask: an input (G, T or 1, S) hides keys or adds to the scores, G = 1, or all samples
// (mask_samples) times all heads (mask_heads); second (attention_grad): the second result has a cotangent too.
struct AttentionAttrs {
  double scale = 1;
  bool causal = false, lengths = false, second = false;
  bool mask = false, mask_samples = false, mask_heads = false;
  FREIGHT_FIELDS(scale, causal, lengths, second, mask, mask_samples, mask_heads)
  int mask_at() const { return lengths ? 4 : 3; }            // among the inputs
  int inputs() const { return mask_at() + (mask ? 1 : 0); }  // of attention; first ones of attention_grad
};
// recurrent: LSTM or GRU, from the first step on or from the last; lengths: an input counts the tokens of each sample,
// behind which its state stays.
struct RecurrentAttrs {
  bool gru = false, reverse = false, lengths = false;
  FREIGHT_FIELDS(gru, reverse, lengths)
};
// recurrent_layer: the same of its steps.
struct RecurrentLayerAttrs {
  RecurrentAttrs steps;
  FREIGHT_FIELDS(steps.gru, steps.reverse, steps.lengths)
};
struct SgdAttrs {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  FREIGHT_FIELDS(momentum, dampening, weight_decay, nesterov)
};
struct AdamAttrs {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW: the decay acts on the weights, not on the gradient
  FREIGHT_FIELDS(beta1, beta2, eps, weight_decay, decoupled)
};
// The pattern of a fused node, its operands -> its results. A region is any body of pointwise, broadcast and reduce
// nodes. In the others a library computes more in the step of a matmul or convolution; their bodies, and which operand
// is what, stand in fused_pattern.h.
enum class FusedKind : uint8_t {
  region,
  matmul_mask,            // (a, b, y) -> where(y > 0, a b, 0)
  matmul_mask_sum,        // (a, b, y) -> the same, and its sums over rows
  matmul_lhs_sum,         // (a, b) -> a b, and the sums of a over rows
  matmul_rhs_sum,         // (a, b) -> a b, and the sums of b over rows
  conv_moments,           // (x, w) -> conv(x, w), mean and variance of its channels
  norm_conv_moments,      // (x, w, scale, shift) -> the same of relu(x scale + shift) in place of x
  norm_conv_grad_weight,  // (x, dy, scale, shift) -> the filter's gradient, the convolution read relu(x scale + shift)
  conv_chain,             // (x, w, [bias], [residual], w, ...) -> convolutions one behind the other, with epilogues
};
// fused: a body that one step executes, and the pattern whose body it is. Body input i is node input i.
struct FusedAttrs {
  std::shared_ptr<const Graph> body;
  FusedKind pattern = FusedKind::region;
  FREIGHT_FIELDS(body, pattern)
};

using AnyAttrs =
    std::variant<NoAttrs, LeafAttrs, ConstantAttrs, CastAttrs, AxisAttrs, AxesAttrs, ShapeAttrs, PermAttrs, SliceAttrs,
                 PadAttrs, PieceAttrs, IotaAttrs, RandomAttrs, MatmulAttrs, LuAttrs, CholeskyAttrs, QrAttrs,
                 TriangularAttrs, EighAttrs, SvdAttrs, LstsqAttrs, ConvAttrs, PoolAttrs, ScatterAttrs, SortAttrs,
                 RowsAttrs, OneHotAttrs, AdaptivePoolAttrs, GeluAttrs, DropoutAttrs, CrossEntropyAttrs, NormAttrs,
                 EmbeddingAttrs, AttentionAttrs, RecurrentAttrs, RecurrentLayerAttrs, SgdAttrs, AdamAttrs, FusedAttrs>;

// A node carries one of the structs above, reached by std::get, std::get_if and std::visit. Copying, moving and
// destroying are functions of attrs.cpp, because the variant's own, each a table over all structs, took two seconds in
// every unit of compilation that copies a node.
struct Attrs : AnyAttrs {
  Attrs() = default;
  template <class Struct>
  requires requires { Struct::kFields; }
  Attrs(Struct s) : AnyAttrs(std::in_place_type<Struct>, std::move(s)) {}
  Attrs(const Attrs& other);
  Attrs(Attrs&& other) noexcept;
  Attrs& operator=(const Attrs& other);
  Attrs& operator=(Attrs&& other) noexcept;
  ~Attrs();
};

bool equal(const Attrs& a, const Attrs& b);
uint64_t hash(const Attrs& a);
// Mixes `value` into a running 64-bit hash.
uint64_t hash_combine(uint64_t seed, uint64_t value);

}  // namespace freight
