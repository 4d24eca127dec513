// See batch_array_internal.h. A rule is found in the elements alone, by fitting it to two arrays, or to all three, and
// comparing every element of the three with it: nothing depends on the functions that have made them.
#include "freight/nn/batch_array_internal.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace freight::nn {

namespace {

using Function = BatchArray::Function;
using Coefficients = BatchArray::Coefficients;
using Numbers = std::vector<double>;

constexpr Function kFunctions[] = {Function::size,  Function::inverse,      Function::inverse_less,
                                   Function::root,  Function::inverse_root, Function::inverse_more,
                                   Function::square};

double value_of(Function f, int64_t batch) {
  const auto n = static_cast<double>(batch);
  switch (f) {
    case Function::size: return n;
    case Function::square: return n * n;
    case Function::root: return std::sqrt(n);
    case Function::inverse: return 1 / n;
    case Function::inverse_less: return 1 / std::max(n - 1, 1.0);
    case Function::inverse_more: return 1 / (n + 1);
    case Function::inverse_root: return 1 / std::sqrt(n);
    default: return 0;
  }
}

// The distance between 1 and the next number of the type; 0 of integers.
double spacing(DType t) {
  if (!is_floating(t)) return 0;
  return t == DType::f64 ? 0x1p-52 : t == DType::f32 ? 0x1p-23 : t == DType::f16 ? 0x1p-10 : 0x1p-7;
}

bool near(double a, double b, double tolerance) { return a == b || std::abs(a - b) <= tolerance; }

// Numbers of one array that are compared with a rule.
struct Samples {
  std::array<Numbers, 3> of_batch;
  std::array<double, 3> tolerance{};

  bool are(const Coefficients& c) const {
    for (size_t k = 0; k < 3; ++k) {
      const double f = value_of(c.function, kBatches[k]);
      for (size_t i = 0; i < c.fixed.size(); ++i) {
        if (!near(of_batch[k][i], c.fixed[i] + (c.factor.empty() ? 0 : c.factor[i] * f), tolerance[k])) return false;
      }
    }
    return true;
  }
};

// The simplest function that gives them. A sum of a constant and a function has factors that are integers, and
// constants that are multiples of 1/2: the sizes of three batches are too close to each other to tell others apart.
std::optional<Coefficients> fit(const Samples& s) {
  const Numbers &first = s.of_batch[0], &second = s.of_batch[1];
  const size_t count = first.size();
  if (Coefficients c{first, {}, Function::none}; s.are(c)) return c;
  for (const Function f : kFunctions) {
    const double at = value_of(f, kBatches[0]), step = value_of(f, kBatches[1]) - at;
    Coefficients c{Numbers(count, 0), Numbers(count), f};
    for (size_t i = 0; i < count; ++i) {
      c.factor[i] = first[i] / at;
      if (near(c.factor[i], std::round(c.factor[i]), s.tolerance[0] / at)) c.factor[i] = std::round(c.factor[i]);
    }
    if (s.are(c)) return c;
    for (size_t i = 0; i < count; ++i) {
      c.factor[i] = std::round((second[i] - first[i]) / step);
      c.fixed[i] = std::round((first[i] - c.factor[i] * at) * 2) / 2;
    }
    if (s.are(c)) return c;
  }
  return {};
}

}  // namespace

std::optional<BatchSize> BatchSize::of(const std::array<int64_t, 3>& seen) {
  const int64_t step = kBatches[1] - kBatches[0];
  if ((seen[1] - seen[0]) % step != 0) return {};
  BatchSize s;
  s.slope = (seen[1] - seen[0]) / step;
  s.more = seen[0] - s.slope * kBatches[0];
  return s.at(kBatches[2]) == seen[2] ? std::optional(s) : std::nullopt;
}

// ---- The rule of three arrays ----

class BatchArrayRules {
 public:
  static std::optional<BatchArray> of(const SeenArrays& seen) {
    BatchArrayRules rules;
    BatchArray& a = rules.a_;
    a.dtype_ = seen[0].dtype();
    const int rank = seen[0].shape().rank();
    for (size_t k = 0; k < 3; ++k) {
      if (seen[k].dtype() != a.dtype_ || seen[k].shape().rank() != rank || is_complex(a.dtype_)) return {};
      if (seen[k].numel() == 0) return {};
    }
    for (int axis = 0; axis < rank; ++axis) {
      const auto size = BatchSize::of({seen[0].shape()[axis], seen[1].shape()[axis], seen[2].shape()[axis]});
      if (!size || size->slope < 0) return {};
      a.shape_.push_back(*size);
    }
    for (size_t k = 0; k < 3; ++k) {
      rules.elements_[k] = seen[k].to_vector<double>();
      double most = 0;
      for (const double v : rules.elements_[k]) {
        if (std::isfinite(v)) most = std::max(most, std::abs(v));
      }
      if (!is_floating(a.dtype_) && most > 0x1p53) return {};  // up to it doubles have all integers
      rules.tolerance_[k] = 4 * spacing(a.dtype_) * most;
    }
    return rules.find(0) ? std::optional(a) : std::nullopt;
  }

