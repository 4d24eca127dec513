// Lowers bodies of pointwise, broadcast and reduce nodes. Axis i of every value is axis i of the region, so a value's
// strides over the region are its own, with 0 where it is expanded. Without reductions a region is one kernel per shape
// of results, a work-item per element. With them it is one kernel of rows, the reduced elements of one result: a
// work-group (or, for short rows, a work-item) makes one reduction after the other and then the pointwise results, and
// computes again what each needs from the operands. Rows that are too few to fill a device, or that lie beside each
// other (sums over the pixels of channels-last images, over the samples of a matrix), are cut into parts: for
// reductions a kernel whose work-items take a part each and one that combines them, for the rest pointwise kernels.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "freight/backend/gpu/gpu_backend.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/scalar.h"
#include "freight/backend/region.h"
#include "freight/base/error.h"
#include "freight/ir/fused_pattern.h"
#include "freight/ir/reads_whole.h"

namespace freight::gpu {

namespace {

constexpr int64_t kRowLanes = 64;  // work-items that share a row
constexpr int64_t kShortRow = 16;
// Work-items that fill a device; elements of a row that each takes at least; parts that are worth more kernels.
constexpr int64_t kEnough = 1 << 16, kLeastPart = 64, kFewParts = 4;

// Strides of a value over the region's axes; 0 where its extent is 1.
Strides over_axes(const Shape& shape, Strides strides) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) strides[i] = 0;
  }
  return strides;
}

// Axes that all tensors of a kernel walk through as one.
struct Dim {
  int64_t extent;
  int axis;  // the fastest of them
};

class RegionLowering {
 public:
  explicit RegionLowering(const StepSpec& spec)
      : region_(analyze_region(spec)), g_(*region_.body), spec_(spec), space_(region_.space) {
    FREIGHT_CHECK(region_.form != RegionAnalysis::Form::other_axes, "reductions of different axes in one region");
    const std::vector<Value> inputs = g_.leaves(Op::input);
    for (size_t i = 0; i < inputs.size(); ++i) inputs_[inputs[i].id] = i;
  }

