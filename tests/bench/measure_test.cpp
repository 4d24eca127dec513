// What is run: comparisons on devices that are always there, the nets of the study. Times are never held to a value,
// only to being there and to each other.
#include <gtest/gtest.h>

#include "freight/backend/gpu/opencl/opencl.h"
#include "freight/bench/classic.h"
#include "freight/bench/compare.h"
#include "freight/bench/timing.h"
#include "freight/run/plan.h"
#include "tests/support/files.h"

namespace freight::bench {
namespace {

using freight::testing::expect_error;

plan::TrainingSetup setup(const std::string& model) {
  train::Config c;
  c.data.clear();
  train::set_model(c, model);
  return plan::make_setup(c);
}

CompareOptions quick(std::vector<std::string> devices) {
  return {.devices = std::move(devices), .predicted = {}, .batches = {1, 4}, .seconds = 0.02, .deterministic = true};
}
const Progress kGoOn = [](const std::string&) { return true; };

TEST(Timing, OfStepsAndTheirPartsIsPositive) {
  const Workload w(models::create("mlp"), {.batch = 4, .compile = {.backend = "cpu", .deterministic = true}});
  const Timed t = time_steps(w, 0.01, Batches::resident);
  EXPECT_GT(t.least, 0);
  EXPECT_GE(t.median, t.least);
  EXPECT_GE(t.runs, 3);
  const std::vector<double> parts = time_plan_steps(w, 0.01);
  EXPECT_EQ(parts.size(), w.plan().steps().size());
  for (const double s : parts) EXPECT_GE(s, 0);
}

TEST(Timing, TheRoofsOfTheCpuAreThere) {
  const Roofs r = measure_roofs("cpu", DType::f32, 0.02);
  EXPECT_GT(r.flops, 1e6);
  EXPECT_GT(r.bytes, 1e6);
  EXPECT_GT(r.launch, 0);
}

// Two devices that every machine has, and one that none of ours has.
TEST(Compare, MeasuresWhatIsHereAndPredictsWhatIsNot) {
  CompareOptions o = quick({"cpu", "ref"});
  o.predicted = {"GeForce GTX 1080"};
  o.samples = 100;
  o.prices = {{"cpu", 2.0}};
  o.peaks = {{"cpu", 0.5}};
  o.link_gb = 10;
  std::vector<std::string> heard;
  const Comparison c = compare(setup("mlp"), plan::load_catalog(), o, [&](const std::string& what) {
    heard.push_back(what);
    return true;
  });
  ASSERT_EQ(c.curves.size(), 3u);
  EXPECT_EQ(c.detail, 4);
  EXPECT_EQ(heard.front(), "cpu, batch 1");
  for (const Curve& curve : c.curves) {
    ASSERT_EQ(curve.points.size(), 2u) << curve.name;
    for (const BatchPoint& p : curve.points) {
      EXPECT_GT(p.seconds, 0) << p.skipped;
      EXPECT_GT(p.moved_seconds, 0);
      EXPECT_GT(p.flops, 0);
      EXPECT_GT(utilization(curve, p), 0);
    }
    EXPECT_FALSE(curve.step_times.empty());
    EXPECT_FALSE(curve.assumed.empty());
  }
  EXPECT_DOUBLE_EQ(c.curves[0].peak_flops, 0.5e12);
  EXPECT_EQ(c.curves[0].peak_source, "as given");
  EXPECT_NE(c.curves[1].peak_source.find("the fastest matmul"), std::string::npos);
  EXPECT_TRUE(epoch_cost(c.curves[0], c.curves[0].points[0], c.samples)->dollars);
  const Curve& far = c.curves[2];
  EXPECT_TRUE(far.predicted);
  EXPECT_NEAR(far.peak_flops, 8.87e12, 1e9);
  EXPECT_NE(far.peak.find("dense"), std::string::npos);
  for (const BatchPoint& p : far.points) {
    EXPECT_LT(p.range.low, p.range.high);
    EXPECT_GT(p.seconds, p.range.low);
    EXPECT_NEAR(p.moved_seconds - p.seconds, static_cast<double>(p.batch) * (784 * 4 + 8) / 10e9, 1e-12);
  }
  EXPECT_EQ(layers_of(c)[0].on.size(), 3u);
}

TEST(Compare, AnOpenClDeviceIsMeasuredWithAndWithoutTransfers) {
  if (opencl_devices().devices.empty()) GTEST_SKIP() << "no OpenCL device";
  const Comparison c = compare(setup("mlp"), plan::load_catalog(), quick({"cpu", "opencl:0"}), kGoOn);
  for (const BatchPoint& p : c.curves[1].points) {
    EXPECT_GT(p.seconds, 0) << p.skipped;
    EXPECT_GT(p.moved_seconds, 0);
  }
  EXPECT_TRUE(crossover(c.curves[0], c.curves[1], Batches::moved));
}

TEST(Compare, ASingleBatchSizeCanBePredictedToo) {
  CompareOptions o = quick({"cpu"});
  o.batches = {3};
  o.predicted = {"Tesla P4"};
  const Comparison c = compare(setup("mlp"), plan::load_catalog(), o, kGoOn);
  ASSERT_EQ(c.curves[1].points.size(), 1u);
  EXPECT_EQ(c.curves[1].points[0].batch, 3);
}

TEST(Compare, RefusesDevicesThatAreNotThereBeforeAnythingIsRun) {
  const Progress none = [](const std::string&) -> bool { throw std::logic_error("something was run"); };
  const plan::Catalog catalog = plan::load_catalog();
  expect_error(ErrorKind::device, {"cuda"}, [&] { compare(setup("mlp"), catalog, quick({"cpu", "cuda"}), none); });
  expect_error(ErrorKind::device, {"77"}, [&] { compare(setup("mlp"), catalog, quick({"opencl:77"}), none); });
  CompareOptions o = quick({"cpu"});
  o.predicted = {"GeForce 9999"};
  expect_error(ErrorKind::usage, {"GeForce 9999"}, [&] { compare(setup("mlp"), catalog, o, none); });
}

TEST(Compare, ABatchThatCannotFitHasTheReasonInsteadOfATime) {
  CompareOptions o = quick({"cpu"});
  o.batches = {1, 1'000'000'000};
  const Comparison c = compare(setup("logistic_regression"), plan::load_catalog(), o, kGoOn);
  EXPECT_TRUE(c.curves[0].points[0].known());
  EXPECT_NE(c.curves[0].points[1].skipped.find("needs "), std::string::npos) << c.curves[0].points[1].skipped;
  o.batches = {1'000'000'000};
  expect_error(ErrorKind::capacity, {"no batch size", "needs "},
               [&] { compare(setup("logistic_regression"), plan::load_catalog(), o, kGoOn); });
}

TEST(Compare, StopsWhereItIsAskedTo) {
  int asked = 0;
  const Comparison c =
      compare(setup("mlp"), plan::load_catalog(), quick({"cpu"}), [&](const std::string&) { return ++asked == 1; });
  EXPECT_TRUE(c.curves[0].points[0].known());
  EXPECT_EQ(c.curves[0].points[1].skipped, "stopped");
  EXPECT_TRUE(c.curves[0].step_times.empty());
}

TEST(Study, NetsHaveTheParametersOfTheirSources) {
  const Study s = load_study();
  ASSERT_EQ(s.nets.size(), 6u);
  for (const StudyNet& n : s.nets) EXPECT_EQ(n.make().net->parameter_count(), n.parameters) << n.name;
  EXPECT_EQ(s.nets[0].parameters, 117'997'696);
  EXPECT_EQ(s.nets[1].parameters, 130'586'752);
  EXPECT_EQ(s.names().size(), 8u);
}

TEST(Study, PublishedFiguresNameTheirSource) {
  const Study s = load_study();
  EXPECT_EQ(s.published.size(), 37u);
  for (const Published& p : s.published) {
    EXPECT_GT(p.seconds, 0);
    EXPECT_FALSE(p.source.empty());
  }
}

TEST(Study, FilesWithFaultsAreRefusedByEntry) {
  const std::string head = R"({"format":"freight-study-1","about":"a","date":"d","sources":{"s":"x"},"trainings":[],)";
  const std::string net = R"("nets":[{"name":"n","title":"N","what":"w","source":"s","model":"mlp","batch":2,)";
  struct Row {
    std::string text, part;
  };
  const Row rows[] = {
      {"{", "JSON"},
      {R"({"format":"x"})", "freight-study-1"},
      {head + R"("nets":{},"published":[]})", "'nets'"},
      {head + net + R"("parameters":0}],"published":[]})", "'parameters'"},
      {head + net + R"("parameters":5,"spec":{}}],"published":[]})", "either"},
      {head + net + R"("parameters":5}],"published":[{"device":"d","software":"x","source":"t","seconds":{}}]})",
       "'t'"},
      {head + net + R"("parameters":5}],"published":[{"device":"d","software":"x","source":"s","seconds":{"m":1}}]})",
       "'m'"},
      {head + net + R"("parameters":5}],"published":[{"device":"d","software":"x","source":"s","seconds":{"n":-1}}]})",
       "above 0"},
  };
  for (const Row& r : rows) expect_error(ErrorKind::usage, {r.part}, [&] { parse_study(r.text, "study.json"); });
  EXPECT_EQ(parse_study(head + net + R"("parameters":5}],"published":[]})", "study.json").nets[0].batch, 2);
}

TEST(Study, AStepIsMeasuredOrSaysWhyNot) {
  const Study s = load_study();
  const StudyNet& lstm = s.nets[4];
  const StepResult r = measure_step(lstm, "cpu", {.seconds = 0.01, .batch = 1});
  EXPECT_GT(r.seconds, 0) << r.skipped;
  EXPECT_GT(r.flops, 1e8);
  EXPECT_EQ(r.batch, 1);
  EXPECT_GT(r.threads, 0);
  const StepResult slow = measure_step(s.nets[0], "cpu", {.seconds = 0.01, .most_seconds = 1e-9});
  EXPECT_EQ(slow.seconds, 0);
  EXPECT_NE(slow.skipped.find("a step would take"), std::string::npos);
  const StepResult large = measure_step(lstm, "cpu", {.seconds = 0.01, .batch = 10'000'000});
  EXPECT_NE(large.skipped.find("needs "), std::string::npos) << large.skipped;
}

TEST(Study, ATrainingRunsToItsAccuracyOrSaysWhatIsMissing) {
  const StudyTraining digits{"digits", "Digits", "digits", "default"};
  const TrainingResult r = measure_training(digits, "cpu", {.most_steps = 100});
  EXPECT_EQ(r.skipped, "");
  EXPECT_GT(r.top1, 50);
  EXPECT_EQ(r.steps, 100);
  EXPECT_GE(r.seconds, r.train_seconds);
  const TrainingResult none = measure_training({"nn", "N", "/nowhere/at/all", "default"}, "cpu", {});
  EXPECT_NE(none.skipped.find("/nowhere/at/all"), std::string::npos) << none.skipped;
}

}  // namespace
}  // namespace freight::bench
