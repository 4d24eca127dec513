// See parse_number.h. The functions are compiled here for the types that callers have, so that <charconv> stays here.
#include "freight/base/parse_number.h"

#include <charconv>

namespace freight {

template <class T>
std::optional<T> take_number(std::string_view& text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  const std::optional<T> number = take_number<T>(text);
  return text.empty() ? number : std::nullopt;
}

std::optional<uint64_t> parse_hex(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

#define FREIGHT_NUMBER(T)                                      \
  template std::optional<T> parse_number<T>(std::string_view); \
  template std::optional<T> take_number<T>(std::string_view&);
FREIGHT_NUMBER(int)
FREIGHT_NUMBER(int64_t)
FREIGHT_NUMBER(uint64_t)
FREIGHT_NUMBER(float)
FREIGHT_NUMBER(double)
#undef FREIGHT_NUMBER

}  // namespace freight
