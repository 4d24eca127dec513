// Products of matrices by tiles in local memory, in one text: matmul with any strides, and the convolution and its two
// gradients, whose operands are gathered from the image as they are loaded. A group of 64 work-items makes a tile of
// Y = A B: they lie along its wide side, and each makes a few elements across it. The address of an operand's element
// is a sum of what its two coordinates say, each worked out once for a tile or a step along the sum. A long sum for few
// results is cut into parts that a second kernel adds.
#include <algorithm>

#include "freight/backend/gpu/dialect.h"
#include "freight/backend/gpu/joint.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/scalar.h"
#include "freight/base/error.h"

namespace freight::gpu {

namespace {

constexpr int64_t kLanes = 64, kDepth = 16;  // of a tile's step along the sum
constexpr int64_t kManyTiles = 64, kMinPart = 512, kMaxParts = 64;

// What is multiplied: per batch Y (M, N) = A (M, K) B (K, N).
struct Product {
  int64_t batches = 1, m = 0, n = 0, k = 0;
  size_t a = 0, b = 1;  // which inputs of the step they are
  Epilogue epilogue;
  const char* purpose = "";
};

// What coordinate `e` adds to an element's address, and for an image to its place. An expression of `e` alone is put
// where it is needed; what takes lines to prepare is worked out beforehand and kept.
struct Side {
  std::string prepare, at, h = {}, w = {};
};
// An operand: its batch z begins at `base`; its coordinates along the result (i or j) and along the sum (p). `place`:
// lines that, from the sums `h` and `w`, set `inside` to 0 for padding and may amend `at`.
struct Gathered {
  std::string base;
  Side side, depth;
  std::string place = {};
};
// Where results go: by i, by j; `column`, an expression of j, is the element of the bias.
struct Result {
  std::string base;
  Side row, column;
  std::string bias;
};

class GemmText {
 public:
  GemmText(const StepSpec& spec, const Product& product) : spec_(spec), p_(product) {
    const auto tile = [](int64_t extent) -> int64_t { return extent <= 4 ? 4 : extent <= 8 ? 8 : 16; };
    const auto padded = [](int64_t extent, int64_t unit) {
      return static_cast<int64_t>(ceil_div(extent, unit)) * unit;
    };
    const int64_t of_columns = padded(p_.n, kLanes) * padded(p_.m, tile(p_.m));
    columns_ = of_columns <= padded(p_.m, kLanes) * padded(p_.n, tile(p_.n));
    wide_ = columns_ ? p_.n : p_.m;
    narrow_ = columns_ ? p_.m : p_.n;
    across_ = tile(narrow_);
    tiles_wide_ = static_cast<int64_t>(ceil_div(wide_, kLanes));
    tiles_narrow_ = static_cast<int64_t>(ceil_div(narrow_, across_));
    const int64_t tiles = p_.batches * tiles_wide_ * tiles_narrow_;
    const bool plain = !p_.epilogue.bias && !p_.epilogue.residual && !p_.epilogue.relu;
    if (plain && tiles < kManyTiles) {
      parts_ = std::clamp<int64_t>(std::min(p_.k / kMinPart, kManyTiles / std::max<int64_t>(tiles, 1)), 1, kMaxParts);
    }
    acc_ = value_type(spec.out[0].type.dtype);
  }

