// `freight models`, `profile`, `bench` and `run`.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/io/npy.h"
#include "run_command.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

TEST(ModelsCommand, ListsAndShows) {
  const Json list = Json::parse(run_freight({"models", "list", "--json"}).out);
  int64_t lenet = 0;
  for (const Json& m : list) {
    if (m.at("name") == "lenet") lenet = m.at("parameters");
  }
  EXPECT_EQ(lenet, 61706);
  const Json show = Json::parse(run_freight({"models", "show", "lenet", "--json", "-b", "2"}).out);
  EXPECT_EQ(show.at("parameters"), 61706);
  EXPECT_GT(show.at("flops").get<double>(), 1e6);
  EXPECT_EQ(show.at("input"), "f32[2,1,28,28]");
  EXPECT_GE(show.at("layers").size(), 8u);
  EXPECT_EQ(show.at("spec").at("name"), "lenet");
  EXPECT_NE(run_freight({"models", "show", "lenet"}).out.find("Conv2d"), std::string::npos);
}

TEST(BenchCommand, SaysWhereTheDeviceLacksThePrecision) {
  const std::vector<std::string> command = {"bench",     "step", "--model",  "mlp", "-b",     "4",
                                            "--seconds", "0.01", "--device", "cpu", "--json", "--precision"};
  const auto with = [&](const char* precision) {
    std::vector<std::string> args = command;
    args.emplace_back(precision);
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_GT(Json::parse(r.out).at("plan_steps"), 0);
    return r.err.substr(0, r.err.find("freight: warning: other programs used"));  // of a machine that is not free
  };
  EXPECT_EQ(with("fp32"), "");
  EXPECT_EQ(with("fp16"), "note    no fp16 on this device (the cpu backend has no f16 kernels): computing in f32\n");
  const Ran profile = run_freight(
      {"profile", "--model", "mlp", "-b", "4", "--seconds", "0", "--device", "ref", "--precision", "bf16", "--plan"});
  EXPECT_EQ(profile.code, 0) << profile.err;
  EXPECT_NE(profile.out.find("matmul"), std::string::npos);
  EXPECT_NE(profile.out.find("bf16[4,"), std::string::npos) << profile.out;
}

TEST(ProfileCommand, OffloadsWhatItIsToldTo) {
  const auto with = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> all{"profile", "--model", "lenet", "-b", "64", "--seconds", "0", "--deterministic"};
    all.insert(all.end(), flags.begin(), flags.end());
    return run_freight(all);
  };
  EXPECT_EQ(with({"--plan"}).out.find("fetch"), std::string::npos);
  for (const char* op : {"offload", "fetch"}) {
    EXPECT_NE(with({"--plan", "--offload", "optimizer"}).out.find(op), std::string::npos) << op;
    EXPECT_NE(with({"--offload", "optimizer"}).out.find(op), std::string::npos) << op;  // with its time
  }
  EXPECT_NE(with({"--plan", "--offload", "activations", "--device-memory", "1500KiB"}).out.find("fetch"),
            std::string::npos);
  EXPECT_EQ(with({"--offload", "auto"}).code, 2);
  EXPECT_EQ(with({"--device-memory", "1GiB"}).code, 2);
}

