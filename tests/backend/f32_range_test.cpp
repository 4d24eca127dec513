// f32 products over the whole range of f32, with the kernels of this processor and those of others in plain loops: by
// tiles of each instruction set, and by three parts of bf16 (bf16/split.h). At most twice the error of a plain sum in
// f32, and what is not finite where and as that has it.
#include "freight/backend/cpu/kernels/bf16/split.h"

#include <limits>

#include "freight/backend/cpu/kernels/bf16/gemm.h"
#include "tests/backend/bf16_kernels.h"
#include "tests/support/emulated_bf16.h"
#include "tests/support/emulated_gemm.h"

namespace freight::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();

float unit(PhiloxStream& r) { return r.uniform(-1, 1); }
// A number whose exponent is anywhere between two.
float between(PhiloxStream& r, int low, int high) {
  return std::ldexp(1 + std::fabs(unit(r)),
                    static_cast<int>(r.uniform(static_cast<float>(low), static_cast<float>(high)))) *
         (unit(r) < 0 ? -1.0f : 1.0f);
}

// Numbers of the operands by line (row of a, column of b) and step of the sum.
struct Numbers {
  using Number = float (*)(PhiloxStream& r, int64_t line, int64_t step);
  const char* name;
  Number a, b;
};
float ordinary(PhiloxStream& r, int64_t, int64_t) { return unit(r); }
float of_any_size(PhiloxStream& r, int64_t, int64_t) { return between(r, -148, 60); }
float one_where_line_is_step(PhiloxStream&, int64_t line, int64_t step) { return line == step ? 1 : 0; }

const std::vector<Numbers> kNumbers = {
    {"ordinary", ordinary, ordinary},
    {"small", [](PhiloxStream& r, int64_t, int64_t) { return 1e-36f * unit(r); }, ordinary},
    {"small right", ordinary, [](PhiloxStream& r, int64_t, int64_t) { return 1e-36f * unit(r); }},
    {"small by large", [](PhiloxStream& r, int64_t, int64_t) { return 1e-36f * unit(r); },
     [](PhiloxStream& r, int64_t, int64_t) { return 1e36f * unit(r); }},
    {"small products", [](PhiloxStream& r, int64_t, int64_t) { return 1e-16f * unit(r); },
     [](PhiloxStream& r, int64_t, int64_t) { return 1e-16f * unit(r); }},
    {"subnormal products", [](PhiloxStream& r, int64_t, int64_t) { return 1e-20f * unit(r); },
     [](PhiloxStream& r, int64_t, int64_t) { return 1e-20f * unit(r); }},
    {"subnormal", [](PhiloxStream& r, int64_t, int64_t) { return 1e-40f * unit(r); },
     [](PhiloxStream& r, int64_t, int64_t) { return 1e3f * unit(r); }},
    {"rows of any size",
     [](PhiloxStream& r, int64_t line, int64_t) { return std::ldexp(unit(r), static_cast<int>(line * 7 % 240) - 140); },
     ordinary},
    {"columns of any size", ordinary,
     [](PhiloxStream& r, int64_t line, int64_t) {
       return std::ldexp(unit(r), static_cast<int>(line * 7 % 240) - 140);
     }},
    {"elements of any size", of_any_size, of_any_size},
    {"copied", of_any_size, one_where_line_is_step},
    {"large and small in turn",
     [](PhiloxStream& r, int64_t line, int64_t step) {
       return step % 2 == 0 && line % 5 > 0 ? unit(r) : 1e-37f * unit(r);
     },
     [](PhiloxStream& r, int64_t line, int64_t step) { return step % 2 == 0 && line % 3 > 0 ? 0 : unit(r); }},
    {"zero lines", [](PhiloxStream& r, int64_t line, int64_t) { return line % 3 == 0 ? 0 : between(r, -130, 0); },
     [](PhiloxStream& r, int64_t line, int64_t) { return line % 4 == 0 ? 0 : unit(r); }},
    {"one large",
     [](PhiloxStream& r, int64_t line, int64_t step) { return line == 5 && step == 3 ? 3.4e38f : unit(r); },
     [](PhiloxStream& r, int64_t, int64_t) { return 1e-2f * unit(r); }},
    {"largest", [](PhiloxStream&, int64_t line, int64_t step) { return step == line % 8 ? kLargest : 0; },
     one_where_line_is_step},
    {"sums near the limit", [](PhiloxStream& r, int64_t, int64_t) { return 4e18f * (3 + 0.03f * unit(r)); },
     [](PhiloxStream& r, int64_t, int64_t step) { return (step % 2 == 0 ? 5e18f : -5e18f) * (3 + 0.03f * unit(r)); }},
    {"sums that overflow", [](PhiloxStream& r, int64_t, int64_t) { return 1e20f * (2 + unit(r)); },
     [](PhiloxStream& r, int64_t line, int64_t) { return (line % 2 == 0 ? 1e20f : -1e18f) * (2 + unit(r)); }},
    {"infinities", [](PhiloxStream& r, int64_t line, int64_t step) { return line == 3 && step == 5 ? kInf : unit(r); },
     [](PhiloxStream& r, int64_t line, int64_t step) { return line == 33 && step == 5 ? -kInf : unit(r); }},
    {"infinity by zeros",
     [](PhiloxStream& r, int64_t line, int64_t step) { return line == 3 && step == 5 ? kInf : unit(r); },
     [](PhiloxStream& r, int64_t line, int64_t) { return line % 2 == 0 ? 0 : unit(r); }},
    {"no number", [](PhiloxStream& r, int64_t line, int64_t step) { return line == 7 && step == 5 ? kNan : unit(r); },
     [](PhiloxStream& r, int64_t line, int64_t step) { return line == 34 && step == 1 ? -kNan : unit(r); }},
};

