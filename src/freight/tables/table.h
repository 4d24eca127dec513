// Tables as rows of named columns, one of which is told from the others: which columns there are, of what kind, which
// is told, and what is held out. What a cell means is store/row_model.h's, how cells lie in a file data/cells.h's.
#pragma once
#include "freight/train/row_learner.h"

namespace freight::tables {

// Reads and divides a table. Columns whose cells are all numbers are numbers, others are words. The told column is the
// one that is asked for, by name or by number from 1, else the one with a usual name (data/columns.h), else the last;
// it holds classes where it has words, or at most 20 different whole numbers, each twice in the mean, and a note says
// which. Throws Error(data) that names file and line, Error(usage) for a column that is not there.
train::RowData read_table(const train::RowSource& source);

}  // namespace freight::tables
