// The loss of a model: auxiliary heads count in training and are absent in evaluation; targets that do not fit.
#include "freight/models/loss.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/ir/graph.h"
#include "freight/trace/compile.h"
#include "freight/trace/tracer.h"

namespace freight::models {
namespace {

// A head of weight `weight` on the first of two linear layers.
Model with_head(const std::string& weight) {
  seed(1);
  return from_spec(R"({"format":"freight-model-1","name":"t","input":[4],"net":[
      {"name":"a","type":"Linear","out":6}, {"type":"ReLU"},
      {"name":"aux","type":"Auxiliary","weight":)" +
                   weight + R"(,"head":[{"name":"fc","type":"Linear","out":3}]},
      {"name":"b","type":"Linear","out":3}]})");
}

const Array kX = Array::of<float>({1, -2, 3, 0.5f, 0, 1, -1, 2}, {2, 4});
const Array kY = Array::of<int64_t>({2, 0}, {2});

double loss(const Model& m) { return score(m, Tensor(kX), Tensor(kY)).loss.item<double>(); }

class AuxiliaryLoss : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
};

TEST_F(AuxiliaryLoss, IsAddedByItsWeightInTrainingOnly) {
  const Model half = with_head("0.5"), none = with_head("0"), whole = with_head("1");
  const double main = loss(none), head = loss(whole) - main;
  EXPECT_GT(head, 0.1);
  EXPECT_NEAR(loss(half), main + 0.5 * head, 1e-6);
  half.net->eval();
  EXPECT_NEAR(loss(half), main, 1e-6);
}

TEST_F(AuxiliaryLoss, HeadsAreNotRunInEvaluation) {
  const Model m = with_head("0.3");
  const auto nodes_of_the_head = [&] {
    const auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
    const trace::Recording recording(tape);
    (*m.net)(tape->input("x", m.batch_type(2)));
    int count = 0;
    for (const Node& n : tape->graph().nodes) count += n.scope.find("aux") != std::string::npos;
    return count;
  };
  EXPECT_GT(nodes_of_the_head(), 0);
  m.net->eval();
  EXPECT_EQ(nodes_of_the_head(), 0);
}

TEST_F(AuxiliaryLoss, HeadsAreNamedAndTrainedLikeEveryLayer) {
  const Model m = with_head("0.3");
  std::vector<std::string> names;
  for (const auto& v : m.net->state_dict()) names.push_back(v.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"a.weight", "a.bias", "aux.fc.weight", "aux.fc.bias", "b.weight", "b.bias"}));
  const auto gradients = compile([&](const Tensor& x, const Tensor& y) {
    return grad(score(m, x, y).loss, {m.net->parameters()[2].value()});
  })(kX, kY);
  double largest = 0;
  for (const float g : gradients[0].array().to_vector<float>()) largest = std::max<double>(largest, std::abs(g));
  EXPECT_GT(largest, 1e-3);
}

TEST(Loss, TargetsOfAnotherShapeOrKindAreRefused) {
  const Model m = create("linear_regression", {.classes = 2, .input = {4}});
  EXPECT_EQ(score(m, Tensor(kX), Tensor(Array(DType::f32, {2, 2}))).outputs.shape(), (Shape{2, 2}));
  for (const Type& t : {Type{DType::f32, {2}}, Type{DType::i64, {2, 2}}, Type{DType::f32, {2, 3}}}) {
    try {
      score(m, Tensor(kX), Tensor(Array(t.dtype, t.shape)));
      ADD_FAILURE() << "no error for " << to_string(t);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(to_string(t)), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("f32[2,2]"), std::string::npos) << e.what();
    }
  }
}

TEST(Loss, OfValuesIsTheMeanSquareAndOneColumnMayBeFlat) {
  const DeviceScope on("ref");
  const Model m = create("linear_regression", {.input = {4}});
  for (const nn::NamedVariable& v : m.net->state_dict()) v.variable.set(1.0);  // 1 + the sum of a row
  const Tensor x(kX);
  const Tensor y(Array::of<float>({1.5f, 4}, {2}));  // against 3.5 and 3
  EXPECT_NEAR(score(m, x, y).loss.item<double>(), (4.0 + 1.0) / 2, 1e-6);
  EXPECT_NEAR(score(m, x, y, {.reduction = Reduction::sum}).loss.item<double>(), 5, 1e-6);
}

