// See kinds.h.
#include "freight/tables/kinds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/data/columns.h"
#include "freight/tables/number_columns.h"

namespace freight::tables {

namespace {

constexpr const char* kKindNames[] = {"number",   "integer", "category", "yesno",
                                      "datetime", "text",    "constant", "identifier"};
constexpr double kEndOfIntegers = 0x1p53;  // below it doubles represent all whole numbers
// With fewer rows it is not clear whether a column counts them, or its words are names: they may differ by chance.
constexpr int64_t kLeastCounted = 100, kLeastNamed = 20;
constexpr double kLongText = 40, kWordsOfText = 3;  // mean characters and words of a value
constexpr int64_t kManyWords = 10000;

struct NumberFacts {
  int64_t present = 0;
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();
  bool whole = true;
  bool counts = true;  // each number is one more than in the row before
};

NumberFacts facts_of(const data::CellColumn& column) {
  NumberFacts facts;
  const size_t n = column.numbers.size();
  for (size_t i = 0; i < n; ++i) {
    const double v = column.numbers[i];
    facts.counts = facts.counts && (i == 0 || v == column.numbers[i - 1] + 1);
    if (std::isnan(v)) continue;
    ++facts.present;
    facts.least = std::min(facts.least, v);
    facts.most = std::max(facts.most, v);
    facts.whole = facts.whole && v == std::floor(v) && std::fabs(v) < kEndOfIntegers;
  }
  return facts;
}

bool all_different(const data::CellColumn& column) {
  std::unordered_set<double> seen;
  for (size_t i = 0; i < column.numbers.size(); ++i) {
    if (!std::isnan(column.numbers[i]) && !seen.insert(column.numbers[i]).second) return false;
  }
  return true;
}

TypedColumn type_of_numbers(const data::CellColumn& column, bool alone) {
  const NumberFacts facts = facts_of(column);
  const auto rows = static_cast<int64_t>(column.numbers.size());
  if (facts.present == 0 && column.odd.empty()) return {.kind = ColumnKind::constant, .note = "all values are missing"};
  if (facts.least == facts.most && facts.present == rows) {
    return {.kind = ColumnKind::constant, .note = cat("all values are ", facts.least)};
  }
  if (!facts.whole) return {.kind = ColumnKind::number};
  const bool named = names_identifiers(column.name);
  if (named && rows >= 2 && facts.present == rows && all_different(column)) {
    return {.kind = ColumnKind::identifier,
            .note = "its name and its numbers, all different, are those of an identifier"};
  }
  if (!alone && rows >= kLeastCounted && facts.counts && facts.present == rows) {
    return {.kind = ColumnKind::identifier, .note = "it counts the rows"};
  }
  if (lower(column.name).starts_with("unnamed: ")) {
    return {.kind = ColumnKind::identifier, .note = "pandas names an index so that it wrote without a name"};
  }
  TypedColumn integer{.kind = ColumnKind::integer};
  if (named)
    integer.note =
        "it is named like an identifier, and its numbers repeat: --drop removes it, =category makes it no "
        "quantity";
  return integer;
}

// The order of days, months and years in which all words are dates; empty if they are not dates. If both orders of days
// and months fit, months come first, as in pandas.
std::optional<data::DateOrder> order_of(const data::CellColumn& column, const std::vector<int64_t>& counts,
                                        bool& unclear) {
  std::optional<data::DateOrder> found;
  // A year of four digits fits one order only.
  for (const data::DateOrder order : {data::DateOrder::mdy, data::DateOrder::dmy, data::DateOrder::ymd}) {
    bool all = true, any = false;
    for (uint32_t code = 0; code < counts.size() && all; ++code) {
      if (counts[code] == 0 || data::is_missing_number(column.words[code])) continue;
      any = true;
      all = data::date_time_in(column.words[code], order).has_value();
    }
    all = all && any;
    unclear = unclear || (all && found.has_value());
    if (all && !found) found = order;
  }
  return found;
}

// A note on the first date whose year has two digits, "'27/10/25' is read as 2025-10-27"; empty if all years have four
// digits.
std::string note_on_years(const data::CellColumn& column, const std::vector<int64_t>& counts, data::DateOrder order) {
  for (uint32_t code = 0; code < counts.size(); ++code) {
    const std::string_view word = column.words[code];
    const std::optional<data::DateTime> time = data::date_time_in(word, order);
    if (counts[code] == 0 || !time) continue;
    const std::string year = std::to_string(time->year);
    if (word.find(year) != std::string_view::npos) return "";
    const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(time->days))};
    const auto two = [](unsigned n) { return cat(n < 10 ? "0" : "", n); };
    return cat("'", excerpt(word), "' is read as ", year, "-", two(static_cast<unsigned>(date.month())), "-",
               two(static_cast<unsigned>(date.day())));
  }
  return "";
}

