// Layers with weights, pools and small helpers. Shapes as in PyTorch: N batch, C channels, L or H W spatial.
// Defaults and parameter names are PyTorch's.
#pragma once
#include "freight/nn/init.h"
#include "freight/nn/module.h"
#include "freight/ops/conv.h"

namespace freight::nn {

struct LinearOptions {
  bool bias = true;
  WeightInit init = WeightInit::standard;
  BiasInit bias_init = BiasInit::standard;
  double deviation = 0.01;  // of init normal
};
// (..., in) -> (..., out): x weight^T + bias; weight (out, in), bias (out).
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  Tensor forward(const Tensor& x) override;
  Config config() const override;
  Variable weight, bias;

 private:
  LinearOptions options_;
};

struct ConvLayerOptions {
  Extents stride = 1;
  Extents padding = 0;
  Extents dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  WeightInit init = WeightInit::standard;
  BiasInit bias_init = BiasInit::standard;
};
// (N, in, spatial...) -> (N, out, spatial'...); weight (out, in / groups, kernel...), bias (out). A weight of init
// whiten is frozen.
class ConvLayer : public Module {
 public:
  Config config() const override;
  // Whether its weight is to be taken from images (init whiten).
  bool whitens() const { return options_.init == WeightInit::whiten; }
  Variable weight, bias;

 protected:
  ConvLayer(const char* type, int spatial, int64_t in, int64_t out, const Extents& kernel, const ConvLayerOptions& o);
  ConvOptions options() const { return {options_.stride, options_.padding, options_.dilation, options_.groups}; }

 private:
  void need_fit(const Shape& weight) const;  // what the initialiser asks for
  const char* type_;
  int64_t in_, out_;
  Extents kernel_;
  ConvLayerOptions options_;
};
class Conv1d : public ConvLayer {
 public:
  Conv1d(int64_t in, int64_t out, const Extents& kernel, const ConvLayerOptions& options = {})
      : ConvLayer("Conv1d", 1, in, out, kernel, options) {}
  Tensor forward(const Tensor& x) override;
};
class Conv2d : public ConvLayer {
 public:
  Conv2d(int64_t in, int64_t out, const Extents& kernel, const ConvLayerOptions& options = {})
      : ConvLayer("Conv2d", 2, in, out, kernel, options) {}
  Tensor forward(const Tensor& x) override;
};

// Pools over (N, C, H, W).
class PoolLayer : public Module {
 public:
  Config config() const override;

 protected:
  PoolLayer(const char* type, const PoolOptions& options) : options_(options), type_(type) {}
  PoolOptions options_;

 private:
  const char* type_;
};
class MaxPool2d : public PoolLayer {
 public:
  explicit MaxPool2d(const PoolOptions& options) : PoolLayer("MaxPool2d", options) {}
  explicit MaxPool2d(const Extents& kernel) : MaxPool2d(PoolOptions{.kernel = kernel}) {}
  Tensor forward(const Tensor& x) override;
};
class AvgPool2d : public PoolLayer {
 public:
  explicit AvgPool2d(const PoolOptions& options) : PoolLayer("AvgPool2d", options) {}
  explicit AvgPool2d(const Extents& kernel) : AvgPool2d(PoolOptions{.kernel = kernel}) {}
  Tensor forward(const Tensor& x) override;
};
// (N, C, H, W) -> (N, C, *output).
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(const Extents& output) : output_(output) {}
  Tensor forward(const Tensor& x) override;
  Config config() const override;

 private:
  Extents output_;
};

struct EmbeddingOptions {
  int64_t padding_idx = -1;                // the row that receives no gradient and begins as zero
  WeightInit init = WeightInit::standard;  // normal
  double deviation = 1;                    // of the standard
};
// Integers (...) -> (..., width); weight (rows, width). With a padding_idx the layers that follow within a module learn
// how many tokens each sample of (N, T) has.
class Embedding : public Module {
 public:
  Embedding(int64_t rows, int64_t width, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& x) override;
  Config config() const override;
  Variable weight;

 private:
  EmbeddingOptions options_;
};

// Joins the axes from `start` to `end`: (N, C, H, W) -> (N, C*H*W).
class Flatten : public Module {
 public:
  explicit Flatten(int64_t start = 1, int64_t end = -1) : start_(start), end_(end) {}
  Tensor forward(const Tensor& x) override;
  Config config() const override;

 private:
  int64_t start_, end_;
};

// Zeroes elements with probability p while training.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override;
  Config config() const override;

 private:
  double p_;
};

}  // namespace freight::nn
