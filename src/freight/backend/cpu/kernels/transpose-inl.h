// Squares of a matrix that are transposed in registers. Compiled per target, as Highway's own -inl headers are.
#if defined(FREIGHT_TRANSPOSE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FREIGHT_TRANSPOSE_INL
#undef FREIGHT_TRANSPOSE_INL
#else
#define FREIGHT_TRANSPOSE_INL
#endif

#include <cstddef>

#include "hwy/highway.h"

#if HWY_TARGET != HWY_SCALAR  // which has one lane
HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {
namespace transpose_squares {

namespace hn = hwy::HWY_NAMESPACE;

// Rows of such a square.
template <class T>
inline constexpr int kSide = sizeof(T) == 4 || HWY_MAX_BYTES >= 32 ? 4 : 2;
// A square: dst[j * dst_row + q] = src[q * src_row + j].
HWY_INLINE void transpose_square(float* dst, const float* src, ptrdiff_t src_row, ptrdiff_t dst_row) {
  const hn::FixedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> w;
  const auto r0 = hn::LoadU(d, src), r1 = hn::LoadU(d, src + src_row);
  const auto r2 = hn::LoadU(d, src + 2 * src_row), r3 = hn::LoadU(d, src + 3 * src_row);
  const auto a = hn::BitCast(w, hn::InterleaveLower(d, r0, r1)), b = hn::BitCast(w, hn::InterleaveLower(d, r2, r3));
  const auto e = hn::BitCast(w, hn::InterleaveUpper(d, r0, r1)), f = hn::BitCast(w, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(w, a, b)), d, dst);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(w, a, b)), d, dst + dst_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(w, e, f)), d, dst + 2 * dst_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(w, e, f)), d, dst + 3 * dst_row);
}
HWY_INLINE void transpose_square(double* dst, const double* src, ptrdiff_t src_row, ptrdiff_t dst_row) {
  const hn::FixedTag<double, kSide<double>> d;
  const auto r0 = hn::LoadU(d, src), r1 = hn::LoadU(d, src + src_row);
  const auto a = hn::InterleaveLower(d, r0, r1), b = hn::InterleaveUpper(d, r0, r1);
#if HWY_MAX_BYTES >= 32
  const auto r2 = hn::LoadU(d, src + 2 * src_row), r3 = hn::LoadU(d, src + 3 * src_row);
  const auto e = hn::InterleaveLower(d, r2, r3), f = hn::InterleaveUpper(d, r2, r3);
  hn::StoreU(hn::ConcatLowerLower(d, e, a), d, dst);
  hn::StoreU(hn::ConcatLowerLower(d, f, b), d, dst + dst_row);
  hn::StoreU(hn::ConcatUpperUpper(d, e, a), d, dst + 2 * dst_row);
  hn::StoreU(hn::ConcatUpperUpper(d, f, b), d, dst + 3 * dst_row);
#else
  hn::StoreU(a, d, dst);
  hn::StoreU(b, d, dst + dst_row);
#endif
}

}  // namespace transpose_squares
}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif  // per target
