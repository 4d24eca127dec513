// The target column of a table: which one it is, and whether it contains classes or values.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "freight/data/cells.h"

namespace freight::tables {

// The column of that name, or of that number from 1. Throws Error(usage) that begins with `flag` and names the nearest.
size_t column_at(const std::vector<std::string>& names, const std::string& asked, const std::string& flag,
                 const std::string& table);
// The one that is asked for; else the one with a usual name (data/columns.h), else the last.
size_t target_of(const data::TableHead& head, const std::string& asked, const std::string& table);

// The categories that stand in these rows, sorted.
std::vector<std::string> words_in(const data::CellColumn& column, const std::vector<bool>& rows);
// The classes that a column tells: its words; its numbers where they are asked for as classes, or are at most 20
// different whole ones, each twice in the mean. Empty where it holds values. Whole numbers of which most stand in one
// row, such as prices, are values: their classes would have too few rows to be learned from.
enum class Classes { by_cells, asked };
std::vector<std::string> classes_of(const data::CellColumn& column, Classes how);
// The place of each row's class. Throws Error(data) with file and line for one that is none of `classes`.
std::vector<int64_t> labels_of(const data::Cells& cells, size_t target, const std::vector<std::string>& classes);

// Throws Error(data) where f32, in which models answer, would move the values by so much of their range that no loss
// could be believed.
void need_told_apart(const data::Cells& cells, size_t target);
// Throws Error(data) where all rows hold the same.
void need_different(const data::Cells& cells, size_t target, const std::vector<std::string>& classes);
// Throws Error(data) with file and line for a value that is no relevance: XGBoost's NDCG takes whole numbers of 0
// to 31.
void need_relevances(const data::Cells& cells, size_t target);
// Throws Error(data) with file and line for a value that is no count.
void need_counts(const data::Cells& cells, size_t target);

}  // namespace freight::tables
