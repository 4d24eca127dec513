// Linear algebra of matrices without an answer, with NaN and infinities, and of none at all; and that the bits of a
// deterministic step do not depend on the number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "freight/base/philox.h"
#include "freight/base/threads.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "freight/trace/device.h"
#include "freight/trace/scope.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

using testing::error_of;
using Results = std::vector<Tensor>;

// Functions of one matrix (..., N, N) that differ in what they compute of it.
struct OfOne {
  const char* name;
  std::function<Results(const Tensor&)> run;
  bool square = true;
};
const std::vector<OfOne>& functions_of_one() {
  static const std::vector<OfOne> all = {
      {"inv", [](const Tensor& x) { return Results{inv(x)}; }},
      {"det", [](const Tensor& x) { return Results{det(x)}; }},
      {"slogdet", [](const Tensor& x) { return Results{slogdet(x).logabsdet}; }},
      {"cholesky", [](const Tensor& x) { return Results{cholesky(x)}; }},
      {"matrix_power", [](const Tensor& x) { return Results{matrix_power(x, -2)}; }},
      {"eigh",
       [](const Tensor& x) {
         return Results{eigh(x).values, eigh(x).vectors};
       }},
      {"eigvalsh", [](const Tensor& x) { return Results{eigvalsh(x)}; }},
      {"eig",
       [](const Tensor& x) {
         return Results{eig(x).values_re, eig(x).vectors_re};
       }},
      {"eigvals", [](const Tensor& x) { return Results{eigvals(x).re}; }},
      {"lu_factor", [](const Tensor& x) { return Results{lu_factor(x).lu}; }, false},
      {"lu", [](const Tensor& x) { return Results{lu(x).u}; }, false},
      {"qr",
       [](const Tensor& x) {
         return Results{qr(x).q, qr(x).r};
       },
       false},
      {"svd",
       [](const Tensor& x) {
         return Results{svd(x).u, svd(x).s, svd(x).vh};
       },
       false},
      {"svdvals", [](const Tensor& x) { return Results{svdvals(x)}; }, false},
      {"pinv", [](const Tensor& x) { return Results{pinv(x)}; }, false},
  };
  return all;
}

// Functions of a matrix and a right side.
struct OfTwo {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> run;
};
const std::vector<OfTwo>& functions_of_two() {
  static const std::vector<OfTwo> all = {
      {"solve", [](const Tensor& a, const Tensor& b) { return solve(a, b); }},
      {"solve", [](const Tensor& a, const Tensor& b) { return solve(a, b, {.assume_a = Assume::pos}); }},
      {"solve", [](const Tensor& a, const Tensor& b) { return solve(a, b, {.assume_a = Assume::sym}); }},
      {"solve_triangular", [](const Tensor& a, const Tensor& b) { return solve_triangular(a, b); }},
      {"cho_solve", [](const Tensor& a, const Tensor& b) { return cho_solve(a, b); }},
      {"lstsq", [](const Tensor& a, const Tensor& b) { return lstsq(a, b).x; }},
      {"lstsq", [](const Tensor& a, const Tensor& b) { return lstsq(a, b, {.full_rank = true}).x; }},
  };
  return all;
}

bool mentions(const Error& e, const std::string& part) { return std::string(e.what()).find(part) != std::string::npos; }

// Small numbers around a heavy diagonal, by (i, j) or (b, i, j).
Tensor matrices(const Shape& shape, DType dtype) {
  const Array a(DType::f64, shape);
  PhiloxStream random(1, 0, 3);
  const int64_t n = shape[shape.rank() - 1], m = shape[shape.rank() - 2];
  for (int64_t i = 0; i < a.numel(); ++i) {
    a.data<double>()[i] = static_cast<double>(random.normal()) + (i % n == i / n % m ? static_cast<double>(2 * n) : 0);
  }
  return Tensor(a.cast(dtype));
}

