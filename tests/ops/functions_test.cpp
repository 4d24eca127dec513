// Every public function, generated from function_rows.h: what a program traces that calls it, on every backend against
// the oracle in f64, in 16 bits, with views as operands; gradients against differences to second order; the type of the
// result; equal bits on a repeat; the text form; and that its errors name it and the caller's line.
#include "tests/ops/function_rows.h"

#include <map>
#include <set>

#include "freight/base/error.h"
#include "tests/support/error_of.h"

#include "tests/ops/case_checks.h"
#include "tests/ops/nonfinite.h"

namespace freight::test {
namespace {

class Functions : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<FunctionRow> rows() const {
    std::vector<FunctionRow> found;
    for (const FunctionRow& row : function_rows()) {
      if (row.function == GetParam()) found.push_back(row);
    }
    return found;
  }
};

TEST_P(Functions, HasASampleOfEveryOverload) {
  std::set<const Signature*> sampled;
  for (const FunctionRow& row : rows()) sampled.insert(&signature_of(row));
  EXPECT_EQ(sampled.size(), functions_named(GetParam()).size());
}

TEST_P(Functions, AgreesWithTheOracle) {
  for (const FunctionRow& row : rows()) {
    OpCase c = case_of(row);
    c.graph = with_gradients(c.graph);
    compare_with_oracle({c}, computing_backends());
  }
}

TEST_P(Functions, AgreesWhenOperandsAreViews) {
  for (const FunctionRow& row : rows()) {
    for (const Through through : {Through::transpose, Through::slice, Through::broadcast}) {
      // Elements that are all alike have a deviation of 0, of which only the rounding would be compared.
      if (through == Through::broadcast && row.function == "stddev") continue;
      compare_with_oracle({case_of(row, through, 2)}, computing_backends());
    }
  }
}

// The function is called on operands of the type, not its graph made over: what it makes of them is checked, too.
TEST_P(Functions, KeepsTheFloatingTypeOfItsOperands) {
  for (FunctionRow row : rows()) {
    for (const DType dtype : {DType::f64, DType::bf16, DType::f16}) {
      FunctionRow other = row;
      bool floating = false;
      for (SampleArgument& a : other.arguments) {
        if (auto* list = std::get_if<std::vector<Operand>>(&a.is)) {
          for (Operand& o : *list) {
            if (!is_floating(o.type.dtype)) continue;
            o.type.dtype = dtype;
            floating = true;
          }
        }
      }
      const bool says_type = std::any_of(row.arguments.begin(), row.arguments.end(), [](const SampleArgument& a) {
        const auto* value = std::get_if<ArgumentValue>(&a.is);
        return value && std::holds_alternative<DType>(*value);
      });
      if (!floating || says_type) continue;
      SCOPED_TRACE(to_string(other));
      const Graph plain = graph_of(row);
      std::optional<OpCase> c;
      try {
        c = case_of(other, Through::nothing, 3);
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
        continue;
      }
      for (size_t i = 0; i < plain.outputs.size(); ++i) {
        const DType was = plain.type(plain.outputs[i]).dtype, is = c->graph.type(c->graph.outputs[i]).dtype;
        EXPECT_TRUE(is == (was == DType::f32 ? dtype : was) || is == wide(dtype))
            << "result " << i << " is " << cat(is);
      }
      compare_with_oracle({*c}, {"cpu"});
    }
  }
}

TEST_P(Functions, HasTheGradientOfDifferencesToSecondOrder) {
  for (const FunctionRow& row : rows()) {
    if (!row.smooth) continue;
    const OpCase c = case_of(row, Through::nothing, 11);
    if (is_probed(c)) {
      EXPECT_TRUE(gradients_agree_with_differences(c)) << c.what;
    }
  }
}

TEST_P(Functions, RepeatsItselfAndRoundTripsAsText) {
  for (const FunctionRow& row : rows()) {
    OpCase c = case_of(row, Through::slice, 5);
    c.graph = with_gradients(c.graph);
    EXPECT_TRUE(text_form_round_trips(c)) << c.what;
    EXPECT_TRUE(repeats_itself(c, "cpu")) << c.what;
  }
}

TEST_P(Functions, GivesWhatTheDefinitionGivesAtNumbersThatAreNotFinite) {
  for (const FunctionRow& row : rows()) {
    check_planted({case_of(row)}, "cpu", 1e-4, 4);
  }
}

// An operand of another rank, and one of another kind of element: where a function refuses it, the message begins with
// the function's name and ends with the caller's line.
TEST_P(Functions, NamesItselfInItsErrors) {
  const std::string name = GetParam();
  int refused = 0, tried = 0;
  std::set<std::string> seen;
  for (const FunctionRow& row : rows()) {
    for (size_t at = 0; at < row.arguments.size(); ++at) {
      const auto* list = std::get_if<std::vector<Operand>>(&row.arguments[at].is);
      if (!list) continue;
      for (const Type& wrong : {Type{DType::boolean, list->front().type.shape}, Type{DType::f32, {2, 3, 1, 2, 1, 5, 7}},
                                Type{DType::i32, {11, 13}}}) {
        FunctionRow bad = row;
        std::get<std::vector<Operand>>(bad.arguments[at].is).front() =
            Operand{wrong, is_floating(wrong.dtype) ? Fill::normal : Fill::index, 2};
        ++tried;
        const std::string text = freight::testing::message_of([&] { graph_of(bad); });
        if (text == "no error") continue;
        ++refused;
        if (!seen.insert(text).second) continue;
        EXPECT_EQ(text.substr(0, text.find(':')), name) << to_string(bad) << ": " << text;
        EXPECT_NE(text.find("function_rows.h:"), std::string::npos) << to_string(bad) << ": " << text;
      }
    }
  }
  if (tried > 0 && refused == 0) {
    // These take whatever tensor they are given.
    const std::set<std::string> all_taken = {
        "cast",         "stop_gradient", "is_finite", "sort",  "argsort",   "argmax", "argmin", "cumsum",
        "flatten",      "flip",          "select",    "slice", "unsqueeze", "tril",   "triu",   "diagonal",
        "matrix_trace", "is_nan",        "is_inf",    "roll",  "diff",      "tile",   "cumprod"};
    EXPECT_TRUE(all_taken.contains(name)) << name << " refuses nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Public, Functions, ::testing::ValuesIn(function_names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace freight::test
