// See csv_field.h.
#include "freight/io/csv_field.h"

#include <algorithm>

namespace freight::io {

void add_csv_field(std::string& out, const std::string& text) {
  const bool plain = std::none_of(text.begin(), text.end(),
                                  [](char c) { return c == ',' || c == '"' || static_cast<unsigned char>(c) < ' '; });
  if (plain) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  out += '"';
}

std::string csv_field(const std::string& text) {
  std::string out;
  add_csv_field(out, text);
  return out;
}

}  // namespace freight::io
