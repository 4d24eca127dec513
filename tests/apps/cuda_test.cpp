// The command with --device cuda: on a machine without a driver, and on the fake driver of tests/cuda: exit codes,
// reasons, what is left of a run whose device is lost.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/apps/run_command.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;
using Environment = std::vector<std::string>;

Environment on_fake(const std::string& dir, Environment more = {}) {
  more.push_back("FREIGHT_CUDA_LIBS=" + binary_dir() + "/tests/cuda/fake_cuda");
  more.push_back("FREIGHT_CACHE=" + dir + "/cache");
  return more;
}

Ran train(const std::string& dir, const std::vector<std::string>& more, const Environment& environment) {
  std::vector<std::string> args = {"train",    "digits", "--model",       "mlp", "--batch-size", "4",
                                   "--device", "cuda:0", "--no-progress", "-o",  dir + "/run"};
  args.insert(args.end(), more.begin(), more.end());
  return run_freight(args, "", environment);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CudaCommand, SaysWhyThereIsNoDevice) {
  const std::string dir = scratch_dir();
  struct Row {
    const char* setting;
    const char* reason;
  };
  const Row rows[] = {
      {"FAKE_CUDA_NO_DEVICE=1", "finds no device"},
      {"FAKE_CUDA_VERSION=11040", "is too old: it is for CUDA 11.4, expected 12.0 or newer"},
      {"FAKE_CUDA_ARCHITECTURE=61", "architecture sm_61 is not covered by"},
      {"FAKE_CUDA_VERSION=12040", "libnvrtc.so.12"},  // only one for CUDA 13 is there
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.setting);
    const Ran listed = run_freight({"devices"}, "", on_fake(dir, {row.setting}));
    EXPECT_EQ(listed.code, 0) << listed.err;
    EXPECT_TRUE(contains(listed.out, row.reason)) << listed.out;
    const Ran r = train(dir, {}, on_fake(dir, {row.setting}));
    EXPECT_EQ(r.code, 4) << r.out;
    EXPECT_TRUE(contains(r.err, row.reason)) << r.err;
    EXPECT_FALSE(std::filesystem::exists(dir + "/run"));
  }
}

TEST(CudaCommand, ListsTheDevice) {
  const std::string dir = scratch_dir();
  const Json j = Json::parse(run_freight({"devices", "--json"}, "", on_fake(dir)).out);
  const Json& d = j.at("devices").at(1);
  EXPECT_EQ(d.at("name"), "cuda:0");
  EXPECT_EQ(d.at("model"), "Fake GPU");
  EXPECT_EQ(d.at("usable"), true);
  EXPECT_EQ(d.at("pci"), "0000:01:00.0");
  EXPECT_TRUE(d.at("memory_available_bytes").is_null());  // there is no management library
  EXPECT_TRUE(contains(j.at("cuda_compiler"), "NVRTC 13.0"));
  EXPECT_TRUE(contains(j.at("cuda_factorizations"), "cuSOLVER 12.0"));
  EXPECT_TRUE(contains(j.at("cuda_products"), "cuBLASLt 13.1"));
  EXPECT_TRUE(contains(j.at("cuda_collectives"), "NCCL 2.28.9"));
  EXPECT_TRUE(contains(j.at("cuda_convolutions"), "cuDNN 9.19"));
  EXPECT_TRUE(contains(run_freight({"devices"}, "", on_fake(dir)).out, "cuda:0  Fake GPU, sm_90"));
}

TEST(CudaCommand, TrainsAndLeavesTheDeviceAsItWas) {
  const std::string dir = scratch_dir();
  const Ran r = train(dir, {"--max-steps", "6", "--steps-per-launch", "2"},
                      on_fake(dir, {"FAKE_CUDA_REPORT=" + dir + "/report"}));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string report = read_file(dir + "/report");
  for (const char* none : {"faults 0\n", "graphs 0\n", "blocks 0\n", "pinned 0\n", "modules 0\n", "streams 0\n",
                           "events 0\n", "contexts 0\n"}) {
    EXPECT_TRUE(contains(report, none)) << report;
  }
  EXPECT_FALSE(contains(report, "graph_launches 0\n")) << report;
  EXPECT_FALSE(contains(report, "library_products 0\n")) << report;
}

