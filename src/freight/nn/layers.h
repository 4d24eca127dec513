// Layers with weights, pools and small helpers. Shapes as in PyTorch: N batch, C channels, L or H W spatial.
// Defaults and parameter names are PyTorch's.
#pragma once
#include "freight/nn/init.h"
#include "freight/nn/layer_type.h"
#include "freight/nn/module.h"
#include "freight/ops/conv.h"

namespace freight::nn {

struct LinearOptions {
  bool bias = true;                         // whether there is one
  WeightInit init = WeightInit::standard;   // of the weight
  BiasInit bias_init = BiasInit::standard;  // of the bias
  double deviation = kNormalDeviation;      // of init normal and uniform
};
struct LinearFields : LinearOptions {
  int64_t in = 0, out = 0;  // input and output size
};
// (..., in) -> (..., out): x weight^T + bias; weight (out, in), bias (out).
class Linear : public Module {
 public:
  using Fields = LinearFields;
  explicit Linear(const Fields& fields);
  Linear(WholeNumber in, WholeNumber out, const LinearOptions& options = {}) : Linear(Fields{options, in, out}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight, bias;

 private:
  Fields fields_;
};

// How an image is padded: with zeros, or with its own elements: mirrored, the border repeated, or wrapped around.
enum class PaddingMode { zeros, reflect, replicate, circular };
inline constexpr int64_t kSamePadding = -1;  // a convolution's padding that keeps the sizes; needs stride 1
struct ConvLayerOptions {
  Extents stride = 1;                             // steps of the window
  Extents padding = 0;                            // elements on either side, or kSamePadding
  Extents dilation = 1;                           // distance of the window's elements
  int64_t groups = 1;                             // channels are joined within groups only
  bool bias = true;                               // whether there is one
  WeightInit init = WeightInit::standard;         // of the weight
  BiasInit bias_init = BiasInit::standard;        // of the bias
  double deviation = kNormalDeviation;            // of init normal and uniform
  PaddingMode padding_mode = PaddingMode::zeros;  // of the elements that are added
};
struct ConvFields : ConvLayerOptions {
  int64_t in = 0, out = 0;  // input and output size
  Extents kernel = 1;       // extents of the window
};
// (N, in, spatial...) -> (N, out, spatial'...); weight (out, in / groups, kernel...), bias (out). A weight of init
// whiten is frozen.
class ConvLayer : public Module {
 public:
  using Fields = ConvFields;
  const Fields& fields() const { return fields_; }
  // True where its weight is to be taken from images (init whiten).
  bool whitens() const { return fields_.init == WeightInit::whiten; }
  Variable weight, bias;

 protected:
  // A layer of the named type over so many spatial axes.
  ConvLayer(const char* type, int spatial, const Fields& fields);
  // The input with the elements around it that the function does not add by itself, and the settings for that.
  struct Padded {
    Tensor x;             // with the elements around it
    ConvOptions options;  // of the convolution of x
  };
  // x (N, C, ...) as `padding` and `padding_mode` of the fields ask for.
  Padded padded(const Tensor& x) const;

 private:
  void need_fit(const Shape& weight) const;  // what the initializer asks for
  const char* type_;
  int spatial_;
  Fields fields_;
};
// Over one spatial axis: (N, in, L) -> (N, out, L').
class Conv1d : public ConvLayer {
 public:
  explicit Conv1d(const Fields& fields);
  Conv1d(WholeNumber in, WholeNumber out, const Extents& kernel, const ConvLayerOptions& options = {})
      : Conv1d(Fields{options, in, out, kernel}) {}
  Tensor forward(const Tensor& x) override;
};
// Over two spatial axes: (N, in, H, W) -> (N, out, H', W').
class Conv2d : public ConvLayer {
 public:
  explicit Conv2d(const Fields& fields);
  Conv2d(WholeNumber in, WholeNumber out, const Extents& kernel, const ConvLayerOptions& options = {})
      : Conv2d(Fields{options, in, out, kernel}) {}
  Tensor forward(const Tensor& x) override;
};

struct PoolFields : PoolOptions {
  bool return_indices = false;  // of maxima: call() also gives the place of each in its image, as i32
};
// The settings that pools share.
class PoolLayer : public Module {
 public:
  using Fields = PoolFields;
  const Fields& fields() const { return fields_; }

 protected:
  // A stride that is the kernel is stored as 0, which means the same.
  explicit PoolLayer(const Fields& fields);

