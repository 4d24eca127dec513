// Early stopping, class weights, metrics and thresholds from the command line: on several devices, in shards, resumed,
// and with tables.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/io/safetensors.h"
#include "freight/store/bundle.h"
#include "rank_models.h"
#include "run_command.h"
#include "tests/support/unbalanced_texts.h"

namespace freight::test {
namespace {

using Words = std::vector<std::string>;

class Imbalance : public DigitRuns {
 protected:
  Imbalance() { write_file(path("texts.csv"), unbalanced_texts(480, 6)); }
  const Words judged_ = {"--model",        "text_bow", "--metric",    "auc",        "--early-stop",  "2",
                         "--class-weight", "balanced", "--epochs",    "6",          "--lr",          "0.5",
                         "--max-length",   "16",       "--threshold", "recall=0.9", "--calibration", "temperature"};
};

TEST_F(Imbalance, ShardsGiveTheSameModelToTheByteOnAnyNumberOfDevices) {
  std::string first;
  for (const char* devices : {"1", "2", "4"}) {
    Words args = judged_;
    args.insert(args.end(), {"--shards", "4", "-b", "32", "--devices", devices, "-q"});
    const Ran r = train("texts.csv", cat("run", devices), args);
    ASSERT_EQ(r.code, 0) << r.err;
    if (first.empty()) first = model(cat("run", devices));
    EXPECT_TRUE(model(cat("run", devices)) == first) << "on " << devices;
  }
  EXPECT_TRUE(store::load_bundle(path("run1/model.safetensors")).threshold);
}

TEST_F(Imbalance, DevicesWithoutShardsJudgeTheSameAnswers) {
  Words args = judged_;
  args.insert(args.end(), {"-b", "32", "--json", "--deterministic"});
  const Ran one = train("texts.csv", "one", args);
  args.insert(args.end(), {"--devices", "2"});
  const Ran two = train("texts.csv", "two", args);
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(two.code, 0) << two.err;
  const auto a = nlohmann::json::parse(one.out), b = nlohmann::json::parse(two.out);
  EXPECT_NEAR(a["val_auc"].get<double>(), b["val_auc"].get<double>(), 0.02);
}

TEST_F(Imbalance, SaysWhichEpochIsStoredAndResumes) {
  Words args = judged_;
  args.insert(args.end(), {"--epochs", "40", "-b", "32"});
  const Ran first = train("texts.csv", "run", args);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("best    epoch "), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("by validation auc"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("the run ended early"), std::string::npos) << first.out;
  EXPECT_NE(first.err.find("val auc"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("class weights: ham"), std::string::npos) << first.err;
  const std::string stored = model("run");
  args.insert(args.end(), {"--resume", "auto"});
  EXPECT_EQ(train("texts.csv", "run", args).code, 0);
  EXPECT_TRUE(model("run") == stored) << "nothing was left to do";
  for (const auto& [flag, value] : {std::pair{"--metric", "f1"}, {"--class-weight", "none"}, {"--loss", "focal"}}) {
    Words other = args;
    other.insert(other.end(), {flag, value});
    const Ran r = train("texts.csv", "run", other);
    EXPECT_EQ(r.code, 2) << flag;
    EXPECT_NE(r.err.find(cat(flag, ": cannot change when a run resumes")), std::string::npos) << r.err;
  }
  const Ran eval = run_freight({"eval", "--weights", path("run/model.safetensors"), "--split", "val", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  const auto scores = nlohmann::json::parse(eval.out)["scores"];
  EXPECT_GE(scores["recall"]["value"].get<double>(), 0.9);
  EXPECT_TRUE(scores["recall"]["low"].is_null()) << "16 samples of spam are too few";
  EXPECT_FALSE(scores["accuracy"]["low"].is_null());
  const Ran shown = run_freight({"eval", "--weights", path("run/model.safetensors"), "--split", "val"});
  EXPECT_NE(shown.out.find("too few samples"), std::string::npos) << shown.out;
  const Ran verified = run_freight({"verify", path("run/model.safetensors")});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
}

TEST_F(Imbalance, LossDrawsAndPlateauGoWithShardsDevicesAndResuming) {
  const Words set = {"--model",
                     "text_bow",
                     "--lr",
                     "0.5",
                     "--max-length",
                     "16",
                     "--loss",
                     "focal",
                     "--sample-by",
                     "class",
                     "--lr-scheduler",
                     "plateau",
                     "--lr-patience",
                     "1",
                     "--min-improvement",
                     "0.05",
                     "-b",
                     "32",
                     "-q"};
  const auto run = [&](const std::string& name, const Words& more) {
    Words args = set;
    args.insert(args.end(), more.begin(), more.end());
    const Ran r = train("texts.csv", name, args);
    EXPECT_EQ(r.code, 0) << r.err;
    return model(name);
  };
  EXPECT_TRUE(run("shards1", {"--epochs", "4", "--shards", "4", "--devices", "1"}) ==
              run("shards2", {"--epochs", "4", "--shards", "4", "--devices", "2"}));
  const std::string whole = run("whole", {"--epochs", "6", "--deterministic"});
  run("parts", {"--epochs", "3", "--deterministic"});
  EXPECT_TRUE(run("parts", {"--epochs", "6", "--deterministic", "--resume", "auto"}) == whole);
  EXPECT_NE(read_file(path("whole/log.txt")).find("the learning rate is scaled by 0.1"), std::string::npos);
  EXPECT_FALSE(run("devices", {"--epochs", "4", "--devices", "2"}).empty());
}

TEST_F(Imbalance, AFileOfClassWeightsIsNotNeededToResume) {
  write_file(path("weights.json"), R"({"ham": 1, "spam": 4})");
  const Words args = {"--model", "text_bow", "--epochs", "2", "--class-weight", path("weights.json"), "-q"};
  ASSERT_EQ(train("texts.csv", "run", args).code, 0);
  Words longer = args;
  longer.insert(longer.end(), {"--epochs", "3", "--resume", "auto"});
  EXPECT_EQ(train("texts.csv", "run", longer).code, 0) << "the same file";
  std::filesystem::remove(path("weights.json"));
  const Ran r = run_freight({"train", "--resume", path("run"), "--epochs", "4", "-q"});
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST_F(Imbalance, TablesTakeTheSameFlagsOrRefuseThem) {
  std::string csv = "x,z,y\n";
  for (int i = 0; i < 300; ++i)
    csv += cat((i * 37) % 101, ",", (i * 53) % 89, ",", (i * 37) % 101 > 80 ? "yes" : "no", "\n");
  write_file(path("table.csv"), csv);
  write_file(path("weights.json"), R"({"no": 1, "yes": 3})");
  const auto table = [&](const Words& more) {
    Words all = {"--target", "y", "--overwrite", "-q"};
    all.insert(all.end(), more.begin(), more.end());
    return train("table.csv", "table", all);
  };
  const Ran ruled = table({"--model", "logistic", "--threshold", "recall=0.9"});
  EXPECT_EQ(ruled.code, 0) << ruled.err;
  EXPECT_TRUE(io::load_safetensors(path("table/model.safetensors")).metadata.contains("threshold"));
  for (const Words& flag : {Words{"--loss", "focal"},
                            {"--sample-by", "class"},
                            {"--calibration", "temperature"},
                            {"--min-improvement", "0.1"}}) {
    const Ran r = table({"--model", "logistic", flag[0], flag[1]});
    EXPECT_EQ(r.code, 2) << flag[0];
    EXPECT_NE(r.err.find(flag[0]), std::string::npos) << r.err;
  }
}

}  // namespace
}  // namespace freight::test
