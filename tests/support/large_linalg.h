// Large operands of linear algebra: batches of more than 2^31 bytes, tall and wide matrices, one whose rows lie so far
// apart that their places leave 31 bits, and square ones of that size. See large_repeated.h for those that repeat.
#pragma once
#include <vector>

#include "tests/support/large_case.h"

namespace freight::test {

// A function of its place without a pattern in it, around 0.
inline double scattered(int64_t i, int64_t j) {
  const auto mixed =
      (static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u) ^ (static_cast<uint64_t>(j) * 0xC2B2AE3D27D4EB4Fu);
  return static_cast<double>((mixed * 0xD6E8FEB86659FD93u) >> 40) * 0x1p-23 - 1;
}

// (m, n) of f64: scattered, with `diagonal` on its diagonal.
inline Array scattered_matrix(int64_t m, int64_t n, double diagonal) {
  Array x(DType::f64, {m, n});
  auto* const to = x.data<double>();
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) to[i * n + j] = scattered(std::min(i, j), std::max(i, j));
    if (i < n) to[i * n + i] += diagonal;
  }
  return x;
}

// Rows and columns that are looked at: both ends and some between.
inline std::vector<int64_t> sampled(int64_t extent) {
  std::vector<int64_t> places;
  for (int64_t k = 0; k < 40; ++k) places.push_back((extent - 1) * k / 39);
  for (const int64_t p : {int64_t{1}, extent / 2 + 1, extent - 2}) {
    if (p >= 0 && p < extent) places.push_back(p);
  }
  return places;
}

inline Graph graph_of_factors(Op op, const Attrs& attrs, const Shape& shape) {
  Graph g;
  Builder b(g);
  g.outputs = b.add(op, attrs, {b.one(Op::input, LeafAttrs{"x", {DType::f64, shape}}, {})});
  return g;
}

// `got(i, j)` is the product of the factors at a place of x (m, n).
template <class F>
void expect_product(const Array& x, int64_t row_stride, const std::vector<int64_t>& rows,
                    const std::vector<int64_t>& columns, double tolerance, const F& got) {
  int shown = 0;
  for (const int64_t i : rows) {
    for (const int64_t j : columns) {
      const double want = x.data<double>()[i * row_stride + j], have = got(i, j);
      if (std::fabs(have - want) <= tolerance || shown++ == 3) continue;
      ADD_FAILURE() << "element (" << i << ", " << j << ") of the factors' product is " << have << ", need " << want;
    }
  }
}

inline void check_large_lu(const RunGraph& run, int64_t m, int64_t n) {
  const Array x = scattered_matrix(m, n, 3);
  const std::vector<Array> y = run(graph_of_factors(Op::lu_factor, LuAttrs{true}, x.shape()), {x});
  const double* const lu = y[0].data<double>();
  const int32_t* const row = y[2].data<int32_t>();
  const int64_t k = std::min(m, n);
  int shown = 0;
  for (const int64_t i : sampled(m)) {
    for (const int64_t j : sampled(n)) {
      double sum = i <= j ? lu[i * n + j] : 0;
      for (int64_t q = 0; q < std::min({i, j + 1, k}); ++q) sum += lu[i * n + q] * lu[q * n + j];
      const double want = x.data<double>()[row[i] * n + j];
      if (std::fabs(sum - want) > 1e-9 && shown++ < 3)
        ADD_FAILURE() << "element (" << i << ", " << j << ") of L U is " << sum << ", need " << want;
    }
  }
}

inline void check_large_cholesky(const RunGraph& run, int64_t n, bool upper) {
  const Array x = scattered_matrix(n, n, static_cast<double>(n));
  const Array factor = run(graph_of_factors(Op::cholesky, CholeskyAttrs{upper}, x.shape()), {x})[0];
  const double* const f = factor.data<double>();
  expect_product(x, n, sampled(n), sampled(n), 1e-8, [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t q = 0; q <= std::min(i, j); ++q)
      sum += upper ? f[q * n + i] * f[q * n + j] : f[i * n + q] * f[j * n + q];
    return sum;
  });
}

// Q R is x at places, and Q' Q is 1.
inline void check_large_qr(const RunGraph& run, int64_t m, int64_t n) {
  const Array x = scattered_matrix(m, n, 3);
  const std::vector<Array> y = run(graph_of_factors(Op::qr, QrAttrs{}, x.shape()), {x});
  const double *const q = y[0].data<double>(), *const r = y[1].data<double>();
  const int64_t k = std::min(m, n);
  expect_product(x, n, sampled(m), sampled(n), 1e-8, [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t p = 0; p < std::min(k, j + 1); ++p) sum += q[i * k + p] * r[p * n + j];
    return sum;
  });
  std::vector<double> squares(static_cast<size_t>(k * k));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t a = 0; a < k; ++a) {
      for (int64_t b = a; b < k; ++b) squares[static_cast<size_t>(a * k + b)] += q[i * k + a] * q[i * k + b];
    }
  }
  for (int64_t a = 0; a < k; ++a) {
    for (int64_t b = a; b < k; ++b) EXPECT_NEAR(squares[static_cast<size_t>(a * k + b)], a == b, 1e-9) << a << " " << b;
  }
}

