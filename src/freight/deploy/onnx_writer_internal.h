// How the graph of a net becomes ONNX nodes: names of values, constants, extents that vary. ONNX broadcasts by itself,
// so a value that was broadcast is kept in its small ("thin") form as long as only pointwise operations read it.
// Extents that vary are computed in the file from the shape of its input. The table of ops: onnx_graph.cpp.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "freight/base/error.h"
#include "freight/deploy/onnx_extents_internal.h"
#include "freight/deploy/onnx_proto_internal.h"
#include "freight/ir/graph.h"

namespace freight::deploy::onnx {

using FNode = freight::Node;
using Names = std::vector<std::string>;
using Ints = std::vector<int64_t>;

inline Ints ints(const Shape& s) { return s.vector(); }

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
  Writer(const Family& family, Model& model)
      : family_(family), graph_(family.graph()), model_(model), uses_(graph_.use_counts()) {
    known_.resize(graph_.values.size());
    find_biases();
  }

  // The results are called `output`, output_2, output_3, ...
  void run(const std::vector<Array>& captured, const std::vector<Array>& states, const std::string& output) {
    leaves(captured, states);
    for (node_ = 0; node_ < graph_.nodes.size(); ++node_) {
      const FNode& n = graph_.nodes[node_];
      if (n.op == Op::input || n.op == Op::state) continue;
      const Row* row = row_of(n.op);
      if (!row) {
        const std::string_view op = freight::name(n.op), called = n.called();
        const std::string user = called == op ? "" : cat(", a part of ", called);
        throw Error(ErrorKind::usage, "export", cat("ONNX has no form of ", op, user), n.location());
      }
      if (row->write) {
        row->write(*this, n);
      } else {
        pointwise(n, row->pointwise);
      }
    }
    for (const Value result : graph_.outputs) {
      const size_t before = model_.outputs.size();
      const std::string name = before == 0 ? output : cat("output_", before + 1), last = full(result);
      model_.nodes.push_back({"Identity", name, {last}, {name}, {}});
      model_.outputs.push_back({name, graph_.type(result).dtype, axes(result)});
    }
    drop_unread();
  }

  const Type& type(Value v) const { return graph_.type(v); }
  const std::vector<Formula>& extents(Value v) const { return family_.extents(v); }

  bool read(Value v) const { return uses_[v] > 0; }
  const FNode& def(Value v) const { return graph_.def(v); }

  // Appends an ONNX node, and names its first result; a second one has `second` behind that.
  std::string emit(const char* op, const Names& inputs, std::vector<Attribute> attributes = {},
                   const char* second = nullptr) {
    const std::string& scope = graph_.nodes[node_].scope;
    const std::string name = cat(scope, scope.empty() ? "" : "/", op, "_", ++emitted_);
    Names results{name};
    if (second) results.push_back(name + second);
    model_.nodes.push_back({op, name, inputs, results, std::move(attributes)});
    return name;
  }
  void set(Value v, const std::string& name) { set(v, name, std::vector<bool>(extents(v).size())); }
  void set(Value v, const std::string& name, std::vector<bool> thin) { known_[v.index()] = {name, std::move(thin)}; }
  // The value as far as it is stored: axes that are thin have extent 1.
  const std::string& stored(Value v) const {
    if (known_[v.index()].name.empty()) {
      const FNode& n = graph_.def(v);
      throw Error(ErrorKind::usage, "export", cat("ONNX has no form of the further results of ", freight::name(n.op)),
                  n.location());
    }
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

  // Nodes that have become part of others.
  void drop_unread() {
    std::unordered_set<std::string> read;
    for (const ValueInfo& output : model_.outputs) read.insert(output.name);
    std::vector<Node> kept;
    for (size_t i = model_.nodes.size(); i-- > 0;) {
      Node& n = model_.nodes[i];
      if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](const auto& r) { return read.count(r) > 0; })) continue;
      read.insert(n.inputs.begin(), n.inputs.end());
      kept.push_back(std::move(n));
    }
    model_.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
    std::erase_if(model_.initializers, [&](const Initializer& t) { return read.count(t.name) == 0; });
  }

  // conv + b and matmul + b (rank 2) are one ONNX node where b is a parameter along the channels.
  void find_biases() {
    for (const FNode& n : graph_.nodes) {
      for (size_t k = 0; n.op == Op::add && k < 2; ++k) {
        const FNode& product = graph_.def(n.inputs[k]);
        const bool conv = product.op == Op::conv;
        if (!conv && !(product.op == Op::matmul && type(product.out()).shape.rank() == 2)) continue;
        const FNode* other = &graph_.def(n.inputs[1 - k]);
        if (uses_[product.out()] != 1 || other->op != Op::broadcast) continue;
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
  ByValue<int> uses_;
  std::vector<Known> known_;  // by value
  size_t node_ = 0;
  int64_t emitted_ = 0, constant_count_ = 0;
  std::map<std::string, std::string> constants_;
  std::map<Formula, std::string> lengths_;
  std::unordered_map<int32_t, Bias> biases_;  // by the product
};

}  // namespace freight::deploy::onnx
