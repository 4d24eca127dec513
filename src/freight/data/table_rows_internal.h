// The rows of one file of a table, cell by cell as they are written, whatever its form. Readers of the forms know
// nothing of kinds: cell_filler_internal.h makes numbers and words of what they give.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "freight/data/cells.h"
#include "freight/io/byte_stream.h"
#include "freight/io/json_internal.h"

namespace freight::data {

// Limits for files of every form: a row has a cell in each column, empty or not, so that a few bytes would fill any
// memory.
constexpr size_t kMostTableColumns = 100000;
constexpr size_t kLongestTableRow = size_t{256} << 20;  // bytes; a quote that is never closed, a packed line of zeros

class FileRows {
 public:
  virtual ~FileRows() = default;
  // False at the end. The cells are valid until the next call, and kReadableBehind bytes behind each may be read.
  virtual bool next(std::span<const std::string_view>& cells, int64_t& line) = 0;
  // Begins again with the first row, a header too.
  virtual void rewind() = 0;
  // Names that the form itself gives to its columns; empty where the first row may hold them.
  virtual std::vector<std::string> own_names() const { return {}; }
  // True where the form itself tells numbers from texts.
  virtual bool typed() const { return false; }
  // The character between cells; 0 where there is none.
  virtual char separator() const { return 0; }
  // The number of rows; 0 where that is not known before they are read.
  virtual int64_t rows() const { return 0; }
  // Bytes of the file and those that were read; 0 where it is not known.
  virtual uint64_t size() const { return 0; }
  virtual uint64_t read_so_far() const { return 0; }
};

// How a file of separated cells is written.
struct DelimitedForm {
  char separator = 0;      // 0: commas, tabs, semicolons, '|' or runs of blanks, as the first two lines have them
  bool quotes = true;      // false: a quote is an ordinary character
  bool need_utf8 = true;   // false: bytes are given as they are
  int64_t skip_lines = 0;  // in front of the rows
};
// Rows of separated cells by RFC 4180: quoted cells may contain separators, line breaks and doubled quotes. Lines end
// in LF, CRLF or CR; empty ones are skipped, as are a byte order mark and blanks between a separator and a quoted
// cell. `name` is for messages.
std::unique_ptr<FileRows> delimited_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name,
                                         const DelimitedForm& form = {});

// A row that holds its cells, for readers that keep rows.
struct CellRow {
  std::vector<std::string> cells;
  int64_t line = 0;  // where it begins, from 1
};
// The next rows, `most` at most.
std::vector<CellRow> next_rows(FileRows& rows, size_t most = SIZE_MAX);

// LibSVM: "1 3:0.5 10:1" with a label in front; a feature that a line does not have is 0. The columns are `label`,
// `qid` where the rows have a query ("1 qid:7 3:0.5"), and the features from the least number that occurs to the
// greatest.
bool is_sparse(std::string_view first_line);
std::unique_ptr<FileRows> sparse_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name);

// Reads the object of a line of JSON lines: `member` is called as by io::read_flat_json. Throws Error(data) that begins
// with `place`.
void read_json_row(std::string_view line, const std::string& place,
                   const std::function<bool(const std::string& key, const io::JsonValue& value)>& member);

// JSON lines: an object in each, whose keys are the columns in any order; a key that a line lacks is missing there.
bool is_json_row(std::string_view first_line);
bool names_json_lines(const std::string& path);  // "runs.jsonl", "runs.ndjson.gz"
std::unique_ptr<FileRows> json_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name);

// An .npz archive whose arrays are columns: (rows) one of the array's name, (rows, K) the K columns NAME.0, NAME.1, ...
// NaN is a missing cell. Lines are rows, from 1. Throws Error(data) for arrays of other shapes, and names two that have
// different numbers of rows.
std::unique_ptr<FileRows> array_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name);

// Rows of the form that the file's first bytes tell. Throws Error(data) that says what to do for Parquet.
std::unique_ptr<FileRows> file_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name,
                                    int64_t skip_lines);

}  // namespace freight::data