  Lowered finish(const Gathered& a, const Gathered& b, const Result& y, int64_t largest) {
    const std::string pa = text.operand(static_cast<int>(p_.a), dtype(p_.a), false),
                      pb = text.operand(static_cast<int>(p_.b), dtype(p_.b), false);
    const Loaded wide = columns_ ? Loaded{b, pb, dtype(p_.b), "wide"} : Loaded{a, pa, dtype(p_.a), "wide"};
    const Loaded narrow = columns_ ? Loaded{a, pa, dtype(p_.a), "thin"} : Loaded{b, pb, dtype(p_.b), "thin"};
    begin();
    base(wide);
    base(narrow);
    text.line("LOCAL ", acc_, " wide[", kDepth, "][", kLanes, "];");
    text.line("LOCAL ", acc_, " thin[", kDepth, "][", across_, "];");
    per_lane(wide.operand.side, "wide", "e_wide");
    table(narrow.operand.side, "thin_side", across_, "e_thin");
    for (const Loaded* l : {&wide, &narrow}) table(l->operand.depth, cat(l->name, "_depth"), kDepth, "first");
    text.line("BARRIER;");
    for (int64_t u = 0; u < across_; ++u) text.line(acc_, " c", u, " = 0;");
    text.line("for (idx_t step = first; step < after; step += ", kDepth, ") {");
    text.line("for (int q = 0; q < ", kDepth, "; ++q) {");
    text.line("const idx_t p = step + q;");
    load(wide, cat("e_wide < ", extent_wide_), "p", "q", "lane", true);
    text.line("}");
    // Lanes walk along the sum first, as rows times columns lie.
    text.line("for (int t = lane; t < ", kDepth * across_, "; t += ", kLanes, ") {");
    text.line("const int q = t % ", kDepth, ", u = t / ", kDepth, ";");
    text.line("const idx_t p = step + q;");
    load(narrow, cat("e_thin + u < ", extent_narrow_), "p", "q", "u", false);
    text.line("}");
    text.line("BARRIER;");
    for (const Loaded* l : {&wide, &narrow}) {
      fill(l->operand.depth, cat(l->name, "_depth"), kDepth, cat("step + ", kDepth));
    }
    text.line("\n#pragma unroll");
    text.line("for (int q = 0; q < ", kDepth, "; ++q) {");
    text.line("const ", acc_, " w = wide[q][lane];");
    for (int64_t u = 0; u < across_; ++u) text.line("c", u, " += w * thin[q][", u, "];");
    text.line("}");
    text.line("BARRIER;");
    text.line("}");
    store(y);

    Lowered lowered;
    lowered.name = p_.purpose;
    const int64_t results = spec_.out[0].type.numel();
    if (results == 0) return lowered;
    if (parts_ > 1) lowered.scratch_bytes = static_cast<size_t>(parts_ * results) * size_of(wide_type());
    const auto groups = static_cast<size_t>(p_.batches * parts_ * tiles_wide_ * tiles_narrow_);
    lowered.launches.push_back(text.finish(p_.purpose, std::max(largest, parts_ * results), groups, kLanes));
    if (parts_ > 1) lowered.launches.push_back(sum_of_parts());
    return lowered;
  }

  KernelText text;

 private:
  struct Loaded {
    const Gathered& operand;
    std::string pointer;
    DType dtype;
    std::string name;  // of its tile
  };
  DType dtype(size_t input) const { return spec_.in[input].type.dtype; }
  DType wide_type() const { return freight::wide(spec_.out[0].type.dtype); }

  // Which tile this group makes: from (e_wide, e_thin) on, of batch z, over [first, after) of the sum.
  void begin() {
    extent_wide_ = text.number(wide_), extent_narrow_ = text.number(narrow_);
    const std::string k = text.number(p_.k);
    const int64_t part = static_cast<int64_t>(ceil_div(static_cast<int64_t>(ceil_div(p_.k, parts_)), kDepth)) * kDepth;
    const std::string length = text.number(part);
    text.line("const int lane = LANE;");
    text.line("const idx_t group = GROUP;");
    text.line("const idx_t r0 = ", text.quotient("group", tiles_wide_), ", r1 = ", text.quotient("r0", tiles_narrow_),
              ", z = ", text.quotient("r1", parts_), ";");
    text.line("const idx_t e_wide = (group - r0 * ", text.number(tiles_wide_), ") * ", kLanes, " + lane;");
    text.line("const idx_t e_thin = (r0 - r1 * ", text.number(tiles_narrow_), ") * ", across_, ";");
    text.line("const idx_t part = r1 - z * ", text.number(parts_), ", first = part * ", length, ", after = first + ",
              length, " < ", k, " ? first + ", length, " : ", k, ";");
  }
  void base(const Loaded& l) { text.line("const idx_t ", l.name, "_base = ", l.operand.base, ";"); }

