// `freight predict` over many inputs: folders, lists, formats, files that cannot be read, an end by Ctrl-C. One model
// of images, never trained.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/io/image.h"
#include "freight/io/npy.h"
#include "freight/store/bundle.h"
#include "tests/apps/rank_processes.h"
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
    write_file(folder + "/notes.txt", "no image");
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
    for (const char* part : {"skipped: ", "b/15.png", "none.png", "2 skipped"})
      EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
  }
}

TEST_F(PredictMany, CtrlCLeavesNoHalfFile) {
  std::string list = folder + "/none.png\n";
  for (int i = 0; i < 200000; ++i) list += folder + "/a.png\n";
  Running running({"predict", model, "-", "-o", dir + "/all.txt", "--on-bad-sample", "skip"}, list);
  ASSERT_TRUE(running.wait_for("skipped"));
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
    EXPECT_TRUE(r.err.find("expected") != std::string::npos || r.err.find("use another") != std::string::npos) << r.err;
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
  write_file(name, "no image");
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
  ASSERT_TRUE(image.wait_for("skipped"));
  image.send(SIGINT);
  EXPECT_EQ(image.finish().code, 130);
}

TEST_F(PredictMany, DevicesAnswerInTurnWhatOneDoes) {
  for (int i = 0; i < 30; ++i) image(cat("many/", i, ".png"));  // 35 in all
  const auto answers = [&](const char* devices, const std::vector<std::string>& flags) {
    const std::string csv = dir + "/answers.csv", npy = dir + "/answers.npy";
    std::vector<std::string> args = {folder, "-b", "4", "--devices", devices, "-o", csv, "--npy", npy};
    args.insert(args.end(), flags.begin(), flags.end());
    const Ran r = predict(args);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find("35 images in "), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("9 batches"), std::string::npos) << r.err;
    return read_file(csv) + read_file(npy);
  };
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--csv", "--top-k", "3"}, {"--json"}, {"--jsonl"}, {}}) {
    const std::string one = answers("1", flags);
    for (const char* devices : {"2", "cpu*3", "cpu,cpu,cpu,cpu"})
      EXPECT_TRUE(answers(devices, flags) == one) << devices;
  }
  const Ran text = predict({folder, "-b", "8", "--devices", "3"}), one = predict({folder, "-b", "8", "--devices", "1"});
  EXPECT_EQ(text.out, one.out);
  // More ranks than batches, and than samples.
  const Ran few = predict({folder + "/a.png", "--csv", "--devices", "4"});
  EXPECT_EQ(few.code, 0) << few.err;
  EXPECT_EQ(few.out, predict({folder + "/a.png", "--csv", "--devices", "1"}).out);
}

TEST_F(PredictMany, DevicesLeaveOutOrStopAtABadImageAsOneDoes) {
  for (int i = 0; i < 12; ++i) image(cat("many/", i, ".png"));
  write_file(folder + "/many/3.png", "no image");
  write_file(folder + "/many/7.png", "none either");
  for (const char* bad : {"skip", "error"}) {
    const auto run = [&](const char* devices) {
      return predict({folder, "-b", "2", "--csv", "--on-bad-sample", bad, "--quiet", "--devices", devices});
    };
    const Ran one = run("1");
    for (const char* devices : {"2", "3"}) {
      const Ran r = run(devices);
      EXPECT_EQ(r.code, one.code) << r.err;
      EXPECT_EQ(r.out, one.out) << bad;
      EXPECT_EQ(r.err, one.err) << bad;
    }
  }
  // A file that is missing ends it; what is before it is answered.
  const std::vector<std::string> args = {folder + "/a.png", folder + "/none.png", "-b", "1", "--csv", "--devices"};
  std::vector<std::string> two = args, one = args;
  one.push_back("1");
  two.push_back("2");
  const Ran r = predict(two), alone = predict(one);
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_EQ(r.out, alone.out);
  EXPECT_EQ(r.err, alone.err);
}

TEST_F(PredictMany, ADeviceThatIsKilledIsNamedAndNothingStays) {
  const std::string out = dir + "/out", tmp = dir + "/tmp";
  std::filesystem::create_directories(out);
  std::filesystem::create_directories(tmp);
  std::vector<std::string> args = {"predict", model};
  for (int i = 0; i < 12'000; ++i) args.push_back(folder + "/a.png");
  args.insert(args.end(), {"-b", "1", "--devices", "3", "-o", out + "/answers", "--npy", out + "/answers.npy"});
  Running running(args, {}, {"TMPDIR=" + tmp});
  const int pid = awaited_process(running, 1);
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 7) << r.err;
  EXPECT_NE(r.err.find("predict: rank 1 was killed by signal 9"), std::string::npos) << r.err;
  EXPECT_TRUE(std::filesystem::is_empty(out));
  EXPECT_TRUE(std::filesystem::is_empty(tmp));
}

TEST_F(PredictMany, DevicesStopTogetherOnASignal) {
  const std::string out = dir + "/out";
  std::filesystem::create_directories(out);
  std::vector<std::string> args = {"predict", model};
  for (int i = 0; i < 12'000; ++i) args.push_back(folder + "/a.png");
  args.insert(args.end(), {"-b", "1", "--devices", "2", "-o", out + "/answers"});
  Running running(args);
  ASSERT_GT(awaited_process(running, 1), 0);
  ::usleep(300'000);
  running.send(SIGTERM);
  const Ran r = running.finish();
  EXPECT_EQ(r.code, 143) << r.err;
  EXPECT_TRUE(std::filesystem::is_empty(out));
}

TEST_F(PredictMany, DevicesRefuseWhatOneProcessAloneCanRead) {
  const Ran list = predict({"-", "--devices", "2"}, folder + "/a.png\n");
  EXPECT_EQ(list.code, 2) << list.err;
  EXPECT_NE(list.err.find("standard input is read once"), std::string::npos) << list.err;
  const std::string pipe = dir + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Ran fifo = predict({pipe, "--devices", "2"});
  EXPECT_EQ(fifo.code, 2) << fifo.err;
  EXPECT_NE(fifo.err.find("is read once"), std::string::npos) << fifo.err;
  for (const char* devices : {"0", "a", "65", "cpu*0", "cpu,ref"}) {
    const Ran r = predict({folder, "--devices", devices});
    EXPECT_NE(r.code, 0) << devices;
    EXPECT_EQ(r.out, "");
  }
}

TEST_F(PredictMany, WhatCannotBeIsRefused) {
  std::filesystem::create_directory(dir + "/empty");
  const auto refused = [&](const std::vector<std::string>& args, int code, const std::string& part) {
    const Ran r = predict(args);
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  refused({dir + "/empty"}, 3, "has no images");
  refused({folder, "--csv", "--jsonl"}, 2, "--csv: cannot be combined with --jsonl");
  refused({"--text", "hello"}, 2, "reads no texts");
  refused({folder, "--on-bad-sample", "hide"}, 2, "--on-bad-sample");
  refused({folder, "-o", dir + "/none/file"}, 1, dir + "/none/file");
  const Ran full = run_freight({"predict", model, folder, "-o", "/dev/full"});
  EXPECT_EQ(full.code, 1) << full.err;
}

}  // namespace
}  // namespace freight::test
