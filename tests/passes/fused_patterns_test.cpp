// Which matmuls become a pattern with the region beside them, and that a backend without such steps sees none; the text
// form of patterns. That such graphs compute the same is the business of fuzz_graphs_test.cpp and
// tests/cuda/blas_test.cpp.
#include <gtest/gtest.h>

#include "freight/ir/fused_pattern.h"
#include "freight/passes/passes.h"

#include "tests/support/error_of.h"
#include "tests/support/fusing_backend.h"

namespace freight::test {
namespace {

int patterns(const Graph& g) {
  int count = 0;
  for (const Node& n : g.nodes) count += product_in(n) != nullptr;
  return count;
}

Graph with_patterns(const std::string& text) {
  return passes::dead_code(
      backend(fusing_backend()).fuse_patterns(passes::fuse(parse(text), backend(fusing_backend()))));
}

TEST(FusedPatterns, AMaskAndItsSumsBecomeResultsOfTheMatmul) {
  const Graph g = with_patterns(R"(graph {
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
  EXPECT_EQ(patterns(g), 1) << print(g);
  EXPECT_EQ(patterns(parse(print(g))), 1);
  EXPECT_NE(print(g).find("{pattern=matmul_mask_sum}"), std::string::npos) << print(g);
}

TEST(FusedPatterns, AProductThatIsReadElsewhereStaysAlone) {
  const Graph g = with_patterns(R"(graph {
    %0 = input "g" : f32[6,5]
    %1 = input "w" : f32[5,4]
    %2 = input "y" : f32[6,4]
    %3 = matmul(%0, %1) : f32[6,4]
    %4 = constant : f32[6,4]
    %5 = gt(%2, %4) : bool[6,4]
    %6 = where(%5, %3, %4) : f32[6,4]
    return %3, %6
  })");
  EXPECT_EQ(patterns(g), 0) << print(g);
}

TEST(FusedPatterns, ASumThatARegionMakesAnywayIsLeftThere) {
  const std::string head = R"(graph {
    %0 = input "x" : f32[6,4]
    %1 = input "w" : f32[6,5]
)";
  EXPECT_EQ(patterns(with_patterns(head + R"(
    %2 = sum(%0) {axes=[0]} : f32[1,4]
    %3 = matmul(%0, %1) {trans_a=true} : f32[4,5]
    return %2, %3
  })")),
            1);
  EXPECT_EQ(patterns(with_patterns(head + R"(
    %2 = exp(%0) : f32[6,4]
    %3 = sum(%2) {axes=[0]} : f32[1,4]
    %4 = matmul(%2, %1) {trans_a=true} : f32[4,5]
    return %3, %4
  })")),
            0);
}

TEST(FusedPatterns, SumsOverWhatTheMatmulDoesNotSumStayAlone) {
  EXPECT_EQ(patterns(with_patterns(R"(graph {
    %0 = input "x" : f32[6,4]
    %1 = input "w" : f32[4,5]
    %2 = sum(%0) {axes=[0]} : f32[1,4]
    %3 = matmul(%0, %1) : f32[6,5]
    return %2, %3
  })")),
            0);
}

// The bias's update reads the sums long before the matmul has its operand.
TEST(FusedPatterns, AMatmulThatWaitsForTheSumsStaysAlone) {
  EXPECT_EQ(patterns(with_patterns(R"(graph {
    %0 = input "x" : f32[6,4]
    %1 = sum(%0) {axes=[0]} : f32[1,4]
    %2 = broadcast(%1) {shape=[6,4]} : f32[6,4]
    %3 = matmul(%0, %2) {trans_a=true} : f32[4,4]
    return %3
  })")),
            0);
}

TEST(FusedPatterns, ABackendWithoutSecondResultsSeesNone) {
  const Graph g = parse(R"(graph {
    %0 = input "x" : f32[6,4]
    %1 = input "w" : f32[6,5]
    %2 = sum(%0) {axes=[0]} : f32[1,4]
    %3 = matmul(%0, %1) {trans_a=true} : f32[4,5]
    return %2, %3
  })");
  EXPECT_EQ(patterns(run_pipeline(g, backend("cpu"))), 0);
  EXPECT_EQ(patterns(run_pipeline(g, backend(fusing_backend()))), 1);
}

