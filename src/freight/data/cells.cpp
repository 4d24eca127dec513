// See cells.h.
#include "freight/data/cells.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/columns.h"
#include "freight/data/table_rows_internal.h"
#include "freight/data/unicode.h"
#include "freight/io/byte_stream.h"
#include "freight/io/digest.h"
#include "freight/io/memory_need.h"

namespace freight::data {

namespace {

// The times of some rows of another source.
class SomeTimes : public TimeSource {
 public:
  SomeTimes(std::shared_ptr<const TimeSource> all, const std::vector<bool>& rows) : all_(std::move(all)) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i]) rows_.push_back(static_cast<int64_t>(i));
    }
  }
  int64_t rows() const override { return static_cast<int64_t>(rows_.size()); }
  std::optional<DateTime> at(int64_t row) const override { return all_->at(rows_[static_cast<size_t>(row)]); }
  std::string text(int64_t row) const override { return all_->text(rows_[static_cast<size_t>(row)]); }

 private:
  std::shared_ptr<const TimeSource> all_;
  std::vector<int64_t> rows_;
};

constexpr int64_t kAllRows = std::numeric_limits<int64_t>::max();

}  // namespace

const OddCell* CellColumn::odd_at(int64_t row) const {
  const auto at = std::lower_bound(odd.begin(), odd.end(), row, [](const OddCell& o, int64_t r) { return o.row < r; });
  return at != odd.end() && at->row == row ? &*at : nullptr;
}

bool CellColumn::missing(int64_t row) const {
  const auto i = static_cast<size_t>(row);
  if (times) return !times->at(row);
  return is_words() ? codes[i] == Words::kMissing : std::isnan(numbers[i]) && !odd_at(row);
}

std::string CellColumn::text(int64_t row) const {
  if (missing(row)) return "";
  const auto i = static_cast<size_t>(row);
  if (times) return times->text(row);
  if (is_words()) return std::string(words[codes[i]]);
  const OddCell* const cell = odd_at(row);
  return cell ? cell->text : cat(numbers[i]);
}

void RowPlaces::add(size_t file, int64_t line) {
  const bool follows =
      !runs_.empty() && runs_.back().file == file && runs_.back().line + (count_ - runs_.back().row) == line;
  if (!follows) runs_.push_back({count_, line, file});
  ++count_;
}

const RowPlaces::Run& RowPlaces::run_of(int64_t row) const {
  return *(std::upper_bound(runs_.begin(), runs_.end(), row, [](int64_t r, const Run& run) { return r < run.row; }) -
           1);
}

int64_t RowPlaces::line(int64_t row) const {
  const Run& run = run_of(row);
  return run.line + (row - run.row);
}

size_t RowPlaces::file(int64_t row) const { return run_of(row).file; }

void RowPlaces::keep(const std::vector<bool>& rows) {
  RowPlaces kept;
  for (int64_t i = 0; i < count_; ++i) {
    if (rows[static_cast<size_t>(i)]) kept.add(file(i), line(i));
  }
  *this = std::move(kept);
}

std::string Cells::place(int64_t row) const { return cat(files[places.file(row)], ":", places.line(row)); }

void Cells::keep(const std::vector<bool>& rows) {
  if (std::find(rows.begin(), rows.end(), false) == rows.end()) return;
  std::vector<int64_t> row_of;  // by the row before
  for (int64_t kept = 0; const bool stays : rows) row_of.push_back(stays ? kept++ : -1);
  for (CellColumn& c : columns) {
    c.numbers.keep(rows);
    c.codes.keep(rows);
    if (c.times) c.times = std::make_shared<SomeTimes>(c.times, rows);
    for (OddCell& o : c.odd) o.row = row_of[static_cast<size_t>(o.row)];
    std::erase_if(c.odd, [](const OddCell& o) { return o.row < 0; });
  }
  places.keep(rows);
}

