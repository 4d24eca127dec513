// Times on devices: measured rates and their interpolation, predictions from dense peaks, fit and cost.
#include "freight/plan/estimate.h"

#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "tests/plan/training_setup.h"

namespace freight::plan {
namespace {

Work product(double m, double n, double k) {
  return {.kind = "matmul",
          .path = {},
          .flops = 2 * m * n * k,
          .bytes = 4 * (m * k + k * n + m * n),
          .m = m,
          .n = n,
          .k = k};
}
Work pass(double bytes) { return {.kind = "map", .path = {}, .flops = bytes / 4, .bytes = bytes}; }

// A machine of 100 GFLOP/s and 10 GB/s.
Rates machine() {
  Rates r;
  r.device = "test";
  r.threads = 2;
  r.version = "1";
  r.date = "2026-01-01";
  r.p90_error = 0.1;
  for (const double size : {32.0, 128.0, 512.0}) {
    const Work w = product(size, size, size);
    r.add({w, w.flops / 100e9});
  }
  for (const double bytes : {1e4, 1e6, 1e8}) r.add({pass(bytes), bytes / 10e9});
  return r;
}

TEST(Rates, MeasuredStepsAreToldAndOthersInterpolated) {
  const Rates r = machine();
  EXPECT_NEAR(r.seconds(product(128, 128, 128)), 2 * 128.0 * 128 * 128 / 100e9, 1e-9);
  EXPECT_NEAR(r.seconds(product(200, 100, 300)), 2 * 200.0 * 100 * 300 / 100e9, 1e-8);
  EXPECT_NEAR(r.seconds(pass(3e7)), 3e-3, 1e-6);
  Work unknown = pass(1e6);
  unknown.kind = "pool";
  EXPECT_NEAR(r.seconds(unknown), 1e-4, 1e-7);  // as the likest kind
  Work conv = product(100, 100, 100);
  conv.kind = "conv3x3.dx";
  EXPECT_NEAR(r.seconds(conv), 2e6 / 100e9, 1e-8);
  EXPECT_THROW(Rates().seconds(unknown), Error);
}

TEST(Rates, OfF64AreHalfThoseOfF32WhereNoneWasMeasured) {
  Rates r = machine();
  const Work single = product(100, 100, 100);
  Work twice = single, lu = single;
  twice.dtype = lu.dtype = DType::f64;
  EXPECT_DOUBLE_EQ(r.seconds(twice), 2 * r.seconds(single));
  lu.kind = "lu_factor";
  lu.share = 0.5;
  EXPECT_DOUBLE_EQ(r.seconds(lu), 4 * r.seconds(single));  // at the share of products that its kind has
  Work bytes = pass(1e6);
  bytes.dtype = DType::f64;  // twice as many of them already
  EXPECT_DOUBLE_EQ(r.seconds(bytes), r.seconds(pass(1e6)));
  r.add({twice, 1e-3});
  EXPECT_NEAR(r.seconds(twice), 1e-3, 1e-12);
  EXPECT_NEAR(r.seconds(lu), 2e-3, 1e-12);
  r.add({lu, 5e-3});
  EXPECT_NEAR(r.seconds(lu), 5e-3, 1e-12);  // its own, whatever share was assumed
}

TEST(Speeds, OfF64AreSlowerThanThoseOfF32) {
  const Catalog catalog = load_catalog();
  for (const Device& d : catalog.devices) {
    const Speed best = best_speed(d, assumption(d, DType::f32));
    const Work single = product(4000, 4000, 4000);
    Work twice = single;
    twice.dtype = DType::f64;
    // Some accelerators have as many units for f64 as for f32.
    EXPECT_GE(seconds_of(twice, best), seconds_of(single, best)) << d.name;
    EXPECT_GT(best.f64, 0) << d.name;
    if (d.peak("fp64") <= 0) {
      EXPECT_GT(seconds_of(twice, best), seconds_of(single, best)) << d.name;
      EXPECT_NE(d.rate(DType::f64).second.find("not known"), std::string::npos) << d.name;
    }
    Work qr = twice;
    qr.share = 0.25;
    EXPECT_GT(seconds_of(qr, best), 3 * seconds_of(twice, best) - 1e-4) << d.name;
  }
  EXPECT_EQ(catalog.device("H100 SXM5 80GB").rate(DType::f64).second, "fp64");
}

TEST(Rates, OfSmallAndLargeNetsAreToldApart) {
  Rates r;
  Work small = pass(2e6), large = pass(2e6);
  small.distance = 4e6;  // in cache when it is met again
  large.distance = 1e9;
  r.add({small, 2e6 / 100e9});
  r.add({large, 2e6 / 10e9});
  EXPECT_NEAR(r.seconds(small), 2e-5, 1e-7);
  EXPECT_NEAR(r.seconds(large), 2e-4, 1e-6);
  large.distance = 1e11;  // no cache holds either
  EXPECT_NEAR(r.seconds(large), 2e-4, 1e-6);
}

TEST(Rates, OfConvolutionsWhoseChannelsFillNoVectorsAreTheirOwn) {
  Rates r = machine();
  Work whole = product(1024, 64, 576), odd = whole;
  whole.kind = odd.kind = "conv3x3";
  odd.whole = false;
  r.add({whole, whole.flops / 300e9});
  r.add({odd, odd.flops / 100e9});
  EXPECT_NEAR(r.seconds(whole), whole.flops / 300e9, 1e-2 * whole.flops / 300e9);
  EXPECT_NEAR(r.seconds(odd), odd.flops / 100e9, 1e-2 * odd.flops / 100e9);
  const Rates again = Rates::parse(r.to_json(), "rates.json");
  EXPECT_EQ(again.seconds(odd), r.seconds(odd));
  EXPECT_EQ(again.seconds(whole), r.seconds(whole));
}

TEST(Rates, AreKeptAsText) {
  const Rates r = machine(), again = Rates::parse(r.to_json(), "rates.json");
  EXPECT_EQ(again.size(), r.size());
  EXPECT_EQ(again.device, "test");
  EXPECT_EQ(again.to_json(), r.to_json());
  for (const char* bad : {"", "{}", "[]", R"({"format": "freight-rates-1"})",
                          R"({"format":"freight-rates-6","device":"","threads":1,"version":"","date":"",
                              "median_error":0,"p90_error":0,"points":[["map","f32",0,0,0,1,1,1,true,-1]]})",
                          R"({"format":"freight-rates-6","device":"","threads":1,"version":"","date":"",
                              "median_error":0,"p90_error":0,"points":[["map","f99",0,0,0,1,1,1,true,1]]})"}) {
    EXPECT_THROW(Rates::parse(bad, "rates.json"), Error) << bad;
  }
}

