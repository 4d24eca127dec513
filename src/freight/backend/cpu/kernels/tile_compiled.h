// The compiled form of a tile program, shared by tile_compile.cpp and tile_registers.cpp (make it)
// and tile_run.cpp (executes it).
//
// The iteration space is B x M rows of R elements each, slowest first. Accumulations keep B, reduce M, and keep or
// reduce R; without accumulations B is 1. A tile is `tile_rows` whole rows, or a piece of one row where no row
// reduction needs it whole; a task is the tiles that a thread takes at a time. Every value has an extent: one number
// (scalar), one per row (row), one per column (col), or one per element (full). Values that are the same in all rows
// (scalar, col) are computed once per task (`setup`), the others once per tile (`body`).
//
// Where all elements pass through chains into sums that keep R, the rows of a task are cut into four strips, which the
// task reads side by side: an element of a sum adds ((r0 + r1) + (r2 + r3)) for each row of the strips, and goes to f64
// after 32 of them. Four rows that lie next to one another would be the same to the sums, but the hardware does not
// prefetch four streams of one page.
//
// Steps find memory through a table of pointers, which each task has for itself: first the slots, each the memory of a
// tile register, then the constants, then the operands, whose pointers move with the task or the tile.
#pragma once
#include <vector>

#include "freight/backend/cpu/kernels/tile_steps.h"

namespace freight::cpu {

// Bits, so that the extent of a result is the union of its operands'.
enum Extent : uint8_t { kScalar = 0, kRow = 1, kCol = 2, kFull = kRow | kCol };

// Where the elements of an operand lie, in the linear order of its extent; dimensions collapsed as far as they go.
struct Access {
  int operand = -1;
  DType dtype = DType::f32;
  Extent extent = kFull;
  Shape shape;
  Strides stride;
  // Elements 0, 1, 2, ... of the extent lie one after the other.
  bool linear() const { return shape.empty() || (shape.rank() == 1 && stride[0] == 1); }
};

// Calls f(element offset, stride, position, count) for the runs of equal stride that make up [start, start + n).
template <class F>
void each_run(const Access& access, int64_t start, int64_t n, F&& f) {
  const int rank = access.shape.rank();
  if (rank == 0) {
    if (n > 0) f(int64_t{0}, int64_t{0}, int64_t{0}, n);
    return;
  }
  int64_t at[Shape::kMaxRank], offset = 0;
  for (int i = rank - 1; i >= 0; --i) {
    at[i] = i == 0 ? start : start % access.shape[i];
    start /= access.shape[i];
    offset += at[i] * access.stride[i];
  }
  const int64_t inner = access.shape[rank - 1], inner_stride = access.stride[rank - 1];
  for (int64_t done = 0; done < n;) {
    const int64_t left = inner - at[rank - 1], count = left < n - done ? left : n - done;
    f(offset, inner_stride, done, count);
    done += count;
    offset += count * inner_stride;
    at[rank - 1] += count;
    for (int i = rank - 1; i > 0 && at[i] == access.shape[i]; --i) {
      offset += access.stride[i - 1] - access.shape[i] * access.stride[i];
      at[i] = 0;
      ++at[i - 1];
    }
  }
}

// A step of a chain (tile_chain.h), for a whole group of elements and for a part of one.
using LinkFn = void (*)();
struct LinkFns {
  LinkFn whole = nullptr, part = nullptr;
};
struct ChainLink {
  LinkFns fns;
  int a = -1, b = -1;  // numbers of pointers
  int by_column = 0;   // bit 0, 1 set where a, b has an element per column (From::one)
};

// The expression of a simple step, which is f32 alone and always becomes a link of a chain.
enum class Form : uint8_t {
  unary,
  function,
  binary,
  where,
  mul_add,              // a * b + c
  mul_sub_from,         // c - a * b
  keep_where_positive,  // a > 0 ? b : 0
  keep_where            // a (bool in memory) ? b : 0
};

struct TileStep {
  enum class Kind : uint8_t {
    simple,
    generic,
    load,
    store,
    index,
    random,
    row_reduce,
    expand_rows,
    expand_cols,
    fill,
    accumulate,
    link,
    chain
  };
  Kind kind = Kind::simple;
  Form form = Form::unary;               // simple
  Extent extent = kFull;                 // how many elements: of dst; of a for row_reduce and accumulate
  Reg reg = Reg::f32;                    // of dst; of a for store, row_reduce and accumulate
  int dst = -1, a = -1, b = -1, c = -1;  // while compiling: virtual registers; compiled: numbers of pointers
  LinkFns fns;                           // link
  int by_column = 0;                     // link
  generic::Call call{};                  // generic; simple: op and scalars
  TileFunction function{};               // simple
  // The number of an access (load, store, index, random), of a reduction (row_reduce), of a sum (accumulate), or of the
  // first link (chain).
  int aux = 0;
  bool stream = false;  // store
  double number = 0;    // random: stream
  int64_t key_stride = 1;
};

// A virtual register, while compiling: it becomes a slot, a constant, or an operand in place.
struct TileRegister {
  enum class Where : uint8_t { slot, constant, operand } where = Where::slot;
  Reg reg = Reg::f32;
  Extent extent = kFull;
  DType dtype = DType::f32;  // of an operand's elements in memory
  int64_t bits = 0;          // constant
  int access = -1;           // operand
  bool pinned = false;       // lives as long as the task
  int pointer = -1;
};

// A pointer that moves from tile to tile.
struct TileMove {
  int pointer = -1, operand = -1;
  size_t element = 0;  // size in bytes
};

struct TileSum {
  int reduction = 0;
  Reg reg = Reg::f32;  // of the value; partial results are f64, or integers
  bool keeps_row = false;
  int narrow = -1;      // pointer: f32 lanes that are flushed into `wide` now and then (f32 sums only)
  int wide = -1;        // pointer: lanes of f64 or integers
  Access out;           // linear order [B][R or 1]
  size_t partials = 0;  // offset in scratch
};

struct CompiledTiles {
  int64_t outer_kept = 1, rows = 1, width = 1;  // B, M, R
  int64_t piece = 1, pieces = 1;                // columns per tile and tiles per row
  int64_t tile_rows = 1;
  int64_t task_rows = 1, tasks_per_group = 1;  // rows per task; tasks of a group, which share (b, piece)
  int64_t tasks = 0;
  bool parallel = false;

  int64_t strip_rows = 0;  // rows of each of the four strips of a task; 0: no strips

  std::vector<size_t> slots;       // their offsets
  size_t slot_bytes = 0;           // of all
  std::vector<int64_t> constants;  // bit patterns; pointer `slots` + i
  std::vector<TileMove> setup_moves, col_moves, row_moves, full_moves;
  std::vector<Access> accesses;
  std::vector<TileStep> setup, body;
  std::vector<ChainLink> links;
  std::vector<TileSum> sums;
  size_t scratch = 0;
};

constexpr int kMaxPointers = 160;  // the table lies on the thread's stack

CompiledTiles compile_tiles(const TileProgram& program);
// Makes slots for registers, and puts numbers of pointers in the place of theirs (tile_registers.cpp).
void place_registers(CompiledTiles& tiles, std::vector<TileRegister>& registers);

}  // namespace freight::cpu
