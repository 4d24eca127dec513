// Runs that are fine-tuned: frozen layers keep their bits, rates differ by layer, and all of it survives a stop.
#include <signal.h>

#include <cmath>
#include <map>

#include "freight/io/safetensors.h"
#include "freight/job/signals.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"
#include "tests/support/small_digits.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

std::string net(int classes) {
  return cat(R"({"format": "freight-model-1", "name": "net", "input": [1, 28, 28], "net": [
    {"name": "conv1", "type": "Conv2d", "out": 4, "kernel": 3, "stride": 2}, {"name": "bn1", "type": "BatchNorm2d"},
    {"type": "ReLU"}, {"name": "conv2", "type": "Conv2d", "out": 8, "kernel": 3, "stride": 2},
    {"name": "bn2", "type": "BatchNorm2d"}, {"type": "ReLU"}, {"type": "Flatten"}, {"type": "Dropout", "p": 0.2},
    {"name": "fc", "type": "Linear", "out": )",
             classes, "}]}");
}

struct Stopper : Observer {
  explicit Stopper(int64_t after) : steps(after) {}
  bool wants_step() override {
    if (--steps == 0) raise(SIGTERM);
    return false;
  }
  void on_start(const RunSummary& s) override { summary = s; }
  int64_t steps;
  RunSummary summary;
};

class FineTuning : public ::testing::Test {
 protected:
  FineTuning() {
    signals::install();
    signals::reset();
    test::write_small_digits(dir_.path());
    io::write_file_atomic(dir_ / "before.json", std::string_view(net(12)));
    io::write_file_atomic(dir_ / "net.json", std::string_view(net(10)));
    Config c = at("before");
    c.model = dir_ / "before.json";
    c.epochs = 1;
    run(c);
    weights_ = dir_ / "before/model.safetensors";
  }
  ~FineTuning() override { signals::reset(); }

  Config at(const std::string& name) const {
    Config c = recipe(dir_.path());
    c.model = dir_ / "net.json";
    c.weights = weights_;
    c.batch_size = 32;
    c.epochs = 2;
    c.lr = 0.02;
    c.lr_scheduler = "cosine";
    c.deterministic = true;
    c.output_dir = dir_ / name;
    return c;
  }
  Result run(const Config& c, int64_t stop_after = -1) {
    signals::reset();
    Stopper observer(stop_after);
    const Result r = train(c, observer);
    summary_ = observer.summary;
    notes_ = join(observer.summary.notes, "\n");
    signals::reset();
    return r;
  }
  std::map<std::string, std::vector<float>> tensors(const std::string& path) const {
    std::map<std::string, std::vector<float>> all;
    for (const auto& [name, array] : io::load_safetensors(path).tensors) all[name] = array.to_vector<float>();
    return all;
  }

  TemporaryDir dir_;
  std::string weights_, notes_;
  RunSummary summary_;
};

TEST_F(FineTuning, FrozenLayersAndTheirStatisticsKeepTheirBits) {
  Config c = at("run");
  c.freeze = "conv1,bn1";
  run(c);
  EXPECT_NE(notes_.find("initialized: fc.weight [10,"), std::string::npos) << notes_;
  EXPECT_NE(notes_.find("frozen: 48 of"), std::string::npos) << notes_;  // 4 x 9 + 4 + 2 x 4
  const auto before = tensors(weights_), after = tensors(dir_ / "run/model.safetensors");
  for (const char* kept : {"conv1.weight", "conv1.bias", "bn1.weight", "bn1.running_mean", "bn1.running_var"}) {
    EXPECT_EQ(before.at(kept), after.at(kept)) << kept;
  }
  for (const char* trained : {"conv2.weight", "bn2.bias", "bn2.running_mean"}) {
    EXPECT_NE(before.at(trained), after.at(trained)) << trained;
  }
  EXPECT_EQ(summary_.parameters, 36 + 4 + 8 + 288 + 8 + 16 + 10 * 288 + 10);
}

