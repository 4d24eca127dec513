// A plugin that declares a layer under the name of another one.
#include "freight/freight.h"

struct Mine : freight::nn::Module {
  using Fields = freight::nn::NoFields;
  freight::Tensor forward(const freight::Tensor& x) override { return x; }
};
FREIGHT_PLUGIN { freight::nn::register_layer(freight::nn::Layer<Mine>("Linear", "is taken")); }
