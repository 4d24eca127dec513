// Products of matrices by tiles in local memory, in one text: matmul with any strides, and the convolution and its two
// gradients, whose operands are gathered from the image by index as they are loaded. A group of 64 work-items makes a
// tile of Y = A B, each 4 x 4 elements of it. A long sum for few results is cut into parts that a second kernel adds.
#include <algorithm>

#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/scalar.h"
#include "freight/base/error.h"

namespace freight::gpu {

namespace {

constexpr int64_t kLanes = 64, kDepth = 16;  // of a tile's step along the sum
constexpr int64_t kManyTiles = 64, kMinPart = 512, kMaxParts = 64;

// What is multiplied: per batch Y (M, N) = A (M, K) B (K, N). The lines set `value` for element (i, p) of A, (p, j) of
// B, and `at`, `column` (of the bias) for element (i, j) of Y; `z` is the batch.
struct Product {
  int64_t batches = 1, m = 0, n = 0, k = 0;
  size_t a = 0, b = 1;  // which inputs of the step they are
  DType dtype = DType::f32;
  Epilogue epilogue;
  const char* purpose = "";
};

class GemmText {
 public:
  GemmText(const StepSpec& spec, const Product& product) : spec_(spec), p_(product) {
    // Tiles: square, or narrow where one side has few elements.
    across_ = p_.n <= 8 ? 2 : p_.m <= 8 && p_.n > 8 ? 32 : 8;
    tile_n_ = 4 * across_;
    tile_m_ = 4 * (kLanes / across_);
    tiles_m_ = static_cast<int64_t>(ceil_div(p_.m, tile_m_));
    tiles_n_ = static_cast<int64_t>(ceil_div(p_.n, tile_n_));
    const int64_t tiles = p_.batches * tiles_m_ * tiles_n_;
    const bool plain = !p_.epilogue.bias && !p_.epilogue.residual && !p_.epilogue.relu;
    if (plain && tiles < kManyTiles) {
      parts_ = std::clamp<int64_t>(std::min(p_.k / kMinPart, kManyTiles / std::max<int64_t>(tiles, 1)), 1, kMaxParts);
    }
    a_ = text.operand(static_cast<int>(p_.a), spec.in[p_.a].type.dtype, false);
    b_ = text.operand(static_cast<int>(p_.b), spec.in[p_.b].type.dtype, false);
  }

