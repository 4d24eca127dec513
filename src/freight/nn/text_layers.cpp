// See text_layers.h.
#include "freight/nn/text_layers.h"

#include "freight/base/error.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

EmbeddingBag::EmbeddingBag(int64_t rows, int64_t width, const EmbeddingBagOptions& options) : options_(options) {
  if (rows < 1 || width < 1) {
    fail(ErrorKind::usage, "EmbeddingBag", "rows and width must be positive: got ", rows, " and ", width);
  }
  if (options.padding_idx >= rows) {
    fail(ErrorKind::usage, "EmbeddingBag", "padding_idx ", options.padding_idx, " is not a row: need below ", rows);
  }
  weight = parameter("weight", {rows, width}, init::embedding(options.init, {rows, width}, options.padding_idx));
}

Tensor EmbeddingBag::forward(const Tensor& x) {
  if (x.rank() != 2 || is_floating(x.dtype())) {
    trace::fail_here("EmbeddingBag", "need tokens (N, T): got ", x.type());
  }
  const Tensor rows = embedding(x, weight, options_.padding_idx);  // (N, T, W)
  if (options_.padding_idx < 0) return mean(rows, 1);
  const Tensor kept = cast(not_equal(x, options_.padding_idx), rows.dtype());  // (N, T)
  const Tensor count = maximum(sum(kept, 1, Keep::yes), 1.0);                  // (N, 1)
  return sum(rows * unsqueeze(kept, 2), 1) / count;
}

Config EmbeddingBag::config() const {
  return Config{"EmbeddingBag"}
      .integer("rows", weight.shape()[0])
      .integer("width", weight.shape()[1])
      .integer("padding_idx", options_.padding_idx, 0)
      .text("init", to_string(options_.init), "standard");
}

Tensor Transpose::forward(const Tensor& x) { return transpose(x, a_, b_); }
Config Transpose::config() const { return Config{"Transpose"}.integer("a", a_, 1).integer("b", b_, 2); }

Tensor MaxOverTime::forward(const Tensor& x) {
  if (x.rank() != 3) trace::fail_here("MaxOverTime", "need (N, C, T): got ", x.type());
  return max(x, 2);
}

}  // namespace freight::nn
