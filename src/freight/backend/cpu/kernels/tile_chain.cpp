// The links of tile_chain.h, compiled per instruction set by Highway. A group is four vectors, the accumulator; at the
// ends of a tile only a part of one has elements.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/tile_chain.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/highway.h"
// Per target, no include guard of its own is in the way.
#include "freight/backend/cpu/kernels/tile_ops-inl.h"

#include <cstring>

#include "freight/backend/cpu/kernels/bf16/blocks.h"
#include "freight/backend/cpu/kernels/tile_chain.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

using D8 = hn::Rebind<uint8_t, D>;

// Links hand on where the vectors of a group lie, each in a register: the first element of the first vector, how far
// the next vector is, and a part, which has the column of the first vector and how many vectors of how many elements.
using Link = void (*)(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2,
                      V x3);
constexpr size_t part_of(size_t column, size_t vectors, size_t lanes) { return column << 16 | vectors << 8 | lanes; }
constexpr size_t column_of(size_t part) { return part >> 16; }
constexpr size_t vectors_of(size_t part) { return part >> 8 & 255; }
constexpr size_t lanes_of(size_t part) { return part & 255; }
enum class Group : uint8_t { whole, part };

template <Group G>
HWY_INLINE void go_on(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2,
                      V x3) {
  asm volatile("" : "+r"(++link));  // read last, for the same reason as in step()
  reinterpret_cast<Link>(G == Group::whole ? link->fns.whole : link->fns.part)(link, p, i, stride, part, x0, x1, x2,
                                                                               x3);
}

// The vector at p; of a part, elements that it does not have are 0.
template <Group G, class Tag>
HWY_INLINE hn::Vec<Tag> read(Tag d, const hn::TFromD<Tag>* p, size_t part) {
  if (G == Group::whole || lanes_of(part) == hn::Lanes(d)) return hn::LoadU(d, p);
#if HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, lanes_of(part)), d, p);
#else
  HWY_ALIGN hn::TFromD<Tag> some[hn::MaxLanes(Tag())] = {};
  std::memcpy(some, p, lanes_of(part) * sizeof(*p));
  return hn::Load(d, some);
#endif
}
template <Group G, class Tag>
HWY_INLINE void write(hn::Vec<Tag> v, Tag d, hn::TFromD<Tag>* p, size_t part) {
  if (G == Group::whole || lanes_of(part) == hn::Lanes(d)) {
    hn::StoreU(v, d, p);
    return;
  }
#if HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, lanes_of(part)), d, p);
#else
  HWY_ALIGN hn::TFromD<Tag> some[hn::MaxLanes(Tag())];
  hn::Store(v, d, some);
  std::memcpy(p, some, lanes_of(part) * sizeof(*p));
#endif
}

template <From F, Group G>
struct Operand {
  HWY_INLINE Operand(const void* operand, bool by_column, size_t its_part)
      : p(operand), part(its_part), all(hn::Zero(D())) {
    if constexpr (F == From::one) {
      const auto* one = static_cast<const float*>(p);
      all = by_column ? read<G>(D(), one + column_of(part), part) : hn::Set(D(), *one);
    }
  }
  HWY_INLINE V get(size_t at) const {
    if constexpr (F == From::one) {
      return all;
    } else if constexpr (F == From::half) {
      return from_bf16(read<G>(D16(), static_cast<const uint16_t*>(p) + at, part));
    } else if constexpr (F == From::bytes) {
      return hn::ConvertTo(D(), hn::PromoteTo(DI(), read<G>(D8(), static_cast<const uint8_t*>(p) + at, part)));
    } else {
      return read<G>(D(), static_cast<const float*>(p) + at, part);
    }
  }
  const void* p;
  size_t part;
  V all;
};
template <From F, Group G>
HWY_INLINE Operand<F, G> first_operand(const ChainLink* link, void* const* p, size_t part) {
  return {p[link->a], (link->by_column & 1) != 0, part};
}
template <From F, Group G>
HWY_INLINE Operand<F, G> second_operand(const ChainLink* link, void* const* p, size_t part) {
  return {p[link->b], (link->by_column & 2) != 0, part};
}

