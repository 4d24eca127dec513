// unique and nonzero: the host reads the elements, since shapes of results depend on them. See sort.h and index.h.
#include <algorithm>
#include <complex>
#include <numeric>

#include "freight/ops/common.h"
#include "freight/ops/index.h"
#include "freight/ops/shape.h"
#include "freight/ops/sort.h"

namespace freight {

Tensor ops::made_on_host(const Array& a, const Tensor& x) {
  auto leaf = trace::leaf_of(a, trace::device_of(*x.impl()));
  leaf->follows = x.impl()->follows;
  return Tensor(std::move(leaf));
}

namespace {

// The elements in host memory.
Array read(const Tensor& x, const char* op) {
  if (trace::compiling()) {
    ops::fail_here(op, "gives tensors of unknown shape, which a compiled step cannot have: got ", x.type(),
                   "; call it outside of the step, on its inputs or results");
  }
  if (x.numel() > std::numeric_limits<int32_t>::max())
    ops::fail_here(op, "indices are i32: expected at most 2^31 - 1 elements, got ", x.type());
  return x.array();
}

template <class T>
bool is_nan(const T& v) {
  return v != v;
}
// NaN behind all numbers.
template <class T>
bool before(const T& a, const T& b) {
  if constexpr (kIsComplex<T>) {
    const bool reals_differ = before(a.real(), b.real()) || before(b.real(), a.real());
    return reals_differ ? before(a.real(), b.real()) : before(a.imag(), b.imag());
  } else {
    return a < b || (is_nan(b) && !is_nan(a));
  }
}

// Calls f(element of row-major number i as a comparable type, ...) by a function of i.
template <class F>
void with_elements(const Array& x, const F& f) {
  dispatch(x.dtype(), [&]<class T>(T) {
    using Held = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    const auto* elements = static_cast<const Held*>(x.raw());
    f([elements](int64_t i) {
      if constexpr (kIsHalf<T>) {
        return static_cast<float>(elements[i]);
      } else {
        return elements[i];
      }
    });
  });
}

}  // namespace

Unique unique(const In& x, const UniqueOptions& options) {
  const auto [frame, t] = ops::enter(x, "unique");
  const bool slices = options.axis.has_value();
  const int axis = slices ? ops::axis_of(*options.axis, t.type(), "unique") : 0;
  Shape slices_first{axis};
  for (int i = 0; i < t.rank(); ++i) {
    if (i != axis) slices_first.push_back(i);
  }
  const Array elements = read(axis == 0 ? t : permute(t, slices_first), "unique");
  // There are n single elements, or n slices of `width` elements, to compare.
  const int64_t n = slices ? t.dim(axis) : t.numel(), width = slices && n > 0 ? t.numel() / n : 1;
  std::vector<int32_t> order(static_cast<size_t>(n)), first, inverse(static_cast<size_t>(n));
  std::vector<int64_t> counts;
  std::iota(order.begin(), order.end(), 0);
  with_elements(elements, [&](const auto& at) {
    // The number of elements in which slices a and b are equal before one differs.
    const auto equal_up_to = [&](int64_t a, int64_t b) {
      int64_t i = 0;
      while (i < width && at(a * width + i) == at(b * width + i)) ++i;
      return i;
    };
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      const int64_t i = equal_up_to(a, b);
      return i < width && before(at(a * width + i), at(b * width + i));
    });
    for (size_t i = 0; i < order.size(); ++i) {
      const bool repeated = i > 0 && equal_up_to(order[i], order[i - 1]) == width;
      if (!repeated) {
        first.push_back(order[i]);
        counts.push_back(0);
      }
      ++counts.back();
      inverse[static_cast<size_t>(order[i])] = static_cast<int32_t>(first.size()) - 1;
    }
  });
  const auto distinct = static_cast<int64_t>(first.size());
  const Tensor indices = ops::made_on_host(Array::of(first, {distinct}), t);
  return {gather(slices ? t : ops::reshaped(t, {n}), indices, axis), indices,
          ops::made_on_host(Array::of(inverse, slices ? Shape{n} : t.shape()), t),
          ops::made_on_host(Array::of(counts, {distinct}), t)};
}

std::vector<Tensor> nonzero(const In& x) {
  const auto [frame, given] = ops::enter(x, "nonzero");
  const Tensor& t = given;
  if (t.rank() == 0) ops::fail_here("nonzero", "a tensor of rank 0 has no axes: got ", t.type(), "; reshape it to {1}");
  const Array elements = read(t, "nonzero");
  const Strides strides = contiguous_strides(t.shape());
  std::vector<std::vector<int32_t>> places(static_cast<size_t>(t.rank()));
  with_elements(elements, [&](const auto& at) {
    for (int64_t i = 0; i < elements.numel(); ++i) {
      if (at(i) == decltype(at(i)){}) continue;
      for (int axis = 0; axis < t.rank(); ++axis) {
        places[static_cast<size_t>(axis)].push_back(static_cast<int32_t>(i / strides[axis] % t.shape()[axis]));
      }
    }
  });
  std::vector<Tensor> results;
  for (const auto& of_axis : places)
    results.push_back(ops::made_on_host(Array::of(of_axis, {static_cast<int64_t>(of_axis.size())}), t));
  return results;
}

}  // namespace freight
