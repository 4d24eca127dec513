// The declarations of the activations: see activation.h.
#include "freight/nn/activation.h"

namespace freight::nn {

Tensor detail::relu6(const In& x) { return minimum(relu(x), 6); }
Tensor detail::hardsigmoid(const In& x) { return relu6(x + 3) * (1.0 / 6); }
Tensor detail::hardswish(const In& x) { return x * hardsigmoid(x); }

LayerList activation_layers() {
  return {
      declared(Layer<ReLU>("ReLU", "x where positive, else 0")),
      declared(Layer<SiLU>("SiLU", "x sigmoid(x)")),
      declared(Layer<Tanh>("Tanh", "the hyperbolic tangent")),
      declared(Layer<Sigmoid>("Sigmoid", "1 / (1 + exp(-x))")),
      declared(Layer<Softplus>("Softplus", "ln(1 + exp(x))")),
      declared(Layer<Softsign>("Softsign", "x / (1 + |x|)")),
      declared(Layer<ReLU6>("ReLU6", "min(max(x, 0), 6)")),
      declared(Layer<Hardsigmoid>("Hardsigmoid", "min(max(x + 3, 0), 6) / 6; Howard et al. 2019")),
      declared(Layer<Hardswish>("Hardswish", "x Hardsigmoid(x)")),
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
