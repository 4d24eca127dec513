// See triangular.h. https://docs.nvidia.com/cuda/cublas says what is meant.
#include "freight/backend/gpu/cuda/triangular.h"

#include "freight/backend/gpu/cuda/abi.h"
#include "freight/backend/gpu/cuda/solver_kernels.h"
#include "freight/backend/gpu/faults.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/backend/gpu/linalg_kernels.h"
#include "freight/base/error.h"

namespace freight::cuda {

namespace {

using namespace cublas;

// Batches of matrices up to this size are one call: larger ones fill the device one by one. This was never measured.
constexpr int64_t kMostBatchedRows = 256;
constexpr size_t kWorkspace = size_t{4} << 20;  // as NVIDIA recommends

struct CublasFunctions {
  FREIGHT_CUBLAS_FUNCTIONS(FREIGHT_POINTER)
};

const freight::Loaded<CublasFunctions>& loaded_cublas() {
  static const auto kLoaded = [] {
    freight::Loaded<CublasFunctions> l;
    l.library = load_library(names_of("libcublas"), "the CUDA toolkit or the Python package nvidia-cublas", "cublas",
                             {FREIGHT_CUBLAS_FUNCTIONS(FREIGHT_SYMBOL)}, &l.functions, "not that of CUDA 12 or 13");
    return l;
  }();
  return kLoaded;
}

// Rows are given to the library as columns: from op(a) x = b it gets x^T op(a)^T = b^T, whose triangle is the other one
// and on the other side.
template <class T>
class TrsmKernel final : public Kernel {
 public:
  using One = int (*)(void*, int, int, int, int, int, int, const T*, const T*, int, T*, int);
  using Many = int (*)(void*, int, int, int, int, int, int, const T*, const T* const*, int, T* const*, int, int);

  TrsmKernel(std::shared_ptr<TriangularSolver> solver, const StepSpec& spec,
             const std::function<std::unique_ptr<Kernel>(gpu::Lowered)>& generate, One one, Many many)
      : solver_(std::move(solver)), one_(one), many_(many) {
    const auto& attrs = freight::attrs<TriangularAttrs>(*spec.node);
    const Shape &a = spec.in[0].type.shape, &b = spec.in[1].type.shape;
    n_ = a.back();
    rows_ = b[b.rank() - 2];
    columns_ = b.back();
    for (int i = 0; i < a.rank() - 2; ++i) batches_ *= a[i];
    side_ = attrs.right ? kLeft : kRight;
    fill_ = attrs.upper ? kLower : kUpper;
    operation_ = attrs.transposed ? kTransposed : kPlain;
    diagonal_ = attrs.unit_diagonal ? kUnitDiagonal : kDiagonal;
    if (batches_ * rows_ * columns_ == 0) {
      batches_ = 0;
      return;
    }
    if (std::max(rows_, columns_) > INT32_MAX || batches_ > INT32_MAX) {
      fail(ErrorKind::device, "solve_triangular", "cuBLAS counts to ", INT32_MAX, ": got ", spec.in[1].type,
           "; --device cpu");
    }
    const int scratch = 3;  // behind a, b and x
    const auto at = [&](int operand) { return Rows{{operand, 0}, rows_, columns_, columns_, rows_ * columns_}; };
    const CopyOptions options{spec.in[0].type.dtype, batches_};
    gpu::Lowered before;
    before.name = "linalg";
    if (attrs.refuse_singular && !attrs.unit_diagonal) {
      const int64_t check = gpu::matrix_check(*spec.node, spec.in[0].type, gpu::MatrixFault::zero_diagonal);
      before.launches.push_back(
          gpu::report_diagonal(gpu::dense_batch(0, options.dtype, batches_, n_, n_), gpu::Bad::zero, check));
    }
    before.launches.push_back(copy_matrices(at(1), at(2), options));
    bytes_ = kWorkspace;
    if (batches_ > 1 && n_ <= kMostBatchedRows) {
      for (Location* list : {&a_list_, &x_list_}) {
        *list = {scratch, bytes_};
        bytes_ += gpu::aligned(static_cast<size_t>(batches_) * sizeof(void*));
      }
      const DType dtype = options.dtype;
      before.launches.push_back(addresses_of({0, 0}, a_list_, dtype, batches_, n_ * n_));
      before.launches.push_back(addresses_of({2, 0}, x_list_, dtype, batches_, rows_ * columns_));
    }
    before_ = generate(std::move(before));
  }

