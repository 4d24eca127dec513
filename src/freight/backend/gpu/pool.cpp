// Pooling over one or two spatial axes, a work-item per element of the result. The gradient of averages looks up the
// windows that cover an element instead of adding into shared places; that of maxima is a scatter (indexing.cpp).
#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/scalar.h"

namespace freight::gpu {

namespace {

constexpr int64_t kLanes = 128;

// The geometry as numbers of a kernel, seen as two spatial axes (a single axis becomes the second).
struct PoolNumbers {
  PoolNumbers(KernelText& text, const PoolAttrs& a, const Shape& x, const Shape& y) {
    const int spatial = x.rank() - 2;
    const auto pick = [&](int d, int64_t missing, auto&& of) {
      const int s = d - (2 - spatial);
      return text.number(s < 0 ? missing : of(s));
    };
    for (int d = 0; d < 2; ++d) {
      in[d] = pick(d, 1, [&](int s) { return x[2 + s]; });
      out[d] = pick(d, 1, [&](int s) { return y[2 + s]; });
      kernel[d] = pick(d, 1, [&](int s) { return a.kernel[s]; });
      stride[d] = pick(d, 1, [&](int s) { return a.stride[s]; });
      pad[d] = pick(d, 0, [&](int s) { return a.pad_low[s]; });
    }
  }

  // Declares plane, h and w of element e of a tensor of this shape.
  static void place(KernelText& text, const Shape& shape) {
    const int rank = shape.rank();
    const int64_t height = rank == 4 ? shape[2] : 1, width = shape[rank - 1];
    const std::string rows = text.quotient("e", width), planes = text.quotient("row", height);
    text.line("const idx_t row = ", rows, ", w = e - row * ", text.number(width), ", plane = ", planes,
              ", h = row - plane * ", text.number(height), ";");
  }
  // Declares the part of window (oh, ow) inside of the image: [h0, h1) x [w0, w1).
  void window(KernelText& text, const char* oh, const char* ow) const {
    const auto bounds = [&](int d, const char* name, const char* o) {
      text.line("const idx_t ", name, "s = ", o, " * ", stride[d], " - ", pad[d], ", ", name, "0 = ", name,
                "s < 0 ? 0 : ", name, "s, ", name, "1 = ", name, "s + ", kernel[d], " < ", in[d], " ? ", name, "s + ",
                kernel[d], " : ", in[d], ";");
    };
    bounds(0, "h", oh);
    bounds(1, "w", ow);
  }
  // Opens loops over the windows (oh, ow) that cover image place (h, w).
  void covering(KernelText& text) const {
    const auto loop = [&](int d, const char* o, const char* at) {
      text.line("const idx_t ", o, "e = ", at, " + ", pad[d], ", ", o, "0 = ", o, "e < ", kernel[d], " ? 0 : (", o,
                "e - ", kernel[d], ") / ", stride[d], " + 1;");
      text.line("for (idx_t ", o, " = ", o, "0; ", o, " < ", out[d], " && ", o, " * ", stride[d], " <= ", o, "e; ++", o,
                ") {");
    };
    loop(0, "oh", "h");
    loop(1, "ow", "w");
  }
  std::string count(const PoolAttrs& a) const {
    if (a.count_include_pad) return cat("(", kernel[0], " * ", kernel[1], ")");
    return "((h1 - h0) * (w1 - w0))";
  }

  std::string in[2], out[2], kernel[2], stride[2], pad[2];
};

}  // namespace

Lowered lower_pool(const StepSpec& spec) {
  const Op op = spec.node->op;
  const auto& attrs = freight::attrs<PoolAttrs>(*spec.node);
  const bool forward = op == Op::max_pool || op == Op::avg_pool;
  const Type &result = spec.out[0].type, &given = spec.in[0].type;
  const int64_t n = result.numel();
  const std::string value = value_type(result.dtype);
  KernelText text;
  const std::string x = text.operand(0, given.dtype, false);
  const std::string y = text.operand(static_cast<int>(spec.in.size()), result.dtype, true);
  text.line("const idx_t e = ELEMENT;");
  text.line("if (e >= ", text.number(n), ") return;");
  const PoolNumbers p(text, attrs, forward ? given.shape : result.shape, forward ? result.shape : given.shape);
  PoolNumbers::place(text, result.shape);
  switch (op) {
    case Op::max_pool: {  // x (N, C, spatial) -> y, index (N, C, spatial)
      const std::string index = text.operand(2, spec.out[1].type.dtype, true);
      p.window(text, "h", "w");
      text.line("idx_t best = -1; ", value, " most = ", reduction_start(Op::reduce_max, given.dtype), ";");
      text.line("for (idx_t a = h0; a < h1; ++a) for (idx_t b = w0; b < w1; ++b) {");
      text.line("const ", value,
                " v = ", load_call(given.dtype, x, cat("(plane * ", p.in[0], " + a) * ", p.in[1], " + b")), ";");
      text.line("if (best < 0 || (most == most && (v != v || v > most))) { best = a * ", p.in[1], " + b; most = v; }");
      text.line("}");
      text.line(store_call(result.dtype, y, "e", "most"), ";");
      text.line(store_call(spec.out[1].type.dtype, index, "e", "best"), ";");
      break;
    }
    case Op::avg_pool: {  // x (N, C, spatial) -> y (N, C, spatial)
      p.window(text, "h", "w");
      text.line(value, " sum = 0;");
      text.line("for (idx_t a = h0; a < h1; ++a) for (idx_t b = w0; b < w1; ++b) sum += ",
                load_call(given.dtype, x, cat("(plane * ", p.in[0], " + a) * ", p.in[1], " + b")), ";");
      text.line(store_call(result.dtype, y, "e", cat("sum / (", value, ")", p.count(attrs))), ";");
      break;
    }
    default: {  // avg_pool_grad: g (N, C, out spatial) -> dx (N, C, in spatial)
      text.line(value, " sum = 0;");
      p.covering(text);
      p.window(text, "oh", "ow");
      text.line("sum += ", load_call(given.dtype, x, cat("(plane * ", p.out[0], " + oh) * ", p.out[1], " + ow")),
                " / (", value, ")", p.count(attrs), ";");
      text.line("} }");
      text.line(store_call(result.dtype, y, "e", "sum"), ";");
    }
  }
  Lowered lowered{.launches = {}, .scratch_bytes = 0, .name = name(op)};
  const int64_t largest = std::max(n, given.numel()) + kLanes;
  if (n > 0) lowered.launches.push_back(text.finish(name(op), largest, ceil_div(n, kLanes), kLanes));
  return lowered;
}

}  // namespace freight::gpu