  // `a`, `b`, `y`: lines that set the index `at` for (i, p), (p, j) and (i, j), and `inside` to 0 for padding.
  Lowered finish(const std::string& a, const std::string& b, const std::string& y, int64_t largest) {
    const DType out = spec_.out[0].type.dtype;
    const char* acc = value_type(out);
    const std::string m = text.number(p_.m), n = text.number(p_.n), k = text.number(p_.k);
    const auto load = [&](const std::string& pointer, DType dtype, const std::string& index) {
      text.line("  idx_t at = 0; int inside = 1;");
      text.line("  ", index);
      text.line("  if (inside) value = ", load_call(dtype, pointer, "at"), ";");
    };
    const int64_t part = static_cast<int64_t>(ceil_div(static_cast<int64_t>(ceil_div(p_.k, parts_)), kDepth)) * kDepth;
    text.line("LOCAL ", acc, " as[", kDepth, "][", tile_m_ + 1, "];");
    text.line("LOCAL ", acc, " bs[", kDepth, "][", tile_n_ + 1, "];");
    text.line("const int lane = LANE, tx = lane % ", across_, " * 4, ty = lane / ", across_, " * 4;");
    const std::string tm = text.number(tiles_m_), tn = text.number(tiles_n_), parts = text.number(parts_);
    text.line("idx_t rest = GROUP;");
    text.line("const idx_t j0 = rest % ", tn, " * ", tile_n_, "; rest /= ", tn, ";");
    text.line("const idx_t i0 = rest % ", tm, " * ", tile_m_, "; rest /= ", tm, ";");
    text.line("const idx_t part = rest % ", parts, ", z = rest / ", parts, ";");
    const std::string length = text.number(part);
    text.line("const idx_t first = part * ", length, ", after = first + ", length, " < ", k, " ? first + ", length,
              " : ", k, ";");
    text.line(acc, " c[4][4] = {{0}};");
    text.line("for (idx_t step = first; step < after; step += ", kDepth, ") {");
    // Lanes walk along the sum first where A is dense there, as in rows times columns.
    text.line("for (int t = lane; t < ", kDepth * tile_m_, "; t += ", kLanes, ") {");
    text.line("  const int tp = t % ", kDepth, ", ti = t / ", kDepth, ";");
    text.line("  const idx_t i = i0 + ti, p = step + tp;");
    text.line("  ", acc, " value = 0;");
    text.line("  if (i < ", m, " && p < after) {");
    load(a_, spec_.in[p_.a].type.dtype, a);
    text.line("  }");
    text.line("  as[tp][ti] = value;");
    text.line("}");
    text.line("for (int t = lane; t < ", kDepth * tile_n_, "; t += ", kLanes, ") {");
    text.line("  const int tj = t % ", tile_n_, ", tp = t / ", tile_n_, ";");
    text.line("  const idx_t j = j0 + tj, p = step + tp;");
    text.line("  ", acc, " value = 0;");
    text.line("  if (j < ", n, " && p < after) {");
    load(b_, spec_.in[p_.b].type.dtype, b);
    text.line("  }");
    text.line("  bs[tp][tj] = value;");
    text.line("}");
    text.line("BARRIER;");
    text.line("for (int q = 0; q < ", kDepth, "; ++q) {");
    for (int i = 0; i < 4; ++i)
      text.line("  const ", acc, " a", i, " = as[q][ty + ", i, "], b", i, " = bs[q][tx + ", i, "];");
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) text.line("  c[", i, "][", j, "] += a", i, " * b", j, ";");
    }
    text.line("}");
    text.line("BARRIER;");
    text.line("}");
    text.line("for (int u = 0; u < 4; ++u) for (int w = 0; w < 4; ++w) {");
    text.line("  const idx_t i = i0 + ty + u, j = j0 + tx + w;");
    text.line("  if (i >= ", m, " || j >= ", n, ") continue;");
    text.line("  idx_t at = 0, column = 0;");
    text.line("  ", y);
    text.line("  ", acc, " r = c[u][w];");
    Lowered lowered;
    const int64_t results = spec_.out[0].type.numel();
    if (parts_ > 1) {
      const int scratch = static_cast<int>(spec_.in.size() + spec_.out.size());
      const std::string partial = text.operand(scratch, wide(out), true);
      text.line("  ", partial, "[part * ", text.number(results), " + at] = r;");
      lowered.scratch_bytes = static_cast<size_t>(parts_ * results) * size_of(wide(out));
    } else {
      epilogue();
      text.line("  ", store_call(out, text.operand(static_cast<int>(spec_.in.size()), out, true), "at", "r"), ";");
    }
    text.line("}");
    if (results > 0) {
      const auto groups = static_cast<size_t>(p_.batches * parts_ * tiles_m_ * tiles_n_);
      lowered.launches.push_back(text.finish(p_.purpose, std::max(largest, parts_ * results), groups, kLanes));
      if (parts_ > 1) lowered.launches.push_back(sum_of_parts());
    }
    lowered.name = p_.purpose;
    return lowered;
  }

  KernelText text;

 private:
  // + bias, + residual, relu; the extra inputs follow the two operands. The residual lies as the result does.
  void epilogue() {
    int extra = 2;
    const auto dtype = [&](int i) { return spec_.in[static_cast<size_t>(i)].type.dtype; };
    if (p_.epilogue.bias) {
      text.line("  r += ", load_call(dtype(extra), text.operand(extra, dtype(extra), false), "column"), ";");
      ++extra;
    }
    if (p_.epilogue.residual) {
      text.line("  r += ", load_call(dtype(extra), text.operand(extra, dtype(extra), false), "at"), ";");
    }
    if (p_.epilogue.relu) text.line("  r = ", scalar_expression(Op::relu, p_.dtype, {"r"}), ";");
  }

  Launch sum_of_parts() const {
    const DType out = spec_.out[0].type.dtype;
    const int64_t results = spec_.out[0].type.numel();
    KernelText sum;
    const std::string from = sum.operand(static_cast<int>(spec_.in.size() + 1), wide(out), false);
    const std::string to = sum.operand(static_cast<int>(spec_.in.size()), out, true);
    const std::string n = sum.number(results), parts = sum.number(parts_);
    sum.line("const idx_t e = ELEMENT;");
    sum.line("if (e >= ", n, ") return;");
    sum.line(value_type(out), " r = 0;");
    sum.line("for (idx_t q = 0; q < ", parts, "; ++q) r += ", from, "[q * ", n, " + e];");
    sum.line(store_call(out, to, "e", "r"), ";");
    return sum.finish("sum_parts", parts_ * results + kLanes, ceil_div(results, kLanes), kLanes);
  }

  const StepSpec& spec_;
  Product p_;
  std::string a_, b_;
  int64_t across_, tile_m_, tile_n_, tiles_m_, tiles_n_, parts_ = 1;
};

