// Random well-typed graphs, a function of the seed: pointwise ops, views, reductions, contractions, convolutions,
// pools, indexing, composites, several outputs and state updates. Values stay of moderate size (a bound is kept per
// value and tanh inserted where it grows), so that two ways of computing the same graph can be compared.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "freight/base/strings.h"
#include "tests/support/graphs.h"

namespace freight::test {

struct RandomGraphOptions {
  int nodes = 30;             // steps of the generator; some add several nodes
  DType dtype = DType::f64;   // of all floating values
  bool discontinuous = true;  // floor, comparisons, argmax, ...: where rounding may flip a result entirely
  std::vector<int64_t> extents = {1, 2, 3, 4, 5, 7};
  bool states = true;     // otherwise all leaves are inputs
  bool gradients = true;  // of a loss with respect to some leaves, as outputs or optimizer updates
};

struct RandomProgram {
  Graph graph;
  std::vector<Array> inputs, states;
};

class GraphGenerator {
 public:
  GraphGenerator(uint64_t seed, const RandomGraphOptions& options)
      : options_(options), seed_(seed), random_(seed, 1, 5), b_(g_, "fuzz", "") {}

  RandomProgram run() {
    leaves();
    for (int i = 0; i < options_.nodes; ++i) {
      b_.set_location(cat("layer", i / 8, ".", i % 8), "");
      step();
    }
    finish();
    RandomProgram program{std::move(g_), {}, {}};
    program.inputs = std::move(inputs_);
    program.states = std::move(states_);
    return program;
  }

 private:
  uint32_t below(uint32_t n) { return random_.below(n); }
  bool chance(int percent) { return below(100) < static_cast<uint32_t>(percent); }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[below(static_cast<uint32_t>(from.size()))];
  }
  int64_t extent() { return pick(options_.extents); }
  Shape shape(Value v) const { return g_.type(v).shape; }

  double bound(Value v) const { return bounds_[static_cast<size_t>(v.id)]; }
  // Enters a result into the pool; grows too large: through tanh first.
  Value keep(Value v, double bound) {
    if (!(bound < 12)) {
      v = b_.unary(Op::tanh, v);
      bound = 1;
    }
    bounds_.resize(g_.values.size(), 1);
    bounds_[static_cast<size_t>(v.id)] = bound;
    pool_.push_back(v);
    return v;
  }
  // Recent values are picked more often, so that chains grow; old ones still are read again.
  Value any() {
    const auto n = static_cast<uint32_t>(pool_.size());
    return chance(60) ? pool_[n - 1 - below(std::min<uint32_t>(n, 6))] : pool_[below(n)];
  }
  Value any_of_rank(int rank) {
    std::vector<Value> fits;
    for (Value v : pool_) {
      if (shape(v).rank() == rank) fits.push_back(v);
    }
    if (!fits.empty()) return pick(fits);
    Shape s;
    for (int i = 0; i < rank; ++i) s.push_back(extent());
    return leaf(s);
  }
  Value leaf(const Shape& s) {
    const bool state = chance(40) && options_.states;
    const Type t{options_.dtype, s};
    const size_t number = state ? states_.size() : inputs_.size();
    const Value v = b_.one(state ? Op::state : Op::input, LeafAttrs{cat(state ? "s" : "x", number), t}, {});
    (state ? states_ : inputs_).push_back(random_array({t, Fill::unit}, seed_ * 100 + g_.nodes.size()));
    (state ? state_leaves_ : input_leaves_).push_back(v);
    return keep(v, 1);
  }
  Value index_leaf(const Shape& s, int64_t rows) {
    const Type t{chance(50) ? DType::i32 : DType::i64, s};
    inputs_.push_back(random_array({t, Fill::index, rows}, seed_ * 100 + g_.nodes.size()));
    return b_.one(Op::input, LeafAttrs{cat("i", inputs_.size()), t}, {});
  }
  void leaves() {
    const int64_t n = extent(), c = extent(), h = 3 + below(6), w = 3 + below(6);
    for (const Shape& s : {Shape{n, c}, Shape{n, c, h, w}, Shape{c}, Shape{n, c}, Shape{n, c, h}, Shape{}}) {
      if (chance(75)) leaf(s);
    }
    leaf({n, c});
  }

