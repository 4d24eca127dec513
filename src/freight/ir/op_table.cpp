// Fills the op table from op_table.inc. Gradients that are expressions become small functions here.
#include <cstring>

#include "freight/ir/infer.h"
#include "freight/ir/vjp.h"

namespace freight {

namespace {

constexpr VjpFn none = nullptr;

// D1, D2: one lambda per row; a, b, y, g as in the row's expressions. Unused names are fine.
#define D1(da)                                                     \
  [](VjpContext& c) {                                              \
    [[maybe_unused]] const Ex g = c.g(), a = c.in(0), y = c.out(); \
    c.set(0, da);                                                  \
  }
#define D2(da, db)                                                              \
  [](VjpContext& c) {                                                           \
    [[maybe_unused]] const Ex g = c.g(), a = c.in(0), b = c.in(1), y = c.out(); \
    if (c.needs(0)) c.set(0, da);                                               \
    if (c.needs(1)) c.set(1, db);                                               \
  }

const std::vector<OpInfo>& table() {
  static const std::vector<OpInfo> kTable = {
#define FREIGHT_OP(name, kind, precision, lo, hi, attributes, scalar, infer, flops, gradient, decomposition) \
  OpInfo{Op::name, #name, OpKind::kind, Precision::precision, lo, hi, attributes{}, scalar,                  \
         infer,    flops, gradient,     decomposition},
#include "freight/ir/op_table.inc"
#undef FREIGHT_OP
  };
  return kTable;
}

}  // namespace

const OpInfo& info(Op op) { return table()[static_cast<size_t>(op)]; }

bool is_heavy(Op op) { return info(op).flops == flops::heavy; }

bool parse_op(std::string_view text, Op& out) {
  for (const OpInfo& row : table()) {
    if (text == row.name) {
      out = row.op;
      return true;
    }
  }
  return false;
}

}  // namespace freight
