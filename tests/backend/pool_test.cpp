// Max pooling and its gradient on the CPU against the reference backend: all kinds of numbers and windows, however
// the largest number is told from one to the other; and its kernels against plain loops, bit by bit, on memory that
// tells of what reaches out.
#include "freight/backend/cpu/kernels/pool.h"

#include "freight/ir/builder.h"
#include "tests/backend/bf16_kernels.h"
#include "tests/support/run.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

struct PoolCase {
  int64_t c, h, w, kernel, stride, pad;
};

constexpr PoolCase kCases[] = {{6, 28, 28, 2, 2, 0},  {64, 15, 14, 3, 2, 1}, {17, 5, 9, 3, 1, 1}, {1, 4, 3, 2, 1, 1},
                               {35, 2, 2, 5, 1, 2},   {96, 9, 8, 3, 1, 1},   {33, 7, 9, 2, 3, 0}, {3, 17, 19, 17, 2, 0},
                               {40, 13, 12, 4, 2, 1}, {32, 8, 8, 2, 2, 0}};

std::string text(const PoolCase& p) {
  return cat(p.c, "x", p.h, "x", p.w, " kernel ", p.kernel, " stride ", p.stride, " pad ", p.pad);
}

enum class Fill : uint8_t { positive, any };

// Eighths, many of them equal; of any kind also zeros of both signs, infinities and what is no number, of both signs.
Array pixels(const PoolCase& p, DType dtype, Fill fill) {
  Array a(DType::f32, {2, p.c, p.h, p.w});
  PhiloxStream r(7, 0, 1);
  for (int64_t i = 0; i < a.numel(); ++i) {
    const float v = std::round(r.uniform(-16, 16)) / 8, kind = r.uniform(0, 100);
    float& to = a.data<float>()[i];
    if (fill == Fill::positive) {
      to = std::max(v, 0.0f);
    } else {
      to = kind < 1 ? NAN : kind < 2 ? -NAN : kind < 6 ? -INFINITY : kind < 7 ? INFINITY : kind < 20 ? -0.0f : v;
    }
  }
  return a.cast(dtype);
}

// x, dy -> y, dx and, where asked for, the indices.
enum class Indices : uint8_t { inside, given };
Graph pool_graph(const PoolCase& p, DType dtype, DType gradient, Indices indices) {
  PoolAttrs a{{p.kernel, p.kernel}, {p.stride, p.stride}, {p.pad, p.pad}, {p.pad, p.pad}, true, {}};
  const Shape shape{2, p.c, p.h, p.w};
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {dtype, shape}}, {});
  const std::vector<Value> found = b.add(Op::max_pool, a, {x});
  const Value dy = b.one(Op::input, LeafAttrs{"dy", {gradient, b.shape(found[0])}}, {});
  a.shape = shape;
  g.outputs = {found[0], b.one(Op::max_pool_grad, a, {dy, found[1]})};
  if (indices == Indices::given) g.outputs.push_back(found[1]);
  return g;
}

// Mixed precision decides for both by themselves: one may be f32 and the other bf16.
void compare_with_reference() {
  constexpr DType kTypes[][2] = {
      {DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::f32, DType::bf16}, {DType::bf16, DType::f32}};
  for (const auto& [dtype, gradient] : kTypes) {
    for (const PoolCase& p : kCases) {
      for (const Indices indices : {Indices::inside, Indices::given}) {
        for (const Fill fill : {Fill::positive, Fill::any}) {
          SCOPED_TRACE(cat(to_string(dtype), " ", to_string(gradient), " ", text(p), " ", static_cast<int>(indices),
                           static_cast<int>(fill)));
          const Graph g = pool_graph(p, dtype, gradient, indices);
          Array dy(DType::f32, g.type(g.outputs[0]).shape);
          for (int64_t i = 0; i < dy.numel(); ++i) dy.data<float>()[i] = static_cast<float>(i % 31 - 15) / 8;
          const std::vector<Array> in{pixels(p, dtype, fill), dy.cast(gradient)};
          const auto need = test::run_planned("ref", g, in), got = test::run_planned("cpu", g, in);
          for (size_t k = 0; k < need.size(); ++k) {
            const Array a = need[k].cast(DType::f64), b = got[k].cast(DType::f64);
            for (int64_t i = 0; i < a.numel(); ++i) {
              const double x = a.data<double>()[i], y = b.data<double>()[i];
              ASSERT_TRUE(same(x, y)) << "result " << k << " at " << i << ": " << y << ", need " << x;
              ASSERT_EQ(k == 0 && std::signbit(x) && !std::isnan(x), k == 0 && std::signbit(y) && !std::isnan(y)) << i;
            }
          }
        }
      }
    }
  }
}

