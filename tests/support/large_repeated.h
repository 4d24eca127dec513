// Ops on large operands that repeat a small block along an axis. The same graph of three and of four copies runs on the
// reference's loops; a result of many copies is theirs with the middle one repeated, or grows by as much per copy.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "freight/ir/builder.h"
#include "tests/support/arrays.h"
#include "tests/support/run.h"

namespace freight::test {

using RunGraph = std::function<std::vector<Array>(const Graph&, const std::vector<Array>&)>;

// An operand. `type` is that of one copy; axis -1: it does not repeat. Numbers grow by `step` from copy to copy.
struct Block {
  Type type;
  int axis = -1;
  Fill fill = Fill::normal;
  int64_t bound = 0;
  double step = 0;
};

// A result. Along `axis` it repeats as an operand does, with numbers that grow by `step` from copy to copy; with axis
// -1 it has the same extents for any number of copies. `power` and `log`: K copies give the numbers of three times
// (K / 3)^power, plus log times ln(K / 3). Without either, those of axis -1 grow by as much per copy.
struct Outcome {
  int axis = -1;
  double step = 0, power = 0, log = 0;
};

struct Repeated {
  int64_t copies = 3;
  std::vector<Block> in;
  // Appends the ops for operands of so many copies, and gives the results.
  std::function<std::vector<Value>(Builder&, const std::vector<Value>&, int64_t copies)> make;
  std::vector<Outcome> out;
  double tolerance = 1e-4;
};

inline Array repeat(const Array& block, const Block& b, int64_t copies) {
  if (b.axis < 0) return block;
  Shape shape = block.shape();
  int64_t outer = 1;
  for (int i = 0; i < b.axis; ++i) outer *= shape[i];
  shape[b.axis] *= copies;
  Array all(block.dtype(), shape);
  const size_t line = block.bytes() / static_cast<size_t>(outer);
  const auto elements = static_cast<int64_t>(line / size_of(block.dtype()));
  dispatch(block.dtype(), [&]<class T>(T) {
    T* to = static_cast<T*>(all.raw());
    for (int64_t o = 0; o < outer; ++o) {
      const T* from = static_cast<const T*>(block.raw()) + o * elements;
      for (int64_t c = 0; c < copies; ++c, to += elements) {
        std::memcpy(static_cast<void*>(to), from, line);
        for (int64_t i = 0; b.step != 0 && i < elements; ++i)
          to[i] = element_cast<T>(element_cast<double>(from[i]) + b.step * static_cast<double>(c));
      }
    }
  });
  return all;
}

// The graph of so many copies, and its operands.
inline std::vector<Array> run_copies(const RunGraph& run, const Repeated& r, const std::vector<Array>& blocks,
                                     int64_t copies) {
  Graph g;
  Builder b(g);
  std::vector<Array> operands;
  std::vector<Value> in;
  for (size_t i = 0; i < blocks.size(); ++i) {
    operands.push_back(repeat(blocks[i], r.in[i], copies));
    in.push_back(b.one(Op::input, LeafAttrs{cat("x", i), {operands[i].dtype(), operands[i].shape()}}, {}));
  }
  g.outputs = r.make(b, in, copies);
  return run(g, operands);
}

// Finds element i of `large` along an axis among `small` of three copies, and the number of copies before it.
struct Middle {
  int64_t small, large, period, first;

