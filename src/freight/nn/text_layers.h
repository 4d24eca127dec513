// Layers of nets that read tokens. N batch, T tokens, W width of an embedding, C channels; token 0 is padding.
#pragma once
#include "freight/nn/init.h"
#include "freight/nn/module.h"

namespace freight::nn {

struct EmbeddingBagOptions {
  int64_t padding_idx = 0;                 // the token that is left out of the mean; -1: none
  WeightInit init = WeightInit::standard;  // normal with deviation 1
};
// Tokens (N, T) -> (N, W): the mean of the rows of `weight` (rows, W) over the tokens that are not padding, 0 where all
// are. PyTorch's EmbeddingBag with mode "mean".
class EmbeddingBag : public Module {
 public:
  EmbeddingBag(int64_t rows, int64_t width, const EmbeddingBagOptions& options = {});
  Tensor forward(const Tensor& x) override;
  Config config() const override;
  Variable weight;

 private:
  EmbeddingBagOptions options_;
};

// Swaps two axes: (N, T, W) -> (N, W, T) by default.
class Transpose : public Module {
 public:
  explicit Transpose(int64_t a = 1, int64_t b = 2) : a_(a), b_(b) {}
  Tensor forward(const Tensor& x) override;
  Config config() const override;

 private:
  int64_t a_, b_;
};

// (N, C, T) -> (N, C): the largest entry of each channel over time. Collobert et al. 2011.
struct MaxOverTime : Module {
  Tensor forward(const Tensor& x) override;
  Config config() const override { return {"MaxOverTime"}; }
};

}  // namespace freight::nn
