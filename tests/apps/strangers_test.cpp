// What others may have put in the way: planted caches, pipes, links and folders instead of files, junk in variables and
// flags. Each is answered by name, soon, and never by a signal.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "freight/base/strings.h"
#include "freight/io/npy.h"
#include "freight/io/npy_internal.h"
#include "run_command.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;

std::string own_cache(const std::string& temporary) { return cat(temporary, "/freight-cache-", ::geteuid()); }

Ran without_home(const std::string& temporary) {
  return run_freight({"plan", "--model", "mlp"}, "", {"HOME=", "XDG_CACHE_HOME=", "TMPDIR=" + temporary});
}

TEST(Strangers, APlantedCacheIsNotUsed) {
  const std::string dir = scratch_dir();
  fs::create_directory(dir + "/other");
  // A link to somebody's folder, a folder that others can write to, and a file.
  fs::create_directory_symlink(dir + "/other", own_cache(dir));
  const auto refused = [&](const char* what) {
    const Ran r = without_home(dir);
    EXPECT_EQ(r.code, 0) << r.err;
    const std::string line = own_cache(dir) + " can be written by other users";
    const size_t at = r.err.find(line);
    EXPECT_NE(at, std::string::npos) << what << "\n" << r.err;
    EXPECT_EQ(r.err.find(line, at == std::string::npos ? at : at + 1), std::string::npos) << "said twice\n" << r.err;
    EXPECT_TRUE(fs::is_empty(dir + "/other"));
    fs::remove_all(own_cache(dir));
  };
  refused("a link");
  fs::create_directory(own_cache(dir));
  fs::permissions(own_cache(dir), fs::perms::all);
  refused("a folder of everybody");
  write_file(own_cache(dir), "");
  refused("a file");
  const Ran r = without_home(dir);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err.find("can be written by other users"), std::string::npos) << r.err;
  EXPECT_EQ(fs::status(own_cache(dir)).permissions(), fs::perms::owner_all);
}

void expect_refused_soon(const std::vector<std::string>& args, const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  const Ran r = run_freight(args);
  EXPECT_TRUE(r.code == 2 || r.code == 3) << r.code << " " << join(args, " ") << "\n" << r.err;
  EXPECT_NE(r.err.find(path), std::string::npos) << r.err;
  EXPECT_LT(r.err.size(), 1000u);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10);
}

std::vector<std::vector<std::string>> commands_that_read(const std::string& path) {
  return {{"train", "--config", path, "--dry-run"},
          {"train", "--recipe", path, "--dry-run"},
          {"plan", "--model", path},
          {"plan", "--model", "mlp", "--catalog", path}};
}