  // A second operand for v: of the same shape, or a smaller one expanded.
  Value partner(Value v) {
    std::vector<Value> same, thin;
    for (Value u : pool_) {
      if (shape(u) == shape(v)) same.push_back(u);
      if (shape(u).rank() == shape(v).rank() && shape(u) != shape(v)) {
        bool fits = true;
        for (int i = 0; i < shape(v).rank(); ++i) fits = fits && (shape(u)[i] == 1 || shape(u)[i] == shape(v)[i]);
        if (fits) thin.push_back(u);
      }
    }
    if (!thin.empty() && chance(40)) {
      const Value u = pick(thin);
      return keep(b_.broadcast(u, shape(v)), bound(u));
    }
    if (shape(v).rank() > 1 && chance(30)) {  // a vector along some axis
      const int axis = static_cast<int>(below(static_cast<uint32_t>(shape(v).rank())));
      for (Value u : pool_) {
        if (shape(u) == Shape{shape(v)[axis]}) return keep(b_.broadcast_axis(u, axis, shape(v)), bound(u));
      }
    }
    if (same.size() > 1 || chance(70)) return pick(same);
    return leaf(shape(v));
  }
  Ex ex(Value v) { return {&b_, v}; }

  void step() {
    switch (below(options_.discontinuous ? 17 : 16)) {
      case 0:
      case 1:
      case 2: return unary();
      case 3:
      case 4:
      case 5: return binary();
      case 6: return view();
      case 7: return movement();
      case 8: return reduce();
      case 9: return normalise_rows();
      case 10: return matmul();
      case 11: return convolution();
      case 12: return pool();
      case 13: return indexing();
      case 14: return composite();
      case 15: return conditional();
      default: return discontinuous();
    }
  }

  void unary() {
    const Value v = any();
    const Ex x = ex(v);
    const double m = bound(v);
    switch (below(17)) {
      case 0: keep(apply(Op::tanh, x).v, 1); break;
      case 1: keep(apply(Op::sigmoid, x).v, 1); break;
      case 2: keep(apply(Op::sin, x).v, 1); break;
      case 3: keep(apply(Op::cos, x).v, 1); break;
      case 4: keep(apply(Op::erf, x).v, 1); break;
      case 5: keep((-x).v, m); break;
      case 6: keep(apply(Op::square, x).v, m * m); break;
      case 7: keep(apply(Op::exp, apply(Op::tanh, x)).v, 2.8); break;
      case 8: keep(apply(Op::log, apply(Op::square, x) + 0.5).v, 5); break;
      case 9: keep(apply(Op::sqrt, apply(Op::square, x) + 0.1).v, m + 1); break;
      case 10: keep(apply(Op::rsqrt, apply(Op::square, x) + 0.2).v, 2.3); break;
      case 11: keep(apply(Op::abs, x).v, m); break;
      case 12: keep(apply(Op::relu, x).v, m); break;
      case 13: keep(apply(Op::log1p, apply(Op::square, x)).v, 5); break;
      case 14: keep(apply(Op::expm1, apply(Op::sin, x)).v, 2); break;
      case 15: keep((x * 0.5 + 0.25).v, m); break;
      default: keep(apply(Op::reciprocal, apply(Op::square, x) + 1.0).v, 1); break;
    }
  }

  void binary() {
    const Value v = any(), u = partner(v);
    const Ex x = ex(v), y = ex(u);
    const double m = bound(v), k = bound(u);
    switch (below(7)) {
      case 0:
      case 1: keep((x + y).v, m + k); break;
      case 2: keep((x - y).v, m + k); break;
      case 3: keep((x * y).v, m * k); break;
      case 4: keep(apply(Op::maximum, x, y).v, std::max(m, k)); break;
      case 5: keep(apply(Op::minimum, x, y).v, std::max(m, k)); break;
      default: keep((x / (apply(Op::square, y) + 1.0)).v, m); break;
    }
  }

