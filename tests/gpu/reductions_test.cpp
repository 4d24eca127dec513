// Reductions of rows that are cut into parts: too few to fill a device, or beside each other in memory.
#include "freight/backend/gpu/lower.h"
#include "freight/ir/builder.h"

#include "tests/gpu/device.h"
#include "tests/ops/op_suite.h"

namespace freight::test {
namespace {

Value input(Builder& b, DType dtype, const Shape& shape) {
  return b.one(Op::input, LeafAttrs{"x", {dtype, shape}}, {});
}

OpCase case_of(const char* what, Graph g, Fill fill = Fill::normal) {
  std::vector<Array> in;
  for (Value v : g.leaves(Op::input)) in.push_back(random_array({g.type(v), fill, 200}, 7 + in.size()));
  return {what, std::move(g), std::move(in)};
}

Graph reduction(Op op, DType dtype, const Shape& shape, const Shape& axes) {
  Graph g;
  Builder b(g);
  g.outputs = {b.one(op, AxesAttrs{axes}, {input(b, dtype, shape)})};
  return g;
}

// (x - mean) / deviation over `axes`, and both moments: two reductions in a row, results of rows and of elements.
OpCase normalised(DType dtype, const Shape& shape, const Shape& axes, const Shape& order) {
  Graph g;
  Builder b(g);
  Value given = input(b, dtype, shape);
  if (order.rank() > 0) given = b.transpose(given, order);
  const Ex x{&b, b.cast(given, DType::f32)};
  const auto expanded = [&](const Ex& v) { return Ex{&b, b.broadcast(v.v, x.shape())}; };
  const Ex mean = mean_over(x, axes), centred = x - expanded(mean);
  const Ex variance = mean_over(apply(Op::square, centred), axes);
  g.outputs = {b.cast((centred * expanded(apply(Op::rsqrt, variance + 0.1))).v, dtype), mean.v, variance.v};
  return case_of("normalization", std::move(g));
}

// Sums of x (N, 1) alone and of its products with y (N, 6): one operand lies beside all rows.
OpCase beside_all_rows(DType dtype) {
  Graph g;
  Builder b(g);
  const Ex x{&b, b.cast(input(b, dtype, {700, 1}), wide(dtype))}, y{&b, b.cast(input(b, dtype, {700, 6}), wide(dtype))};
  const Ex products = expand(x, {700, 6}) * y, sums = sum(products, {0});
  g.outputs = {sum(x, {0}).v, sums.v, (products - expand(sums, {700, 6}) * (1.0 / 700)).v};
  return case_of("beside all rows", std::move(g));
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const auto reduced = [&](Op op, DType dtype, const Shape& shape, const Shape& axes) {
    all.push_back(
        case_of(name(op), reduction(op, dtype, shape, axes), is_floating(dtype) ? Fill::normal : Fill::index));
  };
  for (const Op op : {Op::sum, Op::reduce_max, Op::reduce_min}) {
    for (const DType t : {DType::f32, DType::i32, DType::i64}) {
      reduced(op, t, {1031, 37}, {0});  // beside each other
      reduced(op, t, {3, 20011}, {1});  // few and long
      reduced(op, t, {20011}, {0});     // one
      reduced(op, t, {7, 9, 601, 5}, {0, 2});
    }
    if (op != Op::sum) reduced(op, DType::u8, {1031, 37}, {0});
  }
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    all.push_back(beside_all_rows(t));
    all.push_back(normalised(t, {1500, 24}, {0}, {}));
    all.push_back(normalised(t, {3, 30, 31, 17}, {0, 2, 3}, {0, 3, 1, 2}));  // (N, C, H, W) of channels-last images
    all.push_back(normalised(t, {2, 15000}, {1}, {}));
  }
  if (test_device_has_f64()) reduced(Op::sum, DType::f64, {1031, 37}, {0});
  return all;
}

TEST(GpuReductions, OfRowsInPartsAgreeWithTheOracle) {
  NEEDS_TEST_DEVICE();
  compare_together(cases(), test_device());
}

// The kernels of a step that reduces `axes` of a dense tensor.
std::vector<std::string> kernels(const Shape& shape, const Shape& axes) {
  const Graph g = reduction(Op::sum, DType::f32, shape, axes);
  const Node& n = g.nodes.back();
  StepSpec spec{&g, &n, {}, {}};
  const auto operand = [&](Value v) { return freight::Operand{g.type(v), Layout::row_major(g.type(v).shape)}; };
  spec.in = {operand(n.in(0))};
  spec.out = {operand(n.out())};
  std::vector<std::string> names;
  for (const gpu::Launch& l : gpu::lower_region(spec).launches) names.push_back(l.entry.substr(0, l.entry.find('_')));
  return names;
}

TEST(GpuReductions, AreCutIntoPartsWhereRowsDoNotFillADevice) {
  using Names = std::vector<std::string>;
  const Names whole{"rows"}, parts{"parts", "combine", "point"};
  EXPECT_EQ(kernels({128, 56, 56, 64}, {0, 1, 2}), parts) << "channels-last images";
  EXPECT_EQ(kernels({8192, 512}, {0}), parts) << "the gradient of a bias";
  EXPECT_EQ(kernels({1, 1 << 20}, {1}), parts) << "one long row";
  EXPECT_EQ(kernels({4096, 1024}, {1}), whole) << "a row to a group fills it";
  EXPECT_EQ(kernels({64, 512}, {0}), whole) << "little to do";
  EXPECT_EQ(kernels({64, 1 << 20}, {0}), whole) << "a row to a work-item fills it";
}

}  // namespace
}  // namespace freight::test