struct Form {
  int64_t m, n, k, batch = 1;
  bool trans_a = false, trans_b = false;
};
const std::vector<Form> kForms = {{35, 66, 40},
                                  {35, 66, 40, 1, true, false},
                                  {35, 66, 40, 1, false, true},
                                  {35, 66, 40, 1, true, true},
                                  {34, 40, 33, 3},
                                  {34, 36, 400},                  // a sum in several blocks
                                  {36, 150, 40, 1, true, true}};  // computed as the transposed product

GemmProblem problem_of(const Form& f) {
  return {.m = f.m,
          .n = f.n,
          .k = f.k,
          .batch = f.batch,
          .a_row = f.trans_a ? 1 : f.k,
          .a_col = f.trans_a ? f.m : 1,
          .b_row = f.trans_b ? 1 : f.n,
          .b_col = f.trans_b ? f.k : 1,
          .c_row = f.n,
          .a_batch = f.m * f.k,
          .b_batch = f.k * f.n,
          .c_batch = f.m * f.n};
}

struct Operands {
  Operands(const Numbers& numbers, const Form& f)
      : p(problem_of(f)), a(f.batch * p.a_batch), b(f.batch * p.b_batch), size(f.batch * p.c_batch) {
    PhiloxStream r(1, 0, 1);
    for (int64_t q = 0; q < f.batch; ++q) {
      for (int64_t i = 0; i < f.m; ++i) {
        for (int64_t k = 0; k < f.k; ++k) a[q * p.a_batch + i * p.a_row + k * p.a_col] = numbers.a(r, i, k);
      }
      for (int64_t j = 0; j < f.n; ++j) {
        for (int64_t k = 0; k < f.k; ++k) b[q * p.b_batch + k * p.b_row + j * p.b_col] = numbers.b(r, j, k);
      }
    }
  }
  template <class Multiply>
  std::vector<float> by(const Multiply& multiply) const {
    const Guarded<float> c(size);
    poison_thread_scratch();
    multiply.run(a.data(), b.data(), c.data(), nullptr, nullptr, poisoned_scratch(multiply.scratch_bytes()).raw());
    return {c.data(), c.data() + size};
  }
  std::vector<float> by_plain_sums() const {
    std::vector<float> c(static_cast<size_t>(size));
    for (int64_t at = 0; at < size; ++at) {
      const int64_t q = at / p.c_batch, i = at % p.c_batch / p.c_row, j = at % p.c_row;
      for (int64_t k = 0; k < p.k; ++k)
        c[static_cast<size_t>(at)] +=
            a[q * p.a_batch + i * p.a_row + k * p.a_col] * b[q * p.b_batch + k * p.b_row + j * p.b_col];
    }
    return c;
  }
  struct Sum {
    double value = 0, magnitudes = 0;  // of the products
  };
  Sum exact(int64_t at) const {
    const int64_t q = at / p.c_batch, i = at % p.c_batch / p.c_row, j = at % p.c_row;
    Sum sum;
    for (int64_t k = 0; k < p.k; ++k) {
      const double term =
          value(a[q * p.a_batch + i * p.a_row + k * p.a_col]) * value(b[q * p.b_batch + k * p.b_row + j * p.b_col]);
      sum.value += term;
      sum.magnitudes += std::fabs(term);
    }
    return sum;
  }

  GemmProblem p;
  Guarded<float> a, b;
  int64_t size;
};

