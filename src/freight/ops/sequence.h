// Functions over sequences: attention and the recurrent part of LSTM and GRU layers. Each is one node of the graph with
// a plain definition beside it (ir/composites). Layers with their parameters: nn/attention.h, nn/recurrent.h. B batch,
// T steps or queries, S keys, H heads (attention) or hidden numbers (recurrent), D numbers per head.
#pragma once
#include "freight/trace/tensor.h"

namespace freight {

// Settings of attention.
struct AttentionOptions {
  bool causal = false;  // query i sees the keys 0 to i
  double scale = 0;     // of the scores; 0: 1 / sqrt(D)
  Tensor lengths = {};  // integers (B): the keys that each sample has; undefined: all of them
  Tensor mask = {};     // broadcast to (B, H, T, S): bool, true where a query sees a key; floating, added to the scores
};
// softmax(scale q k^T + mask) v with q (B, H, T, D) and k, v (B, H, S, D) -> (B, H, T, D). Memory grows with T, not
// with T S, but in the gradient of a mask. A sample of length 0 counts as one of length 1; a query to which a mask
// shows no key (none true, all minus infinity) gets zeros, as from PyTorch's scaled_dot_product_attention. Vaswani et
// al. 2017; Dao et al. 2022.
Tensor attention(const In& q, const In& k, const In& v, const AttentionOptions& options = {});
// The factors of the values alone, softmax(scale q k^T) (B, H, T, S).
Tensor attention_weights(const In& q, const In& k, const AttentionOptions& options = {});

// Settings of the recurrent functions.
struct SequenceOptions {
  bool reverse = false;  // from the last step to the first
  Tensor counts = {};    // integers (N): the tokens of each sample, behind which it keeps its state; undefined: T
};
// The states (N, T, H) behind each step of a recurrent layer, from x (N, T, G H), the inputs' part of the gates with
// its biases, and weight (G H, H), by which the state before is multiplied; before the first one it is zeros.
// Gates i f g o (G 4). Hochreiter and Schmidhuber 1997.
Tensor lstm(const In& x, const In& weight, const SequenceOptions& options = {});
// Gates r z n (G 3); `inside` (H) is added to the part of n that r scales. Cho et al. 2014.
Tensor gru(const In& x, const In& weight, const In& inside, const SequenceOptions& options = {});
// The same from the inputs x (N, T, D) themselves, which weight_ih (G H, D) and bias (G H) make that part of.
Tensor lstm_layer(const In& x, const In& weight_ih, const In& bias, const In& weight,
                  const SequenceOptions& options = {});
// gru from the inputs x (N, T, D) themselves, as lstm_layer.
Tensor gru_layer(const In& x, const In& weight_ih, const In& bias, const In& weight, const In& inside,
                 const SequenceOptions& options = {});

}  // namespace freight
