// Layers of current image networks. N batch, C channels or numbers per token, H W image, T tokens. A parameter that
// torchvision makes a member of a block, without a layer around it, is stored under its layer's own path.
#pragma once
#include "freight/nn/layer_type.h"
#include "freight/nn/module.h"
#include "freight/nn/norm.h"

namespace freight::nn {

struct LayerNorm2dFields : NormOptions {
  int64_t channels = 0;  // C
};
// (N, C, H, W): normalizes the channels of each pixel; weight and bias (C). Liu et al. 2022.
class LayerNorm2d : public Module {
 public:
  using Fields = LayerNorm2dFields;
  explicit LayerNorm2d(const Fields& fields);
  explicit LayerNorm2d(WholeNumber channels, const NormOptions& options = {})
      : LayerNorm2d(Fields{options, channels}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight, bias;

 private:
  Fields fields_;
};

struct LayerScaleOptions {
  double value = 1e-6;  // of all elements at first
};
struct LayerScaleFields : LayerScaleOptions {
  Extents shape = 1;  // of the factor, which broadcasts to the input
};
// x times a learned factor. Touvron et al. 2021.
class LayerScale : public Module {
 public:
  using Fields = LayerScaleFields;
  explicit LayerScale(const Fields& fields);
  explicit LayerScale(const Extents& shape, const LayerScaleOptions& options = {})
      : LayerScale(Fields{options, shape}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable factor;  // f32, of the given shape

 private:
  Fields fields_;
};

struct StochasticDepthOptions {
  double p = 0.1;  // in [0, 1)
};
// In training, sets all of a sample to zero with probability p and scales the other samples by 1 / (1 - p): at the end
// of a residual branch, a sample skips the branch. Huang et al. 2016.
class StochasticDepth : public Module {
 public:
  using Fields = StochasticDepthOptions;
  explicit StochasticDepth(const Fields& fields = {});
  explicit StochasticDepth(double p) : StochasticDepth(Fields{p}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

struct ClassTokenFields {
  int64_t width = 0;  // C
};
// (N, T, C) -> (N, 1 + T, C): a learned vector (1, 1, C), zero at first, before the tokens. Dosovitskiy et al. 2021.
class ClassToken : public Module {
 public:
  using Fields = ClassTokenFields;
  explicit ClassToken(const Fields& fields);
  explicit ClassToken(WholeNumber width) : ClassToken(Fields{width}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable token;  // f32 (1, 1, C)

 private:
  Fields fields_;
};

struct SelectOptions {
  int64_t axis = 1, index = 0;  // negative values count from the end
};
// One index of an axis, which the result lacks: the first token of (N, T, C) by default.
class Select : public Module {
 public:
  using Fields = SelectOptions;
  explicit Select(const Fields& fields = {});
  Select(Axis axis, WholeNumber index) : Select(Fields{axis, index}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

struct PermuteFields {
  Extents axes = 0;  // axis i of the result is axis axes[i] of the input
};
// Reorders all axes.
class Permute : public Module {
 public:
  using Fields = PermuteFields;
  explicit Permute(const Fields& fields);
  explicit Permute(std::initializer_list<int64_t> axes) : Permute(Fields{Extents(axes)}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

}  // namespace freight::nn
