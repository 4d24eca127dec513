// Arithmetic of integers of every type: NumPy's operands and results, and the graphs that compute them here, for the
// tests of the backends.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"

#include "tests/ops/carried_types.h"

namespace freight::test {

inline std::vector<DType> integer_types() { return dtypes::kInteger.list(); }

struct IntegerRow {
  const char *of, *what, *type;
  std::vector<int64_t> shape;
  const char* bytes;
};
inline const std::vector<IntegerRow>& integer_rows() {
  static const std::vector<IntegerRow> kRows = {
#include "tests/ops/integer_rows.inc"
  };
  return kRows;
}

// NumPy's arrays of one type, by name.
inline std::map<std::string, Array> integer_arrays(DType dtype) {
  std::map<std::string, Array> arrays;
  for (const IntegerRow& row : integer_rows()) {
    if (row.of == freight::to_string(dtype)) arrays[row.what] = of_hex(row.type, row.bytes).reshaped(Shape(row.shape));
  }
  return arrays;
}

// The operands of the functions, in this order.
inline const std::vector<std::string> kIntegerOperands = {"a", "b", "counts", "powers", "m", "p"};
struct IntegerFunction {
  std::string name;
  std::function<Tensor(const std::vector<Tensor>& operands)> call;
};
inline const std::vector<IntegerFunction>& integer_functions() {
  using In = const std::vector<Tensor>&;
  static const std::vector<IntegerFunction> kFunctions = {
      {"add", [](In x) { return x[0] + x[1]; }},
      {"subtract", [](In x) { return x[0] - x[1]; }},
      {"multiply", [](In x) { return x[0] * x[1]; }},
      {"floor_divide", [](In x) { return floor_divide(x[0], x[1]); }},
      {"remainder", [](In x) { return remainder(x[0], x[1]); }},
      {"fmod", [](In x) { return fmod(x[0], x[1]); }},
      {"negative", [](In x) { return -x[0]; }},
      {"abs", [](In x) { return abs(x[0]); }},
      {"sign", [](In x) { return sign(x[0]); }},
      {"square", [](In x) { return square(x[0]); }},
      {"pow", [](In x) { return pow(x[0], x[3]); }},
      {"maximum", [](In x) { return maximum(x[0], x[1]); }},
      {"minimum", [](In x) { return minimum(x[0], x[1]); }},
      {"less", [](In x) { return x[0] < x[1]; }},
      {"less_equal", [](In x) { return x[0] <= x[1]; }},
      {"greater", [](In x) { return x[0] > x[1]; }},
      {"greater_equal", [](In x) { return x[0] >= x[1]; }},
      {"equal", [](In x) { return equal(x[0], x[1]); }},
      {"not_equal", [](In x) { return not_equal(x[0], x[1]); }},
      {"bitwise_and", [](In x) { return bitwise_and(x[0], x[1]); }},
      {"bitwise_or", [](In x) { return bitwise_or(x[0], x[1]); }},
      {"bitwise_xor", [](In x) { return bitwise_xor(x[0], x[1]); }},
      {"bitwise_invert", [](In x) { return bitwise_invert(x[0]); }},
      {"shift_left", [](In x) { return shift_left(x[0], x[2]); }},
      {"shift_right", [](In x) { return shift_right(x[0], x[2]); }},
      {"where", [](In x) { return where(x[0] < x[1], x[0], x[1]); }},
      {"sum", [](In x) { return sum(x[4], 1); }},
      {"prod", [](In x) { return prod(x[4], 1); }},
      {"max", [](In x) { return max(x[4], 1); }},
      {"min", [](In x) { return min(x[4], 1); }},
      {"any", [](In x) { return any(x[4], 1); }},
      {"all", [](In x) { return all(x[4], 1); }},
      {"argmax", [](In x) { return argmax(x[4], 1); }},
      {"argmin", [](In x) { return argmin(x[4], 1); }},
      {"matmul", [](In x) { return matmul(x[4], x[5]); }},
      {"cumsum", [](In x) { return cumsum(x[4], 1); }},
      {"sort", [](In x) { return sort(x[4], 1).values; }},
      {"argsort", [](In x) { return argsort(x[4], 1); }},
  };
  return kFunctions;
}

// The graph of some of the functions on operands of these types, as a program traces it.
inline Graph integer_graph(const std::vector<Type>& types, const std::vector<IntegerFunction>& functions) {
  struct Context {
    const std::vector<IntegerFunction>& functions;
  } context{functions};
  const std::vector<freight::Argument> arguments(types.begin(), types.end());
  const auto body = [](void* c, const detail::TensorList& in) {
    std::vector<Tensor> results;
    for (const IntegerFunction& f : static_cast<Context*>(c)->functions) results.push_back(f.call(in.tensors));
    return detail::TensorList{results, {}};
  };
  CompiledFunction function({});
  return function.graph({arguments, {}, body, &context});
}

// Expects NumPy's results of all functions in a type, each function in a graph of its own or all in one.
template <class Run>
void expect_numpys_integers(DType dtype, bool together, const Run& run) {
  const std::map<std::string, Array> arrays = integer_arrays(dtype);
  std::vector<Array> in;
  std::vector<Type> types;
  for (const std::string& name : kIntegerOperands) {
    in.push_back(arrays.at(name));
    types.push_back({in.back().dtype(), in.back().shape()});
  }
  const auto check = [&](const std::vector<IntegerFunction>& functions) {
    const std::vector<Array> out = run(integer_graph(types, functions), in);
    ASSERT_EQ(out.size(), functions.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const Array& need = arrays.at(functions[i].name);
      EXPECT_EQ(Type(out[i].dtype(), out[i].shape()), Type(need.dtype(), need.shape())) << functions[i].name;
      if (same_bytes(out[i], need)) continue;
      ADD_FAILURE() << functions[i].name << " in " << dtype << ": got "
                    << ::testing::PrintToString(out[i].to_vector<int64_t>()) << ", NumPy has "
                    << ::testing::PrintToString(need.to_vector<int64_t>());
    }
  };
  if (together) return check(integer_functions());
  for (const IntegerFunction& f : integer_functions()) check({f});
}

}  // namespace freight::test