struct WordFacts {
  int64_t present = 0, different = 0;
  double length = 0, words = 0;  // mean characters and words of a value
  int64_t numbers = 0;           // number of values that are numbers
};

WordFacts facts_of(const data::CellColumn& column, const std::vector<int64_t>& counts) {
  WordFacts facts;
  for (uint32_t code = 0; code < counts.size(); ++code) {
    if (counts[code] == 0) continue;
    const std::string_view word = column.words[code];
    const auto count = static_cast<double>(counts[code]);
    facts.present += counts[code];
    ++facts.different;
    facts.length += count * static_cast<double>(word.size());
    facts.words += count * static_cast<double>(1 + std::count(word.begin(), word.end(), ' '));
    if (data::is_number_cell(word)) facts.numbers += counts[code];
  }
  facts.length /= std::max(1.0, static_cast<double>(facts.present));
  facts.words /= std::max(1.0, static_cast<double>(facts.present));
  return facts;
}

// True for words of one way to say yes and no, both of which occur.
bool says_yes_or_no(const data::CellColumn& column, const std::vector<int64_t>& counts) {
  for (const auto& [yes, no] : data::kYesNo) {
    bool seen[2] = {}, other = false;
    for (uint32_t code = 0; code < counts.size() && !other; ++code) {
      if (counts[code] == 0) continue;
      const std::string word = lower(column.words[code]);
      other = word != yes && word != no;
      seen[word == yes] = true;
    }
    if (!other && seen[0] && seen[1]) return true;
  }
  return false;
}

TypedColumn type_of_words(const data::CellColumn& column) {
  const std::vector<int64_t> counts = counts_of_words(column);
  const auto rows = static_cast<int64_t>(column.codes.size());
  const WordFacts facts = facts_of(column, counts);
  if (facts.present == 0) return {.kind = ColumnKind::constant, .note = "all values are missing"};
  if (facts.different == 1 && facts.present == rows) {
    return {.kind = ColumnKind::constant, .note = cat("all values are ", excerpt(column.text(0)))};
  }
  if (says_yes_or_no(column, counts)) return {.kind = ColumnKind::yesno};
  bool unclear = false;
  if (const auto order = order_of(column, counts, unclear)) {
    const std::string years = note_on_years(column, counts, *order);
    return {.kind = ColumnKind::datetime,
            .order = *order,
            .note = cat(
                years, years.empty() || !unclear ? "" : "; ",
                unclear ? "its dates are read as month, day, year; those of another order must be written as 2026-11-26"
                        : "")};
  }
  const bool each_differs = facts.different == facts.present && facts.present >= kLeastNamed;
  const bool many = facts.present >= kLeastNamed && 2 * facts.different > facts.present;
  if (many && (facts.length > kLongText || facts.words >= kWordsOfText)) {
    return {.kind = ColumnKind::text, .note = cat(with_commas(facts.different), " different texts")};
  }
  const bool big = column.big_integers > 0 && facts.numbers == facts.present;
  const bool named = names_identifiers(column.name);
  if ((each_differs && (facts.numbers == 0 || named || big)) || (big && named && facts.different == facts.present)) {
    return {.kind = ColumnKind::identifier, .note = "every value is unique"};
  }
  TypedColumn category{.kind = ColumnKind::category};
  if (big) {
    category.note = cat("its integers of 2^53 or more are categories, since f64 cannot represent all of them; --types ",
                        column.name, "=number rounds them");
  } else if (facts.different >= kManyWords) {
    category.note = cat("it has ", with_commas(facts.different),
                        " categories: most occur in few rows, so little can be learned from them");
  }
  return category;
}

