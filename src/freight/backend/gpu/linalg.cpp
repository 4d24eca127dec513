// Factorizations and triangular solves as launches: one kernel for matrices that fit local memory; blocks of columns
// for larger ones, each a panel by one kernel, and the rest of the matrix by products (gemm.cpp). The kernels are in
// linalg_kernels.h. Errors of the data are found at the end of a step, on the diagonal of what it made (faults.h).
#include <algorithm>

#include "freight/backend/gpu/faults.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/linalg_kernels.h"
#include "freight/backend/gpu/lower.h"

namespace freight::gpu {

namespace {

// The operand of a step, row-major, as matrices.
MatrixBatch matrices_of(const StepSpec& spec, size_t operand) {
  const Type& t = operand < spec.in.size() ? spec.in[operand].type : spec.out[operand - spec.in.size()].type;
  const int rank = t.shape.rank();
  const int64_t count = Shape(t.shape.begin(), t.shape.end() - 2).numel();
  return dense_batch(static_cast<int>(operand), t.dtype, count, t.shape[rank - 2], t.shape[rank - 1]);
}

// The launches of a step in the making, and its scratch memory.
class Sequence {
 public:
  Sequence(const StepSpec& spec, const char* name) : scratch_(static_cast<int>(spec.in.size() + spec.out.size())) {
    lowered_.name = name;
  }
  void then(Launch launch) {
    if (launch.groups > 0) lowered_.launches.push_back(std::move(launch));
  }
  // Matrices in scratch memory. All are asked for before the first product.
  MatrixBatch scratch(DType dtype, int64_t count, int64_t rows, int64_t columns) {
    constexpr size_t kAligned = 256;
    const MatrixBatch m = dense_batch(scratch_, dtype, count, rows, columns, own_bytes_);
    own_bytes_ += static_cast<size_t>(count * rows * columns) * size_of(dtype);
    own_bytes_ = (own_bytes_ + kAligned - 1) / kAligned * kAligned;
    return m;
  }
  // y = a b; y is dense.
  void multiply(const MatrixBatch& y, const MatrixBatch& a, const MatrixBatch& b) {
    const Node node = product_node(false);
    append(lower_matmul({nullptr, &node, {operand(a), operand(b)}, {operand(y)}}), {&a, &b, &y});
  }
  // y -= a b.
  void subtract_product(const MatrixBatch& y, const MatrixBatch& a, const MatrixBatch& b) {
    if (y.count * y.rows * y.columns == 0) return;
    const Node node = product_node(true);
    append(lower_subtracted_matmul({nullptr, &node, {operand(a), operand(b), operand(y)}, {operand(y)}}),
           {&a, &b, &y, &y});
  }
  Lowered finish() {
    lowered_.scratch_bytes = own_bytes_ + parts_bytes_;
    return std::move(lowered_);
  }

 private:
  static Operand operand(const MatrixBatch& m) {
    return {{m.dtype, {m.count, m.rows, m.columns}}, {{m.apart, m.row, m.column}, nullptr}};
  }
  static Node product_node(bool residual) {
    return {.op = Op::matmul,
            .attrs = MatmulAttrs{false, false, {.residual = residual}},
            .inputs = {},
            .outputs = {},
            .scope = {},
            .where = {}};
  }
  // The launches of a step with these operands; its scratch memory lies behind the other's.
  void append(Lowered step, const std::vector<const MatrixBatch*>& operands) {
    parts_bytes_ = std::max(parts_bytes_, step.scratch_bytes);
    for (Launch& launch : step.launches) {
      for (Argument& argument : launch.arguments) {
        const auto i = static_cast<size_t>(argument.operand);
        const bool named = i < operands.size();
        argument.operand = named ? operands[i]->operand : scratch_;
        argument.offset += named ? operands[i]->offset : own_bytes_;
      }
      then(std::move(launch));
    }
  }

