// The cells of a table file (CSV, TSV, JSON lines, also .gz; .npz) by columns, as numbers or words with a dictionary,
// by cell_filler_internal.h. store::value_in turns a word into a model's category; tables/table.h chooses features.
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

#include "freight/data/codes.h"
#include "freight/data/date_time.h"
#include "freight/data/growing.h"
#include "freight/data/numbers.h"
#include "freight/io/file.h"

namespace freight::data {

// The distinct words of a column, numbered in the order in which they first occur.
class Words {
 public:
  static constexpr uint32_t kMissing = Codes::kMissing;  // stands for no word
  // Returns the number of a word, which is added if it is new.
  uint32_t add(std::string_view word);
  // Returns kMissing if there is no such word.
  uint32_t find(std::string_view word) const;
  std::string_view operator[](uint32_t code) const {
    const uint64_t begin = code == 0 ? 0 : ends_[code - 1];
    return {bytes_.data() + begin, ends_[code] - begin};
  }
  size_t size() const { return ends_.size(); }
  // Removes this ending from every word that has it. Throws Error(data) if two words become equal.
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

// The kind of a column's cells. by_cells: numbers if all cells are numbers or missing, else words; integers that a
// double cannot represent are words, too. skipped: only the column's name is kept. times: see CellsAsked::times.
enum class CellKind : uint8_t { by_cells, numbers, words, times, skipped };

// Times in a program's memory. Any thread may read them.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual int64_t rows() const = 0;
  virtual std::optional<DateTime> at(int64_t row) const = 0;  // empty for a missing time
  virtual std::string text(int64_t row) const = 0;            // as a file has it, "2024-02-29"; "" for a missing time
};

// A cell in a column of numbers that is not a number.
struct OddCell {
  int64_t row = 0;
  int64_t line = 0;  // of the file, from 1
  std::string text;  // without surrounding spaces
};

struct CellColumn {
  std::string name;
  CellKind kind = CellKind::numbers;  // never by_cells
  Numbers numbers;                    // for numbers, by row: NaN for a missing or odd cell
  Codes codes;                        // for words, by row: Words::kMissing for a missing cell
  Words words;                        // as they are written, without surrounding spaces
  std::vector<OddCell> odd;           // for numbers, by row: cells that are neither finite numbers nor missing
  std::optional<OddCell> first_word;  // for words by their cells: the first cell that is not a number
  int64_t big_integers = 0;           // for words by their cells: cells such as 9007199254740993 (is_big_integer)
  std::shared_ptr<const TimeSource> times = {};    // for times
  std::map<std::string, int64_t> missing_as = {};  // unusual spellings of missing cells, and how many have each

  bool is_words() const { return kind == CellKind::words; }
  // The row's odd cell; null if it is not odd.
  const OddCell* odd_at(int64_t row) const;
  bool missing(int64_t row) const;
  // The text of a cell: a word or odd cell as written, a number as printed; "" if it is missing.
  std::string text(int64_t row) const;
};

// The file and line of each row of a table.
class RowPlaces {
 public:
  void add(size_t file, int64_t line);  // adds the next row
  int64_t line(int64_t row) const;      // the line in which it begins, from 1
  size_t file(int64_t row) const;       // the number of its file
  void keep(const std::vector<bool>& rows);
  int64_t count() const { return count_; }