// Times in a program's memory are dates that the reader need not recognize. The notes are those of their texts.
TypedColumn type_of_times(const data::CellColumn& column) {
  std::optional<data::DateTime> first;
  bool missing = false, same = true;
  for (int64_t i = 0; i < column.times->rows() && same; ++i) {
    const std::optional<data::DateTime> time = column.times->at(i);
    missing = missing || !time;
    if (!first) first = time;
    same = same && (!time || time->seconds == first->seconds);
  }
  if (!first) return {.kind = ColumnKind::constant, .note = "all values are missing"};
  if (same && !missing) return {.kind = ColumnKind::constant, .note = cat("all values are ", column.text(0))};
  return {.kind = ColumnKind::datetime};
}

// Counts the spellings of missing values among dates, which would be words in a column of categories.
void count_missing_dates(data::CellColumn& column) {
  const std::vector<int64_t> counts = counts_of_words(column);
  for (uint32_t code = 0; code < counts.size(); ++code) {
    const std::string_view word = column.words[code];
    if (counts[code] > 0 && data::is_missing_number(word)) column.missing_as[std::string(word)] += counts[code];
  }
}

[[noreturn]] void refuse_said(const data::CellColumn& column, const std::string& table, ColumnKind said,
                              const std::string& what) {
  fail(ErrorKind::data, table, "column ", column.name, ": --types specifies ", to_string(said), ", and ", what);
}

// The first row whose word does not fit.
template <class Fits>
void need_words(const data::CellColumn& column, const std::string& table, ColumnKind said, const Fits& fits) {
  const std::vector<int64_t> counts = counts_of_words(column);
  std::vector<bool> wrong(counts.size());
  for (uint32_t code = 0; code < counts.size(); ++code) wrong[code] = counts[code] > 0 && !fits(column.words[code]);
  for (size_t i = 0; i < column.codes.size(); ++i) {
    if (column.codes[i] == data::Words::kMissing || !wrong[column.codes[i]]) continue;
    refuse_said(column, table, said, cat("row ", i + 1, " holds '", excerpt(column.words[column.codes[i]]), "'"));
  }
}

TypedColumn type_as_said(const data::CellColumn& column, const std::string& table, ColumnKind said) {
  TypedColumn typed{.kind = said};
  if (said == ColumnKind::integer) {
    for (size_t i = 0; i < column.numbers.size(); ++i) {
      const double v = column.numbers[i];
      if (std::isnan(v) || v == std::floor(v)) continue;
      refuse_said(column, table, said, cat("row ", i + 1, " holds ", v));
    }
  }
  if (said == ColumnKind::yesno) {
    need_words(column, table, said, [](std::string_view word) { return store::yes_or_no(word).has_value(); });
  }
  if (said == ColumnKind::datetime) {
    bool unclear = false;
    const auto order = order_of(column, counts_of_words(column), unclear);
    if (!order) {
      need_words(column, table, said,
                 [](std::string_view word) { return data::date_time_in(word, data::DateOrder::ymd).has_value(); });
    }
    typed.order = order.value_or(data::DateOrder::ymd);
  }
  return typed;
}

}  // namespace

std::string to_string(ColumnKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

bool is_feature(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::number:
    case ColumnKind::integer:
    case ColumnKind::category:
    case ColumnKind::yesno:
    case ColumnKind::datetime: return true;
    case ColumnKind::text:
    case ColumnKind::constant:
    case ColumnKind::identifier: break;
  }
  return false;
}

std::map<std::string, ColumnKind> parse_types(const std::string& text) {
  std::map<std::string, ColumnKind> types;
  for (const std::string& part : split(text, ',')) {
    if (part.empty()) continue;
    const size_t equals = part.rfind('=');
    const std::string name = part.substr(0, equals), kind = equals == std::string::npos ? "" : part.substr(equals + 1);
    const std::vector<std::string> known(std::begin(kKindNames), std::end(kKindNames));
    const auto at = std::find(known.begin(), known.end(), kind);
    if (at == known.end()) {
      fail(ErrorKind::usage, "--types", "expected COLUMN=TYPE with one of ", join(known, ", "), ", got ", part,
           did_you_mean(kind, known));
    }
    if (!types.emplace(name, static_cast<ColumnKind>(at - known.begin())).second)
      refuse_twice("--types", "columns", name);
  }
  return types;
}

