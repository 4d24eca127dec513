// Converts tables that a program has in memory to the cells that readers of files return.
#pragma once
#include <string>
#include <vector>

#include "freight/data/cells.h"
#include "freight/data/source.h"

namespace freight::data {

// Throws Error(data) that names a column whose length differs from the first one's, or whose name appears twice.
Cells cells_in_memory(const std::vector<MemoryColumn>& columns, const std::string& name);
// Converts the cells to the requested kinds.
Cells in_asked_kinds(Cells cells, const CellsAsked& asked);

}  // namespace freight::data
