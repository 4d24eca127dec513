// Our matrix product (backend/cpu/kernels/gemm.h) against a BLAS library's, in alternation: square ones, and updates
// c -= a b of a block inside a larger matrix as factorisations make them. usage: linalg_product f64|f32 LIBRARY
// [seconds per shape], with OMP_NUM_THREADS for both. LIBRARY has cblas_dgemm, scipy_cblas_dgemm (of the package
// scipy-openblas32) or, for f32, the same of sgemm. Prints GF/s of the best call of each, and their ratio.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/base/array.h"
#include "freight/base/philox.h"
#include "freight/base/threads.h"
#include "timing.h"

namespace {

using freight::Array;
using freight::DType;

template <class T>
using CblasGemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, T alpha, const T* a, int a_row,
                           const T* b, int b_row, T beta, T* c, int c_row);

struct Shape {
  const char* name;
  int64_t m, n, k, row;  // row: numbers from one row to the next, 0 where each operand has its own memory
  bool trans_a = false, trans_b = false;
};

constexpr Shape kShapes[] = {{"square", 64, 64, 64, 0},
                             {"square", 200, 200, 200, 0},
                             {"square", 500, 500, 500, 0},
                             {"square", 1000, 1000, 1000, 0},
                             {"square", 1024, 1024, 1024, 0},
                             {"square", 2000, 2000, 2000, 0},
                             {"square", 4000, 4000, 4000, 0},
                             {"a' b", 1000, 1000, 1000, 0, true, false},
                             {"a b'", 1000, 1000, 1000, 0, false, true},
                             {"a' b'", 1000, 1000, 1000, 0, true, true},
                             {"update", 400, 400, 64, 500},
                             {"update", 900, 900, 64, 1000},
                             {"update", 900, 900, 128, 1000},
                             {"update", 1800, 1800, 64, 2000},
                             {"update", 1800, 1800, 128, 2000},
                             {"update", 1800, 1800, 256, 2048},
                             {"update", 3800, 3800, 128, 4000},
                             {"update", 3800, 3800, 256, 4000},
                             {"update", 3800, 64, 64, 4000},
                             {"update", 1000, 500, 500, 4000}};

template <class T>
void compare(const Shape& s, CblasGemm<T> theirs, double seconds) {
  const int64_t a_row = s.row > 0   ? s.row
                        : s.trans_a ? s.m
                                    : s.k,
                b_row = s.row > 0   ? s.row
                        : s.trans_b ? s.k
                                    : s.n,
                c_row = s.row > 0 ? s.row : s.n;
  freight::cpu::GemmProblem p{.m = s.m, .n = s.n, .k = s.k, .a_row = a_row, .b_row = b_row, .c_row = c_row};
  if (s.trans_a) std::swap(p.a_row, p.a_col);
  if (s.trans_b) std::swap(p.b_row, p.b_col);
  p.subtract = s.row > 0;
  const freight::cpu::Gemm<T> gemm(p);
  const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  // Blocks of one matrix lie as in a factorisation: a below the diagonal block, b on its right.
  const int64_t numbers = s.row > 0 ? s.row * (s.m + s.k) : s.m * s.k + s.k * s.n + s.m * s.n;
  Array memory(dtype, freight::Shape{numbers});
  freight::PhiloxStream random(1, 0, 1);
  for (int64_t i = 0; i < numbers; ++i) memory.data<T>()[i] = static_cast<T>(random.uniform(-1e-3, 1e-3));
  T* const start = memory.data<T>();
  const T* a = s.row > 0 ? start + s.k * s.row : start;
  const T* b = s.row > 0 ? start + s.row - s.n : start + s.m * s.k;
  T* c = s.row > 0 ? start + s.k * s.row + s.row - s.n : start + s.m * s.k + s.k * s.n;
  Array scratch(DType::u8, freight::Shape{static_cast<int64_t>(gemm.scratch_bytes()) + 64});
  const auto ours = [&] { gemm.run(a, b, c, nullptr, nullptr, scratch.raw()); };
  const auto other = [&] {
    theirs(101, s.trans_a ? 112 : 111, s.trans_b ? 112 : 111, static_cast<int>(s.m), static_cast<int>(s.n),
           static_cast<int>(s.k), s.row > 0 ? T{-1} : T{1}, a, static_cast<int>(a_row), b, static_cast<int>(b_row),
           s.row > 0 ? T{1} : T{0}, c, static_cast<int>(c_row));
  };
  const double flops = 2.0 * static_cast<double>(s.m * s.n) * static_cast<double>(s.k);
  double best[2] = {1e9, 1e9}, spent = 0;
  for (int round = 0; round < 3 || spent < seconds; ++round) {
    best[0] = std::min(best[0], best_seconds(ours, 2));
    best[1] = std::min(best[1], best_seconds(other, 2));
    spent += 2 * (best[0] + best[1]);
  }
  std::printf("%-7s %5lld x %4lld x %4lld  %7.1f %7.1f GF/s  %5.2f\n", s.name, static_cast<long long>(s.m),
              static_cast<long long>(s.n), static_cast<long long>(s.k), flops / best[0] * 1e-9, flops / best[1] * 1e-9,
              best[1] / best[0]);
  std::fflush(stdout);
}

template <class T>
int compare_all(void* library, const char* function, double seconds) {
  void* theirs = dlsym(library, function);
  if (!theirs) theirs = dlsym(library, (std::string("scipy_") + function).c_str());
  if (!theirs) {
    std::fprintf(stderr, "linalg_product: the library has no %s\n", function);
    return 1;
  }
  std::printf("%d threads: ours, theirs, times theirs\n", freight::thread_count());
  for (const Shape& s : kShapes) compare<T>(s, reinterpret_cast<CblasGemm<T>>(theirs), seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string type = argc > 2 ? argv[1] : "";
  if (type != "f64" && type != "f32") {
    std::fprintf(stderr, "usage: linalg_product f64|f32 LIBRARY [seconds per shape]\n");
    return 2;
  }
  void* library = dlopen(argv[2], RTLD_NOW);
  if (!library) {
    std::fprintf(stderr, "linalg_product: %s\n", dlerror());
    return 1;
  }
  const double seconds = argc > 3 ? std::atof(argv[3]) : 1;
  return type == "f64" ? compare_all<double>(library, "cblas_dgemm", seconds)
                       : compare_all<float>(library, "cblas_sgemm", seconds);
}
