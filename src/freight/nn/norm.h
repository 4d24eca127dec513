// Normalization layers. Statistics of BatchNorm are variables that the training step updates in place.
#pragma once
#include "freight/nn/layer_type.h"
#include "freight/nn/module.h"

namespace freight::nn {

inline constexpr double kMeanOfBatches = -1;  // a momentum: the running statistics are the mean over all batches

struct BatchNormOptions {
  double eps = 1e-5;      // added to the variance
  double momentum = 0.1;  // of the running statistics: running = (1 - momentum) running + momentum batch
  bool affine = true;     // with weight, and bias
  bool bias = true;       // false: with weight alone
  bool running = true;    // false: without running statistics
};
// (N, C) or (N, C, ...). Training: statistics of the batch, and the running ones are updated (variance unbiased, as in
// PyTorch). Evaluation, and training where weight and bias are frozen (Variable::set_trainable): the running ones,
// which then do not change; without any, those of the batch. Ioffe and Szegedy 2015.
struct BatchNormFields : BatchNormOptions {
  int64_t channels = 0;  // C
};
// The functions that the following two share.
class BatchNorm : public Module {
 public:
  using Fields = BatchNormFields;
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight, bias, running_mean, running_var;  // (C) each
  Variable num_batches_tracked;                      // () with kMeanOfBatches

 protected:
  explicit BatchNorm(const Fields& fields);

 private:
  template <class F>
  void count_batch(DType statistics, const F& update);
  bool frozen() const;
  Tensor over_all_parts(const Tensor& x, const Tensor& scale, const Tensor& shift);
  Fields fields_;
};
// For (N, C) and (N, C, L).
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(const Fields& fields);
  explicit BatchNorm1d(WholeNumber channels, const BatchNormOptions& options = {})
      : BatchNorm1d(Fields{options, channels}) {}
};
// For (N, C, H, W).
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(const Fields& fields);
  explicit BatchNorm2d(WholeNumber channels, const BatchNormOptions& options = {})
      : BatchNorm2d(Fields{options, channels}) {}
};

struct NormOptions {
  double eps = 1e-5;  // added to the variance
};
struct LayerNormOptions {
  double eps = 1e-5;   // added to the variance
  bool affine = true;  // with weight, and bias
  bool bias = true;    // false: with weight alone
};
struct LayerNormFields : LayerNormOptions {
  Extents shape = 0;  // of the last axes
};
using GroupNormOptions = LayerNormOptions;  // of the channels
struct GroupNormFields : GroupNormOptions {
  int64_t groups = 0, channels = 0;  // groups divide the C channels
};
// Normalizes the last axes, of extents `shape`; weight and bias of that shape. Ba et al. 2016.
class LayerNorm : public Module {
 public:
  using Fields = LayerNormFields;
  explicit LayerNorm(const Fields& fields);
  explicit LayerNorm(const Extents& shape, const LayerNormOptions& options = {}) : LayerNorm(Fields{options, shape}) {}
  // LayerNorm({4, 5}) is a shape, no struct of fields.
  explicit LayerNorm(std::initializer_list<int64_t> shape, const LayerNormOptions& options = {})
      : LayerNorm(Extents(shape), options) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight, bias;

 private:
  Fields fields_;
};
// (N, C, ...) in groups of channels; weight and bias (C). Wu and He 2018.
class GroupNorm : public Module {
 public:
  using Fields = GroupNormFields;
  explicit GroupNorm(const Fields& fields);
  GroupNorm(WholeNumber groups, WholeNumber channels, const GroupNormOptions& options = {})
      : GroupNorm(Fields{options, groups, channels}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight, bias;

 private:
  Fields fields_;
};

struct InstanceNormFields : NormOptions {
  int64_t channels = 0;   // C
  bool affine = false;    // with weight, and bias
  bool bias = true;       // false: with weight alone
  bool running = false;   // with running statistics, by which evaluation normalizes
  double momentum = 0.1;  // of them: running = (1 - momentum) running + momentum times the mean of the samples'
};
// The function that the following two share: each channel of each sample to mean 0 and variance 1; weight and bias (C)
// where affine. Ulyanov et al. 2016.
class InstanceNorm : public Module {
 public:
  using Fields = InstanceNormFields;
  const Fields& fields() const { return fields_; }
  Variable weight, bias, running_mean, running_var;  // (C) each

 protected:
  explicit InstanceNorm(const Fields& fields);
  // x (N, C, ...) with each channel of each sample at mean 0 and variance 1, or so by the running statistics; times
  // weight plus bias where affine.
  Tensor normalized(const Tensor& x) const;

 private:
  Fields fields_;
};
// For (N, C, L).
class InstanceNorm1d : public InstanceNorm {
 public:
  explicit InstanceNorm1d(const Fields& fields);
  Tensor forward(const Tensor& x) override;
};
// For (N, C, H, W).
class InstanceNorm2d : public InstanceNorm {
 public:
  explicit InstanceNorm2d(const Fields& fields);
  Tensor forward(const Tensor& x) override;
};

struct RMSNormFields {
  double eps = 1.1920928955078125e-07;  // added to the mean square; by default the distance from 1 to the next f32
  bool affine = true;                   // with weight
  Extents shape = 0;                    // of the last axes
};
// x over the root of the mean square of the last axes, of extents `shape`, times weight of that shape. Zhang and
// Sennrich 2019.
class RMSNorm : public Module {
 public:
  using Fields = RMSNormFields;
  explicit RMSNorm(const Fields& fields);
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight;

 private:
  Fields fields_;
};

}  // namespace freight::nn
