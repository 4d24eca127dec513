// The fake cuSOLVER: factorizes on the memory of the fake device, by the plain loops of the reference backend, what its
// arguments say word by word, column by column, and refuses what the library would. Letters are the library's: m rows,
// n columns, lda elements from one column to the next.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "freight/backend/ref/dense.h"

#include "tests/cuda/fake_cuda/interfaces.h"
#include "tests/cuda/fake_cuda/machine.h"
#include "tests/cuda/fake_cuda/numbers.h"

namespace {

using fake::machine;
using namespace fake::cusolver;
using freight::dense::Matrix;
using freight::dense::OwnedMatrix;

struct Context {
  fake::StreamState* stream = nullptr;
  bool same_bits = false;
} g_handle;
int g_params;
struct End {
  ~End() { machine().told.libraries_ended = true; }
} g_end;

// The library's workspaces: numbers that differ for each function and size, so that one function's does not fit
// another's.
struct Sizes {
  size_t device = 0, host = 0;
};
Sizes sizes_of(const std::string& function, int64_t m, int64_t n) {
  const auto elements = static_cast<size_t>(m * 3 + n * 2 + static_cast<int64_t>(function.size()));
  const bool iterates = function == "Xsyevd" || function == "Xgesvd" || function == "Xgeev";
  return {elements * 8, iterates ? elements * 4 : 0};
}

bool is_type(int type) { return type == fake::kF32 || type == fake::kF64; }

// Arguments of a call as they are checked; the first mistake counts.
class Check {
 public:
  Check(std::string function, const void* handle, const void* params) : function_(std::move(function)) {
    need(handle == &g_handle, "no handle");
    need(params == &g_params, "no params");
    need(g_handle.stream != nullptr, "no stream is set");
    need(g_handle.same_bits, "results may differ from run to run");
  }
  void need(bool holds, const std::string& otherwise) {
    if (!holds && why_.empty()) why_ = otherwise;
  }
  void matrix(const void* a, int type, int64_t rows, int64_t columns, int64_t lead) {
    need(is_type(type), "a data type that is no real one");
    need(rows >= 0 && columns >= 0, "a negative extent");
    need(lead >= std::max<int64_t>(1, rows), "a leading dimension is less than the rows");
    const auto size = static_cast<uintptr_t>(fake::size_of(type));
    need(machine().on_device(a) && reinterpret_cast<uintptr_t>(a) % size == 0, "a matrix does not lie on the device");
  }
  void on_device(const void* p, const char* what) {
    need(machine().on_device(p), std::string(what) + " is not on the device");
  }
  void workspace(const Sizes& s, const void* device, size_t device_bytes, const void* host, size_t host_bytes) {
    need(device_bytes >= s.device, "the workspace on the device is too small");
    need(s.device == 0 || (machine().on_device(device) && reinterpret_cast<uintptr_t>(device) % 16 == 0),
         "the workspace does not lie on the device at a multiple of 16");
    need(host_bytes >= s.host && (s.host == 0 || (host && !machine().on_device(host))),
         "the workspace on the host is too small or not there");
    if (s.host > 0 && machine().forbidden_in_capture(function_.c_str())) need(false, "it waits for the device");
  }
  int enqueue(std::function<void()> work) {
    if (std::getenv("FAKE_CUSOLVER_FAILS")) return kExecutionFailed;
    if (!why_.empty()) {
      machine().fault("cusolverDn" + function_ + ": " + why_);
      return kInvalidValue;
    }
    machine().enqueue(g_handle.stream, [work = std::move(work), name = function_] {
      if (machine().lost()) return;
      machine().at_work = "cusolverDn" + name;
      ++machine().told.library_factorizations;
      work();
    });
    return kOk;
  }

