// Kernels of the fake driver: texts that the host's compiler makes a library of, and their execution.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace fake {

struct KernelState {
  std::string name;
  bool meets = false;  // its lanes wait for each other
  void (*run)(void** parameters) = nullptr;
  std::vector<size_t> sizes;  // of the parameters
};

// A module is one text. It is compiled with all other new ones when a kernel of it is first asked for.
struct ModuleState {
  std::string text;
  void* library = nullptr;
  std::string key;  // of the text, once it is compiled
};

// Null where the text has no such kernel.
KernelState* find_kernel(ModuleState* module, const std::string& name, std::vector<ModuleState*>& all);
void execute(const KernelState& kernel, unsigned groups, unsigned lanes, void** parameters);

}  // namespace fake
