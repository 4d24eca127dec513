// Runs a graph the whole way: passes, plan, executable; as a program does.
#pragma once
#include <string>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/run/executable.h"
#include "tests/support/fusing_backend.h"

namespace freight::test {

// The backends that compute something, and FusingBackend.
inline std::vector<std::string> computing_backends() {
  fusing_backend();
  std::vector<std::string> names;
  for (const std::string& name : backend_names()) {
    if (name != "null") names.push_back(name);
  }
  return names;
}

inline std::vector<Array> run_planned(const std::string& backend_name, const Graph& g, const std::vector<Array>& inputs,
                                      const std::vector<Array>& states = {}) {
  RunOptions options;
  options.backend = backend_name;
  options.deterministic = true;
  std::vector<std::shared_ptr<Storage>> storage;
  for (const Array& a : states) storage.push_back(a.storage());
  Executable executable(plan_for(g, options), storage);
  std::vector<Array> outputs;
  for (Value v : g.outputs) outputs.emplace_back(g.type(v).dtype, g.type(v).shape);
  executable.run(inputs, outputs);
  return outputs;
}

}  // namespace freight::test
