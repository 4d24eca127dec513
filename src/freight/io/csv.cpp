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

CsvReader::CsvReader(ByteView bytes, std::string name, char separator)
    : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), name_(std::move(name)), separator_(separator) {
  if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
}

void CsvReader::skip_line_end() {
  if (here() == '\r') ++at_;
  if (at_ < text_.size() && text_[at_] == '\n') ++at_;
  ++line_;
}

// The field whose opening quote is here.
std::string CsvReader::quoted_field() {
  std::string field;
  const int64_t opened = line_;
  for (++at_;; ++at_) {
    if (at_ >= text_.size()) fail(ErrorKind::data, cat(name_, ":", opened), "a quote is opened and never closed");
    if (text_[at_] == '"' && (at_ + 1 >= text_.size() || text_[at_ + 1] != '"')) break;
    if (text_[at_] == '"') ++at_;
    line_ += text_[at_] == '\n';
    field += text_[at_];
  }
  ++at_;
  if (here() != separator_ && here() != '\n' && here() != '\r') {
    fail(ErrorKind::data, cat(name_, ":", line_), "text after a closing quote: write \"\" for a quote in a field");
  }
  return field;
}

bool CsvReader::next(CsvRow& row) {
  while (at_ < text_.size() && (here() == '\n' || here() == '\r')) skip_line_end();
  row.fields.clear();
  if (at_ >= text_.size()) return false;
  row.line = line_;
  for (bool more = true; more;) {
    if (row.fields.size() == kMostCsvFields) {
      fail(ErrorKind::data, cat(name_, ":", row.line), "the row has more than ", kMostCsvFields, " fields");
    }
    at_ = quote_behind_blanks(text_, at_, separator_).value_or(at_);
    if (here() == '"' && at_ < text_.size()) {
      row.fields.push_back(quoted_field());
    } else {
      const size_t begin = at_;
      while (here() != separator_ && here() != '\n' && here() != '\r') ++at_;
      row.fields.emplace_back(text_.substr(begin, at_ - begin));
    }
    more = here() == separator_;
    if (more) ++at_;
  }
  skip_line_end();
  return true;
}

std::vector<CsvRow> parse_csv(ByteView bytes, const std::string& name, char separator, size_t most) {
  CsvReader reader(bytes, name, separator);
  std::vector<CsvRow> rows;
  for (CsvRow row; rows.size() < most && reader.next(row);) rows.push_back(std::move(row));
  return rows;
}

}  // namespace freight::io
