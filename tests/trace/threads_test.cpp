// Inference from many threads: eager, compiled, with fresh and warm nets, mixed shapes, tensors that threads share.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/optim/optim.h"
#include "freight/trace/compile.h"
#include "tests/support/fuzz.h"

namespace freight {
namespace {

using Floats = std::vector<float>;

// Runs f(thread) on so many threads, which begin together.
void on_threads(int count, const std::function<void(int)>& f) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < count) std::this_thread::yield();
      f(t);
    });
  }
  for (std::thread& t : threads) t.join();
}

bool near(const Floats& got, const Floats& need) {
  bool same = got.size() == need.size();
  for (size_t i = 0; same && i < got.size(); ++i) same = std::abs(got[i] - need[i]) < 1e-4F;
  return same;
}

nn::Sequential small_net() { return nn::Sequential(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 8)); }

Array batch(int64_t rows, float value) {
  Array a(DType::f32, {rows, 16});
  for (int64_t i = 0; i < a.numel(); ++i) a.data<float>()[i] = value + 0.01F * static_cast<float>(i % 16);
  return a;
}

constexpr int kThreads = 8;

TEST(Threads, TheFirstAnswersOfAFreshNetAreRight) {
  const int nets = testing::fuzz_rounds(20);
  std::atomic<int> wrong{0};
  for (int k = 0; k < nets; ++k) {
    seed(static_cast<uint64_t>(k));
    nn::Sequential one = small_net();
    const Floats need = one(batch(3, 0.5F)).to_vector<float>();
    seed(static_cast<uint64_t>(k));
    nn::Sequential many = small_net();
    on_threads(kThreads, [&](int) { wrong += !near(many(batch(3, 0.5F)).to_vector<float>(), need); });
  }
  EXPECT_EQ(wrong, 0);
}

// 100,000 answers with FREIGHT_FUZZ_TIMES=25.
TEST(Threads, OneCompiledFunctionAnswersAllThreads) {
  const int calls = testing::fuzz_rounds(250);
  for (const int threads : {2, 4, kThreads, 16}) {
    nn::Sequential net = small_net();
    auto f = compile([&](const Tensor& x) { return net(x); });
    std::vector<Array> in;
    std::vector<Floats> need;
    for (int t = 0; t < threads; ++t) {
      in.push_back(batch(1 + t % 5, 0.1F * static_cast<float>(t)));
      need.push_back(net(in.back()).to_vector<float>());
    }
    std::atomic<int> wrong{0};
    on_threads(threads, [&](int t) {
      Tensor held;
      for (int k = 0; k < calls; ++k) {
        const auto i = static_cast<size_t>(t);
        const Tensor y = f(in[i]);
        wrong += !near(y.to_vector<float>(), need[i]);
        if (held.defined()) wrong += !near(held.to_vector<float>(), need[i]);  // an older result stays as it was
        held = y;
      }
    });
    EXPECT_EQ(wrong, 0) << threads << " threads";
  }
}

TEST(Threads, EagerAnswersAndSharedTensorsAreRight) {
  nn::Sequential net = small_net();
  const int calls = testing::fuzz_rounds(100);
  std::atomic<int> wrong{0};
  for (int k = 0; k < calls; ++k) {
    const Tensor x = full({2, 16}, 0.25) * 2;  // pending when the threads begin
    const Tensor h = net(x);
    on_threads(4, [&](int t) {
      const Floats a = (h * static_cast<double>(t)).to_vector<float>(), b = h.to_vector<float>();
      for (size_t i = 0; i < a.size(); ++i) wrong += std::abs(a[i] - b[i] * static_cast<float>(t)) > 1e-5F;
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, GradientsOfSharedHistoriesAreRight) {
  const Variable w("w", {DType::f32, {4}}, {Init::Kind::constant, 3, 0}, Variable::Role::parameter);
  const int calls = testing::fuzz_rounds(30);
  std::atomic<int> wrong{0};
  for (int k = 0; k < calls; ++k) {
    const Tensor loss = sum(square(w));
    if (k % 2 == 0) loss.item<float>();
    on_threads(4, [&](int) { wrong += grad(loss, {w})[0].to_vector<float>() != Floats{6, 6, 6, 6}; });
  }
  EXPECT_EQ(wrong, 0);
}

// Readers see the weights of before a step or of after it, never a part of both.
TEST(Threads, AStepThatUpdatesVariablesRunsAlone) {
  const Variable w("w", {DType::f32, {4096}}, {Init::Kind::constant, 1, 0}, Variable::Role::parameter);
  auto step = compile([&] { w.assign(w + 1); });
  auto read = compile([&](const Tensor& x) { return max(w + x) - min(w + x); });
  const int calls = testing::fuzz_rounds(200);
  std::atomic<int> torn{0};
  on_threads(4, [&](int t) {
    for (int k = 0; k < calls; ++k) {
      if (t == 0) {
        step();
      } else {
        torn += read(Array::of<float>({0}, {1})).template item<float>() != 0;
      }
    }
  });
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(w.array().data<float>()[0], static_cast<float>(1 + calls));
}

}  // namespace
}  // namespace freight
