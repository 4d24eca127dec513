// Modules of one's own in stored models: a declared one is stored, loaded and answers as before; another is refused.
#include <gtest/gtest.h>

#include "freight/deploy/predictor.h"
#include "freight/nn/nn.h"
#include "freight/store/bundle.h"
#include "tests/support/files.h"

namespace freight::store {
namespace {

using freight::testing::expect_error;
using freight::testing::TemporaryDir;

struct GainOptions {
  double factor = 2;
  int64_t width = 0;
};
class Gain : public nn::Module {
 public:
  using Fields = GainOptions;
  explicit Gain(const Fields& f) : fields_(nn::checked<Gain>(f)) {
    shift_ = parameter("shift", {f.width}, nn::init::uniform(-1, 1));
  }
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override { return x * fields_.factor + shift_; }

 private:
  Fields fields_;
  Variable shift_;
};
class Undeclared : public nn::Linear {
 public:
  Undeclared() : nn::Linear(4, 2) {}
  Tensor forward(const Tensor& x) override { return nn::Linear::forward(x) * 3.0; }
};

template <class M>
Bundle bundle_with(M layer) {
  Bundle b;
  nn::Sequential net;
  net.append("mine", std::move(layer));
  b.model = {.name = "own", .input = {DType::f32, {4}}, .net = std::make_shared<nn::Sequential>(std::move(net))};
  b.preprocessing.input = {4};
  return b;
}

TEST(OwnLayers, ADeclaredOneIsStoredAndAnswersAsBefore) {
  nn::register_layer(nn::Layer<Gain>("Gain", "x times a number, plus a learned vector")
                         .size("width", &GainOptions::width, -1, "numbers per row")
                         .field("factor", &GainOptions::factor, "the number"));
  const TemporaryDir dir;
  const Bundle before = bundle_with(Gain({.factor = 0.5, .width = 4}));
  save_bundle(dir / "own.safetensors", before);
  const std::vector<Array> x = {Array::of<float>({1, 2, 3, 4}, {4})};
  deploy::Predictor first(before), second(load_bundle(dir / "own.safetensors"));
  EXPECT_EQ(first.run(x).to_vector<float>(), second.run(x).to_vector<float>());
}

// A class that is derived from a known layer computes something else: to store it as that layer would answer otherwise
// without a word.
TEST(OwnLayers, OneThatNobodyDeclaredIsRefusedByName) {
  const TemporaryDir dir;
  expect_error(ErrorKind::usage, {"'mine'", "no one has declared", "nn::register_layer"},
               [&] { save_bundle(dir / "own.safetensors", bundle_with(Undeclared())); });
}

}  // namespace
}  // namespace freight::store