TEST_F(FineTuning, AStoppedRunGoesOnBitwise) {
  const auto settings = [&](const std::string& name) {
    Config c = at(name);
    c.freeze = "conv1,bn1";
    c.head_lr = 0.1;
    c.lr_layer_decay = 0.5;
    c.lr_scale = "bn2=0.3";
    c.model_ema = 0.9;
    return c;
  };
  run(settings("whole"));
  EXPECT_TRUE(run(settings("parts"), 25).interrupted());
  std::filesystem::remove(weights_);  // the checkpoint has all that is needed of it
  Config c = settings("parts");
  c.resume = "auto";
  EXPECT_FALSE(run(c).interrupted());
  EXPECT_EQ(read_text(dir_ / "whole/model.safetensors"), read_text(dir_ / "parts/model.safetensors"));
  c.freeze = "conv1";
  expect_error(ErrorKind::usage, {"--freeze: cannot change when a run resumes: got conv1", "bn1"}, [&] { run(c); });
}

TEST_F(FineTuning, RatesOfLayersActInTheStep) {
  Config c = at("run");
  c.optimizer = "sgd";
  c.momentum = 0;
  c.nesterov = false;
  c.max_steps = 1;
  c.head_lr = 1e-12;
  c.lr_scale = "conv2=0.5";
  c.lr_scheduler = "constant";
  run(c);
  const auto before = tensors(weights_), scaled = tensors(dir_ / "run/model.safetensors");
  Config plain = c;
  plain.lr_scale.clear();
  plain.output_dir = dir_ / "plain";
  run(plain);
  const auto full = tensors(dir_ / "plain/model.safetensors");
  for (size_t i = 0; i < 8; ++i) {
    const double was = before.at("conv2.weight")[i];
    EXPECT_NEAR(2 * (scaled.at("conv2.weight")[i] - was), full.at("conv2.weight")[i] - was, 1e-6);
  }
  EXPECT_EQ(scaled.at("conv1.weight"), full.at("conv1.weight"));
}

TEST_F(FineTuning, ShardsAndMicroBatchesLeaveFrozenLayersAlone) {
  const auto before = tensors(weights_);
  for (const bool shards : {false, true}) {
    Config c = at(shards ? "shards" : "parts");
    (shards ? c.shards : c.grad_accum) = 4;
    c.freeze = "backbone";
    run(c);
    const auto after = tensors(c.output_dir + "/model.safetensors");
    for (const auto& [name, values] : before) {
      if (name.rfind("fc.", 0) == 0) continue;
      EXPECT_EQ(values, after.at(name)) << name;
    }
  }
}

// The largest difference between the tensors of two runs' models.
double difference(const std::map<std::string, std::vector<float>>& a,
                  const std::map<std::string, std::vector<float>>& b) {
  double most = 0;
  for (const auto& [name, values] : a) {
    for (size_t i = 0; i < values.size(); ++i) {
      most = std::max(most, std::fabs(static_cast<double>(values[i]) - static_cast<double>(b.at(name)[i])));
    }
  }
  return most;
}

TEST_F(FineTuning, KeptFeaturesTrainTheSameModelAsLayersThatAreComputedInEveryEpoch) {
  for (const int64_t views : {0, 2}) {
    const auto model = [&](const std::string& cache) {
      Config c = at(cat(cache, views));
      c.freeze = "backbone";
      c.model_ema = 0.9;
      c.flip = views > 0;
      c.augment_views = views;
      c.feature_cache = cache;
      run(c);
      return tensors(c.output_dir + "/model.safetensors");
    };
    const auto off = model("off");
    EXPECT_NE(notes_.find("computed in every epoch: --feature-cache off"), std::string::npos) << notes_;
    const auto kept = model("memory");
    EXPECT_NE(notes_.find("the frozen layers are computed once"), std::string::npos) << notes_;
    EXPECT_NE(notes_.find("in memory"), std::string::npos) << notes_;
    EXPECT_LT(difference(off, kept), 1e-4);
    EXPECT_EQ(difference(kept, model("disk")), 0);
    EXPECT_NE(notes_.find("in a file in"), std::string::npos) << notes_;
  }
}

TEST_F(FineTuning, AStoppedRunOnKeptFeaturesGoesOnBitwise) {
  const auto settings = [&](const std::string& name) {
    Config c = at(name);
    c.freeze = "backbone";
    c.flip = true;
    c.augment_views = 3;
    c.feature_cache = "memory";
    return c;
  };
  run(settings("whole"));
  EXPECT_TRUE(run(settings("parts"), 25).interrupted());
  Config c = settings("parts");
  c.resume = "auto";
  EXPECT_FALSE(run(c).interrupted());
  EXPECT_EQ(read_text(dir_ / "whole/model.safetensors"), read_text(dir_ / "parts/model.safetensors"));
}

