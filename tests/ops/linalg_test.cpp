// Linear algebra beyond what the rows check: values that are known, which triangle is read, degenerate spectra, what is
// refused and how, and what passes make of the ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "freight/base/error.h"
#include "freight/ops/ops.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"
#include "freight/trace/device.h"
#include "tests/support/error_of.h"
#include "tests/support/graphs.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

using freight::testing::message_of;
using Doubles = std::vector<double>;

void expect_near(const Tensor& got, const Doubles& need, double tolerance = 1e-12) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), need.size());
  for (size_t i = 0; i < need.size(); ++i) EXPECT_NEAR(values[i], need[i], tolerance) << "element " << i;
}

Tensor doubles(const Shape& shape, Fill fill, uint64_t seed) {
  return Tensor(random_array({{DType::f64, shape}, fill}, seed));
}

TEST(Linalg, GivesTheNumbersThatAreKnown) {
  const Tensor x = Tensor::of<double>({{2, 1, 1}, {4, 3, 3}, {8, 7, 9}});
  const LuFactor f = lu_factor(x);
  EXPECT_EQ(f.pivots.to_vector<int>(), (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(f.permutation.to_vector<int>(), (std::vector<int>{2, 0, 1}));
  expect_near(f.lu, {8, 7, 9, 0.25, -0.75, -1.25, 0.5, 2.0 / 3, -2.0 / 3});
  expect_near(det(x), {4});
  const SlogDet d = slogdet(-x);
  expect_near(d.sign, {-1});
  expect_near(d.logabsdet, {std::log(4.0)});
  expect_near(cholesky(Tensor::of<double>({{4, 2}, {2, 5}})), {2, 0, 1, 2});
  expect_near(eigvalsh(Tensor::of<double>({{2, 1}, {1, 2}})), {1, 3});
  expect_near(matrix_power(Tensor::of<double>({{1, 1}, {0, 1}}), -3), {1, -3, 0, 1});
  expect_near(cond(Tensor::of<double>({{4, 0}, {0, -2}})), {2});
  const Eigvals turned = eigvals(Tensor::of<double>({{0, -2}, {2, 0}}));
  expect_near(turned.re, {0, 0});
  expect_near(sum(square(turned.im)), {8});
}

TEST(Linalg, FactorsMakeTheMatrixAgain) {
  for (const Shape& s : {Shape{4, 4}, Shape{5, 3}, Shape{2, 3, 5}}) {
    const Tensor x = doubles(s, Fill::normal, 3);
    const auto near = [&](const Tensor& y) { expect_near(y - x, Doubles(static_cast<size_t>(x.numel()), 0.0), 1e-11); };
    const Lu f = lu(x), by_rows = lu(x, {.p_indices = true});
    near(matmul(f.p, matmul(f.l, f.u)));
    const Tensor index = broadcast_to(unsqueeze(by_rows.p, -1), x.shape());
    near(gather_elements(matmul(by_rows.l, by_rows.u), index, -2));
    for (const QrMode mode : {QrMode::reduced, QrMode::complete}) near(matmul(qr(x, mode).q, qr(x, mode).r));
    const Svd usv = svd(x, {.full_matrices = false});
    near(matmul(usv.u * unsqueeze(usv.s, -2), usv.vh));
    near(matmul(x, matmul(pinv(x), x)));
  }
}

TEST(Linalg, ReadsOneTriangleAndGivesItAloneAGradient) {
  const double wrong = 77;
  const Tensor low = Tensor::of<double>({{3, wrong}, {1, 2}}), high = Tensor::of<double>({{3, 1}, {wrong, 2}});
  for (const bool upper : {false, true}) {
    const Tensor x = upper ? high : low;
    const TriangleOptions which{.upper = upper};
    const Tensor factor = cholesky(x, which);
    expect_near(upper ? matmul(transpose(factor), factor) : matmul(factor, transpose(factor)), {3, 1, 1, 2});
    expect_near(sum(eigh(x, which).values), {5});
    for (const Tensor& y : {sum(factor), sum(square(eigvalsh(x, which)))}) {
      const Doubles g = grad(y, std::vector<Tensor>{x})[0].to_vector<double>();
      EXPECT_EQ(g[upper ? 2 : 1], 0);
      EXPECT_NE(g[upper ? 1 : 2], 0);
    }
    // The sum of squares is that of the symmetric matrix: what stands twice there counts twice.
    expect_near(grad(sum(square(eigvalsh(x, which))), std::vector<Tensor>{x})[0],
                upper ? Doubles{6, 4, 0, 4} : Doubles{6, 0, 4, 4});
  }
}

TEST(Linalg, EqualEigenvaluesAndSingularValuesGiveFiniteGradients) {
  const Tensor one = eye(3, -1, DType::f64), zero = zeros({3, 3}, DType::f64);
  const Tensor thin = Tensor::of<double>({{1, 0}, {0, 1}, {0, 0}, {0, 0}});
  const Tensor weights = doubles({3, 3}, Fill::unit, 5);
  const auto finite = [](const Tensor& y, const Tensor& x) {
    const Tensor g = grad(y, std::vector<Tensor>{x})[0];
    EXPECT_TRUE(all(is_finite(g)).item<bool>());
    return g;
  };
  for (const Tensor& x : {one, zero}) {
    const Eigh e = eigh(x);
    finite(sum(e.vectors * weights) + sum(e.values), x);
    const Svd f = svd(x);
    finite(sum(f.u * weights) + sum(f.vh * weights) + sum(f.s), x);
  }
  const Svd f = svd(thin, {.full_matrices = false});
  finite(sum(f.u) + sum(f.vh), thin);
  const Eig e = eig(one);
  finite(sum(e.vectors_re * weights) + sum(e.values_re), one);
}

// An orthogonal matrix has equal singular values, which leave out nothing of the gradient of its pseudo-inverse: by
// d(x^-1) = -x^-1 dx x^-1 that of <w, x^-1> is -(x^-1 w^T x^-1)^T.
TEST(Linalg, LeastSquaresHaveTheirWholeGradientWhereSingularValuesAreEqual) {
  const Tensor x = Tensor::of<double>({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}), w = doubles({3, 3}, Fill::unit, 6);
  const Tensor inverse = transpose(x);
  expect_near(grad(sum(w * pinv(x)), std::vector<Tensor>{x})[0],
              (-transpose(matmul(inverse, matmul(transpose(w), inverse)))).to_vector<double>());
}

// The determinant of rows (N, N), by its first row.
double determinant(const std::vector<Doubles>& rows) {
  if (rows.empty()) return 1;
  double all = 0;
  for (size_t j = 0; j < rows.size(); ++j) {
    std::vector<Doubles> minor(rows.begin() + 1, rows.end());
    for (Doubles& row : minor) row.erase(row.begin() + static_cast<std::ptrdiff_t>(j));
    all += (j % 2 == 0 ? 1 : -1) * rows[0][j] * determinant(minor);
  }
  return all;
}

// The derivatives of the determinant by the elements: minors with signs.
Doubles cofactors(const Doubles& x, size_t n) {
  Doubles all;
  for (size_t e = 0; e < n * n; ++e) {
    std::vector<Doubles> minor;
    for (size_t i = 0; i < n; ++i) {
      Doubles row;
      for (size_t j = 0; j < n; ++j) {
        if (i != e / n && j != e % n) row.push_back(x[i * n + j]);
      }
      if (i != e / n) minor.push_back(row);
    }
    all.push_back(((e / n + e % n) % 2 == 0 ? 1 : -1) * determinant(minor));
  }
  return all;
}

TEST(Linalg, TheDeterminantOfSingularMatricesHasItsCofactorsAsGradient) {
  const std::vector<Doubles> matrices = {
      {1, 2, 3, 4, 5, 6, 7, 8, 9},                       // of rank 2, by rounding alone not 0
      {1, 2, 0, 3, 2, 4, 1, 1, 1, 2, 5, 7, 0, 0, 2, 1},  // the second pivot is 0
      {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0},  // all pivots are 0, and yet a cofactor is not
      {0, 1, 0, 1e-9, 0, 0, 2e-9, 0, 0},
      {3e8, 0, 0, 0, 0, 0, 0, 0, 5e8},
      {1, 1, 1, 1, 1, 1, 1, 1, 1},  // of rank 1: there is no minor but 0
      {0, 0, 0, 0, 0, 0, 0, 0, 0},
      {0, 0, 0, 2},
      {0},
      {2, 1, 0, 1, 3, 1, 0, 1, 4}};  // not singular
  for (const Doubles& x : matrices) {
    const auto n = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(x.size()))));
    const auto side = static_cast<int64_t>(n);
    const Doubles need = cofactors(x, n);
    double size = 0;
    for (const double v : x) size = std::max(size, std::abs(v));
    const double scale = size == 0 ? 1 : std::pow(size, static_cast<double>(n) - 1);
    for (const char* backend : {"ref", "cpu"}) {
      const DeviceScope scope(backend);
      for (const DType dtype : {DType::f32, DType::f64}) {
        const Tensor t = cast(Tensor(Array::of(x, {side, side})), dtype);
        const Doubles got = cast(grad(det(t), std::vector<Tensor>{t})[0], DType::f64).to_vector<double>();
        const double tolerance = (dtype == DType::f32 ? 3e-5 : 1e-13) * scale;
        for (size_t e = 0; e < need.size(); ++e) {
          EXPECT_NEAR(got[e], need[e], tolerance)
              << backend << " " << to_string(t.type()) << " element " << e << " of " << x[0];
        }
      }
    }
  }
}

