// Checks of what collectives compute: each is called by all ranks, and returns the fault, or "".
#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "freight/base/strings.h"
#include "freight/comm/comm.h"
#include "tests/comm/values.h"

namespace freight::test {

template <class T>
std::string check_all_reduce(comm::Comm& c, int64_t count) {
  std::vector<T> data = values_of<T>(c.rank(), count);
  data.push_back(T{5});
  c.all_reduce(data.data(), count, DTypeOf<T>::value);
  for (int64_t i = 0; i < count; ++i) {
    if (!same_bits(data[static_cast<size_t>(i)], expected_sum<T>(c.world(), i))) {
      return cat("all_reduce of ", DTypeOf<T>::value, "[", count, "]: element ", i, " is ",
                 data[static_cast<size_t>(i)], ", need ", expected_sum<T>(c.world(), i));
    }
  }
  return data.back() == T{5} ? "" : "all_reduce wrote behind the end";
}

template <class T>
std::string check_moves(comm::Comm& c, int64_t count) {
  const int world = c.world();
  constexpr DType kType = DTypeOf<T>::value;
  const auto n = static_cast<size_t>(count);
  std::vector<T> mine = values_of<T>(c.rank(), count), all(n * static_cast<size_t>(world) + 1, T{3});
  c.all_gather(mine.data(), all.data(), count, kType);
  for (int r = 0; r < world; ++r) {
    const std::vector<T> theirs = values_of<T>(r, count);
    if (count > 0 && std::memcmp(theirs.data(), &all[n * static_cast<size_t>(r)], n * sizeof(T)) != 0) {
      return cat("all_gather of ", kType, "[", count, "]: the part of rank ", r, " differs");
    }
  }
  if (all.back() != T{3}) return "all_gather wrote behind the end";
  // The same in place.
  std::vector<T> own(n * static_cast<size_t>(world), T{});
  if (count > 0) std::memcpy(&own[n * static_cast<size_t>(c.rank())], mine.data(), n * sizeof(T));
  c.all_gather(own.data() + n * static_cast<size_t>(c.rank()), own.data(), count, kType);
  if (!std::equal(own.begin(), own.end(), all.begin())) return cat("all_gather instead of ", kType, "[", count, "]");
  for (int root = 0; root < world; ++root) {
    std::vector<T> data = values_of<T>(c.rank(), count);
    c.broadcast(data.data(), count, kType, root);
    if (data != values_of<T>(root, count)) return cat("broadcast of ", kType, "[", count, "] from ", root);
  }
  return "";
}

}  // namespace freight::test
