// Completes a text with a saved language model, token by token. The network takes windows of one length, so that one
// plan suffices: a shorter text is padded at its end and the result is read at its last token; a longer text is cut at
// its beginning. A token must therefore depend only on those before it, as in every causal language model.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "freight/store/bundle.h"
#include "freight/trace/compile.h"

namespace freight::train {

struct GenerateOptions {
  int64_t max_tokens = 200;
  double temperature = 1;  // logits are divided by it; 0: always the most likely token
  int64_t top_k = 0;       // samples among this many most likely tokens; 0: among all
  uint64_t seed = 0;
};
struct Generated {
  std::string text;  // without the prompt
  std::vector<int32_t> tokens;
};

// `piece` is called with each token's text as soon as it is known; false stops. Padding and unknown tokens are never
// sampled. Random numbers depend only on the seed and the position. Throws Error(usage) if the model is not a language
// model or an option is invalid, and Error(data) for a prompt that is empty or not UTF-8.
Generated generate(store::Bundle& bundle, const std::string& prompt, const GenerateOptions& options = {},
                   const CompileOptions& compile_options = {},
                   const std::function<bool(const std::string& piece)>& piece = {});

}  // namespace freight::train
