// Attention under masks and recurrent layers with states: what PyTorch's values (tests/peers/torch_modules_test.cpp) do
// not show. Queries that see nothing, padding that was announced, calls that follow each other, refusals, specs.
#include <gtest/gtest.h>

#include <cmath>

#include "freight/freight.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace freight::nn {
namespace {

using freight::testing::expect_error;

class Masks : public ::testing::Test {
 protected:
  const DeviceScope on_{"cpu"};
  void SetUp() override { seed(0); }
};

Tensor flags(const std::vector<int>& values, const Shape& shape) {
  return Tensor(Array::of<int>(values, shape).cast(DType::boolean));
}
void expect_near_all(const Tensor& a, const Tensor& b, double tolerance = 1e-6) {
  ASSERT_EQ(a.shape(), b.shape());
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], tolerance) << i;
}

TEST_F(Masks, AQueryThatSeesNothingGetsZeros) {
  const Tensor q = random_normal({1, 1, 2, 3}), k = random_normal({1, 1, 4, 3});
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor shown = flags({1, 0, 1, 1, 0, 0, 0, 0}, {2, 4});
  for (const Tensor& mask : {shown, where(shown, 0.0, full({2, 4}, -inf))}) {
    const Tensor y = attention(q, k, k, {.mask = mask}), w = attention_weights(q, k, {.mask = mask});
    const std::vector<float> weights = w.to_vector<float>(), out = y.to_vector<float>();
    EXPECT_NEAR(weights[0] + weights[2] + weights[3], 1, 1e-6);
    for (size_t i : {1, 4, 5, 6, 7}) EXPECT_EQ(weights[i], 0) << i;
    for (size_t i = 3; i < 6; ++i) EXPECT_EQ(out[i], 0);
    for (float g : grad(sum(square(y)), {q})[0].to_vector<float>()) EXPECT_TRUE(std::isfinite(g));
  }
}

TEST_F(Masks, ThePlainCallIsSelfAttentionOnWhatWasAnnounced) {
  MultiheadAttention m(4, 2, {.causal = true});
  const Tensor x = random_normal({2, 3, 4});
  expect_near_all(m(x), m(x, x, x).output);
  Sequential tokens(Embedding(9, 4, {.padding_idx = 0}), MultiheadAttention(4, 2));
  const Tensor words = Array::of<int>({3, 8, 0, 2, 1, 5}, {2, 3});
  const auto attention = std::dynamic_pointer_cast<MultiheadAttention>(tokens.children()[1].module);
  const Tensor vectors = (*tokens.children()[0].module)(words);
  expect_near_all(
      tokens(words),
      (*attention)(vectors, vectors, vectors, {.key_padding_mask = flags({0, 0, 1, 0, 0, 0}, {2, 3})}).output);
}

TEST_F(Masks, DropoutOfWeightsIsForTrainingOnly) {
  MultiheadAttention m(4, 2, {.dropout = 0.5});
  const Tensor x = random_normal({2, 5, 4});
  EXPECT_NE(m(x).to_vector<float>(), m(x).to_vector<float>());
  m.eval();
  expect_near_all(m(x), m(x, x, x, {.need_weights = true}).output);
  EXPECT_THROW(MultiheadAttention(4, 2, {.dropout = 1}), Error);
}

TEST_F(Masks, MasksThatDoNotFitAreRefusedByName) {
  MultiheadAttention m(4, 2), wide(4, 2, {.key_width = 3});
  const Tensor q = zeros({2, 3, 4}), k = zeros({2, 5, 4});
  const auto refused = [&](const std::vector<std::string>& parts, const AttentionCall& call) {
    expect_error(ErrorKind::usage, parts, [&] { m(q, k, k, call); });
  };
  refused({"attn_mask does not fit: expected (T, S) = [3,5], (N H, T, S) = [4,3,5], (N, T, S) = [2,3,5] or what "
           "broadcasts to (N, H, T, S) = [2,2,3,5], got bool[5,3]"},
          {.attn_mask = flags(std::vector<int>(15), {5, 3})});
  refused({"attn_mask does not fit", "(N H, T, S) = [4,3,5]"}, {.attn_mask = zeros({3, 3, 5})});
  refused({"key_padding_mask does not fit: expected (N, S) = [2,5], got f32[2,3]"},
          {.key_padding_mask = zeros({2, 3})});
  refused({"attn_mask must be bool (true: hidden) or floating (added): got i32[3,5]"},
          {.attn_mask = zeros({3, 5}, DType::i32)});
  expect_error(ErrorKind::usage, {"expected key (N, S, 4)", "got f32[2,5,4] and f32[2,4,4]"}, [&] {
    m(q, k, zeros({2, 4, 4}));
  });
  expect_error(ErrorKind::usage, {"expected keys of width 3"}, [&] { wide(q); });
  expect_error(
      ErrorKind::usage, {"attention: the mask does not broadcast to (B, H, T, S): expected [1,1,2,4], got bool[3]"},
      [&] {
        attention(zeros({1, 1, 2, 3}), zeros({1, 1, 4, 3}), zeros({1, 1, 4, 3}), {.mask = flags({1, 1, 1}, {3})});
      });
}

