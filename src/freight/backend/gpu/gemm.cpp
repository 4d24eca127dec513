// Products of matrices by tiles in local memory, in one text: matmul with any strides, and the convolution and its two
// gradients, whose operands are gathered from the image as they are loaded. A group of 64 work-items makes a tile of
// Y = A B: they lie along its wide side, and each makes a few elements across it. The address of an operand's element
// is a sum of what its two coordinates say, each worked out once for a tile or a step along the sum. A long sum for few
// results is cut into parts that a second kernel adds.
#include <algorithm>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/pattern_kernels.h"
#include "freight/backend/gpu/scalar.h"
#include "freight/base/error.h"

namespace freight::gpu {

namespace {

constexpr int64_t kLanes = 64, kDepth = 16;  // of a tile's step along the sum
constexpr int64_t kManyTiles = 64, kMinPart = 512, kMaxParts = 64;

// The product: per batch Y (M, N) = A (M, K) B (K, N). Axis number i of the batch is z{i} in the text.
struct Product {
  Shape batches;
  int64_t m = 0, n = 0, k = 0;
  Epilogue epilogue;
  const char* purpose = "";
  bool subtracted = false;  // from the residual
};

// Coordinate `e` adds this to an element's address, and for an image to its place. An expression of `e` alone is put
// where it is needed; what takes lines to prepare is worked out beforehand and kept.
struct Side {
  std::string prepare, at, h = {}, w = {};
};
// An operand, an input of the step: its batch begins at `base`; its coordinates along the result (i or j) and along the
// sum (p). `place`: lines that, from the sums `h` and `w`, set `inside` to 0 for padding and may amend `at`.
struct Gathered {
  size_t input;
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
  GemmText(KernelText& text, const StepSpec& spec, const Product& product) : text_(text), spec_(spec), p_(product) {
    const auto tile = [](int64_t extent) -> int64_t { return extent <= 4 ? 4 : extent <= 8 ? 8 : 16; };
    const int64_t of_columns = padded(p_.n, kLanes) * padded(p_.m, tile(p_.m));
    columns_ = of_columns <= padded(p_.m, kLanes) * padded(p_.n, tile(p_.n));
    wide_ = columns_ ? p_.n : p_.m;
    narrow_ = columns_ ? p_.m : p_.n;
    across_ = tile(narrow_);
    tiles_wide_ = ceil_div(wide_, kLanes);
    tiles_narrow_ = ceil_div(narrow_, across_);
    tiles_ = p_.batches.numel() * tiles_wide_ * tiles_narrow_;
    const bool plain = !p_.epilogue.bias && !p_.epilogue.residual && !p_.epilogue.relu;
    if (plain && tiles_ < kManyTiles) {
      parts_ = std::clamp<int64_t>(std::min(p_.k / kMinPart, kManyTiles / std::max<int64_t>(tiles_, 1)), 1, kMaxParts);
    }
    acc_ = value_type(spec.out[0].type.dtype);
  }

