// See pointwise.h.
#include "freight/backend/cpu/kernels/pointwise.h"

#include <algorithm>
#include <span>

#include "freight/backend/cpu/kernels/tile_chain.h"
#include "freight/base/error.h"

namespace freight::cpu {

namespace {

constexpr size_t kBlock = 256;

void pointwise(Op op, double* y, const double* a, const double* b, size_t n) {
  const F64Loop loop = f64_table().by_op[static_cast<size_t>(op)];
  FREIGHT_CHECK(loop, "no loop of f64 for op ", info(op).name);
  loop(y, a, b, nullptr, n, 0);
}

void pointwise(Op op, float* y, const float* a, const float* b, size_t n) {
  const ChainTable& table = chain_table();
  const auto at = static_cast<size_t>(op);
  const LinkFns function = b ? table.binary[at][0][static_cast<int>(From::vector)] : table.unary[at];
  if (function.whole) {
    const ChainLink links[] = {{.fns = table.load[static_cast<int>(From::vector)], .a = 0},
                               {.fns = function, .a = 1},
                               {.fns = table.store, .a = 2},
                               {.fns = table.end}};
    void* const pointers[] = {const_cast<float*>(a), const_cast<float*>(b), y};
    return table.run(links, pointers, n);
  }
  FREIGHT_CHECK(!b, "no loop of f32 for op ", info(op).name);
  double wide[kBlock];
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t count = std::min(kBlock, n - i);
    f64_table().from_f32(wide, a + i, nullptr, nullptr, count, 0);
    pointwise(op, wide, wide, nullptr, count);
    f64_table().to_f32(y + i, wide, nullptr, nullptr, count, 0);
  }
}

// T: in memory, C: computed in.
template <class T, class C>
void run(const PointwiseLoop& l) {
  const auto steps = std::span(l.steps, static_cast<size_t>(l.operands) + 1);
  if (std::is_same_v<T, C> && std::ranges::all_of(steps, [](int64_t step) { return step == sizeof(C); })) {
    const auto* second = l.operands == 2 ? reinterpret_cast<const C*>(l.at[2]) : nullptr;
    return pointwise(l.op, reinterpret_cast<C*>(l.at[0]), reinterpret_cast<const C*>(l.at[1]), second,
                     static_cast<size_t>(l.n));
  }
  C block[2][kBlock];  // collected, so that the values do not depend on where numbers lie
  for (int64_t i = 0; i < l.n; i += kBlock) {
    const int64_t count = std::min<int64_t>(kBlock, l.n - i);
    for (int k = 0; k < l.operands; ++k) {
      const char* from = l.at[k + 1] + i * l.steps[k + 1];
      for (int64_t j = 0; j < count; ++j)
        block[k][j] = static_cast<C>(*reinterpret_cast<const T*>(from + j * l.steps[k + 1]));
    }
    pointwise(l.op, block[0], block[0], l.operands == 2 ? block[1] : nullptr, static_cast<size_t>(count));
    char* to = l.at[0] + i * l.steps[0];
    for (int64_t j = 0; j < count; ++j) *reinterpret_cast<T*>(to + j * l.steps[0]) = static_cast<T>(block[0][j]);
  }
}

}  // namespace

void run_pointwise(const PointwiseLoop& loop) {
  switch (loop.dtype) {
    case DType::f32: return run<float, float>(loop);
    case DType::f64: return run<double, double>(loop);
    case DType::bf16: return run<BFloat16, float>(loop);
    case DType::f16: return run<Float16, float>(loop);
    default: FREIGHT_CHECK(false, "no pointwise loop of ", info(loop.dtype).name);
  }
}

}  // namespace freight::cpu
