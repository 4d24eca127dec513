// Gather and scatter of rows and elements (also that of max pooling's gradient), checked indices, argsort, argmax and
// argmin, on row-major tensors. A scatter gives every column of the result to one work-item, which walks the indices in
// order: no atomics, and the same sum in every run. What an index out of range names is left out and reported
// (faults.h): kernels cannot throw.
#include <algorithm>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"

namespace freight::gpu {

namespace {

// Extents before and after the axis.
struct Split {
  int64_t outer = 1, inner = 1;
  Split(const Shape& shape, int64_t axis) {
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : shape[i];
  }
};

// x (A, R, B), idx (I) -> y (A, I, B), R rows along the axis; of elements: idx (A, I, B).
Lowered gather(const StepSpec& spec) {
  const bool elements = spec.node->op == Op::gather_elements;
  const auto axis = static_cast<int>(attrs<AxisAttrs>(*spec.node).axis);
  const Type &given = spec.in[0].type, &idx = spec.in[1].type, &result = spec.out[0].type;
  const int64_t inner = Split(given.shape, axis).inner, rows = given.shape[axis];
  KernelText text;
  const Elements x = text.in(spec, 0), index = text.in(spec, 1), y = text.out(spec, 0);
  text.begin_elements(result.numel());
  text.line(text.split("e", inner, "q", "b"), text.split("q", elements ? idx.shape[axis] : idx.numel(), "a", "i"));
  text.line("const i64 row = ", index.load(elements ? "e" : "i"), ";");
  text.line("const idx_t at = (a * ", text.number(rows), " + (idx_t)row) * ", text.number(inner), " + b;");
  text.line(value_type(y.dtype), " value = 0;");
  text.line("if (", text.checked("row", *spec.node, rows), ") value = ", x.load("at"), ";");
  text.line(y.store("e", "value"));
  return text.finish_step(name(spec.node->op), largest_span(spec));
}

struct Scatter {
  size_t indices, updates;  // which inputs of the step
  bool elements;            // an index per update, not per row of updates
  int64_t outer, inner, picks, rows;
  bool own = false;   // the indices are results of our own kernels: -1 means none
  bool sets = false;  // the updates take the place of elements of input 0; else they are added to zeros
};

// idx (I), u (A, I, B) -> y (A, rows, B); of elements: idx like u. Sums of 16-bit types are made in scratch, in f32.
// If updates are set, the last of those for one place stays.
Lowered scatter(const StepSpec& spec, const Scatter& s) {
  const Type& result = spec.out[0].type;
  const bool through_scratch = wide(result.dtype) != result.dtype && !s.sets;
  KernelText text;
  const Elements index = text.in(spec, s.indices), updates = text.in(spec, s.updates), y = text.out(spec, 0);
  const Elements sums = through_scratch ? text.scratch(spec, wide(result.dtype)) : y;
  text.begin_elements(s.outer * s.inner);
  const std::string inner = text.number(s.inner), rows = text.number(s.rows), picks = text.number(s.picks);
  text.line(text.split("e", s.inner, "a", "b"));
  text.line("const idx_t first = a * ", rows, " * ", inner, " + b;");
  const std::string each_row = cat("for (idx_t r = 0; r < ", rows, "; ++r) "), place = cat("first + r * ", inner);
  text.line(each_row, sums.store(place, s.sets ? text.in(spec, 0).load(place) : "0"));
  text.line("for (idx_t i = 0; i < ", picks, "; ++i) {");
  text.line("const idx_t from = (a * ", picks, " + i) * ", inner, " + b;");
  text.line("const i64 row = ", index.load(s.elements ? "from" : "i"), ";");
  text.line("if (", s.own ? "row < 0" : cat("!", text.checked("row", *spec.node, s.rows)), ") continue;");
  text.line("const idx_t at = first + (idx_t)row * ", inner, ";");
  text.line(sums.store("at", s.sets ? updates.load("from") : cat(sums.load("at"), " + ", updates.load("from"))));
  text.line("}");
  if (through_scratch) text.line(each_row, y.store(place, sums.load(place)));
  Lowered lowered = text.finish_step(name(spec.node->op), largest_span(spec));
  if (through_scratch) lowered.scratch_bytes = static_cast<size_t>(result.numel()) * size_of(sums.dtype);
  return lowered;
}

// The first index of the maximum (minimum) along the axis; the first NaN wins.
Lowered arg_extremum(const StepSpec& spec) {
  const auto axis = static_cast<int>(attrs<AxisAttrs>(*spec.node).axis);
  const Shape& shape = spec.in[0].type.shape;
  KernelText text;
  const Elements x = text.in(spec, 0), y = text.out(spec, 0);
  const std::string value = value_type(x.dtype);
  text.begin_elements(spec.out[0].type.numel());
  const int64_t extent = Split(shape, axis).inner;
  const std::string inner = text.number(extent), rows = text.number(shape[axis]);
  text.line(text.split("e", extent, "a", "b"), "const idx_t first = a * ", rows, " * ", inner, " + b;");
  text.line("idx_t best = 0; ", value, " most = ", x.load("first"), ";");
  text.line("for (idx_t i = 1; i < ", rows, " && most == most; ++i) {");
  text.line("const ", value, " v = ", x.load(cat("first + i * ", inner)), ";");
  text.line("if (v != v || v ", spec.node->op == Op::argmax ? ">" : "<", " most) { best = i; most = v; }");
  text.line("}");
  text.line(y.store("e", "best"));
  return text.finish_step(name(spec.node->op), largest_span(spec));
}

// Each element counts those before it, and stands at that place: no element waits for another.
Lowered argsort(const StepSpec& spec) {
  const auto& attrs = freight::attrs<SortAttrs>(*spec.node);
  const auto axis = static_cast<int>(attrs.axis);
  const Shape& shape = spec.in[0].type.shape;
  KernelText text;
  const Elements x = text.in(spec, 0), y = text.out(spec, 0);
  const std::string value = value_type(x.dtype);
  text.begin_elements(shape.numel());
  const int64_t extent = Split(shape, axis).inner;
  const std::string inner = text.number(extent), rows = text.number(shape[axis]);
  text.line(text.split("e", extent, "q", "b"), text.split("q", shape[axis], "a", "i"));
  text.line("const idx_t first = a * ", rows, " * ", inner, " + b;");
  text.line("const ", value, " own = ", x.load(cat("first + i * ", inner)), ";");
  text.line("idx_t rank = 0;");
  text.line("for (idx_t k = 0; k < ", rows, "; ++k) {");
  text.line("const ", value, " v = ", x.load(cat("first + k * ", inner)), ";");
  const char* before = attrs.descending ? "v > own || (v != v && own == own)" : "v < own || (own != own && v == v)";
  text.line("if (", before, " || (k < i && (v == own || (v != v && own != own)))) ++rank;");
  text.line("}");
  text.line(y.store(cat("first + rank * ", inner), "i"));
  return text.finish_step(name(spec.node->op), largest_span(spec));
}

// An index out of range becomes 0, which is in the range of all that may read it before the fault is seen.
Lowered check_index(const StepSpec& spec) {
  KernelText text;
  const Elements index = text.in(spec, 0), y = text.out(spec, 0);
  text.begin_elements(spec.out[0].type.numel());
  text.line("const i64 row = ", index.load("e"), ";");
  const std::string sound = text.checked("row", *spec.node, attrs<RowsAttrs>(*spec.node).rows);
  text.line(y.store("e", cat("(", value_type(y.dtype), ")(", sound, " ? row : 0)")));
  return text.finish_step(name(spec.node->op), largest_span(spec));
}

}  // namespace

Lowered lower_index(const StepSpec& spec) {
  switch (spec.node->op) {
    case Op::gather:
    case Op::gather_elements: return gather(spec);
    case Op::check_index: return check_index(spec);
    case Op::argsort: return argsort(spec);
    case Op::scatter_add:
    case Op::scatter_elements_add: {
      const auto& attrs = freight::attrs<ScatterAttrs>(*spec.node);
      const bool elements = spec.node->op == Op::scatter_elements_add;
      const Split split(spec.out[0].type.shape, attrs.axis);
      const int64_t picks = elements ? spec.in[1].type.shape[static_cast<int>(attrs.axis)] : spec.in[0].type.numel();
      return scatter(spec, {0, 1, elements, split.outer, split.inner, picks, attrs.size});
    }
    case Op::scatter:
    case Op::scatter_elements: {
      const auto axis = static_cast<int>(attrs<AxisAttrs>(*spec.node).axis);
      const bool elements = spec.node->op == Op::scatter_elements;
      const Shape& result = spec.out[0].type.shape;
      const Split split(result, axis);
      const int64_t picks = elements ? spec.in[1].type.shape[axis] : spec.in[1].type.numel();
      return scatter(spec, {.indices = 1,
                            .updates = 2,
                            .elements = elements,
                            .outer = split.outer,
                            .inner = split.inner,
                            .picks = picks,
                            .rows = result[axis],
                            .sets = true});
    }
    case Op::max_pool_grad: {  // g, index (N, C, out spatial) -> dx (N, C, in spatial): within each plane
      const Shape &g = spec.in[0].type.shape, &dx = spec.out[0].type.shape;
      const int64_t planes = g[0] * g[1];
      return scatter(spec, {1, 0, true, planes, 1, g.numel() / std::max<int64_t>(planes, 1),
                            dx.numel() / std::max<int64_t>(planes, 1), true});
    }
    case Op::argmax:
    case Op::argmin: return arg_extremum(spec);
    default: no_kernel(spec.node->op);
  }
}

}  // namespace freight::gpu
