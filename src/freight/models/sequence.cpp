// Nets over tokens i32 (N, T) with 0 as padding: a transformer for characters, and recurrent classifiers.
#include "freight/base/usage.h"
#include "freight/models/zoo_internal.h"

namespace freight::models {

namespace {

template <class Layer>
nn::Sequential recurrent_text(const Task& task) {
  const Options& o = task.options;
  const int64_t width = o.width > 0 ? o.width : 128;
  const nn::RecurrentOptions options{.layers = o.layers > 0 ? o.layers : 1,
                                     .bidirectional = o.bidirectional,
                                     .dropout = o.layers > 1 ? o.dropout : 0,
                                     .last = true,
                                     .memory = task.input[0]};
  nn::Sequential net;
  net.append("embedding", nn::Embedding(task.vocabulary, width, {.padding_idx = 0}))
      .append("rnn", Layer(width, width, options));  // (N, W), or (N, 2 W) of both directions
  if (o.dropout > 0) net.append("dropout", nn::Dropout(o.dropout));
  net.append("fc", nn::Linear(o.bidirectional ? 2 * width : width, task.classes));
  return net;
}

}  // namespace

nn::Sequential gpt_char(const Task& task) {
  constexpr int64_t kHead = 64;
  const int64_t depth = task.options.layers > 0 ? task.options.layers : 6;
  const int64_t width = task.options.width > 0 ? task.options.width : 384;
  need_multiple("gpt_char", "width, by that of a head", width, kHead);
  const double dropout = task.options.dropout;
  nn::Sequential net, blocks;
  net.append("embedding", nn::Embedding(task.vocabulary, width, {.deviation = 0.02}))
      .append("positions", nn::PositionEmbedding(task.input[0], width));
  if (dropout > 0) net.append("dropout", nn::Dropout(dropout));
  for (int64_t i = 0; i < depth; ++i) {
    blocks.append(nn::TransformerBlock(width, width / kHead, {.causal = true, .dropout = dropout, .depth = depth}));
  }
  net.append("blocks", std::move(blocks))
      .append("norm", nn::LayerNorm(width))
      .append("head", nn::Linear(width, task.vocabulary,
                                 {.init = nn::WeightInit::normal, .bias_init = nn::BiasInit::zero, .deviation = 0.02}));
  return net;  // (N, T, V)
}

nn::Sequential lstm_text(const Task& task) { return recurrent_text<nn::LSTM>(task); }
nn::Sequential gru_text(const Task& task) { return recurrent_text<nn::GRU>(task); }

}  // namespace freight::models