// With all weights 1 the predictions are 3.5 and 3, the errors 0.5 and 3.
TEST(Loss, OfValuesMayBeAbsoluteOrHubers) {
  const DeviceScope on("ref");
  Model m = create("linear_regression", {.input = {4}});
  for (const nn::NamedVariable& v : m.net->state_dict()) v.variable.set(1.0);
  const Tensor x(kX), y(Array::of<float>({3, 6}, {2}));
  m.loss = Loss::mae;
  EXPECT_NEAR(score(m, x, y).loss.item<double>(), (0.5 + 3) / 2, 1e-6);
  m.loss = Loss::huber;
  EXPECT_NEAR(score(m, x, y).loss.item<double>(), (0.125 + 2.5) / 2, 1e-6);
  EXPECT_NEAR(score(m, x, y, {.reduction = Reduction::sum}).loss.item<double>(), 0.125 + 2.5, 1e-6);
  EXPECT_FALSE(has_accuracy(m));
}

// By PyTorch's definition (CrossEntropyLoss(weight) of probabilities) and that of mixup: lam times the weighted loss of
// one class and 1 - lam times that of the other.
TEST(Loss, OfMixedClassesWeighsEachClassByItsOwnWeight) {
  const DeviceScope on("ref");
  seed(4);
  Model m = from_spec(R"({"format":"freight-model-1","name":"t","input":[4],"net":[{"type":"Linear","out":3}]})");
  const Array weights = Array::of<float>({0.5f, 7, 2}, {3});
  const int64_t first[] = {2, 0}, second[] = {1, 1};
  constexpr float kShare = 0.75f;
  Array mixed(DType::f32, {2, 3});
  for (int64_t i = 0; i < 2; ++i) {
    mixed.data<float>()[3 * i + first[i]] = kShare;
    mixed.data<float>()[3 * i + second[i]] = 1 - kShare;
  }
  for (const Loss loss : {Loss::cross_entropy, Loss::focal, Loss::bce}) {
    for (const double smoothing : {0.0, 0.3}) {
      SCOPED_TRACE(cat(to_string(loss), " ", smoothing));
      m.loss = loss;
      const auto of = [&](const Array& y, const Array& by_class) {
        return score(m, Tensor(kX), Tensor(y), {.label_smoothing = smoothing, .class_weights = by_class})
            .loss.item<double>();
      };
      const double want =
          static_cast<double>(kShare) * of(Array::of<int64_t>({first[0], first[1]}, {2}), weights) +
          static_cast<double>(1 - kShare) * of(Array::of<int64_t>({second[0], second[1]}, {2}), weights);
      EXPECT_NEAR(of(mixed, weights), want, 1e-5 * want);
      EXPECT_EQ(of(mixed, Array::of<float>({0, 0, 0}, {3})), 0) << "no class counts";
    }
  }
}

// The losses of two samples of three classes by their definitions, from the same logits.
TEST(Loss, OfClassesMayBeFocalOrBinaryAndIsWeightedByClass) {
  const DeviceScope on("ref");
  seed(4);
  Model m = from_spec(R"({"format":"freight-model-1","name":"t","input":[4],"net":[{"type":"Linear","out":3}]})");
  const std::vector<double> z = score(m, Tensor(kX), Tensor(kY)).outputs.to_vector<double>();
  double entropy[2], focal[2], binary[2];
  for (int i = 0; i < 2; ++i) {
    const double* const row = z.data() + 3 * i;
    const int64_t label = kY.data<int64_t>()[i];
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += std::exp(row[k]);
    const double p = std::exp(row[label]) / sum;
    entropy[i] = -std::log(p);
    focal[i] = (1 - p) * (1 - p) * entropy[i];
    binary[i] = 0;
    for (int k = 0; k < 3; ++k) binary[i] += std::log1p(std::exp(k == label ? -row[k] : row[k]));
  }
  const Array weights = Array::of<float>({0.5f, 7, 2}, {3});  // the samples are of classes 2 and 0
  for (const auto& [loss, want] :
       {std::pair{Loss::cross_entropy, entropy}, {Loss::focal, focal}, {Loss::bce, binary}}) {
    SCOPED_TRACE(to_string(loss));
    m.loss = loss;
    const auto of = [&](const Array& y, const LossOptions& options) {
      return score(m, Tensor(kX), Tensor(y), options).loss.item<double>();
    };
    EXPECT_NEAR(of(kY, {}), (want[0] + want[1]) / 2, 1e-5);
    EXPECT_NEAR(of(kY, {.class_weights = weights}), (2 * want[0] + 0.5 * want[1]) / 2, 1e-5);
    EXPECT_NEAR(of(kY, {.reduction = Reduction::sum, .class_weights = weights}), 2 * want[0] + 0.5 * want[1], 1e-5);
    // Mixed classes of which all is one class are that class.
    const Array mixed = Array::of<float>({0, 0, 1, 1, 0, 0}, {2, 3});
    EXPECT_NEAR(of(mixed, {.class_weights = weights}), (2 * want[0] + 0.5 * want[1]) / 2, 1e-5);
  }
}

