// The element types that signatures state (Parameter::dtypes) are those that the functions take: every sample of every
// function is traced in every type.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "freight/base/dtypes.h"
#include "tests/ops/function_rows.h"
#include "tests/support/error_of.h"

namespace freight::test {
namespace {

// The number of the parameter that each operand of a sample belongs to.
std::vector<size_t> parameters_of(const FunctionRow& row) {
  std::vector<size_t> of;
  for (size_t i = 0; i < row.arguments.size(); ++i) {
    if (const auto* list = std::get_if<std::vector<Operand>>(&row.arguments[i].is))
      of.insert(of.end(), list->size(), i);
  }
  return of;
}

// Numbers beside tensors make another type of theirs (i8 + 1.5 is f32), or need one that holds them.
bool has_number_for_tensor(const FunctionRow& row) {
  const Signature& s = signature_of(row);
  for (size_t i = 0; i < row.arguments.size(); ++i) {
    const auto* value = std::get_if<ArgumentValue>(&row.arguments[i].is);
    if (value && !std::holds_alternative<NotGiven>(*value) && s.parameters[i].kind == Parameter::Kind::tensor)
      return true;
  }
  return false;
}

// The row with those operands in another type of which `changes` is true.
FunctionRow in_type(FunctionRow row, DType dtype, const std::function<bool(const Operand&)>& changes) {
  for (SampleArgument& a : row.arguments) {
    if (auto* list = std::get_if<std::vector<Operand>>(&a.is)) {
      for (Operand& o : *list) {
        if (changes(o)) o.type.dtype = dtype;
      }
    }
  }
  return row;
}

// Operands change their types together with those of their kind: numbers with numbers, indices with indices.
enum class OperandKind { floating, integer, boolean };
OperandKind kind_of(const Operand& o) {
  return is_floating(o.type.dtype)  ? OperandKind::floating
         : is_integer(o.type.dtype) ? OperandKind::integer
                                    : OperandKind::boolean;
}

struct Trial {
  bool expected = false, taken = false;
  std::string refusal;
};

TEST(ElementTypes, OfSignaturesAreThoseThatFunctionsTake) {
  std::map<std::string, std::map<DType, Trial>> trials;  // by function and parameters
  for (const FunctionRow& row : function_rows()) {
    if (has_number_for_tensor(row)) continue;
    const Signature& s = signature_of(row);
    const std::vector<size_t> parameters = parameters_of(row);
    const std::vector<Operand> operands = row.operands();
    for (const OperandKind kind : {OperandKind::floating, OperandKind::integer, OperandKind::boolean}) {
      std::string key = s.name + "(";
      DTypes stated = dtypes::kAll;
      size_t first = operands.size();
      for (size_t i = 0; i < operands.size(); ++i) {
        if (kind_of(operands[i]) != kind) continue;
        const Parameter& p = s.parameters[parameters[i]];
        key += (first == operands.size() ? "" : ", ") + p.name;
        for (const DType t : stated.list()) stated = p.dtypes.has(t) ? stated : stated.without({t});
        first = std::min(first, i);
      }
      if (first == operands.size()) continue;
      for (const DType t : dtypes::kAll.list()) {
        // Probabilities in place of classes, and masks in place of indices, have another shape.
        const bool masks = stated == (dtypes::kInteger | dtypes::kBool) && t == DType::boolean;
        if ((is_floating(t) || masks) && kind == OperandKind::integer && stated.has(t)) continue;
        Trial& trial = trials[key + ")"][t];
        trial.expected = stated.has(t);
        if (trial.taken) continue;
        // In 16 bits some want weights and statistics in f32.
        for (const bool only_first : {false, true}) {
          size_t at = 0;
          const FunctionRow changed = in_type(row, t, [&](const Operand& o) {
            const size_t i = at++;
            return kind_of(o) == kind && (!only_first || i == first);
          });
          try {
            graph_of(changed);
            trial.taken = true;
          } catch (const Error& e) {
            EXPECT_EQ(e.kind(), ErrorKind::usage) << to_string(changed) << ": " << e.what();
            if (trial.refusal.empty()) trial.refusal = e.what();
          }
        }
      }
    }
  }
  EXPECT_GT(trials.size(), 180u);
  for (const auto& [parameters, by_type] : trials) {
    for (const auto& [t, trial] : by_type) {
      EXPECT_EQ(trial.taken, trial.expected) << parameters << " in " << t << ": " << trial.refusal;
    }
  }
}

TEST(ElementTypes, AreStatedForTensorsAlone) {
  for (const Signature& s : public_functions()) {
    for (const Parameter& p : s.parameters) {
      const bool tensor = p.kind == Parameter::Kind::tensor || p.kind == Parameter::Kind::tensors;
      EXPECT_EQ(p.dtypes.empty(), !tensor) << s.name << " " << p.name;
    }
  }
  EXPECT_EQ(types_text(*functions_named("softmax")[0]), "floating");
  EXPECT_EQ(types_text(*functions_named("gather")[0]), "all; index: integers");
  EXPECT_EQ(types_text(*functions_named("zeros")[0]), "");
}

TEST(ElementTypes, OfOpsAreThoseOfTheirTypeRules) {
  for (int i = 0; i < kOpCount; ++i) EXPECT_FALSE(element_types(info(static_cast<Op>(i)).infer).empty()) << i;
  EXPECT_EQ(element_types(info(Op::exp).infer), dtypes::kFloating);
  EXPECT_EQ(element_types(info(Op::logical_and).infer), dtypes::kBool);
  EXPECT_EQ(element_types(info(Op::reshape).infer), dtypes::kAll);
}

}  // namespace
}  // namespace freight::test
