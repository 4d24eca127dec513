// `freight generate`: continues a text with a saved language model; the text appears as it is generated.
#include <cstdio>
#include <optional>
#include <utility>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/train/generate.h"
#include "options.h"

namespace freight::app {

int generate_command(const Args& args) {
  std::string model, device = "auto";
  std::optional<std::string> given_prompt;
  train::GenerateOptions options;
  int64_t seed = 0;
  bool json = false;
  Options o("generate", "Completes a prompt with a saved language model.", "MODEL.safetensors [options]",
            "  freight generate runs/gpt_char-tinyshakespeare/model.safetensors --prompt \"ROMEO:\" --temperature 0.8");
  o.positional("model", &model, "the saved model", true);
  o.add("--prompt", &given_prompt, "the prompt to complete (default: a newline)", {.value = "TEXT"});
  o.add("--max-tokens", &options.max_tokens, "tokens to generate", {.min = 0, .aliases = {"--max-new-tokens"}});
  o.add("--temperature", &options.temperature, "sampling temperature; 0 picks the most likely token", {.min = 0});
  o.add("--top-k", &options.top_k, "sample from this many most likely tokens (0: all)", {.min = 0});
  o.add("--seed", &seed, "random seed of the sampling", {.min = 0});
  o.add("--device", &device, "auto, cpu, ref, cuda:N or opencl:N");
  o.add("--json", &json, "print one JSON document at the end");
  if (o.parse(args) == Options::Outcome::done) return 0;
  const std::string prompt = given_prompt.value_or("\n");
  options.seed = static_cast<uint64_t>(seed);
  signals::install();
  store::Bundle bundle = store::load_net(model, "freight generate");
  bool begun = false;
  std::optional<logging::Held> held(std::in_place);  // warnings are shown after the text
  const train::Generated made = train::generate(
      bundle, prompt, options, {.backend = device == "auto" ? std::string() : device}, [&](const std::string& piece) {
        if (!json) {
          if (!begun) std::fwrite(prompt.data(), 1, prompt.size(), stdout);
          std::fwrite(piece.data(), 1, piece.size(), stdout);
          std::fflush(stdout);
        }
        begun = true;
        return !signals::stop_requested();
      });
  if (json) {
    const nlohmann::ordered_json j = {{"prompt", prompt},
                                      {"text", made.text},
                                      {"tokens", made.tokens},
                                      {"seed", seed},
                                      {"temperature", options.temperature},
                                      {"top_k", options.top_k}};
    std::printf("%s\n", j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else {
    std::printf("\n");
  }
  std::fflush(stdout);
  held.reset();
  return signals::stop_requested() ? signals::exit_code() : 0;
}

}  // namespace freight::app