TEST(Strangers, WhatIsNoFileIsRefusedByNameAndSoon) {
  const std::string dir = scratch_dir();
  fs::create_directory(dir + "/folder.json");
  write_file(dir + "/deep.json", std::string(300'000, '['));
  for (const char* name : {"/folder.json", "/deep.json"}) {
    for (const std::vector<std::string>& args : commands_that_read(dir + name)) expect_refused_soon(args, dir + name);
  }
}

// A pipe is waited for, and a file without an end is read up to a limit: each takes seconds.
TEST(Strangers, APipeAndAFileWithoutAnEndAreRefusedByNameAndSoon) {
  const std::string dir = scratch_dir(), zero = dir + "/zero.json", pipe = dir + "/pipe.json";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((dir + "/pipe.safetensors").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", zero);
  for (const std::vector<std::string>& args : commands_that_read(zero)) expect_refused_soon(args, zero);
  expect_refused_soon({"train", "--config", pipe, "--dry-run"}, pipe);
  const Ran r = run_freight({"eval", dir + "/pipe.safetensors"});
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_NE(r.err.find("pipe.safetensors: cannot read: is a pipe without a writer"), std::string::npos) << r.err;
}

// A state named "../evil" was written beside the folder of the run.
TEST(Strangers, NamesOfAGraphLeadOutOfNoFolder) {
  const std::string dir = scratch_dir();
  io::save_npy(dir + "/a.npy", Array::of<float>({1, 2}, {2}));
  const auto graph = [&](const std::string& state) {
    return cat("graph {\n  %0 = input \"a\" : f32[2]\n  %1 = state \"", state,
               "\" : f32[2]\n  %2 = add(%0, %1) : f32[2]\n  update %1 = %2\n  return %2\n}\n");
  };
  const auto run = [&](const std::string& state) {
    write_file(dir + "/g.graph", graph(state));
    return run_freight({"run", dir + "/g.graph", "--input", cat("a=", dir, "/a.npy"), "--input",
                        cat(state, "=", dir, "/a.npy"), "-o", dir + "/out"});
  };
  for (const std::string& name : {std::string("../evil"), std::string("/tmp/evil"), std::string("sub/w"), std::string(),
                                  std::string(201, 'w'), std::string("out0")}) {
    const Ran r = run(name);
    EXPECT_EQ(r.code, 3) << name << "\n" << r.err;
    EXPECT_NE(r.err.find("g.graph"), std::string::npos) << r.err;
  }
  EXPECT_FALSE(fs::exists(dir + "/evil.npy"));
  EXPECT_FALSE(fs::exists(dir + "/out"));
  const Ran r = run(std::string(200, 'w'));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(fs::exists(cat(dir, "/out/", std::string(200, 'w'), ".npy")));
}

TEST(Strangers, AListHasAThousandPartsAtMost) {
  const auto planned = [](int64_t counts) {
    std::string list = "1";
    for (int64_t i = 2; i <= counts; ++i) list += cat(",", i);
    return run_freight({"plan", "--model", "mlp", "--input-shape", "1x28x28", "--per-device-batch-size", "1", "--world",
                        list, "--on", "A100 SXM4 80GB"});
  };
  EXPECT_EQ(planned(1023).code, 0);
  EXPECT_EQ(planned(1024).code, 0);
  const Ran r = planned(1025);
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("--world: has more than 1024 parts"), std::string::npos) << r.err;
  EXPECT_LT(r.err.size(), 400u);
}

TEST(Strangers, JunkIsNamed) {
  const struct {
    std::vector<std::string> args, environment;
    int code;
    const char* text;
  } kCases[] = {
      {{"eval", "a.safetensors", "--weights", "b.safetensors"}, {}, 2, "a.safetensors and --weights b.safetensors"},
      {{"train", "digits", "--data", "mnist"}, {}, 2, "digits and --data mnist"},
      {{"advise", "--model", "mlp", "--samples", "100", "--device=nonsense"}, {}, 4, ", got 'nonsense'"},
      {{"plan", "--model", "mlp", "--device=cuda:x"}, {}, 4, ", got 'cuda:x'"},
      {{"devices", "list"},
       {"FREIGHT_LOG=loud"},
       2,
       "FREIGHT_LOG: unknown value: expected one of error, warn, info, debug, got loud"},
      {{"models", "list"}, {"FREIGHT_TUNE=maybe"}, 2, "FREIGHT_TUNE"},
  };
  for (const auto& c : kCases) {
    const Ran r = run_freight(c.args, "", c.environment);
    EXPECT_EQ(r.code, c.code) << join(c.args, " ") << "\n" << r.err;
    EXPECT_NE(r.err.find(c.text), std::string::npos) << c.text << " in\n" << r.err;
  }
}

// Four layers of 50,000 x 50,000 are 40 GB: they were made before it was asked whether they fit.
TEST(Strangers, ANetTooLargeForTheMemoryIsRefusedBeforeItIsMade) {
  const std::string file = scratch_dir() + "/net.json";
  write_file(file, R"({"format": "freight-model-1", "input": [1, 28, 28], "net": [{"type": "Flatten"},
    {"type": "Linear", "out": 20000}, {"type": "Linear", "out": 20000}, {"type": "Linear", "out": 10}]})");
  const auto start = std::chrono::steady_clock::now();
  const Ran r = run_freight({"train", "--model", file, "--dry-run", "--device-memory", "1GiB"});
  EXPECT_EQ(r.code, 5) << r.err;
  EXPECT_NE(r.err.find("does not fit: needs more than "), std::string::npos) << r.err;
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10);
}

// A file of these bytes and as many zeros, which lie on no disk: more than any memory holds.
void write_endless(const std::string& path, const std::string& head) {
  write_file(path, head);
  fs::resize_file(path, uintmax_t{1} << 42);
}

