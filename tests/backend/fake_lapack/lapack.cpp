// A stand-in for a LAPACK library with OpenBLAS's functions about threads, whose integers are of the type INTEGER. It
// answers how long workspaces should be, finds the eigenvalue of a 1 x 1 matrix, and of no larger one: its iterations
// do not converge (info 2). WITHOUT_GEEV leaves dgeev out; PREFIX and SUFFIX spell the names as Python packages do.
#include <cstddef>
#include <cstdint>

#ifndef PREFIX
#define PREFIX
#define SUFFIX
#endif
#define JOINED(prefix, name, suffix) prefix##name##suffix
#define EXPANDED(prefix, name, suffix) JOINED(prefix, name, suffix)
#define NAMED(name) EXPANDED(PREFIX, name, SUFFIX)

namespace {

int threads = 7;

template <class T>
void syevd(const INTEGER* n, const T* a, T* w, T* work, const INTEGER* lwork, const INTEGER* liwork, INTEGER* info) {
  *info = 0;
  if (*lwork == -1 || *liwork == -1) {
    work[0] = static_cast<T>(1 + 6 * *n + 2 * *n * *n);
  } else if (*n == 1) {
    w[0] = a[0];
  } else {
    *info = 2;
  }
}

template <class T>
void gesdd(T* work, const INTEGER* lwork, INTEGER* info) {
  *info = *lwork == -1 ? 0 : 2;
  if (*lwork == -1) work[0] = 64;
}

}  // namespace

// NOLINTBEGIN(bugprone-easily-swappable-parameters)
extern "C" {

void NAMED(dsyevd_)(const char*, const char*, const INTEGER* n, double* a, const INTEGER*, double* w, double* work,
                    const INTEGER* lwork, INTEGER*, const INTEGER* liwork, INTEGER* info, size_t, size_t) {
  syevd(n, a, w, work, lwork, liwork, info);
}
void NAMED(ssyevd_)(const char*, const char*, const INTEGER* n, float* a, const INTEGER*, float* w, float* work,
                    const INTEGER* lwork, INTEGER*, const INTEGER* liwork, INTEGER* info, size_t, size_t) {
  syevd(n, a, w, work, lwork, liwork, info);
}
void NAMED(dgesdd_)(const char*, const INTEGER*, const INTEGER*, double*, const INTEGER*, double*, double*,
                    const INTEGER*, double*, const INTEGER*, double* work, const INTEGER* lwork, INTEGER*,
                    INTEGER* info, size_t) {
  gesdd(work, lwork, info);
}
void NAMED(sgesdd_)(const char*, const INTEGER*, const INTEGER*, float*, const INTEGER*, float*, float*, const INTEGER*,
                    float*, const INTEGER*, float* work, const INTEGER* lwork, INTEGER*, INTEGER* info, size_t) {
  gesdd(work, lwork, info);
}
#ifndef WITHOUT_GEEV
void NAMED(dgeev_)(const char*, const char*, const INTEGER*, double*, const INTEGER*, double*, double*, double*,
                   const INTEGER*, double*, const INTEGER*, double* work, const INTEGER* lwork, INTEGER* info, size_t,
                   size_t) {
  gesdd(work, lwork, info);
}
#endif
void NAMED(sgeev_)(const char*, const char*, const INTEGER*, float*, const INTEGER*, float*, float*, float*,
                   const INTEGER*, float*, const INTEGER*, float* work, const INTEGER* lwork, INTEGER* info, size_t,
                   size_t) {
  gesdd(work, lwork, info);
}

int NAMED(openblas_get_parallel)() { return 1; }  // threads of its own
int NAMED(openblas_get_num_threads)() { return threads; }
void NAMED(openblas_set_num_threads)(int count) { threads = count; }

}  // extern "C"
// NOLINTEND(bugprone-easily-swappable-parameters)
