// Matmuls joined with the region beside them: which are, and that a backend without a matmul's second result sees none.
// That joined graphs compute the same is the business of fuzz_graphs_test.cpp and of tests/cuda/blas_test.cpp.
#include <gtest/gtest.h>

#include "freight/passes/passes.h"

#include "tests/support/fusing_backend.h"

namespace freight::test {
namespace {

int joints(const Graph& g) {
  int count = 0;
  for (const Node& n : g.nodes) count += product_in(n) != nullptr;
  return count;
}

Graph fused_and_joined(const std::string& text) {
  return passes::dead_code(backend(fusing_backend()).join(passes::fuse(parse(text), backend(fusing_backend()))));
}

TEST(Join, AMaskAndItsSumsBecomeResultsOfTheMatmul) {
  const Graph g = fused_and_joined(R"(graph {
    %0 = input "g" : f32[6,5]
    %1 = input "w" : f32[5,4]
    %2 = input "y" : f32[2,3,4]
    %3 = matmul(%0, %1) : f32[6,4]
    %4 = reshape(%3) {shape=[2,3,4]} : f32[2,3,4]
    %5 = constant : f32[2,3,4]
    %6 = gt(%2, %5) : bool[2,3,4]
    %7 = where(%6, %4, %5) : f32[2,3,4]
    %8 = sum(%7) {axes=[0,1]} : f32[1,1,4]
    return %7, %8
  })");
  EXPECT_EQ(joints(g), 1) << print(g);
  EXPECT_EQ(joints(parse(print(g))), 1);
}

TEST(Join, AProductThatIsReadElsewhereStaysAlone) {
  const Graph g = fused_and_joined(R"(graph {
    %0 = input "g" : f32[6,5]
    %1 = input "w" : f32[5,4]
    %2 = input "y" : f32[6,4]
    %3 = matmul(%0, %1) : f32[6,4]
    %4 = constant : f32[6,4]
    %5 = gt(%2, %4) : bool[6,4]
    %6 = where(%5, %3, %4) : f32[6,4]
    return %3, %6
  })");
  EXPECT_EQ(joints(g), 0) << print(g);
}

TEST(Join, ASumThatARegionMakesAnywayIsLeftThere) {
  const std::string head = R"(graph {
    %0 = input "x" : f32[6,4]
    %1 = input "w" : f32[6,5]
)";
  EXPECT_EQ(joints(fused_and_joined(head + R"(
    %2 = sum(%0) {axes=[0]} : f32[1,4]
    %3 = matmul(%0, %1) {trans_a=true} : f32[4,5]
    return %2, %3
  })")),
            1);
  EXPECT_EQ(joints(fused_and_joined(head + R"(
    %2 = exp(%0) : f32[6,4]
    %3 = sum(%2) {axes=[0]} : f32[1,4]
    %4 = matmul(%2, %1) {trans_a=true} : f32[4,5]
    return %3, %4
  })")),
            0);
}

TEST(Join, SumsOverWhatTheMatmulDoesNotSumStayAlone) {
  EXPECT_EQ(joints(fused_and_joined(R"(graph {
    %0 = input "x" : f32[6,4]
    %1 = input "w" : f32[4,5]
    %2 = sum(%0) {axes=[0]} : f32[1,4]
    %3 = matmul(%0, %1) : f32[6,5]
    return %2, %3
  })")),
            0);
}

// The bias's update reads the sums long before the matmul has its operand.
TEST(Join, AMatmulThatWaitsForTheSumsStaysAlone) {
  EXPECT_EQ(joints(fused_and_joined(R"(graph {
    %0 = input "x" : f32[6,4]
    %1 = sum(%0) {axes=[0]} : f32[1,4]
    %2 = broadcast(%1) {shape=[6,4]} : f32[6,4]
    %3 = matmul(%0, %2) {trans_a=true} : f32[4,4]
    return %3
  })")),
            0);
}

TEST(Join, ABackendWithoutSecondResultsSeesNone) {
  const Graph g = parse(R"(graph {
    %0 = input "x" : f32[6,4]
    %1 = input "w" : f32[6,5]
    %2 = sum(%0) {axes=[0]} : f32[1,4]
    %3 = matmul(%0, %1) {trans_a=true} : f32[4,5]
    return %2, %3
  })");
  EXPECT_EQ(joints(run_pipeline(g, backend("cpu"))), 0);
  EXPECT_EQ(joints(run_pipeline(g, backend(fusing_backend()))), 1);
}

}  // namespace
}  // namespace freight::test
