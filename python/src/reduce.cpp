// Reductions over axes and functions along one axis; see reduce.h.
#include "reduce.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "freight/backend/cpu/kernels/sums.h"
#include "loops.h"

namespace freight::python {

namespace {

template <class T>
using Computed = std::conditional_t<kIsHalf<T>, float, T>;

template <class T>
Computed<T> load(const char* at) {
  return static_cast<Computed<T>>(*reinterpret_cast<const T*>(at));
}

// The type that sums and products of T are held in.
template <class T>
using Accumulator = std::conditional_t<
    kIsComplex<T>, std::complex<double>,
    std::conditional_t<std::is_floating_point_v<T> || kIsHalf<T>, double,
                       std::conditional_t<std::is_unsigned_v<T> || std::is_same_v<T, bool>, uint64_t, int64_t>>>;
// More digits than A has: for rows, and for the division of a sum.
template <class A>
using More = std::conditional_t<kIsComplex<A>, std::complex<long double>,
                                std::conditional_t<std::is_same_v<A, double>, long double, A>>;

template <bool kAdds>
struct Accumulation {
  static constexpr int kStart = kAdds ? 0 : 1;
  template <class A>
  static A join(A a, A b) {
    return kAdds ? a + b : a * b;
  }
};
using Sum = Accumulation<true>;
using Product = Accumulation<false>;
// The first element is in the accumulator from the beginning.
template <bool kLargest>
struct Extremum {
  template <class A>
  static A join(A a, A b) {
    return (kLargest ? a > b : a < b) || a != a ? a : b;
  }
};

// n elements joined in pairs, so that errors grow with the logarithm of n.
template <class Op, class A, class T>
A joined(const char* x, int64_t n, int64_t step) {
  if (n <= 64) {
    A a[4] = {static_cast<A>(load<T>(x)), A(Op::kStart), A(Op::kStart), A(Op::kStart)};
    int64_t i = 1;
    for (; i < n && i < 4; ++i) a[i] = static_cast<A>(load<T>(x + i * step));
    for (; i + 3 < n; i += 4) {
      for (int k = 0; k < 4; ++k) a[k] = Op::join(a[k], static_cast<A>(load<T>(x + (i + k) * step)));
    }
    for (; i < n; ++i) a[0] = Op::join(a[0], static_cast<A>(load<T>(x + i * step)));
    return Op::join(Op::join(a[0], a[1]), Op::join(a[2], a[3]));
  }
  const int64_t half = n / 8 * 4;
  return Op::join(joined<Op, A, T>(x, half, step), joined<Op, A, T>(x + half * step, n - half, step));
}

// acc (of A, stride 0 over reduced axes) joined with x.
template <class Op, class A, class T>
void accumulate(int64_t n, char** at, const int64_t* steps) {
  char *acc = at[0], *x = at[1];
  if (steps[0] == 0) {
    A& a = *reinterpret_cast<A*>(acc);
    if constexpr (requires { Op::kStart; }) {
      if (n > 0) a = Op::join(a, joined<Op, A, T>(x, n, steps[1]));
    } else {
      A value = a;
      for (int64_t i = 0; i < n; ++i, x += steps[1]) value = Op::join(value, static_cast<A>(load<T>(x)));
      a = value;
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i, acc += steps[0], x += steps[1]) {
    A& a = *reinterpret_cast<A*>(acc);
    a = Op::join(a, static_cast<A>(load<T>(x)));
  }
}

// An accumulator and what it rounded away, which is nothing where it is not finite.
More<double> whole(double a, double low) { return std::isfinite(low) ? static_cast<long double>(a) + low : a; }
More<std::complex<double>> whole(std::complex<double> a, std::complex<double> low) {
  return {whole(a.real(), low.real()), whole(a.imag(), low.imag())};
}

// Joins elements of A's own type: acc, and to_low bytes behind it what acc rounds away, so that the result is rounded
// once. No sum of NumPy's is below that error by luck. Products are rounded once along rows only.
template <class Op, class A>
void accumulate_exactly(int64_t n, char** at, const int64_t* steps, int64_t to_low) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(A)), kParts = kSize / static_cast<int64_t>(sizeof(double));
  const auto part = [](char* p) { return reinterpret_cast<double*>(p); };
  char *acc = at[0], *x = at[1];
  if (steps[0] == 0) {
    A &a = *reinterpret_cast<A*>(acc), &low = *reinterpret_cast<A*>(acc + to_low);
    const More<A> both = Op::join(whole(a, low), joined<Op, More<A>, A>(x, n, steps[1]));
    a = static_cast<A>(both);
    low = static_cast<A>(both - More<A>(a));
  } else if (std::is_same_v<Op, Product>) {
    accumulate<Op, A, A>(n, at, steps);
  } else if (steps[0] == kSize && steps[1] == kSize) {
    cpu::add_exactly(part(acc), part(acc + to_low), part(x), n * kParts);
  } else {
    for (int64_t i = 0; i < n; ++i, acc += steps[0], x += steps[1]) {
      cpu::add_exactly(part(acc), part(acc + to_low), part(x), kParts);
    }
  }
}

template <bool kAny, class T>
void test(int64_t n, char** at, const int64_t* steps) {
  char *acc = at[0], *x = at[1];
  for (int64_t i = 0; i < n; ++i, acc += steps[0], x += steps[1]) {
    const bool holds = load<T>(x) != Computed<T>(0);
    bool& a = *reinterpret_cast<bool*>(acc);
    a = kAny ? a || holds : a && holds;
  }
}

template <class A>
void fill(const View& v, A value) {
  A* p = reinterpret_cast<A*>(v.data);
  std::fill(p, p + v.numel(), value);
}

// Broadcast against x without repeating: strides of reduced axes are 0.
template <class Inner>
void run_reduction(const View& acc, const View& x, Inner&& loop) {
  const View wide = broadcast(acc, x.shape);
  const Loop<2> l(x.shape, {&wide, &x});
  // Rows of the outermost axis are independent where it is not reduced.
  if (l.rank > 0 && l.stride[0][0] != 0) {
    l.run_parallel(loop);
  } else if (constexpr int64_t kPiece = 1024; l.rank > 1 && l.stride[0][l.rank - 1] != 0) {
    l.run_pieces(loop, kPiece);  // accumulators that fit in the first cache
  } else {
    l.run(loop);
  }
}

// The result is divided by `divisor`.
template <class Op, class T>
View accumulated(const View& x, const Shape& kept, DType result, double divisor) {
  using A = Accumulator<T>;
  constexpr bool kExact = std::is_same_v<A, T> && !std::is_same_v<A, More<A>>;
  View acc(DTypeOf<A>::value, kept), low(acc.dtype, kExact ? kept : Shape{0});
  fill(acc, A(Op::kStart));
  fill(low, A(0));
  if constexpr (kExact) {
    run_reduction(acc, x, [to_low = low.data - acc.data](int64_t n, char** at, const int64_t* steps) {
      accumulate_exactly<Op, A>(n, at, steps, to_low);
    });
  } else {
    run_reduction(acc, x, accumulate<Op, A, T>);
  }
  for (int64_t i = 0; i < kept.numel() && (kExact || divisor != 1); ++i) {
    A& a = reinterpret_cast<A*>(acc.data)[i];
    if constexpr (kExact) {
      const More<A> total = whole(a, reinterpret_cast<A*>(low.data)[i]);
      a = static_cast<A>(divisor == 1 ? total : total / static_cast<long double>(divisor));
    } else if constexpr (!std::is_integral_v<A>) {
      a /= divisor;
    }
  }
  return acc.dtype == result ? acc : cast(acc, result);
}

View extreme(const View& x, const Shape& kept, bool largest) {
  // Begins with the first element along the reduced axes.
  View first = x;
  for (int a = 0; a < x.rank(); ++a) {
    if (kept[a] == x.shape[a]) continue;
    if (x.shape[a] == 0)
      raise<ValueError>("zero-size array to reduction operation ", largest ? "max" : "min", " which has no identity");
    first = sliced(first, a, 0, 1, 1);
  }
  DType held = x.dtype;
  dispatch(x.dtype, [&]<class T>(T) { held = DTypeOf<Computed<T>>::value; });
  View acc = cast(first, held);
  dispatch(x.dtype, [&]<class T>(T) {
    if constexpr (!kIsComplex<T>) {
      run_reduction(acc, x,
                    largest ? accumulate<Extremum<true>, Computed<T>, T> : accumulate<Extremum<false>, Computed<T>, T>);
    } else {
      raise<TypeError>(largest ? "max" : "min", " is not defined for ", python_name(x.dtype));
    }
  });
  return held == x.dtype ? acc : cast(acc, x.dtype);
}

}  // namespace

