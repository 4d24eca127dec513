// The factorizations of the reference backend fulfil their defining equations, for matrices that try them, and equal
// what NumPy 1.26 (OpenBLAS 0.3) answers where the answer is unique; on NaN and infinities they end.
#include <gtest/gtest.h>

#include <complex>

#include "freight/backend/ref/dense.h"
#include "freight/backend/ref/interpret.h"
#include "freight/base/error.h"
#include "freight/ir/builder.h"
#include "tests/backend/matrices.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

using dense::Triangle;
using testing::expect_error;

constexpr double kStable = 30;  // LAPACK's threshold

dense::Matrix view(Dense& a) { return {a.numbers.data(), a.rows, a.columns}; }

// f(matrix, its text) for all kinds and the extents.
template <class F>
void each_matrix(F f) {
  for (const std::string& kind : matrix_kinds()) {
    for (const auto& [m, n] : matrix_extents()) f(matrix(kind, m, n), cat(kind, " ", m, "x", n));
  }
}
template <class F>
void each_square(F f) {
  for (const std::string& kind : matrix_kinds()) {
    for (const int64_t n : square_extents()) f(matrix(kind, n, n), cat(kind, " ", n, "x", n), kind);
  }
}

// ---- each factorization ----

struct Lu {
  Dense lu;
  std::vector<int64_t> pivots, permutation;
  int64_t zero = 0;
};
Lu lu_of(const Dense& a) {
  Lu f{a, std::vector<int64_t>(static_cast<size_t>(std::min(a.rows, a.columns))),
       std::vector<int64_t>(static_cast<size_t>(a.rows))};
  f.zero = dense::lu(view(f.lu), f.pivots.data(), f.permutation.data());
  return f;
}

TEST(LinalgRef, LuRebuildsTheMatrixWithItsRowsExchanged) {
  each_matrix([](const Dense& a, const std::string& text) {
    const Lu f = lu_of(a);
    const int64_t k = std::min(a.rows, a.columns);
    Dense l(a.rows, k), u(k, a.columns), exchanged(a.rows, a.columns), swapped = a;
    for (int64_t i = 0; i < a.rows; ++i) {
      for (int64_t j = 0; j < a.columns; ++j) {
        if (j < k && j <= i) l(i, j) = i == j ? 1 : f.lu(i, j);
        if (i < k && j >= i) u(i, j) = f.lu(i, j);
        exchanged(i, j) = a(f.permutation[static_cast<size_t>(i)], j);
        if (i > j) {
          EXPECT_LE(std::fabs(f.lu(i, j)), 1) << text;  // partial pivoting
        }
      }
    }
    for (int64_t i = 0; i < k; ++i) {
      const int64_t with = f.pivots[static_cast<size_t>(i)];
      for (int64_t j = 0; j < a.columns; ++j) std::swap(swapped(i, j), swapped(with, j));
    }
    EXPECT_LT(ratio(exchanged, l * u), kStable) << text;
    EXPECT_EQ(swapped.numbers, exchanged.numbers) << text;
  });
}

TEST(LinalgRef, LuNamesTheFirstZeroPivot) {
  EXPECT_EQ(lu_of(matrix("ones", 4, 4)).zero, 1);
  EXPECT_EQ(lu_of(matrix("zero", 4, 3)).zero, 0);
  EXPECT_EQ(lu_of(matrix("random", 7, 7)).zero, -1);
  EXPECT_EQ(lu_of(Dense(2, 2, {0, 1, NAN, 1})).zero, -1);  // the NaN is not hidden by the 0 above it
}

TEST(LinalgRef, CholeskyRebuildsThePositiveDefiniteMatrixFromEitherTriangle) {
  for (const int64_t n : square_extents()) {
    const Dense b = matrix("random", n, n + 3), a = b * b.transposed();
    Dense lower = a, upper = a;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) lower(j, i) = upper(i, j) = NAN;  // not read
    }
    ASSERT_EQ(dense::cholesky(view(lower), Triangle::lower), 0);
    ASSERT_EQ(dense::cholesky(view(upper), Triangle::upper), 0);
    EXPECT_LT(ratio(a, lower * lower.transposed()), kStable) << n;
    EXPECT_LT(ratio(a, upper.transposed() * upper), kStable) << n;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        EXPECT_EQ(lower(j, i), 0);
        EXPECT_EQ(upper(i, j), 0);
      }
    }
  }
}