 private:
  // An axis of 3 N elements is N times 3 of them, or 3 times N: both are tried, for this axis and those behind it.
  bool find(size_t axis) {
    if (axis == a_.shape_.size()) return try_view();
    const BatchSize size = a_.shape_[axis];
    std::vector<std::vector<BatchSize>> ways{{size}};
    if (size.slope > 1 && size.more == 0) ways = {{{1, 0}, {0, size.slope}}, {{0, size.slope}, {1, 0}}};
    for (const auto& way : ways) {
      a_.view_.insert(a_.view_.end(), way.begin(), way.end());
      if (static_cast<int>(a_.view_.size()) <= Shape::kMaxRank && find(axis + 1)) return true;
      a_.view_.resize(a_.view_.size() - way.size());
    }
    return false;
  }

  bool try_view() {
    a_.runs_.clear();
    a_.fixed_ = Shape();
    for (size_t i = 0; i < a_.view_.size(); ++i) {
      const bool runs = a_.view_[i].slope > 0;
      if (runs) a_.runs_.push_back(i);
      a_.fixed_.push_back(runs ? 1 : a_.view_[i].more);
    }
    return is_line() || is_pieces();
  }

  int64_t extent(size_t axis, size_t k) const { return a_.view_[axis].at(kBatches[k]); }

  // Calls visit(element, its place among the coefficients, its places along the runs) until that returns false.
  template <class Visit>
  bool every_element(size_t k, Visit visit) const {
    std::vector<int64_t> at(a_.view_.size()), places(a_.runs_.size());
    for (const double element : elements_[k]) {
      size_t fixed = 0;
      for (size_t i = 0, run = 0; i < at.size(); ++i) {
        if (a_.view_[i].slope > 0) {
          places[run++] = at[i];
        } else {
          fixed = fixed * static_cast<size_t>(a_.view_[i].more) + static_cast<size_t>(at[i]);
        }
      }
      if (!visit(element, fixed, places)) return false;
      for (size_t i = at.size(); i-- > 0 && ++at[i] == extent(i, k);) at[i] = 0;
    }
    return true;
  }

  bool is_line() {
    const size_t count = static_cast<size_t>(a_.fixed_.numel()), runs = a_.runs_.size();
    Samples base;
    std::vector<Samples> steps(runs);
    for (size_t k = 0; k < 3; ++k) {
      base.of_batch[k].resize(count);
      base.tolerance[k] = tolerance_[k];
      for (size_t r = 0; r < runs; ++r) {
        steps[r].of_batch[k].resize(count);
        steps[r].tolerance[k] = tolerance_[k] / static_cast<double>(extent(a_.runs_[r], k) - 1);
      }
      // The first element of each run, and the last one, whose distance is known best.
      every_element(k, [&](double v, size_t fixed, const std::vector<int64_t>& places) {
        const auto moved = std::count_if(places.begin(), places.end(), [](int64_t p) { return p > 0; });
        if (moved == 0) base.of_batch[k][fixed] = v;
        for (size_t r = 0; moved == 1 && r < runs; ++r) {
          const int64_t last = extent(a_.runs_[r], k) - 1;
          const double first = base.of_batch[k][fixed];
          if (places[r] == last) steps[r].of_batch[k][fixed] = v == first ? 0 : (v - first) / static_cast<double>(last);
        }
        return true;
      });
      const bool all = every_element(k, [&](double v, size_t fixed, const std::vector<int64_t>& places) {
        double expected = base.of_batch[k][fixed];
        for (size_t r = 0; r < runs; ++r) {
          const double step = steps[r].of_batch[k][fixed];
          if (step != 0) expected += step * static_cast<double>(places[r]);
        }
        return near(v, expected, tolerance_[k]);
      });
      if (!all) return false;
    }
    const auto start = fit(base);
    if (!start) return false;
    a_.line_ = {*start, {}};
    for (const Samples& s : steps) {
      const auto step = fit(s);
      if (!step) return false;
      a_.line_.steps.push_back(*step);
    }
    const bool moves = std::any_of(a_.line_.steps.begin(), a_.line_.steps.end(), [](const Coefficients& c) {
      return c.function != Function::none ||
             std::any_of(c.fixed.begin(), c.fixed.end(), [](double v) { return v != 0; });
    });
    if (start->function == Function::none && !moves)
      a_.repeated_ = Array::of<double>(start->fixed, a_.fixed_).cast(a_.dtype_);
    return true;
  }

