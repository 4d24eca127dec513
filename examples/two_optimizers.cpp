// Two optimizers in one step: the last layer is trained by Adam, the rest by SGD; the first layer is frozen.
#include <cstdio>

#include "freight/freight.h"

using namespace freight;

int main() {
  seed(4);
  nn::Linear first(2, 16), middle(16, 16), last(16, 2);
  const Variable frozen = first.parameters()[0];
  for (const Variable& v : first.parameters()) v.set_trainable(false);  // and parameters() leaves them out
  optim::SGD sgd(middle.parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::Adam adam(last.parameters(), {.lr = 0.01});
  std::vector<Variable> trained = middle.parameters();
  for (const Variable& v : last.parameters()) trained.push_back(v);
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(last(relu(middle(relu(first(x))))), y);
    const std::vector<Tensor> g = grad(loss, trained);
    sgd.apply({g.begin(), g.begin() + 2});
    adam.apply({g.begin() + 2, g.end()});
    return loss;
  });
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int i = 0; i < 128; ++i) {
    x.push_back(static_cast<float>(i % 16) / 8.0f - 1.0f);
    x.push_back(static_cast<float>(i / 16) / 4.0f - 1.0f);
    y.push_back(x[x.size() - 2] * x.back() > 0 ? 1 : 0);
  }
  const std::vector<float> before = frozen.array().to_vector<float>();
  float loss = 0;
  for (int i = 0; i < 300; ++i) loss = step(Array::of(x, {128, 2}), Array::of(y, {128})).item<float>();
  std::printf("loss below 0.2: %s; frozen layer unchanged: %s\n", loss < 0.2f ? "yes" : "no",
              frozen.array().to_vector<float>() == before ? "yes" : "no");
}
