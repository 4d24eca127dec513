// The values that compiled functions take and return: a Tensor, or a pair, tuple, array, vector or struct of such
// values. This file takes one apart into a list of tensors and puts it together again. What compile.h refuses it finds
// out here; nothing here knows traces or plans.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "freight/trace/tensor.h"

namespace freight::detail {

template <class T>
inline constexpr bool kIsVector = false;
template <class T, class A>
inline constexpr bool kIsVector<std::vector<T, A>> = true;

template <class T>
inline constexpr bool kIsTuple = false;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;
template <class T, size_t N>
inline constexpr bool kIsTuple<std::array<T, N>> = true;

// A stand-in for the value of any field: a struct can be made of as many of these as it has fields, and of no more.
struct AnyField {
  template <class T>
  operator T() const;
};

template <class T, size_t... I>
constexpr bool made_of(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField{})...}; };
}

inline constexpr size_t kMostFields = 8;

// The number of fields of a struct; 0 where it has none, more than kMostFields, or cannot be taken apart.
template <class T>
constexpr size_t field_count() {
  if constexpr (!std::is_aggregate_v<T> || std::is_array_v<T>) {
    return 0;
  } else {
    return []<size_t... N>(std::index_sequence<N...>) {
      size_t count = 0;
      ((count = made_of<T>(std::make_index_sequence<N + 1>()) ? N + 1 : count), ...);
      return count > kMostFields ? 0 : count;
    }
    (std::make_index_sequence<kMostFields + 1>());
  }
}

// References to the fields of a struct.
template <class T>
constexpr auto fields_of(T& t) {
  constexpr size_t kCount = field_count<std::remove_const_t<T>>();
  if constexpr (kCount == 1) {
    auto& [a] = t;
    return std::tie(a);
  } else if constexpr (kCount == 2) {
    auto& [a, b] = t;
    return std::tie(a, b);
  } else if constexpr (kCount == 3) {
    auto& [a, b, c] = t;
    return std::tie(a, b, c);
  } else if constexpr (kCount == 4) {
    auto& [a, b, c, d] = t;
    return std::tie(a, b, c, d);
  } else if constexpr (kCount == 5) {
    auto& [a, b, c, d, e] = t;
    return std::tie(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = t;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = t;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (kCount == 8) {
    auto& [a, b, c, d, e, f, g, h] = t;
    return std::tie(a, b, c, d, e, f, g, h);
  }
}

// References to the parts of a tuple or a struct.
template <class T>
constexpr auto parts_of(T& t) {
  if constexpr (kIsTuple<std::remove_const_t<T>>) {
    return std::apply([](auto&... part) { return std::tie(part...); }, t);
  } else {
    return fields_of(t);
  }
}

// The value that a traced function gets for an argument of type T: tensors where the caller gives tensors, arrays or
// types. It is void where T is refused.
template <class T>
struct TracedAs {
  using type = void;
};
template <class T>
using Traced = typename TracedAs<std::remove_cvref_t<T>>::type;

// Wrap<T...> where none of T is void, else void.
template <template <class...> class Wrap, class... T>
struct WrapTraced {
  using type = void;
};
template <template <class...> class Wrap, class... T>
requires((!std::is_void_v<T> && ...)) struct WrapTraced<Wrap, T...> {
  using type = Wrap<T...>;
};

// A struct stays itself, so its own fields have to be tensors.
template <class T, class Fields>
struct TracedStruct;
template <class T, class... Field>
struct TracedStruct<T, std::tuple<Field&...>> {
  using type = std::conditional_t<(std::is_same_v<Traced<Field>, Field> && ...), T, void>;
};
template <class T>
requires(field_count<T>() > 0) struct TracedAs<T> : TracedStruct<T, decltype(fields_of(std::declval<T&>()))> {
};

template <>
struct TracedAs<Tensor> {
  using type = Tensor;
};
template <>
struct TracedAs<Array> {
  using type = Tensor;
};
template <>
struct TracedAs<Type> {
  using type = Tensor;
};
template <class T, class A>
struct TracedAs<std::vector<T, A>> : WrapTraced<std::vector, Traced<T>> {};
template <class... T>
struct TracedAs<std::tuple<T...>> : WrapTraced<std::tuple, Traced<T>...> {};
template <class A, class B>
struct TracedAs<std::pair<A, B>> : WrapTraced<std::pair, Traced<A>, Traced<B>> {};
template <class T, size_t N>
struct TracedAs<std::array<T, N>> {
  using Element = std::conditional_t<std::is_void_v<Traced<T>>, Tensor, Traced<T>>;
  using type = std::conditional_t<std::is_void_v<Traced<T>>, void, std::array<Element, N>>;
};

// A value that can be an argument, and one that can be a result: tensors alone, since nothing else has a trace.
template <class T>
inline constexpr bool kArgument = !std::is_void_v<Traced<T>>;
template <class T>
inline constexpr bool kResult = std::is_same_v<Traced<T>, std::remove_cvref_t<T>>;

// Calls leaf(x) for every tensor, array and type in `t`, in order, and list(v) for every vector before its elements.
template <class T, class Leaf, class List>
void visit_tensors(T& t, const Leaf& leaf, const List& list) {
  if constexpr (std::is_same_v<Traced<T>, Tensor>) {
    leaf(t);
  } else if constexpr (kIsVector<std::remove_const_t<T>>) {
    list(t);
    for (auto& element : t) visit_tensors(element, leaf, list);
  } else {
    std::apply([&](auto&... part) { (visit_tensors(part, leaf, list), ...); }, parts_of(t));
  }
}

// Values as a list of tensors; `lengths` are those of the vectors among them, in order.
struct TensorList {
  std::vector<Tensor> tensors;
  std::vector<size_t> lengths;
};

template <class T>
TensorList taken_apart(const T& value) {
  TensorList out;
  visit_tensors(
      value, [&](const Tensor& t) { out.tensors.push_back(t); },
      [&](const auto& v) { out.lengths.push_back(v.size()); });
  return out;
}

// Makes values of a list again, one after the other.
class PutTogether {
 public:
  PutTogether(std::span<const Tensor> tensors, std::span<const size_t> lengths)
      : tensors_(tensors), lengths_(lengths) {}
  template <class T>
  T next() {
    T value;
    visit_tensors(
        value, [&](Tensor& t) { t = tensors_[tensor_++]; }, [&](auto& v) { v.resize(lengths_[length_++]); });
    return value;
  }

 private:
  std::span<const Tensor> tensors_;
  std::span<const size_t> lengths_;
  size_t tensor_ = 0, length_ = 0;
};

}  // namespace freight::detail
