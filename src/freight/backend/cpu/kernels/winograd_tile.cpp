// See winograd_tile.h.
#include "freight/backend/cpu/kernels/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "freight/backend/cpu/kernels/winograd_tile.cpp"
#include "hwy/foreach_target.h"
// The order of these two matters: foreach_target first.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

// Per target, no include guards of their own are in the way.
#include "freight/backend/cpu/kernels/clip-inl.h"
#include "freight/backend/cpu/kernels/functions-inl.h"

#include <array>
#include <type_traits>

#include "freight/backend/cpu/kernels/winograd_tile.h"

HWY_BEFORE_NAMESPACE();
namespace freight::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V read(const float* from) { return hn::LoadU(D(), from); }
HWY_INLINE V read(const uint16_t* from) { return from_bf16(hn::LoadU(D16(), from)); }
HWY_INLINE void write(V v, float* to) { hn::StoreU(v, D(), to); }
HWY_INLINE void write(V v, uint16_t* to) { hn::StoreU(to_bf16(v), D16(), to); }

HWY_INLINE V times(float c, V v) { return hn::Mul(hn::Set(D(), c), v); }
HWY_INLINE V plus(float c, V v, V w) { return hn::MulAdd(hn::Set(D(), c), v, w); }  // c v + w

// The matrices by the method of Cook and Toom: products of polynomials, by their values at these points and infinity.
constexpr double kPoints[] = {0, 1, -1, 2, -2, 0.5, -0.5};
template <size_t kRows, size_t kColumns>
using Matrix = std::array<std::array<float, kColumns>, kRows>;

// A, and, with weights, G: a row of powers per point.
template <size_t kPatch, size_t kColumns>
constexpr Matrix<kPatch, kColumns> powers(bool weighted) {
  Matrix<kPatch, kColumns> m{};
  for (size_t j = 0; j + 1 < kPatch; ++j) {
    double v = 1;
    for (size_t l = 0; weighted && l + 1 < kPatch; ++l) v /= l == j ? 1 : kPoints[j] - kPoints[l];
    for (size_t i = 0; i < kColumns; ++i, v *= kPoints[j]) m[j][i] = static_cast<float>(v);
  }
  m[kPatch - 1][kColumns - 1] = 1;
  return m;
}

// B^T: a row of coefficients per point, of the polynomial that is 0 at the others.
template <size_t kPatch>
constexpr Matrix<kPatch, kPatch> zeros_at_others() {
  Matrix<kPatch, kPatch> m{};
  for (size_t j = 0; j < kPatch; ++j) {
    std::array<double, kPatch> c{1};
    for (size_t l = 0; l + 1 < kPatch; ++l) {
      for (size_t k = kPatch; l != j && k-- > 0;) c[k] = (k > 0 ? c[k - 1] : 0) - kPoints[l] * c[k];
    }
    for (size_t k = 0; k < kPatch; ++k) m[j][k] = static_cast<float>(c[k]);
  }
  return m;
}

// c[first] in[first] + c[first + 2] in[first + 2] ...; elements of `in` lie `step` apart.
template <size_t N>
HWY_INLINE V every_second(const std::array<float, N>& c, size_t first, const V* in, size_t step) {
  V sum = hn::Zero(D());
  bool none = true;
#pragma GCC unroll 8
  for (size_t k = first; k < N; k += 2) {
    if (c[k] == 0) continue;
    const V v = in[k * step];
    if (none) {
      sum = c[k] == 1 ? v : times(c[k], v);
    } else {
      sum = c[k] == 1 ? hn::Add(sum, v) : c[k] == -1 ? hn::Sub(sum, v) : plus(c[k], v, sum);
    }
    none = false;
  }
  return sum;
}

// The matrices have a row (or column) per point: 0, pairs of opposite ones, infinity. Rows of a pair differ in the sign
// of their odd columns alone. Each takes elements in[0], in[step], ... and writes out[0], out[to], ...
template <const auto& kMatrix>
struct ByRows {
  static constexpr size_t kOut = kMatrix.size(), kIn = kMatrix[0].size();
  static HWY_INLINE void run(const V* in, size_t step, V* out, size_t to) {
    out[0] = every_second(kMatrix[0], 0, in, step);  // of 0 and infinity the other half is zeros
#pragma GCC unroll 8
    for (size_t i = 1; i + 1 < kOut; i += 2) {
      const V even = every_second(kMatrix[i], 0, in, step), odd = every_second(kMatrix[i], 1, in, step);
      out[i * to] = hn::Add(even, odd);
      out[(i + 1) * to] = hn::Sub(even, odd);
    }
    out[(kOut - 1) * to] = every_second(kMatrix[kOut - 1], (kIn - 1) % 2, in, step);
  }
};

