// Lowers bodies of pointwise, broadcast and reduce nodes to tile programs. Axis i of every value is axis i of the
// region, so a value's strides over the region are its own, with 0 where it is expanded. Reductions are executed, in
// order of preference: as rows (reduced axes fastest in memory, results usable at once), as accumulations beside the
// pointwise results, or in stages whose results lie in scratch between programs.
#include <algorithm>
#include <map>

#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/tile.h"
#include "freight/backend/region.h"
#include "freight/base/error.h"
#include "freight/ir/reads_whole.h"

namespace freight::cpu {

namespace {

// Longest row that stays in cache while a row program works on it.
constexpr int64_t kMaxRow = 65536;
size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Where a value lies: an operand of the step, or scratch.
struct ValueLocation {
  int operand = -1;
  DType dtype = DType::f32;
  Strides strides;  // by axis of the body; 0 where the extent is 1
};

class TileStepKernel final : public Kernel {
 public:
  void run(void* const* operands) override {
    if (programs.size() == 1 && temporaries.empty()) {
      programs[0]->run(operands, operands[external]);
      return;
    }
    void* all[kMaxOperands];
    std::copy(operands, operands + external, all);
    char* memory = static_cast<char*>(operands[external]);
    for (size_t i = 0; i < temporaries.size(); ++i) all[external + i] = memory + temporaries[i];
    for (const auto& p : programs) p->run(all, memory + shared_scratch);
  }
  std::string name() const override { return "tile"; }
  size_t scratch_bytes() const override { return scratch; }

  static constexpr size_t kMaxOperands = 96;
  size_t external = 0;              // inputs and outputs of the step
  std::vector<size_t> temporaries;  // offsets in scratch
  size_t shared_scratch = 0, scratch = 0;
  std::vector<std::unique_ptr<TileKernel>> programs;
};

class Lowering {
 public:
  Lowering(const RegionAnalysis& region, const StepSpec& spec)
      : region_(region),
        g_(*region.body),
        uses_(g_.use_counts()),
        spec_(spec),
        space_(region.space),
        order_(region.long_axes(region.space)),
        first_reduced_(along_order(region.reduced)) {}

  std::unique_ptr<Kernel> run() {
    kernel_ = std::make_unique<TileStepKernel>();
    kernel_->external = spec_.in.size() + spec_.out.size();
    place_.resize(g_.values.size());
    size_t next = 0;
    for (const Node& n : g_.nodes) {
      if (n.op == Op::input) place_[n.out().index()] = external(next, spec_.in[next]), ++next;
    }
    if (region_.form == RegionAnalysis::Form::pointwise) {
      finish_pointwise();
    } else if (rows_fit()) {
      row_program();
    } else if (accumulates()) {
      accumulate_beside_pointwise();
    } else {
      for (const std::vector<Value>& reductions : region_.reductions) {
        for (Value v : reductions) reduce_in_stages(v);
      }
      finish_pointwise();
    }
    if (kernel_->external + kernel_->temporaries.size() > TileStepKernel::kMaxOperands) {
      fail(ErrorKind::device, "fused", "too many operands: ", kernel_->external);
    }
    size_t most = 0;
    for (const auto& p : kernel_->programs) most = std::max(most, p->scratch_bytes());
    kernel_->scratch = kernel_->shared_scratch + most;
    return std::move(kernel_);
  }

 private:
  static ValueLocation external(size_t operand, const Operand& o) {
    ValueLocation p{static_cast<int>(operand), o.type.dtype, o.layout.strides};
    for (int i = 0; i < p.strides.rank(); ++i) {
      if (o.type.shape[i] == 1) p.strides[i] = 0;
    }
    return p;
  }
  bool placed(Value v) const { return place_[v.index()].operand >= 0; }
  const Node& def(Value v) const { return g_.def(v); }
  const Shape& shape(Value v) const { return g_.type(v).shape; }
  ValueLocation output(size_t i) const { return external(spec_.in.size() + i, spec_.out[i]); }

