// See generate.h.
#include "freight/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/usage.h"
#include "freight/nn/evaluating.h"
#include "freight/ops/index.h"
#include "freight/ops/shape.h"

namespace freight::train {

namespace {

constexpr uint32_t kDrawStream = 0x67656e72;

// Tokens (1, T) and a place (1) in them: the logits there, (1, V).
struct NextTokenStep {
  const models::Model* model;
  Tensor operator()(const Tensor& tokens, const Tensor& place) const {
    const Tensor logits = (*model->net)(tokens);  // (1, T, V)
    return gather(reshape(logits, {logits.dim(1), logits.dim(2)}), place, 0);
  }
};

// `logits` of the tokens below `size`.
int32_t draw(const float* logits, int64_t size, const GenerateOptions& o, float random) {
  std::vector<int32_t> order(static_cast<size_t>(size) - 2);
  std::iota(order.begin(), order.end(), int32_t{2});  // neither padding nor unknown
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (o.temperature == 0) return order[0];
  const size_t kept = o.top_k > 0 ? std::min(order.size(), static_cast<size_t>(o.top_k)) : order.size();
  std::vector<double> up_to(kept);
  double total = 0;
  for (size_t i = 0; i < kept; ++i) {
    total += std::exp(static_cast<double>(logits[order[i]] - logits[order[0]]) / o.temperature);
    up_to[i] = total;
  }
  const auto it = std::upper_bound(up_to.begin(), up_to.end(), static_cast<double>(random) * total);
  return order[std::min(static_cast<size_t>(it - up_to.begin()), kept - 1)];
}

void check(const store::Bundle& bundle, const GenerateOptions& o) {
  if (!bundle.preprocessing.text() || !bundle.model.language_model()) {
    fail(ErrorKind::usage, bundle.model.name, "is not a language model: it returns ", bundle.model.output_type(1),
         ", expected (N, T, vocabulary)");
  }
  need_at_least("--max-tokens", {}, static_cast<double>(o.max_tokens), 0);
  need_at_least("--temperature", {}, o.temperature, 0);
  need_at_least("--top-k", {}, static_cast<double>(o.top_k), 0);
}

}  // namespace

Generated generate(store::Bundle& bundle, const std::string& prompt, const GenerateOptions& options,
                   const CompileOptions& compile_options, const std::function<bool(const std::string&)>& piece) {
  check(bundle, options);
  const data::Tokenizer& tokenizer = *bundle.preprocessing.tokenizer;
  std::vector<int32_t> tokens = tokenizer.encode(prompt);
  if (tokens.empty()) fail(ErrorKind::data, "--prompt", "is empty: expected a text to continue");
  const size_t given = tokens.size(), before = tokenizer.decode(tokens).size();
  const int64_t length = bundle.preprocessing.input[0];
  const nn::Evaluating evaluating(*bundle.model.net);
  auto step = compile(NextTokenStep{&bundle.model}, compile_options);
  Generated out;
  for (int64_t i = 0; i < options.max_tokens; ++i) {
    const auto seen = std::min(length, static_cast<int64_t>(tokens.size()));
    Array window(DType::i32, {1, length}), place(DType::i32, {1});
    std::copy(tokens.end() - seen, tokens.end(), window.data<int32_t>());
    place.data<int32_t>()[0] = static_cast<int32_t>(seen - 1);
    const Array logits = step(window, place).array();
    const float random = random_uniform(options.seed, 0, kDrawStream, static_cast<uint64_t>(i));
    tokens.push_back(draw(logits.data<float>(), tokenizer.size(), options, random));
    const std::string text = tokenizer.decode(tokens).substr(before);  // a space between words belongs to the second
    const std::string fresh = text.substr(out.text.size());
    out.text = text;
    if (piece && !piece(fresh)) break;
  }
  out.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(given), tokens.end());
  return out;
}

}  // namespace freight::train