TEST(LinalgRef, CholeskyNamesTheLeadingMinor) {
  for (const Triangle triangle : {Triangle::lower, Triangle::upper}) {
    for (const double bad : {0.0, -1.0, static_cast<double>(NAN)}) {
      Dense a = Dense::identity(5);
      a(3, 3) = bad;
      EXPECT_EQ(dense::cholesky(view(a), triangle), 4);
    }
  }
}

TEST(LinalgRef, QrRebuildsTheMatrixReducedAndComplete) {
  each_matrix([](const Dense& a, const std::string& text) {
    for (const int64_t k : {std::min(a.rows, a.columns), a.rows}) {
      Dense lost = a, q(a.rows, k), r(k, a.columns);
      dense::qr(view(lost), view(q), view(r));
      EXPECT_LT(ratio(a, q * r), kStable) << text;
      EXPECT_LT(orthogonality(q), kStable) << text;
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < std::min(i, a.columns); ++j) EXPECT_EQ(r(i, j), 0) << text;
      }
    }
  });
}

TEST(LinalgRef, TriangularSolvesFulfilTheirEquationInAllForms) {
  for (const int64_t n : square_extents()) {
    for (int bits = 0; bits < 16; ++bits) {
      const dense::TriangularForm form{bits & 1 ? Triangle::upper : Triangle::lower, (bits & 2) != 0, (bits & 4) != 0,
                                       (bits & 8) != 0};
      Dense given = matrix("random", n, n), a(n, n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const bool read = form.triangle == Triangle::upper ? j > i : j < i;
          given(i, j) = i == j ? 3 + 0.1 * static_cast<double>(i) : read ? given(i, j) / 8 : NAN;  // not read
          a(i, j) = i == j && form.unit_diagonal ? 1 : i == j || read ? given(i, j) : 0;
        }
        if (form.unit_diagonal) given(i, i) = NAN;
      }
      const Dense op = form.transposed ? a.transposed() : a;
      const Dense b = form.right ? matrix("random", 3, n) : matrix("random", n, 3);
      Dense x = b;
      dense::solve_triangular(form, view(given), view(x));
      EXPECT_LT(ratio(b, form.right ? x * op : op * x), kStable) << n << " " << bits;
    }
  }
}

TEST(LinalgRef, SymmetricEigenvectorsFulfilTheirEquationFromEitherTriangle) {
  each_square([](const Dense& given, const std::string& text, const std::string&) {
    const int64_t n = given.rows;
    Dense a = given, lower = given, upper = given.transposed();
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        a(j, i) = a(i, j);
        lower(j, i) = upper(i, j) = NAN;  // not read
      }
    }
    std::vector<double> values(static_cast<size_t>(n)), others(static_cast<size_t>(n));
    Dense vectors(n, n), same(n, n);
    dense::eigh(view(lower), Triangle::lower, values.data(), view(vectors));
    dense::eigh(view(upper), Triangle::upper, others.data(), view(same));
    EXPECT_LT(ratio(a, vectors.scaled(values) * vectors.transposed()), kStable) << text;
    EXPECT_LT(orthogonality(vectors), kStable) << text;
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end())) << text;
    EXPECT_EQ(values, others) << text;
    EXPECT_EQ(vectors.numbers, same.numbers) << text;
  });
}

TEST(LinalgRef, SingularVectorsAreOrthonormalWhateverTheRankAndRebuildTheMatrix) {
  each_matrix([](const Dense& a, const std::string& text) {
    const int64_t k = std::min(a.rows, a.columns);
    for (const bool full : {false, true}) {
      Dense lost = a, u(a.rows, full ? a.rows : k), vh(full ? a.columns : k, a.columns);
      std::vector<double> s(static_cast<size_t>(k));
      dense::svd(view(lost), view(u), s.data(), view(vh));
      Dense left(a.rows, k);
      for (int64_t i = 0; i < a.rows; ++i) {
        for (int64_t j = 0; j < k; ++j) left(i, j) = u(i, j);
      }
      EXPECT_LT(ratio(a, left.scaled(s) * vh.first_rows(k)), kStable) << text;
      EXPECT_LT(orthogonality(u), kStable) << text;
      EXPECT_LT(orthogonality(vh.transposed()), kStable) << text;
      EXPECT_TRUE(std::is_sorted(s.rbegin(), s.rend())) << text;
      EXPECT_TRUE(s.empty() || s.back() >= 0) << text;
    }
  });
}

