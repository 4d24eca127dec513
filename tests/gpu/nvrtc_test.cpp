// Every generated kernel of the zoo's nets compiles to machine code of three generations of NVIDIA GPUs, without a
// device, and keeps its numbers in registers. Skipped where there is no NVRTC.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>

#include "freight/backend/gpu/cuda/compiler.h"
#include "freight/backend/gpu/cuda/driver.h"
#include "freight/backend/gpu/dialect.h"
#include "freight/base/strings.h"

#include "tests/gpu/zoo_kernels.h"
#include "tests/ops/op_suite.h"

namespace freight::test {
namespace {

// What ptxas tells of one kernel.
struct Resources {
  std::string entry;
  int registers = -1, spilled_bytes = 0, stack_bytes = 0;
};

std::vector<Resources> resources_of(const std::string& log) {
  std::vector<Resources> all;
  static const std::regex kEntry("Compiling entry function '([^']+)'"), kRegisters("Used ([0-9]+) registers"),
      kMemory("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  for (const std::string& line : split(log, '\n')) {
    std::smatch m;
    if (std::regex_search(line, m, kEntry)) {
      all.push_back({m[1]});
    } else if (std::regex_search(line, m, kMemory) && !all.empty()) {
      all.back().stack_bytes = std::stoi(m[1]);
      all.back().spilled_bytes = std::stoi(m[2]) + std::stoi(m[3]);
    } else if (std::regex_search(line, m, kRegisters) && !all.empty()) {
      all.back().registers = std::stoi(m[1]);
    }
  }
  return all;
}

TEST(Nvrtc, TheReportOfPtxasIsUnderstood) {
  const auto all = resources_of(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'rows_1' for 'sm_90'\n"
      "ptxas info    : Function properties for rows_1\n"
      "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Used 28 registers, used 1 barriers\n");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].entry, "rows_1");
  EXPECT_EQ(all[0].registers, 28);
  EXPECT_EQ(all[0].stack_bytes, 16);
  EXPECT_EQ(all[0].spilled_bytes, 12);
}

class NvrtcCompiles : public testing::TestWithParam<int> {};

// Nets of one family have the same kernels: those of the smallest stand for all.
TEST_P(NvrtcCompiles, EveryKernelOfTheZooWithoutSpills) {
  std::string why;
  const cuda::Compiler* compiler = cuda::Compiler::load(why);
  if (!compiler) GTEST_SKIP() << why;
  const auto target = compiler->target_for(GetParam(), why);
  ASSERT_TRUE(target) << why;
  ASSERT_FALSE(target->portable);
  const KernelTexts texts =
      zoo_kernels({"linear_regression", "logistic_regression", "mlp", "lenet", "convnet", "cifarnet", "resnet20",
                   "alexnet", "vgg11", "vgg11_bn", "googlenet", "resnet18", "resnet50", "textcnn", "text_bow",
                   "mobilenet_v3_small", "lstm_text", "gru_text", "gpt_char"});
  ASSERT_GT(texts.size(), 100u);
  constexpr size_t kTogether = 32;
  std::vector<Resources> found;
  for (auto at = texts.begin(); at != texts.end();) {
    std::string source = gpu::dialect(true);
    for (size_t n = 0; n < kTogether && at != texts.end(); ++n, ++at) source += at->second;
    const auto result = compiler->compile(source, *target, cuda::Compiler::Report::yes);
    ASSERT_FALSE(result.code.empty()) << result.log.substr(0, 3000);
    const auto some = resources_of(result.log);
    found.insert(found.end(), some.begin(), some.end());
  }
  EXPECT_EQ(found.size(), texts.size());
  int most = 0, spilling = 0;
  for (const Resources& r : found) {
    spilling += r.spilled_bytes > 0;
    EXPECT_EQ(r.spilled_bytes, 0) << r.entry << "\n" << texts.at(r.entry);
    EXPECT_GT(r.registers, 0) << r.entry;
    EXPECT_LE(r.stack_bytes, 64) << r.entry;
    most = std::max(most, r.registers);
  }
  RecordProperty("kernels", static_cast<int>(found.size()));
  RecordProperty("most_registers", most);
  std::printf("%s: %zu kernels, at most %d registers, %d with spills (NVRTC %s)\n", target->option().c_str(),
              found.size(), most, spilling, cuda::version_text(compiler->version()).c_str());
}

