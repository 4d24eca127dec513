// Front ends of attention and of recurrent layers. See sequence.h.
#include "freight/ops/sequence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/neural.h"
#include "freight/ops/sequence_internal.h"
#include "freight/ops/shape.h"

namespace freight {

namespace {

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

// Which keys a query sees, undefined for all of them, and what is added to the scores.
struct Sight {
  Tensor seen, bias;

  void narrow(const Tensor& to) { seen = seen.defined() ? logical_and(seen, to) : to; }
};

Sight sight_of(const char* op, const AttentionOptions& o, const Shape& scores) {
  const int64_t samples = scores[0], queries = scores[2], keys = scores[3];
  Sight s;
  if (o.causal) s.narrow(iota({queries, keys}, 1) <= iota({queries, keys}, 0));
  if (o.lengths.defined()) {
    if (o.lengths.shape() != Shape{samples} || !is_integer(o.lengths.dtype())) {
      ops::fail_here(op, "lengths must be integers, one per sample: expected (", samples, "), got ", o.lengths.type());
    }
    const Tensor counts = maximum(ops::counts_within(o.lengths, keys, op), 1);
    s.narrow(iota({1, 1, 1, keys}, 3) < reshape(counts, {samples, 1, 1, 1}));
  }
  if (o.mask.defined()) {
    need_mask(op, o.mask, scores);
    if (o.mask.dtype() == DType::boolean) {
      s.narrow(o.mask);
    } else {
      // A score of minus infinity is hidden as one that a bool hides: softmax of nothing else would be NaN.
      const Tensor finite = not_equal(o.mask, -std::numeric_limits<double>::infinity());
      s.bias = where(finite, o.mask, 0.0);
      s.narrow(finite);
    }
  }
  return s;
}

// Not rounded to 16 bits.
Tensor wide_weights(const char* op, const Tensor& query, const Tensor& key, const AttentionOptions& o) {
  ops::need_floating(query, op);
  const Shape &q = query.shape(), &k = key.shape();
  if (q.rank() != 4 || k.rank() != 4 || q[0] != k[0] || q[1] != k[1] || q[3] != k[3] || query.dtype() != key.dtype()) {
    ops::fail_here(op, "expected q (B, H, T, D) and k (B, H, S, D), got ", query.type(), " and ", key.type());
  }
  const Shape shape{q[0], q[1], q[2], k[2]};
  const DType t = wide(query.dtype());
  Tensor scores = matmul(cast(query, t), transpose(cast(key, t))) * scale_of(o, query);
  const Sight sight = sight_of(op, o, shape);
  if (sight.bias.defined()) scores = scores + cast(sight.bias, t);
  if (!sight.seen.defined()) return softmax(scores, -1);
  return where(sight.seen, softmax(where(sight.seen, scores, -1e30), -1), 0.0);
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
  if (o.mask.defined()) {
    const Tensor &key = in[1], &value = in[2];
    if (!(key.type() == value.type())) {
      ops::fail_here("attention", "k and v must have equal types: got ", key.type(), " and ", value.type());
    }
    const Tensor weights = wide_weights("attention", query, key, o);
    return cast(matmul(weights, cast(value, weights.dtype())), query.dtype());
  }
  if (o.lengths.defined()) {
    const Shape& key = in[1].shape();
    in.push_back(ops::counts_within(o.lengths, key.rank() == 4 ? key[2] : 0, "attention"));
  }
  return ops::one(Op::attention,
                  AttentionAttrs{.scale = scale_of(o, query), .causal = o.causal, .lengths = o.lengths.defined()}, in);
}

Tensor attention_weights(const In& q, const In& k, const AttentionOptions& o) {
  const auto [frame, query] = ops::enter(q, "attention_weights");
  return cast(wide_weights("attention_weights", query, ops::get(k, "attention_weights"), o), query.dtype());
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