// As Freight printed them before patterns had names.
const char* kMaskSum = R"(
  %3, %4 = fused(%0, %1, %2)ATTRS : f32[6,4], f32[1,4] body {
    %0 = input "" : f32[6,5]
    %1 = input "" : f32[5,4]
    %2 = matmul(%0, %1) : f32[6,4]
    %3 = input "" : f32[6,4]
    %4 = constant : f32[6,4]
    %5 = constant : f32[6,4]
    %6 = gt(%3, %5) : bool[6,4]
    %7 = where(%6, %2, %4) : f32[6,4]
    %8 = sum(%7) {axes=[0]} : f32[1,4]
    return %7, %8
  }
  return %3, %4
})";
Graph mask_sum(const std::string& attributes) {
  std::string text = kMaskSum;
  text.replace(text.find("ATTRS"), 5, attributes);
  return parse(R"(graph {
  %0 = input "g" : f32[6,5]
  %1 = input "w" : f32[5,4]
  %2 = input "y" : f32[6,4])" +
               text);
}

TEST(FusedPatterns, ABodyWithNormalizationAndMomentsIsAPattern) {
  const Graph norm = parse(R"(graph {
  %0 = input "x" : f16[2,8,7,5]
  %1 = input "w" : f16[8,8,3,3]
  %2 = input "scale" : f16[1,8,1,1]
  %3 = input "shift" : f16[1,8,1,1]
  %4, %5, %6 = fused(%0, %1, %2, %3) {pattern=norm_conv_moments} : f16[2,8,7,5], f32[1,8,1,1], f32[1,8,1,1] body {
    %0 = input "" : f16[2,8,7,5]
    %1 = input "" : f16[8,8,3,3]
    %2 = input "" : f16[1,8,1,1]
    %3 = input "" : f16[1,8,1,1]
    %4 = cast(%0) : f32[2,8,7,5]
    %5 = cast(%3) : f32[1,8,1,1]
    %6 = broadcast(%5) {shape=[2,8,7,5]} : f32[2,8,7,5]
    %7 = cast(%2) : f32[1,8,1,1]
    %8 = broadcast(%7) {shape=[2,8,7,5]} : f32[2,8,7,5]
    %9 = mul(%4, %8) : f32[2,8,7,5]
    %10 = add(%9, %6) : f32[2,8,7,5]
    %11 = cast(%10) {dtype=f16} : f16[2,8,7,5]
    %12 = relu(%11) : f16[2,8,7,5]
    %13 = conv(%12, %1) {stride=[1,1], pad_low=[1,1], pad_high=[1,1], dilation=[1,1]} : f16[2,8,7,5]
    %14, %15 = moments(%13) : f32[1,8,1,1], f32[1,8,1,1]
    return %13, %14, %15
  }
  return %4, %5, %6
})");
  EXPECT_EQ(pattern_of(norm.nodes.back()).kind, FusedKind::norm_conv_moments);
}

TEST(FusedPatterns, APatternWhoseBodyIsAnotherOnesIsRefused) {
  const auto message = [](const std::string& attributes) {
    return testing::error_of([&] { mask_sum(attributes); }).message();
  };
  EXPECT_EQ(message(" {pattern=matmul_mask}"),
            "pattern and body differ: got the body of matmul_mask_sum, need that of matmul_mask");
  EXPECT_EQ(message(""), "pattern and body differ: got the body of matmul_mask_sum, need that of region");
  EXPECT_EQ(message(" {pattern=conv}"), "unknown pattern `conv`");
}

// The kernels of a pattern finish its product themselves, and would lose the activation.
TEST(FusedPatterns, AProductWithAnActivationOfItsOwnIsNoPattern) {
  for (const char* attributes : {"", " {pattern=matmul_mask_sum}"}) {
    std::string text = print(mask_sum(" {pattern=matmul_mask_sum}"));
    const size_t named = text.find(" {pattern=matmul_mask_sum}"), product = text.find("matmul(%0, %1)", named);
    ASSERT_NE(product, std::string::npos) << text;
    text.insert(product + std::string("matmul(%0, %1)").size(), " {relu=true}");
    text.replace(named, std::string(" {pattern=matmul_mask_sum}").size(), attributes);
    EXPECT_NE(testing::error_of([&] { parse(text); }).message().find("got the body of no pattern"), std::string::npos);
  }
}

}  // namespace
}  // namespace freight::test
