// A loss on a gradient: second derivatives in one step. Prints the norm of the input's gradient before and after
// training, which a penalty pulls towards 1.
#include <cstdio>

#include "freight/freight.h"

using namespace freight;

int main() {
  seed(2);
  nn::Sequential critic(nn::Linear(2, 32), nn::Tanh(), nn::Linear(32, 1));
  optim::Adam adam(critic.parameters(), {.lr = 0.01});
  const auto norms = [&](const Tensor& x) {
    const Tensor dx = grad(sum(critic(x)), {x})[0];
    return sqrt(sum(square(dx), {1}));
  };
  auto step = compile([&](const Tensor& x) {
    const Tensor penalty = mean(square(norms(x) - 1.0));
    adam.apply(grad(penalty, critic.parameters(), {.allow_unused = true}));  // no gradient reaches the last bias
    return penalty;
  });
  const Tensor x = random_normal({64, 2});
  const Array points = x.array();
  const float first = step(points).item<float>();
  float last = first;
  for (int i = 0; i < 300; ++i) last = step(points).item<float>();
  std::printf("penalty fell to less than a hundredth: %s\n", last < first / 100 ? "yes" : "no");
}
