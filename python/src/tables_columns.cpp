// See tables.h: the columns of a table become cells.
#include <algorithm>
#include <chrono>
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
constexpr int64_t kNanoseconds = 1000000000;  // of a second
constexpr size_t kDigitsOfFraction = 9;

// The text of a cell with the bytes behind it that a filler may read.
std::string_view padded(std::string_view text, std::string& room) {
  room.assign(text);
  room.append(data::kReadableBehind, '\0');
  return std::string_view(room).substr(0, text.size());
}

std::string_view text_of(const Segment& s, int64_t row, std::string& room) {
  if (s.text) return s.text(row, room);
  const double value = s.number->value(row);
  room = std::isnan(value) ? std::string() : cat(value);
  return room;
}

// Some rows of a column.
struct RowRange {
  int64_t begin = 0, end = 0;

  int64_t count() const { return end - begin; }
};

// Calls f(segment, row within it, row from `begin` on) for these rows.
template <class F>
void for_each_row(const InputColumn& in, const RowRange& rows, F&& f) {
  int64_t first = 0;
  for (const Segment& s : in.segments) {
    const int64_t end = std::min(s.rows, rows.end - first);
    for (int64_t i = std::max<int64_t>(rows.begin - first, 0); i < end; ++i) f(s, i, first + i - rows.begin);
    first += s.rows;
  }
}

// Finds the segment of a row.
class SegmentRows {
 public:
  SegmentRows(const InputColumn& in, const RowRange& rows) : segments_(in.segments), rows_(rows) {
    int64_t end = 0;
    for (const Segment& s : segments_) ends_.push_back(end += s.rows);
  }
  int64_t count() const { return rows_.count(); }
  // Calls f(segment, row within it).
  template <class F>
  auto at(int64_t row, F&& f) const {
    const int64_t in_column = rows_.begin + row;
    const auto k = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), in_column) - ends_.begin());
    return f(segments_[k], in_column - ends_[k] + segments_[k].rows);
  }

 private:
  std::vector<Segment> segments_;
  RowRange rows_;
  std::vector<int64_t> ends_;
};

class SegmentNumbers : public data::NumberSource {
 public:
  SegmentNumbers(const InputColumn& in, const RowRange& rows) : rows_(in, rows) {}
  double at(int64_t row) const override {
    return rows_.at(row, [](const Segment& s, int64_t i) { return s.number->at(i); });
  }
  void gather(std::span<const uint32_t> rows, double* to, size_t stride) const override {
    for (size_t i = 0; i < rows.size(); ++i) to[i * stride] = at(rows[i]);
  }

 private:
  SegmentRows rows_;
};

class SegmentTimes : public data::TimeSource {
 public:
  SegmentTimes(const InputColumn& in, const RowRange& rows) : rows_(in, rows) {}
  int64_t rows() const override { return rows_.count(); }
  std::optional<data::DateTime> at(int64_t row) const override {
    return rows_.at(row, [](const Segment& s, int64_t i) { return s.time(i); });
  }
  std::string text(int64_t row) const override {
    return rows_.at(row, [](const Segment& s, int64_t i) {
      std::string room;
      return std::string(s.text(i, room));
    });
  }

 private:
  SegmentRows rows_;
};

void fill_texts(data::CellColumn& out, const InputColumn& in, const RowRange& rows, CellKind asked) {
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
  for_each_row(in, {rows.begin, rows.begin + filler.to_correct()}, [&](const Segment& s, int64_t i, int64_t row) {
    filler.correct(row, padded(text_of(s, i, room), cell));
  });
}

void place_numbers(data::CellColumn& out, const InputColumn& in, const RowRange& rows) {
  for_each_row(in, rows, [&](const Segment& s, int64_t i, int64_t row) {
    if (const double value = s.number->value(i); std::isinf(value)) out.odd.push_back({row, row + 1, cat(value)});
  });
  const bool whole = in.segments.size() == 1 && rows.begin == 0;
  std::shared_ptr<const data::NumberSource> source;
  if (whole) source = in.segments[0].number;
  if (!whole) source = std::make_shared<SegmentNumbers>(in, rows);
  out.numbers = data::Numbers(std::move(source), static_cast<size_t>(rows.count()));
}

}  // namespace

Segment times(int64_t rows, std::function<int64_t(int64_t)> value, std::function<bool(int64_t)> missing,
              int64_t per_second) {
  const int64_t per_day = 86400 * per_second;
  bool with_time = false, with_fraction = false, dates = true;
  const auto second_of = [=](int64_t v) { return v / per_second - (v % per_second < 0 ? 1 : 0); };
  for (int64_t i = 0; i < rows; ++i) {
    if (missing(i)) continue;
    const int64_t v = value(i);
    with_time = with_time || v % per_day != 0;
    with_fraction = with_fraction || v % per_second != 0;
    dates = dates && data::date_time_at(second_of(v));
  }
  const auto text = [=](int64_t row, std::string& room) -> std::string_view {
    if (missing(row)) return {};
    const int64_t v = value(row), days = v / per_day - (v % per_day < 0 ? 1 : 0), rest = v - days * per_day;
    const std::chrono::year_month_day d{std::chrono::sys_days(std::chrono::days(days))};
    const int64_t second = rest / per_second;
    char digits[80];
    int size =
        std::snprintf(digits, sizeof digits, "%04lld-%02lld-%02lld", static_cast<long long>(static_cast<int>(d.year())),
                      static_cast<long long>(static_cast<unsigned>(d.month())),
                      static_cast<long long>(static_cast<unsigned>(d.day())));
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
  Segment segment{.rows = rows, .text = text};
  if (!dates) return segment;  // a year that no date has
  segment.time = [=](int64_t row) -> std::optional<data::DateTime> {
    if (missing(row)) return std::nullopt;
    const int64_t v = value(row), second = second_of(v);
    if (!with_fraction) return data::date_time_at(second);
    char digits[kDigitsOfFraction + 1];
    const int64_t fraction = (v - second * per_second) * (kNanoseconds / per_second);
    std::snprintf(digits, sizeof digits, "%09lld", static_cast<long long>(fraction));
    return data::date_time_at(second, digits);
  };
  return segment;
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

data::Cells Table::cells(const data::CellsAsked& asked, int64_t begin, int64_t end) const {
  const RowRange rows{begin, end};
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
    const auto timed = [](const Segment& s) { return s.time != nullptr; };
    const bool may_be_times = asked.times && asked.times(k) && !in.segments.empty();
    if (kinds[k] == CellKind::skipped) {
      out.kind = CellKind::skipped;
    } else if (kinds[k] != CellKind::words && std::all_of(in.segments.begin(), in.segments.end(), numeric)) {
      place_numbers(out, in, rows);
    } else if (may_be_times && std::all_of(in.segments.begin(), in.segments.end(), timed)) {
      out.kind = CellKind::times;
      out.times = std::make_shared<SegmentTimes>(in, rows);
    } else {
      fill_texts(out, in, rows, kinds[k]);
    }
  }
  for (int64_t i = begin; i < end; ++i) cells.places.add(0, i + 1);
  return cells;
}

std::shared_ptr<const void> owner_of(nb::handle object) {
  return {new nb::object(nb::borrow(object)), [](const void* p) {
            nb::gil_scoped_acquire gil;
            delete static_cast<const nb::object*>(p);
          }};
}

}  // namespace freight::python
