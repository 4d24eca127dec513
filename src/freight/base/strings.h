// Text building for messages and listings: cat(...) joins anything printable; the few format helpers every room needs.
// Knows nothing of tensors. Numbers print shortest-exact so that texts round-trip.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace freight {

namespace detail {
void append_double(std::string& out, double v);
void append_float(std::string& out, float v);
void append_signed(std::string& out, int64_t v);
void append_unsigned(std::string& out, uint64_t v);
template <class T>
void append(std::string& out, const T& v) {
  if constexpr (std::is_same_v<T, bool>) {
    out += v ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    out += v;
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    append_signed(out, v);
  } else if constexpr (std::is_integral_v<T>) {
    append_unsigned(out, v);
  } else if constexpr (std::is_same_v<T, float>) {
    append_float(out, v);
  } else if constexpr (std::is_floating_point_v<T>) {
    append_double(out, v);
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    out += std::string_view(v);
  } else {
    out += to_string(v);  // found by argument-dependent lookup: Shape, DType, Type, ...
  }
}
}  // namespace detail

// Joins the printed forms of all arguments.
template <class... Args>
std::string cat(const Args&... args) {
  std::string out;
  (detail::append(out, args), ...);
  return out;
}

// "1,234,567".
std::string with_commas(int64_t n);
// "9.8 MiB"; bytes in powers of 1024.
std::string human_bytes(double bytes);
// Fixed number of decimals: fixed(3.14159, 2) == "3.14".
std::string fixed(double v, int decimals);
// Significant digits, without trailing zeros: significant(0.012345, 3) == "0.0123".
std::string significant(double v, int digits);
std::vector<std::string> split(std::string_view text, char sep);  // the parts between `sep`, empty ones too
std::string join(const std::vector<std::string>& parts, std::string_view sep);  // the parts with `sep` between them
std::string lower(std::string_view text);                                       // A to Z in lower case
bool starts_with(std::string_view text, std::string_view prefix);               // whether it begins with `prefix`
bool ends_with(std::string_view text, std::string_view suffix);                 // whether it ends with `suffix`
// The candidate that `word` is likely a misspelling of, at an edit distance up to a third of its length; or "".
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace freight
