// See printable.h.
#include "freight/base/printable.h"

#include <algorithm>
#include <cstdint>

namespace freight {

std::string printable(std::string_view text, std::string_view kept) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;
    if ((c >= ' ' && c != 0x7f && !c1) || kept.find(text[i]) != std::string_view::npos) {
      out += text[i];
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else {
      const unsigned char code = c1 ? next : c;
      out += {'\\', 'x', kHex[code >> 4], kHex[code & 15]};
      i += c1;
    }
  }
  return out;
}

std::string excerpt(std::string_view text) {
  constexpr size_t kMost = 80;
  if (text.size() <= kMost) return printable(text);
  return printable(text.substr(0, kMost - 3)) + "...";
}

std::string shell_word(std::string_view text) {
  static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-+:,@%=";
  const auto plain = [&](char c) {
    return kPlain.find(c) != std::string_view::npos || static_cast<uint8_t>(c) >= 0x80;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace freight
