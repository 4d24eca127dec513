// A variable is one variable however often it is reached: a layer used twice, tied weights; and freezing.
#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/nn/nn.h"
#include "freight/ops/ops.h"
#include "freight/optim/optim.h"
#include "freight/trace/compile.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

float number(const Variable& v) { return v.array().to_vector<float>()[0]; }

TEST(Sharing, ALayerThatIsUsedTwiceIsListedAndUpdatedOnce) {
  const auto lin = std::make_shared<nn::Linear>(1, 1);
  nn::Sequential net(lin, lin);
  lin->weight.set(1.0);
  lin->bias.set(0.0);
  EXPECT_EQ(net.parameters().size(), 2U);
  EXPECT_EQ(net.parameter_count(), 2);
  EXPECT_EQ(net.state_dict().size(), 4U);  // under both paths, as in PyTorch
  optim::SGD opt(net.parameters(), {.lr = 0.1});
  opt.step(sum(net(ones({1, 1}))));
  EXPECT_FLOAT_EQ(number(lin->weight), 0.8F);  // PyTorch's
  EXPECT_FLOAT_EQ(number(lin->bias), -0.2F);
}

TEST(Sharing, VariablesThatAdoptOneTensorUnderTwoNamesDoNotShareIt) {
  const nn::Linear a(2, 2, {.bias = false}), b(2, 2, {.bias = false});
  const Array once = Array::of<float>({1, 2, 3, 4}, {2, 2});
  const std::vector<nn::NamedVariable> both = {{"a", a.weight}, {"b", b.weight}};
  nn::load_values(both, {{"a", once}, {"b", once}}, {.adopt = true});
  a.weight.set(0.0);
  EXPECT_EQ(b.weight.array().to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Sharing, NamesStayThoseOfTheFirstPlace) {
  const auto lin = std::make_shared<nn::Linear>(1, 1);
  nn::Sequential outer;
  outer.append("body", nn::Sequential(lin, lin));
  outer.append("again", lin);
  EXPECT_EQ(lin->weight.name(), "body.0.weight");
}

TEST(Sharing, AnOptimizerUpdatesOnceWhatItIsGivenTwice) {
  const Variable w("w", {DType::f32, {1}}, {Init::Kind::constant, 1, 0}, Variable::Role::parameter);
  optim::SGD opt({w, w}, {.lr = 0.1});
  EXPECT_EQ(opt.parameters().size(), 1U);
  opt.step(sum(square(w)));
  EXPECT_FLOAT_EQ(number(w), 0.8F);
}

struct Autoencoder : nn::Module {
  nn::Linear& encoder = add<nn::Linear>("encoder", 2, 2);
  nn::Linear& decoder = add<nn::Linear>("decoder", 2, 2);
  Tensor forward(const Tensor& x) override { return decoder(encoder(x)); }
};

TEST(Sharing, TiedWeightsAreOneVariable) {
  Autoencoder net;
  net.decoder.weight = net.encoder.weight;
  EXPECT_TRUE(net.decoder.weight == net.encoder.weight);
  EXPECT_EQ(net.parameters().size(), 3U);
  for (const Variable& p : net.parameters()) p.set(p.shape().rank() == 2 ? 0.5 : 0.0);
  optim::SGD opt(net.parameters(), {.lr = 0.1});
  auto step = compile([&](const Tensor& x) { opt.step(sum(net(x))); });
  step(ones({1, 2}));
  // Each output is w w x with the gradient from both uses: 1 + 1 for each element of w.
  for (float v : net.encoder.weight.array().to_vector<float>()) EXPECT_FLOAT_EQ(v, 0.3F);
  EXPECT_EQ(net.decoder.weight.array().to_vector<float>(), net.encoder.weight.array().to_vector<float>());
}

TEST(Sharing, StepsFollowWhatIsTiedAfterTheyWereTraced) {
  Autoencoder net;
  for (const Variable& p : net.parameters()) p.set(p.name() == "encoder.weight" ? 0.5 : 0.0);
  auto f = compile([&](const Tensor& x) { return net(x); });
  EXPECT_EQ(f(ones({1, 2})).to_vector<float>(), (std::vector<float>{0, 0}));
  net.decoder.weight = net.encoder.weight;
  EXPECT_EQ(f(ones({1, 2})).to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(f.traces(), 2U);
}

TEST(Sharing, HandlesOfUsersAreNotTied) {
  nn::Linear a(2, 2), b(2, 2);
  Variable v = a.weight;
  v = b.weight;  // a handle that now names another variable
  EXPECT_FALSE(a.weight == b.weight);
  std::vector<Variable> list{a.weight, a.bias, b.weight};
  list.erase(list.begin());
  EXPECT_TRUE(list[0] == a.bias);
  nn::Linear moved = std::move(b);
  moved = nn::Linear(2, 2);
  EXPECT_FALSE(moved.weight == v);
}

TEST(Sharing, VariablesOfDifferentTypesAreNotTied) {
  nn::Linear a(2, 3), b(3, 4);
  EXPECT_THROW(b.weight = a.weight, Error);
}

TEST(Sharing, TiedWeightsAreLoadedFromEqualEntriesOnly) {
  Autoencoder net;
  net.decoder.weight = net.encoder.weight;
  const Array one = Array::of<float>({1, 1, 1, 1}, {2, 2}), two = Array::of<float>({2, 2, 2, 2}, {2, 2});
  const Array bias = Array::of<float>({0, 0}, {2});
  const auto load = [&](const Array& decoder) {
    net.load_state_dict(
        {{"encoder.weight", one}, {"encoder.bias", bias}, {"decoder.weight", decoder}, {"decoder.bias", bias}});
  };
  load(one);
  EXPECT_THROW(load(two), Error);
  EXPECT_EQ(number(net.encoder.weight), 1);
}

TEST(Freezing, TakesEffectAfterTheOptimizerWasMade) {
  for (const bool compiled : {false, true}) {
    nn::Linear net(1, 1);
    net.weight.set(1.0);
    net.bias.set(0.0);
    optim::AdamW opt(net.parameters(), {.lr = 0.1, .clip_grad_norm = 10});
    auto step = compile([&](const Tensor& x) { opt.step(sum(square(net(x)))); });
    const auto train = [&] {
      const Tensor x = ones({1, 1});
      if (compiled) {
        step(x);
      } else {
        opt.step(sum(square(net(x))));
      }
    };
    net.weight.set_trainable(false);
    train();
    EXPECT_EQ(number(net.weight), 1);
    const float bias = number(net.bias);
    EXPECT_LT(bias, 0);
    net.weight.set_trainable(true);  // and back: a compiled step is traced for each
    net.bias.set_trainable(false);
    train();
    EXPECT_LT(number(net.weight), 1);
    EXPECT_EQ(number(net.bias), bias);
    EXPECT_EQ(step.traces(), compiled ? 2U : 0U);
    net.weight.set_trainable(false);
    EXPECT_THROW(train(), Error);  // nothing is left to train
  }
}

}  // namespace
}  // namespace freight
