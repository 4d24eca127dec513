// Warns of what makes a model useless or its metrics wrong: columns that leak the target, classes with a single row,
// columns that only one split has. Nothing is changed, since the user knows the table better.
#pragma once
#include <string>
#include <vector>

#include "freight/tables/row_learner.h"

namespace freight::tables {

// The warnings for rows as a model takes them. Each line names a column or class.
std::vector<std::string> warnings_of(const RowData& data);

}  // namespace freight::tables
