// The common parts of all pages: the frame with its style sheet, lists of definitions, tables, charts with captions. A
// page has no script and loads nothing: its own policy forbids both.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "freight/report/plot.h"

namespace freight::report {

// The whole page. `title` is text; `body` is markup that begins with an <h1>.
std::string document(const std::string& title, const std::string& body);
// A list of names and values; values are markup, and empty ones are omitted.
std::string definitions(const std::vector<std::pair<std::string, std::string>>& facts);
// A figure with its title as caption; "" if there is nothing to draw.
std::string chart(const Plot& plot);

// A table in a box that scrolls. Cells are text; the first cell of a row is its heading, and cells of columns marked
// `number` are right-aligned. A row with a single cell is a note over the whole width.
struct Column {
  std::string name;
  bool number = true;
};
std::string data_table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows);

// Seconds since 1970 as "2026-11-22 09:30 UTC"; "" for none.
std::string date_text(double seconds);

}  // namespace freight::report