class Estimates : public ::testing::Test {
 protected:
  Estimates() {
    train::Config c;
    c.data.clear();
    c.model = "resnet20";
    c.batch_size = 32;
    setup_ = make_setup(c);
    StepPlanOptions o = options_of(setup_);
    step_plans_ = plan_steps(setup_, o);
  }
  static Device device(double gib, double bandwidth, double tflops) {
    return {.name = "D",
            .kind = "gpu",
            .vendor = {},
            .arch = {},
            .memory_gib = gib,
            .bandwidth_gb = bandwidth,
            .tflops = {{"fp32", tflops}},
            .tdp_watts = 200,
            .source = {},
            .date = {},
            .note = {}};
  }
  Estimate with(const Device& d) const { return estimate(step_plans_, d, catalog_, RunLength::of(setup_, 3200)); }
  TrainingSetup setup_;
  std::vector<StepPlan> step_plans_;
  Catalog catalog_ = {.devices = {}, .prices = {}, .links = load_catalog().links, .questions = {}};
};

TEST_F(Estimates, ARangeThatShrinksWithBetterHardware) {
  const Estimate slow = with(device(16, 300, 8)), fast = with(device(16, 1500, 40));
  for (const Estimate& e : {slow, fast}) {
    EXPECT_LT(e.step_seconds.low, e.step_seconds.high);
    EXPECT_TRUE(e.fits.value());
    EXPECT_NEAR(e.shares.sum(), 1, 1e-9);
    EXPECT_NE(e.assumed.find("dense"), std::string::npos);
    EXPECT_FALSE(e.dollars.has_value());  // no price is known
  }
  EXPECT_LT(fast.step_seconds.high, slow.step_seconds.high);
  // No step is faster than its arithmetic at the whole peak.
  EXPECT_GT(fast.step_seconds.low, step_plans_[0].flops / 40e12);
  EXPECT_NEAR(slow.epoch_hours.high, slow.step_seconds.high * 100 / 3600, 1e-12);
}

