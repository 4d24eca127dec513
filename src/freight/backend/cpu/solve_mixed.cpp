// Systems in f64 by an LU in f32 and iterative refinement (Wilkinson 1963; Langou et al. 2006, "Exploiting the
// performance of 32 bit floating point arithmetic in obtaining 64 bit accuracy"; LAPACK's dsgesv, whose test of
// convergence this is). The loop, whose length depends on the data, is inside of one step of the plan. The step's
// scratch holds all that it needs, also for the LU in f64 that takes over where refinement does not converge.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/ceil_div.h"
#include "freight/backend/cpu/kernels/factor.h"
#include "freight/backend/cpu/kernels/factor_tasks.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/matrix_faults.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int64_t kMostRefinements = 30;  // LAPACK's ITERMAX
constexpr int64_t kPlain = -1;            // the number of refinements where an LU in f64 gave the solution
// LAPACK goes on for all its iterations. A residual that does not even halve needs so many of them that the LU in f64
// costs less.
constexpr double kLeastProgress = 0.5;
// Norms beyond 2^32 are scaled before they become f32; norms and residuals beyond 2^500 are left to f64.
constexpr double kLargeNorm = 0x1p32;
constexpr int kMostExponent = 500;

// The LU of a matrix (n, n) in one type, and what solves by it for k right sides.
template <class T>
struct SystemKernels {
  LuFactor<T> lu;
  TriangularSolve<T> lower, upper;

  SystemKernels(int64_t n, int64_t k)
      : lu(n, n, 1),
        lower({.n = n, .other = k, .a_row = n, .unit_diagonal = true}),
        upper({.n = n, .other = k, .a_row = n, .upper = true}) {}
  size_t scratch_bytes() const { return std::max({lu.scratch_bytes(), lower.scratch_bytes(), upper.scratch_bytes()}); }
  void solve(const T* factors, T* b, void* scratch) const {
    lower.run(factors, b, scratch);
    upper.run(factors, b, scratch);
  }
};

// The number of the first pivot that is 0, or -1.
template <class T>
int64_t first_zero_pivot(const T* lu, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (lu[i * (n + 1)] == T(0)) return i;
  }
  return -1;
}

// Puts the row, times a power of 2, into f32; returns the sum of its |elements|, added up in vectors.
double convert_row(const double* row, int64_t n, double scale, float* to) {
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      sums[j] += std::abs(row[i + j]);
      to[i + j] = static_cast<float>(row[i + j] * scale);
    }
  }
  for (; i < n; ++i) {
    sum += std::abs(row[i]);
    to[i] = static_cast<float>(row[i] * scale);
  }
  for (const double s : sums) sum += s;
  return sum;
}

// The larger one, or NaN where one is NaN.
double larger(double a, double b) { return b > a || std::isnan(b) ? b : a; }

// One right side.
struct RefinedColumn {
  double x, rest;   // the largest |element| of the solution and of the residual
  double down, up;  // the residual times `down` is about 1, as f32 likes it; its correction times `up` is x's
};

// The memory of a task. `plain` lies over lu, correction and rest, which are done with where it is needed.
struct RefinementMemory {
  float* lu;                      // (n, n)
  float* correction;              // (n, k)
  double* rest;                   // (n, k): the residual
  double* plain;                  // (n, n): the factors in f64
  RefinedColumn* columns;         // (k)
  int32_t *pivots, *permutation;  // (n)
  void* kernels;
};

// Operands: a, b, x, iterations, scratch.
class MixedSolveStep final : public Kernel {
 public:
  explicit MixedSolveStep(const StepSpec& spec);
  std::string name() const override { return "solve:mixed"; }
  size_t scratch_bytes() const override { return tasks_.bytes(); }
  void run(void* const* o) override;

 private:
  size_t factor_bytes() const;
  RefinementMemory memory_at(char* own) const;
  double convert(const double* a, double scale, const RefinementMemory& m) const;
  int64_t refine(const double* a, const double* b, double* x, const RefinementMemory& m) const;
  void measure(const double* x, const RefinementMemory& m) const;
  bool choose_scales(int exponent, const RefinementMemory& m) const;
  void correct(double* x, const RefinementMemory& m) const;
  int64_t solve_plainly(const double* a, const double* b, double* x, const RefinementMemory& m) const;
  template <class F>
  void for_columns(F&& f) const;

  int64_t n_, k_;
  Type type_;
  std::string op_, where_;
  SystemKernels<float> fast_;
  SystemKernels<double> plain_;
  Gemm<double> product_;
  BatchTasks tasks_;
};

GemmProblem product_problem(int64_t n, int64_t k) {
  GemmProblem p;
  p.m = p.k = n;
  p.n = k;
  p.a_row = n;
  p.b_row = p.c_row = k;
  p.subtract = true;
  return p;
}

