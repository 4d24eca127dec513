// Reductions of the reference backend. The reduced axes stay with extent 1; sums accumulate in double.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "freight/backend/ref/kernels.h"

namespace freight::ref {

namespace {

// Strides into the result for positions of the input: 0 along reduced axes.
Strides result_strides(const Call& call) {
  const Shape &x = call.in[0].shape(), &y = call.out[0].shape();
  Strides s = contiguous_strides(y);
  for (int i = 0; i < x.rank(); ++i) s[i] = y[i] == 1 ? 0 : s[i];
  return s;
}

template <class C, class F>
void fold(const Call& call, C start, F f) {
  const C* x = call.in[0].as<C>();
  C* y = call.out[0].as<C>();
  for (int64_t i = 0; i < call.out[0].numel(); ++i) y[i] = start;
  const Strides strides = result_strides(call);
  for (Counter c(call.in[0].shape()); c.more(); c.next()) f(y[offset(c.at, strides)], x[c.index]);
}

void sum(const Call& call) {
  by_kind(call.out[0], [&]<class C>(C zero) { fold<C>(call, zero, [](C& y, C x) { accumulate(y, x); }); });
}

template <class C>
bool not_a_number(C v) {
  return v != v;
}

// The maximum, or with kSign = -1 the minimum; NaN wins.
template <int kSign>
void extremum(const Call& call) {
  by_kind(call.out[0], [&]<class C>(C) {
    using Limits = std::numeric_limits<C>;
    const C worst = kSign > 0 ? (Limits::has_infinity ? -Limits::infinity() : Limits::lowest())
                              : (Limits::has_infinity ? Limits::infinity() : Limits::max());
    fold<C>(call, worst, [](C& y, C x) {
      if (not_a_number(x) || (kSign > 0 ? x > y : x < y)) y = x;
    });
  });
}

// The first index of the maximum (minimum) along one axis; the first NaN wins.
template <int kSign>
void arg_extremum(const Call& call) {
  const int axis = static_cast<int>(call.get<AxisAttrs>().axis);
  const Shape& shape = call.in[0].shape();
  const Strides strides = contiguous_strides(shape);
  by_kind(call.in[0], [&]<class C>(C) {
    const C* x = call.in[0].as<C>();
    int64_t* y = call.out[0].as<int64_t>();
    for (Counter c(call.out[0].shape()); c.more(); c.next()) {
      const C* row = x + offset(c.at, strides);
      int64_t best = 0;
      for (int64_t i = 1; i < shape[axis]; ++i) {
        const C v = row[i * strides[axis]], champion = row[best * strides[axis]];
        if (not_a_number(champion)) break;
        if (not_a_number(v) || (kSign > 0 ? v > champion : v < champion)) best = i;
      }
      y[c.index] = best;
    }
  });
}

void argsort(const Call& call) {
  const auto& attrs = call.get<SortAttrs>();
  const int axis = static_cast<int>(attrs.axis);
  Shape lines = call.in[0].shape();
  const int64_t extent = lines[axis];
  const Strides strides = contiguous_strides(lines);
  lines[axis] = extent > 0;
  std::vector<int64_t> order(static_cast<size_t>(extent));
  by_kind(call.in[0], [&]<class C>(C) {
    const auto less = [](C a, C b) { return a < b || (not_a_number(b) && !not_a_number(a)); };
    for (Counter c(lines); c.more(); c.next()) {
      const int64_t first = offset(c.at, strides), step = strides[axis];
      const C* x = call.in[0].as<C>() + first;
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t k) {
        return attrs.descending ? less(x[k * step], x[i * step]) : less(x[i * step], x[k * step]);
      });
      int64_t* y = call.out[0].as<int64_t>() + first;
      for (int64_t i = 0; i < extent; ++i) y[i * step] = order[static_cast<size_t>(i)];
    }
  });
}

}  // namespace

KernelTable reduce_kernels() {
  return {
      {Op::sum, sum},
      {Op::reduce_max, extremum<1>},
      {Op::reduce_min, extremum<-1>},
      {Op::argmax, arg_extremum<1>},
      {Op::argmin, arg_extremum<-1>},
      {Op::argsort, argsort},
  };
}

}  // namespace freight::ref
