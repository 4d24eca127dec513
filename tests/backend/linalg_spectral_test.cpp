// eigh, svd and eig of the CPU backend: by LAPACK where there is one, else on the reference loops. Their defining
// equations for all kinds and extents of matrices, batched, in both types; what is not finite; equal bits for any
// number of threads; and what a library can do wrong, by stand-ins (fake_lapack/).
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "freight/backend/cpu/lapack.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/run/plan.h"
#include "tests/backend/matrices.h"
#include "tests/support/error_of.h"
#include "tests/support/folders.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

constexpr double kStable = 30;  // LAPACK's threshold

template <class T>
constexpr DType kType = sizeof(T) == sizeof(double) ? DType::f64 : DType::f32;
template <class T>
constexpr double kEps = static_cast<double>(std::numeric_limits<T>::epsilon());

std::string type_text(DType dtype, const Shape& shape) { return to_string(Type{dtype, shape}); }

// All kinds of matrices as a batch (kinds, m, n). Where T does not reach as far, numbers are drawn together.
template <class T>
Array batch_of_kinds(int64_t m, int64_t n) {
  const std::vector<std::string> kinds = matrix_kinds();
  Array x(kType<T>, {static_cast<int64_t>(kinds.size()), m, n});
  for (size_t k = 0; k < kinds.size(); ++k) {
    const bool far = kinds[k] == "large" || kinds[k] == "small" || kinds[k] == "bad rows";
    const Dense a = matrix(kinds[k], m, n);
    for (int64_t i = 0; i < m * n; ++i) {
      const double v = a.numbers[static_cast<size_t>(i)];
      x.data<T>()[static_cast<int64_t>(k) * m * n + i] =
          static_cast<T>(far && sizeof(T) == sizeof(float) ? std::copysign(std::pow(std::fabs(v), 0.12), v) : v);
    }
  }
  return x;
}

// Matrix `k` of a batch, or a vector of one as a row.
template <class T>
Dense matrix_at(const Array& x, int64_t k) {
  const Shape& s = x.shape();
  Dense a(s.rank() == 3 ? s[1] : 1, s.back());
  for (size_t i = 0; i < a.numbers.size(); ++i) {
    a.numbers[i] = static_cast<double>(x.data<T>()[k * a.rows * a.columns + static_cast<int64_t>(i)]);
  }
  return a;
}

Dense first_columns(const Dense& a, int64_t count) { return a.transposed().first_rows(count).transposed(); }

std::vector<Extents> extents() {
  std::vector<Extents> all = matrix_extents();
  all.insert(all.end(), {{66, 66}, {100, 60}, {60, 100}, {150, 5}, {5, 150}});
  return all;
}

Graph svd_graph(const Type& x, bool full, bool vectors) {
  const int64_t m = x.shape[1], n = x.shape[2], k = std::min(m, n);
  const auto text = [&](const Shape& shape) { return to_string(Type{x.dtype, shape}); };
  return parse(cat("graph {\n %0 = input \"x\" : ", x, "\n %1, %2, %3 = svd(%0) {full=", full ? "true" : "false",
                   "} : ", text({x.shape[0], m, full ? m : k}), ", ", text({x.shape[0], k}), ", ",
                   text({x.shape[0], full ? n : k, n}), "\n return ", vectors ? "%1, %2, %3 }" : "%2 }"));
}

Graph eigh_graph(const Type& x, bool upper, bool vectors) {
  return parse(cat("graph {\n %0 = input \"x\" : ", x, "\n %1, %2 = eigh(%0) {upper=", upper ? "true" : "false", "} : ",
                   type_text(x.dtype, {x.shape[0], x.shape[1]}), ", ", x, "\n return ", vectors ? "%1, %2 }" : "%1 }"));
}

Graph eig_graph(const Type& x, bool vectors) {
  const std::string values = type_text(x.dtype, {x.shape[0], x.shape[1]});
  return parse(cat("graph {\n %0 = input \"x\" : ", x, "\n %1, %2, %3, %4 = eig(%0) : ", values, ", ", values, ", ", x,
                   ", ", x, "\n return ", vectors ? "%1, %2, %3, %4 }" : "%1, %2 }"));
}

Type type_of(const Array& x) { return {x.dtype(), x.shape()}; }

// The kernel of the graph's only step, for plans that should have LAPACK's.
std::string kernel_of(const Graph& graph) {
  return plan_for(graph, {.backend = "cpu", .deterministic = true})->steps().front().kernel->name();
}

#define SKIP_WITHOUT_LAPACK() \
  if (!cpu::lapack().usable()) GTEST_SKIP() << cpu::lapack().library.why