  // A lane's own share of its address: NAME_at, NAME_h, NAME_w.
  void per_lane(const Side& side, const std::string& name, const char* e) {
    text.line("idx_t ", name, "_at, ", name, "_h = 0, ", name, "_w = 0;");
    text.line("{ const idx_t e = ", e, "; ", side.prepare, name, "_at = ", side.at, ";",
              side.h.empty() ? "" : cat(" ", name, "_h = ", side.h, "; ", name, "_w = ", side.w, ";"), " }");
  }
  // The shares of `count` neighbours from `start` on, where they take lines to prepare.
  void table(const Side& side, const std::string& name, int64_t count, const std::string& start) {
    if (side.prepare.empty()) return;
    text.line("LOCAL idx_t ", name, "_at[", count, "]", side.h.empty() ? "" : cat(", ", name, "_h[", count, "], "),
              side.h.empty() ? "" : cat(name, "_w[", count, "]"), ";");
    fill(side, name, count, start);
  }
  void fill(const Side& side, const std::string& name, int64_t count, const std::string& start) {
    if (side.prepare.empty()) return;
    text.line(
        "if (lane < ", count, ") { const idx_t e = ", start, " + lane; ", side.prepare, name, "_at[lane] = ", side.at,
        ";", side.h.empty() ? "" : cat(" ", name, "_h[lane] = ", side.h, "; ", name, "_w[lane] = ", side.w, ";"), " }");
  }

  // Sets an element of a tile. Without branches: what lies outside reads the operand's first element and is then 0.
  void load(const Loaded& l, const std::string& within, const char* p, const char* q, const char* u, bool own) {
    const Gathered& o = l.operand;
    const std::string depth = l.name + "_depth", side = own ? l.name : l.name + "_side",
                      at = own ? "" : cat("[", u, "]");
    text.line("idx_t at = ", l.name, "_base;");
    if (o.depth.prepare.empty()) {
      text.line("{ const idx_t e = ", p, "; at += ", o.depth.at, "; }");
    } else {
      text.line("at += ", depth, "_at[", q, "];");
    }
    if (own || !o.side.prepare.empty()) {
      text.line("at += ", side, "_at", at, ";");
    } else {
      text.line("{ const idx_t e = e_thin + ", u, "; at += ", o.side.at, "; }");
    }
    text.line("int inside = (", within, ") & (p < after);");
    if (!o.place.empty()) {
      text.line("const idx_t h = ", side, "_h", at, " + ", depth, "_h[", q, "], w = ", side, "_w", at, " + ", depth,
                "_w[", q, "];");
      text.line(o.place);
    }
    text.line("const ", acc_, " value = ", load_call(l.dtype, l.pointer, "(inside ? at : 0)"), ";");
    text.line(l.name, "[", q, "][", u, "] = inside ? value : 0;");
  }

  void store(const Result& y) {
    const DType out = spec_.out[0].type.dtype;
    const Side &along = columns_ ? y.column : y.row, &across = columns_ ? y.row : y.column;
    const int64_t results = spec_.out[0].type.numel();
    const Epilogue& e = p_.epilogue;
    size_t extra = 2;
    const size_t bias = e.bias ? extra++ : 0, residual = e.residual ? extra++ : 0;
    const std::string pbias = e.bias ? text.operand(static_cast<int>(bias), dtype(bias), false) : "",
                      presidual = e.residual ? text.operand(static_cast<int>(residual), dtype(residual), false) : "";
    const int scratch = static_cast<int>(spec_.in.size() + spec_.out.size());
    const std::string to = parts_ > 1 ? text.operand(scratch, wide_type(), true)
                                      : text.operand(static_cast<int>(spec_.in.size()), out, true);
    per_lane(along, "y", "e_wide");
    text.line("y_at += ", y.base, parts_ > 1 ? cat(" + part * ", text.number(results)) : "", ";");
    text.line("if (e_wide >= ", extent_wide_, ") return;");
    for (int64_t u = 0; u < across_; ++u) {
      text.line("if (e_thin + ", u, " < ", extent_narrow_, ") {");
      text.line("const idx_t e = e_thin + ", u, "; ", across.prepare, "const idx_t at = y_at + ", across.at, ";");
      text.line(acc_, " r = c", u, ";");
      if (e.bias) {
        text.line("{ const idx_t j = ", columns_ ? "e_wide" : "e", "; r += ", load_call(dtype(bias), pbias, y.bias),
                  "; }");
      }
      if (e.residual) text.line("r += ", load_call(dtype(residual), presidual, "at"), ";");
      if (e.relu) text.line("r = ", scalar_expression(Op::relu, out, {"r"}), ";");
      text.line(parts_ > 1 ? cat(to, "[at] = r") : store_call(out, to, "at", "r"), ";");
      text.line("}");
    }
  }