  // Which of the axes are in the set, in the order of order_.
  std::vector<bool> along_order(AxisSet axes) const {
    std::vector<bool> marked;
    for (int a : order_) marked.push_back(axes.has(a));
    return marked;
  }
  std::vector<bool> reduced_axes(Value v) const { return along_order(region_.axes_removed_by(def(v))); }

  // --- building programs ---

  struct Build {
    TileProgram program;
    std::vector<int> axes;    // the program's dimensions, as axes of the body
    std::map<int, int> done;  // body value -> program value
    bool rows = false;        // reductions are row reductions
  };

  Build begin(const std::vector<int>& axes) const {
    Build b;
    b.axes = axes;
    for (int a : axes) b.program.space.push_back(space_[a]);
    return b;
  }
  static Strides select(const Strides& by_axis, const std::vector<int>& axes) {
    Strides s;
    for (int a : axes) s.push_back(by_axis[a]);
    return s;
  }
  Strides index_strides(const Shape& s, const std::vector<int>& axes) const {
    Strides by_axis = contiguous_strides(s);
    for (int i = 0; i < s.rank(); ++i) {
      if (s[i] == 1) by_axis[i] = 0;
    }
    return select(by_axis, axes);
  }

  int emit(Build& b, Value v) {
    if (const auto it = b.done.find(v.id); it != b.done.end()) return it->second;
    const int made = make(b, v);
    b.done[v.id] = made;
    return made;
  }

  int make(Build& b, Value v) {
    TileProgram& p = b.program;
    if (placed(v)) {
      const ValueLocation& place = place_[v.index()];
      return p.input(place.operand, place.dtype, select(place.strides, b.axes));
    }
    const Node& n = def(v);
    const Type& type = g_.type(v);
    switch (n.op) {
      case Op::constant: {
        double number = 0;  // rounded to the constant's type, as memory would hold it
        FREIGHT_CHECK(splat_value(g_, v, number), "array constant inside a fused body");
        return p.constant(number, type.dtype);
      }
      case Op::iota: {
        Strides by_axis = Shape::filled(space_.rank(), 0);
        const int axis = static_cast<int>(attrs<IotaAttrs>(n).axis);
        by_axis[axis] = type.shape[axis] == 1 ? 0 : 1;
        return p.add({.kind = TileValue::Kind::index, .dtype = type.dtype, .strides = select(by_axis, b.axes)});
      }
      case Op::random_uniform:
      case Op::random_normal:
        FREIGHT_CHECK(def(n.in(0)).op == Op::input, "the key of random numbers is made inside a region");
        return p.add({.kind = TileValue::Kind::random,
                      .op = n.op,
                      .dtype = type.dtype,
                      .operand = place_[n.in(0).index()].operand,
                      .strides = index_strides(type.shape, b.axes),
                      .number = static_cast<double>(attrs<RandomAttrs>(n).stream),
                      .key_stride = place_[n.in(0).index()].strides[0]});
      case Op::broadcast: return emit(b, n.in(0));
      default: break;
    }
    if (is_reduce(n.op)) {
      if (!region_.reduces(n)) return emit(b, n.in(0));
      FREIGHT_CHECK(b.rows, "reduction outside of a row program");
      return p.row_reduce(n.op, type.dtype, emit(b, n.in(0)));
    }
    int in[3] = {-1, -1, -1};
    for (size_t i = 0; i < n.inputs.size(); ++i) in[i] = emit(b, n.inputs[i]);
    const int made = p.apply(n.op, type.dtype, in[0], in[1], in[2]);
    p.values.back().shared = uses_[v] > 1;
    return made;
  }

  void store(Build& b, Value v, const ValueLocation& to) {
    const int value = emit(b, v);
    b.program.stores.push_back({.value = value,
                                .dtype = to.dtype,
                                .operand = to.operand,
                                .strides = select(to.strides, b.axes),
                                .stream = spec_.stream_outputs});
  }
  void finish(Build& b) {
    b.program.round_each = spec_.round_each;
    kernel_->programs.push_back(TileKernel::compile(b.program));
  }