View drop_axes(const View& x, const std::vector<int>& axes) {
  View y = x;
  std::vector<int> descending(axes);
  std::sort(descending.rbegin(), descending.rend());
  for (const int a : descending) {
    y.shape.erase(a);
    y.strides.erase(a);
  }
  return y;
}

View reduce(Reduction how, const View& x, const std::vector<int>& axes, DType result) {
  Shape kept = x.shape;
  for (const int a : axes) kept[a] = 1;
  const double divisor =
      how == Reduction::mean && !kept.is_empty() ? static_cast<double>(x.numel() / kept.numel()) : 1.0;
  View y;
  switch (how) {
    case Reduction::sum:
    case Reduction::mean:
    case Reduction::prod:
      dispatch(x.dtype, [&]<class T>(T) {
        y = how == Reduction::prod ? accumulated<Product, T>(x, kept, result, divisor)
                                   : accumulated<Sum, T>(x, kept, result, divisor);
      });
      return y;
    case Reduction::max: return extreme(x, kept, true);
    case Reduction::min: return extreme(x, kept, false);
    case Reduction::any:
    case Reduction::all:
      y = View(DType::boolean, kept);
      fill(y, how == Reduction::all);
      dispatch(x.dtype,
               [&]<class T>(T) { run_reduction(y, x, how == Reduction::any ? test<true, T> : test<false, T>); });
      return y;
  }
  return y;
}

