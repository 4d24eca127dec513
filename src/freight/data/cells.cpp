// See cells.h.
#include "freight/data/cells.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <string_view>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/columns.h"
#include "freight/data/unicode.h"
#include "freight/io/csv.h"

namespace freight::data {

namespace {

// The most frequent of the usual separators in the first line, outside of quotes.
char separator_of(io::ByteView bytes) {
  constexpr std::string_view kSeparators = ",;\t";
  int64_t counts[3] = {};
  bool quoted = false;
  for (const uint8_t byte : bytes) {
    const char c = static_cast<char>(byte);
    if (c == '"') quoted = !quoted;
    if (c == '\n' && !quoted) break;
    if (const size_t at = kSeparators.find(c); at != std::string_view::npos && !quoted) ++counts[at];
  }
  return kSeparators[static_cast<size_t>(std::max_element(counts, counts + 3) - counts)];
}

// Stored models and run.json hold names of columns, words and classes as UTF-8.
void need_utf8(io::ByteView bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::optional<size_t> at = utf8_fault(text);
  if (!at) return;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(*at), '\n');
  fail(ErrorKind::data, cat(name, ":", line), "not UTF-8: got byte ", static_cast<int>(bytes[*at]),
       " where no character begins or goes on; save the table as UTF-8 (iconv -f latin1 -t utf8)");
}

template <class T>
void keep_rows(Growing<T>& values, const std::vector<bool>& rows) {
  size_t kept = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (rows[i]) values[kept++] = values[i];
  }
  values.resize(kept, T{});
}

constexpr int64_t kAllRows = std::numeric_limits<int64_t>::max();

}  // namespace

const OddCell* CellColumn::odd_at(int64_t row) const {
  const auto at = std::lower_bound(odd.begin(), odd.end(), row, [](const OddCell& o, int64_t r) { return o.row < r; });
  return at != odd.end() && at->row == row ? &*at : nullptr;
}

bool CellColumn::missing(int64_t row) const {
  const auto i = static_cast<size_t>(row);
  return is_words() ? codes[i] == Words::kMissing : std::isnan(numbers[i]) && !odd_at(row);
}

std::string CellColumn::text(int64_t row) const {
  if (missing(row)) return "";
  const auto i = static_cast<size_t>(row);
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
    keep_rows(c.numbers, rows);
    keep_rows(c.codes, rows);
    for (OddCell& o : c.odd) o.row = row_of[static_cast<size_t>(o.row)];
    std::erase_if(c.odd, [](const OddCell& o) { return o.row < 0; });
  }
  places.keep(rows);
}

struct CellReader::State {
  State(io::ByteView bytes, std::string file, CellsAsked wanted) : name(std::move(file)), asked(std::move(wanted)) {
    need_utf8(bytes, name);
    rows = io::parse_csv(bytes, name, separator_of(bytes));
    if (rows.empty()) fail(ErrorKind::data, name, "holds no rows");
    head.header = is_header(rows[0].fields, rows.size() > 1 ? &rows[1].fields : nullptr, asked);
    width = rows[0].fields.size();
    head.names = column_names(rows[0].fields, head.header, asked, cat(name, ":", rows[0].line));
    at = head.header ? 1 : 0;
    if (at == rows.size()) fail(ErrorKind::data, name, "holds a header and no rows");
    head.first_row = rows[at].fields;
    head.only_row = at + 1 == rows.size();
    kinds = asked_kinds(asked, head);
  }

  Cells next(int64_t most) {
    Cells out{.files = {name}, .head = head, .columns = {}, .places = {}};
    out.columns.resize(width);
    std::vector<ColumnFiller> fillers;
    for (size_t k = 0; k < width; ++k) {
      out.columns[k].name = head.names[k];
      fillers.emplace_back(out.columns[k], kinds[k]);
    }
    const size_t begin = at;
    for (; at < rows.size() && out.rows() < most; ++at) {
      const io::CsvRow& row = rows[at];
      if (row.fields.size() != width) {
        fail(ErrorKind::data, cat(name, ":", row.line), "got ", row.fields.size(), " cells, the first row has ", width);
      }
      for (size_t k = 0; k < width; ++k) fillers[k].add(row.fields[k], row.line);
      out.places.add(0, row.line);
    }
    for (size_t k = 0; k < width; ++k) {
      for (int64_t i = 0; i < fillers[k].to_correct(); ++i) {
        fillers[k].correct(i, rows[begin + static_cast<size_t>(i)].fields[k]);
      }
    }
    return out;
  }

  std::string name;
  CellsAsked asked;
  std::vector<io::CsvRow> rows;
  size_t at = 0, width = 0;
  TableHead head;
  std::vector<CellKind> kinds;
};

CellReader::CellReader(const std::string& path, CellsAsked asked)
    : state_(std::make_unique<State>(io::read_file_gunzip(path), path, std::move(asked))) {}
CellReader::CellReader(io::ByteView bytes, const std::string& name, CellsAsked asked)
    : state_(std::make_unique<State>(bytes, name, std::move(asked))) {}
CellReader::~CellReader() = default;
Cells CellReader::next(int64_t most) { return state_->next(most); }

Cells parse_cells(io::ByteView bytes, const std::string& name, const CellsAsked& asked) {
  return CellReader(bytes, name, asked).next(kAllRows);
}

Cells read_cells(const std::string& path, const CellsAsked& asked) { return CellReader(path, asked).next(kAllRows); }

bool only_names(const TableHead& head) {
  if (head.header || !head.only_row) return false;
  const bool number =
      std::any_of(head.first_row.begin(), head.first_row.end(), [](const auto& cell) { return is_number_cell(cell); });
  return !number && TableHeader(head.first_row).plausible();
}

}  // namespace freight::data
