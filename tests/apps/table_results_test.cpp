// What commands say of a model of a table: the CSV of predict, weights and parameters in eval, names of parts.
#include <gtest/gtest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

void expect_named(const Ran& r, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(r.code, code) << r.out << r.err;
  for (const std::string& part : parts) EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
}

TEST(TableResults, ASubmissionHasTheIdentifierTheTargetAndTheClassesByName) {
  const std::string dir = scratch_dir(), csv = dir + "/train.csv", model = dir + "/run/model.safetensors";
  std::string rows = "PassengerId,Age,Fare,Survived\n";
  for (int i = 0; i < 120; ++i) rows += cat(i + 1, ",", 20 + i % 7, ",", i % 5, ".5,", i % 7 > 3 ? "yes" : "no", "\n");
  write_file(csv, rows);
  ASSERT_EQ(run_freight({"train", csv, "--target", "Survived", "--model", "logistic", "-o", dir + "/run"}).code, 0);
  write_file(dir + "/test.csv", "Fare,PassengerId,Age,Cabin\n1.5,901,20,C 1\n2.5,902,26,\n");
  const auto predicted = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"predict", model, dir + "/test.csv"});
    const Ran r = run_freight(flags);
    EXPECT_EQ(r.code, 0) << r.err;
    return split(r.out, '\n');
  };
  const std::vector<std::string> usual = predicted({"--csv"});
  EXPECT_EQ(usual[0], "PassengerId,Survived,no,yes");
  EXPECT_EQ(usual[1].substr(0, 7), "901,no,");
  EXPECT_EQ(usual[2].substr(0, 8), "902,yes,");
  EXPECT_NEAR(std::stod(split(usual[1], ',')[2]) + std::stod(split(usual[1], ',')[3]), 1, 2e-6);
  EXPECT_EQ(predicted({"--columns", "PassengerId,Survived"}),
            (std::vector<std::string>{"PassengerId,Survived", "901,no", "902,yes", ""}));
  const std::vector<std::string> chosen = predicted({"--columns", "yes,Cabin,probability,path"});
  EXPECT_EQ(chosen[0], "yes,Cabin,probability,path");
  EXPECT_EQ(split(chosen[2], ',')[0], split(chosen[2], ',')[2]) << "902 is predicted to be yes";
  EXPECT_EQ(split(chosen[1], ',')[1], "C 1");
  const std::vector<std::string> lines = predicted({"--csv", "--top-k", "2"});
  EXPECT_EQ(lines[0], "PassengerId,Survived,probability");
  EXPECT_EQ(lines[1].substr(0, 7), "901,no,");
  EXPECT_EQ(lines[2].substr(0, 8), "901,yes,");
  expect_named(run_freight({"predict", model, dir + "/test.csv", "--columns", "Survived,Age,Pasenger"}), 2,
               {"--columns", "Pasenger", "test.csv", "Fare, PassengerId"});
  expect_named(run_freight({"predict", model, dir + "/test.csv", "--columns", "yes,yes"}), 2,
               {"--columns: two columns are named 'yes'"});
  expect_named(run_freight({"predict", model, dir + "/test.csv", "--columns", "yes", "--json"}), 2, {"--columns"});
}

