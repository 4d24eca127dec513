// See activations.h.
#include "freight/backend/cpu/kernels/activations.h"

#include <cmath>
#include <string>

#include "freight/backend/cpu/kernels/scalar_expression.h"

namespace freight::cpu {

namespace {

// F(x) = Phi(x), and (x F(x))' = F(x) + x phi(x).
double erf_factor(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752); }
double erf_slope(double x) { return erf_factor(x) + x * std::exp(-0.5 * x * x) * 0.39894228040143268; }
// F(x) = 1 / (1 + exp(-2 u)) with u = c (x + 0.044715 x^3), c = sqrt(2 / pi), which is (1 + tanh(u)) / 2.
double tanh_factor(double x) { return 1 / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); }
double tanh_slope(double x) {
  const double f = tanh_factor(x);
  return f + x * f * (1 - f) * 1.5957691216057308 * (1 + 3 * 0.044715 * x * x);
}

// The polynomial through the function's values at the zeros of Chebyshev's, by divided differences.
GeluTable fitted(double (*function)(double)) {
  constexpr int kPoints = GeluTable::kDegree + 1;
  GeluTable table{};
  for (int n = GeluTable::kFirst; n <= GeluTable::kLast; ++n) {
    double t[kPoints], difference[kPoints], power[kPoints] = {};
    for (int i = 0; i < kPoints; ++i) {
      t[i] = 0.5 * std::cos((2 * i + 1) * 3.14159265358979324 / (2 * kPoints));
      difference[i] = function((n + t[i] - double{GeluTable::kShift}) / double{GeluTable::kScale});
    }
    for (int k = 1; k < kPoints; ++k) {
      for (int i = kPoints - 1; i >= k; --i) difference[i] = (difference[i] - difference[i - 1]) / (t[i] - t[i - k]);
    }
    for (int i = kPoints - 1; i >= 0; --i) {  // power = power * (x - t[i]) + difference[i]
      for (int k = kPoints - 1; k > 0; --k) power[k] = power[k - 1] - t[i] * power[k];
      power[0] = difference[i] - t[i] * power[0];
    }
    if (n == GeluTable::kFirst) power[0] = 0;
    if (n == GeluTable::kLast) power[0] = 1;
    for (int k = 0; k < kPoints; ++k) table.power[k][n & (GeluTable::kCount - 1)] = static_cast<float>(power[k]);
  }
  return table;
}

// Compares values of a program with an expression of one operand. Where they agree, `x` is the number of that operand.
class FunctionMatch {
 public:
  FunctionMatch(const TileProgram& program, const ScalarExpression& expression) : p_(program), e_(expression) {}
  int x = -1;

  bool is(int v) { return is(v, static_cast<int>(e_.size()) - 1); }

 private:
  bool is(int v, int part) {
    if (v < 0 || part < 0) return v == part;
    const TileValue& t = p_.values[static_cast<size_t>(v)];
    const ScalarPart& e = e_[static_cast<size_t>(part)];
    if (e.kind == ScalarPart::Kind::operand) {
      if (x < 0) x = v;
      return x == v;
    }
    if (t.dtype != DType::f32) return false;
    if (e.kind == ScalarPart::Kind::number) {
      return t.kind == TileValue::Kind::constant && static_cast<float>(t.number) == static_cast<float>(e.number);
    }
    if (t.kind != TileValue::Kind::op) return false;
    if (t.op == Op::square && e.op == Op::mul) return is(t.a, e.a) && is(t.a, e.b);
    if (t.op != e.op) return false;
    const int before = x;
    if (is(t.a, e.a) && is(t.b, e.b)) return true;
    x = before;
    return (t.op == Op::add || t.op == Op::mul) && is(t.b, e.a) && is(t.a, e.b);
  }

  const TileProgram& p_;
  const ScalarExpression& e_;
};

// The expressions are those that composites.cpp and vjp_rules.cpp write, by the number of the function.
const std::vector<ScalarExpression>& function_expressions() {
  static const auto kExpressions = [] {
    const std::string erf = "(erf(a * 0.7071067811865476) + 1) * 0.5";
    const std::string tanh = "(tanh((a + a * a * a * 0.044715) * 0.7978845608028654) + 1) * 0.5";
    const std::string s = "a * (" + tanh + " - " + tanh + " * (" + tanh + "))";
    std::vector<ScalarExpression> all;
    for (const std::string& text :
         {erf, erf + " + a * (exp(-(a * a * 0.5)) * 0.3989422804014327)", tanh,
          tanh + " + " + s + " * 1.5957691216057308 + " + s + " * a * a * 0.21406444881780076",
          std::string("a * sigmoid(a)"), std::string("sigmoid(a) + a * (sigmoid(a) * (1 - sigmoid(a)))")}) {
      all.push_back(parse_scalar(text).value());
    }
    return all;
  }();
  return kExpressions;
}

}  // namespace

const GeluTable kGeluTables[] = {fitted(erf_factor), fitted(erf_slope), fitted(tanh_factor), fitted(tanh_slope)};

TileProgram with_activations(const TileProgram& program) {
  TileProgram result = program;
  for (size_t i = 0; i < program.values.size() && !program.round_each; ++i) {
    if (program.values[i].op != Op::add && program.values[i].op != Op::mul) continue;
    for (int f = 0; f < kTileFunctions; ++f) {
      FunctionMatch match(program, function_expressions()[static_cast<size_t>(f)]);
      if (!match.is(static_cast<int>(i))) continue;
      result.values[i] = {.kind = TileValue::Kind::function, .op = Op::erf, .a = match.x};
      result.values[i].function = static_cast<TileFunction>(f);
    }
  }
  return result;
}

}  // namespace freight::cpu
