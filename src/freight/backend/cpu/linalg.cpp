// The steps that factorize matrices and solve by triangles (kernels/factor.h), f32 and f64, over any batch. Transposed
// operands and parts of larger ones are read as they lie. A matrix that cannot be factorized is an error of the data,
// which names it.
#include <algorithm>
#include <memory>

#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/factor.h"
#include "freight/backend/cpu/kernels/factor_tasks.h"
#include "freight/backend/cpu/matrices.h"
#include "freight/backend/matrix_faults.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// The first matrix of `batch` (.., n) with a 0 on its diagonal, and where; -1: none has one.
struct Zero {
  int64_t matrix = -1, place = 0;
};
template <class T>
Zero zero_on_diagonal(const T* x, int64_t batch, const MatrixStrides& strides, int64_t count) {
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t k = 0; k < count; ++k) {
      if (x[i * strides.batch + k * (strides.row + strides.col)] == T(0)) return {i, k};
    }
  }
  return {};
}

MatrixStrides read_strides(const Operand& x) {
  const std::optional<MatrixStrides> strides = matrix_strides(x);
  FREIGHT_CHECK(strides, "a layout that factor_layouts does not take");
  return *strides;
}

// Operands: x, lu, pivots, permutation, scratch.
template <class T>
class LuStep final : public Kernel {
 public:
  explicit LuStep(const StepSpec& spec)
      : of_(spec.in[0].type),
        refuses_(attrs<LuAttrs>(*spec.node).refuse_singular),
        fault_(spec),
        factor_(of_.m, of_.n, of_.batch, read_strides(spec.in[0])) {}
  std::string name() const override { return factor_.interleaved() ? "lu:lanes" : "lu"; }
  size_t scratch_bytes() const override { return factor_.scratch_bytes(); }

  void run(void* const* o) override {
    T* const lu = static_cast<T*>(o[1]);
    const bool singular =
        factor_.run(static_cast<const T*>(o[0]), lu, static_cast<int32_t*>(o[2]), static_cast<int32_t*>(o[3]), o[4]);
    if (!singular || !refuses_) return;
    const Zero zero = zero_on_diagonal(lu, of_.batch, MatrixStrides::row_major(of_.m, of_.n), std::min(of_.m, of_.n));
    if (zero.matrix >= 0) {
      fault_.raise(zero_pivot_text(fault_.type(), zero.matrix, zero.place));
    }
  }

 private:
  Matrices of_;
  bool refuses_;
  Fault fault_;
  LuFactor<T> factor_;
};

// Operands: x, factor, scratch.
template <class T>
class CholeskyStep final : public Kernel {
 public:
  explicit CholeskyStep(const StepSpec& spec)
      : fault_(spec),
        factor_(Matrices(spec.in[0].type).n, Matrices(spec.in[0].type).batch, attrs<CholeskyAttrs>(*spec.node).upper,
                read_strides(spec.in[0])) {}
  std::string name() const override { return factor_.interleaved() ? "cholesky:lanes" : "cholesky"; }
  size_t scratch_bytes() const override { return factor_.scratch_bytes(); }

  void run(void* const* o) override {
    const NotPositive fault = factor_.run(static_cast<const T*>(o[0]), static_cast<T*>(o[1]), o[2]);
    if (fault.matrix >= 0) {
      fault_.raise(not_positive_text(fault_.type(), fault.matrix, fault.minor));
    }
  }

 private:
  Fault fault_;
  CholeskyFactor<T> factor_;
};

// Operands: x, q, r, scratch.
template <class T>
class QrStep final : public Kernel {
 public:
  explicit QrStep(const StepSpec& spec)
      : factor_(Matrices(spec.in[0].type).m, Matrices(spec.in[0].type).n, Matrices(spec.in[0].type).batch,
                attrs<QrAttrs>(*spec.node).complete, read_strides(spec.in[0])) {}
  std::string name() const override { return "qr"; }
  size_t scratch_bytes() const override { return factor_.scratch_bytes(); }

  void run(void* const* o) override {
    factor_.run(static_cast<const T*>(o[0]), static_cast<T*>(o[1]), static_cast<T*>(o[2]), o[3]);
  }

 private:
  QrFactor<T> factor_;
};

TriangularProblem triangular_problem(const TriangularAttrs& a, const Type& matrix, const Type& right_side,
                                     const MatrixStrides& strides) {
  const Matrices of(matrix), right_sides(right_side);
  TriangularProblem p;
  p.n = of.n;
  p.other = a.right ? right_sides.m : right_sides.n;
  p.batch = of.batch;
  p.a_row = a.transposed ? strides.col : strides.row;
  p.a_col = a.transposed ? strides.row : strides.col;
  p.a_batch = strides.batch;
  p.upper = a.upper != a.transposed;
  p.unit_diagonal = a.unit_diagonal;
  p.right = a.right;
  return p;
}

