// Weights that a network is fine-tuned from: what is taken over, and which files are refused.
#include "freight/finetune/pretrained.h"

#include "freight/store/bundle.h"
#include "tests/support/files.h"

namespace freight::finetune {
namespace {

using freight::testing::expect_error;
using freight::testing::TemporaryDir;

class Pretrained : public ::testing::Test {
 protected:
  std::string saved(const models::Model& model) {
    const std::string path = dir_ / (model.name + ".safetensors");
    store::save_weights(model, path);
    return path;
  }
  static std::vector<float> values(const models::Model& model, const std::string& name) {
    for (const nn::NamedVariable& v : model.net->state_dict()) {
      if (v.name == name) return v.variable.array().to_vector<float>();
    }
    ADD_FAILURE() << name;
    return {};
  }
  static models::Model spec(const std::string& layers) {
    return models::from_spec(cat(R"({"format":"freight-model-1","name":"own","input":[1,8,8],"net":[)", layers, "]}"));
  }
  TemporaryDir dir_;
};

TEST_F(Pretrained, AHeadOfAnotherSizeIsReplacedAndReported) {
  const models::Model before = models::create("resnet20", {.classes = 10});
  const std::string path = saved(before);
  models::Model model = models::create("resnet20", {.classes = 3});
  const LoadReport r = load_pretrained(model, path, nullptr, FileMayHaveMore::no);
  EXPECT_EQ(values(model, "layer3.2.bn2.weight"), values(before, "layer3.2.bn2.weight"));
  EXPECT_EQ(values(model, "conv1.weight"), values(before, "conv1.weight"));
  EXPECT_EQ(r.initialized.size(), 2u);
  EXPECT_EQ(r.loaded.size() + 2, model.net->state_dict().size());
  EXPECT_NE(r.line.find("initialized: fc.weight [3,64] (file [10,64]), fc.bias [3] (file [10])"), std::string::npos)
      << r.line;
  models::Model same = models::create("resnet20", {.classes = 10});
  EXPECT_TRUE(load_pretrained(same, path, nullptr, FileMayHaveMore::no).initialized.empty());
  EXPECT_EQ(values(same, "fc.weight"), values(before, "fc.weight"));
}

TEST_F(Pretrained, WeightsOfAnotherNetworkAreRefusedWithItsName) {
  const std::string path = saved(models::create("resnet32", {.classes = 10}));
  models::Model model = models::create("resnet20", {.classes = 3});
  expect_error(ErrorKind::checkpoint,
               {path, "do not fit the model resnet20", "unexpected", "layer1.3.bn1", "the weights of resnet32",
                "--model resnet32"},
               [&] { load_pretrained(model, path, nullptr, FileMayHaveMore::no); });
  models::Model larger = models::create("resnet56", {.classes = 3});
  expect_error(ErrorKind::checkpoint, {"missing: layer1.5.", "--model resnet32"},
               [&] { load_pretrained(larger, path, nullptr, FileMayHaveMore::no); });
}

TEST_F(Pretrained, ASpecMayEndInOtherLayersAndLeaveOutThoseOfTheFile) {
  const std::string body = R"({"name":"conv","type":"Conv2d","out":4,"kernel":3},{"type":"ReLU"},
                              {"name":"second","type":"Conv2d","out":4,"kernel":3},{"type":"Flatten"},)";
  const models::Model before = spec(body + R"({"name":"old","type":"Linear","out":10})");
  const std::string path = saved(before);
  models::Model model = spec(body + R"({"name":"new","type":"Linear","out":2})");
  const LoadReport r = load_pretrained(model, path, nullptr, FileMayHaveMore::yes);
  EXPECT_EQ(values(model, "second.weight"), values(before, "second.weight"));
  EXPECT_EQ(r.line, cat("weights of ", path,
                        ": 4 tensors loaded; initialized: new.weight, new.bias; ignored: ", "old.bias, old.weight"));
}

TEST_F(Pretrained, AHeadWhoseInputDoesNotFitIsRefused) {
  const std::string path = saved(spec(R"({"name":"conv","type":"Conv2d","out":4,"kernel":3},{"type":"Flatten"},
                    {"name":"fc","type":"Linear","out":10})"));
  models::Model model =
      spec(R"({"name":"conv","type":"Conv2d","out":4,"kernel":3},{"type":"AdaptiveAvgPool2d","output":1},
                                {"type":"Flatten"},{"name":"fc","type":"Linear","out":2})");
  expect_error(ErrorKind::checkpoint,
               {path, "the input of the head does not fit: fc.weight takes 144 features", "give 4"},
               [&] { load_pretrained(model, path, nullptr, FileMayHaveMore::yes); });
}

// The message said to rename a layer in the spec, and there was none.
TEST_F(Pretrained, AHeadOfAnotherBuiltInNetworkNamesIt) {
  const std::string path = saved(models::create("resnet20", {}));
  models::Model model = models::create("resnet18", {.classes = 5});
  expect_error(ErrorKind::checkpoint, {path, "fc.weight takes 64 features", "--model resnet20"},
               [&] { load_pretrained(model, path, nullptr, FileMayHaveMore::no); });
}

TEST_F(Pretrained, AuxiliaryHeadsOfAnotherSizeAreReplaced) {
  const auto net = [](int classes) {
    return spec(cat(R"({"name":"conv","type":"Conv2d","out":4,"kernel":3},
                       {"name":"aux","type":"Auxiliary","head":[{"type":"Flatten"},{"name":"fc","type":"Linear","out":)",
                    classes,
                    R"(}],"weight":0.3},{"name":"second","type":"Conv2d","out":4,"kernel":3},{"type":"Flatten"},
                       {"name":"fc","type":"Linear","out":)",
                    classes, "}"));
  };
  const std::string path = saved(net(10));
  models::Model model = net(3);
  const LoadReport r = load_pretrained(model, path, nullptr, FileMayHaveMore::no);
  EXPECT_EQ(r.loaded.size(), 4u);
  EXPECT_EQ(r.initialized.size(), 4u);
}

TEST_F(Pretrained, AFileOfWhichLittleFitsIsRefused) {
  const std::string path = saved(models::create("lenet"));
  models::Model model = models::create("resnet20");
  expect_error(ErrorKind::checkpoint, {path, "do not fit the model resnet20", "--model lenet"},
               [&] { load_pretrained(model, path, nullptr, FileMayHaveMore::no); });
}

}  // namespace
}  // namespace freight::finetune
