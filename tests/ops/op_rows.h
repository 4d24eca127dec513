// The test rows of the ops: operands and attributes under which each op is checked (forward on every backend,
// gradients, text form, views as operands; see the *_test.cpp beside this file). A new op needs one row here at least;
// forward_test.cpp fails for an op without one. Axes of 0, 1, 7, 17 and 65 elements appear throughout.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "tests/ops/linalg_results.h"
#include "tests/support/graphs.h"

namespace freight::test {

struct OpRow {
  Op op;
  Attrs attrs;
  std::vector<Operand> in;
  double slack = 1;  // factor on the tolerance: long sums, badly conditioned functions
};

inline std::string to_string(const OpRow& row) {
  std::string text = name(row.op);
  for (const Operand& o : row.in) text += " " + freight::to_string(o.type);
  return text;
}

namespace rows {

using Rows = std::vector<OpRow>;
constexpr DType kF32 = DType::f32;

inline Operand f32(const Shape& shape, Fill fill = Fill::normal) { return {{kF32, shape}, fill}; }
inline Operand bf16(const Shape& shape, Fill fill = Fill::normal) { return {{DType::bf16, shape}, fill}; }
inline Operand index(const Shape& shape, int64_t bound, DType t = DType::i32) {
  return {{t, shape}, Fill::index, bound};
}
inline Operand boolean(const Shape& shape) { return {{DType::boolean, shape}, Fill::boolean}; }
inline Operand key() { return {{DType::i64, {2}}, Fill::key}; }

// One row per shape with all operands of that shape.
inline void pointwise(Rows& t, Op op, const std::vector<Operand>& scalars, double slack = 1, Attrs attrs = NoAttrs{}) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{17, 5}, Shape{2, 0, 3}, Shape{3, 1, 65}}) {
    OpRow row{op, attrs, scalars, slack};
    for (Operand& o : row.in) o.type.shape = shape;
    t.push_back(row);
  }
}

inline void unary_rows(Rows& t) {
  const Operand x = f32({}), positive = f32({}, Fill::positive), unit = f32({}, Fill::unit);
  const Operand i32 = index({}, 50), i64 = index({}, 50, DType::i64), u8 = index({}, 200, DType::u8);
  for (Op op : {Op::neg, Op::abs, Op::sign, Op::square, Op::relu}) {
    pointwise(t, op, {x});
    pointwise(t, op, {i32});
    pointwise(t, op, {i64});
  }
  for (Op op : {Op::exp, Op::expm1, Op::sin, Op::cos, Op::tanh, Op::sigmoid, Op::erf, Op::floor, Op::ceil, Op::round,
                Op::is_finite, Op::stop_gradient}) {
    pointwise(t, op, {x});
  }
  for (Op op : {Op::sinh, Op::cosh, Op::atan, Op::asinh}) pointwise(t, op, {x});
  for (Op op : {Op::asin, Op::acos, Op::atanh}) pointwise(t, op, {unit}, 2);
  pointwise(t, Op::acosh, {f32({}, Fill::above_one)}, 2);
  for (Op op : {Op::log2, Op::log10}) pointwise(t, op, {positive}, 2);
  for (Op op : {Op::log, Op::log1p, Op::sqrt, Op::rsqrt, Op::reciprocal}) pointwise(t, op, {positive}, 2);
  pointwise(t, Op::softsign, {x});
  pointwise(t, Op::tan, {unit}, 2);
  pointwise(t, Op::logical_not, {boolean({})});
  for (DType to : {DType::f32, DType::f64, DType::i32, DType::i64, DType::boolean}) {
    pointwise(t, Op::cast, {x}, 1, CastAttrs{to});
    pointwise(t, Op::cast, {u8}, 1, CastAttrs{to});
    pointwise(t, Op::cast, {boolean({})}, 1, CastAttrs{to});
  }
  pointwise(t, Op::cast, {positive}, 1, CastAttrs{DType::u8});
  pointwise(t, Op::cast, {bf16({})}, 1, CastAttrs{kF32});
  pointwise(t, Op::cast, {x}, 1, CastAttrs{DType::bf16});
}

inline void binary_rows(Rows& t) {
  const Operand x = f32({}), positive = f32({}, Fill::positive), distinct = f32({}, Fill::distinct);
  const Operand i32 = index({}, 50), i64 = index({}, 50, DType::i64), few = index({}, 3), flag = boolean({});
  for (Op op : {Op::add, Op::sub, Op::mul, Op::maximum, Op::minimum, Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge}) {
    pointwise(t, op, {x, positive});
    pointwise(t, op, {few, few});
    pointwise(t, op, {i64, i64});
  }
  for (Op op : {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge}) pointwise(t, op, {distinct, distinct});
  pointwise(t, Op::div, {x, positive});
  pointwise(t, Op::div, {x, x});
  pointwise(t, Op::fmod, {f32({}), f32({}, Fill::positive)}, 10);
  pointwise(t, Op::pow, {positive, x}, 4);
  for (Op op : {Op::atan2, Op::hypot, Op::copysign, Op::logaddexp, Op::nextafter}) {
    pointwise(t, op, {x, positive}, 2);
    pointwise(t, op, {f32({}, Fill::unit), x}, 2);
  }
  for (Op op : {Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor, Op::shift_left, Op::shift_right}) {
    pointwise(t, op, {i32, few});
    pointwise(t, op, {i64, i64});
    pointwise(t, op, {index({}, 200, DType::u8), index({}, 12, DType::u8)});
  }
  for (Op op : {Op::logical_and, Op::logical_or}) pointwise(t, op, {flag, flag});
  pointwise(t, Op::where, {flag, x, positive});
  pointwise(t, Op::where, {flag, i32, i32});
  pointwise(t, Op::where, {flag, flag, flag});
}