TEST_F(Estimates, WhatCrossesTheHostsLinkIsBoundByIt) {
  Device d = device(16, 300, 8);
  EXPECT_EQ(d.host_gb(), 0);
  Work copy{.kind = kTransfer, .path = {}, .bytes = 2e9};  // a GB, read on one side and written on the other
  Bound bound{};
  const Assumption a = assumption(d, DType::f32);
  EXPECT_NEAR(seconds_of(copy, best_speed(d, a), &bound), 2 / (300 * 0.8) + 2e-6, 1e-9);  // no link is known
  EXPECT_EQ(bound, Bound::memory);
  d.pcie = 4;
  EXPECT_NEAR(seconds_of(copy, best_speed(d, a), &bound), 1 / (31.5 * 0.85) + 2e-6, 1e-9);
  EXPECT_EQ(bound, Bound::transfer);
  step_plans_[0].stages[0].work.push_back(copy);
  const Estimate e = with(d);
  EXPECT_GT(e.shares[Bound::transfer], 0.1);
  EXPECT_NEAR(e.shares.sum(), 1, 1e-9);
  EXPECT_NE(e.assumed.find("PCIe 4"), std::string::npos) << e.assumed;
}

TEST_F(Estimates, TimeStepsOfARecurrentLayerAreLaunchedOneByOneOnAGpuOnly) {
  Device d = device(16, 300, 8);
  Work layer = product(64, 512, 128);
  layer.launches = 200;
  Bound bound{};
  const Assumption gpu = assumption(d, DType::f32);
  EXPECT_GT(seconds_of(layer, best_speed(d, gpu), &bound), 200 * gpu.best_launch);
  EXPECT_EQ(bound, Bound::launch);
  d.kind = "cpu";
  const Assumption cpu = assumption(d, DType::f32);
  EXPECT_LT(seconds_of(layer, best_speed(d, cpu), &bound), 10 * cpu.best_launch + layer.flops / 4e12);
}

// Kernels of a second each; a copy to the host behind the first and before the third, and one back before the last.
TEST(Seconds, OfCopiesAreThoseThatKernelsWaitForThem) {
  const Work kernel{.kind = "map", .path = {}, .bytes = 1};
  Work leaves{.kind = kTransfer, .path = {}, .bytes = 2, .queue = Queue::to_host, .after = {0}};
  const Work comes{.kind = kTransfer, .path = {}, .bytes = 2, .queue = Queue::to_device, .after = {1}};
  Work third = kernel, last = kernel;
  third.after = {1};
  last.after = {4};
  const auto seconds = [&](double transfer) {
    return seconds_of({kernel, leaves, kernel, third, comes, last},
                      Speed{.plain = 1, .bytes = 1, .transfer = transfer});
  };
  EXPECT_EQ(seconds(1), 4);  // all hidden
  EXPECT_EQ(seconds(0), 8);  // the link is not known: in their turn, read and written
  leaves.bytes = 6;          // from 1 to 4: the third kernel and the way back wait
  EXPECT_EQ(seconds(1), 6);
  EXPECT_EQ(seconds(3), 4);
}

TEST_F(Estimates, APlanThatOffloadsIsTimedWithItsCopiesBesideItsKernels) {
  StepPlanOptions o = step_plans_[0].options;
  o.offload = Offload::optimizer;
  const StepPlan offloaded = plan_step(setup_, o);
  ASSERT_GT(offloaded.transferred, 0);
  Device d = device(16, 300, 8);
  d.pcie = 4;
  const RunLength length = RunLength::of(setup_, 3200);
  const Estimate without = estimate(step_plans_, d, catalog_, length),
                 with = estimate(step_plans_, d, catalog_, length, {}, &offloaded);
  EXPECT_EQ(without.shares[Bound::transfer], 0);
  const double copies = static_cast<double>(offloaded.transferred) / (31.5e9 * 0.85);
  EXPECT_GE(with.step_seconds.low, std::max(without.step_seconds.low, copies / 2));  // as many go as come
  EXPECT_LT(with.step_seconds.low, without.step_seconds.low + copies);
}

