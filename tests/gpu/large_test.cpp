// Operands beyond 2^31 elements on a GPU: their kernels index in 64 bits, and where the device has room they are
// computed as small ones are (tests/support/large.h; on PoCL the device's memory is the host's).
#include "tests/support/large.h"

#include "freight/backend/gpu/lower.h"
#include "freight/backend/gpu/opencl/blas.h"
#include "freight/backend/gpu/opencl/memory.h"
#include "tests/gpu/device.h"
#include "tests/support/arrays.h"

namespace freight::test {
namespace {

struct Step {
  Op op;
  Attrs attrs;
  std::vector<Type> in;
};

StepSpec spec_of(Graph& g, const Step& step) {
  Builder b(g);
  std::vector<Value> in;
  for (const Type& t : step.in) in.push_back(b.one(Op::input, LeafAttrs{"x", t}, {}));
  const std::vector<Value> out = b.add(step.op, step.attrs, in);
  StepSpec spec;
  spec.graph = &g;
  spec.node = &g.def(out[0]);
  const auto operand = [&](Value v) { return freight::Operand{g.type(v), Layout::row_major(g.type(v).shape)}; };
  for (Value v : in) spec.in.push_back(operand(v));
  for (Value v : out) spec.out.push_back(operand(v));
  return spec;
}

bool is_wide(const gpu::Launch& launch) { return launch.source.find("typedef struct { i64 v[") != std::string::npos; }

// Every kernel that addresses an operand of more than 2^31 elements.
void expect_wide(const StepSpec& spec) {
  size_t addressed = 0;
  for (const gpu::Launch& launch : gpu::lower(spec).launches) {
    for (const gpu::Argument& a : launch.arguments) {
      const auto i = static_cast<size_t>(a.operand);
      // What begins inside of an operand, as a part of a joined one does, is as large as the part.
      if (a.operand < 0 || i >= spec.in.size() + spec.out.size() || a.offset > 0) continue;
      const freight::Operand& o = i < spec.in.size() ? spec.in[i] : spec.out[i - spec.in.size()];
      if (layout_bytes(o.type, o.layout) / size_of(o.type.dtype) <= static_cast<size_t>(kWhole)) continue;
      ++addressed;
      EXPECT_TRUE(is_wide(launch)) << name(spec.node->op) << ": " << launch.source;
    }
  }
  EXPECT_GT(addressed, 0u) << name(spec.node->op);
}

std::vector<Step> steps_beyond_31_bits() {
  const auto f32 = [](const Shape& shape) { return Type{DType::f32, shape}; };
  const auto i64 = [](const Shape& shape) { return Type{DType::i64, shape}; };
  const Shape one{1, 1}, two{2, 2}, none{0, 0};
  const Shape image{3, 16, 8192, 8192}, half{3, 16, 4096, 4096}, wide{65537, 32770}, filter{16, 16, 3, 3};
  const ConvAttrs conv{one, one, one, one, 1, {}, {}};
  ConvAttrs of_input = conv, of_weight = conv;
  of_input.shape = image;
  of_weight.shape = filter;
  const PoolAttrs pool{two, two, none, none, true, {}};
  PoolAttrs pooled = pool;
  pooled.shape = image;
  return {{Op::relu, NoAttrs{}, {f32({kWhole + 1})}},
          {Op::copy, NoAttrs{}, {f32(wide)}},
          {Op::sum, AxesAttrs{{1}}, {f32(wide)}},
          {Op::sum, AxesAttrs{{0}}, {f32(wide)}},
          {Op::reduce_max, AxesAttrs{{0, 1}}, {f32(wide)}},
          {Op::pad, PadAttrs{{1, 1}, {1, 1}, {0, 0}, 0}, {f32(wide)}},
          {Op::concat, AxisAttrs{0}, {f32(wide), f32({1, 32770})}},
          {Op::matmul, MatmulAttrs{}, {f32(wide), f32({32770, 8})}},
          {Op::matmul, MatmulAttrs{true, false, {}}, {f32(wide), f32({65537, 8})}},
          {Op::matmul, MatmulAttrs{false, true, {}}, {f32({8, 32770}), f32(wide)}},
          {Op::matmul, MatmulAttrs{}, {f32({65537, 4}), f32({4, 32770})}},
          {Op::conv, conv, {f32(image), f32(filter)}},
          {Op::conv_grad_input, of_input, {f32(image), f32(filter)}},
          {Op::conv_grad_weight, of_weight, {f32(image), f32(image)}},
          {Op::max_pool, pool, {f32(image)}},
          {Op::avg_pool, pool, {f32(image)}},
          {Op::max_pool_grad, pooled, {f32(half), {DType::i32, half}}},
          {Op::avg_pool_grad, pooled, {f32(half)}},
          {Op::gather, AxisAttrs{0}, {f32(wide), i64({5})}},
          {Op::gather_elements, AxisAttrs{0}, {f32(wide), i64({1, 32770})}},
          {Op::scatter_add, ScatterAttrs{0, 65537}, {i64({5}), f32({5, 32770})}},
          {Op::argmax, AxisAttrs{1}, {f32(wide)}},
          {Op::argsort, SortAttrs{1, false}, {f32(wide)}},
          {Op::check_index, RowsAttrs{9}, {i64({kWhole + 1})}},
          {Op::attention, AttentionAttrs{}, {f32({64, 16, 32769, 64}), f32({64, 16, 64, 64}), f32({64, 16, 64, 64})}}};
}

TEST(GpuLargeOperands, AreIndexedIn64Bits) {
  for (const Step& step : steps_beyond_31_bits()) {
    Graph g;
    expect_wide(spec_of(g, step));
  }
}

// A view reaches further than what is made of it.
TEST(GpuLargeOperands, ViewsThatReachBeyond31BitsAreIndexedIn64) {
  for (const Step& step : {Step{Op::pad, PadAttrs{{1}, {1}, {0}, 0}, {{DType::u8, {1 << 20}}}},
                           Step{Op::copy, NoAttrs{}, {{DType::u8, {1 << 20}}}}}) {
    Graph g;
    StepSpec spec = spec_of(g, step);
    spec.in[0].layout.strides = {4096};
    expect_wide(spec);
  }
}

TEST(GpuLargeOperands, BelowTheLimitIndicesAreOf32Bits) {
  Graph g;
  for (const gpu::Launch& launch :
       gpu::lower(spec_of(g, {Op::relu, NoAttrs{}, {{DType::f32, {kWhole - 256}}}})).launches)
    EXPECT_FALSE(is_wide(launch));
}

TEST(GpuLargeOperands, AreComputedAsSmallOnesAre) {
  NEEDS_TEST_DEVICE();
  check_large([](const Graph& g, const std::vector<Array>& in) { return run_planned(test_device(), g, in); }, true);
}

std::optional<gpu::MatrixProduct> by_clblast(const Shape& a, const Shape& b) {
  Graph g;
  return opencl::blas_product(spec_of(g, {Op::matmul, MatmulAttrs{}, {{DType::f32, a}, {DType::f32, b}}}));
}

// CLBlast's kernels count elements in 32 bits, from the beginning of a buffer on.
TEST(GpuLargeOperands, GoToClBlastOnlyAsFarAsItCounts) {
  if (!opencl::why_no_blas().empty()) GTEST_SKIP() << opencl::why_no_blas();
  EXPECT_TRUE(by_clblast({1 << 20, 1792}, {1792, 64}).has_value());
  EXPECT_FALSE(by_clblast({1 << 20, 2049}, {2049, 64}).has_value()) << "a";
  EXPECT_FALSE(by_clblast({64, 2049}, {2049, 1 << 20}).has_value()) << "b";
  EXPECT_FALSE(by_clblast({65537, 8}, {8, 32769}).has_value()) << "the result";
  EXPECT_FALSE(by_clblast({1 << 20, 16, 8}, {1 << 20, 8, 16}).has_value()) << "its copies in whole tiles";
}

TEST(GpuLargeOperands, GoToClBlastFromFarBehindTheBeginningOfABuffer) {
  NEEDS_TEST_DEVICE();
  if (!opencl::why_no_blas().empty()) GTEST_SKIP() << opencl::why_no_blas();
  if (!std::getenv("FREIGHT_LONG")) GTEST_SKIP() << "takes 9 GiB of addresses: FREIGHT_LONG=1 (./test --long) runs it";
  const auto memory = std::dynamic_pointer_cast<opencl::Memory>(backend("opencl:0").memory());
  constexpr int64_t m = 65, n = 33, k = 17;
  const auto product = by_clblast({m, k}, {k, n});
  ASSERT_TRUE(product.has_value());
  const Array a = random_array({{DType::f32, {m, k}}}, 1), b = random_array({{DType::f32, {k, n}}}, 2),
              y(DType::f32, {m, n});
  constexpr size_t kFar = (size_t{1} << 33) + 64, kApart = 1 << 16;  // bytes: behind element 2^31
  char* const block = static_cast<char*>(memory->allocate(kFar + 3 * kApart));
  void* parts[3] = {block + kFar, block + kFar + kApart, block + kFar + 2 * kApart};
  memory->upload(parts[0], a.raw(), a.bytes());
  memory->upload(parts[1], b.raw(), b.bytes());
  opencl::make_blas_kernel(memory, *product, nullptr)->run(parts);
  memory->download(y.raw(), parts[2], y.bytes());
  memory->release(block);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t q = 0; q < k; ++q) sum += at(a, i * k + q) * at(b, q * n + j);
      ASSERT_NEAR(at(y, i * n + j), sum, 1e-4) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace freight::test
