// See onnx_graph_internal.h. ONNX broadcasts by itself, so a value that was broadcast is kept in its small ("thin")
// form as long as only pointwise operations read it. Extents that vary are computed in the file from the shape of its
// input.
#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "freight/base/error.h"
#include "freight/deploy/onnx_graph_internal.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"

namespace freight::deploy::onnx {

namespace {

using FNode = freight::Node;
using Names = std::vector<std::string>;
using Ints = std::vector<int64_t>;

Ints ints(const Shape& s) { return s.vector(); }

class Writer;
using Write = void (*)(Writer& w, const FNode& n);

// How an op is written: the pointwise ONNX operator of that name, or by a function.
struct Row {
  Op op;
  const char* pointwise;
  Write write;
};
const Row* row_of(Op op);

class Writer {
 public:
  Writer(const Family& family, Model& model) : family_(family), graph_(family.graph()), model_(model) {
    known_.resize(graph_.values.size());
    find_biases();
  }

  void run(const std::vector<Array>& captured, const std::vector<Array>& states, const std::string& output) {
    leaves(captured, states);
    for (node_ = 0; node_ < graph_.nodes.size(); ++node_) {
      const FNode& n = graph_.nodes[node_];
      if (n.op == Op::input || n.op == Op::state) continue;
      const Row* row = row_of(n.op);
      if (!row) {
        throw Error(ErrorKind::usage, "export", cat("ONNX has no form of ", freight::name(n.op)), n.location());
      }
      if (row->write) {
        row->write(*this, n);
      } else {
        pointwise(n, row->pointwise);
      }
    }
    const Value result = graph_.outputs[0];
    const std::string last = full(result);
    model_.nodes.push_back({"Identity", output, {last}, {output}, {}});
    model_.outputs.push_back({output, graph_.type(result).dtype, axes(result)});
  }

  const Type& type(Value v) const { return graph_.type(v); }
  const std::vector<Formula>& extents(Value v) const { return family_.extents(v); }

  // Appends an ONNX node with one result, and names that.
  std::string emit(const char* op, const Names& inputs, std::vector<Attribute> attributes = {}) {
    const std::string& scope = graph_.nodes[node_].scope;
    const std::string name = cat(scope, scope.empty() ? "" : "/", op, "_", ++emitted_);
    model_.nodes.push_back({op, name, inputs, {name}, std::move(attributes)});
    return name;
  }
  void set(Value v, const std::string& name) { set(v, name, std::vector<bool>(extents(v).size())); }
  void set(Value v, const std::string& name, std::vector<bool> thin) { known_[v.index()] = {name, std::move(thin)}; }
  // The value as far as it is stored: axes that are thin have extent 1.
  const std::string& stored(Value v) const {
    FREIGHT_CHECK(!known_[v.index()].name.empty(), "export: ", graph_.def(v).location(), " has no second result");
    return known_[v.index()].name;
  }
  const std::vector<bool>& thin(Value v) const { return known_[v.index()].thin; }
  // The value with all its elements.
  std::string full(Value v) {
    stored(v);
    Known& k = known_[v.index()];
    std::vector<Formula> target(k.thin.size(), Formula{1});
    bool grows = false;
    for (size_t i = 0; i < target.size(); ++i) {
      if (!k.thin[i] || extents(v)[i] == Formula{1}) continue;
      target[i] = extents(v)[i];
      grows = true;
    }
    if (grows) set(v, emit("Expand", {k.name, list(target)}));
    return k.name;
  }

  void pointwise(const FNode& n, const char* op) { set_pointwise(n, emit(op, stored_inputs(n))); }
  // `name` is made of the stored inputs by pointwise operators.
  void set_pointwise(const FNode& n, const std::string& name) {
    std::vector<bool> all_thin(extents(n.out()).size(), true);
    for (Value v : n.inputs) {
      for (size_t i = 0; i < all_thin.size(); ++i) all_thin[i] = all_thin[i] && thin(v)[i];
    }
    set(n.out(), name, all_thin);
  }
  Names stored_inputs(const FNode& n) const {
    Names names;
    for (Value v : n.inputs) names.push_back(stored(v));
    return names;
  }

