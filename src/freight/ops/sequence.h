// Functions over sequences: attention and the recurrent part of LSTM and GRU layers. Each is one node of the graph with
// a plain definition beside it (ir/composites). Layers with their parameters: nn/attention.h, nn/recurrent.h. B batch,
// T steps or queries, S keys, H heads (attention) or hidden numbers (recurrent), D numbers per head.
#pragma once
#include "freight/trace/tensor.h"

namespace freight {

struct AttentionOptions {
  bool causal = false;  // query i sees the keys 0 to i
  double scale = 0;     // of the scores; 0: 1 / sqrt(D)
  Tensor lengths = {};  // integers (B): the keys that each sample has; undefined: all of them
};
// softmax(scale q k^T) v with q (B, H, T, D) and k, v (B, H, S, D) -> (B, H, T, D). Memory grows with T, not with T S.
// A sample of length 0 counts as one of length 1. Vaswani et al. 2017; Dao et al. 2022.
Tensor attention(const In& q, const In& k, const In& v, const AttentionOptions& options = {});

}  // namespace freight
