// See unused_parameters.h.
#include "freight/optim/unused_parameters.h"

#include "freight/base/strings.h"

namespace freight::optim {

UnusedParameters::~UnusedParameters() {
  for (const Variable& p : all_) p.set_trainable(true);
}

void UnusedParameters::add(const Variable& parameter) {
  parameter.set_trainable(false);
  all_.push_back(parameter);
}

std::string UnusedParameters::names() const {
  std::vector<std::string> names;
  for (const Variable& p : all_) names.push_back(p.name());
  return join(names, ", ");
}

}  // namespace freight::optim
