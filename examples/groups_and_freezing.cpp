// A trained body and a new head in one optimizer: the body is frozen at first, then trained at a tenth of the head's
// rate; the run is stopped between two steps and resumed. The numbers are PyTorch's for the same weights.
#include <cmath>
#include <cstdio>

#include "freight/freight.h"

using namespace freight;

// A model whose weights follow a formula, so that any program can make them.
nn::Sequential make_net() {
  nn::Sequential net;
  net.append("body", nn::Linear(2, 3)).append("bend", nn::Tanh()).append("head", nn::Linear(3, 1));
  double k = 0;
  for (const Variable& p : net.parameters()) {
    Array values(DType::f32, p.shape());
    for (int64_t i = 0; i < values.numel(); ++i) values.data<float>()[i] = static_cast<float>(std::sin(k += 1));
    p.set(values);
  }
  return net;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const nn::Sequential& net) {
  const auto& layers = net.children();
  return std::make_unique<optim::Adam>(
      optim::ParameterGroups{{.parameters = layers[0].module->parameters(), .lr = 0.01, .frozen = true, .name = "body"},
                             {.parameters = layers[2].module->parameters(), .weight_decay = 0.1, .name = "head"}},
      optim::AdamOptions{.lr = 0.1, .clip_grad_norm = 1});
}

// Steps `from` to before `to` of one run.
void train(nn::Sequential& net, optim::Optimizer& opt, int from, int to) {
  const Array x = Array::of<float>({1, 0, 0, 1, -1, 0.5F, 2, 1}, {4, 2}),
              y = Array::of<float>({1, -1, 0.5F, 2}, {4, 1});
  auto step = compile([&](const Tensor& in, const Tensor& target) {
    const Tensor loss = mse_loss(net(in), target);
    opt.step(loss);
    return std::pair(loss, opt.grad_norm());
  });
  for (int i = from; i < to; ++i) {
    if (i == 3) opt.set_frozen("body", false);
    opt.set_lr(i < 5 ? 0.1 : 0.05);  // the body's rate follows
    const auto [loss, norm] = step(x, y);
    std::printf("step %d: loss %.3f, norm %.3f\n", i, loss.item<double>(), norm.item<double>());
  }
}

int main() {
  nn::Sequential net = make_net();
  const auto opt = make_optimizer(net);
  train(net, *opt, 0, 4);
  const auto weights = nn::values_of(net.state_dict()), states = nn::values_of(opt->state_dict());

  nn::Sequential again = make_net();
  const auto resumed = make_optimizer(again);
  again.load_state_dict(weights);
  resumed->load_state_dict(states);
  resumed->set_frozen("body", false);
  train(again, *resumed, 4, 8);
  train(net, *opt, 4, 8);
  bool equal = true;
  for (size_t i = 0; i < net.parameters().size(); ++i) {
    equal = equal && net.parameters()[i].array().to_vector<float>() == again.parameters()[i].array().to_vector<float>();
  }
  std::printf("the run that went on has the same bits: %s\n", equal ? "yes" : "no");
}
