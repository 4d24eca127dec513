// Comma-separated values (RFC 4180): quoted fields with commas, line breaks and doubled quotes in them; a byte order
// mark and blank lines are passed over; lines end in LF or CRLF. Blanks between a comma and a quoted field are passed
// over.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "freight/io/file.h"

namespace freight::io {

struct CsvRow {
  std::vector<std::string> fields;
  int64_t line = 0;  // where it begins, from 1
};

inline constexpr size_t kMostCsvFields = 100'000;  // of a row: each takes 32 bytes, and one of the text

// The rows one after the other, for files that have many: only one is held. `bytes` must live as long.
class CsvReader {
 public:
  CsvReader(ByteView bytes, std::string name, char separator = ',');
  // False at the end. Throws Error(data) "name:line" for a quote that is not closed or followed by more text, and for
  // a row of more than kMostCsvFields fields.
  bool next(CsvRow& row);

 private:
  char here() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  void skip_line_end();
  std::string quoted_field();

  std::string_view text_;
  std::string name_;
  char separator_;
  int64_t line_ = 1;
  size_t at_ = 0;
};

// The first `most` rows. Throws as CsvReader does.
std::vector<CsvRow> parse_csv(ByteView bytes, const std::string& name, char separator = ',',
                              size_t most = std::numeric_limits<size_t>::max());

}  // namespace freight::io
