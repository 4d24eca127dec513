// Front ends of attention and of recurrent layers. See sequence.h.
#include "freight/ops/sequence.h"

#include <algorithm>
#include <cmath>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"

namespace freight {

Tensor attention(const In& q, const In& k, const In& v, const AttentionOptions& o) {
  const auto [frame, query] = ops::enter(q, "attention");
  if (query.rank() != 4) ops::fail_here("attention", "need q (B, H, T, D): got ", query.type());
  const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(query.dim(3), 1)));
  std::vector<Tensor> in{query, ops::get(k, "attention"), ops::get(v, "attention")};
  if (o.lengths.defined()) in.push_back(cast(o.lengths, DType::i32));
  return ops::one(Op::attention, AttentionAttrs{.scale = scale, .causal = o.causal, .lengths = o.lengths.defined()},
                  in);
}

namespace {
Tensor recurrent(const char* name, std::vector<In> operands, bool gru, const SequenceOptions& o) {
  const Frame frame(operands[0].where);
  std::vector<Tensor> in;
  for (const In& operand : operands) in.push_back(ops::get(operand, name));
  if (o.counts.defined()) in.push_back(cast(o.counts, DType::i32));
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