  Lowered run() {
    Lowered lowered;
    lowered.name = g_.nodes.size() > spec_.in.size() + 1 ? "fused" : "region";
    const bool reduces = region_.form != RegionAnalysis::Form::pointwise;
    const int64_t parts = reduces ? parts_of_row() : 0;
    if (parts > 0) in_parts(parts, lowered);  // the rest is pointwise, and may write over what these read
    const bool by_rows = reduces && parts == 0;
    std::map<std::vector<int>, std::vector<size_t>> by_axes;
    std::vector<size_t> of_rows;
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const Value v = g_.outputs[i];
      const bool of_row = by_rows && (region_.level_of(v) > 0 || shape(v) == space_);
      (of_row ? of_rows : by_axes[long_axes(shape(v))]).push_back(i);
    }
    for (const auto& [axes, outputs] : by_axes) lowered.launches.push_back(pointwise(axes, outputs));
    if (!of_rows.empty()) lowered.launches.push_back(rows(of_rows));
    std::erase_if(lowered.launches, [](const Launch& launch) { return launch.groups == 0; });
    return lowered;
  }

 private:
  const Node& def(Value v) const { return g_.def(v); }
  const Shape& shape(Value v) const { return g_.type(v).shape; }

  bool reduced(int axis) const { return region_.reduced.has(axis); }
  std::vector<int> long_axes(const Shape& s) const { return region_.long_axes(s); }

  // --- what a kernel walks over ---

  // True where a kernel reads v or makes it of its place.
  bool is_leaf(Value v) const {
    const Op op = def(v).op;
    return held_.count(v.id) > 0 || op == Op::input || info(op).kind == OpKind::generator;
  }
  Strides leaf_strides(Value v) const {
    const Node& n = def(v);
    if (held_.count(v.id) > 0) {  // reduced values follow each other as rows do
      Shape rows = space_;
      for (int a : region_.order) rows[a] = reduced(a) ? 1 : rows[a];
      return over_axes(rows, permuted_strides(rows, region_.order));
    }
    if (n.op == Op::input) return over_axes(shape(v), spec_.in[inputs_.at(v.id)].layout.strides);
    if (n.op != Op::iota) return over_axes(shape(v), contiguous_strides(shape(v)));
    Strides s = Shape::filled(space_.rank(), 0);
    s[static_cast<int>(attrs<IotaAttrs>(n).axis)] = 1;
    return over_axes(shape(v), s);
  }
  Strides output_strides(size_t i) const { return over_axes(spec_.out[i].type.shape, spec_.out[i].layout.strides); }

  // All strides by which a kernel addresses something on the way to v.
  void collect(Value v, std::set<int32_t>& seen, std::vector<Strides>& strides) const {
    if (!seen.insert(v.id).second) return;
    if (is_leaf(v)) {
      strides.push_back(leaf_strides(v));
    } else {
      for (Value in : def(v).inputs) collect(in, seen, strides);
    }
  }

  // The axes among `axes` (slowest first), neighbors joined where all strides allow it; one dimension at least.
  std::vector<Dim> dims_over(const std::vector<int>& axes, const std::vector<Strides>& strides) const {
    std::vector<Dim> dims;
    for (int a : axes) {
      const int64_t extent = space_[a];
      const bool joins = !dims.empty() && std::all_of(strides.begin(), strides.end(), [&](const Strides& s) {
        return s[dims.back().axis] == s[a] * extent;
      });
      if (joins) {
        dims.back() = {dims.back().extent * extent, a};
      } else {
        dims.push_back({extent, a});
      }
    }
    if (dims.empty()) dims.push_back({1, -1});
    return dims;
  }
  static int64_t numel(const std::vector<Dim>& dims) {
    int64_t n = 1;
    for (const Dim& d : dims) n *= d.extent;
    return n;
  }

  // --- text ---

  struct Build {
    KernelText text;
    std::vector<Dim> dims;            // those with coordinates here
    std::vector<std::string> places;  // their coordinates' names
    std::map<int32_t, std::string> names;
    int64_t largest = 0;  // index met
    int counter = 0;
    std::map<size_t, Elements> inputs;  // by operand of the step
  };

  static std::string fresh(Build& b, const char* letter) { return cat(letter, b.counter++); }

  // Coordinates of number `linear` among `dims`.
  static void add_dims(Build& b, const std::vector<Dim>& dims, std::string linear) {
    std::vector<std::string> names(dims.size());
    for (size_t i = dims.size(); i-- > 0;) {
      names[i] = fresh(b, "c");
      if (i == 0) {
        b.text.line("const idx_t ", names[i], " = ", linear, ";");
      } else {
        const std::string rest = fresh(b, "t");
        b.text.line(b.text.split(linear, dims[i].extent, rest, names[i]));
        linear = rest;
      }
    }
    b.dims.insert(b.dims.end(), dims.begin(), dims.end());
    b.places.insert(b.places.end(), names.begin(), names.end());
  }

  // The element of the current place for these strides. Strides of 0, and of 1 along the fastest dimension, stand in
  // the text: it then tells the compiler that neighbors are neighbors.
  static std::string place(Build& b, const Strides& strides) {
    std::string sum;
    int64_t last = 0;
    for (size_t i = 0; i < b.dims.size(); ++i) {
      const int64_t stride = b.dims[i].axis < 0 ? 1 : strides[b.dims[i].axis];
      if (stride == 0) continue;
      last += (b.dims[i].extent - 1) * stride;
      if (!sum.empty()) sum += " + ";
      sum += b.places[i];
      if (stride != 1 || i + 1 < b.dims.size()) sum += cat(" * ", b.text.number(stride));
    }
    b.largest = std::max(b.largest, last);
    return sum.empty() ? "0" : sum;
  }

  const Elements& elements(Build& b, Value input) const {
    const size_t operand = inputs_.at(input.id);
    const auto it = b.inputs.find(operand);
    return it != b.inputs.end() ? it->second : b.inputs[operand] = b.text.in(spec_, operand);
  }

  // The name of v's element at the current place.
  std::string emit(Build& b, Value v) const {
    if (const auto it = b.names.find(v.id); it != b.names.end()) return it->second;
    const Node& n = def(v);
    const bool same = n.op == Op::broadcast || n.op == Op::copy || n.op == Op::stop_gradient || is_reduce(n.op);
    if (same && held_.count(v.id) == 0) return b.names[v.id] = emit(b, n.in(0));
    const DType dtype = g_.type(v).dtype;
    const std::string value = expression(b, v);
    const std::string name = fresh(b, "v");
    b.text.line("const ", value_type(dtype), " ", name, " = ", value, ";");
    return b.names[v.id] = name;
  }

  std::string expression(Build& b, Value v) const {
    const Node& n = def(v);
    const DType dtype = g_.type(v).dtype;
    if (held_.count(v.id) > 0) return whole(b, v).load(place(b, leaf_strides(v)));
    switch (n.op) {
      case Op::input: return elements(b, v).load(place(b, leaf_strides(v)));
      case Op::constant: return literal(attrs<ConstantAttrs>(n).value, dtype);
      case Op::iota: return converted(cat("(i64)(", place(b, leaf_strides(v)), ")"), DType::i64, dtype);
      case Op::random_uniform:
      case Op::random_normal: {
        FREIGHT_CHECK(def(n.in(0)).op == Op::input, "the key of random numbers is made inside a region");
        const std::string key = elements(b, n.in(0)).pointer;
        const std::string step = b.text.number(leaf_strides(n.in(0))[0]);
        const std::string stream = b.text.number(attrs<RandomAttrs>(n).stream);
        return cat(n.op == Op::random_uniform ? "draw_uniform(" : "draw_normal(", key, "[0], ", key, "[", step,
                   "], (uint)", stream, ", ", place(b, leaf_strides(v)), ")");
      }
      case Op::cast: return converted(emit(b, n.in(0)), g_.type(n.in(0)).dtype, dtype);
      default: break;
    }
    std::vector<std::string> operands;
    for (Value in : n.inputs) operands.push_back(emit(b, in));
    const std::string value = scalar_expression(n.op, g_.type(n.in(0)).dtype, operands);
    return dtype == DType::boolean ? cat("(", value, ") != 0") : value;
  }

  // All values first: a result may lie where an operand does.
  void store(Build& b, const std::vector<size_t>& outputs, const std::string& condition = {}) const {
    std::vector<std::string> values;
    for (size_t i : outputs) values.push_back(emit(b, g_.outputs[i]));
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Elements to = b.text.out(spec_, outputs[k]);
      b.text.line(condition, to.store(place(b, output_strides(outputs[k])), values[k]));
    }
  }

  std::vector<Strides> strides_of(const std::vector<size_t>& outputs) const {
    std::vector<Strides> strides;
    std::set<int32_t> seen;
    for (size_t i : outputs) {
      collect(g_.outputs[i], seen, strides);
      strides.push_back(output_strides(i));
    }
    return strides;
  }

  Launch pointwise(const std::vector<int>& axes, const std::vector<size_t>& outputs) const {
    Build b;
    const std::vector<Dim> dims = dims_over(axes, strides_of(outputs));
    b.text.begin_elements(numel(dims));
    add_dims(b, dims, "e");
    store(b, outputs);
    return b.text.finish_elements("point", b.largest);
  }

  // The axes that are kept and those that are reduced, and whether rows lie beside each other.
  struct Walk {
    std::vector<Dim> kept, inner;
    bool fast_kept;
  };
  Walk walk(const std::vector<Strides>& strides) const {
    std::vector<int> kept_axes, reduced_axes;
    for (int a : long_axes(space_)) (reduced(a) ? reduced_axes : kept_axes).push_back(a);
    return {dims_over(kept_axes, strides), dims_over(reduced_axes, strides),
            !kept_axes.empty() && long_axes(space_).back() == kept_axes.back()};
  }

  // Makes an accumulator the name of each value and takes in what `element` says in a loop over j, a number among
  // `dims`.
  template <class Element>
  void accumulate(Build& b, const std::vector<Value>& values, const std::string& loop, const std::vector<Dim>& dims,
                  const Element& element) const {
    for (Value v : values) {
      const DType dtype = g_.type(def(v).in(0)).dtype;
      b.names[v.id] = fresh(b, "a");
      b.text.line(value_type(accumulator(dtype)), " ", b.names[v.id], " = ", reduction_start(def(v).op, dtype), ";");
    }
    each(b, loop, dims, [&] {
      for (Value v : values) {
        b.text.line(b.names[v.id], " = ", reducer(def(v).op), "(", b.names[v.id], ", ", element(v), ");");
      }
    });
  }
  // The group's lanes combine their accumulators; all get the result.
  void share(Build& b, Value v) const {
    b.text.line("SHARE(", value_type(accumulator(g_.type(def(v).in(0)).dtype)), ", ", kRowLanes, ", ", fresh(b, "s"),
                ", ", b.names[v.id], ", ", reducer(def(v).op), ");");
  }

  // --- rows in parts ---

  // Into how many a row is cut; 0: a work-group or a work-item makes it.
  int64_t parts_of_row() const {
    const auto [kept, inner, fast_kept] = walk({});
    const int64_t parts = std::min(kEnough / std::max<int64_t>(numel(kept), 1), numel(inner) / kLeastPart);
    return parts >= (fast_kept ? kFewParts : kRowLanes + 1) && numel(kept) > 0 ? parts : 0;
  }

  // A reduced value and its parts in the scratch memory: bytes from the beginning.
  struct Held {
    DType dtype;
    size_t at, parts;
  };

  // Launches that leave all reduced values in the scratch memory.
  void in_parts(int64_t parts, Lowered& lowered) {
    const int64_t count = numel(walk({}).kept);
    const auto take = [&](int64_t elements, DType dtype) {
      const size_t at = lowered.scratch_bytes;
      lowered.scratch_bytes += ceil_div(elements * static_cast<int64_t>(size_of(dtype)), kAlignment) * kAlignment;
      return at;
    };
    for (const std::vector<Value>& values : region_.reductions) {
      for (Value v : values) {
        const DType dtype = accumulator(g_.type(v).dtype);
        held_[v.id] = {dtype, take(count, dtype), take(count * parts, dtype)};
      }
      lowered.launches.push_back(make_parts(values, parts));
      lowered.launches.push_back(combine(values, parts));
    }
  }

  Elements parts_of(Build& b, Value v) const {
    const Held& held = held_.at(v.id);
    return b.text.scratch(spec_, held.dtype, held.parts);
  }
  Elements whole(Build& b, Value v) const {
    const Held& held = held_.at(v.id);
    return b.text.scratch(spec_, held.dtype, held.at);
  }

  Launch make_parts(const std::vector<Value>& values, int64_t parts) const {
    std::vector<Strides> strides;
    std::set<int32_t> seen;
    for (Value v : values) collect(def(v).in(0), seen, strides);
    const auto [kept, inner, fast_kept] = walk(strides);
    const int64_t count = numel(kept), length = numel(inner);
    Build b;
    b.text.begin_elements(count * parts);
    b.text.line(fast_kept ? b.text.split("e", count, "part", "row") : b.text.split("e", parts, "row", "part"));
    add_dims(b, kept, "row");
    const std::string loop =
        cat("for (idx_t j = part; j < ", b.text.number(length), "; j += ", b.text.number(parts), ") {");
    accumulate(b, values, loop, inner, [&](Value v) { return emit(b, def(v).in(0)); });
    for (Value v : values) b.text.line(parts_of(b, v).store("e", b.names[v.id]));
    return b.text.finish_elements("parts", std::max(b.largest, length + parts));
  }

  Launch combine(const std::vector<Value>& values, int64_t parts) const {
    const auto [kept, inner, fast_kept] = walk({});
    const int64_t count = numel(kept);
    Build b;
    b.text.line("const idx_t row = GROUP;");
    const std::string loop = cat("for (idx_t j = LANE; j < ", b.text.number(parts), "; j += ", kRowLanes, ") {"),
                      place = fast_kept ? cat("j * ", b.text.number(count), " + row")
                                        : cat("row * ", b.text.number(parts), " + j");
    accumulate(b, values, loop, {}, [&](Value v) { return parts_of(b, v).load(place); });
    for (Value v : values) {
      share(b, v);
      b.text.line("if (LANE == 0) ", whole(b, v).store("row", b.names[v.id]));
    }
    return b.text.finish("combine", count * parts, count, kRowLanes);
  }

  Launch rows(const std::vector<size_t>& outputs) const {
    const auto [kept, inner, fast_kept] = walk(strides_of(outputs));
    const int64_t count = numel(kept), length = numel(inner);
    const bool alone = length <= kShortRow || (fast_kept && count >= 2048);

    Build b;
    const std::string n = b.text.number(length);
    b.text.line("const idx_t row = ", alone ? "ELEMENT" : "GROUP", ";");
    if (alone) b.text.line("if (row >= ", b.text.number(count), ") return;");
    add_dims(b, kept, "row");
    const std::string loop = alone ? cat("for (idx_t j = 0; j < ", n, "; ++j) {")
                                   : cat("for (idx_t j = LANE; j < ", n, "; j += ", kRowLanes, ") {");
    for (const std::vector<Value>& values : region_.reductions) {
      accumulate(b, values, loop, inner, [&](Value v) { return emit(b, def(v).in(0)); });
      for (Value v : values) {
        if (!alone) share(b, v);
      }
    }
    std::vector<size_t> of_row, of_elements;
    for (size_t i : outputs) (shape(g_.outputs[i]) == space_ ? of_elements : of_row).push_back(i);
    if (!of_elements.empty()) each(b, loop, inner, [&] { store(b, of_elements); });
    if (!of_row.empty()) store(b, of_row, alone ? "" : "if (LANE == 0) ");
    return b.text.finish("rows", std::max({count, length, b.largest}) + kRowLanes,
                         alone ? ceil_div(count, kRowLanes) : count, kRowLanes);
  }

  // A loop over j, the number of an element among `dims`. The names of its inside are forgotten behind it.
  template <class Inside>
  static void each(Build& b, const std::string& loop, const std::vector<Dim>& dims, const Inside& inside) {
    const auto outer = std::tuple(b.names, b.dims, b.places);
    b.text.line(loop);
    add_dims(b, dims, "j");
    inside();
    b.text.line("}");
    std::tie(b.names, b.dims, b.places) = outer;
  }

  const RegionAnalysis region_;
  const Graph& g_;
  const StepSpec& spec_;
  const Shape& space_;
  std::map<int32_t, size_t> inputs_;  // by value that is one: which operand of the step
  std::map<int32_t, Held> held_;      // reduced values that lie in the scratch memory
};

}  // namespace

Lowered lower_region(const StepSpec& spec) { return RegionLowering(spec).run(); }

bool region_in_place(const Graph& graph, const Node& node, int input) {
  if (reads_whole(node, input)) return false;
  if (node.op != Op::fused) return is_pointwise(node.op);
  for (const Node& n : attrs<FusedAttrs>(node).body->nodes) {
    if (is_reduce(n.op)) return false;
  }
  return !pattern_of(node).product && std::all_of(node.outputs.begin(), node.outputs.end(), [&](Value v) {
    return graph.type(v).shape == graph.type(node.out()).shape;
  });
}

}  // namespace freight::gpu
