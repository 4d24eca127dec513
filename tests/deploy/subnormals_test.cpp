// Freight counts subnormal numbers as zero in its own steps and nowhere else: a program's own OpenMP loops, which run
// on the same threads, keep theirs before, between and after Freight's steps. The loops here are the program's.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "freight/base/threads.h"
#include "freight/deploy/predictor.h"
#include "freight/freight.h"

#if defined(__x86_64__) || defined(__aarch64__)
namespace freight {
namespace {

constexpr int kThreads = 4;
constexpr float kNormal = 1e-30F, kFactor = 1e-10F;  // the product is subnormal

// How many of the pool's threads keep the subnormal product in a loop of the caller's own.
int threads_that_keep() {
  volatile float factor = kFactor;
  int keep = 0;
#pragma omp parallel num_threads(kThreads) reduction(+ : keep)
  keep += kNormal * factor > 0 ? 1 : 0;
  return keep;
}

#define EXPECT_ALL_KEEP(when) EXPECT_EQ(threads_that_keep(), kThreads) << (when)

Array filled(const Shape& shape, float value) {
  Array a(DType::f32, shape);
  std::fill_n(a.data<float>(), a.numel(), value);
  return a;
}

bool all_zero(const Array& a) {
  return std::all_of(a.data<float>(), a.data<float>() + a.numel(), [](float v) { return v == 0; });
}

// More elements than one chunk, so that the pool computes.
constexpr int64_t kMany = int64_t{1} << 20;

void step_eagerly() {
  const Tensor y = Tensor(filled({kMany}, kNormal)) * kFactor;
  EXPECT_TRUE(all_zero(y.array()));
}

void step_compiled() {
  auto f = compile([](const Tensor& x) { return x * kFactor; });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(all_zero(f(Tensor(filled({kMany}, kNormal))).array()));
    EXPECT_ALL_KEEP("between compiled steps");
  }
}

// The convolutions' kernels may be oneDNN's, which starts regions by itself.
void step_of_a_net() {
  store::Bundle b;
  b.model = models::create("lenet");
  b.preprocessing = {.input = {1, 28, 28}, .mean = {0.5F}, .std = {0.25F}};
  deploy::Predictor predictor(std::move(b), {.deterministic = true, .batch_size = 8});
  const std::vector<Array> samples(8, filled({1, 28, 28}, 0.5F));
  for (int i = 0; i < 3; ++i) {
    predictor.run(samples);
    EXPECT_ALL_KEEP("between predictions");
  }
}

void train_a_net() {
  nn::Sequential net(nn::Conv2d(1, 8, 3), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(8 * 13 * 13, 10));
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    Tensor loss = cross_entropy(net(x), y);
    optimizer.step(loss);
    return loss;
  });
  const Tensor labels = Tensor(Array(DType::i64, {16}));
  for (int i = 0; i < 3; ++i) {
    step(Tensor(filled({16, 1, 28, 28}, 0.5F)), labels).item<double>();
    EXPECT_ALL_KEEP("between training steps");
  }
}

const std::function<void()> kSteps[] = {step_eagerly, step_compiled, step_of_a_net, train_a_net};

TEST(Subnormals, StayInTheCallersLoopsAroundSteps) {
  omp_set_num_threads(kThreads);
  EXPECT_ALL_KEEP("before");
  for (const auto& step : kSteps) {
    step();
    EXPECT_ALL_KEEP("after");
  }
}

// A new thread has a pool of its own, whose workers Freight makes here, and not the caller.
TEST(Subnormals, StayOnPoolsThatFreightMade) {
  for (const auto& step : kSteps) {
    std::thread([&] {
      omp_set_num_threads(kThreads);
      step();
      EXPECT_ALL_KEEP("after");
    }).join();
  }
}

TEST(Subnormals, StayOnTheThreadsOfSeveralUsers) {
  std::vector<std::thread> users;
  for (const auto& step : kSteps) {
    users.emplace_back([&] {
      omp_set_num_threads(kThreads);
      EXPECT_ALL_KEEP("before");
      step();
      EXPECT_ALL_KEEP("after");
    });
  }
  for (std::thread& u : users) u.join();
}

// A pool that shrinks loses threads and makes new ones when it grows, in the middle of a step.
TEST(Subnormals, StayOnThreadsThatAPoolGetsDuringAStep) {
  for (const bool library : {false, true}) {
    std::thread([&] {
      omp_set_num_threads(2);
      EXPECT_EQ(thread_count(), 2);
      {
        const FlushDenormals flush;
        if (library) FlushDenormals::reach_pool();
        omp_set_num_threads(kThreads);
        std::vector<float> seen(64, 1.0F);
        volatile float factor = kFactor;
        parallel_for(64, [&](int64_t i) { seen[static_cast<size_t>(i)] = kNormal * factor; });
        EXPECT_EQ(seen, std::vector<float>(64, 0.0F));
        if (library) {
          EXPECT_EQ(threads_that_keep(), 0) << "a library's own region flushes";
        }
      }
      EXPECT_ALL_KEEP("after");
    }).join();
  }
}

TEST(Subnormals, AreFlushedByAnOuterGuardUntilItEnds) {
  {
    const FlushDenormals outer;
    { const FlushDenormals inner; }
    FlushDenormals::reach_pool();
    { const FlushDenormals inner; }
    volatile float factor = kFactor;
    EXPECT_EQ(kNormal * factor, 0.0F);
  }
  EXPECT_ALL_KEEP("after");
}

// What others chose for their threads stays theirs, too.
TEST(Subnormals, AThreadThatFlushedBeforeGoesOnFlushing) {
  std::thread([] {
    const auto kept = [] {
      volatile float factor = kFactor;
      return kNormal * factor > 0;
    };
    const FlushDenormals chosen;  // stands for a program that set the mode of its thread
    step_eagerly();
    EXPECT_FALSE(kept());
  }).join();
}

}  // namespace
}  // namespace freight
#endif