  Lowered finish(const Gathered& a, const Gathered& b, const Result& y) {
    const Loaded of_a{a, text_.in(spec_, a.input), columns_ ? "thin" : "wide"},
        of_b{b, text_.in(spec_, b.input), columns_ ? "wide" : "thin"};
    const Loaded &wide = columns_ ? of_b : of_a, &narrow = columns_ ? of_a : of_b;
    begin();
    for (const Loaded* l : {&wide, &narrow}) text_.line("const idx_t ", l->name, "_base = ", l->operand.base, ";");
    text_.line("LOCAL ", acc_, " wide[", kDepth, "][", kLanes, "];");
    text_.line("LOCAL ", acc_, " thin[", kDepth, "][", across_, "];");
    per_lane(wide.operand.side, "wide", "e_wide");
    table(narrow.operand.side, "thin_side", across_, "e_thin");
    for (const Loaded* l : {&wide, &narrow}) table(l->operand.depth, cat(l->name, "_depth"), kDepth, "first");
    text_.line("BARRIER;");
    for (int64_t u = 0; u < across_; ++u) text_.line(acc_, " c", u, " = 0;");
    text_.line("for (idx_t step = first; step < after; step += ", kDepth, ") {");
    text_.line("for (int q = 0; q < ", kDepth, "; ++q) {");
    text_.line("const idx_t p = step + q;");
    load(wide, cat("e_wide < ", extent_wide_), "lane", true);
    text_.line("}");
    // Lanes walk along the sum first, as rows times columns lie.
    text_.line("for (int t = lane; t < ", kDepth * across_, "; t += ", kLanes, ") {");
    text_.line("const int q = t % ", kDepth, ", u = t / ", kDepth, ";");
    text_.line("const idx_t p = step + q;");
    load(narrow, cat("e_thin + u < ", extent_narrow_), "u", false);
    text_.line("}");
    text_.line("BARRIER;");
    for (const Loaded* l : {&wide, &narrow}) {
      fill(l->operand.depth, cat(l->name, "_depth"), kDepth, cat("step + ", kDepth));
    }
    text_.line("\n#pragma unroll");
    text_.line("for (int q = 0; q < ", kDepth, "; ++q) {");
    text_.line("const ", acc_, " w = wide[q][lane];");
    for (int64_t u = 0; u < across_; ++u) text_.line("c", u, " += w * thin[q][", u, "];");
    text_.line("}");
    text_.line("BARRIER;");
    text_.line("}");
    store(y);

    Lowered lowered;
    lowered.name = p_.purpose;
    // Tiles reach beyond the extents, and a step along the sum beyond its end.
    const int64_t results = spec_.out[0].type.numel(),
                  reach = std::max({p_.m, p_.n, 2 * padded(p_.k, kDepth)}) + kLanes,
                  largest = std::max({largest_span(spec_), parts_ * results, reach});
    if (results == 0) return lowered;
    lowered.launches.push_back(text_.finish(p_.purpose, largest, tiles_ * parts_, kLanes));
    if (parts_ > 1) {
      lowered.scratch_bytes = static_cast<size_t>(parts_ * results) * size_of(wide_type());
      lowered.launches.push_back(sum_of_parts());
    }
    return lowered;
  }

 private:
  struct Loaded {
    const Gathered& operand;
    Elements elements;
    std::string name;  // of its tile
  };
  static int64_t padded(int64_t extent, int64_t unit) { return ceil_div(extent, unit) * unit; }
  DType wide_type() const { return freight::wide(spec_.out[0].type.dtype); }

  // Which tile this group makes: from (e_wide, e_thin) on, of batch (z0, z1 ..), over [first, after) of the sum.
  void begin() {
    extent_wide_ = text_.number(wide_), extent_narrow_ = text_.number(narrow_);
    const std::string k = text_.number(p_.k), length = text_.number(padded(ceil_div(p_.k, parts_), kDepth));
    text_.line("const int lane = LANE;");
    text_.line("const idx_t group = GROUP;");
    text_.line(text_.split("group", tiles_wide_, "r0", "tile_wide"),
               text_.split("r0", tiles_narrow_, "r1", "tile_thin"));
    text_.line("const idx_t e_wide = tile_wide * ", kLanes, " + lane, e_thin = tile_thin * ", across_, ";");
    std::string batch = "batch";
    text_.line(text_.split("r1", parts_, batch, "part"));
    for (int i = p_.batches.rank(); --i > 0; batch = cat("before", i)) {
      text_.line(text_.split(batch, p_.batches[i], cat("before", i), cat("z", i)));
    }
    text_.line("const idx_t z0 = ", batch, ";");
    text_.line("const idx_t first = part * ", length, ", after = first + ", length, " < ", k, " ? first + ", length,
               " : ", k, ";");
  }

  // Statements that work out the shares of coordinate `e` of an address: NAME_at, NAME_h, NAME_w; `slot`: of a table.
  static std::string shares(const Side& side, const std::string& name, const std::string& e, const char* slot = "") {
    const auto set = [&](const char* which, const std::string& value) {
      return value.empty() ? "" : cat(name, which, slot, " = ", value, "; ");
    };
    return cat("{ const idx_t e = ", e, "; ", side.prepare, set("_at", side.at), set("_h", side.h), set("_w", side.w),
               "}");
  }
  // A lane's own.
  void per_lane(const Side& side, const std::string& name, const char* e) {
    text_.line("idx_t ", name, "_at, ", name, "_h = 0, ", name, "_w = 0;");
    text_.line(shares(side, name, e));
  }
  // Those of `count` neighbors from `start` on, where they take lines to prepare.
  void table(const Side& side, const std::string& name, int64_t count, const std::string& start) {
    if (side.prepare.empty()) return;
    const std::string place = side.h.empty() ? "" : cat(", ", name, "_h[", count, "], ", name, "_w[", count, "]");
    text_.line("LOCAL idx_t ", name, "_at[", count, "]", place, ";");
    fill(side, name, count, start);
  }
  void fill(const Side& side, const std::string& name, int64_t count, const std::string& start) {
    if (!side.prepare.empty()) text_.line("if (lane < ", count, ") ", shares(side, name, start + " + lane", "[lane]"));
  }