// A matrix of columns 10^(-20 j) times those of a well-conditioned one: LAPACK's dgesdd answers noise of 1e-16 from the
// second on. mpmath with 200 digits made the values.
TEST(LinalgRef, SingularValuesOfAGradedMatrixAreExactRelativeToThemselves) {
  Dense a(3, 3, {3, 1e-20, 2e-40, 1, 4e-20, -1e-40, 2, -1e-20, 5e-40}), u(3, 3), vh(3, 3);
  double s[3];
  dense::svd(view(a), view(u), s, view(vh));
  const double want[] = {3.7416573867739413, 4.0266966255586866e-20, 2.12391459711991e-40};
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(s[i] / want[i], 1, 1e-14) << i;
}

using Complex = std::complex<double>;

// max |A v - lambda v| over the norms, in eps.
double eigenvector_ratio(const Dense& a, const std::vector<double>& re, const std::vector<double>& im, const Dense& x,
                         const Dense& y) {
  const int64_t n = a.rows;
  const Dense ax = a * x, ay = a * y;
  double most = 0;
  for (int64_t k = 0; k < n; ++k) {
    const Complex value(re[static_cast<size_t>(k)], im[static_cast<size_t>(k)]);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::abs(Complex(ax(i, k), ay(i, k)) - value * Complex(x(i, k), y(i, k)));
    if (!(sum <= most)) most = sum;
  }
  return most == 0 ? 0 : most / a.norm() / static_cast<double>(n) / std::numeric_limits<double>::epsilon();
}

TEST(LinalgRef, EigenvectorsOfGeneralMatricesFulfilTheirEquationAndAreNormal) {
  each_square([](const Dense& a, const std::string& text, const std::string& kind) {
    const int64_t n = a.rows;
    Dense lost = a, x(n, n), y(n, n);
    std::vector<double> re(static_cast<size_t>(n)), im(static_cast<size_t>(n));
    dense::eig(view(lost), re.data(), im.data(), view(x), view(y));
    // Balancing bounds the error by the norm of the balanced matrix, which for these is far smaller, in its own scale.
    if (kind != "bad rows") {
      EXPECT_LT(eigenvector_ratio(a, re, im, x, y), kStable) << text;
    }
    for (int64_t k = 0; k < n; ++k) {
      double squares = 0, most = 0, beside = 0;
      for (int64_t i = 0; i < n; ++i) {
        const Complex v(x(i, k), y(i, k));
        squares += std::norm(v);
        if (std::abs(v) > most) {
          most = std::abs(v);
          beside = std::fabs(v.imag());
        }
      }
      EXPECT_NEAR(squares, 1, 1e-14) << text;
      EXPECT_LT(beside, 1e-15) << text;  // the largest number is real
      if (im[static_cast<size_t>(k)] > 0) {
        ASSERT_LT(k + 1, n) << text;
        EXPECT_EQ(im[static_cast<size_t>(k)], -im[static_cast<size_t>(k + 1)]) << text;
        EXPECT_EQ(re[static_cast<size_t>(k)], re[static_cast<size_t>(k + 1)]) << text;
      }
    }
  });
}

// Balancing reads them off, as LAPACK does: iterations alone would give 2 +- 1e-8.
TEST(LinalgRef, EigenvaluesOfTriangularMatricesAreExact) {
  for (const char* kind : {"jordan", "jordan transposed"}) {
    Dense a = matrix(kind, 7, 7), x(7, 7), y(7, 7);
    std::vector<double> re(7), im(7);
    dense::eig(view(a), re.data(), im.data(), view(x), view(y));
    EXPECT_EQ(re, std::vector<double>(7, 2.0)) << kind;
    EXPECT_EQ(im, std::vector<double>(7, 0.0)) << kind;
  }
}

// ---- what is not finite ----

TEST(LinalgRef, NanAndInfinitiesEndAndAreHandedOn) {
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
    for (size_t at = 0; at < 16; ++at) {
      Dense given = matrix("random", 4, 4);
      given.numbers[at] = bad;
      Dense a = given, b(4, 4), c(4, 4);
      double values[4], others[4];
      dense::svd(view(a), view(b), values, view(c));
      for (const double v : {values[0], values[3], b(0, 0), c(3, 3)}) EXPECT_TRUE(std::isnan(v));
      a = given;
      dense::eig(view(a), values, others, view(b), view(c));
      for (const double v : {values[0], others[3], b(0, 0), c(3, 3)}) EXPECT_TRUE(std::isnan(v));
      a = given;
      dense::qr(view(a), view(b), view(c));
      EXPECT_FALSE(std::isfinite((b * c).norm()));
      const Lu f = lu_of(given);
      EXPECT_FALSE(dense::all_finite({const_cast<double*>(f.lu.numbers.data()), 4, 4}));
      a = given;
      if (at / 4 >= at % 4) {  // in the triangle that is read
        dense::eigh(view(a), Triangle::lower, values, view(b));
        for (const double v : {values[0], values[3], b(0, 0)}) EXPECT_TRUE(std::isnan(v));
      }
    }
  }
}

