// The rows of one file of a table, as the text of their cells, for every format. Readers of the formats know nothing of
// column kinds: cell_filler_internal.h converts the text to numbers and words.
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

// Limits for files of every format. Every row has a cell in each column, even if it is empty, so without limits a few
// bytes could fill any memory.
constexpr size_t kMostTableColumns = 100000;
constexpr size_t kLongestTableRow = size_t{256} << 20;  // bytes; for unclosed quotes and compressed lines of zeros

class FileRows {
 public:
  virtual ~FileRows() = default;
  // Reads the next row; false at the end. The cells are valid until the next call, and kReadableBehind bytes after each
  // may be read.
  virtual bool next(std::span<const std::string_view>& cells, int64_t& line) = 0;
  // Restarts at the first row, which may be a header.
  virtual void rewind() = 0;
  // The column names, if the format contains them; empty if the first row may be a header.
  virtual std::vector<std::string> own_names() const { return {}; }
  // True if the format distinguishes numbers from texts.
  virtual bool typed() const { return false; }
  // The character between cells; 0 if the format has none.
  virtual char separator() const { return 0; }
  // The number of rows; 0 if it is unknown before they are read.
  virtual int64_t rows() const { return 0; }
  // The bytes of the file, and the bytes read so far; 0 if unknown.
  virtual uint64_t size() const { return 0; }
  virtual uint64_t read_so_far() const { return 0; }
};

// The format of a file of separated cells.
struct DelimitedForm {
  char separator = 0;      // 0: inferred from the first two lines: comma, tab, semicolon, '|' or runs of spaces
  bool quotes = true;      // false: a quote is an ordinary character
  bool need_utf8 = true;   // false: bytes are passed unchanged
  int64_t skip_lines = 0;  // lines to skip before the rows
};
// Reads separated cells by RFC 4180: quoted cells may contain separators, newlines and doubled quotes. Lines end in LF,
// CRLF or CR. Empty lines, a byte order mark, and spaces between a separator and a quoted cell are skipped. `name` is
// for messages.
std::unique_ptr<FileRows> delimited_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name,
                                         const DelimitedForm& form = {});

// A row that owns its cells, for callers that keep rows.
struct CellRow {
  std::vector<std::string> cells;
  int64_t line = 0;  // the line in which it begins, from 1
};
// Reads the next rows, at most `most`.
std::vector<CellRow> next_rows(FileRows& rows, size_t most = SIZE_MAX);

// LibSVM: "1 3:0.5 10:1", with the label first; a feature that a line lacks is 0. The columns are `label`, `qid` if the
// rows have a query ("1 qid:7 3:0.5"), and the features from the smallest to the largest number that occurs.
bool is_sparse(std::string_view first_line);
std::unique_ptr<FileRows> sparse_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name);

// Reads the object of a line of JSON lines: `member` is called as by io::read_flat_json. Throws Error(data) that begins
// with `place`.
void read_json_row(std::string_view line, const std::string& place,
                   const std::function<bool(const std::string& key, const io::JsonValue& value)>& member);

// The first escape of half a surrogate pair, which stands for no character: "\\ud83d"; "" where there is none.
std::string lone_surrogate(std::string_view line);

// JSON lines: an object per line, whose keys are the columns in any order; a missing key is a missing value.
bool is_json_row(std::string_view first_line);
bool names_json_lines(const std::string& path);  // "runs.jsonl", "runs.ndjson.gz"
std::unique_ptr<FileRows> json_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name);

// An .npz archive whose arrays are columns: an array (rows) is a column of its name, (rows, K) are K columns NAME.0,
// NAME.1, ... NaN is a missing value. Line numbers are rows, from 1. Throws Error(data) for arrays of other shapes, and
// if two arrays, which it names, have different numbers of rows.
std::unique_ptr<FileRows> array_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name);

// Reads rows in the format that the first bytes of the file show. For Parquet it throws Error(data) that explains how
// to convert the file.
std::unique_ptr<FileRows> file_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name,
                                    int64_t skip_lines);

}  // namespace freight::data
