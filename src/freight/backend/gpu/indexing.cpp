// Gather and scatter of rows and elements (also that of max pooling's gradient), argmax and argmin, on row-major
// tensors. A scatter gives every column of the result to one work-item, which walks the indices in order: no atomics,
// and the same sum in every run. What an index out of range
// names is left out and reported (faults.h): kernels cannot throw.
#include <algorithm>

#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"

namespace freight::gpu {

namespace {

constexpr int64_t kLanes = 128;

// Extents before and after the axis.
struct Split {
  int64_t outer = 1, inner = 1;
  Split(const Shape& shape, int64_t axis) {
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : shape[i];
  }
};

Lowered one_launch(KernelText& text, const StepSpec& spec, int64_t items) {
  Lowered lowered{.launches = {}, .scratch_bytes = 0, .name = name(spec.node->op)};
  const int64_t largest = std::max(items, largest_span(spec));
  if (items > 0)
    lowered.launches.push_back(text.finish(name(spec.node->op), largest + kLanes, ceil_div(items, kLanes), kLanes));
  return lowered;
}

void begin(KernelText& text, int64_t items) {
  text.line("const idx_t e = ELEMENT;");
  text.line("if (e >= ", text.number(items), ") return;");
}

// x (A, R, B), idx (I) -> y (A, I, B), R rows along the axis; of elements: x (A, R, B), idx (A', I, B') -> y like idx.
Lowered gather(const StepSpec& spec) {
  const bool elements = spec.node->op == Op::gather_elements;
  const auto axis = static_cast<int>(attrs<AxisAttrs>(*spec.node).axis);
  const Type &x = spec.in[0].type, &idx = spec.in[1].type, &y = spec.out[0].type;
  KernelText text;
  const std::string px = text.operand(0, x.dtype, false), pi = text.operand(1, idx.dtype, false),
                    py = text.operand(2, y.dtype, true);
  begin(text, y.numel());
  const std::string rows = text.number(x.shape[axis]);
  if (elements) {  // the place in x: that of idx with its own row
    text.line("idx_t rest = e, at = 0;");
    const Strides strides = contiguous_strides(x.shape);
    for (int i = y.shape.rank(); i-- > 0;) {
      text.line("{ const idx_t q = ", text.quotient("rest", y.shape[i]), ";");
      if (i != axis) text.line("at += (rest - q * ", text.number(y.shape[i]), ") * ", text.number(strides[i]), ";");
      text.line("rest = q; }");
    }
    text.line("const i64 row = ", pi, "[e];");
    text.line("at += (idx_t)row * ", text.number(strides[axis]), ";");
  } else {
    const int64_t inner_extent = Split(x.shape, axis).inner;
    const std::string inner = text.number(inner_extent);
    text.line("const idx_t q = ", text.quotient("e", inner_extent), ", b = e - q * ", inner,
              ", a = ", text.quotient("q", idx.numel()), ", i = q - a * ", text.number(idx.numel()), ";");
    text.line("const i64 row = ", pi, "[i];");
    text.line("const idx_t at = (a * ", rows, " + (idx_t)row) * ", inner, " + b;");
  }
  text.line(value_type(y.dtype), " value = 0;");
  text.line("if (", text.checked("row", *spec.node, x.shape[axis]), ") value = ", load_call(x.dtype, px, "at"), ";");
  text.line(store_call(y.dtype, py, "e", "value"), ";");
  return one_launch(text, spec, y.numel());
}

struct Scatter {
  int indices, updates;  // which inputs of the step
  bool elements;         // an index per update, not per row of updates
  int64_t outer, inner, picks, rows;
  bool own = false;  // the indices are results of our own kernels: -1 means none
};

// idx (I), u (A, I, B) -> y (A, rows, B); of elements: idx like u. Sums of 16-bit types are made in scratch, in f32.
Lowered scatter(const StepSpec& spec, const Scatter& s) {
  const Type &idx = spec.in[static_cast<size_t>(s.indices)].type, &u = spec.in[static_cast<size_t>(s.updates)].type,
             &y = spec.out[0].type;
  const int64_t columns = s.outer * s.inner;
  const DType sums = wide(y.dtype);
  const bool through_scratch = sums != y.dtype;
  KernelText text;
  const std::string pi = text.operand(s.indices, idx.dtype, false), pu = text.operand(s.updates, u.dtype, false),
                    py = text.operand(2, y.dtype, true);
  const std::string ps = through_scratch ? text.operand(3, sums, true) : py;
  begin(text, columns);
  const std::string inner = text.number(s.inner), rows = text.number(s.rows), picks = text.number(s.picks);
  text.line("const idx_t a = ", text.quotient("e", s.inner), ", b = e - a * ", inner, ";");
  text.line("const idx_t first = a * ", rows, " * ", inner, " + b;");
  text.line("for (idx_t r = 0; r < ", rows, "; ++r) ", store_call(sums, ps, cat("first + r * ", inner), "0"), ";");
  text.line("for (idx_t i = 0; i < ", picks, "; ++i) {");
  text.line("const idx_t from = (a * ", picks, " + i) * ", inner, " + b;");
  text.line("const i64 row = ", pi, s.elements ? "[from];" : "[i];");
  if (s.own) {
    text.line("if (row < 0) continue;");
  } else {
    text.line("if (!", text.checked("row", *spec.node, s.rows), ") continue;");
  }
  text.line("const idx_t at = first + (idx_t)row * ", inner, ";");
  text.line(store_call(sums, ps, "at", cat(load_call(sums, ps, "at"), " + ", load_call(u.dtype, pu, "from"))), ";");
  text.line("}");
  if (through_scratch) {
    text.line("for (idx_t r = 0; r < ", rows, "; ++r) ",
              store_call(y.dtype, py, cat("first + r * ", inner), load_call(sums, ps, cat("first + r * ", inner))),
              ";");
  }
  Lowered lowered = one_launch(text, spec, columns);
  if (through_scratch) lowered.scratch_bytes = static_cast<size_t>(y.numel()) * size_of(sums);
  return lowered;
}

// The first index of the maximum (minimum) along the axis; the first NaN wins.
Lowered arg_extremum(const StepSpec& spec) {
  const auto axis = static_cast<int>(attrs<AxisAttrs>(*spec.node).axis);
  const Type &x = spec.in[0].type, &y = spec.out[0].type;
  KernelText text;
  const std::string px = text.operand(0, x.dtype, false), py = text.operand(1, y.dtype, true);
  begin(text, y.numel());
  const int64_t inner_extent = Split(x.shape, axis).inner;
  const std::string inner = text.number(inner_extent), rows = text.number(x.shape[axis]);
  text.line("const idx_t q = ", text.quotient("e", inner_extent), ", first = q * ", rows, " * ", inner, " + (e - q * ",
            inner, ");");
  text.line("idx_t best = 0; ", value_type(x.dtype), " most = ", load_call(x.dtype, px, "first"), ";");
  text.line("for (idx_t i = 1; i < ", rows, " && most == most; ++i) {");
  text.line("const ", value_type(x.dtype), " v = ", load_call(x.dtype, px, cat("first + i * ", inner)), ";");
  text.line("if (v != v || v ", spec.node->op == Op::argmax ? ">" : "<", " most) { best = i; most = v; }");
  text.line("}");
  text.line(store_call(y.dtype, py, "e", "best"), ";");
  return one_launch(text, spec, y.numel());
}

}  // namespace

Lowered lower_index(const StepSpec& spec) {
  switch (spec.node->op) {
    case Op::gather:
    case Op::gather_elements: return gather(spec);
    case Op::scatter_add:
    case Op::scatter_elements_add: {
      const auto& attrs = freight::attrs<ScatterAttrs>(*spec.node);
      const bool elements = spec.node->op == Op::scatter_elements_add;
      const Split split(spec.out[0].type.shape, attrs.axis);
      const int64_t picks = elements ? spec.in[1].type.shape[static_cast<int>(attrs.axis)] : spec.in[0].type.numel();
      return scatter(spec, {0, 1, elements, split.outer, split.inner, picks, attrs.size});
    }
    case Op::max_pool_grad: {  // g, index (N, C, out spatial) -> dx (N, C, in spatial): within each plane
      const Shape &g = spec.in[0].type.shape, &dx = spec.out[0].type.shape;
      const int64_t planes = g[0] * g[1];
      return scatter(spec, {1, 0, true, planes, 1, g.numel() / std::max<int64_t>(planes, 1),
                            dx.numel() / std::max<int64_t>(planes, 1), true});
    }
    default: return arg_extremum(spec);
  }
}

}  // namespace freight::gpu
