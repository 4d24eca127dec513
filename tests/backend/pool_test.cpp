// Max pooling and its gradient on the CPU against the reference backend: all kinds of numbers and windows, however
// the largest number is told from one to the other, and the kernels of bf16 on memory that tells of what reaches out.
#include "freight/backend/cpu/kernels/bf16/pool.h"
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

// Where the processor has kernels of its own for bf16.
TEST(CpuPool, NothingIsReadOrWrittenOutsideOfBf16Pixels) {
  FREIGHT_NEEDS_BF16();
  for (const PoolCase& p : kCases) {
    if (p.kernel * p.kernel > 256) continue;
    SCOPED_TRACE(text(p));
    PoolGeometry g;
    g.channels = p.c;
    const int64_t in[] = {p.h, p.w};
    for (int a = 0; a < 2; ++a) {
      g.in[a] = in[a];
      g.kernel[a] = p.kernel;
      g.stride[a] = p.stride;
      g.pad[a] = p.pad;
      g.out[a] = (in[a] + 2 * p.pad - p.kernel) / p.stride + 1;
    }
    const Guarded<Bf16> x(p.h * p.w * p.c), y(g.out[0] * g.out[1] * p.c), dx(x.size());
    const Guarded<int32_t> places((y.size() + 3) / 4);  // a byte each
    fill_exact(x.data(), x.size(), 3);
    const PoolTable& table = bf16_pool_table();
    for (int64_t row = 0; row < g.out[0]; ++row) table.max(g, x.data(), y.data(), places.data(), row);
    for (int64_t row = 0; row < p.h; ++row) table.max_grad(g, y.data(), places.data(), dx.data(), row);
    double given = 0, taken = 0;
    for (int64_t i = 0; i < y.size(); ++i) given += value(y[i]);
    for (int64_t i = 0; i < x.size(); ++i) taken += value(dx[i]);
    EXPECT_EQ(given, taken);
  }
}

}  // namespace
}  // namespace freight::cpu