  Launch sum_of_parts() const {
    const DType out = spec_.out[0].type.dtype;
    const int64_t results = spec_.out[0].type.numel();
    KernelText sum;
    const std::string from = sum.operand(static_cast<int>(spec_.in.size() + 1), wide_type(), false);
    const std::string to = sum.operand(static_cast<int>(spec_.in.size()), out, true);
    const std::string n = sum.number(results), parts = sum.number(parts_);
    sum.line("const idx_t e = ELEMENT;");
    sum.line("if (e >= ", n, ") return;");
    sum.line(acc_, " r = 0;");
    sum.line("for (idx_t q = 0; q < ", parts, "; ++q) r += ", from, "[q * ", n, " + e];");
    sum.line(store_call(out, to, "e", "r"), ";");
    return sum.finish("sum_parts", parts_ * results + kLanes, ceil_div(results, kLanes), kLanes);
  }

  const StepSpec& spec_;
  Product p_;
  const char* acc_;
  bool columns_;  // the wide side is that of the columns
  int64_t wide_, narrow_, across_, tiles_wide_, tiles_narrow_, parts_ = 1;
  std::string extent_wide_, extent_narrow_;
};

}  // namespace

Lowered lower_matmul(const StepSpec& spec) {
  const auto& attrs = freight::attrs<MatmulAttrs>(*spec.node);
  const Shape& sy = spec.out[0].type.shape;  // (..., M, N)
  const Shape& sa = spec.in[0].type.shape;   // (..., M, K), transposed (..., K, M)
  const int rank = sy.rank(), last = rank - 1, before = rank - 2;
  Product product{.m = sy[before],
                  .n = sy[last],
                  .k = sa[attrs.trans_a ? before : last],
                  .epilogue = attrs.epilogue,
                  .purpose = "matmul"};
  for (int i = 0; i < before; ++i) product.batches *= sy[i];
  GemmText gemm(spec, product);
  // Where batch z of an operand begins: batch axes one by one, fastest first.
  const auto base = [&](const Operand& o) {
    std::string sum, rest = "z";
    for (int i = before; i-- > 0;) {
      const std::string stride = gemm.text.number(o.layout.strides[i]);
      const std::string outer = i > 0 ? gemm.text.quotient(rest, sy[i]) : "";
      const std::string place = i > 0 ? cat("(", rest, " - ", outer, " * ", gemm.text.number(sy[i]), ")") : rest;
      sum += cat(sum.empty() ? "" : " + ", place, " * ", stride);
      rest = outer;
    }
    return sum.empty() ? std::string("0") : sum;
  };
  const auto by = [&](const Operand& o, int axis) {
    return Side{"", cat("e * ", gemm.text.number(o.layout.strides[axis]))};
  };
  const Operand &a = spec.in[0], &b = spec.in[1], &y = spec.out[0];
  return gemm.finish({base(a), by(a, attrs.trans_a ? last : before), by(a, attrs.trans_a ? before : last)},
                     {base(b), by(b, attrs.trans_b ? before : last), by(b, attrs.trans_b ? last : before)},
                     {base(y), by(y, before), by(y, last), "j"}, largest_span(spec));
}

Lowered lower_epilogue(const StepSpec& spec) {
  if (product_in(*spec.node)) return lower_rest_of_joint(spec);
  const bool conv = spec.node->op == Op::conv;
  const Epilogue& epilogue = conv ? attrs<ConvAttrs>(*spec.node).epilogue : attrs<MatmulAttrs>(*spec.node).epilogue;
  const Operand& y = spec.out[0];
  const Shape& shape = y.type.shape;
  const int64_t results = y.type.numel(), columns = std::max<int64_t>(conv ? shape[1] : shape.back(), 1);
  const int out = static_cast<int>(spec.in.size());
  KernelText text;
  const std::string py = text.operand(out, y.type.dtype, true);
  text.line("const idx_t e = ELEMENT;");
  text.line("if (e >= ", text.number(results), ") return;");
  text.line(value_type(y.type.dtype), " r = ", load_call(y.type.dtype, py, "e"), ";");
  int extra = 2;
  const auto add = [&](const std::string& index) {
    const DType dtype = spec.in[static_cast<size_t>(extra)].type.dtype;
    text.line("r += ", load_call(dtype, text.operand(extra, dtype, false), index), ";");
    ++extra;
  };
  if (epilogue.bias) add(cat("e - ", text.quotient("e", columns), " * ", text.number(columns)));
  if (epilogue.residual) add("e");
  if (epilogue.relu) text.line("r = ", scalar_expression(Op::relu, y.type.dtype, {"r"}), ";");
  text.line(store_call(y.type.dtype, py, "e", "r"), ";");
  Lowered lowered{.launches = {}, .scratch_bytes = 0, .name = "epilogue"};
  if (extra > 2 || epilogue.relu)
    lowered.launches.push_back(text.finish("epilogue", results + kLanes, ceil_div(results, kLanes), kLanes));
  return lowered;
}

namespace {

int64_t spatial_numel(const Shape& s) {
  int64_t n = 1;
  for (int i = 2; i < s.rank(); ++i) n *= s[i];
  return n;
}

// A convolution with one or two spatial axes, seen as two (a single axis becomes the second), as numbers of a kernel.
class ConvNumbers {
 public:
  ConvNumbers(KernelText& text, const ConvAttrs& a, const Shape& x, const Shape& w, const Shape& y)
      : text_(text), in_plane_(spatial_numel(x)), out_plane_(spatial_numel(y)), taps_(spatial_numel(w)) {
    const int spatial = x.rank() - 2;
    for (int d = 0; d < 2; ++d) {
      const int s = d - (2 - spatial);
      const auto pick = [&](int64_t missing, const auto& of, int shift) { return s < 0 ? missing : of[shift + s]; };
      in_[d] = pick(1, x, 2), out_[d] = pick(1, y, 2), kernel_[d] = pick(1, w, 2);
      stride_[d] = pick(1, a.stride, 0), pad_[d] = pick(0, a.pad_low, 0), dilation_[d] = pick(1, a.dilation, 0);
    }
    in_group_ = x[1] / a.groups, out_group_ = w[0] / a.groups, channels_ = x[1], outputs_ = w[0];
  }

