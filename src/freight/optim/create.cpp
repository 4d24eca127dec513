// See create.h.
#include "freight/optim/create.h"

#include <algorithm>

#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/nn/attention.h"
#include "freight/nn/layers.h"
#include "freight/nn/text_layers.h"
#include "freight/optim/muon.h"

namespace freight::optim {

namespace {

using Pointer = std::unique_ptr<Optimizer>;
using Groups = std::vector<ParameterGroup>;

AdamOptions adam_options(const Settings& s) {
  return {.lr = s.lr,
          .weight_decay = s.weight_decay,
          .clip_grad_norm = s.clip_grad_norm,
          .decay_norm_bias = s.decay_norm_bias};
}

Pointer make_sgd(const nn::Module&, const Groups& groups, const Settings& s) {
  return std::make_unique<SGD>(groups, SGDOptions{.lr = s.lr,
                                                  .momentum = s.momentum,
                                                  .weight_decay = s.weight_decay,
                                                  .nesterov = s.nesterov,
                                                  .clip_grad_norm = s.clip_grad_norm,
                                                  .decay_norm_bias = s.decay_norm_bias});
}
Pointer make_adam(const nn::Module&, const Groups& groups, const Settings& s) {
  return std::make_unique<Adam>(groups, adam_options(s));
}
Pointer make_adamw(const nn::Module&, const Groups& groups, const Settings& s) {
  return std::make_unique<AdamW>(groups, adam_options(s));
}
Pointer make_lion(const nn::Module&, const Groups& groups, const Settings& s) {
  return std::make_unique<Lion>(groups, LionOptions{.lr = s.lr,
                                                    .weight_decay = s.weight_decay,
                                                    .clip_grad_norm = s.clip_grad_norm,
                                                    .decay_norm_bias = s.decay_norm_bias});
}
Pointer make_rmsprop(const nn::Module&, const Groups& groups, const Settings& s) {
  return std::make_unique<RMSprop>(groups, RMSpropOptions{.lr = s.lr,
                                                          .weight_decay = s.weight_decay,
                                                          .clip_grad_norm = s.clip_grad_norm,
                                                          .decay_norm_bias = s.decay_norm_bias});
}
Pointer make_adagrad(const nn::Module&, const Groups& groups, const Settings& s) {
  return std::make_unique<Adagrad>(groups, AdagradOptions{.lr = s.lr,
                                                          .weight_decay = s.weight_decay,
                                                          .clip_grad_norm = s.clip_grad_norm,
                                                          .decay_norm_bias = s.decay_norm_bias});
}
Pointer make_nadam(const nn::Module&, const Groups& groups, const Settings& s) {
  return std::make_unique<NAdam>(groups, NAdamOptions{.lr = s.lr,
                                                      .weight_decay = s.weight_decay,
                                                      .clip_grad_norm = s.clip_grad_norm,
                                                      .decay_norm_bias = s.decay_norm_bias});
}
Pointer make_muon(const nn::Module& net, const Groups& groups, const Settings& s) {
  const std::vector<Variable> hidden = hidden_matrices(net);
  const MuonOptions options{.lr = s.lr,
                            .momentum = s.momentum,
                            .weight_decay = s.weight_decay,
                            .clip_grad_norm = s.clip_grad_norm,
                            .decay_norm_bias = s.decay_norm_bias};
  Groups matrices, others;
  for (const ParameterGroup& g : groups) {
    ParameterGroup rest = g;
    rest.parameters.clear();
    ParameterGroup of_hidden = rest;
    for (const Variable& p : g.parameters) {
      const bool is_hidden = std::find(hidden.begin(), hidden.end(), p) != hidden.end();
      (is_hidden ? of_hidden : rest).parameters.push_back(p);
    }
    if (!rest.name.empty()) rest.name += ", others";
    if (rest.lr) *rest.lr *= options.adam_lr_ratio;  // a group with a rate of its own has it as given
    if (!of_hidden.parameters.empty()) matrices.push_back(of_hidden);
    if (!rest.parameters.empty()) others.push_back(rest);
  }
  return std::make_unique<Muon>(matrices, others, options);
}

constexpr struct {
  const char* name;
  Pointer (*make)(const nn::Module&, const Groups&, const Settings&);
} kOptimizers[] = {{"sgd", make_sgd},         {"adam", make_adam}, {"adamw", make_adamw},     {"lion", make_lion},
                   {"rmsprop", make_rmsprop}, {"muon", make_muon}, {"adagrad", make_adagrad}, {"nadam", make_nadam}};

// Rows are looked up, not multiplied.
bool is_table(const nn::Module& m) {
  return dynamic_cast<const nn::Embedding*>(&m) || dynamic_cast<const nn::EmbeddingBag*>(&m) ||
         dynamic_cast<const nn::PositionEmbedding*>(&m);
}

void collect(const nn::Module& m, std::vector<Variable>& out) {
  if (is_table(m)) return;
  for (const nn::NamedVariable& v : m.variables()) {
    if (v.variable.trainable() && v.variable.shape().rank() >= 2 && v.name.find("weight") != std::string::npos) {
      out.push_back(v.variable);
    }
  }
  for (const nn::Child& c : m.children()) collect(*c.module, out);
}

}  // namespace

const std::vector<std::string>& names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> all;
    for (const auto& o : kOptimizers) all.emplace_back(o.name);
    return all;
  }();
  return kNames;
}

std::unique_ptr<Optimizer> create(const std::string& name, const nn::Module& net, const Settings& settings) {
  return create(name, net, settings, {{.parameters = net.parameters()}});
}

std::unique_ptr<Optimizer> create(const std::string& name, const nn::Module& net, const Settings& settings,
                                  const std::vector<ParameterGroup>& groups) {
  for (const auto& o : kOptimizers) {
    if (name == o.name) return o.make(net, groups, settings);
  }
  refuse_name("optimizer", name, names());
}

std::vector<Variable> hidden_matrices(const nn::Module& net) {
  std::vector<Variable> found;
  collect(net, found);
  if (!found.empty()) found.pop_back();
  return found;
}

}  // namespace freight::optim