View squared_deviations(const View& x, const std::vector<int>& axes) {
  const View mean = reduce(Reduction::mean, x, axes, DType::f64), y(DType::f64, mean.shape);
  fill(y, 0.0);
  const View sums = broadcast(y, x.shape), means = broadcast(mean, x.shape);
  const Loop<3> loop(x.shape, {&sums, &means, &x});
  const auto add = [&](int64_t n, char** at, const int64_t* steps) { cpu::add_squares(x.dtype, n, at, steps); };
  loop.stride[0][0] != 0 ? loop.run_parallel(add) : loop.run(add);
  return y;
}

View running(Running how, const View& x, int axis, DType result, bool include_initial) {
  Shape shape = x.shape;
  const int64_t n = shape[axis];
  if (include_initial) shape[axis] = n + 1;
  DType held = result;
  dispatch(x.dtype, [&]<class T>(T) { held = DTypeOf<Accumulator<T>>::value; });
  View y(held, shape);
  dispatch(x.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    for_each_lane<2>({&y, &x}, axis, [&](char** at, const int64_t* step) {
      A a = how == Running::sum ? A(0) : A(1);
      char* to = at[0];
      if (include_initial) {
        *reinterpret_cast<A*>(to) = a;
        to += step[0];
      }
      const char* from = at[1];
      for (int64_t i = 0; i < n; ++i, to += step[0], from += step[1]) {
        const A v = static_cast<A>(load<T>(from));
        a = how == Running::sum ? a + v : a * v;
        *reinterpret_cast<A*>(to) = a;
      }
    });
  });
  return held == result ? y : cast(y, result);
}

View position_of(Extreme which, const View& x, int axis) {
  if (x.shape[axis] == 0) raise<ValueError>("attempt to get the position of an extreme of an empty sequence");
  Shape shape = x.shape;
  shape[axis] = 1;
  View y(DType::i64, shape);
  dispatch(x.dtype, [&]<class T>(T) {
    if constexpr (kIsComplex<T>) {
      raise<TypeError>("argmax and argmin are not defined for ", python_name(x.dtype));
    } else {
      for_each_lane<2>({&y, &x}, axis, [&](char** at, const int64_t* step) {
        const char* p = at[1];
        auto best = load<T>(p);
        int64_t found = 0;
        for (int64_t i = 1; i < x.shape[axis] && best == best; ++i) {
          p += step[1];
          const auto v = load<T>(p);
          if (v != v || (which == Extreme::largest ? v > best : v < best)) {
            best = v;
            found = i;
          }
        }
        *reinterpret_cast<int64_t*>(at[0]) = found;
      });
    }
  });
  return y;
}