inline void leaf_rows(Rows& t) {
  t.push_back({Op::constant, ConstantAttrs{{kF32, {3, 4}}, 1.5, {}}, {}});
  t.push_back({Op::constant, ConstantAttrs{{DType::i64, {2}}, 0, Array::of<int64_t>({-7, 1ll << 40}, {2})}, {}});
  t.push_back({Op::constant, ConstantAttrs{{kF32, {}}, 0, Array::of<float>({0.1f}, {})}, {}});
  t.push_back({Op::constant,
               ConstantAttrs{{DType::boolean, {3}}, 0, Array::of<uint8_t>({1, 0, 1}, {3}).cast(DType::boolean)},
               {}});
  t.push_back({Op::iota, IotaAttrs{{7}, 0, DType::i32}, {}});
  t.push_back({Op::iota, IotaAttrs{{3, 17, 2}, 1, kF32}, {}});
  t.push_back({Op::iota, IotaAttrs{{0, 4}, 1, DType::i64}, {}});
  for (Op op : {Op::random_uniform, Op::random_normal}) {
    t.push_back({op, RandomAttrs{{65}, 3}, {key()}});
    t.push_back({op, RandomAttrs{{5, 7, 2}, 12}, {key()}});
    t.push_back({op, RandomAttrs{{0}, 1}, {key()}});
    t.push_back({op, RandomAttrs{{}, 1}, {key()}});
  }
}

inline void view_rows(Rows& t) {
  t.push_back({Op::reshape, ShapeAttrs{{6, 7}}, {f32({3, 14})}});
  t.push_back({Op::reshape, ShapeAttrs{{}}, {f32({1, 1})}});
  t.push_back({Op::reshape, ShapeAttrs{{0, 5}}, {f32({3, 0})}});
  t.push_back({Op::reshape, ShapeAttrs{{65}}, {boolean({5, 13})}});
  t.push_back({Op::transpose, PermAttrs{{1, 0}}, {f32({17, 65})}});
  t.push_back({Op::transpose, PermAttrs{{2, 0, 1}}, {f32({2, 3, 7})}});
  t.push_back({Op::transpose, PermAttrs{{0, 2, 3, 1}}, {f32({2, 3, 4, 5})}});
  t.push_back({Op::transpose, PermAttrs{{1, 0}}, {index({3, 4}, 9, DType::i64)}});
  t.push_back({Op::transpose, PermAttrs{{1, 0}}, {f32({0, 4})}});
  t.push_back({Op::transpose, PermAttrs{{}}, {f32({})}});
  t.push_back({Op::broadcast, ShapeAttrs{{17, 7}}, {f32({1, 7})}});
  t.push_back({Op::broadcast, ShapeAttrs{{2, 5, 3}}, {f32({2, 1, 3})}});
  t.push_back({Op::broadcast, ShapeAttrs{{4, 65}}, {f32({1, 1})}});
  t.push_back({Op::broadcast, ShapeAttrs{{0, 3}}, {f32({1, 3})}});
  t.push_back({Op::slice, SliceAttrs{{2}, {11}, {1}}, {f32({17})}});
  t.push_back({Op::slice, SliceAttrs{{1, 0}, {6, 5}, {2, 3}}, {f32({7, 5})}});
  t.push_back({Op::slice, SliceAttrs{{3, 1}, {3, 4}, {1, 1}}, {f32({7, 5})}});
  t.push_back({Op::slice, SliceAttrs{{0, 2, 1}, {2, 3, 65}, {1, 1, 4}}, {f32({2, 3, 65})}});
  t.push_back({Op::copy, NoAttrs{}, {f32({7, 3})}});
  t.push_back({Op::copy, NoAttrs{}, {boolean({5})}});
  for (const Op op : {Op::offload, Op::fetch}) {
    t.push_back({op, NoAttrs{}, {f32({7, 65})}});
    t.push_back({op, NoAttrs{}, {boolean({5})}});
    t.push_back({op, NoAttrs{}, {f32({0, 3})}});
  }
  t.push_back({Op::all_reduce, PieceAttrs{}, {f32({7, 65})}});
  t.push_back({Op::all_reduce, PieceAttrs{3}, {f32({0, 3})}});
  t.push_back({Op::pad, PadAttrs{{1}, {2}, {0}, -0.5}, {f32({7})}});
  t.push_back({Op::pad, PadAttrs{{0, 2}, {1, 0}, {1, 2}, 3}, {f32({3, 5})}});
  t.push_back({Op::pad, PadAttrs{{2, 1}, {1, 1}, {3, 0}, 1}, {f32({0, 5})}});
  t.push_back({Op::pad, PadAttrs{{1, 1, 1}, {0, 2, 3}, {0, 1, 0}, 0}, {f32({1, 7, 17})}});
  t.push_back({Op::concat, AxisAttrs{0}, {f32({7}), f32({1}), f32({17})}});
  t.push_back({Op::concat, AxisAttrs{1}, {f32({3, 2}), f32({3, 0}), f32({3, 5})}});
  t.push_back({Op::concat, AxisAttrs{1}, {f32({2, 3, 4}), f32({2, 1, 4})}});
  t.push_back({Op::concat, AxisAttrs{0}, {index({2, 3}, 9), index({1, 3}, 9)}});
  t.push_back({Op::concat, AxisAttrs{2}, {f32({2, 3, 65})}});
}

