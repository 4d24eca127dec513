// Tables that a program holds in memory, as the cells that readers of files make.
#pragma once
#include <string>
#include <vector>

#include "freight/data/cells.h"
#include "freight/data/source.h"

namespace freight::data {

// Throws Error(data) that names the column: of another length than the first, or of a name that is there twice.
Cells cells_in_memory(const std::vector<MemoryColumn>& columns, const std::string& name);
// The same cells in the kinds that are asked for.
Cells in_asked_kinds(Cells cells, const CellsAsked& asked);

}  // namespace freight::data