 private:
  std::string function_, why_;
};

int query(const std::string& function, int64_t m, int64_t n, size_t* device, size_t* host) {
  if (machine().forbidden_in_capture((function + "_bufferSize").c_str())) return kInvalidValue;
  const Sizes s = sizes_of(function, m, n);
  *device = s.device;
  *host = s.host;
  return kOk;
}

// Matrices on the device, column by column, as double ones of the host, row by row.
void read_matrix(const void* from, int type, int64_t rows, int64_t columns, int64_t lead, Matrix to) {
  const size_t size = fake::size_of(type);
  for (int64_t j = 0; j < columns; ++j) {
    machine().read(static_cast<const char*>(from) + static_cast<size_t>(j * lead) * size,
                   static_cast<unsigned>(static_cast<size_t>(rows) * size));
    for (int64_t i = 0; i < rows; ++i) to[i][j] = fake::load(type, from, static_cast<size_t>(j * lead + i));
  }
}
void write_numbers(void* to, int type, const double* from, int64_t count) {
  if (count == 0) return;
  machine().write(to, static_cast<unsigned>(static_cast<size_t>(count) * fake::size_of(type)));
  for (int64_t i = 0; i < count; ++i) fake::store(type, to, static_cast<size_t>(i), from[i]);
}
void write_matrix(void* to, int type, int64_t lead, Matrix from) {
  std::vector<double> column(static_cast<size_t>(from.rows));
  for (int64_t j = 0; j < from.columns; ++j) {
    for (int64_t i = 0; i < from.rows; ++i) column[static_cast<size_t>(i)] = from[i][j];
    write_numbers(static_cast<char*>(to) + static_cast<size_t>(j * lead) * fake::size_of(type), type, column.data(),
                  from.rows);
  }
}
void write_info(int* info, int value) {
  machine().write(info, sizeof *info);
  *info = value;
}
// A call leaves no workspace as it was.
void use(void* workspace, size_t bytes) {
  if (bytes == 0) return;
  machine().write(workspace, static_cast<unsigned>(bytes));
  std::memset(workspace, 0xff, bytes);
}
bool does_not_converge() { return std::getenv("FAKE_CUSOLVER_DOES_NOT_CONVERGE") != nullptr; }

// The reflections of geqrf by their vectors below the diagonal and tau. Applied to the first columns of the unit matrix
// from the last on, they make Q.
void make_q(Matrix v, const std::vector<double>& tau, Matrix q) {
  for (int64_t i = 0; i < q.rows; ++i) {
    for (int64_t j = 0; j < q.columns; ++j) q[i][j] = i == j;
  }
  for (auto k = static_cast<int64_t>(tau.size()); k-- > 0;) {
    std::vector<double> reflector(static_cast<size_t>(q.rows - k), 1);
    for (int64_t i = k + 1; i < q.rows; ++i) reflector[static_cast<size_t>(i - k)] = v[i][k];
    freight::dense::reflect_rows(q, k, 0, reflector.data(), tau[static_cast<size_t>(k)]);
  }
}

template <class T>
int orgqr(const char* function, int type, void* handle, int m, int n, int k, T* a, int lda, const T* tau, T* work,
          int count, int* info) {
  Check c(function, handle, &g_params);
  c.matrix(a, type, m, n, lda);
  c.need(n <= m && k <= n, "need m >= n >= k");
  c.on_device(tau, "tau");
  c.on_device(info, "info");
  const Sizes s = sizes_of(function, m, n);
  c.workspace(s, work, static_cast<size_t>(count) * sizeof(T), nullptr, 0);
  return c.enqueue([=] {
    use(work, s.device);
    OwnedMatrix v(m, k), q(m, n);
    read_matrix(a, type, m, k, lda, v);
    std::vector<double> factors(static_cast<size_t>(k));
    if (k > 0) machine().read(tau, static_cast<unsigned>(static_cast<size_t>(k) * sizeof(T)));
    std::copy_n(tau, k, factors.begin());
    make_q(v, factors, q);
    write_matrix(a, type, lda, q);
    write_info(info, 0);
  });
}

void eigenvalues(int jobz, int uplo, int64_t n, int type, void* a, int64_t lda, void* w, int* info) {
  OwnedMatrix x(n, n), vectors(n, n);
  const size_t size = fake::size_of(type);
  for (int64_t j = 0; j < n; ++j) {  // nothing of the other triangle is read
    const int64_t first = uplo == kUpperFill ? 0 : j, end = uplo == kUpperFill ? j + 1 : n;
    machine().read(static_cast<char*>(a) + static_cast<size_t>(j * lda + first) * size,
                   static_cast<unsigned>(static_cast<size_t>(end - first) * size));
    for (int64_t i = first; i < end; ++i) x[i][j] = fake::load(type, a, static_cast<size_t>(j * lda + i));
  }
  std::vector<double> values(static_cast<size_t>(n));
  freight::dense::eigh(x, uplo == kUpperFill ? freight::dense::Triangle::upper : freight::dense::Triangle::lower,
                       values.data(), vectors);
  write_numbers(w, type, values.data(), n);
  if (jobz == kValuesOnly) freight::dense::fill(vectors, std::nan(""));  // what was there is lost
  write_matrix(a, type, lda, vectors);
  write_info(info, does_not_converge() ? 1 : 0);
}

}  // namespace

