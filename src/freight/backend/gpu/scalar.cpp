// See scalar.h.
#include "freight/backend/gpu/scalar.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "freight/backend/gpu/dialect.h"
#include "freight/base/parse_number.h"
#include "freight/base/strings.h"

namespace freight::gpu {

namespace {

// Integers where the table's expression has no meaning for them or would trap: as the reference backend computes them.
std::string integer_expression(Op op, DType dtype) {
  const bool negative = info(dtype).kind == NumberKind::signed_integer;  // there are negative numbers
  switch (op) {
    case Op::abs: return negative ? "a < 0 ? -a : a" : "a";
    case Op::div: return negative ? "b == 0 ? 0 : b == -1 ? -a : a / b" : "b == 0 ? 0 : a / b";
    case Op::fmod: return negative ? "b == 0 || b == -1 ? 0 : a % b" : "b == 0 ? 0 : a % b";
    case Op::is_finite: return "1";
    case Op::pow:
      return cat(negative ? "b < 0 ? (a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0) : " : "", "(", value_type(dtype),
                 ")power_of_u64(a, b)");
    default: return info(op).scalar;
  }
}

// In halves of 32 bits: a decimal number of 64 bits has no type.
std::string integer_literal(int64_t whole, DType dtype) {
  const auto bits = static_cast<uint64_t>(whole);
  const bool wide = size_of(dtype) == 8 && (whole > INT32_MAX || whole < -INT32_MAX);
  if (wide) return cat("((", value_type(dtype), ")((u64)", bits >> 32, "u << 32 | ", bits & 0xffffffffu, "u))");
  if (dtype == DType::i32 && whole < -INT32_MAX) return "(-2147483647 - 1)";
  return cat(size_of(dtype) == 8 ? cat("((", value_type(dtype), ")") : "(", whole, dtype == DType::u32 ? "u)" : ")");
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

std::string scalar_expression(Op op, DType in, const std::vector<std::string>& operands) {
  return filled(is_floating(in) ? info(op).scalar : integer_expression(op, in), in, operands);
}

std::string filled(std::string_view pattern, DType in, const std::vector<std::string>& operands) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (std::isdigit(static_cast<unsigned char>(c)) && (i == 0 || !is_word(pattern[i - 1]))) {
      // A fraction has the type of the operands: as written, f32 would be computed in f64.
      std::string_view rest = pattern.substr(i);
      const double number = take_number<double>(rest).value_or(0);
      const std::string_view text = pattern.substr(i, pattern.size() - i - rest.size());
      const bool fraction = text.find_first_of(".e") != std::string_view::npos;
      out += fraction ? literal(number, wide(in)) : std::string(text);
      i += text.size() - 1;
      if (i + 1 < pattern.size() && pattern[i + 1] == 'f') ++i;
      continue;
    }
    const bool alone = (i == 0 || !is_word(pattern[i - 1])) && (i + 1 == pattern.size() || !is_word(pattern[i + 1]));
    const auto which = static_cast<size_t>(c - 'a');
    const bool is_operand = alone && c >= 'a' && which < operands.size();
    out += is_operand ? operands[which] : std::string(1, c);
  }
  return out;
}

std::string literal(double value, DType dtype) {
  if (dtype == DType::boolean) return value != 0 ? "1" : "0";
  if (is_integer(dtype)) {
    std::string text;
    dispatch(dtype, [&]<class T>(T) {
      if constexpr (std::is_integral_v<T>) text = integer_literal(static_cast<int64_t>(element_cast<T>(value)), dtype);
    });
    return text;
  }
  if (std::isnan(value)) return "as_real(0x7fc00000u)";
  if (std::isinf(value)) return value > 0 ? "as_real(0x7f800000u)" : "(-as_real(0x7f800000u))";
  std::string text;
  dispatch(dtype, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T> || kIsHalf<T>) {
      const T rounded = element_cast<T>(value);
      text = dtype == DType::f64 ? cat(element_cast<double>(rounded)) : cat(element_cast<float>(rounded));
    }
  });
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return cat("(", text, dtype == DType::f64 ? ")" : "f)");
}

std::string converted(const std::string& name, DType from, DType to) {
  if (from == to) return name;
  if (to == DType::boolean) return cat(name, " != 0");
  if (to == DType::bf16 || to == DType::f16) return cat("from_", to, "(to_", to, "((float)", name, "))");
  if (!is_floating(to) && is_floating(from)) return cat("round_to_", to, "(", name, ")");
  return cat("(", value_type(to), ")", name);
}

// Sums of narrow integers are cut where they are stored, as wrapping arithmetic allows.
DType accumulator(DType dtype) { return is_integer(dtype) && size_of(dtype) < 4 ? DType::i32 : wide(dtype); }

std::string reduction_start(Op op, DType dtype) {
  if (op == Op::sum) return "0";
  // Infinity becomes the end of an integer's range.
  return literal(op == Op::reduce_max ? -INFINITY : INFINITY, dtype);
}

const char* reducer(Op op) { return op == Op::sum ? "SUM_OF" : op == Op::reduce_max ? "MAX_OF" : "MIN_OF"; }

}  // namespace freight::gpu
