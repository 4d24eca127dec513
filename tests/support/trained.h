// A few training steps of a net on made-up batches, on a device and on the CPU (itself compared with the reference
// elsewhere): losses and states must agree.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/philox.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/train/step.h"

namespace freight::train {

struct TrainedNet {
  std::vector<double> losses;
  std::vector<std::pair<std::string, std::vector<float>>> states;  // of the net, then of the optimizer
  size_t weights = 0;                                              // how many are the net's
  std::shared_ptr<const Plan> plan;
};

// `limit`: on the arena, and what may be done to keep it; `compute`: f32, or the 16 bits of mixed precision.
inline TrainedNet trained(const std::string& backend, const models::Model& model, int64_t batch, int steps, double lr,
                          const ArenaLimit& limit = {}, DType compute = DType::f32,
                          Recompute recompute = Recompute::none) {
  seed(3);
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = lr, .momentum = 0.9, .weight_decay = 1e-3});
  if (limit.offload == Offload::optimizer || limit.offload == Offload::all) keep_on_host(sgd);
  TrainStep step(
      model, sgd, nullptr, {},
      {.backend = backend, .deterministic = true, .recompute = recompute, .compute = compute, .limit = limit});
  const Type x_type = model.batch_type(batch);
  TrainedNet t;
  for (int s = 0; s < steps; ++s) {
    PhiloxStream random(7, static_cast<uint64_t>(s), 0);
    Array x(x_type.dtype, x_type.shape);
    const bool tokens = model.reads_tokens();
    for (int64_t i = 0; i < x.numel(); ++i) {
      if (tokens) {
        x.data<int32_t>()[i] = static_cast<int32_t>(random.below(30));
      } else {
        x.data<float>()[i] = random.normal();
      }
    }
    Array y(model.language_model() ? DType::i32 : DType::i64, model.language_model() ? x.shape() : Shape{batch});
    if (model.language_model()) {
      for (int64_t i = 0; i < y.numel(); ++i) y.data<int32_t>()[i] = static_cast<int32_t>(random.below(30));
    } else {
      for (int64_t i = 0; i < batch; ++i) y.data<int64_t>()[i] = (3 * i + s) % 2;
    }
    t.losses.push_back(step.run(x, y).loss);
    t.plan = step.plans(x_type, {y.dtype(), y.shape()})[0].plan;
  }
  for (const auto& states : {model.net->state_dict(), sgd.state_dict()}) {
    if (t.weights == 0) t.weights = states.size();
    for (const nn::NamedVariable& v : states) {
      t.states.emplace_back(v.name, v.variable.array().to_vector<float>());
    }
  }
  return t;
}

inline void trains_as_on_the_cpu(const std::string& backend, models::Model (*make)(), int64_t batch, int steps,
                                 double lr) {
  seed(3);
  const TrainedNet expected = trained("cpu", make(), batch, steps, lr);
  seed(3);
  const TrainedNet got = trained(backend, make(), batch, steps, lr);
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], 2e-4 * (1 + std::fabs(expected.losses[i]))) << "step " << i;
  }
  ASSERT_EQ(got.states.size(), expected.states.size());
  // Moments are gradients, in which a rounding that turns a ReLU shows at once; the weights are what they sum to.
  for (size_t i = 0; i < expected.weights; ++i) {
    const auto &g = got.states[i].second, &e = expected.states[i].second;
    ASSERT_EQ(g.size(), e.size());
    double error = 0, size = 0;
    for (size_t k = 0; k < g.size(); ++k) {
      error += (g[k] - e[k]) * (g[k] - e[k]);
      size += e[k] * e[k];
    }
    EXPECT_LE(std::sqrt(error), 1e-3 * std::sqrt(size) + 1e-5) << got.states[i].first;
  }
}

}  // namespace freight::train
