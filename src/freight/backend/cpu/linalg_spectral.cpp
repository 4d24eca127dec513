// The steps of eigenvalues and singular values: LAPACK's syevd, gesdd and geev (lapack.h), f32 and f64, over any batch.
// A matrix that lies row by row is its transpose to LAPACK, which lies column by column. Where that can be factored as
// it is, its results are read the other way round, as each step says.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/factor_tasks.h"
#include "freight/backend/cpu/lapack.h"
#include "freight/backend/cpu/matrices.h"
#include "freight/backend/matrix_faults.h"
#include "freight/base/strings.h"

namespace freight::cpu {

namespace {

constexpr LapackInteger kAsk = -1;  // in place of a workspace's length: how long should it be?

size_t line_bytes(int64_t count, size_t size) { return (static_cast<size_t>(count) * size + 63) / 64 * 64; }

// A thread's part of the step's scratch memory, and the lengths that LAPACK is told.
template <class T>
struct LapackMemory {
  LapackInteger numbers = 0, lwork = 1, liwork = 1;  // for a matrix; work and iwork

  size_t bytes() const {
    return line_bytes(numbers, sizeof(T)) + line_bytes(lwork, sizeof(T)) + line_bytes(liwork, sizeof(LapackInteger));
  }
  T* matrix(char* at) const { return reinterpret_cast<T*>(at); }
  T* work(char* at) const { return reinterpret_cast<T*>(at + line_bytes(numbers, sizeof(T))); }
  LapackInteger* iwork(char* at) const {
    return reinterpret_cast<LapackInteger*>(at + line_bytes(numbers, sizeof(T)) + line_bytes(lwork, sizeof(T)));
  }
};

// The workspace's length as LAPACK answers it, in T: a large one may have been rounded down.
template <class T>
LapackInteger length_of(T answer, LapackInteger least) {
  const T up = std::nextafter(answer, std::numeric_limits<T>::infinity());
  return std::max(least, static_cast<LapackInteger>(std::ceil(up)));
}

// Refuses what is beyond the numbers that the library counts with: extents, and lengths of workspaces, which by their
// formulas must fit with room for what blocking adds.
void need_countable(const Fault& fault, const Lapack& lapack, const Matrices& of, LapackInteger length) {
  constexpr LapackInteger kMost = std::numeric_limits<int32_t>::max(), kBlock = 256;
  if (lapack.wide_integers) return;
  const LapackInteger need = std::max({of.m, of.n, length + kBlock * (of.m + of.n)});
  if (need <= kMost) return;
  fault.raise(cat("a matrix of ", fault.type(), " needs a workspace of ", need, " numbers: the integers of ",
                  lapack.library.path, " have 32 bits and count to ", kMost,
                  "; set FREIGHT_LAPACK to a LAPACK with 64-bit integers"),
              ErrorKind::capacity);
}

// The layouts that factor_layouts takes.
MatrixStrides strides_of(const Operand& x) { return matrix_strides(x).value(); }

template <class T>
bool all_finite(const T* x, int64_t count) {
  return std::all_of(x, x + count, [](T v) { return std::isfinite(v); });
}

template <class T>
void fill_nan(T* x, int64_t count) {
  std::fill_n(x, count, std::numeric_limits<T>::quiet_NaN());
}

template <class T>
void transpose_in_place(T* x, int64_t n) {
  constexpr int64_t kTile = 16;
  for (int64_t i = 0; i < n; i += kTile) {
    for (int64_t j = 0; j <= i; j += kTile) {
      for (int64_t r = i; r < std::min(n, i + kTile); ++r) {
        for (int64_t c = j; c < std::min(r, j + kTile); ++c) std::swap(x[r * n + c], x[c * n + r]);
      }
    }
  }
}

// The exponent of the largest number where that is so far from 1 that LAPACK scales the matrix, else 0. LAPACK 3.12's
// geev (SciPy 1.17's OpenBLAS 0.3.30) does not scale the eigenvalues back: 1e-250 times a matrix has some near 1e-138.
template <class T>
int far_exponent(const T* x, int64_t count) {
  T most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(x[i]));
  int exponent = 0;
  std::frexp(most, &exponent);
  return std::abs(exponent) > std::numeric_limits<T>::max_exponent / 4 ? exponent : 0;
}

template <class T>
void scale(T* x, int64_t count, int exponent) {
  if (exponent == 0) return;
  for (int64_t i = 0; i < count; ++i) x[i] = std::ldexp(x[i], exponent);
}

bool is_read(const StepSpec& spec, int output) { return spec.graph->use_counts()[spec.node->out(output)] > 0; }

// A batch on our threads, each of which has memory of its own and LAPACK in one thread.
class LapackBatch {
 public:
  LapackBatch(const StepSpec& spec, std::string routine, const Matrices& of)
      : fault_(spec), routine_(std::move(routine)), batch_(of.batch) {
    constexpr double kWorthIt = 4e5;  // multiply-adds; a parallel region costs more than fewer save
    const double least = static_cast<double>(std::min(of.m, of.n));
    const double work = 10 * static_cast<double>(of.m * of.n) * least * static_cast<double>(batch_);
    lanes_ = work < kWorthIt ? 1 : std::clamp<int64_t>(batch_, 1, thread_count());
  }