int64_t span(const Operand& o) { return static_cast<int64_t>(layout_bytes(o.type, o.layout) / size_of(o.type.dtype)); }

int64_t largest_span(const StepSpec& spec) {
  int64_t most = 0;
  for (const auto* list : {&spec.in, &spec.out}) {
    for (const Operand& o : *list) most = std::max(most, span(o));
  }
  return most;
}

}  // namespace

Lowered lower_matmul(const StepSpec& spec) {
  const auto& attrs = freight::attrs<MatmulAttrs>(*spec.node);
  const Shape& sy = spec.out[0].type.shape;  // (..., M, N)
  const Shape& sa = spec.in[0].type.shape;   // (..., M, K), transposed (..., K, M)
  const int rank = sy.rank(), last = rank - 1, before = rank - 2;
  Product product{.m = sy[before],
                  .n = sy[last],
                  .k = sa[attrs.trans_a ? before : last],
                  .dtype = spec.out[0].type.dtype,
                  .epilogue = attrs.epilogue,
                  .purpose = "matmul"};
  for (int i = 0; i < before; ++i) product.batches *= sy[i];
  GemmText gemm(spec, product);
  // "z's part of the address": batch axes one by one, slowest first.
  const auto index = [&](const Operand& o, const std::string& row, const std::string& column, bool transposed) {
    const Strides& s = o.layout.strides;
    std::string lines;
    if (before > 0) {
      lines += "idx_t y = z;";
      for (int i = before; i-- > 0;) {
        const std::string extent = i > 0 ? gemm.text.number(sy[i]) : "", stride = gemm.text.number(s[i]);
        lines +=
            i > 0 ? cat(" at += y % ", extent, " * ", stride, "; y /= ", extent, ";") : cat(" at += y * ", stride, ";");
      }
      lines += " ";
    }
    const std::string rows = gemm.text.number(s[transposed ? last : before]);
    const std::string columns = gemm.text.number(s[transposed ? before : last]);
    return cat(lines, "at += ", row, " * ", rows, " + ", column, " * ", columns, ";");
  };
  return gemm.finish(index(spec.in[0], "i", "p", attrs.trans_a), index(spec.in[1], "p", "j", attrs.trans_b),
                     cat(index(spec.out[0], "i", "j", false), " column = j;"), largest_span(spec));
}

namespace {

// The geometry of a convolution with one or two spatial axes, seen as two (a single axis becomes the second), as
// numbers of a kernel.
struct ConvNumbers {
  ConvNumbers(KernelText& text, const ConvAttrs& a, const Shape& x, const Shape& w, const Shape& y) {
    const int spatial = x.rank() - 2;
    const auto pick = [&](int d, int64_t missing, auto&& of) {
      const int s = d - (2 - spatial);
      return text.number(s < 0 ? missing : of(s));
    };
    channels = text.number(x[1]);
    in_group = text.number(x[1] / a.groups);
    outputs = text.number(w[0]);
    out_group = text.number(w[0] / a.groups);
    for (int d = 0; d < 2; ++d) {
      in[d] = pick(d, 1, [&](int s) { return x[2 + s]; });
      out[d] = pick(d, 1, [&](int s) { return y[2 + s]; });
      kernel[d] = pick(d, 1, [&](int s) { return w[2 + s]; });
      stride[d] = pick(d, 1, [&](int s) { return a.stride[s]; });
      pad[d] = pick(d, 0, [&](int s) { return a.pad_low[s]; });
      dilation[d] = pick(d, 1, [&](int s) { return a.dilation[s]; });
    }
  }

  // Declares the two coordinates, and what is left, of a number.
  static std::string split(const std::string& number, const std::string& rest, const char* h, const char* w,
                           const std::string extents[2]) {
    return cat("const idx_t ", w, " = ", number, " % ", extents[1], ", ", h, " = ", number, " / ", extents[1], " % ",
               extents[0], ", ", rest, " = ", number, " / ", extents[1], " / ", extents[0], "; ");
  }
  // Element of x under output place (oh, ow) and kernel place (kh, kw), or padding.
  std::string image(const char* n, const std::string& channel) const {
    return cat("const idx_t ih = oh * ", stride[0], " - ", pad[0], " + kh * ", dilation[0], ", iw = ow * ", stride[1],
               " - ", pad[1], " + kw * ", dilation[1], "; inside = ih >= 0 && ih < ", in[0], " && iw >= 0 && iw < ",
               in[1], "; at = ((", n, " * ", channels, " + ", channel, ") * ", in[0], " + ih) * ", in[1], " + iw;");
  }
  std::string result(const char* n, const std::string& channel) const {
    return cat("at = ((", n, " * ", outputs, " + ", channel, ") * ", out[0], " + oh) * ", out[1], " + ow;");
  }
  std::string weight(const std::string& o, const char* c) const {
    return cat("at = ((", o, " * ", in_group, " + ", c, ") * ", kernel[0], " + kh) * ", kernel[1], " + kw;");
  }