MixedSolveStep::MixedSolveStep(const StepSpec& spec)
    : n_(spec.in[1].type.shape[spec.in[1].type.shape.rank() - 2]),
      k_(spec.in[1].type.shape.back()),
      type_(spec.in[0].type),
      op_(spec.node->called()),
      where_(spec.node->location()),
      fast_(n_, k_),
      plain_(n_, k_),
      product_(product_problem(n_, k_)) {
  const auto n = static_cast<double>(n_);
  tasks_ = batch_tasks(type_.numel() / (n_ * n_), n * n * (n / 3 + static_cast<double>(k_)));
  const size_t kernels = std::max({fast_.scratch_bytes(), plain_.scratch_bytes(), product_.scratch_bytes()});
  tasks_.bytes_of_task = factor_bytes() + whole_lines(static_cast<size_t>(k_) * sizeof(RefinedColumn)) +
                         2 * whole_lines(static_cast<size_t>(n_) * sizeof(int32_t)) + whole_lines(kernels);
}

size_t MixedSolveStep::factor_bytes() const {
  const auto matrix = static_cast<size_t>(n_ * n_), right = static_cast<size_t>(n_ * k_);
  const size_t refined =
      whole_lines(matrix * sizeof(float)) + whole_lines(right * sizeof(float)) + whole_lines(right * sizeof(double));
  return std::max(refined, whole_lines(matrix * sizeof(double)));
}

RefinementMemory MixedSolveStep::memory_at(char* own) const {
  char* next = own;
  const auto take = [&next](int64_t count, size_t size) {
    char* const at = next;
    next += whole_lines(static_cast<size_t>(count) * size);
    return at;
  };
  RefinementMemory m;
  m.plain = reinterpret_cast<double*>(own);
  m.lu = reinterpret_cast<float*>(take(n_ * n_, sizeof(float)));
  m.correction = reinterpret_cast<float*>(take(n_ * k_, sizeof(float)));
  m.rest = reinterpret_cast<double*>(take(n_ * k_, sizeof(double)));
  next = own + factor_bytes();
  m.columns = reinterpret_cast<RefinedColumn*>(take(k_, sizeof(RefinedColumn)));
  m.pivots = reinterpret_cast<int32_t*>(take(n_, sizeof(int32_t)));
  m.permutation = reinterpret_cast<int32_t*>(take(n_, sizeof(int32_t)));
  m.kernels = next;
  return m;
}

// The matrix in f32; returns its norm, the largest sum of a row.
double MixedSolveStep::convert(const double* a, double scale, const RefinementMemory& m) const {
  const int64_t rows = std::max<int64_t>((int64_t{1} << 16) / n_, 1), chunks = ceil_div(n_, rows);
  double* const sums = m.rest;  // there is no residual yet
  parallel_for(chunks, [&](int64_t c) {
    for (int64_t i = c * rows; i < std::min(n_, (c + 1) * rows); ++i)
      sums[i] = convert_row(a + i * n_, n_, scale, m.lu + i * n_);
  });
  double norm = 0;
  for (int64_t i = 0; i < n_; ++i) norm = larger(norm, sums[i]);
  return norm;
}

// f(first, last) for parts of the columns.
template <class F>
void MixedSolveStep::for_columns(F&& f) const {
  constexpr int64_t kColumnsAtOnce = 32;
  parallel_for(ceil_div(k_, kColumnsAtOnce), k_ * n_ > (int64_t{1} << 16),
               [&](int64_t c) { f(c * kColumnsAtOnce, std::min(k_, (c + 1) * kColumnsAtOnce)); });
}

// The sizes of the solution and of the residual.
void MixedSolveStep::measure(const double* x, const RefinementMemory& m) const {
  for_columns([&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j) m.columns[j].x = m.columns[j].rest = 0;
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = first; j < last; ++j) {
        RefinedColumn& c = m.columns[j];
        c.x = larger(c.x, std::abs(x[i * k_ + j]));
        c.rest = larger(c.rest, std::abs(m.rest[i * k_ + j]));
      }
    }
  });
}

// Chooses how the residuals come to f32, where the matrix is times 2^exponent. False: one is beyond what scaling can
// do.
bool MixedSolveStep::choose_scales(int exponent, const RefinementMemory& m) const {
  for (int64_t j = 0; j < k_; ++j) {
    RefinedColumn& c = m.columns[j];
    c.down = c.up = 0;  // a residual of 0 has no correction
    if (c.rest == 0) continue;
    if (!std::isfinite(c.rest)) return false;
    const int size = std::ilogb(c.rest);
    if (std::abs(size) > kMostExponent) return false;
    c.down = std::ldexp(1.0, -size);
    c.up = std::ldexp(1.0, size + exponent);
  }
  return true;
}