TEST(Loss, OfLabelsIsTheMeanBinaryCrossEntropyAndEachHasAProbability) {
  const DeviceScope on("ref");
  seed(4);
  Model m = from_spec(R"({"format":"freight-model-1","name":"t","loss":"multilabel","input":[4],"net":[
      {"type":"Linear","out":3}]})");
  const Array has = Array::of<uint8_t>({1, 0, 1, 0, 0, 0}, {2, 3});
  const Scored scored = score(m, Tensor(kX), Tensor(has));
  const std::vector<double> z = scored.outputs.to_vector<double>();
  const std::vector<double> p = predictions_of(m, scored.outputs).to_vector<double>();
  double sum = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    sum += std::log1p(std::exp(has.data<uint8_t>()[i] ? -z[i] : z[i]));
    EXPECT_NEAR(p[i], 1 / (1 + std::exp(-z[i])), 1e-6);
  }
  EXPECT_NEAR(scored.loss.item<double>(), sum / 6, 1e-6);
  const double summed = score(m, Tensor(kX), Tensor(has), {.reduction = Reduction::sum}).loss.item<double>();
  EXPECT_NEAR(summed, sum / 3, 1e-5) << "over the samples, of each the mean over its labels";
  EXPECT_FALSE(has_accuracy(m));
  EXPECT_FALSE(regresses(m.loss));
  EXPECT_THROW(score(m, Tensor(kX), Tensor(kY)), Error);
}

TEST(Loss, OfValuesIsInDeviationsOfTheTargetAndPredictionsInItsUnits) {
  const DeviceScope on("ref");
  Model m = create("linear_regression", {.input = {4}});
  for (const nn::NamedVariable& v : m.net->state_dict()) v.variable.set(1.0);  // 3.5 and 3
  m.target_scale = {.mean = {100}, .deviation = {10}};
  const Scored scored = score(m, Tensor(kX), Tensor(Array::of<float>({140, 110}, {2})));
  EXPECT_NEAR(scored.loss.item<double>(), (0.5 * 0.5 + 2 * 2) / 2, 1e-5);
  EXPECT_EQ(predictions_of(m, scored.outputs).to_vector<double>(), (std::vector<double>{135, 130}));
  EXPECT_EQ(again(m).target_scale.mean, m.target_scale.mean);
}

TEST(Loss, ATemperatureScalesTheLogitsOfLossAndPredictions) {
  const DeviceScope on("ref");
  seed(4);
  Model m = from_spec(R"({"format":"freight-model-1","name":"t","input":[4],"net":[{"type":"Linear","out":3}]})");
  const Scored plain = score(m, Tensor(kX), Tensor(kY));
  m.temperature = 2;
  const Scored scaled = score(m, Tensor(kX), Tensor(kY));
  const std::vector<double> z = plain.outputs.to_vector<double>(), half = scaled.outputs.to_vector<double>();
  for (size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(half[i], z[i] / 2, 1e-6);
  EXPECT_NE(plain.loss.item<double>(), scaled.loss.item<double>());
  const std::vector<double> p = predictions_of(m, scaled.outputs).to_vector<double>();
  EXPECT_NEAR(std::log(p[0] / p[1]), (z[0] - z[1]) / 2, 1e-4);
  EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-6);
}