// The compiler keeps one index, as one for each vector would take registers that links must save and restore.
HWY_INLINE void step(size_t& i, size_t stride) {
  i += stride;
  asm volatile("" : "+r"(i));
}
// Calls f with the vectors of the accumulator that have elements, and where they lie.
template <Group G, class F>
HWY_INLINE void each(size_t i, size_t stride, size_t part, V& x0, V& x1, V& x2, V& x3, F&& f) {
  f(x0, i);
  if (G == Group::part && vectors_of(part) < 2) return;
  step(i, stride);
  f(x1, i);
  if (G == Group::part && vectors_of(part) < 3) return;
  step(i, stride);
  f(x2, i);
  if (G == Group::part && vectors_of(part) < 4) return;
  step(i, stride);
  f(x3, i);
}

// x = F(x), F(x, a), F(x, a, b).
template <class F, Group G>
void unary_link(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  each<G>(i, stride, part, x0, x1, x2, x3, [](V& x, size_t) HWY_ATTR { x = F()(x); });
  go_on<G>(link, p, i, stride, part, x0, x1, x2, x3);
}
template <TileFunction F, Group G>
void activation_link(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2,
                     V x3) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (F != TileFunction::silu && F != TileFunction::silu_slope) {
    V y[kGroup] = {x0, x1, x2, x3};
    gelu_avx512<F>(y);
    return go_on<G>(link, p, i, stride, part, y[0], y[1], y[2], y[3]);
  }
#endif
  unary_link<Activation<F>, G>(link, p, i, stride, part, x0, x1, x2, x3);
}
template <class F, From A, Group G>
void binary_link(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  const auto a = first_operand<A, G>(link, p, part);
  each<G>(i, stride, part, x0, x1, x2, x3, [&](V& x, size_t at) HWY_ATTR { x = F()(x, a.get(at)); });
  go_on<G>(link, p, i, stride, part, x0, x1, x2, x3);
}
template <class F, From A, From B, Group G>
void ternary_link(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  const auto a = first_operand<A, G>(link, p, part);
  const auto b = second_operand<B, G>(link, p, part);
  each<G>(i, stride, part, x0, x1, x2, x3, [&](V& x, size_t at) HWY_ATTR { x = F()(x, a.get(at), b.get(at)); });
  go_on<G>(link, p, i, stride, part, x0, x1, x2, x3);
}
struct Load {
  HWY_INLINE V operator()(V, V a) const { return a; }
};
template <class F>
struct Swapped {
  HWY_INLINE V operator()(V x, V a) const { return F()(a, x); }
};
template <class F>  // x is the third operand of F
struct Last {
  HWY_INLINE V operator()(V x, V a, V b) const { return F()(a, b, x); }
};

struct KeepWhere {
  HWY_INLINE V operator()(V x, V a) const { return hn::IfThenElseZero(hn::Ne(a, hn::Zero(D())), x); }
};

// a = F(a, x).
template <class F, Group G>
void fold(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  float* sums = static_cast<float*>(p[link->a]);
  each<G>(i, stride, part, x0, x1, x2, x3,
          [&](V& x, size_t at) HWY_ATTR { write<G>(F()(read<G>(D(), sums + at, part), x), D(), sums + at, part); });
  go_on<G>(link, p, i, stride, part, x0, x1, x2, x3);
}

