// Kernels that consist of blocks of bf16 products against plain loops in double: matrix products and gradients of
// convolutions' weights; odd sizes, poisoned scratch memory, equal bits for any number of threads. Attention is in
// bf16_attention_test.cpp, the blocks themselves in bf16_blocks_test.cpp.
#include <type_traits>
#include <vector>

#include "freight/backend/cpu/kernels/bf16/conv.h"
#include "freight/backend/cpu/kernels/bf16/gemm.h"
#include "freight/backend/cpu/kernels/bf16/thin.h"
#include "tests/backend/bf16_kernels.h"
#include "tests/support/emulated_bf16.h"

namespace freight::cpu {
namespace {

// --- matrix products ---

constexpr int64_t kLine = 32;  // numbers of bf16

struct GemmCase {
  int64_t m, n, k, batch = 1;
  int64_t gap = 0;  // numbers between lines
};

// Transposes and the epilogue by bits.
struct GemmForm {
  bool trans_a, trans_b, bias, residual, relu, bounded, packed;
  explicit GemmForm(int bits)
      : trans_a(bits & 1),
        trans_b(bits & 2),
        bias(bits & 4),
        residual(bits & 8),
        relu(bits & 16),
        bounded(bits & kBounded),
        packed(bits & kPacked) {}
  static constexpr int kBounded = 64, kPacked = 128;  // packed: the right operand, which all products of a batch share
};

// What c must hold before it is rounded, and the sum of all terms' sizes.
struct Element {
  double value, size;
};
template <class T>
Element gemm_element(const GemmProblem& p, const T* a, const T* b, double added, int64_t i, int64_t j) {
  Element e{added, std::abs(added)};
  for (int64_t k = 0; k < p.k; ++k) {
    const double term = value(a[i * p.a_row + k * p.a_col]) * value(b[k * p.b_row + j * p.b_col]);
    e.value += term;
    e.size += std::abs(term);
  }
  if (p.relu && e.value < 0) e.value = 0;
  if (e.value > p.most) e.value = p.most;
  return e;
}

// bf16: operands whose sums are exact. f32: any, whose sums are as exact as of products in f32 that are added pairwise.
void fill(Bf16* to, int64_t n, uint64_t seed) { fill_exact(to, n, seed); }
void fill(float* to, int64_t n, uint64_t seed) {
  PhiloxStream r(seed, 0, 1);
  for (int64_t i = 0; i < n; ++i) to[i] = r.uniform(-1, 1);
}
void expect(Bf16 got, const Element& e) { ASSERT_EQ(value(got), value(narrow(e.value))); }
void expect(float got, const Element& e) { ASSERT_NEAR(value(got), e.value, 0x1p-22 * e.size); }

template <class T, class Multiply = BlockGemm<T>, class... Table>
void check_gemm(const GemmCase& c, const GemmForm& f, const Table&... table) {
  SCOPED_TRACE(cat(c.m, "x", c.n, "x", c.k, " batch ", c.batch, f.trans_a ? " ta" : "", f.trans_b ? " tb" : "",
                   f.bias ? " bias" : "", f.residual ? " residual" : "", f.relu ? " relu" : "",
                   f.bounded ? " bounded" : "", f.packed ? " packed" : ""));
  const int64_t a_lines = f.trans_a ? c.k : c.m, a_line = (f.trans_a ? c.m : c.k) + c.gap;
  const int64_t b_lines = f.trans_b ? c.n : c.k, b_line = (f.trans_b ? c.k : c.n) + c.gap;
  GemmProblem p{.m = c.m,
                .n = c.n,
                .k = c.k,
                .batch = c.batch,
                .a_row = f.trans_a ? 1 : a_line,
                .a_col = f.trans_a ? a_line : 1,
                .b_row = f.trans_b ? 1 : b_line,
                .b_col = f.trans_b ? b_line : 1,
                .c_row = c.n + c.gap,
                .a_batch = a_lines * a_line,
                .b_batch = f.packed ? 0 : b_lines * b_line,
                .c_batch = c.m * (c.n + c.gap),
                .relu = f.relu};
  if (f.bounded) p.most = 3;
  const Guarded<T> a(c.batch * p.a_batch - c.gap), b((f.packed ? 1 : c.batch) * b_lines * b_line - c.gap), bias(c.n),
      residual(c.batch * p.c_batch - c.gap);
  fill(a.data(), a.size(), 1);
  fill(b.data(), b.size(), 2);
  fill(bias.data(), bias.size(), 3);
  fill(residual.data(), residual.size(), 4);
  const Guarded<T> packed(f.packed ? bf16_panel_size(c.k, c.n) + kLine : 0);
  T* const panels =
      packed.data() + (f.packed ? kLine - reinterpret_cast<uintptr_t>(packed.data()) % 64 / sizeof(T) : 0);
  GemmProblem run_as = p;
  if constexpr (std::is_same_v<T, Bf16>) {
    if (f.packed) {
      run_as.packed = true;
      run_as.b_row = run_as.b_col = 0;  // do not count
      pack_bf16_columns(panels, b.data(), p.b_row, p.b_col, c.k, c.n);
    }
  }
  const auto run = [&] {
    const Multiply gemm(run_as, table...);
    poison_thread_scratch();
    const Guarded<T> y(residual.size());
    gemm.run(a.data(), f.packed ? panels : b.data(), y.data(), f.bias ? bias.data() : nullptr,
             f.residual ? residual.data() : nullptr, poisoned_scratch(gemm.scratch_bytes()).raw());
    return y.copied();
  };
  const Array y = run();
  const int64_t each = checked_each(static_cast<double>(c.m * c.n) * static_cast<double>(c.k));
  for (int64_t at = 0; at < residual.size(); at += each) {
    const int64_t q = at / p.c_batch, i = at % p.c_batch / p.c_row, j = at % p.c_row;
    const T got = reinterpret_cast<const T*>(y.raw())[at];
    if (j >= c.n) {
      ASSERT_TRUE(std::isnan(value(got))) << "written outside at " << at;
      continue;
    }
    const double added = (f.bias ? value(bias[j]) : 0) + (f.residual ? value(residual[at]) : 0);
    SCOPED_TRACE(cat("matrix ", q, " row ", i, " column ", j));
    expect(got, gemm_element(p, a.data() + q * p.a_batch, b.data() + q * p.b_batch, added, i, j));
    if (testing::Test::HasFatalFailure()) return;
  }
  for_any_threads(run);
}

template <class Multiply>
class BlockGemms : public testing::Test {
 protected:
  void SetUp() override {
    FREIGHT_NEEDS_BF16();
    if (kF32 && !splits_f32()) GTEST_SKIP() << "f32 products are split with AMX alone";
  }
  static void check(const GemmCase& c, const GemmForm& f) {
    check_gemm<std::conditional_t<kF32, float, Bf16>, Multiply>(c, f);
  }

