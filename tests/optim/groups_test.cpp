// Parameter groups and state dictionaries of optimizers: what the values of PyTorch
// (tests/peers/torch_modules_test.cpp) do not show. Refusals, runs that go on, two nets in one optimizer, freezing.
#include <gtest/gtest.h>

#include <limits>

#include "freight/freight.h"
#include "tests/support/error_of.h"

namespace freight::optim {
namespace {

using freight::testing::message_of;

class Groups : public ::testing::Test {
 protected:
  const DeviceScope on_{"ref"};
  void SetUp() override { seed(0); }
};

Variable weight(const std::string& name, double value) {
  return Variable(name, {DType::f32, {2}}, {Init::Kind::constant, value, 0}, Variable::Role::parameter);
}
float head_of(const Variable& v) { return v.array().data<float>()[0]; }

TEST_F(Groups, DefaultsNeedNoBraces) {
  const nn::Linear net(2, 2);
  EXPECT_NEAR(SGD(net.parameters()).lr(), 0.01, 1e-9);
  EXPECT_NEAR(Adam(net.parameters()).lr(), 1e-3, 1e-9);
  EXPECT_NEAR(AdamW(net.parameters()).lr(), 1e-3, 1e-9);
  EXPECT_NEAR(Lion(net.parameters()).lr(), 1e-4, 1e-9);
  EXPECT_NEAR(Muon({net.weight}, {net.bias}).lr(), 0.02, 1e-9);
}

TEST_F(Groups, RatesKeepTheirRatioAndCanBeSetAlone) {
  const Variable a = weight("a", 0), b = weight("b", 0);
  SGD opt({{.parameters = {a}, .name = "fast"}, {.parameters = {b}, .lr = 0.1}}, {.lr = 1});
  EXPECT_EQ(opt.groups(), (std::vector<std::string>{"fast", "1"}));
  auto step = compile([&] { opt.apply({ones({2}), ones({2})}); });
  step();
  EXPECT_FLOAT_EQ(head_of(a), -1);
  EXPECT_FLOAT_EQ(head_of(b), -0.1F);
  opt.set_lr(0.5);
  step();
  EXPECT_FLOAT_EQ(head_of(a), -1.5F);
  EXPECT_FLOAT_EQ(head_of(b), -0.15F);
  opt.set_lr("1", 0.2);
  step();
  EXPECT_FLOAT_EQ(head_of(a), -2);
  EXPECT_FLOAT_EQ(head_of(b), -0.35F);
  EXPECT_NEAR(opt.lr("1"), 0.2, 1e-7);
  EXPECT_EQ(opt.lr("fast"), 0.5);
  EXPECT_EQ(step.traces(), 1u);
}

TEST_F(Groups, DecayIsTheGroupsAndSparesNormsAndBiasesWhereAsked) {
  const Variable a = weight("a", 1), b = weight("b", 1);
  const Variable m("m", {DType::f32, {1, 2}}, {Init::Kind::constant, 1, 0}, Variable::Role::parameter);
  SGD opt({{.parameters = {a}}, {.parameters = {b, m}, .weight_decay = 0.5}}, {.lr = 1, .weight_decay = 0.25});
  opt.apply({zeros({2}), zeros({2}), zeros({1, 2})});
  EXPECT_FLOAT_EQ(head_of(a), 0.75F);
  EXPECT_FLOAT_EQ(head_of(b), 0.5F);
  EXPECT_FLOAT_EQ(head_of(m), 0.5F);
  SGD spared({{.parameters = {b, m}, .weight_decay = 0.5}}, {.lr = 1, .decay_norm_bias = false});
  spared.apply({zeros({2}), zeros({1, 2})});
  EXPECT_FLOAT_EQ(head_of(b), 0.5F);
  EXPECT_FLOAT_EQ(head_of(m), 0.25F);
}

TEST_F(Groups, AFrozenGroupIsLeftAloneAndNeedsNoGradient) {
  for (const bool compiled : {false, true}) {
    const Variable a = weight("a", 1), b = weight("b", 1);
    Adam opt({{.parameters = {a}}, {.parameters = {b}, .frozen = true, .name = "later"}}, {.lr = 0.1});
    const auto update = [&] { opt.step(opt.frozen("later") ? sum(square(a)) : sum(square(a)) + sum(square(b))); };
    auto step = compile(update);
    const auto run = [&] { compiled ? step() : update(); };
    for (int i = 0; i < 5; ++i) run();
    EXPECT_EQ(head_of(b), 1);
    opt.set_frozen("later", false);
    run();
    // Adam's first step is the rate, whatever the gradient; a count of 6 steps would have made half of that.
    EXPECT_NEAR(head_of(b), 0.9, 1e-5);
    opt.set_frozen("later", true);
    const float a_before = head_of(a), b_before = head_of(b);
    run();
    EXPECT_LT(head_of(a), a_before);
    EXPECT_EQ(head_of(b), b_before);
    EXPECT_EQ(step.traces(), compiled ? 2u : 0u);
  }
}

// The step that was compiled before anything was frozen knows no counts of its own for parameters.
TEST_F(Groups, AParameterThatIsFrozenForAWhileCountsItsOwnSteps) {
  const Variable a = weight("a", 1), b = weight("b", 1), c = weight("c", 1);
  Adam opt({a, b}, {.lr = 0.1}), alone({c}, {.lr = 0.1});
  auto step = compile([&](const Tensor& g) { opt.apply({g, g}); });
  auto other = compile([&](const Tensor& g) { alone.apply({g}); });
  const auto gradient = [](float v) { return Array::of<float>({v, v}, {2}); };
  step(gradient(1));
  other(gradient(1));
  b.set_trainable(false);
  step(gradient(5));
  step(gradient(-2));
  b.set_trainable(true);
  step(gradient(3));
  other(gradient(3));
  EXPECT_FLOAT_EQ(head_of(b), head_of(c));
  EXPECT_EQ(step.traces(), 3u);
}

TEST_F(Groups, ARateAloneCanBeLoadedAndCountsOfFrozenStepsStay) {
  const Variable a = weight("a", 0);
  Adam opt({{.parameters = {a}, .name = "a"}}, {.lr = 1});
  opt.set_frozen("a", true);
  opt.apply({ones({2})});
  opt.set_frozen("a", false);
  const auto skipped = [&] {
    for (const nn::NamedVariable& v : opt.states()) {
      if (v.name == "skipped") return v.variable.array().to_vector<float>();
    }
    return std::vector<float>{};
  };
  EXPECT_EQ(skipped(), std::vector<float>{1});
  opt.load_state_dict({nn::NamedArray{"lr", Array::of<float>({0.5}, {})}}, {.strict = false});
  EXPECT_EQ(opt.lr(), 0.5);
  EXPECT_EQ(skipped(), std::vector<float>{1});
}

TEST_F(Groups, ClippingCountsAllGroupsButFrozenOnes) {
  const Variable a = weight("a", 0), b = weight("b", 0), c = weight("c", 0);
  SGD opt({{.parameters = {a}}, {.parameters = {b}, .lr = 0.5}, {.parameters = {c}, .frozen = true}},
          {.lr = 1, .clip_grad_norm = 1});
  opt.apply({Tensor::of<float>({3, 0}), Tensor::of<float>({0, 4}), Tensor::of<float>({100, 100})});
  EXPECT_FLOAT_EQ(opt.grad_norm().item<float>(), 5);
  EXPECT_NEAR(head_of(a), -0.6, 1e-5);
  EXPECT_NEAR(b.array().data<float>()[1], -0.4, 1e-5);
  EXPECT_EQ(head_of(c), 0);
}

TEST_F(Groups, TheNormIsRefusedWhereThereIsNone) {
  const Variable a = weight("a", 0);
  SGD plain({a}, {.lr = 1}), clipped({a}, {.lr = 1, .clip_grad_norm = 1});
  plain.apply({ones({2})});
  EXPECT_NE(message_of([&] { plain.grad_norm(); }).find("set clip_grad_norm"), std::string::npos);
  EXPECT_NE(message_of([&] { clipped.grad_norm(); }).find("there was no step"), std::string::npos);
}

TEST_F(Groups, BadGroupsAreRefusedByName) {
  const Variable a = weight("a", 0), b = weight("b", 0);
  const auto message = [](const ParameterGroups& groups, double lr = 1) {
    return message_of([&] { const SGD opt(groups, {.lr = lr}); });
  };
  EXPECT_NE(
      message({{.parameters = {a}, .name = "x"}, {.parameters = {b}, .name = "x"}}).find("two groups are named 'x'"),
      std::string::npos);
  EXPECT_NE(message({{.parameters = {a}}, {.parameters = {b, a}, .name = "x"}})
                .find("parameter 'a' is in two groups: '0' and 'x'"),
            std::string::npos);
  EXPECT_NE(message({{.parameters = {a}}, {.name = "empty"}}).find("in group 'empty'"), std::string::npos);
  EXPECT_NE(message({{.parameters = {a}, .lr = -1}}).find("learning rate: expected at least 0, got -1"),
            std::string::npos);
  EXPECT_NE(message({{.parameters = {a}, .weight_decay = -1}}).find("weight decay: expected at least 0, got -1"),
            std::string::npos);
  EXPECT_NE(message({{.parameters = {a}, .lr = 0.1}}, 0).find("must be above 0, got 0"), std::string::npos);
  SGD opt({{.parameters = {a}, .name = "x"}}, {.lr = 1});
  EXPECT_NE(message_of([&] { opt.set_lr("y", 1); }).find("unknown value: expected one of x, got y"), std::string::npos);
  EXPECT_NE(message_of([&] { opt.set_lr("x", 2); }).find("has the optimizer's rate"), std::string::npos);
  EXPECT_NE(message_of([&] { opt.set_frozen("0", true); }).find("set_frozen"), std::string::npos);
}

TEST_F(Groups, TwoNetsInOneOptimizerKeepTheirStatesApart) {
  nn::Sequential first(nn::Linear(2, 2)), second(nn::Linear(2, 2));
  Adam opt({first.parameters(), second.parameters()}, {.lr = 0.1});
  std::vector<std::string> names;
  for (const auto& s : opt.state_dict()) names.push_back(s.name);
  EXPECT_EQ(names, (std::vector<std::string>{"step", "m.0.weight", "m.0.bias", "m.0.weight#2", "m.0.bias#2",
                                             "v.0.weight", "v.0.bias", "v.0.weight#2", "v.0.bias#2", "lr"}));
  const float one = head_of(first.parameters()[1]), two = head_of(second.parameters()[1]);
  opt.step(sum(first(ones({1, 2}))) - sum(second(ones({1, 2}))));
  EXPECT_NEAR(head_of(first.parameters()[1]), one - 0.1, 1e-5);
  EXPECT_NEAR(head_of(second.parameters()[1]), two + 0.1, 1e-5);
}

// A net and an optimizer with two groups, and what trains them.
struct TrainedNet {
  nn::Sequential net{nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 1)};
  std::unique_ptr<Optimizer> opt;
  explicit TrainedNet(const std::string& kind) {
    const std::vector<Variable> p = net.parameters();
    const ParameterGroups groups{{.parameters = {p[0], p[1]}, .name = "body"},
                                 {.parameters = {p[2], p[3]}, .lr = 0.005, .name = "head"}};
    if (kind == "sgd") opt = std::make_unique<SGD>(groups, SGDOptions{.lr = 0.01, .momentum = 0.9});
    if (kind == "adam") opt = std::make_unique<Adam>(groups, AdamOptions{.lr = 0.01});
    if (kind == "adamw") opt = std::make_unique<AdamW>(groups, AdamOptions{.lr = 0.01, .weight_decay = 0.1});
    if (kind == "muon") opt = std::make_unique<Muon>(groups, MuonOptions{.lr = 0.01, .adam_groups = {"head"}});
    if (kind == "lion") opt = std::make_unique<Lion>(groups, LionOptions{.lr = 0.01});
    if (kind == "adagrad") opt = std::make_unique<Adagrad>(groups, AdagradOptions{.lr = 0.01, .lr_decay = 0.1});
    if (kind == "nadam") opt = std::make_unique<NAdam>(groups, NAdamOptions{.lr = 0.01, .weight_decay = 0.1});
    if (kind == "amsgrad") opt = std::make_unique<Adam>(groups, AdamOptions{.lr = 0.01, .amsgrad = true});
    if (kind == "damped") {
      opt = std::make_unique<SGD>(groups, SGDOptions{.lr = 0.01, .momentum = 0.9, .dampening = 0.5});
    }
    if (kind == "rmsprop") {
      opt = std::make_unique<RMSprop>(groups, RMSpropOptions{.lr = 0.01, .momentum = 0.5, .centered = true});
    }
  }
  void train(int from, int to) {
    for (int i = from; i < to; ++i) {
      if (i == 2) opt->set_frozen("head", true);
      if (i == 4) opt->set_frozen("head", false);
      if (i == 3) opt->set_lr("head", 0.02);
      opt->set_lr(0.01 / (1 + 0.3 * i));
      const Tensor x = Array::of<float>({1, 0, static_cast<float>(i), 0, 2, 1}, {2, 3});
      opt->step(mean(square(net(x) - 1.0)));
    }
  }
  std::vector<float> numbers() const {
    std::vector<float> all;
    for (const Variable& p : net.parameters()) {
      for (float v : p.array().to_vector<float>()) all.push_back(v);
    }
    return all;
  }
};

TEST_F(Groups, ARunThatGoesOnHasTheBitsOfOneThatNeverStopped) {
  for (const char* kind :
       {"sgd", "adam", "adamw", "lion", "rmsprop", "muon", "adagrad", "nadam", "amsgrad", "damped"}) {
    for (const int stop : {2, 3, 6}) {
      SCOPED_TRACE(std::string(kind) + " " + std::to_string(stop));
      seed(5);
      TrainedNet whole(kind), before(kind);
      before.net.load_state_dict(whole.net.state_dict());
      whole.train(0, 8);
      before.train(0, stop);
      const auto net = nn::values_of(before.net.state_dict()), states = nn::values_of(before.opt->state_dict());
      before.train(stop, 8);  // what was kept are copies
      TrainedNet after(kind);
      after.net.load_state_dict(net);
      after.opt->load_state_dict(states);
      after.opt->set_frozen("head", stop == 3);
      EXPECT_EQ(after.opt->lr(), static_cast<double>(static_cast<float>(0.01 / (1 + 0.3 * (stop - 1)))));
      after.train(stop, 8);
      EXPECT_EQ(after.numbers(), whole.numbers());
    }
  }
}

TEST_F(Groups, StatesOfAnotherOptimizerAreLoadedOrRefusedByName) {
  nn::Linear net(2, 2), twin(2, 2);
  Adam adam(net.parameters()), other(twin.parameters(), {.lr = 0.5});
  other.step(sum(twin(ones({1, 2}))));
  adam.load_state_dict(other.state_dict());
  EXPECT_EQ(adam.lr(), 0.5);
  EXPECT_EQ(head_of(adam.states()[0].variable), 1);  // the count of steps
  SGD sgd(net.parameters(), {.momentum = 0.9});
  const std::string text = message_of([&] { sgd.load_state_dict(other.state_dict()); });
  EXPECT_NE(text.find("states do not fit the optimizer; missing: momentum.weight, momentum.bias; "
                      "unexpected: m.bias"),
            std::string::npos)
      << text;
  const nn::LoadResult some = sgd.load_state_dict(other.state_dict(), {.strict = false});
  EXPECT_EQ(some.missing, (std::vector<std::string>{"momentum.weight", "momentum.bias"}));
  EXPECT_EQ(some.unexpected.size(), 5u);
  EXPECT_EQ(sgd.lr(), 0.5);
  EXPECT_NE(message_of([&] { adam.load_state_dict(adam.state_dict()); }).find("keep nn::values_of(state_dict())"),
            std::string::npos);
}

// Each of these was ambiguous to GCC 12, which takes {.parameters = p} for a list of variables.
TEST_F(Groups, GroupsThatSayNothingButTheirParametersAreGroups) {
  const Variable a = weight("a", 0), b = weight("b", 0);
  const std::vector<Variable> list{a};
  const auto names = [](const Optimizer& opt) { return opt.groups(); };
  const std::vector<std::string> one{"0"}, two{"0", "1"};
  EXPECT_EQ(names(SGD({{.parameters = list}})), one);
  EXPECT_EQ(names(SGD({{.parameters = {a, b}}}, {.lr = 0.1})), one);
  EXPECT_EQ(names(Adam({{.parameters = {a}}, {.parameters = {b}}})), two);
  EXPECT_EQ(names(AdamW({{.parameters = list}, {.parameters = {b}}}, {.lr = 0.1})), two);
  EXPECT_EQ(names(Lion({{.parameters = list}})), one);
  EXPECT_EQ(names(Muon({{.parameters = list}, {.parameters = {b}}}, {.lr = 0.1})), two);
  EXPECT_EQ(names(SGD({list, std::vector<Variable>{b}})), one);
  const ParameterGroups groups{{.parameters = {a}}, {.parameters = {b}}};
  EXPECT_EQ(groups.list().size(), 2u);
}

TEST_F(Groups, RatesAndCountsThatAreNoneAreNotLoaded) {
  const Variable a = weight("a", 0), b = weight("b", 0);
  Adam opt({{.parameters = {a}}, {.parameters = {b}, .lr = 0.5, .name = "slow"}}, {.lr = 1});
  const auto message = [&](const std::string& name, double value) {
    std::vector<nn::NamedArray> entries = nn::values_of(opt.state_dict());
    for (nn::NamedArray& e : entries) {
      if (e.name == name) e.array = Array::of<double>({value}, {});
    }
    return message_of([&] { opt.load_state_dict(entries); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message("lr", nan).find("the rate 'lr' is nan, expected a finite number"), std::string::npos);
  EXPECT_NE(message("lr", -1).find("the rate 'lr' is -1"), std::string::npos);
  EXPECT_NE(message("lr", 1e300).find("the rate 'lr' is inf"), std::string::npos);
  EXPECT_NE(message("lr_ratio.slow", -0.5).find("the rate 'lr_ratio.slow' is -0.5"), std::string::npos);
  EXPECT_NE(message("step", nan).find("the count 'step' is nan"), std::string::npos);
  EXPECT_EQ(message("lr", 0.25), "no error");
  std::vector<nn::NamedArray> twice = nn::values_of(opt.state_dict());
  twice.push_back({"lr", Array::of<float>({2}, {})});
  EXPECT_NE(message_of([&] { opt.load_state_dict(twice); }).find("given twice: lr"), std::string::npos);
  Adam other({{.parameters = {a}}, {.parameters = {b}, .lr = 0.5, .name = "slow"}}, {.lr = 1});
  other.lr_variable().set(nan);
  EXPECT_NE(message_of([&] { opt.load_state_dict(other.state_dict()); }).find("the rate 'lr' is nan"),
            std::string::npos);
  EXPECT_EQ(opt.lr(), 0.25);
  const nn::Linear net(1, 1);
  const Array w(DType::f32, {1, 1}), bias(DType::f32, {1});
  EXPECT_NE(message_of([&] {
              net.load_state_dict({nn::NamedArray{"weight", w}, {"bias", bias}, {"weight", w}});
            }).find("given twice: weight"),
            std::string::npos);
}

TEST_F(Groups, MuonNamesItsGroupsAndRefusesOthers) {
  const nn::Linear net(2, 2);
  EXPECT_EQ(Muon({net.weight}, {net.bias}).groups(), (std::vector<std::string>{"matrices", "others"}));
  EXPECT_EQ(Muon({net.weight}, {net.weight, net.bias}).parameters().size(), 2u);
  EXPECT_NE(message_of([&] {
              const Muon opt({{.parameters = {net.weight}}}, {.adam_groups = {"head"}});
            }).find("adam_groups: unknown value: expected one of 0, got head"),
            std::string::npos);
}

}  // namespace
}  // namespace freight::optim