// Operands: a, b, x, scratch.
template <class T>
class TriangularStep final : public Kernel {
 public:
  explicit TriangularStep(const StepSpec& spec)
      : a_(read_strides(spec.in[0])),
        b_(read_strides(spec.in[1])),
        of_b_(spec.in[1].type),
        p_(triangular_problem(attrs<TriangularAttrs>(*spec.node), spec.in[0].type, spec.in[1].type, a_)),
        refuses_(attrs<TriangularAttrs>(*spec.node).refuse_singular && !p_.unit_diagonal),
        fault_(spec),
        solve_(p_) {}
  std::string name() const override { return solve_.interleaved() ? "triangular:lanes" : "triangular"; }
  size_t scratch_bytes() const override { return solve_.scratch_bytes(); }

  void run(void* const* o) override {
    const T* const a = static_cast<const T*>(o[0]);
    if (refuses_) {
      const Zero zero = zero_on_diagonal(a, p_.batch, a_, p_.n);
      if (zero.matrix >= 0) {
        fault_.raise(zero_diagonal_text(fault_.type(), zero.matrix, zero.place));
      }
    }
    T* const x = static_cast<T*>(o[2]);
    read_matrices(x, static_cast<const T*>(o[1]), b_, of_b_.m, of_b_.n, of_b_.batch);
    solve_.run(a, x, o[3]);
  }

 private:
  MatrixStrides a_, b_;
  Matrices of_b_;
  TriangularProblem p_;
  bool refuses_;
  Fault fault_;
  TriangularSolve<T> solve_;
};

// Operands: a, b, x, scratch.
template <class T>
class SystemsStep final : public Kernel {
 public:
  explicit SystemsStep(const StepSpec& spec)
      : fault_(spec),
        systems_(Matrices(spec.in[0].type).n, Matrices(spec.in[1].type).n, Matrices(spec.in[0].type).batch,
                 read_strides(spec.in[0]), read_strides(spec.in[1])) {}
  std::string name() const override { return "solve:lanes"; }
  size_t scratch_bytes() const override { return systems_.scratch_bytes(); }

  void run(void* const* o) override {
    const ZeroPivot zero =
        systems_.run(static_cast<const T*>(o[0]), static_cast<const T*>(o[1]), static_cast<T*>(o[2]), o[3]);
    if (zero.matrix >= 0) fault_.raise(zero_pivot_text(fault_.type(), zero.matrix, zero.pivot));
  }

 private:
  Fault fault_;
  LaneSystems<T> systems_;
};

}  // namespace

// Nothing to factorize is left to the reference loops.
bool takes_factors(const Graph& graph, const Node& node) {
  const Type& first = graph.type(node.in(0));
  if (first.dtype != DType::f32 && first.dtype != DType::f64) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](Value v) { return graph.type(v).numel() > 0; });
}

namespace {
// Many small triangles are read as rows or columns without gaps, each once.
bool reads_triangle(const Graph& graph, const Node& node, const MatrixStrides& strides) {
  const Type &a = graph.type(node.in(0)), &b = graph.type(node.in(1));
  const TriangularProblem p = triangular_problem(attrs<TriangularAttrs>(node), a, b, strides);
  const bool together =
      a.dtype == DType::f64 ? TriangularSolve<double>::interleaves(p) : TriangularSolve<float>::interleaves(p);
  const int64_t size = p.n * p.n;
  return !together || (strides.batch == size && strides.row + strides.col == p.n + 1);
}
}  // namespace

LayoutPlan factor_layouts(const Graph& graph, const Node& node, const std::vector<Layout>& given, const FrozenInputs&) {
  LayoutPlan plan;
  for (size_t i = 0; i < given.size(); ++i) {
    const Type& type = graph.type(node.inputs[i]);
    const std::optional<MatrixStrides> strides = matrix_strides({type, given[i]});
    const bool takes = strides && (node.op != Op::solve_triangular || i > 0 || reads_triangle(graph, node, *strides));
    plan.in.push_back(takes ? given[i] : Layout::row_major(type.shape));
  }
  for (const Value v : node.outputs) plan.out.push_back(Layout::row_major(graph.type(v).shape));
  return plan;
}

bool factors_in_place(const Graph&, const Node&, int input, int output) { return input == 0 && output == 0; }

std::unique_ptr<Kernel> make_lu_factor(const StepSpec& spec) { return make_for_type<LuStep>(spec); }
std::unique_ptr<Kernel> make_cholesky(const StepSpec& spec) { return make_for_type<CholeskyStep>(spec); }
std::unique_ptr<Kernel> make_qr(const StepSpec& spec) { return make_for_type<QrStep>(spec); }
std::unique_ptr<Kernel> make_solve_triangular(const StepSpec& spec) { return make_for_type<TriangularStep>(spec); }

// Other systems are solved by lu_factor and solve_triangular, as the definition says.
bool takes_solve(const Graph& graph, const Node& node) {
  if (!takes_factors(graph, node)) return false;
  const Type& a = graph.type(node.in(0));
  const Matrices of(a), right_sides(graph.type(node.in(1)));
  const auto takes = a.dtype == DType::f64 ? LaneSystems<double>::takes : LaneSystems<float>::takes;
  return takes(of.n, right_sides.n, of.batch);
}

// A group of systems reads its right sides before it writes its solutions.
bool solves_in_place(const Graph&, const Node&, int input, int output) { return input == 1 && output == 0; }

std::unique_ptr<Kernel> make_solve(const StepSpec& spec) { return make_for_type<SystemsStep>(spec); }

}  // namespace freight::cpu