TEST_F(Estimates, ABatchThatIsSentAtItsLinksPaceHoldsTheStepUp) {
  RunLength length = RunLength::of(setup_, 3200);
  EXPECT_EQ(length.sample_bytes, 3 * 32 * 32 * 4 + 8);
  Device d = device(16, 300, 8);
  const double read = estimate(step_plans_, d, catalog_, length).data_seconds.high;
  d.pcie = 3;
  EXPECT_EQ(estimate(step_plans_, d, catalog_, length).data_seconds.high, read);  // hidden behind reading
  length.sample_bytes = 1e9;
  const Estimate e = estimate(step_plans_, d, catalog_, length);
  EXPECT_NEAR(e.data_seconds.low, 32 / (15.75 * 0.85), 1e-9);
  EXPECT_EQ(e.step_seconds.low, e.data_seconds.low);
}

TEST_F(Estimates, SmallMemoriesNeedParts) {
  const double gib = 1024.0 * 1024 * 1024, all = static_cast<double>(step_plans_[0].total());
  EXPECT_EQ(with(device(all * 0.6 / gib, 300, 8)).means, "--grad-accum 2");
  const Estimate none = with(device(1e-4, 300, 8));
  EXPECT_FALSE(none.fits.value());
  EXPECT_EQ(none.means, "");
  EXPECT_EQ(none.largest_batch, 0);
}

TEST_F(Estimates, MoneyAndEnergyFollowTheHours) {
  catalog_.prices.push_back({.provider = "P",
                             .instance = "i",
                             .device = "D",
                             .count = 1,
                             .usd = 3,
                             .region = {},
                             .date = "2026",
                             .source = "s",
                             .note = {}});
  const Estimate e = with(device(16, 300, 8));
  ASSERT_TRUE(e.dollars && e.watt_hours);
  EXPECT_NEAR(e.dollars->high, 3 * e.run_hours.high, 1e-12);
  EXPECT_NEAR(e.watt_hours->high, 200 * e.run_hours.high, 1e-12);
  EXPECT_LT(e.watt_hours->low, 200 * e.run_hours.low);
}

TEST_F(Estimates, ARunIsStepsEvaluationsAndCheckpoints) {
  RunLength length = RunLength::of(setup_, 3200);
  EXPECT_EQ(length.steps_per_epoch, 100);
  EXPECT_EQ(length.checkpoints, length.epochs);
  length.epochs = 3;
  length.checkpoints = 7;
  const Estimate e = estimate(step_plans_, device(16, 300, 8), catalog_, length);
  EXPECT_GT(e.checkpoint_hours.low, 0);
  EXPECT_GT(e.checkpoint_hours.high, e.checkpoint_hours.low);
  EXPECT_NEAR(e.run_hours.high, 3 * e.epoch_hours.high + e.evaluation_hours.high + e.checkpoint_hours.high, 1e-12);
}

TEST_F(Estimates, DataThatAreSlowToReadHoldADeviceUp) {
  RunLength length = RunLength::of(setup_, 3200);
  length.load_seconds = {0.01, 0.01};  // 32 samples on 8 cores: 40 ms
  const Estimate gpu = estimate(step_plans_, device(16, 300, 8), catalog_, length);
  EXPECT_NEAR(gpu.step_seconds.low, 0.04, 1e-9);
  length.workers = 2;
  EXPECT_NEAR(estimate(step_plans_, device(16, 300, 8), catalog_, length).step_seconds.low, 0.16, 1e-9);
  // A processor does both.
  Device cpu = device(16, 300, 8);
  cpu.kind = "cpu";
  const Estimate host = estimate(step_plans_, cpu, catalog_, length);
  EXPECT_GT(host.step_seconds.low, host.data_seconds.low + step_plans_[0].flops / 8e12);
}

