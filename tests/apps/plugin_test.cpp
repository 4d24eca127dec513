// `--plugin`: layers that the command was built without, wherever a model is read; and libraries that are no plugins.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/apps/run_command.h"
#include "tests/support/folders.h"
#include "tests/support/small_digits.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

std::string plugin(const std::string& name) { return binary_dir() + "/tests/plugins/libplugin_" + name + ".so"; }
const char* const kSpec = R"({"format": "freight-model-1", "name": "own", "input": [1,28,28], "net": [
  {"type": "Flatten"}, {"type": "Linear", "out": 16}, {"type": "Gain", "start": 0.5},
  {"name": "block", "type": "Gated", "gate": 0.25, "main": [{"type": "Linear", "out": 16}, {"type": "Tanh"}]},
  {"type": "Linear", "out": 10}]})";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Plugin : public ::testing::Test {
 protected:
  Plugin() : dir_(scratch_dir()), spec_(dir_ + "/own.json") { write_file(spec_, kSpec); }
  static Ran run(std::vector<std::string> args) {
    args.insert(args.end(), {"--plugin", plugin("mine")});
    return run_freight(args);
  }
  std::string dir_, spec_;
};

TEST_F(Plugin, ItsLayersAreShownWithTheSizesThatFollow) {
  const Ran r = run({"models", "show", spec_, "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(j["parameters"], 784 * 16 + 16 + 16 + 16 * 16 + 16 + 16 * 10 + 10);
  EXPECT_EQ(j["spec"]["net"]["layers"][2], Json({{"type", "Gain"}, {"width", 16}, {"start", 0.5}}));
  EXPECT_EQ(j["spec"]["net"]["layers"][3]["main"]["layers"][0]["in"], 16);
  EXPECT_EQ(j["layers"][2]["type"], "Gain");
  EXPECT_EQ(j["layers"][2]["parameters"], 16);
  EXPECT_EQ(j["layers"][3]["path"], "block.main.0");
}

TEST_F(Plugin, ANetOfItIsTrainedMeasuredAskedPlannedAndExported) {
  write_small_digits(dir_);
  const std::string out = dir_ + "/run", model = out + "/model.safetensors", onnx = dir_ + "/own.onnx";
  const Ran trained = run({"train", dir_, "--model", spec_, "--epochs", "3", "-o", out, "--json", "-q"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json result = Json::parse(trained.out);
  EXPECT_GT(result["test_top1"], 50);
  const Ran eval = run({"eval", "--weights", model, "--data", dir_, "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(Json::parse(eval.out)["top1"], result["test_top1"]);
  const Ran more = run({"train", dir_, "--model", spec_, "--epochs", "4", "-o", out, "--resume", "auto", "-q"});
  EXPECT_EQ(more.code, 0) << more.err;
  for (const std::vector<std::string>& args : {std::vector<std::string>{"models", "show", model},
                                               {"plan", "--model", spec_},
                                               {"profile", "--model", spec_, "--batch-size", "8", "--plan"},
                                               {"export", model, "-o", onnx},
                                               {"verify", model, "--data", dir_, "--samples", "5"}}) {
    const Ran r = run(args);
    EXPECT_EQ(r.code, 0) << args[0] << ": " << r.err;
  }
  // Without it each says which layer is missing, and where it may come from.
  const Ran spec = run_freight({"models", "show", spec_}), stored = run_freight({"eval", "--weights", model});
  EXPECT_EQ(spec.code, 2);
  EXPECT_EQ(stored.code, 8);
  for (const Ran& r : {spec, stored}) {
    EXPECT_TRUE(has(r.err, "unknown layer 'Gain'")) << r.err;
    EXPECT_TRUE(has(r.err, "--plugin")) << r.err;
  }
}

TEST_F(Plugin, TheSameOneTwiceIsOne) {
  const Ran r = run({"models", "show", spec_, "--plugin", plugin("mine")});
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST_F(Plugin, WhatIsNoneIsNamedWithTheFault) {
  const std::string text = dir_ + "/notes.so", pipe = dir_ + "/pipe.so", half = dir_ + "/half.so";
  write_file(text, "no library\n");
  std::filesystem::copy_file(plugin("mine"), half);
  std::filesystem::resize_file(half, std::filesystem::file_size(half) / 2);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  struct Row {
    std::string path;
    std::vector<std::string> said;
  };
  for (const Row& row : {Row{dir_ + "/none.so", {"there is no plugin", "No such file"}},
                         {dir_, {"is a directory", "expected a plugin"}},
                         {pipe, {"is not a file", "expected a plugin"}},
                         {text, {"is not a shared library"}},
                         {half, {"the library is cut off", "copy or rebuild it"}},
                         {plugin("no_entry"), {"is not a plugin", "no function freight_plugin"}},
                         {plugin("other_version"), {"another Freight", "got 9.8.7 (interface 7)", "rebuild it"}},
                         {plugin("unresolved"), {"cannot be loaded by Freight", "function_of_another_freight"}},
                         {plugin("taken_name"), {"there is a layer 'Linear' already"}}}) {
    for (const std::vector<std::string>& args :
         {std::vector<std::string>{"models", "show", spec_}, {"train", "digits", "--dry-run"}}) {
      std::vector<std::string> all = args;
      all.insert(all.end(), {"--plugin", row.path});
      const Ran r = run_freight(all);
      EXPECT_EQ(r.code, 2) << row.path << ": " << r.err;
      EXPECT_TRUE(has(r.err, row.path)) << r.err;
      for (const std::string& part : row.said) EXPECT_TRUE(has(r.err, part)) << part << " is not in: " << r.err;
    }
  }
}

TEST_F(Plugin, ANameWithoutAFolderIsAFileHereAndHelpLoadsNothing) {
  const Ran r = run_freight({"models", "show", spec_, "--plugin", "libnowhere.so"});
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(has(r.err, "./libnowhere.so")) << r.err;
  EXPECT_EQ(run_freight({"train", "--help", "--plugin", "libnowhere.so"}).code, 0);
}

}  // namespace
}  // namespace freight::test