// Logits (2, 3, V = 4) that are a function of the token alone.
TEST(TokenLoss, LeavesWhatIsNotAskedOutOfMeanSumAndCount) {
  const DeviceScope on("ref");
  seed(2);
  const Model m = from_spec(R"({"format":"freight-model-1","name":"t","input":[3],"input_dtype":"i32","net":[
      {"type":"Embedding","rows":4,"width":5},{"type":"Linear","out":4}]})");
  EXPECT_TRUE(m.language_model());
  const Array x = Array::of<int32_t>({1, 2, 3, 2, 0, 0}, {2, 3}), y = Array::of<int32_t>({2, 3, 0, 3, -1, -1}, {2, 3});
  const Scored scored = score(m, Tensor(x), Tensor(y));
  const auto logits = scored.outputs.to_vector<double>();
  double total = 0, right = 0;
  for (size_t i = 0; i < 4; ++i) {  // the places that are asked
    const double* row = logits.data() + i * 4;
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += std::exp(row[k]);
    const int32_t target = y.data<int32_t>()[i];
    total += std::log(sum) - row[target];
    right += std::max_element(row, row + 4) - row == target;
  }
  EXPECT_NEAR(scored.loss.item<double>(), total / 4, 1e-6);
  EXPECT_NEAR(score(m, Tensor(x), Tensor(y), {.reduction = Reduction::sum}).loss.item<double>(), total, 1e-5);
  EXPECT_EQ(right_count(m, scored.outputs, Tensor(y)).item<double>(), right);
  const Array none = Array::of<int32_t>({-1, -1, -1, -1, -1, -1}, {2, 3});
  EXPECT_EQ(score(m, Tensor(x), Tensor(none)).loss.item<double>(), 0);
  EXPECT_THROW(score(m, Tensor(x), Tensor(Array(DType::i64, {2}))), Error);
}

// Logits (2, 3, 4) by an embedding of 5 tokens; four of six targets count.
TEST(TokenLoss, NegativeTargetsAreIgnored) {
  const DeviceScope on("cpu");
  seed(2);
  const Model m = from_spec(R"({"format":"freight-model-1","name":"t","input":[3],"input_dtype":"i32",
                               "net":[{"type":"Embedding","rows":5,"width":4}]})");
  const Array x = Array::of<int>({0, 1, 2, 3, 4, 0}, {2, 3});
  const Array y = Array::of<int64_t>({3, -1, 0, 1, 2, -7}, {2, 3});
  const std::vector<float> table = m.net->state_dict()[0].variable.array().to_vector<float>();
  const auto nll = [&](int row, int target) {
    double total = 0;
    for (int k = 0; k < 4; ++k) total += std::exp(static_cast<double>(table[static_cast<size_t>(row * 4 + k)]));
    return std::log(total) - static_cast<double>(table[static_cast<size_t>(row * 4 + target)]);
  };
  const double want = (nll(0, 3) + nll(2, 0) + nll(3, 1) + nll(4, 2)) / 4;
  EXPECT_NEAR(score(m, Tensor(x), Tensor(y)).loss.item<double>(), want, 1e-6);
  EXPECT_NEAR(score(m, Tensor(x), Tensor(y), {.reduction = Reduction::sum}).loss.item<double>(), 4 * want, 1e-5);
  EXPECT_NEAR(score(m, Tensor(x), Tensor(y.cast(DType::i32))).loss.item<double>(), want, 1e-6);
  EXPECT_THROW(score(m, Tensor(x), Tensor(Array::of<int64_t>({1, 2}, {2}))), Error);
  // No gradient flows from what is ignored: row 1 is read at an ignored place only.
  const Variable weight = m.net->state_dict()[0].variable;
  const Tensor loss = score(m, Tensor(x), Tensor(y), {.label_smoothing = 0.1}).loss;
  const std::vector<float> g = grad(loss, std::vector<Variable>{weight})[0].to_vector<float>();
  for (size_t k = 4; k < 8; ++k) EXPECT_EQ(g[k], 0.0f);
  EXPECT_NE(g[0], 0.0f);
}

}  // namespace
}  // namespace freight::models