  bool is_pieces() {
    for (size_t r = 0; r < a_.runs_.size(); ++r) {
      for (const bool from_end : {false, true}) {
        if (divides({.run = r, .behind = {}, .from_end = from_end, .ends = {}, .values = {}})) return true;
      }
      for (size_t other = 0; other < a_.runs_.size(); ++other) {
        if (other != r && divides({.run = r, .behind = other, .from_end = false, .ends = {}, .values = {}}))
          return true;
      }
    }
    return false;
  }

  // True where all elements with one z are equal, and as z grows they change a few times, at the same z in all arrays.
  bool divides(BatchArray::Pieces p) {
    constexpr size_t kMost = 3;
    const auto count = static_cast<size_t>(a_.fixed_.numel());
    for (size_t k = 0; k < 3; ++k) {
      const int64_t size = extent(a_.runs_[p.run], k);
      const int64_t least = p.behind ? 1 - extent(a_.runs_[*p.behind], k) : p.from_end ? -size : 0;
      const auto range = static_cast<size_t>(size - least - (p.from_end ? size : 0));
      std::vector<Numbers> table(range, Numbers(count));
      std::vector<bool> known(range * count);
      const bool one = every_element(k, [&](double v, size_t fixed, const std::vector<int64_t>& places) {
        const int64_t z = places[p.run] - (p.behind ? places[*p.behind] : 0);
        const auto at = static_cast<size_t>(p.from_end ? z : z - least);
        if (known[at * count + fixed] && table[at][fixed] != v) return false;
        known[at * count + fixed] = true;
        table[at][fixed] = v;
        return !std::isnan(v);
      });
      if (!one) return false;
      std::vector<int64_t> ends;
      std::vector<Numbers> values{table[0]};
      for (size_t at = 1; at < range && values.size() <= kMost; ++at) {
        if (table[at] == values.back()) continue;
        ends.push_back(least + static_cast<int64_t>(at));
        values.push_back(table[at]);
      }
      if (values.size() > kMost || (k > 0 && (ends != p.ends || values != p.values))) return false;
      p.ends = std::move(ends);
      p.values = std::move(values);
    }
    a_.pieces_ = std::move(p);
    return true;
  }

  BatchArray a_;
  std::array<Numbers, 3> elements_;
  std::array<double, 3> tolerance_{};
};

std::optional<BatchArray> BatchArray::of(const SeenArrays& seen) { return BatchArrayRules::of(seen); }

// ---- Nodes ----

// Nodes of one array, which are computed in f64, or in i64 where they are integers.
class BatchNodes {
 public:
  BatchNodes(Graph& graph, int64_t batch, DType dtype, const Shape& view)
      : graph_(graph), batch_(batch), wide_(is_floating(dtype) ? DType::f64 : DType::i64), view_(view) {}