TEST(LinalgInputs, ThatAreNotSquareAreNamed) {
  const Tensor wide = zeros({2, 3}, DType::f64), b = zeros({2}, DType::f64);
  for (const OfOne& f : functions_of_one()) {
    if (!f.square) continue;
    const Error e = error_of([&] { f.run(wide); });
    EXPECT_EQ(e.kind(), ErrorKind::usage) << f.name << ": " << e.what();
    for (const char* part : {"not square", "f64[2,3]", "(..., N, N)", "linalg_inputs_test.cpp:"}) {
      EXPECT_TRUE(mentions(e, part)) << f.name << ": " << e.what();
    }
  }
  for (const OfTwo& f : functions_of_two()) {
    if (std::string(f.name) == "lstsq") continue;
    const Error e = error_of([&] { f.run(wide, b); });
    EXPECT_TRUE(mentions(e, "not square") && mentions(e, "f64[2,3]")) << f.name << ": " << e.what();
  }
}

TEST(LinalgInputs, WhoseShapesDoNotMatchAreBothNamed) {
  const Tensor a = zeros({3, 3}, DType::f64), batch = zeros({4, 3, 3}, DType::f64);
  struct Pair {
    Tensor a, b;
    const char *left, *right;
  };
  const Pair pairs[] = {{a, zeros({2}, DType::f64), "f64[3,3]", "f64[2]"},
                        {a, zeros({2, 3}, DType::f64), "f64[3,3]", "f64[2,3]"},
                        {batch, zeros({5, 3, 1}, DType::f64), "f64[4,3,3]", "f64[5,3,1]"},
                        {batch, zeros({4, 2, 1}, DType::f64), "f64[4,3,3]", "f64[4,2,1]"}};
  for (const OfTwo& f : functions_of_two()) {
    for (const Pair& p : pairs) {
      const Error e = error_of([&] { f.run(p.a, p.b); });
      EXPECT_EQ(e.kind(), ErrorKind::usage) << f.name << ": " << e.what();
      for (const char* part : {p.left, p.right, "linalg_inputs_test.cpp:"}) {
        EXPECT_TRUE(mentions(e, part)) << f.name << ", want " << part << ": " << e.what();
      }
    }
  }
}

// Matrix 1 of the batch has two equal rows, and a minor of order 2 that is 0.
TEST(LinalgInputs, ThatHaveNoAnswerAreNamedByMatrixAndPivotOrMinor) {
  const Tensor x = Tensor::of<double>({4, 1, 1, 3, 1, 2, 2, 4}, {2, 2, 2}), b = ones({2, 2, 1}, DType::f64);
  const Tensor upper = Tensor::of<double>({4, 1, 0, 3, 1, 2, 0, 0}, {2, 2, 2});
  struct Row {
    std::function<Tensor()> run;
    const char* part;
  };
  const Row rows[] = {{[&] { return solve(x, b); }, "is singular: pivot 1 is 0, or below"},
                      {[&] { return solve(x, b, {.assume_a = Assume::sym}); }, "is singular: pivot 1 is 0, or below"},
                      {[&] { return solve(x, b, {.assume_a = Assume::pos}); }, "leading minor of order 2"},
                      {[&] { return solve_triangular(upper, b); }, "is singular: number 1 of its diagonal is 0"},
                      {[&] { return solve(upper, b, {.assume_a = Assume::upper_triangular}); }, "number 1"},
                      {[&] { return inv(x); }, "is singular: pivot 1 is 0, or below"},
                      {[&] { return matrix_power(x, -1); }, "is singular: pivot 1 is 0, or below"},
                      {[&] { return lu_factor(x, {.refuse_singular = true}).lu; }, "pivot 1 is 0, or below"},
                      {[&] { return cholesky(x); }, "is not positive definite: its leading minor of order 2"},
                      {[&] { return cholesky(x, {.upper = true}); }, "leading minor of order 2"}};
  for (const Row& row : rows) {
    const Error e = error_of([&] { row.run().to_vector<double>(); });
    EXPECT_EQ(e.kind(), ErrorKind::data) << e.what();
    EXPECT_TRUE(mentions(e, row.part)) << row.part << ": " << e.what();
    EXPECT_TRUE(mentions(e, "matrix (1) of f64[2,2,2]")) << e.what();
    EXPECT_TRUE(mentions(e, "linalg_inputs_test.cpp:")) << e.what();
  }
}