uint64_t fingerprint(const Cells& cells) {
  std::string text;
  const auto hash = [&]<class T>(const std::vector<T>& values) {
    text += io::xxh3_128({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)});
  };
  for (const CellColumn& c : cells.columns) {
    text += cat("\n", c.name, "\n");
    hash(std::vector<double>(c.numbers.begin(), c.numbers.end()));
    hash(std::vector<uint32_t>(c.codes.begin(), c.codes.end()));
    for (uint32_t code = 0; code < c.words.size(); ++code) text += cat("\t", c.words[code]);
    for (const OddCell& odd : c.odd) text += cat("\t", odd.row, odd.text);
  }
  const std::string all = io::xxh3_128({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return parse_hex(std::string_view(all).substr(0, 16)).value();
}

struct CellReader::State {
  using Open = std::function<std::unique_ptr<io::ByteStream>(size_t file)>;

  State(std::vector<std::string> paths, Open opener, CellsAsked wanted)
      : files(std::move(paths)), stream_of(std::move(opener)), asked(std::move(wanted)) {
    rows = open(0);
    read_head();
    width = head.names.size();
    add_file_column();
    kinds = asked_kinds(asked, head);
  }

  std::unique_ptr<FileRows> open(size_t i) const {
    return asked.forms == CellForms::delimited
               ? delimited_rows(stream_of(i), files[i], {.skip_lines = asked.skip_lines})
               : file_rows(stream_of(i), files[i], asked.skip_lines);
  }

  // The bytes of a file, unpacked.
  uint64_t length(size_t i) const {
    const std::unique_ptr<io::ByteStream> stream = stream_of(i);
    if (stream->size() > 0) return stream->size();
    std::vector<uint8_t> piece(size_t{1} << 20);
    uint64_t all = 0;
    for (size_t got = 0; (got = stream->read(piece.data(), piece.size())) > 0;) all += got;
    return all;
  }

  void add_file_column() {
    if (asked.file_column.empty()) return;
    FREIGHT_CHECK(asked.file_words.size() == files.size(), "column ", asked.file_column, " needs a word for each file");
    if (std::find(head.names.begin(), head.names.end(), asked.file_column) != head.names.end()) {
      fail(ErrorKind::data, files[0], "has a column ", asked.file_column, " in addition to the one with the files");
    }
    head.names.push_back(asked.file_column);
    head.first_row.push_back(asked.file_words[0]);
    for (std::string& word : asked.file_words) word.append(kReadableBehind, '\0');
  }

  // The word of the row at hand in the column that tells the files.
  std::string_view file_word() const {
    const std::string& word = asked.file_words[file];
    return std::string_view(word).substr(0, word.size() - kReadableBehind);
  }

  // The names of the columns by the first file; its first row behind them is the next one.
  void read_head() {
    head.names = rows->own_names();
    own_names = !head.names.empty();
    std::vector<std::string> first, second;
    std::vector<std::vector<std::string>> below;
    int64_t line = 0;
    const auto take = [&](std::vector<std::string>& row) {
      int64_t at = 0;
      std::span<const std::string_view> cells;
      if (!next_row(cells, at)) return;
      row.assign(cells.begin(), cells.end());
      if (line == 0) line = at;
    };
    take(first);
    if (first.empty()) fail(ErrorKind::data, files[0], "has no rows");
    take(second);
    if (!own_names) {
      below = rows_below(second);
      short_header =
          !second.empty() && asked.names.empty() && asked.header.value_or(true) && lacks_index_name(first, second);
      if (short_header) first.insert(first.begin(), "");
      const HeaderReading reading = read_header(first, below, rows->separator(), asked);
      has_header = short_header || reading.header;
      head.header_unsure = has_header && !short_header && !reading.sure;
      head.names = column_names(first, has_header, asked, cat(files[0], ":", line));
      head.numbers_in_header =
          has_header && asked.names.empty() && std::any_of(first.begin(), first.end(), is_number_cell);
    }
    head.header = has_header || own_names;
    head.typed = rows->typed();
    head.separator = rows->separator();
    if (has_header && second.empty()) fail(ErrorKind::data, files[0], "has a header and no rows");
    if (has_header) pass_over_nameless(first, second);
    head.index = has_header && asked.names.empty() && head.names.size() > 1 && trimmed(first[0]).empty();
    head.first_row = has_header ? second : first;
    head.only_row = !has_header && second.empty();
    rows->rewind();
    blank_rows = 0;
    if (has_header) skip_header();
  }

  // The second row, and those that follow it while they are few cells: they show what the columns hold.
  std::vector<std::vector<std::string>> rows_below(const std::vector<std::string>& second) {
    constexpr size_t kMostRows = 100, kMostCells = 10'000;
    std::vector<std::vector<std::string>> below;
    if (second.empty()) return below;
    below.push_back(second);
    std::span<const std::string_view> cells;
    int64_t line = 0;
    while (below.size() < kMostRows && below.size() * second.size() < kMostCells && next_row(cells, line)) {
      below.emplace_back(cells.begin(), cells.end());
    }
    return below;
  }

  // Separators at the end of each line make columns that have neither a name nor a cell.
  void pass_over_nameless(const std::vector<std::string>& first, std::vector<std::string>& second) {
    while (head.names.size() > 1 && second.size() == first.size() && trimmed(first[head.names.size() - 1]).empty() &&
           trimmed(second[head.names.size() - 1]).empty()) {
      head.names.pop_back();
    }
    nameless = first.size() - head.names.size();
    if (nameless > 0) second.resize(head.names.size());
  }

  void skip_header() {
    std::span<const std::string_view> cells;
    int64_t line = 0;
    next_row(cells, line);
  }

  // The next row in which a cell is not empty: programs write rows of separators alone behind the last one. A form that
  // names its columns has no such rows.
  bool next_row(std::span<const std::string_view>& cells, int64_t& line) {
    while (rows->next(cells, line)) {
      if (own_names) return true;
      const auto blank = [](std::string_view cell) { return trimmed(cell).empty(); };
      if (cells.size() == 1 || !cells[0].empty() || !std::all_of(cells.begin(), cells.end(), blank)) return true;
      ++blank_rows;
    }
    return false;
  }

  // Rows that lack most columns are short in the file and long in memory.
  void need_memory() const {
    if (rows->rows() == 0 || !asked.folder.empty()) return;
    const auto cells = static_cast<double>(rows->rows()) *
                       static_cast<double>(std::count_if(kinds.begin(), kinds.end(),
                                                         [](CellKind k) { return k != CellKind::skipped; }));
    io::need_memory(cells * sizeof(double), files[file],
                    cat("its ", rows->rows(), " rows, each with a value for all ", width, " columns,"));
  }

  Cells next(int64_t most) {
    if (most == kAllRows) need_memory();
    Cells out{.files = files, .head = head, .columns = {}, .places = {}};
    out.columns.resize(head.names.size());
    std::vector<ColumnFiller> fillers;
    for (size_t k = 0; k < head.names.size(); ++k) {
      out.columns[k].name = head.names[k];
      out.columns[k].numbers.lie_in(asked.folder);
      out.columns[k].codes.lie_in(asked.folder);
      if (kinds[k] == CellKind::numbers) out.columns[k].numbers.reserve(rows_of_part);
      if (kinds[k] == CellKind::words) out.columns[k].codes.reserve(rows_of_part);
      fillers.emplace_back(out.columns[k], kinds[k]);
    }
    const int64_t begun = rows_before;
    std::span<const std::string_view> cells;
    int64_t line = 0;
    while (out.rows() < most && next_of_all(cells, line)) {
      for (size_t k = 0; k < width; ++k) fillers[k].add(cells[k], line);
      if (fillers.size() > width) fillers[width].add(file_word(), line);
      out.places.add(file, line);
      if (out.rows() == kRowsToJudgeBy && most == kAllRows) reserve(out);
    }
    rows_before += out.rows();
    rows_of_part = static_cast<size_t>(out.rows());
    out.blank_rows = std::exchange(blank_rows, 0);
    out.share = share_read();
    correct(begun, fillers);
    blank_rows = 0;
    for (CellColumn& c : out.columns) {
      c.numbers.fit();
      c.codes.fit();
    }
    return out;
  }

  // Over all files.
  bool next_of_all(std::span<const std::string_view>& cells, int64_t& line) {
    if (enough()) return false;
    while (!next_row(cells, line)) {
      if (file + 1 == files.size()) return false;
      bytes_before += rows->read_so_far();
      rows = open(++file);
      check_header();
    }
    if (cells.size() != width + nameless) {
      fail(ErrorKind::data, cat(files[file], ":", line), "got ", cells.size(), " fields, the first row has ",
           width + nameless);
    }
    for (size_t k = width; k < cells.size(); ++k) {
      if (trimmed(cells[k]).empty()) continue;
      fail(ErrorKind::data, cat(files[file], ":", line), "got '", excerpt(cells[k]), "' in column ", k + 1,
           ", which has no name: name it in the header");
    }
    cells = cells.first(width);
    return true;
  }

  bool enough() const { return asked.most_bytes > 0 && bytes_before + rows->read_so_far() >= asked.most_bytes; }

  // Packed files do not say how long they are: they are read to their ends.
  double share_read() {
    if (!enough()) return 1;
    const uint64_t read = bytes_before + rows->read_so_far();
    uint64_t all = bytes_before;
    for (size_t i = file; i < files.size(); ++i) all += length(i);
    return static_cast<double>(read) / static_cast<double>(std::max(all, read));
  }

  void check_header() {
    std::vector<std::string> names = rows->own_names();
    std::span<const std::string_view> cells;
    int64_t line = 1;
    if (!has_header && !own_names) return;
    if (has_header) {
      if (!next_row(cells, line)) return;
      std::vector<std::string> row(cells.begin(), cells.end());
      if (short_header && row.size() + 1 == width) row.insert(row.begin(), "");
      names = column_names(row, true, asked, cat(files[file], ":", line));
    }
    names.resize(names.size() - std::min(names.size(), nameless));
    if (std::equal(names.begin(), names.end(), head.names.begin(), head.names.begin() + static_cast<ptrdiff_t>(width)))
      return;
    fail(ErrorKind::data, cat(files[file], ":", line), "has the columns ", excerpt(join(names, ", ")), ", ", files[0],
         " has ", excerpt(join(head.names, ", ")), ": expected the same");
  }

  // Room for as many rows as the file has if they are as long as those so far.
  void reserve(Cells& cells) const {
    if (files.size() > 1 || rows->size() == 0 || rows->read_so_far() == 0) return;
    const uint64_t size = asked.most_bytes > 0 ? std::min(asked.most_bytes, rows->size()) : rows->size();
    const double more = static_cast<double>(size) / static_cast<double>(rows->read_so_far());
    const auto room = static_cast<size_t>(1.05 * more * static_cast<double>(cells.rows()));
    for (CellColumn& c : cells.columns) {
      if (c.kind == CellKind::numbers) c.numbers.reserve(room);
      if (c.kind == CellKind::words) c.codes.reserve(room);
    }
  }

  // Columns in which a word stood behind numbers are read again up to there, from the part's first row on: how numbers
  // are written is not kept.
  void correct(int64_t begun, std::vector<ColumnFiller>& fillers) {
    int64_t most = 0;
    for (const ColumnFiller& f : fillers) most = std::max(most, f.to_correct());
    if (most == 0) return;
    file = 0;
    bytes_before = 0;
    rows = open(0);
    if (has_header) skip_header();
    std::span<const std::string_view> cells;
    int64_t line = 0;
    for (int64_t i = 0; i < begun + most && next_of_all(cells, line); ++i) {
      if (i < begun) continue;
      for (size_t k = 0; k < width; ++k) {
        if (i - begun < fillers[k].to_correct()) fillers[k].correct(i - begun, cells[k]);
      }
      if (fillers.size() > width && i - begun < fillers[width].to_correct())
        fillers[width].correct(i - begun, file_word());
    }
    for (int64_t i = begun + most; i < rows_before && next_of_all(cells, line); ++i) {
    }
  }

  static constexpr int64_t kRowsToJudgeBy = 4096;
  std::vector<std::string> files;
  Open stream_of;
  CellsAsked asked;
  std::unique_ptr<FileRows> rows;
  size_t file = 0, width = 0;
  bool own_names = false, has_header = false;  // the names are the form's, or those of the first row
  bool short_header = false;                   // it lacks a name for the first column
  size_t nameless = 0;                         // columns behind those
  int64_t rows_before = 0;                     // the part at hand
  int64_t blank_rows = 0;                      // of the part at hand
  uint64_t bytes_before = 0;                   // the file at hand
  size_t rows_of_part = 0;                     // of the last one: the next is likely as large
  TableHead head;
  std::vector<CellKind> kinds;
};

namespace {
// Every other byte of English text is 0 in UTF-16, and three of four are in UTF-32. Where nearly all are 0 it is
// neither.
void need_no_wide_characters(const std::string& seen, const std::string& name) {
  constexpr size_t kLeastBytes = 8;
  const auto zeros = static_cast<size_t>(std::count(seen.begin(), seen.end(), '\0'));
  if (seen.size() < kLeastBytes || 4 * zeros < seen.size() || 8 * zeros > 7 * seen.size()) return;
  const bool wide = 8 * zeros > 5 * seen.size();
  const char* const form = wide              ? (seen[0] == '\0' ? "UTF-32BE" : "UTF-32LE")
                           : seen[0] == '\0' ? "UTF-16BE"
                                             : "UTF-16LE";
  fail(ErrorKind::data, name, "looks like ", form, wide ? "" : " without a byte order mark",
       ": expected UTF-8 (iconv -f ", form, " -t UTF-8 ", excerpt(name), " > table.csv)");
}
}  // namespace

std::unique_ptr<FileRows> file_rows(std::unique_ptr<io::ByteStream> stream, const std::string& name,
                                    int64_t skip_lines) {
  constexpr size_t kSeen = 4096;
  std::string seen(kSeen, '\0');
  seen.resize(stream->read(reinterpret_cast<uint8_t*>(seen.data()), kSeen));
  stream->rewind();
  if (seen.starts_with("PAR1")) {
    fail(ErrorKind::data, name, "is Parquet, which is not read here: convert it by python3 -c \"import pandas; ",
         "pandas.read_parquet('", excerpt(name), "').to_csv('table.csv.gz', index=False)\"");
  }
  if (seen.starts_with("PK\x03\x04") || lower(name).ends_with(".npz")) return array_rows(std::move(stream), name);
  need_no_wide_characters(seen, name);
  std::string_view text = seen;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text = trimmed(text);
  if (is_json_row(text.substr(0, text.find('\n'))) || names_json_lines(name)) return json_rows(std::move(stream), name);
  if (skip_lines == 0 && is_sparse(seen.substr(0, seen.find('\n')))) return sparse_rows(std::move(stream), name);
  return delimited_rows(std::move(stream), name, {.skip_lines = skip_lines});
}

CellReader::CellReader(const std::vector<std::string>& files, CellsAsked asked) {
  const auto stream = [files](size_t file) {
    auto opened = std::make_unique<io::ByteStream>(files[file]);
    opened->to_utf8();
    return opened;
  };
  state_ = io::reading(files.at(0), [&] { return std::make_unique<State>(files, stream, std::move(asked)); });
}

CellReader::CellReader(io::ByteView bytes, const std::string& name, CellsAsked asked) {
  const auto stream = [bytes](size_t) {
    auto opened = std::make_unique<io::ByteStream>(bytes);
    opened->to_utf8();
    return opened;
  };
  state_ = std::make_unique<State>(std::vector<std::string>{name}, stream, std::move(asked));
}

CellReader::~CellReader() = default;
Cells CellReader::next(int64_t most) {
  return io::reading(state_->files[state_->file], [&] { return state_->next(most); });
}

Cells parse_cells(io::ByteView bytes, const std::string& name, const CellsAsked& asked) {
  return CellReader(bytes, name, asked).next(kAllRows);
}

Cells read_cells(const std::vector<std::string>& files, const CellsAsked& asked) {
  return CellReader(files, asked).next(kAllRows);
}

bool only_names(const TableHead& head) {
  if (head.header || !head.only_row) return false;
  const bool number =
      std::any_of(head.first_row.begin(), head.first_row.end(), [](const auto& cell) { return is_number_cell(cell); });
  return !number && TableHeader(head.first_row).plausible();
}

}  // namespace freight::data
