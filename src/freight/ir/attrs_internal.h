// Walks the fields of two attributes side by side. Whoever compares them says what counts as the same.
#pragma once
#include <tuple>
#include <utility>
#include <variant>

#include "freight/ir/attrs.h"

namespace freight {

// True where both hold the same struct, and same(x, y) for each field of one and of the other.
template <class Same>
bool fields_match(const Attrs& a, const Attrs& b, Same same) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<class S>(const S& left) {
        const auto mine = left.fields(), other = std::get<S>(b).fields();
        return [&]<size_t... I>(std::index_sequence<I...>) {
          return (same(std::get<I>(mine), std::get<I>(other)) && ...);
        }
        (std::make_index_sequence<std::tuple_size_v<decltype(mine)>>());
      },
      a);
}

}  // namespace freight
