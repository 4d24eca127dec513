// Which engines cuDNN takes for the convolutions of the zoo on an sm_90, asked of the real library without a device and
// compared with a checked-in table: every convolution has one, and a new version of the library shows what it changes.
// That the plans are fast, or right, only a device can tell.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "freight/backend/gpu/cuda/dnn.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/base/error.h"
#include "freight/io/file.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/train/step.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

using cuda::Convolution;

// Takes note of the convolutions that a plan holds.
class Convolutions final : public gpu::GpuBackend {
 public:
  explicit Convolutions(std::set<std::string>& names, std::vector<Convolution>& into) : names_(names), into_(into) {}
  std::string name() const override { return "convolutions"; }
  std::string description() const override { return "collects convolutions, runs nothing"; }
  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    if (std::optional<Convolution> c = cuda::convolution(*spec.graph, *spec.node, false)) {
      if (spec.node->op == Op::conv) {
        const Epilogue& e = attrs<ConvAttrs>(*spec.node).epilogue;
        c->bias = e.bias && !e.residual;
        c->relu = e.relu && !e.residual;
      }
      if (names_.insert(to_string(*c)).second) into_.push_back(*c);
    }
    return std::make_unique<Nothing>();
  }

 private:
  class Nothing final : public Kernel {
   public:
    void run(void* const*) override {}
    std::string name() const override { return "nothing"; }
  };
  std::set<std::string>& names_;
  std::vector<Convolution>& into_;
};

// Of training steps of 32 samples.
std::vector<Convolution> convolutions_of_the_zoo() {
  static std::set<std::string> names;
  static std::vector<Convolution> all;
  if (!all.empty()) return all;
  register_backend(std::make_unique<Convolutions>(names, all));
  for (const char* net : {"lenet", "resnet20", "alexnet", "vgg16", "googlenet", "resnet50"}) {
    const models::Model model = models::create(net);
    optim::SGD sgd(model.net->parameters(), {.lr = 0.1});
    model.net->train();
    train::TrainStep step(model, sgd, nullptr, {}, {.backend = "convolutions", .deterministic = true});
    step.summary(model.batch_type(32), {DType::i64, {32}});
  }
  return all;
}

std::string line_of(const cuda::DnnPlanner& planner, Convolution c) {
  std::string line = to_string(c);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    c.dtype = dtype;
    const std::vector<cuda::DnnPlan> best = planner.plans(c, size_t{256} << 20, 1);
    line +=
        best.empty() ? cat(" | ", dtype, " none") : cat(" | ", dtype, " eng", best[0].engine, " ", best[0].workspace);
  }
  return line;
}

TEST(CudnnPlans, AreThoseOfTheTableForEveryConvolutionOfTheZoo) {
  const Library& library = cuda::find_dnn();
  if (!library.why.empty()) GTEST_SKIP() << library.why;
  const std::string folder = source_dir() + "/tests/gpu/", table = io::read_text(folder + "conv_plans.txt");
  const std::string version = cat("cuDNN ", library.version, "\n");
  const cuda::DnnPlanner planner(io::read_text(folder + "sm_90.json"));
  std::string got = version;
  for (const Convolution& c : convolutions_of_the_zoo()) {
    Convolution plain = c;  // what a fused form falls back to
    plain.bias = plain.relu = false;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      plain.dtype = dtype;
      EXPECT_FALSE(planner.plans(plain, size_t{256} << 20, 1).empty()) << to_string(plain);
    }
    got += line_of(planner, c) + "\n";
  }
  const std::string written = binary_dir() + "/conv_plans.txt";
  std::ofstream(written) << got;
  if (table.substr(0, version.size()) != version)
    GTEST_SKIP() << "the table is of another version than " << library.path << " (" << library.version << ")";
  EXPECT_EQ(got, table) << "if the change is meant: cp " << written << " " << folder << "conv_plans.txt";
}

TEST(CudnnPlans, InFullF32NoEngineRoundsToTf32) {
  const Library& library = cuda::find_dnn();
  if (!library.why.empty()) GTEST_SKIP() << library.why;
  const cuda::DnnPlanner planner(io::read_text(source_dir() + "/tests/gpu/sm_90.json"));
  Convolution c;
  c.x = {32, 64, 56, 56}, c.w = {64, 64, 3, 3}, c.y = c.x;
  c.pad_low = c.pad_high = {1, 1};
  std::set<int64_t> full, rounded;
  for (const cuda::DnnPlan& p : planner.plans(c, size_t{256} << 20, 64)) full.insert(p.engine);
  c.tf32 = true;
  for (const cuda::DnnPlan& p : planner.plans(c, size_t{256} << 20, 64)) rounded.insert(p.engine);
  EXPECT_FALSE(full.empty());
  EXPECT_GT(rounded.size(), full.size());
}

}  // namespace
}  // namespace freight::test