TEST_F(Estimates, SeveralDevicesAreFasterButNotByTheirNumber) {
  Device d = device(16, 300, 8);
  d.pcie = 3;
  const RunLength length = RunLength::of(setup_, 3200);
  const Estimate one = estimate(step_plans_, d, catalog_, length);
  const Estimate four = estimate(step_plans_, d, catalog_, length, {.devices = 4});  // each with a batch as large
  EXPECT_GT(four.summing_seconds.high, 0);
  EXPECT_NEAR(four.step_seconds.low, one.step_seconds.low + four.summing_seconds.low, 1e-12);
  // All wait for the slowest: 1.0294 standard deviations of 2 % above the mean of four.
  EXPECT_NEAR(four.waiting_seconds.high, 0.02 * 1.0294 * one.step_seconds.high, 1e-5 * one.step_seconds.high);
  EXPECT_NEAR(four.step_seconds.high, one.step_seconds.high + four.summing_seconds.high + four.waiting_seconds.high,
              1e-12);
  EXPECT_GT(four.samples_per_second.low, one.samples_per_second.low);
  EXPECT_LT(four.samples_per_second.high, 4 * one.samples_per_second.high);
  EXPECT_NE(four.assumed.find("PCIe 3"), std::string::npos);
  d.pcie = 0;
  EXPECT_FALSE(estimate(step_plans_, d, catalog_, length, {.devices = 4}).timed);  // what connects them is not guessed
}

// 100 documents of up to 32 tokens, 50 of up to 64 and 7 longer ones: batches of 16 make 6, 3 and 1, the short ones
// left out where there are full ones.
TrainingSetup texts() {
  train::Config c;
  c.data.clear();
  c.model = "gru_text";
  c.batch_size = 16;
  c.epochs = 4;
  TrainingSetup s = make_setup(c, {128});
  s.data = "reviews";
  s.lengths = {.train = {{32, 100}, {64, 50}, {128, 7}}, .test = {{32, 30}, {64, 10}, {128, 0}}};
  s.train_count = 157;
  s.test_count = 40;
  return s;
}

TEST(Texts, AreWeighedByTheStepsThatHaveTheirLength) {
  const TrainingSetup s = texts();
  const double steps[] = {0.6, 0.3, 0.1}, tested[] = {0.75, 0.25, 0};
  const std::vector<LengthShare> shares = s.length_shares(16);
  ASSERT_EQ(shares.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(shares[i].tokens, 32 << i);
    EXPECT_DOUBLE_EQ(shares[i].steps, steps[i]);
    EXPECT_DOUBLE_EQ(shares[i].tested, tested[i]);
  }
  // Larger batches make one, one and one; a length without documents does not come.
  EXPECT_DOUBLE_EQ(s.length_shares(64)[2].steps, 1.0 / 3);
  TrainingSetup fewer = s;
  fewer.lengths.train[1].documents = fewer.lengths.test[1].documents = 0;
  ASSERT_EQ(fewer.length_shares(16).size(), 2u);
  EXPECT_DOUBLE_EQ(fewer.length_shares(16)[1].steps, 1.0 / 7);
  const TrainingSetup alone = setup("gru_text", "128");
  EXPECT_TRUE(alone.length_shares(16).empty());
  EXPECT_TRUE(alone.assumes_full_length());
  EXPECT_FALSE(setup("lenet").assumes_full_length());
  EXPECT_FALSE(setup("gpt_char").assumes_full_length());  // windows of a corpus are full
  EXPECT_FALSE(s.assumes_full_length());
}

