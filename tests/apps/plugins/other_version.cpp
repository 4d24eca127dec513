// A plugin that was built with the headers of a Freight to come.
#include "freight/nn/plugin.h"

static void declare() {}
extern "C" const freight::nn::Plugin* freight_plugin() {
  static const freight::nn::Plugin kPlugin{.interface = 7, .version = "9.8.7", .declare = declare};
  return &kPlugin;
}
