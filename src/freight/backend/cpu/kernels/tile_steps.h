// The functions that tile steps call: contiguous loops over registers. Operands are vectors (one element per result
// element) or scalars (one element for all). Loops of f32 and f64 are SIMD code chosen for the CPU at hand
// (tile_f32.cpp, tile_f64.cpp); the other register types and rare ops call the scalar functions of the reference
// backend per element (tile_generic.cpp).
#pragma once
#include <cstddef>
#include <cstdint>

#include "freight/backend/cpu/kernels/tile.h"

namespace freight::cpu {

using TileFn = void (*)(void* dst, const void* a, const void* b, const void* c, size_t n);

struct F32Table {
  // dst[i] (f64) += a[i] (f32); a[i] = 0.
  void (*flush)(double* dst, float* a, size_t n);
  void (*add_f64)(double* dst, const double* a, size_t n);  // dst[i] += a[i]
  // dst[r] = reduction of row r of a (rows, width): sum, max, min.
  void (*row_reduce[3])(float* dst, const float* a, size_t rows, size_t width);
  void (*expand_rows)(float* dst, const float* a, size_t rows, size_t width);  // dst[r, j] = a[r]
  TileFn load_bf16, load_u8;                                                   // to f32
  TileFn store_bf16, store_bool;                                               // from f32
  // Draws index, index + stride ... as random_uniform of philox.h, n of them.
  void (*uniform)(float* dst, uint64_t seed, uint64_t high, uint64_t index, uint64_t stride, size_t n);
};
const F32Table& f32_table();

// dst[i] = op(a[i], b[i], c[i]); `scalars` as in generic::Call.
using F64Loop = void (*)(void* dst, const void* a, const void* b, const void* c, size_t n, int scalars);
struct F64Table {
  F64Loop by_op[kOpCount];  // null where there is none
  F64Loop from_f32, to_f32;
};
const F64Table& f64_table();

inline bool holds_integers(Reg reg) { return reg == Reg::i64 || reg == Reg::u64; }
// Sums and extrema of f32 are held in f64.
inline Reg register_of_sums(Reg reg) { return holds_integers(reg) ? reg : Reg::f64; }

// True where memory holds elements of this type as a register does, so that it can stand for one.
bool stored_as_held(DType dtype, Reg reg);
// True where links of chains convert between this type in memory and f32 themselves.
bool links_convert(DType dtype, Reg reg);
// Whether a cast to the 16-bit type `to` changes some element of `from`; registers hold both in f32.
bool rounds(DType from, DType to);
// Whether all who read value v of a 16-bit type give the same without it being rounded: stores in its own type round
// themselves, and so do those of its relu. bf16 has the exponents of f32, so that the sign of what is rounded stays.
bool rounded_by_stores(const TileProgram& program, int v);

// Position of sum, reduce_max and reduce_min in tables.
int reduction_index(Op op);

namespace generic {
// dst[i] = op(a[i], b[i], c[i]) in any register type; `scalars` has bit 0, 1, 2 set where a, b, c is one element.
// The result is narrowed to `dtype` (integer types wrap).
struct Call {
  Op op;
  Reg in, out;  // register types of a (of b and c for `where`) and of dst
  DType dtype;  // of the result
  int scalars;
  F64Loop loop = nullptr;  // where the call is on f64, or from or to it, and has one
};
void run(const Call& call, void* dst, const void* a, const void* b, const void* c, size_t n);
// True where the op has a scalar function for that register type.
bool supports(Op op, Reg in);

// dst[i] = element type conversion from memory to a register and back; `stride` in elements.
void load(void* dst, Reg reg, const void* src, DType dtype, int64_t stride, size_t n);
void store(void* dst, DType dtype, int64_t stride, const void* src, Reg reg, size_t n);
// dst (f64, or integers) = reduction of dst and a.
void accumulate(void* dst, Reg reg, const void* a, int reduction, size_t n);
void row_reduce(void* dst, Reg reg, const void* a, int reduction, size_t rows, size_t width);
// dst[i] = (start + i * stride) as register type.
void index(void* dst, Reg reg, int64_t start, int64_t stride, size_t n);
}  // namespace generic

// The SIMD loop of a call on f64 registers; null where there is none.
F64Loop f64_loop(const generic::Call& call);

}  // namespace freight::cpu
