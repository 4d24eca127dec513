// The steps that look rows up or add to them, arg-reductions (kernels/indexing.h) and argsort (kernels/sort.h). An
// index out of range is an error of the data.
#include "freight/backend/cpu/kernels/indexing.h"

#include <cstring>
#include <limits>
#include <optional>

#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/sort.h"
#include "freight/base/error.h"

namespace freight::cpu {

namespace {

bool sets(Op op) { return op == Op::scatter || op == Op::scatter_elements; }
bool scatters(Op op) { return op == Op::scatter_add || op == Op::scatter_elements_add; }

int axis_of(const Node& n) {
  if (n.op == Op::sgd_rows) return 0;
  if (const auto* s = std::get_if<SortAttrs>(&n.attrs)) return static_cast<int>(s->axis);
  if (const auto* s = std::get_if<ScatterAttrs>(&n.attrs)) return static_cast<int>(s->axis);
  return static_cast<int>(attrs<AxisAttrs>(n).axis);
}

// The steps where the axes on each side of the one that is indexed are like a single axis.
std::optional<IndexSteps> steps_of(const Type& type, const Layout& layout, int axis) {
  if (layout.blocked) return {};
  const auto joined = [&](int first, int end, int64_t& step) {
    int64_t inner = 1;
    for (int i = end - 1; i >= first; --i) {
      if (type.shape[i] == 1) continue;
      if (inner == 1) {
        step = layout.strides[i];
      } else if (layout.strides[i] != step * inner) {
        return false;
      }
      inner *= type.shape[i];
    }
    return true;
  };
  IndexSteps steps;
  steps.row = layout.strides[axis];
  if (!joined(0, axis, steps.outer) || !joined(axis + 1, type.shape.rank(), steps.inner)) return {};
  return steps;
}

bool picks_rows(Op op) { return op == Op::gather || op == Op::scatter_add; }

// The operands of gather and scatter_add: updates, whose axes [axis, last] are those of the indices, stand for rows of
// a table. One of both is given, the other one is the result.
struct RowOperands {
  bool adds;       // scatter_add, whose updates are given
  int axis, last;  // of the table, of the updates
  int given;       // number of the given tensor among the inputs; the other one is the indices
  const Shape &table, &updates, &indices;
  RowOperands(const Graph& graph, const Node& node)
      : adds(node.op == Op::scatter_add),
        axis(axis_of(node)),
        last(axis + graph.type(node.in(adds ? 0 : 1)).shape.rank() - 1),
        given(adds ? 1 : 0),
        table(graph.type(adds ? node.out() : node.in(0)).shape),
        updates(graph.type(adds ? node.in(1) : node.out()).shape),
        indices(graph.type(node.in(1 - given)).shape) {}
};

// Numbers of a dense tensor outside and inside of its axes [first, last], by the order of memory. All are inside where
// each of these axes has one element.
struct AroundRows {
  int64_t outer = 1, inner = 1;
  AroundRows(const Shape& shape, const Strides& strides, int first, int last) {
    int64_t step = std::numeric_limits<int64_t>::max();
    for (int i = first; i <= last; ++i) {
      if (shape[i] != 1) step = strides[i];
    }
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] != 1 && (i < first || i > last)) (strides[i] > step ? outer : inner) *= shape[i];
    }
  }
};

// The axes of the updates in the order of the table's, and the other way round. The latter is empty where the axes of
// the indices lie apart.
std::vector<int> order_of_updates(const std::vector<int>& table, int axis, int last) {
  std::vector<int> order;
  for (const int i : table) {
    if (i != axis) order.push_back(i < axis ? i : i + last - axis);
    for (int k = axis; i == axis && k <= last; ++k) order.push_back(k);
  }
  return order;
}
std::vector<int> order_of_table(const std::vector<int>& updates, int axis, int last) {
  std::vector<int> order;
  for (const int i : updates) {
    if (i <= axis || i > last) order.push_back(i <= axis ? i : i - last + axis);
  }
  if (order_of_updates(order, axis, last) != updates) order.clear();
  return order;
}

// The order of the table's axes in which rows are picked or added to: that of the memory of what is given, where its
// rows are at least as long as in row-major order. Empty: row-major.
std::vector<int> order_of_rows(const RowOperands& o, const Layout& layout) {
  const Shape& shape = o.adds ? o.updates : o.table;
  const int last = o.adds ? o.last : o.axis;
  if (o.last < o.axis || !is_dense(shape, layout)) return {};
  const auto inner = [&](const Strides& strides) { return AroundRows(shape, strides, o.axis, last).inner; };
  if (inner(layout.strides) < inner(contiguous_strides(shape))) return {};
  const std::vector<int> order = memory_order(shape, layout.strides);
  return o.adds ? order_of_table(order, o.axis, o.last) : order;
}

