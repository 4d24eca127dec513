// `freight bench compare` of nets and of the classic networks, and `linalg`, as their users meet them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> compare(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"bench", "compare", "--model", "mlp", "--seconds", "0.02", "--deterministic"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(BenchCompare, WritesTableJsonPageAndTrace) {
  const std::string dir = scratch_dir();
  const Ran r = run_freight(compare({"--devices", "cpu,ref", "--predict", "H100 SXM", "--batches", "1,8", "--samples",
                                     "1000", "--hourly", "cpu=0.1", "--watts", "cpu=50", "--json", "--html",
                                     dir + "/page.html", "--trace", dir + "/trace.json"}));
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  ASSERT_EQ(j.at("devices").size(), 3u);
  EXPECT_EQ(j.at("detail_batch"), 8);
  for (const Json& d : j.at("devices")) {
    EXPECT_FALSE(d.at("dense_peak").get<std::string>().empty());
    ASSERT_EQ(d.at("points").size(), 2u);
    for (const Json& p : d.at("points")) {
      EXPECT_GT(p.at("seconds"), 0) << p;
      EXPECT_NEAR(p.at("samples_per_second").get<double>() * p.at("seconds").get<double>(), p.at("batch_size"), 1e-6);
    }
    for (const Json& l : d.at("layers")) EXPECT_TRUE(l.contains("bound")) << l;
  }
  const Json &cpu = j.at("devices")[0], &point = cpu.at("points")[1];
  EXPECT_NEAR(point.at("epoch_dollars"), point.at("epoch_hours").get<double>() * 0.1, 1e-12);
  EXPECT_NEAR(point.at("epoch_watt_hours").at("high"), point.at("epoch_hours").get<double>() * 50, 1e-9);
  EXPECT_EQ(j.at("devices")[1].at("predicted"), false);
  EXPECT_EQ(j.at("devices")[2].at("predicted"), true);
  EXPECT_GT(j.at("devices")[2].at("usd_per_hour"), 0);
  EXPECT_NE(read_file(dir + "/page.html").find("class=\"timeline\""), std::string::npos);
  EXPECT_FALSE(Json::parse(read_file(dir + "/trace.json")).at("traceEvents").empty());
  EXPECT_NE(r.err.find("cpu, batch 1"), std::string::npos);
}

TEST(BenchInfer, HasNoFlagsOfTraining) {
  for (const char* flag : {"--optimizer", "--recompute", "--offload", "--device-memory"}) {
    const Ran r = run_freight({"bench", "infer", "--model", "mlp", flag, "none"});
    EXPECT_EQ(r.code, 2) << flag;
    EXPECT_NE(r.err.find(std::string(flag) + ": unknown flag of `freight bench infer`"), std::string::npos) << r.err;
  }
}

TEST(BenchCompare, PrintsFiguresLayersAndFindings) {
  const Ran r = run_freight(compare({"--devices", "cpu", "--predict", "Tesla P4", "--batches", "2", "--quiet"}));
  ASSERT_EQ(r.code, 0) << r.err;
  if (r.err.find("other programs used") == std::string::npos) {
    EXPECT_EQ(r.err, "");
  }
  for (const char* part : {"batch  device", "~ Tesla P4", "dense peak", "layers at batch 2", "predicted, not measured",
                           "is predicted to be"}) {
    EXPECT_NE(r.out.find(part), std::string::npos) << part << " in\n" << r.out;
  }
}

