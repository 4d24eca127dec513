// The arithmetic of a comparison, from given numbers; its tables, trace and page.
#include "freight/bench/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "freight/bench/output.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"
#include "tests/support/python.h"

namespace freight::bench {
namespace {

using freight::testing::peer_python;
using freight::testing::TemporaryDir;
using Json = nlohmann::json;

// Points by batch: seconds, seconds with moved batches.
Curve curve(const std::string& name, const std::vector<std::array<double, 3>>& points) {
  Curve c;
  c.name = name;
  c.peak_flops = 1e12;
  c.peak = "1 TFLOP/s";
  c.roof_flops = 8e11;
  c.roof_bytes = 1e10;
  c.launch = 1e-6;
  for (const auto& [batch, still, moved] : points) {
    c.points.push_back({.batch = static_cast<int64_t>(batch),
                        .seconds = still,
                        .moved_seconds = moved,
                        .range = {still, still},
                        .flops = 1e9 * batch});
  }
  return c;
}

StepTime step_time(const std::string& path, double seconds, plan::Bound bound) {
  return {{.kind = "matmul", .path = path, .flops = 2e6, .bytes = 1e6}, seconds, bound};
}
StepTime backward(StepTime p) {
  p.work.backward = true;
  return p;
}

// A device that is slower for one sample and faster for many, a prediction, and one with a gap.
Comparison comparison() {
  Comparison c{
      .model = "net<1>", .input = "f32[1,8]", .precision = "fp32", .optimizer = "sgd", .unit = "img", .data = {}};
  c.parameters = 1234;
  c.samples = 1000;
  c.detail = 4;
  c.curves = {curve("cpu", {{1, 0.001, 0.001}, {4, 0.004, 0.004}, {16, 0.016, 0.016}}),
              curve("opencl:0", {{1, 0.002, 0.004}, {4, 0.002, 0.008}, {16, 0.004, 0.032}}),
              curve("Far & away", {{1, 0.0001, 0}, {4, 0.0001, 0}, {16, 0.0002, 0}})};
  c.curves[2].predicted = true;
  c.curves[2].usd_per_hour = 3.6;
  c.curves[2].price = "$3.6 per hour";
  c.curves[2].watts_low = 60;
  c.curves[2].watts_high = 100;
  c.curves[2].power = "60 to 100 % of 100 W";
  c.curves[1].points.push_back({.batch = 64, .skipped = "needs 3 GiB, free: 2 GiB"});
  c.curves[0].step_times = {step_time("fc1", 0.002, plan::Bound::compute),
                            backward(step_time("fc1", 0.001, plan::Bound::memory)),
                            backward(step_time("", 0.001, plan::Bound::launch))};
  c.curves[1].step_times = {step_time("fc1", 0.0005, plan::Bound::memory),
                            backward(step_time("fc1", 0.0015, plan::Bound::memory))};
  c.curves[2].step_times = {step_time("fc1", 0.0001, plan::Bound::launch)};
  return c;
}

TEST(Crossover, LiesBetweenTheLastSlowerAndTheFirstFasterBatch) {
  const Comparison c = comparison();
  // Half as fast at 1, twice as fast at 4: equal in the middle of the logarithms.
  const auto x = crossover(c.curves[0], c.curves[1]);
  ASSERT_TRUE(x);
  EXPECT_EQ(x->kind, Crossover::Kind::at);
  EXPECT_NEAR(x->batch, 2, 1e-9);
  EXPECT_EQ(x->first, 4);
}

TEST(Crossover, WithMovedBatchesMayNeverCome) {
  const Comparison c = comparison();
  EXPECT_EQ(crossover(c.curves[0], c.curves[1], Batches::moved)->kind, Crossover::Kind::never);
  EXPECT_FALSE(crossover(c.curves[0], c.curves[2], Batches::moved));  // not known
  const auto always = crossover(c.curves[0], c.curves[2]);
  EXPECT_EQ(always->kind, Crossover::Kind::always);
  EXPECT_EQ(always->first, 1);
}

TEST(Crossover, IsWhereTheDeviceStaysFaster) {
  const Curve base = curve("a", {{1, 1, 1}, {2, 1, 1}, {4, 1, 1}, {8, 1, 1}});
  const Curve other = curve("b", {{1, 0.5, 1}, {2, 2, 1}, {4, 0.5, 1}, {8, 0.25, 1}});
  const auto x = crossover(base, other);
  EXPECT_EQ(x->first, 4);
  EXPECT_NEAR(x->batch, std::sqrt(8.0), 1e-9);
  EXPECT_EQ(crossover(base, curve("c", {{1, 0.5, 1}, {8, 1, 1}}))->kind,
            Crossover::Kind::never);  // equal is not faster
  EXPECT_FALSE(crossover(base, curve("d", {{3, 1, 1}})));
}

TEST(SpeedUp, IsTheRatioOfTimesOfEqualBatches) {
  const Comparison c = comparison();
  EXPECT_DOUBLE_EQ(*speed_up(c.curves[0], c.curves[1], 16), 4);
  EXPECT_DOUBLE_EQ(*speed_up(c.curves[0], c.curves[1], 16, Batches::moved), 0.5);
  EXPECT_FALSE(speed_up(c.curves[0], c.curves[1], 64));
  EXPECT_FALSE(speed_up(c.curves[0], c.curves[2], 4, Batches::moved));
}

TEST(EpochCost, CountsWholeBatchesAtTheMovedTime) {
  const Comparison c = comparison();
  const auto plain = epoch_cost(c.curves[1], *c.curves[1].at(16), 1000);
  EXPECT_NEAR(plain->hours * 3600, 62 * 0.032, 1e-9);
  EXPECT_FALSE(plain->dollars);
  EXPECT_FALSE(plain->watt_hours);
  const auto paid = epoch_cost(c.curves[2], *c.curves[2].at(4), 1000);
  EXPECT_NEAR(*paid->dollars, 250 * 0.0001 / 3600 * 3.6, 1e-12);
  EXPECT_NEAR(paid->watt_hours->low, 250 * 0.0001 / 3600 * 60, 1e-12);
  EXPECT_NEAR(paid->watt_hours->high, 250 * 0.0001 / 3600 * 100, 1e-12);
  EXPECT_FALSE(epoch_cost(c.curves[2], *c.curves[2].at(4), 0));
  EXPECT_NEAR(epoch_cost(c.curves[0], *c.curves[0].at(16), 3)->hours * 3600, 0.016, 1e-12);  // at least one step
}

TEST(Utilisation, IsOfTheDensePeak) {
  const Comparison c = comparison();
  EXPECT_DOUBLE_EQ(utilization(c.curves[0], *c.curves[0].at(4)), 1);
  EXPECT_DOUBLE_EQ(utilization(c.curves[1], c.curves[1].points.back()), 0);
}

TEST(Layers, AreSummedOverForwardAndBackwardWithTheLongestBound) {
  const std::vector<LayerRow> rows = layers_of(comparison());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].path, "fc1");
  EXPECT_DOUBLE_EQ(rows[0].on[0].seconds, 0.003);
  EXPECT_DOUBLE_EQ(rows[0].on[0].flops, 4e6);
  EXPECT_EQ(rows[0].on[0].bound, plan::Bound::compute);
  EXPECT_EQ(rows[0].on[1].bound, plan::Bound::memory);
  EXPECT_EQ(rows[1].path, "(loss and updates)");
  EXPECT_DOUBLE_EQ(rows[1].on[1].seconds, 0);
}

