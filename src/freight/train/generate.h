// Continuing a text with a stored language model, token by token. The net sees windows of one length, so that one plan
// serves: a shorter text is padded behind, and the result is read where the text ends; of a longer one the end is seen.
// So a token must depend on those before it alone, as in every language model.
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
  double temperature = 1;  // logits are divided by it; 0: always the likeliest token
  int64_t top_k = 0;       // draws among so many likeliest tokens; 0: among all
  uint64_t seed = 0;
};
struct Generated {
  std::string text;  // without the prompt
  std::vector<int32_t> tokens;
};

// `piece` is called with each token's text as soon as it is known; false stops. Padding and unknown tokens are never
// drawn. The draws depend on the seed and the place alone. Throws Error(usage) for a model that is no language model or
// options that cannot work, Error(data) for a prompt that is empty or not UTF-8.
Generated generate(store::Bundle& bundle, const std::string& prompt, const GenerateOptions& options = {},
                   const CompileOptions& compile_options = {},
                   const std::function<bool(const std::string& piece)>& piece = {});

}  // namespace freight::train
