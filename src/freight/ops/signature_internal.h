// Makes a Signature of a C++ function: kinds, C++ types and the call follow from the type of the function, defaults of
// fields from the options struct itself; names, defaults of other arguments and the line of doc are given. Internal:
// only functions.cpp includes it.
#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "freight/ir/infer.h"
#include "freight/ir/signature.h"
#include "freight/ops/ops.h"
#include "freight/ops/signature.h"

namespace freight::ops {

using Kind = Parameter::Kind;

// The words for the values of an enumeration, from 0 on.
template <class E>
struct Words;
#define FREIGHT_WORDS(E, ...)                           \
  template <>                                           \
  struct Words<E> {                                     \
    static constexpr const char* kType = #E;            \
    static constexpr std::array kNames = {__VA_ARGS__}; \
  };
FREIGHT_WORDS(GeluKind, "erf", "tanh")
FREIGHT_WORDS(Reduction, "mean", "sum", "none")
FREIGHT_WORDS(Side, "left", "right")
FREIGHT_WORDS(Order, "ascending", "descending")
FREIGHT_WORDS(Assume, "gen", "pos", "sym", "upper_triangular", "lower_triangular")
FREIGHT_WORDS(QrMode, "reduced", "complete")
FREIGHT_WORDS(MatrixOrder, "fro", "nuc", "one", "two", "inf", "minus_one", "minus_two", "minus_inf")
#undef FREIGHT_WORDS

// A field of an options struct, or of a struct of results; of a tensor among options its element types.
template <class M>
struct Field {
  const char* name;
  M member;
  DTypes dtypes = dtypes::kFloating;
};
template <class M>
Field(const char*, M) -> Field<M>;
template <class M>
Field(const char*, M, DTypes) -> Field<M>;

// The fields of an options struct.
template <class T>
struct FieldsOf {};
#define FREIGHT_OPTIONS(T, ...)                                             \
  template <>                                                               \
  struct FieldsOf<T> {                                                      \
    using Struct = T;                                                       \
    static constexpr const char* kType = #T;                                \
    static constexpr auto fields() { return std::make_tuple(__VA_ARGS__); } \
  };
#define FREIGHT_OPTION(field) \
  Field { #field, &Struct::field }
#define FREIGHT_OPTION_OF(field, types) \
  Field { #field, &Struct::field, types }
FREIGHT_OPTIONS(ConvOptions, FREIGHT_OPTION(stride), FREIGHT_OPTION(padding), FREIGHT_OPTION(dilation),
                FREIGHT_OPTION(groups))
FREIGHT_OPTIONS(ConvTransposeOptions, FREIGHT_OPTION(stride), FREIGHT_OPTION(padding), FREIGHT_OPTION(output_padding),
                FREIGHT_OPTION(dilation), FREIGHT_OPTION(groups))
FREIGHT_OPTIONS(PoolOptions, FREIGHT_OPTION(kernel), FREIGHT_OPTION(stride), FREIGHT_OPTION(padding),
                FREIGHT_OPTION(ceil_mode), FREIGHT_OPTION(count_include_pad), FREIGHT_OPTION(dilation),
                FREIGHT_OPTION(divisor))
FREIGHT_OPTIONS(CrossEntropyOptions, FREIGHT_OPTION(label_smoothing), FREIGHT_OPTION(reduction),
                FREIGHT_OPTION(ignore_index), FREIGHT_OPTION(weight))
FREIGHT_OPTIONS(NllOptions, FREIGHT_OPTION(reduction), FREIGHT_OPTION(ignore_index), FREIGHT_OPTION(weight))
FREIGHT_OPTIONS(BceOptions, FREIGHT_OPTION(reduction), FREIGHT_OPTION(weight), FREIGHT_OPTION(pos_weight))
FREIGHT_OPTIONS(KlDivOptions, FREIGHT_OPTION(reduction), FREIGHT_OPTION(log_target))
FREIGHT_OPTIONS(NormOptions, FREIGHT_OPTION(p), FREIGHT_OPTION(keep))
FREIGHT_OPTIONS(IndexPutOptions, FREIGHT_OPTION(accumulate))
FREIGHT_OPTIONS(EmbeddingRowOptions, FREIGHT_OPTION(padding_idx), FREIGHT_OPTION(max_norm), FREIGHT_OPTION(norm_type),
                FREIGHT_OPTION(scale_grad_by_freq))
FREIGHT_OPTIONS(UniqueOptions, FREIGHT_OPTION(axis))
FREIGHT_OPTIONS(VarOptions, FREIGHT_OPTION(correction), FREIGHT_OPTION(keep))
FREIGHT_OPTIONS(AttentionOptions, FREIGHT_OPTION(causal), FREIGHT_OPTION(scale),
                FREIGHT_OPTION_OF(lengths, dtypes::kInteger),
                FREIGHT_OPTION_OF(mask, dtypes::kFloating | dtypes::kBool))
FREIGHT_OPTIONS(SequenceOptions, FREIGHT_OPTION(reverse), FREIGHT_OPTION_OF(counts, dtypes::kInteger))
FREIGHT_OPTIONS(LuFactorOptions, FREIGHT_OPTION(refuse_singular))
FREIGHT_OPTIONS(LuOptions, FREIGHT_OPTION(p_indices))
FREIGHT_OPTIONS(LuSolveOptions, FREIGHT_OPTION(trans))
FREIGHT_OPTIONS(SolveOptions, FREIGHT_OPTION(assume_a), FREIGHT_OPTION(upper))
FREIGHT_OPTIONS(TriangularOptions, FREIGHT_OPTION(lower), FREIGHT_OPTION(trans), FREIGHT_OPTION(unit_diagonal),
                FREIGHT_OPTION(right), FREIGHT_OPTION(refuse_singular))
FREIGHT_OPTIONS(TriangleOptions, FREIGHT_OPTION(upper))
FREIGHT_OPTIONS(ExpmOptions, FREIGHT_OPTION(max_squarings))
FREIGHT_OPTIONS(SvdOptions, FREIGHT_OPTION(full_matrices))
FREIGHT_OPTIONS(LstsqOptions, FREIGHT_OPTION(rcond), FREIGHT_OPTION(full_rank))
FREIGHT_OPTIONS(RankOptions, FREIGHT_OPTION(rtol))
FREIGHT_OPTIONS(MatrixNormOptions, FREIGHT_OPTION(ord), FREIGHT_OPTION(keep))
FREIGHT_OPTIONS(VectorNormOptions, FREIGHT_OPTION(ord), FREIGHT_OPTION(keep))
#undef FREIGHT_OPTIONS

// The tensors of a function's results, in order.
template <class T>
struct ResultsOf {};
#define FREIGHT_RESULTS(T, ...)                                             \
  template <>                                                               \
  struct ResultsOf<T> {                                                     \
    using Struct = T;                                                       \
    static constexpr auto fields() { return std::make_tuple(__VA_ARGS__); } \
  };
FREIGHT_RESULTS(BatchNormResult, FREIGHT_OPTION(y), FREIGHT_OPTION(mean), FREIGHT_OPTION(variance))
FREIGHT_RESULTS(Sorted, FREIGHT_OPTION(values), FREIGHT_OPTION(indices))
FREIGHT_RESULTS(Unique, FREIGHT_OPTION(values), FREIGHT_OPTION(indices), FREIGHT_OPTION(inverse),
                FREIGHT_OPTION(counts))
FREIGHT_RESULTS(Pooled, FREIGHT_OPTION(values), FREIGHT_OPTION(indices))
FREIGHT_RESULTS(LuFactor, FREIGHT_OPTION(lu), FREIGHT_OPTION(pivots), FREIGHT_OPTION(permutation))
FREIGHT_RESULTS(Lu, FREIGHT_OPTION(p), FREIGHT_OPTION(l), FREIGHT_OPTION(u))
FREIGHT_RESULTS(SlogDet, FREIGHT_OPTION(sign), FREIGHT_OPTION(logabsdet))
FREIGHT_RESULTS(Qr, FREIGHT_OPTION(q), FREIGHT_OPTION(r))
FREIGHT_RESULTS(Eigh, FREIGHT_OPTION(values), FREIGHT_OPTION(vectors))
FREIGHT_RESULTS(Eig, FREIGHT_OPTION(values_re), FREIGHT_OPTION(values_im), FREIGHT_OPTION(vectors_re),
                FREIGHT_OPTION(vectors_im))
FREIGHT_RESULTS(Eigvals, FREIGHT_OPTION(re), FREIGHT_OPTION(im))
FREIGHT_RESULTS(Svd, FREIGHT_OPTION(u), FREIGHT_OPTION(s), FREIGHT_OPTION(vh))
FREIGHT_RESULTS(LeastSquares, FREIGHT_OPTION(x), FREIGHT_OPTION(residuals), FREIGHT_OPTION(rank))
#undef FREIGHT_RESULTS
#undef FREIGHT_OPTION
#undef FREIGHT_OPTION_OF
template <class R>
concept HasResults = requires {
  ResultsOf<R>::fields();
};
template <class T>
concept HasFields = requires {
  FieldsOf<T>::kType;
};

// Kind and name of a C++ type, its value as an argument and back.
struct KindOfType {
  Kind kind;
  const char* type;
};
template <class V>
KindOfType kind_of() {
  if constexpr (std::is_same_v<V, In> || std::is_same_v<V, std::optional<In>>) return {Kind::tensor, "In"};
  if constexpr (std::is_same_v<V, Tensor>) return {Kind::tensor, "Tensor"};
  if constexpr (std::is_same_v<V, TensorList>) return {Kind::tensors, "TensorList"};
  if constexpr (std::is_same_v<V, Axis>) return {Kind::integer, "Axis"};
  if constexpr (std::is_same_v<V, WholeNumber>) return {Kind::integer, "WholeNumber"};
  if constexpr (std::is_same_v<V, int64_t>) return {Kind::integer, "int64_t"};
  if constexpr (std::is_same_v<V, std::optional<int64_t>>) return {Kind::integer, "std::optional<int64_t>"};
  if constexpr (std::is_same_v<V, Shape>) return {Kind::integers, "Shape"};
  if constexpr (std::is_same_v<V, std::vector<int64_t>>) return {Kind::integers, "std::vector<int64_t>"};
  if constexpr (std::is_same_v<V, Axes>) return {Kind::axes, "Axes"};
  if constexpr (std::is_same_v<V, Extents>) return {Kind::extents, "Extents"};
  if constexpr (std::is_same_v<V, double>) return {Kind::number, "double"};
  if constexpr (std::is_same_v<V, std::optional<double>>) return {Kind::number, "std::optional<double>"};
  if constexpr (std::is_same_v<V, bool>) return {Kind::flag, "bool"};
  if constexpr (std::is_same_v<V, Keep>) return {Kind::flag, "Keep"};
  if constexpr (std::is_same_v<V, DType>) return {Kind::dtype, "DType"};
  if constexpr (std::is_same_v<V, std::string>) return {Kind::text, "std::string"};
  if constexpr (requires { Words<V>::kType; }) return {Kind::choice, Words<V>::kType};
}

inline ArgumentValue argument_of(const Tensor& t) { return t.defined() ? ArgumentValue(t) : NotGiven{}; }
inline ArgumentValue argument_of(int64_t v) { return v; }
inline ArgumentValue argument_of(int v) { return int64_t{v}; }
inline ArgumentValue argument_of(double v) { return v; }
inline ArgumentValue argument_of(bool v) { return v; }
inline ArgumentValue argument_of(Keep v) { return v == Keep::yes; }
inline ArgumentValue argument_of(DType v) { return v; }
inline ArgumentValue argument_of(const std::optional<int64_t>& v) { return v ? ArgumentValue(*v) : NotGiven{}; }
inline ArgumentValue argument_of(const std::optional<double>& v) { return v ? ArgumentValue(*v) : NotGiven{}; }
inline ArgumentValue argument_of(const Axes& v) { return v.list; }
inline ArgumentValue argument_of(const Extents& v) {
  return v.uniform ? ArgumentValue(v.values[0]) : v.values.vector();
}
template <class E>
requires std::is_enum_v<E> ArgumentValue argument_of(E v) {
  return std::string(Words<E>::kNames[static_cast<size_t>(v)]);
}

// Reads values in turn; they are complete, and of the kinds that the parameters say.
struct ValueReader {
  const std::vector<ArgumentValue>& values;
  SourceLine at;
  size_t next = 0;

  const ArgumentValue& take() { return values[next++]; }
  template <class V>
  V read() {
    if constexpr (std::is_same_v<V, SourceLine>) {
      return at;
    } else if constexpr (HasFields<V>) {
      V options;
      std::apply([&](const auto&... field) { ((options.*field.member = read_field(options.*field.member)), ...); },
                 FieldsOf<V>::fields());
      return options;
    } else {
      return convert<V>(take());
    }
  }
  template <class V>
  V read_field(const V&) {
    return convert<V>(take());
  }
  template <class V>
  V convert(const ArgumentValue& a) const {
    if constexpr (std::is_same_v<V, In>) {
      if (const auto* whole = std::get_if<int64_t>(&a)) return In(*whole, at);
      if (const auto* number = std::get_if<double>(&a)) return In(*number, at);
      return In(std::get<Tensor>(a), at);
    } else if constexpr (requires { V().has_value(); }) {  // std::optional
      return std::holds_alternative<NotGiven>(a) ? V() : V(convert<typename V::value_type>(a));
    } else if constexpr (std::is_same_v<V, Tensor>) {
      return std::holds_alternative<NotGiven>(a) ? V() : std::get<Tensor>(a);
    } else if constexpr (std::is_same_v<V, TensorList>) {
      return TensorList(std::get<std::vector<Tensor>>(a));
    } else if constexpr (std::is_same_v<V, Axes> || std::is_same_v<V, Extents>) {
      if (const auto* one = std::get_if<int64_t>(&a)) return V(*one);
      const auto& list = std::get<std::vector<int64_t>>(a);
      if constexpr (std::is_same_v<V, Axes>) return Axes(list);
      if constexpr (std::is_same_v<V, Extents>) return Extents(Shape(list));
    } else if constexpr (std::is_same_v<V, Axis> || std::is_same_v<V, WholeNumber>) {
      return V(std::get<int64_t>(a));
    } else if constexpr (std::is_same_v<V, Shape>) {
      return Shape(std::get<std::vector<int64_t>>(a));
    } else if constexpr (std::is_same_v<V, Keep>) {
      return std::get<bool>(a) ? Keep::yes : Keep::no;
    } else if constexpr (std::is_same_v<V, double>) {
      const auto* whole = std::get_if<int64_t>(&a);
      return whole ? static_cast<double>(*whole) : std::get<double>(a);
    } else if constexpr (requires { Words<V>::kType; }) {
      const auto& names = Words<V>::kNames;
      return static_cast<V>(std::find(names.begin(), names.end(), std::get<std::string>(a)) - names.begin());
    } else {
      return std::get<V>(a);
    }
  }
};

// The name of an argument, and its default where it has one.
struct Named {
  Named(const char* argument) : name(argument) {}
  template <class V>
  Named(const char* argument, const V& value) : name(argument), usual(argument_of(value)), required(false) {}
  // A number, where the C++ type would take a tensor, too.
  static Named number(Named n) {
    n.only_number = true;
    return n;
  }
  // A tensor of other element types than the function's other tensors.
  Named of(DTypes types) const {
    Named n = *this;
    n.dtypes = types;
    return n;
  }
  const char* name;
  ArgumentValue usual = NotGiven{};
  bool required = true, only_number = false;
  DTypes dtypes = {};
};

class FunctionList {
 public:
  // The header of the functions that follow.
  void header(const char* file) { header_ = file; }
  // The element types of their tensors, but for those that say otherwise.
  void takes(DTypes types) { types_ = types; }
  // A function that reads elements on the host.
  template <class R, class... P>
  void add_on_host(const char* name, R (*f)(P...), const char* doc, const std::vector<Named>& named) {
    on_host_ = true;
    add(name, f, doc, named);
    on_host_ = false;
  }
  template <class R, class... P>
  void add(const char* name, R (*f)(P...), const char* doc, const std::vector<Named>& named) {
    add_operator(name, name, f, doc, named);
  }
  // The function of an op that has its name: operands and doc are those of the op's row.
  template <class R, class... P>
  void add(Op op, R (*f)(P...)) {
    const OpSignature row = signature(op);
    takes(element_types(info(op).infer));
    std::vector<Named> named;
    for (const OpValue& operand : row.operands) named.emplace_back(operand.name.c_str());
    add_operator(info(op).name, info(op).name, f, info(op).doc, named);
  }
  // A function whose name in C++ is that of an operator.
  template <class R, class... P>
  void add_operator(const char* name, const char* callee, R (*f)(P...), const char* doc,
                    const std::vector<Named>& named) {
    Signature s{name, callee, header_, doc, {}, results_of<R>(), on_host_};
    auto next = named.begin();
    (describe<std::decay_t<P>>(s, next), ...);
    FREIGHT_CHECK(next == named.end(), name, ": more names than arguments");
    s.call = [f](const std::vector<ArgumentValue>& values, SourceLine at) {
      ValueReader reader{values, at};
      std::tuple<std::decay_t<P>...> arguments{reader.read<std::decay_t<P>>()...};
      return tensors_of(std::apply(f, std::move(arguments)));
    };
    functions.push_back(std::move(s));
  }

  std::vector<Signature> functions;

 private:
  template <class V>
  static Parameter parameter(const char* name, bool required, ArgumentValue usual, DTypes dtypes) {
    const KindOfType k = kind_of<V>();
    Parameter p{name, k.kind, required, std::move(usual), {}, k.type};
    if (k.kind == Kind::tensor || k.kind == Kind::tensors) p.dtypes = dtypes;
    if constexpr (requires { Words<V>::kType; }) p.choices.assign(Words<V>::kNames.begin(), Words<V>::kNames.end());
    return p;
  }
  template <class V>
  void describe(Signature& s, std::vector<Named>::const_iterator& next) const {
    if constexpr (HasFields<V>) {
      const V usual;
      const auto add_field = [&](const auto& field) {
        const auto& value = usual.*field.member;
        using Value = std::decay_t<decltype(value)>;
        s.parameters.push_back(parameter<Value>(field.name, false, argument_of(value), field.dtypes));
        s.parameters.back().options = FieldsOf<V>::kType;
      };
      std::apply([&](const auto&... field) { (add_field(field), ...); }, FieldsOf<V>::fields());
    } else if constexpr (!std::is_same_v<V, SourceLine>) {
      const bool required = next->required && !std::is_same_v<V, std::optional<In>>;
      const DTypes types = next->only_number ? DTypes() : next->dtypes.empty() ? types_ : next->dtypes;
      s.parameters.push_back(parameter<V>(next->name, required, next->usual, types));
      if (next->only_number) s.parameters.back().kind = Kind::number;
      ++next;
    }
  }
  template <class R>
  static std::vector<std::string> results_of() {
    if constexpr (std::is_same_v<R, Tensor>) return {"y"};
    if constexpr (HasResults<R>) {
      return std::apply([](const auto&... field) { return std::vector<std::string>{field.name...}; },
                        ResultsOf<R>::fields());
    }
    return {};
  }
  static std::vector<Tensor> tensors_of(Tensor y) { return {std::move(y)}; }
  static std::vector<Tensor> tensors_of(std::vector<Tensor> all) { return all; }
  template <HasResults R>
  static std::vector<Tensor> tensors_of(const R& r) {
    return std::apply([&](const auto&... field) { return std::vector<Tensor>{r.*field.member...}; },
                      ResultsOf<R>::fields());
  }

  const char* header_ = "";
  DTypes types_ = dtypes::kFloating;
  bool on_host_ = false;
};

}  // namespace freight::ops
