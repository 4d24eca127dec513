// Attention and transformer blocks with masks, recurrent layers with states and lengths, optimizers with groups, and
// nets with hooks on their gradients against PyTorch: what torch_modules.py recorded in torch_modules.json, eager and
// compiled, on the oracle and on the CPU.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "freight/freight.h"
#include "tests/support/folders.h"

namespace freight {
namespace {

using nlohmann::json;
using Named = std::map<std::string, Tensor>;

const json& recorded(const char* kind) {
  static const json all = json::parse(std::ifstream(source_dir() + "/tests/peers/torch_modules.json"));
  return all[kind];
}

Array array_of(const json& j) {
  const Shape shape(j["shape"].get<std::vector<int64_t>>());
  std::vector<double> values;
  for (const json& v : j["data"]) {
    values.push_back(v.is_string() ? -std::numeric_limits<double>::infinity() : v.get<double>());
  }
  const std::string type = j["type"];
  return Array::of<double>(values, shape)
      .cast(type == "bool"  ? DType::boolean
            : type == "i64" ? DType::i64
                            : DType::f32);
}

void load_parameters(const nn::Module& m, const json& c) {
  std::vector<nn::NamedArray> entries;
  for (const auto& [name, values] : c["parameters"].items()) entries.push_back({name, array_of(values)});
  m.load_state_dict(entries);
}

void expect_like(const Array& got, const json& want, const std::string& what) {
  const Array expected = array_of(want);
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const std::vector<double> a = got.to_vector<double>(), b = expected.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-5) << what << ", element " << i;
}

// Outputs and all gradients of the case, by the names that the record has.
template <class Forward>
void expect_case(const json& c, const nn::Module& m, const Forward& forward) {
  std::vector<std::string> names, outputs;
  std::vector<Tensor> inputs;
  for (const auto& [name, values] : c["inputs"].items()) {
    names.push_back(name);
    inputs.emplace_back(array_of(values));
  }
  for (const auto& [name, values] : c["outputs"].items()) outputs.push_back(name);
  const auto run = [&](const std::vector<Tensor>& in) {
    Named given;
    for (size_t i = 0; i < names.size(); ++i) given[names[i]] = in[i];
    const Named made = forward(given);
    Tensor loss;
    for (const std::string& name : outputs) {
      const Tensor part = sum(made.at(name) * array_of(c["weights"][name]));
      loss = loss.defined() ? loss + part : part;
    }
    std::vector<Tensor> all;
    for (const std::string& name : outputs) all.push_back(made.at(name));
    for (const Tensor& g : grad(loss, in)) all.push_back(g);
    for (const Tensor& g : grad(loss, m.parameters())) all.push_back(g);
    return all;
  };
  std::vector<std::string> order = outputs;
  for (const std::string& name : names) order.push_back("gradient of " + name);
  for (const Variable& p : m.parameters()) order.push_back("gradient of " + p.name());
  const auto check = [&](const std::vector<Tensor>& got, const std::string& how) {
    ASSERT_EQ(got.size(), order.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const bool output = i < outputs.size();
      const std::string name = output ? order[i] : order[i].substr(std::string("gradient of ").size());
      expect_like(got[i].array(), c[output ? "outputs" : "gradients"][name], how + ": " + order[i]);
    }
  };
  check(run(inputs), "eager");
  auto step = compile([&](const std::vector<Tensor>& in) { return run(in); });
  check(step(inputs), "compiled");
}

class TorchModules : public ::testing::TestWithParam<const char*> {
 protected:
  const DeviceScope on_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Backends, TorchModules, ::testing::Values("ref", "cpu"));

TEST_P(TorchModules, AttentionUnderEveryKindOfMask) {
  ASSERT_GT(recorded("attention").size(), 12u);
  for (const json& c : recorded("attention")) {
    SCOPED_TRACE(c["name"].get<std::string>());
    nn::MultiheadAttention m(c["width"].get<int64_t>(), c["heads"].get<int64_t>(),
                             {.bias = c["bias"], .key_width = c["key_width"], .value_width = c["value_width"]});
    load_parameters(m, c);
    nn::AttentionCall call{.is_causal = c["is_causal"],
                           .need_weights = !c["weights_of"].is_null(),
                           .average_attn_weights = c["weights_of"] == "average"};
    const json& masks = c["masks"];
    if (masks.contains("attn_mask")) call.attn_mask = array_of(masks["attn_mask"]);
    if (masks.contains("key_padding_mask")) call.key_padding_mask = array_of(masks["key_padding_mask"]);
    expect_case(c, m, [&](const Named& in) {
      const Tensor q = in.at("query"), k = in.contains("key") ? in.at("key") : q,
                   v = in.contains("value") ? in.at("value") : q;
      const nn::AttentionOutput made = m(q, k, v, call);
      return Named{{"output", made.output}, {"weights", made.weights}};
    });
  }
}

template <class Layer>
void expect_recurrent(const json& c) {
  Layer m(3, 4, {.layers = c["layers"], .bidirectional = c["bidirectional"]});
  load_parameters(m, c);
  nn::RecurrentCall call;
  if (!c["lengths"].is_null()) call.lengths = Array::of<int64_t>(c["lengths"].get<std::vector<int64_t>>(), {3});
  expect_case(c, m, [&](const Named& in) {
    nn::RecurrentCall with = call;
    if (in.contains("h")) with.state.h = in.at("h");
    if (in.contains("c")) with.state.c = in.at("c");
    const auto [y, state] = m(in.at("x"), with);
    return Named{{"y", y}, {"h", state.h}, {"c", state.c}};
  });
}

TEST_P(TorchModules, RecurrentLayersWithStatesAndLengths) {
  ASSERT_GT(recorded("recurrent").size(), 10u);
  for (const json& c : recorded("recurrent")) {
    SCOPED_TRACE(c["name"].get<std::string>());
    if (c["cell"] == "lstm") {
      expect_recurrent<nn::LSTM>(c);
    } else {
      expect_recurrent<nn::GRU>(c);
    }
  }
}

std::unique_ptr<optim::Optimizer> made(const json& c, const optim::ParameterGroups& groups) {
  const json& s = c["settings"];
  const double lr = s["lr"], decay = s.value("weight_decay", 0.0);
  if (c["name"] == "sgd") {
    return std::make_unique<optim::SGD>(groups,
                                        optim::SGDOptions{.lr = lr, .momentum = s["momentum"], .clip_grad_norm = 1});
  }
  const optim::AdamOptions options{.lr = lr, .weight_decay = decay, .clip_grad_norm = 1};
  if (c["name"] == "adam") return std::make_unique<optim::Adam>(groups, options);
  return std::make_unique<optim::AdamW>(groups, options);
}

// A group with rate and decay of its own, one that is frozen for three steps, and one norm over all of them.
TEST_P(TorchModules, OptimizersWithGroups) {
  for (const json& c : recorded("groups")) {
    for (const bool compiled : {false, true}) {
      SCOPED_TRACE(c["name"].get<std::string>() + (compiled ? " compiled" : " eager"));
      std::vector<Variable> p;
      std::vector<Tensor> targets;
      for (size_t i = 0; i < 3; ++i) {
        p.emplace_back("p" + std::to_string(i), Type{DType::f32, {2, 2}}, Init{}, Variable::Role::parameter);
        p[i].set(array_of(c["begin"][i]));
        targets.emplace_back(array_of(c["targets"][i]));
      }
      const double lr = c["settings"]["lr"];
      const auto opt = made(c, {{.parameters = {p[0]}},
                                {.parameters = {p[1]}, .lr = lr / 4, .weight_decay = 0.3, .name = "slow"},
                                {.parameters = {p[2]}, .frozen = true, .name = "late"}});
      const auto step = [&] {
        opt->step(sum(square(p[0] - targets[0])) + sum(square(p[1] - targets[1])) + sum(square(p[2] - targets[2])));
        return opt->grad_norm();
      };
      auto whole = compile(step);
      for (int i = 0; i < 8; ++i) {
        opt->set_frozen("late", i < 3);
        opt->set_lr(i < 5 ? lr : lr / 2);
        EXPECT_NEAR(opt->lr("slow"), opt->lr() / 4, 1e-8);
        EXPECT_NEAR((compiled ? whole() : step()).item<double>(), c["norms"][static_cast<size_t>(i)].get<double>(),
                    1e-5);
        for (size_t k = 0; k < 3; ++k) {
          expect_like(p[k].array(), c["values"][static_cast<size_t>(i)][k],
                      "step " + std::to_string(i) + ", p" + std::to_string(k));
        }
      }
    }
  }
}

TEST_P(TorchModules, TransformerBlocksUnderEveryKindOfMask) {
  ASSERT_EQ(recorded("blocks").size(), 8u);
  for (const json& c : recorded("blocks")) {
    SCOPED_TRACE(c["name"].get<std::string>());
    nn::TransformerBlock m(6, 2);
    load_parameters(m, c);
    nn::BlockCall call{.is_causal = c["is_causal"]};
    const json& masks = c["masks"];
    if (masks.contains("attn_mask")) call.attn_mask = array_of(masks["attn_mask"]);
    if (masks.contains("key_padding_mask")) call.key_padding_mask = array_of(masks["key_padding_mask"]);
    if (!c["lengths"].is_null()) call.lengths = Array::of<int64_t>(c["lengths"].get<std::vector<int64_t>>(), {2});
    expect_case(c, m, [&](const Named& in) { return Named{{"output", m(in.at("x"), call)}}; });
  }
}

TEST_P(TorchModules, MuonWithGroups) {
  const json& c = recorded("muon")[0];
  for (const bool compiled : {false, true}) {
    SCOPED_TRACE(compiled ? "compiled" : "eager");
    std::vector<Variable> p;
    std::vector<Tensor> targets;
    for (size_t i = 0; i < 5; ++i) {
      const Array begin = array_of(c["begin"][i]);
      p.emplace_back("p" + std::to_string(i), Type{DType::f32, begin.shape()}, Init{}, Variable::Role::parameter);
      p[i].set(begin);
      targets.emplace_back(array_of(c["targets"][i]));
    }
    const double lr = c["lr"];
    optim::Muon opt({{.parameters = {p[0], p[1]}},
                     {.parameters = {p[2]}, .lr = lr / 5, .weight_decay = 0.3},
                     {.parameters = {p[3]}, .lr = 0.01, .name = "embedding"},
                     {.parameters = {p[4]}, .name = "head"}},
                    {.lr = lr, .weight_decay = c["weight_decay"], .adam_groups = {"embedding", "head"}});
    const auto step = [&] {
      Tensor loss = zeros({});
      for (size_t i = 0; i < 5; ++i) loss = loss + sum(square(p[i] - targets[i]));
      opt.step(loss);
    };
    auto whole = compile(step);
    for (size_t i = 0; i < c["values"].size(); ++i) {
      if (compiled) {
        whole();
      } else {
        step();
      }
      for (size_t k = 0; k < 5; ++k) {
        expect_like(p[k].array(), c["values"][i][k], "step " + std::to_string(i) + ", p" + std::to_string(k));
      }
    }
  }
}

// The change of a gradient that the case of that name makes.
Tensor change(const std::string& name, const Tensor& g) {
  if (name == "clip") return clamp(g, -0.2, 0.2);
  if (name == "scale") return g * 3.0;
  if (name == "reverse") return -g;
  return name == "results" ? g * abs(g) : g / sqrt(sum(square(g)));
}

TEST_P(TorchModules, HooksOnGradients) {
  ASSERT_EQ(recorded("hooks").size(), 5u);
  for (const json& c : recorded("hooks")) {
    const std::string name = c["name"];
    SCOPED_TRACE(name);
    nn::Sequential net(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 2));
    load_parameters(net, c);
    const auto layer = [&](size_t i) -> nn::Module& { return *net.children()[i].module; };
    const auto f = [name](const Tensor& g, size_t) { return change(name, g); };
    nn::HookHandle hook;
    if (name == "results") hook = layer(1).on_output_gradient(f);
    if (name == "inputs") hook = layer(2).on_input_gradient(f);
    expect_case(c, net, [&](const Named& in) {
      Tensor h = layer(1)(layer(0)(in.at("x")));
      if (name != "results" && name != "inputs") {
        h = on_gradient(h, [name](const Tensor& g) { return change(name, g); });
      }
      return Named{{"y", layer(2)(h)}};
    });
  }
}

}  // namespace
}  // namespace freight
