// Aligned columns for listings on a terminal.
#pragma once
#include <string>
#include <vector>

namespace freight::app {

// Two spaces between columns, no trailing blanks; rows may be shorter than the header.
std::string text_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

}  // namespace freight::app
