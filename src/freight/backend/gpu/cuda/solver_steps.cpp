// The steps of linear algebra as calls of cuSOLVER between generated kernels. See solver.h. Letters: M rows, N columns,
// K the smaller of both; the library's matrices are those of a batch one after the other.
#include <algorithm>
#include <vector>

#include "freight/backend/gpu/cuda/solver.h"
#include "freight/backend/gpu/cuda/solver_kernels.h"
#include "freight/backend/gpu/faults.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/base/error.h"

namespace freight::cuda {

namespace {

using namespace cusolver;
using gpu::MatrixFault;

using GenerateKernel = std::function<std::unique_ptr<Kernel>(gpu::Lowered)>;

// A call needs so many bytes beside its operands, as the library says.
struct Workspace {
  size_t device = 0, host = 0;
};

class SolverKernel final : public Kernel {
 public:
  SolverKernel(std::shared_ptr<Solver> solver, const StepSpec& spec, const GenerateKernel& generate)
      : solver_(std::move(solver)),
        generate_(generate),
        spec_(&spec),
        name_(cat("cuda:cusolver:", freight::name(spec.node->op))),
        inputs_(static_cast<int>(spec.in.size())),
        scratch_(static_cast<int>(spec.in.size() + spec.out.size())) {
    const Type& x = spec.in[0].type;
    const int rank = x.shape.rank();
    dtype_ = x.dtype;
    type_ = dtype_ == DType::f64 ? kF64 : kF32;
    m_ = x.shape[rank - 2];
    n_ = x.shape[rank - 1];
    k_ = std::min(m_, n_);
    for (int i = 0; i < rank - 2; ++i) batches_ *= x.shape[i];
    if (batches_ == 0) return;  // every result is empty
    info_ = take(static_cast<size_t>(batches_) * sizeof(int32_t));
    switch (spec.node->op) {
      case Op::lu_factor: lu_factor(); break;
      case Op::cholesky: cholesky(); break;
      case Op::qr: qr(); break;
      case Op::eigh: eigh(); break;
      case Op::svd: svd(); break;
      default: eig(); break;
    }
    host_.resize(host_bytes_);
    generate_ = nullptr;
    spec_ = nullptr;
  }

  void run(void* const* operands) override {
    const auto entered = solver_->memory().enter();
    for (const Stage& stage : stages_) stage(operands);
  }
  std::string name() const override { return name_; }
  size_t scratch_bytes() const override { return bytes_; }
  bool records() const override { return records_; }

 private:
  using Stage = std::function<void(void* const*)>;

  // ---- what the steps are made of ----

  Location take(size_t bytes) {
    const Location at{scratch_, bytes_};
    bytes_ += gpu::aligned(bytes);
    return at;
  }
  Location take_elements(int64_t count) { return take(static_cast<size_t>(count) * size_of(dtype_)); }
  Location operand(int number) const { return {number, 0}; }
  Location result(int number) const { return {inputs_ + number, 0}; }
  Rows rows_at(Location at, int64_t rows, int64_t columns) const {
    return {at, rows, columns, columns, rows * columns};
  }
  Rows x() const { return rows_at(operand(0), m_, n_); }
  CopyOptions options(Triangle take = Triangle::all, const Location* not_finite = nullptr) const {
    return {dtype_, batches_, take, not_finite};
  }
  bool is_read(int number) const {
    return spec_->graph->use_counts()[spec_->node->outputs[static_cast<size_t>(number)]] > 0;
  }