// The parts that functions are made of are no words of the user's. Matrix 1 of the batch has a zero at pivot 1, or on
// its diagonal.
TEST(LinalgInputs, ThatHaveNoAnswerAreToldByTheFunctionThatWasCalled) {
  struct Row {
    const char *name, *part;
    std::function<Tensor(const Tensor& x, const Tensor& b)> run;
  };
  const char *const pivot = "matrix (1) of f64[2,2,2] is singular: pivot 1 is 0, or below",
                    *const one_pivot = "the matrix f64[2,2] is singular: pivot 1 is 0, or below",
                    *const minor = "matrix (1) of f64[2,2,2] is not positive definite: its leading minor of order 2",
                    *const place = "matrix (1) of f64[2,2,2] is singular: number 1 of its diagonal is 0";
  const Array many_sides = full({3, 1, 2, 1}, 1.0, DType::f64).array(),
              without_last = Tensor::of<double>({1, 1, 1, 1, 1, 1, 1, 0}, {2, 2, 2}).array();
  const auto last = [](const Tensor& x) { return select(x, 0, 1); };
  const Row rows[] = {
      {"inv", pivot, [](const Tensor& x, const Tensor&) { return inv(x); }},
      {"matrix_power", pivot, [](const Tensor& x, const Tensor&) { return matrix_power(x, -3); }},
      {"solve", pivot, [](const Tensor& x, const Tensor& b) { return solve(x, b); }},
      {"solve", one_pivot, [&](const Tensor& x, const Tensor& b) { return solve(last(x), b); }},
      {"solve", pivot, [&](const Tensor& x, const Tensor&) { return solve(x, Tensor(many_sides)); }},
      {"solve", pivot, [](const Tensor& x, const Tensor& b) { return solve(x, b, {.assume_a = Assume::sym}); }},
      {"solve", minor, [](const Tensor& x, const Tensor& b) { return solve(x, b, {.assume_a = Assume::pos}); }},
      {"solve", place,
       [&](const Tensor& x, const Tensor& b) {
         return solve(x * Tensor(without_last), b, {.assume_a = Assume::upper_triangular});
       }},
      {"solve_triangular", place,
       [&](const Tensor& x, const Tensor& b) { return solve_triangular(x * Tensor(without_last), b); }},
      {"lu_factor", pivot, [](const Tensor& x, const Tensor&) { return lu_factor(x, {.refuse_singular = true}).lu; }},
      {"cholesky", minor, [](const Tensor& x, const Tensor&) { return cholesky(x); }},
      {"cho_solve", place, [&](const Tensor& x, const Tensor& b) { return cho_solve(x * Tensor(without_last), b); }},
  };
  const Tensor x = Tensor::of<double>({4, 1, 1, 3, 1, 2, 2, 4}, {2, 2, 2}), b = ones({2, 2, 1}, DType::f64);
  for (const char* backend : {"cpu", "ref"}) {
    for (const Row& row : rows) {
      const auto in_a_layer = [&](const Tensor& matrix, const Tensor& side) {
        const Scope scope("whiten");
        return row.run(matrix, side);
      };
      const Error eager = error_of([&] {
        const DeviceScope scope(backend);
        in_a_layer(Tensor(x.array()), Tensor(b.array())).to_vector<double>();
      });
      auto step = compile(in_a_layer, {.backend = backend});
      const Error compiled = error_of([&] { step(x, b).template to_vector<double>(); });
      for (const Error* e : {&eager, &compiled}) {
        const char* const how = e == &eager ? "eager" : "compiled";
        EXPECT_EQ(e->kind(), ErrorKind::data) << row.name << " on " << backend << ", " << how << ": " << e->what();
        EXPECT_EQ(e->op(), row.name) << backend << ", " << how << ": " << e->what();
        EXPECT_TRUE(mentions(*e, row.part)) << backend << ", " << how << ": " << e->what();
        EXPECT_EQ(e->where().find("whiten, linalg_inputs_test.cpp:"), 0u)
            << backend << ", " << how << ": " << e->what();
      }
    }
  }
}

// Two functions of a step share one factorization; that does not take the name from either.
TEST(LinalgInputs, ThatHaveNoAnswerAreToldByAFunctionThatWasCalledWhereTwoShareWork) {
  const Tensor x = Tensor::of<double>({{1, 2}, {2, 4}}), b = ones({2, 1}, DType::f64);
  auto step = compile([](const Tensor& a, const Tensor& side) { return matmul(inv(a), solve(a, side)); });
  const Error e = error_of([&] { step(x, b).to_vector<double>(); });
  EXPECT_TRUE(e.op() == "inv" || e.op() == "solve") << e.what();
}

