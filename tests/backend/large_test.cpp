// Operands of about 2^31 bytes and elements by the kernels of the CPU and those of oneDNN (tests/support/large.h). All
// of them take some minutes and up to 10 GiB, with FREIGHT_LONG=1 (./test --long); a few take seconds and 3 GiB.
#include "tests/support/large.h"

#include "freight/ops/ops.h"
#include "tests/support/error_of.h"

namespace freight::test {
namespace {

TEST(LargeOperands, AreComputedAsSmallOnesAre) {
  check_large([](const Graph& g, const std::vector<Array>& in) { return run_planned("cpu", g, in); }, false);
}

// A place beyond 2^31 would come out negative.
TEST(LargeOperands, OfWhichAnIndexDoesNotFitI32AreRefused) {
  const auto inferred = [](Op op, const Attrs& attrs, const Shape& shape) {
    Graph g;
    Builder b(g);
    b.one(op, attrs, {b.one(Op::input, LeafAttrs{"x", {DType::f32, shape}}, {})});
  };
  const auto refused = [&](Op op, const Attrs& attrs, const Shape& shape) {
    return freight::testing::message_of([&] { inferred(op, attrs, shape); });
  };
  const Shape fits{2, kWhole}, beyond{2, kWhole + 1};
  const Shape two{2, 2}, none{0, 0};
  const PoolAttrs pool{two, two, none, none, true, {}};
  for (const auto& [op, attrs] : {std::pair<Op, Attrs>{Op::argmax, AxisAttrs{1}},
                                  {Op::argmin, AxisAttrs{1}},
                                  {Op::argsort, SortAttrs{1, false}}}) {
    inferred(op, attrs, fits);
    EXPECT_NE(refused(op, attrs, beyond).find("axis 1 of f32[2,2147483649] has too many elements"), std::string::npos)
        << name(op) << ": " << refused(op, attrs, beyond);
  }
  inferred(Op::max_pool, pool, {1, 3, kWhole / 2, 2});
  EXPECT_NE(refused(Op::max_pool, pool, {1, 3, kWhole / 2 + 2, 2}).find("indices of type i32"), std::string::npos);
}

}  // namespace
}  // namespace freight::test
