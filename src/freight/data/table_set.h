// Tables that Freight knows by name: which files they are of, what their columns are called, and which one is told. A
// table in a file of the user's own is one of these, too, of which nothing else is known.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace freight::data {

struct CatalogEntry;
struct Cells;
struct CellsAsked;

// The files of one part of a table, read one after the other.
struct TablePart {
  std::vector<std::string> files = {};      // names in the set's folder, plain or .gz; or paths
  int64_t skip_lines = 0;                   // in front of each file's rows
  std::string target_ending = {};           // that the words of the target have in this part alone: "<=50K."
  std::shared_ptr<const Cells> cells = {};  // in place of files, of a table in memory

  bool empty() const { return files.empty() && !cells; }  // true where the part does not exist
};

// A table, of all whose rows the columns are the same.
struct TableSet {
  TablePart train = {}, test = {};           // test: empty where it has no part of its own
  std::string target = {};                   // the target column
  std::vector<std::string> drop = {};        // columns that say nothing, or the answer
  std::vector<std::string> names = {};       // of the columns, where the files have no header
  std::string file_column = {};              // one more column, which says of which file a row is
  std::vector<std::string> file_words = {};  // the cells of that column, a word per file
};

// The sets of the catalog that are tables.
std::vector<CatalogEntry> table_entries();
// A folder with the files of a known table, recognized by its name and the first of them; another path is a file of
// which nothing is known. The files are paths then.
TableSet table_at(const std::string& path);
// Reads a part of it.
Cells read_part(const TableSet& set, const TablePart& part, CellsAsked asked);

}  // namespace freight::data
