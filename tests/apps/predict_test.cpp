// `freight predict` over many inputs: folders, lists, formats, files that cannot be read, an end by Ctrl-C. One model
// of images, never trained.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "freight/io/image.h"
#include "freight/io/npy.h"
#include "freight/store/bundle.h"
#include "tests/apps/run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

class PredictMany : public testing::Test {
 protected:
  void SetUp() override {
    store::Bundle b;
    b.model = models::create("mlp");
    b.preprocessing = {.input = {1, 28, 28}, .mean = {0.1f}, .std = {0.3f}};
    store::save_bundle(model, b);
    for (const char* name : {"b/2.png", "b/1.png", "a.png", "b.png", "c/deep/3.png"}) image(name);
    write_file(folder + "/notes.txt", "no picture");
    write_file(folder + "/.hidden.png", "not looked at");
  }
  void image(const std::string& name) const {
    const std::string path = folder + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    Array pixels(DType::u8, {28, 28});
    for (int64_t i = 0; i < pixels.numel(); ++i)
      pixels.data<uint8_t>()[i] = static_cast<uint8_t>(i * static_cast<int64_t>(name.size() + 3) + name[0]);
    io::save_png(path, pixels);
  }
  Ran predict(std::vector<std::string> args, const std::string& input = {}) const {
    args.insert(args.begin(), {"predict", model});
    return run_freight(args, input);
  }
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) all.push_back(line);
    return all;
  }
  std::string dir = scratch_dir(), folder = dir + "/pictures", model = dir + "/model.safetensors";
};