template <const auto& kMatrix>  // (points, out)
struct ByColumns {
  static constexpr size_t kOut = kMatrix[0].size(), kIn = kMatrix.size(), kPairs = kIn / 2 - 1;
  static HWY_INLINE void run(const V* in, size_t step, V* out, size_t to) {
    V sums[kPairs], differences[kPairs];
#pragma GCC unroll 8
    for (size_t j = 0; j < kPairs; ++j) {
      const V a = in[(2 * j + 1) * step], b = in[(2 * j + 2) * step];
      sums[j] = hn::Add(a, b);
      differences[j] = hn::Sub(a, b);
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < kOut; ++i) {
      const V* pairs = i % 2 == 0 ? sums : differences;
      V sum = kMatrix[1][i] == 1 ? pairs[0] : times(kMatrix[1][i], pairs[0]);
#pragma GCC unroll 8
      for (size_t j = 1; j < kPairs; ++j) sum = plus(kMatrix[2 * j + 1][i], pairs[j], sum);
      if (kMatrix[0][i] != 0) sum = kMatrix[0][i] == 1 ? hn::Add(in[0], sum) : plus(kMatrix[0][i], in[0], sum);
      if (kMatrix[kIn - 1][i] != 0) sum = hn::Add(sum, in[(kIn - 1) * step]);
      out[i * to] = sum;
    }
  }
};

// T x T^T of a square (kIn x kIn): load(i, j) gives an element of it, store(i, j, v) takes one of the result. No more
// is held at a time than the half-done square (kOut, kIn), most of which registers hold.
template <class T, class Load, class Store>
HWY_INLINE void both_sides(Load load, Store store) {
  V half[T::kOut * T::kIn];
#pragma GCC unroll 8
  for (size_t j = 0; j < T::kIn; ++j) {
    V x[T::kIn];
#pragma GCC unroll 8
    for (size_t i = 0; i < T::kIn; ++i) x[i] = load(i, j);
    T::run(x, 1, half + j, T::kIn);
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < T::kOut; ++i) {
    V y[T::kOut];
    T::run(half + i * T::kIn, 1, y, 1);
#pragma GCC unroll 8
    for (size_t j = 0; j < T::kOut; ++j) store(i, j, y[j]);
  }
}

// F(kTile x kTile, kTaps x kTaps).
template <size_t kTile, size_t kTaps>
struct Form {
  static constexpr size_t kPatch = kTile + kTaps - 1;
  static constexpr auto kB = zeros_at_others<kPatch>();
  static constexpr auto kA = powers<kPatch, kTile>(false);
  static constexpr auto kG = powers<kPatch, kTaps>(true);

  template <class Number>
  HWY_ALIGN static constexpr Number kZeros[HWY_MAX_BYTES / sizeof(Number)] = {};

  // f(its index, its place in an image) of each pixel that exists.
  template <class F>
  static HWY_INLINE void each(const WinogradPatch& p, int64_t side, F f) {
    for (int k = 0; k < p.count; ++k) {
      const WinogradPatch::PatchRectangle& piece = p.pieces[k];
      for (int64_t i = piece.row0; i < piece.row1; ++i) {
        for (int64_t j = piece.col0; j < piece.col1; ++j) f(i * side + j, piece.first + i * p.row + j * p.col);
      }
    }
  }

  template <class T, class Number>
  static void patch(const Number* images, const WinogradPatch& p, int64_t channels,
                    const typename WinogradTable<Number>::Out& out) {
    const D d;
    constexpr size_t kSide = T::kIn;
    ptrdiff_t places[kSide * kSide];
    if (p.count > 1) each(p, kSide, [&](int64_t i, ptrdiff_t at) HWY_ATTR { places[i] = at; });
    for (int64_t c = 0; c < channels; c += static_cast<int64_t>(hn::Lanes(d))) {
      float* dst = out.dst + (c / out.width) * out.panel + c % out.width;
      const auto store = [&](size_t i, size_t j, V v)
                             HWY_ATTR { hn::StoreU(v, d, dst + static_cast<ptrdiff_t>(i * kPatch + j) * out.element); };
      const Number* first = images + p.pieces[0].first + c;
      const auto pixel = [&](size_t i, size_t j) HWY_ATTR {
        return first + static_cast<ptrdiff_t>(i) * p.row + static_cast<ptrdiff_t>(j) * p.col;
      };
      const auto or_zeros = [&](size_t i, size_t j, const Number* at)
                                HWY_ATTR { return read((p.exists >> (i * kSide + j) & 1) != 0 ? at : kZeros<Number>); };
      if (p.whole) {
        both_sides<T>([&](size_t i, size_t j) HWY_ATTR { return read(pixel(i, j)); }, store);
      } else if (p.count == 1) {
        both_sides<T>([&](size_t i, size_t j) HWY_ATTR { return or_zeros(i, j, pixel(i, j)); }, store);
      } else {
        both_sides<T>([&](size_t i, size_t j) HWY_ATTR { return or_zeros(i, j, images + places[i * kSide + j] + c); },
                      store);
      }
    }
  }

