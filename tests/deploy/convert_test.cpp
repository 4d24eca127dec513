// Weights with torchvision's names to a stored model and back.
#include "freight/deploy/convert.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/files.h"

namespace freight::deploy {
namespace {

using freight::testing::expect_error;
using freight::testing::TemporaryDir;

models::Model net() { return models::create("resnet18", {.classes = 3, .size = {32, 32}}); }

TEST(Convert, ThereAndBackIsTheSameWeights) {
  const TemporaryDir dir;
  store::Bundle first;
  first.model = net();
  export_weights(first, dir / "plain.safetensors");
  const store::Bundle b = import_weights(net(), dir / "plain.safetensors", {.classes = {"cat", "dog", "fish"}});
  store::save_bundle(dir / "model.safetensors", b);
  export_weights(store::load_bundle(dir / "model.safetensors"), dir / "again.safetensors");
  EXPECT_EQ(freight::testing::read_text(dir / "plain.safetensors"),
            freight::testing::read_text(dir / "again.safetensors"));
  const io::SafeTensors plain = io::load_safetensors(dir / "plain.safetensors");
  EXPECT_NE(plain.find("layer1.0.conv1.weight"), nullptr);
  EXPECT_EQ(plain.metadata.count("spec"), 0u);
}

TEST(Convert, FilesOfPyTorchHaveTheSameWeights) {
  const TemporaryDir dir;
  store::Bundle first;
  first.model = net();
  export_weights(first, dir / "plain.safetensors");
  store::save_bundle(dir / "model.safetensors", import_weights(net(), dir / "plain.safetensors", {}));
  export_weights(dir / "model.safetensors", dir / "weights.pth");  // of a saved model
  EXPECT_EQ(freight::testing::read_text(dir / "weights.pth").substr(0, 2), "PK");
  export_weights(dir / "weights.pth", dir / "again.safetensors");  // of weights alone
  EXPECT_EQ(freight::testing::read_text(dir / "plain.safetensors"),
            freight::testing::read_text(dir / "again.safetensors"));
  const store::Bundle b = import_weights(net(), dir / "weights.pth", {});
  EXPECT_EQ(b.model.net->state_dict()[0].variable.array().to_vector<float>(),
            first.model.net->state_dict()[0].variable.array().to_vector<float>());
  // Commands that predict say how weights become a model.
  expect_error(ErrorKind::checkpoint, {"weights.pth", "not a Freight model", "freight models convert"},
               [&] { store::load_bundle(dir / "weights.pth"); });
}

TEST(Convert, NetsOfPhotographsGetImageNetsPreprocessing) {
  const TemporaryDir dir;
  store::Bundle first;
  first.model = net();
  export_weights(first, dir / "w.safetensors");
  const store::Bundle b = import_weights(net(), dir / "w.safetensors", {});
  EXPECT_EQ(b.preprocessing.mean, (std::vector<float>{0.485f, 0.456f, 0.406f}));
  EXPECT_EQ(b.preprocessing.std, (std::vector<float>{0.229f, 0.224f, 0.225f}));
  EXPECT_EQ(b.preprocessing.resize, 36);  // as 256 for 224
  const store::Bundle own =
      import_weights(net(), dir / "w.safetensors", {.mean = {0, 0, 0}, .std = {1, 1, 1}, .resize = 0});
  EXPECT_EQ(own.preprocessing.mean, (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(own.preprocessing.resize, 0);
  store::Bundle small;
  small.model = models::create("lenet");
  export_weights(small, dir / "l.safetensors");
  EXPECT_TRUE(import_weights(models::create("lenet"), dir / "l.safetensors", {}).preprocessing.mean.empty());
}

TEST(Convert, MisfitsAreNamed) {
  const TemporaryDir dir;
  store::Bundle first;
  first.model = net();
  const std::string file = dir / "w.safetensors";
  export_weights(first, file);
  expect_error(ErrorKind::checkpoint, {file, "missing: layer1.2.conv1.weight"},
               [&] { import_weights(models::create("resnet34", {.classes = 3}), file, {}); });
  expect_error(ErrorKind::usage, {"2 class names", "3 classes"}, [&] {
    import_weights(net(), file, {.classes = {"a", "b"}});
  });
  expect_error(ErrorKind::usage, {"1 means", "3 channels"}, [&] { import_weights(net(), file, {.mean = {0.5f}}); });
  expect_error(ErrorKind::usage, {"deviation", "0"}, [&] {
    import_weights(net(), file, {.mean = {0, 0, 0}, .std = {1, 0, 1}});
  });
  expect_error(ErrorKind::usage, {"deviation", "inf"}, [&] {
    import_weights(net(), file, {.mean = {0, 0, 0}, .std = {1, INFINITY, 1}});
  });
  expect_error(ErrorKind::usage, {"resize to 16", "[3,32,32]"}, [&] { import_weights(net(), file, {.resize = 16}); });
  expect_error(ErrorKind::usage, {"text_bow", "tokenizer"},
               [&] { import_weights(models::create("text_bow"), file, {}); });
}

}  // namespace
}  // namespace freight::deploy
