// Fills the op table from op_table.inc. Gradients that are expressions become small functions here.
#include <algorithm>

#include "freight/ir/infer.h"
#include "freight/ir/op_rules.h"
#include "freight/ir/vjp.h"

namespace freight {

namespace {

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

// How many operands a signature names, at least and at most.
struct Arity {
  int least = 0, most = 0;
};
constexpr Arity arity_of(std::string_view signature) {
  signature = signature.substr(0, signature.find("->"));
  Arity n;
  bool any = false;
  for (size_t at = 0; signature.find_first_not_of(' ', at) != std::string_view::npos;) {
    const size_t end = std::min(signature.find(',', at), signature.size());
    const std::string_view operand = signature.substr(at, end - at);
    n.least += operand.find('?') == std::string_view::npos;
    any = any || operand.find("...") != std::string_view::npos;
    ++n.most;
    at = end + 1;
    if (at > signature.size()) break;
  }
  if (any) n.most = -1;
  return n;
}
static_assert(arity_of("-> y").most == 0 && arity_of("xs... -> y").least == 1 && arity_of("xs... -> y").most == -1);
static_assert(arity_of("a, b, bias?, residual? -> y").least == 2 && arity_of("a, b, c? -> y, z").most == 3);

std::vector<OpInfo> table_rows() {
  using enum OpKind;
  using enum Precision;
  using enum Decomposes;
  using enum CanFail;
  return {
#define FREIGHT_OP(name_, ...) OpInfo{.op = Op::name_, .name = #name_, __VA_ARGS__},
#include "freight/ir/op_table.inc"
#undef FREIGHT_OP
  };
}

const std::vector<OpInfo>& table() {
  static const std::vector<OpInfo> kTable = [] {
    std::vector<OpInfo> all = table_rows();
    for (OpInfo& row : all) {
      const Arity n = arity_of(row.signature);
      row.min_inputs = n.least;
      row.max_inputs = n.most;
    }
    return all;
  }();
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