  Shape permutation(int rank) {
    Shape perm;
    for (int i = 0; i < rank; ++i) perm.insert(static_cast<int>(below(static_cast<uint32_t>(i + 1))), i);
    return perm;
  }
  void view() {
    const Value v = any();
    const Shape s = shape(v);
    switch (below(4)) {
      case 0: {  // flatten, split an axis in two, or add an axis
        Shape to;
        if (chance(30)) {
          to = {s.numel()};
        } else {
          for (int64_t d : s) {
            if (d % 2 == 0 && to.rank() + 2 < 6 && chance(40)) {
              to.push_back(2);
              to.push_back(d / 2);
            } else {
              to.push_back(d);
            }
          }
          if (to.rank() < 5 && chance(30)) to.insert(static_cast<int>(below(static_cast<uint32_t>(to.rank() + 1))), 1);
        }
        keep(b_.reshape(v, to), bound(v));
        break;
      }
      case 1: keep(b_.transpose(v, permutation(s.rank())), bound(v)); break;
      case 2: {
        Shape to = s;
        for (int64_t& d : to) {
          if (d == 1 && chance(60)) d = 1 + below(4);
        }
        keep(b_.broadcast(v, to), bound(v));
        break;
      }
      default: {
        Shape start = s, limit = s, step = s;
        for (int i = 0; i < s.rank(); ++i) {
          start[i] = below(static_cast<uint32_t>(std::max<int64_t>(1, s[i])));
          limit[i] = start[i] + 1 + below(static_cast<uint32_t>(s[i] - start[i]));
          step[i] = 1 + below(2);
        }
        keep(b_.slice(v, start, limit, step), bound(v));
        break;
      }
    }
  }

  void movement() {
    const Value v = any();
    const Shape s = shape(v);
    if (chance(50)) {
      Shape low = s, high = s, interior = s;
      for (int i = 0; i < s.rank(); ++i) {
        low[i] = below(2);
        high[i] = below(2);
        interior[i] = below(4) == 0;
      }
      if (s.numel() < 300) keep(b_.pad(v, low, high, interior, 0.25), bound(v) + 0.25);
      return;
    }
    if (s.rank() == 0 || s.numel() > 400) return;
    const int axis = static_cast<int>(below(static_cast<uint32_t>(s.rank())));
    std::vector<Value> parts{v};
    double m = bound(v);
    for (Value u : pool_) {
      bool fits = shape(u).rank() == s.rank();
      for (int i = 0; fits && i < s.rank(); ++i) fits = i == axis || shape(u)[i] == s[i];
      if (fits && parts.size() < 3 && chance(50)) {
        parts.push_back(u);
        m = std::max(m, bound(u));
      }
    }
    keep(b_.one(Op::concat, AxisAttrs{axis}, parts), m);
  }

  Shape some_axes(int rank) {
    Shape axes;
    for (int i = 0; i < rank; ++i) {
      if (chance(50)) axes.push_back(i);
    }
    return axes;
  }
  double count(const Shape& s, const Shape& axes) {
    double n = 1;
    for (int64_t a : axes) n *= static_cast<double>(s[static_cast<int>(a)]);
    return n;
  }
  void reduce() {
    const Value v = any();
    const Shape axes = some_axes(shape(v).rank());
    const Op op = pick<Op>({Op::sum, Op::sum, Op::reduce_max, Op::reduce_min});
    const Value r = b_.one(op, AxesAttrs{axes}, {v});
    keep(op == Op::sum ? (ex(r) * (1 / count(shape(v), axes))).v : r, bound(v));
  }
  // The pattern of softmax and the norms: a reduction that is read again by its own rows.
  void normalise_rows() {
    const Value v = any();
    const Shape s = shape(v), axes = some_axes(s.rank());
    const Ex x = ex(v);
    const Ex mean = ex(b_.sum(v, axes)) * (1 / count(s, axes));
    const Ex centred = x - ex(b_.broadcast(mean.v, s));
    if (chance(50)) return void(keep(centred.v, 2 * bound(v)));
    const Ex variance = ex(b_.sum(apply(Op::square, centred).v, axes)) * (1 / count(s, axes));
    const Ex y = centred * ex(b_.broadcast(apply(Op::rsqrt, variance + 0.3).v, s));
    keep(y.v, 2 * bound(v));
  }