  void add(gpu::Launch launch) {
    if (launch.groups == 0) return;
    gpu::Lowered lowered{.launches = {std::move(launch)}, .scratch_bytes = 0, .name = "linalg"};
    stages_.emplace_back([kernel = std::shared_ptr<Kernel>(generate_(std::move(lowered)))](void* const* operands) {
      kernel->run(operands);
    });
  }
  void clear(Location at, size_t bytes) {
    stages_.emplace_back([this, at, bytes](void* const* operands) {
      const Memory& memory = solver_->memory();
      check(memory.driver(),
            memory.driver().fill(reinterpret_cast<Address>(at.in(operands)), 0, bytes, memory.stream()), "fill");
    });
  }
  // The pointer to matrix or vector b of a batch.
  void* element(void* const* operands, Location at, int64_t b, int64_t each) const {
    return at.in(operands) + static_cast<size_t>(b * each) * size_of(dtype_);
  }
  int* info_of(void* const* operands, int64_t b) const { return reinterpret_cast<int*>(info_.in(operands)) + b; }
  void* host_bytes(const Workspace& w) { return w.host > 0 ? host_.data() : nullptr; }
  // A call of `function` for each matrix b: work(operands, b, workspace on the device, on the host).
  using Work = std::function<int(void* const*, int64_t, void*, void*)>;
  void call(const char* function, const Workspace& w, Work work, int64_t times) {
    const Location on_device = take(w.device);
    host_bytes_ = std::max(host_bytes_, w.host);
    records_ = records_ && w.host == 0;  // what the host computes is no part of a graph
    stages_.emplace_back([this, function, w, work = std::move(work), times, on_device](void* const* operands) {
      for (int64_t b = 0; b < times; ++b) {
        void* const device = w.device > 0 ? on_device.in(operands) : nullptr;
        check_solver(work(operands, b, device, host_bytes(w)), function);
      }
    });
  }
  int64_t check_of(MatrixFault fault) const { return gpu::matrix_check(*spec_->node, spec_->in[0].type, fault); }
  // Iterations begin with finite numbers only; what they make of the others is NaN in the end.
  Location begin_iteration() {
    records_ = false;  // they wait for the device
    const Location flags = take(static_cast<size_t>(batches_) * sizeof(int32_t));
    clear(flags, static_cast<size_t>(batches_) * sizeof(int32_t));
    return flags;
  }
  void end_iteration(Location flags, std::initializer_list<int> results) {
    for (const int r : results) {
      const int64_t each = spec_->out[static_cast<size_t>(r)].type.numel() / batches_;
      add(spoil(result(r), dtype_, batches_, each, flags));
    }
    add(report(info_, InfoSays::count, batches_, k_, check_of(MatrixFault::not_converged)));
  }

  // ---- the steps ----

  void lu_factor() {
    const Location columns = take_elements(batches_ * m_ * n_);
    const Rows transposed = rows_at(columns, n_, m_);
    if (k_ > 0) {
      const Location pivots = take(static_cast<size_t>(batches_ * k_) * sizeof(int64_t));
      add(transpose_matrices(x(), transposed, options()));
      Workspace w;
      check_solver(f_.DnXgetrf_bufferSize(solver_->handle(), solver_->params(), m_, n_, type_, nullptr, m_, type_,
                                          &w.device, &w.host),
                   "Xgetrf_bufferSize");
      call(
          "Xgetrf", w,
          [this, columns, pivots, w](void* const* operands, int64_t b, void* device, void* host) {
            auto* const ipiv = reinterpret_cast<int64_t*>(pivots.in(operands)) + b * k_;
            return f_.DnXgetrf(solver_->handle(), solver_->params(), m_, n_, type_,
                               element(operands, columns, b, m_ * n_), m_, ipiv, type_, device, w.device, host, w.host,
                               info_of(operands, b));
          },
          batches_);
      add(transpose_matrices(transposed, rows_at(result(0), m_, n_), options()));
      add(pivots_from_zero(pivots, result(1), batches_, m_, k_));
      if (attrs<LuAttrs>(*spec_->node).refuse_singular) {
        add(report(info_, InfoSays::place, batches_, k_, check_of(MatrixFault::zero_pivot)));
      }
    }
    if (m_ > 0) add(permutation_of(result(1), result(2), batches_, m_, k_));
  }