  std::string number(int64_t n) const { return text_.number(n); }
  // z's share of an address: the group's part of `per_group` elements.
  std::string of_group(int64_t per_group) const { return cat("z * ", number(per_group)); }
  std::string bias() const { return cat("z * ", number(out_group_), " + j"); }

  // Pixels of results e = (n, oh, ow), and taps e = (channel, kh, kw), as places of the image x that they meet.
  Side image_of_pixel() const {
    return {cat(split(out_), "const idx_t h = c0 * ", number(stride_[0]), " - ", number(pad_[0]), ", w = c1 * ",
                number(stride_[1]), " - ", number(pad_[1]), "; "),
            cat("(c2 * ", number(channels_ * in_[0]), " + h) * ", number(in_[1]), " + w"), "h", "w"};
  }
  Side image_of_tap() const {
    return {
        cat(split(kernel_), "const idx_t h = c0 * ", number(dilation_[0]), ", w = c1 * ", number(dilation_[1]), "; "),
        cat("(c2 * ", number(in_[0]), " + h) * ", number(in_[1]), " + w"), "h", "w"};
  }
  std::string inside_image() const {
    return cat("inside &= ((uint)h < (uint)", number(in_[0]), ") & ((uint)w < (uint)", number(in_[1]), ");");
  }

  // Pixels of the image e = (n, ih, iw), and taps e = (filter, kh, kw), as places of the result that they meet, times
  // the stride.
  Side result_of_pixel() const {
    return {split(in_), cat("c2 * ", number(outputs_ * out_plane_)), cat("c0 + ", number(pad_[0])),
            cat("c1 + ", number(pad_[1]))};
  }
  Side result_of_tap() const {
    return {split(kernel_), cat("c2 * ", number(out_plane_)), cat("-c0 * ", number(dilation_[0])),
            cat("-c1 * ", number(dilation_[1]))};
  }
  // Strides stand in the text: a compiler divides by them without a division.
  std::string inside_result() const {
    const std::string at = cat("at += oh * ", number(out_[1]), " + ow;");
    const std::string rows = number(out_[0]), columns = number(out_[1]);
    if (stride_[0] == 1 && stride_[1] == 1) {
      return cat("const idx_t oh = h, ow = w; inside &= ((uint)h < (uint)", rows, ") & ((uint)w < (uint)", columns,
                 "); ", at);
    }
    return cat("const idx_t oh = h / ", stride_[0], ", ow = w / ", stride_[1],
               "; inside &= (h >= 0) & (w >= 0) & (oh * ", stride_[0], " == h) & (ow * ", stride_[1], " == w) & (oh < ",
               rows, ") & (ow < ", columns, "); ", at);
  }

