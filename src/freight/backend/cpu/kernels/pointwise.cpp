// See pointwise.h.
#include "freight/backend/cpu/kernels/pointwise.h"

#include <algorithm>

namespace freight::cpu {

namespace {
constexpr size_t kSlotBytes = 16 << 10;  // they lie on the stack

std::optional<float> limit_of(const TileProgram& program) {
  const TileValue& result = program.values[static_cast<size_t>(program.stores[0].value)];
  if (result.kind != TileValue::Kind::op || result.op != Op::minimum) return {};
  const auto operand = [&](int i) -> const TileValue& { return program.values[static_cast<size_t>(i)]; };
  const bool limited =
      operand(result.a).kind == TileValue::Kind::input && operand(result.b).kind == TileValue::Kind::constant;
  return limited ? std::optional(static_cast<float>(operand(result.b).number)) : std::nullopt;
}
}  // namespace

std::shared_ptr<const Pointwise> Pointwise::compile(const TileProgram& program) {
  CompiledTiles k = compile_tiles(program);
  const bool chains = std::all_of(k.body.begin(), k.body.end(), [](const TileStep& s) {
    return s.kind == TileStep::Kind::chain && s.extent == kFull;
  });
  const bool moves = k.setup_moves.empty() && k.col_moves.empty() && k.row_moves.empty();
  if (!chains || !moves || !k.setup.empty() || k.slot_bytes > kSlotBytes) return nullptr;
  return std::shared_ptr<const Pointwise>(new Pointwise(std::move(k), limit_of(program)));
}

void Pointwise::apply(float* values, int64_t n) const {
  const ChainTable& table = chain_table();
  alignas(64) char slots[kSlotBytes];
  void* pointers[kMaxPointers];
  for (size_t i = 0; i < k_.slots.size(); ++i) pointers[i] = slots + k_.slots[i];
  for (size_t i = 0; i < k_.constants.size(); ++i)
    pointers[k_.slots.size() + i] = const_cast<int64_t*>(&k_.constants[i]);
  for (int64_t first = 0; first < n; first += kMost) {
    for (const TileMove& m : k_.full_moves) pointers[m.pointer] = values + first;
    for (const TileStep& s : k_.body)
      table.run(&k_.links[static_cast<size_t>(s.aux)], pointers, static_cast<size_t>(std::min(kMost, n - first)));
  }
}

}  // namespace freight::cpu