  void cholesky() {
    if (n_ == 0) return;
    const bool upper = attrs<CholeskyAttrs>(*spec_->node).upper;
    const Triangle triangle = upper ? Triangle::upper : Triangle::lower;
    const int fill = upper ? kLower : kUpper;  // the rows are the library's columns
    const Rows factor = rows_at(result(0), n_, n_);
    add(copy_matrices(x(), factor, options(triangle)));
    Workspace w;
    check_solver(f_.DnXpotrf_bufferSize(solver_->handle(), solver_->params(), fill, n_, type_, nullptr, n_, type_,
                                        &w.device, &w.host),
                 "Xpotrf_bufferSize");
    call(
        "Xpotrf", w,
        [this, fill, w](void* const* operands, int64_t b, void* device, void* host) {
          return f_.DnXpotrf(solver_->handle(), solver_->params(), fill, n_, type_,
                             element(operands, result(0), b, n_ * n_), n_, type_, device, w.device, host, w.host,
                             info_of(operands, b));
        },
        batches_);
    // NVIDIA does not say that the other triangle stays as it was.
    add(clear_triangle(factor, options(), triangle));
    add(report_not_positive(info_, factor, options(), check_of(MatrixFault::not_positive)));
  }

  // R lies in the upper triangle of what geqrf leaves, the reflections below it; of these orgqr makes Q in place.
  void qr() {
    const bool complete = attrs<QrAttrs>(*spec_->node).complete;
    const int64_t q_columns = complete ? m_ : k_, r_rows = complete ? m_ : k_, kept = std::max(n_, q_columns);
    if (k_ == 0) {
      if (q_columns > 0) add(set_identity(rows_at(result(0), m_, q_columns), dtype_, batches_));
      return;
    }
    if (m_ > INT32_MAX || n_ > INT32_MAX) {
      fail(ErrorKind::device, "qr", "cuSOLVER counts to ", INT32_MAX, ": got ", spec_->in[0].type, "; --device cpu");
    }
    const Location columns = take_elements(batches_ * m_ * kept), tau = take_elements(batches_ * k_);
    const auto first_columns = [&](int64_t count) { return Rows{columns, count, m_, m_, m_ * kept}; };
    add(transpose_matrices(x(), first_columns(n_), options()));
    Workspace w;
    check_solver(f_.DnXgeqrf_bufferSize(solver_->handle(), solver_->params(), m_, n_, type_, nullptr, m_, type_,
                                        nullptr, type_, &w.device, &w.host),
                 "Xgeqrf_bufferSize");
    call(
        "Xgeqrf", w,
        [this, columns, tau, kept, w](void* const* operands, int64_t b, void* device, void* host) {
          return f_.DnXgeqrf(solver_->handle(), solver_->params(), m_, n_, type_,
                             element(operands, columns, b, m_ * kept), m_, type_, element(operands, tau, b, k_), type_,
                             device, w.device, host, w.host, info_of(operands, b));
        },
        batches_);
    // A row of the library's rows is a column of ours, whose numbers from its own on are below R's diagonal.
    const Rows r{columns, n_, r_rows, m_, m_ * kept};
    add(transpose_matrices(r, rows_at(result(1), r_rows, n_), options(Triangle::lower)));
    if (dtype_ == DType::f64) {
      orgqr<double>("Dorgqr", f_.DnDorgqr_bufferSize, f_.DnDorgqr, columns, tau, q_columns, kept);
    } else {
      orgqr<float>("Sorgqr", f_.DnSorgqr_bufferSize, f_.DnSorgqr, columns, tau, q_columns, kept);
    }
    add(transpose_matrices(first_columns(q_columns), rows_at(result(0), m_, q_columns), options()));
  }
  template <class T, class Size, class Function>
  void orgqr(const char* name, Size size, Function function, Location columns, Location tau, int64_t q_columns,
             int64_t kept) {
    const int m = static_cast<int>(m_), n = static_cast<int>(q_columns), k = static_cast<int>(k_);
    int numbers = 0;
    check_solver(size(solver_->handle(), m, n, k, nullptr, m, nullptr, &numbers), name);
    const Workspace w{static_cast<size_t>(numbers) * sizeof(T), 0};
    call(
        name, w,
        [=, this](void* const* operands, int64_t b, void* device, void*) {
          return function(solver_->handle(), m, n, k, static_cast<T*>(element(operands, columns, b, m_ * kept)), m,
                          static_cast<const T*>(element(operands, tau, b, k_)), static_cast<T*>(device), numbers,
                          info_of(operands, b));
        },
        batches_);
  }

