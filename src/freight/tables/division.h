// Chooses the rows of a table that are held out where it is not a share of every class (data::hold_out): whole groups,
// or the last rows by a column of times.
#pragma once
#include <cstdint>
#include <vector>

namespace freight::tables {

// Whole groups, in an order that the seed chooses, until `share` of the rows is held out; at least one group stays and
// at least one is held out where there are two. `groups` are numbers from 0, by row.
std::vector<bool> hold_out_groups(const std::vector<int64_t>& groups, double share, uint64_t seed);
// The rows with the greatest numbers: about `share` of them, those of one number on one side.
std::vector<bool> hold_out_last(const std::vector<double>& order, double share);

}  // namespace freight::tables
