// FLOPs of linear algebra in the op table against the leading terms that the literature gives: LAPACK Working Note 41
// for LU, Cholesky, QR and triangular solves; Golub and Van Loan, Matrix Computations, 4th edition, figure 8.6.1, 8.3
// and 7.5.6 for singular values and eigenvalues.
#include <gtest/gtest.h>

#include <string>

#include "freight/base/strings.h"
#include "freight/ir/builder.h"

namespace freight {
namespace {

// The FLOPs of the node that makes %2 from x and b.
double flops_of(const std::string& x, const std::string& b, const std::string& op, const std::string& read = "%2") {
  const Graph g = parse(
      cat("graph {\n %0 = input \"x\" : f64", x, "\n %1 = input \"b\" : f64", b, "\n ", op, "\n return ", read, " }"));
  for (const Node& n : g.nodes) {
    if (n.op != Op::input) return cost(g, n).flops;
  }
  return -1;
}

struct Row {
  const char *x, *op;
  double flops;
  const char* read = "%2";
};

TEST(LinalgFlops, AreThoseOfTheLiterature) {
  constexpr double m = 80, n = 50;
  const Row rows[] = {
      // getrf: m n^2 - n^3 / 3 for m >= n, and the same of the transpose.
      {"[50,50]", "%2, %3, %4 = lu_factor(%0) {refuse_singular=false} : f64[50,50], i32[50], i32[50]",
       2 * n * n * n / 3},
      {"[80,50]", "%2, %3, %4 = lu_factor(%0) {refuse_singular=false} : f64[80,50], i32[50], i32[80]",
       m * n * n - n * n * n / 3},
      {"[50,80]", "%2, %3, %4 = lu_factor(%0) {refuse_singular=false} : f64[50,80], i32[50], i32[50]",
       m * n * n - n * n * n / 3},
      {"[3,50,50]", "%2 = cholesky(%0) {upper=false} : f64[3,50,50]", 3 * n * n * n / 3},
      // geqrf: 2 m n^2 - 2 n^3 / 3; orgqr of as many columns: the same; of all m: 4 m^2 n - 2 (m + m) n^2 + 4 n^3 / 3.
      {"[80,50]", "%2, %3 = qr(%0) {complete=false} : f64[80,50], f64[50,50]", 4 * m * n * n - 4 * n * n * n / 3},
      {"[80,50]", "%2, %3 = qr(%0) {complete=true} : f64[80,80], f64[80,50]",
       2 * m * n * n - 2 * n * n * n / 3 + 4 * m * m * n - 4 * m * n * n + 4 * n * n * n / 3},
      {"[50,80]", "%2, %3 = qr(%0) {complete=false} : f64[50,50], f64[50,80]",
       2 * m * n * n - 2 * n * n * n / 3 + 4 * n * n * n / 3},
      {"[50,50]",
       "%2 = solve_triangular(%0, %1) {upper=true, transposed=false, unit_diagonal=false, right=false, "
       "refuse_singular=false} : f64[50,7]",
       n * n * 7},
      {"[50,50]", "%2 = solve(%0, %1) : f64[50,7]", 2 * n * n * n / 3 + 2 * n * n * 7},
      {"[50,50]", "%2, %3 = eigh(%0) {upper=false} : f64[50], f64[50,50]", 9 * n * n * n, "%2, %3"},
      {"[50,50]", "%2, %3 = eigh(%0) {upper=false} : f64[50], f64[50,50]", 4 * n * n * n / 3},
      {"[50,50]", "%2, %3, %4, %5 = eig(%0) : f64[50], f64[50], f64[50,50], f64[50,50]", 25 * n * n * n, "%2, %4"},
      {"[50,50]", "%2, %3, %4, %5 = eig(%0) : f64[50], f64[50], f64[50,50], f64[50,50]", 10 * n * n * n, "%2, %3"},
      {"[60,50]", "%2, %3, %4 = svd(%0) {full=false} : f64[60,50], f64[50], f64[50,50]",
       14 * 60 * n * n + 8 * n * n * n},
      {"[50,60]", "%2, %3, %4 = svd(%0) {full=false} : f64[50,50], f64[50], f64[50,60]",
       14 * 60 * n * n + 8 * n * n * n},
      {"[800,50]", "%2, %3, %4 = svd(%0) {full=false} : f64[800,50], f64[50], f64[50,50]",
       6 * 800 * n * n + 20 * n * n * n},
      {"[80,50]", "%2, %3, %4 = svd(%0) {full=true} : f64[80,80], f64[50], f64[50,50]",
       4 * m * m * n + 8 * m * n * n + 9 * n * n * n},
      {"[50,50]", "%2, %3, %4 = svd(%0) {full=false} : f64[50,50], f64[50], f64[50,50]", 8 * n * n * n / 3, "%3"},
      {"[800,50]", "%2, %3, %4 = svd(%0) {full=false} : f64[800,50], f64[50], f64[50,50]",
       2 * 800 * n * n + 2 * n * n * n, "%3"},
  };
  for (const Row& row : rows) {
    EXPECT_NEAR(flops_of(row.x, "[50,7]", row.op, row.read) / row.flops, 1, 1e-12) << row.op << " reads " << row.read;
  }
}

}  // namespace
}  // namespace freight
