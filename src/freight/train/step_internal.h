// The parts of a training step that its forms share (step.cpp, part_step.cpp), as ops of a trace.
#pragma once
#include <vector>

#include "freight/models/models.h"
#include "freight/optim/ema.h"
#include "freight/optim/loss_scale.h"
#include "freight/optim/optimizer.h"
#include "freight/trace/tensor.h"

namespace freight::train {

class DeviceData;

// The gradients by the optimizer's parameters; scaled on the way where `scale` is not null.
std::vector<Tensor> gradients_of(const Tensor& loss, const optim::Optimizer& optimizer, const optim::LossScale* scale);

// The update of all weights, where nothing is infinite, nor was before. `ema`, `scale` and `data` may be null.
void update(optim::Optimizer& optimizer, optim::EMA* ema, const optim::LossScale* scale, const Tensor& loss,
            const std::vector<Tensor>& gradients, const DeviceData* data = nullptr);

// The number of outputs that are right; where labels are mixed, by the larger share.
Tensor right_of(const models::Model& model, const Tensor& outputs, const Tensor& y);

inline Type type_of(const Array& a) { return {a.dtype(), a.shape()}; }

// The type of a batch of so many samples.
Type rows(const Type& t, int64_t count);

}  // namespace freight::train
