// compile: a function of tensors becomes a step that is traced and planned once per signature of its inputs and then
// replayed. Variables are bound by address and updated in place. See docs/tour.md.
// Threads: a compiled function may be called from any number of threads. All its signatures share one arena, so its
// calls follow one another; each result is the caller's own. Different functions run beside each other, except that a
// step which updates variables runs alone: whoever reads variables meanwhile waits. What one thread traces (the
// function itself, the first time) may change nothing that another thread's function reads but variables.
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
#include "freight/trace/tensors_in.h"

namespace freight {

struct Context;
struct Graph;
class Plan;
class Executable;

// Settings of compile.
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
  SumCost sums = {};                          // of sums over ranks, by which these are cut into pieces
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
  // A call: the arguments with the lengths of the vectors among them, and the function of the user, which is traced.
  struct Request {
    std::span<const Argument> arguments;
    std::span<const size_t> lengths;
    detail::TensorList (*body)(void* context, const detail::TensorList& inputs);
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
    const std::vector<size_t>& lengths;  // of the vectors among them
  };
  // Runs a step so many times.
  Results call(const Request& request, int64_t times = 1);
  // Runs it with what a run gets besides its arguments.
  Results call(const Request& request, const Context& context);
  const Graph& graph(const Request& request);
  std::shared_ptr<const Plan> plan(const Request& request);
  Executable& executable(const Request& request);
  // The graph's leaves behind the arguments: arrays that the step has captured, then the states that it reads and
  // updates. They share their memory.
  std::vector<Array> leaves(const Request& request);
  // Tells all plans that frozen states have changed.
  void thaw();
  // The number of signatures that were traced so far.
  size_t traces() const;

 private:
  struct Lowered;
  struct State;
  Lowered& lower(const Request& request);
  std::unique_ptr<State> state_;
};

namespace detail {

// Arguments that can be traced; a function that takes them; and one whose result is made of tensors as well.
template <class... A>
concept Arguments = (kArgument<A> && ...);
template <class F, class... A>
concept Takes = Arguments<A...> && std::is_invocable_v < F&,
        const Traced<A>
&... > ;
template <class F, class... A>
using ResultOf = std::remove_cvref_t<std::invoke_result_t<F&, const Traced<A>&...>>;
template <class F, class... A>
concept Traceable = Takes<F, A...> &&(std::is_void_v<ResultOf<F, A...>> || kResult<ResultOf<F, A...>>);

// The type of a function says this much before it is called. A generic one says nothing.
template <class Call>
struct Signature {
  static constexpr bool kNumbers = false, kTensors = true;
};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  static constexpr bool kNumbers = (std::is_arithmetic_v<std::remove_cvref_t<A>> || ...);
  static constexpr bool kTensors = std::is_void_v<R> || kResult<R>;
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <class F>
struct SignatureOf : Signature<F> {};
template <class F>
requires requires { &F::operator(); }
struct SignatureOf<F> : Signature<decltype(&F::operator())> {};

template <class F, class... A>
TensorList trace_body(void* context, const TensorList& in) {
  F& f = *static_cast<F*>(context);
  PutTogether inputs(in.tensors, in.lengths);
  const std::tuple<A...> arguments{inputs.next<A>()...};
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const A&...>>) {
    std::apply(f, arguments);
    return {};
  } else {
    return taken_apart(std::apply(f, arguments));
  }
}

}  // namespace detail

// A compiled function. Call it with what F takes, in which an Array may stand for a Tensor; the result is what F
// returns. Arguments and results are a Tensor each, or a pair, tuple, array, vector or struct of such values; a struct
// has up to eight public fields. The lengths of vectors are part of the signature.
template <class F>
class Compiled {
 public:
  Compiled(F f, CompileOptions options) : f_(std::move(f)), function_(std::move(options)) {}  // see compile()

  // Traces, plans and replays for these arguments.
  template <class... A>
  requires detail::Traceable<F, A...>
  auto operator()(const A&... a) { return run(int64_t{1}, a...); }
  // The same for a list in braces. Deduced, so that a generic function is not tried with a list where a tensor is
  // given.
  template <class T>
  requires std::is_convertible_v<T, Tensor> && detail::Traceable<F, std::vector<Tensor>>
  auto operator()(std::initializer_list<T> inputs) {
    return run(int64_t{1}, std::vector<Tensor>(inputs.begin(), inputs.end()));
  }

  // Refused when the program is compiled: something that cannot be traced is given.
  template <class... A>
  requires(!detail::Arguments<A...>) FREIGHT_REFUSED(
      "a compiled function takes tensors and arrays, and tuples, vectors and structs of tensors: give a number as a "
      "tensor, or keep it in a Variable that the function reads")
  Tensor operator()(const A&...) { return {}; }
  // Refused when the program is compiled: F takes other arguments.
  template <class... A>
  requires(detail::Arguments<A...> && !detail::Takes<F, A...>) FREIGHT_REFUSED(
      "the function that was compiled does not take these arguments: compare their number and types; it gets its "
      "tensors as const Tensor&")
  Tensor operator()(const A&...) { return {}; }
  // Refused when the program is compiled: F returns something that cannot be traced.
  template <class... A>
  requires(detail::Takes<F, A...> && !detail::Traceable<F, A...>) FREIGHT_REFUSED(
      "the function that was compiled returns something else than tensors: return a Tensor, a pair, tuple, array, "
      "vector or struct of tensors, or nothing")
  Tensor operator()(const A&...) { return {}; }

