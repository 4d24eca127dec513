// The element types of every type rule; see infer.h. They stand here alone: infer_types checks them, signatures and
// documents show them.
#include <algorithm>

#include "freight/base/error.h"
#include "freight/ir/infer.h"

namespace freight {

namespace {

struct TypesOfRules {
  DTypes types;
  std::vector<InferFn> rules;
};
const std::vector<TypesOfRules>& types_of_rules() {
  using namespace infer;
  static const std::vector<TypesOfRules> kTypes = {
      {dtypes::kAll,
       {leaf, constant, any, equality, cast, infer::where, reshape, slice, pad, concat, transpose, broadcast, gather,
        gather_elements, scatter, scatter_elements, random, infer::fused}},
      {dtypes::kReal, {iota, predicate, arg_reduce, argsort, max_pool, max_pool_grad, embedding}},
      {dtypes::kNumber, {same, reduce, scatter_add, scatter_elements_add, matmul}},
      {dtypes::kInteger, {whole, check_index, one_hot}},
      {dtypes::kBool, {logical}},
      {dtypes::kDouble,
       {single_or_double, lu_factor, infer::cholesky, qr, solve_triangular, eigh, svd, eig, lstsq, solve}},
      {dtypes::kFloating,
       {floating, conv, conv_grad_input, conv_grad_weight, avg_pool, avg_pool_grad, adaptive_avg_pool, along_axis,
        moments, batch_norm, batch_norm_inference, layer_norm, group_norm, dropout}},
      {dtypes::kFloating,
       {cross_entropy, attention, attention_grad, recurrent, recurrent_grad, recurrent_layer, recurrent_layer_grad,
        sgd_rows, sgd_update, adam_update}},
  };
  return kTypes;
}

// Those without arithmetic.
DTypes carried_types() {
  DTypes types;
  for (const DType t : dtypes::kAll.list()) {
    if (!computes(t)) types = types | DTypes{t};
  }
  return types;
}

}  // namespace

DTypes element_types(InferFn rule) {
  for (const TypesOfRules& t : types_of_rules()) {
    if (std::find(t.rules.begin(), t.rules.end(), rule) == t.rules.end()) continue;
    return t.types == dtypes::kAll ? t.types : t.types.without(carried_types());
  }
  fail(ErrorKind::usage, "element_types", "a type rule has no element types: add it to types_of_rules (ir/infer.cpp)");
}

std::string refusal(const Type& got, DTypes expected) {
  const char* mend = is_complex(got.dtype) ? "Freight stores and moves complex numbers but has no arithmetic on them"
                                           : "cast it first";
  return cat("does not compute in ", got.dtype, ": expected ", to_string(expected), ", got ", got, "; ", mend);
}

}  // namespace freight