  int scratch_;
  size_t own_bytes_ = 0, parts_bytes_ = 0;
  Lowered lowered_;
};

// x -> lu, pivots, permutation. Right-looking: a panel, its exchanges in the other columns, the rows beside its
// triangle, and what the panel takes from the rest.
Lowered lower_lu(const StepSpec& spec, int64_t local_bytes) {
  const MatrixBatch x = matrices_of(spec, 0), lu = matrices_of(spec, 1);
  const int64_t steps = std::min(x.rows, x.columns);
  Sequence s(spec, "lu");
  RowOrder order{2, 3, x.rows, steps, 0};
  if (x.count * x.rows == 0) return s.finish();
  if (fits_local(x.dtype, x.rows, x.columns, local_bytes)) {
    s.then(lu_panel(x, lu, order, local_bytes));
  } else {
    s.then(copy_part(x, lu, Triangle::all));
    for (int64_t k = 0; k < steps; k += kFactorBlock) {
      const int64_t w = std::min(kFactorBlock, steps - k), below = x.rows - k - w, beside = x.columns - k - w;
      const MatrixBatch panel = lu.block(k, k, x.rows - k, w), right = lu.block(k, k + w, w, beside);
      order.first = k;
      s.then(lu_panel(panel, panel, order));
      s.then(lu_exchange(lu, order, w));
      if (beside == 0) continue;
      s.then(solve_block(lu.block(k, k, w, w), right, Diagonal::unit));
      s.subtract_product(lu.block(k + w, k + w, below, beside), lu.block(k + w, k, below, w), right);
    }
  }
  if (attrs<LuAttrs>(*spec.node).refuse_singular && steps > 0) {
    s.then(report_diagonal(lu, Bad::zero, matrix_check(*spec.node, spec.in[0].type, MatrixFault::zero_pivot)));
  }
  return s.finish();
}

// x -> factor. The upper triangle is the lower one of the transposed matrix.
Lowered lower_cholesky(const StepSpec& spec, int64_t local_bytes) {
  const bool upper = attrs<CholeskyAttrs>(*spec.node).upper;
  const MatrixBatch given = matrices_of(spec, 0), made = matrices_of(spec, 1);
  const MatrixBatch x = upper ? given.transposed() : given, l = upper ? made.transposed() : made;
  const int64_t n = x.rows;
  Sequence s(spec, "cholesky");
  if (x.count * n == 0) return s.finish();
  if (fits_local(x.dtype, n, n, local_bytes)) {
    s.then(cholesky_block(x, l));
  } else {
    s.then(copy_part(given, made, Triangle::all));
    for (int64_t k = 0; k < n; k += kFactorBlock) {
      const int64_t w = std::min(kFactorBlock, n - k), next = k + w, rest = n - next;
      const MatrixBatch block = l.block(k, k, w, w), below = l.block(next, k, rest, w);
      s.then(cholesky_block(block, block));
      if (rest == 0) continue;
      s.then(solve_block(block, below.transposed(), Diagonal::given));
      // By some columns at a time, from their diagonal down: of the other triangle little is computed.
      const int64_t some = std::max<int64_t>(ceil_div(rest, 4), 8 * kFactorBlock);
      for (int64_t j = 0; j < rest; j += some) {
        const int64_t wide = std::min(some, rest - j);
        s.subtract_product(l.block(next + j, next + j, rest - j, wide), below.block(j, 0, rest - j, w),
                           below.block(j, 0, wide, w).transposed());
      }
    }
    s.then(copy_part(l, l, Triangle::lower));
  }
  s.then(report_diagonal(l, Bad::not_positive, matrix_check(*spec.node, spec.in[0].type, MatrixFault::not_positive)));
  return s.finish();
}

// a, b -> x. From the right it is the transposed system.
Lowered lower_triangular(const StepSpec& spec) {
  const auto& how = attrs<TriangularAttrs>(*spec.node);
  const MatrixBatch a = matrices_of(spec, 0), b = matrices_of(spec, 1), result = matrices_of(spec, 2);
  const MatrixBatch t = how.transposed != how.right ? a.transposed() : a, x = how.right ? result.transposed() : result;
  const bool upper = how.upper != (how.transposed != how.right);
  const Diagonal diagonal = how.unit_diagonal ? Diagonal::unit : Diagonal::given;
  const int64_t n = t.rows;
  Sequence s(spec, "triangular");
  if (a.count * n == 0) return s.finish();
  if (how.refuse_singular && !how.unit_diagonal) {
    s.then(report_diagonal(a, Bad::zero, matrix_check(*spec.node, spec.in[0].type, MatrixFault::zero_diagonal)));
  }
  if (x.columns == 0) return s.finish();
  s.then(copy_part(b, result, Triangle::all));
  for (int64_t done = 0; done < n; done += kFactorBlock) {
    const int64_t w = std::min(kFactorBlock, n - done), rest = n - done - w, k = upper ? rest : done;
    const MatrixBatch block = t.block(k, k, w, w), rows = x.block(k, 0, w, x.columns);
    if (upper) {
      s.then(solve_block(block.reversed(), rows.reversed(), diagonal));
    } else {
      s.then(solve_block(block, rows, diagonal));
    }
    const int64_t others = upper ? 0 : k + w;
    s.subtract_product(x.block(others, 0, rest, x.columns), t.block(others, k, rest, w), rows);
  }
  return s.finish();
}

// y <- (I - v t v^T) y, for t of the whole panel; `scratch` has room for two of its rows.
void reflect(Sequence& s, const MatrixBatch& y, const MatrixBatch& v, const MatrixBatch& t,
             const std::array<MatrixBatch, 2>& scratch) {
  if (y.columns == 0) return;
  const auto dense = [&](size_t i) {
    return dense_batch(scratch[i].operand, y.dtype, y.count, v.columns, y.columns, scratch[i].offset);
  };
  s.multiply(dense(0), v.transposed(), y);
  s.multiply(dense(1), t, dense(0));
  s.subtract_product(y, v, dense(1));
}

// x -> q, r. Panels of Householder's reflections, joined to blocks (Schreiber and Van Loan, "A storage-efficient WY
// representation"); q is what they make of the identity, from the last to the first.
Lowered lower_qr(const StepSpec& spec) {
  const MatrixBatch x = matrices_of(spec, 0), q = matrices_of(spec, 1), r = matrices_of(spec, 2);
  const int64_t steps = std::min(x.rows, x.columns);
  Sequence s(spec, "qr");
  if (x.count * x.rows == 0) return s.finish();
  if (fits_local(x.dtype, x.rows, x.columns)) {
    s.then(qr_small(x, q, r));
    return s.finish();
  }
  const int64_t panels = ceil_div(steps, kFactorBlock);
  const auto scratch = [&](int64_t rows, int64_t columns) { return s.scratch(x.dtype, x.count, rows, columns); };
  const MatrixBatch work = scratch(x.rows, x.columns), reflectors = scratch(x.rows, steps),
                    triangles = scratch(panels * kFactorBlock, kFactorBlock), tau = scratch(1, kFactorBlock),
                    gram = scratch(kFactorBlock, kFactorBlock);
  const int64_t widest = std::max(x.columns, q.columns);
  const std::array<MatrixBatch, 2> rows{scratch(kFactorBlock, widest), scratch(kFactorBlock, widest)};
  s.then(copy_part(x, work, Triangle::all));
  const auto width = [&](int64_t k) { return std::min(kFactorBlock, steps - k); };
  const auto v_of = [&](int64_t k) { return reflectors.block(k, k, x.rows - k, width(k)); };
  const auto t_of = [&](int64_t k) { return triangles.block(k, 0, width(k), width(k)); };
  for (int64_t k = 0; k < steps; k += kFactorBlock) {
    const int64_t w = width(k), next = k + w;
    const MatrixBatch v = v_of(k), of_panel = dense_batch(gram.operand, x.dtype, x.count, w, w, gram.offset);
    s.then(qr_panel(work.block(k, k, x.rows - k, w), v, tau));
    s.multiply(of_panel, v.transposed(), v);
    s.then(qr_triangle(of_panel, tau, t_of(k)));
    reflect(s, work.block(k, next, x.rows - k, x.columns - next), v, t_of(k).transposed(), rows);
  }
  s.then(copy_part(work.block(0, 0, r.rows, r.columns), r, Triangle::upper));
  s.then(set_identity(q));
  for (int64_t k = (panels - 1) * kFactorBlock; k >= 0; k -= kFactorBlock) {
    reflect(s, q.block(k, k, q.rows - k, q.columns - k), v_of(k), t_of(k), rows);
  }
  return s.finish();
}

}  // namespace

bool has_factorization(Op op) {
  return op == Op::lu_factor || op == Op::cholesky || op == Op::qr || op == Op::solve_triangular;
}

bool factorizes_in_local_memory(const StepSpec& spec, int64_t local_bytes) {
  const MatrixBatch x = matrices_of(spec, 0);
  return fits_local(x.dtype, x.rows, x.columns, spec.node->op == Op::qr ? kLocalBytes : local_bytes);
}

Lowered lower_factorization(const StepSpec& spec, int64_t local_bytes) {
  switch (spec.node->op) {
    case Op::lu_factor: return lower_lu(spec, local_bytes);
    case Op::cholesky: return lower_cholesky(spec, local_bytes);
    case Op::qr: return lower_qr(spec);
    default: return lower_triangular(spec);
  }
}

}  // namespace freight::gpu
