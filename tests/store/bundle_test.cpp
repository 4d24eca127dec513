// The stored model: a round trip, and what is wrong with files that are none.
#include "freight/store/bundle.h"

#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "freight/deploy/predictor.h"
#include "freight/io/safetensors.h"
#include "freight/nn/nn.h"
#include "tests/support/files.h"

namespace freight::store {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

Bundle sample_bundle() {
  Bundle b;
  b.model = models::create("mlp");
  b.preprocessing = {{1, 28, 28}, {0.13f}, {0.31f}};
  for (int i = 0; i < 10; ++i) b.classes.push_back(cat("class ", i));
  b.provenance = {{"data", "digits"}};
  return b;
}

std::vector<Array> some_samples() {
  std::vector<Array> samples;
  for (int s = 0; s < 5; ++s) {
    Array a(DType::u8, {1, 28, 28});
    for (int64_t i = 0; i < a.numel(); ++i) a.data<uint8_t>()[i] = static_cast<uint8_t>(i * (s + 3));
    samples.push_back(a);
  }
  return samples;
}

// Stores `content` after `change`, and expects the fault to be named.
template <class F>
void expect_damaged(const std::vector<std::string>& parts, F&& change) {
  const TemporaryDir dir;
  const std::string path = dir / "m.safetensors";
  save_bundle(path, sample_bundle());
  io::SafeTensors content = io::load_safetensors(path);
  change(content);
  content.metadata.erase("xxh3_128");
  io::save_safetensors(path, content);
  std::vector<std::string> all = parts;
  all.push_back(path);
  expect_error(ErrorKind::checkpoint, all, [&] { load_bundle(path); });
}

TEST(Bundle, NamesAndScalesOfTargetsAreStoredWithIt) {
  const TemporaryDir dir;
  const std::string path = dir / "m.safetensors";
  Bundle b;
  b.model = models::create("mlp", {.classes = 2, .input = {1, 28, 28}});
  b.model.loss = models::Loss::huber;
  b.model.target_scale = {.mean = {3, -0.1f}, .deviation = {0.7f, 1e6f}};
  b.preprocessing = {{1, 28, 28}, {0.13f}, {0.31f}};
  b.targets = {"price", "area"};
  save_bundle(path, b);
  const Bundle read = load_bundle(path);
  EXPECT_EQ(read.targets, b.targets);
  EXPECT_EQ(read.model.target_scale.mean, b.model.target_scale.mean);
  EXPECT_EQ(read.model.target_scale.deviation, b.model.target_scale.deviation);
  for (const char* bad :
       {R"([{"name": "price"}])", R"([{"mean": 0, "deviation": 0}, {"mean": 0, "deviation": 1}])", "3"}) {
    io::SafeTensors content = io::load_safetensors(path);
    content.metadata["targets"] = bad;
    content.metadata.erase("xxh3_128");
    io::save_safetensors(path, content);
    EXPECT_THROW(load_bundle(path), Error) << bad;
  }
}

TEST(Bundle, WhatIsNotAsItWasStoredIsRefused) {
  const TemporaryDir dir;
  const std::string path = dir / "m.safetensors";
  save_bundle(path, sample_bundle());
  const io::SafeTensors stored = io::load_safetensors(path);
  const auto refused = [&](const auto& change) {
    io::SafeTensors file = stored;
    change(file);
    io::save_safetensors(path, file);
    expect_error(ErrorKind::checkpoint, {path, "differs from what was saved", "xxh3_128"}, [&] { load_bundle(path); });
    models::Model model = sample_bundle().model;
    expect_error(ErrorKind::checkpoint, {path, "differs from what was saved"}, [&] { load_weights(model, path); });
  };
  refused([](io::SafeTensors& f) {
    Array& a = f.tensors[0].second = f.tensors[0].second.clone();
    static_cast<uint8_t*>(a.raw())[3] ^= 0x40;
  });
  refused([](io::SafeTensors& f) { f.metadata["provenance"] += " "; });
  refused([](io::SafeTensors& f) { f.metadata["another"] = ""; });
  refused([](io::SafeTensors& f) { std::swap(f.tensors[0].first, f.tensors[1].first); });
  io::SafeTensors turned = stored;  // as a program may write it that sorts
  std::reverse(turned.tensors.begin(), turned.tensors.end());
  io::save_safetensors(path, turned);
  EXPECT_NO_THROW(load_bundle(path));
  turned.metadata.erase("xxh3_128");  // as early versions wrote it
  io::save_safetensors(path, turned);
  EXPECT_NO_THROW(load_bundle(path));
}

// A net of a program's own class, and a model by name.
TEST(Weights, ThatAreSavedAreLoadedByName) {
  const TemporaryDir dir;
  const std::string path = dir / "weights.safetensors";
  const auto values = [](const nn::Module& net) {
    std::vector<std::vector<float>> all;
    for (const nn::NamedVariable& v : net.state_dict()) all.push_back(v.variable.array().to_vector<float>());
    return all;
  };
  nn::Sequential from(nn::Linear(3, 4), nn::BatchNorm1d(4)), to(nn::Linear(3, 4), nn::BatchNorm1d(4));
  save_weights(from, path);
  EXPECT_NE(values(to), values(from));
  load_weights(to, path);
  EXPECT_EQ(values(to), values(from));
  nn::Sequential wider(nn::Linear(3, 5), nn::BatchNorm1d(5));
  expect_error(ErrorKind::checkpoint, {path, "0.weight"}, [&] { load_weights(wider, path); });
  expect_error(ErrorKind::checkpoint, {path}, [&] { load_bundle(path); });

  models::Model net = models::create("lenet", {.classes = 3}), again = models::create("lenet", {.classes = 3});
  save_weights(net, path);  // over the file that is there
  load_weights(again, path);
  EXPECT_EQ(values(*again.net), values(*net.net));
}

TEST(Weights, FilesWithTorchvisionsNamesLoadAndMisfitsAreNamed) {
  const TemporaryDir dir;
  const std::string path = dir / "resnet18.safetensors";
  const models::Model from = models::create("resnet18", {.classes = 5, .size = {32, 32}});
  io::SafeTensors file;
  for (const nn::NamedVariable& v : from.net->state_dict()) file.tensors.emplace_back(v.name, v.variable.array());
  file.tensors.emplace_back("layer1.0.bn1.num_batches_tracked", Array(DType::i64, {}));
  io::save_safetensors(path, file);
  models::Model to = models::create("resnet18", {.classes = 5, .size = {32, 32}});
  const auto first = [](const models::Model& m) { return m.net->state_dict()[0].variable.array().to_vector<float>(); };
  EXPECT_NE(first(to), first(from));
  load_weights(to, path);
  EXPECT_EQ(first(to), first(from));

  models::Model wider = models::create("resnet18", {.classes = 7, .size = {32, 32}});
  expect_error(ErrorKind::checkpoint, {path, "fc.weight (expected [7,512], got [5,512])"},
               [&] { load_weights(wider, path); });
  models::Model deeper = models::create("resnet34", {.classes = 5, .size = {32, 32}});
  expect_error(ErrorKind::checkpoint, {path, "missing: layer1.2.conv1.weight"}, [&] { load_weights(deeper, path); });
  models::Model shallower = models::create("resnet20", {.classes = 5});
  expect_error(ErrorKind::checkpoint, {path, "unexpected: ", "layer4."}, [&] { load_weights(shallower, path); });
}

TEST(Bundle, ALoadedModelPredictsTheSameBits) {
  const TemporaryDir dir;
  Bundle before = sample_bundle();
  save_bundle(dir / "m.safetensors", before);
  Bundle after = load_bundle(dir / "m.safetensors");
  EXPECT_EQ(after.classes, before.classes);
  EXPECT_EQ(after.preprocessing.input, before.preprocessing.input);
  EXPECT_EQ(after.preprocessing.mean, before.preprocessing.mean);
  EXPECT_EQ(after.preprocessing.std, before.preprocessing.std);
  EXPECT_EQ(after.provenance.at("data"), "digits");
  const deploy::PredictorOptions options{.deterministic = true};
  const Array a = deploy::Predictor(before, options).run(some_samples()),
              b = deploy::Predictor(after, options).run(some_samples());
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

TEST(Bundle, AFileWithoutMetadataIsNoModel) {
  expect_damaged({"not a Freight model"}, [](io::SafeTensors& f) { f.metadata.clear(); });
}

TEST(Bundle, AnotherFormatIsNamed) {
  expect_damaged({"freight-bundle-9"}, [](io::SafeTensors& f) { f.metadata["format"] = "freight-bundle-9"; });
}

TEST(Bundle, DamagedMetadataIsRefused) {
  expect_damaged({"metadata"}, [](io::SafeTensors& f) { f.metadata["preprocessing"] = "{\"input\": 3"; });
  expect_damaged({"metadata"}, [](io::SafeTensors& f) { f.metadata["classes"] = "[1, 2]"; });
}

TEST(Bundle, ASpecThatDoesNotBuildIsRefused) {
  expect_damaged({"Linaer"}, [](io::SafeTensors& f) {
    std::string& spec = f.metadata["spec"];
    spec.replace(spec.find("Linear"), 6, "Linaer");
  });
}

TEST(Bundle, ASpecThatDoesNotFitTheWeightsIsRefused) {
  expect_damaged({"128"}, [](io::SafeTensors& f) {
    std::string& spec = f.metadata["spec"];
    for (size_t at = spec.find("128"); at != std::string::npos; at = spec.find("128", at)) spec.replace(at, 3, "64");
  });
}

TEST(Bundle, PreprocessingThatDoesNotFitTheModelIsRefused) {
  expect_damaged({"[1,32,32]"}, [](io::SafeTensors& f) {
    f.metadata["preprocessing"] = R"({"input": [1,32,32], "mean": [0.1], "std": [0.3]})";
  });
  expect_damaged({"2 means and 1 standard deviations"}, [](io::SafeTensors& f) {
    f.metadata["preprocessing"] = R"({"input": [1,28,28], "mean": [0.1, 0.2], "std": [0.3]})";
  });
}

// Relu on a CPU may drop a NaN: the predictions looked sound.
TEST(Bundle, NumbersThatAreNotFiniteAreRefused) {
  for (const float odd : {NAN, INFINITY, -INFINITY}) {
    const TemporaryDir dir;
    const std::string path = dir / "m.safetensors";
    const Bundle b = sample_bundle();
    const nn::NamedVariable weight = b.model.net->state_dict()[1];
    Array values = weight.variable.array().clone();
    values.data<float>()[7] = odd;
    weight.variable.set(values);
    save_bundle(path, b);
    const std::vector<std::string> parts = {path, weight.name, cat(odd), "element 7", "1 number of "};
    expect_error(ErrorKind::checkpoint, parts, [&] { load_bundle(path); });
    models::Model model = sample_bundle().model;
    expect_error(ErrorKind::checkpoint, parts, [&] { load_weights(model, path); });
  }
  for (const char* std : {"0", "-1", "1e-50"}) {
    expect_damaged({"preprocessing: channel 0"}, [&](io::SafeTensors& f) {
      f.metadata["preprocessing"] = cat(R"({"input": [1,28,28], "mean": [0.1], "std": [)", std, "]}");
    });
  }
  expect_damaged({"channel 0", "standard deviation 0", "above 0"}, [](io::SafeTensors& f) {
    f.metadata["preprocessing"] = R"({"input": [1,28,28], "mean": [0.1], "std": [0]})";
  });
}

// Of a model that was trained here: every output has a name of its own.
TEST(Bundle, ClassNamesThatAreNotThoseOfTheOutputsAreRefused) {
  const auto refused = [](std::vector<std::string> names, const std::vector<std::string>& parts) {
    expect_damaged(parts, [&](io::SafeTensors& f) {
      f.metadata["provenance"] = R"({"data": "digits", "steps": "10"})";
      f.metadata["classes"] = nlohmann::json(names).dump();
    });
  };
  const std::vector<std::string> all = sample_bundle().classes;
  refused({}, {"names of 0 classes", "10 outputs"});
  refused({all.begin(), all.end() - 1}, {"names of 9 classes", "10 outputs"});
  std::vector<std::string> more = all;
  more.emplace_back("another");
  refused(more, {"names of 11 classes", "10 outputs"});
  refused(std::vector<std::string>(1'000'000, "a"), {"names of 1000000 classes"});
  refused(std::vector<std::string>(10, "same"), {"several classes are named \"same\""});
  more = all;
  more[9] = more[0];
  refused(more, {"several classes are named \"class 0\""});
}

TEST(Bundle, ConvertedWeightsMayHaveNoNamesOrOneTwice) {
  const TemporaryDir dir;
  Bundle b = sample_bundle();
  b.provenance = {{"weights", "w.safetensors"}};
  b.classes[9] = b.classes[0];
  save_bundle(dir / "m.safetensors", b);
  EXPECT_NO_THROW(load_bundle(dir / "m.safetensors"));
  b.classes.clear();
  save_bundle(dir / "m.safetensors", b);
  EXPECT_NO_THROW(load_bundle(dir / "m.safetensors"));
}

TEST(Bundle, WhatPreprocessingCannotBeIsRefused) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_damaged(parts, [&](io::SafeTensors& f) { f.metadata["preprocessing"] = text; });
  };
  const auto scaled = [](const std::string& mean, const std::string& std) {
    return cat(R"({"input": [1,28,28], "mean": [)", mean, R"(], "std": [)", std, "]}");
  };
  for (const char* std : {"1e-45", "1e-21", "1e30", "1e60", "-1e-3"}) refused(scaled("0.1", std), {"channel 0"});
  for (const char* mean : {"1e30", "-1e39"}) refused(scaled(mean, "0.3"), {"channel 0"});
  refused(R"({"input": [1,1,1,1,1,1,1,1,1], "mean": [], "std": []})", {"more than 8 axes"});
  refused(R"({"input": [1,28,28], "mean": [0.1], "std": [0.3], "resize": 16385})", {"resizes to 16385"});
  refused(R"({"input": [1,28,28], "mean": [0.1], "std": [0.3], "resize": 27})", {"resizes to 27"});
  refused(R"({"input": [1,28,28], "mean": [0.1], "mean": [0.1], "std": [0.3]})", {"\"mean\"", "twice"});
  refused(std::string(100'000, '['), {"preprocessing", "nested deeper than 200"});
}

// At a limit and below it is taken; ones above are refused in the tests beside this one.
TEST(Bundle, PreprocessingIsTakenUpToItsLimits) {
  const TemporaryDir dir;
  const auto loads = [&](const std::function<void(io::SafeTensors&)>& change) {
    io::SafeTensors file = to_file(sample_bundle());
    change(file);
    io::save_safetensors(dir / "m.safetensors", sealed(std::move(file)));
    EXPECT_NO_THROW(load_bundle(dir / "m.safetensors")) << file.metadata["preprocessing"];
  };
  const auto with = [&](const std::string& mean, const std::string& std, const std::string& more) {
    loads([&](io::SafeTensors& f) {
      f.metadata["preprocessing"] =
          cat(R"({"input": [1,28,28], "mean": [)", mean, R"(], "std": [)", std, "]", more, "}");
    });
  };
  for (const char* std : {"1.1e-20", "1e-20", "1e20", "0.9e20"}) with("0.1", std, "");
  for (const char* mean : {"1e20", "-1e20"}) with(mean, "0.3", "");
  for (const char* resize : {"28", "16383", "16384"}) with("0.1", "0.3", cat(R"(, "resize": )", resize));
  for (const size_t bytes : {4095, 4096}) {
    loads([&](io::SafeTensors& f) {
      f.metadata["provenance"] = cat(R"({"note": ")", std::string(bytes - 4, 'n'), "\"}");
    });
  }
  expect_damaged({"provenance: note has 4097 bytes with its name, expected at most 4096"}, [](io::SafeTensors& f) {
    f.metadata["provenance"] = cat(R"({"note": ")", std::string(4093, 'n'), "\"}");
  });
}

TEST(Bundle, ProvenanceOfAnotherKindIsRefused) {
  for (const char* said :
       {R"({"seed": "x"})", R"({"seed": "-1"})", R"({"val_split": "7"})", R"({"val_split": "nan"})",
        R"({"steps": "1e3"})", R"({"data_fingerprint": {}})", R"({"data": ["a"]})", R"({"note": null})"}) {
    expect_damaged({"provenance: "}, [&](io::SafeTensors& f) { f.metadata["provenance"] = said; });
  }
}

// The bits of a float, called an integer, became a weight of 10^9.
TEST(Bundle, WeightsUnderAnotherTypeAreRefused) {
  expect_damaged({"wrong type", "i32", "f32"}, [](io::SafeTensors& f) {
    Array& weights = f.tensors[0].second;
    const Array integers(DType::i32, weights.shape());
    std::memcpy(integers.raw(), weights.raw(), weights.bytes());
    weights = integers;
  });
}

TEST(Bundle, ATruncatedFileIsRefusedAtEveryLength) {
  const TemporaryDir dir;
  const std::string path = dir / "m.safetensors";
  save_bundle(path, sample_bundle());
  const std::string whole = read_text(path);
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    std::filesystem::resize_file(path, size);
    expect_error(ErrorKind::checkpoint, {path}, [&] { load_bundle(path); });
    io::write_file_atomic(path, std::string_view(whole));
  }
}

TEST(Bundle, TheOldFileSurvivesAFullDisk) {
  const TemporaryDir dir;
  const std::string path = dir / "m.safetensors";
  const Bundle bundle = sample_bundle();
  save_bundle(path, bundle);
  const std::string before = read_text(path);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit limit = {};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{100 * 1024, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  expect_error(ErrorKind::runtime, {path}, [&] { save_bundle(path, bundle); });
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(read_text(path), before);
  EXPECT_EQ(dir.entries(), 1u);
}

}  // namespace
}  // namespace freight::store
