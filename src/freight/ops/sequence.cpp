// Front ends of attention and of recurrent layers. See sequence.h.
#include "freight/ops/sequence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/neural.h"
#include "freight/ops/reduce.h"
#include "freight/ops/sequence_internal.h"
#include "freight/ops/shape.h"

namespace freight {

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

double scale_of(const AttentionOptions& o, const Tensor& query) {
  return o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(query.dim(3), 1)));
}

void need_mask(const char* op, const Tensor& mask, const Shape& scores) {
  if (mask.dtype() != DType::boolean && !is_floating(mask.dtype())) {
    ops::fail_here(op, "a mask must be bool (true: seen) or floating (added): got ", mask.type(), "; compare it first");
  }
  bool fits = mask.rank() <= 4;
  for (int i = 1; fits && i <= mask.rank(); ++i) {
    const int64_t extent = mask.dim(-i);
    fits = extent == 1 || extent == scores[4 - i];
  }
  if (!fits)
    ops::fail_here(op, "the mask does not broadcast to (B, H, T, S): expected ", scores, ", got ", mask.type());
}

// The scores with what a mask adds, minus infinity where a query does not see a key.
Tensor masked(const char* op, Tensor scores, const AttentionOptions& o) {
  const Shape shape = scores.shape();
  const int64_t samples = shape[0], queries = shape[2], keys = shape[3];
  const auto show = [&](const Tensor& seen) { scores = where(seen, scores, kHidden); };
  if (o.mask.defined()) {
    need_mask(op, o.mask, shape);
    const bool added = o.mask.dtype() != DType::boolean;
    scores = added ? scores + cast(o.mask, scores.dtype()) : where(o.mask, scores, kHidden);
  }
  if (o.causal) show(iota({queries, keys}, 1) <= iota({queries, keys}, 0));
  if (o.lengths.defined()) {
    if (o.lengths.shape() != Shape{samples} || !is_integer(o.lengths.dtype())) {
      ops::fail_here(op, "lengths must be integers, one per sample: expected (", samples, "), got ", o.lengths.type());
    }
    const Tensor counts = maximum(ops::counts_within(o.lengths, keys, op), 1);
    show(iota({1, 1, 1, keys}, 3) < reshape(counts, {samples, 1, 1, 1}));
  }
  return scores;
}

// The mask as the op takes it: (G, T or 1, S), as wide as scores of type t where it is floating.
Tensor mask_operand(const Tensor& mask, const Shape& scores, DType t, AttentionAttrs& a) {
  need_mask("attention", mask, scores);
  Shape own{1, 1, 1, 1};
  for (int i = 1; i <= mask.rank(); ++i) own[4 - i] = mask.dim(-i);
  a.mask = true;
  a.mask_samples = own[0] != 1;
  a.mask_heads = own[1] != 1;
  const Tensor groups =
      reshape(mask.dtype() == DType::boolean ? mask : cast(mask, t), {own[0] * own[1], own[2], own[3]});
  return broadcast_to(groups, {own[0] * own[1], own[2], scores[3]});
}

}  // namespace

Tensor ops::counts_within(const Tensor& lengths, int64_t most, const char* op) {
  need_types(lengths, dtypes::kInteger, op);
  const bool wide = size_of(lengths.dtype()) > size_of(DType::i32) || lengths.dtype() == DType::u32;
  return cast(wide ? clamp(lengths, 0, most) : lengths, DType::i32);
}

Tensor attention(const In& q, const In& k, const In& v, const AttentionOptions& o) {
  const auto [frame, query] = ops::enter(q, "attention");
  if (query.rank() != 4) ops::fail_here("attention", "expected q (B, H, T, D), got ", query.type());
  std::vector<Tensor> in{query, ops::get(k, "attention"), ops::get(v, "attention")};
  const int64_t keys = in[1].rank() == 4 ? in[1].dim(2) : 0;
  AttentionAttrs a{.scale = scale_of(o, query), .causal = o.causal, .lengths = o.lengths.defined()};
  if (a.lengths) in.push_back(ops::counts_within(o.lengths, keys, "attention"));
  const Shape scores{query.dim(0), query.dim(1), query.dim(2), keys};
  if (o.mask.defined()) in.push_back(mask_operand(o.mask, scores, wide(query.dtype()), a));
  return ops::one(Op::attention, a, in);
}

Tensor attention_weights(const In& q, const In& k, const AttentionOptions& o) {
  constexpr const char* kName = "attention_weights";
  const auto [frame, query] = ops::enter(q, kName);
  const Tensor key = ops::get(k, kName);
  ops::need_floating(query, kName);
  const Shape &qs = query.shape(), &ks = key.shape();
  if (qs.rank() != 4 || ks.rank() != 4 || !(key.type() == Type{query.dtype(), {qs[0], qs[1], ks[2], qs[3]}})) {
    ops::fail_here(kName, "expected q (B, H, T, D) and k (B, H, S, D), got ", query.type(), " and ", key.type());
  }
  const DType t = wide(query.dtype());
  const Tensor scores = masked(kName, matmul(cast(query, t), transpose(cast(key, t))) * scale_of(o, query), o);
  if (!o.mask.defined()) return cast(softmax(scores, -1), query.dtype());
  // Softmax of a query that sees no key would be NaN.
  const Tensor some = not_equal(max(scores, -1, Keep::yes), kHidden);
  return cast(where(some, softmax(where(some, scores, 0.0), -1), 0.0), query.dtype());
}

namespace {
Tensor recurrent(const char* name, std::vector<In> operands, bool gru, const SequenceOptions& o) {
  const Frame frame(operands[0].where, name);
  std::vector<Tensor> in;
  for (const In& operand : operands) in.push_back(ops::get(operand, name));
  if (o.counts.defined()) in.push_back(ops::counts_within(o.counts, in[0].rank() == 3 ? in[0].dim(1) : 0, name));
  const RecurrentAttrs a{.gru = gru, .reverse = o.reverse, .lengths = o.counts.defined()};
  const bool layer = operands.size() > 3;
  return layer ? ops::one(Op::recurrent_layer, RecurrentLayerAttrs{a}, in) : ops::one(Op::recurrent, a, in);
}
}  // namespace

Tensor lstm(const In& x, const In& weight, const SequenceOptions& o) {
  return recurrent("lstm", {x, weight}, false, o);
}

Tensor gru(const In& x, const In& weight, const In& inside, const SequenceOptions& o) {
  return recurrent("gru", {x, weight, inside}, true, o);
}

Tensor lstm_layer(const In& x, const In& weight_ih, const In& bias, const In& weight, const SequenceOptions& o) {
  return recurrent("lstm_layer", {x, weight_ih, bias, weight}, false, o);
}

Tensor gru_layer(const In& x, const In& weight_ih, const In& bias, const In& weight, const In& inside,
                 const SequenceOptions& o) {
  return recurrent("gru_layer", {x, weight_ih, bias, weight, inside}, true, o);
}

}  // namespace freight
