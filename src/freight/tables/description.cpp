// See description.h.
#include "freight/tables/description.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_set>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/columns.h"
#include "freight/data/table_set.h"
#include "freight/tables/kinds.h"
#include "freight/tables/number_columns.h"
#include "freight/tables/table.h"
#include "freight/tables/target.h"

namespace freight::tables {

namespace {

constexpr size_t kExamples = 3;
constexpr size_t kLengthOfExample = 30;

std::string shortened(std::string_view word) {
  if (word.size() <= kLengthOfExample) return std::string(word);
  size_t end = kLengthOfExample;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) --end;  // does not cut within a character
  return cat(word.substr(0, end), "...");
}

void describe_numbers(const data::CellColumn& column, ColumnDescription& out) {
  std::unordered_set<double> different;
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t present = 0;
  for (const double v : column.numbers) {
    if (std::isnan(v)) continue;
    different.insert(v);
    least = std::min(least, v);
    most = std::max(most, v);
    sum += v;
    ++present;
  }
  if (present > 0) out.mean = sum / static_cast<double>(present);
  out.different = static_cast<int64_t>(different.size());
  if (!different.empty()) out.values = least == most ? cat(least) : cat(least, " to ", most);
  if (!column.odd.empty()) {
    out.note =
        cat("line ", column.odd[0].line, " holds '", excerpt(column.odd[0].text), "', which is not a finite number");
  }
}

void describe_words(const data::CellColumn& column, const TypedColumn& typed, ColumnDescription& out) {
  const std::vector<int64_t> counts = counts_of_words(column);
  std::vector<uint32_t> codes;
  for (uint32_t code = 0; code < counts.size(); ++code) {
    if (counts[code] > 0) codes.push_back(code);
  }
  out.different = static_cast<int64_t>(codes.size());
  if (codes.empty()) return;
  if (typed.kind == ColumnKind::datetime) {
    const store::Column seconds{.name = column.name, .form = store::CellForm::seconds, .order = typed.order};
    std::erase_if(codes, [&](uint32_t code) { return data::is_missing_number(column.words[code]); });
    out.different = static_cast<int64_t>(codes.size());
    const auto earlier = [&](uint32_t a, uint32_t b) {
      return *store::value_in(seconds, column.words[a]) < *store::value_in(seconds, column.words[b]);
    };
    const auto [first, last] = std::minmax_element(codes.begin(), codes.end(), earlier);
    out.values = cat(column.words[*first], " to ", column.words[*last]);
    return;
  }
  std::stable_sort(codes.begin(), codes.end(), [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
  const size_t shown = std::min(codes.size(), typed.kind == ColumnKind::text ? size_t{1} : kExamples);
  std::vector<std::string> examples;
  for (size_t i = 0; i < shown; ++i) {
    const std::string word = shortened(column.words[codes[i]]);
    examples.push_back(counts[codes[i]] > 1 ? cat(word, " (", counts[codes[i]], ")") : word);
  }
  out.values = cat(join(examples, ", "), codes.size() > shown ? ", ..." : "");
}

}  // namespace

TableDescription describe_table(const std::string& path, const std::string& names, const std::string& types,
                                const std::string& header) {
  const std::map<std::string, ColumnKind> said = parse_types(types);
  std::map<size_t, ColumnKind> said_at;
  const auto kinds = [&](const data::TableHead& head) {
    std::vector<data::CellKind> all(head.names.size(), data::CellKind::by_cells);
    for (const auto& [name, kind] : said) {
      const size_t at = column_at(head.names, name, "--types", path);
      said_at[at] = kind;
      all[at] = cells_of(kind);
    }
    return all;
  };
  const data::TableSet set = data::table_at(path);
  data::Cells cells =
      data::read_part(set, set.train, {.kinds = kinds, .names = names_of_columns(names), .header = header_of(header)});
  const bool named = !names.empty() || !set.names.empty();
  TableDescription out{.rows = cells.rows(),
                       .header = cells.head.header,
                       .note = both_notes(named ? std::string() : header_note(cells.head, header), blank_note(cells)),
                       .columns = {}};
  for (size_t i = 0; i < cells.columns.size(); ++i) {
    const auto asked = said_at.find(i);
    // Training on a table of two columns has one feature, whichever column is the target.
    const TypedColumn typed = type_column(cells, i, path,
                                          {.said = asked == said_at.end() ? std::nullopt : std::optional(asked->second),
                                           .alone = cells.columns.size() == 2});
    const data::CellColumn& column = cells.columns[i];
    ColumnDescription line{.name = column.name, .kind = to_string(typed.kind), .note = typed.note};
    const bool dates = typed.kind == ColumnKind::datetime;
    for (int64_t row = 0; row < cells.rows(); ++row) {
      line.missing += column.missing(row) || (dates && data::is_missing_number(column.text(row))) ? 1 : 0;
    }
    if (column.is_words()) {
      describe_words(column, typed, line);
    } else {
      describe_numbers(column, line);
    }
    out.columns.push_back(std::move(line));
  }
  return out;
}

}  // namespace freight::tables
