// See number_columns.h.
#include "freight/tables/number_columns.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"
#include "freight/tables/kinds.h"

namespace freight::tables {

namespace {

constexpr size_t kMostShown = 3;  // of the values that are not numbers

// The words of a column as numbers.
struct Tally {
  data::NumberStyle style;
  std::vector<std::optional<double>> values;  // by code; empty: not a number, or missing
  std::vector<bool> missing;                  // by code
  std::optional<uint32_t> styled;             // the first word that is a number only in this style
  int64_t present = 0, numbers = 0;           // number of values
};

// Numbers of a format that has them are plain, even if texts are written in another style.
Tally tally_of(const data::CellColumn& column, const std::vector<int64_t>& counts, const data::TableHead& head) {
  const auto plain = [&](std::string_view word) { return head.typed && data::is_number_cell(word); };
  std::vector<std::string_view> words;
  for (uint32_t code = 0; code < counts.size(); ++code) {
    const std::string_view word = column.words[code];
    if (counts[code] > 0 && !data::is_missing_number(word) && !plain(word)) words.push_back(word);
  }
  Tally tally;
  tally.style = data::style_of(words, head.separator);
  for (uint32_t code = 0; code < counts.size(); ++code) {
    const std::string_view word = column.words[code];
    tally.missing.push_back(data::is_missing_number(word));
    tally.values.push_back(
        tally.missing[code] ? std::nullopt : data::number_as(word, plain(word) ? data::NumberStyle() : tally.style));
    if (tally.missing[code]) continue;
    tally.present += counts[code];
    if (!tally.values[code]) continue;
    tally.numbers += counts[code];
    if (!tally.styled && counts[code] > 0 && data::number_in(word) != tally.values[code]) tally.styled = code;
  }
  return tally;
}

void become_numbers(data::Cells& cells, size_t at, const Tally& tally, const std::string& folder) {
  data::CellColumn& column = cells.columns[at];
  column.numbers.lie_in(folder);
  column.numbers.reserve(column.codes.size());
  for (size_t i = 0; i < column.codes.size(); ++i) {
    const uint32_t code = column.codes[i];
    const bool word = code != data::Words::kMissing;
    const std::optional<double> value = word ? tally.values[code] : std::nullopt;
    column.numbers.push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));
    if (!word || value) continue;
    const std::string text(column.words[code]);
    const auto row = static_cast<int64_t>(i);
    if (tally.missing[code]) {
      ++column.missing_as[text];
    } else {
      column.odd.push_back({row, cells.places.line(row), text});
    }
  }
  column.kind = data::CellKind::numbers;
  column.codes = {};
  column.words = {};
  column.first_word.reset();
}

// Lists values that are not numbers: "'x' (line 7), 'y' (3 cells from line 9 on) and 4 others".
std::string cells_that_are_none(const data::Cells& cells, const data::CellColumn& column, const Tally& tally,
                                const std::vector<int64_t>& counts) {
  std::vector<std::string> shown;
  std::vector<bool> seen(counts.size());
  size_t others = 0;
  for (size_t i = 0; i < column.codes.size(); ++i) {
    const uint32_t code = column.codes[i];
    if (code == data::Words::kMissing || seen[code] || tally.values[code] || tally.missing[code]) continue;
    seen[code] = true;
    if (shown.size() == kMostShown) {
      ++others;
      continue;
    }
    const int64_t line = cells.places.line(static_cast<int64_t>(i));
    shown.push_back(cat(
        "'", excerpt(column.words[code]), "' (",
        counts[code] > 1 ? cat(with_commas(counts[code]), " values, first in line ", line) : cat("line ", line), ")"));
  }
  return cat(join(shown, ", "),
             others > 0 ? cat(" and ", with_commas(static_cast<int64_t>(others)), " other values") : "");
}

}  // namespace

std::string missing_note(const data::CellColumn& column) {
  std::vector<std::string> spellings;
  for (const auto& [spelling, count] : column.missing_as) {
    spellings.push_back(cat("'", excerpt(spelling), "' (", with_commas(count), count == 1 ? " value)" : " values)"));
  }
  if (spellings.empty()) return "";
  const size_t more = spellings.size() > kMostShown ? spellings.size() - kMostShown : 0;
  spellings.resize(spellings.size() - more);
  return cat(join(spellings, ", "), more > 0 ? cat(" and ", more, " other spellings") : "", " read as missing values");
}

std::string both_notes(const std::string& a, const std::string& b) {
  return cat(a, a.empty() || b.empty() ? "" : "; ", b);
}

bool names_identifiers(const std::string& name) {
  static constexpr const char* kUsual[] = {"id",    "index",  "idx",        "uuid",  "guid",
                                           "rowid", "row_id", "unnamed: 0", "rownum"};
  const std::string small = lower(name);
  if (std::any_of(std::begin(kUsual), std::end(kUsual), [&](const char* one) { return small == one; })) return true;
  if (ends_with(small, "_id") || ends_with(small, " id") || ends_with(small, "-id")) return true;
  const bool camel = ends_with(name, "Id") || ends_with(name, "ID");
  return camel && name.size() > 2 && name[name.size() - 3] >= 'a' && name[name.size() - 3] <= 'z';
}

NumberReading read_numbers(data::Cells& cells, size_t at, const NumberRequest& request) {
  data::CellColumn& column = cells.columns[at];
  if (!column.is_words() || !column.first_word) return {};
  const std::vector<int64_t> counts = counts_of_words(column);
  const Tally tally = tally_of(column, counts, cells.head);
  const int64_t big = column.big_integers;
  if (tally.numbers == tally.present && tally.numbers > 0) {
    // Most values of an identifier have the same number of digits; quantities that large rarely do.
    const bool names =
        !request.said && !request.quantity && big > 0 && (2 * big > tally.present || names_identifiers(column.name));
    if (names) return {};
    std::string note;
    if (tally.styled) {
      note = cat("'", excerpt(column.words[*tally.styled]), "' is read as ", *tally.values[*tally.styled]);
    }
    if (big > 0) note = both_notes(note, cat(with_commas(big), " integers of 2^53 or more are rounded to 53 bits"));
    become_numbers(cells, at, tally, request.folder);
    return {.style = tally.style, .note = note};
  }
  if (request.said) {
    become_numbers(cells, at, tally, request.folder);
    return {.style = tally.style};
  }
  if (2 * tally.numbers < tally.present || tally.numbers == 0) return {};
  return {.note = cat(with_commas(tally.numbers), " of ", with_commas(tally.present),
                      " values are numbers; read as a category because of ",
                      cells_that_are_none(cells, column, tally, counts), "; --types ", column.name,
                      "=number rejects those rows instead, and --on-bad-sample skip skips them")};
}

}  // namespace freight::tables
