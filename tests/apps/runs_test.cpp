// `freight runs`, and the model cards of runs and exports, as a user meets them.
#include <gtest/gtest.h>

#include <filesystem>

#include "freight/io/json_library.h"
#include "run_command.h"
#include "tests/support/small_digits.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;

TEST(RunsCommand, ListsRunsWithTheSettingsThatDiffer) {
  const std::string dir = scratch_dir(), runs = dir + "/runs";
  write_small_digits(dir);
  for (const char* lr : {"0.1", "0.01"}) {
    const Ran r =
        run_freight({"train", dir, "--model", "mlp", "--max-steps", "5", "--lr", lr, "-q", "-o", runs + "/" + lr});
    ASSERT_EQ(r.code, 0) << r.err;
  }
  const Ran list = run_freight({"runs", runs});
  EXPECT_EQ(list.code, 0) << list.err;
  for (const char* part : {"/0.01 ", "complete", "top1 ", "lr=0.01", "lr=0.1"}) {
    EXPECT_NE(list.out.find(part), std::string::npos) << list.out;
  }
  EXPECT_EQ(list.out.find("batch-size"), std::string::npos) << list.out;
  EXPECT_EQ(list.out.find("optimizer."), std::string::npos) << "keys of files instead of flags\n" << list.out;
  const auto j = nlohmann::json::parse(run_freight({"runs", runs, "--json"}).out);
  ASSERT_EQ(j.size(), 2u);
  EXPECT_EQ(j[0]["status"], "complete");
  EXPECT_EQ(j[0]["metric"], "top1");
  EXPECT_EQ(j[0]["steps"], 5);
  EXPECT_GT(j[0]["hours"].get<double>(), 0);
  EXPECT_EQ(run_freight({"runs", dir + "/nowhere"}).code, 3);
}

TEST(ModelCardCommand, RunsAndFoldersOfExportsHaveOneAndTheUsersOwnIsKept) {
  const std::string dir = scratch_dir(), run = dir + "/run";
  write_small_digits(dir);
  const std::vector<std::string> train = {"train", dir, "--model", "mlp", "--max-steps", "5", "-q", "-o", run};
  ASSERT_EQ(run_freight(train).code, 0);
  const std::string card = read_file(run + "/README.md");
  for (const char* part : {"library_name: freight", "| accuracy | ", "95 % interval", "| time of the steps |",
                           "## License", "## Limits", "freight predict model.safetensors"}) {
    EXPECT_NE(card.find(part), std::string::npos) << card;
  }
  const Ran exported = run_freight({"export", run + "/model.safetensors", "-o", dir + "/onnx/"});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_TRUE(fs::exists(dir + "/onnx/model.onnx"));
  EXPECT_NE(read_file(dir + "/onnx/README.md").find("| accuracy | "), std::string::npos);
  // A file is written without a card.
  EXPECT_EQ(run_freight({"export", run + "/model.safetensors", "-o", dir + "/net.onnx"}).code, 0);
  EXPECT_FALSE(fs::exists(dir + "/README.md"));
  write_file(dir + "/onnx/README.md", "# Mine\n");
  const Ran kept = run_freight({"export", run + "/model.safetensors", "-o", dir + "/onnx"});
  EXPECT_EQ(kept.code, 0);
  EXPECT_NE(kept.err.find("README.md is kept"), std::string::npos) << kept.err;
  EXPECT_EQ(read_file(dir + "/onnx/README.md"), "# Mine\n");
  // A card of an earlier run goes with it.
  std::vector<std::string> again = train;
  again.insert(again.end(), {"--overwrite", "--lr", "0.5"});
  ASSERT_EQ(run_freight(again).code, 0);
  EXPECT_NE(read_file(run + "/README.md").find("--lr 0.5"), std::string::npos);
}

TEST(ModelCardCommand, ModelsOfTablesHaveTheIntervalsOfTheirMetrics) {
  const std::string dir = scratch_dir();
  std::string rows = "x,y\n";
  for (int i = 0; i < 300; ++i) rows += std::to_string(i % 37) + "," + std::to_string(2 * (i % 37) + i % 5) + "\n";
  write_file(dir + "/line.csv", rows);
  ASSERT_EQ(
      run_freight({"train", dir + "/line.csv", "--target", "y", "--model", "linear", "-q", "-o", dir + "/run"}).code,
      0);
  const std::string card = read_file(dir + "/run/README.md");
  EXPECT_NE(card.find("pipeline_tag: tabular-regression"), std::string::npos) << card;
  const size_t at = card.find("| rmse | ");
  ASSERT_NE(at, std::string::npos) << card;
  EXPECT_NE(card.substr(at, card.find('\n', at) - at).find(" to "), std::string::npos) << card;
  EXPECT_NE(card.find("| target column | y |"), std::string::npos);
}

}  // namespace
}  // namespace freight::test
