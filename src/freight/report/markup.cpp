// See markup.h.
#include "freight/report/markup.h"

#include <cmath>

#include "freight/base/strings.h"
#include "freight/data/unicode.h"

namespace freight::report {

namespace {

constexpr int32_t kReplacement = 0xfffd;

// True for characters that a page shows as nothing, or that reorder their neighbors.
bool hidden(int32_t c) {
  const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
  const bool direction = (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  const bool none = (c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c <= 0xfdef);  // code points that are not characters
  return control || direction || none;
}

void append(std::string& out, std::string_view valid) {
  for (size_t at = 0; at < valid.size();) {
    const size_t first = at;
    const int32_t c = data::next_code_point(valid, at);
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        if (hidden(c)) {
          data::append_utf8(out, kReplacement);
        } else {
          out += valid.substr(first, at - first);
        }
    }
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t good = data::utf8_fault(text).value_or(text.size());
    append(out, text.substr(0, good));
    if (good < text.size()) data::append_utf8(out, kReplacement);
    text.remove_prefix(std::min(good + 1, text.size()));
  }
  return out;
}

std::string shortened(const std::string& text, size_t limit) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<uint8_t>(text[at]) & 0xc0) != 0x80;
    if (begins && count++ == limit) return text.substr(0, at) + "...";
  }
  return text;
}

std::string base64(io::ByteView bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t k) { return i + k < bytes.size() ? uint32_t{bytes[i + k]} : 0u; };
    const uint32_t group = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string figure(double v) {
  if (!std::isfinite(v)) return "NaN or infinite";
  if (std::fabs(v) >= 9999.5 && std::fabs(v) < 1e15) return with_commas(std::llround(v));
  return significant(v, 4);
}

std::string percent(double share) { return fixed(100 * share, 1) + "\u00a0%"; }

}  // namespace freight::report