inline void reduce_rows(Rows& t) {
  for (Op op : {Op::sum, Op::reduce_max, Op::reduce_min}) {
    t.push_back({op, AxesAttrs{{0}}, {f32({17}, Fill::distinct)}});
    t.push_back({op, AxesAttrs{{}}, {f32({3, 4})}});
    t.push_back({op, AxesAttrs{{1}}, {f32({7, 65}, Fill::distinct)}});
    t.push_back({op, AxesAttrs{{0}}, {f32({65, 7}, Fill::distinct)}});
    t.push_back({op, AxesAttrs{{0, 1}}, {f32({7, 17}, Fill::distinct)}});
    t.push_back({op, AxesAttrs{{0, 2, 3}}, {f32({2, 3, 5, 7}, Fill::distinct)}});
    t.push_back({op, AxesAttrs{{1, 2}}, {f32({3, 1, 4}, Fill::distinct)}});
    t.push_back({op, AxesAttrs{{1}}, {f32({0, 5})}});
    t.push_back({op, AxesAttrs{{1}}, {index({3, 7}, 100, DType::i64)}});
    t.push_back({op, AxesAttrs{{0}}, {index({65, 3}, 100)}});
  }
  t.push_back({Op::sum, AxesAttrs{{0}}, {f32({0, 5})}});
  t.push_back({Op::sum, AxesAttrs{{0, 1}}, {f32({300, 70})}, 4});
  for (const bool descending : {false, true}) {
    t.push_back({Op::argsort, SortAttrs{0, descending}, {f32({65}, Fill::distinct)}});
    t.push_back({Op::argsort, SortAttrs{1, descending}, {f32({7, 17}, Fill::distinct)}});
    t.push_back({Op::argsort, SortAttrs{1, descending}, {f32({2, 7, 3}, Fill::distinct)}});
    t.push_back({Op::argsort, SortAttrs{0, descending}, {index({65, 3}, 5)}});
    t.push_back({Op::argsort, SortAttrs{1, descending}, {index({3, 17}, 9, DType::i64)}});
    t.push_back({Op::argsort, SortAttrs{0, descending}, {f32({0, 4})}});
  }
  for (Op op : {Op::argmax, Op::argmin}) {
    t.push_back({op, AxisAttrs{0}, {f32({17}, Fill::distinct)}});
    t.push_back({op, AxisAttrs{1}, {f32({7, 65}, Fill::distinct)}});
    t.push_back({op, AxisAttrs{1}, {f32({2, 7, 3}, Fill::distinct)}});
    t.push_back({op, AxisAttrs{0}, {index({65, 3}, 5)}});
    t.push_back({op, AxisAttrs{1}, {f32({0, 4})}});
  }
}

inline void matmul_rows(Rows& t) {
  const auto both = [&](const Shape& batch, int64_t m, int64_t k, int64_t n) {
    for (int flags = 0; flags < 4; ++flags) {
      const bool ta = flags & 1, tb = flags & 2;
      Shape a = batch, b = batch;
      for (int64_t d : {ta ? k : m, ta ? m : k}) a.push_back(d);
      for (int64_t d : {tb ? n : k, tb ? k : n}) b.push_back(d);
      t.push_back({Op::matmul, MatmulAttrs{ta, tb, {}}, {f32(a), f32(b)}, 4});
    }
  };
  both({}, 3, 4, 5);
  both({}, 17, 65, 7);
  both({}, 1, 7, 1);
  both({2}, 5, 3, 4);
  both({2, 3}, 1, 7, 2);
  both({}, 65, 1, 17);
  both({}, 0, 4, 3);
  both({}, 3, 0, 2);  // an empty sum: zeros
  both({0}, 2, 3, 2);
}

inline ConvAttrs conv_attrs(const Shape& stride, const Shape& low, const Shape& high, const Shape& dilation,
                            int64_t groups = 1, const Shape& shape = {}) {
  ConvAttrs a;
  a.stride = stride;
  a.pad_low = low;
  a.pad_high = high;
  a.dilation = dilation;
  a.groups = groups;
  a.shape = shape;
  return a;
}

inline void conv_rows(Rows& t) {
  struct Case {
    Shape x, w;
    ConvAttrs attrs;
  };
  const std::vector<Case> cases = {
      {{1, 1, 5}, {1, 1, 3}, conv_attrs({1}, {0}, {0}, {1})},
      {{2, 3, 17}, {4, 3, 5}, conv_attrs({2}, {2}, {1}, {1})},
      {{2, 4, 9}, {6, 2, 3}, conv_attrs({1}, {1}, {1}, {2}, 2)},
      {{1, 1, 7, 7}, {1, 1, 1, 1}, conv_attrs({1, 1}, {0, 0}, {0, 0}, {1, 1})},
      {{2, 3, 6, 5}, {4, 3, 3, 3}, conv_attrs({1, 1}, {1, 1}, {1, 1}, {1, 1})},
      {{1, 2, 7, 8}, {3, 2, 3, 2}, conv_attrs({2, 3}, {1, 0}, {0, 1}, {1, 1})},
      {{1, 2, 9, 9}, {2, 2, 3, 3}, conv_attrs({2, 1}, {2, 1}, {2, 0}, {2, 3})},
      {{2, 4, 5, 5}, {8, 1, 3, 3}, conv_attrs({1, 1}, {1, 1}, {1, 1}, {1, 1}, 4)},
      {{2, 4, 5, 4}, {6, 2, 3, 3}, conv_attrs({2, 2}, {1, 1}, {1, 1}, {1, 1}, 2)},
      {{2, 17, 6, 6}, {7, 17, 1, 1}, conv_attrs({2, 2}, {0, 0}, {0, 0}, {1, 1})},
      {{0, 2, 4, 4}, {3, 2, 3, 3}, conv_attrs({1, 1}, {1, 1}, {1, 1}, {1, 1})},
  };
  for (const Case& c : cases) {
    // The forward row gives the shape of the result, which the rows of the gradients need.
    Graph g;
    Builder b(g);
    const Value x = b.one(Op::input, LeafAttrs{"x", {kF32, c.x}}, {}),
                w = b.one(Op::input, LeafAttrs{"w", {kF32, c.w}}, {});
    const Shape y = b.shape(b.one(Op::conv, c.attrs, {x, w}));
    t.push_back({Op::conv, c.attrs, {f32(c.x), f32(c.w)}, 4});
    ConvAttrs a = c.attrs;
    a.shape = c.x;
    t.push_back({Op::conv_grad_input, a, {f32(y), f32(c.w)}, 4});
    a.shape = c.w;
    t.push_back({Op::conv_grad_weight, a, {f32(c.x), f32(y)}, 4});
  }
}

