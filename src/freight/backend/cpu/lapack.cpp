// See lapack.h.
#include "freight/backend/cpu/lapack.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <mutex>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/python_packages.h"
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

// OpenBLAS of Python packages has a prefix before all names (scipy_dsyevd_), and NumPy's, with integers of 64 bits, a
// suffix behind them (dsyevd_64_, scipy_dsyevd_64_).
struct Spelling {
  const char* prefix;
  const char* suffix;
  std::string of(const char* name) const { return cat(prefix, name, suffix); }
};
constexpr Spelling kSpellings[] = {{"", ""}, {"scipy_", ""}, {"", "64_"}, {"scipy_", "64_"}};

// Eigenvalues of the matrix (3) with a length of the workspace that is -1, a question, in 32 bits and 2^32 - 1 in 64:
// only a library that reads 64 bits computes. (DSYEVD, argument LWORK.)
bool reads_64_bits(const LapackRoutines<double>& f64) {
  const LapackInteger one = 1, length = 0xFFFFFFFF;
  LapackInteger iwork = 0, info = 0;
  double a = 3, value = 0, work[8] = {};
  f64.syevd("N", "L", &one, &a, &one, &value, work, &length, &iwork, &one, &info, 1, 1);
  return value == 3;
}

std::string maker_of(const Library& library, const Spelling& names) {
  std::vector<std::string> parts;
  using Version = void (*)(LapackInteger*, LapackInteger*, LapackInteger*);
  if (const auto version = function_of<Version>(library, names.of("ilaver_"))) {
    LapackInteger major = 0, minor = 0, patch = 0;
    version(&major, &minor, &patch);
    parts.push_back(cat("LAPACK ", major, ".", minor, ".", patch));
  }
  if (const auto config = function_of<const char* (*)()>(library, names.of("openblas_get_config"))) {
    const std::vector<std::string> words = split(config(), ' ');  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    parts.push_back(words.size() > 1 ? cat(words[0], " ", words[1]) : "OpenBLAS");
  }
  if (function_of<void*>(library, "MKL_Get_Version")) parts.emplace_back("MKL");
  return join(parts, ", ");
}

void look_up_threads(Lapack& l, const Spelling& names) {
  l.set_mkl_threads_here = function_of<int (*)(int)>(l.library, "MKL_Set_Num_Threads_Local");
  constexpr int kOwnThreads = 1;
  const auto kind = function_of<int (*)()>(l.library, names.of("openblas_get_parallel"));
  if (!kind || kind() != kOwnThreads) return;
  const auto get = function_of<int (*)()>(l.library, names.of("openblas_get_num_threads"));
  const auto set = function_of<void (*)(int)>(l.library, names.of("openblas_set_num_threads"));
  if (!get || !set) return;
  l.openblas_threads = get;
  l.set_openblas_threads = set;
}

struct Pointers {
  LapackRoutines<double> f64;
  LapackRoutines<float> f32;
};

// The routines under these names. What is missing is in `why`.
Lapack functions_of(const Library& library, const Spelling& names) {
  Lapack l;
  l.library = library;
  Pointers pointers;
  const std::vector<std::string> spelled = {names.of("dsyevd_"), names.of("dgesdd_"), names.of("dgeev_"),
                                            names.of("ssyevd_"), names.of("sgesdd_"), names.of("sgeev_")};
  look_up(l.library, "",
          {spelled[0].c_str(), spelled[1].c_str(), spelled[2].c_str(), spelled[3].c_str(), spelled[4].c_str(),
           spelled[5].c_str()},
          &pointers, "no LAPACK, or one with other names");
  l.f64 = pointers.f64;
  l.f32 = pointers.f32;
  return l;
}

// The first spelling of the names that the library has; what the plain one lacks where it has none.
Lapack with_functions(const Library& library) {
  Lapack l = functions_of(library, kSpellings[0]);
  const Spelling* names = &kSpellings[0];
  for (const Spelling& other : kSpellings) {
    if (l.library.why.empty()) break;
    Lapack found = functions_of(library, other);
    if (!found.library.why.empty()) continue;
    l = found;
    names = &other;
  }
  if (!l.library.why.empty()) return l;
  look_up_threads(l, *names);
  const LapackOnOneThread one(l);
  l.wide_integers = reads_64_bits(l.f64);
  l.maker = maker_of(library, *names);
  return l;
}

// The system's LAPACK, then OpenBLAS of the Python packages NumPy and SciPy.
std::vector<std::string> usual_names() {
  std::vector<std::string> names = {"liblapack.so.3", "libopenblas.so.0"};
  for (const char* package : {"numpy.libs", "scipy.libs"}) {
    const auto files = files_in(active_python_packages(), cat(package, "/lib*openblas*.so*"));
    names.insert(names.end(), files.begin(), files.end());
  }
  return names;
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
    l.library.why = "the CPU is big-endian, and the width of a library's integers is not known";
    return l;
  }
  l.library = find_library(named.empty() ? usual_names() : std::vector{named}, LibraryKind::system);
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