 private:
  static constexpr bool kF32 = std::is_same_v<Multiply, SplitGemm>;
};
using Products = testing::Types<BlockGemm<Bf16>, DotGemm, SplitGemm>;
TYPED_TEST_SUITE(BlockGemms, Products);
using Numbers = testing::Types<Bf16, float>;
// Those on every machine, by AMX in plain loops.
template <class T>
class EmulatedGemms : public testing::Test {};
TYPED_TEST_SUITE(EmulatedGemms, Numbers);

TYPED_TEST(BlockGemms, EqualsPlainLoopsForOddSizesTransposesAndEpilogues) {
  for (const GemmCase& c :
       {GemmCase{1, 1, 1}, {7, 17, 65, 1, 3}, {65, 7, 17}, {17, 65, 7}, {33, 33, 33, 1, 1}, {1, 65, 33}, {65, 1, 65}}) {
    for (int form = 0; form < 32; form += 3) {
      this->check(c, GemmForm(form));
      this->check(c, GemmForm(form | GemmForm::kBounded));
    }
  }
}

TYPED_TEST(EmulatedGemms, EqualPlainLoops) {
  for (const GemmCase& c :
       {GemmCase{7, 17, 65, 1, 3}, {33, 33, 33, 1, 1}, {9, 21, 33, 3, 1}, {40, 33, 700}, {7, 130, 65}}) {
    for (int form = 0; form < 32; form += 3) check_gemm<TypeParam>(c, GemmForm(form), emulated::table());
  }
}

TYPED_TEST(BlockGemms, RunsBatches) {
  for (int form = 0; form < 32; form += 5) {
    this->check({9, 21, 33, 5, 1}, GemmForm(form));
    this->check({33, 64, 400, 3}, GemmForm(form));
  }
  this->check({1024, 640, 1100, 2}, GemmForm(1));  // whose rows' sums do not fit into the cache at once
}

// A right operand that was packed before, as a frozen weight is.
TYPED_TEST(BlockGemms, ReadsPackedColumns) {
  if constexpr (!std::is_same_v<TypeParam, SplitGemm>) {
    for (const GemmCase& c : {GemmCase{1, 1, 1},
                              {7, 17, 65, 1, 3},
                              {65, 7, 17},
                              {1, 700, 65},
                              {33, 300, 500, 1, 2},
                              {9, 21, 33, 5, 1},
                              {300, 300, 3000},
                              {70, 40, 9000}}) {
      for (int form = 0; form < 64; form += 3) this->check(c, GemmForm(form | GemmForm::kPacked));
    }
  }
}

// As transposed products: see BlockGemm::turned_.
TYPED_TEST(BlockGemms, TurnsFewRowsByColumnsAlongTheSteps) {
  constexpr int kTransposedB = 2;
  for (const GemmCase& c : {GemmCase{1, 700, 65}, {7, 65, 1000}, {33, 300, 500, 1, 2}, {64, 1000, 33}}) {
    for (int form = 0; form < 32; form += 4) this->check(c, GemmForm(form | kTransposedB));
  }
  this->check({16, 32, 8192}, GemmForm(kTransposedB));  // a part of the columns for one thread alone
}

// Sums in parts: of blocks whose operands stay in the caches, of rows whose sums wait for all columns, of columns that
// are packed in parts (with 2 MiB of second-level cache; with more the cut is another).
TYPED_TEST(BlockGemms, AddsUpLongSumsInParts) {
  for (const GemmCase& c : {GemmCase{5, 3, 5001},
                            {40, 33, 4999},
                            {300, 300, 3000},
                            {820, 520, 1100},
                            {1500, 60, 1100},
                            {70, 40, 9000},
                            {20, 600, 600}}) {
    for (const int form : {0, 1, 2, 63}) this->check(c, GemmForm(form));
  }
}

// Along the steps there are whole tiles of them; the sums of the last case do not fit into the cache at once.
TEST(ThinGemm, EqualsPlainLoops) {
  if (!ThinGemm::fits({.m = 1, .n = 1 << 13, .k = 1 << 13, .b_row = 1 << 13})) GTEST_SKIP() << "needs AMX";
  for (const int64_t m : {1, 7, 8, 9, 25, 32}) {
    for (int form = 0; form < 32; form += 3)
      for (const int64_t k : {32, 96, form & 2 ? 320 : 333})
        check_gemm<Bf16, ThinGemm>({m, 33 + k, k, 1, m % 3}, GemmForm(form));
  }
  for (const int form : {0, 12, 1}) check_gemm<Bf16, ThinGemm>({32, 20000, 40}, GemmForm(form));
}

// --- gradients of convolutions' weights ---

struct ConvCase {
  int64_t n, c, h, w, o, kh, kw;
  int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  int64_t behind_h = -1, behind_w = -1;  // padding; -1: as before
};

std::string print(const ConvCase& c) {
  return cat("n", c.n, "c", c.c, "h", c.h, "w", c.w, "o", c.o, "k", c.kh, "x", c.kw, "s", c.stride_h, "x", c.stride_w,
             "p", c.pad_h, "x", c.pad_w, c.behind_h < 0 ? "" : cat("b", c.behind_h, "x", c.behind_w));
}

ConvProblem convolution(const ConvCase& c) {
  const int64_t behind_h = c.behind_h < 0 ? c.pad_h : c.behind_h, behind_w = c.behind_w < 0 ? c.pad_w : c.behind_w;
  return with_result({.n = c.n,
                      .c = c.c,
                      .h = c.h,
                      .w = c.w,
                      .o = c.o,
                      .kh = c.kh,
                      .kw = c.kw,
                      .stride_h = c.stride_h,
                      .stride_w = c.stride_w,
                      .pad_h = c.pad_h,
                      .pad_w = c.pad_w},
                     behind_h, behind_w);
}

double weight_gradient(const ConvProblem& p, const Bf16* x, const Bf16* dy, int64_t at) {
  const int64_t kj = at % p.kw, ki = at / p.kw % p.kh, c = at / p.kw / p.kh % p.c, o = at / p.kw / p.kh / p.c;
  double v = 0;
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t i = 0; i < p.oh; ++i) {
      const int64_t y = i * p.stride_h + ki - p.pad_h;
      if (y < 0 || y >= p.h) continue;
      for (int64_t j = 0; j < p.ow; ++j) {
        const int64_t q = j * p.stride_w + kj - p.pad_w;
        if (q < 0 || q >= p.w) continue;
        v += value(x[((n * p.h + y) * p.w + q) * p.c + c]) * value(dy[((n * p.oh + i) * p.ow + j) * p.o + o]);
      }
    }
  }
  return v;
}

