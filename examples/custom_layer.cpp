// A custom module: a scaled residual branch with a trained factor. Trains it on a line and prints loss and
// factor.
#include <cstdio>

#include "freight/freight.h"

using namespace freight;

class ScaledResidual : public nn::Module {
 public:
  explicit ScaledResidual(int64_t features) {
    inner_ = &add<nn::Linear>("inner", features, features);
    scale_ = parameter("scale", {1}, {.a = 0.5});
  }
  Tensor forward(const Tensor& x) override { return x + tanh((*inner_)(x)) * scale_; }

 private:
  nn::Linear* inner_;
  Variable scale_;
};

int main() {
  seed(1);
  nn::Sequential net(nn::Linear(1, 16), ScaledResidual(16), nn::Linear(16, 1));
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    Tensor loss = mse_loss(net(x), y);
    adam.step(loss);
    return loss;
  });
  std::vector<float> x, y;
  for (int i = 0; i < 64; ++i) {
    x.push_back(static_cast<float>(i) / 32.0f - 1.0f);
    y.push_back(3.0f * x.back() - 1.0f);
  }
  const Array inputs = Array::of(x, {64, 1}), targets = Array::of(y, {64, 1});
  float loss = 0;
  for (int i = 0; i < 500; ++i) loss = step(inputs, targets).item<float>();
  std::printf("loss below 0.001: %s; parameters: %zu\n", loss < 1e-3f ? "yes" : "no", net.parameters().size());
}
