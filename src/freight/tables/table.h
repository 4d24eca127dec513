// Tables as rows of named columns, one of which is predicted from the others: which columns there are, of which kind,
// which one is the target, and which rows are held out. store/row_model.h defines the number of a value, data/cells.h
// reads files.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/data/cells.h"
#include "freight/tables/row_learner.h"

namespace freight::tables {

// Reads and splits a table. The kinds of its columns are those of kinds.h. The target is the column that is asked for,
// by name or by number from 1, else a column with a usual name (data/columns.h), else the last one (target.h). Notes
// report decisions, warnings what looks wrong. Throws Error(data) that names file and line, and Error(usage) for a
// column that does not exist.
RowData read_table(const RowSource& source);
// The peak memory of reading a table of `cells` values: its columns in f64, from which learners read.
inline double bytes_of_reading(double cells) { return 8 * cells; }
// The peak memory of reading the files of a table, estimated from their sizes and first rows. If the sizes alone show
// that it is at most `enough`, the files are not opened, and the result is an upper bound.
double bytes_of_reading(const RowSource& source, double enough);
// The value of --header: yes, no; empty for auto.
std::optional<bool> header_of(const std::string& said);
// Reports how the first row was read, if --header is auto and other programs could read it otherwise.
std::string header_note(const data::TableHead& head, const std::string& header);
// Reports how many blank rows were skipped; empty if there were none.
std::string blank_note(const data::Cells& cells);
// The column names in "a,b,c", or in the lines of a file of that name.
std::vector<std::string> names_of_columns(const std::string& said);

}  // namespace freight::tables