data::CellKind cells_of(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::number:
    case ColumnKind::integer: return data::CellKind::by_cells;  // numbers may be written in several styles
    case ColumnKind::constant:
    case ColumnKind::identifier:
    case ColumnKind::text:
    case ColumnKind::category:
    case ColumnKind::yesno:
    case ColumnKind::datetime: break;
  }
  return data::CellKind::words;
}

TypedColumn type_of(const data::CellColumn& column, const std::string& table, const TypingOptions& options) {
  if (options.said) return type_as_said(column, table, *options.said);
  if (column.times) return type_of_times(column);
  return column.is_words() ? type_of_words(column) : type_of_numbers(column, options.alone);
}

TypedColumn type_column(data::Cells& cells, size_t at, const std::string& table, const TypingOptions& options) {
  const bool numbers = options.said == ColumnKind::number || options.said == ColumnKind::integer;
  NumberReading reading;
  if (numbers || !options.said) reading = read_numbers(cells, at, {.said = numbers, .folder = options.folder});
  data::CellColumn& column = cells.columns[at];
  TypedColumn typed = type_of(column, table, options);
  if (typed.kind == ColumnKind::datetime && !column.times) count_missing_dates(column);
  const bool whole = typed.kind == ColumnKind::number || typed.kind == ColumnKind::integer;
  const bool unnamed = at == 0 && cells.head.index && !options.said && typed.kind != ColumnKind::constant;
  if (unnamed && (whole ? typed.kind == ColumnKind::integer : typed.kind != ColumnKind::identifier)) {
    typed = {.kind = ColumnKind::identifier};
  }
  if (unnamed && typed.kind == ColumnKind::identifier) {
    typed.note = "the header has no name for it, as for an index that pandas or R wrote";
  }
  typed.style = reading.style;
  typed.note = both_notes(both_notes(reading.note, missing_note(column)), typed.note);
  return typed;
}

std::vector<int64_t> counts_of_words(const data::CellColumn& column) {
  std::vector<int64_t> counts(column.words.size());
  for (size_t i = 0; i < column.codes.size(); ++i) {
    if (column.codes[i] != data::Words::kMissing) ++counts[column.codes[i]];
  }
  return counts;
}

std::vector<store::Column> features_of(const data::CellColumn& column, const TypedColumn& typed,
                                       const std::vector<std::string>& names) {
  if (!is_feature(typed.kind)) return {};
  store::Column whole{.name = column.name};
  if (typed.kind == ColumnKind::category) whole.words = true;
  if (typed.kind == ColumnKind::yesno) whole.form = store::CellForm::yesno;
  whole.style = typed.style;
  if (typed.kind != ColumnKind::datetime) return {whole};
  std::vector<store::Column> parts;
  const std::vector<int64_t> counts = counts_of_words(column);
  const int64_t values = column.times ? column.times->rows() : static_cast<int64_t>(counts.size());
  for (const store::CellForm form : {store::CellForm::year, store::CellForm::month, store::CellForm::weekday,
                                     store::CellForm::hour, store::CellForm::seconds}) {
    store::Column part{.name = cat(column.name, ".", store::to_string(form)),
                       .form = form,
                       .source = column.name,
                       .order = typed.order};
    while (std::find(names.begin(), names.end(), part.name) != names.end()) part.name += "_";
    std::optional<double> first;
    bool same = true;
    for (int64_t i = 0; i < values && same; ++i) {
      double v = std::numeric_limits<double>::quiet_NaN();
      if (!column.times) {
        const auto code = static_cast<uint32_t>(i);
        if (counts[code] > 0) v = *store::value_in(part, column.words[code]);
      } else if (const auto time = column.times->at(i)) {
        v = store::value_in(part, *time);
      }
      if (std::isnan(v)) continue;
      same = !first || v == *first;
      if (!first) first = v;
    }
    if (!same || form == store::CellForm::seconds) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace freight::tables