  // bias, residual and relu behind a contraction, each by chance.
  void epilogue(Value y, int channel, double m) {
    if (chance(60)) {
      Value bias;
      for (Value u : pool_) {
        if (shape(u) == Shape{shape(y)[channel]}) bias = u;
      }
      if (!bias.valid()) bias = leaf({shape(y)[channel]});
      y = b_.binary(Op::add, y, b_.broadcast_axis(bias, channel, shape(y)));
      m += bound(bias);
    }
    if (chance(30)) {
      for (Value u : pool_) {
        if (shape(u) == shape(y)) {
          y = b_.binary(Op::add, y, u);
          m += bound(u);
          break;
        }
      }
    }
    if (chance(50)) y = b_.unary(Op::relu, y);
    keep(y, m);
  }
  void matmul() {
    const Value a = any_of_rank(chance(25) ? 3 : 2);
    const int rank = shape(a).rank();
    const bool trans_a = chance(30), trans_b = chance(30);
    const int64_t k = shape(a)[trans_a ? rank - 2 : rank - 1], n = extent();
    Shape sb = shape(a);
    sb[rank - 2] = trans_b ? n : k;
    sb[rank - 1] = trans_b ? k : n;
    Value b;
    for (Value u : pool_) {
      if (shape(u) == sb && chance(50)) b = u;
    }
    if (!b.valid()) b = leaf(sb);
    bool flag = trans_b;
    if (chance(20)) {  // an explicit transpose, which simplify turns into a flag
      Shape perm;
      for (int i = 0; i < rank; ++i) perm.push_back(i);
      std::swap(perm[rank - 1], perm[rank - 2]);
      b = keep(b_.transpose(b, perm), bound(b));
      flag = !flag;
    }
    epilogue(b_.matmul(a, b, trans_a, flag), rank - 1, bound(a) * bound(b) * static_cast<double>(k));
  }

  void convolution() {
    const Value x = any_of_rank(chance(30) ? 3 : 4);
    const Shape s = shape(x);
    if (s.numel() > 1500) return;
    const int spatial = s.rank() - 2;
    ConvAttrs a;
    a.groups = s[1] % 2 == 0 && chance(30) ? 2 : 1;
    Shape w{a.groups * (1 + below(3)), s[1] / a.groups};
    for (int i = 0; i < spatial; ++i) {
      const int64_t kernel = std::min<int64_t>(s[2 + i], 1 + below(3));
      w.push_back(kernel);
      a.stride.push_back(1 + below(2));
      a.pad_low.push_back(below(2));
      a.pad_high.push_back(below(2));
      a.dilation.push_back(kernel > 1 && s[2 + i] > 2 * kernel && chance(20) ? 2 : 1);
    }
    const double terms = static_cast<double>(w.numel() / w[0]);
    const Value weight = leaf(w);
    epilogue(b_.one(Op::conv, a, {x, weight}), 1, bound(x) * terms);
  }
  void pool() {
    const Value x = any_of_rank(chance(30) ? 3 : 4);
    const Shape s = shape(x);
    PoolAttrs a;
    for (int i = 2; i < s.rank(); ++i) {
      const int64_t kernel = std::min<int64_t>(s[i], 1 + below(3));
      a.kernel.push_back(kernel);
      a.stride.push_back(1 + below(2));
      a.pad_low.push_back(kernel > 1 ? below(2) : 0);
      a.pad_high.push_back(kernel > 1 ? below(2) : 0);
    }
    a.count_include_pad = chance(50);
    keep(chance(50) ? b_.add(Op::max_pool, a, {x})[0] : b_.one(Op::avg_pool, a, {x}), bound(x));
  }