// Numbers over the whole range of double: a step that squares them must not lose its way.
TEST(LinalgRef, EigenvaluesOfMatricesThatReachDownToTheLeastNumbersEnd) {
  for (int64_t n = 3; n <= 24; n += 3) {
    const auto exponent = [](int64_t i) {
      return 40 * static_cast<double>(random_normal(5, 0, 0, static_cast<uint64_t>(i)));
    };
    Dense a = matrix("random", n, n), x(n, n), y(n, n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) a(i, j) *= std::pow(10, exponent(i) + exponent(100 + j));
    }
    std::vector<double> values(static_cast<size_t>(n)), others(static_cast<size_t>(n));
    Dense lost = a;
    dense::eig(view(lost), values.data(), others.data(), view(x), view(y));
    EXPECT_TRUE(dense::all_finite(view(x)) && dense::all_finite({values.data(), 1, n})) << n;
    lost = a;
    dense::eigh(view(lost), Triangle::lower, values.data(), view(x));
    EXPECT_LT(orthogonality(x), kStable) << n;
    dense::svd(view(a), view(x), values.data(), view(y));
    EXPECT_LT(orthogonality(x) + orthogonality(y), kStable) << n;
  }
}

// ---- NumPy's answers ----

const Dense kGiven(4, 4, {4, -2, 1, 3, 1, 5, -3, 2, 7, 0, 2, -1, -2, 6, 1, 8});

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-14) << i;
}

TEST(LinalgRef, ValuesAreThoseOfNumpy) {
  Dense a = kGiven, b(4, 4), c(4, 4);
  std::vector<double> values(4), others(4);
  dense::svd(view(a), view(b), values.data(), view(c));
  expect_near(values, {11.371901034099462, 8.281640474101357, 4.930212522517572, 2.4056812779719228});
  a = kGiven;
  dense::eigh(view(a), Triangle::lower, values.data(), view(b));
  expect_near(values, {-4.7938621390503595, 0.8182994695325916, 10.181827319589724, 12.793735349928044});
  a = kGiven;
  dense::eig(view(a), values.data(), others.data(), view(b), view(c));
  expect_near(values, {0.687817426770594, 0.687817426770594, 8.222037828527492, 9.40232731793132});
  expect_near(others, {3.7384388902584234, -3.7384388902584234, 0, 0});
  expect_near({b(0, 0), b(1, 0), b(2, 0), b(3, 0)},
              {-0.16357654386982526, 0.3219071979182533, 0.6914362185492787, -0.23774525060877258});
  expect_near({c(0, 0), c(1, 0), c(2, 0), c(3, 0)}, {0.3229715243586108, 0.3544937153121144, 0, -0.3240913790475712});
  a = kGiven;
  dense::qr(view(a), view(b), view(c));
  expect_near(c.numbers, {-8.366600265340756, 1.7928429140015902, -1.5537971921347116, 1.0757057484009542, 0,
                          -7.860388939849877, 1.045022807032065, -6.370095545473715, 0, 0, -3.39022736973453,
                          -3.3414642924993623, 0, 0, 0, 5.009925774534469});
}

TEST(LinalgRef, PivotsAndFactorsAreThoseOfLapack) {
  const Lu f = lu_of(kGiven);
  EXPECT_EQ(f.pivots, (std::vector<int64_t>{2, 3, 3, 3}));
  EXPECT_EQ(f.permutation, (std::vector<int64_t>{2, 3, 1, 0}));
  expect_near(f.lu.numbers, {7.0, 0.0, 2.0, -1.0, -0.2857142857142857, 6.0, 1.5714285714285714, 7.714285714285714,
                             0.14285714285714285, 0.8333333333333333, -4.595238095238095, -4.285714285714285,
                             0.5714285714285714, -0.3333333333333333, -0.08290155440414508, 5.7875647668393775});
  Dense a = kGiven * kGiven.transposed();
  ASSERT_EQ(dense::cholesky(view(a), Triangle::lower), 0);
  expect_near(a.numbers, {5.477225575051661, 0, 0, 0, -0.5477225575051661, 6.220932405998316, 0, 0, 4.9295030175464944,
                          0.2732709325632334, 5.44291493571377, 0, 0.9128709291752768, 6.671025706690702,
                          -4.8361948931632055, 6.022898109936828});
}