  Middle(int64_t small_extent, int64_t large_extent, int64_t copies)
      : small(small_extent), large(large_extent), period((large_extent - small_extent) / (copies - 3)) {
    EXPECT_EQ(period * (copies - 3), large - small);
    first = (small - period) / 2;
  }
  bool holds(int64_t i) const { return i >= first && i < large - (small - first - period); }
  int64_t operator()(int64_t i) const {
    if (i < first) return i;
    return holds(i) ? first + (i - first) % period : small - (large - i);
  }
};

// Compares element by element, but for lines whose bits are those of the copy before, which was compared.
inline void expect_repeated(const Array& got, const Array& three, const Outcome& o, int64_t copies, double tolerance) {
  const auto small = three.to_vector<double>();
  double largest = 0;
  for (const double v : small) largest = std::max(largest, std::fabs(v));
  const double ratio = static_cast<double>(copies) / 3, factor = std::pow(ratio, o.power),
               more = o.log == 0 ? 0 : o.log * std::log(ratio);
  const Shape& shape = got.shape();
  int64_t outer = 1;
  for (int i = 0; i < o.axis; ++i) outer *= shape[i];
  const Middle at(three.shape()[o.axis], shape[o.axis], copies);
  const int64_t inner = got.numel() / outer / at.large;
  const auto bytes = static_cast<size_t>(inner) * size_of(got.dtype());
  int64_t wrong = 0;
  dispatch(got.dtype(), [&]<class T>(T) {
    const T* line = static_cast<const T*>(got.raw());
    for (int64_t x = 0; x < outer; ++x) {
      for (int64_t i = 0; i < at.large; ++i, line += inner) {
        const bool inside = at.holds(i) && at.holds(i - at.period);
        if (inside && o.step == 0 && std::memcmp(line, line - at.period * inner, bytes) == 0) continue;
        const double* wanted = small.data() + (x * at.small + at(i)) * inner;
        const double shift = o.step * static_cast<double>((i - at(i)) / at.period);
        for (int64_t k = 0; k < inner; ++k) {
          const auto v = element_cast<double>(line[k]);
          const double want = wanted[k] * factor + more + shift;
          if (std::fabs(v - want) <= tolerance * (std::fabs(want) + largest * factor)) continue;
          if (wrong++ < 3)
            ADD_FAILURE() << "element " << k << " of line " << i << " in " << x << " is " << v << ", need " << want;
        }
      }
    }
  });
  EXPECT_EQ(wrong, 0) << "of " << got.numel() << " elements of " << to_string(shape);
}

inline void expect_grown(const Array& got, const Array& three, const Array& four, const Outcome& o, int64_t copies,
                         double tolerance) {
  const auto v = got.to_vector<double>(), a = three.to_vector<double>(), b = four.to_vector<double>();
  const double ratio = static_cast<double>(copies) / 3, more = o.log == 0 ? 0 : o.log * std::log(ratio);
  const bool per_copy = o.power == 0 && o.log == 0;
  ASSERT_EQ(v.size(), a.size());
  const auto need = [&](size_t i) {
    return per_copy ? a[i] + static_cast<double>(copies - 3) * (b[i] - a[i]) : a[i] * std::pow(ratio, o.power) + more;
  };
  double largest = 0;
  for (size_t i = 0; i < v.size(); ++i) largest = std::max(largest, std::fabs(need(i)));
  int wrong = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    if (std::fabs(v[i] - need(i)) <= tolerance * (std::fabs(need(i)) + largest)) continue;
    if (wrong++ < 3) ADD_FAILURE() << "element " << i << " is " << v[i] << ", need " << need(i);
  }
  EXPECT_EQ(wrong, 0);
}

inline void check_repeated(const RunGraph& run, const Repeated& r) {
  const RunGraph loops = [](const Graph& g, const std::vector<Array>& in) { return run_planned("ref", g, in); };
  std::vector<Array> blocks;
  for (const Block& b : r.in) blocks.push_back(random_array({b.type, b.fill, b.bound}, 7 + blocks.size()));
  const std::vector<Array> three = run_copies(loops, r, blocks, 3), four = run_copies(loops, r, blocks, 4),
                           many = run_copies(run, r, blocks, r.copies);
  ASSERT_EQ(many.size(), r.out.size());
  for (size_t i = 0; i < many.size(); ++i) {
    SCOPED_TRACE(cat("result ", i));
    const Outcome& o = r.out[i];
    if (o.axis < 0) {
      expect_grown(many[i], three[i], four[i], o, r.copies, r.tolerance);
    } else {
      expect_repeated(many[i], three[i], o, r.copies, r.tolerance);
    }
  }
}

}  // namespace freight::test