inline void linalg_rows(Rows& t) {
  const auto matrix = [](const Shape& s) { return f32(s, Fill::matrix); };
  const std::vector<Shape> square = {{1, 1}, {3, 3}, {17, 17}, {2, 4, 4}, {0, 0}, {0, 3, 3}, {2, 3, 2, 2}};
  const std::vector<Shape> other = {{5, 3}, {3, 5}, {4, 1}, {1, 4}, {2, 5, 3}, {2, 3, 4}, {0, 3}, {3, 0}, {2, 0, 3}};
  std::vector<Shape> all = square;
  all.insert(all.end(), other.begin(), other.end());
  for (const bool flag : {false, true}) {
    for (const Shape& s : all) {
      t.push_back({Op::lu_factor, LuAttrs{flag}, {matrix(s)}, 20});
      t.push_back({Op::qr, QrAttrs{flag}, {matrix(s)}, 20});
      t.push_back({Op::svd, SvdAttrs{flag}, {matrix(s)}, 40});
    }
    for (const Shape& s : square) {
      t.push_back({Op::cholesky, CholeskyAttrs{flag}, {f32(s, Fill::positive_definite)}, 20});
      t.push_back({Op::eigh, EighAttrs{flag}, {f32(s, Fill::symmetric)}, 40});
      t.push_back({Op::eig, NoAttrs{}, {f32(s, flag ? Fill::symmetric : Fill::spectrum)}, 100});
    }
  }
  for (int flags = 0; flags < 32; ++flags) {
    const TriangularAttrs how{.upper = (flags & 1) != 0,
                              .transposed = (flags & 2) != 0,
                              .unit_diagonal = (flags & 4) != 0,
                              .right = (flags & 8) != 0,
                              .refuse_singular = (flags & 16) != 0};
    struct Sizes {
      Shape batch;
      int64_t n, k;
    };
    for (const Sizes& z : {Sizes{{}, 3, 2}, Sizes{{2}, 4, 3}, Sizes{{}, 17, 7}, Sizes{{}, 1, 1}, Sizes{{}, 0, 2},
                           Sizes{{2}, 3, 0}, Sizes{{0}, 2, 2}}) {
      Shape a = z.batch, b = z.batch;
      for (const int64_t d : {z.n, z.n}) a.push_back(d);
      for (const int64_t d : {how.right ? z.k : z.n, how.right ? z.n : z.k}) b.push_back(d);
      t.push_back({Op::solve_triangular, how, {f32(a, Fill::positive_definite), f32(b)}, 20});
    }
  }
}

inline void pool_rows(Rows& t) {
  struct Case {
    Shape x;
    PoolAttrs attrs;
  };
  const std::vector<Case> cases = {
      {{1, 1, 7}, {{2}, {2}, {0}, {0}, true, {}}},
      {{2, 3, 17}, {{3}, {2}, {1}, {1}, true, {}}},
      {{2, 3, 4, 6}, {{2, 2}, {2, 2}, {0, 0}, {0, 0}, true, {}}},
      {{1, 2, 7, 5}, {{3, 2}, {2, 1}, {1, 0}, {1, 1}, true, {}}},
      {{1, 2, 7, 5}, {{3, 2}, {2, 1}, {1, 0}, {1, 1}, false, {}}},
      {{2, 1, 6, 6}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {}}},
      {{1, 1, 1, 1}, {{1, 1}, {1, 1}, {0, 0}, {0, 0}, true, {}}},
      {{0, 2, 4, 4}, {{2, 2}, {2, 2}, {0, 0}, {0, 0}, true, {}}},
      {{1, 17, 5, 5}, {{5, 5}, {5, 5}, {0, 0}, {0, 0}, true, {}}},
  };
  for (const Case& c : cases) {
    Graph g;
    Builder b(g);
    const Shape y = b.shape(b.add(Op::max_pool, c.attrs, {b.one(Op::input, LeafAttrs{"x", {kF32, c.x}}, {})})[0]);
    t.push_back({Op::max_pool, c.attrs, {f32(c.x, Fill::distinct)}});
    t.push_back({Op::avg_pool, c.attrs, {f32(c.x)}, 2});
    PoolAttrs a = c.attrs;
    a.shape = c.x;
    const int64_t plane = c.x.rank() == 3 ? c.x[2] : c.x[2] * c.x[3];
    t.push_back({Op::max_pool_grad, a, {f32(y), index(y, plane)}, 2});
    t.push_back({Op::avg_pool_grad, a, {f32(y)}, 2});
  }
  for (const Case& c : std::vector<Case>{{{2, 3, 17}, {{3}, {2}, {1}, {1}, true, {}, {3}}},
                                         {{2, 3, 9, 8}, {{3, 2}, {2, 1}, {1, 1}, {1, 0}, true, {}, {2, 4}}},
                                         {{1, 17, 7, 7}, {{3, 3}, {1, 1}, {0, 0}, {0, 0}, true, {}, {1, 3}}}}) {
    t.push_back({Op::max_pool, c.attrs, {f32(c.x, Fill::distinct)}});
  }
  // Large windows are summed up by parts.
  t.push_back({Op::avg_pool, PoolAttrs{{31, 35}, {31, 35}, {0, 0}, {0, 0}, true, {}}, {f32({1, 2, 31, 70})}, 2});
}

