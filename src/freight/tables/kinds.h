// The kinds of a table's columns: inferred from their values and names, or given by --types. The kind decides whether a
// column is a feature, and how it becomes numbers. Knows neither the target column nor the split of the data (table.h).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "freight/data/cells.h"
#include "freight/store/row_model.h"

namespace freight::tables {

// Of the kinds that are no features, an identifier is different in each row, a text has too many words to be a
// category, and a constant carries no information.
enum class ColumnKind { number, integer, category, yesno, datetime, text, constant, identifier };
std::string to_string(ColumnKind kind);
bool is_feature(ColumnKind kind);

// Parses "zip=category,when=datetime". Throws Error(usage) for an unknown kind, a column without one, or a column that
// appears twice.
std::map<std::string, ColumnKind> parse_types(const std::string& text);
// The way in which a reader of cells must read a column of a given kind.
data::CellKind cells_of(ColumnKind kind);

struct TypedColumn {
  ColumnKind kind = ColumnKind::number;
  data::DateOrder order = data::DateOrder::ymd;  // for dates
  data::NumberStyle style = {};                  // for numbers
  std::string note = {};                         // what a reader of the table should know; may be empty
};

struct TypingOptions {
  std::optional<ColumnKind> said = {};  // the kind given by --types
  bool alone = false;                   // the table has no other feature
  std::string folder = {};              // the folder of files for numbers that should not be in memory
};
// Determines the kind of a column that was read as cells_of or by its cells; numbers written in another style become
// plain numbers. Throws the errors of type_of.
TypedColumn type_column(data::Cells& cells, size_t column, const std::string& table, const TypingOptions& options);
// The kind of a column, from all of its values. Throws Error(data) that names the column and the line of the first
// value that does not fit a given kind.
TypedColumn type_of(const data::CellColumn& column, const std::string& table, const TypingOptions& options);

// The features of a column: itself, or the parts of its dates that differ between rows. `names` are those of the
// table's columns, which the parts must not repeat.
std::vector<store::Column> features_of(const data::CellColumn& column, const TypedColumn& typed,
                                       const std::vector<std::string>& names);

// Counts how often each word of a column occurs.
std::vector<int64_t> counts_of_words(const data::CellColumn& column);

}  // namespace freight::tables
