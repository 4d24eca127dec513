// Pooling over one or two spatial axes, a work-item per element of the result. The gradient of averages looks up the
// windows that cover an element instead of adding into shared places; that of maxima is a scatter (indexing.cpp).
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/scalar.h"

namespace freight::gpu {

namespace {

// The geometry as numbers of a kernel, seen as two spatial axes.
struct PoolNumbers {
  using Names = std::array<std::string, 2>;
  KernelText& text;
  const PoolAttrs& a;
  const Shape &x, &y;
  Names in = text.numbers(two_axes(x, 2, 1)), out = text.numbers(two_axes(y, 2, 1));
  Names kernel = text.numbers(two_axes(a.kernel, 0, 1)), stride = text.numbers(two_axes(a.stride, 0, 1));
  Names pad = text.numbers(two_axes(a.pad_low, 0, 0));
  Names step = a.dilation.empty() ? Names{"1", "1"} : text.numbers(two_axes(a.dilation, 0, 1));

  // Declares the part of window (oh, ow) inside of the image: [h0, h1) x [w0, w1), in steps of the dilation.
  void window(const char* oh, const char* ow) const {
    if (!a.dilation.empty()) {
      const auto spread = [&](int d, const char* name, const char* o) {
        text.line("const idx_t ", name, "s = ", o, " * ", stride[d], " - ", pad[d], ", ", name, "e = ", name, "s + (",
                  kernel[d], " - 1) * ", step[d], " + 1, ", name, "0 = ", name, "s < 0 ? ", name, "s + (", step[d],
                  " - 1 - ", name, "s) / ", step[d], " * ", step[d], " : ", name, "s, ", name, "1 = ", name, "e < ",
                  in[d], " ? ", name, "e : ", in[d], ";");
      };
      spread(0, "h", oh);
      spread(1, "w", ow);
      return;
    }
    const auto bounds = [&](int d, const char* name, const char* o) {
      text.line("const idx_t ", name, "s = ", o, " * ", stride[d], " - ", pad[d], ", ", name, "0 = ", name,
                "s < 0 ? 0 : ", name, "s, ", name, "1 = ", name, "s + ", kernel[d], " < ", in[d], " ? ", name, "s + ",
                kernel[d], " : ", in[d], ";");
    };
    bounds(0, "h", oh);
    bounds(1, "w", ow);
  }
  // Opens loops over the windows (oh, ow) that cover image place (h, w).
  void covering() const {
    const auto loop = [&](int d, const char* o, const char* at) {
      text.line("const idx_t ", o, "e = ", at, " + ", pad[d], ", ", o, "0 = ", o, "e < ", kernel[d], " ? 0 : (", o,
                "e - ", kernel[d], ") / ", stride[d], " + 1;");
      text.line("for (idx_t ", o, " = ", o, "0; ", o, " < ", out[d], " && ", o, " * ", stride[d], " <= ", o, "e; ++", o,
                ") {");
    };
    loop(0, "oh", "h");
    loop(1, "ow", "w");
  }
  std::string count() const {
    return a.count_include_pad ? cat("(", kernel[0], " * ", kernel[1], ")") : "((h1 - h0) * (w1 - w0))";
  }
};

}  // namespace

Lowered lower_pool(const StepSpec& spec) {
  const Op op = spec.node->op;
  const auto& attrs = freight::attrs<PoolAttrs>(*spec.node);
  const Shape &result = spec.out[0].type.shape, &given = spec.in[0].type.shape;  // (N, C, spatial)
  KernelText text;
  const Elements x = text.in(spec, 0), y = text.out(spec, 0);
  const std::string value = value_type(y.dtype);
  text.begin_elements(result.numel());
  const PoolNumbers p{text, attrs, op == Op::avg_pool_grad ? result : given, op == Op::avg_pool_grad ? given : result};
  const auto [height, width] = two_axes(result, 2, 1);
  text.line(text.split("e", width, "row", "w"), text.split("row", height, "plane", "h"));
  if (op == Op::avg_pool_grad) {  // given g, result dx
    text.line(value, " sum = 0;");
    p.covering();
    p.window("oh", "ow");
    text.line("sum += ", x.load(cat("(plane * ", p.out[0], " + oh) * ", p.out[1], " + ow")), " / (", value, ")",
              p.count(), ";");
    text.line("} }");
    text.line(y.store("e", "sum"));
    return text.finish_step(name(op), given.numel());
  }
  p.window("h", "w");
  const bool max = op == Op::max_pool;
  text.line(max ? cat("idx_t best = -1; ", value, " most = ", reduction_start(Op::reduce_max, x.dtype), ";")
                : cat(value, " sum = 0;"));
  // Large windows are summed up by parts of so many numbers: a sum of some millions in f32 loses what is added to it.
  constexpr int64_t kPart = 1024;
  const bool in_parts = !max && attrs.kernel.numel() > kPart;
  if (in_parts) text.line(value, " some = 0; idx_t summed = 0;");
  text.line("for (idx_t a = h0; a < h1; a += ", p.step[0], ") for (idx_t b = w0; b < w1; b += ", p.step[1], ") {");
  text.line("const ", value, " v = ", x.load(cat("(plane * ", p.in[0], " + a) * ", p.in[1], " + b")), ";");
  const std::string take = cat("{ best = a * ", p.in[1], " + b; most = v; }");
  if (in_parts) {
    text.line("some += v; if (++summed == ", kPart, ") { sum += some; some = 0; summed = 0; }");
  } else {
    text.line(max ? "if (best < 0 || (most == most && (v != v || v > most))) " + take : "sum += v;");
  }
  text.line("}");
  if (in_parts) text.line("sum += some;");
  text.line(y.store("e", max ? "most" : cat("sum / (", value, ")", p.count())));
  if (max) text.line(text.out(spec, 1).store("e", "best"));
  return text.finish_step(name(op), given.numel());
}

}  // namespace freight::gpu
