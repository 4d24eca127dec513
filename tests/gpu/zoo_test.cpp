// The nets of the zoo at small size on the test's device: losses of some training steps as on the CPU (the first one
// says that the forward pass agrees, the next that gradients and updates do), and the same bits when it is run again.
// FREIGHT_TEST_STEPS asks for more steps than are compared one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/train/step.h"

#include "tests/gpu/device.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

// The nets of the registry at the smallest size that all of their layers take.
models::Model small(const models::Entry& e) {
  models::Options o;
  if (e.loss == models::Loss::cross_entropy) o.classes = 10;
  if (e.vocabulary != 0) {
    const bool language = std::string(e.name).starts_with("gpt");
    if (language) o.classes = 0;
    o.vocabulary = 50;
    o.length = 12;
    if (language) o.layers = 1, o.width = 64;
  } else if (e.input.rank() == 3 && e.input[1] > 64) {
    const std::string name = e.name;  // the last norms of a resnet need more than one value per sample
    o.size = name == "alexnet" || name.starts_with("resnet") || name.starts_with("mobilenet") ? Shape{64, 64}
                                                                                              : Shape{32, 32};
  }
  return models::create(e.name, o);
}

constexpr int kUpdates = 2;

// The ends of residual branches start small (Goyal et al. 2017 start them at zero). At one, a deep resnet over few
// values amplifies rounding until it decides the loss, on every backend: no update could be compared.
void damp_branches(const nn::Module& net) {
  const std::vector<nn::NamedVariable> all = net.state_dict();
  const auto has = [&](const std::string& name) {
    return std::any_of(all.begin(), all.end(), [&](const nn::NamedVariable& v) { return v.name == name; });
  };
  for (const nn::NamedVariable& v : all) {
    const std::string block = v.name.substr(0, v.name.rfind(".bn"));
    const bool end =
        v.name == block + ".bn3.weight" || (v.name == block + ".bn2.weight" && !has(block + ".bn3.weight"));
    if (!end) continue;
    Array small(DType::f32, v.variable.shape());
    std::fill_n(small.data<float>(), small.numel(), 0.1f);
    v.variable.set(small);
  }
}

struct Outcome {
  std::vector<double> losses;
  std::vector<std::vector<float>> states;
  bool operator==(const Outcome&) const = default;
};

// Every second weight becomes larger by this share, every other one smaller.
void disturb(const nn::Module& net, double share) {
  int64_t at = 0;
  for (const nn::NamedVariable& v : net.state_dict()) {
    if (v.variable.type().dtype != DType::f32) continue;
    Array moved = v.variable.array().clone();
    for (int64_t i = 0; i < moved.numel(); ++i) {
      moved.data<float>()[i] *= static_cast<float>(1 + (++at % 2 == 0 ? share : -share));
    }
    v.variable.set(moved);
  }
}

Outcome run(const std::string& backend, const models::Entry& e, int64_t batch, int updates, double rate,
            double disturbance = 0) {
  seed(3);
  const models::Model model = small(e);
  model.net->train();
  damp_branches(*model.net);
  if (disturbance > 0) disturb(*model.net, disturbance);
  optim::SGD sgd(model.net->parameters(), {.lr = rate});
  TrainStep step(model, sgd, nullptr, {}, {.backend = backend, .deterministic = true});
  const Type x_type = model.batch_type(batch);
  const bool values = model.loss == models::Loss::mse;
  PhiloxStream random(7, 0, 0);
  Array x(x_type.dtype, x_type.shape);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (model.reads_tokens()) {
      x.data<int32_t>()[i] = static_cast<int32_t>(1 + random.below(40));
    } else {
      x.data<float>()[i] = random.normal();
    }
  }
  Array y(values                   ? DType::f32
          : model.language_model() ? DType::i32
                                   : DType::i64,
          values                   ? Shape{batch, model.classes()}
          : model.language_model() ? x.shape()
                                   : Shape{batch});
  for (int64_t i = 0; i < y.numel(); ++i) {
    const auto drawn = static_cast<int64_t>(random.below(10));
    if (values) y.data<float>()[i] = static_cast<float>(drawn) / 10;
    if (y.dtype() == DType::i32) y.data<int32_t>()[i] = static_cast<int32_t>(drawn);
    if (y.dtype() == DType::i64) y.data<int64_t>()[i] = drawn;
  }
  Outcome r;
  for (int s = 0; s <= updates; ++s) r.losses.push_back(step.run(x, y).loss);  // the same batch: the update moves it
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    r.states.push_back(v.variable.array().to_vector<float>());
  }
  return r;
}