  template <class Number>
  static void output(const float* m, ptrdiff_t element, int64_t channels,
                     const typename WinogradTable<Number>::Finish& finish, Number* images, const WinogradPatch& p) {
    const D d;
    const V most = hn::Set(d, finish.most);
    for (int64_t c = 0; c < channels; c += static_cast<int64_t>(hn::Lanes(d))) {
      const V b = finish.bias ? read(finish.bias + c) : hn::Zero(d);
      const auto product = [&](size_t i, size_t j) HWY_ATTR {
        return hn::LoadU(d, m + static_cast<ptrdiff_t>(i * kPatch + j) * element + c);
      };
      const auto store = [&](V y, ptrdiff_t at) HWY_ATTR {
        V v = hn::Add(y, b);
        if (finish.residual) v = hn::Add(v, read(finish.residual + at + c));
        if (finish.relu) v = at_least(hn::Zero(d), v);
        v = at_most(most, v);
        if constexpr (std::is_same_v<Number, float>) {
          if (finish.stream) return hn::Stream(v, d, images + at + c);
        }
        write(v, images + at + c);
      };
      if (p.whole) {
        both_sides<ByColumns<kA>>(product, [&](size_t i, size_t j, V y) HWY_ATTR {
          store(y, p.pieces[0].first + static_cast<ptrdiff_t>(i) * p.row + static_cast<ptrdiff_t>(j) * p.col);
        });
        continue;
      }
      V y[kTile * kTile];
      both_sides<ByColumns<kA>>(product, [&](size_t i, size_t j, V v) HWY_ATTR { y[i * kTile + j] = v; });
      each(p, kTile, [&](int64_t i, ptrdiff_t at) HWY_ATTR { store(y[i], at); });
    }
    if (finish.stream) hwy::FlushStream();
  }

  static void filter(const float* taps, ptrdiff_t tap, float* dst, ptrdiff_t element) {
    const D d;
    both_sides<ByRows<kG>>([&](size_t i, size_t j)
                               HWY_ATTR { return hn::LoadU(d, taps + static_cast<ptrdiff_t>(i * kTaps + j) * tap); },
                           [&](size_t i, size_t j, V v)
                               HWY_ATTR { hn::StoreU(v, d, dst + static_cast<ptrdiff_t>(i * kPatch + j) * element); });
  }

  static void filter_gradient(const float* u, ptrdiff_t element, float* w, ptrdiff_t lane) {
    const D d;
    const int lanes = static_cast<int>(hn::Lanes(d));
    constexpr int kAll = kTaps * kTaps;
    HWY_ALIGN float taps[kAll * HWY_MAX_BYTES / 4];
    both_sides<ByColumns<kG>>(
        [&](size_t i, size_t j) HWY_ATTR { return hn::LoadU(d, u + static_cast<ptrdiff_t>(i * kPatch + j) * element); },
        [&](size_t i, size_t j, V v) HWY_ATTR { hn::Store(v, d, taps + (i * kTaps + j) * hn::Lanes(d)); });
    for (int l = 0; l < lanes; ++l) {
      for (int t = 0; t < kAll; ++t) w[t + l * lane] = taps[t * lanes + l];
    }
  }

  template <class Number>
  static constexpr WinogradTable<Number> table() {
    return {kPatch, patch<ByRows<kB>, Number>, patch<ByRows<kA>, Number>, output<Number>, filter, filter_gradient};
  }
};

WinogradTables make_winograd_tables() {
  return {static_cast<int>(hn::Lanes(D())), Form<4, 3>::table<float>(), Form<4, 5>::table<float>(),
          Form<4, 3>::table<uint16_t>(), Form<4, 5>::table<uint16_t>()};
}

}  // namespace HWY_NAMESPACE
}  // namespace freight::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace freight::cpu {
FREIGHT_SIMD_TABLE(WinogradTables, winograd_tables, make_winograd_tables)
}  // namespace freight::cpu
#endif
