// Tables as rows of named columns, one of which is predicted from the others: which columns there are, of what kind,
// which is the target, and what is held out. What a cell means is store/row_model.h's, how cells lie in a file
// data/cells.h's.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/data/cells.h"
#include "freight/train/row_learner.h"

namespace freight::tables {

// Reads and divides a table. The kinds of its columns are those of kinds.h; the target is the column that is asked for,
// by name or by number from 1, else the one with a usual name (data/columns.h), else the last (target.h). Notes say
// what was decided, warnings what looks wrong. Throws Error(data) that names file and line, Error(usage) for a column
// that is not there.
train::RowData read_table(const train::RowSource& source);
// The peak of memory while a table of so many cells is read: the file's columns, and the rows made of them, in f64.
inline double bytes_of_reading(double cells) { return (8 + 8) * cells; }
// The same of a table in files, by their sizes and first rows. Where the sizes alone show that it is at most `enough`,
// the files are not opened, and it is at most what is told.
double bytes_of_reading(const train::RowSource& source, double enough);
// The value of --header: yes, no; empty for auto.
std::optional<bool> header_of(const std::string& said);
// How the first row was read, where --header does not say it and others could read it otherwise.
std::string header_note(const data::TableHead& head, const std::string& header);
// Says how many rows without any value were skipped; empty where there are none.
std::string blank_note(const data::Cells& cells);
// "a,b,c", or the lines of the file of that name.
std::vector<std::string> names_of_columns(const std::string& said);

}  // namespace freight::tables
