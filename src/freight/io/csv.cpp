// See csv.h.
#include "freight/io/csv.h"

#include "freight/base/error.h"

namespace freight::io {

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