// sums = F(sums, F(F(x0, x1), F(x2, x3))): sums of columns, of a group that has a vector in each strip.
template <class F, Group G>
HWY_INLINE void fold_column(float* sums, size_t part, V x0, V x1, V x2, V x3) {
  if (G == Group::whole || vectors_of(part) == 4) x2 = F()(x2, x3);
  if (G == Group::whole || vectors_of(part) >= 2) x0 = F()(x0, x1);
  if (G == Group::whole || vectors_of(part) >= 3) x0 = F()(x0, x2);
  write<G>(F()(read<G>(D(), sums, part), x0), D(), sums, part);
}
struct Itself {
  HWY_INLINE V operator()(V x) const { return x; }
};
template <class F, class Term, Group G>
void fold_strips(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  const Term term;
  fold_column<F, G>(static_cast<float*>(p[link->a]) + column_of(part), part, term(x0), term(x1), term(x2), term(x3));
  go_on<G>(link, p, i, stride, part, x0, x1, x2, x3);
}
template <From B, Group G>
void fold_strips_product(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2,
                         V x3) {
  const auto b = second_operand<B, G>(link, p, part);
  V y0 = x0, y1 = x1, y2 = x2, y3 = x3;
  each<G>(i, stride, part, y0, y1, y2, y3, [&](V& y, size_t at) HWY_ATTR { y = hn::Mul(y, b.get(at)); });
  fold_column<Add, G>(static_cast<float*>(p[link->a]) + column_of(part), part, y0, y1, y2, y3);
  go_on<G>(link, p, i, stride, part, x0, x1, x2, x3);
}

enum class Caches : uint8_t { kept, passed };
bool aligned(const void* p, size_t bytes) { return (reinterpret_cast<uintptr_t>(p) | bytes) % 64 == 0; }

// True where the four vectors make whole cache lines. A part of a line that passes the caches by is written with what
// memory holds of the rest: with AVX2 a step of strips in ResNet-50 b16 took 92 ms.
bool makes_lines(const float* to, size_t stride) {
  const size_t lanes = hn::Lanes(D());
  return stride == lanes ? aligned(to, 0) : lanes * sizeof(float) == 64 && aligned(to, stride * sizeof(float));
}

