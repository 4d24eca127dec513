// Images in folders from end to end: train, eval, predict, data info and data verify, and bad files among them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "freight/io/image.h"
#include "run_command.h"
#include "tests/support/jpeg.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// dir/{train,val}/{dark,light}/*.jpg: two classes that anything can tell apart.
std::string small_folder() {
  const std::string dir = scratch_dir() + "/lamps";
  int number = 0;
  for (const char* part : {"train", "val"}) {
    for (const char* name : {"dark", "light"}) {
      const std::string folder = dir + "/" + part + "/" + name;
      fs::create_directories(folder);
      for (int i = 0; i < (*part == 't' ? 24 : 10); ++i, ++number) {
        Array pixels = testing::waves(30 + number % 9, 40, 3, number);
        for (int64_t k = 0; k < pixels.numel(); ++k) {
          uint8_t& v = pixels.data<uint8_t>()[k];
          v = static_cast<uint8_t>(*name == 'd' ? v / 3 : 255 - v / 3);
        }
        write_file(folder + "/" + std::to_string(i) + ".jpg", testing::encode_jpeg(pixels));
      }
    }
  }
  return dir;
}

std::vector<std::string> train_args(const std::string& dir, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {
      "train", dir,    "--train-crop-size", "32", "--val-resize-size", "36",      "--batch-size", "16", "--epochs", "4",
      "--lr",  "0.05", "--overwrite",       "-o", dir + "-run",        "--model", "convnet"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(Images, ClassNamesThatNoModelCanHoldAreRefusedBeforeTraining) {
  const std::string dir = small_folder();
  for (const char* part : {"/train/", "/val/"}) fs::rename(dir + part + "dark", dir + part + "d\xff");
  const Ran r = run_freight(train_args(dir));
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_NE(r.err.find("is not UTF-8"), std::string::npos) << r.err;
}

TEST(Images, TrainEvalAndPredictAgree) {
  const std::string dir = small_folder();
  const Ran r = run_freight(train_args(dir, {"--json"}));
  ASSERT_EQ(r.code, 0) << r.err;
  const Json result = Json::parse(r.out);
  EXPECT_EQ(result.at("val_top1"), 100.0) << r.err;
  EXPECT_NE(r.err.find("48 train, 20 validation, 2 classes"), std::string::npos) << r.err;
  const std::string model = dir + "-run/model.safetensors";
  const Ran e = run_freight({"eval", model, "--json"});
  ASSERT_EQ(e.code, 0) << e.err;
  EXPECT_EQ(Json::parse(e.out).at("count"), 20);
  EXPECT_NEAR(Json::parse(e.out).at("loss").get<double>(), result.at("val_loss").get<double>(), 1e-5);

  // The mean of -log p over the files of val is evaluation's loss.
  std::vector<std::string> args = {"predict", model, "--json"};
  for (const char* name : {"dark", "light"}) {
    for (int i = 0; i < 10; ++i) args.push_back(dir + "/val/" + name + "/" + std::to_string(i) + ".jpg");
  }
  const Ran p = run_freight(args);
  ASSERT_EQ(p.code, 0) << p.err;
  double loss = 0;
  std::istringstream lines(p.out);
  for (std::string line; std::getline(lines, line);) {
    const Json j = Json::parse(line);
    const std::string truth = fs::path(j.at("path").get<std::string>()).parent_path().filename();
    EXPECT_EQ(j.at("class"), truth);
    loss -= std::log(j.at("probabilities").at(truth).get<double>()) / 20;
  }
  EXPECT_NEAR(loss, Json::parse(e.out).at("loss").get<double>(), 1e-4);
}

TEST(Images, EveryAugmentationTrains) {
  const std::string dir = small_folder();
  const Ran r = run_freight(train_args(dir, {"--epochs", "2",
                                             "--flip",   "--color-jitter",
                                             "0.4",      "--hue-jitter",
                                             "0.1",      "--rand-augment",
                                             "2",        "--random-erase",
                                             "0.25",     "--mixup-alpha",
                                             "0.2",      "--cutmix-alpha",
                                             "1",        "--label-smoothing",
                                             "0.1",      "--crop-min-area",
                                             "0.3",      "--train-crop-size",
                                             "24",       "--val-crop-size",
                                             "32",       "-j",
                                             "2"}));
  EXPECT_EQ(r.code, 0) << r.err;
  const Json config = Json::parse(read_file(dir + "-run/config.json"));
  EXPECT_EQ(config.at("augment").at("rand_augment"), 2);
  EXPECT_EQ(config.at("pictures").at("train_crop_size"), 24);
  const Ran again = run_freight({"train", "--config", dir + "-run/config.json", "--dry-run"});
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST(Images, TheSameSeedGivesTheSameLossForAnyNumberOfWorkers) {
  const std::string dir = small_folder();
  const auto loss = [&](const char* workers) {
    const Ran r = run_freight(train_args(dir, {"--json", "--deterministic", "-j", workers, "--rand-augment", "2"}));
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out).at("val_loss").get<double>();
  };
  EXPECT_EQ(loss("1"), loss("4"));
}

TEST(Images, OneFolderOfClassesIsSplitTheSameWayByEval) {
  const std::string dir = small_folder() + "/train";
  const Ran r = run_freight(train_args(dir, {"--json", "--val-split", "0.25", "--seed", "7"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("25.0 % of each class"), std::string::npos) << r.err;
  const Ran e = run_freight({"eval", dir + "-run/model.safetensors", "--json"});
  ASSERT_EQ(e.code, 0) << e.err;
  EXPECT_EQ(Json::parse(e.out).at("count"), 12);
  EXPECT_NEAR(Json::parse(e.out).at("loss").get<double>(), Json::parse(r.out).at("val_loss").get<double>(), 1e-5);
  // What was held out of training data is no test set, and other data is taken whole.
  EXPECT_EQ(Json::parse(e.out).at("split"), "val");
  EXPECT_NE(run_freight({"eval", dir + "-run/model.safetensors"}).out.find(dir + " validation: top1"),
            std::string::npos);
  const std::string other = fs::path(dir).parent_path().string() + "/val";
  const Ran whole = run_freight({"eval", dir + "-run/model.safetensors", "--data", other, "--json"});
  EXPECT_EQ(Json::parse(whole.out).at("split"), "all");
  EXPECT_EQ(Json::parse(whole.out).at("count"), 20);
  EXPECT_NE(run_freight({"eval", dir + "-run/model.safetensors", "--data", other}).out.find(other + ": top1"),
            std::string::npos);
}

TEST(Images, ABadFileStopsTheRunOrIsLeftOutAndNamed) {
  const std::string dir = small_folder();
  const std::string bad = dir + "/train/dark/bad.jpg", empty = dir + "/val/light/empty.png";
  const std::string good = read_file(dir + "/train/dark/0.jpg");
  write_file(bad, good.substr(0, good.size() - 40));
  write_file(empty, "");
  const Ran stopped = run_freight(train_args(dir));
  EXPECT_EQ(stopped.code, 3);
  const std::string named = stopped.err.find(bad) != std::string::npos ? bad : empty;
  EXPECT_NE(stopped.err.find(named), std::string::npos) << stopped.err;
  for (const char* part : {"--on-bad-sample skip", "freight data verify"}) {
    EXPECT_NE(stopped.err.find(part), std::string::npos) << stopped.err;
  }
  EXPECT_FALSE(fs::exists(dir + "-run")) << "a run without a model was left";
  for (const char* mode : {"skip", "report"}) {
    const Ran r = run_freight(train_args(dir, {"--on-bad-sample", mode, "--json"}));
    ASSERT_EQ(r.code, 0) << r.err;
    for (const std::string& path : {bad, empty}) {
      const size_t first = r.err.find("skipped: " + path);
      EXPECT_NE(first, std::string::npos) << r.err;
      EXPECT_EQ(r.err.find(path, first + 10 + path.size()), std::string::npos) << "named twice\n" << r.err;
    }
    EXPECT_EQ(Json::parse(r.out).at("bad_samples"), 2);
    EXPECT_EQ(fs::exists(dir + "-run/bad_samples.tsv"), std::string(mode) == "report");
  }
  EXPECT_NE(read_file(dir + "-run/bad_samples.tsv").find(empty), std::string::npos);
  const std::string model = dir + "-run/model.safetensors";
  EXPECT_EQ(run_freight({"eval", model, "--on-bad-sample", "error"}).code, 3);
  const Ran e = run_freight({"eval", model, "--json"});  // as training did
  ASSERT_EQ(e.code, 0) << e.err;
  EXPECT_NE(e.err.find("skipped: " + empty), std::string::npos) << e.err;
  EXPECT_EQ(Json::parse(e.out).at("count"), 20);
  EXPECT_EQ(Json::parse(e.out).at("bad_samples"), 1);
  const Ran p = run_freight({"predict", model, empty});
  EXPECT_EQ(p.code, 3);
  EXPECT_NE(p.err.find(empty), std::string::npos) << p.err;
}

TEST(Images, TheListOfBadSamplesIsThatOfAllDevices) {
  const std::string dir = small_folder();
  for (const char* name : {"dark/0", "dark/3", "light/2", "light/5", "light/6"}) {
    write_file(dir + "/train/" + name + ".jpg", "no image");
  }
  write_file(dir + "/val/light/1.jpg", "");
  for (const char* devices : {"cpu*1", "cpu*3"}) {
    const Ran r = run_freight(train_args(dir, {"--on-bad-sample", "report", "--json", "--devices", devices}));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(Json::parse(r.out).at("bad_samples"), 6) << devices;
    const std::string list = read_file(dir + "-run/bad_samples.tsv");
    EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), 6) << list;
    for (const char* name : {"dark/0", "dark/3", "light/2", "light/5", "light/6"}) {
      EXPECT_NE(list.find(std::string("/train/") + name), std::string::npos) << list;
      EXPECT_NE(r.err.find(std::string("/train/") + name), std::string::npos) << r.err;
    }
  }
}

TEST(Images, TheListOfBadSamplesHasOneRowEachWhateverTheirNames) {
  const std::string dir = small_folder();
  const std::string odd = dir + "/train/dark/a\tb\nc.jpg";
  write_file(odd, "no image");
  for (int i = 0; i < 20; ++i) write_file(dir + "/train/light/bad" + std::to_string(i) + ".jpg", "");
  const Ran r = run_freight(train_args(dir, {"--on-bad-sample", "report", "--json"}));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string list = read_file(dir + "-run/bad_samples.tsv");
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), 21) << list;
  EXPECT_EQ(std::count(list.begin(), list.end(), '\t'), 21) << list;
  EXPECT_NE(list.find("/dark/a\\tb\\nc.jpg\t"), std::string::npos) << list;
  // What an earlier run listed goes with it.
  const Ran again = run_freight(train_args(dir, {"--on-bad-sample", "skip", "--json"}));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_FALSE(fs::exists(dir + "-run/bad_samples.tsv"));
}