TEST(Listings, ShowEveryBatchAndWhyOneWasLeftOut) {
  const Listing l = figures_of(comparison());
  ASSERT_EQ(l.rows.size(), 10u);
  EXPECT_EQ(l.rows[0][0], "1");
  EXPECT_EQ(l.rows[0][1], "cpu");
  EXPECT_EQ(l.rows[2][1], "~ Far & away");
  ASSERT_EQ(l.rows[9].size(), 1u);
  EXPECT_EQ(l.rows[9][0], "64  opencl:0: skipped, needs 3 GiB, free: 2 GiB");
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(l.rows[i].size(), l.header.size());
  EXPECT_EQ(layer_listing(comparison(), 1).rows.size(), 2u);  // one layer, and how many take less
}

TEST(Findings, NameLatencyThroughputCrossoverAndCost) {
  std::string all;
  for (const std::string& f : findings(comparison())) all += f + "\n";
  for (const char* part :
       {"cpu: latency at batch 1 1.00 ms; most at batch", "opencl:0 is faster than cpu from a batch of about 2.00 on",
        "opencl:0 is not faster than cpu up to batch 16 once batches are moved", "Far & away (predicted)",
        "Far & away is predicted to be faster than cpu from batch 1 on", "bounded by compute", "$"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << " in\n" << all;
  }
}

TEST(ComparisonJson, HoldsWhatIsKnownAndNullElsewhere) {
  const Json j = Json::parse(to_json(comparison()));
  const Json& opencl = j.at("devices").at(1);
  EXPECT_EQ(opencl.at("crossover").at("kind"), "at");
  EXPECT_EQ(opencl.at("crossover_moved").at("kind"), "never");
  EXPECT_EQ(opencl.at("crossover_moved").at("batch"), nullptr);
  EXPECT_EQ(opencl.at("points").at(3).at("skipped"), "needs 3 GiB, free: 2 GiB");
  EXPECT_EQ(opencl.at("points").at(0).at("epoch_dollars"), nullptr);
  EXPECT_EQ(j.at("devices").at(2).at("crossover_moved"), nullptr);
  EXPECT_EQ(j.at("devices").at(0).at("layers").size(), 2u);
}

TEST(ChromeTrace, HasAnEventPerStepOneBehindTheOther) {
  const Json j = Json::parse(chrome_trace(comparison()));
  std::map<int, double> end;
  size_t steps = 0;
  for (const Json& e : j.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    const int device = e.at("pid");
    EXPECT_GE(e.at("ts").get<double>() + 1e-9, end[device]);
    EXPECT_GT(e.at("dur"), 0);
    end[device] = e.at("ts").get<double>() + e.at("dur").get<double>();
    ++steps;
  }
  EXPECT_EQ(steps, 6u);
  EXPECT_NEAR(end[0], 4000, 1e-6);  // microseconds
  EXPECT_EQ(j.at("traceEvents").at(0).at("args").at("name"), "cpu");
}

// What tests/report/open_page.py prints of a page.
Json opened(const std::string& html) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "page.html", std::string_view(html));
  const std::string command =
      cat(peer_python(), " ", source_dir(), "/tests/report/open_page.py ", dir / "page.html", " > ", dir / "out.json");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return Json::parse(io::read_text(dir / "out.json"), nullptr, false);
}

