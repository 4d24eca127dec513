// Products of vectors and matrices that are no single matmul, and what concerns diagonals. See linalg.h.
#include <algorithm>

#include "freight/ops/elementwise.h"
#include "freight/ops/linalg_internal.h"
#include "freight/ops/reduce.h"

namespace freight {

namespace {

// The axis counted from the back, where operands of other ranks have it, too. It has the same extent in both.
int64_t shared_axis(const Tensor& a, const Tensor& b, int64_t axis, const char* op) {
  const int at = ops::axis_of(axis, a.type(), op);
  if (axis >= 0 && a.rank() != b.rank())
    ops::fail_here(op, "axis ", axis, " is another one in each operand: got ", a.type(), " and ", b.type(),
                   "; count it from the back");
  const int64_t back = at - a.rank();
  if (-back > b.rank()) ops::fail_here(op, "axis ", axis, " is not in both: got ", a.type(), " and ", b.type());
  if (a.dim(back) != b.dim(back)) {
    ops::fail_here(op, "sizes of axis ", axis, " differ: got ", a.type(), " and ", b.type());
  }
  return back;
}

// The axes of one operand of tensordot, from 0 on, each once.
std::vector<int64_t> summed_axes(const std::vector<int64_t>& axes, const Tensor& x) {
  std::vector<int64_t> list;
  for (const int64_t axis : axes) {
    const int64_t i = ops::axis_of(axis, x.type(), "tensordot");
    if (std::find(list.begin(), list.end(), i) != list.end())
      ops::fail_here("tensordot", "axis ", axis, " of ", x.type(), " appears twice");
    list.push_back(i);
  }
  return list;
}
std::vector<int64_t> other_axes(const std::vector<int64_t>& axes, const Tensor& x) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) list.push_back(i);
  }
  return list;
}
int64_t elements_of(const std::vector<int64_t>& axes, const Tensor& x) {
  int64_t n = 1;
  for (const int64_t i : axes) n *= x.dim(i);
  return n;
}
Tensor in_order(const Tensor& x, std::vector<int64_t> first, const std::vector<int64_t>& then) {
  const Shape two{elements_of(first, x), elements_of(then, x)};
  first.insert(first.end(), then.begin(), then.end());
  return ops::reshaped(permute(x, Shape(first)), two);
}

Tensor summed_product(const Tensor& a, const Tensor& b, const std::vector<int64_t>& a_axes,
                      const std::vector<int64_t>& b_axes) {
  const std::vector<int64_t> sa = summed_axes(a_axes, a), sb = summed_axes(b_axes, b);
  if (sa.size() != sb.size())
    ops::fail_here("tensordot", "needs as many axes of a as of b: got ", sa.size(), " and ", sb.size());
  for (size_t i = 0; i < sa.size(); ++i) {
    if (a.dim(sa[i]) != b.dim(sb[i])) {
      ops::fail_here("tensordot", "sizes differ: a ", a.type(), " axis ", sa[i], " = ", a.dim(sa[i]), ", b ", b.type(),
                     " axis ", sb[i], " = ", b.dim(sb[i]));
    }
  }
  const std::vector<int64_t> left = other_axes(sa, a), right = other_axes(sb, b);
  std::vector<int64_t> extents;
  for (const int64_t i : left) extents.push_back(a.dim(i));
  for (const int64_t i : right) extents.push_back(b.dim(i));
  if (extents.size() > Shape::kMaxRank) {
    ops::fail_here("tensordot", "the result has too many axes: expected at most ", Shape::kMaxRank, ", got ", a.type(),
                   " and ", b.type());
  }
  return ops::reshaped(matmul(in_order(a, left, sa), in_order(b, sb, right)), Shape(extents));
}

// `count` axes from the first on.
std::vector<int64_t> counted(int64_t first, int64_t count) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(first + i);
  return list;
}

// Columns less rows, i32 (M, N): the number of the diagonal at each element.
Tensor diagonal_numbers(const Tensor& t) {
  const Shape matrix{t.dim(-2), t.dim(-1)};
  return iota(matrix, 1) - iota(matrix, 0);
}

}  // namespace

Tensor tensordot(const In& a, const In& b, WholeNumber axes) {
  const Frame frame(a.where, "tensordot");
  const Tensor left = ops::get(a, "tensordot"), right = ops::get(b, "tensordot");
  if (axes < 0 || axes > std::min(left.rank(), right.rank())) {
    ops::fail_here("tensordot", "expected 0 to ", std::min(left.rank(), right.rank()), " for ", left.type(), " and ",
                   right.type(), ", got ", axes.value, " axes");
  }
  return ops::named("tensordot",
                    [&] { return summed_product(left, right, counted(left.rank() - axes, axes), counted(0, axes)); });
}

