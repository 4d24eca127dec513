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
Tensor recurrent(std::vector<Tensor> in, bool gru, const SequenceOptions& o) {
  if (o.counts.defined()) in.push_back(cast(o.counts, DType::i32));
  const RecurrentAttrs a{.gru = gru, .reverse = o.reverse, .lengths = o.counts.defined()};
  return trace::add(Op::recurrent, a, in)[0];
}
}  // namespace

Tensor lstm(const In& x, const In& weight, const SequenceOptions& o) {
  const auto [frame, part] = ops::enter(x, "lstm");
  return recurrent({part, ops::get(weight, "lstm")}, false, o);
}

Tensor gru(const In& x, const In& weight, const In& inside, const SequenceOptions& o) {
  const auto [frame, part] = ops::enter(x, "gru");
  return recurrent({part, ops::get(weight, "gru"), ops::get(inside, "gru")}, true, o);
}

}  // namespace freight