 private:
  Fields fields_;
};
// The largest elements of windows of (N, C, L).
class MaxPool1d : public PoolLayer {
 public:
  explicit MaxPool1d(const Fields& fields);
  explicit MaxPool1d(const PoolOptions& options) : MaxPool1d(Fields{options}) {}
  explicit MaxPool1d(const Extents& kernel) : MaxPool1d(PoolOptions{.kernel = kernel}) {}
  Tensor forward(const Tensor& x) override;
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;
};
// The means of windows of (N, C, L).
class AvgPool1d : public PoolLayer {
 public:
  explicit AvgPool1d(const Fields& fields);
  explicit AvgPool1d(const PoolOptions& options) : AvgPool1d(Fields{options}) {}
  explicit AvgPool1d(const Extents& kernel) : AvgPool1d(PoolOptions{.kernel = kernel}) {}
  Tensor forward(const Tensor& x) override;
};
// The largest elements of windows of (N, C, H, W).
class MaxPool2d : public PoolLayer {
 public:
  explicit MaxPool2d(const Fields& fields);
  explicit MaxPool2d(const PoolOptions& options) : MaxPool2d(Fields{options}) {}
  explicit MaxPool2d(const Extents& kernel) : MaxPool2d(PoolOptions{.kernel = kernel}) {}
  Tensor forward(const Tensor& x) override;
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;
};
// The means of windows of (N, C, H, W).
class AvgPool2d : public PoolLayer {
 public:
  explicit AvgPool2d(const Fields& fields);
  explicit AvgPool2d(const PoolOptions& options) : AvgPool2d(Fields{options}) {}
  explicit AvgPool2d(const Extents& kernel) : AvgPool2d(PoolOptions{.kernel = kernel}) {}
  Tensor forward(const Tensor& x) override;
};
// (N, C, H, W) -> (N, C, *output).
struct AdaptivePoolFields {
  Extents output = 1;  // extents of the result; 0: that of the input
};
// The extents of the result of x, whose last axes are as many as `spatial`.
Shape adaptive_extents(const AdaptivePoolFields& fields, const Tensor& x, int spatial, const char* layer);
// The means of windows that divide the image evenly.
class AdaptiveAvgPool2d : public Module {
 public:
  using Fields = AdaptivePoolFields;
  explicit AdaptiveAvgPool2d(const Fields& fields);
  explicit AdaptiveAvgPool2d(const Extents& output) : AdaptiveAvgPool2d(Fields{output}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

inline constexpr double kAnyNorm = -1;  // a max_norm: rows stay as they are

struct EmbeddingOptions {
  int64_t padding_idx = -1;                // the row that receives no gradient and begins as zero
  WeightInit init = WeightInit::standard;  // normal
  double deviation = 1;                    // of the standard
  bool scale_grad_by_freq = false;         // divides a row's gradient by how often a call reads it
  double max_norm = kAnyNorm;              // longer rows are scaled down to it where they are read
  double norm_type = 2;                    // the order of the norms of rows
};
struct EmbeddingFields : EmbeddingOptions {
  int64_t rows = 0, width = 0;  // tokens; numbers per token
};
// Integers (...) -> (..., width); weight (rows, width). With a padding_idx the layers that follow within a module learn
// how many tokens each sample of (N, T) has.
class Embedding : public Module {
 public:
  using Fields = EmbeddingFields;
  explicit Embedding(const Fields& fields);
  Embedding(WholeNumber rows, WholeNumber width, const EmbeddingOptions& options = {})
      : Embedding(Fields{options, rows, width}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight;

 private:
  Fields fields_;
};

struct FlattenOptions {
  int64_t start = 1, end = -1;  // axes, both inclusive
};
// Joins the axes from `start` to `end`: (N, C, H, W) -> (N, C*H*W).
class Flatten : public Module {
 public:
  using Fields = FlattenOptions;
  explicit Flatten(const Fields& fields = {});
  explicit Flatten(Axis start, Axis end = Fields{}.end) : Flatten(Fields{start, end}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

struct DropoutOptions {
  double p = 0.5;  // in [0, 1]
};
// Zeroes elements with probability p while training.
class Dropout : public Module {
 public:
  using Fields = DropoutOptions;
  explicit Dropout(const Fields& fields = {});
  explicit Dropout(double p) : Dropout(Fields{p}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

}  // namespace freight::nn
