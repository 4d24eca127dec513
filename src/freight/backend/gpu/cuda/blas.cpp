// See blas.h. https://docs.nvidia.com/cuda/cublas says what is meant.
#include "freight/backend/gpu/cuda/blas.h"

#include <algorithm>

#include "freight/backend/gpu/cuda/abi.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/backend/gpu/kernel_text.h"
#include "freight/backend/gpu/pattern_kernels.h"
#include "freight/base/error.h"

namespace freight::cuda {

using namespace blaslt;

namespace {

constexpr int kMostGuesses = 8;

struct Functions {
  FREIGHT_CUBLASLT_FUNCTIONS(FREIGHT_POINTER)
};

const freight::Loaded<Functions>& load() {
  static const auto kLoaded = [] {
    freight::Loaded<Functions> l;
    l.library =
        load_library(names_of("libcublasLt"), "the CUDA toolkit or the Python package nvidia-cublas", "cublasLt",
                     {FREIGHT_CUBLASLT_FUNCTIONS(FREIGHT_SYMBOL)}, &l.functions, "not that of CUDA 12 or 13");
    if (l.library.why.empty()) l.library.version = l.functions.GetVersion();
    return l;
  }();
  return kLoaded;
}

void check_blas(int status, const char* what) {
  if (status == 0) return;
  fail(ErrorKind::device, "cuBLASLt", what, ": ", load().functions.GetStatusString(status), " (", status, ")");
}

int data_type(DType dtype) {
  return dtype == DType::bf16 ? kBF16 : dtype == DType::f16 ? kF16 : dtype == DType::f64 ? kF64 : kF32;
}

// Kept by the library and destroyed with its last owner.
using Description = std::shared_ptr<void>;

template <class Make, class... Given>
Description description(int (*destroy)(void*), Make make, const Given&... given) {
  void* made = nullptr;
  check_blas(make(&made, given...), "a description");
  return {made, [destroy](void* it) {
            if (!leaving()) destroy(it);
          }};
}

template <class T>
void set(int (*setter)(void*, int, const void*, size_t), const Description& of, int what, const T& value) {
  check_blas(setter(of.get(), what, &value, sizeof value), "a description");
}

// One product as the library has it; shared by the kernels that compute it. The library's A is B, and its B is A.
class Problem {
 public:
  Problem(std::shared_ptr<const Blas> blas, const StepSpec& spec, const gpu::MatrixProduct& p, bool whole)
      : blas_(std::move(blas)), f64_(p.dtype == DType::f64), result_(p.result) {
    const int type = data_type(p.dtype);
    const bool tf32 = spec.tf32 && p.dtype == DType::f32;
    const int compute = f64_ ? kComputeF64 : tf32 ? kComputeTF32 : kComputeF32;
    matmul_ = description(f_.MatmulDescDestroy, f_.MatmulDescCreate, compute, f64_ ? kF64 : kF32);
    const int32_t trans_a = p.transposed[1], trans_b = p.transposed[0];
    set(kTransA, trans_a);
    set(kTransB, trans_b);
    set(kEpilogue, !whole                           ? kPlain
                   : pattern_of(*spec.node).product ? finish_of_pattern(spec, p)
                                                    : finish_of_matmul(spec));
    // No address is known yet. The library is asked with numbers that are aligned as the addresses will be.
    const auto address = [](uint32_t alignment) { return reinterpret_cast<void*>(uintptr_t{alignment}); };
    if (vector_) {
      const auto at = static_cast<size_t>(vector_);
      set(kBiasPointer, address(gpu::alignment_of(at < spec.in.size() ? spec.in[at] : spec.out[at - spec.in.size()])));
    }
    if (mask_) set(kAuxPointer, address(gpu::kAlignment));
    a_ = layout(type, p.transposed[1] ? p.k : p.n, p.transposed[1] ? p.n : p.k, p, 1);
    b_ = layout(type, p.transposed[0] ? p.m : p.k, p.transposed[0] ? p.k : p.m, p, 0);
    c_ = layout(type, p.n, p.m, p, 2);
    if (wide(p.dtype) == p.dtype) parts_ |= kPartsAsStored;  // parts of sums are not rounded to 16 bits
    alignments_[0] = gpu::alignment_of(spec.in[1]);
    alignments_[1] = gpu::alignment_of(spec.in[0]);
    alignments_[3] = gpu::alignment_of(spec.out[0]);
    alignments_[2] = residual_ ? gpu::alignment_of(spec.in[static_cast<size_t>(residual_)]) : alignments_[3];
  }