TEST(LinalgInputs, ThatHaveNoAnswerLeaveACompiledStepAsItWas) {
  auto step = compile([](const Tensor& a, const Tensor& b) { return solve(a, b); });
  const Tensor good = Tensor::of<double>({{2, 0}, {0, 4}}), bad = Tensor::of<double>({{1, 2}, {2, 4}});
  const Tensor b = Tensor::of<double>({2, 8}, {2});
  const std::vector<double> right = {1, 2};
  EXPECT_EQ(step(good, b).to_vector<double>(), right);
  EXPECT_TRUE(mentions(error_of([&] { step(bad, b).to_vector<double>(); }), "pivot 1"));
  EXPECT_EQ(step(good, b).to_vector<double>(), right);
}

// Every function ends. A NaN on the diagonal, which all of them read, is in a result or is an error of the data. (The q
// of a 1 x 1 matrix is 1.)
TEST(LinalgInputs, WithNanOrInfinityEndAndSayIt) {
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (const int64_t n : {1, 3, 17, 40}) {
      const Array with = matrices({n, n}, DType::f64).array();
      with.data<double>()[0] = value;
      const Tensor x(with), b = ones({n, 2}, DType::f64);
      std::vector<std::pair<std::string, std::function<Results()>>> calls;
      for (const OfOne& f : functions_of_one()) calls.emplace_back(f.name, [&] { return f.run(x); });
      for (const OfTwo& f : functions_of_two()) calls.emplace_back(f.name, [&] { return Results{f.run(x, b)}; });
      for (const auto& [name, run] : calls) {
        try {
          bool finite = true;
          for (const Tensor& y : run()) {
            for (const double v : y.to_vector<double>()) finite = finite && std::isfinite(v);
          }
          EXPECT_FALSE(std::isnan(value) && finite) << name << " of " << n << " x " << n;
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::data) << name << ": " << e.what();
        }
      }
    }
  }
}

// A rank counts, so that no NaN can say that there is none.
TEST(LinalgInputs, WithNanHaveNoRankWhichIsSaidByMinusOne) {
  for (const char* backend : {"ref", "cpu"}) {
    const DeviceScope scope(backend);
    for (const int64_t place : {0, 5, 8}) {
      const Array with = matrices({2, 3, 3}, DType::f64).array();
      with.data<double>()[place] = std::nan("");
      const Tensor x(with), b = ones({2, 3, 1}, DType::f64);
      const std::vector<int64_t> need = {-1, 3};
      EXPECT_EQ(matrix_rank(x).to_vector<int64_t>(), need) << backend << " " << place;
      const LeastSquares y = lstsq(x, b);
      EXPECT_EQ(y.rank.to_vector<int64_t>(), need) << backend << " " << place;
      for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(y.x.array().data<double>()[i]), i < 3) << backend;
    }
  }
}

TEST(LinalgInputs, OfExtentZeroHaveResultsOfExtentZero) {
  const Tensor none = zeros({0, 0}, DType::f64), batch = zeros({0, 3, 3}, DType::f64);
  for (const OfOne& f : functions_of_one()) {
    for (const Tensor& y : f.run(none)) {
      const std::string name = f.name;
      const std::vector<double> values = y.to_vector<double>();
      if (name == "det" || name == "slogdet") {
        EXPECT_EQ(values, (std::vector<double>{name == "det" ? 1.0 : 0.0}));  // the product of no numbers is 1
      } else {
        EXPECT_TRUE(values.empty()) << name;
      }
    }
    for (const Tensor& y : f.run(batch)) EXPECT_TRUE(y.to_vector<double>().empty()) << f.name;
  }
  for (const OfTwo& f : functions_of_two()) {
    EXPECT_EQ(f.run(none, zeros({0, 2}, DType::f64)).shape(), (Shape{0, 2})) << f.name;
    EXPECT_EQ(f.run(none, zeros({0}, DType::f64)).shape(), Shape{0}) << f.name;
    EXPECT_EQ(f.run(batch, zeros({0, 3, 2}, DType::f64)).shape(), (Shape{0, 3, 2})) << f.name;
    EXPECT_EQ(f.run(zeros({3, 3}, DType::f64) + eye(3, 3, DType::f64), zeros({3, 0}, DType::f64)).shape(),
              (Shape{3, 0}))
        << f.name;
  }
}

