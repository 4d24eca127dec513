// Values that are new to gradients: as_new and Readings.
#include <gtest/gtest.h>

#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "freight/trace/variable.h"
#include "tests/support/arrays.h"

namespace freight::test {
namespace {

using Floats = std::vector<float>;

// The gradient of sum(y 3 x) by y, which is x.
Tensor of_new(const Tensor& x) {
  const Tensor before = x * 3, y = as_new(x);
  return grad(sum(y * before), {y})[0];
}

TEST(Readings, AsNewSeparatesATensorFromWhatWasComputedBefore) {
  const Array x = Array::of<float>({2, 3}, {2});
  EXPECT_EQ(of_new(Tensor(x)).array().to_vector<float>(), (Floats{6, 9}));
  EXPECT_EQ(compile(of_new)(x).array().to_vector<float>(), (Floats{6, 9}));
}

class Held : public testing::Test {
 protected:
  Held() { w_.set(Array::of<float>({1, 2}, {2})); }

  // The gradients of sum(w held), where held is the value of w before the readings began.
  Tensor of_readings() const {
    const Tensor held = w_.value();
    Readings readings;
    const Tensor now = readings.read(w_);
    return grad(sum(w_.value() * held * 5), {now})[0];
  }

  Variable w_{"w", Type{DType::f32, {2}}};
};

TEST_F(Held, ReadersGetTheNewValueUntilItEnds) {
  EXPECT_EQ(of_readings().array().to_vector<float>(), (Floats{5, 10}));
  auto compiled = compile([&](const Tensor& x) { return of_readings() + x; });
  EXPECT_EQ(compiled(Array::of<float>({0, 0}, {2})).array().to_vector<float>(), (Floats{5, 10}));
  const Tensor again = w_.value();
  EXPECT_EQ(grad(sum(again * w_.value()), std::vector<Variable>{w_})[0].array().to_vector<float>(), (Floats{2, 4}));
}

TEST_F(Held, InnerReadingsEndFirstAndLeadToOuterOnes) {
  Readings outer;
  const Tensor first = outer.read(w_);
  Tensor loss;
  {
    Readings inner;
    const Tensor second = inner.read(w_);
    const Tensor slope = grad(sum(w_.value() * w_.value()), {second})[0];  // 2 w
    loss = sum(slope * first);                                             // 2 w w
  }
  EXPECT_EQ(grad(loss, {first})[0].array().to_vector<float>(), (Floats{4, 8}));
  outer.end();
  outer.end();
  EXPECT_EQ(grad(sum(w_.value() * first), std::vector<Variable>{w_})[0].array().to_vector<float>(), (Floats{2, 4}));
}

TEST_F(Held, AnAssignmentEndsThem) {
  {
    Readings readings;
    readings.read(w_);
    w_.assign(w_.value() * 3);
    EXPECT_EQ(w_.value().array().to_vector<float>(), (Floats{3, 6}));
  }
  EXPECT_EQ(w_.value().array().to_vector<float>(), (Floats{3, 6}));
}

}  // namespace
}  // namespace freight::test
