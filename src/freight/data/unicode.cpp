// See unicode.h.
#include "freight/data/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "freight/base/error.h"

namespace freight::data {

namespace {
const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

bool is_ideograph(int32_t c) {
  return (c >= 0x3040 && c <= 0x30ff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9fff) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x3ffff);
}
}  // namespace

std::optional<size_t> utf8_fault(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    utf8proc_int32_t c = 0;
    const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
    const utf8proc_ssize_t n = utf8proc_iterate(bytes_of(text) + at, left, &c);
    if (n < 1) return at;
    at += static_cast<size_t>(n);
  }
  return std::nullopt;
}

int32_t next_code_point(std::string_view text, size_t& at) {
  utf8proc_int32_t c = 0;
  const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
  const utf8proc_ssize_t n = utf8proc_iterate(bytes_of(text) + at, left, &c);
  FREIGHT_CHECK(n > 0, "valid UTF-8");
  at += static_cast<size_t>(n);
  return c;
}

void append_utf8(std::string& out, int32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t n = utf8proc_encode_char(code_point, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

std::string fold(std::string_view text) {
  if (const auto at = utf8_fault(text)) fail(ErrorKind::data, "text", "not UTF-8: byte ", *at);
  utf8proc_uint8_t* folded = nullptr;
  constexpr int kOptions = UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE;
  const utf8proc_ssize_t n = utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &folded,
                                          static_cast<utf8proc_option_t>(kOptions));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(folded, &std::free);
  if (n < 0) fail(ErrorKind::data, "text", "cannot be normalized: ", utf8proc_errmsg(n));
  return {reinterpret_cast<const char*>(folded), static_cast<size_t>(n)};
}

std::string composed(std::string_view text) {
  if (utf8_fault(text)) return std::string(text);
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t n = utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                                          static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (n < 0) return std::string(text);
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(n)};
}

CharClass char_class(int32_t code_point) {
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_LO:
      if (is_ideograph(code_point)) return CharClass::ideograph;
      [[fallthrough]];
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return CharClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CharClass::digit;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF: return CharClass::space;
    default: return CharClass::other;
  }
}

}  // namespace freight::data
