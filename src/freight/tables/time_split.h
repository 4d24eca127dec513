// Chooses the validation rows of a table that is divided by a column of times, neither by a fraction of every class
// (data::hold_out) nor by groups (data::hold_out_groups).
#pragma once
#include <cstdint>
#include <vector>

namespace freight::tables {

// Holds out the rows with the largest numbers: about `share` of them. Rows with equal numbers stay together.
std::vector<bool> hold_out_last(const std::vector<double>& order, double share);

}  // namespace freight::tables