class Bf16GradWeightOf : public testing::TestWithParam<ConvCase> {};

TEST_P(Bf16GradWeightOf, EqualsPlainLoopsForAnyNumberOfThreads) {
  FREIGHT_NEEDS_BF16();
  const ConvProblem p = convolution(GetParam());
  const Guarded<Bf16> x(p.n * p.h * p.w * p.c), dy(p.n * p.oh * p.ow * p.o);
  fill_exact(x.data(), x.size(), 1);
  fill_exact(dy.data(), dy.size(), 2);
  const int64_t weights = p.o * p.c * p.kh * p.kw;
  const auto run = [&] {
    const Bf16GradWeight conv(p);
    poison_thread_scratch();
    const Guarded<Bf16> dw(weights);
    conv.run(x.data(), dy.data(), dw.data(), poisoned_scratch(conv.scratch_bytes()).raw());
    return dw.copied();
  };
  const Array dw = run();
  const int64_t each = checked_each(static_cast<double>(weights) * static_cast<double>(p.n * p.oh * p.ow));
  for (int64_t at = 0; at < weights; at += each)
    ASSERT_EQ(number(dw, at), value(narrow(weight_gradient(p, x.data(), dy.data(), at)))) << at;
  for_any_threads(run);
}

TEST(Bf16SpreadProduct, EqualsPlainLoopsAndIsZeroBetweenThePixelsThatAreSeen) {
  FREIGHT_NEEDS_BF16();
  for (const ConvCase& c : {ConvCase{2, 16, 7, 9, 37, 1, 1, 2, 2}, ConvCase{1, 33, 8, 8, 16, 1, 1, 3, 2},
                            ConvCase{3, 64, 14, 14, 128, 1, 1, 2, 2}, ConvCase{2, 17, 5, 6, 20, 1, 1, 1, 4}}) {
    SCOPED_TRACE(print(c));
    const ConvProblem p = convolution(c);
    const Guarded<Bf16> dy(p.n * p.oh * p.ow * p.o), w(p.o * p.c);
    fill_exact(dy.data(), dy.size(), 1);
    fill_exact(w.data(), w.size(), 2);
    const auto run = [&] {
      const Bf16SpreadProduct product(p);
      poison_thread_scratch();
      const Guarded<Bf16> dx(p.n * p.h * p.w * p.c);
      product.run(dy.data(), w.data(), dx.data(), poisoned_scratch(product.scratch_bytes()).raw());
      return dx.copied();
    };
    const Array dx = run();
    for (int64_t at = 0; at < p.n * p.h * p.w * p.c; ++at) {
      const int64_t q = at % p.c, j = at / p.c % p.w, i = at / p.c / p.w % p.h, n = at / p.c / p.w / p.h;
      double v = 0;
      if (i % p.stride_h == 0 && j % p.stride_w == 0) {
        const int64_t pixel = (n * p.oh + i / p.stride_h) * p.ow + j / p.stride_w;
        for (int64_t o = 0; o < p.o; ++o) v += value(dy[pixel * p.o + o]) * value(w[o * p.c + q]);
      }
      ASSERT_EQ(number(dx, at), value(narrow(v))) << at;
    }
    for_any_threads(run);
  }
}