  void eigh() {
    if (n_ == 0) return;
    const bool upper = attrs<EighAttrs>(*spec_->node).upper;
    const int fill = upper ? kLower : kUpper, vectors = is_read(1) ? kVectors : kNoVectors;
    const Location columns = take_elements(batches_ * n_ * n_), flags = begin_iteration();
    const Rows matrices = rows_at(columns, n_, n_);
    add(copy_matrices(x(), matrices, options(upper ? Triangle::upper : Triangle::lower, &flags)));
    Workspace w;
    const NewerSolverFunctions* newer = batches_ > 1 ? newer_solver_functions() : nullptr;
    const bool together = newer && newer->DnXsyevBatched_bufferSize(solver_->handle(), solver_->params(), vectors, fill,
                                                                    n_, type_, nullptr, n_, type_, nullptr, type_,
                                                                    &w.device, &w.host, batches_) == 0;
    if (together) {
      call(
          "XsyevBatched", w,
          [=, this](void* const* operands, int64_t, void* device, void* host) {
            return newer->DnXsyevBatched(solver_->handle(), solver_->params(), vectors, fill, n_, type_,
                                         columns.in(operands), n_, type_, result(0).in(operands), type_, device,
                                         w.device, host, w.host, info_of(operands, 0), batches_);
          },
          1);
    } else {
      check_solver(f_.DnXsyevd_bufferSize(solver_->handle(), solver_->params(), vectors, fill, n_, type_, nullptr, n_,
                                          type_, nullptr, type_, &w.device, &w.host),
                   "Xsyevd_bufferSize");
      call(
          "Xsyevd", w,
          [=, this](void* const* operands, int64_t b, void* device, void* host) {
            return f_.DnXsyevd(solver_->handle(), solver_->params(), vectors, fill, n_, type_,
                               element(operands, columns, b, n_ * n_), n_, type_, element(operands, result(0), b, n_),
                               type_, device, w.device, host, w.host, info_of(operands, b));
          },
          batches_);
    }
    end_iteration(flags, {0});
    if (vectors == kNoVectors) return;
    add(transpose_matrices(matrices, rows_at(result(1), n_, n_), options()));
    add(spoil(result(1), dtype_, batches_, n_ * n_, flags));
  }

  // The library's matrix has no fewer rows than columns. A wide or square one of ours is such a one as it lies, X^T = V
  // S U^T, and the library's U is our Vh, row by row. A tall one is transposed, and so are its U and Vh.
  void svd() {
    const bool full = attrs<SvdAttrs>(*spec_->node).full, tall = m_ > n_;
    const int64_t u_columns = full ? m_ : k_, v_rows = full ? n_ : k_;
    if (k_ == 0) {
      if (m_ * u_columns > 0) add(set_identity(rows_at(result(0), m_, u_columns), dtype_, batches_));
      if (v_rows * n_ > 0) add(set_identity(rows_at(result(2), v_rows, n_), dtype_, batches_));
      return;
    }
    const bool vectors = is_read(0) || is_read(2);
    const auto job = static_cast<signed char>(!vectors ? 'N' : full ? 'A' : 'S');
    const int64_t rows = tall ? m_ : n_, columns = k_, u_count = full ? rows : columns;
    const Location a = take_elements(batches_ * m_ * n_), flags = begin_iteration();
    const Location u = tall && vectors ? take_elements(batches_ * rows * u_count) : result(2),
                   v = tall && vectors ? take_elements(batches_ * columns * columns) : result(0);
    if (tall) {
      add(transpose_matrices(x(), rows_at(a, n_, m_), options(Triangle::all, &flags)));
    } else {
      add(copy_matrices(x(), rows_at(a, m_, n_), options(Triangle::all, &flags)));
    }
    Workspace w;
    check_solver(f_.DnXgesvd_bufferSize(solver_->handle(), solver_->params(), job, job, rows, columns, type_, nullptr,
                                        rows, type_, nullptr, type_, nullptr, rows, type_, nullptr, columns, type_,
                                        &w.device, &w.host),
                 "Xgesvd_bufferSize");
    call(
        "Xgesvd", w,
        [=, this](void* const* operands, int64_t b, void* device, void* host) {
          void* const to_u = vectors ? element(operands, u, b, rows * u_count) : nullptr;
          void* const to_v = vectors ? element(operands, v, b, columns * columns) : nullptr;
          return f_.DnXgesvd(solver_->handle(), solver_->params(), job, job, rows, columns, type_,
                             element(operands, a, b, m_ * n_), rows, type_, element(operands, result(1), b, k_), type_,
                             to_u, rows, type_, to_v, columns, type_, device, w.device, host, w.host,
                             info_of(operands, b));
        },
        batches_);
    end_iteration(flags, {1});
    if (!vectors) return;
    if (tall) {
      add(transpose_matrices(rows_at(u, u_count, m_), rows_at(result(0), m_, u_count), options()));
      add(transpose_matrices(rows_at(v, n_, n_), rows_at(result(2), n_, n_), options()));
    }
    for (const int r : {0, 2}) {
      add(spoil(result(r), dtype_, batches_, spec_->out[static_cast<size_t>(r)].type.numel() / batches_, flags));
    }
  }

