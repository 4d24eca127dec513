// One compiled function, four threads: every result is that of a single thread.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "freight/freight.h"

using namespace freight;

int main() {
  seed(3);
  nn::Sequential net(nn::Linear(8, 32), nn::ReLU(), nn::Linear(32, 4));
  net.eval();
  auto answer = compile([&](const Tensor& x) { return softmax(net(x), -1); });
  const Array x = Array::of(std::vector<float>(16, 0.25f), {2, 8});
  const std::vector<float> expected = answer(x).to_vector<float>();
  std::atomic<int> different = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) different += answer(x).to_vector<float>() != expected;
    });
  }
  for (std::thread& t : threads) t.join();
  std::printf("different answers: %d of 400\n", different.load());
}
