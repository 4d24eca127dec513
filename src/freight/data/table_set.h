// The built-in tables: their files, column names and targets. A user's file is a TableSet of which only the path is
// known.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace freight::data {

struct CatalogEntry;
struct Cells;
struct CellsAsked;

// The files of one split of a table, read one after the other.
struct TablePart {
  std::vector<std::string> files = {};  // names in the set's folder, plain or .gz; or paths
  int64_t skip_lines = 0;               // lines to skip before each file's rows
  std::string target_ending = {};       // an ending that target values have only in this split: "<=50K."
  // Instead of files, for a table in memory: makes its cells when they are read, so that there is no copy before.
  std::function<Cells(const CellsAsked&)> cells = {};
  double cell_count = 0;  // of a table in memory

  bool empty() const { return files.empty() && !cells; }  // true if the split does not exist
};

// A table: its splits, which have the same columns, and its target.
struct TableSet {
  TablePart train = {}, test = {};           // test: empty if there is no test set
  std::string target = {};                   // the target column
  std::vector<std::string> drop = {};        // columns that are useless or leak the target
  std::vector<std::string> names = {};       // the column names, if the files have no header
  std::string file_column = {};              // the name of an additional column for the file of each row
  std::vector<std::string> file_words = {};  // the cells of that column, one per file
};

// The entries of the catalog that are tables.
std::vector<CatalogEntry> table_entries();
// The table at a path: a folder with the files of a built-in table, recognized by its name and the first file; any
// other path is a user's file. `files` are then paths.
TableSet table_at(const std::string& path);
// Reads one split.
Cells read_part(const TableSet& set, const TablePart& part, CellsAsked asked);

}  // namespace freight::data