TEST(Linalg, OneSingularMatrixOfABatchChangesNoOther) {
  const Doubles fine = {2, 1, 0, 1, 3, 1, 0, 1, 4}, singular = {1, 2, 1, 2, 4, 5, 3, 6, 7};
  Doubles both = fine, need = cofactors(fine, 3);
  both.insert(both.end(), singular.begin(), singular.end());
  const Doubles beside = cofactors(singular, 3);
  need.insert(need.end(), beside.begin(), beside.end());
  const Tensor x(Array::of(both, {2, 3, 3}));
  const Tensor y = det(x);
  expect_near(y, {determinant({{2, 1, 0}, {1, 3, 1}, {0, 1, 4}}), 0});
  expect_near(grad(sum(y), std::vector<Tensor>{x})[0], need, 1e-12);
}

TEST(Linalg, OfManySolutionsLeastSquaresGivesTheShortest) {
  const Tensor x = Tensor::of<double>({{1, 1}, {1, 1}, {1, 1}});  // of rank 1
  const LeastSquares y = lstsq(x, Tensor::of<double>({2, 4, 6}, {3}));
  expect_near(y.x, {2, 2});
  expect_near(y.residuals, {8});
  EXPECT_EQ(y.rank.item<int64_t>(), 1);
  EXPECT_EQ(matrix_rank(zeros({2, 3})).item<int64_t>(), 0);
}