// An error is a share of the sum of the products' magnitudes, beside half of the smallest number for each product: at
// most twice the largest of the plain sums, or 2^-23.
void expect_as_exact_as_f32(const Operands& o, const std::vector<float>& got) {
  const std::vector<float> plain = o.by_plain_sums();
  std::vector<Operands::Sum> exact;
  double share = 0x1p-23;
  const double smallest = 0x1p-150 * static_cast<double>(o.p.k);
  for (size_t i = 0; i < plain.size(); ++i) {
    exact.push_back(o.exact(static_cast<int64_t>(i)));
    const double error = std::fabs(value(plain[i]) - exact[i].value) - smallest;
    if (std::isfinite(plain[i]) && exact[i].magnitudes > 0) share = std::max(share, error / exact[i].magnitudes);
  }
  for (size_t i = 0; i < plain.size(); ++i) {
    if (!std::isfinite(plain[i])) {
      ASSERT_TRUE(same(value(got[i]), value(plain[i]))) << got[i] << " at " << i << ", need " << plain[i];
      continue;
    }
    const double allowed = 2 * (share * exact[i].magnitudes + smallest);
    ASSERT_LE(std::fabs(value(got[i]) - exact[i].value), allowed)
        << got[i] << " at " << i << ", need " << exact[i].value;
  }
}

std::vector<const Bf16Table*> tables() {
  std::vector<const Bf16Table*> all{&emulated::table()};
  if (split_table()) all.push_back(split_table());
  return all;
}

// Each form of product with each kind of numbers.
template <class Multiply>
void check_all(const std::string& name, const Multiply& multiply) {
  for (const Form& f : kForms) {
    for (const Numbers& numbers : kNumbers) {
      SCOPED_TRACE(cat(name, ", ", numbers.name, ": ", f.m, "x", f.n, "x", f.k, " batch ", f.batch,
                       f.trans_a ? " ta" : "", f.trans_b ? " tb" : ""));
      const Operands o(numbers, f);
      expect_as_exact_as_f32(o, multiply(o));
    }
  }
}

TEST(F32Products, AreExactWithTilesOfEachInstructionSet) {
  const auto multiply = [](const Operands& o) { return o.by(Gemm<float>(o.p)); };
  check_all("this processor", multiply);
  const auto with = [&](const std::string& name, const GemmTable<float>& table) {
    const ForcedGemmTable forced(table);
    check_all(name, multiply);
  };
  with("SSE", emulated::gemm_table<4, 6>());
  with("AVX2", emulated::gemm_table<8, 6>());
  with("AVX-512", emulated::gemm_table<16, 12>());
}

TEST(F32Products, AreExactByPartsOfBf16) {
  for (const Bf16Table* table : tables())
    check_all(table->name, [&](const Operands& o) { return o.by(SplitGemm(o.p, *table)); });
}

TEST(F32Products, GiveTheBitsOfTheProcessorInPlainLoops) {
  if (!split_table()) GTEST_SKIP() << "the processor has no AMX";
  for (const Form& f : kForms) {
    for (const Numbers& numbers : kNumbers) {
      SCOPED_TRACE(numbers.name);
      const Operands o(numbers, f);
      const std::vector<float> got = o.by(SplitGemm(o.p, emulated::table())),
                               native = o.by(SplitGemm(o.p, *split_table()));
      for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(same(value(got[i]), value(native[i]))) << i;
    }
  }
}

// Of the blocks only those whose sums may be lost are computed again: a small number somewhere costs nothing.
TEST(SplitLimits, LeaveSumsThatAreLargeEnough) {
  const auto range = [](float least, float most) {
    return SplitRange{std::bit_cast<uint32_t>(least) << 1, std::bit_cast<uint32_t>(most) << 1};
  };
  struct Case {
    float least_a, most_a, least_b, most_b;
    bool overflows;
    float exact_from;
  };
  constexpr int64_t kSteps = 1024;
  for (const Case& c : {Case{1e-6f, 1, 1e-6f, 1, false, 0},
                        {1e-35f, 1, 1e-6f, 1, false, 0x1p-90f * 9},
                        {1e-20f, 1, 1e-20f, 1, false, 0x1p-87f},
                        {1, 0x1p60f, 1, 0x1p54f, false, 0},
                        {1, 0x1p60f, 1, 0x1p57f, true, 0},
                        {1, kLargest, 1e-30f, 1e-30f, true, 0},
                        {1, kInf, 1, 1, true, 0},
                        {1, kNan, 1, 1, true, 0}}) {
    const SplitLimits limits(range(c.least_a, c.most_a), range(c.least_b, c.most_b), kSteps);
    EXPECT_EQ(limits.overflows, c.overflows) << c.most_a;
    EXPECT_EQ(limits.exact_from, c.exact_from) << c.least_a;
  }
  const SplitLimits zeros(SplitRange{}, range(1e-40f, 1), kSteps);
  EXPECT_FALSE(zeros.overflows);
  EXPECT_EQ(zeros.exact_from, 0);
}

}  // namespace
}  // namespace freight::cpu