TEST(ComparisonPage, DrawsCurvesRooflineAndTimelineForReadersWithoutColor) {
  const std::string html = to_html(comparison());
  EXPECT_EQ(html.find("net<1>"), std::string::npos);
  EXPECT_NE(html.find("Far &amp; away"), std::string::npos);
  EXPECT_NE(html.find("class=\"line s2 dashed\""), std::string::npos);  // the prediction
  EXPECT_NE(html.find("class=\"line s1 marks\""), std::string::npos);   // layers in the roofline
  EXPECT_NE(html.find("class=\"timeline\""), std::string::npos);
  EXPECT_NE(html.find("url(#hatched-1)"), std::string::npos);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  if (peer_python().empty()) GTEST_SKIP() << "no build/python";
  const Json page = opened(html);
  EXPECT_EQ(page["overflow"], Json::array());
  EXPECT_EQ(page["console"], Json::array());
  EXPECT_EQ(page["charts"], Json({"Throughput", "Time of a step", "Times as fast as cpu, batches on the device",
                                  "Times as fast as cpu, batches moved from the host", "Fraction of the dense peak",
                                  "Roofline of a step at batch 4"}));
}

TEST(StudyPage, SetsMeasuredBesidePublished) {
  Study s = load_study();
  s.machine = "a <machine>";
  s.devices = {{"cpu", "two cores"}};
  s.steps = {{.net = "fcn5", .device = "cpu", .threads = 1, .batch = 64, .seconds = 0.4, .flops = 45e9},
             {.net = "fcn5", .device = "cpu", .threads = 2, .batch = 64, .seconds = 0.2, .flops = 45e9},
             {.net = "resnet50", .device = "opencl:0", .batch = 16, .skipped = "needs too much"},
             {.net = "lstm32", .device = "cpu", .threads = 2, .batch = 2, .seconds = 0.01, .flops = 1e9}};
  s.runs = {{.name = "mnist",
             .device = "cpu",
             .threads = 2,
             .seconds = 3,
             .train_seconds = 2,
             .samples_per_second = 20000,
             .top1 = 99.1,
             .steps = 1875},
            {.name = "text", .device = "cpu", .threads = 2, .skipped = "not here"}};
  const Listing steps = steps_of(s);
  EXPECT_EQ(steps.rows[1],
            (std::vector<std::string>{"FCN-5", "cpu, 2 threads", "Freight, here", "64", "200", "320", "225"}));
  EXPECT_EQ(steps.rows[2][2], "Caffe");
  EXPECT_EQ(steps.rows[2][4], "37.0");
  EXPECT_EQ(steps.rows.back()[0], "LSTM-32  published figures are for batch 128");
  EXPECT_EQ(trainings_of(s).rows[1][0], "spam in short messages  cpu, 2 threads: skipped, not here");
  const Json j = Json::parse(to_json(s));
  EXPECT_EQ(j.at("nets").at(0).at("published").size(), 6u);
  EXPECT_EQ(j.at("nets").at(1).at("measured").at(0).at("skipped"), "needs too much");
  const std::string html = to_html(s);
  EXPECT_NE(html.find("a &lt;machine&gt;"), std::string::npos);
  if (peer_python().empty()) GTEST_SKIP() << "no build/python";
  const Json page = opened(html);
  EXPECT_EQ(page["overflow"], Json::array());
  EXPECT_EQ(page["console"], Json::array());
  EXPECT_EQ(page["charts"], Json({"FCN-5, batch 64", "ResNet-50, batch 16", "LSTM-32, batch 2",
                                  "Threads of the CPU: times as fast as with one"}));
}

}  // namespace
}  // namespace freight::bench
