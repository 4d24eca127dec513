// See blas.h.
#include "freight/backend/gpu/opencl/blas.h"

#include <clblast_c.h>

#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/library.h"

namespace freight::opencl {

namespace {

struct Functions {
  decltype(&CLBlastSgemmStridedBatched) f32 = nullptr;
  decltype(&CLBlastDgemmStridedBatched) f64 = nullptr;
  decltype(&CLBlastSgemm) f32_alone = nullptr;
  decltype(&CLBlastDgemm) f64_alone = nullptr;
};

const freight::Loaded<Functions>& blas() {
  static const auto kBlas = [] {
    freight::Loaded<Functions> b;
    b.library = load_library({"libclblast.so.1"}, "libclblast1", "CLBlast",
                             {"SgemmStridedBatched", "DgemmStridedBatched", "Sgemm", "Dgemm"}, &b.functions,
                             "older than 1.4", LibraryKind::system);
    return b;
  }();
  return kBlas;
}

// CLBlast takes sizes and offsets of 64 bits, but its kernels count elements in 32, from the beginning of the buffer
// that they are given. Operands of more elements are not its own, also as the copies that it makes in whole tiles.
constexpr size_t kMostElements = INT32_MAX, kTile = 256;

// Elements from an operand's first to its last: A (0), B (1) or Y (2).
size_t extent(const gpu::MatrixProduct& p, int i) {
  const size_t sizes[3][2] = {{p.m, p.k}, {p.k, p.n}, {p.m, p.n}};
  const bool turned = i < 2 && p.transposed[i];
  const size_t slow = sizes[i][turned ? 1 : 0], fast = sizes[i][turned ? 0 : 1];
  return (p.batches - 1) * static_cast<size_t>(p.apart[i]) + (slow - 1) * p.lead[i] + fast;
}

bool counts_in_32_bits(const gpu::MatrixProduct& p) {
  const auto tiles = [](size_t n) { return (n + kTile - 1) / kTile * kTile; };
  const size_t m = tiles(p.m), n = tiles(p.n), k = tiles(p.k);
  if (p.batches > kMostElements / std::max({m * k, k * n, m * n})) return false;
  return std::max({extent(p, 0), extent(p, 1), extent(p, 2)}) <= kMostElements;
}

// An operand as CLBlast is given it: what reaches beyond element 2^31 of its buffer is seen through a buffer of its
// own, for one product. The device keeps that until the product is done.
class Window {
 public:
  Window(const Memory::BufferOffset& part, size_t bytes, size_t element) : block_(part.block), offset_(part.offset) {
    if (part.offset + bytes <= kMostElements * element) return;
    const size_t origin = part.offset / kOrigin * kOrigin;
    offset_ = part.offset - origin;
    const cl_buffer_region region{origin, offset_ + bytes};
    cl_int status = CL_SUCCESS;
    made_ = api_.CreateSubBuffer(part.block, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
    check(status, "cannot make a part of a buffer");
    block_ = made_;
  }
  ~Window() {
    if (made_) api_.ReleaseMemObject(made_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  cl_mem block() const { return block_; }
  size_t offset() const { return offset_; }  // bytes

 private:
  static constexpr size_t kOrigin = 4096;  // as much as devices ask where a part begins, in bytes
  const Api& api_ = api();
  cl_mem block_, made_ = nullptr;
  size_t offset_;
};

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
    const auto window = [&](int i, void* address) {
      return Window(memory_->find(address), extent(p_, i) * sizeof(T), sizeof(T));
    };
    const Window a = window(0, operands[0]), b = window(1, operands[1]), y = window(2, operands[p_.result]);
    const auto first = [](const Window& w) { return w.offset() / sizeof(T); };
    const auto apart = [&](int i) { return static_cast<size_t>(p_.apart[i]); };
    const auto flag = [](bool transposed) { return transposed ? CLBlastTransposeYes : CLBlastTransposeNo; };
    cl_command_queue queue = memory_->queue();
    const CLBlastStatusCode status =
        p_.batches == 1
            ? alone(CLBlastLayoutRowMajor, flag(p_.transposed[0]), flag(p_.transposed[1]), p_.m, p_.n, p_.k, one,
                    a.block(), first(a), p_.lead[0], b.block(), first(b), p_.lead[1], zero, y.block(), first(y),
                    p_.lead[2], &queue, nullptr)
            : batched(CLBlastLayoutRowMajor, flag(p_.transposed[0]), flag(p_.transposed[1]), p_.m, p_.n, p_.k, one,
                      a.block(), first(a), p_.lead[0], apart(0), b.block(), first(b), p_.lead[1], apart(1), zero,
                      y.block(), first(y), p_.lead[2], apart(2), p_.batches, &queue, nullptr);
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
  if (!counts_in_32_bits(*p)) return std::nullopt;
  return p;
}

const std::string& why_no_blas() { return blas().library.why; }

std::unique_ptr<Kernel> make_blas_kernel(std::shared_ptr<Memory> memory, const gpu::MatrixProduct& product,
                                         std::unique_ptr<Kernel> rest) {
  return std::make_unique<BlasKernel>(std::move(memory), product, std::move(rest));
}

}  // namespace freight::opencl