  // Sets element [q][u] of a tile, number p of the sum. Without branches: what lies outside reads the operand's first
  // element and is then 0. `own`: each lane has the share of its own u.
  void load(const Loaded& l, const std::string& within, const char* u, bool own) {
    const Gathered& o = l.operand;
    const std::string depth = l.name + "_depth", side = own ? l.name : l.name + "_side",
                      slot = own ? "" : cat("[", u, "]");
    const bool kept = own || !o.side.prepare.empty();
    text_.line("idx_t at = ", l.name, "_base;");
    text_.line(o.depth.prepare.empty() ? cat("{ const idx_t e = p; at += ", o.depth.at, "; }")
                                       : cat("at += ", depth, "_at[q];"));
    text_.line(kept ? cat("at += ", side, "_at", slot, ";")
                    : cat("{ const idx_t e = e_thin + ", u, "; at += ", o.side.at, "; }"));
    text_.line("int inside = (", within, ") & (p < after);");
    if (!o.place.empty()) {
      const auto sum = [&](const char* axis) {
        return cat(axis, " = ", side, "_", axis, slot, " + ", depth, "_", axis, "[q]");
      };
      text_.line("const idx_t ", sum("h"), ", ", sum("w"), "; ", o.place);
    }
    text_.line("const ", acc_, " value = ", l.elements.load("(inside ? at : 0)"), ";");
    text_.line(l.name, "[q][", u, "] = inside ? value : 0;");
  }

  void store(const Result& y) {
    const Side &along = columns_ ? y.column : y.row, &across = columns_ ? y.row : y.column;
    const Epilogue& e = p_.epilogue;
    const Elements bias = e.bias ? text_.in(spec_, 2) : Elements{},
                   residual = e.residual ? text_.in(spec_, e.bias ? 3 : 2) : Elements{},
                   to = parts_ > 1 ? text_.scratch(spec_, wide_type()) : text_.out(spec_, 0);
    per_lane(along, "y", "e_wide");
    text_.line("y_at += ", y.base, parts_ > 1 ? cat(" + part * ", text_.number(spec_.out[0].type.numel())) : "", ";");
    text_.line("if (e_wide >= ", extent_wide_, ") return;");
    for (int64_t u = 0; u < across_; ++u) {
      text_.line("if (e_thin + ", u, " < ", extent_narrow_, ") {");
      text_.line("const idx_t e = e_thin + ", u, "; ", across.prepare, "const idx_t at = y_at + ", across.at, ";");
      text_.line(acc_, " r = c", u, ";");
      if (e.bias) text_.line("{ const idx_t j = ", columns_ ? "e_wide" : "e", "; r += ", bias.load(y.bias), "; }");
      if (e.residual) text_.line("r = ", residual.load("at"), p_.subtracted ? " - r;" : " + r;");
      if (e.relu) text_.line("r = ", scalar_expression(Op::relu, to.dtype, {"r"}), ";");
      text_.line(to.store("at", "r"));
      text_.line("}");
    }
  }

  Launch sum_of_parts() const {
    const int64_t results = spec_.out[0].type.numel();
    KernelText sum;
    const Elements from = sum.scratch(spec_, wide_type()), to = sum.out(spec_, 0);
    sum.begin_elements(results);
    const std::string n = sum.number(results), parts = sum.number(parts_);
    sum.line(acc_, " r = 0;");
    sum.line("for (idx_t q = 0; q < ", parts, "; ++q) r += ", from.load(cat("q * ", n, " + e")), ";");
    sum.line(to.store("e", "r"));
    return sum.finish_elements("sum_parts", parts_ * results);
  }

  KernelText& text_;
  const StepSpec& spec_;
  Product p_;
  const char* acc_;
  bool columns_;  // the wide side is that of the columns
  int64_t wide_, narrow_, across_, tiles_wide_, tiles_narrow_, tiles_, parts_ = 1;
  std::string extent_wide_, extent_narrow_;
};

// A convolution seen as one with two spatial axes, as numbers of a kernel.
struct ConvNumbers {
  using Pair = std::array<int64_t, 2>;
  KernelText& text;
  const ConvAttrs& a;
  const Shape &x, &w, &y;
  Pair in = two_axes(x, 2, 1), out = two_axes(y, 2, 1), kernel = two_axes(w, 2, 1);
  Pair stride = two_axes(a.stride, 0, 1), pad = two_axes(a.pad_low, 0, 0), dilation = two_axes(a.dilation, 0, 1);
  int64_t in_plane = in[0] * in[1], out_plane = out[0] * out[1], taps = kernel[0] * kernel[1];
  int64_t in_group = w[1], out_group = w[0] / a.groups;

