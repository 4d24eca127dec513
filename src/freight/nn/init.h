// Initializers as in PyTorch's torch.nn.init: an Init for a weight's shape. Fans of (out, in, k...): in * k, out * k.
#pragma once
#include <string>
#include <vector>

#include "freight/trace/variable.h"

namespace freight::nn {

inline constexpr double kNormalDeviation = 0.01;  // default standard deviation of WeightInit::normal and uniform
// How a layer's weight is initialized. standard is PyTorch's default (Kaiming uniform with a = sqrt 5, so the bound is
// 1 / sqrt(fan in)). The named rules use the gain of ReLU where they have one. he_normal uses the fan out, as residual
// networks do; normal has standard deviation 0.01 (Krizhevsky et al. 2012), uniform the same around zero. dirac makes
// the layer pass its channels through; filters beyond them are standard (Zagoruyko and Komodakis 2017). whiten is for a
// Conv2d that is the network's first layer: a run computes its filters from the images and does not train them
// (whitening.h); they are standard until then.
enum class WeightInit {
  standard,
  he_normal,
  he_uniform,
  xavier_normal,
  xavier_uniform,
  normal,
  uniform,
  trunc_normal,
  orthogonal,
  dirac,
  whiten
};
std::string to_string(WeightInit init);  // the name in specs: "he_normal"
// `deviation` is that of normal and uniform. Throws Error(usage) for a weight that the rule is not made for.
Init weight_init(WeightInit init, const Shape& shape, double deviation = kNormalDeviation);
// In the order of the enumeration.
const std::vector<std::string>& weight_init_names();

// The bias beside a weight: PyTorch's default (uniform within 1 / sqrt(fan in) of the weight), or zero.
enum class BiasInit { standard, zero };
const std::vector<std::string>& bias_init_names();  // in their order
// The Init of a bias beside a weight of this shape.
Init bias_init(BiasInit init, const Shape& weight);

enum class Fan { in, out };  // which of the two numbers bounds the variance
namespace init {
Init constant(double value);                         // all elements alike
Init zeros();                                        // all 0
Init ones();                                         // all 1
Init uniform(double lo, double hi);                  // in [lo, hi)
Init normal(double mean = 0, double deviation = 1);  // normal
// Cut at two deviations.
Init trunc_normal(double mean = 0, double deviation = 0.02);
// He et al. 2015; the gain is sqrt 2 for ReLU, sqrt(2 / (1 + a^2)) for leaky ReLU with slope a.
Init kaiming_uniform(const Shape& shape, double gain = 1.4142135623730951, Fan fan = Fan::in);
// normal with its variance
Init kaiming_normal(const Shape& shape, double gain = 1.4142135623730951, Fan fan = Fan::in);
// Glorot and Bengio 2010.
Init xavier_uniform(const Shape& shape, double gain = 1);
Init xavier_normal(const Shape& shape, double gain = 1);  // normal with its variance
// For an embedding: `standard` is normal with this deviation; the row of padding is 0.
Init embedding(WeightInit init, const Shape& shape, int64_t padding_idx, double deviation = 1);
// Rows (or columns, the fewer) orthonormal times gain. Saxe et al. 2013.
Init orthogonal(double gain = 1);
}  // namespace init

}  // namespace freight::nn
