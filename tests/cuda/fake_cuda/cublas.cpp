// The fake cuBLAS: triangular systems on the memory of the fake device, column by column as its arguments say.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "freight/backend/ref/dense.h"

#include "tests/cuda/fake_cuda/interfaces.h"
#include "tests/cuda/fake_cuda/machine.h"

namespace {

using fake::machine;
using namespace fake::cublas;
using freight::dense::OwnedMatrix;

struct Context {
  fake::StreamState* stream = nullptr;
  void* workspace = nullptr;
  size_t bytes = 0;
} g_handle;
struct End {
  ~End() { machine().told.libraries_ended = true; }
} g_end;

// op(A) X = B or X op(A) = B, m rows and n columns of X and B.
struct Trsm {
  int side, fill, operation, diagonal, m, n, lda, ldb;
  double alpha;
  int order() const { return side == kRightSide ? n : m; }

  template <class T>
  void solve(const T* a, T* b) const {
    OwnedMatrix triangle(order(), order()), x(m, n);
    for (int j = 0; j < order(); ++j) {  // nothing of the other triangle is read, nor a diagonal of ones
      for (int i = 0; i < order(); ++i) {
        if (fill == kUpperFill ? i > j : i < j) continue;
        if (i == j && diagonal == kUnit) continue;
        machine().read(a + j * lda + i, sizeof(T));
        triangle[i][j] = a[j * lda + i];
      }
    }
    for (int j = 0; j < n; ++j) {
      machine().read(b + j * ldb, static_cast<unsigned>(static_cast<size_t>(m) * sizeof(T)));
      for (int i = 0; i < m; ++i) x[i][j] = alpha * static_cast<double>(b[j * ldb + i]);
    }
    using freight::dense::Triangle;
    freight::dense::solve_triangular({fill == kUpperFill ? Triangle::upper : Triangle::lower, operation == kTranspose,
                                      diagonal == kUnit, side == kRightSide},
                                     triangle, x);
    for (int j = 0; j < n; ++j) {
      machine().write(b + j * ldb, static_cast<unsigned>(static_cast<size_t>(m) * sizeof(T)));
      for (int i = 0; i < m; ++i) b[j * ldb + i] = static_cast<T>(x[i][j]);
    }
  }

  std::string refused(const void* handle) const {
    if (handle != &g_handle || !g_handle.stream) return "no handle, or no stream is set";
    if (m <= 0 || n <= 0) return "an extent that is not positive";
    if (lda < order() || ldb < m) return "a leading dimension is less than the rows";
    if (!machine().on_device(g_handle.workspace) || reinterpret_cast<uintptr_t>(g_handle.workspace) % 256 != 0)
      return "the workspace does not lie on the device at a multiple of 256";
    for (const int flag : {side, fill, operation, diagonal}) {
      if (flag != 0 && flag != 1) return "no such side, triangle, operation or diagonal";
    }
    return {};
  }
};

int enqueue(const char* function, std::string why, std::function<void()> work) {
  if (!why.empty()) {
    machine().fault(std::string("cublas") + function + ": " + why);
    return kInvalidValue;
  }
  machine().enqueue(g_handle.stream, [work = std::move(work), context = g_handle, function] {
    if (machine().lost()) return;
    machine().at_work = std::string("cublas") + function;
    ++machine().told.library_solutions;
    const size_t used = std::min<size_t>(context.bytes, 4096);
    machine().write(context.workspace, static_cast<unsigned>(used));
    std::memset(context.workspace, 0xff, used);
    work();
  });
  return kOk;
}

template <class T>
int one(const char* function, const void* handle, const Trsm& t, const T* a, T* b) {
  std::string why = t.refused(handle);
  if (why.empty() && (!machine().on_device(a) || !machine().on_device(b))) why = "a matrix does not lie on the device";
  return enqueue(function, why, [=] { t.solve(a, b); });
}

template <class T>
int many(const char* function, const void* handle, const Trsm& t, const T* const* a, T* const* b, int count) {
  std::string why = t.refused(handle);
  if (why.empty() && (!machine().on_device(a) || !machine().on_device(b))) why = "a list does not lie on the device";
  if (why.empty() && count < 1) why = "no matrices";
  return enqueue(function, why, [=] {
    for (int i = 0; i < count; ++i) {
      machine().read(a + i, sizeof a[i]);
      machine().read(b + i, sizeof b[i]);
      t.solve(a[i], b[i]);
    }
  });
}

}  // namespace

extern "C" {

int cublasCreate_v2(void** handle) {
  if (std::getenv("FAKE_CUBLAS_DOES_NOT_START")) return kNotInitialized;
  if (machine().forbidden_in_capture("cublasCreate")) return kInvalidValue;
  *handle = &g_handle;
  ++machine().told.live_descriptions;
  return kOk;
}
int cublasDestroy_v2(void*) {
  machine().expect_library("cublasDestroy");
  --machine().told.live_descriptions;
  return kOk;
}
int cublasSetStream_v2(void*, fake::StreamState* stream) {
  g_handle = {stream};  // a stream begins with a workspace of the library's own
  return kOk;
}
int cublasSetWorkspace_v2(void*, void* workspace, size_t bytes) {
  g_handle.workspace = workspace;
  g_handle.bytes = bytes;
  return kOk;
}
const char* cublasGetStatusString(int status) {
  return status == kNotInitialized ? "CUBLAS_STATUS_NOT_INITIALIZED" : "CUBLAS_STATUS_FAKE";
}
int cublasStrsm_v2(void* handle, int side, int fill, int operation, int diagonal, int m, int n, const float* alpha,
                   const float* a, int lda, float* b, int ldb) {
  return one("Strsm", handle, {side, fill, operation, diagonal, m, n, lda, ldb, *alpha}, a, b);
}
int cublasDtrsm_v2(void* handle, int side, int fill, int operation, int diagonal, int m, int n, const double* alpha,
                   const double* a, int lda, double* b, int ldb) {
  return one("Dtrsm", handle, {side, fill, operation, diagonal, m, n, lda, ldb, *alpha}, a, b);
}
int cublasStrsmBatched(void* handle, int side, int fill, int operation, int diagonal, int m, int n, const float* alpha,
                       const float* const* a, int lda, float* const* b, int ldb, int count) {
  return many("StrsmBatched", handle, {side, fill, operation, diagonal, m, n, lda, ldb, *alpha}, a, b, count);
}
int cublasDtrsmBatched(void* handle, int side, int fill, int operation, int diagonal, int m, int n, const double* alpha,
                       const double* const* a, int lda, double* const* b, int ldb, int count) {
  return many("DtrsmBatched", handle, {side, fill, operation, diagonal, m, n, lda, ldb, *alpha}, a, b, count);
}
}