template <class Case>
std::string name_of(const testing::TestParamInfo<Case>& each) {
  return print(each.param);
}

INSTANTIATE_TEST_SUITE_P(Filters, Bf16GradWeightOf,
                         testing::Values(ConvCase{1, 1, 1, 1, 1, 1, 1}, ConvCase{3, 33, 7, 9, 37, 1, 1},
                                         ConvCase{2, 2, 1, 40, 16, 1, 2}, ConvCase{2, 3, 9, 8, 16, 3, 3, 1, 1, 1, 1},
                                         ConvCase{2, 15, 6, 7, 37, 3, 3}, ConvCase{2, 16, 8, 8, 37, 3, 3, 1, 1, 1, 1},
                                         ConvCase{5, 20, 9, 7, 37, 3, 3, 1, 1, 1, 1},
                                         ConvCase{1, 5, 12, 11, 16, 5, 5, 1, 1, 2, 2},
                                         ConvCase{2, 33, 9, 9, 1, 5, 5, 1, 1, 2, 2},
                                         ConvCase{2, 3, 20, 21, 37, 7, 7, 1, 1, 3, 3}, ConvCase{2, 1, 28, 28, 16, 7, 7},
                                         ConvCase{3, 16, 6, 10, 33, 2, 5}),
                         name_of<ConvCase>);

