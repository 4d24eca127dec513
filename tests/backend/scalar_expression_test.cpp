// Expressions of the op table as tile programs: each text against the same expression of C++, at finite and other
// numbers, and which ops have no vectors at all.
#include "freight/backend/cpu/kernels/scalar_expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "freight/backend/ref/scalar.h"

namespace freight::cpu {
namespace {

double evaluate(const ScalarExpression& e, const double (&operands)[3]) {
  std::vector<double> values;
  for (const ScalarPart& part : e) {
    const auto of = [&](int i) { return i < 0 ? 0.0 : values[static_cast<size_t>(i)]; };
    if (part.kind == ScalarPart::Kind::operand) {
      values.push_back(operands[part.operand]);
    } else if (part.kind == ScalarPart::Kind::number) {
      values.push_back(part.number);
    } else if (part.op == Op::where) {
      values.push_back(of(part.a) != 0 ? of(part.b) : of(part.c));
    } else {
      values.push_back(ref::scalar_functions(part.op).real(of(part.a), of(part.b)));
    }
  }
  return values.back();
}

TEST(ScalarExpression, IsWhatTheTextSaysInC) {
  struct Case {
    const char* text;
    double (*value)(double a, double b, double c);
  };
  const Case cases[] = {
      {"log2(a)", [](double a, double, double) { return std::log2(a); }},
      {"log10(a) + b", [](double a, double b, double) { return std::log10(a) + b; }},
      {"a / (1 + fabs(a))", [](double a, double, double) { return a / (1 + std::fabs(a)); }},
      {"a - b - c", [](double a, double b, double c) { return a - b - c; }},
      {"a - b * c / 2.5e-1", [](double a, double b, double c) { return a - b * c / 0.25; }},
      {"-a * -b", [](double a, double b, double) { return -a * -b; }},
      {"(a > 0) - (a < 0)", [](double a, double, double) -> double { return (a > 0) - (a < 0); }},
      {"a > b || a != a ? a : b", [](double a, double b, double) { return a > b || a != a ? a : b; }},
      {"a && b || !c", [](double a, double b, double c) -> double { return (a != 0 && b != 0) || c == 0; }},
      {"!a || b && c", [](double a, double b, double c) -> double { return a == 0 || (b != 0 && c != 0); }},
      {"a >= 3 ? 1 : a <= -3 ? 0 : a / 6 + 0.5",
       [](double a, double, double) { return a >= 3    ? 1
                                             : a <= -3 ? 0
                                                       : a / 6 + 0.5; }},
      {"a == b ? c : a < b == 1 ? 2 : 3.0f",
       [](double a, double b, double c) { return a == b               ? c
                                                 : double(a < b) == 1 ? 2
                                                                      : 3.0; }},
      {"1 / (1 + exp(-a)) * rint(b)", [](double a, double b, double) { return 1 / (1 + std::exp(-a)) * std::rint(b); }},
  };
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const double numbers[] = {0, -0.0, 1, -1, 0.3, -2.75, 3, -3, 40, kInf, -kInf, kNan};
  for (const Case& c : cases) {
    const std::optional<ScalarExpression> e = parse_scalar(c.text);
    ASSERT_TRUE(e) << c.text;
    for (const double x : numbers) {
      for (const double y : numbers) {
        for (const double z : numbers) {
          const double got = evaluate(*e, {x, y, z}), wanted = c.value(x, y, z);
          if (std::isnan(wanted)) {
            EXPECT_TRUE(std::isnan(got)) << c.text << " of " << x << ", " << y << ", " << z << " is " << got;
          } else if (std::isinf(wanted)) {
            EXPECT_EQ(got, wanted) << c.text << " of " << x << ", " << y << ", " << z;
          } else {
            EXPECT_NEAR(got, wanted, 1e-12 * std::max(1.0, std::fabs(wanted)))
                << c.text << " of " << x << ", " << y << ", " << z;
          }
        }
      }
    }
  }
}

TEST(ScalarExpression, IsNothingWhereTheTextCallsWhatNoOpIsOrIsNoC) {
  for (const char* text : {"", " ", "a +", "(a", "a)", "a b", "lgamma(a)", "pow(a, b)", "exp a", "a ? b", "1..2", "d",
                           "a = b", "exp()", "a @ b", "?:", "a % b"}) {
    EXPECT_FALSE(parse_scalar(text)) << text;
  }
}

// An op that is in none of these runs a scalar function per element: mend its text, or write a loop.
TEST(ScalarExpression, GivesVectorsToAllOpsButThese) {
  const std::set<std::string> without = {
      "nextafter", "bitwise_and",   "bitwise_or", "bitwise_xor", "shift_left", "shift_right",  // not of f32
      "cast",      "stop_gradient",                                                            // they compute nothing
  };
  std::set<std::string> found;
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& op = info(static_cast<Op>(i));
    const bool pointwise = op.kind == OpKind::unary || op.kind == OpKind::binary || op.kind == OpKind::ternary;
    if (!pointwise || op.op == Op::cast) continue;
    if (!has_vector_loop(op.op) && !has_vector_expression(op.op)) found.insert(op.name);
  }
  found.insert("cast");
  EXPECT_EQ(found, without);
  EXPECT_TRUE(has_vector_expression(Op::softsign));
}

// The program of an op's expression is the one that its parts would make, to the bit; also where an op behind it reads
// the result, a sum does, and the operand is bf16.
TEST(ScalarExpression, RunsAsItsPartsDo) {
  const Shape space{7, 333};
  const Strides rows{333, 1};
  const auto run = [&](DType in, const auto& middle) {
    TileProgram p;
    p.space = space;
    const int x = p.input(0, in, rows), y = middle(p, x);
    const int z = p.apply(Op::mul, DType::f32, y, x);
    p.stores.push_back({z, DType::f32, 1, rows});
    p.sums.push_back(
        {.value = y, .op = Op::sum, .dtype = DType::f32, .operand = 2, .strides = {1, 0}, .keep = {true, false}});
    std::vector<float> numbers(static_cast<size_t>(space.numel())), out(numbers.size()), sums(7);
    std::vector<uint16_t> halves(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::ldexp(static_cast<float>(static_cast<int>(i * 7919 % 255) - 127), static_cast<int>(i % 9) - 6);
      uint32_t bits = 0;
      std::memcpy(&bits, &numbers[i], 4);
      halves[i] = static_cast<uint16_t>(bits >> 16);
    }
    const auto kernel = TileKernel::compile(p);
    std::vector<std::byte> scratch(kernel->scratch_bytes() + 64);
    void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    void* operands[] = {in == DType::f32 ? static_cast<void*>(numbers.data()) : halves.data(), out.data(), sums.data()};
    kernel->run(operands, aligned);
    out.insert(out.end(), sums.begin(), sums.end());
    return out;
  };
  for (const DType in : {DType::f32, DType::bf16}) {
    const std::vector<float> op = run(in, [](TileProgram& p, int x) { return p.apply(Op::softsign, DType::f32, x); });
    const std::vector<float> parts = run(in, [](TileProgram& p, int x) {
      const int size = p.apply(Op::abs, DType::f32, x), one = p.constant(1, DType::f32);
      return p.apply(Op::div, DType::f32, x, p.apply(Op::add, DType::f32, one, size));
    });
    EXPECT_EQ(std::memcmp(op.data(), parts.data(), op.size() * sizeof(float)), 0);
    EXPECT_NE(op[1], 0);
  }
}

}  // namespace
}  // namespace freight::cpu
