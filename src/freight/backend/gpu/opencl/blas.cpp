// See blas.h.
#include "freight/backend/gpu/opencl/blas.h"

#include <clblast_c.h>

#include "freight/backend/gpu/library.h"
#include "freight/base/error.h"

namespace freight::opencl {

namespace {

struct Functions {
  decltype(&CLBlastSgemmStridedBatched) f32 = nullptr;
  decltype(&CLBlastDgemmStridedBatched) f64 = nullptr;
  decltype(&CLBlastSgemm) f32_alone = nullptr;
  decltype(&CLBlastDgemm) f64_alone = nullptr;
};

const gpu::Loaded<Functions>& blas() {
  static const auto kBlas = [] {
    gpu::Loaded<Functions> b;
    b.library = gpu::load_library({"libclblast.so.1"}, "libclblast1", "CLBlast",
                                  {"SgemmStridedBatched", "DgemmStridedBatched", "Sgemm", "Dgemm"}, &b.functions,
                                  "older than 1.4", gpu::LibraryKind::system);
    return b;
  }();
  return kBlas;
}

class BlasKernel final : public Kernel {
 public:
  BlasKernel(std::shared_ptr<Memory> memory, const gpu::MatrixProduct& product, std::unique_ptr<Kernel> rest)
      : memory_(std::move(memory)), p_(product), rest_(std::move(rest)) {}

  void run(void* const* operands) override {
    if (p_.dtype == DType::f32) {
      multiply(blas().functions.f32, blas().functions.f32_alone, 1.0f, 0.0f, operands);
    } else {
      multiply(blas().functions.f64, blas().functions.f64_alone, 1.0, 0.0, operands);
    }
    if (rest_) rest_->run(operands);
  }
  std::string name() const override { return "opencl:clblast"; }

 private:
  template <class Batched, class Alone, class T>
  void multiply(Batched batched, Alone alone, T one, T zero, void* const* operands) {
    const Memory::Part part[3] = {memory_->find(operands[0]), memory_->find(operands[1]),
                                  memory_->find(operands[p_.result])};
    const auto first = [&](int i) { return part[i].offset / sizeof(T); };
    const auto apart = [&](int i) { return static_cast<size_t>(p_.apart[i]); };
    const auto flag = [](bool transposed) { return transposed ? CLBlastTransposeYes : CLBlastTransposeNo; };
    cl_command_queue queue = memory_->queue();
    const CLBlastStatusCode status =
        p_.batches == 1
            ? alone(CLBlastLayoutRowMajor, flag(p_.transposed[0]), flag(p_.transposed[1]), p_.m, p_.n, p_.k, one,
                    part[0].block, first(0), p_.lead[0], part[1].block, first(1), p_.lead[1], zero, part[2].block,
                    first(2), p_.lead[2], &queue, nullptr)
            : batched(CLBlastLayoutRowMajor, flag(p_.transposed[0]), flag(p_.transposed[1]), p_.m, p_.n, p_.k, one,
                      part[0].block, first(0), p_.lead[0], apart(0), part[1].block, first(1), p_.lead[1], apart(1),
                      zero, part[2].block, first(2), p_.lead[2], apart(2), p_.batches, &queue, nullptr);
    check(static_cast<cl_int>(status), "CLBlast's product");
  }

  std::shared_ptr<Memory> memory_;
  gpu::MatrixProduct p_;
  std::unique_ptr<Kernel> rest_;
};

}  // namespace

std::optional<gpu::MatrixProduct> blas_product(const StepSpec& spec) {
  std::optional<gpu::MatrixProduct> p = gpu::matrix_product(spec);
  if (!p || (p->dtype != DType::f32 && p->dtype != DType::f64) || !blas().library.why.empty()) return std::nullopt;
  return p;
}

const std::string& why_no_blas() { return blas().library.why; }

std::unique_ptr<Kernel> make_blas_kernel(std::shared_ptr<Memory> memory, const gpu::MatrixProduct& product,
                                         std::unique_ptr<Kernel> rest) {
  return std::make_unique<BlasKernel>(std::move(memory), product, std::move(rest));
}

}  // namespace freight::opencl