View argsort(const View& x, int axis, cpu::SortOrder by) {
  View y(DType::i64, x.shape);
  for_each_lane<2>({&y, &x}, axis, [&](char** at, const int64_t* step) {
    const cpu::SortLane lane{x.dtype, at[1], step[1], x.shape[axis], by};
    if (step[0] == sizeof(int64_t)) return cpu::sorted_order(lane, reinterpret_cast<int64_t*>(at[0]));
    std::vector<int64_t> order(static_cast<size_t>(lane.n));
    cpu::sorted_order(lane, order.data());
    for (size_t i = 0; i < order.size(); ++i)
      *reinterpret_cast<int64_t*>(at[0] + static_cast<int64_t>(i) * step[0]) = order[i];
  });
  return y;
}

View sort(const View& x, int axis, cpu::SortOrder by) {
  View y(x.dtype, x.shape);
  for_each_lane<2>({&y, &x}, axis, [&](char** at, const int64_t* step) {
    cpu::sorted_elements({x.dtype, at[1], step[1], x.shape[axis], by}, at[0], step[0]);
  });
  return y;
}

View searchsorted(const View& sorted, const View& values, bool right, const View& order) {
  View y(DType::i64, values.shape);
  const int64_t n = sorted.numel();
  const View list = contiguous(sorted);
  const View indices = order.block ? contiguous(order) : order;
  if (indices.block) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = reinterpret_cast<const int64_t*>(indices.data)[i];
      if (at < 0 || at >= n) raise<IndexError>("searchsorted: index ", at, " of sorter is out of bounds for size ", n);
    }
  }
  const auto* numbers = indices.block ? reinterpret_cast<const int64_t*>(indices.data) : nullptr;
  Loop<2>(y.shape, {&y, &values}).run_parallel([&](int64_t count, char** at, const int64_t* steps) {
    cpu::places_among({sorted.dtype, list.data, n, numbers, right}, count, at[0], at[1], steps);
  });
  return y;
}

std::vector<View> nonzero(const View& x) {
  const View mask = contiguous(x.dtype == DType::boolean ? x : cast(x, DType::boolean));
  const auto* holds = reinterpret_cast<const uint8_t*>(mask.data);
  const int64_t n = mask.numel();
  const View places(DType::i64, Shape{std::count(holds, holds + n, 1) + 1});  // and one that may be written to
  auto* p = reinterpret_cast<int64_t*>(places.data);
  for (int64_t i = 0, found = 0; i < n; ++i) {  // without a branch, which a random mask makes slow
    p[found] = i;
    found += holds[i];
  }
  const View found = sliced(places, 0, 0, 1, places.shape[0] - 1);
  if (x.rank() == 1) return {found};
  std::vector<View> out;
  const Strides strides = contiguous_strides(x.shape);
  for (int a = 0; a < x.rank(); ++a) {
    out.emplace_back(DType::i64, found.shape);
    auto* to = reinterpret_cast<int64_t*>(out.back().data);
    for (int64_t i = 0; i < found.shape[0]; ++i) to[i] = p[i] / strides[a] % x.shape[a];
  }
  return out;
}

Unique unique(const View& x) {
  const View flat = reshaped(contiguous(x), Shape{x.numel()});
  const View order = argsort(flat, 0, cpu::SortOrder::ascending);
  const auto* o = reinterpret_cast<const int64_t*>(order.data);
  const int64_t n = flat.numel();
  std::vector<int64_t> first, counts;
  Unique u{{}, {}, View(DType::i64, x.shape), {}};
  auto* inverse = reinterpret_cast<int64_t*>(u.inverse.data);
  dispatch(x.dtype, [&]<class T>(T) {
    const auto* v = reinterpret_cast<const T*>(flat.data);
    for (int64_t i = 0; i < n; ++i) {
      const auto now = static_cast<Computed<T>>(v[o[i]]);
      if (i == 0 || now != static_cast<Computed<T>>(v[o[i - 1]])) {
        first.push_back(o[i]);
        counts.push_back(0);
      }
      ++counts.back();
      inverse[o[i]] = static_cast<int64_t>(first.size()) - 1;
    }
    u.values = View(x.dtype, Shape{static_cast<int64_t>(first.size())});
    for (size_t i = 0; i < first.size(); ++i) reinterpret_cast<T*>(u.values.data)[i] = v[first[i]];
  });
  u.indices = View(DType::i64, u.values.shape);
  u.counts = View(DType::i64, u.values.shape);
  std::copy(first.begin(), first.end(), reinterpret_cast<int64_t*>(u.indices.data));
  std::copy(counts.begin(), counts.end(), reinterpret_cast<int64_t*>(u.counts.data));
  return u;
}

}  // namespace freight::python