TEST(Images, VerifyDecodesEveryFile) {
  const std::string dir = small_folder();
  const Ran good = run_freight({"data", "verify", dir});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_NE(good.out.find("68 of 68 images decode"), std::string::npos) << good.out;
  write_file(dir + "/val/dark/x.png", "no image");
  const Ran bad = run_freight({"data", "verify", dir});
  EXPECT_EQ(bad.code, 3);
  EXPECT_NE(bad.out.find("bad      " + dir + "/val/dark/x.png: not an image"), std::string::npos) << bad.out;
  const Json j = Json::parse(run_freight({"data", "verify", dir, "--json"}).out);
  EXPECT_FALSE(j.at("ok").get<bool>());
  EXPECT_EQ(j.at("bad").at(0).at("path"), dir + "/val/dark/x.png");
  EXPECT_EQ(Json::parse(run_freight({"data", "info", dir, "--json"}).out).at("train").at("dtype"), "pictures");
}

TEST(Images, FoldersThatCannotBeTrainedOnAreRefusedWithTheirNames) {
  const std::string dir = small_folder();
  const auto refused = [&](int code, const std::vector<std::string>& parts, const std::vector<std::string>& more = {}) {
    const Ran r = run_freight(train_args(dir, more));
    EXPECT_EQ(r.code, code) << r.err;
    for (const std::string& part : parts) EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
    EXPECT_FALSE(fs::exists(dir + "-run"));
  };
  refused(2, {"--val-split", dir + "/val"}, {"--val-split", "0.1"});
  refused(2, {"--val-resize-size", "got 20"}, {"--val-resize-size", "20"});
  refused(2, {"shift", "random crops"}, {"--shift", "2"});
  refused(2, {"--on-bad-sample", "did you mean skip"}, {"--on-bad-sample", "skp"});
  fs::create_directory(dir + "/train/empty");
  refused(3, {dir + "/train/empty", "no images"});
  fs::remove(dir + "/train/empty");
  fs::rename(dir + "/val/dark", dir + "/val/drak");
  refused(3, {dir + "/val/drak", "did you mean dark?"});
}

