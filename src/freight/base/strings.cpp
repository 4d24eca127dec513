// Implementation of the text helpers; see strings.h.
#include "freight/base/strings.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace freight {

namespace detail {
namespace {
template <class Number>
void append_number(std::string& out, Number v) {
  char buf[40];
  out.append(buf, std::to_chars(buf, buf + sizeof buf, v).ptr);
}
}  // namespace

void append_double(std::string& out, double v) { append_number(out, v); }
void append_float(std::string& out, float v) { append_number(out, v); }
void append_signed(std::string& out, int64_t v) { append_number(out, v); }
void append_unsigned(std::string& out, uint64_t v) { append_number(out, v); }
}  // namespace detail

std::string with_commas(int64_t n) {
  const uint64_t size = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);  // of -2^63, too
  const std::string digits = std::to_string(size);
  std::string out = n < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string fixed(double v, int decimals) {
  char buf[64];
  const int length = std::snprintf(buf, sizeof buf, "%.*f", decimals, v);
  return length < static_cast<int>(sizeof buf) ? std::string(buf) : cat(v);  // 1e300 has too many digits
}

std::string significant(double v, int digits) {
  char buf[64];
  std::snprintf(buf, sizeof buf, "%.*g", digits, v);
  return buf;
}

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int u = 0;
  for (; bytes >= 1024.0 && u < 4; ++u) bytes /= 1024.0;
  return cat(fixed(bytes, u == 0 ? 0 : 1), " ", kUnits[u]);
}

std::vector<std::string> split(std::string_view text, char sep) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (;;) {
    const size_t end = text.find(sep, start);
    parts.emplace_back(text.substr(start, end == std::string_view::npos ? end : end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view sep) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out += sep;
    out += parts[i];
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.starts_with(prefix); }
bool ends_with(std::string_view text, std::string_view suffix) { return text.ends_with(suffix); }

namespace {
// The optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbors.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, above(b.size() + 1), row(b.size() + 1);  // rows i - 2, i - 1 and i of the table
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above[b.size()];
}
}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t limit = word.size() < 2 ? 0 : std::max<size_t>(1, word.size() / 3);
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance > limit || (distance == limit && !best.empty())) continue;
    limit = distance;
    best = candidate;
  }
  return best;
}

}  // namespace freight