// Data of some gigabytes were read for 16 seconds before it was said that the net does not fit. Here reading them ends
// with another message: that they do not fit themselves.
TEST(Strangers, ANetTooLargeForTheMemoryIsRefusedBeforeItsDataAreRead) {
  const std::string scratch = scratch_dir(), spec = scratch + "/net.json";
  fs::create_directories(scratch + "/arrays");
  fs::create_directories(scratch + "/idx");
  constexpr int64_t kSamples = (int64_t{1} << 42) / 784;
  write_endless(scratch + "/arrays/x_train.npy", io::npy_header(DType::u8, {kSamples, 28, 28}));
  io::save_npy(scratch + "/arrays/y_train.npy", Array::of<int64_t>({0, 9, 4}, {3}));
  write_endless(scratch + "/idx/train-images-idx3-ubyte",
                std::string("\0\0\x08\x03\x7f\0\0\0\0\0\0\x1c\0\0\0\x1c", 16));
  for (const char* file : {"train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    write_file(cat(scratch, "/idx/", file), "not read");
  }
  write_file(spec, R"({"format": "freight-model-1", "input": [1, 28, 28], "net": [{"type": "Flatten"},
    {"type": "Linear", "out": 20000}, {"type": "Linear", "out": 20000}, {"type": "Linear", "out": 10}]})");
  for (const char* data : {"/arrays", "/idx"}) {
    const auto train = [&](const std::vector<std::string>& more) {
      std::vector<std::string> args = {"train", scratch + data, "--dry-run", "--device-memory", "1GiB"};
      args.insert(args.end(), more.begin(), more.end());
      const Ran r = run_freight(args);
      EXPECT_EQ(r.code, 5) << r.err;
      return r.err;
    };
    constexpr const char* kRefused = "the run does not fit: needs ";
    const std::vector<std::string> kTooLarge[] = {
        {"--model", spec}, {"--model", "lenet", "-b", "1000000"}, {"--model", spec, "-b", "auto"}};
    for (const auto& more : kTooLarge) {
      const std::string said = train(more);
      EXPECT_NE(said.find(kRefused), std::string::npos) << said;
    }
    for (const char* fit : {"refuse", "auto", "off"}) {
      const std::string said = train({"--model", "lenet", "-b", "64", "--fit", fit});
      EXPECT_NE(said.find("of memory, and there are"), std::string::npos) << said;
    }
    const std::string said = train({"--model", spec, "--fit", "off"});
    EXPECT_NE(said.find("of memory, and there are"), std::string::npos) << said;
  }
}

TEST(Strangers, WhatIsGivenAwayDoesNotSayWhereItsMakerKeepsHisFiles) {
  const std::string scratch = scratch_dir(), dir = scratch + "/secret", run = scratch + "/run";
  fs::create_directories(dir + "/flowers");
  std::string rows = "label,x,y\n";
  for (int i = 0; i < 60; ++i) rows += cat(i % 2 ? "a good day" : "a bad night", ",", i % 2, "\n");
  write_file(dir + "/flowers/train.csv", "text,label\n" + rows.substr(rows.find('\n') + 1));
  const Ran r = run_freight({"train", dir + "/flowers", "--model", "textcnn", "--max-steps", "2", "-q", "-o", run});
  ASSERT_EQ(r.code, 0) << r.err;
  const Ran exported = run_freight({"export", run + "/model.safetensors", "--output", run + "/m.onnx"});
  EXPECT_EQ(exported.code, 0) << exported.err;
  int files = 0;
  for (const char* file : {"model.safetensors", "last/model.safetensors", "last/state.safetensors", "m.onnx"}) {
    if (!fs::exists(cat(run, "/", file))) continue;
    ++files;
    const std::string content = read_file(cat(run, "/", file));
    EXPECT_EQ(content.find("/secret"), std::string::npos) << file;
    EXPECT_NE(content.find("flowers"), std::string::npos) << file;
  }
  EXPECT_EQ(files, 4);
  // The machine itself knows: eval and a resume find the data.
  const Ran e = run_freight({"eval", run + "/last/model.safetensors"});
  EXPECT_EQ(e.code, 0) << e.err;
  const Ran on = run_freight({"train", "--resume", run, "--max-steps", "3", "-q"});
  EXPECT_EQ(on.code, 0) << on.err;
}

}  // namespace
}  // namespace freight::test
