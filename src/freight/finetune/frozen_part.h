// The part of a network whose results do not change while it is trained: what depends on the sample and on frozen
// weights alone. It ends where the first trained layer, random number or statistic of the batch begins. Its results,
// the features, may be computed once per sample and kept; the rest of the network is a module that takes them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/models/models.h"

namespace freight::finetune {

class FrozenPart {
 public:
  // Looks at the network as it is now, in training or evaluation, for samples of this type (without the batch axis).
  // Nothing is run.
  FrozenPart(const models::Model& model, const Type& sample);

  // True where it computes something.
  bool exists() const { return width_ > 0 && flops_ > 0; }
  int64_t width() const { return width_; }                                   // features of a sample, f32
  Type type() const { return {DType::f32, {1, width_}}; }                    // of these: a channel, as an image has
  double flops() const { return flops_ / 2; }                                // of a sample
  double share() const { return all_flops_ > 0 ? flops_ / all_flops_ : 0; }  // of the FLOPs of a forward pass
  // The layers that it ends before, each with the reason: "fc is trained", "drop1 draws random numbers (dropout)",
  // "bn1 computes over the batch (batch_norm)".
  const std::vector<std::string>& ends() const { return ends_; }

  // The rest of the network as a text, equal for parts whose features the same rest takes.
  std::string rest_text() const;
  // The model that takes features in place of samples. Its network is the rest of this one, with the same variables,
  // and follows its mode.
  models::Model rest() const;
  // Inside a trace: the features f32 (N, width()) of x (N, ...). The network must be in the mode of the constructor. Of
  // tokens there may be another number than in the sample of the constructor, if its part has the same width.
  Tensor features(const Tensor& x) const;

 private:
  models::Model model_;
  Type sample_;
  int64_t width_ = 0;
  double flops_ = 0, all_flops_ = 0;
  std::vector<std::string> ends_;
};

}  // namespace freight::finetune
