// What the type rules share: how they refuse a node. Internal: only infer.cpp and infer_sequence.cpp include it.
#pragma once
#include "freight/base/error.h"
#include "freight/ir/infer.h"

namespace freight::infer {

template <class... Parts>
[[noreturn]] void bad(const Node& node, const Parts&... parts) {
  fail(ErrorKind::usage, name(node.op), parts...);
}

inline void need_floating(const Node& node, const Type& t) {
  if (!is_floating(t.dtype)) bad(node, "element type must be floating: got ", t);
}

}  // namespace freight::infer
