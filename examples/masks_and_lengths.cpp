// Sequences of different lengths: an LSTM with lengths and states reads them, a custom decoder attends to its results,
// and a mask hides the padding. The numbers are PyTorch's for the same weights.
#include <cmath>
#include <cstdio>

#include "freight/freight.h"

using namespace freight;

struct DecoderOptions {
  bool causal = true;
};
// Queries (N, T, C) that see what precedes them, then the memory (N, S, M) but for its padding, bool (N, S).
class Decoder
    : public nn::ModuleOf<Tensor(const Tensor& x, const Tensor& memory, const Tensor& padding), DecoderOptions> {
 public:
  Decoder(int64_t width, int64_t memory_width) {
    itself_ = &add<nn::MultiheadAttention>("itself", width, 2);
    memory_ = &add<nn::MultiheadAttention>(
        "memory", width, 2, nn::MultiheadAttentionOptions{.key_width = memory_width, .value_width = memory_width});
  }
  Tensor forward(const Tensor& x, const Tensor& memory, const Tensor& padding, const DecoderOptions& o) override {
    const Tensor y = x + (*itself_)(x, x, x, {.is_causal = o.causal}).output;
    return y + (*memory_)(y, memory, memory, {.key_padding_mask = padding}).output;
  }

 private:
  nn::MultiheadAttention *itself_, *memory_;
};

double phase = 0;
Array wave(const Shape& shape) {
  Array values(DType::f32, shape);
  for (int64_t i = 0; i < values.numel(); ++i) values.data<float>()[i] = static_cast<float>(std::sin(phase += 1));
  return values;
}

void print(const char* name, const Tensor& t) {
  std::printf("%s:", name);
  for (float v : t.to_vector<float>()) std::printf(" %.3f", static_cast<double>(v) == 0 ? 0.0 : static_cast<double>(v));
  std::printf("\n");
}

int main() {
  nn::LSTM encoder(2, 3, {.bidirectional = true});
  Decoder decoder(4, 6);
  for (const Variable& p : encoder.parameters()) p.set(wave(p.shape()));
  for (const Variable& p : decoder.parameters()) p.set(wave(p.shape()));
  const Tensor words = wave({2, 4, 2}), queries = wave({2, 2, 4}), lengths = Array::of<int64_t>({4, 2}, {2});
  const Tensor padding = iota({2, 4}, 1) >= Tensor(Array::of<int>({4, 2}, {2, 1}));  // true where a word is padding

  auto run = compile([&](const Tensor& x, const Tensor& q, const Tensor& n, const Tensor& hidden) {
    const auto [memory, state] = encoder(x, {.lengths = n});
    return std::array{memory, state.h, state.c, decoder(q, memory, hidden)};
  });
  const auto [memory, h, c, answer] = run(words, queries, lengths, padding);
  print("memory of the shorter one", memory[1]);
  print("last states", h);
  print("last cells", c);
  print("answer", answer);

  // Two halves of a sequence, the second from the last state of the first.
  nn::GRU gru(2, 2);
  for (const Variable& p : gru.parameters()) p.set(wave(p.shape()));
  const auto [first, between] = gru(narrow(words, 1, 0, 2), {});
  const auto [second, end] = gru(narrow(words, 1, 2, 2), {.state = between});
  print("state behind two halves", end.h);
}