  void indexing() {
    Value v = any();
    if (shape(v).rank() == 0) v = any_of_rank(2);
    const Shape s = shape(v);
    const int axis = static_cast<int>(below(static_cast<uint32_t>(s.rank())));
    switch (below(3)) {
      case 0: {
        Value rows = index_leaf({extent()}, s[axis]);
        if (chance(30)) rows = b_.one(Op::check_index, RowsAttrs{s[axis]}, {rows});
        keep(b_.one(Op::gather, AxisAttrs{axis}, {v, rows}), bound(v));
        break;
      }
      case 1: {
        Shape picks = s;
        picks[axis] = extent();
        keep(b_.one(Op::gather_elements, AxisAttrs{axis}, {v, index_leaf(picks, s[axis])}), bound(v));
        break;
      }
      default: {
        const bool elements = chance(50);
        const ScatterAttrs rows{axis, extent()};
        const Value i = index_leaf(elements ? s : Shape{s[axis]}, rows.size);
        if (rows.size == s[axis]) {
          keep(b_.one(elements ? Op::scatter_elements : Op::scatter, AxisAttrs{axis}, {v, i, b_.unary(Op::neg, v)}),
               bound(v));
          break;
        }
        keep(b_.one(elements ? Op::scatter_elements_add : Op::scatter_add, rows, {i, v}),
             bound(v) * static_cast<double>(s[axis]));
        break;
      }
    }
  }

  // A whole layer, or its steps alone: the gates' parts of the inputs are then functions of one value.
  void recurrent() {
    const Value v = any_of_rank(3);
    const RecurrentAttrs a{.gru = chance(50), .reverse = chance(50), .lengths = chance(50)};
    const bool layer = a.gru == a.reverse;
    const Shape s = shape(v);
    const int64_t gates = (a.gru ? 3 : 4) * s[2];
    const auto weight = [&] { return (ex(leaf({gates, s[2]})) * 0.3).v; };
    std::vector<Value> in{v};
    if (layer) {
      in.push_back(weight());
      in.push_back(leaf({gates}));
    } else {
      std::vector<Value> parts{v, b_.unary(Op::tanh, v), (ex(v) * 0.5).v};
      if (!a.gru) parts.push_back((-ex(v)).v);
      in[0] = b_.one(Op::concat, AxisAttrs{2}, parts);
    }
    in.push_back(weight());
    if (a.gru) in.push_back(leaf({s[2]}));
    if (a.lengths) in.push_back(b_.cast(index_leaf({s[0]}, s[1] + 1), DType::i32));
    bounds_.resize(g_.values.size(), bound(v));
    keep((layer ? b_.add(Op::recurrent_layer, RecurrentLayerAttrs{a}, in) : b_.add(Op::recurrent, a, in))[0], 1);
  }