TEST(CudaCommand, SharesABatchWithAProcessorAndLeavesTheDeviceAsItWas) {
  const std::string dir = scratch_dir();
  const auto run = [&](const std::vector<std::string>& devices, const std::string& name) {
    std::vector<std::string> args = {"train", "digits", "--model", "mlp",           "-b", "8", "--max-steps",
                                     "6",     "-q",     "-o",      dir + "/" + name};
    args.insert(args.end(), devices.begin(), devices.end());
    return run_freight(args, "", on_fake(dir, {"FAKE_CUDA_REPORT=" + dir + "/report"}));
  };
  const Ran both = run({"--devices", "cuda:0,cpu", "--device-weights", "3,1"}, "both");
  ASSERT_EQ(both.code, 0) << both.err;
  const std::string report = read_file(dir + "/report");
  for (const char* none : {"faults 0\n", "blocks 0\n", "pinned 0\n", "contexts 0\n"}) {
    EXPECT_TRUE(contains(report, none)) << report;
  }
  ASSERT_EQ(run({"--device", "cpu"}, "cpu").code, 0);
  const auto loss = [&](const std::string& name) {
    return Json::parse(read_file(dir + "/" + name + "/run.json"))["result"]["test_loss"].get<double>();
  };
  EXPECT_NEAR(loss("both"), loss("cpu"), 1e-4);

  const Ran twice = run({"--devices", "cuda:0*2"}, "twice");
  EXPECT_EQ(twice.code, 2) << twice.err;
  EXPECT_TRUE(contains(twice.err, "ranks 0 and 1 have the same GPU")) << twice.err;
}

TEST(CudaCommand, ADeviceLostInMidRunLeavesTheLastCheckpointWhole) {
  const std::string dir = scratch_dir();
  ASSERT_EQ(train(dir, {"--max-steps", "4", "--save-every", "2"}, on_fake(dir)).code, 0);
  std::filesystem::remove_all(dir + "/run");
  const Ran r = train(dir, {"--max-steps", "400", "--save-every", "2"}, on_fake(dir, {"FAKE_CUDA_LOSE_AFTER=150"}));
  EXPECT_EQ(r.code, 4) << r.err;
  EXPECT_TRUE(contains(r.err, "the device failed")) << r.err;
  ASSERT_TRUE(std::filesystem::exists(dir + "/run/checkpoints")) << r.err;
  const Ran resumed = run_freight({"train", "digits", "--model", "mlp", "--batch-size", "4", "--device", "cpu",
                                   "--no-progress", "-o", dir + "/run", "--max-steps", "30", "--resume", "auto"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST(CudaCommand, MemoryThatIsTakenIsExitCode5) {
  const std::string dir = scratch_dir();
  // Less than the weights take is known beforehand, less than the step takes when it is allocated.
  const Ran less = train(dir, {"--max-steps", "2"}, on_fake(dir, {"FAKE_CUDA_FREE=200000"}));
  EXPECT_EQ(less.code, 5) << less.err;
  EXPECT_TRUE(contains(less.err, "has 131.1 KiB free")) << less.err;
  const Ran taken = train(dir, {"--max-steps", "2"}, on_fake(dir, {"FAKE_CUDA_FREE=500000"}));
  EXPECT_EQ(taken.code, 5) << taken.err;
  EXPECT_TRUE(contains(taken.err, "too little memory left")) << taken.err;
}

TEST(CudaCommand, AKernelThatDoesNotCompileNamesItsFile) {
  const std::string dir = scratch_dir();
  const Ran r = train(dir, {"--max-steps", "2"}, on_fake(dir, {"FAKE_NVRTC_REFUSES=SHARE("}));
  EXPECT_EQ(r.code, 4) << r.err;
  EXPECT_TRUE(contains(r.err, dir + "/cache/cuda/failed-")) << r.err;
}

}  // namespace
}  // namespace freight::test
