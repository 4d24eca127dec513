// Normalisation layers. Statistics of BatchNorm are variables that the training step updates in place.
#pragma once
#include "freight/nn/module.h"

namespace freight::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // of the running statistics: running = (1 - momentum) running + momentum batch
};
// (N, C) or (N, C, ...). Training: statistics of the batch, and the running ones are updated (variance unbiased, as in
// PyTorch). Evaluation: the running ones. Ioffe and Szegedy 2015.
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  Config config() const override;
  Variable weight, bias, running_mean, running_var;  // (C) each

 protected:
  BatchNorm(const char* type, int64_t channels, const BatchNormOptions& options);

 private:
  const char* type_;
  BatchNormOptions options_;
};
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm1d", channels, options) {}
};
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm2d", channels, options) {}
};

struct NormOptions {
  double eps = 1e-5;
};
// Normalises the last axes, of extents `shape`; weight and bias of that shape. Ba et al. 2016.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Extents& shape, const NormOptions& options = {});
  Tensor forward(const Tensor& x) override;
  Config config() const override;
  Variable weight, bias;

 private:
  Extents shape_;
  NormOptions options_;
};
// (N, C, ...) in groups of channels; weight and bias (C). Wu and He 2018.
class GroupNorm : public Module {
 public:
  GroupNorm(int64_t groups, int64_t channels, const NormOptions& options = {});
  Tensor forward(const Tensor& x) override;
  Config config() const override;
  Variable weight, bias;

 private:
  int64_t groups_;
  NormOptions options_;
};

}  // namespace freight::nn
