// The generated kernels of linear algebra on the fake driver, which runs their CUDA text and watches every access:
// small matrices in local memory, larger ones by blocks, and an error of the data out of a recorded step.
#include "freight/base/error.h"
#include "freight/ir/builder.h"
#include "freight/run/executable.h"

#include "tests/cuda/fake.h"
#include "tests/ops/op_suite.h"
#include "tests/support/error_of.h"

namespace freight::test {
namespace {

using freight::testing::error_of;

class CudaLinearAlgebra : public OnFake {};

// x and a positive definite matrix of its size -> factors and a solution.
Graph factorizations(const Type& type) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", type}, {}), a = b.one(Op::input, LeafAttrs{"a", type}, {});
  const auto keep = [&](const std::vector<Value>& results) {
    g.outputs.insert(g.outputs.end(), results.begin(), results.end());
  };
  keep(b.add(Op::lu_factor, LuAttrs{true}, {x}));
  keep(b.add(Op::qr, QrAttrs{}, {x}));
  keep(b.add(Op::cholesky, CholeskyAttrs{}, {a}));
  keep(b.add(Op::solve_triangular, TriangularAttrs{.upper = true, .refuse_singular = true}, {a, x}));
  return g;
}

std::vector<Array> operands(const Type& type) {
  return {random_array({type, Fill::matrix}, 1), random_array({type, Fill::positive_definite}, 2)};
}

TEST_F(CudaLinearAlgebra, FactorizesSmallMatricesAndLargerOnesByBlocks) {
  for (const Type& type : {Type{DType::f32, {3, 9, 9}}, Type{DType::f64, {64, 64}}}) {
    const Graph g = factorizations(type);
    const std::vector<Array> in = operands(type), got = run_planned("cuda:0", g, in), want = interpret(g, in);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(close(got[i], want[i], 1e-3)) << to_string(type) << ", output " << i;
  }
}

TEST_F(CudaLinearAlgebra, ARecordedStepReportsTheMatrixThatIsSingular) {
  const Type type{DType::f32, {2, 5, 5}};
  const Graph g = factorizations(type);
  std::vector<Array> in = operands(type);
  Executable step(plan_for(g, {.backend = "cuda:0", .deterministic = true}), {});
  std::vector<Array> out;
  for (Value v : g.outputs) out.emplace_back(g.type(v).dtype, g.type(v).shape);
  const auto run = [&] {
    step.run(in, out);
    return out[0].to_vector<float>();
  };
  const std::vector<float> sound = run();
  EXPECT_EQ(run(), sound);
  EXPECT_EQ(run(), sound);
  const Array kept = in[0].clone();
  for (int64_t i = 0; i < 5; ++i) in[0].data<float>()[25 + i * 5 + 3] = 0;
  const Error e = error_of(run);
  EXPECT_EQ(e.kind(), ErrorKind::data);
  EXPECT_NE(std::string(e.what()).find(
                "matrix (1) of f32[2,5,5] is singular: pivot 3 is 0, or below 1.2e-38 and counts as 0"),
            std::string::npos)
      << e.what();
  in[0] = kept;
  EXPECT_EQ(run(), sound);
}

}  // namespace
}  // namespace freight::test
