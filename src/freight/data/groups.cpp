// See groups.h.
#include "freight/data/groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/data/dataset.h"

namespace freight::data {

namespace {
constexpr uint32_t kGroupStream = 0x67727073;  // of random numbers
}

std::vector<bool> hold_out_groups(const std::vector<int64_t>& groups, double share, uint64_t seed) {
  const int64_t count = groups.empty() ? 0 : 1 + *std::max_element(groups.begin(), groups.end());
  std::vector<int64_t> rows(static_cast<size_t>(count)), order(static_cast<size_t>(count));
  for (const int64_t g : groups) ++rows[static_cast<size_t>(g)];
  std::iota(order.begin(), order.end(), int64_t{0});
  PhiloxStream random(seed, 0, kGroupStream);
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(static_cast<uint32_t>(i + 1))]);
  std::vector<bool> held_group(order.size());
  const double wanted = share * static_cast<double>(groups.size());
  double taken = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) {  // one group stays
    const auto group = static_cast<size_t>(order[i]);
    const auto more = static_cast<double>(rows[group]);
    // A group is held out if that brings the fraction closer.
    if (i > 0 && taken + more - wanted > wanted - taken) continue;
    held_group[group] = true;
    taken += more;
  }
  std::vector<bool> is_validation(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) is_validation[i] = share > 0 && held_group[static_cast<size_t>(groups[i])];
  return is_validation;
}

Array group_numbers(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::map<std::string, int64_t> number;
  Array numbers(DType::i64, {static_cast<int64_t>(names.size())});
  for (size_t i = 0; i < names.size(); ++i) {
    numbers.data<int64_t>()[i] = number.try_emplace(names[i], static_cast<int64_t>(number.size())).first->second;
  }
  return numbers;
}

std::vector<bool> held_out_samples(const Strata& strata, const std::vector<std::string>& groups,
                                   const Splitting& splitting, const std::string& where) {
  if (groups.empty()) return hold_out(strata.of_row, strata.count, splitting.share, splitting.seed);
  const std::vector<int64_t> numbers = group_numbers(groups).to_vector<int64_t>();
  if (std::set<int64_t>(numbers.begin(), numbers.end()).size() < 2) {
    fail(ErrorKind::data, where, "all samples are of one group, ", groups[0], ": expected two or more (--group-column ",
         splitting.group_column, ")");
  }
  return hold_out_groups(numbers, splitting.share, splitting.seed);
}

std::string describe_split(const std::vector<bool>& held_out, const std::vector<std::string>& groups,
                           const Splitting& splitting, const std::string& of) {
  if (groups.empty()) return cat(fixed(100 * splitting.share, 1), " % of ", of);
  const auto count = std::count(held_out.begin(), held_out.end(), true);
  return cat(with_commas(count), " of ", with_commas(static_cast<int64_t>(held_out.size())), " samples, by groups of ",
             splitting.group_column);
}

std::string note_on_crossing(const std::vector<std::string>& train, const std::vector<std::string>& held_out,
                             const std::string& group_column) {
  const std::set<std::string> known(train.begin(), train.end());
  std::set<std::string> both;
  for (const std::string& group : held_out) {
    if (known.contains(group)) both.insert(group);
  }
  if (both.empty()) return {};
  return cat(both.size(), both.size() == 1 ? " group of " : " groups of ", group_column, " (", *both.begin(),
             both.size() > 1 ? ", ...)" : ")", both.size() == 1 ? " is" : " are",
             " in the training and in the held-out set, whose figures are then optimistic");
}

}  // namespace freight::data