  // e = (n, pixel) of a tensor with `channels` of `plane` pixels.
  Side pixel(int64_t plane, int64_t channels) const {
    return {cat("const idx_t n = ", text_.quotient("e", plane), "; "), cat("e + n * ", number(plane * (channels - 1)))};
  }
  Side times(int64_t elements) const { return {"", cat("e * ", number(elements))}; }
  // e = (filter, tap) of w.
  Side tap_of_filter() const {
    return {cat("const idx_t o = ", text_.quotient("e", taps_), "; "),
            cat("e + o * ", number(taps_ * (in_group_ - 1)))};
  }

 private:
  // Declares c1, c0 and c2: the coordinates of e, fastest first.
  std::string split(const int64_t extents[2]) const {
    return cat("const idx_t t1 = ", text_.quotient("e", extents[1]), ", c1 = e - t1 * ", number(extents[1]),
               ", c2 = ", text_.quotient("t1", extents[0]), ", c0 = t1 - c2 * ", number(extents[0]), "; ");
  }

  KernelText& text_;
  int64_t in_plane_, out_plane_, taps_, in_group_, out_group_, channels_, outputs_;
  int64_t in_[2], out_[2], kernel_[2], stride_[2], pad_[2], dilation_[2];
};

}  // namespace

Lowered lower_conv(const StepSpec& spec) {
  const auto& attrs = freight::attrs<ConvAttrs>(*spec.node);
  const Op op = spec.node->op;
  const Shape& x = (op == Op::conv_grad_input ? spec.out[0] : spec.in[0]).type.shape;   // (N, C, spatial)
  const Shape& w = (op == Op::conv_grad_weight ? spec.out[0] : spec.in[1]).type.shape;  // (O, C/G, kernel)
  const Shape& y =
      op == Op::conv ? spec.out[0].type.shape : (op == Op::conv_grad_input ? spec.in[0] : spec.in[1]).type.shape;
  Product product{.batches = attrs.groups, .epilogue = attrs.epilogue, .purpose = name(op)};
  const int64_t taps = spatial_numel(w), out_group = w[0] / attrs.groups, in_group = w[1], filter = in_group * taps;
  const int64_t in_plane = spatial_numel(x), out_plane = spatial_numel(y);
  if (op == Op::conv) {
    product.m = y[0] * out_plane, product.n = out_group, product.k = filter;
  } else if (op == Op::conv_grad_input) {
    product.m = x[0] * in_plane, product.n = in_group, product.k = out_group * taps;
  } else {
    product.m = out_group, product.n = filter, product.k = y[0] * out_plane;
    product.a = 1, product.b = 0;
  }
  GemmText gemm(spec, product);
  const ConvNumbers c(gemm.text, attrs, x, w, y);
  const std::string of_x = c.of_group(in_group * in_plane), of_w = c.of_group(out_group * filter),
                    of_y = c.of_group(out_group * out_plane);
  if (op == Op::conv) {  // i = (n, oh, ow), p = (channel, kh, kw), j = filter
    return gemm.finish({of_x, c.image_of_pixel(), c.image_of_tap(), c.inside_image()},
                       {of_w, c.times(filter), c.times(1)},
                       {of_y, c.pixel(out_plane, w[0]), c.times(out_plane), c.bias()}, largest_span(spec));
  }
  if (op == Op::conv_grad_input) {  // i = (n, ih, iw), p = (filter, kh, kw), j = channel
    return gemm.finish({of_y, c.result_of_pixel(), c.result_of_tap(), c.inside_result()},
                       {of_w, c.times(taps), c.tap_of_filter()}, {of_x, c.pixel(in_plane, x[1]), c.times(in_plane), ""},
                       largest_span(spec));
  }
  // Y is dw: i = filter, j = (channel, kh, kw), p = (n, oh, ow); A is dy, B is x.
  return gemm.finish({of_y, c.times(out_plane), c.pixel(out_plane, w[0])},
                     {of_x, c.image_of_tap(), c.image_of_pixel(), c.inside_image()},
                     {of_w, c.times(filter), c.times(1), ""}, largest_span(spec));
}

}  // namespace freight::gpu