Tensor tensordot(const In& a, const In& b, const std::vector<int64_t>& a_axes, const std::vector<int64_t>& b_axes) {
  const Frame frame(a.where, "tensordot");
  return ops::named("tensordot",
                    [&] { return summed_product(ops::get(a, "tensordot"), ops::get(b, "tensordot"), a_axes, b_axes); });
}

Tensor vecdot(const In& a, const In& b, Axis axis) {
  const Frame frame(a.where, "vecdot");
  const Tensor left = ops::get(a, "vecdot"), right = ops::get(b, "vecdot");
  const int64_t back = shared_axis(left, right, axis, "vecdot");
  const DType given = left.dtype(), wider = wide(given);
  return ops::named("vecdot", [&] {
    if (left.dtype() != right.dtype()) return left * right;  // which refuses it
    const Tensor y = sum(cast(left, wider) * cast(right, wider), back);
    return is_floating(given) ? cast(y, given) : y;
  });
}

Tensor outer(const In& a, const In& b) {
  const Frame frame(a.where, "outer");
  const Tensor left = ops::get(a, "outer"), right = ops::get(b, "outer");
  if (left.rank() != 1 || right.rank() != 1)
    ops::fail_here("outer", "needs two vectors: expected (M) and (N), got ", left.type(), " and ", right.type());
  return ops::named("outer", [&] { return unsqueeze(left, 1) * unsqueeze(right, 0); });
}

Tensor kron(const In& a, const In& b) {
  const Frame frame(a.where, "kron");
  const Tensor left = ops::get(a, "kron"), right = ops::get(b, "kron");
  const int rank = std::max(left.rank(), right.rank());
  if (2 * rank > Shape::kMaxRank) {
    ops::fail_here("kron", "too many axes: expected at most ", Shape::kMaxRank / 2, ", got ", left.type(), " and ",
                   right.type());
  }
  Shape thin_a, thin_b, extents;
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - left.rank()), in_b = i - (rank - right.rank());
    const int64_t m = in_a < 0 ? 1 : left.shape()[in_a], n = in_b < 0 ? 1 : right.shape()[in_b];
    for (const int64_t d : {m, int64_t{1}}) thin_a.push_back(d);
    for (const int64_t d : {int64_t{1}, n}) thin_b.push_back(d);
    extents.push_back(m * n);
  }
  return ops::named("kron",
                    [&] { return ops::reshaped(ops::reshaped(left, thin_a) * ops::reshaped(right, thin_b), extents); });
}

Tensor cross(const In& a, const In& b, Axis axis) {
  const Frame frame(a.where, "cross");
  const Tensor left = ops::get(a, "cross"), right = ops::get(b, "cross");
  const int64_t back = shared_axis(left, right, axis, "cross");
  if (left.dim(back) != 3)
    ops::fail_here("cross", "needs vectors of 3 numbers along axis ", int64_t{axis}, ": got ", left.type());
  const auto next = [&](const Tensor& x) { return concat({narrow(x, back, 1, 2), narrow(x, back, 0, 1)}, back); };
  return ops::named("cross", [&] { return next(left * next(right) - next(left) * right); });
}

Tensor diagonal(const In& x, WholeNumber offset) {
  const auto [frame, t] = ops::enter(x, "diagonal");
  ops::need_matrix(t, "diagonal");
  const int64_t m = t.dim(-2), n = t.dim(-1);
  const int64_t row = offset < 0 ? std::min(m, -std::max(offset.value, -m)) : 0,
                column = std::clamp<int64_t>(offset, 0, n);
  const int64_t count = std::min(m - row, n - column);
  Shape flat = ops::batch_of(t);
  flat.push_back(m * n);
  const Tensor rows = ops::reshaped(t, flat);
  if (count == 0) return narrow(rows, -1, 0, 0);
  const int64_t first = row * n + column;
  return slice(rows, -1, first, first + (count - 1) * (n + 1) + 1, n + 1);
}

Tensor matrix_trace(const In& x, WholeNumber offset) {
  const auto [frame, given] = ops::enter(x, "matrix_trace");
  const Tensor& t = given;
  return ops::named("matrix_trace", [&] { return sum(diagonal(t, offset), -1); });
}

Tensor tril(const In& x, WholeNumber k) {
  const auto [frame, t] = ops::enter(x, "tril");
  ops::need_matrix(t, "tril");
  return where(diagonal_numbers(t) <= k.value, t, zeros({}, t.dtype()));
}
Tensor triu(const In& x, WholeNumber k) {
  const auto [frame, t] = ops::enter(x, "triu");
  ops::need_matrix(t, "triu");
  return where(diagonal_numbers(t) >= k.value, t, zeros({}, t.dtype()));
}

}  // namespace freight
