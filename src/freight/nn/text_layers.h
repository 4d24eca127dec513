// Layers of nets that read tokens. N batch, T tokens, W width of an embedding, C channels; token 0 is padding.
#pragma once
#include "freight/nn/init.h"
#include "freight/nn/layer_type.h"
#include "freight/nn/module.h"

namespace freight::nn {

// The function of its rows that EmbeddingBag computes.
enum class BagMode { mean, sum, max };
struct EmbeddingBagOptions {
  int64_t padding_idx = 0;                 // the token that is skipped; -1: none
  BagMode mode = BagMode::mean;            // of the rows
  WeightInit init = WeightInit::standard;  // normal with deviation 1
};
struct EmbeddingBagFields : EmbeddingBagOptions {
  int64_t rows = 0, width = 0;  // tokens; W
};
// Tokens (N, T) -> (N, W): the mean, sum or maximum of the rows of `weight` (rows, W) over the tokens that are not
// padding, 0 where all are. PyTorch's EmbeddingBag.
class EmbeddingBag : public Module {
 public:
  using Fields = EmbeddingBagFields;
  explicit EmbeddingBag(const Fields& fields);
  EmbeddingBag(WholeNumber rows, WholeNumber width, const EmbeddingBagOptions& options = {})
      : EmbeddingBag(Fields{options, rows, width}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;
  Variable weight;

 private:
  Fields fields_;
};

struct TransposeOptions {
  int64_t a = 1, b = 2;  // the two axes
};
// Swaps two axes: (N, T, W) -> (N, W, T) by default.
class Transpose : public Module {
 public:
  using Fields = TransposeOptions;
  explicit Transpose(const Fields& fields = {});
  Transpose(Axis a, Axis b) : Transpose(Fields{a, b}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

// (N, C, T) -> (N, C): the largest entry of each channel over time. Collobert et al. 2011.
struct MaxOverTime : Module {
  using Fields = NoFields;
  Tensor forward(const Tensor& x) override;
};

}  // namespace freight::nn
