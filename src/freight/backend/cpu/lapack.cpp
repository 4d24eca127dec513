// See lapack.h.
#include "freight/backend/cpu/lapack.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <mutex>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr const char* kVariable = "FREIGHT_LAPACK";
constexpr const char* kWithout = "none";

// Null where the library, and those that it needs, have no such function.
template <class F>
F function_of(const Library& library, const std::string& name) {
  return reinterpret_cast<F>(dlsym(library.handle, name.c_str()));
}

// Eigenvalues of the matrix (3) with a length of the workspace that is -1, a question, in 32 bits and 2^32 - 1 in 64:
// only a library that reads 64 bits computes. (DSYEVD, argument LWORK.)
bool reads_64_bits(const LapackRoutines<double>& f64) {
  const LapackInteger one = 1, length = 0xFFFFFFFF;
  LapackInteger iwork = 0, info = 0;
  double a = 3, value = 0, work[8] = {};
  f64.syevd("N", "L", &one, &a, &one, &value, work, &length, &iwork, &one, &info, 1, 1);
  return value == 3;
}

std::string maker_of(const Library& library, const std::string& prefix) {
  std::vector<std::string> parts;
  using Version = void (*)(LapackInteger*, LapackInteger*, LapackInteger*);
  if (const auto version = function_of<Version>(library, prefix + "ilaver_")) {
    LapackInteger major = 0, minor = 0, patch = 0;
    version(&major, &minor, &patch);
    parts.push_back(cat("LAPACK ", major, ".", minor, ".", patch));
  }
  if (const auto config = function_of<const char* (*)()>(library, prefix + "openblas_get_config")) {
    const std::vector<std::string> words = split(config(), ' ');  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    parts.push_back(words.size() > 1 ? cat(words[0], " ", words[1]) : "OpenBLAS");
  }
  if (function_of<void*>(library, "MKL_Get_Version")) parts.emplace_back("MKL");
  return join(parts, ", ");
}

void look_up_threads(Lapack& l, const std::string& prefix) {
  l.set_mkl_threads_here = function_of<int (*)(int)>(l.library, "MKL_Set_Num_Threads_Local");
  constexpr int kOwnThreads = 1;
  const auto kind = function_of<int (*)()>(l.library, prefix + "openblas_get_parallel");
  if (!kind || kind() != kOwnThreads) return;
  const auto get = function_of<int (*)()>(l.library, prefix + "openblas_get_num_threads");
  const auto set = function_of<void (*)(int)>(l.library, prefix + "openblas_set_num_threads");
  if (!get || !set) return;
  l.openblas_threads = get;
  l.set_openblas_threads = set;
}

struct Pointers {
  LapackRoutines<double> f64;
  LapackRoutines<float> f32;
};

// Looks all functions up whose names begin with `prefix`.
Lapack functions_of(const Library& library, const char* prefix) {
  Lapack l;
  l.library = library;
  Pointers pointers;
  look_up(l.library, prefix, {"dsyevd_", "dgesdd_", "dgeev_", "ssyevd_", "sgesdd_", "sgeev_"}, &pointers,
          "no LAPACK, or one with other names");
  l.f64 = pointers.f64;
  l.f32 = pointers.f32;
  return l;
}

// OpenBLAS, as SciPy's packages have it (scipy-openblas32), has a prefix before all names.
Lapack with_functions(const Library& library) {
  Lapack plain = functions_of(library, "");
  std::string prefix;
  if (!plain.library.why.empty()) {
    prefix = "scipy_";
    Lapack prefixed = functions_of(library, prefix.c_str());
    if (!prefixed.library.why.empty()) return plain;
    plain = prefixed;
  }
  look_up_threads(plain, prefix);
  const LapackOnOneThread one(plain);
  plain.wide_integers = reads_64_bits(plain.f64);
  plain.maker = maker_of(library, prefix);
  return plain;
}

// OpenBLAS's guards that live, and its count of threads before.
struct OpenBlasGuards {
  std::mutex mutex;
  int count = 0, threads_before = 0;
};
OpenBlasGuards& openblas_guards() {
  static OpenBlasGuards guards;
  return guards;
}

}  // namespace

Lapack load_lapack(const std::string& named) {
  Lapack l;
  if (named == kWithout) {
    l.library.why = cat(kVariable, "=", kWithout);
    return l;
  }
  if constexpr (std::endian::native != std::endian::little) {
    l.library.why = "the processor is big-endian, and the width of a library's integers is not known";
    return l;
  }
  const std::vector<std::string> usual = {"liblapack.so.3", "libopenblas.so.0"};
  l.library = find_library(named.empty() ? usual : std::vector{named}, LibraryKind::system);
  if (l.library.handle) l = with_functions(l.library);
  if (l.usable()) return l;
  if (!named.empty()) {
    fail(ErrorKind::usage, kVariable, "cannot be used: ", l.library.why,
         "; expected the file of a LAPACK library, like liblapack.so.3 of Debian's libopenblas0-pthread, or ", kWithout,
         " for the reference loops, got '", named, "'");
  }
  l.library.why += cat("; install libopenblas0-pthread, or name a library's file in ", kVariable);
  if (l.library.broken) logging::warn(cat("LAPACK is not used: ", l.library.why));
  return l;
}

const Lapack& lapack() {
  static const Lapack kLoaded = load_lapack(env::get(kVariable));
  return kLoaded;
}

std::string lapack_text() {
  try {
    const Lapack& l = lapack();
    if (!l.usable()) return cat("the reference loops, which are slow: ", l.library.why);
    std::vector<std::string> parts;
    if (!l.maker.empty()) parts.push_back(l.maker);
    if (l.wide_integers) parts.emplace_back("integers of 64 bits");
    return cat(l.library.path, parts.empty() ? "" : cat(" (", join(parts, ", "), ")"));
  } catch (const Error& e) {
    return cat("nothing: ", e.what());
  }
}

LapackOnOneThread::LapackOnOneThread(const Lapack& lapack) : lapack_(lapack), openmp_(1) {
  if (lapack.set_mkl_threads_here) mkl_before_ = lapack.set_mkl_threads_here(1);
  if (!lapack.set_openblas_threads) return;
  OpenBlasGuards& guards = openblas_guards();
  const std::lock_guard lock(guards.mutex);
  if (guards.count++ > 0) return;
  guards.threads_before = lapack.openblas_threads();
  lapack.set_openblas_threads(1);
}

LapackOnOneThread::~LapackOnOneThread() {
  if (lapack_.set_mkl_threads_here) lapack_.set_mkl_threads_here(mkl_before_);
  if (!lapack_.set_openblas_threads) return;
  OpenBlasGuards& guards = openblas_guards();
  const std::lock_guard lock(guards.mutex);
  if (--guards.count == 0) lapack_.set_openblas_threads(guards.threads_before);
}

}  // namespace freight::cpu
