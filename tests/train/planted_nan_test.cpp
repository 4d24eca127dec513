// Random small nets with one NaN planted in the data, the weights or the optimizer's state: every run is stopped before
// it stores or measures what is not finite, and the message names where the NaN was. FREIGHT_LONG=1 (./test --long)
// tries 1,000 of them and writes what came out to FREIGHT_RESULTS.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "freight/base/finite.h"
#include "freight/base/philox.h"
#include "freight/io/npy.h"
#include "freight/io/safetensors.h"
#include "freight/optim/optimizer.h"
#include "freight/train/prepare.h"
#include "tests/support/arrays.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::TemporaryDir;

// The choices of one case.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed, 0, 0) {}
  int64_t below(int64_t n) { return rng_.below(static_cast<uint32_t>(n)); }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return *(all.begin() + below(static_cast<int64_t>(all.size())));
  }

 private:
  PhiloxStream rng_;
};

// A net of rows (N, 6), or of images (N, 2, 8, 8), with three outputs.
std::string random_net(Dice& dice, bool images) {
  std::string layers;
  const auto add = [&](const std::string& layer) { layers += (layers.empty() ? "" : ", ") + layer; };
  const auto activation = [&] {
    return cat(R"({"type": ")", dice.one_of({"ReLU", "ReLU", "Tanh", "GELU", "Sigmoid", "SiLU"}), R"("})");
  };
  for (int64_t i = 1 + dice.below(2); i > 0; --i) {
    const int64_t width = 3 + dice.below(14);
    add(images ? cat(R"({"type": "Conv2d", "kernel": 3, "padding": 1, "out": )", width, "}")
               : cat(R"({"type": "Linear", "out": )", width, "}"));
    if (dice.below(3) == 0) add(images ? R"({"type": "BatchNorm2d"})" : R"({"type": "BatchNorm1d"})");
    add(activation());
  }
  if (images) {
    const int64_t pool = dice.below(3);
    if (pool < 2) add(cat(R"({"type": ")", pool == 0 ? "MaxPool2d" : "AvgPool2d", R"(", "kernel": 2})"));
    add(R"({"type": "Flatten"})");
  }
  if (dice.below(4) == 0) add(R"({"type": "Dropout", "p": 0.2})");
  add(R"({"type": "Linear", "out": 3})");
  return cat(R"({"format": "freight-model-1", "name": "random", "input": )", images ? "[2, 8, 8]" : "[6]",
             R"(, "net": [)", layers, "]}");
}

enum class Origin { train_data, test_data, weights, optimizer };

struct Planted {
  Config config;
  Origin origin;
  bool later = false;  // weights and states: after the first epoch
  std::string what;
};

Planted random_case(Dice& dice, const std::string& dir) {
  const bool images = dice.below(2) == 0;
  Planted p;
  p.origin = static_cast<Origin>(dice.below(4));
  p.later = dice.below(2) == 0;
  const Shape sample = images ? Shape{2, 8, 8} : Shape{6};
  const auto shape = [&](int64_t n) {
    Shape s = sample;
    s.insert(0, n);
    return s;
  };
  const int64_t count = 16 + dice.below(20);
  Array x = test::random_array({{DType::f32, shape(count)}, test::Fill::normal}, 3);
  Array x_test = test::random_array({{DType::f32, shape(9)}, test::Fill::normal}, 4);
  const auto labels = [](int64_t n) {
    Array y(DType::i64, {n});
    for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = i % 3;
    return y;
  };
  Array& spoilt = p.origin == Origin::train_data ? x : x_test;
  if (p.origin == Origin::train_data || p.origin == Origin::test_data) {
    const int64_t at = dice.below(spoilt.numel());
    spoilt.data<float>()[at] = std::numeric_limits<float>::quiet_NaN();
    p.what = cat("sample ", at / (spoilt.numel() / spoilt.shape()[0]), " of the ",
                 p.origin == Origin::train_data ? "train" : "test", " set");
  }
  Config& c = p.config;
  c.data = dir + "/samples.npz";
  io::save_npz(c.data, {{"x_train", x}, {"y_train", labels(count)}, {"x_test", x_test}, {"y_test", labels(9)}});
  c.model = dir + "/net.json";
  std::ofstream(c.model) << random_net(dice, images);
  if (images) c.layout = "nchw";
  c.output_dir = dir + "/run";
  c.overwrite = true;
  c.epochs = 3;
  c.batch_size = 4 + dice.below(5);
  c.grad_accum = 1 + dice.below(2);
  c.optimizer = dice.one_of({"sgd", "sgd", "adam", "adamw"});
  c.lr = c.optimizer == std::string("sgd") ? 0.05 : 0.002;
  c.clip_grad_norm = dice.below(3) == 0 ? 1 : 0;
  c.model_ema = dice.below(4) == 0 ? 0.9 : 0;
  c.seed = dice.below(1000);
  c.deterministic = true;
  // Shards of two samples or more, which BatchNorm needs.
  if (c.grad_accum == 1 && dice.below(2) == 0) c.shards = 2;
  return p;
}

