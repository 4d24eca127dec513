// Plugins: shared libraries that add custom layers (and learners) to a program that was built without them. The command
// loads those that --plugin names, before it reads a model. One source of the library says
//   FREIGHT_PLUGIN { freight::nn::register_layer(...); }
// and the library is not linked with Freight: it uses that of the program that loads it. A plugin runs with all
// permissions of the user who loads it.
#pragma once
#include <cstdint>
#include <string>

#include "freight/nn/layer_type.h"
#include "freight/nn/module.h"

namespace freight::nn {

// The version of these headers, and a number that is increased when existing plugins must be rebuilt although the
// version is the same.
inline constexpr const char* kPluginVersion = "0.1.0";
inline constexpr uint32_t kPluginInterface = 1;  // compared with the plugin's

// A number for what a compiler made of the classes that a plugin and the program share: other settings or another
// standard library give another number.
constexpr uint64_t plugin_layout() {
  uint64_t n = 0;
  for (const uint64_t size : {sizeof(Module), sizeof(LayerType), sizeof(Field), sizeof(Setting), sizeof(Tensor),
                              sizeof(Variable), sizeof(std::string), alignof(std::max_align_t)}) {
    n = n * 1000003 + size;
  }
  return n;
}

// Describes a plugin. The first two members stay where they are in all versions.
struct Plugin {
  uint32_t interface = kPluginInterface;  // of its headers
  const char* version = kPluginVersion;   // of its headers
  uint64_t layout = plugin_layout();      // of its classes
  void (*declare)() = nullptr;            // registers its layers
};

// Loads a plugin and makes what it declares known, for the rest of the process; a path without '/' is a file of the
// working directory, and one that is loaded already is left alone. From one thread. Throws Error(usage) that names the
// file: there is none, it is a directory or no shared library, no plugin, one for another Freight; and what its
// declarations throw.
void load_plugin(const std::string& path);

}  // namespace freight::nn

// Before the braces that hold a plugin's declarations; once in a library.
#define FREIGHT_PLUGIN                                                                              \
  static void freight_plugin_declare();                                                             \
  extern "C" __attribute__((visibility("default"))) const ::freight::nn::Plugin* freight_plugin() { \
    static const ::freight::nn::Plugin kPlugin{.declare = freight_plugin_declare};                  \
    return &kPlugin;                                                                                \
  }                                                                                                 \
  static void freight_plugin_declare()