TEST_F(FineTuning, MicroBatchesAndClassWeightsTakeKeptFeatures) {
  std::vector<std::map<std::string, std::vector<float>>> models;
  for (const char* cache : {"off", "memory"}) {
    Config c = at(cache);
    c.freeze = "backbone";
    c.feature_cache = cache;
    c.grad_accum = 4;
    c.class_weight = "balanced";
    c.sample_by = "class";
    run(c);
    models.push_back(tensors(c.output_dir + "/model.safetensors"));
  }
  EXPECT_LT(difference(models[0], models[1]), 1e-4);
}

TEST_F(FineTuning, KeptFeaturesAreEvaluatedAtTheTemperatureOfTheModel) {
  std::vector<double> losses;
  for (const char* cache : {"off", "memory"}) {
    Config c = at(cache);
    c.freeze = "backbone";
    c.feature_cache = cache;
    c.calibration = "temperature";
    losses.push_back(run(c).test.loss);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-4);
}

// Documents of up to 60 tokens: batches have 32 or 64 of them, and other orders in each epoch.
TEST_F(FineTuning, KeptFeaturesOfDocumentsTrainTheSameModel) {
  std::string csv = "text,label\n";
  for (int i = 0; i < 150; ++i) {
    csv += i % 2 ? "fine" : "poor";
    for (int w = 0; w < 2 + i * 7 % 58; ++w) csv += cat(" w", (i * 13 + w * w) % 40);
    csv += i % 2 ? ",good\n" : ",bad\n";
  }
  io::write_file_atomic(dir_ / "texts.csv", std::string_view(csv));
  const auto settings = [&](const std::string& model, const std::string& cache) {
    Config c = recipe(dir_ / "texts.csv");
    c.model = model;
    c.freeze = "backbone";
    c.max_length = 64;
    c.batch_size = 16;
    c.epochs = 3;
    c.lr = 0.01;
    c.deterministic = true;
    c.feature_cache = cache;
    c.output_dir = dir_ / cat(model, cache);
    c.overwrite = true;
    return c;
  };
  for (const char* model : {"textcnn", "lstm_text", "text_bow"}) {
    SCOPED_TRACE(model);
    const auto trained = [&](const std::string& cache) {
      const Config c = settings(model, cache);
      run(c);
      return tensors(c.output_dir + "/model.safetensors");
    };
    const auto off = trained("off"), kept = trained("memory");
    EXPECT_NE(notes_.find("the frozen layers are computed once"), std::string::npos) << notes_;
    EXPECT_LT(difference(off, kept), 1e-4);
    EXPECT_EQ(difference(kept, trained("disk")), 0);
  }
  // A run that is stopped within an epoch goes on bitwise, and draws by class are those of the documents.
  Config c = settings("textcnn", "memory");
  c.sample_by = "class";
  c.output_dir = dir_ / "whole";
  run(c);
  c.output_dir = dir_ / "parts";
  EXPECT_TRUE(run(c, 11).interrupted());
  c.resume = "auto";
  c.overwrite = false;
  EXPECT_FALSE(run(c).interrupted());
  EXPECT_EQ(read_text(dir_ / "whole/model.safetensors"), read_text(dir_ / "parts/model.safetensors"));
  // The vectors of the words are as many as the tokens.
  c = settings("textcnn", "memory");
  c.freeze = "embedding";
  expect_error(ErrorKind::usage,
               {"another size for each length of texts (one of 32 tokens gives 4,096 numbers, one of 64"},
               [&] { run(c); });
}

TEST_F(FineTuning, SaysTheRatesOfHeadAndBody) {
  Config c = at("rates");
  c.head_lr = 0.2;
  c.lr_layer_decay = 0.5;
  c.max_steps = 1;
  run(c);
  EXPECT_NE(notes_.find("learning rates: 0.2 of the head (fc), 0.005 to 0.01 of the layers before it"),
            std::string::npos)
      << notes_;
  c.overwrite = true;
  c.freeze = "backbone";
  run(c);
  EXPECT_NE(notes_.find("learning rates: 0.2 of the head (fc);"), std::string::npos) << notes_;
}

