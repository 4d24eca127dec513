// The type rules share how they refuse a node. Internal: only infer*.cpp include it.
#pragma once
#include <string>

#include "freight/base/error.h"
#include "freight/ir/infer.h"

namespace freight::infer {

template <class... Parts>
[[noreturn]] void bad(const Node& node, const Parts&... parts) {
  fail(ErrorKind::usage, name(node.op), parts...);
}

// Results that say where an element lies among so many are i32: a place beyond them would come out negative.
inline void need_i32_places(const Node& node, int64_t places, const std::string& among) {
  constexpr int64_t kPlaces = int64_t{1} << 31;
  if (places > kPlaces) {
    bad(node, among, " has too many elements for indices of type i32: expected at most ", kPlaces, ", got ", places,
        "; split it");
  }
}

}  // namespace freight::infer