  std::string number(int64_t n) const { return text.number(n); }

  // Pixels of results e = (n, oh, ow), and taps e = (channel, kh, kw), as places of the image x that they meet.
  Side image_of_pixel() const {
    return {cat(split(out), "const idx_t h = c0 * ", number(stride[0]), " - ", number(pad[0]), ", w = c1 * ",
                number(stride[1]), " - ", number(pad[1]), "; "),
            cat("(c2 * ", number(x[1] * in[0]), " + h) * ", number(in[1]), " + w"), "h", "w"};
  }
  Side image_of_tap() const {
    return {cat(split(kernel), "const idx_t h = c0 * ", number(dilation[0]), ", w = c1 * ", number(dilation[1]), "; "),
            cat("(c2 * ", number(in[0]), " + h) * ", number(in[1]), " + w"), "h", "w"};
  }
  // The unsigned type that holds all extents: what lies before the image is then beyond its end, too.
  static const char* unsigned_of(const Pair& extents) {
    return std::max(extents[0], extents[1]) > INT32_MAX ? "(u64)" : "(uint)";
  }
  std::string inside_image() const {
    const char* to = unsigned_of(in);
    return cat("inside &= (", to, "h < ", to, number(in[0]), ") & (", to, "w < ", to, number(in[1]), ");");
  }

  // Pixels of the image e = (n, ih, iw), and taps e = (filter, kh, kw), as places of the result that they meet, times
  // the stride.
  Side result_of_pixel() const {
    return {split(in), cat("c2 * ", number(w[0] * out_plane)), cat("c0 + ", number(pad[0])),
            cat("c1 + ", number(pad[1]))};
  }
  Side result_of_tap() const {
    return {split(kernel), cat("c2 * ", number(out_plane)), cat("-c0 * ", number(dilation[0])),
            cat("-c1 * ", number(dilation[1]))};
  }
  // Strides stand in the text: a compiler divides by them without a division.
  std::string inside_result() const {
    const std::string rows = number(out[0]), columns = number(out[1]);
    const char* to = unsigned_of(out);
    return cat("const idx_t oh = h / ", stride[0], ", ow = w / ", stride[1], "; inside &= (oh * ", stride[0],
               " == h) & (ow * ", stride[1], " == w) & (", to, "oh < ", to, rows, ") & (", to, "ow < ", to, columns,
               "); at += oh * ", columns, " + ow;");
  }

  // e = (n, pixel) of a tensor with `depth` channels of `plane` pixels, (filter, tap) of w.
  Side pixel(int64_t plane, int64_t depth) const {
    return {cat("const idx_t n = ", text.quotient("e", plane), "; "), cat("e + n * ", number(plane * (depth - 1)))};
  }
  Side times(int64_t elements) const { return {"", cat("e * ", number(elements))}; }

