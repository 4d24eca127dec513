// compile: a function of tensors becomes a step that is traced and planned once per signature of its inputs and then
// replayed. Variables are bound by address and updated in place. See DESIGN, "the way of a training step".
// Threads: a compiled function may be called from any number of threads. It has one arena per signature, so its calls
// follow one another; each result is the caller's own. Different functions run beside each other, except that a step
// which updates variables runs alone: whoever reads variables meanwhile waits. What one thread traces (the function
// itself, the first time) may change nothing that another thread's function reads but variables.
#pragma once
#include <array>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "freight/passes/options.h"
#include "freight/trace/tensor.h"

namespace freight {

struct Graph;
class Plan;
class Executable;

struct CompileOptions {
  // Where it runs. Empty: where its operands lie, the variables that it uses among them, which must be one device; the
  // thread's current one where no operand has one. Given: there, and operands cross over from wherever they lie.
  std::string backend = {};
  bool deterministic = false;                 // fixed kernel choices, no measurement
  Recompute recompute = Recompute::none;      // activations that are made again instead of kept
  DType compute = DType::f32;                 // bf16 or f16: mixed precision, with f32 states and results
  bool tf32 = false;                          // products of f32 may round their operands to TF32
  bool frozen = false;                        // states keep their elements: folded and packed weights are made once
  ArenaLimit limit = {};                      // on the plans' arena, and what may be done to keep it
  std::vector<std::string> input_names = {};  // of the arguments, for plans and messages; default x0, x1, ...
};

// One argument of a compiled function: a tensor, an array, or (to plan without running) a type.
class Argument {
 public:
  Argument(const Tensor& t) : tensor_(&t) {}
  Argument(const Array& a) : array_(&a) {}
  Argument(const Type& t) : type_(&t) {}
  Type type() const;
  // The elements; throws Error(usage) for a type.
  const Array& array() const;
  // Null where it follows the other operands.
  const Tensor* placed() const;

 private:
  const Tensor* tensor_ = nullptr;
  const Array* array_ = nullptr;
  const Type* type_ = nullptr;
};

// The untyped part of a compiled function.
class CompiledFunction {
 public:
  // What is asked of it: for these arguments, by this function of the user.
  struct Request {
    std::span<const Argument> arguments;
    std::vector<Tensor> (*body)(void* context, const std::vector<Tensor>& inputs);  // traces
    void* context;
  };
  explicit CompiledFunction(CompileOptions options);
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&&) noexcept;
  CompiledFunction& operator=(CompiledFunction&&) noexcept;

  // The last results of a call. No other call begins while it lives, so take the tensors out of it and let it go; they
  // stay valid and unchanged as long as somebody holds them.
  struct Results {
    std::unique_lock<std::recursive_mutex> alone;
    const std::vector<Tensor>& list;
  };
  // Runs a step so many times.
  Results call(const Request& request, int64_t times = 1);
  const Graph& graph(const Request& request);
  std::shared_ptr<const Plan> plan(const Request& request);
  Executable& executable(const Request& request);
  // The states that the step reads and updates, in the order of the graph's leaves; the arrays share their memory.
  std::vector<Array> states(const Request& request);
  // Tells all plans that frozen states have changed.
  void thaw();
  // How many signatures were traced so far.
  size_t traces() const;

 private:
  struct Lowered;
  struct State;
  Lowered& lower(const Request& request);
  std::unique_ptr<State> state_;
};

