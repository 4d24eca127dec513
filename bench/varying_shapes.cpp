// Measures what a shape costs that a compiled training step has not seen before: passes over many shapes in a mixed
// order, one step each, of which the first pass traces and plans. bench/varying_shapes.py holds it against PyTorch.
// usage: bench_varying_shapes mlp|lstm PASSES
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "freight/freight.h"

namespace {

using namespace freight;
using Clock = std::chrono::steady_clock;

constexpr int64_t kClasses = 10;

struct Batch {
  Array x, labels;
};

// Every `stride`-th number of a prime range that holds 1 to `count`, so that near sizes do not follow each other.
std::vector<int64_t> mixed(int64_t count, int64_t prime, int64_t stride) {
  std::vector<int64_t> order;
  for (int64_t i = 1; i < prime; ++i) {
    if (const int64_t number = i * stride % prime; number <= count) order.push_back(number);
  }
  return order;
}

Batch batch(int64_t count, const Shape& x) { return {random_normal(x).array(), zeros({count}, DType::i64).array()}; }

void measure(nn::Module& net, const std::vector<Batch>& batches, int passes) {
  optim::SGD opt(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    Tensor loss = cross_entropy(net(x), y);
    opt.step(loss);
    return loss;
  });
  std::printf("{\"seconds\": [");
  for (int pass = 0; pass < passes; ++pass) {
    const auto start = Clock::now();
    for (const Batch& b : batches) step(b.x, b.labels).item<float>();
    std::printf("%s%.6f", pass ? ", " : "", std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::printf("], \"shapes\": %zu}\n", batches.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "mlp";
  const int passes = argc > 2 ? std::atoi(argv[2]) : 5;
  std::vector<Batch> batches;
  if (name == "mlp") {
    nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, kClasses));
    for (const int64_t n : mixed(100, 101, 37)) batches.push_back(batch(n, {n, 784}));
    measure(net, batches, passes);
  } else {
    nn::Sequential net(nn::LSTM(64, 128, {.last = true}), nn::Linear(128, kClasses));
    for (const int64_t t : mixed(30, 31, 12)) batches.push_back(batch(32, {32, 5 * t, 64}));
    measure(net, batches, passes);
  }
}