TEST(Images, AnotherFolderIsEvaluatedByTheNamesOfItsClasses) {
  const std::string dir = small_folder();
  ASSERT_EQ(run_freight(train_args(dir)).code, 0);
  fs::remove_all(dir + "/train/dark");  // light alone: number 0 here, 1 in the model
  fs::remove_all(dir + "/val/dark");
  const Ran e = run_freight({"eval", dir + "-run/model.safetensors", "--data", dir, "--json"});
  ASSERT_EQ(e.code, 0) << e.err;
  EXPECT_EQ(Json::parse(e.out).at("top1"), 100.0);
  fs::rename(dir + "/train/light", dir + "/train/bright");
  fs::rename(dir + "/val/light", dir + "/val/bright");
  const Ran wrong = run_freight({"eval", dir + "-run/model.safetensors", "--data", dir});
  EXPECT_EQ(wrong.code, 3);
  EXPECT_NE(wrong.err.find("class bright"), std::string::npos) << wrong.err;
}

// The command after "try" in what training printed, without "freight".
std::vector<std::string> suggested(const std::string& out) {
  const std::string start = "try     freight ";
  const size_t at = out.find(start) + start.size();
  std::istringstream line(out.substr(at, out.find('\n', at) - at));
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  return words;
}

// The figures of a measurement: of the line that training prints, "val accuracy 55.56 %  (loss 1.2345, ...", and of
// eval's, "set val: top1 55.56 %, loss 1.2345 over ...".
std::string figures_in(const std::string& text, const std::string& before) {
  const size_t top1 = text.find(before) + before.size(), loss = text.find("loss ", top1);
  return text.substr(top1, text.find(" %", top1) - top1) + " " +
         text.substr(loss + 5, text.find_first_of(" ,", loss + 5) - loss - 5);
}