  void composite() {
    switch (below(11)) {
      case 0:
      case 1: {
        Value v = any();
        if (shape(v).rank() == 0) v = any_of_rank(2);
        const auto axis = static_cast<int64_t>(below(static_cast<uint32_t>(shape(v).rank())));
        const bool log = chance(50);
        keep(b_.one(log ? Op::log_softmax : Op::softmax, AxisAttrs{axis}, {v}), log ? 2 * bound(v) + 3 : 1);
        break;
      }
      case 2: {
        const Value v = any_of_rank(2);
        const Value labels = index_leaf({shape(v)[0]}, shape(v)[1]);
        keep(b_.one(Op::cross_entropy, CrossEntropyAttrs{chance(50) ? 0.1 : 0.0}, {v, labels}), 2 * bound(v) + 3);
        break;
      }
      case 3: {  // with running statistics, as nn::BatchNorm does
        const Value v = any_of_rank(chance(50) ? 4 : 2);
        const Shape c{shape(v)[1]};
        const Value scale = leaf(c), shift = leaf(c);
        const auto out = b_.add(Op::batch_norm, NormAttrs{0.1, 1, 1}, {v, scale, shift});
        bounds_.resize(g_.values.size(), 4);
        const Type t{options_.dtype, c};
        for (int i = 1; i <= 2 && options_.states; ++i) {
          const Value s = b_.one(Op::state, LeafAttrs{cat("s", states_.size()), t}, {});
          states_.push_back(random_array({t, Fill::positive}, seed_ * 100 + g_.nodes.size()));
          g_.updates.push_back({s, (ex(s) * 0.9 + ex(out[static_cast<size_t>(i)]) * 0.1).v});
        }
        keep(out[0], 5);
        break;
      }
      case 4: {
        const Value v = any_of_rank(pick<int>({2, 3}));
        const Shape tail{shape(v).back()};
        const Value scale = leaf(tail), shift = leaf(tail);
        keep(b_.one(Op::layer_norm, NormAttrs{0.1, 1, 1}, {v, scale, shift}), 5);
        break;
      }
      case 5: {
        const Value v = any_of_rank(4);
        const Shape c{shape(v)[1]};
        const Value scale = leaf(c), shift = leaf(c);
        keep(b_.one(Op::group_norm, NormAttrs{0.1, 1, shape(v)[1] % 2 == 0 ? 2 : 1}, {v, scale, shift}), 5);
        break;
      }
      case 6:
      case 7: {
        const Value v = any();
        keep(chance(60) ? b_.one(Op::gelu, GeluAttrs{chance(50)}, {v}) : b_.unary(Op::silu, v), bound(v));
        break;
      }
      case 8: {
        const Value v = any_of_rank(4);
        keep(b_.one(Op::adaptive_avg_pool, AdaptivePoolAttrs{{1 + below(3), 1 + below(3)}}, {v}), bound(v));
        break;
      }
      case 9: return recurrent();
      default: {
        if (!options_.discontinuous || options_.dtype != DType::f32) {
          const Value table = any_of_rank(2);
          const Value i = index_leaf({extent()}, shape(table)[0]);
          keep(b_.one(Op::embedding, EmbeddingAttrs{}, {i, table}), bound(table));
          break;
        }
        inputs_.push_back(random_array({{DType::i64, {2}}, Fill::key}, 1));
        const Value key = b_.one(Op::input, LeafAttrs{"key", {DType::i64, {2}}}, {});
        const Value v = any();
        keep(b_.one(Op::dropout, DropoutAttrs{0.4, static_cast<int64_t>(g_.nodes.size())}, {v, key}), 2 * bound(v));
        break;
      }
    }
  }

  // where() on a condition that does not depend on rounding.
  void conditional() {
    const Value v = any(), u = partner(v);
    const Type t = b_.type(v);
    const Type index{DType::i32, t.shape};
    Value condition;
    if (t.shape.rank() > 0) {
      const Value n = b_.one(Op::iota, IotaAttrs{t.shape, t.shape.rank() - 1, DType::i32}, {});
      condition =
          b_.binary(pick<Op>({Op::lt, Op::ge, Op::eq, Op::ne}), n, b_.constant(static_cast<double>(below(3)), index));
    } else {
      condition = b_.constant(static_cast<double>(below(2)), {DType::boolean, t.shape});
    }
    if (chance(30)) condition = b_.unary(Op::logical_not, condition);
    const Value y = chance(50) ? u : b_.constant(0.5, t);
    keep(b_.where(condition, v, y), std::max(bound(v), bound(u)) + 0.5);
  }

  void discontinuous() {
    const Value v = any();
    const Type t = b_.type(v);
    switch (below(6)) {
      case 0:
      case 1: keep(b_.unary(pick<Op>({Op::floor, Op::ceil, Op::round, Op::sign}), v), bound(v) + 1); break;
      case 2: {
        const Value c = b_.binary(pick<Op>({Op::lt, Op::le, Op::gt, Op::ge}), v, b_.constant(0.1, t));
        keep(b_.cast(c, t.dtype), 1);
        break;
      }
      case 3: {
        const Value u = partner(v);
        keep(b_.where(b_.binary(Op::lt, v, u), v, u), std::max(bound(v), bound(u)));
        break;
      }
      case 4: {
        if (t.shape.rank() == 0) return;
        const auto axis = static_cast<int64_t>(below(static_cast<uint32_t>(t.shape.rank())));
        const Value i = chance(40) ? b_.one(Op::argsort, SortAttrs{axis, chance(50)}, {v})
                                   : b_.one(pick<Op>({Op::argmax, Op::argmin}), AxisAttrs{axis}, {v});
        keep(b_.one(Op::gather_elements, AxisAttrs{axis}, {v, i}), bound(v));
        break;
      }
      default: keep(b_.cast(b_.cast((ex(v) * 3.0).v, DType::i32), t.dtype), 3 * bound(v)); break;
    }
  }

