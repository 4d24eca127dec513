// Custom layers for the command, as a shared library: a layer with a weight, and a container of other layers.
//   freight train mnist --model net.json --plugin ./libmine.so
#include "freight/freight.h"

using namespace freight;

struct GainOptions {
  int64_t width = 0;
  double start = 1;
};
class Gain : public nn::Module {
 public:
  using Fields = GainOptions;
  explicit Gain(const Fields& f) : fields_(nn::checked<Gain>(f)) {
    weight_ = parameter("weight", {f.width}, nn::init::constant(f.start));
  }
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return x * weight_; }  // (N, width)

 private:
  Fields fields_;
  Variable weight_;
};

struct GatedOptions {
  std::shared_ptr<nn::Module> main;
  double gate = 0.5;
};
class Gated : public nn::Module {
 public:
  using Fields = GatedOptions;
  explicit Gated(const Fields& f) : fields_(nn::checked<Gated>(f)) { adopt("main", f.main); }
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return x + (*fields_.main)(x)*fields_.gate; }

 private:
  Fields fields_;
};

FREIGHT_PLUGIN {
  nn::register_layer(nn::Layer<Gain>("Gain", "a learned factor for each column of x")
                         .size("width", &GainOptions::width, -1, "numbers per row")
                         .field("start", &GainOptions::start, "the factors at first"));
  nn::register_layer(nn::Layer<Gated>("Gated", "x + gate main(x)")
                         .required("main", &GatedOptions::main, "a layer or a list")
                         .field("gate", &GatedOptions::gate, "the share of the branch", nn::kNotNegative));
}
