// Checks that any case passes, be it of an op, a function or a layer: gradients against differences to second order,
// equal bits on a repeat, the text form. The comparison with the oracle on a device is in op_suite.h. All cases take
// seconds on a CPU; where a device's compiler takes longer, a part is drawn, and FREIGHT_LONG=1 takes all.
#pragma once
#include <cstdlib>
#include <cstring>

#include "tests/ops/op_suite.h"

namespace freight::test {

inline bool all_cases() { return std::getenv("FREIGHT_LONG") != nullptr; }

// Whether a costly check takes the case with this name: one of `among` by a hash of it, so that rows that are added
// change nothing for the others.
inline bool drawn(const std::string& what, uint32_t among) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : what) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return all_cases() || (hash >> 8) % among == 0;
}

inline bool is_probed(const OpCase& c) {
  int64_t elements = 0;
  for (const Array& a : c.inputs) elements += is_floating(a.dtype()) ? a.numel() : 0;
  return elements > 0 && elements <= 3000 && !has_choices(c.graph);
}

inline ::testing::AssertionResult gradients_agree_with_differences(const OpCase& c) {
  Graph g = retype(c.graph, DType::f64);
  const std::vector<Array> inputs = retype(c.inputs, DType::f64);
  const Value loss = weighted_sum(g, g.outputs, 100);
  if (!loss.valid()) return ::testing::AssertionSuccess();
  if (const auto first = gradient_agrees(g, loss, inputs, 1e-6, 6); !first) return first;
  const Value slope = weighted_sum(g, grad(g, loss, floating_inputs(g)), 200);
  if (!slope.valid()) return ::testing::AssertionSuccess();
  const auto second = gradient_agrees(g, slope, inputs, 1e-5, 6);
  return second ? second : ::testing::AssertionFailure() << second.message() << " (second order)";
}

// Two runs give equal bits.
inline ::testing::AssertionResult repeats_itself(const OpCase& c, const std::string& backend) {
  const std::vector<Array> first = run_planned(backend, c.graph, c.inputs);
  const std::vector<Array> second = run_planned(backend, c.graph, c.inputs);
  for (size_t i = 0; i < first.size(); ++i) {
    if (std::memcmp(first[i].raw(), second[i].raw(), first[i].bytes()) != 0) {
      return ::testing::AssertionFailure() << "output " << i << " has other bits on the second run on " << backend;
    }
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult text_form_round_trips(const OpCase& c) {
  verify(c.graph);
  const std::string text = print(c.graph);
  const Graph back = parse(text);
  verify(back);
  // Source lines are comments, so the text is compared from the second time on.
  if (structurally_equal(c.graph, back) && print(parse(print(back))) == print(back)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << text << "is read as\n" << print(back);
}

}  // namespace freight::test
