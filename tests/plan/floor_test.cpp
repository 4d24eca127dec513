// The floor of a step against a count by hand, layer by layer.
#include "freight/plan/floor.h"

#include <gtest/gtest.h>

#include "freight/bench/workload.h"
#include "freight/run/plan.h"

namespace freight::plan {
namespace {

// Per sample: multiply-adds and results of the products of a network, its first layer first.
struct Product {
  double multiply_adds, results;
};
struct ByHand {
  double parameters, inputs, targets;  // inputs in elements per sample, targets in bytes per sample
  std::vector<Product> products;
};
// conv1 5 x 5 over 28 x 28 padded by 2, conv2 5 x 5 to 10 x 10, and three linear layers.
const ByHand kLenet{61706,
                    28 * 28,
                    8,
                    {{28.0 * 28 * 6 * 25, 28 * 28 * 6},
                     {10.0 * 10 * 16 * 6 * 25, 10 * 10 * 16},
                     {400.0 * 120, 120},
                     {120.0 * 84, 84},
                     {84.0 * 10, 10}}};

Floor training(const ByHand& net, double batch, double size) {
  Floor floor;
  for (size_t i = 0; i < net.products.size(); ++i) {
    // Forward, gradient of the weight, and of the input of all but the first.
    floor.flops += batch * 2 * net.products[i].multiply_adds * (i == 0 ? 2 : 3);
    floor.bytes += batch * size * net.products[i].results * 4;
  }
  // Parameters and their momentum.
  floor.bytes += 2 * 4 * 2 * net.parameters + batch * (4 * net.inputs + net.targets);
  return floor;
}

Floor floor_of_step(const std::string& model, int64_t batch, DType compute, bench::Pass pass = bench::Pass::training,
                    const std::string& backend = "ref") {
  const bench::Workload w(models::create(model),
                          {.batch = batch, .pass = pass, .compile = {.backend = backend, .deterministic = true}});
  return floor_of(w.plan().source(), compute);
}

TEST(Floor, IsThatOfACountByHand) {
  const Floor floor = floor_of_step("lenet", 64, DType::f32), expected = training(kLenet, 64, 4);
  EXPECT_DOUBLE_EQ(floor.flops, expected.flops);
  EXPECT_DOUBLE_EQ(floor.bytes, expected.bytes);
  EXPECT_DOUBLE_EQ(floor.seconds(1e9, 1e8), expected.flops / 1e9 + expected.bytes / 1e8);
}

TEST(Floor, HalvesActivationsInMixedPrecisionButNotParameters) {
  const Floor floor = floor_of_step("lenet", 64, DType::bf16), expected = training(kLenet, 64, 2);
  EXPECT_DOUBLE_EQ(floor.flops, expected.flops);
  EXPECT_DOUBLE_EQ(floor.bytes, expected.bytes);
}

TEST(Floor, OfInferenceReadsTheWeightsOnce) {
  const Floor floor = floor_of_step("lenet", 16, DType::f32, bench::Pass::inference);
  double flops = 0, results = 0;
  for (const Product& p : kLenet.products) flops += 2 * 16 * p.multiply_adds, results += 16 * p.results;
  EXPECT_DOUBLE_EQ(floor.flops, flops);
  EXPECT_DOUBLE_EQ(floor.bytes, 4 * kLenet.parameters + 16 * 4 * kLenet.inputs + 2 * 4 * results);
}

TEST(Floor, IsThatOfTheStepAndNotOfAPlan) {
  for (const char* model : {"lstm_text", "resnet20"}) {
    const Floor plain = floor_of_step(model, 2, DType::f32),
                planned = floor_of_step(model, 2, DType::f32, bench::Pass::training, "cpu");
    EXPECT_EQ(plain.flops, planned.flops) << model;
    EXPECT_EQ(plain.bytes, planned.bytes) << model;
  }
}

TEST(Floor, CountsTheProductsInsideOfRecurrentLayers) {
  const Floor floor = floor_of_step("lstm_text", 1, DType::f32);
  EXPECT_GT(floor.flops, 3 * 2 * 4 * 64 * 64);
}

}  // namespace
}  // namespace freight::plan