TEST(CpuPool, MaximaAndGradientsAreThoseOfTheReference) {
  test::for_each_simd_target([] {
    clear_plan_cache();
    compare_with_reference();
  });
  clear_plan_cache();
}

// What the kernels must give, bit by bit.
template <class T>
struct PlainPool {
  std::vector<T> y, dx;
  std::vector<int32_t> index;
};

float number_of(float v) { return v; }
float number_of(Bf16 v) { return static_cast<float>(value(v)); }
void put(float v, float& to) { to = v; }
void put(float v, Bf16& to) { to = BFloat16(v).bits; }

template <class T>
PlainPool<T> plain_pool(const PoolGeometry& g, const T* x, const T* dy) {
  PlainPool<T> p;
  const int64_t out = g.n * g.out[0] * g.out[1], plane = g.in[0] * g.in[1];
  std::vector<float> sums(static_cast<size_t>(g.n * plane * g.channels));
  for (int64_t o = 0; o < out * g.channels; ++o) {
    const int64_t c = o % g.channels, ow = o / g.channels % g.out[1], oh = o / g.channels / g.out[1] % g.out[0];
    const int64_t image = o / g.channels / g.out[1] / g.out[0] * plane;
    const PoolRange rows = g.window(0, oh), columns = g.window(1, ow);
    int64_t best = -1;
    for (int64_t h = rows.from; h < rows.to; ++h) {
      for (int64_t w = columns.from; w < columns.to; ++w) {
        const auto at = [&](int64_t pixel) { return number_of(x[(image + pixel) * g.channels + c]); };
        const int64_t i = h * g.in[1] + w;
        if (best < 0 || (!std::isnan(at(best)) && (std::isnan(at(i)) || at(i) > at(best)))) best = i;
      }
    }
    T least;
    put(-INFINITY, least);
    p.y.push_back(best < 0 ? least : x[(image + best) * g.channels + c]);
    p.index.push_back(static_cast<int32_t>(best));
    // Windows follow each other in the order in which the kernels add them.
    if (best >= 0) sums[static_cast<size_t>((image + best) * g.channels + c)] += number_of(dy[o]);
  }
  p.dx.resize(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) put(sums[i], p.dx[i]);
  return p;
}

// Numbers with many equal ones, NaN of both signs and many bits, zeros of both signs.
template <class T>
void fill_pixels(const Guarded<T>& to, Fill fill, uint64_t seed) {
  PhiloxStream r(seed, 0, 1);
  for (int64_t i = 0; i < to.size(); ++i) {
    const float v = std::round(r.uniform(-8, 8)) / 8, kind = r.uniform(0, 100);
    const auto bits = static_cast<uint32_t>(r.uniform(1, 63)) << 16;
    if (fill == Fill::positive) {
      put(std::max(v, 0.0f), to[i]);
    } else if (kind < 4) {
      // Quiet: arithmetic on others changes their bits.
      const auto nan = std::bit_cast<float>((kind < 2 ? 0x7fc00000u : 0xffc00000u) | bits);
      put(nan, to[i]);
    } else {
      put(kind < 7 ? -INFINITY : kind < 8 ? INFINITY : kind < 25 ? -0.0f : v, to[i]);
    }
  }
}

template <class T>
void compare_with_plain_loops(const PoolTable& table, PoolGeometry g, Fill fill) {
  const int64_t in = g.n * g.in[0] * g.in[1] * g.channels, out = g.n * g.out[0] * g.out[1] * g.channels;
  const Guarded<T> x(in), dy(out), y(out), dx(in);
  fill_pixels(x, fill, 3);
  PhiloxStream r(4, 0, 1);
  for (int64_t i = 0; i < out; ++i) put(r.uniform(-1, 1), dy[i]);
  const PlainPool<T> need = plain_pool(g, x.data(), dy.data());
  const auto check = [&](auto* places) {
    for (int64_t row = 0; row < g.n * g.out[0]; ++row) table.max(g, x.data(), y.data(), places, row);
    for (int64_t row = 0; row < g.n * g.in[0]; ++row) table.max_grad(g, dy.data(), places, dx.data(), row);
    EXPECT_EQ(std::memcmp(y.data(), need.y.data(), y.bytes()), 0);
    EXPECT_EQ(std::memcmp(dx.data(), need.dx.data(), dx.bytes()), 0);
  };
  const Guarded<int32_t> indices(out);
  check(indices.data());
  EXPECT_EQ(std::memcmp(indices.data(), need.index.data(), indices.bytes()), 0);
  if (g.kernel[0] * g.kernel[1] > 256) return;
  g.places = MaxPlaces::bytes;
  const Guarded<uint8_t> bytes(out);
  check(bytes.data());
}

