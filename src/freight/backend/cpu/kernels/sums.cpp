// See sums.h. Plain loops that the compiler vectorizes.
#include "freight/backend/cpu/kernels/sums.h"

#include "freight/base/error.h"

namespace freight::cpu {

namespace {

// By Knuth's two-sum.
[[gnu::always_inline]] inline void add_vectors(double* acc, double* low, const double* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const double sum = acc[i] + x[i], part = sum - acc[i];
    low[i] += (acc[i] - (sum - part)) + (x[i] - part);
    acc[i] = sum;
  }
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] void add_avx2(double* acc, double* low, const double* x, int64_t n) {
  add_vectors(acc, low, x, n);
}
#endif

template <class T>
double value_at(const char* x) {
  if constexpr (kIsHalf<T>) {
    return static_cast<double>(static_cast<float>(*reinterpret_cast<const T*>(x)));
  } else {
    return static_cast<double>(*reinterpret_cast<const T*>(x));
  }
}

// The sum of the squares of n differences, in halves, so that the error grows with the logarithm of n.
template <class T>
double squares(const char* x, int64_t step, int64_t n, double mean) {
  constexpr int64_t kBlock = 256;
  if (n > kBlock) {
    const int64_t half = n / 16 * 8;
    return squares<T>(x, step, half, mean) + squares<T>(x + half * step, step, n - half, mean);
  }
  double sums[8] = {};
  int64_t i = 0;
  const auto add = [&](auto apart) {
    for (; i + 8 <= n; i += 8) {
      for (int64_t k = 0; k < 8; ++k) {
        const double d = value_at<T>(x + (i + k) * apart) - mean;
        sums[k] += d * d;
      }
    }
  };
  step == sizeof(T) ? add(std::integral_constant<int64_t, sizeof(T)>()) : add(step);
  for (; i < n; ++i) {
    const double d = value_at<T>(x + i * step) - mean;
    sums[i % 8] += d * d;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

template <class T>
void add_squares_of(int64_t n, char* const* at, const int64_t* steps) {
  char *sum = at[0], *mean = at[1], *x = at[2];
  if (steps[0] == 0 && steps[1] == 0) {
    *reinterpret_cast<double*>(sum) += squares<T>(x, steps[2], n, *reinterpret_cast<double*>(mean));
    return;
  }
  for (int64_t i = 0; i < n; ++i, sum += steps[0], mean += steps[1], x += steps[2]) {
    const double d = value_at<T>(x) - *reinterpret_cast<double*>(mean);
    *reinterpret_cast<double*>(sum) += d * d;
  }
}

}  // namespace

void add_exactly(double* acc, double* low, const double* x, int64_t n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return add_avx2(acc, low, x, n);
#endif
  add_vectors(acc, low, x, n);
}

void add_squares(DType dtype, int64_t n, char* const* at, const int64_t* steps) {
  switch (dtype) {
    case DType::f32: return add_squares_of<float>(n, at, steps);
    case DType::f64: return add_squares_of<double>(n, at, steps);
    case DType::bf16: return add_squares_of<BFloat16>(n, at, steps);
    case DType::f16: return add_squares_of<Float16>(n, at, steps);
    default: FREIGHT_CHECK(false, "no squares of ", info(dtype).name);
  }
}

}  // namespace freight::cpu
