// The cells of a table in a file: CSV, TSV, semicolons between them, JSON lines, .gz too, and .npz; by columns, as
// numbers or as words of a dictionary. Knows no meanings beyond that: which columns a model reads and which one is told
// are tables/table.h's.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "freight/data/growing.h"
#include "freight/io/file.h"

namespace freight::data {

// Different words, numbered in the order in which they first occur.
class Words {
 public:
  static constexpr uint32_t kMissing = UINT32_MAX;  // stands for no word
  // The number of a word, which becomes the last one where it is new.
  uint32_t add(std::string_view word);
  // kMissing where there is no such word.
  uint32_t find(std::string_view word) const;
  std::string_view operator[](uint32_t code) const {
    const uint64_t begin = code == 0 ? 0 : ends_[code - 1];
    return {bytes_.data() + begin, ends_[code] - begin};
  }
  size_t size() const { return ends_.size(); }
  // Takes this off the end of every word that has it; words must stay different.
  void cut_endings(std::string_view ending);

 private:
  void grow();
  Growing<char> bytes_;
  Growing<uint64_t> ends_;
  struct HashEntry {
    uint32_t hash = 0, code = kMissing;
  };
  std::vector<HashEntry> slots_;  // open addressing; a power of two
};

// by_cells: numbers where all cells are numbers or missing, words else; integers that doubles do not hold are words,
// too. skipped: the column is named and not kept.
enum class CellKind : uint8_t { by_cells, numbers, words, skipped };

// A cell in a column that it does not fit.
struct OddCell {
  int64_t row = 0;
  int64_t line = 0;  // of the file, from 1
  std::string text;  // without blanks around it
};

struct CellColumn {
  std::string name;
  CellKind kind = CellKind::numbers;  // as it was read: never by_cells
  Growing<double> numbers;            // of numbers, by row: NaN where the cell is missing or odd
  Growing<uint32_t> codes;            // of words, by row: Words::kMissing where the cell is missing
  Words words;                        // as they are written, without blanks around them
  std::vector<OddCell> odd;           // of numbers, by row: cells that hold no finite number and are not missing
  std::optional<OddCell> first_word;  // of words by their cells: the first cell that is no number
  int64_t big_integers = 0;           // of words by their cells: cells such as 9007199254740993 (is_big_integer)
  std::map<std::string, int64_t> missing_as = {};  // unusual spellings of missing cells, and how many have each

  bool is_words() const { return kind == CellKind::words; }
  // Null where the row's cell is not odd.
  const OddCell* odd_at(int64_t row) const;
  bool missing(int64_t row) const;
  // A word or an odd cell as it is written, a number as it prints; "" where it is missing.
  std::string text(int64_t row) const;
};

// The places of a table's rows in its files.
class RowPlaces {
 public:
  void add(size_t file, int64_t line);  // the next row's
  int64_t line(int64_t row) const;      // where it begins, from 1
  size_t file(int64_t row) const;       // its number
  void keep(const std::vector<bool>& rows);
  int64_t count() const { return count_; }

 private:
  struct Run {  // rows in lines that follow each other
    int64_t row = 0, line = 0;
    size_t file = 0;
  };
  const Run& run_of(int64_t row) const;
  std::vector<Run> runs_;
  int64_t count_ = 0;
};

// The head of a table, which is known before its rows are read.
struct TableHead {
  std::vector<std::string> names;      // of the columns; column_1, column_2, ... without a header
  bool header = false;                 // the file names them: by its first row, or as its form does
  std::vector<std::string> first_row;  // behind the header, its cells as they are written
  bool only_row = false;               // there is no other
  bool index = false;                  // the first column has no name in a header that names the others
  bool numbers_in_header = false;      // some names look like numbers
  bool header_unsure = false;          // nothing but the look of its cells tells that the first row is a header
  bool typed = false;                  // the form itself tells numbers from texts: JSON lines, .npz
  char separator = 0;                  // between cells, where there is one
};
// True where the only row looks like a header. Only those who know that none is missing take it as a sample.
bool only_names(const TableHead& head);

struct Cells {
  std::vector<std::string> files;  // that the rows come from
  TableHead head;
  std::vector<CellColumn> columns;
  RowPlaces places;
  int64_t blank_rows = 0;  // rows of separators alone, which are skipped
  // The share of the files' bytes, unpacked, that the rows are of: below 1 where CellsAsked::most_bytes ended them.
  double share = 1;

  int64_t rows() const { return places.count(); }
  std::string place(int64_t row) const;      // "houses.csv:17"
  void keep(const std::vector<bool>& rows);  // those that are true
};
// A digest of the columns' names and all cells.
uint64_t fingerprint(const Cells& cells);

// Requests to a reader.
enum class CellForms : uint8_t { any, delimited };

struct CellsAsked {
  // Asked once, before the rows are read: a kind for each column. None: by_cells for all. Words keep the spelling of
  // their cells ("007"). What it throws ends the reading.
  std::function<std::vector<CellKind>(const TableHead& head)> kinds = {};
  // Names for the columns of a file without a header; where the first row holds just these, it is one nonetheless.
  std::vector<std::string> names = {};
  std::optional<bool> header = {};       // whether the first row is one; empty: told by its cells
  std::vector<std::string> needed = {};  // a first row that holds all of these is a header
  CellForms forms = CellForms::any;      // delimited: bytes that look like another form are separated cells nonetheless
  int64_t skip_lines = 0;                // of each file, in front of all others
  // One more column behind those of the files, and the cell of each file's rows in it; "": none.
  std::string file_column = {};
  std::vector<std::string> file_words = {};
  // Rows that begin behind so many bytes of the files, unpacked, are not read; 0: all are. An .npz is read whole.
  uint64_t most_bytes = 0;
  // A folder: numbers and codes lie in files of it, which have no names and go with them, in place of memory.
  std::string folder = {};
};

// The first row is a header where none of its cells is a number, a date above dates or missing, and either a number
// stands below one of them or all of them look like names, unless they are values of their columns; and where its
// numbers look like names (header_row.cpp). A '#' before a header is skipped. Throws
// Error(data) naming file and line for a row of another number of cells, a column without rows, names that are there
// twice, and bytes that are not UTF-8. Several files are read one after the other, and have the same columns.
Cells read_cells(const std::vector<std::string>& files, const CellsAsked& asked = {});
inline Cells read_cells(const std::string& path, const CellsAsked& asked = {}) {
  return read_cells(std::vector<std::string>{path}, asked);
}
Cells parse_cells(io::ByteView bytes, const std::string& name, const CellsAsked& asked = {});

// A table in parts, for those that need not hold all of it.
class CellReader {
 public:
  explicit CellReader(const std::vector<std::string>& files, CellsAsked asked = {});
  CellReader(io::ByteView bytes, const std::string& name, CellsAsked asked = {});  // they outlive it
  ~CellReader();
  CellReader(const CellReader&) = delete;
  CellReader& operator=(const CellReader&) = delete;
  // The next rows, `most` at most, and none at the end. Columns whose kind is asked for have it in every part; those
  // by_cells have that of the part's cells, with words of its own.
  Cells next(int64_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::data