TEST_F(Masks, WidthsOfKeysAreFieldsOfSpecs) {
  const MultiheadAttention m(4, 2, {.key_width = 3, .value_width = 5});
  std::vector<std::string> names;
  for (const NamedVariable& v : m.state_dict()) names.push_back(v.name);
  EXPECT_EQ(names, (std::vector<std::string>{"q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias",
                                             "out_proj.weight", "out_proj.bias"}));
  EXPECT_EQ(m.config().settings.size(), 4u);  // width, heads and these two
  EXPECT_EQ(MultiheadAttention(4, 2).config().settings.size(), 2u);
}

template <class Layer>
void expect_parts_to_be_the_whole() {
  Layer m(3, 4, {.layers = 2});
  const Tensor x = random_normal({2, 7, 3});
  const RecurrentOutput whole = m(x, {}), first = m(narrow(x, 1, 0, 3), {}),
                        second = m(narrow(x, 1, 3, 4), {.state = first.state});
  expect_near_all(m(x), whole.output);
  expect_near_all(concat({first.output, second.output}, 1), whole.output);
  expect_near_all(second.state.h, whole.state.h);
  if (whole.state.c.defined()) expect_near_all(second.state.c, whole.state.c);
  const RecurrentOutput counted = m(x, {.lengths = Array::of<int>({7, 3}, {2})});
  expect_near_all(narrow(narrow(counted.state.h, 1, 1, 1), 0, 1, 1), narrow(narrow(first.state.h, 1, 1, 1), 0, 1, 1));
  // Of 64 bits: 2^32 + 1 is no 1.
  const RecurrentOutput wide = m(x, {.lengths = Array::of<int64_t>({(int64_t{1} << 32) + 1, 3}, {2})});
  EXPECT_EQ(wide.output.to_vector<float>(), counted.output.to_vector<float>());
  for (float v : narrow(narrow(counted.output, 0, 1, 1), 1, 3, 4).to_vector<float>()) EXPECT_EQ(v, 0);
}

TEST_F(Masks, ASequenceInTwoCallsIsTheSequence) {
  expect_parts_to_be_the_whole<LSTM>();
  expect_parts_to_be_the_whole<GRU>();
}

TEST_F(Masks, AnnouncedPaddingIsTheLengthWhereNoneIsGiven) {
  Embedding embedding(9, 3, {.padding_idx = 0});
  struct Encoder : Module {
    Embedding& words = add<Embedding>("words", 9, 3, EmbeddingOptions{.padding_idx = 0});
    LSTM& rnn = add<LSTM>("rnn", 3, 4, RecurrentOptions{.bidirectional = true});
    Tensor forward(const Tensor& x) override { return rnn(words(x), {}).state.h; }
  } encoder;
  const auto states = [&](const std::vector<int>& tokens) {
    return encoder(Tensor(Array::of<int>(tokens, {1, static_cast<int64_t>(tokens.size())})));
  };
  expect_near_all(states({3, 8, 2}), states({3, 8, 2, 0, 0}));
}

TEST_F(Masks, StatesThatDoNotFitAreRefusedByName) {
  LSTM lstm(3, 4);
  GRU gru(3, 4);
  const Tensor x = zeros({2, 5, 3}), h = zeros({1, 2, 4});
  expect_error(ErrorKind::usage,
               {"LSTM: state h does not fit: expected (layers * directions, N, H) = [1,2,4], got f32[2,4]",
                "(layers * directions, N, H) = [1,2,4]"},
               [&] {
                 lstm(x, {.state = {zeros({2, 4}), h}});
               });
  expect_error(ErrorKind::usage, {"LSTM: a state is h and c: got h alone"}, [&] { lstm(x, {.state = {h}}); });
  expect_error(ErrorKind::usage, {"GRU: has no cell state"}, [&] { gru(x, {.state = {h, h}}); });
  expect_error(ErrorKind::usage, {"GRU: lengths must be integers, one per sample: expected (2), got f32[2]"},
               [&] { gru(x, {.lengths = zeros({2})}); });
  expect_error(ErrorKind::usage, {"expected (N, T, 3)"}, [&] { lstm(zeros({2, 5, 4}), {}); });
}

}  // namespace
}  // namespace freight::nn