TEST(ModelsCommand, ClassesAndInputSizeAreFlags) {
  const Ran r = run_freight(
      {"models", "show", "resnet18", "--num-classes", "7", "--input-size", "64x96", "--json", "--batch-size=2"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json show = Json::parse(r.out);
  EXPECT_EQ(show.at("input"), "f32[2,3,64,96]");
  EXPECT_EQ(show.at("output"), "f32[2,7]");
  EXPECT_EQ(show.at("spec").at("input"), Json({3, 64, 96}));
  const Json bench = Json::parse(run_freight({"bench", "step", "--model", "resnet20", "-b", "2", "--input-size", "8",
                                              "--num-classes", "3", "--seconds", "0.01", "--json"})
                                     .out);
  EXPECT_GT(bench.at("plan_steps"), 0);
  struct Row {
    std::vector<std::string> args;
    const char* part;
  };
  const Row rows[] = {
      {{"resnet18", "--input-size", "6q"}, "'6q'"},
      {{"alexnet", "--input-size", "32"}, "a larger --input-size"},
      {{"linear_regression", "--input-size", "32"}, "needs images"},
      {{source_dir() + "/models/lenet.json", "--num-classes", "3"}, "lenet.json sets its own"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> args = {"models", "show"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    const Ran refused = run_freight(args);
    EXPECT_EQ(refused.code, 2) << row.part;
    EXPECT_NE(refused.err.find(row.part), std::string::npos) << refused.err;
  }
}

TEST(ModelsCommand, AShownSpecIsASpecFileOfTheSameModel) {
  const std::string file = scratch_dir() + "/mine.json";
  const Ran spec = run_freight({"models", "show", "convnet", "--spec"});
  ASSERT_EQ(spec.code, 0) << spec.err;
  write_file(file, spec.out);
  EXPECT_EQ(run_freight({"models", "show", file, "--spec"}).out, spec.out);
  EXPECT_EQ(run_freight({"models", "show", file}).out, run_freight({"models", "show", "convnet"}).out);
}

TEST(ModelsCommand, UnknownModelsNameTheNearest) {
  const Ran r = run_freight({"models", "show", "resnet200"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("did you mean resnet20?"), std::string::npos) << r.err;
}

TEST(ProfileCommand, HasALinePerStepAndTheArena) {
  const Ran r = run_freight({"profile", "--model", "mlp", "-b", "8", "--seconds", "0.02", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_GT(j.at("arena_bytes").get<int64_t>(), 0);
  EXPECT_GE(j.at("arena_bytes"), j.at("lower_bound_bytes"));
  ASSERT_FALSE(j.at("steps").empty());
  for (const char* key : {"name", "scope", "kernel", "ms", "of_rate"})
    EXPECT_TRUE(j.at("steps")[0].contains(key)) << key;
  const Json& floor = j.at("floor");
  EXPECT_NEAR(floor.at("reached").get<double>() * j.at("ms").get<double>(), floor.at("ms").get<double>(), 1e-6);
  EXPECT_GT(floor.at("moved_bytes"), floor.at("bytes"));
  EXPECT_NE(run_freight({"profile", "--model", "mlp", "-b", "8", "--seconds", "0"}).out.find("GFLOP/s"),
            std::string::npos);
}

TEST(ProfileCommand, ListsTheSumsOfAStepOverDevicesAndWhatComputeHidesOfThem) {
  const std::vector<std::string> devices = {"profile",   "--model", "lenet",     "-b", "32",
                                            "--seconds", "0.2",     "--devices", "2",  "--overlap"};
  for (const char* overlap : {"no", "yes"}) {
    std::vector<std::string> words = devices;
    words.insert(words.end(), {overlap, "--json"});
    const Ran r = run_freight(words);
    ASSERT_EQ(r.code, 0) << r.err;
    const Json j = Json::parse(r.out);
    EXPECT_EQ(j.at("devices"), 2);
    EXPECT_GE(j.at("measured_steps"), 5);
    const auto is_sum = [](const Json& step) { return step.at("op") == "all_reduce"; };
    EXPECT_EQ(std::count_if(j.at("steps").begin(), j.at("steps").end(), is_sum), 10);  // weights and biases of lenet
    const Json& fastest = j.at("fastest");
    const double computed = fastest.at("computed_ms"), step = fastest.at("step_ms");
    EXPECT_LE(computed, step);
    ASSERT_FALSE(fastest.at("sums").empty());
    double bytes = 0;
    for (const Json& s : fastest.at("sums")) {
      const double begin = s.at("begin_ms"), ms = s.at("ms"), hidden = s.at("hidden_ms"), waited = s.at("waited_ms");
      EXPECT_NEAR(hidden + waited, ms, 1e-9);
      EXPECT_NEAR(hidden, std::clamp(computed - begin, 0.0, ms), 1e-9);
      EXPECT_LE(begin + ms, step);
      if (overlap == std::string("no")) {
        EXPECT_EQ(hidden, 0);
      }
      bytes += s.at("bytes").get<double>();
    }
    EXPECT_GE(bytes, 4 * 61706);  // each in lines of the cache
    EXPECT_LE(bytes, 4 * 61706 + 10 * 64);
    ASSERT_EQ(j.at("waited_for_rank_ms").size(), 2u);
    EXPECT_EQ(j.at("waited_for_rank_ms")[0], 0);
  }
  std::vector<std::string> words = devices;
  words.insert(words.end(), {"yes", "--top", "3"});
  const Ran text = run_freight(words);
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part : {"all_reduce", "hidden", "overlap with compute", "of each step for rank 1"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  EXPECT_EQ(run_freight({"profile", "--model", "mlp", "--devices", "2", "--inference"}).code, 2);
  EXPECT_EQ(run_freight({"profile", "--model", "mlp", "--devices", "2", "-b", "1"}).code, 2);
  const Ran plan = run_freight({"profile", "--model", "mlp", "-b", "8", "--devices", "2", "--plan"});
  EXPECT_NE(plan.out.find("all_reduce"), std::string::npos) << plan.err;
}

TEST(BenchCommand, TimesASteps) {
  const Ran r = run_freight({"bench", "step", "--model", "mlp", "--batch-size", "8", "--seconds", "0.05", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  for (const char* key : {"ms_median", "ms_min", "samples_per_second", "arena_bytes", "plan_steps"}) {
    EXPECT_GT(j.at(key).get<double>(), 0) << key;
  }
  EXPECT_GT(j.at("peak_rss_bytes"), j.at("arena_bytes"));
  EXPECT_GE(j.at("ms_median"), j.at("ms_min"));
  EXPECT_EQ(run_freight({"bench", "stpe"}).code, 2);
}

class RunCommand : public ::testing::Test {
 protected:
  RunCommand() : dir_(scratch_dir()) {
    write_file(dir_ + "/g.txt", kGraph);
    io::save_npy(dir_ + "/a.npy", Array::of<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
    io::save_npy(dir_ + "/b.npy", Array::of<float>({1, 0, 0, 1, 1, 1}, {3, 2}));
  }
  static constexpr const char* kGraph = R"(graph {
  %0 = input "a" : f32[2,3]
  %1 = input "b" : f32[3,2]
  %2 = matmul(%0, %1) : f32[2,2]
  %3 = sum(%2) {axes=[0,1]} : f32[1,1]
  return %3
}
)";
  std::vector<float> result(const std::string& name) const {
    return io::load_npy(dir_ + "/out/" + name + ".npy").to_vector<float>();
  }
  std::string dir_;
};

TEST_F(RunCommand, ComputesAGraphAndItsGradientsOnEveryBackend) {
  for (const char* device : {"cpu", "ref"}) {
    std::filesystem::remove_all(dir_ + "/out");
    const Ran r = run_freight({"run", dir_ + "/g.txt", "--input", "a=" + dir_ + "/a.npy", "--input",
                               "b=" + dir_ + "/b.npy", "-o", dir_ + "/out", "--grad", "out0", "--device", device});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(result("out0"), (std::vector<float>{30}));
    EXPECT_EQ(result("grad.a"), (std::vector<float>{1, 1, 2, 1, 1, 2}));
    EXPECT_EQ(result("grad.b"), (std::vector<float>{5, 5, 7, 7, 9, 9}));
  }
}

TEST_F(RunCommand, NamesWhatIsMissingOrMisshapen) {
  const std::string a = "a=" + dir_ + "/a.npy";
  Ran r = run_freight({"run", dir_ + "/g.txt", "--input", a, "-o", dir_ + "/out"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("b f32[3,2]"), std::string::npos) << r.err;
  r = run_freight({"run", dir_ + "/g.txt", "--input", a, "--input", "b=" + dir_ + "/a.npy", "-o", dir_ + "/out"});
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("f32[2,3]"), std::string::npos) << r.err;
  r = run_freight({"run", dir_ + "/g.txt", "--grad", "out7", "-o", dir_ + "/out"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("out7"), std::string::npos) << r.err;
  write_file(dir_ + "/bad.txt", "this is no graph");
  r = run_freight({"run", dir_ + "/bad.txt", "-o", dir_ + "/out"});
  EXPECT_NE(r.code, 0);
  EXPECT_NE(r.err.find("bad.txt"), std::string::npos) << r.err;
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/out"));
}

}  // namespace
}  // namespace freight::test
