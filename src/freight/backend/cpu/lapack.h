// LAPACK for eigenvalues and singular values, loaded at run time: the library that FREIGHT_LAPACK names, else
// liblapack.so.3, which is OpenBLAS's or the reference library's as the system is set up. Nothing is linked, and
// without one the reference loops compute (linalg_spectral.cpp). Matrices are column-major here.
#pragma once
#include <cstdint>
#include <string>

#include "freight/base/library.h"
#include "freight/base/threads.h"

namespace freight::cpu {

// Libraries have INTEGERs of 32 or of 64 bits under the same names. On little-endian machines a number in 64 bits reads
// the same as either; arrays of INTEGERs have 8 bytes for each.
using LapackInteger = int64_t;

// The routines of one type as Fortran exports them: every argument is an address, and behind the last one the lengths
// of the texts follow, as gfortran passes them and others ignore them.
template <class T>
struct LapackRoutines {
  using Integer = LapackInteger;
  void (*syevd)(const char* jobz, const char* uplo, const Integer* n, T* a, const Integer* lda, T* w, T* work,
                const Integer* lwork, Integer* iwork, const Integer* liwork, Integer* info, size_t, size_t) = nullptr;
  void (*gesdd)(const char* jobz, const Integer* m, const Integer* n, T* a, const Integer* lda, T* s, T* u,
                const Integer* ldu, T* vt, const Integer* ldvt, T* work, const Integer* lwork, Integer* iwork,
                Integer* info, size_t) = nullptr;
  void (*geev)(const char* jobvl, const char* jobvr, const Integer* n, T* a, const Integer* lda, T* wr, T* wi, T* vl,
               const Integer* ldvl, T* vr, const Integer* ldvr, T* work, const Integer* lwork, Integer* info, size_t,
               size_t) = nullptr;
};

struct Lapack {
  Library library;  // `why` says why there is none, and what to do
  LapackRoutines<double> f64;
  LapackRoutines<float> f32;
  bool wide_integers = false;  // 64 bits
  std::string maker;           // "LAPACK 3.9.0, OpenBLAS 0.3.21", as far as it tells
  // Null where the library has no such function.
  int (*openblas_threads)() = nullptr;
  void (*set_openblas_threads)(int count) = nullptr;
  int (*set_mkl_threads_here)(int count) = nullptr;  // of the calling thread; gives the count before

  bool usable() const { return library.handle && library.why.empty(); }
  template <class T>
  const LapackRoutines<T>& routines() const {
    if constexpr (sizeof(T) == sizeof(double)) {
      return f64;
    } else {
      return f32;
    }
  }
};

// Loads the file `named`; the usual library where it is empty; none for "none". Throws Error(usage) where a file that
// was named cannot be used.
Lapack load_lapack(const std::string& named);
// The process's library, by FREIGHT_LAPACK. Looked for once.
const Lapack& lapack();
// Names what computes, for `freight devices`: the library, or the reference loops and why. Never throws.
std::string lapack_text();

// While it lives, LAPACK computes in one thread on this thread, whatever pool the library has.
//
// Matrices of a batch go over our threads instead. A second pool of threads on the same processors ruins both: with two
// threads of OpenBLAS, whose panels and bulges are many small products, eigenvalues of n = 500 took 7 times the
// processor time of one thread beside other programs, and no less alone up to n = 200. Bits do not depend on the number
// of threads then.
//
// MKL's count is one per thread. OpenBLAS's with its own threads is one for the process, read at the beginning of each
// product: the first of these guards sets it to 1 and the last one sets it back, so that guards on several threads
// never undo each other, and no count grows beyond what it was, which is all that would start threads. Somebody else's
// products in the same library, meanwhile, are slower, not wrong. OpenBLAS with OpenMP has no count but OpenMP's, and
// setting its own would set that of our pool, too: there ThreadLimit alone is right.
class LapackOnOneThread {
 public:
  explicit LapackOnOneThread(const Lapack& lapack);
  ~LapackOnOneThread();
  LapackOnOneThread(const LapackOnOneThread&) = delete;
  LapackOnOneThread& operator=(const LapackOnOneThread&) = delete;

 private:
  const Lapack& lapack_;
  ThreadLimit openmp_;
  int mkl_before_ = 0;
};

}  // namespace freight::cpu