  // A constant tensor; equal ones are kept once where they are small.
  std::string constant(const Array& array) {
    const auto* bytes = static_cast<const char*>(array.raw());
    std::string key;
    if (array.bytes() <= 64) {
      key = cat(to_string(array.dtype()), to_string(array.shape())) + std::string(bytes, array.bytes());
      if (const auto it = constants_.find(key); it != constants_.end()) return it->second;
    }
    const std::string name = cat("constant_", ++constant_count_);
    model_.initializers.push_back({name, array});
    if (!key.empty()) constants_[key] = name;
    return name;
  }
  std::string constant(const Ints& values) {
    return constant(Array::of<int64_t>(values, {static_cast<int64_t>(values.size())}));
  }
  // One number of rank `rank`.
  std::string number(double value, DType dtype, int rank) {
    return constant(Array::of<double>({value}, Shape::filled(rank, 1)).cast(dtype));
  }

  // i64[1] with the extent; varying ones are made of the shape of the file's input.
  std::string extent(const Formula& f) {
    if (f.constant()) return constant(Ints{f.fixed});
    if (const auto it = lengths_.find(f); it != lengths_.end()) return it->second;
    const auto axis = [&](int64_t i) { return emit("Shape", {model_.inputs[0].name}, {{"start", i}, {"end", i + 1}}); };
    std::string sum;
    const auto term = [&](int64_t factor, const auto& of) {
      if (factor == 0) return;
      std::string one = of();
      if (factor != 1) one = emit("Mul", {one, constant(Ints{factor})});
      sum = sum.empty() ? one : emit("Add", {sum, one});
    };
    const Formula batch{.n = 1}, length{.t = 1};
    term(f.n, [&] { return f == batch ? axis(0) : extent(batch); });
    term(f.t, [&] { return f == length ? axis(1) : extent(length); });
    term(f.nt, [&] { return emit("Mul", {extent(batch), extent(length)}); });
    if (f.fixed != 0) sum = emit("Add", {sum, constant(Ints{f.fixed})});
    return lengths_[f] = sum;
  }
  // i64[rank] with these extents.
  std::string list(const std::vector<Formula>& f) {
    if (std::all_of(f.begin(), f.end(), [](const Formula& e) { return e.constant(); })) {
      Ints values;
      for (const Formula& e : f) values.push_back(e.fixed);
      return constant(values);
    }
    if (f.size() == 1) return extent(f[0]);
    Names parts;
    for (const Formula& e : f) parts.push_back(extent(e));
    return emit("Concat", parts, {{"axis", int64_t{0}}});
  }

  // The target of a Reshape: 0 copies an extent of the input, one -1 is what remains.
  std::string reshape_target(Value from, Value to) {
    const std::vector<Formula>&in = extents(from), &out = extents(to);
    Ints target;
    int open = 0;
    bool copies = true;  // while all axes so far are the input's
    for (size_t i = 0; i < out.size(); ++i) {
      copies = copies && i < in.size() && in[i] == out[i];
      if (out[i].constant()) {
        target.push_back(out[i].fixed);
      } else if (copies) {
        target.push_back(0);
      } else {
        target.push_back(-1);
        ++open;
      }
    }
    return open <= 1 ? constant(target) : list(out);
  }

  void reshape(Value from, Value to) { set(to, emit("Reshape", {full(from), reshape_target(from, to)})); }
  std::vector<bool> thin_all(Value v) const { return std::vector<bool>(extents(v).size(), true); }
  const Family& family() const { return family_; }
  size_t node_index() const { return node_; }
  // The bias that is added to a convolution or product and to nothing else; invalid where there is none.
  Value bias_of(Value v) const {
    const auto it = biases_.find(v.id);
    return it == biases_.end() ? Value{} : it->second.bias;
  }
  // The convolution or product whose bias this addition adds; invalid where it is any other.
  Value biased(const FNode& sum) const {
    for (Value v : sum.inputs) {
      const auto it = biases_.find(v.id);
      if (it != biases_.end() && it->second.sum == sum.out()) return v;
    }
    return {};
  }

 private:
  struct Known {
    std::string name;
    std::vector<bool> thin;
  };
  struct Bias {
    Value bias, sum;
  };

  std::vector<Extent> axes(Value v) const {
    std::vector<Extent> out;
    for (const Formula& f : extents(v)) {
      if (f.constant()) {
        out.push_back({f.fixed});
      } else if (f == Formula{.n = 1}) {
        out.push_back({0, "N"});
      } else if (f == Formula{.t = 1}) {
        out.push_back({0, "T"});
      } else {
        out.push_back({0, cat("axis_", out.size())});
      }
    }
    return out;
  }

