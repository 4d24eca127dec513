// See csv.h.
#include "freight/io/csv.h"

#include <optional>

#include "freight/base/error.h"

namespace freight::io {

namespace {
// Where the quote of a field stands that has blanks in front of it (a, "b, c"), as many programs write after a comma.
// None where the quotes do not hold all of the field: then they are ordinary characters of it, as RFC 4180 reads them.
std::optional<size_t> quote_behind_blanks(std::string_view text, size_t at, char separator) {
  const size_t quote = text.find_first_not_of(' ', at);
  if (quote == std::string_view::npos || quote == at || text[quote] != '"') return std::nullopt;
  size_t end = text.find('"', quote + 1);
  while (end != std::string_view::npos && end + 1 < text.size() && text[end + 1] == '"') end = text.find('"', end + 2);
  if (end == std::string_view::npos) return std::nullopt;
  const char next = end + 1 < text.size() ? text[end + 1] : '\n';
  return next == separator || next == '\n' || next == '\r' ? std::optional(quote) : std::nullopt;
}
}  // namespace

std::vector<CsvRow> parse_csv(ByteView bytes, const std::string& name, char separator, size_t most) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<CsvRow> rows;
  int64_t line = 1;
  size_t at = 0;
  const auto here = [&] { return at < text.size() ? text[at] : '\n'; };
  const auto skip_line_end = [&] {
    if (here() == '\r') ++at;
    if (at < text.size() && text[at] == '\n') ++at;
    ++line;
  };
  while (at < text.size() && rows.size() < most) {
    if (here() == '\n' || here() == '\r') {
      skip_line_end();
      continue;
    }
    CsvRow row{{}, line};
    for (bool more = true; more;) {
      std::string field;
      at = quote_behind_blanks(text, at, separator).value_or(at);
      if (here() == '"' && at < text.size()) {
        const int64_t opened = line;
        for (++at;; ++at) {
          if (at >= text.size()) fail(ErrorKind::data, cat(name, ":", opened), "a quote is opened and never closed");
          if (text[at] == '"' && (at + 1 >= text.size() || text[at + 1] != '"')) break;
          if (text[at] == '"') ++at;
          line += text[at] == '\n';
          field += text[at];
        }
        ++at;
        if (here() != separator && here() != '\n' && here() != '\r') {
          fail(ErrorKind::data, cat(name, ":", line), "text after a closing quote: write \"\" for a quote in a field");
        }
      } else {
        while (here() != separator && here() != '\n' && here() != '\r') field += text[at++];
      }
      row.fields.push_back(std::move(field));
      more = here() == separator;
      if (more) ++at;
    }
    skip_line_end();
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace freight::io
