// Training on batches that a device makes itself (train/device_data.h), on a small made-up set: against the loader's.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "freight/base/philox.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/train/steps_ahead.h"

namespace freight::train {

// 22 images, or rows of numbers, of four classes.
inline data::Dataset small_set(DType dtype, const Shape& sample) {
  data::Dataset set;
  set.name = "small";
  Shape shape = sample;
  shape.insert(0, 22);
  set.images = Array(dtype, shape);
  set.labels = Array(DType::i64, {22});
  set.classes = data::numbered_classes(4);
  PhiloxStream random(11, 0, 0);
  for (int64_t i = 0; i < set.images.numel(); ++i) {
    if (dtype == DType::u8) {
      set.images.data<uint8_t>()[i] = static_cast<uint8_t>(random.below(256));
    } else {
      set.images.data<float>()[i] = random.normal();
    }
  }
  for (int64_t i = 0; i < 22; ++i) set.labels.data<int64_t>()[i] = i % 4;
  set.compute_statistics();
  return set;
}

inline data::LoaderOptions small_batches(const data::Augment& augment) {
  return {.batch_size = 4, .shuffle = true, .seed = 5, .drop_last = true, .workers = 0, .augment = augment};
}
// As the recipe of CIFAR-10 does.
inline constexpr data::Augment kMovedAndErased{.crop_padding = 2, .flip = true, .random_erase = 0.5};

inline DeviceData device_data(const data::Loader& loader) {
  std::string why;
  const auto recipe = loader.recipe(why);
  EXPECT_EQ(why, "");
  return DeviceData(recipe.value());
}

inline void makes_the_loaders_batches(const std::string& backend, const data::Dataset& set,
                                      const data::Augment& augment) {
  data::Loader loader(set, small_batches(augment));
  const DeviceData data = device_data(loader);
  auto next = compile(
      [&] {
        auto batch = data.batch();
        data.finish(zeros({}), zeros({}), ones({}));
        return batch;
      },
      {.backend = backend, .deterministic = true});
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    data.start_epoch(loader.draws(epoch), std::vector<float>(5), 1);
    for (const data::Batch& expected : loader.epoch(epoch, 1)) {
      const auto [x, y] = next();
      EXPECT_EQ(y.to_vector<int64_t>(), expected.labels.to_vector<int64_t>());
      ASSERT_EQ(x.shape(), expected.images.shape());
      const std::vector<float> got = x.to_vector<float>(), want = expected.images.to_vector<float>();
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 1e-6 * (1 + std::fabs(want[i]))) << "epoch " << epoch << ", value " << i;
      }
    }
  }
}

struct SmallRun {
  std::vector<double> losses, right;
  std::vector<std::vector<float>> weights;
};

// The last four batches of an epoch, then one more; a learning rate of its own for each. `block` 0: batches are the
// loader's, else so many steps at a time on the device's. `on_epoch` hears of each epoch that is over.
inline SmallRun small_run(const std::string& backend, int64_t block, void (*on_epoch)() = nullptr) {
  seed(3);
  const models::Model model = models::from_spec(R"({"format": "freight-model-1", "name": "small", "input": [3, 7, 6],
      "net": [{"type": "Conv2d", "out": 4, "kernel": 3}, {"type": "ReLU"}, {"type": "Flatten"},
              {"type": "Linear", "out": 4}]})");
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 1, .momentum = 0.9});
  data::Loader loader(small_set(DType::u8, {3, 7, 6}), small_batches(kMovedAndErased));
  const DeviceData data = device_data(loader);
  TrainStep step(model, sgd, nullptr, {.data = block > 0 ? &data : nullptr},
                 {.backend = backend, .deterministic = true});
  StepsAhead ahead(step, data, block);
  const std::vector<float> rates{0.01f, 0.02f, 0.03f, 0.02f, 0.01f};
  SmallRun run;
  const auto keep = [&](const TrainStep::Outcome& o) {
    run.losses.push_back(o.loss);
    run.right.push_back(o.right);
  };
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const int64_t first = epoch == 0 ? 1 : 0;
    if (block == 0) {
      for (const data::Batch& b : loader.epoch(epoch, first)) {
        sgd.set_lr(static_cast<double>(rates[static_cast<size_t>(b.index)]));
        keep(step.run(b.images, b.labels));
      }
    } else {
      ahead.start_epoch(loader.draws(epoch), rates, first);
      for (int64_t done = first; done < 5;) {
        const std::vector<TrainStep::Outcome> outcomes = ahead.next(5);
        EXPECT_FALSE(outcomes.empty());
        for (const TrainStep::Outcome& o : outcomes) keep(o);
        done += static_cast<int64_t>(outcomes.size());
      }
      EXPECT_TRUE(ahead.settled());
    }
    if (on_epoch) on_epoch();
  }
  for (const nn::NamedVariable& v : model.net->state_dict()) {
    run.weights.push_back(v.variable.array().to_vector<float>());
  }
  return run;
}

inline void steps_do_what_they_do_on_the_loaders_batches(const std::string& backend) {
  const SmallRun expected = small_run(backend, 0), got = small_run(backend, 3);
  ASSERT_EQ(got.losses.size(), 9u);
  ASSERT_EQ(expected.losses.size(), 9u);
  EXPECT_EQ(got.right, expected.right);
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-5) << "step " << i;
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    for (size_t k = 0; k < expected.weights[i].size(); ++k) {
      EXPECT_NEAR(got.weights[i][k], expected.weights[i][k], 1e-5);
    }
  }
}

}  // namespace freight::train