  const Fault& fault() const { return fault_; }
  const std::string& routine() const { return routine_; }
  int64_t lanes() const { return lanes_; }

  // f(matrix, memory of the thread) gives LAPACK's info. The first matrix where it is not 0 is an error of the data.
  template <class F>
  void run(void* scratch, size_t bytes_of_lane, F&& f) const {
    constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    std::atomic<int64_t> failed = kNone;  // the matrix, and in the lower half its info
    parallel_for(lanes_, [&](int64_t lane) {
      const LapackOnOneThread one(lapack());
      char* const own = static_cast<char*>(scratch) + static_cast<size_t>(lane) * bytes_of_lane;
      for (int64_t k = batch_ * lane / lanes_; k < batch_ * (lane + 1) / lanes_; ++k) {
        const auto info = static_cast<int32_t>(f(k, own));  // a library of 32 bits leaves the upper half
        if (info == 0) continue;
        const int64_t fault = (k << 32) | static_cast<uint32_t>(info);
        for (int64_t first = failed; fault < first && !failed.compare_exchange_weak(first, fault);) continue;
        return;
      }
    });
    if (failed == kNone) return;
    const int64_t matrix = failed >> 32, info = static_cast<int32_t>(failed & 0xFFFFFFFF);
    fault_.raise(not_converged_text(fault_.type(), matrix, cat("LAPACK's ", routine_, " (info ", info, ")")));
  }

 private:
  Fault fault_;
  std::string routine_;
  int64_t batch_, lanes_ = 1;
};

template <class T>
std::string routine_name(const char* name) {
  return cat(sizeof(T) == sizeof(double) ? "d" : "s", name);
}

// Operands: x, values, vectors, scratch. The transpose is the same matrix with its triangles exchanged. LAPACK leaves
// the vectors column by column over the matrix, in the place of the result, which is then transposed.
template <class T>
class EighStep final : public Kernel {
 public:
  explicit EighStep(const StepSpec& spec)
      : of_(spec.in[0].type),
        x_(strides_of(spec.in[0])),
        batch_(spec, routine_name<T>("syevd"), of_),
        upper_(attrs<EighAttrs>(*spec.node).upper),
        vectors_(is_read(spec, 1)) {
    const LapackInteger n = of_.n;
    const LapackInteger least = vectors_ ? 1 + 6 * n + 2 * n * n : 2 * n + 1;
    need_countable(batch_.fault(), lapack(), of_, least);
    T answer[1] = {}, none[1] = {};
    LapackInteger integers = 0, info = 0;
    call(none, none, answer, kAsk, &integers, kAsk, &info);
    memory_.lwork = length_of(answer[0], least);
    memory_.liwork = vectors_ ? 3 + 5 * n : 1;
  }
  std::string name() const override { return "lapack:" + batch_.routine(); }
  size_t scratch_bytes() const override { return static_cast<size_t>(batch_.lanes()) * memory_.bytes(); }

  void run(void* const* o) override {
    const int64_t n = of_.n;
    batch_.run(o[3], memory_.bytes(), [&](int64_t k, char* own) {
      T* const values = static_cast<T*>(o[1]) + k * n;
      T* const vectors = static_cast<T*>(o[2]) + k * n * n;
      read_matrix(vectors, static_cast<const T*>(o[0]) + k * x_.batch, x_, n, n, false);
      if (!triangle_is_finite(vectors)) {
        fill_nan(values, n);
        fill_nan(vectors, n * n);
        return LapackInteger{0};
      }
      LapackInteger info = 0;
      call(vectors, values, memory_.work(own), memory_.lwork, memory_.iwork(own), memory_.liwork, &info);
      if (vectors_) transpose_in_place(vectors, n);
      return info;
    });
  }