  void leaves(const std::vector<Array>& captured, const std::vector<Array>& states) {
    size_t next_state = 0, next_captured = 0;
    for (const FNode& n : graph_.nodes) {
      if (n.op != Op::input && n.op != Op::state) continue;
      const std::string& name = attrs<LeafAttrs>(n).name;
      if (n.op == Op::input && model_.inputs.empty()) {
        model_.inputs.push_back({name, type(n.out()).dtype, axes(n.out())});
        set(n.out(), name);
      } else if (n.op == Op::input) {
        set(n.out(), constant(captured.at(next_captured++)));
      } else {
        model_.initializers.push_back({name, states.at(next_state++)});
        set(n.out(), name);
      }
    }
  }

  // conv + b and matmul + b (rank 2) are one ONNX node where b is a parameter along the channels.
  void find_biases() {
    const std::vector<int> uses = graph_.use_counts();
    for (const FNode& n : graph_.nodes) {
      for (size_t k = 0; n.op == Op::add && k < 2; ++k) {
        const FNode& product = graph_.def(n.inputs[k]);
        const bool conv = product.op == Op::conv;
        if (!conv && !(product.op == Op::matmul && type(product.out()).shape.rank() == 2)) continue;
        const FNode* other = &graph_.def(n.inputs[1 - k]);
        if (uses[product.out().index()] != 1 || other->op != Op::broadcast) continue;
        const Shape spread = type(other->in(0)).shape;
        other = &graph_.def(other->in(0));
        if (other->op == Op::reshape) other = &graph_.def(other->in(0));
        const int axis = conv ? 1 : spread.rank() - 1;
        const int64_t channels = type(n.out()).shape[axis];
        if (other->op == Op::state && type(other->out()).shape == Shape{channels} && spread.numel() == channels &&
            spread[axis] == channels) {
          biases_[product.out().id] = {other->out(), n.out()};
          break;
        }
      }
    }
  }