  // The same `times` times, as one piece of work where the device can: what changes between them are variables.
  template <class... A>
  requires detail::Traceable<F, A...>
  auto repeat(int64_t times, const A&... a) { return run(times, a...); }
  // Runs it in a context, which is the library's own as Plan and Executable are: collectives, random state.
  template <class... A>
  requires detail::Traceable<F, A...>
  auto run_in(const Context& context, const A&... a) { return run(context, a...); }

  // The traced graph for inputs of these types: a Type, a Tensor or an Array each. Nothing is run, and the step gets no
  // memory. Kernels are measured ones here, while a call with another shape than the first guesses them until it has
  // run often enough. Plan and Executable are the library's own: their headers are not installed.
  template <class... A>
  requires detail::Traceable<F, A...>
  const Graph& graph(const A&... a) { return ask(&CompiledFunction::graph, a...); }
  // The plan for such inputs; the step gets no memory.
  template <class... A>
  requires detail::Traceable<F, A...> std::shared_ptr<const Plan> plan(const A&... a) {
    return ask(&CompiledFunction::plan, a...);
  }
  // The plan with its memory and the variables, ready to run.
  template <class... A>
  requires detail::Traceable<F, A...> Executable& executable(const A&... a) {
    return ask(&CompiledFunction::executable, a...);
  }
  // Captured arrays, then the states that the step reads and updates for such inputs; they share their memory.
  template <class... A>
  requires detail::Traceable<F, A...> std::vector<Array> leaves(const A&... a) {
    return ask(&CompiledFunction::leaves, a...);
  }
  // Frozen states have changed all the same: each plan computes what depends on them alone at its next run.
  void thaw() { function_.thaw(); }
  // The number of signatures that were traced so far.
  size_t traces() const { return function_.traces(); }

 private:
  // use(request) for these arguments. The request is valid until then.
  template <class Use, class... A>
  decltype(auto) with_request(const Use& use, const A&... a) {
    constexpr auto kBody = &detail::trace_body<F, detail::Traced<A>...>;
    if constexpr ((std::is_same_v<detail::Traced<A>, Tensor> && ...)) {
      const std::array<Argument, sizeof...(A)> in = {Argument(a)...};
      return use(CompiledFunction::Request{in, {}, kBody, &f_});
    } else {
      std::vector<Argument> in;
      std::vector<size_t> lengths;
      const auto leaf = [&](const auto& x) { in.emplace_back(x); };
      const auto list = [&](const auto& v) { lengths.push_back(v.size()); };
      (detail::visit_tensors(a, leaf, list), ...);
      return use(CompiledFunction::Request{in, lengths, kBody, &f_});
    }
  }
  template <class Answer, class... A>
  Answer ask(Answer (CompiledFunction::*question)(const CompiledFunction::Request&), const A&... a) {
    return with_request([&](const CompiledFunction::Request& r) -> Answer { return (function_.*question)(r); }, a...);
  }
  template <class How, class... A>
  auto run(const How& how, const A&... a) {
    using R = detail::ResultOf<F, A...>;
    return with_request(
        [&](const CompiledFunction::Request& request) {
          const CompiledFunction::Results out = function_.call(request, how);
          if constexpr (!std::is_void_v<R>) return detail::PutTogether(out.list, out.lengths).next<R>();
        },
        a...);
  }
  F f_;
  CompiledFunction function_;
};

// A step of `f`, traced once per signature of its arguments, planned and replayed: see the top of this file. `f` reads
// and updates variables; every other value of C++ that it reads is baked in. Throws nothing: tracing begins with a
// call.
template <class F>
requires(detail::SignatureOf<F>::kTensors &&
         !detail::SignatureOf<F>::kNumbers) Compiled<F> compile(F f, CompileOptions options = {}) {
  return Compiled<F>(std::move(f), std::move(options));
}
// Refused when the program is compiled: `f` returns something that cannot be traced.
template <class F>
requires(!detail::SignatureOf<F>::kTensors) FREIGHT_REFUSED(
    "this function returns something else than tensors: return a Tensor, a pair, tuple, array, vector or struct of "
    "tensors, or nothing")
Compiled<F> compile(F f, CompileOptions options = {}) { return Compiled<F>(std::move(f), std::move(options)); }
// Refused when the program is compiled: `f` takes a number.
template <class F>
requires(detail::SignatureOf<F>::kTensors&& detail::SignatureOf<F>::kNumbers) FREIGHT_REFUSED(
    "this function takes a number, which would be baked into its plan: take a Tensor, or read a Variable")
Compiled<F> compile(F f, CompileOptions options = {}) { return Compiled<F>(std::move(f), std::move(options)); }

}  // namespace freight
