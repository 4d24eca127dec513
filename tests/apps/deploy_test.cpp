// `freight export`, `freight verify` and `freight models convert` as a user calls them.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "tests/apps/run_command.h"
#include "tests/support/folders.h"
#include "tests/support/python.h"

namespace freight::test {
namespace {

const std::string kGolden = source_dir() + "/tests/deploy/golden/";
const std::string kModel = kGolden + "pictures.safetensors";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Export, WritesAFileAndSaysWhatItTakes) {
  const std::string file = scratch_dir() + "/m.onnx";
  const Ran plain = run_freight({"export", kModel, "-o", file});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_TRUE(has(plain.out, "input f32 (N, 1, 8, 8) -> probabilities f32 (N, 10)")) << plain.out;
  const Ran pixels = run_freight({"export", kModel, "-o", file, "--preprocessing", "--no-softmax", "--json"});
  const auto j = nlohmann::json::parse(pixels.out);
  EXPECT_EQ(j["input"], "pixels u8 (N, 1, 8, 8)");
  EXPECT_EQ(j["output"], "logits f32 (N, 10)");
  EXPECT_GT(std::filesystem::file_size(file), 1000u);
  EXPECT_EQ(run_freight({"export", kModel}).code, 2);
  const Ran unknown = run_freight({"export", kModel, "-o", scratch_dir() + "/m.pt"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, "ONNX files end with .onnx")) << unknown.err;
  EXPECT_TRUE(has(unknown.err, ".json or .ubj")) << unknown.err;
  const Ran text = run_freight({"export", kGolden + "texts.safetensors", "-o", file, "--preprocessing"});
  EXPECT_EQ(text.code, 2);
  EXPECT_TRUE(has(text.err, "images")) << text.err;
  EXPECT_EQ(run_freight({"export", kGolden + "net.json", "-o", file}).code, 8);
  EXPECT_EQ(run_freight({"export", kModel, "-o", "/no/such/dir/m.onnx"}).code, 1);
}

// An output that is an input was written over it; "-" made a file of that name.
TEST(Export, NothingThatIsReadIsWrittenOver) {
  const std::string dir = scratch_dir(), model = dir + "/m.safetensors", other = dir + "/./m.safetensors";
  std::filesystem::copy_file(kModel, model);
  write_file(dir + "/names.txt", "a\n");
  const std::vector<std::vector<std::string>> all = {
      {"export", model, "-o", other},
      {"models", "convert", model, other, "--plain"},
      {"models", "convert", model, dir + "/names.txt", "--model", "lenet", "--class-names", dir + "/names.txt"}};
  for (const std::vector<std::string>& args : all) {
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_TRUE(has(r.err, "is also an input")) << r.err;
  }
  EXPECT_EQ(read_file(model), read_file(kModel));
  for (const std::vector<std::string>& args : {std::vector<std::string>{"export", model, "-o", "-"},
                                               {"models", "convert", model, "-", "--plain"},
                                               {"train", "digits", "--max-steps", "1", "-o", "-"}}) {
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_TRUE(has(r.err, "got -")) << r.err;
  }
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST(Verify, PrintsALinePerClaim) {
  const Ran r = run_freight({"verify", kModel, "--data", kGolden + "data", "--samples", "5"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(has(r.out, "PASS         eval")) << r.out;
  EXPECT_TRUE(has(r.out, "not checked  onnx")) << r.out;
  const Ran all =
      run_freight({"verify", kModel, "--json", "--samples", "3", "--onnx-runtime", freight::testing::peer_python()});
  const auto j = nlohmann::json::parse(all.out);
  EXPECT_TRUE(j["passed"].get<bool>());
  EXPECT_EQ(j["checks"].size(), 7u);
  EXPECT_EQ(j["checks"][0]["state"], "not checked");
  EXPECT_EQ(j["checks"][6]["state"], freight::testing::peer_python().empty() ? "not checked" : "pass");
}

// A Python that runs anything and answers wrongly stands for a runtime that computes something else.
TEST(Verify, ExitsNineWhereAClaimFails) {
  const std::string dir = scratch_dir(), fake = dir + "/python";
  write_file(
      fake, "#!/bin/sh\ncase \"$2\" in *InferenceSession*) echo 'no kernel for Conv'; exit 1;; *) echo ready;; esac\n");
  std::filesystem::permissions(fake, std::filesystem::perms::owner_all);
  const Ran r = run_freight({"verify", kModel, "--samples", "2", "--onnx-runtime", fake});
  EXPECT_EQ(r.code, 9);
  EXPECT_TRUE(has(r.out, "FAIL         onnx")) << r.out;
  EXPECT_TRUE(has(r.out, "no kernel for Conv")) << r.out;
  EXPECT_TRUE(has(r.err, "2 of 7 checks failed: onnx, onnx-pixels")) << r.err;
}

TEST(ModelsConvert, MakesAStoredModelOfPlainWeightsAndBack) {
  const std::string dir = scratch_dir(), plain = dir + "/w.safetensors", model = dir + "/m.safetensors";
  ASSERT_EQ(run_freight({"models", "convert", kModel, plain, "--plain"}).code, 0);
  EXPECT_EQ(run_freight({"eval", plain, "--data", kGolden + "data"}).code, 8);
  write_file(dir + "/names.txt", "zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n");
  const Ran made = run_freight({"models", "convert", plain, model, "--model", kGolden + "net.json", "--class-names",
                                dir + "/names.txt", "--mean", "0.2", "--std", "0.3"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(has(made.out, "mean 0.2, std 0.3")) << made.out;
  EXPECT_EQ(run_freight({"eval", model, "--data", kGolden + "data"}).code, 0);
  EXPECT_EQ(run_freight({"models", "convert", plain, model}).code, 2);
  for (const auto& [names, part] :
       {std::pair<std::string, std::string>{"zero\none\nzero\n", "names.txt:3: the name zero"},
        {"zero\n\xff\n", "names.txt:2: not UTF-8"},
        {"zero\n\ntwo\n", "names.txt:2: the line is empty"}}) {
    write_file(dir + "/names.txt", names);
    const Ran r = run_freight(
        {"models", "convert", plain, model, "--model", kGolden + "net.json", "--class-names", dir + "/names.txt"});
    EXPECT_EQ(r.code, 3) << r.err;
    EXPECT_TRUE(has(r.err, part)) << r.err;
  }
  EXPECT_EQ(run_freight({"models", "convert", kModel, plain, "--plain", "--mean", "1"}).code, 2);
  EXPECT_EQ(run_freight({"models", "convert", plain, model, "--model", "lenet"}).code, 8);
  const Ran bad = run_freight({"models", "convert", plain, model, "--model", kGolden + "net.json", "--mean", "a,b"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_TRUE(has(bad.err, "--mean")) << bad.err;
}

TEST(ModelsConvert, WritesAndReadsPyTorchsFiles) {
  const std::string dir = scratch_dir(), torch = dir + "/w.pth", plain = dir + "/w.safetensors";
  ASSERT_EQ(run_freight({"models", "convert", kModel, torch}).code, 0);
  ASSERT_EQ(run_freight({"models", "convert", torch, plain, "--plain"}).code, 0);
  ASSERT_EQ(run_freight({"models", "convert", kModel, dir + "/same.safetensors", "--plain"}).code, 0);
  EXPECT_EQ(read_file(plain), read_file(dir + "/same.safetensors"));
  EXPECT_EQ(run_freight({"models", "convert", torch, dir + "/m.safetensors", "--model", kGolden + "net.json"}).code, 0);
  EXPECT_EQ(run_freight({"eval", dir + "/m.safetensors", "--data", kGolden + "data"}).code, 0);
  const std::vector<std::string> train = {
      "train", "--data",     kGolden + "data", "--model", kGolden + "net.json", "-b", "8", "--max-steps", "1",
      "-o",    dir + "/run", "--weights",      torch};
  const Ran trained = run_freight(train);
  EXPECT_EQ(trained.code, 0) << trained.err;
  // Commands that predict need the network, too, and say how to add it.
  const Ran weights = run_freight({"eval", torch, "--data", kGolden + "data"});
  EXPECT_EQ(weights.code, 8);
  EXPECT_TRUE(has(weights.err, "freight models convert " + torch)) << weights.err;
  const Ran other = run_freight({"models", "convert", torch, dir + "/o.pth", "--model", "lenet"});
  EXPECT_EQ(other.code, 8);
  EXPECT_TRUE(has(other.err, "missing: ") && has(other.err, "unexpected: ")) << other.err;
  EXPECT_EQ(run_freight({"models", "convert", kModel, torch, "--mean", "1"}).code, 2);
}

// A model of trees that training saved, as XGBoost's own file.
std::string xgboost_file(const std::string& dir, const std::string& csv, const std::vector<std::string>& training) {
  write_file(dir + "/rows.csv", csv);
  std::vector<std::string> train = {"train", dir + "/rows.csv", "-o", dir + "/run", "--rounds", "10", "--overwrite"};
  train.insert(train.end(), training.begin(), training.end());
  const Ran trained = run_freight(train);
  if (trained.code == 4) return {};
  EXPECT_EQ(trained.code, 0) << trained.err;
  const std::string file = dir + "/trees.json";
  EXPECT_EQ(run_freight({"export", dir + "/run/model.safetensors", "--format", "xgboost", "-o", file}).code, 0);
  return file;
}

TEST(ModelsConvert, MakesAStoredModelOfXgboostsTrees) {
  const std::string dir = scratch_dir(), model = dir + "/m.safetensors";
  std::string csv = "size,weight,level\n";
  for (int i = 0; i < 80; ++i) csv += cat(i % 4 ? 3 + i % 7 : 1, ",", 0.5 * (i % 5), ",", i % 4 ? "low" : "high", "\n");
  const std::string trees = xgboost_file(dir, csv, {"--model", "gbdt", "--target", "level"});
  if (trees.empty()) GTEST_SKIP() << "XGBoost is not available";
  write_file(dir + "/names.txt", "high\nlow\n");
  const Ran converted = run_freight({"models", "convert", trees, model, "--class-names", dir + "/names.txt"});
  ASSERT_EQ(converted.code, 0) << converted.err;
  EXPECT_TRUE(has(converted.out, "10 trees of XGBoost")) << converted.out;
  EXPECT_TRUE(has(converted.out, "classes high, low")) << converted.out;
  write_file(dir + "/new.csv", "f0,f1\n1,0.5\n4,1\n,\n");
  write_file(dir + "/named.csv", "size,weight\n1,0.5\n4,1\n,\n");
  const auto predicted = [&](const std::string& by, const std::string& of) {
    const Ran r = run_freight({"predict", by, of, "--csv", "--explain", "-q"});
    EXPECT_EQ(r.code, 0) << r.err;
    std::string cells;
    for (const std::string& line : split(r.out.substr(r.out.find('\n') + 1), '\n')) {
      if (!line.empty()) cells += line.substr(line.find(',')) + "\n";
    }
    return cells;
  };
  const bool named = has(converted.out, "columns size, weight");
  EXPECT_EQ(predicted(model, named ? dir + "/named.csv" : dir + "/new.csv"),
            predicted(dir + "/run/model.safetensors", dir + "/named.csv"));
  const Ran verified = run_freight({"verify", model});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_TRUE(has(verified.out, "PASS         shap")) << verified.out;
  EXPECT_EQ(run_freight({"export", model, "-o", dir + "/m.onnx"}).code, 0);
  const Ran refused = run_freight({"models", "convert", trees, model, "--mean", "1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(has(refused.err, "contains trees")) << refused.err;
  const Ran none = run_freight({"models", "convert", dir + "/names.txt", model});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(has(none.err, "XGBoost's .json and .ubj files")) << none.err;
  const Ran report = run_freight({"report", model});
  EXPECT_EQ(report.code, 3) << report.err;
  EXPECT_TRUE(has(report.err, "expected the directory of a run")) << report.err;
}

// Without groups there is nothing to rank within: this ended with a segmentation fault.
TEST(ModelsConvert, ARankingIsEvaluatedByAColumnOfQueries) {
  const std::string dir = scratch_dir(), model = dir + "/m.safetensors";
  std::string csv = "f0,f1,relevance,query\n";
  for (int i = 0; i < 80; ++i) csv += cat(i % 4, ",", i % 7, ",", i % 4, ",", i / 4, "\n");
  const std::string trees = xgboost_file(
      dir, csv, {"--model", "gbdt", "--target", "relevance", "--task", "ranking", "--group-column", "query"});
  if (trees.empty()) GTEST_SKIP() << "XGBoost is not available";
  ASSERT_EQ(run_freight({"models", "convert", trees, model}).code, 0);
  const std::vector<std::string> eval = {"eval", model, "--data", dir + "/rows.csv", "--target", "relevance", "--json"};
  const Ran without = run_freight(eval);
  EXPECT_EQ(without.code, 2) << without.err;
  EXPECT_TRUE(has(without.err, "--group-column: is missing")) << without.err;
  std::vector<std::string> grouped = eval;
  grouped.insert(grouped.end(), {"--group-column", "query"});
  const Ran with = run_freight(grouped);
  ASSERT_EQ(with.code, 0) << with.err;
  EXPECT_GT(nlohmann::json::parse(with.out)["scores"]["ndcg"]["value"].get<double>(), 0.99);
}

}  // namespace
}  // namespace freight::test