  const Family& family_;
  const freight::Graph& graph_;
  Model& model_;
  std::vector<Known> known_;  // by value
  size_t node_ = 0;
  int64_t emitted_ = 0, constant_count_ = 0;
  std::map<std::string, std::string> constants_;
  std::map<Formula, std::string> lengths_;
  std::unordered_map<int32_t, Bias> biases_;  // by the product
};

// --- ops with a form of their own ---------------------------------------------------------------------------------

[[noreturn]] void unsupported(const FNode& n, const char* what) {
  throw Error(ErrorKind::usage, "export", cat("ONNX has no form of ", freight::name(n.op), " ", what), n.location());
}

void alias(Writer& w, const FNode& n) { w.set(n.out(), w.stored(n.in(0)), w.thin(n.in(0))); }

void constant(Writer& w, const FNode& n) {
  const auto& a = attrs<ConstantAttrs>(n);
  if (a.data.defined()) {
    w.set(n.out(), w.constant(a.data));
  } else {
    w.set(n.out(), w.number(a.value, a.type.dtype, a.type.shape.rank()), w.thin_all(n.out()));
  }
}

// 0, 1, 2, ... along one axis, thin along the others.
void iota(Writer& w, const FNode& n) {
  const auto& a = attrs<IotaAttrs>(n);
  const auto axis = static_cast<size_t>(a.axis);
  const Formula count = w.extents(n.out())[axis];
  std::vector<bool> thin = w.thin_all(n.out());
  thin[axis] = false;
  Shape shape = Shape::filled(a.shape.rank(), 1);
  if (count.constant()) {
    shape[static_cast<int>(axis)] = count.fixed;
    std::vector<int64_t> values(static_cast<size_t>(count.fixed));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
    w.set(n.out(), w.constant(Array::of<int64_t>(values, shape).cast(a.dtype)), thin);
    return;
  }
  const std::string limit = w.emit("Squeeze", {w.extent(count)});
  const auto scalar = [&](int64_t v) { return w.constant(Array::of<int64_t>({v}, {})); };
  std::string range = w.emit("Range", {scalar(0), limit, scalar(1)});
  if (a.dtype != DType::i64) range = w.emit("Cast", {range}, {{"to", data_type(a.dtype)}});
  shape[static_cast<int>(axis)] = -1;
  w.set(n.out(), w.emit("Reshape", {range, w.constant(ints(shape))}), thin);
}

void cast(Writer& w, const FNode& n) {
  w.set_pointwise(n, w.emit("Cast", w.stored_inputs(n), {{"to", data_type(attrs<CastAttrs>(n).dtype)}}));
}
void ne(Writer& w, const FNode& n) { w.set_pointwise(n, w.emit("Not", {w.emit("Equal", w.stored_inputs(n))})); }
void square(Writer& w, const FNode& n) { w.set_pointwise(n, w.emit("Mul", {w.stored(n.in(0)), w.stored(n.in(0))})); }
void rsqrt(Writer& w, const FNode& n) {
  w.set_pointwise(n, w.emit("Reciprocal", {w.emit("Sqrt", w.stored_inputs(n))}));
}
void remainder(Writer& w, const FNode& n) {
  w.set_pointwise(n, w.emit("Mod", w.stored_inputs(n), {{"fmod", int64_t{1}}}));
}
void expm1(Writer& w, const FNode& n) {
  const Type& t = w.type(n.out());
  w.set_pointwise(n, w.emit("Sub", {w.emit("Exp", w.stored_inputs(n)), w.number(1, t.dtype, t.shape.rank())}));
}
void log1p(Writer& w, const FNode& n) {
  const Type& t = w.type(n.out());
  w.set_pointwise(n, w.emit("Log", {w.emit("Add", {w.stored(n.in(0)), w.number(1, t.dtype, t.shape.rank())})}));
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
  w.set(n.out(), w.emit("Cast", {index}, {{"to", data_type(DType::i32)}}));
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

void conv(Writer& w, const FNode& n) {
  const auto& a = attrs<ConvAttrs>(n);
  const Shape& weight = w.type(n.in(1)).shape;
  Names in{w.full(n.in(0)), w.full(n.in(1))};
  if (const Value bias = w.bias_of(n.out()); bias.valid()) in.push_back(w.stored(bias));
  w.set(n.out(), w.emit("Conv", in,
                        {{"dilations", ints(a.dilation)},
                         {"group", a.groups},
                         {"kernel_shape", Ints(weight.begin() + 2, weight.end())},
                         {"pads", pads(a.pad_low, a.pad_high)},
                         {"strides", ints(a.stride)}}));
}

void pool(Writer& w, const FNode& n) {
  const auto& a = attrs<PoolAttrs>(n);
  std::vector<Attribute> settings{
      {"kernel_shape", ints(a.kernel)}, {"pads", pads(a.pad_low, a.pad_high)}, {"strides", ints(a.stride)}};
  if (n.op == Op::avg_pool) settings.push_back({"count_include_pad", int64_t{a.count_include_pad}});
  w.set(n.out(), w.emit(n.op == Op::avg_pool ? "AveragePool" : "MaxPool", {w.full(n.in(0))}, settings));
}

void gather(Writer& w, const FNode& n) {
  w.set(n.out(), w.emit(n.op == Op::gather ? "Gather" : "GatherElements", {w.full(n.in(0)), w.full(n.in(1))},
                        {{"axis", attrs<AxisAttrs>(n).axis}}));
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
    {Op::sqrt, "Sqrt", nullptr},
    {Op::rsqrt, nullptr, rsqrt},
    {Op::reciprocal, "Reciprocal", nullptr},
    {Op::square, nullptr, square},
    {Op::sin, "Sin", nullptr},
    {Op::cos, "Cos", nullptr},
    {Op::tan, "Tan", nullptr},
    {Op::tanh, "Tanh", nullptr},
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
    {Op::remainder, nullptr, remainder},
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
    {Op::matmul, nullptr, matmul},
    {Op::conv, nullptr, conv},
    {Op::max_pool, nullptr, pool},
    {Op::avg_pool, nullptr, pool},
    {Op::gather, nullptr, gather},
    {Op::gather_elements, nullptr, gather},
    {Op::softmax, nullptr, softmax},
    {Op::log_softmax, nullptr, softmax},
    {Op::batch_norm_inference, nullptr, norm},
    {Op::layer_norm, nullptr, norm},
    {Op::embedding, nullptr, embedding},
    {Op::adaptive_avg_pool, nullptr, adaptive_avg_pool},
};

const Row* row_of(Op op) {
  for (const Row& r : kRows) {
    if (r.op == op) return &r;
  }
  return nullptr;
}

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