// The largest difference of losses, relative to theirs.
double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t s = 0; s < a.size(); ++s) most = std::max(most, std::fabs(a[s] - b[s]) / (1 + std::fabs(b[s])));
  return most;
}

bool moves_clearly(double before, double after) {
  return std::fabs(after - before) > 1e-4 * std::fabs(before + after) / 2;
}

// The run on the CPU that others are compared with, at the first rate whose updates move the loss: 0.002 (googlenet's
// norms allow a tenth), or so many times ten.
struct Reference {
  double rate;
  Outcome outcome;
};
Reference reference(const models::Entry& e, int64_t batch, int updates) {
  constexpr double kLargest = 2;
  for (double rate = e.name == std::string("googlenet") ? 0.0002 : 0.002;; rate *= 10) {
    Outcome r = run("cpu", e, batch, updates, rate);
    bool moved = true;
    for (size_t s = 1; s <= kUpdates; ++s) moved = moved && moves_clearly(r.losses[s - 1], r.losses[s]);
    if (moved || rate >= kLargest) return {rate, std::move(r)};
  }
}

class GpuZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuZoo, TrainsAsOnTheCpu) {
  NEEDS_TEST_DEVICE();
  const auto& all = models::registry();
  const auto e = std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.name == GetParam(); });
  const int64_t batch = e->name == std::string("googlenet") ? 12 : 4;  // its last norms see as many values as samples
  const char* asked = std::getenv("FREIGHT_TEST_STEPS");
  const int count = asked ? std::max(kUpdates, std::atoi(asked) - 1) : kUpdates;
  const auto [rate, expected_run] = reference(*e, batch, count);
  const Outcome run_here = run(test::test_device(), *e, batch, count, rate);
  const std::vector<double>&expected = expected_run.losses, &got = run_here.losses;
  EXPECT_NEAR(got[0], expected[0], 1e-4 * (1 + std::fabs(expected[0])));
  // An update that is wrong is off by its own size. From the second on statistics over few values amplify rounding.
  for (size_t s = 1; s <= kUpdates; ++s) {
    const double moved = expected[s] - expected[s - 1];
    EXPECT_TRUE(moves_clearly(expected[s - 1], expected[s])) << "at no rate the loss moves: " << expected[s];
    EXPECT_NEAR(got[s] - got[s - 1], moved,
                (s == 1 ? 0.05 : 0.4) * std::fabs(moved) + 1e-4 * (1 + std::fabs(expected[s])))
        << "step " << s << ": " << got[s] << ", on the CPU " << expected[s];
  }
  // Deep nets with norms over few values amplify rounding from step to step, on every device. How much, the CPU shows:
  // by a run whose weights are off by some units in their last place, as sums on another device are.
  const double off = apart(got, expected);
  if (off > 1e-3) {
    const double grown = apart(run("cpu", *e, batch, count, rate, 0x1p-20).losses, expected);
    EXPECT_LE(off, 4 * grown) << "rounding on the CPU grows to " << grown;
    RecordProperty("rounding_on_the_cpu", cat(grown));
  }
  RecordProperty("rate", cat(rate));
  RecordProperty("steps", count + 1);
  RecordProperty("largest_difference_of_losses", cat(off));
  EXPECT_TRUE(run(test::test_device(), *e, batch, count, rate) == run_here) << "run again, the bits differ";
  if (test::test_device().starts_with("cuda")) {
    const freight::testing::ScopedEnvironment one_by_one("FREIGHT_CUDA_GRAPH", "0");
    EXPECT_TRUE(run(test::test_device(), *e, batch, count, rate) == run_here) << "without CUDA graphs the bits differ";
  }
}

// Nets whose layers others have, too: mobilenet_v3_small and convnext_tiny stand for these.
const std::set<std::string> kAsOthers = {"resnext50_32x4d", "wide_resnet50_2", "densenet121",     "squeezenet1_0",
                                         "squeezenet1_1",   "mobilenet_v2",    "vit_b_16",        "mobilenet_v3_large",
                                         "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3",
                                         "regnet_y_400mf"};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const models::Entry& e : models::registry()) {
    if (!kAsOthers.contains(e.name)) all.emplace_back(e.name);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Nets, GpuZoo, ::testing::ValuesIn(names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace freight::train
