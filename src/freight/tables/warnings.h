// Warns of what makes a model useless or its figures untrue: columns that give the target away, classes of
// one row, columns that one part lacks. Told, not mended: whoever knows the table knows better.
#pragma once
#include <string>
#include <vector>

#include "freight/train/row_learner.h"

namespace freight::tables {

// By the rows as a model takes them. Each line names a column or class.
std::vector<std::string> warnings_of(const train::RowData& data);

}  // namespace freight::tables