// Kernels cut their work by extents alone.
// numpy.linalg.matrix_norm of empty matrices.
TEST(LinalgInputs, OfExtentZeroHaveNormsOfZero) {
  for (const Shape& shape : {Shape{2, 3, 0}, Shape{2, 0, 3}, Shape{2, 0, 0}}) {
    const Tensor x = zeros(shape, DType::f64);
    for (const MatrixOrder ord :
         {MatrixOrder::fro, MatrixOrder::nuc, MatrixOrder::one, MatrixOrder::two, MatrixOrder::inf}) {
      EXPECT_EQ(matrix_norm(x, {.ord = ord}).to_vector<double>(), (std::vector<double>{0, 0})) << to_string(shape);
      EXPECT_EQ(matrix_norm(x, {.ord = ord, .keep = Keep::yes}).shape(), (Shape{2, 1, 1}));
    }
  }
}

TEST(LinalgInputs, OfExtentZeroHaveNoLeastSumOrSingularValue) {
  for (const MatrixOrder ord : {MatrixOrder::minus_one, MatrixOrder::minus_two, MatrixOrder::minus_inf}) {
    const Error e = error_of([&] { matrix_norm(zeros({2, 0, 0}, DType::f64), {.ord = ord}); });
    EXPECT_EQ(e.op(), "matrix_norm") << e.what();
    EXPECT_TRUE(mentions(e, "got f64[2,0,0]")) << e.what();
  }
}

TEST(LinalgDeterministic, BitsDoNotDependOnTheNumberOfThreads) {
  struct Row {
    const char* name;
    std::function<Results(const Tensor& x, const Tensor& b)> run;
    std::vector<Shape> shapes;
  };
  const std::vector<Shape> squares = {{1, 33, 33}, {1, 300, 300}, {3, 130, 130}, {40, 17, 17}};
  const Row rows[] = {
      {"lu", [](const Tensor& x, const Tensor&) { return Results{lu_factor(x).lu}; }, squares},
      {"cholesky", [](const Tensor& x, const Tensor&) { return Results{cholesky(x)}; }, squares},
      {"qr",
       [](const Tensor& x, const Tensor&) {
         return Results{qr(x).q, qr(x).r};
       },
       squares},
      {"solve", [](const Tensor& x, const Tensor& b) { return Results{solve(x, b)}; }, squares},
      {"solve, pos", [](const Tensor& x, const Tensor& b) { return Results{solve(x, b, {.assume_a = Assume::pos})}; },
       squares},
      {"lstsq",
       [](const Tensor& x, const Tensor& b) { return Results{lstsq(x, b).x}; },
       {{1, 60, 45}, {9, 20, 12}, {1, 20, 35}}},
      {"lstsq, full rank",
       [](const Tensor& x, const Tensor& b) { return Results{lstsq(x, b, {.full_rank = true}).x}; },
       {{1, 300, 170}, {9, 20, 12}}},
  };
  for (const Row& row : rows) {
    for (const Shape& shape : row.shapes) {
      for (const DType dtype : {DType::f64, DType::f32}) {
        const Tensor x = matrices(shape, dtype), b = matrices({shape[0], shape[1], 3}, dtype);
        std::vector<Array> first;
        for (const int threads : {1, 2, 3}) {
          const ThreadLimit limit(threads);
          auto step = compile([&](const Tensor& a, const Tensor& side) { return row.run(a, side); },
                              {.backend = "cpu", .deterministic = true});
          std::vector<Array> got;
          for (const Tensor& y : step(x, b)) got.push_back(y.array());
          if (first.empty()) first = got;
          for (size_t i = 0; i < got.size(); ++i) {
            EXPECT_EQ(std::memcmp(first[i].raw(), got[i].raw(), got[i].bytes()), 0)
                << row.name << " of " << to_string(Type{dtype, shape}) << ", " << threads << " threads, result " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace freight
