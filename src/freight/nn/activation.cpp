// The declarations of the activations: see activation.h.
#include "freight/nn/activation.h"

namespace freight::nn {

LayerList activation_layers() {
  return {
      declared(Layer<ReLU>("ReLU", "x where positive, else 0")),
      declared(Layer<SiLU>("SiLU", "x sigmoid(x)")),
      declared(Layer<Tanh>("Tanh", "the hyperbolic tangent")),
      declared(Layer<Sigmoid>("Sigmoid", "1 / (1 + exp(-x))")),
      declared(Layer<Softplus>("Softplus", "ln(1 + exp(x))")),
      declared(Layer<Softsign>("Softsign", "x / (1 + |x|)")),
      declared(Layer<Identity>("Identity", "x")),
      declared(Layer<GELU>("GELU", "x times the normal distribution function; Hendrycks and Gimpel 2016")
                   .choice("approximate", &GELUOptions::approximate, {"none", "tanh"}, "how it is computed")),
      declared(Layer<LeakyReLU>("LeakyReLU", "x where positive, else slope x")
                   .field("slope", &LeakyReLUOptions::slope, "where x is negative")),
      declared(Layer<ELU>("ELU", "x where positive, else alpha (exp(x) - 1)")
                   .field("alpha", &ELUOptions::alpha, "minus the value at minus infinity")),
      declared(Layer<Softmax>("Softmax", "exp(x) / sum exp(x) along one axis")
                   .field("axis", &SoftmaxOptions::axis, "a negative one counts from the back")),
  };
}

}  // namespace freight::nn