INSTANTIATE_TEST_SUITE_P(Architectures, NvrtcCompiles, testing::Values(80, 90, 100),
                         [](const auto& row) { return cat("sm_", row.param); });

// Those of the rows, their gradients, operands that are views, and other types, as ops_test.cpp runs them on a device.
const KernelTexts& kernels_of_ops() {
  static KernelTexts texts;
  if (!texts.empty()) return texts;
  register_backend(std::make_unique<CollectingBackend>("collecting ops", texts));
  const auto collect = [](const std::vector<OpCase>& cases) {
    for (const OpCase& c : cases) plan_for(c.graph, {.backend = "collecting ops", .deterministic = true});
  };
  for (const Op op : ops_of_gpus()) {
    collect(cases_with_gradients(op));
    collect(cases_of_views(op));
    for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) collect(cases_in(op, dtype));
  }
  return texts;
}

TEST(Nvrtc, CompilesEveryKernelOfEveryOpInAllTypes) {
  std::string why;
  const cuda::Compiler* compiler = cuda::Compiler::load(why);
  if (!compiler) GTEST_SKIP() << why;
  const auto target = compiler->target_for(90, why);
  ASSERT_TRUE(target) << why;
  const KernelTexts& texts = kernels_of_ops();
  ASSERT_GT(texts.size(), 500u);
  constexpr size_t kTogether = 64;
  for (auto at = texts.begin(); at != texts.end();) {
    std::string source = gpu::dialect(true);
    for (size_t n = 0; n < kTogether && at != texts.end(); ++n, ++at) source += at->second;
    const auto result = compiler->compile(source, *target);
    ASSERT_FALSE(result.code.empty()) << result.log.substr(0, 3000);
  }
  std::printf("%s: %zu kernels of ops (NVRTC %s)\n", target->option().c_str(), texts.size(),
              cuda::version_text(compiler->version()).c_str());
}

TEST(Nvrtc, ATextThatDoesNotCompileComesBackWithTheComplaint) {
  std::string why;
  const cuda::Compiler* compiler = cuda::Compiler::load(why);
  if (!compiler) GTEST_SKIP() << why;
  const auto target = compiler->target_for(90, why);
  ASSERT_TRUE(target);
  const auto result = compiler->compile(gpu::dialect(true) + "KERNEL(1) void f() { no_such_name(); }\n", *target);
  EXPECT_TRUE(result.code.empty());
  EXPECT_NE(result.log.find("no_such_name"), std::string::npos) << result.log;
}

TEST(Nvrtc, ArchitecturesBeyondTheLibraryArePortableAndOlderOnesAreRefused) {
  std::string why;
  const cuda::Compiler* compiler = cuda::Compiler::load(why);
  if (!compiler) GTEST_SKIP() << why;
  const int newest = compiler->architectures().back();
  const auto target = compiler->target_for(newest + 50, why);
  ASSERT_TRUE(target);
  EXPECT_TRUE(target->portable);
  EXPECT_EQ(target->architecture, newest);
  const auto ptx = compiler->compile(gpu::dialect(true) + "KERNEL(1) void f(float* p) { p[0] = 1; }\n", *target);
  EXPECT_FALSE(ptx.code.empty()) << ptx.log;
  EXPECT_NE(ptx.code.find(cat(".target sm_", newest)), std::string::npos);
  EXPECT_FALSE(compiler->target_for(35, why));
  EXPECT_NE(why.find("architecture sm_35 is not covered by"), std::string::npos) << why;
}

}  // namespace
}  // namespace freight::test