TEST(Texts, TakeTheMeanOfTheStepsOfTheirLengths) {
  const TrainingSetup s = texts();
  StepPlanOptions o = options_of(s);
  o.whole_run = true;
  const std::vector<StepPlan> all = plan_steps(s, o);
  const Rates rates = machine();
  const Device gpu{.name = "D",
                   .kind = "gpu",
                   .vendor = {},
                   .arch = {},
                   .memory_gib = 16,
                   .bandwidth_gb = 300,
                   .tflops = {{"fp32", 8}},
                   .pcie = 3,
                   .source = {},
                   .date = {},
                   .note = {}};
  const Catalog catalog = {.devices = {}, .prices = {}, .links = load_catalog().links, .questions = {}};
  RunLength length = RunLength::of(s);
  EXPECT_EQ(length.steps_per_epoch, 10);
  // (100 x 32 + 50 x 64 + 7 x 128) of 157 x 128 tokens, 4 bytes each, and a target of 8.
  EXPECT_NEAR(length.sample_bytes, 7296.0 / 157 * 4 + 8, 1e-9);
  length.load_seconds = {};
  const double steps[] = {0.6, 0.3, 0.1}, tested[] = {0.75, 0.25, 0};
  double here = 0, there = 0, of_two = 0, sums = 0, evaluated = 0;
  for (size_t i = 0; i < 3; ++i) {
    o.tokens = 32 << i;
    const std::vector<StepPlan> one = {plan_step(s, o), all[1]};
    EXPECT_EQ(one[0].parameters, all[0].parameters);
    here += steps[i] * estimate_here(one, &rates, length).step_seconds.middle();
    there += steps[i] * estimate(one, gpu, catalog, length).step_seconds.high;
    const Estimate two = estimate(one, gpu, catalog, length, {.devices = 2});
    of_two += steps[i] * two.step_seconds.high;
    sums += steps[i] * two.all_summing_seconds.high;
    evaluated += tested[i] * estimate(one, gpu, catalog, length).evaluation_hours.high;
  }
  const Estimate e = estimate(all, gpu, catalog, length), two = estimate(all, gpu, catalog, length, {.devices = 2});
  EXPECT_NEAR(estimate_here(all, &rates, length).step_seconds.middle(), here, 1e-9 * here);
  EXPECT_NEAR(step_seconds(all[0], rates).middle(), here, 1e-9 * here);
  EXPECT_NEAR(e.step_seconds.high, there, 1e-9 * there);
  EXPECT_NEAR(e.epoch_hours.high, 10 * there / 3600, 1e-9 * there);
  EXPECT_NEAR(e.evaluation_hours.high, evaluated, 1e-9 * evaluated);
  EXPECT_NEAR(e.run_hours.high, 4 * e.epoch_hours.high + evaluated + e.checkpoint_hours.high, 1e-12);
  EXPECT_NEAR(two.step_seconds.high, of_two, 1e-9 * of_two);
  EXPECT_NEAR(two.all_summing_seconds.high, sums, 1e-9 * sums);
  EXPECT_NEAR(e.shares.sum(), 1, 1e-9);
  // Memory is that of the longest, and its step takes longer than the mean.
  o.tokens = 0;
  const StepPlan longest = plan_step(s, o);
  EXPECT_EQ(all[0].total(), longest.total());
  EXPECT_LT(here, 0.95 * step_seconds(longest, rates).middle());
}

TEST(Texts, OfSeveralDevicesHaveTheStepsOfTheirSharedBatch) {
  const TrainingSetup s = texts();
  StepPlanOptions o = options_of(s);
  o.batch = 6;  // of each of three, which have 16 together
  o.ranks = 3;
  StepPlan d = plan_step(s, o);
  add_lengths(d, s);
  ASSERT_EQ(d.lengths.size(), 3u);
  EXPECT_DOUBLE_EQ(d.lengths[0].length.steps, 0.6);
  d.options.batch = 16;  // 48 together: 2, 1 and 1
  add_lengths(d, s);
  EXPECT_DOUBLE_EQ(d.lengths[0].length.steps, 0.5);
  EXPECT_EQ(d.lengths[2].step_plan.options.batch, 16);
}

// Seconds of a step plan's products and of its other kernels, the update's apart.
struct Kernels {
  double products = 0, rest = 0, update = 0;
};
Kernels kernels_of(const StepPlan& d, const Rates& rates) {
  Kernels k;
  for (const StepPlan::Stage& s : d.stages) {
    for (const Work& w : s.work) {
      const double seconds = rates.seconds(w) * s.times;
      (w.product() ? k.products : k.rest) += seconds;
      if (w.kind == "update") k.update += seconds;
    }
  }
  return k;
}

