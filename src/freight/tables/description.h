// The columns of a table as `freight data info` lists them: kind, missing and distinct values, range or examples.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace freight::tables {

struct ColumnDescription {
  std::string name, kind;
  int64_t missing = 0, different = 0;
  std::string values = {};          // "0.5 to 12", or the most frequent categories: "red (30), blue (20)"
  std::string note = {};            // why it has this kind, or what is unusual about it
  std::optional<double> mean = {};  // for numbers
};

struct TableDescription {
  int64_t rows = 0;
  bool header = false;
  std::string note = {};  // about the header and skipped rows
  std::vector<ColumnDescription> columns;
};

// `names`: the column names of a file without a header, as in --columns; `types`: the kinds given by --types. Throws
// Error: data, usage.
TableDescription describe_table(const std::string& path, const std::string& names, const std::string& types,
                                const std::string& header = {});

}  // namespace freight::tables