TEST(Linalg, SingularMatricesAreRefusedWhereTheyHaveNoAnswer) {
  const Tensor x = Tensor::of<double>({{1, 2}, {2, 4}}), b = Tensor::of<double>({1, 1}, {2});
  for (const auto& f :
       {std::function<Tensor()>([&] { return inv(x); }), std::function<Tensor()>([&] { return solve(x, b); }),
        std::function<Tensor()>([&] { return matrix_power(x, -1); }),
        std::function<Tensor()>([&] { return cholesky(-x); }), std::function<Tensor()>([&] {
          return solve_triangular(zeros({2, 2}, DType::f64), b);
        })}) {
    try {
      f().to_vector<double>();
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::data) << e.what();
    }
  }
  expect_near(det(x), {0});
  const SlogDet d = slogdet(x);
  EXPECT_EQ(d.sign.item<double>(), 0);
  EXPECT_EQ(d.logabsdet.item<double>(), -HUGE_VAL);
  EXPECT_EQ(cond(x, MatrixOrder::one).item<double>(), HUGE_VAL);
}

// Rounding gives such matrices a least singular value just above 0, or exactly 0, by processor.
TEST(Linalg, TheConditionOfASingularMatrixIsInfinite) {
  const Tensor singular = Tensor::of<double>({{1, 1}, {1, 1}});
  const Tensor both = stack({singular, Tensor::of<double>({{1, 0}, {0, 1e-20}})});
  EXPECT_EQ(cond(both).to_vector<double>(), (Doubles{HUGE_VAL, 1e20}));
  EXPECT_EQ(cond(both, MatrixOrder::minus_two).to_vector<double>(), (Doubles{0, 1e-20}));
  EXPECT_TRUE(std::isnan(cond(full({2, 2}, std::nan(""))).item<float>()));
}