TEST(BenchCompare, RefusesWhatItCannotCompare) {
  struct Row {
    std::vector<std::string> args;
    int code;
    const char* part;
  };
  const Row rows[] = {
      {{"--devices", "cuda:77"}, 4, "cuda"},
      {{"--devices", "cpu,opencl:77"}, 4, "77"},
      {{"--devices", "cpu,,ref"}, 2, "--devices"},
      {{"--devices", "cpu,cpu"}, 2, "two entries are named 'cpu'"},
      {{"--devices", "cpu*2"}, 2, "two entries are named 'cpu'"},
      {{"--devices", "cpu*"}, 2, "NAME*COUNT"},
      {{"--devices", "0"}, 2, "expected a count"},
      {{"--devices", "4000"}, 4, "this machine has"},
      {{"--devices", "1,2"}, 2, "or one number"},
      {{"--devices", "cpu", "--batches", "4,2"}, 2, "--batches"},
      {{"--devices", "cpu", "--batches", "1,x"}, 2, "--batches"},
      {{"--devices", "cpu", "--batches", "0"}, 2, "--batches"},
      {{"--devices", "cpu", "--batches", ""}, 2, "--batches"},
      {{"--devices", "cpu", "--predict", "GeForce 9999"}, 2, "GeForce 9999"},
      {{"--devices", "cpu", "--predict", "H100"}, 2, "expected one of H100 PCIe 80GB, H100 SXM5 80GB"},
      {{"--devices", "cpu", "--hourly", "cpu"}, 2, "--hourly"},
      {{"--devices", "cpu", "--hourly", "cpu=-1"}, 2, "above 0"},
      {{"--devices", "cpu", "--watts", "ref=5"}, 2, "expected one of cpu, got ref"},
      {{"--devices", "cpu", "--peaks", "cpu=nan"}, 2, "--peaks"},
      {{"--devices", "cpu", "--optimizer", "sgdd"}, 2, "sgd"},
      {{"--devices", "cpu", "--catalog", "/no/such/file"}, 3, "/no/such/file"},
      {{"--devices", "cpu", "--host-link", "-1"}, 2, "--host-link"},
      {{"digits", "--devices", "cpu", "--input-shape", "1x28x28"}, 2, "--input-shape"},
      {{"--devices", "cpu", "--shards", "4"}, 2, "--shards is a flag of --world; this compares networks"},
      {{"--workloads", "modern"}, 2, "classic"},
  };
  for (const Row& row : rows) {
    const Ran r = run_freight(compare(row.args));
    EXPECT_EQ(r.code, row.code) << row.part << "\n" << r.err;
    EXPECT_NE(r.err.find(row.part), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "") << row.part;
  }
  const Ran nothing = run_freight({"bench", "compare"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("nothing to compare"), std::string::npos) << nothing.err;
}

TEST(BenchClassic, RunsASelectionOverThreadsAndWritesAPage) {
  const std::string dir = scratch_dir();
  const Ran r =
      run_freight({"bench", "compare", "--workloads", "classic", "--only", "lstm32", "--devices", "cpu", "--threads",
                   "1,2", "-b", "1", "--seconds", "0.02", "--json", "--html", dir + "/page.html"},
                  "", {"OMP_NUM_THREADS=1"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  ASSERT_EQ(j.at("nets").size(), 1u);
  const Json& net = j.at("nets")[0];
  EXPECT_EQ(net.at("name"), "lstm32");
  ASSERT_EQ(net.at("measured").size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(net.at("measured")[i].at("threads"), i + 1);
    EXPECT_GT(net.at("measured")[i].at("seconds"), 0);
  }
  EXPECT_EQ(net.at("published").size(), 5u);
  EXPECT_TRUE(j.at("trainings").empty());
  const std::string page = read_file(dir + "/page.html");
  EXPECT_NE(page.find("LSTM-32"), std::string::npos);
  EXPECT_NE(page.find("guolinke"), std::string::npos);
}

TEST(BenchClassic, SaysWhyATrainingIsLeftOut) {
  const std::string dir = scratch_dir();
  const Ran r = run_freight({"bench", "compare", "--workloads", "classic", "--only", "mnist", "--devices", "cpu",
                             "--threads", "1", "--quick"},
                            "", {"OMP_NUM_THREADS=1", "FREIGHT_DATA=" + dir, "XDG_CACHE_HOME=" + dir});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("MNIST  cpu, 1 thread: skipped, "), std::string::npos) << r.out;
}

TEST(BenchClassic, RefusesUnknownNetsDevicesAndThreads) {
  struct Row {
    std::vector<std::string> args;
    int code;
    const char* part;
  };
  const Row rows[] = {{{"--only", "fcn6"}, 2, "fcn5"},
                      {{"--only", "fcn5,"}, 2, "--only"},
                      {{"--devices", "cuda"}, 4, "cuda"},
                      {{"--devices", "cpu", "--threads", "2,1"}, 2, "--threads"},
                      {{"--seconds", "0"}, 2, "--seconds"},
                      {{"-b", "1,2"}, 2, "expected one batch size with --workloads"},
                      {{"--model", "mlp"},
                       2,
                       "--model is a flag of networks, trees of a table, --world; this compares --workloads classic"},
                      {{"--world", "1,2"}, 2, "cannot be combined with --world"},
                      {{"digits"}, 2, "cannot be combined with digits"}};
  for (const Row& row : rows) {
    std::vector<std::string> args = {"bench", "compare", "--workloads", "classic"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, row.code) << r.err;
    EXPECT_NE(r.err.find(row.part), std::string::npos) << r.err;
  }
}

TEST(BenchLinalg, PrintsATableOrJsonAndWhereADeviceWins) {
  std::vector<std::string> args = {"bench", "linalg", "--n",      "4,8", "--op",      "lu,solve", "--dtype",
                                   "f64",   "-q",     "--device", "ref", "--seconds", "0.003",    "--batch=2"};
  const Ran table = run_freight(args);
  ASSERT_EQ(table.code, 0) << table.err;
  for (const char* part : {"batch 2", "op       type  device  n  ms", "of product", "solve", "lu f64: ref is "}) {
    EXPECT_NE(table.out.find(part), std::string::npos) << part << " in\n" << table.out;
  }
  args.emplace_back("--json");
  const Ran json = run_freight(args);
  ASSERT_EQ(json.code, 0) << json.err;
  const Json j = Json::parse(json.out);
  ASSERT_EQ(j.at("figures").size(), 12u);
  for (const Json& f : j.at("figures")) {
    EXPECT_NEAR(f.at("gflops_per_second").get<double>() * f.at("seconds").get<double>() * 1e9, f.at("flops"), 1e-3);
    EXPECT_EQ(f.at("batch_size"), 2);
  }
  EXPECT_EQ(j.at("wins").size(), 3u);
}

TEST(BenchLinalg, RefusesUnknownOpsTypesSizesAndDevices) {
  struct Row {
    std::vector<std::string> args;
    int code;
    const char* part;
  };
  const Row rows[] = {{{"--op", "lu,det"}, 2, "expected one of lu, cholesky"},
                      {{"--op", "product"}, 2, "always measured"},
                      {{"--dtype", "bf16"}, 2, "expected one of f64, f32, got bf16"},
                      {{"--n", "8,4"}, 2, "--n"},
                      {{"--n", "0"}, 2, "--n"},
                      {{"--batch", "0"}, 2, "--batch"},
                      {{"--device", "cuda:77"}, 4, "cuda"}};
  for (const Row& row : rows) {
    std::vector<std::string> args = {"bench", "linalg"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, row.code) << r.err;
    EXPECT_NE(r.err.find(row.part), std::string::npos) << r.err;
  }
}

}  // namespace
}  // namespace freight::test
