// Several devices: what connects them, and how much of summing gradients the backward half hides.
#include "freight/plan/parallel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "freight/plan/step_plan.h"

namespace freight::plan {
namespace {

Device device(double link, bool pairs, int pcie) {
  Device d;
  d.name = "D";
  d.kind = "gpu";
  d.link_gb = link;
  d.link_of_pairs = pairs;
  d.pcie = pcie;
  return d;
}

const Catalog& shipped() {
  static const Catalog catalog = load_catalog();
  return catalog;
}
std::string link_text(const Device& d, const Fleet& fleet) { return sums_of(d, fleet, shipped()).link; }
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Sums, GoByTheSlowestLinkOnTheWay) {
  EXPECT_PRED2(has, link_text(device(300, false, 4), {.devices = 8}), "its own link of 300 GB/s");
  EXPECT_PRED2(has, link_text(device(56, true, 4), {.devices = 2}), "its own link of 56 GB/s");
  EXPECT_PRED2(has, link_text(device(56, true, 4), {.devices = 4}), "PCIe 4 of 32 GB/s");  // a bridge joins two
  EXPECT_PRED2(has, link_text(device(0, false, 3), {.devices = 2}), "PCIe 3 of 16 GB/s");
  EXPECT_PRED2(has, link_text(device(300, false, 4), {.devices = 16}), "100 Gbit/s");
  EXPECT_PRED2(has, link_text(device(300, false, 4), {.devices = 16, .between = shipped().link("25gbit-rdma")}),
               "25 Gbit/s (25gbit-rdma)");
  EXPECT_PRED2(has, link_text(device(300, false, 4), {.devices = 8, .inside = shipped().link("PCIe")}), "PCIe 4");
  EXPECT_PRED2(has, link_text(device(0, false, 3), {.devices = 16, .between = shipped().link("3200gbit-rdma")}),
               "PCIe");
  EXPECT_EQ(link_text(device(0, false, 0), {.devices = 2}), "");  // nothing is guessed
  EXPECT_PRED2(has, link_text(device(0, false, 0), {.devices = 2, .per_machine = 1}), "100 Gbit/s");
}

TEST(Sums, OfOneMachineAreARing) {
  const Sums s = sums_of(device(100, false, 4), {.devices = 4}, shipped());
  // 8.4 us, 2 (n - 1) hops of 5.7 us, 2 (n - 1) / n of the bytes at 0.67 of the link; all of it at the best end.
  EXPECT_NEAR(s.usual.of(64e6), 8.4e-6 + 6 * 5.7e-6 + 1.5 * 64e6 / 67e9, 1e-9);
  EXPECT_NEAR(s.best.of(64e6), 8.4e-6 + 6 * 3.4e-6 + 1.5 * 64e6 / 100e9, 1e-9);
}

TEST(Sums, OverMachinesAreATreeAtBestAndOneRingUsually) {
  const Fleet fleet{.devices = 32, .between = shipped().link("100gbit-rdma")};
  const Sums s = sums_of(device(100, false, 4), fleet, shipped());
  // 4 machines of 8: 2 hops of the tree each way; 2 (M - 1) / M of the bytes leave a machine at 0.96 of 12.5 GB/s.
  EXPECT_NEAR(s.best.of(64e6),
              8.4e-6 + 14 * 3.4e-6 + 4 * 6.6e-6 + 1.75 * 64e6 / 100e9 + (1.5 / 12e9 - 1.75 / 100e9) * 64e6, 1e-9);
  // One ring of 32: NCCL counts two hops of the network for each machine.
  EXPECT_NEAR(s.usual.of(64e6), 8.4e-6 + 56 * 5.7e-6 + 8 * 9.6e-6 + 2 * 31.0 / 32 * 64e6 / (12.5e9 * 0.75), 1e-9);
}

TEST(Sums, ThatWereMeasuredAreABandBeyondWhatWas) {
  const MeasuredSums measured{
      .source = "sums.json", .one_host = true, .sums = {{2, 1e-5, 1e-9, 0.1}, {4, 3e-5, 3e-9, 0.1}}};
  const auto of = [&](int64_t n) { return sums_of_processors({.devices = n, .measured = measured}); };
  EXPECT_NEAR(of(2).best.of(1e6), 0.9 * (1e-5 + 1e-3), 1e-12);
  EXPECT_NEAR(of(2).usual.of(1e6), 1.1 * (1e-5 + 1e-3), 1e-12);
  EXPECT_EQ(of(2).beyond, "");
  EXPECT_EQ(of(3).beyond, "");  // between two that were
  const double t = std::log(1.5) / std::log(2.0);
  EXPECT_NEAR(of(3).usual.start, 1.1 * (1e-5 + t * 2e-5), 1e-12);
  const Sums eight = of(8);
  EXPECT_PRED2(has, eight.beyond, "beyond the 4 ranks that sums.json measured");
  EXPECT_NEAR(eight.best.start, 0.9 * 3e-5 * 3 / 2, 1e-12);                     // as a tree
  EXPECT_NEAR(eight.usual.start, 1.1 * 3e-5 * 7 / 3, 1e-12);                    // as a ring
  EXPECT_NEAR(eight.best.per_byte, 0.9 * 3e-9 * (7.0 / 8) / (3.0 / 4), 1e-18);  // with a memory each
  EXPECT_NEAR(eight.usual.per_byte, 1.1 * 3e-9 * 2, 1e-18);                     // with one for all
  EXPECT_EQ(of(1).usual.of(1e9), 0);
  EXPECT_EQ(sums_of_processors({.devices = 2}).link, "");  // a network is not guessed either
}

TEST(Slowest, IsTheMeanOfTheLargestOfNormalDraws) {
  // Teichroew 1956, table of expected normal order statistics.
  EXPECT_EQ(slowest_of(1), 0);
  EXPECT_NEAR(slowest_of(2), 0.5642, 1e-4);
  EXPECT_NEAR(slowest_of(8), 1.4236, 1e-4);
  EXPECT_NEAR(slowest_of(20), 1.8675, 1e-4);
}

Work step(double gradients) {
  Work w;
  w.kind = "matmul";
  w.backward = true;
  w.gradients = gradients;
  return w;
}

TEST(Gradients, AreHiddenByTheStepsThatFollow) {
  const SumCost cost{6e-5, 1.5 / 50e9};
  const double bytes = 64e6, ring = cost.of(bytes);
  const std::vector<Work> early = {step(bytes), step(0)}, late = {step(0), step(bytes)};
  const Summing hidden = sum_gradients(early, {0.1, 0.1}, bytes, {cost, {}});
  EXPECT_NEAR(hidden.seconds, ring, 1e-12);
  EXPECT_EQ(hidden.exposed, 0);
  const Summing last = sum_gradients(late, {0.1, 0.1}, bytes, {cost, {}});
  EXPECT_NEAR(last.exposed, ring, 1e-12);
  // In part: the second step is shorter than the transfer.
  EXPECT_NEAR(sum_gradients(early, {0.1, 0.001}, bytes, {cost, {}}).exposed, ring - 0.001, 1e-12);
  // What no step is seen to finish comes last.
  EXPECT_NEAR(sum_gradients(early, {0.1, 0.1}, 2 * bytes, {cost, {}}).exposed, ring, 1e-12);
}

TEST(Gradients, OfOtherSoftwareTravelInPiecesOfOneSize) {
  const SumCost cost{1e-4, 1e-9};
  const std::vector<Work> four(4, step(1e6));
  const std::vector<double> seconds(4, 1.0);
  // Two and two: only the last two are behind the steps. Each by itself, the last alone.
  const Summing others = sum_gradients(four, seconds, 4e6, {cost, {}}, 1.5e6);
  EXPECT_NEAR(others.seconds, 4 * 1e-3 + 2 * 1e-4, 1e-12);
  EXPECT_NEAR(others.exposed, cost.of(2e6), 1e-12);
  EXPECT_NEAR(sum_gradients(four, seconds, 4e6, {cost, {}}).exposed, cost.of(1e6), 1e-12);
}

TEST(Gradients, BesideTheStepsTravelAtThePaceThatSumsHaveThere) {
  const SumCost line{1e-4, 1e-9}, beside{2e-4, 3e-9};
  const std::vector<Work> four(4, step(1e6));
  // Each is ready a second after the one before: three travel beside, the last behind the steps at its own pace.
  const Summing s = sum_gradients(four, std::vector<double>(4, 1.0), 4e6, {line, beside});
  EXPECT_NEAR(s.beside, 3e6, 1e-6);
  EXPECT_NEAR(s.seconds, 3 * 3.2e-3 + 1.1e-3, 1e-12);
  EXPECT_NEAR(s.exposed, 1.1e-3, 1e-12);
  // The second begins when the first is done, 1.2 ms behind its time.
  const Summing late = sum_gradients({step(1e6), step(1e6)}, {1.0, 2e-3}, 2e6, {line, beside});
  EXPECT_NEAR(late.exposed, 1.2e-3 + 1.1e-3, 1e-12);
}

TEST(Gradients, SmallOnesShareATransfer) {
  const std::vector<Work> many(10, step(1e6));
  const Summing s = sum_gradients(many, std::vector<double>(10, 0.0), 10e6, {{2e-3, 1 / 10e9}, {}});
  EXPECT_NEAR(s.seconds, 2e-3 + 10e6 / 10e9, 1e-9);
}

TEST(Gradients, APlanSaysWhenEachIsFinal) {
  train::Config c;
  c.data.clear();
  for (const char* model : {"mlp", "resnet20", "gpt_char"}) {
    for (const auto& [optimizer, precision] : {std::pair{"sgd", "fp32"}, {"adamw", "fp32"}, {"sgd", "bf16"}}) {
      SCOPED_TRACE(std::string(model) + " " + optimizer + " " + precision);
      c.precision = precision;
      c.model = model;
      c.optimizer = optimizer;
      c.model_ema = 0.99;  // reads weights, not gradients
      StepPlanOptions o;
      o.batch = 4;
      const TrainingSetup s = make_setup(c);
      o.compute = options_of(s).compute;
      const StepPlan d = plan_step(s, o);
      double seen = 0;
      size_t steps = 0;
      for (const Work& w : d.stages[0].work) {
        seen += w.gradients;
        steps += w.gradients > 0 ? 1 : 0;
        EXPECT_TRUE(w.backward || w.gradients == 0) << w.path;
      }
      const double all = static_cast<double>(d.parameters) * 4;
      EXPECT_GT(seen, 0.9 * all);  // biases and scales are summed and applied in one step
      EXPECT_LE(seen, 1.02 * all);
      EXPECT_GT(steps, 2u);
    }
  }
}

}  // namespace
}  // namespace freight::plan
