// See text_table.h.
#include "text_table.h"

#include <algorithm>

namespace freight::app {

std::string text_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(header.size(), 0);
  const auto measure = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  };
  measure(header);
  for (const auto& row : rows) measure(row);
  std::string out;
  const auto print = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (i < widths.size()) cell.resize(std::max(widths[i], cell.size()), ' ');
      line += (i ? "  " : "") + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  print(header);
  for (const auto& row : rows) print(row);
  return out;
}

}  // namespace freight::app
