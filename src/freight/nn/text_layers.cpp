// See text_layers.h.
#include "freight/nn/text_layers.h"

#include <limits>

#include "freight/base/usage.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

EmbeddingBag::EmbeddingBag(const Fields& fields) : fields_(checked<EmbeddingBag>(fields)) {
  need_below("EmbeddingBag", "padding_idx", static_cast<double>(fields.padding_idx), -kNoLimit,
             static_cast<double>(fields.rows));
  const Shape shape{fields.rows, fields.width};
  weight = parameter("weight", shape, init::embedding(fields.init, shape, fields.padding_idx));
}

Tensor EmbeddingBag::forward(const Tensor& x) {
  if (x.rank() != 2 || is_floating(x.dtype())) {
    trace::fail_here("EmbeddingBag", "expected tokens (N, T), got ", x.type());
  }
  const Tensor given = embedding(x, weight, {.padding_idx = fields_.padding_idx});  // (N, T, W)
  const BagMode mode = fields_.mode;
  if (fields_.padding_idx < 0)
    return mode == BagMode::mean ? mean(given, 1) : mode == BagMode::sum ? sum(given, 1) : max(given, 1);
  const Tensor rows = cast(given, wide(given.dtype()));  // 16 bits cannot count far
  const Tensor is_token = not_equal(x, fields_.padding_idx);
  const Tensor kept = cast(is_token, rows.dtype());  // (N, T)
  const Tensor count = sum(kept, 1, Keep::yes);      // (N, 1)
  if (mode == BagMode::max) {
    const Tensor largest = max(where(unsqueeze(is_token, 2), rows, -std::numeric_limits<float>::infinity()), 1);
    return cast(where(count > 0.0, largest, 0.0), given.dtype());
  }
  const Tensor total = sum(rows * unsqueeze(kept, 2), 1);
  return cast(mode == BagMode::sum ? total : total / maximum(count, 1.0), given.dtype());
}

Transpose::Transpose(const Fields& fields) : fields_(checked<Transpose>(fields)) {}
Tensor Transpose::forward(const Tensor& x) { return transpose(x, fields_.a, fields_.b); }

Tensor MaxOverTime::forward(const Tensor& x) {
  if (x.rank() != 3) trace::fail_here("MaxOverTime", "expected (N, C, T), got ", x.type());
  return max(x, 2);
}

LayerList text_layers() {
  return {
      declared(
          Layer<EmbeddingBag>("EmbeddingBag", "tokens (N, T) to the mean of their rows, (N, width)")
              .required("rows", &EmbeddingBagFields::rows, "vocabulary size")
              .required("width", &EmbeddingBagFields::width, "numbers per token")
              .field("padding_idx", &EmbeddingBagFields::padding_idx, "the padding token, skipped; -1: none",
                     {.least = -1})
              .choice("mode", &EmbeddingBagFields::mode, {"mean", "sum", "max"}, "the mean, sum or maximum of the rows")
              .choice("init", &EmbeddingBagFields::init, weight_init_names(), "`standard`: normal; others see below")
              .weight([](const EmbeddingBagFields& f) {
                return static_cast<double>(f.rows) * static_cast<double>(f.width);
              })),
      declared(Layer<Transpose>("Transpose", "swaps two axes")
                   .field("a", &TransposeOptions::a, "one axis")
                   .field("b", &TransposeOptions::b, "the other")),
      declared(Layer<MaxOverTime>("MaxOverTime", "the largest number of each channel: (N, C, T) to (N, C)")),
  };
}

}  // namespace freight::nn