TEST(TableResults, EvalWeighsRowsAndKnowsWhatTheModelWasFittedFor) {
  const std::string dir = scratch_dir(), csv = dir + "/t.csv", test = dir + "/e.csv", fewer = dir + "/f.csv";
  std::string rows = "x,w,y\n", sound = rows;
  for (int i = 0; i < 120; ++i) {
    const std::string row = cat(i % 13, ".5,", i % 4, ",", i % 4 ? 3 * (i % 13) + i % 5 : 4000 + i, ".25\n");
    rows += row;
    if (i % 4) sound += row;
  }
  write_file(csv, rows);
  write_file(fewer, sound);
  write_file(test, rows);
  const auto trained = [&](const std::string& table, const std::string& out, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"train", table, "--target", "y", "--weight-column", "w", "--test", test, "-o",
                                 dir + "/" + out, "--json"});
    const Ran r = run_freight(flags);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? Json::parse(r.out) : Json();
  };
  const auto measured = [&](const std::string& out, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"eval", dir + "/" + out + "/model.safetensors", "--json"});
    const Ran r = run_freight(flags);
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out);
  };
  const Json all = trained(csv, "all", {"--model", "ridge"}), few = trained(fewer, "few", {"--model", "ridge"});
  EXPECT_EQ(all["test_rmse"], few["test_rmse"]) << "rows of weight 0 are as absent ones";
  EXPECT_LT(all["test_rmse"].get<double>(), 10) << "they are far off";
  EXPECT_EQ(measured("all")["count"], 90);
  EXPECT_NEAR(measured("all")["scores"]["rmse"]["value"].get<double>(), all["test_rmse"].get<double>(), 1e-9);
  write_file(dir + "/alike.csv", "x,y\n1.5,3\n2.5,9\n");
  const Ran alike = run_freight({"eval", dir + "/all/model.safetensors", "--data", dir + "/alike.csv"});
  EXPECT_NE(alike.err.find("rows are not weighted"), std::string::npos) << alike.err;

  // Without a row to stop by all rows are fitted, for all rounds.
  const Ran whole =
      run_freight({"train", csv, "--target", "y", "--model", "linear", "--val-split", "0", "-o", dir + "/whole"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.err.find("120 train, no validation set"), std::string::npos) << whole.err;
  EXPECT_NE(whole.out.find("eval --weights " + dir + "/whole/model.safetensors --split train"), std::string::npos)
      << whole.out;
  EXPECT_EQ(run_freight({"eval", dir + "/whole/model.safetensors", "--split", "train"}).code, 0);
  expect_named(run_freight({"eval", dir + "/whole/model.safetensors"}), 2, {"--split", "--val-split 0"});
  EXPECT_EQ(run_freight({"report", dir + "/whole"}).code, 0);

  const Ran trees = run_freight({"train", csv, "--target", "y", "--model", "gbdt", "-o", dir + "/trees"});
  if (trees.code == 4) GTEST_SKIP() << trees.err;
  ASSERT_EQ(trees.code, 0) << trees.err;
  EXPECT_NE(trees.err.find("96 train, 24 validation"), std::string::npos) << trees.err;
  EXPECT_EQ(trees.out.rfind("validation rmse ", 0), 0u) << "early stopping used these rows\n" << trees.out;
  EXPECT_EQ(measured("trees")["split"], "val");
  const Ran shown = run_freight({"models", "show", dir + "/trees/model.safetensors"});
  EXPECT_NE(shown.out.find("feature importance"), std::string::npos) << shown.out;
  for (const std::string& metrics = read_file(dir + "/trees/metrics.jsonl");
       const std::string& line : split(metrics, '\n')) {
    if (line.empty()) continue;
    const Json j = Json::parse(line);
    if (!j["samples_per_s"].is_null()) {
      EXPECT_LT(j["samples_per_s"].get<double>(), 1e10) << line;
    }
    EXPECT_NE(j["split"], "test") << line;
  }
  const std::string page = [&] {
    run_freight({"report", dir + "/trees", "-o", dir + "/trees.html"});
    return read_file(dir + "/trees.html");
  }();
  EXPECT_EQ(page.find("Learning rate</figcaption>"), std::string::npos);
  expect_named(run_freight({"train", csv, "--target", "y", "--val-split", "0", "--early-stop", "5", "-o", dir + "/b"}),
               2, {"--early-stop", "--val-split 0"});
  const std::vector<std::string> objectives[] = {{"quantile", "--quantile", "0.9", "quantile_loss"},
                                                 {"tweedie", "--tweedie-power", "1.2", "tweedie_deviance"}};
  for (const std::vector<std::string>& o : objectives) {
    const Ran one = run_freight({"train", csv, "--target", "y", "--model", "gbdt", "--objective", o[0], o[1], o[2],
                                 "--rounds", "1", "-o", dir + "/one-" + o[0]});
    if (one.code == 4 && one.err.find("is in XGBoost from 2.0.0 on") != std::string::npos) continue;  // Debian has 1.7
    const Json t = trained(csv, o[0], {"--model", "gbdt", "--objective", o[0], o[1], o[2], "--rounds", "20"});
    EXPECT_NEAR(measured(o[0])["scores"][o[3]]["value"].get<double>(), t[cat("test_", o[3])].get<double>(), 1e-9)
        << o[0];
  }
}

}  // namespace
}  // namespace freight::test
