// Arrays and numbers that follow the size of a batch: the rule found for three sizes gives the same elements for every
// other size, whatever made them, and none is made up for what follows no rule.
#include "freight/nn/batch_array_internal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/run.h"

namespace freight::nn {
namespace {

// The element at these places, for a batch of n.
using Element = std::function<double(int64_t n, const std::vector<int64_t>& at)>;

Array made(DType dtype, const Shape& shape, int64_t n, const Element& element) {
  std::vector<double> all;
  std::vector<int64_t> at(static_cast<size_t>(shape.rank()));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    int64_t rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      at[static_cast<size_t>(axis)] = rest % shape[axis];
      rest /= shape[axis];
    }
    all.push_back(element(n, at));
  }
  return Array::of<double>(all, shape).cast(dtype);
}

struct Case {
  const char* name;
  DType dtype;
  std::function<Shape(int64_t n)> shape;
  Element element;
};

Array of(const Case& c, int64_t n) { return made(c.dtype, c.shape(n), n, c.element); }

std::optional<BatchArray> rule_of(const Case& c) {
  return BatchArray::of({of(c, kBatches[0]), of(c, kBatches[1]), of(c, kBatches[2])});
}

double whole(int64_t v) { return static_cast<double>(v); }

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Case kKnown[] = {
    {"arange", DType::i64, [](int64_t n) { return Shape{n}; }, [](int64_t, const auto& at) { return whole(at[0]); }},
    {"every third, from 1 on", DType::i32, [](int64_t n) { return Shape{n}; },
     [](int64_t, const auto& at) { return whole(3 * at[0] + 1); }},
    {"backwards", DType::i64,
     [](int64_t n) {
       return Shape{n, 1};
     },
     [](int64_t n, const auto& at) { return whole(n - 1 - at[0]); }},
    {"counted in rows", DType::f32,
     [](int64_t n) {
       return Shape{n, 4};
     },
     [](int64_t, const auto& at) { return whole(4 * at[0] + at[1]); }},
    {"a row for each", DType::f32,
     [](int64_t n) {
       return Shape{n, 3};
     },
     [](int64_t, const auto& at) { return 0.1 * whole(at[1]) - 7; }},
    {"tiled in one axis", DType::f32, [](int64_t n) { return Shape{3 * n}; },
     [](int64_t, const auto& at) { return 0.3 * whole(at[0] % 3); }},
    {"repeated in one axis", DType::i64, [](int64_t n) { return Shape{3 * n}; },
     [](int64_t n, const auto& at) { return whole(at[0] / n * (at[0] / n)); }},
    {"a share", DType::f32,
     [](int64_t n) {
       return Shape{n, 2};
     },
     [](int64_t n, const auto&) { return 1 / whole(n); }},
    {"linspace", DType::f32, [](int64_t n) { return Shape{n}; },
     [](int64_t n, const auto& at) { return -1 + 2 * whole(at[0]) / std::max(whole(n - 1), 1.0); }},
    {"eye", DType::boolean,
     [](int64_t n) {
       return Shape{n, n};
     },
     [](int64_t, const auto& at) { return at[0] == at[1] ? 1.0 : 0.0; }},
    {"causal", DType::f32,
     [](int64_t n) {
       return Shape{1, n, n};
     },
     [](int64_t, const auto& at) { return at[2] > at[1] ? -kInfinity : 0.0; }},
    {"all but the first", DType::f32,
     [](int64_t n) {
       return Shape{n, 1};
     },
     [](int64_t, const auto& at) { return at[0] == 0 ? 0.0 : 1.0; }},
    {"the last one", DType::i64, [](int64_t n) { return Shape{n}; },
     [](int64_t n, const auto& at) { return at[0] == n - 1 ? 9.0 : 2.0; }},
    {"a number", DType::f32, [](int64_t) { return Shape{}; },
     [](int64_t n, const auto&) { return 3 / std::sqrt(whole(n)); }},
    {"another number", DType::f64, [](int64_t) { return Shape{}; },
     [](int64_t n, const auto&) { return 1 - 1 / whole(n); }},
    {"a square", DType::i64, [](int64_t) { return Shape{}; }, [](int64_t n, const auto&) { return whole(n * n); }},
};

TEST(BatchArrays, FollowTheSizeOfTheBatch) {
  for (const Case& c : kKnown) {
    SCOPED_TRACE(c.name);
    const auto rule = rule_of(c);
    ASSERT_TRUE(rule);
    for (const int64_t n : {1, 2, 7, 1500}) {
      Graph g;
      g.outputs = {rule->add_to(g, n)};
      const Array expected = of(c, n), got = freight::test::run_planned("cpu", g, {})[0];
      ASSERT_EQ(got.dtype(), expected.dtype()) << n;
      ASSERT_EQ(got.shape(), expected.shape()) << n;
      const auto mine = got.to_vector<double>(), theirs = expected.to_vector<double>();
      for (size_t i = 0; i < mine.size(); ++i) {
        if (mine[i] == theirs[i]) continue;  // infinite, too
        ASSERT_NEAR(mine[i], theirs[i], 3e-7 * std::abs(theirs[i]) + 1e-7) << n << ", " << i;
      }
    }
  }
}

TEST(BatchArrays, AreRepeatedWhereOnlyTheirNumberFollows) {
  for (const Case& c : kKnown) {
    const auto rule = rule_of(c);
    ASSERT_TRUE(rule) << c.name;
    const bool repeats = c.name == std::string("a row for each") || c.name == std::string("tiled in one axis") ||
                         c.name == std::string("repeated in one axis");
    EXPECT_EQ(rule->repeated().defined(), repeats) << c.name;
  }
  EXPECT_EQ(rule_of(kKnown[4])->repeated().shape(), (Shape{1, 3}));
}

const Case kUnknown[] = {
    {"half the size", DType::i64, [](int64_t) { return Shape{}; }, [](int64_t n, const auto&) { return whole(n / 2); }},
    {"a threshold", DType::f32, [](int64_t) { return Shape{}; },
     [](int64_t n, const auto&) { return n > 1010 ? 1.0 : 0.0; }},
    {"scattered", DType::i64, [](int64_t n) { return Shape{n}; },
     [](int64_t n, const auto& at) { return whole(at[0] * 7919 % n); }},
    {"squared sizes", DType::f32, [](int64_t n) { return Shape{n / 8 * (n / 8)}; },
     [](int64_t, const auto& at) { return whole(at[0]); }},
    {"not a number", DType::f32, [](int64_t n) { return Shape{n}; },
     [](int64_t, const auto& at) { return at[0] == 3 ? std::nan("") : 1.0; }},
};

TEST(BatchArrays, OfNoRuleAreUnknown) {
  for (const Case& c : kUnknown) EXPECT_FALSE(rule_of(c)) << c.name;
}

}  // namespace
}  // namespace freight::nn