  void eig() {
    if (n_ == 0) return;
    const NewerSolverFunctions& newer = *newer_solver_functions();
    const Location columns = take_elements(batches_ * n_ * n_), values = take_elements(batches_ * 2 * n_),
                   vectors = take_elements(batches_ * n_ * n_), flags = begin_iteration();
    add(transpose_matrices(x(), rows_at(columns, n_, n_), options(Triangle::all, &flags)));
    const int right = is_read(2) || is_read(3) ? kVectors : kNoVectors;
    Workspace w;
    check_solver(
        newer.DnXgeev_bufferSize(solver_->handle(), solver_->params(), kNoVectors, right, n_, type_, nullptr, n_, type_,
                                 nullptr, type_, nullptr, n_, type_, nullptr, n_, type_, &w.device, &w.host),
        "Xgeev_bufferSize");
    call(
        "Xgeev", w,
        [=, this, &newer](void* const* operands, int64_t b, void* device, void* host) {
          return newer.DnXgeev(solver_->handle(), solver_->params(), kNoVectors, right, n_, type_,
                               element(operands, columns, b, n_ * n_), n_, type_, element(operands, values, b, 2 * n_),
                               type_, nullptr, n_, type_, element(operands, vectors, b, n_ * n_), n_, type_, device,
                               w.device, host, w.host, info_of(operands, b));
        },
        batches_);
    const EigenResults r{values, vectors, result(0), result(1), result(2), result(3)};
    add(unpack_eigenvalues(r, dtype_, batches_, n_));
    end_iteration(flags, {0, 1});
    if (right == kNoVectors) return;
    add(unpack_eigenvectors(r, dtype_, batches_, n_));
    for (const int i : {2, 3}) add(spoil(result(i), dtype_, batches_, n_ * n_, flags));
  }

  std::shared_ptr<Solver> solver_;
  const SolverFunctions& f_ = solver_functions();
  GenerateKernel generate_;  // until the kernel is made
  const StepSpec* spec_;     // the same
  std::string name_;
  int inputs_, scratch_;  // places of the first result and of the scratch memory
  DType dtype_ = DType::f32;
  int type_ = kF32;  // the library's name of it
  int64_t batches_ = 1, m_ = 0, n_ = 0, k_ = 0;
  Location info_;          // a number (i32) for each matrix, by the library
  size_t bytes_ = 0;       // of scratch memory
  size_t host_bytes_ = 0;  // of the host's
  std::vector<char> host_;
  bool records_ = true;
  std::vector<Stage> stages_;
};

}  // namespace

std::unique_ptr<Kernel> Solver::kernel(const StepSpec& spec, const GenerateKernel& generate) {
  const auto entered = memory_->enter();
  return std::make_unique<SolverKernel>(shared_from_this(), spec, generate);
}

}  // namespace freight::cuda