 private:
  // The other triangle is not read.
  bool triangle_is_finite(const T* x) const {
    for (int64_t i = 0; i < of_.n; ++i) {
      const T* const row = x + i * of_.n;
      if (upper_ ? !all_finite(row + i, of_.n - i) : !all_finite(row, i + 1)) return false;
    }
    return true;
  }
  void call(T* a, T* values, T* work, LapackInteger lwork, LapackInteger* iwork, LapackInteger liwork,
            LapackInteger* info) const {
    lapack().routines<T>().syevd(vectors_ ? "V" : "N", upper_ ? "L" : "U", &of_.n, a, &of_.n, values, work, &lwork,
                                 iwork, &liwork, info, 1, 1);
  }

  Matrices of_;
  MatrixStrides x_;
  LapackBatch batch_;
  bool upper_, vectors_;
  LapackMemory<T> memory_;
};

// Operands: x, u, s, vh, scratch. X^T = V S U^T: what LAPACK calls U is V, which it leaves column by column, so that
// vh lies there row by row; and what it calls V^T is u.
template <class T>
class SvdStep final : public Kernel {
 public:
  explicit SvdStep(const StepSpec& spec)
      : of_(spec.in[0].type),
        x_(strides_of(spec.in[0])),
        batch_(spec, routine_name<T>("gesdd"), of_),
        u_(spec.out[0].type),
        vh_(spec.out[2].type) {
    const bool full = u_.n == of_.m && vh_.m == of_.n;
    job_ = !is_read(spec, 0) && !is_read(spec, 2) ? "N" : full ? "A" : "S";
    const LapackInteger least_extent = std::min(of_.m, of_.n), most_extent = std::max(of_.m, of_.n);
    const bool vectors = *job_ != 'N';
    const LapackInteger least = vectors ? 4 * least_extent * least_extent + 7 * least_extent + most_extent
                                        : 3 * least_extent + std::max(most_extent, 7 * least_extent);
    need_countable(batch_.fault(), lapack(), of_, least);
    T answer[1] = {}, none[1] = {};
    LapackInteger integers[8] = {}, info = 0;
    call(none, none, none, none, answer, kAsk, integers, &info);
    memory_.numbers = of_.m * of_.n;
    memory_.lwork = length_of(answer[0], least);
    memory_.liwork = 8 * least_extent;
  }
  std::string name() const override { return "lapack:" + batch_.routine(); }
  size_t scratch_bytes() const override { return static_cast<size_t>(batch_.lanes()) * memory_.bytes(); }

  void run(void* const* o) override {
    const int64_t size = of_.m * of_.n, count = std::min(of_.m, of_.n);
    batch_.run(o[4], memory_.bytes(), [&](int64_t k, char* own) {
      T* const x = memory_.matrix(own);
      read_matrix(x, static_cast<const T*>(o[0]) + k * x_.batch, x_, of_.m, of_.n, false);
      T* const u = static_cast<T*>(o[1]) + k * u_.m * u_.n;
      T* const s = static_cast<T*>(o[2]) + k * count;
      T* const vh = static_cast<T*>(o[3]) + k * vh_.m * vh_.n;
      LapackInteger info = 0;
      if (all_finite(x, size)) {
        // -0 becomes 0, by whose sign LAPACK would choose that of u, and of the gradient of s.
        std::transform(x, x + size, x, [](T v) { return v + T(0); });
        call(x, s, vh, u, memory_.work(own), memory_.lwork, memory_.iwork(own), &info);
      } else {
        fill_nan(u, u_.m * u_.n);
        fill_nan(s, count);
        fill_nan(vh, vh_.m * vh_.n);
      }
      return info;
    });
  }

 private:
  void call(T* a, T* s, T* left, T* right, T* work, LapackInteger lwork, LapackInteger* iwork,
            LapackInteger* info) const {
    lapack().routines<T>().gesdd(job_, &of_.n, &of_.m, a, &of_.n, s, left, &vh_.n, right, &u_.n, work, &lwork, iwork,
                                 info, 1);
  }