// ---- the ops ----

std::vector<Array> run_op(Op op, const Attrs& attrs, const std::vector<Array>& in) {
  Graph g;
  Builder b(g);
  std::vector<Value> values;
  for (size_t i = 0; i < in.size(); ++i) {
    values.push_back(b.one(Op::input, LeafAttrs{cat("x", i), {in[i].dtype(), in[i].shape()}}, {}));
  }
  g.outputs = b.add(op, attrs, values);
  return interpret(g, in);
}

// Six identities, of which matrix (1, 2) is `special`.
Array batch(const Dense& special) {
  const int64_t n = special.rows;
  Array x(DType::f32, {2, 3, n, n});
  const Dense identity = Dense::identity(n);
  for (int64_t i = 0; i < 6; ++i) {
    const Dense& from = i == 5 ? special : identity;
    std::transform(from.numbers.begin(), from.numbers.end(), x.data<float>() + i * n * n,
                   [](double v) { return static_cast<float>(v); });
  }
  return x;
}

TEST(LinalgRef, ErrorsNameTheMatrixOfTheBatch) {
  Dense bad = Dense::identity(3);
  bad(2, 2) = 0;
  const Array x = batch(bad);
  expect_error(ErrorKind::data, {"lu_factor: matrix (1, 2) of f32[2,3,3,3] is singular", "pivot 2"},
               [&] { run_op(Op::lu_factor, LuAttrs{.refuse_singular = true}, {x}); });
  EXPECT_NO_THROW(run_op(Op::lu_factor, LuAttrs{}, {x}));
  expect_error(ErrorKind::data, {"cholesky: matrix (1, 2) of f32[2,3,3,3]", "leading minor of order 3"},
               [&] { run_op(Op::cholesky, CholeskyAttrs{}, {x}); });
  expect_error(ErrorKind::data, {"solve_triangular: matrix (1, 2) of f32[2,3,3,3]", "number 2 of its diagonal"}, [&] {
    run_op(Op::solve_triangular, TriangularAttrs{.refuse_singular = true}, {x, x});
  });
  const auto solved = run_op(Op::solve_triangular, TriangularAttrs{}, {x, x});
  EXPECT_TRUE(std::isnan(solved[0].data<float>()[5 * 9 + 8]));
  Array one(DType::f64, {2, 2});
  std::fill_n(one.data<double>(), 4, 0.0);
  expect_error(ErrorKind::data, {"lu_factor: the matrix f64[2,2]", "pivot 0"},
               [&] { run_op(Op::lu_factor, LuAttrs{.refuse_singular = true}, {one}); });
}

TEST(LinalgRef, MatricesOfABatchAreFactorizedEachForItself) {
  const Array x = batch(kGiven);
  const auto usv = run_op(Op::svd, SvdAttrs{}, {x});
  const auto s = usv[1].to_vector<float>();
  ASSERT_EQ(s.size(), 24u);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(s[i], 1.0f);
  EXPECT_EQ(s[20], 11.371901034099462f);  // rounded once
  EXPECT_EQ(s[23], 2.4056812779719228f);
  const auto lu = run_op(Op::lu_factor, LuAttrs{}, {x});
  EXPECT_EQ(lu[1].dtype(), DType::i32);
  const auto pivots = lu[1].to_vector<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(pivots.begin() + 16, pivots.end()), (std::vector<int32_t>{0, 1, 2, 3, 2, 3, 3, 3}));
}

TEST(LinalgRef, EmptyBatchesAndExtentsGiveEmptyResults) {
  EXPECT_EQ(run_op(Op::eigh, EighAttrs{}, {Array(DType::f64, {0, 3, 3})})[1].shape(), Shape({0, 3, 3}));
  EXPECT_EQ(run_op(Op::eig, NoAttrs{}, {Array(DType::f64, {2, 0, 0})})[0].shape(), Shape({2, 0}));
  const auto full = run_op(Op::svd, SvdAttrs{.full = true}, {Array(DType::f64, {2, 0})});
  EXPECT_EQ(full[0].to_vector<double>(), (std::vector<double>{1, 0, 0, 1}));
  const auto complete = run_op(Op::qr, QrAttrs{.complete = true}, {Array(DType::f64, {2, 0})});
  EXPECT_EQ(complete[0].to_vector<double>(), (std::vector<double>{1, 0, 0, 1}));
}

}  // namespace
}  // namespace freight::test