TEST_F(Estimates, RanksThatComputeTogetherAreSlowerByWhatWasMeasured) {
  const Rates rates = machine();
  const Kernels k = kernels_of(step_plans_[0], rates);
  const double bytes = static_cast<double>(step_plans_[0].parameters) * 4;
  // A line of 2 ms for all gradients: less than a tenth of the step, so that the sums stay behind it.
  MeasuredSums sums{.source = "sums.json", .one_host = false, .sums = {{2, 1e-3, 1e-3 / bytes, 0.05}}};
  ASSERT_LT(2e-3, 0.09 * (k.products + k.rest));
  const auto of = [&] { return estimate_here(step_plans_, &rates, {}, nullptr, {.devices = 2, .measured = sums}); };
  const auto middle = [](const Range& r) { return (r.low + r.high) / 2; };
  const Estimate plain = of();
  EXPECT_NEAR(plain.step_seconds.high, 1.1 * (k.products + k.rest) + 1.05 * 2e-3, 1e-9);
  sums.sums[0].beside = BesideCompute{.threads = 1, .products = 1.2, .rest = 1.5, .slowest = 1.04};
  const Estimate e = of();
  const double compute = 1.2 * k.products + 1.5 * k.rest;
  EXPECT_NEAR(e.waiting_seconds.high, 1.1 * 0.04 * compute, 1e-9);
  EXPECT_NEAR(e.step_seconds.high, 1.1 * 1.04 * compute + 1.05 * 2e-3, 1e-9);
  EXPECT_NEAR(middle(e.all_summing_seconds), 2e-3, 1e-9);
  EXPECT_NEAR(e.shares[Bound::compute], 1.2 * k.products / compute, 1e-9);
  EXPECT_NE(e.assumed.find("1.20 to 1.50 times as long while all ranks compute"), std::string::npos) << e.assumed;
  // One device computes alone.
  EXPECT_NEAR(estimate_here(step_plans_, &rates, {}, nullptr, {.devices = 1, .measured = sums}).step_seconds.high,
              1.1 * (k.products + k.rest), 1e-9);
}

TEST_F(Estimates, SumsBesideComputeTakeWhatWasMeasuredThereAndTakeFromIt) {
  const Rates rates = machine();
  const Kernels k = kernels_of(step_plans_[0], rates);
  const double bytes = static_cast<double>(step_plans_[0].parameters) * 4, compute = k.products + k.rest;
  // The sums are as long as the step: beside it they pay, and all but what the last gradients have behind them is
  // hidden.
  const SumCost line{1e-3, compute / bytes}, beside{2e-3, 1.5 * compute / bytes};
  const double lost = 0.2 * compute / bytes;
  MeasuredSums sums{.source = "sums.json", .one_host = false, .sums = {{2, line.start, line.per_byte, 0.05}}};
  const auto of = [&] { return estimate_here(step_plans_, &rates, {}, nullptr, {.devices = 2, .measured = sums}); };
  const Estimate plain = of();
  sums.sums[0].beside = BesideCompute{.sum = beside, .lost_per_byte = lost};
  const Estimate e = of();
  std::vector<double> seconds;
  const std::vector<Work>& work = step_plans_[0].stages[0].work;
  for (const Work& w : work) seconds.push_back(w.kind == "update" ? 0 : rates.seconds(w));
  const auto of_line = [](const SumCost& c, double times) { return SumCost{times * c.start, times * c.per_byte}; };
  const Summing low = sum_gradients(work, seconds, bytes, {of_line(line, 0.95), of_line(beside, 0.95)});
  EXPECT_GT(low.beside, 0.1 * bytes);
  EXPECT_LT(low.beside, bytes);
  EXPECT_NEAR(e.summing_seconds.low, low.exposed + lost * low.beside, 1e-9);
  EXPECT_NEAR(e.step_seconds.low, compute / 1.1 + e.summing_seconds.low, 1e-9);
  EXPECT_NEAR(e.all_summing_seconds.low, low.seconds, 1e-9);
  EXPECT_GT(e.step_seconds.middle(), plain.step_seconds.middle());
  // On one host all are behind the steps, whatever they would cost beside.
  sums.one_host = true;
  EXPECT_NEAR(of().summing_seconds.high, 1.05 * line.of(bytes), 1e-9);
}

TEST_F(Estimates, ThisMachineIsTimedOnlyWhereItWasMeasured) {
  EXPECT_FALSE(estimate_here(step_plans_, nullptr, {}).timed);
  const Rates rates = machine();
  const Estimate e = estimate_here(step_plans_, &rates, {});
  EXPECT_TRUE(e.timed);
  EXPECT_GT(e.step_seconds.middle(), step_plans_[0].flops / 110e9);
  EXPECT_NE(e.assumed.find("2026-01-01"), std::string::npos);
}

}  // namespace
}  // namespace freight::plan
