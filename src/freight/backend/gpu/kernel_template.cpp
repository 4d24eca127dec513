// See kernel_template.h.
#include "freight/backend/gpu/kernel_template.h"

#include <cctype>

#include "freight/base/error.h"

namespace freight::gpu {

namespace {

bool in_word(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \n"), last = text.find_last_not_of(" \n");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last + 1 - first));
}

// The arguments of the parentheses that open at `at`, which moves behind them.
Word::Arguments arguments_at(std::string_view text, size_t& at) {
  Word::Arguments arguments;
  int depth = 0;
  for (size_t begin = at + 1; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (depth == 0 || (depth == 1 && c == ',')) {
      arguments.push_back(trimmed(text.substr(begin, at - begin)));
      begin = at + 1;
    }
    if (depth == 0) break;
  }
  ++at;
  return arguments;
}

}  // namespace

std::string filled(std::string_view text, const Words& words) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '$') {
      out += text[at++];
      continue;
    }
    const size_t begin = ++at;
    while (at < text.size() && in_word(text[at])) ++at;
    const std::string name(text.substr(begin, at - begin));
    const auto word = words.find(name);
    FREIGHT_CHECK(word != words.end(), "a kernel template contains $", name, ", which has no text");
    Word::Arguments arguments;
    if (word->second.arguments() > 0) {
      arguments = arguments_at(text, at);
      FREIGHT_CHECK(arguments.size() == word->second.arguments(), "$", name, " takes ", word->second.arguments(),
                    " arguments, got ", arguments.size());
      for (std::string& argument : arguments) argument = filled(argument, words);
    }
    const std::string replacement = word->second.text(arguments);
    // Neither a block nor nothing at all ends with a semicolon.
    const bool bare = replacement.empty() || replacement.back() == '}';
    if (bare && at < text.size() && text[at] == ';') ++at;
    out += replacement;
  }
  return out;
}

std::string statement(std::string text) {
  text = trimmed(text);
  if (!text.empty() && text.back() == ';') text.pop_back();
  return text;
}

}  // namespace freight::gpu