  void finish() {
    // Some values become outputs, among them a leaf and the same value twice by chance.
    const int outputs = 1 + static_cast<int>(below(3));
    for (int i = 0; i < outputs; ++i) g_.outputs.push_back(any());
    if (chance(20)) g_.outputs.push_back(g_.outputs[0]);
    if (chance(20)) g_.outputs.push_back(pool_[0]);
    if (options_.gradients) {
      Value loss = weighted_sum(g_, g_.outputs, seed_);
      loss = b_.binary(Op::mul, loss, b_.constant(0.1, b_.type(loss)));
      std::vector<Value> wrt;
      for (const auto* leaves : {&state_leaves_, &input_leaves_}) {
        for (Value v : *leaves) {
          if (chance(leaves == &state_leaves_ ? 70 : 30)) wrt.push_back(v);
        }
      }
      const std::vector<Value> gradients = grad(g_, loss, wrt);
      g_.outputs.push_back(loss);
      for (size_t i = 0; i < wrt.size(); ++i) {
        if (!gradients[i].valid()) continue;
        if (g_.def(wrt[i]).op == Op::state) {
          optimizer(wrt[i], gradients[i]);
        } else {
          g_.outputs.push_back(gradients[i]);
        }
      }
    } else {
      for (Value s : state_leaves_) {
        if (!chance(50)) continue;
        for (Value v : pool_) {  // the first value of the same type that is not the state itself
          if (v == s || !(b_.type(v) == b_.type(s))) continue;
          g_.updates.push_back({s, chance(50) ? v : (ex(s) * 0.9 + ex(v) * 0.1).v});
          break;
        }
      }
    }
  }

  void optimizer(Value p, Value gradient) {
    const Type t = b_.type(p), scalar{DType::f32, {}};
    const auto state = [&](Fill fill) {
      states_.push_back(random_array({t, fill}, seed_ * 100 + g_.nodes.size()));
      return b_.one(Op::state, LeafAttrs{cat("m", states_.size()), t}, {});
    };
    const Value rate = b_.constant(0.01, scalar);
    switch (below(3)) {
      case 0:
        g_.updates.push_back({p, b_.one(Op::sgd_update, SgdAttrs{0, 0, 0.01, false}, {p, gradient, rate})});
        break;
      case 1: {
        const Value m = state(Fill::unit);
        const auto out = b_.add(Op::sgd_update, SgdAttrs{0.9, 0, 0, chance(50)}, {p, gradient, rate, m});
        g_.updates.push_back({p, out[0]});
        g_.updates.push_back({m, out[1]});
        break;
      }
      default: {
        const Value m = state(Fill::unit), v = state(Fill::positive), step = b_.constant(3, scalar);
        const auto out =
            b_.add(Op::adam_update, AdamAttrs{0.9, 0.99, 1e-6, 0.01, chance(50)}, {p, gradient, rate, step, m, v});
        g_.updates.push_back({p, out[0]});
        g_.updates.push_back({m, out[1]});
        g_.updates.push_back({v, out[2]});
        break;
      }
    }
  }

  RandomGraphOptions options_;
  uint64_t seed_;
  PhiloxStream random_;
  Graph g_;
  Builder b_;
  std::vector<Value> pool_, input_leaves_, state_leaves_;
  std::vector<double> bounds_;  // by value: a bound on magnitudes
  std::vector<Array> inputs_, states_;
};

inline RandomProgram random_program(uint64_t seed, const RandomGraphOptions& options = {}) {
  return GraphGenerator(seed, options).run();
}
// A program in f32 whose results rounding does not flip, so that fast backends can be compared.
inline RandomProgram smooth_program_f32(uint64_t seed) {
  RandomGraphOptions options;
  options.dtype = DType::f32;
  options.discontinuous = false;
  return random_program(seed, options);
}

}  // namespace freight::test