extern "C" {

int cusolverGetVersion(int* version) {
  *version = 12004;
  return kOk;
}
int cusolverDnCreate(void** handle) {
  if (std::getenv("FAKE_CUSOLVER_DOES_NOT_START")) return kNotInitialized;
  if (machine().forbidden_in_capture("cusolverDnCreate")) return kInvalidValue;
  *handle = &g_handle;
  ++machine().told.live_descriptions;
  return kOk;
}
int cusolverDnDestroy(void*) {
  machine().expect_library("cusolverDnDestroy");
  --machine().told.live_descriptions;
  g_handle = {};
  return kOk;
}
int cusolverDnSetStream(void* handle, fake::StreamState* stream) {
  if (handle != &g_handle) return kNotInitialized;
  g_handle.stream = stream;
  return kOk;
}
#ifndef FAKE_CUSOLVER_IS_ANCIENT
int cusolverDnSetDeterministicMode(void* handle, int mode) {
  if (handle != &g_handle) return kNotInitialized;
  g_handle.same_bits = mode == kSameBits;
  return kOk;
}
#endif
int cusolverDnCreateParams(void** params) {
  *params = &g_params;
  ++machine().told.live_descriptions;
  return kOk;
}
int cusolverDnDestroyParams(void*) {
  machine().expect_library("cusolverDnDestroyParams");
  --machine().told.live_descriptions;
  return kOk;
}

int cusolverDnXgetrf_bufferSize(void*, void*, int64_t m, int64_t n, int, const void*, int64_t, int, size_t* device,
                                size_t* host) {
  return query("Xgetrf", m, n, device, host);
}
int cusolverDnXgetrf(void* handle, void* params, int64_t m, int64_t n, int type, void* a, int64_t lda, int64_t* ipiv,
                     int compute, void* device, size_t device_bytes, void* host, size_t host_bytes, int* info) {
  Check c("Xgetrf", handle, params);
  c.matrix(a, type, m, n, lda);
  c.need(compute == type, "it is to compute in another type");
  c.on_device(ipiv, "ipiv");
  c.on_device(info, "info");
  c.workspace(sizes_of("Xgetrf", m, n), device, device_bytes, host, host_bytes);
  return c.enqueue([=] {
    use(device, device_bytes);
    OwnedMatrix x(m, n);
    read_matrix(a, type, m, n, lda, x);
    std::vector<int64_t> pivots(static_cast<size_t>(std::min(m, n))), order(static_cast<size_t>(m));
    const int64_t zero = freight::dense::lu(x, pivots.data(), order.data());
    write_matrix(a, type, lda, x);
    machine().write(ipiv, static_cast<unsigned>(pivots.size() * sizeof(int64_t)));
    for (size_t k = 0; k < pivots.size(); ++k) ipiv[k] = pivots[k] + 1;
    write_info(info, static_cast<int>(zero + 1));
  });
}

int cusolverDnXpotrf_bufferSize(void*, void*, int, int64_t n, int, const void*, int64_t, int, size_t* device,
                                size_t* host) {
  return query("Xpotrf", n, n, device, host);
}
// A NaN is no pivot that is not positive, as comparisons say, and the other triangle is spoilt.
int cusolverDnXpotrf(void* handle, void* params, int uplo, int64_t n, int type, void* a, int64_t lda, int compute,
                     void* device, size_t device_bytes, void* host, size_t host_bytes, int* info) {
  Check c("Xpotrf", handle, params);
  c.matrix(a, type, n, n, lda);
  c.need(compute == type, "it is to compute in another type");
  c.need(uplo == kLowerFill || uplo == kUpperFill, "no triangle");
  c.on_device(info, "info");
  c.workspace(sizes_of("Xpotrf", n, n), device, device_bytes, host, host_bytes);
  return c.enqueue([=] {
    use(device, device_bytes);
    OwnedMatrix x(n, n);
    read_matrix(a, type, n, n, lda, x);
    const auto at = [&](int64_t i, int64_t j) -> double& { return uplo == kUpperFill ? x[j][i] : x[i][j]; };
    int bad = 0;
    for (int64_t j = 0; j < n && bad == 0; ++j) {
      for (int64_t i = j; i < n; ++i) {
        for (int64_t p = 0; p < j; ++p) at(i, j) -= at(i, p) * at(j, p);
        if (i == j && at(j, j) <= 0) bad = static_cast<int>(j + 1);
        at(i, j) = i == j ? std::sqrt(at(j, j)) : at(i, j) / at(j, j);
        if (i > j) at(j, i) = -7;
      }
    }
    write_matrix(a, type, lda, x);
    write_info(info, bad);
  });
}

int cusolverDnXgeqrf_bufferSize(void*, void*, int64_t m, int64_t n, int, const void*, int64_t, int, const void*, int,
                                size_t* device, size_t* host) {
  return query("Xgeqrf", m, n, device, host);
}
int cusolverDnXgeqrf(void* handle, void* params, int64_t m, int64_t n, int type, void* a, int64_t lda, int type_of_tau,
                     void* tau, int compute, void* device, size_t device_bytes, void* host, size_t host_bytes,
                     int* info) {
  Check c("Xgeqrf", handle, params);
  c.matrix(a, type, m, n, lda);
  c.need(compute == type && type_of_tau == type, "it is to compute in another type");
  c.on_device(tau, "tau");
  c.on_device(info, "info");
  c.workspace(sizes_of("Xgeqrf", m, n), device, device_bytes, host, host_bytes);
  return c.enqueue([=] {
    use(device, device_bytes);
    OwnedMatrix x(m, n);
    read_matrix(a, type, m, n, lda, x);
    const int64_t k = std::min(m, n);
    std::vector<double> factors(static_cast<size_t>(k)), v(static_cast<size_t>(m));
    for (int64_t j = 0; j < k; ++j) {
      factors[static_cast<size_t>(j)] = freight::dense::eliminate_column(x, j, v.data());
      for (int64_t i = j + 1; i < m; ++i) x[i][j] = v[static_cast<size_t>(i - j)];
    }
    write_matrix(a, type, lda, x);
    write_numbers(tau, type, factors.data(), k);
    write_info(info, 0);
  });
}
int cusolverDnSorgqr_bufferSize(void*, int m, int n, int, const float*, int, const float*, int* count) {
  *count = static_cast<int>((sizes_of("Sorgqr", m, n).device + 3) / 4);
  return kOk;
}
int cusolverDnDorgqr_bufferSize(void*, int m, int n, int, const double*, int, const double*, int* count) {
  *count = static_cast<int>((sizes_of("Dorgqr", m, n).device + 7) / 8);
  return kOk;
}
int cusolverDnSorgqr(void* handle, int m, int n, int k, float* a, int lda, const float* tau, float* work, int count,
                     int* info) {
  return orgqr("Sorgqr", fake::kF32, handle, m, n, k, a, lda, tau, work, count, info);
}
int cusolverDnDorgqr(void* handle, int m, int n, int k, double* a, int lda, const double* tau, double* work, int count,
                     int* info) {
  return orgqr("Dorgqr", fake::kF64, handle, m, n, k, a, lda, tau, work, count, info);
}

int cusolverDnXsyevd_bufferSize(void*, void*, int, int, int64_t n, int, const void*, int64_t, int, const void*, int,
                                size_t* device, size_t* host) {
  return query("Xsyevd", n, n, device, host);
}
int cusolverDnXsyevd(void* handle, void* params, int jobz, int uplo, int64_t n, int type, void* a, int64_t lda,
                     int type_of_w, void* w, int compute, void* device, size_t device_bytes, void* host,
                     size_t host_bytes, int* info) {
  Check c("Xsyevd", handle, params);
  c.matrix(a, type, n, n, lda);
  c.need(compute == type && type_of_w == type, "it is to compute in another type");
  c.need(jobz == kValuesOnly || jobz == kWithVectors, "no such job");
  c.need(uplo == kLowerFill || uplo == kUpperFill, "no triangle");
  c.on_device(w, "w");
  c.on_device(info, "info");
  c.workspace(sizes_of("Xsyevd", n, n), device, device_bytes, host, host_bytes);
  return c.enqueue([=] {
    use(device, device_bytes);
    eigenvalues(jobz, uplo, n, type, a, lda, w, info);
  });
}

int cusolverDnXgesvd_bufferSize(void*, void*, signed char, signed char, int64_t m, int64_t n, int, const void*, int64_t,
                                int, const void*, int, const void*, int64_t, int, const void*, int64_t, int,
                                size_t* device, size_t* host) {
  if (m < n) return kInvalidValue;
  return query("Xgesvd", m, n, device, host);
}
int cusolverDnXgesvd(void* handle, void* params, signed char jobu, signed char jobvt, int64_t m, int64_t n, int type,
                     void* a, int64_t lda, int type_of_s, void* s, int type_of_u, void* u, int64_t ldu, int type_of_v,
                     void* vt, int64_t ldvt, int compute, void* device, size_t device_bytes, void* host,
                     size_t host_bytes, int* info) {
  Check c("Xgesvd", handle, params);
  c.matrix(a, type, m, n, lda);
  c.need(compute == type && type_of_s == type && type_of_u == type && type_of_v == type,
         "it is to compute in another type");
  c.need(m >= n, "need m >= n");
  c.need(jobu == jobvt && std::strchr("ASN", jobu), "no such job is played");
  const int64_t u_columns = jobu == 'A' ? m : n;
  if (jobu != 'N') {
    c.matrix(u, type, m, u_columns, ldu);
    c.matrix(vt, type, n, n, ldvt);
  }
  c.on_device(s, "s");
  c.on_device(info, "info");
  c.workspace(sizes_of("Xgesvd", m, n), device, device_bytes, host, host_bytes);
  return c.enqueue([=] {
    use(device, device_bytes);
    OwnedMatrix x(m, n), left(m, u_columns), right(n, n);
    read_matrix(a, type, m, n, lda, x);
    std::vector<double> values(static_cast<size_t>(n));
    freight::dense::svd(x, left, values.data(), right);
    write_numbers(s, type, values.data(), n);
    if (jobu != 'N') {
      write_matrix(u, type, ldu, left);
      write_matrix(vt, type, ldvt, right);
    }
    freight::dense::fill(x, std::nan(""));
    write_matrix(a, type, lda, x);
    write_info(info, does_not_converge() ? 1 : 0);
  });
}

#ifndef FAKE_CUSOLVER_IS_OLD
int cusolverDnXsyevBatched_bufferSize(void*, void*, int, int, int64_t n, int, const void*, int64_t, int, const void*,
                                      int, size_t* device, size_t* host, int64_t count) {
  return query("XsyevBatched", n, n * count, device, host);
}
int cusolverDnXsyevBatched(void* handle, void* params, int jobz, int uplo, int64_t n, int type, void* a, int64_t lda,
                           int type_of_w, void* w, int compute, void* device, size_t device_bytes, void* host,
                           size_t host_bytes, int* info, int64_t count) {
  Check c("XsyevBatched", handle, params);
  c.matrix(a, type, n, n, lda);
  c.need(compute == type && type_of_w == type, "it is to compute in another type");
  c.need(uplo == kLowerFill || uplo == kUpperFill, "no triangle");
  c.need(count > 0, "no matrices");
  c.on_device(w, "w");
  c.on_device(info, "info");
  c.workspace(sizes_of("XsyevBatched", n, n * count), device, device_bytes, host, host_bytes);
  return c.enqueue([=] {
    use(device, device_bytes);
    const auto size = static_cast<int64_t>(fake::size_of(type));
    for (int64_t b = 0; b < count; ++b) {
      eigenvalues(jobz, uplo, n, type, static_cast<char*>(a) + b * lda * n * size, lda,
                  static_cast<char*>(w) + b * n * size, info + b);
    }
  });
}

int cusolverDnXgeev_bufferSize(void*, void*, int left, int, int64_t n, int, const void*, int64_t, int, const void*, int,
                               const void*, int64_t, int, const void*, int64_t, int, size_t* device, size_t* host) {
  if (left != kValuesOnly) return kInvalidValue;
  return query("Xgeev", n, n, device, host);
}
int cusolverDnXgeev(void* handle, void* params, int left, int right, int64_t n, int type, void* a, int64_t lda,
                    int type_of_w, void* w, int type_of_vl, void*, int64_t ldvl, int type_of_vr, void* vr, int64_t ldvr,
                    int compute, void* device, size_t device_bytes, void* host, size_t host_bytes, int* info) {
  Check c("Xgeev", handle, params);
  c.matrix(a, type, n, n, lda);
  c.need(compute == type && type_of_w == type && type_of_vl == type && type_of_vr == type,
         "it is to compute in another type");
  c.need(left == kValuesOnly, "there are no left eigenvectors");
  c.need(ldvl >= 1, "a leading dimension is less than 1");
  if (right == kWithVectors) c.matrix(vr, type, n, n, ldvr);
  c.on_device(w, "w");
  c.on_device(info, "info");
  c.workspace(sizes_of("Xgeev", n, n), device, device_bytes, host, host_bytes);
  return c.enqueue([=] {
    use(device, device_bytes);
    OwnedMatrix x(n, n), re(n, n), im(n, n);
    read_matrix(a, type, n, n, lda, x);
    std::vector<double> values(static_cast<size_t>(2 * n));
    freight::dense::eig(x, values.data(), values.data() + n, re, im);
    for (int64_t j = 0; j + 1 < n; ++j) {  // the first of a pair has real parts, the second imaginary ones
      if (values[static_cast<size_t>(n + j)] <= 0) continue;
      for (int64_t i = 0; i < n; ++i) re[i][j + 1] = im[i][j];
    }
    write_numbers(w, type, values.data(), 2 * n);
    if (right == kWithVectors) write_matrix(vr, type, ldvr, re);
    write_info(info, does_not_converge() ? 1 : 0);
  });
}
#endif
}
