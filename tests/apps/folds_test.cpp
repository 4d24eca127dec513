// --folds for networks: every fold an ordinary run, out-of-fold predictions, and the same final model as without.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "freight/base/strings.h"
#include "rank_models.h"
#include "run_command.h"
#include "tests/support/unbalanced_texts.h"

namespace freight::test {
namespace {

using Words = std::vector<std::string>;

class NetFolds : public DigitRuns {
 protected:
  NetFolds() { write_file(path("texts.csv"), unbalanced_texts(120, 4)); }
  Ran train(const std::string& data, const std::string& run, const Words& more) const {
    Words all = {"--deterministic", "-b", "16"};
    all.insert(all.end(), more.begin(), more.end());
    return DigitRuns::train(data, run, all);
  }
  // The lines of a run's list of out-of-fold predictions.
  Words list(const std::string& run) const {
    Words lines = split(read_file(path(run) + "/folds/predictions.csv"), '\n');
    if (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  }
  // When the newest checkpoint of a run was written.
  std::filesystem::file_time_type last_checkpoint(const std::string& run) const {
    std::filesystem::file_time_type last{};
    for (const auto& e : std::filesystem::recursive_directory_iterator(path(run) + "/checkpoints")) {
      if (e.is_regular_file()) last = std::max(last, e.last_write_time());
    }
    return last;
  }
  const Words texts_ = {"--model", "text_bow", "--epochs", "4", "--lr", "0.5", "--max-length", "16"};
};

Words more_words(Words args, const Words& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST_F(NetFolds, EveryTrainingSampleIsPredictedOnceByAModelThatHasNotSeenIt) {
  ASSERT_EQ(train("texts.csv", "plain", texts_).code, 0);
  const Ran r = train("texts.csv", "run", more_words(texts_, {"--folds", "3", "--metric", "auc"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("auc of all out-of-fold predictions: "), std::string::npos) << r.err;
  const Words lines = list("run");
  EXPECT_EQ(lines[0], "text,fold,label,prediction,probability");
  EXPECT_EQ(lines.size(), 1 + 96u) << "the training part of 120 texts";
  std::set<std::string> folds;
  for (size_t i = 1; i < lines.size(); ++i) folds.insert(split(lines[i], ',')[1]);
  EXPECT_EQ(folds, (std::set<std::string>{"1", "2", "3"}));
  const auto record = nlohmann::json::parse(read_file(path("run/run.json")));
  const auto& board = record["leaderboard"];
  EXPECT_EQ(board["metric"], "auc");
  EXPECT_EQ(board["standings"][0]["folds"], 3);
  EXPECT_EQ(board["standings"][0]["rows"], 64);
  EXPECT_GT(board["standings"][0]["mean"].get<double>(), 0.5);
  for (const char* fold : {"1", "2", "3"}) {
    EXPECT_TRUE(std::filesystem::exists(path(cat("run/folds/", fold, "/model.safetensors"))));
  }
}

TEST_F(NetFolds, TheFinalModelIsThatOfARunWithoutFolds) {
  ASSERT_EQ(train(".", "plain", {"--model", "mlp", "--epochs", "2"}).code, 0);
  ASSERT_EQ(train(".", "run", {"--model", "mlp", "--epochs", "2", "--folds", "2"}).code, 0);
  const io::SafeTensors plain = io::load_safetensors(path("plain/model.safetensors")),
                        folded = io::load_safetensors(path("run/model.safetensors"));
  EXPECT_EQ(difference(plain, folded), 0);
  EXPECT_EQ(list("run")[0], "sample,fold,label,prediction,probability");
}

// Texts of 24 authors, who write in one way each: a fold or a split that separates them would be easy to predict.
TEST_F(NetFolds, GroupsAreInOneFoldAndOnOneSideOfTheSplit) {
  std::string csv = "text,label,author\n";
  for (int i = 0; i < 240; ++i) {
    csv += cat("text ", i, " by", i % 24, " word", i % 7, ",", i * 5 % 3 ? "ham" : "spam", ",author ", i % 24, "\n");
  }
  write_file(path("texts.csv"), csv);
  const Words set = more_words(texts_, {"--folds", "3", "--group-column", "author", "--shards", "4"});
  const Ran r = train("texts.csv", "run", set);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("by groups of author for validation"), std::string::npos) << r.err;
  std::map<int, std::set<std::string>> folds_of;
  const Words lines = list("run");
  for (size_t i = 1; i < lines.size(); ++i) {
    const Words cells = split(lines[i], ',');
    folds_of[std::stoi(split(cells[0], ' ')[1]) % 24].insert(cells[1]);
  }
  EXPECT_EQ(lines.size() - 1, folds_of.size() * 10) << "all texts of an author are trained on, or none";
  for (const auto& [author, folds] : folds_of) EXPECT_EQ(folds.size(), 1u) << author;
  // Evaluation divides the data as training did, and resumed and shared runs do so, too.
  const Ran eval = run_freight({"eval", "--weights", path("run/model.safetensors"), "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  const auto figures = nlohmann::json::parse(eval.out);
  EXPECT_EQ(figures["count"], 240 - lines.size() + 1);
  EXPECT_EQ(figures["split"], "val");
  ASSERT_EQ(train("texts.csv", "two", more_words(set, {"--devices", "2"})).code, 0);
  EXPECT_EQ(list("two"), lines);
  EXPECT_TRUE(model("two") == model("run"));
  const std::string before = model("run");
  ASSERT_EQ(train("texts.csv", "run", more_words(set, {"--resume", "auto"})).code, 0);
  EXPECT_TRUE(model("run") == before);
  const Ran other = train("texts.csv", "run", more_words(set, {"--resume", "auto", "--group-column", "label"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--group-column: "), std::string::npos) << other.err;
  // Without lists there are no columns.
  const Ran arrays = train(".", "arrays", {"--model", "mlp", "--epochs", "1", "--group-column", "author"});
  EXPECT_EQ(arrays.code, 2);
  EXPECT_NE(arrays.err.find("--group-column: is for lists"), std::string::npos) << arrays.err;
}

TEST_F(NetFolds, AreTheSameOnTwoDevicesInShards) {
  const Words set = more_words(texts_, {"--folds", "2", "--shards", "4", "-q"});
  ASSERT_EQ(train("texts.csv", "one", more_words(set, {"--devices", "1"})).code, 0);
  const Ran two = train("texts.csv", "two", more_words(set, {"--devices", "2"}));
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(list("one"), list("two"));
  EXPECT_TRUE(model("one") == model("two"));
}

TEST_F(NetFolds, AResumedRunDoesNotRepeatItsFolds) {
  const Words set = more_words(texts_, {"--folds", "2"});
  ASSERT_EQ(train("texts.csv", "run", set).code, 0);
  const Words before = list("run");
  const auto written = last_checkpoint("run/folds/1");
  const Ran again = train("texts.csv", "run", more_words(set, {"--resume", "auto"}));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(list("run"), before);
  EXPECT_EQ(last_checkpoint("run/folds/1"), written);
  // Killed between the folds and the first checkpoint of the run itself: the folds are kept.
  for (const char* name : {"checkpoints", "last", "best", "model.safetensors"}) {
    std::filesystem::remove_all(path(cat("run/", name)));
  }
  const Ran killed = train("texts.csv", "run", more_words(set, {"--resume", "auto"}));
  ASSERT_EQ(killed.code, 0) << killed.err;
  EXPECT_EQ(list("run"), before);
  EXPECT_EQ(last_checkpoint("run/folds/1"), written);
}

TEST_F(NetFolds, WhatCannotBeDividedIsRefusedByName) {
  write_file(path("corpus.txt"), std::string(4000, 'a') + "bcdefgh ijkl");
  const Ran corpus = train("corpus.txt", "c",
                           {"--model", "gpt_char", "--layers", "1", "--width", "64", "--max-length", "8", "--max-steps",
                            "1", "--folds", "2"});
  EXPECT_EQ(corpus.code, 2);
  EXPECT_NE(corpus.err.find("--folds: is for images, arrays and documents"), std::string::npos) << corpus.err;
  const Ran many = train("texts.csv", "m", more_words(texts_, {"--folds", "100"}));
  EXPECT_EQ(many.code, 2);
  EXPECT_NE(many.err.find("expected 2 to 96"), std::string::npos) << many.err;
}

}  // namespace
}  // namespace freight::test