// The last columns of a matrix whose rows are long: an operand that is read as it lies, over more than 2^31 bytes.
inline void check_far_rows(const RunGraph& run, Op op, const Attrs& attrs, int64_t n, int64_t width) {
  const Shape shape{n, width};
  const Array wide(DType::f64, shape), small(DType::f64, {n, n});
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const double v = scattered(std::min(i, j), std::max(i, j)) + (i == j ? static_cast<double>(n) : 0);
      wide.data<double>()[i * width + width - n + j] = small.data<double>()[i * n + j] = v;
    }
  }
  const auto factors = [&](const Array& x, bool part) {
    Graph g;
    Builder b(g);
    Value v = b.one(Op::input, LeafAttrs{"x", {DType::f64, x.shape()}}, {});
    if (part) v = b.slice(v, {0, width - n}, shape, {1, 1});
    const std::vector<Value> in(info(op).min_inputs == 2 ? 2 : 1, v);
    g.outputs = b.add(op, attrs, in);
    return run(g, {x});
  };
  const std::vector<Array> far = factors(wide, true), near = factors(small, false);
  for (size_t i = 0; i < far.size(); ++i) {
    ASSERT_EQ(far[i].bytes(), near[i].bytes());
    const auto got = far[i].to_vector<double>(), want = near[i].to_vector<double>();
    double most = 0;
    for (size_t k = 0; k < got.size(); ++k) most = std::max(most, std::fabs(got[k] - want[k]));
    EXPECT_LE(most, 1e-9) << "result " << i << " of " << name(op);
  }
}

// --- batches ---

inline void add_many_matrices(LargeCases& all) {
  const auto many = [&](const std::string& what, int64_t gib, Op op, const Attrs& attrs, DType dtype, int64_t n,
                        Fill fill, size_t results, int64_t right = 0) {
    std::vector<Block> in{{{dtype, {5, n, n}}, 0, fill, 0, 0}};
    if (right > 0) in.push_back({{dtype, {5, n, right}}, 0, Fill::normal, 0, 0});
    all.add(what, gib,
            one_op(op, attrs, in, std::vector<Outcome>(results, {.axis = 0}), beyond_bytes(in[0].type),
                   dtype == DType::f32 ? 1e-3 : 1e-9));
  };
  for (const auto& [dtype, n] : {std::pair<DType, int64_t>{DType::f32, 16}, {DType::f64, 23}, {DType::f32, 150}}) {
    const std::string of = cat(" of many matrices ", dtype, "[", n, ",", n, "]");
    many("lu" + of, 8, Op::lu_factor, LuAttrs{true}, dtype, n, Fill::matrix, 3);
    many("cholesky" + of, 7, Op::cholesky, CholeskyAttrs{}, dtype, n, Fill::positive_definite, 1);
    many("solve" + of, 8, Op::solve, NoAttrs{}, dtype, n, Fill::matrix, 1, 1);
    many("solve_triangular" + of, 8, Op::solve_triangular, TriangularAttrs{.upper = true}, dtype, n,
         Fill::positive_definite, 1, 3);
  }
  many("qr of many matrices", 10, Op::qr, QrAttrs{}, DType::f32, 16, Fill::matrix, 2);
}

inline void add_linalg(LargeCases& all) {
  const auto check = [&](const std::string& what, int64_t gib, const std::function<void(const RunGraph&)>& run,
                         bool quick = false) {
    all.add({what, gib, run, quick, false});
  };
  constexpr int64_t kLong = (int64_t{1} << 25) + 9;  // rows of 8 numbers of f64: 2^31 bytes and some more
  check("lu of a tall matrix", 10, [](const RunGraph& run) { check_large_lu(run, kLong, 8); });
  check("lu of a wide matrix", 7, [](const RunGraph& run) { check_large_lu(run, 8, kLong); });
  check("qr of a tall matrix", 12, [](const RunGraph& run) { check_large_qr(run, kLong, 8); });
  check("qr of a wide matrix", 12, [](const RunGraph& run) { check_large_qr(run, 8, kLong); });
  check("lu of a square matrix", 8, [](const RunGraph& run) { check_large_lu(run, 16400, 16400); });
  for (const bool upper : {false, true}) {
    check(cat("cholesky of a square matrix", upper ? ", upper" : ""), 8,
          [=](const RunGraph& run) { check_large_cholesky(run, 16400, upper); });
  }
  const std::tuple<const char*, Op, Attrs> far[] = {
      {"lu", Op::lu_factor, LuAttrs{}},
      {"cholesky", Op::cholesky, CholeskyAttrs{}},
      {"qr", Op::qr, QrAttrs{}},
      {"solve", Op::solve, NoAttrs{}},
      {"solve_triangular", Op::solve_triangular, TriangularAttrs{.upper = true}},
      {"eigh", Op::eigh, EighAttrs{}},
  };
  for (const auto& [what, op, attrs] : far) {
    check(
        cat(what, " of a part of long rows"), 3,
        [op = op, attrs = attrs](const RunGraph& run) { check_far_rows(run, op, attrs, 100, 2700007); }, true);
  }
  add_many_matrices(all);
  // Right sides of more than 2^31 bytes: many columns, or rows on the other side.
  const auto sides = [&](const std::string& what, Op op, const Attrs& attrs, const Shape& b, int axis) {
    const Block right{{DType::f64, b}, axis, Fill::normal, 0, 0};
    all.add(what, 9,
            one_op(op, attrs, {{{DType::f64, {8, 8}}, -1, Fill::positive_definite, 0, 0}, right}, {{.axis = axis}},
                   beyond_bytes(right.type), 1e-9));
  };
  sides("solve for many columns", Op::solve, NoAttrs{}, {8, 64}, 1);
  sides("solve_triangular for many columns", Op::solve_triangular, TriangularAttrs{}, {8, 64}, 1);
  sides("solve_triangular for many rows", Op::solve_triangular, TriangularAttrs{.right = true}, {64, 8}, 0);
}

}  // namespace freight::test
