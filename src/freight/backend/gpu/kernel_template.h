// Kernel sources as raw string literals: a template is C++ in which words such as `$real` or `$x(i, j)` stand for what
// is known only when the kernel is built. It knows no kernel; kernel_text.h takes the filled text.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace freight::gpu {

// The text that replaces a word: fixed, or made from the arguments that follow the word in parentheses.
class Word {
 public:
  using Arguments = std::vector<std::string>;
  using OfOne = std::function<std::string(const std::string&)>;
  using OfTwo = std::function<std::string(const std::string&, const std::string&)>;

  Word(std::string text) : text_(std::move(text)) {}
  Word(const char* text) : text_(text) {}
  Word(int64_t number) : text_(std::to_string(number)) {}
  Word(OfOne make) : arguments_(1), make_([make = std::move(make)](const Arguments& a) { return make(a[0]); }) {}
  Word(OfTwo make) : arguments_(2), make_([make = std::move(make)](const Arguments& a) { return make(a[0], a[1]); }) {}

  size_t arguments() const { return arguments_; }
  std::string text(const Arguments& arguments) const { return make_ ? make_(arguments) : text_; }

 private:
  std::string text_;
  size_t arguments_ = 0;
  std::function<std::string(const Arguments&)> make_;
};
using Words = std::map<std::string, Word>;

// The template with every word replaced, those within arguments too. A word that `words` lacks is an internal error.
std::string filled(std::string_view text, const Words& words);

// A statement without its semicolon, which the template writes behind the word. There is none behind a block or an
// empty text.
std::string statement(std::string text);

}  // namespace freight::gpu
