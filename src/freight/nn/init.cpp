// See init.h. The drawing itself is in trace/variable.cpp.
#include "freight/nn/init.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"

namespace freight::nn {

namespace {

struct Fans {
  double in, out;
};
Fans fans(const Shape& s) {
  if (s.rank() < 2) return {static_cast<double>(s.numel()), static_cast<double>(s.numel())};
  const double window = static_cast<double>(Shape(s.begin() + 2, s.end()).numel());
  return {static_cast<double>(s[1]) * window, static_cast<double>(s[0]) * window};
}
double fan_of(const Shape& s, Fan fan) { return std::max(1.0, fan == Fan::in ? fans(s).in : fans(s).out); }

}  // namespace

const std::vector<std::string>& weight_init_names() {
  static const std::vector<std::string> kNames = {"standard",       "he_normal", "he_uniform", "xavier_normal",
                                                  "xavier_uniform", "normal",    "uniform",    "trunc_normal",
                                                  "orthogonal",     "dirac",     "whiten"};
  return kNames;
}

std::string to_string(WeightInit init) { return weight_init_names()[static_cast<size_t>(init)]; }

const std::vector<std::string>& bias_init_names() {
  static const std::vector<std::string> kNames = {"standard", "zero"};
  return kNames;
}

Init weight_init(WeightInit kind, const Shape& shape, double deviation) {
  switch (kind) {
    case WeightInit::standard: return init::kaiming_uniform(shape, std::sqrt(1.0 / 3.0));
    case WeightInit::he_normal: return init::kaiming_normal(shape, std::sqrt(2.0), Fan::out);
    case WeightInit::he_uniform: return init::kaiming_uniform(shape);
    case WeightInit::xavier_normal: return init::xavier_normal(shape);
    case WeightInit::xavier_uniform: return init::xavier_uniform(shape);
    case WeightInit::normal: return init::normal(0, deviation);
    case WeightInit::uniform: return init::uniform(-std::sqrt(3.0) * deviation, std::sqrt(3.0) * deviation);
    case WeightInit::trunc_normal: return init::trunc_normal();
    case WeightInit::orthogonal: return init::orthogonal();
    case WeightInit::whiten:
      if (shape.rank() != 4) {
        fail(ErrorKind::usage, "init",
             "whiten computes filters from windows of images: expected the weight of a Conv2d (out, C, rows, columns), "
             "got ",
             shape);
      }
      break;
    case WeightInit::dirac: break;
  }
  Init standard = weight_init(WeightInit::standard, shape);
  standard.identity = kind == WeightInit::dirac;
  return standard;
}

Init bias_init(BiasInit kind, const Shape& weight) {
  if (kind == BiasInit::zero) return init::constant(0);
  const double bound = 1 / std::sqrt(fan_of(weight, Fan::in));
  return init::uniform(-bound, bound);
}

namespace init {

Init constant(double value) { return {Init::Kind::constant, value, 0}; }
Init zeros() { return constant(0); }
Init ones() { return constant(1); }
Init uniform(double lo, double hi) { return {Init::Kind::uniform, lo, hi}; }
Init normal(double mean, double deviation) { return {Init::Kind::normal, mean, deviation}; }
Init trunc_normal(double mean, double deviation) { return {Init::Kind::trunc_normal, mean, deviation}; }
Init embedding(WeightInit init, const Shape& shape, int64_t padding_idx, double deviation) {
  Init out = init == WeightInit::standard ? normal(0, deviation) : weight_init(init, shape);
  out.zero_row = padding_idx;
  return out;
}
Init orthogonal(double gain) { return {Init::Kind::orthogonal, gain, 0}; }

Init kaiming_uniform(const Shape& shape, double gain, Fan fan) {
  const double bound = gain * std::sqrt(3.0 / fan_of(shape, fan));
  return uniform(-bound, bound);
}
Init kaiming_normal(const Shape& shape, double gain, Fan fan) {
  return normal(0, gain / std::sqrt(fan_of(shape, fan)));
}
Init xavier_uniform(const Shape& shape, double gain) {
  const double bound = gain * std::sqrt(6.0 / (fans(shape).in + fans(shape).out));
  return uniform(-bound, bound);
}
Init xavier_normal(const Shape& shape, double gain) {
  return normal(0, gain * std::sqrt(2.0 / (fans(shape).in + fans(shape).out)));
}

}  // namespace init

}  // namespace freight::nn
