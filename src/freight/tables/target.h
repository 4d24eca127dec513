// The target column of a table: which one it is, and whether it contains classes or values.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "freight/data/cells.h"

namespace freight::tables {

// The column with that name, or that number from 1. Throws Error(usage) that begins with `flag` and names the nearest
// column.
size_t column_at(const std::vector<std::string>& names, const std::string& asked, const std::string& flag,
                 const std::string& table);
// The target column: the one that is asked for, else one with a usual name (data/columns.h), else the last one.
size_t target_of(const data::TableHead& head, const std::string& asked, const std::string& table);

// The categories in these rows, sorted.
std::vector<std::string> words_in(const data::CellColumn& column, const std::vector<bool>& rows);
// The classes of a target column: its words; or its numbers, if classification was requested, or if they are at most 20
// different whole numbers with two rows each on average. Empty for a regression. Whole numbers most of which occur
// once, such as prices, are values: as classes they would have too few rows.
enum class Classes { by_cells, asked };
std::vector<std::string> classes_of(const data::CellColumn& column, Classes how);
// The class number of each row. Throws Error(data) with file and line for a value that is not one of `classes`.
std::vector<int64_t> labels_of(const data::Cells& cells, size_t target, const std::vector<std::string>& classes);

// Throws Error(data) if f32, the type of predictions, would move the values by so much of their range that the loss
// would be meaningless.
void need_told_apart(const data::Cells& cells, size_t target);
// Throws Error(data) if all rows have the same value.
void need_different(const data::Cells& cells, size_t target, const std::vector<std::string>& classes);
// Throws Error(data) with file and line for a value that is not a relevance label: XGBoost's NDCG accepts whole numbers
// from 0 to 31.
void need_relevances(const data::Cells& cells, size_t target);
// Throws Error(data) with file and line for a value that is not a count.
void need_counts(const data::Cells& cells, size_t target);

}  // namespace freight::tables