TEST(Linalg, RefusalsNameWhatWasGotAndTheMend) {
  const Tensor a = zeros({3, 3}), wide_one = zeros({2, 3}), half = zeros({3, 3}, DType::bf16);
  const std::vector<std::pair<std::function<void()>, std::string>> cases = {
      {[&] { solve(wide_one, a); }, "solve: the matrix is not square: expected (..., N, N), got f32[2,3]"},
      {[&] { inv(half); }, "inv: does not compute in bf16: expected f32, f64, got bf16[3,3]; cast it first"},
      {[&] { cholesky(zeros({3})); }, "cholesky: needs a matrix: expected (..., N, N), got f32[3]"},
      {[&] {
         solve(a, zeros({2, 5}));
       },
       "solve: a and b do not match: a f32[3,3], b f32[2,5] axis 0 = 2, expected 3"},
      {[&] {
         solve(zeros({4, 3, 3}), zeros({2, 3, 1}));
       },
       "solve: batch axes do not broadcast: a f32[4,3,3], b f32[2,3,1]"},
      {[&] {
         qr(zeros({3, 3}, DType::i32));
       },
       "qr: does not compute in i32: expected f32, f64, got i32[3,3]; cast it first"},
      {[&] { lstsq(a, zeros({3}, DType::f64)); },
       "lstsq: element types differ: a f32[3,3], b f64[3]; cast one of them"},
      {[&] { mirrored(wide_one); }, "mirrored: the matrix is not square: expected (..., N, N), got f32[2,3]"},
      {[&] { lu_cond(a, a); }, "lu_cond: norm must be that of x: expected f32[], got f32[3,3] with lu f32[3,3]"},
      {[&] { pinv(a, {.rtol = -1}); }, "pinv: the tolerance must not be negative: got -1"},
      {[&] { outer(a, a); }, "outer: needs two vectors: expected (M) and (N), got f32[3,3] and f32[3,3]"},
      {[&] { cross(zeros({2}), zeros({2})); }, "cross: needs vectors of 3 numbers along axis -1: got f32[2]"},
  };
  for (const auto& [call, text] : cases) {
    const std::string got = message_of(call);
    EXPECT_EQ(got.substr(0, text.size()), text);
    EXPECT_NE(got.find("linalg_test.cpp:"), std::string::npos) << got;
  }
}

