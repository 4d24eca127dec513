// The parts that both kinds of training step (step.cpp, part_step.cpp) share, as ops of a trace.
#pragma once
#include <vector>

#include "freight/finetune/rates.h"
#include "freight/models/models.h"
#include "freight/optim/ema.h"
#include "freight/optim/loss_scale.h"
#include "freight/optim/optimizer.h"
#include "freight/optim/unused_parameters.h"
#include "freight/trace/tensor.h"

namespace freight::train {

class DeviceData;
struct Config;

// The learning rates of the layers that a configuration asks for.
finetune::RateSettings rate_settings(const Config& config);

// The optimizer's gradients. With `scale` the loss is scaled, and they are f32 with the factor divided out again.
// Parameters that the loss does not use are added to `unused`; null: they are an error.
std::vector<Tensor> gradients_of(const Tensor& loss, const optim::Optimizer& optimizer, const optim::LossScale* scale,
                                 optim::UnusedParameters* unused);

// Updates all weights, unless a gradient is NaN or infinite, or an earlier loss was. `ema`, `scale` and `data` may be
// null.
void update(optim::Optimizer& optimizer, optim::EMA* ema, const optim::LossScale* scale, const Tensor& loss,
            const std::vector<Tensor>& gradients, const DeviceData* data = nullptr);

// The number of correct predictions; for mixed labels the class with the larger weight counts.
Tensor right_of(const models::Model& model, const Tensor& outputs, const Tensor& y);

inline Type type_of(const Array& a) { return {a.dtype(), a.shape()}; }

// The type of a batch of `count` samples.
Type rows(const Type& t, int64_t count);

}  // namespace freight::train