TEST(Images, TheSuggestedEvalGivesWhatTrainingPrinted) {
  struct Case {
    const char* name;
    std::vector<std::string> flags;
    bool bad_file = false, own_test = false;
  };
  const Case kCases[] = {
      {"plain", {}},
      {"mirrored", {"--tta", "flip"}},
      {"moved", {"--tta", "shift", "--val-crop-size", "28"}},
      {"bf16", {"--bf16"}},
      {"bad_file", {"--on-bad-sample", "skip"}, true},
      {"test_part", {"--tta", "flip"}, false, true},
      {"averages", {"--model-ema", "0.9", "--label-smoothing", "0.1"}},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const std::string dir = small_folder();
    if (c.bad_file) write_file(dir + "/val/light/bad.png", "no image");
    if (c.own_test) {  // of which all is called dark
      fs::create_directories(dir + "/test/dark");
      fs::copy(dir + "/val/light", dir + "/test/dark");
    }
    std::vector<std::string> flags = {"--epochs", "1", "--lr", "0.002"};  // so that figures are not all 100
    flags.insert(flags.end(), c.flags.begin(), c.flags.end());
    const Ran r = run_freight(train_args(dir, flags));
    ASSERT_EQ(r.code, 0) << r.err;
    const Ran e = run_freight(suggested(r.out));
    ASSERT_EQ(e.code, 0) << r.out << e.err;
    EXPECT_EQ(figures_in(r.out, "accuracy "), figures_in(e.out, "top1 ")) << r.out << e.out;
    EXPECT_NE(r.out.find("validation accuracy"), std::string::npos) << r.out;
    const std::string part = c.bad_file ? "48 train, 21 validation" : "48 train, 20 validation";
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
}

TEST(Images, TheLogHoldsWhatTheTerminalShowed) {
  const std::string dir = small_folder();
  for (const char* form : {"", "--json"}) {
    std::vector<std::string> flags = {"--epochs", "2"};
    if (*form) flags.emplace_back(form);
    const Ran r = run_freight(train_args(dir, flags));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(read_file(dir + "-run/log.txt"), r.err + r.out);
  }
  const Ran quiet = run_freight(train_args(dir, {"--epochs", "2", "-q"}));
  const std::string log = read_file(dir + "-run/log.txt");
  EXPECT_NE(log.find("epoch 2/2"), std::string::npos) << log;
  ASSERT_EQ(run_freight(train_args(dir, {"--dry-run"})).code, 0);
  EXPECT_EQ(read_file(dir + "-run/log.txt"), log) << "a dry run writes nothing";
}

TEST(Images, SizesOfARecipeFollowTheOnesThatAreGiven) {
  const std::string dir = small_folder();
  struct Case {
    std::vector<std::string> flags;
    int train, crop, resize;  // as the configuration has them; 0 follows from the others
  };
  const Case kCases[] = {{{}, 96, 128, 128},
                         {{"--train-crop-size", "64"}, 64, 0, 0},
                         {{"--train-crop-size", "64", "--val-crop-size", "80"}, 64, 80, 0},
                         {{"--val-crop-size", "160"}, 96, 160, 0},
                         {{"--input-size", "64"}, 0, 0, 0}};
  for (const Case& c : kCases) {
    std::vector<std::string> args = {"train", dir, "--recipe", "small", "--print-config"};
    args.insert(args.end(), c.flags.begin(), c.flags.end());
    const Ran r = run_freight(args);
    ASSERT_EQ(r.code, 0) << r.err;
    const Json pictures = Json::parse(r.out).at("pictures");
    EXPECT_EQ(pictures.at("train_crop_size"), c.train);
    EXPECT_EQ(pictures.at("val_crop_size"), c.crop);
    EXPECT_EQ(pictures.at("val_resize_size"), c.resize);
  }
}

TEST(Images, DataInfoTellsTheDatasOwnMeanAndDeviation) {
  const std::string dir = scratch_dir() + "/flat";
  for (const auto& [name, grey] : {std::pair<const char*, int>{"a", 0}, {"b", 255}}) {
    for (int i = 0; i < 10; ++i) {
      Array pixels(DType::u8, {4 + i, 6, 3});  // of unlike sizes, each of which counts as much
      for (int64_t k = 0; k < pixels.numel(); ++k) {
        pixels.data<uint8_t>()[k] = static_cast<uint8_t>(k % 3 == 2 ? 51 : grey);
      }
      fs::create_directories(dir + "/train/" + name);
      fs::create_directories(dir + "/val/" + name);
      for (const char* part : {"/train/", "/val/"}) {
        io::save_png(dir + part + name + "/" + std::to_string(i) + ".png", pixels);
      }
    }
  }
  const Json j = Json::parse(run_freight({"data", "info", dir, "--json"}).out);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(j.at("mean").at(c).get<double>(), c == 2 ? 0.2 : 0.5, 1e-6);
    EXPECT_NEAR(j.at("std").at(c).get<double>(), c == 2 ? 0.0 : 0.5, 1e-3);
  }
  EXPECT_NEAR(j.at("normalized_by").at("mean").at(0).get<double>(), 0.485, 1e-6);
  const Ran r = run_freight({"data", "info", dir});
  EXPECT_NE(r.out.find("mean     0.5000, 0.5000, 0.2000  (of all 20 training images)"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("ImageNet's mean 0.4850, 0.4560, 0.4060"), std::string::npos) << r.out;
}

TEST(Images, PredictNamesTheFilesOfAFolderThatItDoesNotRead) {
  const std::string dir = small_folder();
  ASSERT_EQ(run_freight(train_args(dir, {"--epochs", "1"})).code, 0);
  for (const char* name : {"/val/a.heic", "/val/dark/b.heic", "/val/c.svg", "/val/d.txt"}) write_file(dir + name, "x");
  const Ran r = run_freight({"predict", dir + "-run/model.safetensors", dir + "/val", "--csv"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("4 files were not read: 2 .heic, 1 .svg (formats of images that are not read"),
            std::string::npos)
      << r.err;
}

}  // namespace
}  // namespace freight::test