TEST_F(PredictMany, FoldersAreWalkedInTheOrderOfBytesWhateverTheBatch) {
  const Ran whole = predict({folder, "--csv"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const std::vector<std::string> got = lines(whole.out);
  ASSERT_EQ(got.size(), 6u) << whole.out;
  const char* expected[] = {"path,", "/a.png,", "/b.png,", "/b/1.png,", "/b/2.png,", "/c/deep/3.png,"};
  for (size_t i = 1; i < 6; ++i) EXPECT_EQ(got[i].rfind(folder + expected[i], 0), 0u) << got[i];
  for (const char* size : {"1", "2", "3"}) EXPECT_EQ(predict({folder, "--csv", "-b", size}).out, whole.out) << size;
  EXPECT_EQ(predict({folder, "--csv", "-j", "5", "-b", "2"}).out, whole.out);
  EXPECT_NE(whole.err.find("5 images in "), std::string::npos) << whole.err;
  for (const char* part : {"images/s", "p50 ", "p90 ", "p99 "}) EXPECT_NE(whole.err.find(part), std::string::npos);
}

TEST_F(PredictMany, AByteOrderMarkBeforeAListIsNoPartOfAPath) {
  const Ran r = predict({"-", "--csv"}, "\xef\xbb\xbf" + folder + "/b.png\n");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(lines(r.out)[1].rfind(folder + "/b.png,", 0), 0u) << r.out;
}

TEST_F(PredictMany, StandardInputListsPaths) {
  const Ran r = predict({"-", "--jsonl", "--top-k", "2"}, folder + "/b.png\r\n\n" + folder + "/a.png\n");
  ASSERT_EQ(r.code, 0) << r.err;
  const std::vector<std::string> got = lines(r.out);
  ASSERT_EQ(got.size(), 2u) << r.out;
  const Json first = Json::parse(got[0]);
  EXPECT_EQ(first.at("path"), folder + "/b.png");
  ASSERT_EQ(first.at("top").size(), 2u);
  EXPECT_GE(first["top"][0].at("probability"), first["top"][1].at("probability"));
  EXPECT_EQ(Json::parse(got[1]).at("path"), folder + "/a.png");
}

TEST_F(PredictMany, FilesHoldWhatStandardOutputWouldAndTheProbabilities) {
  const Ran out = predict({folder, "--csv", "--top-k", "3"});
  const Ran r =
      predict({folder, "--csv", "--top-k", "3", "-o", dir + "/all.csv", "--npy", dir + "/all.npy", "-b", "2"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(read_file(dir + "/all.csv"), out.out);
  const Array rows = io::load_npy(dir + "/all.npy");
  ASSERT_EQ(rows.shape(), (Shape{5, 10}));
  const float* first = rows.data<float>();
  EXPECT_NEAR(*std::max_element(first, first + 10),
              std::stof(lines(out.out)[1].substr(lines(out.out)[1].rfind(',') + 1)), 1e-5);
  EXPECT_EQ(predict({folder, "--npy", dir + "/alone.npy"}).out, "");
  EXPECT_EQ(read_file(dir + "/alone.npy"), read_file(dir + "/all.npy"));
}

TEST_F(PredictMany, ABadImageStopsOrIsLeftOut) {
  write_file(folder + "/b/15.png", "\x89PNG\r\n\x1a\nnot at all");
  const Ran stop = predict({folder, "--csv", "-o", dir + "/all.csv", "--npy", dir + "/all.npy"});
  EXPECT_EQ(stop.code, 3);
  EXPECT_NE(stop.err.find("b/15.png"), std::string::npos) << stop.err;
  EXPECT_FALSE(std::filesystem::exists(dir + "/all.csv") || std::filesystem::exists(dir + "/all.npy"));
  // What lies before it is answered.
  EXPECT_EQ(lines(predict({folder, "--csv"}).out).size(), 4u);
  for (const char* policy : {"skip", "report"}) {
    const Ran r = predict({folder, folder + "/none.png", "--csv", "--on-bad-sample", policy});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(lines(r.out).size(), 6u) << r.out;
    for (const char* part : {"left out: ", "b/15.png", "none.png", "2 left out"})
      EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
  }
}

TEST_F(PredictMany, CtrlCLeavesNoHalfFile) {
  std::string list = folder + "/none.png\n";
  for (int i = 0; i < 200000; ++i) list += folder + "/a.png\n";
  Running running({"predict", model, "-", "-o", dir + "/all.txt", "--on-bad-sample", "skip"}, list);
  ASSERT_TRUE(running.wait_for("left out", 30));
  running.send(SIGINT);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 130) << r.err;
  for (const auto& e : std::filesystem::directory_iterator(dir))
    EXPECT_EQ(e.path().string().find("all.txt"), std::string::npos) << e.path();
}

TEST_F(PredictMany, WhereNothingCanBeReadNothingIsDone) {
  const Ran r = predict({folder + "/none.png", "--on-bad-sample", "skip", "-o", dir + "/all.txt"});
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_NE(r.err.find("none of the 1 inputs can be read"), std::string::npos) << r.err;
  EXPECT_FALSE(std::filesystem::exists(dir + "/all.txt"));
}

TEST_F(PredictMany, NothingThatIsReadIsWrittenOver) {
  const std::string before = read_file(folder + "/a.png"), stored = read_file(model);
  const std::vector<std::vector<std::string>> all = {{folder + "/a.png", "-o", folder + "/../pictures/a.png"},
                                                     {folder + "/b.png", "--npy", model},
                                                     {folder, "-o", folder + "/a.png"},
                                                     {folder, "--npy", "-"},
                                                     {folder, "-o", dir + "/x", "--npy", dir + "/x"}};
  for (const std::vector<std::string>& args : all) {
    const Ran r = predict(args);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_NE(r.err.find("need"), std::string::npos) << r.err;
  }
  EXPECT_EQ(read_file(folder + "/a.png"), before);
  EXPECT_EQ(read_file(model), stored);
  const Ran out = predict({folder + "/a.png", "--csv", "-o", "-"});
  EXPECT_EQ(out.code, 0) << out.err;
  EXPECT_EQ(out.out, predict({folder + "/a.png", "--csv"}).out);
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(PredictMany, ControlCharactersInNamesStayOffTheTerminal) {
  const std::string name = folder + "/\x1b[2Jq\n.png";
  std::filesystem::copy_file(folder + "/a.png", name);
  const Ran shown = predict({name});
  EXPECT_EQ(shown.out.find('\x1b'), std::string::npos);
  EXPECT_NE(shown.out.find("/\\x1b[2Jq\\n.png"), std::string::npos) << shown.out;
  EXPECT_EQ(Json::parse(predict({name, "--jsonl"}).out).at("path"), name);
  EXPECT_NE(predict({name, "--csv"}).out.find("\n\"" + name + "\","), std::string::npos);
  write_file(name, "no picture");
  EXPECT_EQ(predict({name}).err.find('\x1b'), std::string::npos);
  EXPECT_EQ(predict({name, folder + "/a.png", "--on-bad-sample", "skip"}).err.find('\x1b'), std::string::npos);
}

TEST_F(PredictMany, AListThatIsNoneIsRefused) {
  const Ran r = predict({"-"}, std::string(17 << 20, 'x'));
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_NE(r.err.find("standard input: line 1 is longer than 16.0 MiB"), std::string::npos) << r.err;
}

// Nobody writes to these pipes: opening one used to wait where no signal arrived.
TEST_F(PredictMany, CtrlCEndsTheWaitForAPipe) {
  const std::string pipe = dir + "/pipe.png", line = folder + "/none.png";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  Running image({"predict", model, line, pipe, "--on-bad-sample", "skip", "-b", "1"});
  ASSERT_TRUE(image.wait_for("left out", 30));
  image.send(SIGINT);
  EXPECT_EQ(image.finish().code, 130);
}

TEST_F(PredictMany, WhatCannotBeIsRefused) {
  std::filesystem::create_directory(dir + "/empty");
  const auto refused = [&](const std::vector<std::string>& args, int code, const std::string& part) {
    const Ran r = predict(args);
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  refused({dir + "/empty"}, 3, "holds no pictures");
  refused({folder, "--csv", "--jsonl"}, 2, "another format");
  refused({"--text", "hello"}, 2, "reads no texts");
  refused({folder, "--on-bad-sample", "hide"}, 2, "--on-bad-sample");
  refused({folder, "-o", dir + "/none/file"}, 1, dir + "/none/file");
  const Ran full = run_freight({"predict", model, folder, "-o", "/dev/full"});
  EXPECT_EQ(full.code, 1) << full.err;
}

}  // namespace
}  // namespace freight::test