  std::string channels, in_group, outputs, out_group, in[2], out[2], kernel[2], stride[2], pad[2], dilation[2];
};

int64_t spatial_numel(const Shape& s) {
  int64_t n = 1;
  for (int i = 2; i < s.rank(); ++i) n *= s[i];
  return n;
}

}  // namespace

Lowered lower_conv(const StepSpec& spec) {
  const auto& attrs = freight::attrs<ConvAttrs>(*spec.node);
  const Op op = spec.node->op;
  const Shape& x = (op == Op::conv_grad_input ? spec.out[0] : spec.in[0]).type.shape;   // (N, C, spatial)
  const Shape& w = (op == Op::conv_grad_weight ? spec.out[0] : spec.in[1]).type.shape;  // (O, C/G, kernel)
  const Shape& y =
      op == Op::conv ? spec.out[0].type.shape : (op == Op::conv_grad_input ? spec.in[0] : spec.in[1]).type.shape;
  Product product{
      .batches = attrs.groups, .dtype = spec.out[0].type.dtype, .epilogue = attrs.epilogue, .purpose = name(op)};
  const int64_t taps = spatial_numel(w), out_group = w[0] / attrs.groups, in_group = w[1];
  if (op == Op::conv) {
    product.m = y[0] * spatial_numel(y), product.n = out_group, product.k = in_group * taps;
  } else if (op == Op::conv_grad_input) {
    product.m = x[0] * spatial_numel(x), product.n = in_group, product.k = out_group * taps;
  } else {
    product.m = out_group, product.n = in_group * taps, product.k = y[0] * spatial_numel(y);
    product.a = 1, product.b = 0;
  }
  GemmText gemm(spec, product);
  const ConvNumbers c(gemm.text, attrs, x, w, y);
  const auto image_of = [&](const char* number) { return ConvNumbers::split(number, "n", "oh", "ow", c.out); };
  const auto taps_of = [&](const char* number, const char* rest) {
    return ConvNumbers::split(number, rest, "kh", "kw", c.kernel);
  };
  const std::string channel = cat("z * ", c.in_group, " + ch"), filter = cat("(z * ", c.out_group, " + j)");
  std::string a, b, result;
  if (op == Op::conv) {  // i = (n, oh, ow), p = (ch, kh, kw), j = filter
    a = cat(image_of("i"), taps_of("p", "ch"), c.image("n", channel));
    b = cat(taps_of("p", "ch"), c.weight(filter, "ch"));
    result = cat(image_of("i"), c.result("n", filter), " column = ", filter, ";");
  } else if (op == Op::conv_grad_input) {  // i = (n, ih, iw), p = (o, kh, kw), j = ch
    const std::string pixel = ConvNumbers::split("i", "n", "ih", "iw", c.in), o = cat("(z * ", c.out_group, " + o)");
    a = cat(pixel, taps_of("p", "o"), "const idx_t sh = ih + ", c.pad[0], " - kh * ", c.dilation[0], ", sw = iw + ",
            c.pad[1], " - kw * ", c.dilation[1], ", oh = sh / ", c.stride[0], ", ow = sw / ", c.stride[1],
            "; inside = sh >= 0 && sw >= 0 && oh * ", c.stride[0], " == sh && ow * ", c.stride[1], " == sw && oh < ",
            c.out[0], " && ow < ", c.out[1], "; ", c.result("n", o));
    b = cat(taps_of("p", "o"), c.weight(o, "j"));
    result = cat(pixel, "at = ((n * ", c.channels, " + z * ", c.in_group, " + j) * ", c.in[0], " + ih) * ", c.in[1],
                 " + iw;");
  } else {  // Y is dw: i = filter, j = (ch, kh, kw), p = (n, oh, ow); A is dy, B is x
    a = cat(image_of("p"), c.result("n", cat("(z * ", c.out_group, " + i)")));
    b = cat(image_of("p"), taps_of("j", "ch"), c.image("n", channel));
    result = cat(taps_of("j", "ch"), c.weight(cat("(z * ", c.out_group, " + i)"), "ch"));
  }
  return gemm.finish(a, b, result, largest_span(spec));
}

}  // namespace freight::gpu