// Adds to x what the f32 factors make of the residual.
void MixedSolveStep::correct(double* x, const RefinementMemory& m) const {
  for_columns([&](int64_t first, int64_t last) {
    for (int64_t i = 0; i < n_; ++i) {
      const double* const from = m.rest + m.permutation[i] * k_;
      for (int64_t j = first; j < last; ++j) m.correction[i * k_ + j] = static_cast<float>(from[j] * m.columns[j].down);
    }
  });
  fast_.solve(m.lu, m.correction, m.kernels);
  for_columns([&](int64_t first, int64_t last) {
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = first; j < last; ++j)
        x[i * k_ + j] += static_cast<double>(m.correction[i * k_ + j]) * m.columns[j].up;
    }
  });
}

// The number of refinements, or kPlain: x is not the solution.
int64_t MixedSolveStep::refine(const double* a, const double* b, double* x, const RefinementMemory& m) const {
  const double norm = convert(a, 1, m);
  if (!std::isfinite(norm) || norm == 0) return kPlain;
  int exponent = 0;
  if (norm > kLargeNorm || norm < 1 / kLargeNorm) {
    exponent = -std::ilogb(norm);
    if (std::abs(exponent) > kMostExponent) return kPlain;
    convert(a, std::ldexp(1.0, exponent), m);
  }
  const bool maybe_singular = fast_.lu.run(m.lu, m.lu, m.pivots, m.permutation, m.kernels);
  if (maybe_singular && first_zero_pivot(m.lu, n_) >= 0) return kPlain;

  const size_t bytes = static_cast<size_t>(n_ * k_) * sizeof(double);
  const double bound = norm * std::numeric_limits<double>::epsilon() / 2 * std::sqrt(static_cast<double>(n_));
  std::memset(x, 0, bytes);
  std::memcpy(m.rest, b, bytes);
  measure(x, m);
  double before = std::numeric_limits<double>::infinity();
  for (int64_t refinements = 0; refinements <= kMostRefinements; ++refinements) {
    if (!choose_scales(exponent, m)) return kPlain;
    correct(x, m);
    std::memcpy(m.rest, b, bytes);
    product_.run(a, x, m.rest, nullptr, nullptr, m.kernels);
    measure(x, m);
    double excess = 0;
    for (int64_t j = 0; j < k_; ++j) {
      const RefinedColumn& c = m.columns[j];
      excess = larger(excess, c.rest == 0 ? 0 : c.rest / (c.x * bound));
    }
    if (excess <= 1) return refinements;
    if (!(excess < kLeastProgress * before)) return kPlain;
    before = excess;
  }
  return kPlain;
}

// By the LU in f64. Returns the number of a pivot of 0, or -1.
int64_t MixedSolveStep::solve_plainly(const double* a, const double* b, double* x, const RefinementMemory& m) const {
  const bool maybe_singular = plain_.lu.run(a, m.plain, m.pivots, m.permutation, m.kernels);
  const int64_t zero = maybe_singular ? first_zero_pivot(m.plain, n_) : -1;
  if (zero >= 0) return zero;
  for (int64_t i = 0; i < n_; ++i) std::copy_n(b + m.permutation[i] * k_, k_, x + i * k_);
  plain_.solve(m.plain, x, m.kernels);
  return -1;
}

void MixedSolveStep::run(void* const* o) {
  const auto *a = static_cast<const double*>(o[0]), *b = static_cast<const double*>(o[1]);
  auto* const x = static_cast<double*>(o[2]);
  auto* const iterations = static_cast<int64_t*>(o[3]);
  LeastFault fault(tasks_.batch * n_);
  for_matrices(tasks_, o[4], [&](int64_t i, char* own, bool) {
    const RefinementMemory m = memory_at(own);
    const double *const a_i = a + i * n_ * n_, *const b_i = b + i * n_ * k_;
    iterations[i] = refine(a_i, b_i, x + i * n_ * k_, m);
    if (iterations[i] != kPlain) return;
    const int64_t zero = solve_plainly(a_i, b_i, x + i * n_ * k_, m);
    if (zero >= 0) fault.put(i * n_ + zero);
  });
  if (!fault.any()) return;
  throw Error(ErrorKind::data, op_, zero_pivot_text(type_, fault.get() / n_, fault.get() % n_), where_);
}

}  // namespace

// f32 is solved as the definition says, and nothing is left to the reference loops.
bool takes_solve_mixed(const Graph& graph, const Node& node) {
  const Type &a = graph.type(node.in(0)), &b = graph.type(node.in(1));
  return a.dtype == DType::f64 && a.numel() > 0 && b.numel() > 0;
}

std::unique_ptr<Kernel> make_solve_mixed(const StepSpec& spec) { return std::make_unique<MixedSolveStep>(spec); }

}  // namespace freight::cpu
