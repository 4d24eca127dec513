// See blas.h.
#include "freight/backend/gpu/opencl/blas.h"

#include <clblast_c.h>
#include <dlfcn.h>

#include "freight/base/error.h"

namespace freight::opencl {

namespace {

constexpr const char* kLibrary = "libclblast.so.1";

struct Blas {
  decltype(&CLBlastSgemmStridedBatched) f32 = nullptr;
  decltype(&CLBlastDgemmStridedBatched) f64 = nullptr;
  decltype(&CLBlastSgemm) f32_alone = nullptr;
  decltype(&CLBlastDgemm) f64_alone = nullptr;
  std::string why;
};

const Blas& blas() {
  static const Blas kBlas = [] {
    Blas b;
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      b.why = cat("no CLBlast: looked for ", kLibrary, " in the loader's path; install libclblast1");
      return b;
    }
    const auto find = [&](auto& f, const char* name) {
      f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(library, name));
      if (!f) b.why = cat("CLBlast has no ", name, ": it is older than 1.4");
    };
    find(b.f32, "CLBlastSgemmStridedBatched");
    find(b.f64, "CLBlastDgemmStridedBatched");
    find(b.f32_alone, "CLBlastSgemm");
    find(b.f64_alone, "CLBlastDgemm");
    return b;
  }();
  return kBlas;
}

// How the last two axes of an operand lie: rows dense, or columns (`transposed`); false where neither is.
bool matrix(const Operand& o, bool& transposed, size_t& lead) {
  const int rows = o.type.shape.rank() - 2, columns = rows + 1;
  const auto lies = [&](int fast, int slow) {
    const int64_t length = o.type.shape[fast], count = o.type.shape[slow], step = o.layout.strides[slow];
    if ((length > 1 && o.layout.strides[fast] != 1) || (count > 1 && step < length)) return false;
    lead = static_cast<size_t>(count > 1 ? step : length);
    return true;
  };
  transposed = !lies(columns, rows);
  return !transposed || lies(rows, columns);
}

// The axes before the matrix as one: elements from one batch to the next.
bool batches(const Operand& o, size_t& apart) {
  const int axes = o.type.shape.rank() - 2;
  int64_t step = -1;  // of the next slower axis
  for (int i = axes; i-- > 0;) {
    if (o.type.shape[i] == 1) continue;
    const int64_t stride = o.layout.strides[i];
    if (step < 0) {
      apart = static_cast<size_t>(stride);
    } else if (stride != step) {
      return false;
    }
    step = stride * o.type.shape[i];
  }
  return true;
}

class BlasKernel final : public Kernel {
 public:
  BlasKernel(std::shared_ptr<Memory> memory, const BlasProduct& product, std::unique_ptr<Kernel> rest)
      : memory_(std::move(memory)), p_(product), rest_(std::move(rest)) {}

  void run(void* const* operands) override {
    if (p_.dtype == DType::f32) {
      multiply(blas().f32, blas().f32_alone, 1.0f, 0.0f, operands);
    } else {
      multiply(blas().f64, blas().f64_alone, 1.0, 0.0, operands);
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
    const auto flag = [](bool transposed) { return transposed ? CLBlastTransposeYes : CLBlastTransposeNo; };
    cl_command_queue queue = memory_->queue();
    const CLBlastStatusCode status =
        p_.batches == 1
            ? alone(CLBlastLayoutRowMajor, flag(p_.transposed[0]), flag(p_.transposed[1]), p_.m, p_.n, p_.k, one,
                    part[0].block, first(0), p_.lead[0], part[1].block, first(1), p_.lead[1], zero, part[2].block,
                    first(2), p_.lead[2], &queue, nullptr)
            : batched(CLBlastLayoutRowMajor, flag(p_.transposed[0]), flag(p_.transposed[1]), p_.m, p_.n, p_.k, one,
                      part[0].block, first(0), p_.lead[0], p_.apart[0], part[1].block, first(1), p_.lead[1],
                      p_.apart[1], zero, part[2].block, first(2), p_.lead[2], p_.apart[2], p_.batches, &queue, nullptr);
    check(static_cast<cl_int>(status), "CLBlast's product");
  }

  std::shared_ptr<Memory> memory_;
  BlasProduct p_;
  std::unique_ptr<Kernel> rest_;
};

}  // namespace

std::optional<BlasProduct> blas_product(const StepSpec& spec) {
  if (spec.node->op != Op::matmul || !blas().why.empty()) return std::nullopt;
  const auto& attrs = freight::attrs<MatmulAttrs>(*spec.node);
  const Operand &a = spec.in[0], &b = spec.in[1], &y = spec.out[0];
  const DType dtype = y.type.dtype;
  if ((dtype != DType::f32 && dtype != DType::f64) || a.type.dtype != dtype || b.type.dtype != dtype)
    return std::nullopt;
  const Shape& shape = y.type.shape;
  const int rows = shape.rank() - 2;
  BlasProduct p;
  p.dtype = dtype;
  p.result = static_cast<int>(spec.in.size());
  p.m = static_cast<size_t>(shape[rows]);
  p.n = static_cast<size_t>(shape[rows + 1]);
  p.k = static_cast<size_t>(a.type.shape[attrs.trans_a ? rows : rows + 1]);
  for (int i = 0; i < rows; ++i) p.batches *= static_cast<size_t>(shape[i]);
  if (p.batches == 0 || p.m == 0 || p.n == 0 || p.k == 0) return std::nullopt;
  bool lies[3] = {};
  const Operand* operands[3] = {&a, &b, &y};
  for (int i = 0; i < 3; ++i) {
    if (!matrix(*operands[i], lies[i], p.lead[i]) || !batches(*operands[i], p.apart[i])) return std::nullopt;
  }
  if (lies[2]) return std::nullopt;
  p.transposed[0] = lies[0] != attrs.trans_a;
  p.transposed[1] = lies[1] != attrs.trans_b;
  return p;
}

const std::string& why_no_blas() { return blas().why; }

std::unique_ptr<Kernel> make_blas_kernel(std::shared_ptr<Memory> memory, const BlasProduct& product,
                                         std::unique_ptr<Kernel> rest) {
  return std::make_unique<BlasKernel>(std::move(memory), product, std::move(rest));
}

}  // namespace freight::opencl
