// The samples of the public functions (ops/signature.h): arguments under which each is checked, and from each a graph
// as users' programs trace it. They stand beside the rows of the ops (op_rows.h), in the same terms, and become cases
// of the same checks (op_suite.h, case_checks.h). A new function needs one row here at least, or, where it is a
// pointwise op of the same name, none: it takes the op's rows.
#pragma once
#include <algorithm>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/ops/ops.h"
#include "freight/ops/signature.h"
#include "freight/trace/compile.h"

#include "tests/ops/op_suite.h"

namespace freight::test {

// One argument: a tensor to be drawn, a list of them, or a value.
struct SampleArgument {
  SampleArgument(const Operand& o) : is(std::vector<Operand>{o}) {}
  SampleArgument(const std::vector<Operand>& list) : is(list), many(true) {}
  SampleArgument(int v) : is(ArgumentValue(int64_t{v})) {}
  SampleArgument(double v) : is(ArgumentValue(v)) {}
  SampleArgument(bool v) : is(ArgumentValue(v)) {}
  SampleArgument(DType v) : is(ArgumentValue(v)) {}
  SampleArgument(const char* v) : is(ArgumentValue(std::string(v))) {}
  SampleArgument(const Shape& v) : is(ArgumentValue(v.vector())) {}
  SampleArgument(NotGiven v) : is(ArgumentValue(v)) {}
  std::variant<std::vector<Operand>, ArgumentValue> is;
  bool many = false;  // a list of tensors, also where it has one
};

struct FunctionRow {
  std::string function;
  std::vector<SampleArgument> arguments;
  double slack = 4;  // factor on the tolerance
  // Gradients are compared with differences, at the second order too. Not where the gradient is another by design.
  bool smooth = true;