  Value one(Op op, Attrs attributes, const std::vector<Value>& inputs) {
    return graph_.add(op, std::move(attributes), inputs)[0];
  }
  Value spread(Value v) {
    if (graph_.type(v).shape.rank() != view_.rank())
      v = one(Op::reshape, ShapeAttrs{Shape::filled(view_.rank(), 1)}, {v});
    return graph_.type(v).shape == view_ ? v : one(Op::broadcast, ShapeAttrs{view_}, {v});
  }
  Value number(double v) { return one(Op::constant, ConstantAttrs{{wide_, {}}, v, {}}, {}); }
  Value numbers(const Numbers& values, const Shape& shape) {
    const bool uniform = std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; });
    if (uniform) return spread(number(values[0]));
    return spread(
        one(Op::constant, ConstantAttrs{{wide_, shape}, 0, Array::of<double>(values, shape).cast(wide_)}, {}));
  }
  Value function(Function f) {
    const Value n = size();
    const auto inverse = [&](Value v) { return one(Op::div, NoAttrs{}, {number(1), v}); };
    switch (f) {
      case Function::square: return one(Op::mul, NoAttrs{}, {n, n});
      case Function::root: return one(Op::sqrt, NoAttrs{}, {n});
      case Function::inverse: return inverse(n);
      case Function::inverse_less: return inverse(one(Op::maximum, NoAttrs{}, {added(n, number(-1)), number(1)}));
      case Function::inverse_more: return inverse(added(n, number(1)));
      case Function::inverse_root: return one(Op::rsqrt, NoAttrs{}, {n});
      default: return n;
    }
  }
  // Invalid where all are 0.
  Value coefficients(const Coefficients& c, const Shape& shape) {
    if (c.function == Function::size && c.fixed.size() == 1 && is_integer(c.factor[0]) && is_integer(c.fixed[0]))
      return spread(number(c.factor[0] * static_cast<double>(batch_) + c.fixed[0]));
    const auto is_zero = [](const Numbers& all) {
      return std::all_of(all.begin(), all.end(), [](double v) { return v == 0; });
    };
    Value sum = is_zero(c.fixed) ? Value{} : numbers(c.fixed, shape);
    if (c.function == Function::none) return sum;
    Value varying = spread(function(c.function));
    if (std::any_of(c.factor.begin(), c.factor.end(), [](double v) { return v != 1; }))
      varying = one(Op::mul, NoAttrs{}, {varying, numbers(c.factor, shape)});
    return added(sum, varying);
  }
  Value added(Value a, Value b) {
    if (!a.valid() || !b.valid()) return a.valid() ? a : b;
    return one(Op::add, NoAttrs{}, {a, b});
  }
  // N, which the passes and files of other formats do not take for a constant: what is computed from it would not be
  // one of the formulas that these know.
  Value size() {
    const Value counted = one(Op::iota, IotaAttrs{{batch_ + 1}, 0, DType::i64}, {});
    const Value last = one(Op::slice, SliceAttrs{{batch_}, {batch_ + 1}, {1}}, {counted});
    const Value n = one(Op::reshape, ShapeAttrs{}, {last});
    return wide_ == DType::i64 ? n : one(Op::cast, CastAttrs{wide_}, {n});
  }
  static bool is_integer(double v) { return v == std::round(v); }
  // 0, 1, 2, ... along an axis.
  Value places(size_t axis, DType dtype) {
    const auto i = one(Op::iota, IotaAttrs{view_, static_cast<int64_t>(axis), DType::i64}, {});
    return dtype == DType::i64 ? i : one(Op::cast, CastAttrs{dtype}, {i});
  }
  // Integers, as any z of a piece.
  Value integer(int64_t v) {
    return spread(one(Op::constant, ConstantAttrs{{DType::i64, {}}, static_cast<double>(v), {}}, {}));
  }
  DType wide() const { return wide_; }
  const Shape& view() const { return view_; }

 private:
  Graph& graph_;
  int64_t batch_;
  DType wide_;
  Shape view_;
};

Value BatchArray::line(BatchNodes& nodes) const {
  Value sum = nodes.coefficients(line_.base, fixed_);
  for (size_t r = 0; r < runs_.size(); ++r) {
    const Value step = nodes.coefficients(line_.steps[r], fixed_);
    if (!step.valid()) continue;
    sum = nodes.added(sum, nodes.one(Op::mul, NoAttrs{}, {nodes.places(runs_[r], nodes.wide()), step}));
  }
  return sum.valid() ? sum : nodes.spread(nodes.number(0));
}

Value BatchArray::pieces(BatchNodes& nodes) const {
  const Pieces& p = *pieces_;
  Value z = nodes.places(runs_[p.run], DType::i64);
  if (p.behind) z = nodes.one(Op::sub, NoAttrs{}, {z, nodes.places(runs_[*p.behind], DType::i64)});
  const int64_t origin = p.from_end ? nodes.view()[static_cast<int>(runs_[p.run])] : 0;
  Value y = nodes.numbers(p.values.back(), fixed_);
  for (size_t i = p.ends.size(); i-- > 0;) {
    const Value before = nodes.one(Op::lt, NoAttrs{}, {z, nodes.integer(origin + p.ends[i])});
    y = nodes.one(Op::where, NoAttrs{}, {before, nodes.numbers(p.values[i], fixed_), y});
  }
  return y;
}

Value BatchArray::add_to(Graph& graph, int64_t batch, Value repeated) const {
  Shape view, shape;
  for (const BatchSize& s : view_) view.push_back(s.at(batch));
  for (const BatchSize& s : shape_) shape.push_back(s.at(batch));
  BatchNodes nodes(graph, batch, dtype_, view);
  Value y = repeated.valid() ? nodes.spread(repeated) : pieces_ ? pieces(nodes) : line(nodes);
  if (graph.type(y).dtype != dtype_) y = nodes.one(Op::cast, CastAttrs{dtype_}, {y});
  return shape == view ? y : nodes.one(Op::reshape, ShapeAttrs{shape}, {y});
}

}  // namespace freight::nn
