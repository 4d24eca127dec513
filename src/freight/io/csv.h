// Comma-separated values (RFC 4180): quoted fields with commas, line breaks and doubled quotes in them; a byte order
// mark and blank lines are passed over; lines end in LF or CRLF. Blanks between a comma and a quoted field are passed
// over.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "freight/io/file.h"

namespace freight::io {

struct CsvRow {
  std::vector<std::string> fields;
  int64_t line = 0;  // where it begins, from 1
};

// The first `most` rows. Throws Error(data) "name:line" for a quote that is not closed or followed by more text.
std::vector<CsvRow> parse_csv(ByteView bytes, const std::string& name, char separator = ',',
                              size_t most = std::numeric_limits<size_t>::max());

}  // namespace freight::io