template <Caches C, Group G>
void store(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  float* to = static_cast<float*>(p[link->a]);
  if (C == Caches::passed && G == Group::whole && makes_lines(to + i, stride)) {
    each<G>(i, stride, part, x0, x1, x2, x3, [&](V& x, size_t at) HWY_ATTR { hn::Stream(x, D(), to + at); });
  } else {
    each<G>(i, stride, part, x0, x1, x2, x3, [&](V& x, size_t at) HWY_ATTR { write<G>(x, D(), to + at, part); });
  }
  go_on<G>(link, p, i, stride, part, x0, x1, x2, x3);
}
template <Group G>
void store_half(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  auto* to = static_cast<uint16_t*>(p[link->a]);
  each<G>(i, stride, part, x0, x1, x2, x3,
          [&](V& x, size_t at) HWY_ATTR { write<G>(to_bf16(x), D16(), to + at, part); });
  go_on<G>(link, p, i, stride, part, x0, x1, x2, x3);
}
#if HWY_TARGET == HWY_AVX3
// By the processor's own rounding.
template <Caches C>
__attribute__((target("avx512bf16"))) void store_rounded(const ChainLink* link, void* const* p, size_t i, size_t stride,
                                                         size_t part, V x0, V x1, V x2, V x3) {
  auto* to = static_cast<uint16_t*>(p[link->a]) + i;
  const auto low = (__m512i)_mm512_cvtne2ps_pbh(x1.raw, x0.raw), high = (__m512i)_mm512_cvtne2ps_pbh(x3.raw, x2.raw);
  if (stride != hn::Lanes(D())) {
    const auto put = [&](size_t strip, __m256i v)
                         HWY_ATTR { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + strip * stride), v); };
    put(0, _mm512_castsi512_si256(low));
    put(1, _mm512_extracti64x4_epi64(low, 1));
    put(2, _mm512_castsi512_si256(high));
    put(3, _mm512_extracti64x4_epi64(high, 1));
  } else if (C == Caches::passed && aligned(to, 0)) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), low);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + 32), high);
  } else {
    _mm512_storeu_si512(to, low);
    _mm512_storeu_si512(to + 32, high);
  }
  go_on<Group::whole>(link, p, i, stride, part, x0, x1, x2, x3);
}
__attribute__((target("avx512bf16"))) void round_by_processor(const ChainLink* link, void* const* p, size_t i,
                                                              size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  const auto low = (__m512i)_mm512_cvtne2ps_pbh(x1.raw, x0.raw), high = (__m512i)_mm512_cvtne2ps_pbh(x3.raw, x2.raw);
  x0.raw = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(low)), 16));
  x1.raw = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(low, 1)), 16));
  x2.raw = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(high)), 16));
  x3.raw = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(high, 1)), 16));
  go_on<Group::whole>(link, p, i, stride, part, x0, x1, x2, x3);
}
#endif
template <Group G>
void store_bytes(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  auto* to = static_cast<uint8_t*>(p[link->a]);
  each<G>(i, stride, part, x0, x1, x2, x3, [&](V& x, size_t at) HWY_ATTR {
    const auto m = hn::RebindMask(DI(), hn::Ne(x, hn::Zero(D())));
    write<G>(hn::DemoteTo(D8(), hn::IfThenElseZero(m, hn::Set(DI(), 1))), D8(), to + at, part);
  });
  go_on<G>(link, p, i, stride, part, x0, x1, x2, x3);
}
#if HWY_TARGET == HWY_AVX3
// Bytes of a whole group are made of masks, and masks of bytes; those that lie together at once.
void store_mask(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  auto* to = static_cast<uint8_t*>(p[link->a]) + i;
  const auto truth_of = [](V x) HWY_ATTR { return _mm512_cmp_ps_mask(x.raw, _mm512_setzero_ps(), _CMP_NEQ_UQ); };
  const __mmask16 m0 = truth_of(x0), m1 = truth_of(x1), m2 = truth_of(x2), m3 = truth_of(x3);
  if (stride == hn::Lanes(D())) {
    const __mmask64 all = _mm512_kunpackd(_mm512_kunpackw(m3, m2), _mm512_kunpackw(m1, m0));
    _mm512_storeu_si512(to, _mm512_maskz_set1_epi8(all, 1));
  } else {
    const auto put = [&](size_t strip, __mmask16 m) HWY_ATTR {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + strip * stride), _mm_maskz_set1_epi8(m, 1));
    };
    put(0, m0), put(1, m1), put(2, m2), put(3, m3);
  }
  go_on<Group::whole>(link, p, i, stride, part, x0, x1, x2, x3);
}
void keep_by_mask(const ChainLink* link, void* const* p, size_t i, size_t stride, size_t part, V x0, V x1, V x2, V x3) {
  const auto* from = static_cast<const uint8_t*>(p[link->a]) + i;
  if (stride == hn::Lanes(D())) {
    const __m512i bytes = _mm512_loadu_si512(from);
    const __mmask64 all = _mm512_test_epi8_mask(bytes, bytes);
    x0.raw = _mm512_maskz_mov_ps(static_cast<__mmask16>(all), x0.raw);
    x1.raw = _mm512_maskz_mov_ps(static_cast<__mmask16>(all >> 16), x1.raw);
    x2.raw = _mm512_maskz_mov_ps(static_cast<__mmask16>(all >> 32), x2.raw);
    x3.raw = _mm512_maskz_mov_ps(static_cast<__mmask16>(all >> 48), x3.raw);
  } else {
    const auto kept = [&](size_t strip, V x) HWY_ATTR {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + strip * stride));
      return V{_mm512_maskz_mov_ps(_mm_test_epi8_mask(bytes, bytes), x.raw)};
    };
    x0 = kept(0, x0), x1 = kept(1, x1), x2 = kept(2, x2), x3 = kept(3, x3);
  }
  go_on<Group::whole>(link, p, i, stride, part, x0, x1, x2, x3);
}
#endif

template <Group G>
void end(const ChainLink*, void* const*, size_t, size_t, size_t, V, V, V, V) {}

