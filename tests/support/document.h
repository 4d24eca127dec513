// Tables of documents that are those of the program: a test compares them, and writes them with FREIGHT_WRITE_DOCS=1.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/error.h"
#include "tests/support/files.h"

namespace freight::testing {

// The text of a cell of a table.
inline std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

// The page with the part between the marker of this name and its end replaced.
inline std::string with_table(std::string page, const std::string& name, const std::string& table) {
  const std::string open = cat("<!-- ", name, " -->\n"), close = cat("<!-- end of ", name, " -->\n");
  const size_t at = page.find(open);
  if (at == std::string::npos) return page;
  const size_t begin = at + open.size(), end = page.find(close);
  if (end == std::string::npos) return page.insert(begin, table + close);
  return page.replace(begin, end - begin, table);
}

// Tables by the names of their markers. A page without the marker fails, too.
inline void expect_tables(const std::string& path, const std::vector<std::pair<std::string, std::string>>& tables) {
  const std::string page = read_text(path);
  std::string made = page;
  for (const auto& [name, table] : tables) {
    EXPECT_NE(page.find(cat("<!-- ", name, " -->\n")), std::string::npos) << path << " has no place for " << name;
    made = with_table(made, name, table);
  }
  if (std::getenv("FREIGHT_WRITE_DOCS")) {
    std::ofstream(path) << made;
    return;
  }
  EXPECT_EQ(page, made) << path << " differs from the program: FREIGHT_WRITE_DOCS=1 writes the tables again";
}

}  // namespace freight::testing
