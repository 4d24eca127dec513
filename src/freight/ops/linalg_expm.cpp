// The matrix exponential by scaling and squaring (Higham, The scaling and squaring method for the matrix exponential
// revisited, SIAM J. Matrix Anal. Appl. 26, 2005), composed of products and one solution, which give it its gradients.
#include <limits>
#include <vector>

#include "freight/ops/elementwise.h"
#include "freight/ops/linalg_internal.h"
#include "freight/ops/reduce.h"

namespace freight {

namespace {

// The diagonal Pade approximant p(a) / p(-a) of exp whose error is that of rounding for a 1-norm of at most `theta`.
struct Approximant {
  double theta;
  std::vector<double> p;  // coefficients from a^0 on
};
const Approximant& approximant(DType dtype) {
  static const Approximant kSingle{3.925724783138660, {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1}};
  static const Approximant kDouble{
      5.371920351148152,
      {64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
       670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1}};
  return dtype == DType::f64 ? kDouble : kSingle;
}

// p(a) / p(-a) = (v - u)^-1 (v + u), where v has the even powers of p and u the odd ones.
Tensor exponential_of_scaled(const Tensor& a, const Approximant& by) {
  const Tensor identity = ops::with_batch(eye(a.dim(-1), -1, a.dtype()), ops::batch_of(a), "expm");
  std::vector<Tensor> even = {identity, matmul(a, a)};  // a^0, a^2, a^4, a^6
  for (int i = 2; i < 4; ++i) even.push_back(matmul(even.back(), even[1]));
  // The sum of p[first + 2 i] a^(2 i); powers above a^6 as a^6 times the rest.
  const auto polynomial = [&](size_t first) {
    const auto sum_from = [&](size_t begin, size_t lowest) {
      Tensor total;
      for (size_t power = lowest; power < even.size() && begin + 2 * (power - lowest) < by.p.size(); ++power) {
        const Tensor term = even[power] * (by.p[begin + 2 * (power - lowest)] / by.p[0]);
        total = total.defined() ? total + term : term;
      }
      return total;
    };
    const Tensor low = sum_from(first, 0), high = sum_from(first + 8, 1);
    return high.defined() ? low + matmul(even[3], high) : low;
  };
  const Tensor u = matmul(a, polynomial(1)), v = polynomial(0);
  return solve(v - u, v + u);
}

}  // namespace

Tensor expm(const In& x, const ExpmOptions& options) {
  const auto [frame, t] = ops::enter(x, "expm");
  ops::need_square(t, "expm");
  constexpr int64_t kMost = 60;  // f32 holds 2^-60 times numbers around 1
  if (options.max_squarings < 0 || options.max_squarings > kMost) {
    ops::fail_here("expm", "max_squarings out of range: expected 0 to ", kMost, ", got ", options.max_squarings);
  }
  if (t.numel() == 0) return t;
  const Approximant& by = approximant(t.dtype());
  const Tensor norm = unsqueeze(unsqueeze(stop_gradient(matrix_norm(t, {.ord = MatrixOrder::one})), -1), -1);
  const auto needs_more_than = [&](int64_t squarings) {
    return norm > by.theta * static_cast<double>(int64_t{1} << squarings);
  };
  const Tensor in_reach = norm <= by.theta * static_cast<double>(int64_t{1} << options.max_squarings);
  Tensor scale = full(norm.shape(), 1.0, t.dtype());  // (..., 1, 1)
  for (int64_t s = 0; s < options.max_squarings; ++s) scale = where(needs_more_than(s), scale * 0.5, scale);
  Tensor y = exponential_of_scaled(where(in_reach, t, 0.0) * scale, by);
  for (int64_t s = 0; s < options.max_squarings; ++s) y = where(needs_more_than(s), matmul(y, y), y);
  return where(in_reach, y, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace freight