  // Pointwise outputs, one program per shape (results on the reduced shape beside those on the whole space).
  void finish_pointwise() {
    std::map<std::vector<int>, Build> by_axes;
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const Value v = g_.outputs[i];
      if (placed(v) && place_[v.index()].operand == output(i).operand) continue;
      std::vector<int> axes;
      for (int a : order_) {
        if (shape(v)[a] != 1) axes.push_back(a);
      }
      auto [it, fresh] = by_axes.try_emplace(axes);
      if (fresh) it->second = begin(axes);
      store(it->second, v, output(i));
    }
    for (auto& [axes, build] : by_axes) finish(build);
  }

  // Reduced axes are the fastest in memory, the row is short and every value lives on the space or on its rows.
  bool rows_fit() const {
    if (region_.form != RegionAnalysis::Form::same_axes) return false;
    int64_t row = 1;
    const std::vector<bool>& first = first_reduced_;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (i > 0 && first[i - 1] && !first[i]) return false;
      if (first[i]) row *= space_[order_[i]];
    }
    if (row > kMaxRow) return false;
    // Few long rows without a second look at them: accumulations use more threads.
    if (!region_.reads_reductions && row > 4096 && space_.numel() / std::max<int64_t>(row, 1) < 64) return false;
    for (Value v : g_.outputs) {
      for (size_t i = 0; i < order_.size(); ++i) {
        const bool whole = shape(v)[order_[i]] == space_[order_[i]];
        if (!whole && !first[i]) return false;
      }
      if (region_.level_of(v) == 0 && shape(v) != space_) return false;
    }
    return true;
  }

  void row_program() {
    Build b = begin(order_);
    b.rows = true;
    for (bool reduced : first_reduced_) b.program.row_dims += reduced;
    // Without a reduced axis longer than 1 the row is one element: say so with an explicit dimension.
    if (b.program.row_dims == 0) {
      b.program.space.push_back(1);
      const Shape& axes = attrs<AxesAttrs>(def(region_.reductions[0][0])).axes;
      b.axes.push_back(axes.empty() ? 0 : static_cast<int>(axes[0]));
      b.program.row_dims = 1;
    }
    for (size_t i = 0; i < g_.outputs.size(); ++i) store(b, g_.outputs[i], output(i));
    finish(b);
  }

  // Tells whether one program can accumulate all reductions beside the pointwise results: nobody reads them, and they
  // are [kept][reduced][kept or reduced] in memory order.
  bool accumulates() const {
    if (region_.form != RegionAnalysis::Form::same_axes || region_.reads_reductions) return false;
    const std::vector<bool>& first = first_reduced_;
    int changes = 0;
    for (size_t i = 1; i < first.size(); ++i) changes += first[i] != first[i - 1];
    for (Value v : g_.outputs) {
      if (region_.level_of(v) == 0 && shape(v) != space_) return false;
    }
    return first.empty() || changes <= (first[0] ? 1 : 2);
  }

  void accumulate(Build& b, Value v, const ValueLocation& to, const std::vector<bool>& reduced, int value) const {
    TileAccumulate a{.value = value,
                     .op = def(v).op,
                     .dtype = to.dtype,
                     .operand = to.operand,
                     .strides = select(to.strides, b.axes),
                     .keep = {}};
    for (bool r : reduced) a.keep.push_back(!r);
    b.program.sums.push_back(a);
  }