HWY_INLINE void run_group(LinkFn link, const ChainLink* first, void* const* p, size_t i, size_t stride, size_t part) {
  const V zero = hn::Zero(D());
  reinterpret_cast<Link>(link)(first, p, i, stride, part, zero, zero, zero, zero);
}

void run(const ChainLink* first, void* const* p, size_t n) {
  const size_t lanes = hn::Lanes(D()), group = kGroup * lanes;
  size_t i = 0;
  for (; i + group <= n; i += group) run_group(first->fns.whole, first, p, i, lanes, part_of(i, kGroup, lanes));
  const size_t vectors = (n - i) / lanes, rest = (n - i) % lanes;
  if (vectors > 0) run_group(first->fns.part, first, p, i, lanes, part_of(i, vectors, lanes));
  i += vectors * lanes;
  if (rest > 0) run_group(first->fns.part, first, p, i, lanes, part_of(i, 1, rest));
}

void run_strips(const ChainLink* first, void* const* p, const ChainStrips& s) {
  const size_t lanes = hn::Lanes(D());
  const LinkFn link = s.strips == kGroup ? first->fns.whole : first->fns.part;
  for (size_t i = 0; i < s.rows * s.width; i += s.width) {
    size_t c = 0;
    for (; c + lanes <= s.width; c += lanes) run_group(link, first, p, i + c, s.apart, part_of(c, s.strips, lanes));
    if (c < s.width) run_group(first->fns.part, first, p, i + c, s.apart, part_of(c, s.strips, s.width - c));
  }
}

LinkFns pair(Link whole, Link part) { return {reinterpret_cast<LinkFn>(whole), reinterpret_cast<LinkFn>(part)}; }
constexpr Group kW = Group::whole, kP = Group::part;
constexpr From kV = From::vector, kH = From::half, kO = From::one;

template <class F, From... A>
void set_binary(LinkFns (&row)[kFroms]) {
  ((row[static_cast<int>(A)] = pair(binary_link<F, A, kW>, binary_link<F, A, kP>)), ...);
}
template <class F, From A, From... B>
void set_ternary(LinkFns (&row)[kFroms][kFroms]) {
  ((row[static_cast<int>(A)][static_cast<int>(B)] = pair(ternary_link<F, A, B, kW>, ternary_link<F, A, B, kP>)), ...);
}
template <class... F>
void set_unaries(ChainTable& t) {
  ((t.unary[static_cast<int>(F::kOp)] = pair(unary_link<F, kW>, unary_link<F, kP>)), ...);
}
template <TileFunction... F>
void set_functions(ChainTable& t) {
  ((t.function[static_cast<int>(F)] = pair(activation_link<F, kW>, activation_link<F, kP>)), ...);
}
template <From... A, class... F>
void set_binaries(ChainTable& t, F...) {
  (set_binary<F, A...>(t.binary[static_cast<int>(F::kOp)][0]), ...);
  (set_binary<Swapped<F>, A...>(t.binary[static_cast<int>(F::kOp)][1]), ...);
}

