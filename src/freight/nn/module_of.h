// ModuleOf: a module with several inputs or results, and options. Its forward is written with them and called with
// them, under the module's name; parameters, children, devices, hooks and state_dict are those of every module.
//
//   struct Scored : nn::ModuleOf<Tensor(const Tensor& x, const Tensor& weight)> {
//     Tensor forward(const Tensor& x, const Tensor& weight) override { return (*fc)(x) * weight; }
//     nn::Linear* fc = &add<nn::Linear>("fc", 4, 1);
//   };
//   Scored scored;
//   Tensor y = scored(x, w);
//
// Options are a struct of the class's own, the last argument, which a call may leave out:
//
//   struct Steps { int64_t count = 1; };
//   struct Repeated : nn::ModuleOf<Tensor(const Tensor&, const Tensor&), Steps> { ... };
//   repeated(x, h);
//   repeated(x, h, {.count = 3});
//
// A tensor that a call leaves out is Tensor(), which forward sees undefined. Sequential and `call` hand tensors over by
// their number: what one module gives, the next one takes.
#pragma once
#include <array>
#include <tuple>
#include <type_traits>

#include "freight/nn/module.h"

namespace freight::nn {

namespace detail {

template <class>
using OneInput = const In&;

// The tensor of a call's argument, undefined where the caller left it out.
Tensor input_of(const In& x);

// Results as a list, and back.
inline std::vector<Tensor> list_of(Tensor r) { return {std::move(r)}; }
inline std::vector<Tensor> list_of(std::vector<Tensor> r) { return r; }
template <size_t N>
std::vector<Tensor> list_of(const std::array<Tensor, N>& r) {
  return {r.begin(), r.end()};
}
template <class... T>
std::vector<Tensor> list_of(const std::tuple<T...>& r) {
  return std::apply([](const auto&... t) { return std::vector<Tensor>{t...}; }, r);
}
inline std::vector<Tensor> list_of(const std::pair<Tensor, Tensor>& r) { return {r.first, r.second}; }

template <class R>
R result_of(std::vector<Tensor> list) {
  if constexpr (std::is_same_v<R, Tensor>) {
    return std::move(list[0]);
  } else if constexpr (std::is_same_v<R, std::vector<Tensor>>) {
    return list;
  } else {
    return [&]<size_t... I>(std::index_sequence<I...>) { return R{list[I]...}; }
    (std::make_index_sequence<std::tuple_size_v<R>>());
  }
}

inline SourceLine line_of(const In& first) { return first.where; }
template <class... Rest>
SourceLine line_of(const In& first, const Rest&...) {
  return first.where;
}

}  // namespace detail

// A module with several inputs or results; see the top of this file.
template <class Signature, class Options = void>
class ModuleOf;

// With options: R(const Tensor&, ...) and a struct of the class's own.
template <class R, class... A, class Options>
class ModuleOf<R(A...), Options> : public Module {
  static_assert(sizeof...(A) > 0 && (std::is_same_v<A, const Tensor&> && ...), "inputs are const Tensor&");

 public:
  // The module's function, to be overridden. Call it by operator().
  virtual R forward(A... inputs, const Options& options) = 0;
  // Calls forward under the module's name, for hooks and recorders too.
  R operator()(detail::OneInput<A>... inputs, const Options& options = {}) {
    const Module::Call call(*this, detail::line_of(inputs...));
    const std::vector<Tensor> in = call.given({detail::input_of(inputs)...});
    return detail::result_of<R>(call.done(in, run(in, options, std::index_sequence_for<A...>())));
  }
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override {
    if (inputs.size() != sizeof...(A)) refuse_inputs(inputs.size(), sizeof...(A));
    return run(inputs, Options{}, std::index_sequence_for<A...>());
  }

 private:
  Tensor forward(const Tensor&) final { refuse_inputs(1, sizeof...(A)); }
  template <size_t... I>
  std::vector<Tensor> run(const std::vector<Tensor>& in, const Options& options, std::index_sequence<I...>) {
    return detail::list_of(forward(in[I]..., options));
  }
};

// Without options.
template <class R, class... A>
class ModuleOf<R(A...), void> : public Module {
  static_assert(sizeof...(A) > 1,
                "a module of one input is a Module: override forward, or forward_all for more results");
  static_assert((std::is_same_v<A, const Tensor&> && ...), "inputs are const Tensor&");

 public:
  // The module's function, to be overridden. Call it by operator().
  virtual R forward(A... inputs) = 0;
  // Calls forward under the module's name, for hooks and recorders too.
  R operator()(detail::OneInput<A>... inputs) {
    const Module::Call call(*this, detail::line_of(inputs...));
    const std::vector<Tensor> in = call.given({detail::input_of(inputs)...});
    return detail::result_of<R>(call.done(in, run(in, std::index_sequence_for<A...>())));
  }
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override {
    if (inputs.size() != sizeof...(A)) refuse_inputs(inputs.size(), sizeof...(A));
    return run(inputs, std::index_sequence_for<A...>());
  }

 private:
  Tensor forward(const Tensor&) final { refuse_inputs(1, sizeof...(A)); }
  template <size_t... I>
  std::vector<Tensor> run(const std::vector<Tensor>& in, std::index_sequence<I...>) {
    return detail::list_of(forward(in[I]...));
  }
};

}  // namespace freight::nn
