// See tables.h: the columns of a table become cells.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "freight/base/printable.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/cells.h"
#include "freight/data/columns.h"
#include "freight/data/number_style.h"
#include "tables.h"

namespace freight::python {

namespace {

using data::CellKind;

// The text of a cell with the bytes behind it that a filler may read.
std::string_view padded(std::string_view text, std::string& room) {
  room.assign(text);
  room.append(data::kReadableBehind, '\0');
  return std::string_view(room).substr(0, text.size());
}

std::string_view text_of(const Segment& s, int64_t row, std::string& room) {
  if (s.text) return s.text(row, room);
  const double value = s.number(row);
  room = std::isnan(value) ? std::string() : cat(value);
  return room;
}

// Calls f(segment, row within it, row) for all rows.
template <class F>
void for_each_row(const InputColumn& in, int64_t end, F&& f) {
  int64_t row = 0;
  for (const Segment& s : in.segments) {
    for (int64_t i = 0; i < s.rows && row < end; ++i, ++row) f(s, i, row);
  }
}

void fill_texts(data::CellColumn& out, const InputColumn& in, int64_t rows, CellKind asked) {
  data::ColumnFiller filler(out, asked);
  constexpr uint32_t kUnknown = data::Words::kMissing;
  std::vector<uint32_t> words;  // by the code of the segment's categories: the number of its word
  const Segment* of = nullptr;
  std::string room, cell;
  for_each_row(in, rows, [&](const Segment& s, int64_t i, int64_t row) {
    if (of != &s) words.clear(), of = &s;
    const auto code = s.code ? static_cast<size_t>(s.code(i)) : words.size();
    if (out.is_words() && code < words.size() && words[code] != kUnknown) return out.codes.push_back(words[code]);
    filler.add(padded(text_of(s, i, room), cell), row + 1);
    if (!s.code || s.code(i) < 0 || !out.is_words() || out.codes.back() == kUnknown) return;
    if (data::is_big_integer(out.words[out.codes.back()])) return;  // these are counted
    if (code >= words.size()) words.resize(code + 1, kUnknown);
    words[code] = out.codes.back();
  });
  for_each_row(in, filler.to_correct(), [&](const Segment& s, int64_t i, int64_t row) {
    filler.correct(row, padded(text_of(s, i, room), cell));
  });
}

void fill_numbers(data::CellColumn& out, const InputColumn& in, int64_t rows, const std::string& folder) {
  out.numbers.lie_in(folder);
  out.numbers.reserve(static_cast<size_t>(rows));
  for_each_row(in, rows, [&](const Segment& s, int64_t i, int64_t row) {
    const double value = s.number(i);
    if (std::isinf(value)) out.odd.push_back({row, row + 1, cat(value)});
    out.numbers.push_back(std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN());
  });
}

// The date of a day since 1970 in the Gregorian calendar (H. Hinnant, chrono-compatible low-level date algorithms).
struct Date {
  int64_t year, month, day;
};
Date date_of(int64_t days) {
  days += 719468;
  const int64_t era = (days >= 0 ? days : days - 146096) / 146097, of_era = days - era * 146097;
  const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
  return {year + era * 400 + (month >= 10 ? 1 : 0), month < 10 ? month + 3 : month - 9,
          of_year - (153 * month + 2) / 5 + 1};
}

}  // namespace

Segment times(int64_t rows, std::function<int64_t(int64_t)> value, std::function<bool(int64_t)> missing,
              int64_t per_second) {
  const int64_t per_day = 86400 * per_second;
  bool with_time = false, with_fraction = false;
  for (int64_t i = 0; i < rows && !with_fraction; ++i) {
    if (missing(i)) continue;
    with_time = with_time || value(i) % per_day != 0;
    with_fraction = value(i) % per_second != 0;
  }
  const auto text = [=](int64_t row, std::string& room) -> std::string_view {
    if (missing(row)) return {};
    const int64_t v = value(row), days = v / per_day - (v % per_day < 0 ? 1 : 0), rest = v - days * per_day;
    const Date d = date_of(days);
    const int64_t second = rest / per_second;
    char digits[80];
    int size = std::snprintf(digits, sizeof digits, "%04lld-%02lld-%02lld", static_cast<long long>(d.year),
                             static_cast<long long>(d.month), static_cast<long long>(d.day));
    if (with_time || with_fraction) {
      size += std::snprintf(digits + size, sizeof digits - static_cast<size_t>(size), " %02lld:%02lld:%02lld",
                            static_cast<long long>(second / 3600), static_cast<long long>(second / 60 % 60),
                            static_cast<long long>(second % 60));
    }
    if (with_fraction) {
      const double fraction = static_cast<double>(rest % per_second) / static_cast<double>(per_second);
      char part[16];
      std::snprintf(part, sizeof part, "%.9f", fraction);
      room = std::string(digits, static_cast<size_t>(size)) + (part + 1);
      return room;
    }
    room.assign(digits, static_cast<size_t>(size));
    return room;
  };
  return {.rows = rows, .text = text};
}

void Table::add(InputColumn column, int64_t rows) {
  for (const InputColumn& c : columns_) {
    if (c.name == column.name) raise<ValueError>(name_, ": two columns are named ", excerpt(c.name));
  }
  if (!columns_.empty() && rows != rows_) {
    raise<ValueError>(name_, ": column ", excerpt(column.name), " has ", rows, " rows, expected ", rows_,
                      " as in the columns before it");
  }
  rows_ = rows;
  columns_.push_back(std::move(column));
}

void Table::append(const Table& other) {
  for (InputColumn& c : columns_) {
    const auto same = [&](const InputColumn& o) { return o.name == c.name; };
    const auto at = std::find_if(other.columns_.begin(), other.columns_.end(), same);
    if (at == other.columns_.end()) raise<ValueError>(other.name_, ": has no column ", excerpt(c.name));
    c.segments.insert(c.segments.end(), at->segments.begin(), at->segments.end());
  }
  rows_ += other.rows_;
  owners_.insert(owners_.end(), other.owners_.begin(), other.owners_.end());
}

data::Cells Table::cells(const data::CellsAsked& asked) const {
  data::Cells cells;
  cells.files = {name_};
  cells.head.header = true;
  cells.head.separator = ',';
  for (const InputColumn& c : columns_) cells.head.names.push_back(c.name);
  const std::vector<CellKind> kinds = data::asked_kinds(asked, cells.head);
  cells.columns.resize(columns_.size());
  for (size_t k = 0; k < columns_.size(); ++k) {
    const InputColumn& in = columns_[k];
    data::CellColumn& out = cells.columns[k];
    out.name = in.name;
    const auto numeric = [](const Segment& s) { return s.number != nullptr; };
    if (kinds[k] == CellKind::skipped) {
      out.kind = CellKind::skipped;
    } else if (kinds[k] != CellKind::words && std::all_of(in.segments.begin(), in.segments.end(), numeric)) {
      fill_numbers(out, in, rows_, asked.folder);
    } else {
      fill_texts(out, in, rows_, kinds[k]);
    }
  }
  for (int64_t i = 0; i < rows_; ++i) cells.places.add(0, i + 1);
  return cells;
}

std::shared_ptr<const void> owner_of(nb::handle object) {
  return {new nb::object(nb::borrow(object)), [](const void* p) {
            nb::gil_scoped_acquire gil;
            delete static_cast<const nb::object*>(p);
          }};
}

}  // namespace freight::python