  std::vector<Guess> guesses(uint64_t most_workspace) const {
    const Description preference = description(f_.MatmulPreferenceDestroy, f_.MatmulPreferenceCreate);
    const auto prefer = [&](int what, const auto& value) {
      cuda::set(f_.MatmulPreferenceSetAttribute, preference, what, value);
    };
    prefer(kMostWorkspace, most_workspace);
    prefer(kReductions, parts_);
    for (int i = 0; i < 4; ++i) prefer(kAlignmentA + i, alignments_[i]);
    std::vector<Guess> all(kMostGuesses);
    int count = 0;
    if (f_.MatmulAlgoGetHeuristic(blas_->handle(), matmul_.get(), a_.get(), b_.get(), c_.get(), c_.get(),
                                  preference.get(), kMostGuesses, all.data(), &count) != 0) {
      count = 0;  // what it does not support is a status, too
    }
    all.resize(static_cast<size_t>(count));
    all.erase(std::remove_if(all.begin(), all.end(), [](const Guess& g) { return g.status != 0; }), all.end());
    return all;
  }

  // Enqueues the product on the stream.
  void run(void* const* operands, const Guess& guess, void* workspace) {
    static constexpr double kOne64 = 1, kZero64 = 0;
    static constexpr float kOne32 = 1, kZero32 = 0;
    const void* one = f64_ ? static_cast<const void*>(&kOne64) : &kOne32;
    const void* zero = f64_ ? static_cast<const void*>(&kZero64) : &kZero32;
    const auto entered = blas_->memory().enter();
    if (vector_) set(kBiasPointer, operands[vector_]);
    if (mask_) set(kAuxPointer, operands[mask_]);
    void* y = operands[result_];
    check_blas(f_.Matmul(blas_->handle(), matmul_.get(), one, operands[1], a_.get(), operands[0], b_.get(),
                         residual_ ? one : zero, residual_ ? operands[residual_] : y, c_.get(), y, c_.get(),
                         &guess.algorithm, workspace, guess.workspace, blas_->memory().stream()),
               "a product");
  }

 private:
  template <class T>
  void set(int what, const T& value) {
    cuda::set(f_.MatmulDescSetAttribute, matmul_, what, value);
  }
  uint32_t finish_of_matmul(const StepSpec& spec) {
    const Epilogue& epilogue = attrs<MatmulAttrs>(*spec.node).epilogue;
    int extra = 2;
    if (epilogue.bias) vector_ = extra++;
    if (epilogue.residual) residual_ = extra++;
    return epilogue.bias ? kBias : kPlain;
  }
  // The library's matrices are ours transposed, so that its A is our right-hand side.
  uint32_t finish_of_pattern(const StepSpec& spec, const gpu::MatrixProduct& p) {
    const FusedPattern& pattern = pattern_of(*spec.node);
    if (pattern.sums) vector_ = static_cast<int>(spec.in.size()) + *pattern.sums;
    if (pattern.mask) {
      mask_ = static_cast<int>(spec.in.size() + spec.out.size());
      set(kAuxLead, 8 * Blas::mask_bytes(p.n));
    }
    switch (pattern.kind) {
      case FusedKind::matmul_mask: return kReluGradient;
      case FusedKind::matmul_mask_sum: return kReluGradient | kSums;
      case FusedKind::matmul_lhs_sum: return kSumsOfB;
      case FusedKind::matmul_rhs_sum: return kSumsOfA;
      default: fail(ErrorKind::runtime, "cuBLASLt", "no epilogue for the pattern ", pattern.name);
    }
  }
  Description layout(int type, size_t rows, size_t columns, const gpu::MatrixProduct& p, int operand) {
    Description layout = description(f_.MatrixLayoutDestroy, f_.MatrixLayoutCreate, type, rows, columns,
                                     static_cast<int64_t>(p.lead[operand]));
    if (p.batches == 1) return layout;
    cuda::set(f_.MatrixLayoutSetAttribute, layout, kBatches, static_cast<int32_t>(p.batches));
    cuda::set(f_.MatrixLayoutSetAttribute, layout, kBatchStride, p.apart[operand]);
    return layout;
  }

