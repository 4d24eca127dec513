// Predicted scaling against what others published of many GPUs. No constant of the prediction was set by these runs:
// the devices, links and the spread between devices have the sources that catalog/*.json and estimate.cpp name. Where
// the publication, or another of the same software and device, says the rate of one device, the plan's step times take
// that pace. Details and what is not modeled: bench/results/2026-11-27-scaling-predicted.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/plan/estimate.h"

namespace freight::plan {
namespace {

struct PublishedRun {
  const char *name, *model, *device;
  DType compute;
  double tflops;          // in place of the catalog's fp32; 0: that
  int64_t batch;          // of each device
  int64_t from, devices;  // the efficiency is of the latter, as a share of the former
  int64_t per_machine;
  const char* network;  // "": one machine
  double rate;          // samples per second of one device; 0: the catalog's prediction
  double published;
};

constexpr PublishedRun kRuns[] = {
    // NVIDIA DeepLearningExamples, PyTorch, NGC 21.03, DGX A100: 2,470 to 16,621 and 938 to 7,248 images/s.
    {"ResNet-50, AMP", "resnet50", "A100 SXM4 80GB", DType::f16, 0, 256, 1, 8, 8, "", 2470, 16621.0 / 2470 / 8},
    {"ResNet-50, TF32", "resnet50", "A100 SXM4 80GB", DType::f32, 156, 256, 1, 8, 8, "", 938, 7248.0 / 938 / 8},
    // The same, commit 20f0977, DGX-1: 7.78 times.
    {"ResNet-50, mixed", "resnet50", "Tesla V100 SXM2 16GB", DType::f16, 0, 256, 1, 8, 8, "", 0, 7.78 / 8},
    // Goyal et al. 2017, arXiv:1706.02677: 32 images on each P100, eight in a machine, 50 Gbit/s Ethernet, 8 to 256.
    {"ResNet-50, Ethernet", "resnet50", "Tesla P100 SXM2", DType::f32, 0, 32, 8, 256, 8, "50gbit", 0, 0.90},
    // Horovod's benchmarks (docs/benchmarks.rst, arXiv:1802.05799): 128 machines of four Pascal GPUs, 25 Gbit/s RoCE,
    // batch 64. One P100 does 154 images/s of VGG-16 in the same program (TensorFlow's benchmarks, 2017). ResNet-101
    // stands for Inception V3, which the zoo lacks: the publication gives 90 % for both.
    {"ResNet-101, RoCE", "resnet101", "Tesla P100 PCIe 16GB", DType::f32, 0, 64, 1, 512, 4, "25gbit-rdma", 0, 0.90},
    {"VGG-16, RoCE", "vgg16", "Tesla P100 PCIe 16GB", DType::f32, 0, 64, 1, 512, 4, "25gbit-rdma", 154, 0.68},
};

double predicted(const PublishedRun& run, const Catalog& catalog) {
  train::Config c;
  c.data.clear();
  c.model = run.model;
  StepPlanOptions o;
  o.batch = run.batch;
  o.compute = run.compute;
  const std::vector<StepPlan> made = plan_steps(make_setup(c), o);
  Device d = catalog.device(run.device);
  if (run.tflops > 0) d.tflops = {{"fp32", run.tflops}};
  constexpr double kPiece = 25.0 * 1024 * 1024;  // PyTorch's DistributedDataParallel
  Fleet fleet{.devices = run.from, .per_machine = run.per_machine, .piece_of_others = kPiece};
  if (*run.network) fleet.between = catalog.link(run.network);
  if (run.rate > 0) fleet.pace = pace_of(made, d, run.rate);
  const Estimate few = estimate(made, d, catalog, {}, fleet);
  fleet.devices = run.devices;
  const Estimate many = estimate(made, d, catalog, {}, fleet);
  return few.step_seconds.middle() / many.step_seconds.middle();
}

TEST(PublishedScaling, IsPredictedWithin10PercentByTheMedianAnd25AtWorst) {
  const Catalog catalog = load_catalog();
  std::vector<double> errors;
  for (const PublishedRun& run : kRuns) {
    const double p = predicted(run, catalog), error = p / run.published - 1;
    std::printf("%-20s %4lld of %-21s published %5.1f %%, predicted %5.1f %%, %+5.1f %%\n", run.name,
                static_cast<long long>(run.devices), run.device, 100 * run.published, 100 * p, 100 * error);
    EXPECT_LE(std::abs(error), 0.25) << run.name;
    EXPECT_GT(p, 0.2);
    EXPECT_LE(p, 1.0) << run.name;
    errors.push_back(std::abs(error));
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LE((errors[2] + errors[3]) / 2, 0.10);
}

TEST(PublishedScaling, TellsTheNetThatTheNetworkHoldsUpFromTheOneThatItDoesNot) {
  const Catalog catalog = load_catalog();
  EXPECT_LT(predicted(kRuns[5], catalog) + 0.1, predicted(kRuns[4], catalog));
}

}  // namespace
}  // namespace freight::plan
