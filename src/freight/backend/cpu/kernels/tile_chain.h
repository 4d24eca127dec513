// Chains: tile steps that go over the same elements, taken together, a group of four vectors at a time. What a step
// makes stays in registers for the one behind it (the accumulator); everything else is read where it lies, bf16 as it
// is in memory. The vectors of a group lie one after the other, or one in each of four strips of rows: what is the same
// in all rows is then read once per group, and a sum over rows takes the group's own sum.
// Each link ends with a jump to the next one. tile_chain.cpp has the links, tile_chains.cpp finds the chains.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "freight/backend/cpu/kernels/tile_compiled.h"

namespace freight::cpu {

constexpr int kGroup = 4;  // vectors

// How a link reads an operand.
enum class From : uint8_t {
  vector,  // f32
  half,    // bf16
  one,     // one f32, or vector of f32, for all of a group
  bytes    // u8 or bool; no index of tables
};
constexpr int kFroms = 3;

// Up to four strips of `rows` rows of `width` elements, whose first elements are `apart` elements from one another.
struct ChainStrips {
  size_t strips, apart, rows, width;
};

// By the form of the operands besides the accumulator x; null where there is no such link.
struct ChainTable {
  LinkFns load[kFroms], load_bytes;  // a
  LinkFns unary[kOpCount], function[kTileFunctions];
  LinkFns round_bf16, round_f16;        // x as that type holds it
  LinkFns binary[kOpCount][2][kFroms];  // x op a, a op x
  LinkFns mul_add[kFroms][kFroms];      // x * a + b
  LinkFns add_product[kFroms][kFroms];  // a * b + x
  LinkFns sub_from[kFroms][kFroms];     // b - x * a
  LinkFns sub_product[kFroms][kFroms];  // x - a * b
  LinkFns where[kFroms][kFroms];        // x != 0 ? a : b
  LinkFns keep_where;                   // a (bool in memory) ? x : 0
  LinkFns keep_positive[kFroms];        // x > 0 ? a : 0
  LinkFns keep_where_positive[kFroms];  // a > 0 ? x : 0
  LinkFns fold[3];                      // a = a + x, max, min
  // The same of an element of a per column and the x in all strips, and of x * x and x * b.
  LinkFns fold_strips[3], fold_strips_square, fold_strips_product[kFroms];
  LinkFns store, store_half, store_bytes;  // a = x
  LinkFns stream, stream_half;             // past the caches
  LinkFns end;
  void (*run)(const ChainLink* first, void* const* pointers, size_t n);
  void (*run_strips)(const ChainLink* first, void* const* pointers, const ChainStrips& strips);
};
const ChainTable& chain_table();

// Rewrites the steps that can be links as chains, each closed by an end link. Registers that are read by nothing but
// the link behind the one that makes them need no memory any more.
struct ChainOptions {
  bool keep = false;    // all registers need memory
  bool strips = false;  // chains over all elements take strips of rows
};
std::vector<TileStep> make_chains(const std::vector<TileStep>& steps, std::vector<TileRegister>& registers,
                                  const std::vector<TileSum>& sums, const ChainOptions& options);

// The index of the end link of the chain that steps[i] belongs to; i where it is no link.
size_t end_of_chain(const std::vector<TileStep>& steps, size_t i);
// One step for each chain; its links, whose registers are pointers by now, go behind `links`.
std::vector<TileStep> join_links(const std::vector<TileStep>& steps, std::vector<ChainLink>& links);

// y *= factor, on n floats.
void scale(float* y, float factor, int64_t n);

}  // namespace freight::cpu