  std::vector<Operand> operands() const {
    std::vector<Operand> all;
    for (const SampleArgument& a : arguments) {
      if (const auto* list = std::get_if<std::vector<Operand>>(&a.is))
        all.insert(all.end(), list->begin(), list->end());
    }
    return all;
  }
};

inline std::string to_string(const FunctionRow& row) {
  std::string text = row.function;
  for (const SampleArgument& a : row.arguments) {
    if (const auto* list = std::get_if<std::vector<Operand>>(&a.is)) {
      for (const Operand& o : *list) text += " " + freight::to_string(o.type);
    } else {
      text += std::visit(
          [](const auto& v) -> std::string {
            using V = std::decay_t<decltype(v)>;
            if constexpr (std::is_same_v<V, std::vector<int64_t>>) return cat(" ", Shape(v));
            if constexpr (std::is_arithmetic_v<V> || std::is_same_v<V, std::string> || std::is_same_v<V, DType>) {
              return cat(" ", v);
            }
            return " -";
          },
          std::get<ArgumentValue>(a.is));
    }
  }
  return text;
}

namespace rows {

using FunctionRows = std::vector<FunctionRow>;

inline void elementwise_functions(FunctionRows& t) {
  struct Pair {
    Shape a, b;
  };
  const std::vector<Pair> pairs = {{{}, {}},         {{7}, {7}}, {{3, 4}, {4}}, {{2, 1, 3}, {5, 1}},
                                   {{0, 3}, {1, 3}}, {{1}, {65}}};
  const auto index64 = [](const Shape& s) { return index(s, 50, DType::i64); };
  for (const char* f : {"add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "fmod", "less",
                        "less_equal", "greater", "greater_equal", "equal", "not_equal"}) {
    for (const Pair& p : pairs) t.push_back({f, {f32(p.a), f32(p.b, Fill::positive)}, 10});
    t.push_back({f, {index({7}, 50), index({3, 1}, 50)}, 4, false});
    t.push_back({f, {index64({5}), 7}, 4, false});
    t.push_back({f, {f32({5}), 2.5}});
    t.push_back({f, {1.5, f32({5}, Fill::positive)}, 10});
  }
  for (const Pair& p : pairs) t.push_back({"pow", {f32(p.a, Fill::positive), f32(p.b)}, 10});
  t.push_back({"pow", {f32({5}, Fill::positive), 3}});
  for (const char* f : {"atan2", "hypot", "logaddexp", "copysign", "nextafter"}) {
    for (const Pair& p : pairs) t.push_back({f, {f32(p.a), f32(p.b, Fill::positive)}, 10});
  }
  for (const char* f : {"bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"}) {
    for (const Pair& p : pairs) t.push_back({f, {index(p.a, 50), index(p.b, 12)}, 4, false});
    t.push_back({f, {index64({5}), 3}, 4, false});
  }
  for (const Pair& p : pairs) t.push_back({"floor_divide", {f32(p.a), f32(p.b, Fill::positive)}, 10, false});
  t.push_back({"floor_divide", {index({7}, 50), index({3, 1}, 50)}, 4, false});
  t.push_back({"bitwise_invert", {index({7}, 50)}, 4, false});
  for (const char* f : {"is_inf", "is_nan", "signbit", "trunc", "positive"}) t.push_back({f, {f32({3, 7})}, 4, false});
  for (const char* f : {"is_inf", "is_nan", "positive"}) t.push_back({f, {index({7}, 50)}, 4, false});
  for (const char* f : {"logical_and", "logical_or", "logical_xor"}) {
    for (const Pair& p : pairs) t.push_back({f, {boolean(p.a), boolean(p.b)}, 4, false});
  }
  for (const Pair& p : pairs) {
    t.push_back({"where", {boolean(p.a), f32(p.b), f32(p.a)}});
    t.push_back({"clamp", {f32(p.a), -0.55, 1.45}});
  }
  t.push_back({"where", {boolean({3, 1}), 1.5, f32({4})}});
  t.push_back({"clamp", {f32({3, 4}), f32({4}, Fill::unit), f32({3, 1}, Fill::positive)}});
  t.push_back({"clamp", {index({7}, 50), 10, 20}, 4, false});
  for (const Shape& s : {Shape{}, Shape{0}, Shape{1}, Shape{5, 13}, Shape{2, 0, 3}}) {
    for (const char* f : {"negative", "stop_gradient", "gelu", "silu", "leaky_relu", "elu", "softplus"}) {
      t.push_back({f, {f32(s)}, 4, std::string(f) != "stop_gradient"});
    }
    t.push_back({"dropout", {f32(s), 0.25}});
    for (DType to : {DType::f64, DType::bf16, DType::i64, DType::boolean})
      t.push_back({"cast", {f32(s), to}, 4, false});
  }
  t.push_back({"gelu", {f32({7}), "tanh"}});
  t.push_back({"leaky_relu", {f32({7}), -0.5}});
  t.push_back({"elu", {f32({7}), 3}});
  t.push_back({"dropout", {f32({7}), 0.0}});
  t.push_back({"negative", {index({7}, 50)}, 4, false});
}

inline void reduce_functions(FunctionRows& t) {
  const Fill d = Fill::distinct;
  for (const char* f : {"sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "norm", "var", "stddev"}) {
    const bool reads_p = std::string(f) == "norm" || std::string(f) == "var" || std::string(f) == "stddev";
    const double slack = 20;
    t.push_back({f, {f32({7}, d)}, slack});
    t.push_back({f, {f32({3, 5}, d), 1}, slack});
    t.push_back({f, {f32({2, 3, 4}, d), Shape{0, -1}}, slack});
    t.push_back({f, {f32({2, 3, 2, 3}, d), Shape{1, 3}}, slack});
    t.push_back({f, {f32({0, 3}), 1}, slack});
    if (!reads_p) t.push_back({f, {f32({3, 5}, d), 0, true}, slack});
    if (!reads_p) t.push_back({f, {f32({}, d)}, slack});
  }
  for (const char* f : {"sum", "prod", "any", "all"}) {
    t.push_back({f, {f32({0, 3}), 0}});
    t.push_back({f, {f32({0})}});
    t.push_back({f, {index({3, 7}, 4), 1}, 4, false});
    t.push_back({f, {boolean({5, 2}), 0}, 4, false});
  }
  for (double p : {1.0, 3.0, 0.5}) t.push_back({"norm", {f32({3, 5}), 1, p, true}, 20});
  t.push_back({"norm", {f32({3, 5}), 1, 0}, 4, false});
  t.push_back({"norm", {f32({3, 5}, d), 1, std::numeric_limits<double>::infinity()}});
  for (const char* f : {"var", "stddev"}) {
    t.push_back({f, {f32({3, 5}), 1, 0, true}, 20});
    t.push_back({f, {f32({3, 5}), 1, 1.5}, 20});
  }
  for (const Shape& s : {Shape{7}, Shape{3, 5}, Shape{2, 0}}) t.push_back({"cumsum", {f32(s), -1}});
  t.push_back({"cumsum", {f32({2, 3, 4}), 1}});
  t.push_back({"cumsum", {index({5, 2}, 9), 0}, 4, false});
  for (const Shape& s : {Shape{7}, Shape{3, 5}, Shape{2, 0}}) t.push_back({"cumprod", {f32(s), -1}, 20});
  t.push_back({"cumprod", {index({5, 2}, 9), 0}, 4, false});
  for (const char* f : {"argmax", "argmin"}) {
    t.push_back({f, {f32({7}, d)}});
    t.push_back({f, {f32({3, 5}, d), 0, true}});
    t.push_back({f, {f32({0, 5}), 1}});
    t.push_back({f, {index({3, 5}, 4), 1}, 4, false});
  }
  for (const char* order : {"ascending", "descending"}) {
    t.push_back({"argsort", {f32({3, 7}, d), 1, order}});
    t.push_back({"sort", {f32({7, 2}, d), 0, order}});
    t.push_back({"sort", {f32({2, 0}), 1, order}});
    t.push_back({"topk", {f32({3, 7}, d), 2, -1, order}});
    t.push_back({"topk", {f32({5}, d), 5, 0, order}});
  }
}

inline void shape_functions(FunctionRows& t) {
  t.push_back({"reshape", {f32({3, 4}), Shape{2, -1}}});
  t.push_back({"reshape", {f32({0, 4}), Shape{4, 0}}});
  t.push_back({"reshape", {f32({1}), Shape{}}});
  t.push_back({"flatten", {f32({2, 3, 4, 5})}});
  t.push_back({"flatten", {f32({2, 3, 4}), 0, 1}});
  t.push_back({"flatten", {f32({0, 3, 4})}});
  t.push_back({"transpose", {f32({2, 3, 4})}});
  t.push_back({"transpose", {f32({2, 3, 4}), 0, 2}});
  t.push_back({"permute", {f32({2, 3, 4}), Shape{2, 0, 1}}});
  t.push_back({"permute", {f32({2, 0}), Shape{1, 0}}});
  t.push_back({"squeeze", {f32({3, 1, 2}), 1}});
  t.push_back({"unsqueeze", {f32({3, 2}), -1}});
  t.push_back({"broadcast_to", {f32({3, 1}), Shape{2, 3, 4}}});
  t.push_back({"broadcast_to", {f32({1, 3}), Shape{0, 3}}});
  t.push_back({"broadcast_to", {f32({}), Shape{7}}});
  t.push_back({"slice", {f32({17}), 0, 2, 11}});
  t.push_back({"slice", {f32({5, 65}), 1, -60, 64, 13}});
  t.push_back({"slice", {f32({5}), 0, 3, 3}});
  t.push_back({"slice", {f32({5}), 0, 0, 100, 100}});
  t.push_back({"narrow", {f32({5, 3}), 0, 1, 3}});
  t.push_back({"narrow", {f32({5, 3}), 0, 5, 0}});
  t.push_back({"select", {f32({5, 3}), 1, -1}});
  t.push_back({"pad", {f32({3, 2}), Shape{1, 0}, Shape{0, 2}}});
  t.push_back({"pad", {f32({0, 2}), Shape{1, 0}, Shape{2, 0}, 1.5}});
  t.push_back({"pad", {index({3}, 9), Shape{1}, Shape{1}, -1}, 4, false});
  t.push_back({"flip", {f32({5, 3}), 0}});
  t.push_back({"flip", {f32({0, 3}), 0}});
  t.push_back({"roll", {f32({5, 3}), 2, 0}});
  t.push_back({"roll", {f32({5, 3}), -7, 1}});
  t.push_back({"roll", {f32({0, 3}), 1, 0}});
  t.push_back({"repeat", {f32({3, 2}), Shape{3}, 0}});
  t.push_back({"repeat", {f32({3, 2}), Shape{0}, 1}});
  t.push_back({"repeat", {f32({3, 2}), Shape{2, 0, 1}, 0}});
  t.push_back({"tile", {f32({3, 2}), Shape{2, 1, 3}}});
  t.push_back({"tile", {f32({3, 2}), Shape{2}}});
  t.push_back({"diff", {f32({5, 3})}});
  t.push_back({"diff", {f32({5, 3}), 2, 0}});
  t.push_back({"diff", {boolean({5}), 1}, 4, false});
  t.push_back({"concat", {std::vector<Operand>{f32({3, 2}), f32({3, 0}), f32({3, 5})}, 1}});
  t.push_back({"concat", {std::vector<Operand>{f32({3})}, 0}});
  t.push_back({"stack", {std::vector<Operand>{f32({3, 2}), f32({3, 2})}, -1}});
  t.push_back({"stack", {std::vector<Operand>{f32({0}), f32({0})}}});
  t.push_back({"split", {f32({7, 2}), Shape{3, 0, 4}, 0}});
  t.push_back({"chunk", {f32({2, 6}), 3, 1}});
  for (const Shape& s : {Shape{}, Shape{0}, Shape{3, 5}}) {
    for (const char* f : {"zeros", "ones"}) {
      t.push_back({f, {s}});
      t.push_back({f, {s, DType::i64}});
    }
    t.push_back({"full", {s, -2, DType::i32}});
    t.push_back({"full", {s, 0.5, DType::f16}});
    for (const char* f : {"random_uniform", "random_normal"}) t.push_back({f, {s, -1.0, 2.0}});
    t.push_back({"randn", {s}});
    t.push_back({"randint", {-5, 1000, s}});
  }
  t.push_back({"iota", {Shape{3, 4}, 1}});
  t.push_back({"iota", {Shape{0, 4}, 0, DType::f32}});
  t.push_back({"arange", {7}});
  t.push_back({"arange", {0, DType::f64}});
  t.push_back({"arange", {1, 9, 2}});
  t.push_back({"arange", {0.5, 3.0, 0.5}});
  t.push_back({"linspace", {-1.0, 2.0, 7}});
  t.push_back({"linspace", {3.0, 3.0, 1}});
  t.push_back({"eye", {3, 5}});
  t.push_back({"eye", {0}});
}

inline void index_functions(FunctionRows& t) {
  t.push_back({"gather", {f32({7, 3}), index({5}, 7)}});
  t.push_back({"gather", {f32({3, 7}), index({2, 2}, 7, DType::i64), 1}});
  t.push_back({"gather", {f32({3, 7}), index({0}, 3)}});
  t.push_back({"scatter_add", {index({5}, 4), f32({5, 3}), 4}});
  t.push_back({"scatter_add", {index({5}, 4, DType::u8), f32({2, 5}), 9, 1}});
  t.push_back({"scatter_add", {index({0}, 4), f32({0, 3}), 4}});
  t.push_back({"gather_elements", {f32({3, 5}), index({3, 2}, 5)}});
  t.push_back({"gather_elements", {f32({5, 3}), index({2, 3}, 5, DType::i64), 0}});
  t.push_back({"gather_elements", {f32({5}), index({2, 0}, 5), 0}, 4, false});
  t.push_back({"scatter", {f32({7, 3}), index({5}, 7), f32({5, 3})}});
  t.push_back({"scatter", {f32({2, 9}), index({5}, 9, DType::u8), f32({2, 5}), 1}});
  t.push_back({"scatter_elements", {f32({3, 5}), index({3, 2}, 5), f32({3, 2})}});
  t.push_back({"scatter_elements", {f32({5, 3}), index({2, 3}, 5, DType::i64), f32({2, 3}), 0}});
  t.push_back({"index_put", {f32({4, 5, 2}), std::vector<Operand>{index({3, 1}, 4), index({6}, 5)}, f32({6, 2})}});
  t.push_back({"index_put", {f32({4}), std::vector<Operand>{index({3}, 4)}, 2.5}, 4, false});
  t.push_back({"index_put", {f32({4, 3}), std::vector<Operand>{index({6}, 4)}, f32({6, 3}), true}});
  t.push_back({"update_slice", {f32({7, 3}), f32({2, 3}), index({}, 5)}});
  t.push_back({"update_slice", {f32({2, 7}), f32({2, 3}), 4, 1}});
  t.push_back({"searchsorted", {index({9}, 1), index({3, 2}, 2)}, 4, false});
  t.push_back({"searchsorted", {f32({0}), f32({3}), "right"}, 4, false});
  t.push_back({"one_hot", {index({3, 2}, 5), 5}});
  t.push_back({"one_hot", {index({0}, 5), 5, DType::boolean}});
  t.push_back({"bincount", {index({17}, 5), 7}, 4, false});
  t.push_back({"bincount", {index({0}, 5), 3}, 4, false});
  t.push_back({"embedding", {index({2, 3}, 5), f32({5, 4})}});
  t.push_back({"embedding", {index({7}, 5, DType::i64), f32({5, 4}), 2}, 4, false});
  t.push_back({"embedding", {index({2, 3}, 5), f32({5, 4}), 1, 0.5, 3.0, true}, 8, false});  // gradients as if unscaled
}

inline void contraction_functions(FunctionRows& t) {
  struct Pair {
    Shape a, b;
  };
  for (const Pair& p : {Pair{{3, 4}, {4, 5}}, Pair{{4}, {4}}, Pair{{2, 3, 4}, {4, 5}}, Pair{{2, 1, 3, 4}, {5, 4, 2}},
                        Pair{{4}, {2, 4, 3}}, Pair{{3, 0}, {0, 5}}, Pair{{0, 3}, {3, 2}}, Pair{{1, 65}, {65, 1}}}) {
    t.push_back({"matmul", {f32(p.a), f32(p.b)}});
  }
  t.push_back({"linear", {f32({3, 4}), f32({5, 4})}});
  t.push_back({"linear", {f32({2, 3, 4}), f32({5, 4}), f32({5})}});
  t.push_back({"linear", {f32({0, 4}), f32({5, 4}), f32({5})}});
  t.push_back({"einsum", {"bik,bkj->bij", std::vector<Operand>{f32({2, 3, 4}), f32({2, 4, 5})}}});
  t.push_back({"einsum", {"bik,bkj->bij", std::vector<Operand>{f32({1, 3, 1}), f32({2, 4, 5})}}});
  t.push_back({"einsum", {"ij->ji", std::vector<Operand>{f32({3, 4})}}});
  t.push_back({"einsum", {"i,j,ij", std::vector<Operand>{f32({3}), f32({4}), f32({3, 4})}}});
  t.push_back({"conv1d", {f32({2, 4, 9}), f32({6, 2, 3}), f32({6}), 2, 1, 2, 2}});
  t.push_back({"conv1d", {f32({1, 1, 5}), f32({1, 1, 5})}});
  t.push_back({"conv2d", {f32({2, 3, 6, 5}), f32({4, 3, 3, 3}), f32({4}), 1, 1}});
  t.push_back({"conv2d", {f32({1, 4, 9, 9}), f32({6, 2, 3, 2}), NotGiven{}, Shape{7, 1}, Shape{2, 0}, Shape{1, 4}, 2}});
  t.push_back({"conv2d", {f32({0, 2, 4, 4}), f32({3, 2, 3, 3}), f32({3})}});
  t.push_back({"conv2d", {f32({1, 2, 3, 3}), f32({2, 1, 3, 3}), NotGiven{}, 1, 5, 1, 2}});
  t.push_back({"conv_transpose2d", {f32({2, 4, 3, 2}), f32({4, 3, 3, 3}), 2, 1, 1}});
  t.push_back({"conv_transpose2d", {f32({1, 4, 3, 3}), f32({4, 1, 2, 2}), 3, 0, Shape{2, 1}, 2, 2}});
  for (const char* f : {"max_pool1d", "avg_pool1d"}) {
    t.push_back({f, {f32({2, 3, 9}, Fill::distinct)}});
    t.push_back({f, {f32({2, 3, 10}, Fill::distinct), 3, 2, 1, true}});
    t.push_back({f, {f32({0, 3, 9})}});
  }
  t.push_back({"avg_pool1d", {index({2, 3, 10}, 100, DType::i64), 3, 2, 1, true}, 4, false});
  for (const bool ceil_mode : {false, true})
    t.push_back({"avg_pool1d", {f32({2, 3, 10}), 3, 2, 1, ceil_mode, false, NotGiven{}, 5}});
  for (const char* f : {"max_pool2d", "avg_pool2d"}) {
    t.push_back({f, {f32({2, 3, 4, 6}, Fill::distinct)}});
    t.push_back({f, {f32({1, 2, 5, 5}, Fill::distinct), Shape{3, 2}, Shape{1, 7}, Shape{1, 0}, true, false}});
    t.push_back({f, {f32({1, 1, 1, 1}), 1, 65}});
    t.push_back({f, {f32({0, 2, 4, 4})}});
  }
  t.push_back({"max_pool1d", {f32({2, 3, 10}, Fill::distinct), 3, 2, 1, true, true, 2}});
  t.push_back({"max_pool1d_with_indices", {f32({2, 3, 10}, Fill::distinct), 3, 2, 1}});
  t.push_back({"max_pool2d_with_indices", {f32({1, 2, 5, 7}, Fill::distinct), 2, 1, 0, false, true, Shape{1, 4}}});
  t.push_back({"adaptive_avg_pool2d", {f32({2, 3, 7, 5})}});
  t.push_back({"adaptive_avg_pool2d", {f32({2, 3, 7, 5}), Shape{3, 8}}});
  t.push_back({"adaptive_avg_pool2d", {f32({0, 3, 7, 5}), 2}});
}

inline void product_functions(FunctionRows& t) {
  t.push_back({"tensordot", {f32({2, 3, 4}), f32({3, 4, 5})}});
  t.push_back({"tensordot", {f32({3}), f32({4}), 0}});
  t.push_back({"tensordot", {f32({2, 3, 4}), f32({4, 5, 2}), Shape{0, -1}, Shape{2, 0}}});
  t.push_back({"tensordot", {f32({2, 0}), f32({0, 3}), 1}});
  t.push_back({"vecdot", {f32({2, 3}), f32({2, 3})}});
  t.push_back({"vecdot", {f32({4, 1, 3}), f32({5, 3}), -1}});
  t.push_back({"vecdot", {f32({4, 3}), f32({4, 1}), 0}});
  t.push_back({"vecdot", {index({4, 3}, 9), index({4, 3}, 9)}, 4, false});
  t.push_back({"outer", {f32({3}), f32({5})}});
  t.push_back({"outer", {f32({0}), f32({5})}});
  t.push_back({"kron", {f32({2, 3}), f32({4, 1})}});
  t.push_back({"kron", {f32({3}), f32({2, 2})}});
  t.push_back({"kron", {f32({}), f32({2, 0, 2})}});
  t.push_back({"cross", {f32({4, 3}), f32({4, 3})}});
  t.push_back({"cross", {f32({3, 1}), f32({3, 5}), 0}});
  for (const int offset : {-4, -2, 0, 1, 3, 9}) {
    t.push_back({"diagonal", {f32({3, 4}), offset}});
    t.push_back({"matrix_trace", {f32({2, 4, 3}), offset}});
    for (const char* f : {"tril", "triu"}) t.push_back({f, {f32({2, 3, 4}), offset}});
  }
  for (const char* f : {"diagonal", "matrix_trace", "tril", "triu"}) {
    t.push_back({f, {f32({0, 3})}});
    t.push_back({f, {index({3, 3}, 9)}, 4, false});
  }
}

inline void solving_functions(FunctionRows& t) {
  const auto matrix = [](const Shape& s) { return f32(s, Fill::matrix); };
  const auto definite = [](const Shape& s) { return f32(s, Fill::positive_definite); };
  const double slack = 50;
  struct Pair {
    Shape a, b;
  };
  for (const Pair& p : {Pair{{4, 4}, {4, 2}}, Pair{{3, 3}, {3}}, Pair{{2, 3, 3}, {3, 2}}, Pair{{3, 3}, {2, 3, 1}},
                        Pair{{1, 1}, {1}}, Pair{{0, 0}, {0, 2}}, Pair{{2, 3, 3}, {3}}}) {
    t.push_back({"solve", {matrix(p.a), f32(p.b)}, slack});
    for (const char* how : {"pos", "sym", "upper_triangular", "lower_triangular"}) {
      t.push_back({"solve", {definite(p.a), f32(p.b), how, true}, slack});
    }
    for (const bool flag : {false, true}) {
      t.push_back({"cho_solve", {definite(p.a), f32(p.b), flag}, slack});
      t.push_back({"solve_triangular", {definite(p.a), f32(p.b), flag, !flag, flag}, slack});
      Shape rows = p.a;
      rows.erase(rows.rank() - 1);
      t.push_back({"lu_solve", {definite(p.a), Operand{{DType::i32, rows}, Fill::permutation}, f32(p.b), flag}, slack});
    }
  }
  t.push_back({"solve", {definite({3, 3}), f32({3, 2}), "pos"}, slack});
  t.push_back({"solve", {f32({3, 3}, Fill::symmetric), f32({3, 2}), "sym", false}, slack});
  t.push_back({"solve_triangular", {definite({2, 3, 3}), f32({4, 3}), false, false, false, true, false}, slack});
  for (const Shape& s : {Shape{3, 3}, Shape{1, 1}, Shape{2, 3, 3}, Shape{0, 0}, Shape{0, 2, 2}}) {
    for (const char* f : {"inv", "det", "slogdet"}) t.push_back({f, {matrix(s)}, slack});
    for (const int n : {-2, 0, 1, 5}) t.push_back({"matrix_power", {matrix(s), n}, 4 * slack});
    for (const bool upper : {false, true}) t.push_back({"cholesky", {definite(s), upper}, slack});
    for (const bool upper : {false, true}) t.push_back({"mirrored", {matrix(s), upper}, slack});
    t.push_back({"expm", {matrix(s), 2}, 4 * slack});
    t.push_back({"lu_cond", {definite(s), f32(Shape(s.begin(), s.end() - 2), Fill::positive)}, slack});
  }
  for (const Shape& s : {Shape{4, 4}, Shape{5, 3}, Shape{2, 3, 5}, Shape{0, 2}, Shape{2, 0}}) {
    t.push_back({"lu_factor", {matrix(s), true}, slack});
    for (const bool indices : {false, true}) t.push_back({"lu", {matrix(s), indices}, slack});
    for (const char* mode : {"reduced", "complete"}) t.push_back({"qr", {matrix(s), mode}, slack});
  }
  for (const Pair& p : {Pair{{5, 3}, {5, 2}}, Pair{{3, 5}, {3}}, Pair{{2, 4, 4}, {4, 1}}, Pair{{0, 3}, {0}}}) {
    t.push_back({"lstsq", {matrix(p.a), f32(p.b)}, slack});
    t.push_back({"lstsq", {matrix(p.a), f32(p.b), 1e-3, true}, slack});
  }
}

inline void spectral_functions(FunctionRows& t) {
  const double slack = 100;
  for (const Shape& s : {Shape{4, 4}, Shape{1, 1}, Shape{2, 3, 3}, Shape{0, 0}, Shape{0, 2, 2}}) {
    for (const char* f : {"eigh", "eigvalsh"}) {
      for (const bool upper : {false, true}) t.push_back({f, {f32(s, Fill::symmetric), upper}, slack});
    }
    t.push_back({"eig", {f32(s, Fill::spectrum)}, slack});
    t.push_back({"eigvals", {f32(s, Fill::spectrum)}, slack});
  }
  for (const Shape& s : {Shape{4, 4}, Shape{5, 3}, Shape{2, 3, 5}, Shape{1, 4}, Shape{0, 2}}) {
    for (const bool whole : {true, false}) t.push_back({"svd", {f32(s, Fill::matrix), whole}, slack});
    for (const char* f : {"svdvals", "pinv", "matrix_rank"}) t.push_back({f, {f32(s, Fill::matrix)}, slack});
    t.push_back({"matrix_rank", {f32(s, Fill::matrix), 0.9}, slack});
    if (s.numel() == 0) continue;
    for (const char* ord : {"fro", "nuc", "one", "two", "inf", "minus_one", "minus_two", "minus_inf"}) {
      t.push_back({"matrix_norm", {f32(s, Fill::matrix), ord, s.rank() == 3}, slack});
      const bool square = s[0] == s[s.rank() - 1];
      if (square || std::string(ord).ends_with("two")) t.push_back({"cond", {f32(s, Fill::matrix), ord}, slack});
    }
  }
  t.push_back({"matrix_norm", {f32({0, 2})}});
  for (const double ord : {2.0, 1.0, 0.5, -1.0, -2.5}) t.push_back({"vector_norm", {f32({3, 4}), 1, ord, true}, 20});
  for (const double sign : {1.0, -1.0}) {
    t.push_back({"vector_norm", {f32({3, 4}, Fill::distinct), Shape{0, 1}, sign * HUGE_VAL}, 20});
  }
}

inline void loss_functions(FunctionRows& t) {
  const auto reductions = {"mean", "sum", "none"};
  for (const char* r : reductions) {
    t.push_back({"cross_entropy", {f32({5, 7}), index({5}, 7), 0.0, r}});
    t.push_back({"cross_entropy", {f32({5, 7}), f32({5, 7}, Fill::probabilities), 0.2, r}});
    t.push_back({"cross_entropy", {f32({5, 3}), index({5}, 3, DType::i64), 0.1, r, 1}});
    const Operand weight = f32({3}, Fill::positive);
    t.push_back({"cross_entropy", {f32({5, 3}), index({5}, 3), 0.0, r, NotGiven{}, weight}});
    t.push_back({"cross_entropy", {f32({5, 3}), index({5}, 3), 0.1, r, 1, weight}});
    t.push_back({"cross_entropy", {f32({5, 3}), f32({5, 3}, Fill::probabilities), 0.2, r, NotGiven{}, weight}});
    t.push_back({"nll_loss", {f32({5, 7}), index({5}, 7), r}});
    t.push_back({"mse_loss", {f32({3, 4}), f32({3, 4}), r}});
    t.push_back({"l1_loss", {f32({3, 4}), f32({3, 4}, Fill::unit), r}});
    t.push_back({"smooth_l1_loss", {f32({3, 4}), f32({3, 4}, Fill::unit), 0.7, r}});
    t.push_back({"huber_loss", {f32({3, 4}), f32({3, 4}, Fill::unit), 0.7, r}});
    t.push_back({"kl_div", {f32({3, 4}), f32({3, 4}, Fill::probabilities), r}});
    t.push_back({"kl_div", {f32({3, 4}), f32({3, 4}), r, true}});
    t.push_back({"bce_with_logits", {f32({3, 4}), f32({3, 4}, Fill::probabilities), r}});
  }
  for (const char* f : {"mse_loss", "l1_loss", "bce_with_logits"}) t.push_back({f, {f32({3, 4}), 0.25}});
  // No sample at all: the sum is 0, the mean NaN.
  for (const char* r : {"sum", "none", "mean"}) {
    t.push_back({"mse_loss", {f32({0, 4}), f32({0, 4}), r}, 4, false});
    t.push_back({"cross_entropy", {f32({0, 7}), index({0}, 7), 0.0, r}, 4, false});
  }
  t.push_back({"count_correct", {f32({7, 5}, Fill::distinct), index({7}, 5)}, 4, false});
  t.push_back({"count_correct", {f32({0, 5}), index({0}, 5)}, 4, false});
}

inline void network_functions(FunctionRows& t) {
  for (const char* f : {"softmax", "log_softmax"}) {
    t.push_back({f, {f32({3, 5})}});
    t.push_back({f, {f32({2, 65, 3}), 1}});
    t.push_back({f, {f32({0, 4})}});
    t.push_back({f, {f32({3, 1})}});
  }
  const Fill p = Fill::positive;
  for (const Shape& x : {Shape{7, 3}, Shape{2, 3, 4, 5}, Shape{2, 3, 7}}) {
    t.push_back({"batch_norm", {f32(x), f32({3}, p), f32({3})}, 20});
    t.push_back({"batch_norm_inference", {f32(x), f32({3}, p), f32({3}), f32({3}), f32({3}, p), 0.01}, 10});
  }
  t.push_back({"layer_norm", {f32({7, 17}), f32({17}, p), f32({17})}, 20});
  t.push_back({"layer_norm", {f32({2, 3, 4}), f32({3, 4}, p), f32({3, 4}), 0.1}, 20});
  t.push_back({"layer_norm", {f32({0, 4}), f32({4}, p), f32({4})}});
  t.push_back({"group_norm", {f32({2, 6, 3}), 3, f32({6}, p), f32({6})}, 20});
  t.push_back({"group_norm", {f32({3, 4}), 1, f32({4}, p), f32({4})}, 20});
  const Operand q = f32({2, 3, 5, 4}), k = f32({2, 3, 7, 4});
  t.push_back({"attention", {q, k, k}});
  t.push_back({"attention", {q, k, k, true, 0.3, index({2}, 8)}});
  t.push_back({"attention", {f32({0, 3, 5, 4}), f32({0, 3, 7, 4}), f32({0, 3, 7, 4})}});
  const NotGiven all;
  t.push_back({"attention", {q, k, k, false, 0.0, all, boolean({5, 7})}});
  t.push_back({"attention", {q, k, k, true, 0.3, index({2}, 8), boolean({2, 1, 1, 7})}});
  t.push_back({"attention", {q, k, k, false, 0.0, all, f32({3, 5, 7})}});
  t.push_back({"attention", {q, k, k, true, 0.0, all, f32({2, 1, 1, 7})}});
  t.push_back({"attention", {f32({0, 3, 5, 4}), f32({0, 3, 7, 4}), f32({0, 3, 7, 4}), false, 0.0, all, boolean({7})}});
  t.push_back({"attention_weights", {q, k}});
  t.push_back({"attention_weights", {q, k, true, 0.3, index({2}, 8)}});
  t.push_back({"attention_weights", {q, k, false, 0.0, all, boolean({2, 3, 5, 7})}});
  t.push_back({"attention_weights", {q, k, false, 0.0, all, f32({5, 7})}});
  const Operand counts = index({3}, 5), x = f32({3, 4, 6}, Fill::unit), inside = f32({5}, Fill::unit);
  const auto unit = [](const Shape& s) { return f32(s, Fill::unit); };
  for (const bool reverse : {false, true}) {
    t.push_back({"lstm", {unit({3, 4, 20}), unit({20, 5}), reverse, counts}, 20});
    t.push_back({"gru", {unit({3, 4, 15}), unit({15, 5}), inside, reverse, counts}, 20});
    t.push_back({"lstm_layer", {x, unit({20, 6}), unit({20}), unit({20, 5}), reverse, counts}, 20});
    t.push_back({"gru_layer", {x, unit({15, 6}), unit({15}), unit({15, 5}), inside, reverse, counts}, 20});
  }
  t.push_back({"lstm", {unit({1, 1, 4}), unit({4, 1})}, 20});
  t.push_back({"gru", {unit({1, 1, 3}), unit({3, 1}), unit({1})}, 20});
}

// The rows of pointwise ops are samples of the functions of their names that have none above.
inline void functions_of_ops(FunctionRows& t) {
  std::set<std::string> sampled;
  for (const FunctionRow& row : t) sampled.insert(row.function);
  for (const OpRow& row : op_rows()) {
    const std::string function = name(row.op);
    if (!is_pointwise(row.op) || sampled.contains(function) || functions_named(function).empty()) continue;
    const std::vector<SampleArgument> operands(row.in.begin(), row.in.end());
    t.push_back({function, operands, std::max(row.slack, 4.0)});
  }
}

}  // namespace rows

inline const std::vector<FunctionRow>& function_rows() {
  static const std::vector<FunctionRow> kRows = [] {
    std::vector<FunctionRow> t;
    rows::elementwise_functions(t);
    rows::reduce_functions(t);
    rows::shape_functions(t);
    rows::index_functions(t);
    rows::contraction_functions(t);
    rows::product_functions(t);
    rows::solving_functions(t);
    rows::spectral_functions(t);
    rows::loss_functions(t);
    rows::network_functions(t);
    rows::functions_of_ops(t);
    return t;
  }();
  return kRows;
}

// The overload that takes these arguments: as many required ones, and of equal kinds where names are equal.
inline const Signature& signature_of(const FunctionRow& row) {
  for (const Signature* s : functions_named(row.function)) {
    size_t required = 0;
    for (const Parameter& p : s->parameters) required += p.required;
    if (row.arguments.size() >= required && row.arguments.size() <= s->parameters.size()) return *s;
  }
  fail(ErrorKind::usage, row.function.c_str(), "no overload takes the arguments of ", to_string(row));
}

// A view of x, of the operand's shape, whose elements lie in other places: large strides, gaps, an axis of stride 0.
inline Tensor through_view(const Tensor& x, const Operand& o, Through through) {
  if (!has_view(o, through)) return x;
  if (through == Through::broadcast) return broadcast_to(x, o.type.shape);
  if (through == Through::transpose) return permute(x, view_order(o));
  Tensor y = x;
  for (int axis = 0; axis < x.rank(); ++axis) y = slice(y, axis, 1, x.shape()[axis], 2);
  return y;
}

// State leaves (random keys, parameters, statistics) become inputs, the next values of floating ones become outputs: a
// case is a function of its inputs.
inline Graph states_as_inputs(const Graph& g) {
  Rewriter r(g);
  for (const Node& n : g.nodes) {
    if (n.op == Op::state) {
      r.replace(n.out(), r.dst.add(Op::input, n.attrs, {}, n.scope, n.where)[0]);
    } else {
      r.copy(n);
    }
  }
  Graph out = r.finish();
  for (const Update& u : out.updates) {
    if (is_floating(out.type(u.next).dtype)) out.outputs.push_back(u.next);
  }
  out.updates.clear();
  return passes::dead_code(out);
}

// A sample that is being traced.
struct Traced {
  const FunctionRow& row;
  Through through;
};

// Calls the sample's function on the inputs of the trace.
inline std::vector<Tensor> call(const Traced& traced, const std::vector<Tensor>& in) {
  const std::vector<Operand> operands = traced.row.operands();
  std::vector<ArgumentValue> values;
  size_t next = 0;
  const auto tensor = [&] {
    const Tensor x = through_view(in[next], operands[next], traced.through);
    ++next;
    return x;
  };
  for (const SampleArgument& a : traced.row.arguments) {
    if (const auto* list = std::get_if<std::vector<Operand>>(&a.is)) {
      std::vector<Tensor> tensors;
      for (size_t i = 0; i < list->size(); ++i) tensors.push_back(tensor());
      values.push_back(a.many ? ArgumentValue(tensors) : ArgumentValue(tensors[0]));
    } else {
      values.push_back(std::get<ArgumentValue>(a.is));
    }
  }
  return invoke(signature_of(traced.row), values);
}

// The graph that a program traces which calls the function on inputs of these types.
inline Graph graph_of(const FunctionRow& row, Through through = Through::nothing) {
  Traced traced{row, through};
  std::vector<Type> types;
  const std::vector<Operand> operands = row.operands();
  for (size_t i = 0; i < operands.size(); ++i) types.push_back(type_behind(operands[i], through, i));
  const std::vector<freight::Argument> arguments(types.begin(), types.end());
  const auto body = [](void* context, const detail::TensorList& in) {
    return detail::TensorList{call(*static_cast<Traced*>(context), in.tensors), {}};
  };
  CompiledFunction function({});
  return unambiguous(states_as_inputs(function.graph({arguments, {}, body, &traced})));
}

// Elements for the inputs of a traced sample: its operands, and keys for the random ops.
inline OpCase case_of(const FunctionRow& row, Through through = Through::nothing, uint64_t seed = 1) {
  OpCase c{to_string(row), graph_of(row, through), {}, row.slack};
  const std::vector<Operand> operands = row.operands();
  for (const Value v : c.graph.leaves(Op::input)) {
    const std::string& leaf = leaf_name(c.graph, v);
    Operand o{c.graph.type(v), Fill::key};
    if (leaf.starts_with("x")) {
      const size_t at = std::stoul(leaf.substr(1));
      // Behind the operands come arrays that the function made itself (linspace); any elements do.
      o.fill = at < operands.size() ? operands[at].fill : Fill::normal;
      o.bound = at < operands.size() ? operands[at].bound : 0;
    }
    c.inputs.push_back(random_array(o, seed + c.inputs.size()));
  }
  return c;
}

// Names of the functions that have rows, for tests that are instantiated per function; all overloads in one.
inline std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const Signature& s : public_functions()) {
    if (s.on_host) continue;  // unique_test.cpp: they have no graph
    if (std::find(names.begin(), names.end(), s.name) == names.end()) names.push_back(s.name);
  }
  return names;
}

}  // namespace freight::test
