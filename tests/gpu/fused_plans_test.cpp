// Which engines cuDNN takes on an sm_90 for what rides on convolutions in training in f16: moments of channels and the
// normalization before. Asked of the real library without a device and compared with a checked-in table; that the plans
// are fast, or right, only a device can tell.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "freight/backend/gpu/cuda/dnn.h"
#include "freight/backend/gpu/fused_patterns.h"
#include "freight/backend/gpu/gpu_backend.h"
#include "freight/base/strings.h"
#include "freight/io/file.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/train/step.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

constexpr size_t kMostWorkspace = size_t{256} << 20;

// Fuses where the library has an engine, as the CUDA driver does, and takes note of what it fused.
class Fusions final : public gpu::GpuBackend {
 public:
  explicit Fusions(const cuda::DnnPlanner& planner) : planner_(planner) {}
  std::string name() const override { return "fusions"; }
  std::string description() const override { return "collects fused convolutions, runs nothing"; }
  std::string why_unsupported(DType) const override { return {}; }
  bool has_kernel(const Graph& graph, const Node& node) const override {
    if (node.op != Op::moments) return GpuBackend::has_kernel(graph, node);
    const std::optional<Node> fused = gpu::conv_with_moments(graph, node);
    return fused && takes(graph, *fused);
  }
  Graph fuse_patterns(const Graph& graph) const override {
    return gpu::fuse_patterns(graph, [&](const Node& fused) { return takes(graph, fused); });
  }
  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    if (const std::optional<cuda::Convolution> c = cuda::convolution(*spec.graph, *spec.node, false)) {
      ++(product_in(*spec.node) ? with_pattern : alone);
      if (product_in(*spec.node)) all.emplace(to_string(*c), *c);
    }
    return std::make_unique<Nothing>();
  }

  int with_pattern = 0, alone = 0;               // convolutions
  std::map<std::string, cuda::Convolution> all;  // by its text, so that the order of steps does not matter

 private:
  class Nothing final : public Kernel {
   public:
    void run(void* const*) override {}
    std::string name() const override { return "nothing"; }
  };
  bool takes(const Graph& graph, const Node& fused) const {
    const std::optional<cuda::Convolution> c = cuda::convolution(graph, fused, false);
    if (!c) return false;
    const auto [known, is_new] = taken_.try_emplace(to_string(*c));
    if (is_new) known->second = !planner_.plans(*c, kMostWorkspace, 1).empty();
    return known->second;
  }
  const cuda::DnnPlanner& planner_;
  mutable std::map<std::string, bool> taken_;  // by the text of a convolution
};

std::string answer(const cuda::DnnPlanner& planner, cuda::Convolution c, DType dtype) {
  c.dtype = dtype;
  const std::vector<cuda::DnnPlan> best = planner.plans(c, kMostWorkspace, 1);
  return best.empty() ? cat(" | ", dtype, " none") : cat(" | ", dtype, " eng", best[0].engine, " ", best[0].workspace);
}

TEST(CudnnFusions, AreThoseOfTheTableForTheNetsWithBatchNormOfTheZoo) {
  const Library& library = cuda::find_dnn();
  if (!library.why.empty()) GTEST_SKIP() << library.why;
  const std::string folder = source_dir() + "/tests/gpu/", table = io::read_text(folder + "fused_plans.txt");
  const std::string version = cat("cuDNN ", library.version, "\n");
  static const cuda::DnnPlanner planner(io::read_text(folder + "sm_90.json"));
  auto owned = std::make_unique<Fusions>(planner);
  Fusions& fusions = *owned;
  register_backend(std::move(owned));
  std::string got = version;
  for (const char* net : {"resnet20", "resnet50", "googlenet"}) {
    const models::Model model = models::create(net);
    optim::SGD sgd(model.net->parameters(), {.lr = 0.1});
    model.net->train();
    fusions.with_pattern = fusions.alone = 0;
    train::TrainStep step(model, sgd, nullptr, {},
                          {.backend = "fusions", .deterministic = true, .compute = DType::f16});
    step.summary(model.batch_type(32), {DType::i64, {32}});
    got += cat(net, ": ", fusions.with_pattern, " fused, ", fusions.alone, " alone\n");
  }
  for (const auto& [text, c] : fusions.all) {
    got += text;
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) got += answer(planner, c, dtype);
    got += "\n";
  }
  const std::string written = binary_dir() + "/fused_plans.txt";
  std::ofstream(written) << got;
  if (table.substr(0, version.size()) != version)
    GTEST_SKIP() << "the table is of another version than " << library.path << " (" << library.version << ")";
  EXPECT_EQ(got, table) << "if the change is meant: cp " << written << " " << folder << "fused_plans.txt";
}

}  // namespace
}  // namespace freight::test