  std::shared_ptr<const Blas> blas_;
  const Functions& f_ = load().functions;
  bool f64_;
  // Places of operands of the step; 0, that of A, says that there is none. `vector_` is a bias or the result that takes
  // sums, `mask_` the scratch memory, where the mask's bits lie.
  int result_, vector_ = 0, residual_ = 0, mask_ = 0;
  uint32_t alignments_[4] = {};  // A, B, C, D
  uint32_t parts_ = kPartsAsComputed;
  Description matmul_, a_, b_, c_;
};

class BlasKernel final : public Kernel {
 public:
  BlasKernel(std::shared_ptr<Problem> problem, const Guess& guess, std::shared_ptr<Kernel> mask_bits,
             std::shared_ptr<Kernel> rest, size_t scratch)
      : problem_(std::move(problem)),
        guess_(guess),
        mask_bits_(std::move(mask_bits)),
        rest_(std::move(rest)),
        scratch_(scratch),
        mask_bytes_(mask_bits_ ? gpu::aligned(mask_bits_->scratch_bytes()) : 0) {
    const std::string bytes(reinterpret_cast<const char*>(&guess_.algorithm), sizeof guess_.algorithm);
    name_ = cat("cuda:cublaslt:", gpu::hash_name(bytes), rest_ ? "+" : "");
  }
  void run(void* const* operands) override {
    if (mask_bits_) mask_bits_->run(operands);
    problem_->run(operands, guess_,
                  guess_.workspace > 0 ? static_cast<char*>(operands[scratch_]) + mask_bytes_ : nullptr);
    if (rest_) rest_->run(operands);
  }
  std::string name() const override { return name_; }
  size_t scratch_bytes() const override {
    return std::max(mask_bytes_ + guess_.workspace, rest_ ? rest_->scratch_bytes() : 0);
  }

 private:
  std::shared_ptr<Problem> problem_;
  Guess guess_;
  std::shared_ptr<Kernel> mask_bits_, rest_;  // before and behind the product
  size_t scratch_, mask_bytes_;               // place of the scratch memory; how much of it the mask takes
  std::string name_;
};

}  // namespace

const Library& find_blas() { return load().library; }

Blas::Blas(std::shared_ptr<Memory> memory, int architecture)
    : memory_(std::move(memory)),
      most_workspace_(size_t{architecture >= 90 ? 32u : 4u} << 20) {}  // as NVIDIA recommends

std::shared_ptr<Blas> Blas::open(std::shared_ptr<Memory> memory, int architecture, std::string& why) {
  const auto& l = load();
  why = l.library.why;
  if (!why.empty()) return nullptr;
  const auto entered = memory->enter();
  std::shared_ptr<Blas> blas(new Blas(memory, architecture));
  if (const int status = l.functions.Create(&blas->handle_); status != 0) {
    why = cat(l.library.path, " does not start: ", l.functions.GetStatusString(status), " (", status, ")");
    return nullptr;
  }
  return blas;
}

Blas::~Blas() {
  if (!handle_ || leaving()) return;
  const auto entered = memory_->enter();
  load().functions.Destroy(handle_);
}

std::vector<std::unique_ptr<Kernel>> Blas::kernels(const StepSpec& spec, const gpu::MatrixProduct& product,
                                                   const std::shared_ptr<Kernel>& mask_bits,
                                                   const std::shared_ptr<Kernel>& rest) {
  const auto entered = memory_->enter();
  const auto problem = std::make_shared<Problem>(shared_from_this(), spec, product, !rest);
  std::vector<std::unique_ptr<Kernel>> all;
  for (const Guess& g : problem->guesses(most_workspace_)) {
    all.push_back(std::make_unique<BlasKernel>(problem, g, mask_bits, rest, spec.in.size() + spec.out.size()));
  }
  return all;
}

int64_t Blas::mask_bytes(size_t columns) { return static_cast<int64_t>((columns + 127) / 128 * 16); }

std::string Blas::signature(const StepSpec& spec) {
  std::string s = cat(gpu::signature(spec), spec.tf32 ? " tf32" : "");
  for (const Operand& o : spec.in) s += cat(" @", gpu::alignment_of(o));
  return s;
}

}  // namespace freight::cuda
