// What the replay of a plan costs beyond its kernels: plans of 1,000 tiny steps, on the backend that computes nothing
// (every nanosecond is bookkeeping) and on the CPU, where a step multiplies an 8 x 8 matrix or works on eight numbers.
// The bar is one microsecond per step.
#include <cstdio>
#include <string>
#include <vector>

#include "freight/freight.h"
#include "freight/run/plan.h"
#include "timing.h"

namespace {

using namespace freight;
constexpr int kSteps = 1000, kRepetitions = 300;

// kSteps matmuls in a chain, which no pass can merge.
Tensor matmuls(const Tensor& x, const Tensor& w) {
  Tensor y = x;
  for (int i = 0; i < kSteps; ++i) y = matmul(y, w);
  return y;
}

// kSteps / 2 pairs of a tiny matmul and a tiny pointwise region.
Tensor pairs(const Tensor& x, const Tensor& w) {
  Tensor y = x;
  for (int i = 0; i < kSteps / 2; ++i) y = tanh(matmul(y, w) * 0.5f + x);
  return y;
}

void measure(const char* what, Tensor (*f)(const Tensor&, const Tensor&), const char* backend, int64_t n) {
  auto step = compile(f, CompileOptions{.backend = backend});
  const Array x(DType::f32, {n, n}), w(DType::f32, {n, n}), y(DType::f32, {n, n});
  for (int64_t i = 0; i < n * n; ++i) {
    x.data<float>()[i] = 0.01f;
    w.data<float>()[i] = 0.1f;
  }
  const auto plan = step.plan(x, w);
  Executable& run = step.executable(x, w);
  const std::vector<Array> in{x, w}, out{y};
  const double steps = static_cast<double>(plan->steps().size());
  const double replay = best_seconds([&] { run.run(in, out); }, kRepetitions),
               call = best_seconds([&] { step(x, w); }, kRepetitions);
  std::printf("%-32s %-5s %5.0f steps  replay %7.1f ns/step  call %7.1f ns/step\n", what, backend, steps,
              replay / steps * 1e9, call / steps * 1e9);
}

}  // namespace

int main() {
  measure("matmul 8x8", matmuls, "null", 8);
  measure("matmul 8x8, tanh(y/2 + x)", pairs, "null", 8);
  measure("matmul 8x8", matmuls, "cpu", 8);
  measure("matmul 8x8, tanh(y/2 + x)", pairs, "cpu", 8);
  return 0;
}
