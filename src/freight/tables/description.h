// A table's columns as `freight data info` lists them: kind, missing cells, different ones, range or examples.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace freight::tables {

struct ColumnDescription {
  std::string name, kind;
  int64_t missing = 0, different = 0;
  std::string values = {};          // "0.5 to 12", or the most frequent words: "red (30), blue (20)"
  std::string note = {};            // why it is of this kind, or what is odd about it
  std::optional<double> mean = {};  // of numbers
};

struct TableDescription {
  int64_t rows = 0;
  bool header = false;
  std::string note = {};  // on the header and on rows that were skipped
  std::vector<ColumnDescription> columns;
};

// `names` are those of a file without a header, `types` the kinds that are said, as the flags --columns and --types
// have them. Throws Error: data, usage.
TableDescription describe_table(const std::string& path, const std::string& names, const std::string& types,
                                const std::string& header = {});

}  // namespace freight::tables