  // Declares c1, c0 and c2: the coordinates of e, fastest first.
  std::string split(const Pair& extents) const {
    return text.split("e", extents[1], "t1", "c1") + text.split("t1", extents[0], "c2", "c0");
  }
};

}  // namespace

namespace {

Lowered product(const StepSpec& spec, bool subtracted) {
  const auto& attrs = freight::attrs<MatmulAttrs>(*spec.node);
  const Shape& sy = spec.out[0].type.shape;  // (..., M, N)
  const Shape& sa = spec.in[0].type.shape;   // (..., M, K), transposed (..., K, M)
  const int rank = sy.rank(), last = rank - 1, before = rank - 2;
  KernelText text;
  GemmText gemm(text, spec,
                {.batches = Shape(sy.begin(), sy.begin() + before),
                 .m = sy[before],
                 .n = sy[last],
                 .k = sa[attrs.trans_a ? before : last],
                 .epilogue = attrs.epilogue,
                 .purpose = "matmul",
                 .subtracted = subtracted});
  const auto base = [&](const Operand& o) {
    std::string sum = "0";
    for (int i = 0; i < before; ++i) sum += cat(" + z", i, " * ", text.number(o.layout.strides[i]));
    return sum;
  };
  const auto by = [&](const Operand& o, int axis) {
    return Side{"", cat("e * ", text.number(o.layout.strides[axis]))};
  };
  const Operand &a = spec.in[0], &b = spec.in[1], &y = spec.out[0];
  return gemm.finish({0, base(a), by(a, attrs.trans_a ? last : before), by(a, attrs.trans_a ? before : last)},
                     {1, base(b), by(b, attrs.trans_b ? before : last), by(b, attrs.trans_b ? last : before)},
                     {base(y), by(y, before), by(y, last), "j"});
}

}  // namespace

Lowered lower_matmul(const StepSpec& spec) { return product(spec, false); }
Lowered lower_subtracted_matmul(const StepSpec& spec) { return product(spec, true); }

Lowered lower_epilogue(const StepSpec& spec) {
  if (pattern_of(*spec.node).product) return lower_rest_of_pattern(spec);
  const bool conv = spec.node->op == Op::conv;
  const Epilogue& epilogue = conv ? attrs<ConvAttrs>(*spec.node).epilogue : attrs<MatmulAttrs>(*spec.node).epilogue;
  const Shape& shape = spec.out[0].type.shape;
  const int64_t columns = std::max<int64_t>(conv ? shape[1] : shape.back(), 1);
  KernelText text;
  const Elements y = text.out(spec, 0);
  text.begin_elements(shape.numel());
  text.line(value_type(y.dtype), " r = ", y.load("e"), ";");
  if (epilogue.bias) text.line(text.split("e", columns, "row", "c"), "r += ", text.in(spec, 2).load("c"), ";");
  if (epilogue.residual) text.line("r += ", text.in(spec, epilogue.bias ? 3 : 2).load("e"), ";");
  if (epilogue.relu) text.line("r = ", scalar_expression(Op::relu, y.dtype, {"r"}), ";");
  text.line(y.store("e", "r"));
  if (!epilogue.bias && !epilogue.residual && !epilogue.relu) return {};
  return text.finish_step("epilogue", 0);
}

Lowered lower_conv(const StepSpec& spec) {
  const auto& attrs = freight::attrs<ConvAttrs>(*spec.node);
  const Op op = spec.node->op;
  const Shape& x = (op == Op::conv_grad_input ? spec.out[0] : spec.in[0]).type.shape;   // (N, C, spatial)
  const Shape& w = (op == Op::conv_grad_weight ? spec.out[0] : spec.in[1]).type.shape;  // (O, C/G, kernel)
  const Shape& y =
      op == Op::conv ? spec.out[0].type.shape : (op == Op::conv_grad_input ? spec.in[0] : spec.in[1]).type.shape;
  KernelText text;
  const ConvNumbers c{text, attrs, x, w, y};
  const int64_t filter = c.in_group * c.taps;
  Product product{.batches = {attrs.groups}, .epilogue = attrs.epilogue, .purpose = name(op)};
  // Where the group's part of an operand begins.
  const auto of_group = [&](int64_t elements) { return cat("z0 * ", text.number(elements)); };
  const std::string of_x = of_group(c.in_group * c.in_plane), of_w = of_group(c.out_group * filter),
                    of_y = of_group(c.out_group * c.out_plane);
  if (op == Op::conv) {  // i = (n, oh, ow), p = (channel, kh, kw), j = filter
    product.m = y[0] * c.out_plane, product.n = c.out_group, product.k = filter;
    return GemmText(text, spec, product)
        .finish({0, of_x, c.image_of_pixel(), c.image_of_tap(), c.inside_image()},
                {1, of_w, c.times(filter), c.times(1)},
                {of_y, c.pixel(c.out_plane, w[0]), c.times(c.out_plane), cat(of_group(c.out_group), " + j")});
  }
  if (op == Op::conv_grad_input) {  // i = (n, ih, iw), p = (filter, kh, kw), j = channel
    product.m = x[0] * c.in_plane, product.n = c.in_group, product.k = c.out_group * c.taps;
    return GemmText(text, spec, product)
        .finish({0, of_y, c.result_of_pixel(), c.result_of_tap(), c.inside_result()},
                {1, of_w, c.times(c.taps), c.pixel(c.taps, c.in_group)},
                {of_x, c.pixel(c.in_plane, x[1]), c.times(c.in_plane), ""});
  }
  // Y is dw: i = filter, j = (channel, kh, kw), p = (n, oh, ow); A is dy, B is x.
  product.m = c.out_group, product.n = filter, product.k = y[0] * c.out_plane;
  return GemmText(text, spec, product)
      .finish({1, of_y, c.times(c.out_plane), c.pixel(c.out_plane, w[0])},
              {0, of_x, c.image_of_tap(), c.image_of_pixel(), c.inside_image()},
              {of_w, c.times(filter), c.times(1), ""});
}

}  // namespace freight::gpu
