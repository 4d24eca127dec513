// Samples that belong together, such as the scans of a patient (--group-column): no split separates them. Readers of
// lists and of tables name the group of each sample; folds are metrics/folds.h's.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/data/targets.h"

namespace freight::data {

// Holds out whole groups, in an order that the seed determines, until `share` of the samples is held out. With two
// groups or more, at least one is held out and at least one stays. `groups` are numbers from 0, by sample.
std::vector<bool> hold_out_groups(const std::vector<int64_t>& groups, double share, uint64_t seed);

// The numbers i64 (N) of groups by their names, in the order in which these first occur; undefined for no names.
Array group_numbers(const std::vector<std::string>& names);

// The split of a list into training and validation samples.
struct Splitting {
  double share = 0;          // to hold out
  uint64_t seed = 0;         // chooses which
  std::string group_column;  // where there are groups, for messages
};
// Marks the samples to hold out: whole groups if there are any, else a share of each stratum (hold_out). Throws
// Error(data) that names `where` if there is only one group.
std::vector<bool> held_out_samples(const Strata& strata, const std::vector<std::string>& groups,
                                   const Splitting& splitting, const std::string& where);
// "20 % of each class of train.csv", "12 of 60 samples, by groups of patient": what these hold out.
std::string describe_split(const std::vector<bool>& held_out, const std::vector<std::string>& groups,
                           const Splitting& splitting, const std::string& of);
// Says that groups are in both parts of data that is divided already; "" where none is.
std::string note_on_crossing(const std::vector<std::string>& train, const std::vector<std::string>& held_out,
                             const std::string& group_column);

}  // namespace freight::data