ChainTable make_chain_table() {
  ChainTable t{};
  set_binary<Load, kV, kH, kO>(t.load);
  t.load_bytes = pair(binary_link<Load, From::bytes, kW>, binary_link<Load, From::bytes, kP>);
  set_unaries<Neg, Abs, Sign, Exp, Expm1, Log, Log1p, Sqrt, Rsqrt, Reciprocal, Square, Sin, Cos, Tan, Sinh, Cosh, Asin,
              Acos, Atan, Asinh, Acosh, Atanh, Tanh, Sigmoid, Erf, Floor, Ceil, Round, Relu, Not, IsFinite, ToBool>(t);
  set_functions<TileFunction::gelu_erf, TileFunction::gelu_erf_slope, TileFunction::gelu_tanh,
                TileFunction::gelu_tanh_slope, TileFunction::silu, TileFunction::silu_slope>(t);
  t.round_bf16 = pair(unary_link<RoundToBf16, kW>, unary_link<RoundToBf16, kP>);
  t.round_f16 = pair(unary_link<RoundToF16, kW>, unary_link<RoundToF16, kP>);
  set_binaries<kV, kO>(t, Div(), Maximum(), Minimum(), CopySign(), Pow(), Fmod(), Atan2(), Hypot(), LogAddExp(), EqOp(),
                       NeOp(), LtOp(), LeOp(), GtOp(), GeOp(), AndOp(), OrOp());
  set_binaries<kV, kH, kO>(t, Add(), Sub(), Mul());
  set_ternary<MulAddOp, kV, kV, kH, kO>(t.mul_add);
  set_ternary<MulAddOp, kO, kV, kH, kO>(t.mul_add);
  set_ternary<Last<MulAddOp>, kV, kV, kO>(t.add_product);
  set_ternary<Last<MulAddOp>, kH, kV, kO>(t.add_product);
  set_ternary<MulSubFrom, kV, kV, kO>(t.sub_from);
  set_ternary<MulSubFrom, kO, kV, kO>(t.sub_from);
  set_ternary<Last<MulSubFrom>, kV, kV, kO>(t.sub_product);
  set_ternary<Where, kV, kV, kO>(t.where);
  set_ternary<Where, kO, kV, kO>(t.where);
  t.keep_where = pair(binary_link<KeepWhere, From::bytes, kW>, binary_link<KeepWhere, From::bytes, kP>);
  set_binary<KeepWherePositive, kV, kH>(t.keep_positive);
  set_binary<Swapped<KeepWherePositive>, kV, kH>(t.keep_where_positive);
  t.fold[0] = pair(fold<Add, kW>, fold<Add, kP>);
  t.fold[1] = pair(fold<Maximum, kW>, fold<Maximum, kP>);
  t.fold[2] = pair(fold<Minimum, kW>, fold<Minimum, kP>);
  t.fold_strips[0] = pair(fold_strips<Add, Itself, kW>, fold_strips<Add, Itself, kP>);
  t.fold_strips[1] = pair(fold_strips<Maximum, Itself, kW>, fold_strips<Maximum, Itself, kP>);
  t.fold_strips[2] = pair(fold_strips<Minimum, Itself, kW>, fold_strips<Minimum, Itself, kP>);
  t.fold_strips_square = pair(fold_strips<Add, Square, kW>, fold_strips<Add, Square, kP>);
  t.fold_strips_product[0] = pair(fold_strips_product<kV, kW>, fold_strips_product<kV, kP>);
  t.fold_strips_product[1] = pair(fold_strips_product<kH, kW>, fold_strips_product<kH, kP>);
  t.fold_strips_product[2] = pair(fold_strips_product<kO, kW>, fold_strips_product<kO, kP>);
  t.store = pair(store<Caches::kept, kW>, store<Caches::kept, kP>);
  t.stream = pair(store<Caches::passed, kW>, store<Caches::passed, kP>);
  t.store_bytes = pair(store_bytes<kW>, store_bytes<kP>);
  t.stream_half = t.store_half = pair(store_half<kW>, store_half<kP>);
#if HWY_TARGET == HWY_AVX3
  t.store_bytes.whole = reinterpret_cast<LinkFn>(store_mask);
  t.keep_where.whole = reinterpret_cast<LinkFn>(keep_by_mask);
  if (bf16_table()) {
    t.store_half.whole = reinterpret_cast<LinkFn>(store_rounded<Caches::kept>);
    t.stream_half.whole = reinterpret_cast<LinkFn>(store_rounded<Caches::passed>);
    t.round_bf16.whole = reinterpret_cast<LinkFn>(round_by_processor);
  }
#endif
  t.end = pair(end<kW>, end<kP>);
  t.run = run;
  t.run_strips = run_strips;
  return t;
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(ChainTable, chain_table, make_chain_table)
}  // namespace freight::cpu
#endif
