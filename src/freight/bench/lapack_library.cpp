// See lapack_library.h. The routines have Fortran's interface: all arguments by address, integers of 32 bits, and the
// lengths of texts behind all others, which GNU's Fortran reads and Intel's ignores.
#include "freight/bench/lapack_library.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/library.h"
#include "freight/base/strings.h"

namespace freight::bench {

namespace {

struct KnownLibrary {
  const char* name;
  std::vector<std::string> files;
  const char* package;
};
const KnownLibrary kKnownLibraries[] = {
    {"openblas", {"libopenblas.so.0", "libopenblas.so"}, "libopenblas0-pthread (Debian) or scipy-openblas32 (PyPI)"},
    {"mkl",
     {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"},
     "libmkl-rt (Debian, non-free) or mkl (PyPI)"},
};

// Pointers alone, in the order of kRoutineNames.
template <class T>
struct LapackRoutines {
  void (*gemm)(const char*, const char*, const int*, const int*, const int*, const T*, const T*, const int*, const T*,
               const int*, const T*, T*, const int*, size_t, size_t);
  void (*getrf)(const int*, const int*, T*, const int*, int*, int*);
  void (*potrf)(const char*, const int*, T*, const int*, int*, size_t);
  void (*geqrf)(const int*, const int*, T*, const int*, T*, T*, const int*, int*);
  void (*orgqr)(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);
  void (*gesv)(const int*, const int*, T*, const int*, int*, T*, const int*, int*);
  void (*syevd)(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*, const int*, int*,
                size_t, size_t);
  void (*gesdd)(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, T*, const int*,
                int*, int*, size_t);
};
constexpr std::initializer_list<const char*> kRoutineNames = {"gemm_",  "getrf_", "potrf_", "geqrf_",
                                                              "orgqr_", "gesv_",  "syevd_", "gesdd_"};

// One op over a batch. What the routines need beside their operands is allocated here, before anything is timed.
template <class T>
class LapackCall {
 public:
  LapackCall(const LapackRoutines<T>& f, std::string op, int64_t n, int64_t batch, const T* a, const T* b,
             int64_t columns)
      : f_(f), op_(std::move(op)), n_(static_cast<int>(n)), columns_(static_cast<int>(columns)), a_(a), b_(b) {
    const auto square = static_cast<size_t>(n * n), sides = static_cast<size_t>(n * columns);
    matrices_.resize(square * static_cast<size_t>(batch));
    sides_.resize(sides * static_cast<size_t>(batch));
    first_.resize(static_cast<size_t>(n));
    integers_.resize(static_cast<size_t>(8 * n));
    if (op_ == "product" || op_ == "svd") square_.resize(square);
    if (op_ == "svd") other_.resize(square);
    // The size of the workspace is what the routine itself asks for.
    T asked = 0, also = 0;
    int whole = 0;
    const int ask = -1;
    if (op_ == "qr") {
      f_.geqrf(&n_, &n_, matrices_.data(), &n_, first_.data(), &asked, &ask, &info_);
      f_.orgqr(&n_, &n_, &n_, matrices_.data(), &n_, first_.data(), &also, &ask, &info_);
    } else if (op_ == "eigh") {
      f_.syevd("V", "L", &n_, matrices_.data(), &n_, first_.data(), &asked, &ask, &whole, &ask, &info_, 1, 1);
    } else if (op_ == "svd") {
      f_.gesdd("S", &n_, &n_, matrices_.data(), &n_, first_.data(), square_.data(), &n_, other_.data(), &n_, &asked,
               &ask, integers_.data(), &info_, 1);
    }
    size_ = static_cast<int>(std::max(asked, also)) + 1;
    work_.resize(static_cast<size_t>(size_));
    integers_.resize(std::max(integers_.size(), static_cast<size_t>(whole)));
  }

  double run() {
    std::copy_n(a_, matrices_.size(), matrices_.begin());
    std::copy_n(b_, sides_.size(), sides_.begin());
    const auto square = static_cast<size_t>(n_) * static_cast<size_t>(n_);
    const size_t sides = static_cast<size_t>(n_) * static_cast<size_t>(columns_);
    const size_t count = square == 0 ? 0 : matrices_.size() / square;
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < count; ++i) {
      one(matrices_.data() + i * square, sides_.data() + i * sides);
      if (info_ != 0) fail(ErrorKind::runtime, op_, "the library compared with reports ", info_);
    }
    return seconds_since(start);
  }

 private:
  void one(T* a, T* b) {
    if (op_ == "product") {
      const T plus = 1, none = 0;
      f_.gemm("N", "N", &n_, &n_, &n_, &plus, a, &n_, b, &n_, &none, square_.data(), &n_, 1, 1);
    } else if (op_ == "lu") {
      f_.getrf(&n_, &n_, a, &n_, integers_.data(), &info_);
    } else if (op_ == "cholesky") {
      f_.potrf("L", &n_, a, &n_, &info_, 1);
    } else if (op_ == "qr") {
      f_.geqrf(&n_, &n_, a, &n_, first_.data(), work_.data(), &size_, &info_);
      f_.orgqr(&n_, &n_, &n_, a, &n_, first_.data(), work_.data(), &size_, &info_);
    } else if (op_ == "solve") {
      f_.gesv(&n_, &columns_, a, &n_, integers_.data(), b, &n_, &info_);
    } else if (op_ == "eigh") {
      const auto integers = static_cast<int>(integers_.size());
      f_.syevd("V", "L", &n_, a, &n_, first_.data(), work_.data(), &size_, integers_.data(), &integers, &info_, 1, 1);
    } else if (op_ == "svd") {
      f_.gesdd("S", &n_, &n_, a, &n_, first_.data(), square_.data(), &n_, other_.data(), &n_, work_.data(), &size_,
               integers_.data(), &info_, 1);
    } else {
      fail(ErrorKind::usage, op_, "LAPACK has no routine that is timed here for it");
    }
  }

  const LapackRoutines<T>& f_;
  const std::string op_;
  const int n_, columns_;
  const T *const a_, *const b_;
  std::vector<T> matrices_, sides_;               // the operands, which the routines overwrite
  std::vector<T> square_, other_, first_, work_;  // (n, n), (n, n), (n), (size_)
  std::vector<int> integers_;
  int size_ = 0, info_ = 0;
};

// Functions of one library, all behind one prefix of its names: SciPy's build of OpenBLAS has one.
template <class Functions>
std::string looked_up(Library library, const std::string& prefix, std::initializer_list<const char*> names,
                      Functions* to) {
  look_up(library, prefix.c_str(), names, to, "no BLAS and LAPACK with Fortran's names and integers of 32 bits");
  return library.why;
}

}  // namespace

struct LapackLibrary::Routines {
  LapackRoutines<double> f64;
  LapackRoutines<float> f32;
  void (*set_threads)(int) = nullptr;
};

LapackLibrary::LapackLibrary(const std::string& which) : routines_(std::make_unique<Routines>()), name_(which) {
  std::vector<std::string> files = {which};
  std::string mend = "need openblas, mkl or the file of a library with BLAS and LAPACK";
  for (const KnownLibrary& k : kKnownLibraries) {
    if (which != k.name) continue;
    files = k.files;
    mend = cat("install ", k.package, ", or name the library's file: --compare FILE.so");
  }
  const Library library = find_library(files, LibraryKind::system);
  if (!library.handle) fail(ErrorKind::device, "--compare", library.why, "; ", mend);
  path_ = library.path;
  std::string why;
  for (const char* prefix : {"", "scipy_"}) {
    std::string lacks = looked_up(library, cat(prefix, "d"), kRoutineNames, &routines_->f64);
    if (lacks.empty()) lacks = looked_up(library, cat(prefix, "s"), kRoutineNames, &routines_->f32);
    if (lacks.empty()) {
      why.clear();
      break;
    }
    if (why.empty()) why = lacks;
  }
  if (!why.empty()) fail(ErrorKind::device, "--compare", why, "; ", mend);
  for (const char* setter : {"openblas_set_num_threads", "scipy_openblas_set_num_threads", "MKL_Set_Num_Threads"}) {
    void (*found)(int) = nullptr;
    if (looked_up(library, "", {setter}, &found).empty()) routines_->set_threads = found;
  }
}

LapackLibrary::~LapackLibrary() = default;

bool LapackLibrary::set_threads(int count) const {
  if (!routines_->set_threads) return false;
  routines_->set_threads(count);
  return true;
}

std::function<double()> LapackLibrary::call(const std::string& op, DType dtype, int64_t n, int64_t batch, const void* a,
                                            const void* b, int64_t columns) const {
  const auto made = [&]<class T>(const LapackRoutines<T>& f) -> std::function<double()> {
    const auto call =
        std::make_shared<LapackCall<T>>(f, op, n, batch, static_cast<const T*>(a), static_cast<const T*>(b), columns);
    return [call] { return call->run(); };
  };
  return dtype == DType::f64 ? made(routines_->f64) : made(routines_->f32);
}

}  // namespace freight::bench