TEST(LinalgSpectral, LapackIsUsedWhereThereIsOne) {
  SKIP_WITHOUT_LAPACK();
  EXPECT_EQ(kernel_of(svd_graph({DType::f64, {1, 3, 2}}, false, true)), "lapack:dgesdd");
  EXPECT_EQ(kernel_of(eigh_graph({DType::f32, {1, 3, 3}}, false, true)), "lapack:ssyevd");
  EXPECT_EQ(kernel_of(eig_graph({DType::f32, {1, 3, 3}}, true)), "lapack:sgeev");
}

// Values are as near to the reference's as a stable algorithm's may be: the sum of both errors.
template <class T>
void expect_values(const Dense& got, const Dense& want, const Dense& a, const std::string& text) {
  const double bound = 2 * kStable * kEps<T> * static_cast<double>(std::max(a.rows, a.columns)) *
                       std::sqrt(static_cast<double>(a.rows)) * a.norm();
  for (size_t i = 0; i < got.numbers.size(); ++i) EXPECT_NEAR(got.numbers[i], want.numbers[i], bound) << text;
}

template <class T>
void expect_svd(int64_t m, int64_t n) {
  const Array x = batch_of_kinds<T>(m, n);
  const int64_t k = std::min(m, n);
  for (const bool full : {false, true}) {
    const std::vector<Array> got = run_planned("cpu", svd_graph(type_of(x), full, true), {x});
    const std::vector<Array> values = run_planned("cpu", svd_graph(type_of(x), full, false), {x});
    const std::vector<Array> want = run_planned("ref", svd_graph(type_of(x), full, false), {x});
    for (int64_t i = 0; i < x.shape()[0]; ++i) {
      const std::string text = cat(matrix_kinds()[static_cast<size_t>(i)], " ", m, " x ", n, full ? " full" : "");
      const Dense a = matrix_at<T>(x, i), u = matrix_at<T>(got[0], i), s = matrix_at<T>(got[1], i);
      const Dense vh = matrix_at<T>(got[2], i);
      EXPECT_LT(ratio(a, first_columns(u, k).scaled(s.numbers) * vh.first_rows(k), kEps<T>), kStable) << text;
      EXPECT_LT(orthogonality(u, kEps<T>), kStable) << text;
      EXPECT_LT(orthogonality(vh.transposed(), kEps<T>), kStable) << text;
      EXPECT_TRUE(std::is_sorted(s.numbers.rbegin(), s.numbers.rend())) << text;
      EXPECT_TRUE(k == 0 || s.numbers.back() >= 0) << text;
      expect_values<T>(s, matrix_at<T>(want[0], i), a, text);
      expect_values<T>(matrix_at<T>(values[0], i), s, a, text);
    }
  }
}

TEST(LinalgSpectral, SingularVectorsAreOrthonormalAndRebuildTheMatrix) {
  for (const Extents& e : extents()) {
    expect_svd<float>(e.m, e.n);
    expect_svd<double>(e.m, e.n);
  }
}

template <class T>
void expect_eigh(int64_t n, bool upper) {
  Array x = batch_of_kinds<T>(n, n);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t row = i / n % n, column = i % n;
    if (upper ? column < row : column > row) x.data<T>()[i] = std::numeric_limits<T>::quiet_NaN();  // is not read
  }
  const std::vector<Array> got = run_planned("cpu", eigh_graph(type_of(x), upper, true), {x});
  const std::vector<Array> values = run_planned("cpu", eigh_graph(type_of(x), upper, false), {x});
  const std::vector<Array> want = run_planned("ref", eigh_graph(type_of(x), upper, false), {x});
  for (int64_t k = 0; k < x.shape()[0]; ++k) {
    const std::string text = cat(matrix_kinds()[static_cast<size_t>(k)], " ", n, upper ? " upper" : "");
    Dense a = matrix_at<T>(x, k);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) (upper ? a(i, j) : a(j, i)) = upper ? a(j, i) : a(i, j);
    }
    const Dense w = matrix_at<T>(got[0], k), v = matrix_at<T>(got[1], k);
    EXPECT_LT(ratio(a, v.scaled(w.numbers) * v.transposed(), kEps<T>), kStable) << text;
    EXPECT_LT(orthogonality(v, kEps<T>), kStable) << text;
    EXPECT_TRUE(std::is_sorted(w.numbers.begin(), w.numbers.end())) << text;
    expect_values<T>(w, matrix_at<T>(want[0], k), a, text);
    expect_values<T>(matrix_at<T>(values[0], k), w, a, text);
  }
}