 private:
  struct Run {  // rows in consecutive lines
    int64_t row = 0, line = 0;
    size_t file = 0;
  };
  const Run& run_of(int64_t row) const;
  std::vector<Run> runs_;
  int64_t count_ = 0;
};

// The facts about a table that are known before its rows are read.
struct TableHead {
  std::vector<std::string> names;      // of the columns; column_1, column_2, ... without a header
  bool header = false;                 // the file has the names: in its first row, or by its format
  std::vector<std::string> first_row;  // the cells of the first row after the header, as written
  bool only_row = false;               // there is no further row
  bool index = false;                  // the header names all columns except the first
  bool numbers_in_header = false;      // some names look like numbers
  bool header_unsure = false;          // only the look of its cells suggests that the first row is a header
  bool typed = false;                  // the format distinguishes numbers from texts: JSON lines, .npz
  char separator = 0;                  // between cells; 0 if the format has none
};
// True if the only row looks like a header; a caller that knows that it is not one may use it as a sample.
bool only_names(const TableHead& head);

struct Cells {
  std::vector<std::string> files;  // the files of the rows
  TableHead head;
  std::vector<CellColumn> columns;
  RowPlaces places;
  int64_t blank_rows = 0;  // skipped rows that consist of separators only
  // The fraction of the files' unpacked bytes that was read: below 1 if CellsAsked::most_bytes ended the reading.
  double share = 1;

  int64_t rows() const { return places.count(); }
  std::string place(int64_t row) const;      // "houses.csv:17"
  void keep(const std::vector<bool>& rows);  // removes the rows that are false
};
// A hash of the column names and all cells.
uint64_t fingerprint(const Cells& cells);

// Requests to a reader.
enum class CellForms : uint8_t { any, delimited };

struct CellsAsked {
  // Called once, before the rows are read; returns a kind for each column. Empty: by_cells for all. Words keep the
  // spelling of their cells ("007"). An exception ends the reading.
  std::function<std::vector<CellKind>(const TableHead& head)> kinds = {};
  // True for a column that may have the kind `times` if a program's table has it as times: whoever reads the cells
  // knows this kind. Called after `kinds`. Empty: false for all, and times are words, as in files.
  std::function<bool(size_t column)> times = {};
  // Column names for a file without a header. A first row of exactly these names is still a header.
  std::vector<std::string> names = {};
  std::optional<bool> header = {};       // if the first row is a header; empty: inferred from its cells
  std::vector<std::string> needed = {};  // a first row that contains all of these is a header
  CellForms forms = CellForms::any;      // delimited: bytes that look like another format are read as separated cells
  int64_t skip_lines = 0;                // lines to skip at the beginning of each file
  // The name of an additional last column, and its cell for the rows of each file; "": none.
  std::string file_column = {};
  std::vector<std::string> file_words = {};
  // Rows that begin after this many unpacked bytes of the files are not read; 0: no limit. An .npz is read whole.
  uint64_t most_bytes = 0;
  // A folder in whose files numbers and codes are kept instead of memory; the files are unnamed and vanish on exit.
  std::string folder = {};
};

// Reads a table. The first row is a header if none of its cells is a number, missing, or a date above dates, and either
// a number is below one of them, or all look like names and are not values of their columns; also if its numbers look
// like names (header_row.cpp). A '#' before a header is skipped. Throws Error(data) that names file and line for a row
// with a different number of cells, a column without rows, duplicate names, and bytes that are not UTF-8. Several files
// are read one after the other and must have the same columns.
Cells read_cells(const std::vector<std::string>& files, const CellsAsked& asked = {});
inline Cells read_cells(const std::string& path, const CellsAsked& asked = {}) {
  return read_cells(std::vector<std::string>{path}, asked);
}
Cells parse_cells(io::ByteView bytes, const std::string& name, const CellsAsked& asked = {});

// Reads a table in blocks of rows, so that it need not fit into memory.
class CellReader {
 public:
  explicit CellReader(const std::vector<std::string>& files, CellsAsked asked = {});
  CellReader(io::ByteView bytes, const std::string& name, CellsAsked asked = {});  // the bytes must outlive it
  ~CellReader();
  CellReader(const CellReader&) = delete;
  CellReader& operator=(const CellReader&) = delete;
  // The next rows, at most `most`; no rows at the end. Columns have the requested kind in every block; columns by_cells
  // have the kind of the block's cells, and each block has its own words.
  Cells next(int64_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace freight::data