inline void index_rows(Rows& t) {
  t.push_back({Op::gather, AxisAttrs{0}, {f32({7, 3}), index({5}, 7)}});
  t.push_back({Op::gather, AxisAttrs{1}, {f32({3, 17, 2}), index({4, 5}, 17, DType::i64)}});
  t.push_back({Op::gather, AxisAttrs{0}, {f32({65}), index({}, 65)}});
  t.push_back({Op::gather, AxisAttrs{1}, {f32({2, 4}), index({0}, 4)}});
  t.push_back({Op::gather, AxisAttrs{0}, {index({7}, 99, DType::i64), index({3, 2}, 7, DType::u8)}});
  t.push_back({Op::scatter_add, ScatterAttrs{0, 7}, {index({5}, 7), f32({5, 3})}});
  t.push_back({Op::scatter_add, ScatterAttrs{1, 17}, {index({4, 5}, 17, DType::i64), f32({3, 4, 5, 2})}});
  t.push_back({Op::scatter_add, ScatterAttrs{0, 3}, {index({65}, 3), f32({65})}, 4});  // many to one
  t.push_back({Op::scatter_add, ScatterAttrs{0, 4}, {index({0}, 4), f32({0, 2})}});
  t.push_back({Op::scatter_add, ScatterAttrs{0, 4}, {index({}, 4), f32({2})}});
  t.push_back({Op::gather_elements, AxisAttrs{1}, {f32({7, 5}), index({7, 3}, 5)}});
  t.push_back({Op::gather_elements, AxisAttrs{0}, {f32({65, 2}), index({17, 2}, 65, DType::i64)}});
  t.push_back({Op::gather_elements, AxisAttrs{1}, {f32({2, 3, 4}), index({2, 1, 4}, 3)}});
  t.push_back({Op::gather_elements, AxisAttrs{1}, {f32({2, 3}), index({2, 0}, 3)}});
  t.push_back({Op::check_index, RowsAttrs{5}, {index({7, 3}, 5)}});
  t.push_back({Op::check_index, RowsAttrs{300}, {index({65}, 256, DType::u8)}});
  t.push_back({Op::check_index, RowsAttrs{17}, {index({2, 0}, 17, DType::i64)}});
  t.push_back({Op::scatter, AxisAttrs{0}, {f32({7, 3}), index({5}, 7), f32({5, 3})}});
  t.push_back({Op::scatter, AxisAttrs{1}, {f32({3, 17, 2}), index({4, 5}, 17, DType::i64), f32({3, 4, 5, 2})}});
  t.push_back({Op::scatter, AxisAttrs{0}, {f32({3}), index({65}, 3), f32({65})}});  // many for one
  t.push_back({Op::scatter, AxisAttrs{0}, {f32({4, 2}), index({0}, 4), f32({0, 2})}});
  t.push_back({Op::scatter, AxisAttrs{0}, {f32({4, 2}), index({}, 4), f32({2})}});
  t.push_back({Op::scatter_elements, AxisAttrs{1}, {f32({7, 5}), index({7, 3}, 5), f32({7, 3})}});
  t.push_back({Op::scatter_elements, AxisAttrs{0}, {f32({4, 2}), index({17, 2}, 4, DType::i64), f32({17, 2})}});
  t.push_back({Op::scatter_elements, AxisAttrs{1}, {f32({2, 3}), index({2, 0}, 3), f32({2, 0})}});
  t.push_back({Op::scatter_elements_add, ScatterAttrs{1, 5}, {index({7, 3}, 5), f32({7, 3})}});
  t.push_back({Op::scatter_elements_add, ScatterAttrs{0, 4}, {index({17, 2}, 4, DType::i64), f32({17, 2})}});
  t.push_back({Op::scatter_elements_add, ScatterAttrs{1, 3}, {index({2, 0}, 3), f32({2, 0})}});
}