TEST(LinalgSpectral, SymmetricEigenvectorsFulfilTheirEquationFromEitherTriangle) {
  for (const int64_t n : {0, 1, 2, 3, 7, 40, 66, 130}) {
    for (const bool upper : {false, true}) {
      expect_eigh<float>(n, upper);
      expect_eigh<double>(n, upper);
    }
  }
}

// |A v - lambda v|, the largest column, as a multiple of n eps |A|.
template <class T>
double eigenvector_ratio(const Dense& a, const Dense& re, const Dense& im, const Dense& x, const Dense& y) {
  const Dense real = a * x - (x.scaled(re.numbers) - y.scaled(im.numbers));
  const Dense imaginary = a * y - x.scaled(im.numbers) - y.scaled(re.numbers);
  const double error = real.norm() + imaginary.norm();
  return error == 0 ? 0 : error / a.norm() / static_cast<double>(a.rows) / kEps<T>;
}

// Norm 1, the largest number real; pairs with the positive imaginary part first.
template <class T>
void expect_convention(const Dense& re, const Dense& im, const Dense& x, const Dense& y, const std::string& text) {
  const double bound = kStable * std::sqrt(static_cast<double>(x.rows)) * kEps<T>;
  for (int64_t k = 0; k < x.rows; ++k) {
    double squares = 0, most = 0, largest_real = 0;
    for (int64_t i = 0; i < x.rows; ++i) {
      squares += std::norm(std::complex<double>(x(i, k), y(i, k)));
      most = std::max(most, std::abs(std::complex<double>(x(i, k), y(i, k))));
      if (y(i, k) == 0 && std::fabs(x(i, k)) > std::fabs(largest_real)) largest_real = x(i, k);
    }
    EXPECT_NEAR(squares, 1, bound) << text;
    EXPECT_NEAR(std::fabs(largest_real), most, bound) << text;
    const double part = im(0, k);
    if (part <= 0) continue;
    ASSERT_LT(k + 1, x.rows) << text;
    EXPECT_EQ(part, -im(0, k + 1)) << text;
    EXPECT_EQ(re(0, k), re(0, k + 1)) << text;
    for (int64_t i = 0; i < x.rows; ++i) {
      EXPECT_EQ(x(i, k), x(i, k + 1)) << text;
      EXPECT_EQ(y(i, k), -y(i, k + 1)) << text;
    }
  }
}

template <class T>
void expect_eig(int64_t n) {
  const Array x = batch_of_kinds<T>(n, n);
  const std::vector<Array> got = run_planned("cpu", eig_graph(type_of(x), true), {x});
  const std::vector<Array> values = run_planned("cpu", eig_graph(type_of(x), false), {x});
  for (int64_t k = 0; k < x.shape()[0]; ++k) {
    const std::string kind = matrix_kinds()[static_cast<size_t>(k)], text = cat(kind, " ", n);
    const Dense a = matrix_at<T>(x, k), re = matrix_at<T>(got[0], k), im = matrix_at<T>(got[1], k);
    const Dense v = matrix_at<T>(got[2], k), w = matrix_at<T>(got[3], k);
    // Balancing bounds the error by the norm of the balanced matrix, which for these is far smaller, in its own scale.
    if (kind != "bad rows") {
      EXPECT_LT(eigenvector_ratio<T>(a, re, im, v, w), kStable) << text;
    }
    expect_convention<T>(re, im, v, w, text);
    double trace = 0, sum = 0, sum_alone = 0, size = 0;
    for (int64_t i = 0; i < n; ++i) {
      trace += a(i, i);
      sum += re(0, i);
      sum_alone += matrix_at<T>(values[0], k)(0, i);
      size += std::hypot(re(0, i), im(0, i));
    }
    const double bound = kStable * static_cast<double>(n) * kEps<T> * std::max(size, a.norm());
    EXPECT_NEAR(sum, trace, bound) << text;
    EXPECT_NEAR(sum_alone, trace, bound) << text;
  }
}

TEST(LinalgSpectral, EigenvectorsOfGeneralMatricesFulfilTheirEquationAndTheConvention) {
  for (const int64_t n : {0, 1, 2, 3, 7, 40, 66, 130}) {
    expect_eig<float>(n);
    expect_eig<double>(n);
  }
}

