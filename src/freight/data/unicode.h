// What the text readers and tokenizers need of Unicode: checking UTF-8, walking over code points, normal form and
// character classes. The tables are utf8proc's; nothing outside unicode.cpp includes it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace freight::data {

// UTF-8 files may begin with it.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Where the first byte stands that is not part of valid UTF-8; none where all is.
std::optional<size_t> utf8_fault(std::string_view text);
// The code point that begins at `at`, and `at` behind it. `text` is valid UTF-8 and `at` inside.
int32_t next_code_point(std::string_view text, size_t& at);
void append_utf8(std::string& out, int32_t code_point);

// NFKC with case folding, without default ignorable characters (soft hyphen, zero-width space): one spelling per word.
// Throws Error(data) that says where for text that is not UTF-8.
std::string fold(std::string_view text);

// NFC, the form with composed accents; what is not UTF-8 stays as it is.
std::string composed(std::string_view text);

// letter: letters and the marks on them. ideograph: scripts without spaces, where each character stands alone (Han,
// Hiragana, Katakana). space: separators and controls. other: punctuation and symbols.
enum class CharClass { letter, digit, ideograph, space, other };
CharClass char_class(int32_t code_point);

}  // namespace freight::data
