// Chooses the validation rows of a table if they are not a fraction of every class (data::hold_out): whole groups, or
// the last rows by a column of times.
#pragma once
#include <cstdint>
#include <vector>

namespace freight::tables {

// Holds out whole groups, in an order that the seed determines, until `share` of the rows is held out. With two groups
// or more, at least one is held out and at least one stays. `groups` are numbers from 0, by row.
std::vector<bool> hold_out_groups(const std::vector<int64_t>& groups, double share, uint64_t seed);
// Holds out the rows with the largest numbers: about `share` of them. Rows with equal numbers stay together.
std::vector<bool> hold_out_last(const std::vector<double>& order, double share);

}  // namespace freight::tables