TEST_F(FineTuning, SaysWhatPreventsThatFrozenLayersAreComputedOnce) {
  const auto refused = [&](const std::string& why, const std::function<void(Config&)>& change) {
    Config c = at("refused");
    c.freeze = "backbone";
    c.feature_cache = "memory";
    c.overwrite = true;
    change(c);
    expect_error(ErrorKind::usage, {"--feature-cache: memory: the frozen layers cannot be computed once", why},
                 [&] { run(c); });
    c.feature_cache = "auto";
    c.max_steps = 1;
    run(c);
    EXPECT_NE(notes_.find(cat("computed in every epoch: ", why)), std::string::npos) << notes_;
  };
  refused("augmentation changes the samples in each; --shift 0 --no-flip turns it off, --augment-views 4",
          [](Config& c) {
            c.flip = true;
            c.shift = 2;
          });
  refused("--mixup-alpha mixes samples", [](Config& c) { c.mixup_alpha = 0.2; });
  refused("--on-bad-sample skip", [](Config& c) { c.on_bad_sample = "skip"; });
  refused("they need", [](Config& c) { c.feature_cache_size = "1KiB"; });
  refused("the frozen layers are not the first ones: conv1 is trained", [](Config& c) { c.freeze = "conv2,bn2"; });
  Config c = at("none");
  c.feature_cache = "memory";
  expect_error(ErrorKind::usage, {"--feature-cache", "none are frozen (--freeze)"}, [&] { run(c); });
}

TEST_F(FineTuning, ImagesAreNormalizedAsTheWeightsWere) {
  run(at("run"));
  const store::Bundle before = store::load_bundle(weights_), after = store::load_bundle(dir_ / "run/model.safetensors");
  EXPECT_EQ(before.preprocessing.mean, after.preprocessing.mean);
  // Other data have other means, which the first layers have never seen.
  const data::Dataset dark = data::draw_digits(0, 640);
  auto* pixels = const_cast<uint8_t*>(dark.images.data<uint8_t>());
  for (int64_t i = 0; i < dark.images.numel(); ++i) pixels[i] /= 4;
  test::write_idx_split(dir_.path(), "train", dark);
  run(at("dark"));
  EXPECT_EQ(before.preprocessing.mean, store::load_bundle(dir_ / "dark/model.safetensors").preprocessing.mean);
}

TEST_F(FineTuning, TextsTakeTheVocabularyOfTheWeights) {
  const auto write = [&](const std::string& name, const std::string& a, const std::string& b, const std::string& c) {
    std::string csv = "text,label\n";
    for (int i = 0; i < 60; ++i) {
      csv += cat("the film ", i % 7, " was good,", a, "\nthe film ", i % 5, " was dull,", b, "\n");
      if (!c.empty()) csv += cat("nobody saw the ", i % 3, " film,", c, "\n");
    }
    io::write_file_atomic(dir_ / name, std::string_view(csv));
  };
  write("first.csv", "good", "bad", "");
  write("second.csv", "yes", "no", "unknown");
  const auto texts = [&](const std::string& file, const std::string& name) {
    Config c = recipe(dir_ / file);
    set_model(c, "text_bow");
    c.epochs = 2;
    c.batch_size = 16;
    c.min_count = 1;
    c.deterministic = true;
    c.output_dir = dir_ / name;
    return c;
  };
  run(texts("first.csv", "first"));
  Config c = texts("second.csv", "second");
  c.weights = dir_ / "first/model.safetensors";
  run(c);
  EXPECT_NE(notes_.find("initialized: "), std::string::npos) << notes_;
  EXPECT_NE(notes_.find("is for training from scratch: --recipe finetune"), std::string::npos) << notes_;
  const store::Bundle first = store::load_bundle(c.weights),
                      second = store::load_bundle(dir_ / "second/model.safetensors");
  EXPECT_EQ(first.preprocessing.tokenizer->size(), second.preprocessing.tokenizer->size());
  EXPECT_EQ(second.classes.size(), 3u);
  c.output_dir = dir_ / "third";
  c.tokenizer = "char";
  expect_error(ErrorKind::usage, {"--tokenizer", "the vocabulary is that of", "first/model.safetensors"},
               [&] { run(c); });
}

}  // namespace
}  // namespace freight::train