inline void composite_rows(Rows& t) {
  for (Op op : {Op::softmax, Op::log_softmax}) {
    t.push_back({op, AxisAttrs{1}, {f32({7, 10})}, 2});
    t.push_back({op, AxisAttrs{0}, {f32({17})}, 2});
    t.push_back({op, AxisAttrs{1}, {f32({2, 65, 3})}, 2});
    t.push_back({op, AxisAttrs{1}, {f32({0, 4})}});
    t.push_back({op, AxisAttrs{1}, {f32({3, 1})}});
  }
  for (double smoothing : {0.0, 0.1}) {
    t.push_back({Op::cross_entropy, CrossEntropyAttrs{smoothing}, {f32({7, 10}), index({7}, 10, DType::i64)}, 4});
    t.push_back({Op::cross_entropy, CrossEntropyAttrs{smoothing}, {f32({17, 3}), index({17}, 3)}, 4});
    t.push_back({Op::cross_entropy, CrossEntropyAttrs{smoothing}, {f32({5, 7}), f32({5, 7}, Fill::probabilities)}, 4});
  }
  t.push_back({Op::cross_entropy, CrossEntropyAttrs{}, {f32({1, 65}), index({1}, 65, DType::u8)}, 4});
  for (const Shape& x : {Shape{7, 3}, Shape{2, 17, 5}, Shape{2, 3, 4, 5}, Shape{3, 1, 7, 1}}) {
    const Shape c{x[1]};
    t.push_back({Op::moments, NoAttrs{}, {f32(x)}, 4});
    t.push_back({Op::batch_norm, NormAttrs{}, {f32(x), f32(c, Fill::positive), f32(c)}, 10});
    t.push_back({Op::batch_norm_inference,
                 NormAttrs{1e-3, 1, 1},
                 {f32(x), f32(c, Fill::positive), f32(c), f32(c), f32(c, Fill::positive)},
                 4});
  }
  t.push_back({Op::batch_norm, NormAttrs{}, {bf16({2, 3, 4, 5}), f32({3}, Fill::positive), f32({3})}, 4});
  t.push_back({Op::layer_norm, NormAttrs{}, {f32({7, 17}), f32({17}, Fill::positive), f32({17})}, 10});
  t.push_back(
      {Op::layer_norm, NormAttrs{1e-5, 2, 1}, {f32({2, 3, 4, 5}), f32({4, 5}, Fill::positive), f32({4, 5})}, 10});
  t.push_back({Op::layer_norm, NormAttrs{1e-5, 1, 1}, {f32({0, 4}), f32({4}, Fill::positive), f32({4})}});
  t.push_back({Op::group_norm, NormAttrs{1e-5, 1, 2}, {f32({2, 4, 3, 5}), f32({4}, Fill::positive), f32({4})}, 10});
  t.push_back({Op::group_norm, NormAttrs{1e-5, 1, 1}, {f32({3, 7}), f32({7}, Fill::positive), f32({7})}, 10});
  pointwise(t, Op::gelu, {f32({})}, 4, GeluAttrs{false});
  pointwise(t, Op::gelu, {f32({})}, 4, GeluAttrs{true});
  pointwise(t, Op::silu, {f32({})}, 2);
  struct Pair {
    Shape a, b;
  };
  for (const Pair& p :
       {Pair{{5, 3}, {5, 2}}, Pair{{3, 5}, {3, 2}}, Pair{{4, 4}, {4, 1}}, Pair{{1, 1}, {1, 1}},
        Pair{{2, 5, 3}, {2, 5, 2}}, Pair{{0, 3}, {0, 2}}, Pair{{3, 0}, {3, 2}}, Pair{{0, 3, 2}, {0, 3, 2}}}) {
    t.push_back({Op::lstsq, LstsqAttrs{1e-6}, {f32(p.a, Fill::matrix), f32(p.b)}, 20});
  }
  for (const Pair& p :
       {Pair{{4, 4}, {4, 1}}, Pair{{1, 1}, {1, 1}}, Pair{{2, 3, 3}, {2, 3, 2}}, Pair{{17, 17}, {17, 3}},
        Pair{{9, 6, 6}, {9, 6, 1}}, Pair{{0, 0}, {0, 2}}, Pair{{3, 3}, {3, 0}}, Pair{{0, 2, 2}, {0, 2, 1}}}) {
    t.push_back({Op::solve, {}, {f32(p.a, Fill::matrix), f32(p.b)}, 20});
  }
  t.push_back({Op::dropout, DropoutAttrs{0.5, 4}, {f32({17, 5}), key()}});
  t.push_back({Op::dropout, DropoutAttrs{0.1, 9}, {f32({65}), key()}});
  t.push_back({Op::dropout, DropoutAttrs{0, 9}, {f32({7}), key()}});
  t.push_back({Op::embedding, EmbeddingAttrs{}, {index({7}, 5), f32({5, 3})}});
  t.push_back({Op::embedding, EmbeddingAttrs{2}, {index({4, 5}, 6, DType::i64), f32({6, 17})}});
  t.push_back({Op::one_hot, OneHotAttrs{5, kF32}, {index({7}, 5)}});
  t.push_back({Op::one_hot, OneHotAttrs{65, DType::i32}, {index({2, 3}, 65, DType::i64)}});
  t.push_back({Op::one_hot, OneHotAttrs{3, DType::boolean}, {index({0}, 3)}});
  t.push_back({Op::one_hot, OneHotAttrs{300, kF32}, {index({17}, 256, DType::u8)}});
  t.push_back({Op::adaptive_avg_pool, AdaptivePoolAttrs{{2, 3}}, {f32({2, 3, 4, 6})}, 4});
  t.push_back({Op::adaptive_avg_pool, AdaptivePoolAttrs{{3, 2}}, {f32({2, 3, 7, 5})}, 4});
  t.push_back({Op::adaptive_avg_pool, AdaptivePoolAttrs{{1, 1}}, {f32({2, 17, 7, 7})}, 4});
  t.push_back({Op::adaptive_avg_pool, AdaptivePoolAttrs{{5}}, {f32({1, 2, 17})}, 4});
  t.push_back({Op::adaptive_avg_pool, AdaptivePoolAttrs{{7}}, {f32({1, 2, 3})}, 4});  // more cells than elements
}

inline void attention_rows(Rows& t) {
  // attention: batch, heads, queries, keys, numbers per head. Blocks of the kernels end at 48 queries and 64 keys, on
  // GPUs at 64 rows, or at 32 from 65 numbers on.
  struct Sizes {
    int64_t b, h, t, s, d;
  };
  for (const Sizes& z :
       {Sizes{1, 1, 1, 1, 1}, Sizes{3, 3, 7, 7, 5}, Sizes{3, 1, 5, 9, 17}, Sizes{1, 2, 65, 65, 3},
        Sizes{1, 1, 250, 130, 16}, Sizes{1, 1, 50, 130, 3}, Sizes{1, 2, 40, 35, 72}, Sizes{0, 2, 3, 3, 4}}) {
    const Operand q = f32({z.b, z.h, z.t, z.d}), k = f32({z.b, z.h, z.s, z.d}), lse = f32({z.b, z.h, z.t});
    const Operand lengths = index({z.b}, z.s + 1, z.t % 2 ? DType::i32 : DType::i64);
    for (const bool causal : {false, true}) {
      const AttentionAttrs plain{.scale = 0.4, .causal = causal};
      AttentionAttrs counted = plain, both = plain;
      counted.lengths = both.second = true;
      t.push_back({Op::attention, plain, {q, k, k}, 4});
      t.push_back({Op::attention, counted, {q, k, k, lengths}, 4});
      // Behind a single key stands a gradient of 0, of which only the rounding would be compared.
      if (z.s > 1) t.push_back({Op::attention_grad, counted, {q, k, k, lengths, q}, 10});
      t.push_back({Op::attention_grad, both, {q, k, k, q, lse}, 10});
    }
  }
}

