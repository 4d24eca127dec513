// What the tests of planning plan: a model without data, and batches for its steps.
#pragma once
#include <string>

#include "freight/base/philox.h"
#include "freight/plan/training_setup.h"

namespace freight::plan {

// With a learning rate so low that losses stay finite; `shape` "": the model's own.
inline TrainingSetup setup(const std::string& model, const std::string& shape = {},
                           const std::string& optimizer = "sgd") {
  train::Config c;
  c.data.clear();
  c.model = model;
  c.optimizer = optimizer;
  c.lr = 0.001;
  return make_setup(c, shape.empty() ? Shape() : parse_input_shape(shape));
}

// Random numbers; whole ones are below `limit`.
inline Array filled(const Type& type, int64_t limit) {
  Array a(type.dtype, type.shape);
  PhiloxStream rng(5, 0, 0);
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (type.dtype == DType::f32) a.data<float>()[i] = rng.normal();
    if (type.dtype == DType::i32) a.data<int32_t>()[i] = static_cast<int32_t>(rng.below(static_cast<uint32_t>(limit)));
    if (type.dtype == DType::i64) a.data<int64_t>()[i] = rng.below(static_cast<uint32_t>(limit));
  }
  return a;
}

}  // namespace freight::plan