// Of many small systems, which a kernel of their own solves, too: the gradient is the slope of what is solved.
TEST(Linalg, SolutionsHaveTheirSlopesAsGradients) {
  for (const int64_t batch : {2, 20}) {
    const Tensor a = doubles({batch, 12, 12}, Fill::normal, 3), b = doubles({batch, 12, 2}, Fill::normal, 4);
    const Tensor w = doubles({batch, 12, 12}, Fill::normal, 5);
    const auto value = [&](const Tensor& at) { return sum(sin(solve(at, b))); };
    const double step = 1e-7, slope = sum(w * grad(value(a), {a})[0]).item<double>();
    const Tensor more = value(a + step * w), less = value(a - step * w);
    EXPECT_NEAR((more - less).item<double>() / (2 * step), slope, 1e-5 * std::abs(slope));
  }
}

TEST(LinalgCond, IsEstimatedFromTheFactorsWithinAThirdAndNeverAbove) {
  const auto check = [](const Tensor& x, const std::string& what, double slack) {
    const Tensor norm = matrix_norm(x, {.ord = MatrixOrder::one});
    const Doubles got = lu_cond(lu_factor(x).lu, norm).to_vector<double>();
    const Doubles need = cond(x, MatrixOrder::one).to_vector<double>();
    ASSERT_EQ(got.size(), need.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(got[i], need[i] * (1 + slack)) << what << " " << i;
      EXPECT_GE(got[i], need[i] / 3) << what << " " << i;
    }
  };
  for (const int64_t n : {1, 2, 3, 10, 57}) {
    const Tensor x = doubles({20, n, n}, Fill::normal, static_cast<uint64_t>(n));
    check(x, "random", 1e-8);
    const Tensor i = iota({n, n}, 0, DType::f64), j = iota({n, n}, 1, DType::f64);
    check(x * exp(-(i + 2 * j) / 4.0), "graded", 1e-6);
    check(eye(n, -1, DType::f64), "identity", 1e-12);
    if (n <= 10) check(1.0 / (i + j + 1.0), "Hilbert", 1e-2);
  }
  const Tensor one = full({2}, 1, DType::f64);
  const Tensor pair = Tensor::of<double>({{{1, 2}, {2, 4}}, {{1, 0}, {0, 1}}});
  EXPECT_EQ(lu_cond(lu_factor(pair).lu, one).to_vector<double>(), (Doubles{HUGE_VAL, 1}));
  EXPECT_EQ(lu_cond(zeros({3, 0, 0}), zeros({3})).shape(), (Shape{3}));
  EXPECT_TRUE(std::isnan(lu_cond(full({2, 2}, std::nan("")), full({}, 1)).item<float>()));
}

TEST(Linalg, VectorsThatAreNotUniqueHaveNoGradient) {
  const Tensor x = doubles({4, 2}, Fill::matrix, 7);
  const auto text = [&](const Tensor& y) { return message_of([&] { grad(sum(y), std::vector<Tensor>{x}); }); };
  EXPECT_NE(text(svd(x).u).find("svd: no gradient flows through u of the full decomposition of f64[4,2]: its last 2 "
                                "columns are not unique; use the reduced one"),
            std::string::npos)
      << text(svd(x).u);
  EXPECT_NE(text(qr(x, QrMode::complete).q).find("qr: no gradient flows through q of a complete decomposition"),
            std::string::npos);
  // Through the others it flows, and is that of the reduced ones.
  const auto same = [&](const Tensor& y, const Tensor& need) {
    const auto g = [&](const Tensor& z) { return grad(sum(square(z + 1)), std::vector<Tensor>{x})[0]; };
    expect_near(g(y), g(need).to_vector<double>());
  };
  const Svd reduced = svd(x, {.full_matrices = false});
  same(svd(x).s, reduced.s);
  same(matmul(transpose(svd(x).vh), unsqueeze(svd(x).s, -1)), matmul(transpose(reduced.vh), unsqueeze(reduced.s, -1)));
  same(narrow(qr(x, QrMode::complete).r, 0, 0, 2), qr(x).r);
}

