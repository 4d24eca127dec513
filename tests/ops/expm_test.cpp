// The matrix exponential. The numbers of the first test are SciPy's expm and expm_frechet in double.
#include <gtest/gtest.h>

#include <cmath>

#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

using Doubles = std::vector<double>;
using freight::testing::message_of;

class Expm : public ::testing::TestWithParam<const char*> {
 protected:
  const DeviceScope on_{GetParam()};
};

void expect_near(const Tensor& got, const Doubles& need, double tolerance) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), need.size());
  double largest = 0;
  for (const double v : need) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < need.size(); ++i) EXPECT_NEAR(values[i], need[i], tolerance * largest) << i;
}

TEST_P(Expm, GivesTheValuesAndGradientsOfSciPy) {
  const Tensor x = Tensor::of<double>({1, 2, 0.5, -1, 0.25, 3, 0.5, -2, 1}, {3, 3});
  const Doubles need = {2.788474449, 0.3199710711, 4.151457447,   0.4545751707, -1.402979382,
                        1.094517313, 1.693214622,  -0.3199710711, 0.3302316237};
  const Tensor y = expm(x);
  expect_near(y, need, 1e-9);
  expect_near(expm(cast(x, DType::f32)), need, 1e-6);
  expect_near(expm(x * 5),
              {1294.548584, 4.615244179, 1294.202431, 192.8695281, -0.2307524367, 202.1000165, 513.4938303,
               -4.615244179, 513.8399834},
              1e-9);
  expect_near(grad(sum(y), std::vector<Tensor>{x})[0],
              {6.45035496, 2.546022857, 1.919348675, 1.481030476, -0.2088293996, 0.06806200777, 10.4182236, 3.958991325,
               2.867965682},
              1e-9);
  expect_near(compile([](const Tensor& a) { return expm(a); })(x), need, 1e-9);
}

// Each matrix of a batch is scaled by its own norm, which reaches from none to one that takes nine squarings.
TEST_P(Expm, OfABatchIsThatOfEachMatrix) {
  const Tensor x = Tensor::of<double>({0, 0, 0, 0, -1000, 999, 999, -1000, 0, 1, -1, 0}, {3, 2, 2});
  const double half = std::exp(-1.0) / 2, c = std::cos(1.0), s = std::sin(1.0);
  expect_near(expm(x), {1, 0, 0, 1, half, half, half, half, c, s, -s, c}, 1e-12);
  expect_near(expm(Tensor::of<double>({-2}, {1, 1})), {std::exp(-2.0)}, 1e-15);
  EXPECT_EQ(expm(zeros({0, 0})).shape(), (Shape{0, 0}));
  EXPECT_EQ(expm(zeros({2, 0, 0})).shape(), (Shape{2, 0, 0}));
}

TEST_P(Expm, IsNanBeyondItsReachAndForWhatIsNotFinite) {
  const Tensor x = Tensor::of<double>({NAN, 0, 0, 1, 1e6, 0, 0, -1e6, 1, 0, 0, 1}, {3, 2, 2});
  const Doubles y = expm(x).to_vector<double>();
  for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
  EXPECT_NEAR(y[8], std::exp(1.0), 1e-14);
  const Tensor turn = Tensor::of<double>({0, 1e6, -1e6, 0}, {2, 2});
  expect_near(expm(turn, {.max_squarings = 20}), {std::cos(1e6), std::sin(1e6), -std::sin(1e6), std::cos(1e6)}, 1e-9);
}

TEST_P(Expm, RefusesByName) {
  EXPECT_NE(message_of([] {
              expm(zeros({2, 3}));
            }).find("expm: the matrix is not square: expected (..., N, N), got f32[2,3]"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              expm(zeros({2, 2}, DType::bf16));
            }).find("expm: does not compute in bf16"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              expm(zeros({2, 2}), {.max_squarings = -1});
            }).find("expected 0 to 60, got -1"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Backends, Expm, ::testing::Values("cpu", "ref"));

}  // namespace
}  // namespace freight
