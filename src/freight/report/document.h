// All pages have this in common: the frame with its style sheet, definitions, tables, charts with captions. A page has
// no script and fetches nothing: its own policy forbids both.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "freight/report/plot.h"

namespace freight::report {

// The whole page. `title` is text, `body` is markup, beginning with an <h1>.
std::string document(const std::string& title, const std::string& body);
// A list of names and values; values are markup, empty ones are left out.
std::string definitions(const std::vector<std::pair<std::string, std::string>>& facts);
// A figure with its title as caption; "" where there is nothing to draw.
std::string chart(const Plot& plot);

// A table in a box that scrolls. Cells are text; the first of a row is its heading, those of columns marked `number`
// stand to the right. A row with one cell alone is a note over the whole width.
struct Column {
  std::string name;
  bool number = true;
};
std::string data_table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows);

// "2026-11-22 09:30 UTC" of seconds since 1970; "" for none.
std::string date_text(double seconds);

}  // namespace freight::report