// Plants the NaN in a variable and says in which.
std::string plant(Dice& dice, const std::vector<nn::NamedVariable>& variables) {
  std::vector<nn::NamedVariable> fitting;
  for (const nn::NamedVariable& v : variables) {
    if (v.variable.type().dtype == DType::f32 && v.variable.shape().rank() > 0) fitting.push_back(v);
  }
  const nn::NamedVariable& v = fitting[static_cast<size_t>(dice.below(static_cast<int64_t>(fitting.size())))];
  Array a = v.variable.array().clone();
  a.data<float>()[dice.below(a.numel())] = std::numeric_limits<float>::quiet_NaN();
  v.variable.set(a);
  return v.name;
}

class PlantsLater final : public Observer {
 public:
  explicit PlantsLater(std::function<void()> plants) : plants_(std::move(plants)) {}
  void on_epoch(const EpochReport& e) override {
    if (e.train.epoch == 1) plants_();
  }

 private:
  std::function<void()> plants_;
};

struct Counts {
  int stopped = 0, named = 0, stored = 0;
};

void try_case(uint64_t seed, const std::string& dir, Counts& counts) {
  Dice dice(seed);
  Planted p = random_case(dice, dir);
  std::string message;
  try {
    PreparedRun run = prepare(p.config);
    const Planned planned = run.planned();
    const auto plants = [&] {
      p.what =
          plant(dice, p.origin == Origin::weights ? planned.model.net->state_dict() : planned.optimizer.state_dict());
    };
    const bool variables = p.origin == Origin::weights || p.origin == Origin::optimizer;
    if (variables && !p.later) plants();
    PlantsLater later([&] {
      if (variables && p.later) plants();
    });
    run.run(later);
  } catch (const Error& e) {
    message = e.what();
    EXPECT_TRUE(e.kind() == ErrorKind::diverged || e.kind() == ErrorKind::data) << message;
  }
  const std::string of = p.origin == Origin::optimizer ? p.what.substr(p.what.find('.') + 1) : p.what;
  counts.stopped += !message.empty();
  counts.named += message.find(of) != std::string::npos;
  EXPECT_NE(message, "") << "seed " << seed << " was not stopped: NaN in " << p.what;
  if (!message.empty() && message.find(of) == std::string::npos) {
    std::printf("seed %d: NaN in %s, told: %s\n", static_cast<int>(seed), p.what.c_str(), message.c_str());
  }
  if (!std::filesystem::exists(p.config.output_dir)) return;
  for (const auto& file : std::filesystem::recursive_directory_iterator(p.config.output_dir)) {
    if (file.path().extension() != ".safetensors") continue;
    for (const auto& [name, array] : io::load_safetensors(file.path().string()).tensors) {
      if (!is_floating(array.dtype()) || count_nonfinite(array) == 0) continue;
      ++counts.stored;
      ADD_FAILURE() << "seed " << seed << " stored " << name << " in " << file.path();
    }
  }
}

TEST(PlantedNan, StopsEveryRunAtOrBeforeTheStepThatWouldStoreIt) {
  const int cases = std::getenv("FREIGHT_LONG") ? 1000 : 40;
  Counts counts;
  for (int seed = 0; seed < cases; ++seed) {
    const TemporaryDir dir;
    try_case(static_cast<uint64_t>(seed), dir.path(), counts);
  }
  EXPECT_EQ(counts.stopped, cases);
  EXPECT_EQ(counts.stored, 0);
  EXPECT_GE(counts.named, cases * 95 / 100);
  const std::string line = cat("NaN planted in ", cases, " random small nets: ", counts.stopped, " stopped, ",
                               counts.named, " named where, ", counts.stored, " stored");
  std::printf("%s\n", line.c_str());
  if (const char* folder = std::getenv("FREIGHT_RESULTS"))
    std::ofstream(cat(folder, "/planted-nan.txt")) << line << "\n";
}

}  // namespace
}  // namespace freight::train
