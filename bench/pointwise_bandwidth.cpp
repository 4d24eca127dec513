// Fused pointwise regions on tensors larger than cache against the machine's copy bandwidth, and the cost of a call on
// a tiny region. Results that the plan would stream (larger than cache) are streamed here too. usage:
// pointwise_bandwidth [million elements]. Prints GB/s (bytes read + written) and the share of copy.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "freight/backend/cpu/kernels/tile.h"
#include "freight/base/array.h"
#include "freight/base/threads.h"
#include "timing.h"

namespace {

using freight::Array;
using freight::DType;
using freight::Op;
using freight::cpu::TileKernel;
using freight::cpu::TileProgram;
constexpr DType kF32 = DType::f32;

struct Case {
  const char* name;
  TileProgram program;
  std::vector<int64_t> elements;  // by operand
  int moved;                      // tensors of n elements that are read or written
};

// relu(x * a + b)
Case scale_relu(int64_t n, bool stream) {
  TileProgram p;
  p.space = {n};
  const int x = p.input(0, kF32, {1}), a = p.constant(1.5, kF32), b = p.constant(0.25, kF32);
  const int y = p.apply(Op::relu, kF32, p.apply(Op::add, kF32, p.apply(Op::mul, kF32, x, a), b));
  p.stores = {{.value = y, .operand = 1, .strides = {1}, .stream = stream}};
  return {stream ? "relu(x*a+b), streaming" : "relu(x*a+b)", p, {n, n}, 2};
}

// m = 0.9 m + g; w = w - lr m
Case sgd(int64_t n) {
  TileProgram p;
  p.space = {n};
  const int w = p.input(0, kF32, {1}), g = p.input(1, kF32, {1}), m = p.input(2, kF32, {1}), lr = p.input(3, kF32, {0});
  const int m1 = p.apply(Op::add, kF32, p.apply(Op::mul, kF32, m, p.constant(0.9, kF32)), g);
  const int w1 = p.apply(Op::sub, kF32, w, p.apply(Op::mul, kF32, m1, lr));
  p.stores = {{.value = m1, .operand = 2, .strides = {1}}, {.value = w1, .operand = 0, .strides = {1}}};
  return {"SGD momentum", p, {n, n, n, 1}, 5};
}

Case adam(int64_t n) {
  TileProgram p;
  p.space = {n};
  const int w = p.input(0, kF32, {1}), g = p.input(1, kF32, {1}), m = p.input(2, kF32, {1}), v = p.input(3, kF32, {1});
  const int lr = p.input(4, kF32, {0}), fix = p.input(5, kF32, {0});
  const auto op = [&](Op o, int a, int b = -1) { return p.apply(o, kF32, a, b); };
  const auto c = [&](double x) { return p.constant(x, kF32); };
  const int m1 = op(Op::add, op(Op::mul, m, c(0.9)), op(Op::mul, g, c(0.1)));
  const int v1 = op(Op::add, op(Op::mul, v, c(0.999)), op(Op::mul, op(Op::square, g), c(0.001)));
  const int root = op(Op::add, op(Op::mul, op(Op::sqrt, v1), fix), c(1e-8));
  const int w1 = op(Op::sub, w, op(Op::mul, op(Op::div, m1, root), lr));
  p.stores = {{.value = m1, .operand = 2, .strides = {1}},
              {.value = v1, .operand = 3, .strides = {1}},
              {.value = w1, .operand = 0, .strides = {1}}};
  return {"Adam", p, {n, n, n, n, 1, 1}, 7};
}

// relu(x a + b [+ residual]), a = gamma rstd and b = beta - mean a per channel, channels-last.
Case batch_norm(int64_t n, int64_t channels, bool residual) {
  TileProgram p;
  const int64_t rows = n / channels;
  p.space = {rows, channels};
  const auto op = [&](Op o, int a, int b = -1) { return p.apply(o, kF32, a, b); };
  const int x = p.input(0, kF32, {channels, 1});
  const int mean = p.input(2, kF32, {0, 1}), rstd = p.input(3, kF32, {0, 1}), gamma = p.input(4, kF32, {0, 1}),
            beta = p.input(5, kF32, {0, 1});
  const int a = op(Op::mul, rstd, gamma), b = op(Op::sub, beta, op(Op::mul, mean, a));
  int y = op(Op::add, op(Op::mul, x, a), b);
  if (residual) y = op(Op::add, y, p.input(6, kF32, {channels, 1}));
  p.stores = {{.value = op(Op::relu, y), .operand = 1, .strides = {channels, 1}, .stream = true}};
  static char names[8][64];
  static int next = 0;
  std::snprintf(names[next], sizeof names[next], "BN apply%s + relu, %d channels", residual ? " + add" : "",
                static_cast<int>(channels));
  return {names[next++], p, {n, n, channels, channels, channels, channels, n}, residual ? 3 : 2};
}

// Statistics per channel: sum(x), sum(x * x).
Case statistics(int64_t n, int64_t channels) {
  TileProgram p;
  p.space = {n / channels, channels};
  const int x = p.input(0, kF32, {channels, 1});
  p.sums = {{.value = x, .operand = 1, .strides = {0, 1}, .keep = {false, true}},
            {.value = p.apply(Op::square, kF32, x), .operand = 2, .strides = {0, 1}, .keep = {false, true}}};
  static char names[8][64];
  static int next = 0;
  std::snprintf(names[next], sizeof names[next], "sum x, sum x^2, %d channels", static_cast<int>(channels));
  return {names[next++], p, {n, channels, channels}, 1};
}

Case softmax(int64_t n, int64_t classes) {
  TileProgram p;
  p.space = {n / classes, classes};
  p.row_dims = 1;
  const int x = p.input(0, kF32, {classes, 1});
  const int e = p.apply(Op::exp, kF32, p.apply(Op::sub, kF32, x, p.row_reduce(Op::reduce_max, kF32, x)));
  const int y = p.apply(Op::div, kF32, e, p.row_reduce(Op::sum, kF32, e));
  p.stores = {{.value = y, .operand = 1, .strides = {classes, 1}}};
  static char names[8][64];
  static int next = 0;
  std::snprintf(names[next], sizeof names[next], "softmax of %d", static_cast<int>(classes));
  return {names[next++], p, {n, n}, 2};
}

double seconds(const Case& c, int repetitions) {
  const auto kernel = TileKernel::compile(c.program);
  std::vector<Array> arrays;
  std::vector<void*> operands;
  for (int64_t n : c.elements) {
    arrays.emplace_back(kF32, freight::Shape{n});
    for (int64_t i = 0; i < n; ++i) arrays.back().data<float>()[i] = 0.001f * static_cast<float>(i % 1000);
    operands.push_back(arrays.back().raw());
  }
  Array scratch(DType::u8, freight::Shape{static_cast<int64_t>(kernel->scratch_bytes()) + 64});
  kernel->run(operands.data(), scratch.raw());
  return best_seconds([&] { kernel->run(operands.data(), scratch.raw()); }, repetitions);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t n = (argc > 1 ? std::atoll(argv[1]) : 16) << 20;
  const int repetitions = n > (4 << 20) ? 30 : 200;
  Array a(kF32, freight::Shape{n}), b(kF32, freight::Shape{n});
  const auto copy = [&] {
    const int64_t block = 16384;
    auto body = [&](int64_t i) {
      std::memcpy(b.data<float>() + i * block, a.data<float>() + i * block, static_cast<size_t>(block) * 4);
    };
    freight::parallel_for(n / block, body);
  };
  copy();
  const double copied = best_seconds(copy, repetitions);
  const double bandwidth = 8.0 * static_cast<double>(n) / copied * 1e-9;
  std::printf("%-34s %8.2f ms %6.1f GB/s  (%d threads, %lld MiB per tensor)\n", "copy", copied * 1e3, bandwidth,
              freight::thread_count(), static_cast<long long>(n >> 18));
  const std::vector<Case> cases = {scale_relu(n, false),
                                   scale_relu(n, true),
                                   sgd(n),
                                   adam(n),
                                   batch_norm(n, 16, false),
                                   batch_norm(n, 64, true),
                                   batch_norm(n, 2048, false),
                                   statistics(n, 16),
                                   statistics(n, 512),
                                   softmax(n, 10),
                                   softmax(n, 1024)};
  for (const Case& c : cases) {
    const double s = seconds(c, repetitions), rate = 4.0 * c.moved * static_cast<double>(n) / s * 1e-9;
    std::printf("%-34s %8.2f ms %6.1f GB/s  %3.0f %%\n", c.name, s * 1e3, rate, 100 * rate / bandwidth);
  }
  for (int64_t tiny : {16, 1024, 8192}) {
    std::printf("%5lld elements: relu %.3f us, SGD %.3f us, Adam %.3f us\n", static_cast<long long>(tiny),
                seconds(scale_relu(tiny, false), 20000) * 1e6, seconds(sgd(tiny), 20000) * 1e6,
                seconds(adam(tiny), 20000) * 1e6);
  }
  return 0;
}
