// Parameter groups: which parameters an optimizer updates, and what of its settings is another for some of them.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "freight/trace/variable.h"

namespace freight::optim {

struct ParameterGroup {
  std::vector<Variable> parameters = {};
  std::optional<double> lr = {};            // left out: the optimizer's
  std::optional<double> weight_decay = {};  // left out: the optimizer's
  bool frozen = false;                      // left alone until set_frozen says otherwise
  std::string name = {};                    // left out: its number, from 0
};

// What optimizers are made of: SGD(net.parameters()), SGD({w, b}), the parameters of two nets as
// SGD({a.parameters(), b.parameters()}), or groups: SGD({{.parameters = a.parameters(), .lr = 0.01}, {...}}).
class ParameterGroups {
 public:
  ParameterGroups() = default;
  ParameterGroups(const std::vector<Variable>& parameters) : list_{{.parameters = parameters}} {}
  ParameterGroups(std::initializer_list<Variable> parameters) : list_{{.parameters = parameters}} {}
  ParameterGroups(std::initializer_list<std::vector<Variable>> nets);
  ParameterGroups(std::vector<ParameterGroup> groups) : list_(std::move(groups)) {}
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : list_(groups) {}

  const std::vector<ParameterGroup>& list() const { return list_; }

 private:
  std::vector<ParameterGroup> list_;
};

}  // namespace freight::optim