  void run(void* const* operands) override {
    if (batches_ == 0) return;
    const auto entered = solver_->memory().enter();
    before_->run(operands);
    const CublasFunctions& f = loaded_cublas().functions;
    // Another one than the library's own, which a recorded step would share with others.
    expect_success(f.SetWorkspace_v2(solver_->handle(), operands[3], kWorkspace));
    const T alpha = 1;
    const int m = static_cast<int>(columns_), n = static_cast<int>(rows_), lead = static_cast<int>(n_);
    if (x_list_.operand != 0) {
      expect_success(many_(solver_->handle(), side_, fill_, operation_, diagonal_, m, n, &alpha,
                           reinterpret_cast<const T* const*>(a_list_.in(operands)), lead,
                           reinterpret_cast<T* const*>(x_list_.in(operands)), m, static_cast<int>(batches_)));
      return;
    }
    for (int64_t b = 0; b < batches_; ++b) {
      expect_success(one_(solver_->handle(), side_, fill_, operation_, diagonal_, m, n, &alpha,
                          static_cast<const T*>(operands[0]) + b * n_ * n_, lead,
                          static_cast<T*>(operands[2]) + b * rows_ * columns_, m));
    }
  }
  std::string name() const override { return x_list_.operand != 0 ? "cuda:cublas:trsm_batched" : "cuda:cublas:trsm"; }
  size_t scratch_bytes() const override { return bytes_; }

 private:
  static void expect_success(int status) {
    if (status == 0) return;
    fail(ErrorKind::device, "cuBLAS", "trsm: ", loaded_cublas().functions.GetStatusString(status), " (", status, ")");
  }

  std::shared_ptr<TriangularSolver> solver_;
  One one_;
  Many many_;
  int64_t batches_ = 1, n_ = 0, rows_ = 0, columns_ = 0;
  int side_ = 0, fill_ = 0, operation_ = 0, diagonal_ = 0;
  Location a_list_, x_list_;  // of addresses, in scratch memory; else none
  size_t bytes_ = 0;
  std::unique_ptr<Kernel> before_;
};

}  // namespace

std::shared_ptr<TriangularSolver> TriangularSolver::open(std::shared_ptr<Memory> memory, std::string& why) {
  const auto& l = loaded_cublas();
  why = l.library.why;
  if (!why.empty()) return nullptr;
  const auto entered = memory->enter();
  std::shared_ptr<TriangularSolver> solver(new TriangularSolver(memory));
  int status = l.functions.Create_v2(&solver->handle_);
  if (status == 0) status = l.functions.SetStream_v2(solver->handle_, memory->stream());
  if (status != 0) {
    why = cat(l.library.path, " does not start: ", l.functions.GetStatusString(status), " (", status, ")");
    return nullptr;
  }
  return solver;
}

TriangularSolver::~TriangularSolver() {
  if (!handle_ || leaving()) return;
  const auto entered = memory_->enter();
  loaded_cublas().functions.Destroy_v2(handle_);
}

std::unique_ptr<Kernel> TriangularSolver::kernel(const StepSpec& spec,
                                                 const std::function<std::unique_ptr<Kernel>(gpu::Lowered)>& generate) {
  const auto entered = memory_->enter();
  const CublasFunctions& f = loaded_cublas().functions;
  if (spec.in[0].type.dtype == DType::f64) {
    return std::make_unique<TrsmKernel<double>>(shared_from_this(), spec, generate, f.Dtrsm_v2, f.DtrsmBatched);
  }
  return std::make_unique<TrsmKernel<float>>(shared_from_this(), spec, generate, f.Strsm_v2, f.StrsmBatched);
}

}  // namespace freight::cuda
