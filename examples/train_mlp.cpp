// Trains a multilayer perceptron on the built-in digits and prints the test accuracy of each epoch.
#include <cstdio>

#include "freight/freight.h"

using namespace freight;

int main() {
  auto [train, test] = data::load("digits");  // images u8 (N, 1, 28, 28), labels i64 (N)
  nn::Sequential net(nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
  optim::SGD opt(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4});

  auto step = compile([&](const Tensor& x, const Tensor& y) {  // traced once, planned, then replayed
    Tensor loss = cross_entropy(net(x), y);
    opt.step(loss);
    return loss;
  });
  auto count = compile([&](const Tensor& x, const Tensor& y) { return count_correct(net(x), y); });

  data::Loader batches(train, {.batch_size = 64, .shuffle = true}), held_out(test, {.batch_size = 500});
  for (int epoch = 0; epoch < 3; ++epoch) {
    double loss = 0, correct = 0;
    for (auto& b : batches.epoch(epoch)) loss += step(b.images, b.labels).item<double>();
    for (auto& b : held_out.epoch(0)) correct += count(b.images, b.labels).item<double>();
    std::printf("epoch %d  loss %.4f  test accuracy %.2f %%\n", epoch + 1,
                loss / static_cast<double>(batches.batches_per_epoch()),
                100 * correct / static_cast<double>(test.count()));
  }
}