// Columns of the result, in order, belong to eigenvalues in the same order, as in the reference loops.
TEST(LinalgSpectral, EigenvectorsAreThoseOfTheReferenceLoopsUpToTheirSign) {
  const Array x = Array::of(std::vector<double>{4, -2, 1, 3, 1, 5, -3, 2, 7, 0, 2, -1, -2, 6, 1, 8}, {1, 4, 4});
  const std::vector<Array> got = run_planned("cpu", eig_graph(type_of(x), true), {x});
  const std::vector<Array> want = run_planned("ref", eig_graph(type_of(x), true), {x});
  const auto column_of = [&](const std::vector<Array>& of, double re, double im) {
    for (int64_t k = 0; k < 4; ++k) {
      if (std::hypot(of[0].data<double>()[k] - re, of[1].data<double>()[k] - im) < 1e-12) return k;
    }
    return int64_t{-1};
  };
  for (int64_t k = 0; k < 4; ++k) {
    const int64_t other = column_of(got, want[0].data<double>()[k], want[1].data<double>()[k]);
    ASSERT_GE(other, 0) << k;
    double sign = 1;
    for (int64_t i = 0; i < 4; ++i) {
      const double product = got[2].data<double>()[i * 4 + other] * want[2].data<double>()[i * 4 + k];
      if (std::fabs(product) > 0.01) sign = product < 0 ? -1 : 1;
    }
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(sign * got[2].data<double>()[i * 4 + other], want[2].data<double>()[i * 4 + k], 1e-13) << k;
      EXPECT_NEAR(sign * got[3].data<double>()[i * 4 + other], want[3].data<double>()[i * 4 + k], 1e-13) << k;
    }
  }
}

// ---- what is not finite ----

bool all_nan(const Array& x, int64_t matrix) {
  const int64_t size = x.numel() / x.shape()[0];
  for (int64_t i = 0; i < size; ++i) {
    if (!std::isnan(x.data<double>()[matrix * size + i])) return false;
  }
  return true;
}
bool any_nan(const Array& x, int64_t matrix) {
  const int64_t size = x.numel() / x.shape()[0];
  for (int64_t i = 0; i < size; ++i) {
    if (std::isnan(x.data<double>()[matrix * size + i])) return true;
  }
  return false;
}

TEST(LinalgSpectral, NanAndInfinitiesGiveNanInTheirMatrixAlone) {
  constexpr double kBad[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()};
  for (const int64_t n : {1, 3, 40}) {
    for (const double bad : kBad) {
      for (const int64_t at : {int64_t{0}, n * n / 2, n * n - 1}) {
        Array x(DType::f64, {3, n, n});
        for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = std::sin(static_cast<double>(i * i + 1));
        x.data<double>()[n * n + at] = bad;
        const bool lower = at / n >= at % n;
        for (const Graph& graph : {svd_graph(type_of(x), false, true), eig_graph(type_of(x), true),
                                   eigh_graph(type_of(x), !lower, true), svd_graph(type_of(x), false, false)}) {
          for (const Array& result : run_planned("cpu", graph, {x})) {
            EXPECT_TRUE(all_nan(result, 1)) << n << " " << bad << " " << at << print(graph);
            EXPECT_FALSE(any_nan(result, 0) || any_nan(result, 2)) << n << " " << bad << " " << at << print(graph);
          }
        }
      }
    }
  }
}

// ---- plans ----

TEST(LinalgSpectral, BitsDoNotDependOnTheNumberOfThreads) {
  const int threads = omp_get_max_threads();
  for (const auto& [batch, n] : std::vector<std::pair<int64_t, int64_t>>{{1, 33}, {1, 200}, {3, 90}, {50, 17}}) {
    Array x(DType::f32, {batch, n, n});
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i % 7919));
    for (const Graph& graph :
         {svd_graph(type_of(x), false, true), eigh_graph(type_of(x), false, true), eig_graph(type_of(x), true)}) {
      std::vector<Array> first;
      for (const int count : {1, 2, 4}) {
        omp_set_num_threads(count);
        clear_plan_cache();
        const std::vector<Array> got = run_planned("cpu", graph, {x});
        if (first.empty()) first = got;
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_EQ(std::memcmp(first[i].raw(), got[i].raw(), got[i].bytes()), 0)
              << batch << " of " << n << ", " << count << " threads, result " << i << print(graph);
        }
      }
    }
  }
  omp_set_num_threads(threads);
}

