// Inference plans of the zoo: equal to those of changing weights, with BatchNorm folded away and weights packed once.
#include <gtest/gtest.h>

#include <algorithm>

#include "freight/base/cpu_info.h"
#include "freight/base/philox.h"
#include "freight/models/models.h"
#include "freight/ops/neural.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"

namespace freight::test {
namespace {

struct Inference {
  std::shared_ptr<nn::Module> net;
  Tensor operator()(const Tensor& x) const { return softmax((*net)(x), -1); }
};

CompileOptions options(bool frozen, const char* device = "cpu") {
  return {.backend = device, .deterministic = true, .frozen = frozen};
}

Array batch(const models::Model& model, int64_t size) {
  const Type type = model.batch_type(size);
  Array x(type.dtype, type.shape);
  PhiloxStream rng(3, 0, 1);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (type.dtype == DType::i32) {
      x.data<int32_t>()[i] = static_cast<int32_t>(1 + rng.below(static_cast<uint32_t>(model.vocabulary() - 1)));
    } else {
      x.data<float>()[i] = rng.normal();
    }
  }
  return x;
}

// Vectors (scales, shifts, statistics) as after some training: no two channels alike.
void disturb(std::vector<Array> states) {
  PhiloxStream rng(5, 0, 1);
  for (Array& s : states) {
    for (int64_t i = 0; s.shape().rank() == 1 && s.dtype() == DType::f32 && i < s.numel(); ++i)
      s.data<float>()[i] = 0.5f + rng.uniform();
  }
}

struct Case {
  const char* model;
  models::Options size;
  bool on_ref;
};

class Frozen : public testing::TestWithParam<Case> {};

TEST_P(Frozen, PlansAnswerAsThoseOfChangingWeights) {
  const Case& c = GetParam();
  const models::Model model = models::create(c.model, c.size);
  model.net->eval();
  for (const int64_t size : {1, 3}) {
    if (size > 1 && !c.on_ref) break;  // large nets take long to plan
    const Array x = batch(model, size);
    auto changing = compile(Inference{model.net}, options(false));
    if (size == 1) disturb(changing.leaves(x));
    const std::vector<float> expected = changing(x).to_vector<float>();
    auto frozen = compile(Inference{model.net}, options(true));
    for (int run = 0; run < 2; ++run) {
      const std::vector<float> got = frozen(x).to_vector<float>();
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << "run " << run << ", " << i;
    }
    EXPECT_GT(frozen.plan(x)->once_steps(), 0u);
    if (!c.on_ref || size > 1) continue;
    const std::vector<float> naive = compile(Inference{model.net}, options(true, "ref"))(x).to_vector<float>();
    for (size_t i = 0; i < naive.size(); ++i) ASSERT_NEAR(naive[i], expected[i], 1e-5) << "ref, " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, Frozen,
                         testing::Values(Case{"lenet", {}, true}, Case{"resnet20", {}, true},
                                         Case{"resnet18", {.size = {64, 64}}, false},
                                         Case{"resnet50", {.size = {64, 64}}, false},
                                         Case{"googlenet", {.size = {64, 64}}, false}, Case{"convnet", {}, true},
                                         Case{"mlp", {}, true},
                                         Case{"text_bow", {.vocabulary = 50, .length = 12}, true},
                                         Case{"textcnn", {.vocabulary = 50, .length = 12}, true},
                                         Case{"lstm_text", {.vocabulary = 50, .length = 12}, true},
                                         Case{"gru_text", {.vocabulary = 50, .length = 12}, true}),
                         [](const auto& instance) { return instance.param.model; });

TEST(FrozenPlan, OfAResnetHasNoBatchNormAndNoReorderOfWeights) {
  const models::Model model = models::create("resnet50");
  model.net->eval();
  auto step = compile(Inference{model.net}, options(true));
  const auto plan = step.plan(model.batch_type(1));
  const Graph& g = plan->graph();
  size_t convolutions = 0, others = 0;
  for (const PlanStep& s : plan->steps()) {
    if (s.once) continue;
    const Node& n = g.node(s.node);
    if (n.op == Op::conv) {
      ++convolutions;
      EXPECT_TRUE(attrs<ConvAttrs>(n).epilogue.bias) << describe(*plan, s);
      continue;
    }
    ++others;
    EXPECT_EQ(n.scope.find("bn"), std::string::npos) << describe(*plan, s);
    EXPECT_TRUE(n.op != Op::copy || g.def(n.in(0)).op == Op::input) << describe(*plan, s);  // made channels-last
  }
  EXPECT_EQ(convolutions, 53u);
  // The image's copy, a maximum, an average in two steps, the classifier, softmax; the sums of the sixteen blocks
  // that no kernel could take: four of two convolutions, all without AVX-512, where 1x1 convolutions are oneDNN's.
  const auto sets = cpu_info().instructions;
  const bool own_products = std::find(sets.begin(), sets.end(), "avx512f") != sets.end();
  EXPECT_LE(others, own_products ? 11u : 21u) << print(*plan);
}

TEST(FrozenPlan, OfChangedWeightsIsToldSo) {
  const models::Model model = models::create("mlp");
  model.net->eval();
  const Array x = batch(model, 2);
  auto frozen = compile(Inference{model.net}, options(true)), changing = compile(Inference{model.net}, options(false));
  frozen(x);
  disturb(changing.leaves(x));
  frozen.thaw();
  EXPECT_EQ(frozen(x).to_vector<float>(), compile(Inference{model.net}, options(true))(x).to_vector<float>());
}

}  // namespace
}  // namespace freight::test
