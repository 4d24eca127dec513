// Nets over tokens i32 (N, T) with 0 as padding: a transformer for characters, and recurrent classifiers.
#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

template <class Layer>
nn::Sequential recurrent_text(const Task& task) {
  constexpr int64_t kWidth = 128, kHidden = 128;
  const Options& o = task.options;
  const nn::RecurrentOptions options{.layers = o.layers > 0 ? o.layers : 1,
                                     .bidirectional = o.bidirectional,
                                     .dropout = o.layers > 1 ? o.dropout : 0,
                                     .last = true};
  nn::Sequential net;
  net.append("embedding", nn::Embedding(task.vocabulary, kWidth, {.padding_idx = 0}))
      .append("rnn", Layer(kWidth, kHidden, options));  // (N, 128), or (N, 256) of both directions
  if (o.dropout > 0) net.append("dropout", nn::Dropout(o.dropout));
  net.append("fc", nn::Linear(o.bidirectional ? 2 * kHidden : kHidden, task.classes));
  return net;
}

}  // namespace

nn::Sequential gpt_char(const Task& task) {
  constexpr int64_t kWidth = 384, kHeads = 6;
  const int64_t depth = task.options.layers > 0 ? task.options.layers : 6;
  const double dropout = task.options.dropout;
  nn::Sequential net, blocks;
  net.append("embedding", nn::Embedding(task.vocabulary, kWidth, {.deviation = 0.02}))
      .append("positions", nn::PositionEmbedding(task.input[0], kWidth));
  if (dropout > 0) net.append("dropout", nn::Dropout(dropout));
  for (int64_t i = 0; i < depth; ++i) {
    blocks.append(nn::TransformerBlock(kWidth, kHeads, {.causal = true, .dropout = dropout, .depth = depth}));
  }
  net.append("blocks", std::move(blocks))
      .append("norm", nn::LayerNorm(kWidth))
      .append("head", nn::Linear(kWidth, task.vocabulary,
                                 {.init = nn::WeightInit::normal, .bias_init = nn::BiasInit::zero, .deviation = 0.02}));
  return net;  // (N, T, V)
}

nn::Sequential lstm_text(const Task& task) { return recurrent_text<nn::LSTM>(task); }
nn::Sequential gru_text(const Task& task) { return recurrent_text<nn::GRU>(task); }

}  // namespace freight::models
