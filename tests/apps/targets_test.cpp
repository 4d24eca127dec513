// --task regression and --task multilabel for lists of images and of texts from end to end: train, eval, predict,
// serve's form of answers, report and export; on several devices, in shards, resumed; and what they exclude.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/io/image.h"
#include "freight/store/bundle.h"
#include "run_command.h"
#include "tests/support/jpeg.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class TargetRuns : public ::testing::Test {
 protected:
  TargetRuns() : dir_(scratch_dir()) {}
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  Ran train(const std::string& data, const std::string& run, const Words& more) const {
    Words all = {"train", path(data), "-o", path(run), "-b", "16", "--deterministic"};
    all.insert(all.end(), more.begin(), more.end());
    return run_freight(all);
  }
  std::string model(const std::string& run) const { return read_file(path(run) + "/model.safetensors"); }
  Json eval(const std::string& run, const Words& more = {}) const {
    Words all = {"eval", "--weights", path(run) + "/model.safetensors", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran r = run_freight(all);
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out.empty() ? "{}" : r.out);
  }

  // Gray images with their brightness in two units, and labels that follow from it.
  void write_images(int count) const {
    std::filesystem::create_directories(path("im"));
    std::string csv = "path,percent,grams,tags\n";
    for (int i = 0; i < count; ++i) {
      const int bright = 20 + i * 37 % 200;
      Array pixels(DType::u8, {16, 16, 3});
      std::fill_n(pixels.data<uint8_t>(), pixels.numel(), static_cast<uint8_t>(bright));
      const auto png = io::encode_png(pixels);
      write_file(path(cat("im/", i, ".png")), std::string(reinterpret_cast<const char*>(png.data()), png.size()));
      csv += cat("im/", i, ".png,", bright / 2.55, ",", 50000 + 100 * bright, ",", bright > 100 ? "light" : "",
                 bright > 60 && bright < 160 ? "|middle" : "", "\n");
    }
    write_file(path("list.csv"), csv);
  }
  void write_texts(int count) const {
    std::string csv = "text,stars,tags\n";
    for (int i = 0; i < count; ++i) {
      const bool good = i % 2 == 0, tall = i % 3 == 0;
      csv += cat(good ? "fine" : "poor", " ", tall ? "long" : "short", " word", i % 7, ",",
                 (good ? 3.5 : 1.5) + (tall ? 1 : 0), ",", good ? "good" : "", tall ? ";tall" : "", "\n");
    }
    write_file(path("texts.csv"), csv);
  }

  const Words images_ = {"--model", "convnet",          "--train-crop-size", "32", "--val-resize-size",
                         "32",      "--no-random-crop", "--epochs",          "12", "--lr",
                         "0.003"};
  const Words texts_ = {"--model", "text_bow", "--epochs", "20", "--lr", "0.5", "--max-length", "8"};
  const std::string dir_;
};

