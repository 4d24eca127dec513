// See cells.h.
#include "freight/data/cells.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"
#include "freight/data/unicode.h"

namespace freight::data {

namespace {

// The most frequent of the usual separators in the first line, outside of quotes.
char separator_of(io::ByteView bytes) {
  constexpr std::string_view kSeparators = ",;\t";
  int64_t counts[3] = {};
  bool quoted = false;
  for (const uint8_t byte : bytes) {
    const char c = static_cast<char>(byte);
    if (c == '"') quoted = !quoted;
    if (c == '\n' && !quoted) break;
    if (const size_t at = kSeparators.find(c); at != std::string_view::npos && !quoted) ++counts[at];
  }
  return kSeparators[static_cast<size_t>(std::max_element(counts, counts + 3) - counts)];
}

bool is_header(const std::vector<io::CsvRow>& rows) {
  const std::vector<std::string>& first = rows[0].fields;
  const bool number = std::any_of(first.begin(), first.end(), [](const auto& cell) { return is_number_cell(cell); });
  if (number || rows.size() < 2) return false;
  const std::vector<std::string>& second = rows[1].fields;
  return TableHeader(first).plausible() ||
         std::any_of(second.begin(), second.end(), [](const auto& cell) { return is_number_cell(cell); });
}

// Stored models and run.json hold names of columns, words and classes as UTF-8.
void need_utf8(io::ByteView bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::optional<size_t> at = utf8_fault(text);
  if (!at) return;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(*at), '\n');
  fail(ErrorKind::data, cat(name, ":", line), "not UTF-8: got byte ", static_cast<int>(bytes[*at]),
       " where no character begins or goes on; save the table as UTF-8 (iconv -f latin1 -t utf8)");
}

}  // namespace

bool only_names(const Cells& cells) {
  if (cells.header || cells.rows.size() != 1) return false;
  const std::vector<std::string>& row = cells.rows[0];
  const bool number = std::any_of(row.begin(), row.end(), [](const auto& cell) { return is_number_cell(cell); });
  return !number && TableHeader(row).plausible();
}

Cells parse_cells(io::ByteView bytes, const std::string& name) {
  need_utf8(bytes, name);
  std::vector<io::CsvRow> rows = io::parse_csv(bytes, name, separator_of(bytes));
  if (rows.empty()) fail(ErrorKind::data, name, "holds no rows");
  Cells out;
  out.header = is_header(rows);
  const size_t width = rows[0].fields.size();
  std::set<std::string> seen;
  for (size_t i = 0; i < width; ++i) {
    std::string_view word = out.header ? trimmed(rows[0].fields[i]) : std::string_view();
    if (i == 0 && word.starts_with('#')) word = trimmed(word.substr(1));
    out.names.push_back(word.empty() ? cat("column_", i + 1) : std::string(word));
    if (!seen.insert(out.names.back()).second) {
      fail(ErrorKind::data, cat(name, ":", rows[0].line), "two columns are named ", excerpt(out.names.back()),
           ": need different names");
    }
  }
  for (size_t i = out.header ? 1 : 0; i < rows.size(); ++i) {
    if (rows[i].fields.size() != width) {
      fail(ErrorKind::data, cat(name, ":", rows[i].line), "got ", rows[i].fields.size(), " cells, the first row has ",
           width);
    }
    out.lines.push_back(rows[i].line);
    out.rows.push_back(std::move(rows[i].fields));
  }
  if (out.rows.empty()) fail(ErrorKind::data, name, "holds a header and no rows");
  return out;
}

Cells read_cells(const std::string& path) {
  const io::Bytes bytes = io::read_file_gunzip(path);
  return parse_cells({bytes.data(), bytes.size()}, path);
}

}  // namespace freight::data
