// NaN, infinities, -0 and subnormal numbers in every operand of every op, at places that vectors, their tails and tiles
// see: the planned step gives what the definition gives, for each implementation that a plan may choose. Written
// because an activation that rode on a product turned NaN into 0, so that a lost run looked like a sound one.
#include "tests/ops/nonfinite.h"

#include "freight/backend/choices.h"

namespace freight::test {
namespace {

// Without a mask, NaN in queries, keys or values reaches the result.
TEST(NonfiniteAttention, NanIsNotLost) {
  for (const OpRow& row : op_rows()) {
    if (row.op != Op::attention && row.op != Op::attention_grad) continue;
    const auto& a = std::get<AttentionAttrs>(row.attrs);
    if (a.causal || a.lengths || a.mask || row.in[0].type.numel() == 0) continue;
    const Graph g = graph_of(row);
    for (size_t k = 0; k < row.in.size(); ++k) {
      std::vector<Array> inputs = inputs_of(row, g, 1);
      inputs[k] = planted(inputs[k], inputs[k].numel() / 2, kNan);
      if (all_finite(interpret(g, inputs))) continue;
      EXPECT_FALSE(all_finite(run_planned("cpu", g, inputs))) << "operand " << k << " of " << to_string(row);
    }
  }
}

class Nonfinite : public testing::TestWithParam<Op> {};

TEST_P(Nonfinite, GivesWhatTheDefinitionGives) {
  for (const OpCase& c : cases_with_gradients(GetParam())) check_planted({c}, "cpu", 1e-4);
}

TEST_P(Nonfinite, GivesWhatTheDefinitionGivesIn16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const OpCase& c : cases_in(GetParam(), dtype)) check_planted({c}, "cpu", 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Nonfinite, testing::ValuesIn(ops_with_rows()),
                         [](const auto& instance) { return std::string(name(instance.param)); });

class NonfiniteJoined : public testing::TestWithParam<std::tuple<DType, size_t>> {};

TEST_P(NonfiniteJoined, EveryChoiceGivesWhatTheDefinitionGives) {
  const auto [dtype, choice] = GetParam();
  clear_plan_cache();  // plans made under another choice
  const ForcedChoice forced(choice);
  for (const OpCase& c : joined_cases(dtype)) check_planted({c}, "cpu", 1e-4);
  clear_plan_cache();
}

INSTANTIATE_TEST_SUITE_P(Choices, NonfiniteJoined,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(0u, 1u, 2u, 3u)),
                         [](const auto& instance) {
                           return cat(std::get<0>(instance.param), "_choice", std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace freight::test
