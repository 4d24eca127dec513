// The table from ops to ONNX nodes. See onnx_graph_internal.h and onnx_writer_internal.h.
#include "freight/deploy/onnx_graph_internal.h"

#include <algorithm>
#include <cmath>

#include "freight/deploy/onnx_writer_internal.h"
#include "freight/passes/passes.h"

namespace freight::deploy::onnx {

namespace {

[[noreturn]] void unsupported(const FNode& n, const char* what) {
  throw Error(ErrorKind::usage, "export", cat("ONNX has no form of ", freight::name(n.op), " ", what), n.location());
}

void alias(Writer& w, const FNode& n) { w.set(n.out(), w.stored(n.in(0)), w.thin(n.in(0))); }

std::string converted(Writer& w, const std::string& x, DType to) {
  return w.emit("Cast", {x}, {{"to", data_type(to)}});
}

void constant(Writer& w, const FNode& n) {
  const auto& a = attrs<ConstantAttrs>(n);
  if (a.data.defined()) return w.set(n.out(), w.constant(a.data));
  const int rank = a.type.shape.rank();
  const std::optional<Count> count = w.family().count(w.node_index());
  if (!count || count->formula.constant())
    return w.set(n.out(), w.number(a.value, a.type.dtype, rank), w.thin_all(n.out()));
  std::string value = converted(w, w.extent(count->formula), a.type.dtype);
  if (count->inverse) value = w.emit("Reciprocal", {value});
  if (rank != 1) value = w.emit("Reshape", {value, w.constant(ints(Shape::filled(rank, 1)))});
  w.set(n.out(), value, w.thin_all(n.out()));
}

// 0, 1, 2, ... along axis `axis` of `rank`; the others have extent 1.
std::string counting(Writer& w, const Formula& count, DType dtype, int rank, int axis) {
  Shape shape = Shape::filled(rank, 1);
  if (count.constant()) {
    shape[axis] = count.fixed;
    std::vector<int64_t> values(static_cast<size_t>(count.fixed));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
    return w.constant(Array::of<int64_t>(values, shape).cast(dtype));
  }
  const std::string limit = w.emit("Squeeze", {w.extent(count)});
  const auto scalar = [&](int64_t v) { return w.constant(Array::of<int64_t>({v}, {})); };
  std::string range = w.emit("Range", {scalar(0), limit, scalar(1)});
  if (dtype != DType::i64) range = converted(w, range, dtype);
  shape[axis] = -1;
  return w.emit("Reshape", {range, w.constant(ints(shape))});
}

void iota(Writer& w, const FNode& n) {
  const auto& a = attrs<IotaAttrs>(n);
  const auto axis = static_cast<size_t>(a.axis);
  std::vector<bool> thin = w.thin_all(n.out());
  thin[axis] = false;
  w.set(n.out(), counting(w, w.extents(n.out())[axis], a.dtype, a.shape.rank(), static_cast<int>(a.axis)), thin);
}

// Floats beyond the range of integers become its ends and NaN 0, as here: ONNX leaves open what a Cast makes of them.
// The upper end is the largest number of the floating type that is in the range.
void cast(Writer& w, const FNode& n) {
  DType from = w.type(n.in(0)).dtype;
  const DType to = attrs<CastAttrs>(n).dtype;
  std::string x = w.stored(n.in(0));
  if (is_floating(from) && is_integer(to)) {
    if (size_of(from) == 2) x = converted(w, x, from = DType::f32);
    const bool sign = info(to).kind == NumberKind::signed_integer;
    const int digits = static_cast<int>(8 * size_of(to)) - sign;
    const double end = std::ldexp(1.0, digits),
                 unit = std::ldexp(1.0, std::max(0, digits - (from == DType::f32 ? 24 : 53)));
    const std::string ends = w.emit("Clip", {x, w.number(sign ? -end : 0, from, 0), w.number(end - unit, from, 0)});
    x = w.emit("Where", {w.emit("IsNaN", {x}), w.number(0, from, 0), ends});
  }
  w.set_pointwise(n, converted(w, x, to));
}
void ne(Writer& w, const FNode& n) { w.set_pointwise(n, w.emit("Not", {w.emit("Equal", w.stored_inputs(n))})); }
void square(Writer& w, const FNode& n) { w.set_pointwise(n, w.emit("Mul", {w.stored(n.in(0)), w.stored(n.in(0))})); }
void rsqrt(Writer& w, const FNode& n) {
  w.set_pointwise(n, w.emit("Reciprocal", {w.emit("Sqrt", w.stored_inputs(n))}));
}
void fmod(Writer& w, const FNode& n) { w.set_pointwise(n, w.emit("Mod", w.stored_inputs(n), {{"fmod", int64_t{1}}})); }

// A number of the type and rank of the result.
std::string number(Writer& w, const FNode& n, double value) {
  const Type& t = w.type(n.out());
  return w.number(value, t.dtype, t.shape.rank());
}
void expm1(Writer& w, const FNode& n) {
  w.set_pointwise(n, w.emit("Sub", {w.emit("Exp", w.stored_inputs(n)), number(w, n, 1)}));
}
void log1p(Writer& w, const FNode& n) {
  w.set_pointwise(n, w.emit("Log", {w.emit("Add", {w.stored(n.in(0)), number(w, n, 1)})}));
}
void logarithm(Writer& w, const FNode& n) {
  const std::string per_base = number(w, n, n.op == Op::log2 ? 1.4426950408889634 : 0.4342944819032518);
  w.set_pointwise(n, w.emit("Mul", {w.emit("Log", w.stored_inputs(n)), per_base}));
}

// bool: whether the sign is negative, of -0 as well.
std::string negative(Writer& w, const FNode& n, const std::string& x) {
  const std::string zero = number(w, n, 0);
  return w.emit("Or", {w.emit("Less", {x, zero}), w.emit("Less", {w.emit("Reciprocal", {x}), zero})});
}
void copysign(Writer& w, const FNode& n) {
  const std::string size = w.emit("Abs", {w.stored(n.in(0))});
  w.set_pointwise(n, w.emit("Where", {negative(w, n, w.stored(n.in(1))), w.emit("Neg", {size}), size}));
}
// The angle of (x, y): that of y / x, turned by pi to the side of y where x is negative.
void atan2(Writer& w, const FNode& n) {
  const std::string y = w.stored(n.in(0)), x = w.stored(n.in(1)), left = negative(w, n, x), zero = number(w, n, 0);
  const std::string none = w.emit("Equal", {y, zero}), slope = w.emit("Div", {y, x});
  const std::string turn = w.emit("Where", {negative(w, n, y), number(w, n, -M_PI), number(w, n, M_PI)});
  const std::string angle = w.emit("Where", {none, zero, w.emit("Atan", {slope})});  // 0 / 0 would be NaN
  const std::string kept = w.emit("Where", {none, y, angle});
  w.set_pointwise(n, w.emit("Where", {left, w.emit("Add", {angle, turn}), kept}));
}
void hypot(Writer& w, const FNode& n) {
  const std::string a = w.emit("Abs", {w.stored(n.in(0))}), b = w.emit("Abs", {w.stored(n.in(1))});
  const std::string most = w.emit("Max", {a, b}), one = number(w, n, 1);
  const std::string divisor = w.emit("Where", {w.emit("Equal", {most, number(w, n, 0)}), one, most});
  const std::string ratio = w.emit("Div", {w.emit("Min", {a, b}), divisor});
  const std::string length = w.emit("Sqrt", {w.emit("Add", {w.emit("Mul", {ratio, ratio}), one})});
  w.set_pointwise(n, w.emit("Mul", {most, length}));
}
void logaddexp(Writer& w, const FNode& n) {
  const Names in = w.stored_inputs(n);
  const std::string apart = w.emit("Neg", {w.emit("Abs", {w.emit("Sub", in)})});
  const std::string sum = w.emit("Add", {w.emit("Max", in), w.emit("Softplus", {apart})});
  const std::string twice = w.emit("Add", {in[0], number(w, n, 0.69314718055994531)});  // also of two infinities
  w.set_pointwise(n, w.emit("Where", {w.emit("Equal", in), twice, sum}));
}
void is_finite(Writer& w, const FNode& n) {
  const Names x = w.stored_inputs(n);
  w.set_pointwise(n, w.emit("Not", {w.emit("Or", {w.emit("IsInf", x), w.emit("IsNaN", x)})}));
}
void add(Writer& w, const FNode& n) {
  const Value product = w.biased(n);
  if (!product.valid()) return w.pointwise(n, "Add");
  w.set(n.out(), w.stored(product));
}

void reshape(Writer& w, const FNode& n) { w.reshape(n.in(0), n.out()); }

void transpose(Writer& w, const FNode& n) {
  const Shape& perm = attrs<PermAttrs>(n).perm;
  std::vector<bool> thin;
  for (const int64_t axis : perm) thin.push_back(w.thin(n.in(0))[static_cast<size_t>(axis)]);
  w.set(n.out(), w.emit("Transpose", {w.stored(n.in(0))}, {{"perm", ints(perm)}}), thin);
}

void broadcast(Writer& w, const FNode& n) {
  std::vector<bool> thin = w.thin(n.in(0));
  for (size_t i = 0; i < thin.size(); ++i) thin[i] = thin[i] || w.extents(n.in(0))[i] != w.extents(n.out())[i];
  w.set(n.out(), w.stored(n.in(0)), thin);
}

void slice(Writer& w, const FNode& n) {
  const auto& a = attrs<SliceAttrs>(n);
  std::vector<Formula> starts, limits;
  Ints axes, steps;
  for (int i = 0; i < a.start.rank(); ++i) {
    const auto at = w.node_index();
    const Formula start = w.family().of_node(at, [&](const FNode& m) { return attrs<SliceAttrs>(m).start[i]; });
    const Formula limit = w.family().of_node(at, [&](const FNode& m) { return attrs<SliceAttrs>(m).limit[i]; });
    if (start == Formula{} && limit == w.extents(n.in(0))[static_cast<size_t>(i)] && a.step[i] == 1) continue;
    starts.push_back(start);
    limits.push_back(limit);
    axes.push_back(i);
    steps.push_back(a.step[i]);
  }
  if (axes.empty()) return alias(w, n);
  w.set(n.out(),
        w.emit("Slice", {w.full(n.in(0)), w.list(starts), w.list(limits), w.constant(axes), w.constant(steps)}));
}

void pad(Writer& w, const FNode& n) {
  const auto& a = attrs<PadAttrs>(n);
  if (a.interior != Shape::filled(a.interior.rank(), 0)) unsupported(n, "between elements");
  Ints pads = ints(a.low);
  for (const int64_t p : a.high) pads.push_back(p);
  w.set(n.out(), w.emit("Pad", {w.full(n.in(0)), w.constant(pads), w.number(a.value, w.type(n.out()).dtype, 0)}));
}

void concat(Writer& w, const FNode& n) {
  Names parts;
  for (Value v : n.inputs) parts.push_back(w.full(v));
  w.set(n.out(), w.emit("Concat", parts, {{"axis", attrs<AxisAttrs>(n).axis}}));
}

void sum(Writer& w, const FNode& n) {
  const std::string axes = w.constant(ints(attrs<AxesAttrs>(n).axes));
  w.set(n.out(), w.emit("ReduceSum", {w.full(n.in(0)), axes}, {{"keepdims", int64_t{1}}}));
}
void extremum(Writer& w, const FNode& n) {
  const char* op = n.op == Op::reduce_max ? "ReduceMax" : "ReduceMin";
  w.set(n.out(), w.emit(op, {w.full(n.in(0))}, {{"axes", ints(attrs<AxesAttrs>(n).axes)}, {"keepdims", int64_t{1}}}));
}
void arg_reduce(Writer& w, const FNode& n) {
  const char* op = n.op == Op::argmax ? "ArgMax" : "ArgMin";
  const std::string index =
      w.emit(op, {w.full(n.in(0))}, {{"axis", attrs<AxisAttrs>(n).axis}, {"keepdims", int64_t{1}}});
  w.set(n.out(), converted(w, index, DType::i32));
}
// All elements, in order: of equal ones TopK, too, names the first one first.
void argsort(Writer& w, const FNode& n) {
  const auto& a = attrs<SortAttrs>(n);
  const DType type = w.type(n.in(0)).dtype;
  std::string x = w.full(n.in(0));
  if (size_of(type) < 4) {
    x = converted(w, x, is_floating(type) ? DType::f32 : DType::i32);
  } else if (type == DType::u32) {
    x = converted(w, x, DType::i64);
  } else if (type == DType::u64) {
    unsupported(n, "of u64");
  }
  const std::string count = w.extent(w.extents(n.in(0))[static_cast<size_t>(a.axis)]);
  const std::string sorted = w.emit("TopK", {x, count}, {{"axis", a.axis}, {"largest", int64_t{a.descending}}}, "_at");
  w.set(n.out(), converted(w, sorted + "_at", DType::i32));
}

void matmul(Writer& w, const FNode& n) {
  const auto& a = attrs<MatmulAttrs>(n);
  const int rank = w.type(n.out()).shape.rank();
  Names in{w.full(n.in(0)), w.full(n.in(1))};
  if (rank == 2) {
    if (const Value bias = w.bias_of(n.out()); bias.valid()) in.push_back(w.stored(bias));
    std::vector<Attribute> flags;
    if (a.trans_a) flags.push_back({"transA", int64_t{1}});
    if (a.trans_b) flags.push_back({"transB", int64_t{1}});
    return w.set(n.out(), w.emit("Gemm", in, flags));
  }
  Ints swap;
  for (int64_t i = 0; i < rank; ++i) swap.push_back(i);
  std::swap(swap[swap.size() - 2], swap[swap.size() - 1]);
  if (a.trans_a) in[0] = w.emit("Transpose", {in[0]}, {{"perm", swap}});
  if (a.trans_b) in[1] = w.emit("Transpose", {in[1]}, {{"perm", swap}});
  w.set(n.out(), w.emit("MatMul", in));
}

Ints pads(const Shape& low, const Shape& high) {
  Ints all = ints(low);
  for (const int64_t p : high) all.push_back(p);
  return all;
}

// A convolution, or its gradient with respect to x, which is a transposed convolution with the same weight.
void conv(Writer& w, const FNode& n) {
  const auto& a = attrs<ConvAttrs>(n);
  const Shape& weight = w.type(n.in(1)).shape;
  Names in{w.full(n.in(0)), w.full(n.in(1))};
  if (const Value bias = w.bias_of(n.out()); bias.valid()) in.push_back(w.stored(bias));
  std::vector<Attribute> settings{{"dilations", ints(a.dilation)},
                                  {"group", a.groups},
                                  {"kernel_shape", Ints(weight.begin() + 2, weight.end())},
                                  {"pads", pads(a.pad_low, a.pad_high)},
                                  {"strides", ints(a.stride)}};
  if (n.op == Op::conv) return w.set(n.out(), w.emit("Conv", in, settings));
  const Shape &x = w.type(n.in(0)).shape, &y = w.type(n.out()).shape;
  Ints rest;  // elements that the windows leave at the end
  for (int i = 0; i < a.stride.rank(); ++i) {
    const int64_t covered = a.stride[i] * (x[i + 2] - 1) + a.dilation[i] * (weight[i + 2] - 1) + 1;
    rest.push_back(y[i + 2] - (covered - a.pad_low[i] - a.pad_high[i]));
  }
  settings.push_back({"output_padding", rest});
  w.set(n.out(), w.emit("ConvTranspose", in, settings));
}

void pool(Writer& w, const FNode& n) {
  const auto& a = attrs<PoolAttrs>(n);
  std::vector<Attribute> settings{
      {"kernel_shape", ints(a.kernel)}, {"pads", pads(a.pad_low, a.pad_high)}, {"strides", ints(a.stride)}};
  if (!a.dilation.empty()) settings.insert(settings.begin(), {"dilations", ints(a.dilation)});
  if (n.op == Op::avg_pool) settings.push_back({"count_include_pad", int64_t{a.count_include_pad}});
  if (n.op == Op::avg_pool) return w.set(n.out(), w.emit("AveragePool", {w.full(n.in(0))}, settings));
  const bool places = w.read(n.outputs[1]);
  const std::string y = w.emit("MaxPool", {w.full(n.in(0))}, settings, places ? "_places" : nullptr);
  w.set(n.out(), y);
  if (!places) return;
  // ONNX counts the elements of all planes, Freight those of one.
  const std::vector<Formula>& x = w.extents(n.in(0));
  const std::string plane = w.emit("ReduceProd", {w.list({x.begin() + 2, x.end()})});
  w.set(n.outputs[1], converted(w, w.emit("Mod", {y + "_places", plane}), DType::i32));
}

void gather(Writer& w, const FNode& n) {
  w.set(n.out(), w.emit(n.op == Op::gather ? "Gather" : "GatherElements", {w.full(n.in(0)), w.full(n.in(1))},
                        {{"axis", attrs<AxisAttrs>(n).axis}}));
}
// Elements or rows (along an axis, one index for each) that are set in x, or added to zeros.
void scatter(Writer& w, const FNode& n) {
  const bool adds = n.op == Op::scatter_add || n.op == Op::scatter_elements_add;
  const int64_t axis = adds ? attrs<ScatterAttrs>(n).axis : attrs<AxisAttrs>(n).axis;
  const Value updates = n.inputs.back(), index = n.inputs[adds ? 0 : 1];
  const std::vector<Formula>&out = w.extents(n.out()), &places = w.extents(index);
  Names in{adds ? w.emit("Expand", {w.number(0, w.type(n.out()).dtype, static_cast<int>(out.size())), w.list(out)})
                : w.full(n.in(0)),
           w.full(index), w.full(updates)};
  if (n.op == Op::scatter_add || n.op == Op::scatter) {
    Formula rows = places.empty() ? Formula{1} : places[0];
    for (size_t i = 1; i < places.size(); ++i) {
      if (!rows.constant() || !places[i].constant()) unsupported(n, "by indices of several axes that vary");
      rows.fixed *= places[i].fixed;
    }
    std::vector<Formula> each = out;
    each[static_cast<size_t>(axis)] = rows;
    Ints column(out.size(), 1);
    column[static_cast<size_t>(axis)] = -1;
    in[1] = w.emit("Expand", {w.emit("Reshape", {in[1], w.constant(column)}), w.list(each)});
    if (places.size() != 1) in[2] = w.emit("Reshape", {in[2], w.list(each)});
  }
  w.set(n.out(), w.emit("ScatterElements", in, {{"axis", axis}, {"reduction", std::string(adds ? "add" : "none")}}));
}
void embedding(Writer& w, const FNode& n) {
  w.set(n.out(), w.emit("Gather", {w.full(n.in(1)), w.full(n.in(0))}, {{"axis", int64_t{0}}}));
}

void softmax(Writer& w, const FNode& n) {
  w.set(n.out(), w.emit(n.op == Op::softmax ? "Softmax" : "LogSoftmax", {w.full(n.in(0))},
                        {{"axis", attrs<AxisAttrs>(n).axis}}));
}
void norm(Writer& w, const FNode& n) {
  const auto& a = attrs<NormAttrs>(n);
  Names in;
  for (Value v : n.inputs) in.push_back(w.full(v));
  std::vector<Attribute> settings{{"epsilon", static_cast<float>(a.eps)}};
  if (n.op == Op::layer_norm) settings.push_back({"axis", -a.axes});
  w.set(n.out(), w.emit(n.op == Op::layer_norm ? "LayerNormalization" : "BatchNormalization", in, settings));
}
void adaptive_avg_pool(Writer& w, const FNode& n) { w.set(n.out(), w.emit("GlobalAveragePool", {w.full(n.in(0))})); }

// x weight' + bias, which makes the gates' part of the inputs: ONNX's recurrent operators do that themselves.
struct InputPart {
  Value x, weight, bias;  // (N, T, C), (G H, C), G H numbers; weight and bias invalid where x is that part already
};
InputPart input_part(const Writer& w, Value part) {
  const FNode& sum = w.def(part);
  const auto behind_reshape = [&](Value v) { return w.def(v).op == Op::reshape ? w.def(v).in(0) : v; };
  for (size_t k = 0; sum.op == Op::add && k < 2; ++k) {
    const FNode& product = w.def(behind_reshape(sum.inputs[k]));
    const FNode& other = w.def(sum.inputs[1 - k]);
    if (product.op != Op::matmul || other.op != Op::broadcast) continue;
    const auto& a = attrs<MatmulAttrs>(product);
    const Value x = behind_reshape(product.in(0));
    const Shape &shape = w.type(part).shape, &in = w.type(x).shape, &weight = w.type(product.in(1)).shape;
    const Shape& bias = w.type(other.in(0)).shape;
    if (a.trans_a || !a.trans_b || weight.rank() != 2 || in.rank() != 3) continue;
    if (in[1] != shape[1] || in[2] != weight[1] || bias.back() != shape[2] || bias.numel() != shape[2]) continue;
    return {x, product.in(1), other.in(0)};
  }
  return {part, {}, {}};
}

// LSTM and GRU. ONNX wants (T, N, C), its own order of gates and gives zeros behind a sample's tokens.
void recurrent(Writer& w, const FNode& n) {
  const auto& a = attrs<RecurrentAttrs>(n);
  const int64_t width = w.type(n.out()).shape[2], gates = a.gru ? 3 : 4;
  const Ints turn{1, 0, 2}, order = a.gru ? Ints{1, 0, 2} : Ints{0, 3, 1, 2};  // z r h, i o f c
  Ints rows;
  for (const int64_t gate : order) {
    for (int64_t i = 0; i < width; ++i) rows.push_back(gate * width + i);
  }
  const std::string pick = w.constant(rows), first = w.constant(Ints{0}), all = w.constant(Ints{-1});
  const auto ordered = [&](const std::string& t) { return w.emit("Gather", {t, pick}, {{"axis", int64_t{0}}}); };
  const auto one_direction = [&](const std::string& t) { return w.emit("Unsqueeze", {t, first}); };
  const InputPart in = input_part(w, n.in(0));
  std::string weight, bias, inside = w.constant(Array(DType::f32, {gates * width}));
  if (in.weight.valid()) {
    weight = w.full(in.weight);
    bias = ordered(w.emit("Reshape", {w.full(in.bias), all}));
  } else {
    Array same(DType::f32, {gates * width, gates * width});
    for (int64_t i = 0; i < gates * width; ++i) same.data<float>()[i * (gates * width + 1)] = 1;
    weight = w.constant(same);
    bias = inside;
  }
  if (a.gru) {
    const std::string none = w.constant(Array(DType::f32, {2 * width}));
    inside = w.emit("Concat", {none, w.full(n.in(2))}, {{"axis", int64_t{0}}});
  }
  Names operands{w.emit("Transpose", {w.full(in.x)}, {{"perm", turn}}), one_direction(ordered(weight)),
                 one_direction(ordered(w.full(n.in(1)))),
                 one_direction(w.emit("Concat", {bias, inside}, {{"axis", int64_t{0}}}))};
  std::string counts;
  if (a.lengths) {
    counts = w.full(n.inputs.back());
    operands.push_back(w.emit("Max", {counts, w.number(1, DType::i32, 1)}));
  }
  std::vector<Attribute> settings{{"hidden_size", width},
                                  {"direction", std::string(a.reverse ? "reverse" : "forward")}};
  if (a.gru) settings.push_back({"linear_before_reset", int64_t{1}});
  const std::string steps = w.emit(a.gru ? "GRU" : "LSTM", operands, settings, "_last");
  std::string y = w.emit("Squeeze", {steps, w.constant(Ints{1})});
  y = w.emit("Transpose", {y}, {{"perm", turn}});
  if (a.lengths) {
    const std::string tokens = w.emit("Reshape", {counts, w.constant(Ints{-1, 1, 1})}),
                      zero = w.number(0, DType::f32, 3);
    if (!a.reverse) {  // the last state stays
      const std::string t = counting(w, w.extents(n.out())[1], DType::i32, 3, 1);
      const std::string last = w.emit("Transpose", {steps + "_last"}, {{"perm", turn}});
      y = w.emit("Where", {w.emit("Less", {t, tokens}), y, last});
    }
    y = w.emit("Where", {w.emit("Greater", {tokens, w.number(0, DType::i32, 3)}), y, zero});
  }
  w.set(n.out(), y);
}

constexpr Row kRows[] = {
    {Op::constant, nullptr, constant},
    {Op::iota, nullptr, iota},
    {Op::neg, "Neg", nullptr},
    {Op::abs, "Abs", nullptr},
    {Op::sign, "Sign", nullptr},
    {Op::exp, "Exp", nullptr},
    {Op::expm1, nullptr, expm1},
    {Op::log, "Log", nullptr},
    {Op::log1p, nullptr, log1p},
    {Op::log2, nullptr, logarithm},
    {Op::log10, nullptr, logarithm},
    {Op::sqrt, "Sqrt", nullptr},
    {Op::rsqrt, nullptr, rsqrt},
    {Op::reciprocal, "Reciprocal", nullptr},
    {Op::square, nullptr, square},
    {Op::sin, "Sin", nullptr},
    {Op::cos, "Cos", nullptr},
    {Op::tan, "Tan", nullptr},
    {Op::tanh, "Tanh", nullptr},
    {Op::sinh, "Sinh", nullptr},
    {Op::cosh, "Cosh", nullptr},
    {Op::asin, "Asin", nullptr},
    {Op::acos, "Acos", nullptr},
    {Op::atan, "Atan", nullptr},
    {Op::asinh, "Asinh", nullptr},
    {Op::acosh, "Acosh", nullptr},
    {Op::atanh, "Atanh", nullptr},
    {Op::sigmoid, "Sigmoid", nullptr},
    {Op::softsign, "Softsign", nullptr},
    {Op::erf, "Erf", nullptr},
    {Op::floor, "Floor", nullptr},
    {Op::ceil, "Ceil", nullptr},
    {Op::round, "Round", nullptr},
    {Op::relu, "Relu", nullptr},
    {Op::logical_not, "Not", nullptr},
    {Op::is_finite, nullptr, is_finite},
    {Op::cast, nullptr, cast},
    {Op::stop_gradient, nullptr, alias},
    {Op::add, nullptr, add},
    {Op::sub, "Sub", nullptr},
    {Op::mul, "Mul", nullptr},
    {Op::div, "Div", nullptr},
    {Op::pow, "Pow", nullptr},
    {Op::maximum, "Max", nullptr},
    {Op::minimum, "Min", nullptr},
    {Op::fmod, nullptr, fmod},
    {Op::atan2, nullptr, atan2},
    {Op::hypot, nullptr, hypot},
    {Op::logaddexp, nullptr, logaddexp},
    {Op::copysign, nullptr, copysign},
    {Op::eq, "Equal", nullptr},
    {Op::ne, nullptr, ne},
    {Op::lt, "Less", nullptr},
    {Op::le, "LessOrEqual", nullptr},
    {Op::gt, "Greater", nullptr},
    {Op::ge, "GreaterOrEqual", nullptr},
    {Op::logical_and, "And", nullptr},
    {Op::logical_or, "Or", nullptr},
    {Op::where, "Where", nullptr},
    {Op::reshape, nullptr, reshape},
    {Op::transpose, nullptr, transpose},
    {Op::broadcast, nullptr, broadcast},
    {Op::slice, nullptr, slice},
    {Op::copy, nullptr, alias},
    {Op::pad, nullptr, pad},
    {Op::concat, nullptr, concat},
    {Op::sum, nullptr, sum},
    {Op::reduce_max, nullptr, extremum},
    {Op::reduce_min, nullptr, extremum},
    {Op::argmax, nullptr, arg_reduce},
    {Op::argmin, nullptr, arg_reduce},
    {Op::argsort, nullptr, argsort},
    {Op::matmul, nullptr, matmul},
    {Op::conv, nullptr, conv},
    {Op::conv_grad_input, nullptr, conv},
    {Op::max_pool, nullptr, pool},
    {Op::avg_pool, nullptr, pool},
    {Op::gather, nullptr, gather},
    {Op::gather_elements, nullptr, gather},
    {Op::scatter_add, nullptr, scatter},
    {Op::scatter_elements_add, nullptr, scatter},
    {Op::scatter, nullptr, scatter},
    {Op::scatter_elements, nullptr, scatter},
    {Op::check_index, nullptr, alias},
    {Op::softmax, nullptr, softmax},
    {Op::log_softmax, nullptr, softmax},
    {Op::batch_norm_inference, nullptr, norm},
    {Op::layer_norm, nullptr, norm},
    {Op::embedding, nullptr, embedding},
    {Op::adaptive_avg_pool, nullptr, adaptive_avg_pool},
    {Op::recurrent, nullptr, recurrent},
};

}  // namespace

const Row* row_of(Op op) {
  for (const Row& r : kRows) {
    if (r.op == op) return &r;
  }
  return nullptr;
}

namespace {

// Composites with a row, but for pooling to more than one cell.
bool has_form(const freight::Graph&, const FNode& n) {
  if (n.op == Op::adaptive_avg_pool) return attrs<AdaptivePoolAttrs>(n).output.numel() == 1;
  return row_of(n.op) != nullptr;
}

}  // namespace

freight::Graph prepared(const freight::Graph& graph) {
  return passes::simplify(passes::decompose_unless(graph, has_form));
}

void write_graph(const Family& family, const std::vector<Array>& captured, const std::vector<Array>& states,
                 const std::string& output, Model& model) {
  Writer(family, model).run(captured, states, output);
}

}  // namespace freight::deploy::onnx