// The phase of a vector of eig is such that its largest component is real. A loss that depends on it has the gradient
// of that convention.
TEST(Linalg, ComplexEigenvectorsHaveTheGradientOfTheirPhase) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f64, {4, 4}}}, {});
  const std::vector<Value> all = b.add(Op::eig, NoAttrs{}, {x});
  const Value loss = weighted_sum(g, all, 100);
  EXPECT_TRUE(gradient_agrees(g, loss, {random_array({{DType::f64, {4, 4}}, Fill::spectrum}, 8)}, 1e-6, 16));
}

Graph graph_of_spectrum(const std::vector<Op>& ops) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {3, 3}}}, {});
  const Value y = b.binary(Op::add, b.unary(Op::exp, b.matmul(x, x)), x);
  for (const Op op : ops) {
    const Value z = b.one(op, info(op).attrs, {y});
    g.outputs.push_back(b.unary(Op::neg, z));
  }
  return g;
}

TEST(LinalgPasses, EqualFactorizationsAreOneAndNoneIsFusedOrIn16Bits) {
  const Graph twice =
      graph_of_spectrum({Op::cholesky, Op::cholesky, Op::qr, Op::eigh, Op::svd, Op::lu_factor, Op::eig});
  const Graph simple = passes::simplify(twice);
  EXPECT_EQ(count(simple, Op::cholesky), 1);
  for (const DType low : {DType::bf16, DType::f16}) {
    const Graph mixed = passes::autocast(twice, low);
    verify(mixed, "autocast");
    for (const Node& n : mixed.nodes) {
      if (info(n.op).kind == OpKind::linalg) {
        EXPECT_EQ(mixed.type(n.in(0)).dtype, DType::f32) << name(n.op);
      }
    }
  }
  RunOptions options;
  options.backend = "cpu";
  const auto plan = plan_for(twice, options);
  int steps = 0;
  for (const Node& n : plan->graph().nodes) steps += info(n.op).kind == OpKind::linalg;
  EXPECT_EQ(steps, 6);
}

TEST(LinalgCost, CountsOperationsAsTheBooksDo) {
  const auto flops = [](Op op, const Attrs& attrs, const std::vector<Shape>& shapes) {
    Graph g;
    Builder b(g);
    std::vector<Value> in;
    for (const Shape& s : shapes) in.push_back(b.one(Op::input, LeafAttrs{"x", {DType::f32, s}}, {}));
    g.outputs = b.add(op, attrs, in);  // all are read: values alone cost less
    return cost(g, g.def(g.outputs[0])).flops;
  };
  const double n = 30, m = 50;
  EXPECT_NEAR(flops(Op::lu_factor, LuAttrs{}, {{30, 30}}), 2 * n * n * n / 3, 1e-6);
  EXPECT_NEAR(flops(Op::lu_factor, LuAttrs{}, {{2, 50, 30}}), 2 * (m * n * n - n * n * n / 3), 1e-6);
  EXPECT_NEAR(flops(Op::cholesky, CholeskyAttrs{}, {{30, 30}}), n * n * n / 3, 1e-6);
  EXPECT_NEAR(flops(Op::qr, QrAttrs{}, {{50, 30}}), 4 * (m * n * n - n * n * n / 3), 1e-6);
  EXPECT_NEAR(flops(Op::solve_triangular, TriangularAttrs{}, {{30, 30}, {30, 7}}), n * n * 7, 1e-6);
  EXPECT_NEAR(flops(Op::solve, {}, {{30, 30}, {30, 7}}), 2 * n * n * n / 3 + 2 * n * n * 7, 1e-6);
  EXPECT_NEAR(flops(Op::eigh, EighAttrs{}, {{30, 30}}), 9 * n * n * n, 1e-6);
  EXPECT_NEAR(flops(Op::svd, SvdAttrs{}, {{30, 50}}), 6 * m * n * n + 20 * n * n * n, 1e-6);  // by QR first
}

}  // namespace
}  // namespace freight::test
