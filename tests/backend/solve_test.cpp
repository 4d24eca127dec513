// Plans of `solve` on the CPU: many small systems are one step (kernels/lane_factor.h), and where a gradient is wanted
// the factors serve both ways. The numbers and the faults are those of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/ir/builder.h"
#include "freight/passes/passes.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"

namespace freight {
namespace {

Array random_numbers(const Type& type, uint64_t seed) {
  Array a(type.dtype, type.shape);
  PhiloxStream r(seed, 0, 1);
  for (int64_t i = 0; i < a.numel(); ++i) {
    const float v = r.uniform(-1, 1);
    if (type.dtype == DType::f64) {
      a.data<double>()[i] = static_cast<double>(v);
    } else {
      a.data<float>()[i] = v;
    }
  }
  return a;
}

// x of a x = b; a's last two axes are exchanged first where `turned`.
Graph system_graph(const Type& a, const Type& b, bool turned = false) {
  Graph g;
  Builder builder(g);
  Value left = builder.one(Op::input, LeafAttrs{"a", a}, {});
  const Value right = builder.one(Op::input, LeafAttrs{"b", b}, {});
  if (turned) {
    Shape perm = a.shape;
    for (int i = 0; i < perm.rank(); ++i) perm[i] = i;
    std::swap(perm[perm.rank() - 2], perm[perm.rank() - 1]);
    left = builder.transpose(left, perm);
  }
  g.outputs = {builder.one(Op::solve, {}, {left, right})};
  return g;
}

RunOptions options_on(const std::string& backend) {
  RunOptions o;
  o.backend = backend;
  o.deterministic = true;
  return o;
}

std::vector<double> solved(const Graph& g, const std::vector<Array>& in, const std::string& on) {
  Executable step(plan_for(g, options_on(on)), {});
  std::vector<Array> out;
  for (Value v : g.outputs) out.emplace_back(g.type(v).dtype, g.type(v).shape);
  step.run(in, out);
  return out[0].to_vector<double>();
}

std::vector<std::string> kernels_of(const Graph& g) {
  std::vector<std::string> names;
  const auto plan = plan_for(g, options_on("cpu"));
  for (const PlanStep& s : plan->steps()) names.push_back(s.kernel->name());
  return names;
}

TEST(Solve, ManySmallSystemsAreOneStep) {
  const Type a{DType::f64, {50, 16, 16}};
  EXPECT_EQ(kernels_of(system_graph(a, {DType::f64, {50, 16, 1}})), std::vector<std::string>{"solve:lanes"});
  for (const Type& b : {Type{DType::f64, {50, 16, 1}}, Type{DType::f64, {50, 16, 9}}}) {
    for (const bool turned : {false, true}) {
      const Graph g = system_graph(a, b, turned);
      const std::vector<Array> in = {random_numbers(a, 1), random_numbers(b, 2)};
      const std::vector<double> got = solved(g, in, "cpu"), need = solved(g, in, "ref");
      for (size_t i = 0; i < need.size(); ++i) EXPECT_NEAR(got[i], need[i], 1e-9 * (1 + std::abs(need[i]))) << i;
    }
  }
}

// Few or large ones, or such with many right sides, are factorized.
TEST(Solve, OtherSystemsGoByTheFactors) {
  struct Row {
    int64_t batch, n, k;
  };
  for (const Row& row : {Row{1, 16, 1}, Row{50, 40, 1}, Row{50, 16, 9}}) {
    const std::vector<std::string> names =
        kernels_of(system_graph({DType::f64, {row.batch, row.n, row.n}}, {DType::f64, {row.batch, row.n, row.k}}));
    EXPECT_EQ(std::count_if(names.begin(), names.end(), [](const std::string& s) { return starts_with(s, "solve"); }),
              0)
        << join(names, " ");
    EXPECT_EQ(std::count_if(names.begin(), names.end(), [](const std::string& s) { return starts_with(s, "lu"); }), 1)
        << join(names, " ");
  }
}

TEST(Solve, AGradientTakesTheFactorsOfTheSolution) {
  Graph g = system_graph({DType::f64, {50, 8, 8}}, {DType::f64, {50, 8, 1}});
  Builder b(g);
  const Value x = g.outputs[0], loss = b.sum(b.unary(Op::sin, x), {0, 1, 2});
  const std::vector<Value> leaves = g.leaves(Op::input), slopes = grad(g, loss, leaves);
  g.outputs = {x, slopes[0], slopes[1]};
  const std::vector<std::string> names = kernels_of(g);
  EXPECT_EQ(std::count(names.begin(), names.end(), "lu:lanes"), 1) << join(names, " ");
  EXPECT_EQ(std::count(names.begin(), names.end(), "triangular:lanes"), 4) << join(names, " ");
  EXPECT_EQ(std::count(names.begin(), names.end(), "solve:lanes"), 0) << join(names, " ");
}

TEST(Solve, NamesTheFirstSingularMatrixAsTheReferenceDoes) {
  const Type a{DType::f64, {5, 8, 4, 4}}, b{DType::f64, {5, 8, 4, 2}};
  std::vector<Array> in = {random_numbers(a, 8), random_numbers(b, 9)};
  for (const int64_t matrix : {17, 18, 33}) {
    for (int64_t i = 0; i < 4; ++i) in[0].data<double>()[matrix * 16 + i * 4 + 2] = 0;
  }
  std::vector<std::string> texts;
  for (const char* backend : {"cpu", "ref"}) {
    try {
      solved(system_graph(a, b), in, backend);
      ADD_FAILURE() << backend << " accepts a singular matrix";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::data);
      texts.push_back(e.message());
    }
  }
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[0].find("(2, 1)"), std::string::npos) << texts[0];
}

}  // namespace
}  // namespace freight
