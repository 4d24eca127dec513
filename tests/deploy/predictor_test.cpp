// Predictor: what it takes, refuses and predicts. That it agrees with evaluation is tested in tests/train.
#include "freight/deploy/predictor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "freight/io/npy.h"
#include "freight/nn/nn.h"
#include "tests/support/files.h"

namespace freight::deploy {
namespace {

using freight::testing::expect_error;
using freight::testing::TemporaryDir;

store::Bundle small_net() {
  store::Bundle b;
  b.model = models::create("lenet");
  b.preprocessing = {.input = {1, 28, 28}, .mean = {0.5f}, .std = {0.25f}};
  return b;
}

Array pixels(uint8_t value) {
  Array a(DType::u8, {1, 28, 28});
  std::fill_n(a.data<uint8_t>(), a.numel(), value);
  return a;
}

TEST(Predictor, SamplesOfBothKindsAreAnsweredInTheirOrder) {
  Predictor predictor(small_net(), {.deterministic = true, .batch_size = 2});
  std::vector<Array> samples;
  for (const uint8_t v : {0, 50, 100, 255}) samples.push_back(pixels(v));
  const std::vector<float> all = predictor.run(samples).to_vector<float>();
  // The same images as floats are taken as they are: 50 / 255 instead of 50.
  samples[1] = samples[1].cast(DType::f32);
  for (int64_t i = 0; i < samples[1].numel(); ++i) samples[1].data<float>()[i] /= 255.0f;
  const std::vector<float> mixed = predictor.run(samples).to_vector<float>();
  ASSERT_EQ(all.size(), 40u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(all[i], mixed[i], 1e-6) << i;
  for (size_t row = 0; row < 4; ++row) {
    const Array one = predictor.run({samples[row]});
    for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(one.data<float>()[i], mixed[row * 10 + i], 1e-6);
  }
}

TEST(Predictor, BatchesOfAnySizeAgreeAndWarmingChangesNothing) {
  Predictor predictor(small_net(), {.deterministic = true, .batch_size = 6});
  predictor.warm({1, 5, 13});
  std::vector<Array> samples;
  for (int v = 0; v < 13; ++v) samples.push_back(pixels(static_cast<uint8_t>(v * 19)));
  predictor.warm(samples);
  const Array all = predictor.run(samples);
  for (size_t n : {1, 2, 3, 5, 6, 7}) {
    const Array some = predictor.run({samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(n)});
    ASSERT_EQ(some.shape(), (Shape{static_cast<int64_t>(n), 10}));
    for (int64_t i = 0; i < some.numel(); ++i) ASSERT_NEAR(some.data<float>()[i], all.data<float>()[i], 1e-6) << n;
  }
}

TEST(Predictor, FlopsAreThoseOfASample) {
  // 833,040 of products; biases, relu, pooling and softmax the rest.
  const double flops = Predictor(small_net()).flops();
  EXPECT_GT(flops, 833040);
  EXPECT_LT(flops, 1.05 * 833040);
}

// Each step is told with the samples that were asked for, whatever it was filled up to; kinds run apart.
TEST(Predictor, StepsAreToldAsTheyRun) {
  Predictor predictor(small_net(), {.deterministic = true, .batch_size = 4});
  std::vector<Array> samples(7, pixels(9));
  samples[2] = samples[2].cast(DType::f32);
  std::vector<int64_t> counts;
  const auto ran = [&](int64_t count, double seconds) {
    counts.push_back(count);
    EXPECT_GE(seconds, 0);
  };
  const std::vector<float> told = predictor.run(samples, {.ran = ran}).to_vector<float>();
  std::sort(counts.begin(), counts.end());
  EXPECT_EQ(counts, (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(told, predictor.run(samples, {.values_checked = true}).to_vector<float>());
}

// Plans for 1, 2, 4 and the batch size, of texts for each length; what is told can stop it.
TEST(Predictor, AllStepsAreWarmedAndMayBeStopped) {
  Predictor predictor(small_net(), {.deterministic = true, .batch_size = 6});
  std::vector<int64_t> heard;
  const auto hear = [&](int64_t done, int64_t all) {
    EXPECT_EQ(all, 4);
    heard.push_back(done);
    return done != 2;
  };
  EXPECT_FALSE(predictor.warm_all(hear));
  EXPECT_EQ(heard, (std::vector<int64_t>{1, 2}));
  heard.clear();
  EXPECT_TRUE(predictor.warm_all([&](int64_t done, int64_t) { return heard.push_back(done), true; }));
  EXPECT_EQ(heard, (std::vector<int64_t>{1, 2, 3, 4}));
}

// Evaluation normalizes by the statistics of the batch itself.
store::Bundle mixing_net() {
  store::Bundle b = small_net();
  const auto net = std::make_shared<nn::Sequential>();
  net->append(nn::Flatten()).append(nn::BatchNorm1d(28 * 28, {.running = false})).append(nn::Linear(28 * 28, 10));
  b.model.net = net;
  return b;
}

TEST(Predictor, ANetThatMixesSamplesGetsThemUnfilled) {
  const store::Bundle bundle = mixing_net();
  std::vector<Array> samples;
  for (int v = 0; v < 5; ++v) samples.push_back(pixels(static_cast<uint8_t>(v * v * 15)));
  Predictor exact(bundle, {.deterministic = true, .batch_size = 5}), larger(bundle, {.batch_size = 64});
  EXPECT_FALSE(larger.keeps_samples_apart());
  const std::vector<float> expected = exact.run(samples).to_vector<float>();
  const std::vector<float> got = larger.run(samples).to_vector<float>();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
  int64_t plans = 0;
  EXPECT_TRUE(exact.warm_all([&](int64_t, int64_t all) { return plans = all, true; }));
  EXPECT_EQ(plans, 1);  // a batch of one would be refused
}

TEST(Predictor, NetsOfTheZooKeepSamplesApart) {
  for (const char* name : {"mlp", "lenet", "convnet", "cifarnet", "resnet20", "squeezenet1_1", "mobilenet_v3_small",
                           "efficientnet_b0", "regnet_y_400mf", "convnext_tiny"}) {
    store::Bundle b;
    b.model = models::create(name);
    b.preprocessing = {.input = b.model.input.shape, .mean = {}, .std = {}};
    EXPECT_TRUE(Predictor(b).keeps_samples_apart()) << name;
  }
  for (const char* name : {"textcnn", "text_bow", "lstm_text", "gru_text"}) {
    store::Bundle b;
    const std::shared_ptr<const data::Tokenizer> tokenizer =
        data::learn_tokenizer({"a film", "a bore"}, {.kind = data::TokenizerKind::word, .limit = 0});
    b.model = models::create(name, {.classes = 2, .vocabulary = tokenizer->size(), .length = 32});
    b.preprocessing = {.input = {32}, .mean = {}, .std = {}, .tokenizer = tokenizer, .lengths = {16, 32}};
    EXPECT_TRUE(Predictor(b).keeps_samples_apart()) << name;
  }
}

TEST(Predictor, NoSamplesGiveNoRows) { EXPECT_EQ(Predictor(small_net()).run({}).shape(), (Shape{0, 10})); }

TEST(Predictor, SamplesThatDoNotFitAreRefused) {
  Predictor predictor(small_net());
  expect_error(ErrorKind::data, {"[1,8,8]", "[1,28,28]"}, [&] { predictor.run({Array(DType::u8, {1, 8, 8})}); });
  expect_error(ErrorKind::data, {"i32"}, [&] { predictor.run({Array(DType::i32, {1, 28, 28})}); });
  expect_error(ErrorKind::usage, {"reads no texts"}, [&] { predictor.sample_of_text("hello"); });
  const TemporaryDir dir;
  io::save_npy(dir / "long.npy", Array(DType::f32, {2, 3, 4, 5}));
  expect_error(ErrorKind::data, {"long.npy"}, [&] { predictor.sample_of_file(dir / "long.npy"); });
  Array odd(DType::f32, {1, 28, 28});
  odd.data<float>()[5] = NAN;
  io::save_npy(dir / "odd.npy", odd);
  expect_error(ErrorKind::data, {"odd.npy", "nan at element 5"}, [&] { predictor.sample_of_file(dir / "odd.npy"); });
  // Finite, but not for long: 3e38 / 0.25 is infinite, and 1e20 becomes so within the net.
  for (const float large : {3e38f, -1e20f}) {
    odd.data<float>()[5] = large;
    io::save_npy(dir / "odd.npy", odd);
    expect_error(ErrorKind::data, {"odd.npy", cat(large), "element 5", "normalization"},
                 [&] { predictor.sample_of_file(dir / "odd.npy"); });
    expect_error(ErrorKind::data, {"sample 1", "element 5"}, [&] { predictor.run({pixels(1), odd}); });
  }
  store::Bundle of_pixels = small_net();
  of_pixels.preprocessing.arrays.values = data::Values::bytes;
  odd.data<float>()[5] = 255;
  expect_error(ErrorKind::data, {"sample 0", "255", "0 to 1"}, [&] { Predictor(of_pixels).run({odd}); });
  EXPECT_NO_THROW(predictor.run({odd}));  // whose floats may be anything
  expect_error(ErrorKind::usage, {"batch size", "0"}, [] { Predictor(small_net(), {.batch_size = 0}); });
}

}  // namespace
}  // namespace freight::deploy