namespace detail {

template <class R>
struct Results;  // how a traced function's result is taken apart and put together again
template <>
struct Results<Tensor> {
  static std::vector<Tensor> list(Tensor r) { return {std::move(r)}; }
  static Tensor make(const std::vector<Tensor>& v) { return v[0]; }
};
template <>
struct Results<std::vector<Tensor>> {
  static std::vector<Tensor> list(std::vector<Tensor> r) { return r; }
  static std::vector<Tensor> make(const std::vector<Tensor>& v) { return v; }
};
template <>
struct Results<std::pair<Tensor, Tensor>> {
  static std::vector<Tensor> list(std::pair<Tensor, Tensor> r) { return {std::move(r.first), std::move(r.second)}; }
  static std::pair<Tensor, Tensor> make(const std::vector<Tensor>& v) { return {v[0], v[1]}; }
};
template <size_t N>
struct Results<std::array<Tensor, N>> {
  static std::vector<Tensor> list(std::array<Tensor, N> r) { return {r.begin(), r.end()}; }
  static std::array<Tensor, N> make(const std::vector<Tensor>& v) {
    std::array<Tensor, N> out;
    for (size_t i = 0; i < N; ++i) out[i] = v[i];
    return out;
  }
};

template <class F, size_t... I>
decltype(auto) spread(F& f, const std::vector<Tensor>& in, std::index_sequence<I...>) {
  return f(in[I]...);
}
// Calls f with N tensors, or with the list.
template <size_t N, bool kList, class F>
decltype(auto) call_with(F& f, const std::vector<Tensor>& in) {
  if constexpr (kList) {
    return f(in);
  } else {
    return spread(f, in, std::make_index_sequence<N>());
  }
}
template <class F, size_t N, bool kList>
using ResultOf =
    std::remove_cvref_t<decltype(call_with<N, kList>(std::declval<F&>(), std::declval<const std::vector<Tensor>&>()))>;

template <class F, size_t N, bool kList>
std::vector<Tensor> trace_body(void* context, const std::vector<Tensor>& in) {
  F& f = *static_cast<F*>(context);
  using R = ResultOf<F, N, kList>;
  if constexpr (std::is_void_v<R>) {
    call_with<N, kList>(f, in);
    return {};
  } else {
    return Results<R>::list(call_with<N, kList>(f, in));
  }
}

}  // namespace detail

// A compiled function. Call it with tensors or arrays; the result has the type that F returns: void, Tensor,
// std::pair or std::array of Tensor, or std::vector<Tensor>. F takes tensors or one const std::vector<Tensor>&.
template <class F>
class Compiled {
 public:
  Compiled(F f, CompileOptions options) : f_(std::move(f)), function_(std::move(options)) {}

  template <class... A>
  auto operator()(const A&... a) {
    return results<sizeof...(A), false>(function_.call(request<sizeof...(A)>({Argument(a)...})).list);
  }
  auto operator()(const std::vector<Tensor>& inputs) {
    const std::vector<Argument> in(inputs.begin(), inputs.end());
    return results<0, true>(function_.call({in, &detail::trace_body<F, 0, true>, &f_}).list);
  }

  // The same `times` times, as one piece of work where the device can: what changes between them are variables.
  template <class... A>
  auto repeat(int64_t times, const A&... a) {
    return results<sizeof...(A), false>(function_.call(request<sizeof...(A)>({Argument(a)...}), times).list);
  }

  // The traced graph, the plan and what runs it for inputs of these types: a Type, a Tensor or an Array each. Nothing
  // is run; graph and plan allocate no memory for the step.
  template <class... A>
  const Graph& graph(const A&... a) {
    return function_.graph(request<sizeof...(A)>({Argument(a)...}));
  }
  template <class... A>
  std::shared_ptr<const Plan> plan(const A&... a) {
    return function_.plan(request<sizeof...(A)>({Argument(a)...}));
  }
  template <class... A>
  Executable& executable(const A&... a) {
    return function_.executable(request<sizeof...(A)>({Argument(a)...}));
  }
  template <class... A>
  std::vector<Array> states(const A&... a) {
    return function_.states(request<sizeof...(A)>({Argument(a)...}));
  }
  // Frozen states have changed all the same: each plan computes what depends on them alone at its next run.
  void thaw() { function_.thaw(); }
  size_t traces() const { return function_.traces(); }

 private:
  // Valid as long as the list: to the end of the expression that it stands in.
  template <size_t N>
  CompiledFunction::Request request(std::initializer_list<Argument> in) {
    return {{in.begin(), N}, &detail::trace_body<F, N, false>, &f_};
  }
  template <size_t N, bool kList>
  static auto results(const std::vector<Tensor>& out) {
    using R = detail::ResultOf<F, N, kList>;
    if constexpr (!std::is_void_v<R>) return detail::Results<R>::make(out);
  }
  F f_;
  CompiledFunction function_;
};

template <class F>
Compiled<F> compile(F f, CompileOptions options = {}) {
  return Compiled<F>(std::move(f), std::move(options));
}

}  // namespace freight