// Masks (T, S), (B, 1, 1, S), (B, 1, T, S), (1, H, T, S) and (B, H, T, S). Of three keys a bool hides all now and then.
inline void masked_attention_rows(Rows& t) {
  struct Form {
    bool samples, heads, queries;
  };
  const auto add = [&](const Shape& q_shape, int64_t s, const Form& form, bool causal, bool added) {
    const Operand q = f32(q_shape), k = f32({q_shape[0], q_shape[1], s, q_shape[3]});
    const Shape shape{(form.samples ? q_shape[0] : 1) * (form.heads ? q_shape[1] : 1), form.queries ? q_shape[2] : 1,
                      s};
    const AttentionAttrs a{.scale = 0.4,
                           .causal = causal,
                           .lengths = form.samples != added,
                           .mask = true,
                           .mask_samples = form.samples,
                           .mask_heads = form.heads};
    std::vector<Operand> in{q, k, k};
    if (a.lengths) in.push_back(index({q_shape[0]}, s + 1));
    in.push_back(added ? f32(shape) : boolean(shape));
    t.push_back({Op::attention, a, in, 4});
    in.push_back(q);
    if (s > 3) t.push_back({Op::attention_grad, a, in, 10});
  };
  for (const Form& form : {Form{false, false, true}, Form{true, false, false}, Form{true, false, true},
                           Form{false, true, true}, Form{true, true, true}}) {
    for (const bool causal : {false, true}) {
      for (const bool added : {false, true}) {
        add({2, 3, 5, 4}, 3, form, causal, added);
        if (causal == added) add({2, 2, 50, 9}, 70, form, causal, added);
      }
    }
  }
}

inline void recurrent_rows(Rows& t) {
  // Samples, steps, hidden numbers: tasks of the kernel have eight samples at least, vectors up to 16 numbers.
  struct Sizes {
    int64_t n, t, h;
  };
  for (const Sizes& z : {Sizes{1, 1, 1}, Sizes{3, 2, 5}, Sizes{19, 3, 17}, Sizes{2, 4, 33}, Sizes{0, 2, 3}}) {
    for (const bool gru : {false, true}) {
      const int64_t gates = (gru ? 3 : 4) * z.h;
      const Operand state = f32({z.n, z.t, z.h}), wide = f32({z.n, z.t, gates}, Fill::unit),
                    w = f32({gates, z.h}, Fill::unit);
      for (const bool lengths : {false, true}) {
        const RecurrentAttrs a{.gru = gru, .reverse = z.t % 2 == lengths, .lengths = lengths};
        OpRow forward{Op::recurrent, a, {wide, w}, 20},
            gradient{Op::recurrent_grad, a, {w, state, state, wide, state}, 40};
        if (gru) forward.in.push_back(f32({z.h}));
        for (OpRow* row : {&forward, &gradient}) {
          if (lengths) row->in.push_back(index({z.n}, z.t + 1));
          t.push_back(*row);
        }
      }
    }
  }
}

inline void recurrent_layer_rows(Rows& t) {
  struct Sizes {
    int64_t n, t, d, h;  // samples, steps, inputs, hidden numbers
  };
  for (const Sizes& z :
       {Sizes{1, 1, 1, 1}, Sizes{3, 2, 4, 5}, Sizes{9, 3, 19, 17}, Sizes{2, 1, 3, 3}, Sizes{0, 2, 2, 3}}) {
    for (const bool gru : {false, true}) {
      const int64_t gates = (gru ? 3 : 4) * z.h;
      const Operand state = f32({z.n, z.t, z.h});
      for (const bool lengths : {false, true}) {
        const RecurrentAttrs steps{.gru = gru, .reverse = z.t % 2 == lengths, .lengths = lengths};
        std::vector<Operand> in{f32({z.n, z.t, z.d}, Fill::unit), f32({gates, z.d}, Fill::unit), f32({gates}),
                                f32({gates, z.h}, Fill::unit)};
        if (gru) in.push_back(f32({z.h}));
        if (lengths) in.push_back(index({z.n}, z.t + 1));
        t.push_back({Op::recurrent_layer, RecurrentLayerAttrs{steps}, in, 20});
        in.insert(in.end(), {state, state, f32({z.n, z.t, gates}, Fill::unit), state});
        t.push_back({Op::recurrent_layer_grad, RecurrentLayerAttrs{steps}, in, 40});
      }
    }
  }
}

inline void update_rows(Rows& t) {
  const Operand rate = f32({}, Fill::positive);
  t.push_back({Op::sgd_rows, NoAttrs{}, {f32({7, 3}), index({5}, 7), f32({5, 3}), rate}, 2});
  t.push_back({Op::sgd_rows, NoAttrs{}, {f32({65, 17}), index({4, 9}, 65, DType::i64), f32({4, 9, 17}), rate}, 4});
  t.push_back({Op::sgd_rows, NoAttrs{}, {f32({3, 2}), index({65}, 3, DType::u8), f32({65, 2}), rate}, 10});
  t.push_back({Op::sgd_rows, NoAttrs{}, {f32({3, 2}), index({0}, 3), f32({0, 2}), rate}});
  for (const Shape& s : {Shape{}, Shape{7}, Shape{17, 65}, Shape{0, 3}}) {
    const Operand x = f32(s), v = f32(s, Fill::positive);
    t.push_back({Op::sgd_update, SgdAttrs{}, {x, x, rate}, 2});
    t.push_back({Op::sgd_update, SgdAttrs{0, 0, 0.01, false}, {x, x, rate}, 2});
    t.push_back({Op::sgd_update, SgdAttrs{0.9, 0, 0.01, false}, {x, x, rate, x}, 4});
    t.push_back({Op::sgd_update, SgdAttrs{0.9, 0.1, 0, false}, {x, x, rate, x}, 4});
    t.push_back({Op::sgd_update, SgdAttrs{0.9, 0, 0.01, true}, {x, x, rate, x}, 4});
    t.push_back({Op::adam_update, AdamAttrs{}, {x, x, rate, rate, x, v}, 20});
    t.push_back({Op::adam_update, AdamAttrs{0.9, 0.99, 1e-8, 0.01, false}, {x, x, rate, rate, x, v}, 20});
    t.push_back({Op::adam_update, AdamAttrs{0.9, 0.999, 1e-6, 0.01, true}, {x, x, rate, rate, x, v}, 20});
  }
}

}  // namespace rows

