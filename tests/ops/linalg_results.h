// Results of decompositions that are not unique, made into what is: signs and phases of vectors, the order of complex
// eigenvalues and vectors that only complete a basis differ from one implementation to the next. What comes out depends
// on all results, has as many parts, and the same gradient whatever the choice was.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "freight/ir/builder.h"

namespace freight::test {

inline Ex transposed_matrices(Ex x) {
  Shape perm = x.shape();
  for (int i = 0; i < perm.rank(); ++i) perm[i] = i;
  std::swap(perm[perm.rank() - 2], perm[perm.rank() - 1]);
  return {x.b, x.b->transpose(x.v, perm)};
}
inline Ex product_of(Ex a, Ex b) { return {a.b, a.b->matmul(a.v, b.v)}; }
// x with column j times the j-th of the vectors (..., columns).
inline Ex times_columns(Ex x, Ex v) {
  Shape thin = x.shape();
  thin[thin.rank() - 2] = 1;
  return x * Ex{x.b, x.b->broadcast(x.b->reshape(v.v, thin), x.shape())};
}
// One number per column of x, (..., columns): 1, 1.5, 2, ... for the first `distinct`, 3 for the others.
inline Ex column_weights(Ex x, int64_t distinct) {
  Shape s = x.shape();
  s.erase(s.rank() - 2);
  const Ex place{x.b, x.b->one(Op::iota, IotaAttrs{s, s.rank() - 1, x.type().dtype}, {})};
  return select(place < static_cast<double>(distinct), place * 0.5 + 1.0, 3.0);
}
inline Ex columns_up_to(Ex x, int64_t count) {
  Shape limit = x.shape();
  limit[limit.rank() - 1] = count;
  return {x.b, x.b->slice(x.v, Shape::filled(limit.rank(), 0), limit, Shape::filled(limit.rank(), 1))};
}

// The sums over columns of w_j v_j v_j^T.
inline Ex weighted_squares(Ex v, int64_t distinct) {
  return product_of(times_columns(v, column_weights(v, distinct)), transposed_matrices(v));
}

// True where vectors of the node only complete a basis: they are any, and no gradient flows through them.
inline bool completes_basis(const Graph& g, const Node& n) {
  if (n.op != Op::svd && n.op != Op::qr) return false;
  const int64_t columns = g.type(n.out(0)).shape.back();
  const Shape& second = g.type(n.out(1)).shape;
  if (n.op == Op::qr) return columns > second.back();
  const Shape& vh = g.type(n.out(2)).shape;
  return columns > second.back() || vh[vh.rank() - 2] > second.back();
}
inline bool has_choices(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return completes_basis(g, n); });
}

// Squares of u and v with weights; in the latter those of the relation between both as well, which is wrong where the
// signs of a pair do not belong together.
inline std::vector<Value> unambiguous_svd(Builder& b, const std::vector<Value>& usv) {
  Ex u{&b, usv[0]}, v = transposed_matrices({&b, usv[2]});
  const Ex s{&b, usv[1]};
  const int64_t k = s.shape().back();
  if (completes_basis(b.graph(), b.graph().def(usv[0]))) {
    u = apply(Op::stop_gradient, u);
    v = apply(Op::stop_gradient, v);
  }
  const Ex first_u = columns_up_to(u, k), first_v = columns_up_to(v, k);
  // Where a singular value is 0, a pair has any two signs.
  const Ex weights = select(s > 0.0, column_weights(first_u, k), 0.0);
  const Ex relation = product_of(times_columns(first_u, weights), transposed_matrices(first_v));
  const Ex rows = transposed_matrices(relation);
  const Ex cross = product_of(times_columns(rows, column_weights(rows, rows.shape().back())), relation);
  return {weighted_squares(u, k).v, s.v, (weighted_squares(v, k) + cross).v};
}

// The sums over columns of d_j v_j v_j^H, of which conjugate pairs leave the real part, for d = w, w^2, 1 and Im(w)^2.
inline std::vector<Value> unambiguous_eig(Builder& b, const std::vector<Value>& all) {
  const Ex re{&b, all[0]}, im{&b, all[1]}, v{&b, all[2]}, w{&b, all[3]};
  const Ex vt = transposed_matrices(v), wt = transposed_matrices(w);
  const auto sums = [&](Ex dr, Ex di) {
    return product_of(times_columns(v, dr), vt) + product_of(times_columns(w, dr), wt) -
           product_of(times_columns(w, di), vt) + product_of(times_columns(v, di), wt);
  };
  const Ex zero = im * 0.0;
  return {sums(re, im).v, sums(re * re - im * im, re * im * 2.0).v, sums(zero + 1.0, zero).v, sums(im * im, zero).v};
}

// Sums over the eigenvalues, in whose order implementations differ: of w and w^2 / 2, and of Im(w)^2.
inline std::vector<Value> unambiguous_eigvals(Builder& b, const std::vector<Value>& values) {
  const Ex re{&b, values[0]}, im{&b, values[1]};
  const Shape last = {re.shape().rank() - 1};
  return {sum(re + (re * re - im * im) * 0.5, last).v, sum(im * im, last).v};
}

// The graph with such results of its own in place of a decomposition's.
inline Graph unambiguous(Graph g) {
  if (g.outputs.empty()) return g;
  const Node node = g.def(g.outputs[0]);
  Builder b(g, node.scope, node.where);
  if (node.op == Op::eig && g.outputs.size() == 2) {
    if (g.outputs == std::vector<Value>{node.out(0), node.out(1)}) g.outputs = unambiguous_eigvals(b, g.outputs);
    return g;
  }
  if (node.outputs != g.outputs) return g;
  if (node.op == Op::eigh) g.outputs[1] = weighted_squares({&b, g.outputs[1]}, b.shape(g.outputs[1]).back()).v;
  if (node.op == Op::svd) g.outputs = unambiguous_svd(b, g.outputs);
  if (node.op == Op::eig) g.outputs = unambiguous_eig(b, g.outputs);
  if (node.op == Op::qr && completes_basis(g, node)) {
    const Ex q{&b, g.outputs[0]};
    g.outputs[0] = apply(Op::stop_gradient, weighted_squares(q, b.shape(g.outputs[1]).back())).v;
  }
  return g;
}

}  // namespace freight::test