  void accumulate_beside_pointwise() {
    Build b = begin(order_);
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const Value v = g_.outputs[i];
      if (region_.reduces(def(v))) {
        accumulate(b, v, output(i), first_reduced_, emit(b, def(v).in(0)));
      } else {
        store(b, v, output(i));
      }
    }
    finish(b);
  }

  // --- reductions of any axes in any order: innermost group of reduced axes first ---

  ValueLocation temporary(DType dtype, const Shape& extents) {
    ValueLocation p{static_cast<int>(kernel_->external + kernel_->temporaries.size()), dtype,
                    Shape::filled(space_.rank(), 0)};
    int64_t step = 1;
    for (size_t i = order_.size(); i-- > 0;) {  // dense, in the region's order
      const int a = order_[i];
      if (extents[a] == 1) continue;
      p.strides[a] = step;
      step *= extents[a];
    }
    kernel_->temporaries.push_back(kernel_->shared_scratch);
    kernel_->shared_scratch += padded(static_cast<size_t>(extents.numel()) * size_of(dtype));
    return p;
  }

  // The operand that receives v at the end: its own output, or scratch.
  ValueLocation destination(Value v) {
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      if (g_.outputs[i] == v) return output(i);
    }
    return temporary(wide(g_.type(v).dtype), shape(v));
  }

  void reduce_in_stages(Value v) {
    const DType dtype = wide(g_.type(v).dtype);
    std::vector<bool> reduced = reduced_axes(v);
    std::vector<int> axes = order_;
    ValueLocation source;  // of the second and later stages
    for (;;) {
      // The last group of reduced axes goes now; with what is kept behind it this is [kept][reduced][kept].
      std::vector<bool> now(axes.size());
      size_t i = axes.size();
      while (i > 0 && !reduced[i - 1]) --i;
      while (i > 0 && reduced[i - 1]) now[--i] = true;
      const bool last = std::find(reduced.begin(), reduced.begin() + static_cast<std::ptrdiff_t>(i), true) ==
                        reduced.begin() + static_cast<std::ptrdiff_t>(i);
      Build b = begin(axes);
      const int value = source.operand < 0
                            ? emit(b, def(v).in(0))
                            : b.program.input(source.operand, source.dtype, select(source.strides, axes));
      Shape extents = Shape::filled(space_.rank(), 1);
      std::vector<int> left;
      std::vector<bool> left_reduced;
      for (size_t k = 0; k < axes.size(); ++k) {
        if (now[k]) continue;
        extents[axes[k]] = space_[axes[k]];
        left.push_back(axes[k]);
        left_reduced.push_back(reduced[k]);
      }
      const ValueLocation to = last ? destination(v) : temporary(dtype, extents);
      accumulate(b, v, to, now, value);
      finish(b);
      if (last) {
        place_[v.index()] = to;
        return;
      }
      source = to;
      axes = left;
      reduced = left_reduced;
    }
  }

  const RegionAnalysis& region_;
  const Graph& g_;
  const ByValue<int> uses_;
  const StepSpec& spec_;
  const Shape space_;
  const std::vector<int> order_;           // axes longer than 1, slowest first
  const std::vector<bool> first_reduced_;  // of them: those that the first reduction removes
  std::unique_ptr<TileStepKernel> kernel_;
  std::vector<ValueLocation> place_;
};

bool blocked(const StepSpec& spec) {
  const auto is_blocked = [](const Operand& o) { return o.layout.blocked != nullptr; };
  return std::any_of(spec.in.begin(), spec.in.end(), is_blocked) ||
         std::any_of(spec.out.begin(), spec.out.end(), is_blocked);
}

}  // namespace

// Pointwise results of one shape, of a region without reductions that are read inside: their program is the only one or
// the last one. Those of other shapes have programs of their own, which read the operands again.
bool tile_in_place(const Graph&, const Node& node, int input, int output) {
  if (reads_whole(node, input)) return false;
  if (node.op != Op::fused) return is_pointwise(node.op);
  const Graph& body = *attrs<FusedAttrs>(node).body;
  const auto reduced = [&](Value v) { return is_reduce(body.def(v).op); };
  for (const Node& n : body.nodes) {
    if (std::any_of(n.inputs.begin(), n.inputs.end(), reduced)) return false;
  }
  const Value result = body.outputs[static_cast<size_t>(output)];
  return !reduced(result) && std::ranges::all_of(body.outputs, [&](Value v) {
    return reduced(v) || body.type(v).shape == body.type(result).shape;
  });
}

std::unique_ptr<Kernel> make_tile_step(const StepSpec& spec) {
  if (blocked(spec)) return nullptr;
  const RegionAnalysis region = analyze_region(spec);
  for (const ValueInfo& v : region.body->values) {
    if (!computes(v.type.dtype)) return nullptr;  // tiles hold numbers that are computed with
    if (v.type.numel() == 0) return nullptr;      // the reference knows what the sum of nothing is
  }
  return Lowering(region, spec).run();
}

}  // namespace freight::cpu
