// Fields of CSV files.
#pragma once
#include <string>

namespace freight::io {

// Appends a field, quoted as RFC 4180 says where it has commas, quotes or control characters.
void add_csv_field(std::string& out, const std::string& text);
std::string csv_field(const std::string& text);

}  // namespace freight::io