// Rows and columns that no filter reaches are left over where the stride does not divide the image.
INSTANTIATE_TEST_SUITE_P(
    Strides, Bf16GradWeightOf,
    testing::Values(ConvCase{3, 20, 8, 9, 37, 1, 1, 2, 2}, ConvCase{2, 16, 10, 11, 16, 1, 1, 3, 3},
                    ConvCase{3, 15, 9, 8, 37, 3, 3, 2, 2, 1, 1}, ConvCase{3, 16, 8, 8, 16, 3, 3, 2, 2},
                    ConvCase{2, 5, 13, 17, 16, 3, 3, 3, 2}, ConvCase{2, 33, 14, 13, 16, 5, 5, 2, 3, 2, 1},
                    ConvCase{2, 3, 33, 32, 16, 7, 7, 2, 2, 3, 3}, ConvCase{2, 4, 16, 16, 8, 2, 2, 3, 1, 1, 0},
                    ConvCase{1, 3, 70, 66, 16, 3, 3, 2, 2, 1, 1}, ConvCase{2, 20, 45, 61, 5, 1, 1, 2, 1}),
    name_of<ConvCase>);

INSTANTIATE_TEST_SUITE_P(
    Margins, Bf16GradWeightOf,
    testing::Values(ConvCase{3, 5, 2, 3, 16, 5, 5, 1, 1, 2, 2}, ConvCase{2, 16, 1, 1, 37, 3, 3, 1, 1, 1, 1},
                    ConvCase{2, 3, 3, 3, 16, 7, 7, 2, 2, 3, 3}, ConvCase{2, 20, 5, 6, 16, 3, 3, 1, 1, 2, 0},
                    ConvCase{2, 20, 5, 6, 16, 3, 3, 2, 2, 0, 0, 1, 1}, ConvCase{2, 3, 5, 6, 16, 3, 3, 1, 2, 0, 2, 3, 0},
                    ConvCase{2, 3, 4, 4, 16, 3, 3, 1, 1, 4, 4, 4, 4},
                    ConvCase{1, 3, 40, 33, 16, 3, 3, 1, 1, 2, 0, 0, 3}),
    name_of<ConvCase>);

// Long rows; many images; groups of pixels, of one panel of columns and of several.
INSTANTIATE_TEST_SUITE_P(
    Chunks, Bf16GradWeightOf,
    testing::Values(ConvCase{2, 3, 31, 30, 16, 3, 3, 1, 1, 1, 1}, ConvCase{1, 16, 45, 50, 37, 1, 1},
                    ConvCase{2, 5, 3, 450, 16, 3, 3, 1, 1, 1, 1}, ConvCase{3, 7, 1, 1003, 16, 1, 5, 1, 2, 0, 2},
                    ConvCase{61, 20, 5, 4, 16, 3, 3, 1, 1, 1, 1}, ConvCase{401, 33, 1, 1, 37, 1, 1},
                    ConvCase{11, 16, 28, 28, 16, 3, 3, 1, 1, 1, 1}, ConvCase{11, 40, 20, 20, 40, 3, 3, 1, 1, 1, 1},
                    ConvCase{6, 70, 27, 28, 33, 1, 1}),
    name_of<ConvCase>);

// Threads take parts of the columns, of rows that were packed before.
INSTANTIATE_TEST_SUITE_P(ManyWeights, Bf16GradWeightOf,
                         testing::Values(ConvCase{2, 256, 4, 4, 256, 3, 3, 1, 1, 1, 1},
                                         ConvCase{50, 256, 5, 5, 256, 3, 3},
                                         ConvCase{2, 260, 14, 15, 300, 3, 3, 2, 2, 1, 1},
                                         ConvCase{1, 512, 21, 40, 260, 2, 2},
                                         ConvCase{9, 1030, 7, 7, 1030, 1, 1, 1, 1}),
                         name_of<ConvCase>);

}  // namespace
}  // namespace freight::cpu
