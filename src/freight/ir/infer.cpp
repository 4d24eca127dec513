// Shape and element type rules; see infer.h. Messages follow `op: what is wrong: got ..., need ...`; Graph::add puts
// the scope and source line behind them.
#include "freight/ir/infer.h"

#include <algorithm>
#include <ostream>

#include "freight/base/error.h"
#include "freight/ir/fused_pattern.h"
#include "freight/ir/infer_internal.h"

namespace freight {

std::string to_string(const Type& type) { return cat(type.dtype, type.shape); }
std::ostream& operator<<(std::ostream& out, const Type& type) { return out << to_string(type); }

int64_t window_output(int64_t size, int64_t kernel, int64_t stride, int64_t low, int64_t high, int64_t dilation) {
  const int64_t window = dilation * (kernel - 1) + 1;
  const int64_t room = size + low + high - window;
  return room < 0 ? 0 : room / stride + 1;
}

namespace infer {

namespace {

void need_index(const Node& node, const Type& t) {
  if (!is_integer(t.dtype)) bad(node, "indices must be integers: got ", t);
}
void need_equal(const Node& node, const Types& in) {
  for (size_t i = 1; i < in.size(); ++i) {
    if (!(in[i] == in[0])) bad(node, "operands differ: expected equal types, got ", in[0], " and ", in[i]);
  }
}
int need_axis(const Node& node, int64_t axis, const Type& t) {
  if (axis < 0 || axis >= t.shape.rank()) {
    bad(node, "axis out of range: expected 0 to ", t.shape.rank() - 1, " for ", t, ", got ", axis);
  }
  return static_cast<int>(axis);
}
void need_shape(const Node& node, const char* what, const Type& t, const Shape& shape) {
  if (t.shape != shape) bad(node, what, " has the wrong shape: expected ", shape, ", got ", t);
}

// Bytes, FLOPs and offsets of more elements overflow 64 bits somewhere; no memory has room for them. What an attribute
// adds to an extent has the same bound, so that the sums and products below are numbers.
constexpr int64_t kMost = int64_t{1} << 48;

// Extents of 0 count as 1: strides are products of the others.
void need_extents(const Node& node, const Shape& shape) {
  double elements = 1;
  for (const int64_t d : shape) {
    if (d < 0) bad(node, "sizes must not be negative: got ", shape);
    elements *= static_cast<double>(std::max<int64_t>(d, 1));
  }
  if (elements > static_cast<double>(kMost)) {
    bad(node, "the result ", shape, " has too many elements: expected at most ", static_cast<double>(kMost), ", got ",
        elements);
  }
}

// True where a * b, neither of them negative, is at most kMost.
bool product_fits(int64_t a, int64_t b) { return b == 0 || a <= kMost / b; }

// A window's result along one spatial axis; the sums of window_output() are checked before.
int64_t need_window(const Node& node, int64_t size, int64_t kernel, int64_t stride, int64_t low, int64_t high,
                    int64_t dilation) {
  if (std::max({low, high, dilation, kernel}) > kMost || !product_fits(dilation, kernel)) {
    bad(node, "the window is too large: expected at most ", static_cast<double>(kMost), ", got kernel ", kernel,
        ", dilation ", dilation, ", padding ", low, " ", high);
  }
  return window_output(size, kernel, stride, low, high, dilation);
}

}  // namespace

Types leaf(const Node& node, const Types&) { return {attrs<LeafAttrs>(node).type}; }

Types constant(const Node& node, const Types&) {
  const auto& a = attrs<ConstantAttrs>(node);
  if (a.data.defined() && (a.data.dtype() != a.type.dtype || a.data.shape() != a.type.shape)) {
    bad(node, "data is ", a.data.dtype(), a.data.shape(), ", expected ", a.type);
  }
  return {a.type};
}

Types iota(const Node& node, const Types&) {
  const auto& a = attrs<IotaAttrs>(node);
  need_extents(node, a.shape);
  need_axis(node, a.axis, Type{a.dtype, a.shape});
  return {{a.dtype, a.shape}};
}

Types random(const Node& node, const Types& in) {
  if (!(in[0] == Type{DType::i64, {2}})) bad(node, "key must be i64[2] (seed, step): got ", in[0]);
  return {{DType::f32, attrs<RandomAttrs>(node).shape}};
}

Types any(const Node&, const Types& in) { return {in[0]}; }

// Operands of one type, which the result has, too; these differ in their element types (element_types).
Types same(const Node& node, const Types& in) {
  need_equal(node, in);
  return {in[0]};
}
Types floating(const Node& node, const Types& in) { return infer::same(node, in); }
Types single_or_double(const Node& node, const Types& in) { return infer::same(node, in); }
Types whole(const Node& node, const Types& in) { return infer::same(node, in); }
Types logical(const Node& node, const Types& in) { return infer::same(node, in); }

Types predicate(const Node& node, const Types& in) {
  need_equal(node, in);
  return {{DType::boolean, in[0].shape}};
}

Types equality(const Node& node, const Types& in) { return predicate(node, in); }

Types cast(const Node& node, const Types& in) {
  const DType to = attrs<CastAttrs>(node).dtype;
  if (is_complex(in[0].dtype) && !is_complex(to) && to != DType::boolean)
    bad(node, "the imaginary parts would be lost: got ", in[0], ", asked for ", to);
  return {{to, in[0].shape}};
}

Types where(const Node& node, const Types& in) {
  if (in[0].dtype != DType::boolean) bad(node, "condition must be bool: got ", in[0]);
  if (!(in[1] == in[2])) bad(node, "branches differ: got ", in[1], " and ", in[2]);
  if (in[0].shape != in[1].shape) bad(node, "condition ", in[0], " and branch ", in[1], " differ in shape");
  return {in[1]};
}

Types reshape(const Node& node, const Types& in) {
  const Shape& s = attrs<ShapeAttrs>(node).shape;
  need_extents(node, s);
  if (s.numel() != in[0].numel()) {
    bad(node, "element counts differ: expected ", s, " (", s.numel(), "), got ", in[0], " (", in[0].numel(),
        " elements)");
  }
  return {{in[0].dtype, s}};
}

Types transpose(const Node& node, const Types& in) {
  const Shape& perm = attrs<PermAttrs>(node).perm;
  if (perm.rank() != in[0].shape.rank()) bad(node, "permutation ", perm, " does not fit ", in[0]);
  Shape out = perm;
  std::vector<bool> seen(static_cast<size_t>(perm.rank()));
  for (int i = 0; i < perm.rank(); ++i) {
    const int from = need_axis(node, perm[i], in[0]);
    if (seen[static_cast<size_t>(from)]) bad(node, "axis ", from, " appears twice in ", perm);
    seen[static_cast<size_t>(from)] = true;
    out[i] = in[0].shape[from];
  }
  return {{in[0].dtype, out}};
}

Types broadcast(const Node& node, const Types& in) {
  const Shape& s = attrs<ShapeAttrs>(node).shape;
  need_extents(node, s);
  bool ok = s.rank() == in[0].shape.rank();
  for (int i = 0; ok && i < s.rank(); ++i) ok = in[0].shape[i] == s[i] || in[0].shape[i] == 1;
  if (!ok) bad(node, "cannot expand ", in[0], " to ", s);
  return {{in[0].dtype, s}};
}

Types slice(const Node& node, const Types& in) {
  const auto& a = attrs<SliceAttrs>(node);
  const Shape& x = in[0].shape;
  if (a.start.rank() != x.rank() || a.limit.rank() != x.rank() || a.step.rank() != x.rank()) {
    bad(node, "start, limit and step need ", x.rank(), " entries for ", in[0]);
  }
  Shape out = x;
  for (int i = 0; i < x.rank(); ++i) {
    if (a.start[i] < 0 || a.limit[i] > x[i] || a.start[i] > a.limit[i] || a.step[i] < 1) {
      bad(node, "axis ", i, ": expected a range inside 0 to ", x[i], ", got [", a.start[i], ":", a.limit[i], ":",
          a.step[i], "]");
    }
    const int64_t length = a.limit[i] - a.start[i];
    out[i] = length == 0 ? 0 : (length - 1) / a.step[i] + 1;  // the step may be as large as a number can be
  }
  return {{in[0].dtype, out}};
}

Types pad(const Node& node, const Types& in) {
  const auto& a = attrs<PadAttrs>(node);
  Shape out = in[0].shape;
  if (a.low.rank() != out.rank() || a.high.rank() != out.rank() || a.interior.rank() != out.rank()) {
    bad(node, "low, high and interior need ", out.rank(), " entries for ", in[0]);
  }
  for (int i = 0; i < out.rank(); ++i) {
    if (a.low[i] < 0 || a.high[i] < 0 || a.interior[i] < 0) bad(node, "negative padding on axis ", i);
    if (std::max({a.low[i], a.high[i], a.interior[i]}) > kMost || !product_fits(a.interior[i], out[i])) {
      bad(node, "padding on axis ", i, " of ", in[0], " is too large: expected at most ", static_cast<double>(kMost),
          ", got ", a.low[i], " before, ", a.high[i], " after and ", a.interior[i], " between the elements");
    }
    out[i] = a.low[i] + a.high[i] + out[i] + (out[i] > 0 ? (out[i] - 1) * a.interior[i] : 0);
  }
  return {{in[0].dtype, out}};
}

Types concat(const Node& node, const Types& in) {
  const int axis = need_axis(node, attrs<AxisAttrs>(node).axis, in[0]);
  Shape out = in[0].shape;
  for (size_t k = 1; k < in.size(); ++k) {
    bool ok = in[k].dtype == in[0].dtype && in[k].shape.rank() == out.rank();
    for (int i = 0; ok && i < out.rank(); ++i) ok = i == axis || in[k].shape[i] == out[i];
    if (!ok) bad(node, "operand ", k, " does not fit: got ", in[k], " next to ", in[0], " along axis ", axis);
    out[axis] += in[k].shape[axis];
    need_extents(node, out);
  }
  return {{in[0].dtype, out}};
}

Types reduce(const Node& node, const Types& in) {
  Shape out = in[0].shape;
  for (int64_t axis : attrs<AxesAttrs>(node).axes) {
    const int i = need_axis(node, axis, in[0]);
    if (out[i] == 0 && node.op != Op::sum) bad(node, "axis ", i, " of ", in[0], " is empty");
    out[i] = 1;
  }
  return {{in[0].dtype, out}};
}

Types arg_reduce(const Node& node, const Types& in) {
  Shape out = in[0].shape;
  const int i = need_axis(node, attrs<AxisAttrs>(node).axis, in[0]);
  if (out[i] == 0) bad(node, "axis ", i, " of ", in[0], " is empty");
  need_i32_places(node, out[i], cat("axis ", i, " of ", in[0]));
  out[i] = 1;
  return {{DType::i32, out}};
}

Types argsort(const Node& node, const Types& in) {
  const int i = need_axis(node, attrs<SortAttrs>(node).axis, in[0]);
  need_i32_places(node, in[0].shape[i], cat("axis ", i, " of ", in[0]));
  return {{DType::i32, in[0].shape}};
}

namespace {
// Checks the operands that the epilogue adds behind the first two.
void check_epilogue(const Node& node, const Types& in, const Epilogue& e, const Type& out, int64_t columns) {
  size_t next = 2;
  if (e.bias) {
    if (next >= in.size() || !(in[next] == Type{out.dtype, {columns}}))
      bad(node, "bias must be ", Type{out.dtype, {columns}});
    ++next;
  }
  if (e.residual) {
    if (next >= in.size() || !(in[next] == out)) bad(node, "residual must be ", out);
    ++next;
  }
  if (next != in.size()) bad(node, "expected ", next, ", got ", in.size(), " inputs");
}
}  // namespace

Types matmul(const Node& node, const Types& in) {
  const auto& a = attrs<MatmulAttrs>(node);
  const Type &lhs = in[0], &rhs = in[1];
  const int rank = lhs.shape.rank();
  if (lhs.dtype != rhs.dtype) bad(node, "element types differ: lhs ", lhs, ", rhs ", rhs, "; cast one of them");
  if (rank < 2 || rhs.shape.rank() != rank) bad(node, "ranks must be equal and at least 2: lhs ", lhs, ", rhs ", rhs);
  for (int i = 0; i < rank - 2; ++i) {
    if (lhs.shape[i] != rhs.shape[i]) bad(node, "batch axis ", i, " differs: lhs ", lhs, ", rhs ", rhs);
  }
  const int ka = a.trans_a ? rank - 2 : rank - 1, kb = a.trans_b ? rank - 1 : rank - 2;
  if (lhs.shape[ka] != rhs.shape[kb]) {
    bad(node, "inner dimensions differ: lhs ", lhs, " axis ", ka, " = ", lhs.shape[ka], ", rhs ", rhs, " axis ", kb,
        " = ", rhs.shape[kb]);
  }
  Type out = lhs;
  out.shape[rank - 2] = lhs.shape[a.trans_a ? rank - 1 : rank - 2];
  out.shape[rank - 1] = rhs.shape[a.trans_b ? rank - 2 : rank - 1];
  check_epilogue(node, in, a.epilogue, out, out.shape[rank - 1]);
  return {out};
}

namespace {
int conv_spatial(const Node& node, const ConvAttrs& a, int rank) {
  const int spatial = rank - 2;
  if (spatial < 1 || spatial > 2) bad(node, "expected 1 or 2 spatial axes, (N, C, L) or (N, C, H, W), got rank ", rank);
  if (a.stride.rank() != spatial || a.pad_low.rank() != spatial || a.pad_high.rank() != spatial ||
      a.dilation.rank() != spatial) {
    bad(node, "stride, padding and dilation need ", spatial, " entries");
  }
  for (int i = 0; i < spatial; ++i) {
    if (a.stride[i] < 1 || a.dilation[i] < 1 || a.pad_low[i] < 0 || a.pad_high[i] < 0) {
      bad(node, "stride and dilation must be positive, padding not negative: got stride ", a.stride, ", dilation ",
          a.dilation, ", padding ", a.pad_low, " ", a.pad_high);
    }
  }
  if (a.groups < 1) bad(node, "groups must be positive: got ", a.groups);
  return spatial;
}
// The forward result for x and w; the shared check of the three convolutions.
Shape conv_result(const Node& node, const ConvAttrs& a, const Shape& x, const Shape& w) {
  need_extents(node, x);  // one of them may be an attribute
  need_extents(node, w);
  const int spatial = conv_spatial(node, a, x.rank());
  if (w.rank() != x.rank()) bad(node, "input ", x, " and weight ", w, " differ in rank");
  if (!product_fits(a.groups, w[1])) bad(node, "too many groups: got ", a.groups, " for weight ", w);
  if (x[1] != w[1] * a.groups || w[0] % a.groups != 0) {
    bad(node, "channels do not fit: input ", x, " axis 1 = ", x[1], ", weight ", w, " needs ", w[1] * a.groups, " (",
        a.groups, " groups of ", w[1], ")");
  }
  Shape out{x[0], w[0]};
  for (int i = 0; i < spatial; ++i) {
    const int64_t o = need_window(node, x[2 + i], w[2 + i], a.stride[i], a.pad_low[i], a.pad_high[i], a.dilation[i]);
    if (o < 1) bad(node, "kernel ", w, " does not fit into input ", x, " on spatial axis ", i);
    out.push_back(o);
  }
  return out;
}
}  // namespace

Types conv(const Node& node, const Types& in) {
  const auto& a = attrs<ConvAttrs>(node);
  if (in[0].dtype != in[1].dtype)
    bad(node, "element types differ: input ", in[0], ", weight ", in[1], "; cast one of them");
  const Type out{in[0].dtype, conv_result(node, a, in[0].shape, in[1].shape)};
  check_epilogue(node, in, a.epilogue, out, out.shape[1]);
  return {out};
}

// (g, w) -> dx of attrs.shape
Types conv_grad_input(const Node& node, const Types& in) {
  const auto& a = attrs<ConvAttrs>(node);
  need_shape(node, "output gradient", in[0], conv_result(node, a, a.shape, in[1].shape));
  return {{in[0].dtype, a.shape}};
}

// (x, g) -> dw of attrs.shape
Types conv_grad_weight(const Node& node, const Types& in) {
  const auto& a = attrs<ConvAttrs>(node);
  need_shape(node, "output gradient", in[1], conv_result(node, a, in[0].shape, a.shape));
  return {{in[0].dtype, a.shape}};
}

namespace {
Shape pool_result(const Node& node, const Shape& x) {
  const auto& a = attrs<PoolAttrs>(node);
  need_extents(node, x);  // it may be an attribute
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 2 || a.kernel.rank() != spatial || a.stride.rank() != spatial ||
      a.pad_low.rank() != spatial || a.pad_high.rank() != spatial) {
    bad(node, "kernel, stride and padding need one entry per spatial axis (1 or 2), got kernel ", a.kernel,
        " for input ", x);
  }
  const bool maxima = node.op == Op::max_pool || node.op == Op::max_pool_grad;
  if (!a.dilation.empty() && (!maxima || a.dilation.rank() != spatial)) {
    bad(node, "dilation is one number per spatial axis of maxima, and averages have none: got ", a.dilation);
  }
  Shape out{x[0], x[1]};
  for (int i = 0; i < spatial; ++i) {
    if (a.kernel[i] < 1 || a.stride[i] < 1 || a.pad_low[i] < 0 || a.pad_high[i] < 0 || a.pad_low[i] >= a.kernel[i] ||
        a.pad_high[i] - a.kernel[i] >= a.stride[i]) {
      bad(node, "expected kernel and stride above 0 and padding below the kernel, got kernel ", a.kernel, ", stride ",
          a.stride, ", padding ", a.pad_low, " ", a.pad_high);
    }
    const int64_t spread = a.dilation.empty() ? 1 : a.dilation[i];
    // A window of several elements with a larger one may step over the whole image, and has no maximum.
    if (spread < 1 || (spread > 1 && a.kernel[i] > 1 && spread > x[2 + i]))
      bad(node, "dilation must be from 1 to the size of the image, or windows have no element: got ", a.dilation,
          " for input ", x);
    const int64_t o = need_window(node, x[2 + i], a.kernel[i], a.stride[i], a.pad_low[i], a.pad_high[i], spread);
    if (o < 1) bad(node, "kernel ", a.kernel, " does not fit into input ", x, " on spatial axis ", i);
    out.push_back(o);
  }
  return out;
}
}  // namespace

Types max_pool(const Node& node, const Types& in) {
  const Shape& x = in[0].shape;
  const Shape out = pool_result(node, x);
  need_i32_places(node, x.rank() == 3 ? x[2] : x[2] * x[3], cat("each plane of ", in[0]));
  return {{in[0].dtype, out}, {DType::i32, out}};
}

Types max_pool_grad(const Node& node, const Types& in) {
  const Shape& x = attrs<PoolAttrs>(node).shape;
  const Shape out = pool_result(node, x);
  need_shape(node, "output gradient", in[0], out);
  need_shape(node, "index", in[1], out);
  return {{in[0].dtype, x}};
}

Types avg_pool(const Node& node, const Types& in) { return {{in[0].dtype, pool_result(node, in[0].shape)}}; }

Types avg_pool_grad(const Node& node, const Types& in) {
  const Shape& x = attrs<PoolAttrs>(node).shape;
  need_shape(node, "output gradient", in[0], pool_result(node, x));
  return {{in[0].dtype, x}};
}

Types gather(const Node& node, const Types& in) {
  const int axis = need_axis(node, attrs<AxisAttrs>(node).axis, in[0]);
  need_index(node, in[1]);
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(in[0].shape[i]);
  for (int64_t d : in[1].shape) out.push_back(d);
  for (int i = axis + 1; i < in[0].shape.rank(); ++i) out.push_back(in[0].shape[i]);
  return {{in[0].dtype, out}};
}

namespace {
void need_sum(const Node& node, const Type& updates) {
  if (!dtypes::kNumber.has(updates.dtype)) bad(node, refusal(updates, dtypes::kNumber));
}
}  // namespace

// (index, updates): updates have the shape that gather gives.
Types scatter_add(const Node& node, const Types& in) {
  const auto& a = attrs<ScatterAttrs>(node);
  need_index(node, in[0]);
  need_sum(node, in[1]);
  const Shape &idx = in[0].shape, &u = in[1].shape;
  bool ok = a.axis >= 0 && a.axis <= u.rank() - idx.rank() && a.size >= 0;
  const int axis = ok ? static_cast<int>(a.axis) : 0;
  for (int i = 0; ok && i < idx.rank(); ++i) ok = u[axis + i] == idx[i];
  if (!ok) bad(node, "updates ", in[1], " do not fit indices ", in[0], " at axis ", a.axis);
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(u[i]);
  out.push_back(a.size);
  for (int i = axis + idx.rank(); i < u.rank(); ++i) out.push_back(u[i]);
  return {{in[1].dtype, out}};
}

Types gather_elements(const Node& node, const Types& in) {
  const int axis = need_axis(node, attrs<AxisAttrs>(node).axis, in[0]);
  need_index(node, in[1]);
  bool ok = in[1].shape.rank() == in[0].shape.rank();
  for (int i = 0; ok && i < in[0].shape.rank(); ++i) ok = i == axis || in[1].shape[i] == in[0].shape[i];
  if (!ok) bad(node, "indices ", in[1], " do not fit ", in[0], " along axis ", axis);
  return {{in[0].dtype, in[1].shape}};
}

Types scatter_elements_add(const Node& node, const Types& in) {
  const auto& a = attrs<ScatterAttrs>(node);
  need_index(node, in[0]);
  need_sum(node, in[1]);
  if (in[0].shape != in[1].shape) bad(node, "indices ", in[0], " and updates ", in[1], " differ in shape");
  Type out = in[1];
  out.shape[need_axis(node, a.axis, in[1])] = a.size;
  return {out};
}

namespace {
Types assigned(const Node& node, const Types& in, const Type& picks) {
  if (!(in[2] == picks))
    bad(node, "updates ", in[2], " do not fit indices ", in[1], " of ", in[0], ": expected ", picks);
  return {in[0]};
}
}  // namespace

Types scatter(const Node& node, const Types& in) { return assigned(node, in, gather(node, in)[0]); }
Types scatter_elements(const Node& node, const Types& in) { return assigned(node, in, gather_elements(node, in)[0]); }

Types check_index(const Node& node, const Types& in) {
  need_index(node, in[0]);
  const int64_t rows = attrs<RowsAttrs>(node).rows;
  if (rows < 0) bad(node, "the number of rows must not be negative: got ", rows);
  return {in[0]};
}

Types along_axis(const Node& node, const Types& in) {
  need_axis(node, attrs<AxisAttrs>(node).axis, in[0]);
  return {in[0]};
}

Types cross_entropy(const Node& node, const Types& in) {
  if (in[0].shape.rank() != 2)
    bad(node, "logits must be (N, classes): got ", in[0], "; permute and reshape them and the target");
  if (is_floating(in[1].dtype)) {
    if (!(in[1] == in[0]))
      bad(node, "the target is neither classes nor probabilities: expected integers [", in[0].shape[0],
          "] (cast them), or the logits' type ", in[0], ", got ", in[1]);
  } else {
    need_index(node, in[1]);
    need_shape(node, "labels", in[1], {in[0].shape[0]});
  }
  return {{in[0].dtype, {in[0].shape[0]}}};
}

namespace {
void need_channels(const Node& node, const Types& in, size_t first, int64_t channels) {
  static constexpr const char* kNames[] = {"input", "scale", "shift", "mean", "variance"};
  for (size_t i = first; i < in.size(); ++i) need_shape(node, kNames[i], in[i], {channels});
}
}  // namespace

Types moments(const Node& node, const Types& in) {
  if (in[0].shape.rank() < 2) bad(node, "input must be (N, C, ...): got ", in[0]);
  Type channel{wide(in[0].dtype), Shape::filled(in[0].shape.rank(), 1)};
  channel.shape[1] = in[0].shape[1];
  return {channel, channel};
}

Types batch_norm(const Node& node, const Types& in) {
  moments(node, in);
  need_channels(node, in, 1, in[0].shape[1]);
  const Type channel{in[1].dtype, {in[0].shape[1]}};
  return {in[0], channel, channel};
}

Types batch_norm_inference(const Node& node, const Types& in) { return {batch_norm(node, in)[0]}; }

Types layer_norm(const Node& node, const Types& in) {
  const auto& a = attrs<NormAttrs>(node);
  const int rank = in[0].shape.rank();
  if (a.axes < 1 || a.axes > rank) bad(node, "cannot normalize the last ", a.axes, " axes of ", in[0]);
  const Shape tail(in[0].shape.end() - a.axes, in[0].shape.end());
  need_shape(node, "scale", in[1], tail);
  need_shape(node, "shift", in[2], tail);
  return {in[0]};
}

Types group_norm(const Node& node, const Types& in) {
  const auto& a = attrs<NormAttrs>(node);
  if (in[0].shape.rank() < 2 || a.groups < 1 || in[0].shape[1] % a.groups != 0) {
    bad(node, "channels of ", in[0], " do not divide into ", a.groups, " groups");
  }
  need_channels(node, in, 1, in[0].shape[1]);
  return {in[0]};
}

Types dropout(const Node& node, const Types& in) {
  const double p = attrs<DropoutAttrs>(node).p;
  if (!(p >= 0 && p < 1)) bad(node, "probability out of range: expected 0 <= p < 1, got ", p);
  if (!(in[1] == Type{DType::i64, {2}})) bad(node, "key must be i64[2] (seed, step): got ", in[1]);
  return {in[0]};
}

// (index, weight (rows, width)) -> index.shape + (width)
Types embedding(const Node& node, const Types& in) {
  need_index(node, in[0]);
  if (in[1].shape.rank() != 2) bad(node, "weight must be (rows, width): got ", in[1]);
  Shape out = in[0].shape;
  out.push_back(in[1].shape[1]);
  return {{in[1].dtype, out}};
}

Types one_hot(const Node& node, const Types& in) {
  need_index(node, in[0]);
  const auto& a = attrs<OneHotAttrs>(node);
  Shape out = in[0].shape;
  out.push_back(a.depth);
  return {{a.dtype, out}};
}

Types adaptive_avg_pool(const Node& node, const Types& in) {
  const Shape& o = attrs<AdaptivePoolAttrs>(node).output;
  Shape out = in[0].shape;
  if (o.rank() != out.rank() - 2) bad(node, "output sizes ", o, " do not fit ", in[0]);
  for (int i = 0; i < o.rank(); ++i) {
    if (o[i] < 1 || out[2 + i] < 1) bad(node, "sizes must be positive: got ", o, " for ", in[0]);
    out[2 + i] = o[i];
  }
  return {{in[0].dtype, out}};
}

Types sgd_rows(const Node& node, const Types& in) {
  need_index(node, in[1]);
  Shape rows = in[1].shape;
  if (in[0].shape.rank() != 2) bad(node, "the table must be (rows, width): got ", in[0]);
  rows.push_back(in[0].shape[1]);
  if (!(in[2] == Type{in[0].dtype, rows}) || !(in[3] == Type{DType::f32, {}})) {
    bad(node, "expected a gradient ", Type{in[0].dtype, rows}, " and f32[]: got ", in[2], " and ", in[3]);
  }
  return {in[0]};
}

namespace {
void check_update(const Node& node, const Types& in, size_t scalars) {
  for (size_t i = 1; i < in.size(); ++i) {
    const bool scalar = i >= 2 && i < 2 + scalars;
    const Type need = scalar ? Type{DType::f32, {}} : Type{in[i].dtype, in[0].shape};
    if (!(in[i] == need) || !is_floating(in[i].dtype)) bad(node, "input ", i, ": expected ", need, ", got ", in[i]);
  }
}
}  // namespace

Types sgd_update(const Node& node, const Types& in) {
  check_update(node, in, 1);
  const bool momentum = attrs<SgdAttrs>(node).momentum != 0;
  if (momentum != (in.size() == 4)) bad(node, "expected 4 with momentum and 3 without, got ", in.size(), " inputs");
  return momentum ? Types{in[0], in[3]} : Types{in[0]};
}

Types adam_update(const Node& node, const Types& in) {
  check_update(node, in, 2);
  return {in[0], in[4], in[5]};
}

Types fused(const Node& node, const Types& in) {
  const auto& [body, pattern] = attrs<FusedAttrs>(node);
  if (!body) bad(node, "body missing");
  const auto leaves = body->leaves(Op::input);
  if (leaves.size() != in.size()) bad(node, "got ", in.size(), " inputs, body has ", leaves.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!(body->type(leaves[i]) == in[i]))
      bad(node, "input ", i, ": got ", in[i], ", body needs ", body->type(leaves[i]));
  }
  if (!has_pattern(*body, pattern)) {
    const std::optional<FusedKind> got = find_pattern(*body);
    bad(node, "pattern and body differ: expected that of ", pattern_of(pattern).name, ", got the body of ",
        got ? pattern_of(*got).name : "no pattern");
  }
  Types out;
  for (Value v : body->outputs) out.push_back(body->type(v));
  return out;
}

}  // namespace infer

namespace {
DTypes element_types_of(Op op) {
  static const std::vector<DTypes> kTypes = [] {
    std::vector<DTypes> all;
    for (int i = 0; i < kOpCount; ++i) all.push_back(element_types(info(static_cast<Op>(i)).infer));
    return all;
  }();
  return kTypes[static_cast<size_t>(op)];
}
}  // namespace

std::vector<Type> infer_types(const Node& node, const std::vector<Type>& in) {
  const DTypes types = element_types_of(node.op);
  const auto need = [&](const Type& t, bool holds) {
    if (!holds) fail(ErrorKind::usage, name(node.op), refusal(t, types));
  };
  if (!in.empty()) need(in[0], types.has(in[0].dtype));
  const auto refuse_carried = [&](const std::vector<Type>& list) {
    if (types == dtypes::kAll) return;
    for (const Type& t : list) need(t, computes(t.dtype));
  };
  refuse_carried(in);
  std::vector<Type> out = info(node.op).infer(node, in);
  for (const Type& t : out) infer::need_extents(node, t.shape);
  refuse_carried(out);
  return out;
}

}  // namespace freight