Words extended(Words args, const Words& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST_F(TargetRuns, ImagesHaveSeveralValuesInTheirOwnUnits) {
  write_images(120);
  const Ran r =
      train("list.csv", "run", extended(images_, {"--task", "regression", "--label-column", "percent,grams"}));
  ASSERT_EQ(r.code, 0) << r.err;
  const store::Bundle bundle = store::load_bundle(path("run/model.safetensors"));
  EXPECT_EQ(bundle.targets, (Words{"percent", "grams"}));
  EXPECT_EQ(bundle.model.loss, models::Loss::mse);
  EXPECT_NEAR(bundle.model.target_scale.mean[1], 62000, 3000);

  const Json scores = eval("run")["scores"];
  for (const char* name : {"rmse", "mae", "r2", "rmse[percent]", "rmse[grams]", "r2[grams]"}) {
    ASSERT_TRUE(scores.contains(name)) << scores.dump();
  }
  EXPECT_GT(scores["r2"]["value"].get<double>(), 0.9) << scores.dump();
  EXPECT_NEAR(scores["rmse"]["value"].get<double>(),
              (scores["rmse[percent]"]["value"].get<double>() + scores["rmse[grams]"]["value"].get<double>()) / 2,
              1e-6);

  const Ran csv = run_freight({"predict", path("run/model.safetensors"), path("im/3.png"), path("im/4.png"), "--csv"});
  ASSERT_EQ(csv.code, 0) << csv.err;
  EXPECT_EQ(csv.out.substr(0, csv.out.find('\n')), "path,percent,grams");
  const Ran json = run_freight({"predict", path("run/model.safetensors"), path("im/3.png"), "--json"});
  const Json one = Json::parse(json.out);
  EXPECT_EQ(one["targets"], (Json{"percent", "grams"}));
  EXPECT_NEAR(one["values"][1].get<double>(), 50000 + 100 * (20 + 111), 2500);

  EXPECT_EQ(run_freight({"verify", path("run/model.safetensors")}).code, 0);
  EXPECT_EQ(run_freight({"report", path("run")}).code, 0);
  EXPECT_NE(read_file(path("run/report.html")).find("percent"), std::string::npos);
  const Ran exported = run_freight({"export", path("run/model.safetensors"), "--output", path("m.onnx")});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_NE(exported.out.find("values"), std::string::npos) << exported.out;
}

TEST_F(TargetRuns, ImagesHaveSeveralLabels) {
  write_images(120);
  const Ran r = train("list.csv", "run",
                      extended(images_, {"--task", "multilabel", "--label-column", "tags", "--metric", "macro_f1",
                                         "--early-stop", "5", "--lr", "0.05"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("val macro_f1"), std::string::npos) << r.err;
  const store::Bundle bundle = store::load_bundle(path("run/model.safetensors"));
  EXPECT_EQ(bundle.classes, (Words{"light", "middle"}));
  EXPECT_TRUE(bundle.multilabel());

  const Json scores = eval("run")["scores"];
  for (const char* name : {"macro_f1", "micro_f1", "average_precision", "subset_accuracy", "log_loss",
                           "average_precision[light]", "f1[middle]"}) {
    ASSERT_TRUE(scores.contains(name)) << scores.dump();
  }
  EXPECT_GT(scores["average_precision[light]"]["value"].get<double>(), 0.95);

  const Ran csv = run_freight({"predict", path("run/model.safetensors"), path("im/3.png"), "--csv"});
  ASSERT_EQ(csv.code, 0) << csv.err;
  EXPECT_EQ(csv.out.substr(0, csv.out.find('\n')), "path,labels,light,middle");
  const Json one = Json::parse(run_freight({"predict", path("run/model.safetensors"), path("im/3.png"), "--json"}).out);
  EXPECT_TRUE(one["labels"].is_array()) << one.dump();
  EXPECT_EQ(one["probabilities"].size(), 2u);
  EXPECT_FALSE(one.contains("class"));
  EXPECT_EQ(run_freight({"verify", path("run/model.safetensors")}).code, 0);
  EXPECT_EQ(run_freight({"report", path("run")}).code, 0);
  EXPECT_NE(read_file(path("run/report.html")).find("Each label"), std::string::npos);
  EXPECT_NE(read_file(path("run/README.md")).find("any number of 2 labels"), std::string::npos);
}

TEST_F(TargetRuns, EachLabelHasAThresholdThatPredictionUses) {
  write_texts(160);
  const Words labels = extended(texts_, {"--task", "multilabel", "--label-column", "tags", "--epochs", "3"});
  const Ran r = train("texts.csv", "run", extended(labels, {"--threshold", "recall=0.9"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("thresholds good "), std::string::npos) << r.out;
  const store::Bundle bundle = store::load_bundle(path("run/model.safetensors"));
  ASSERT_EQ(bundle.label_thresholds.size(), 2u);
  EXPECT_EQ(bundle.provenance.at("held_out"), "val");
  EXPECT_NE(read_file(path("run/README.md")).find("It predicts labels good above"), std::string::npos);
  const Ran lines = run_freight({"predict", path("run/model.safetensors"), path("texts.csv"), "--json"});
  ASSERT_EQ(lines.code, 0) << lines.err;
  EXPECT_NE(lines.err.find("predicted: good above 0."), std::string::npos) << lines.err;
  const std::string first = split(lines.out, '\n')[0];
  const Json one = Json::parse(first);
  for (const auto& [label, probability] : one["probabilities"].items()) {
    const double least = bundle.label_thresholds[label == "good" ? 0 : 1];
    const bool predicted = std::count(one["labels"].begin(), one["labels"].end(), label) > 0;
    EXPECT_EQ(predicted, probability.get<double>() > least) << label << " in " << first;
  }
  EXPECT_EQ(run_freight({"verify", path("run/model.safetensors")}).code, 0);

  // A number holds for all labels, and --metric macro_f1 chooses the thresholds of the best f1.
  ASSERT_EQ(train("texts.csv", "all", extended(labels, {"--threshold", "0.3"})).code, 0);
  EXPECT_EQ(store::load_bundle(path("all/model.safetensors")).label_thresholds, (std::vector{0.3, 0.3}));
  const Ran best = train("texts.csv", "best", extended(labels, {"--metric", "macro_f1", "--epochs", "1"}));
  ASSERT_EQ(best.code, 0) << best.err;
  EXPECT_EQ(store::load_bundle(path("best/model.safetensors")).label_thresholds.size(), 2u);

  // Shards, devices and resuming.
  const Words shards = extended(labels, {"--threshold", "recall=0.9", "--shards", "4"});
  ASSERT_EQ(train("texts.csv", "one", shards).code, 0);
  ASSERT_EQ(train("texts.csv", "two", extended(shards, {"--devices", "2"})).code, 0);
  EXPECT_TRUE(model("one") == model("two"));
  const std::string before = model("one");
  ASSERT_EQ(train("texts.csv", "one", extended(shards, {"--resume", "auto"})).code, 0);
  EXPECT_TRUE(model("one") == before);
}

TEST_F(TargetRuns, TextsHaveValuesAndLabels) {
  write_texts(160);
  const Ran values = train("texts.csv", "values",
                           extended(texts_, {"--task", "regression", "--label-column", "stars", "--loss", "huber"}));
  ASSERT_EQ(values.code, 0) << values.err;
  EXPECT_GT(eval("values")["scores"]["r2"]["value"].get<double>(), 0.9);
  const Ran said = run_freight({"predict", path("values/model.safetensors"), "--text", "fine long", "--csv"});
  EXPECT_EQ(said.out.substr(0, said.out.find('\n')), "text,stars") << said.out;

  const Ran labels = train("texts.csv", "labels", extended(texts_, {"--task", "multilabel", "--label-column", "tags"}));
  ASSERT_EQ(labels.code, 0) << labels.err;
  EXPECT_GT(eval("labels")["scores"]["subset_accuracy"]["value"].get<double>(), 0.9);
  const Ran line = run_freight({"predict", path("labels/model.safetensors"), "--text", "fine long word1"});
  EXPECT_NE(line.out.find("good, tall  ("), std::string::npos) << line.out;
  EXPECT_EQ(run_freight({"verify", path("labels/model.safetensors")}).code, 0);
  EXPECT_EQ(run_freight({"verify", path("values/model.safetensors")}).code, 0);
}

TEST_F(TargetRuns, ALabelThatTheModelDoesNotHaveIsNamedByEval) {
  write_texts(80);
  ASSERT_EQ(train("texts.csv", "run", extended(texts_, {"--task", "multilabel", "--label-column", "tags"})).code, 0);
  write_file(path("other.csv"), "text,stars,tags\nfine,1,good\npoor,2,god\n");
  const Ran r = run_freight({"eval", "--weights", path("run/model.safetensors"), "--data", path("other.csv")});
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("other.csv:3: label god is not one of the training set"), std::string::npos) << r.err;
}

TEST_F(TargetRuns, ShardsGiveTheSameModelOnAnyNumberOfDevices) {
  write_texts(96);
  for (const Words& task : {Words{"--task", "regression", "--label-column", "stars"},
                            Words{"--task", "multilabel", "--label-column", "tags", "--metric", "average_precision"}}) {
    std::string first;
    for (const char* devices : {"1", "2"}) {
      const std::string run = cat(task[1], devices);
      const Ran r =
          train("texts.csv", run,
                extended(extended(texts_, task), {"--epochs", "3", "--shards", "4", "--devices", devices, "-q"}));
      ASSERT_EQ(r.code, 0) << r.err;
      if (first.empty()) first = model(run);
      EXPECT_TRUE(model(run) == first) << task[1] << " on " << devices;
    }
  }
}

TEST_F(TargetRuns, AResumedRunIsTheUninterruptedOne) {
  write_images(48);
  const Words task =
      extended(images_, {"--task", "regression", "--label-column", "grams", "--lr-scheduler", "constant"});
  ASSERT_EQ(train("list.csv", "whole", extended(task, {"--epochs", "4"})).code, 0);
  ASSERT_EQ(train("list.csv", "parts", extended(task, {"--epochs", "2"})).code, 0);
  ASSERT_EQ(train("list.csv", "parts", extended(task, {"--epochs", "4", "--resume", "auto"})).code, 0);
  EXPECT_TRUE(model("whole") == model("parts"));
  const Ran other = train("list.csv", "parts",
                          extended(images_, {"--task", "multilabel", "--label-column", "tags", "--resume", "auto"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--label-column: cannot change when a run resumes"), std::string::npos) << other.err;
}

TEST_F(TargetRuns, SettingsOfClassesAreRefusedByName) {
  write_texts(40);
  const Words labels = extended(texts_, {"--task", "multilabel", "--label-column", "tags"});
  const Words values = extended(texts_, {"--task", "regression", "--label-column", "stars"});
  struct Row {
    const Words& task;
    Words flags;
    Words parts;
  };
  const Row rows[] = {
      {labels, {"--class-weight", "balanced"}, {"--class-weight", "a class each"}},
      {labels, {"--sample-by", "class"}, {"--sample-by", "needs class labels", "has labels"}},
      {values, {"--threshold", "0.3"}, {"--threshold", "no class per sample"}},
      {labels, {"--calibration", "temperature"}, {"--calibration", "multilabel"}},
      {labels, {"--label-smoothing", "0.1"}, {"--label-smoothing", "has labels"}},
      {labels, {"--loss", "focal"}, {"--loss", "focal", "--task multilabel has bce"}},
      {labels, {"--metric", "f1"}, {"--metric", "f1 is for two classes", "several labels", "macro_f1"}},
      {values, {"--loss", "bce"}, {"--loss", "bce", "are values"}},
      {values, {"--sample-by", "class"}, {"--sample-by", "has values"}},
      {values, {"--metric", "accuracy"}, {"--metric", "accuracy is for classes", "rmse"}},
      {texts_, {"--task", "ranking", "--label-column", "stars"}, {"--task", "ranking"}},
      {texts_, {"--label-column", "stars,tags"}, {"--label-column", "stars,tags"}},
  };
  for (const Row& row : rows) {
    const Ran r = train("texts.csv", "refused", extended(row.task, row.flags));
    EXPECT_EQ(r.code, 2) << row.flags[1] << ": " << r.err;
    for (const std::string& part : row.parts) EXPECT_NE(r.err.find(part), std::string::npos) << part << " in " << r.err;
  }
  const Ran table = run_freight({"train", path("texts.csv"), "--target", "stars", "--task", "multilabel"});
  EXPECT_EQ(table.code, 2);
  EXPECT_NE(table.err.find("not for table models"), std::string::npos) << table.err;
}

}  // namespace
}  // namespace freight::test
