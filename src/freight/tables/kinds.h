// Kinds of a table's columns: inferred from their cells and names, or given by --types. The kind decides whether a
// model learns from a column, and as what numbers. Knows neither the target column nor the parts of the data (table.h).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "freight/data/cells.h"
#include "freight/store/row_model.h"

namespace freight::tables {

// The first five are learnt from. Of the others an identifier tells one row from the next, a text has too many words to
// be a category, and a constant says nothing.
enum class ColumnKind { number, integer, category, yesno, datetime, text, constant, identifier };
std::string to_string(ColumnKind kind);
inline bool learnt(ColumnKind kind) { return kind <= ColumnKind::datetime; }

// "zip=category,when=datetime". Throws Error(usage) for a kind that there is not, a name without one, and a name that
// stands twice.
std::map<std::string, ColumnKind> parse_types(const std::string& text);
// The request to a reader of cells for a column of a kind that is said.
data::CellKind cells_of(ColumnKind kind);

struct TypedColumn {
  ColumnKind kind = ColumnKind::number;
  data::DateOrder order = data::DateOrder::ymd;  // of dates
  data::NumberStyle style = {};                  // of numbers
  std::string note = {};                         // what a reader of the table should know; empty: nothing
};

struct TypingOptions {
  std::optional<ColumnKind> said = {};  // by --types
  bool alone = false;                   // no other column is there to learn from
  std::string folder = {};              // of which files hold numbers, in place of memory
};
// Says the kind of a column that was read as cells_of or by its cells, of which numbers in another writing become plain
// ones. Throws as type_of.
TypedColumn type_column(data::Cells& cells, size_t column, const std::string& table, const TypingOptions& options);
// The kind of a column by all of its cells. Throws Error(data) that names the column, and the line of the first cell
// that does not fit, where a kind is said that the cells are not.
TypedColumn type_of(const data::CellColumn& column, const std::string& table, const TypingOptions& options);

// The columns that a model learns from one: itself, or the parts of its dates that are not the same in all rows.
// `names` are those of the table's columns, which parts must not take.
std::vector<store::Column> learnt_of(const data::CellColumn& column, const TypedColumn& typed,
                                     const std::vector<std::string>& names);

// Counts each word of a column.
std::vector<int64_t> counts_of_words(const data::CellColumn& column);

}  // namespace freight::tables