// A result may take the place of the operand that is not read again.
TEST(LinalgSpectral, ResultsInThePlaceOfTheirOperandAreTheSame) {
  const int64_t n = 19;
  Array x(DType::f64, {2, n, n}), minus(DType::f64, {2, n, n});
  for (int64_t i = 0; i < x.numel(); ++i) {
    x.data<double>()[i] = std::sin(static_cast<double>(i * i + 1));
    minus.data<double>()[i] = -x.data<double>()[i];
  }
  for (Graph graph :
       {svd_graph(type_of(x), true, true), eigh_graph(type_of(x), true, true), eig_graph(type_of(x), true)}) {
    const std::vector<Array> want = run_planned("cpu", graph, {minus});
    std::string text = print(graph);
    const size_t line = text.find('\n', text.find("input")) + 1, name = text.find("(%0)");
    text.replace(name, 4, "(%9)");
    text.insert(line, cat("  %9 = neg(%0) : ", type_of(x), "\n"));
    const std::vector<Array> got = run_planned("cpu", parse(text), {x});
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(std::memcmp(got[i].raw(), want[i].raw(), want[i].bytes()), 0) << i << text;
    }
  }
}

TEST(LinalgSpectral, MatricesBeyondTheLibrarysIntegersAreRefusedByName) {
  SKIP_WITHOUT_LAPACK();
  if (cpu::lapack().wide_integers) GTEST_SKIP() << "the integers of this library have 64 bits";
  const Graph graph = eigh_graph({DType::f32, {1, 40000, 40000}}, false, true);
  const std::string message = testing::message_of([&] { kernel_of(graph); });
  EXPECT_NE(message.find("eigh: a matrix of f32[1,40000,40000] needs a workspace of 32"), std::string::npos) << message;
  EXPECT_NE(message.find("32 bits"), std::string::npos) << message;
  EXPECT_EQ(kernel_of(eigh_graph({DType::f32, {1, 40000, 40000}}, false, false)), "lapack:ssyevd");  // values alone
}

// ---- libraries ----

std::string stand_in(const char* name) { return cat(binary_dir(), "/tests/fake_lapack/", name, ".so"); }

TEST(LapackLibrary, AFileThatIsNamedAndCannotBeUsedIsAnErrorWithTheMend) {
  for (const std::string& named :
       {std::string("/nowhere/liblapack.so"), stand_in("lacks_geev"), source_dir() + "/CMakeLists.txt"}) {
    const Error e = testing::error_of([&] { cpu::load_lapack(named); });
    EXPECT_EQ(e.kind(), ErrorKind::usage) << named;
    EXPECT_EQ(e.op(), "FREIGHT_LAPACK");
    for (const std::string& part : {named, std::string("libopenblas0-pthread"), std::string("or none for")}) {
      EXPECT_NE(e.message().find(part), std::string::npos) << e.what();
    }
  }
  EXPECT_NE(testing::message_of([] { cpu::load_lapack(stand_in("lacks_geev")); }).find("has no dgeev_"),
            std::string::npos);
}

TEST(LapackLibrary, NoneIsUsedWhereNoneIsAskedFor) {
  const cpu::Lapack none = cpu::load_lapack("none");
  EXPECT_FALSE(none.usable());
  EXPECT_EQ(none.library.why, "FREIGHT_LAPACK=none");
}

TEST(LapackLibrary, TheWidthOfItsIntegersIsFound) {
  EXPECT_FALSE(cpu::load_lapack(stand_in("bits32")).wide_integers);
  EXPECT_TRUE(cpu::load_lapack(stand_in("bits64")).wide_integers);
}

TEST(LapackLibrary, NamesAreSpelledAsInThePackagesOfNumpyAndScipy) {
  const cpu::Lapack numpy = cpu::load_lapack(stand_in("numpy")), scipy = cpu::load_lapack(stand_in("scipy"));
  EXPECT_TRUE(numpy.usable() && numpy.wide_integers && numpy.openblas_threads);
  EXPECT_TRUE(scipy.usable() && !scipy.wide_integers && scipy.openblas_threads);
}

// The count of OpenBLAS's threads is one for the process: it must be 1 as long as anybody computes, and what it was
// afterwards.
TEST(LapackLibrary, ItsThreadsAreOneWhileAnybodyComputesAndThenWhatTheyWere) {
  const cpu::Lapack lapack = cpu::load_lapack(stand_in("bits32"));
  ASSERT_NE(lapack.openblas_threads, nullptr);
  const int before = lapack.openblas_threads(), pool = omp_get_max_threads();
  EXPECT_GT(before, 1);
  {
    const cpu::LapackOnOneThread one(lapack);
    EXPECT_EQ(lapack.openblas_threads(), 1);
    std::thread([&] { const cpu::LapackOnOneThread another(lapack); }).join();
    EXPECT_EQ(lapack.openblas_threads(), 1);
  }
  EXPECT_EQ(lapack.openblas_threads(), before);
  EXPECT_EQ(omp_get_max_threads(), pool);
}

}  // namespace
}  // namespace freight::test
