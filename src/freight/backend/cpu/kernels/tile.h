// The tile interpreter: a fused region of pointwise and reduce operations becomes a short list of instructions over
// L1-sized tiles, each executed by a SIMD loop (tile_f32.cpp). No compiler at run time, no allocation in run().
// This header is the program and the prepared kernel; lowering.cpp writes programs from graph bodies, tile_compile.cpp
// turns them into steps, tile_run.cpp executes them.
//
// A program walks one iteration space, dimensions in memory order (slowest first). Its trailing `row_dims` dimensions
// form a *row*: row reductions yield one number per row, usable again in the same program (softmax, layer norm).
// Accumulations reduce over leading dimensions or over everything and are results only. Chunk borders depend on sizes
// alone, hence equal bits for any number of threads.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/base/dtype.h"
#include "freight/base/shape.h"
#include "freight/ir/op.h"

namespace freight::cpu {

// A register holds one of these. f32 also carries bf16 and f16 (computed in f32) and bool (0 or 1); i64 also carries
// all integers but u64.
enum class Reg : uint8_t { f32, f64, i64, u64 };
Reg register_type(DType dtype);

// Functions of one f32 that are no ops: kernels/activations.h.
enum class TileFunction : uint8_t { gelu_erf, gelu_erf_slope, gelu_tanh, gelu_tanh_slope, silu, silu_slope };
constexpr int kTileFunctions = 6;

// One SSA value of a program. a, b, c number earlier values.
struct TileValue {
  enum class Kind : uint8_t {
    input,     // an element of operand `operand` at `strides`
    constant,  // `number`
    index,     // the sum of index * strides: iota
    random,  // op random_uniform or random_normal; the draw's number is the index; operand: key i64[2]; number: stream
    op,      // a pointwise op of the table
    row_reduce,  // op sum, reduce_max or reduce_min of a over the row
    function,    // `function` of a; made of ops when a program is compiled
  };
  Kind kind = Kind::op;
  Op op = Op::add;
  DType dtype = DType::f32;  // of the value in the graph; inputs: of the elements in memory
  int a = -1, b = -1, c = -1;
  int operand = -1;
  Strides strides = {};  // in elements, one per dimension of the space
  double number = 0;
  int64_t key_stride = 1;  // random: elements from the seed to the step
  TileFunction function = TileFunction::gelu_erf;
  // Read more than once in its region, if not in this program: it is rounded before it goes into a sum, so that the sum
  // has the same bits in all programs of the region.
  bool shared = false;
};

// Writes a value to operand `operand`. The memory may be that of an input of equal dtype and strides (in-place update).
struct TileStore {
  int value = -1;
  DType dtype = DType::f32;
  int operand = -1;
  Strides strides;
  bool stream = false;  // larger than cache and not read soon: non-temporal stores
};

// Reduces a value over the dimensions where `keep` is false into operand `operand`.
struct TileAccumulate {
  int value = -1;
  Op op = Op::sum;
  DType dtype = DType::f32;
  int operand = -1;
  Strides strides;         // those of kept dimensions count
  std::vector<bool> keep;  // by dimension: [kept leading][reduced][row: all kept or all reduced]
};

struct TileProgram {
  Shape space;
  int row_dims = 0;  // trailing dimensions that row reductions reduce
  std::vector<TileValue> values;
  std::vector<TileStore> stores;
  std::vector<TileAccumulate> sums;
  bool round_each = false;  // a product is rounded before it goes into a sum

  // Append a value and return its number.
  int add(const TileValue& value) {
    values.push_back(value);
    return static_cast<int>(values.size()) - 1;
  }
  int input(int operand, DType dtype, const Strides& strides) {
    return add({.kind = TileValue::Kind::input, .dtype = dtype, .operand = operand, .strides = strides});
  }
  int constant(double number, DType dtype) {
    return add({.kind = TileValue::Kind::constant, .dtype = dtype, .number = number});
  }
  int apply(Op op, DType dtype, int a, int b = -1, int c = -1) {
    return add({.op = op, .dtype = dtype, .a = a, .b = b, .c = c});
  }
  int row_reduce(Op op, DType dtype, int a) {
    return add({.kind = TileValue::Kind::row_reduce, .op = op, .dtype = dtype, .a = a});
  }
};

// A compiled program. Operands are the pointers that TileValue/TileStore/TileAccumulate::operand number.
class TileKernel {
 public:
  // The space must have elements. Throws Error(device) where the accumulations do not fit one structure (leading kept,
  // middle reduced, row kept or reduced) or there are too many operands and registers, Error(usage) where an op has no
  // function for its operands' type.
  static std::unique_ptr<TileKernel> compile(const TileProgram& program);
  virtual ~TileKernel() = default;
  // `scratch` has scratch_bytes() bytes, 64-byte aligned.
  virtual void run(void* const* operands, void* scratch) const = 0;
  virtual size_t scratch_bytes() const = 0;
};

}  // namespace freight::cpu