inline const std::vector<OpRow>& op_rows() {
  static const std::vector<OpRow> kRows = [] {
    std::vector<OpRow> t;
    rows::leaf_rows(t);
    rows::unary_rows(t);
    rows::binary_rows(t);
    rows::view_rows(t);
    rows::reduce_rows(t);
    rows::matmul_rows(t);
    rows::linalg_rows(t);
    rows::conv_rows(t);
    rows::pool_rows(t);
    rows::index_rows(t);
    rows::composite_rows(t);
    rows::attention_rows(t);
    rows::masked_attention_rows(t);
    rows::recurrent_rows(t);
    rows::recurrent_layer_rows(t);
    rows::update_rows(t);
    return t;
  }();
  return kRows;
}

// All ops that have rows, for tests that are instantiated per op.
inline std::vector<Op> ops_with_rows() {
  std::vector<Op> ops;
  for (const OpRow& row : op_rows()) {
    if (std::find(ops.begin(), ops.end(), row.op) == ops.end()) ops.push_back(row.op);
  }
  return ops;
}

// How a row's operands reach the op: as inputs, or as views of larger or smaller inputs.
enum class Through { nothing, transpose, slice, broadcast };

// True where an operand can be given through such a view. Matrices stay matrices of their kind: their two axes are
// exchanged, sliced both, or not broadcast.
inline bool has_view(const Operand& o, Through through) {
  if (o.type.shape.rank() == 0 || o.fill == Fill::key || o.fill == Fill::permutation) return false;
  return through != Through::nothing &&
         !(through == Through::broadcast && is_matrix(o.fill) && o.type.shape.rank() < 3);
}
inline Shape view_order(const Operand& o) {
  const int rank = o.type.shape.rank();
  Shape order = o.type.shape;
  for (int i = 0; i < rank; ++i) order[i] = is_matrix(o.fill) ? i : rank - 1 - i;
  if (is_matrix(o.fill)) std::swap(order[rank - 2], order[rank - 1]);
  return order;
}
inline Type type_behind(const Operand& o, Through through, size_t at) {
  Type have = o.type;
  if (!has_view(o, through)) return have;
  const int rank = have.shape.rank();
  if (through == Through::transpose) {
    const Shape order = view_order(o);
    for (int i = 0; i < rank; ++i) have.shape[i] = o.type.shape[static_cast<int>(order[i])];
  }
  if (through == Through::slice) {
    for (int64_t& d : have.shape) d = 2 * d + 1;
  }
  if (through == Through::broadcast) have.shape[is_matrix(o.fill) ? 0 : static_cast<int>(at) % rank] = 1;
  return have;
}

// Linear algebra: in f32 and f64 alone.
inline bool is_linear_algebra(Op op) { return info(op).kind == OpKind::linalg || op == Op::lstsq || op == Op::solve; }
inline bool has_linear_algebra(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return is_linear_algebra(n.op); });
}
// Eigenvalues and singular values: GPUs have no kernels for them, but some have libraries.
inline bool is_spectral(Op op) { return op == Op::eigh || op == Op::svd || op == Op::eig || op == Op::lstsq; }
// The ops that GPUs have kernels for.
inline std::vector<Op> ops_of_gpus() {
  std::vector<Op> ops = ops_with_rows();
  ops.erase(std::remove_if(ops.begin(), ops.end(), is_spectral), ops.end());
  return ops;
}

// A graph of the row: its operands as inputs (possibly through a view), the op, its results as outputs.
inline Graph graph_of(const OpRow& row, Through through = Through::nothing) {
  Graph g;
  Builder b(g, "layer1.op", "test.cpp:1");
  std::vector<Value> in;
  for (size_t i = 0; i < row.in.size(); ++i) {
    const Type want = row.in[i].type, have = type_behind(row.in[i], through, i);
    const int rank = want.shape.rank();
    Value x = b.one(Op::input, LeafAttrs{"x" + std::to_string(i), have}, {});
    if (has_view(row.in[i], through)) {
      if (through == Through::transpose) x = b.transpose(x, view_order(row.in[i]));
      if (through == Through::slice) {
        Shape limit = have.shape;
        for (int k = 0; k < rank; ++k) limit[k] = 1 + 2 * want.shape[k];
        x = b.slice(x, Shape::filled(rank, 1), limit, Shape::filled(rank, 2));
      }
      if (through == Through::broadcast) x = b.broadcast(x, want.shape);
    }
    in.push_back(x);
  }
  if (row.op == Op::attention_grad) {  // it reads the results of its op
    const size_t own = in.size() - (std::get<AttentionAttrs>(row.attrs).second ? 2 : 1);
    const auto end = in.begin() + static_cast<std::ptrdiff_t>(own);
    const std::vector<Value> results = b.add(Op::attention, row.attrs, std::vector<Value>(in.begin(), end));
    in.insert(end, results.begin(), results.end());
  }
  g.outputs = b.add(row.op, row.attrs, in);
  return unambiguous(g);
}

// Random arrays for the inputs of graph_of(row, ...).
inline std::vector<Array> inputs_of(const OpRow& row, const Graph& g, uint64_t seed) {
  std::vector<Array> arrays;
  const std::vector<Value> leaves = g.leaves(Op::input);
  for (size_t i = 0; i < leaves.size(); ++i) {
    Operand o = row.in[i];
    o.type = g.type(leaves[i]);
    arrays.push_back(random_array(o, seed + i));
  }
  return arrays;
}

}  // namespace freight::test