  Matrices of_;
  MatrixStrides x_;
  LapackBatch batch_;
  Matrices u_, vh_;
  const char* job_ = "S";
  LapackMemory<T> memory_;
};

// Operands: x, values_re, values_im, vectors_re, vectors_im, scratch. The transpose has the same eigenvalues, but
// LAPACK finds them in another order than NumPy's, so the matrix itself is given: its copy, which is lost, lies column
// by column where the real parts come.
template <class T>
class EigStep final : public Kernel {
 public:
  explicit EigStep(const StepSpec& spec)
      : of_(spec.in[0].type),
        x_(strides_of(spec.in[0])),
        batch_(spec, routine_name<T>("geev"), of_),
        vectors_(is_read(spec, 2) || is_read(spec, 3)) {
    const LapackInteger least = 4 * of_.n;
    need_countable(batch_.fault(), lapack(), of_, least);
    T answer[1] = {}, none[1] = {};
    LapackInteger info = 0;
    call(none, none, none, none, answer, kAsk, &info);
    memory_.numbers = vectors_ ? of_.n * of_.n : 1;
    memory_.lwork = length_of(answer[0], least);
  }
  std::string name() const override { return "lapack:" + batch_.routine(); }
  size_t scratch_bytes() const override { return static_cast<size_t>(batch_.lanes()) * memory_.bytes(); }

  void run(void* const* o) override {
    const int64_t n = of_.n;
    batch_.run(o[5], memory_.bytes(), [&](int64_t k, char* own) {
      const auto result = [&](int i, int64_t size) { return static_cast<T*>(o[i]) + k * size; };
      T *const re = result(1, n), *const im = result(2, n);
      T *const vectors_re = result(3, n * n), *const vectors_im = result(4, n * n);
      read_matrix(vectors_re, static_cast<const T*>(o[0]) + k * x_.batch, x_, n, n, false);
      if (!all_finite(vectors_re, n * n)) {
        for (T* values : {re, im}) fill_nan(values, n);
        for (T* vectors : {vectors_re, vectors_im}) fill_nan(vectors, n * n);
        return LapackInteger{0};
      }
      transpose_in_place(vectors_re, n);
      const int exponent = far_exponent(vectors_re, n * n);
      scale(vectors_re, n * n, -exponent);
      LapackInteger info = 0;
      T* const columns = memory_.matrix(own);
      call(vectors_re, re, im, columns, memory_.work(own), memory_.lwork, &info);
      if (vectors_ && info == 0) unpack(columns, im, vectors_re, vectors_im);
      scale(re, n, exponent);
      scale(im, n, exponent);
      return info;
    });
  }

 private:
  void call(T* a, T* re, T* im, T* columns, T* work, LapackInteger lwork, LapackInteger* info) const {
    const LapackInteger one = 1;
    T none[1] = {};
    lapack().routines<T>().geev("N", vectors_ ? "V" : "N", &of_.n, a, &of_.n, re, im, none, &one, columns,
                                vectors_ ? &of_.n : &one, work, &lwork, info, 1, 1);
  }

  // A real vector is a column; the first one of a pair is two, its real and its imaginary part.
  void unpack(const T* columns, const T* im, T* vectors_re, T* vectors_im) const {
    const int64_t n = of_.n;
    for (int64_t k = 0; k < n; ++k) {
      const T* const x = columns + k * n;
      if (im[k] == T(0)) {
        for (int64_t i = 0; i < n; ++i) {
          vectors_re[i * n + k] = x[i];
          vectors_im[i * n + k] = T(0);
        }
        continue;
      }
      const T* const y = x + n;
      for (int64_t i = 0; i < n; ++i) {
        vectors_re[i * n + k] = vectors_re[i * n + k + 1] = x[i];
        vectors_im[i * n + k] = y[i];
        vectors_im[i * n + k + 1] = -y[i];
      }
      ++k;
    }
  }

  Matrices of_;
  MatrixStrides x_;
  LapackBatch batch_;
  bool vectors_;
  LapackMemory<T> memory_;
};

}  // namespace

bool takes_spectral(const Graph& graph, const Node& node) { return takes_factors(graph, node) && lapack().usable(); }

// Each step has read its matrix before it writes a result.
bool spectral_in_place(const Graph&, const Node&, int input, int) { return input == 0; }

std::unique_ptr<Kernel> make_spectral(const StepSpec& spec) {
  if (spec.node->op == Op::eigh) return make_for_type<EighStep>(spec);
  if (spec.node->op == Op::svd) return make_for_type<SvdStep>(spec);
  return make_for_type<EigStep>(spec);
}

}  // namespace freight::cpu