IndexProblem problem(const StepSpec& spec) {
  const Op op = spec.node->op;
  const Type& result = spec.out[0].type;
  if (op == Op::check_index) {
    return {.op = spec.node->called(),
            .where = spec.node->location(),
            .rows = attrs<RowsAttrs>(*spec.node).rows,
            .index_type = result.dtype,
            .indices = result.numel(),
            .result_bytes = result.bytes()};
  }
  const int axis = axis_of(*spec.node);
  const Shape& tensor = scatters(op) ? result.shape : spec.in[0].type.shape;  // whose axis is indexed
  IndexProblem p;
  p.op = spec.node->called();
  p.where = spec.node->location();
  p.rows = tensor[axis];
  if (picks_rows(op)) {
    const RowOperands o(*spec.graph, *spec.node);
    const Operand &table = o.adds ? spec.out[0] : spec.in[0], &updates = o.adds ? spec.in[1] : spec.out[0];
    // The stride of an axis of one element says nothing; the updates have as many there as there are indices.
    const AroundRows around = p.rows == 1 ? AroundRows(o.updates, updates.layout.strides, axis, o.last)
                                          : AroundRows(o.table, table.layout.strides, axis, axis);
    p.outer = around.outer;
    p.inner = around.inner;
  } else {
    for (int i = 0; i < tensor.rank(); ++i) {
      if (i != axis) (i < axis ? p.outer : p.inner) *= tensor[i];
    }
  }
  p.dtype = result.dtype;
  p.result_bytes = result.bytes();
  if (op == Op::argsort) p.dtype = spec.in[0].type.dtype;
  if (spec.in.size() == 1) return p;
  const Type& indices = spec.in[scatters(op) ? 0 : 1].type;
  p.index_type = indices.dtype;
  p.indices = indices.numel();
  p.whole_rows = op == Op::gather || op == Op::scatter_add || op == Op::scatter || op == Op::sgd_rows;
  p.picks = p.whole_rows ? p.indices : indices.shape[axis];
  if (op == Op::gather_elements) {
    const auto from = steps_of(spec.in[0].type, spec.in[0].layout, axis),
               index = steps_of(indices, spec.in[1].layout, axis);
    FREIGHT_CHECK(from && index, "layouts that index_layouts does not take");
    p.from = *from;
    p.index = *index;
  }
  return p;
}

class IndexKernel final : public Kernel {
 public:
  explicit IndexKernel(const StepSpec& spec) : op_(spec.node->op), p_(problem(spec)) {
    const auto* sort = std::get_if<SortAttrs>(&spec.node->attrs);
    if (sort && sort->descending) order_ = SortOrder::descending;
  }
  std::string name() const override { return "index"; }

  void run(void* const* o) override {
    if (op_ == Op::argmax || op_ == Op::argmin) {
      return arg_extremum(p_, static_cast<const float*>(o[0]), static_cast<int32_t*>(o[1]), op_ == Op::argmax);
    }
    if (op_ == Op::argsort) return argsort(p_, o[0], static_cast<int32_t*>(o[1]), order_);
    if (op_ == Op::gather_elements) return gather_elements(p_, o[0], o[1], o[2]);
    check_indices(p_, o[scatters(op_) || op_ == Op::check_index ? 0 : 1]);
    if (op_ == Op::check_index) {
      std::memmove(o[1], o[0], p_.result_bytes);
      return;
    }
    if (scatters(op_)) return scatter(p_, o[0], o[1], o[2], true);
    if (sets(op_)) {
      if (o[3] != o[0]) std::memcpy(o[3], o[0], p_.result_bytes);
      return set_elements(p_, o[1], o[2], o[3]);
    }
    if (op_ != Op::sgd_rows) return gather_rows(p_, o[0], o[1], o[2]);
    // The table less lr times the gradients of its rows.
    if (o[4] != o[0]) std::memcpy(o[4], o[0], p_.result_bytes);
    scatter(p_, o[1], o[2], o[4], false, -*static_cast<const float*>(o[3]));
  }

 private:
  Op op_;
  IndexProblem p_;
  SortOrder order_ = SortOrder::ascending;
};

}  // namespace

bool takes_index(const Graph& graph, const Node& node) {
  const Op op = node.op;
  const Type &first = graph.type(node.in(0)), &result = graph.type(node.out());
  if (result.numel() == 0) return false;
  if ((op == Op::argmax || op == Op::argmin || op == Op::sgd_rows) && first.dtype != DType::f32) return false;
  if (scatters(op) && size_of(result.dtype) < 4) return false;
  // Elements of single-element picks lie in step only where all other extents agree.
  if (op == Op::gather_elements || op == Op::scatter_elements_add) {
    const Shape &a = first.shape, &b = op == Op::gather_elements ? graph.type(node.in(1)).shape : result.shape;
    for (int i = 0; i < a.rank(); ++i) {
      if (i != axis_of(node) && a[i] != b[i]) return false;
    }
  }
  return true;
}

LayoutPlan index_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given, const FrozenInputs&) {
  LayoutPlan plan;
  if (picks_rows(node.op)) {
    const RowOperands o(graph, node);
    if (const auto order = order_of_rows(o, given[static_cast<size_t>(o.given)]); !order.empty()) {
      const Layout table{permuted_strides(o.table, order), nullptr},
          updates{permuted_strides(o.updates, order_of_updates(order, o.axis, o.last)), nullptr},
          plain = Layout::row_major(o.indices);
      plan.in = o.adds ? std::vector{plain, updates} : std::vector{table, plain};
      plan.out = {o.adds ? table : updates};
      return plan;
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const Type& type = graph.type(node.inputs[i]);
    const bool takes = node.op == Op::gather_elements && steps_of(type, given[i], axis_of(node));
    plan.in.push_back(takes ? given[i] : Layout::row_major(type.shape));
  }
  for (const Value v : node.outputs) plan.out.push_back(Layout::row_major(graph.type(v).shape));
  return plan;
}

// The table, less what its rows lose, or with others in their place.
bool index_in_place(const Graph&, const Node& node, int input, int) {
  return (node.op == Op::sgd_rows || sets(node.op)) && input == 0;
}

std::unique_ptr<Kernel> make_index(const StepSpec& spec) { return std::make_unique<IndexKernel>(spec); }

}  // namespace freight::cpu
