// Strided copies against plain loops: any order of axes, gaps, repeated elements, all sizes of elements and any number
// of parts.
#include "freight/backend/cpu/kernels/copy.h"

#include <numeric>

#include "tests/backend/bf16_kernels.h"

namespace freight::cpu {
namespace {

// Row-major strides of `shape` with its axes in the order of memory `order`, and `gap` elements behind each line.
Strides strides_of(const Shape& shape, const std::vector<int>& order, int64_t gap) {
  Strides s = Strides::filled(shape.rank(), 0);
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    s[order[i]] = step;
    step = step * shape[order[i]] + (i + 1 == order.size() ? gap : 0);
  }
  return s;
}

int64_t extent(const Shape& shape, const Strides& strides) {
  int64_t n = 1;
  for (int i = 0; i < shape.rank(); ++i) n += (shape[i] - 1) * strides[i];
  return n;
}

template <class T>
void check(const Shape& shape, const Strides& from, const Strides& to, int64_t parts) {
  SCOPED_TRACE(cat(shape, " ", from, " ", to, " bytes ", sizeof(T), " parts ", parts));
  const Guarded<T> x(extent(shape, from)), y(extent(shape, to)), need(y.size());
  for (int64_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 7 + 1);
  for (int64_t i = 0; i < shape.numel(); ++i) {
    int64_t rest = i, a = 0, b = 0;
    for (int d = shape.rank() - 1; d >= 0; rest /= shape[d--]) {
      a += rest % shape[d] * from[d];
      b += rest % shape[d] * to[d];
    }
    need[b] = x[a];
  }
  const StridedCopy copy(shape, sizeof(T), from, to);
  for (int64_t part = 0; part < parts; ++part) copy.run(x.data(), y.data(), part, parts);
  EXPECT_EQ(std::memcmp(y.data(), need.data(), y.bytes()), 0);
}

TEST(StridedCopy, EqualsPlainLoops) {
  for (const Shape& shape : {Shape{2, 3, 40, 70}, Shape{2, 65, 7, 9}, Shape{1, 1, 1, 1}, Shape{3, 128, 1, 33},
                             Shape{1, 2, 3, 20000}, Shape{5, 4, 3, 2}}) {
    std::vector<int> a(4), b(4);
    std::iota(a.begin(), a.end(), 0);
    std::iota(b.begin(), b.end(), 0);
    do {
      for (const int64_t gap : {int64_t{0}, int64_t{3}}) {
        const Strides from = strides_of(shape, a, gap), to = strides_of(shape, b, 3 - gap);
        check<Bf16>(shape, from, to, 3);
        check<float>(shape, to, from, 1);
      }
    } while (std::next_permutation(a.begin(), a.end()));
  }
}

TEST(StridedCopy, RepeatsAndSpreadsElements) {
  check<uint8_t>({4, 5}, {0, 1}, {5, 1}, 2);
  check<int64_t>({4, 5}, {1, 0}, {15, 3}, 2);
  check<float>({50, 70}, {1, 50}, {200, 2}, 7);
  check<Bf16>({}, {}, {}, 1);
}

}  // namespace
}  // namespace freight::cpu
