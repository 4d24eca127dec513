// Parameter groups: which parameters an optimizer updates, and what of its settings is another for some of them.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "freight/trace/variable.h"

namespace freight::optim {

// Parameters that share settings of their own.
struct ParameterGroup {
  std::vector<Variable> parameters = {};    // each in one group alone
  std::optional<double> lr = {};            // left out: the optimizer's
  std::optional<double> weight_decay = {};  // left out: the optimizer's
  bool frozen = false;                      // left alone until set_frozen says otherwise
  std::string name = {};                    // left out: its number, from 0
};

// The parameters of an optimizer: SGD(net.parameters()), SGD({w, b}), the parameters of two nets as
// SGD({a.parameters(), b.parameters()}), or groups: SGD({{.parameters = a.parameters(), .lr = 0.01}, {...}}).
class ParameterGroups {
  using Variables = std::vector<Variable>;

 public:
  ParameterGroups();
  ParameterGroups(const ParameterGroups& other);
  ParameterGroups(ParameterGroups&& other) noexcept;
  ParameterGroups& operator=(const ParameterGroups& other);
  ParameterGroups& operator=(ParameterGroups&& other) noexcept;
  ~ParameterGroups();
  ParameterGroups(const Variables& parameters);                 // one group
  ParameterGroups(std::initializer_list<Variable> parameters);  // one group
  // One group of all lists.
  template <class... More>
  requires(sizeof...(More) > 0 && (std::is_convertible_v<const More&, const Variables&> && ...))
      ParameterGroups(const Variables& net, const More&... more)
      : ParameterGroups(joined({&net, &static_cast<const Variables&>(more)...})) {}
  ParameterGroups(std::vector<ParameterGroup> groups);            // as given
  ParameterGroups(std::initializer_list<ParameterGroup> groups);  // as given

  const std::vector<ParameterGroup>& list() const { return list_; }  // in order

 private:
  static Variables joined(std::initializer_list<const Variables*> nets);
  std::vector<ParameterGroup> list_;
};

}  // namespace freight::optim