TEST(CpuPool, ResultsAreThoseOfPlainLoopsBitByBitAndNothingElseIsTouched) {
  std::vector<PoolCase> cases(std::begin(kCases), std::end(kCases));
  for (const int64_t c : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 40}) {
    for (const auto& [h, w, kernel, stride, pad] : {std::array<int64_t, 5>{5, 7, 1, 1, 0},
                                                    {6, 7, 1, 2, 0},
                                                    {8, 10, 2, 2, 0},
                                                    {7, 9, 2, 2, 1},
                                                    {6, 6, 2, 1, 0},
                                                    {9, 9, 3, 2, 1},
                                                    {8, 7, 3, 2, 0},
                                                    {7, 7, 3, 1, 1},
                                                    {1, 2, 3, 1, 1},
                                                    {2, 1, 3, 2, 1},
                                                    {9, 8, 3, 3, 0},
                                                    {7, 5, 2, 3, 0},
                                                    {9, 9, 5, 2, 2},
                                                    {4, 5, 3, 5, 1}}) {
      cases.push_back({c, h, w, kernel, stride, pad});
    }
  }
  test::for_each_simd_target([&] {
    for (const PoolCase& p : cases) {
      PoolGeometry g{.n = 2, .channels = p.c};
      const int64_t in[] = {p.h, p.w};
      for (int a = 0; a < 2; ++a) {
        g.in[a] = in[a];
        g.kernel[a] = p.kernel;
        g.stride[a] = p.stride;
        g.pad[a] = p.pad;
        g.out[a] = (in[a] + 2 * p.pad - p.kernel) / p.stride + 1;
      }
      for (const Fill fill : {Fill::positive, Fill::any}) {
        SCOPED_TRACE(cat(text(p), " ", static_cast<int>(fill)));
        compare_with_plain_loops<float>(pool_tables().f32, g, fill);
        compare_with_plain_loops<Bf16>(pool_tables().bf16, g, fill);
        if (::testing::Test::HasFailure()) return;
      }
    }
  });
}

// One number of another kind among equal ones, in each place of a window.
TEST(CpuPool, NanAndZerosOfEitherSignAreFoundInEveryPlace) {
  test::for_each_simd_target([] {
    for (const int64_t kernel : {1, 2, 3, 4}) {
      for (const float odd : {NAN, -NAN, 0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY}) {
        for (const float even : {0.0f, -0.0f, -INFINITY, 1.0f, NAN}) {
          for (int64_t place = 0; place < kernel * kernel; ++place) {
            SCOPED_TRACE(cat(kernel, " ", odd, " ", even, " ", place));
            const PoolGeometry g{.channels = 37, .in = {kernel, kernel}, .kernel = {kernel, kernel}};
            const Guarded<float> x(kernel * kernel * g.channels), y(g.channels);
            const Guarded<int32_t> index(g.channels);
            for (int64_t i = 0; i < x.size(); ++i) x[i] = i / g.channels == place ? odd : even;
            pool_tables().f32.max(g, x.data(), y.data(), index.data(), 0);
            const bool wins = !std::isnan(even) && (std::isnan(odd) || odd > even);
            const bool loses = !std::isnan(odd) && (std::isnan(even) || even > odd);
            const int64_t need = wins ? place : loses && place == 0 && kernel > 1 ? 1 : 0;
            for (int64_t c = 0; c < g.channels; ++c) {
              ASSERT_EQ(index[c], need);
              ASSERT_EQ(std::bit_cast<uint32_t>(y[c]), std::bit_cast<uint32_t>(need == place ? odd : even));
            }
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace freight::cpu
