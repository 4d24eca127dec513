// Unicode functions for text readers and tokenizers: UTF-8 validation, iteration over code points, normalization and
// character classes. The tables are utf8proc's, which only unicode.cpp includes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace freight::data {

// The byte order mark that UTF-8 files may begin with.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The position of the first byte that is not valid UTF-8; empty if all bytes are.
std::optional<size_t> utf8_fault(std::string_view text);
// Returns the code point at `at`, and moves `at` behind it. `text` must be valid UTF-8, and `at` inside it.
int32_t next_code_point(std::string_view text, size_t& at);
void append_utf8(std::string& out, int32_t code_point);

// Normalizes to NFKC with case folding, without default ignorable characters (soft hyphen, zero-width space), so that a
// word has one spelling. Throws Error(data) with the position of invalid UTF-8.
std::string fold(std::string_view text);

// Normalizes to NFC, with composed accents; invalid UTF-8 is returned unchanged.
std::string composed(std::string_view text);

// letter: letters and combining marks. ideograph: characters of scripts without spaces, each a word of its own (Han,
// Hiragana, Katakana). space: separators and control characters. other: punctuation and symbols.
enum class CharClass { letter, digit, ideograph, space, other };
CharClass char_class(int32_t code_point);

}  // namespace freight::data
