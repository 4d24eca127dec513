// A parser by recursive descent, after the precedence of C.
#include "freight/backend/cpu/kernels/scalar_expression.h"

#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <string>

#include "freight/backend/cpu/kernels/tile_chain.h"
#include "freight/base/parse_number.h"
#include "freight/ir/infer.h"

namespace freight::cpu {

namespace {

// The unary op whose own text in the table is a call of the function, by the function's name.
const std::map<std::string, Op, std::less<>>& functions() {
  static const auto kFunctions = [] {
    std::map<std::string, Op, std::less<>> by_name;
    for (int i = 0; i < kOpCount; ++i) {
      const OpInfo& op = info(static_cast<Op>(i));
      const std::string_view text = op.scalar;
      if (op.kind != OpKind::unary || !text.ends_with("(a)")) continue;
      const std::string_view function = text.substr(0, text.size() - 3);
      if (function.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos)
        by_name.emplace(function, op.op);
    }
    return by_name;
  }();
  return kFunctions;
}

struct BinaryToken {
  std::string_view text;
  Op op;
};

// Ops whose type rule gives bool.
bool is_truth(Op op) {
  const InferFn rule = info(op).infer;
  return rule == infer::predicate || rule == infer::equality || rule == infer::logical;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<ScalarExpression> run() {
    const int result = choice();
    skip_blanks();
    if (failed_ || at_ != text_.size() || result < 0) return std::nullopt;
    if (result + 1 != static_cast<int>(parts_.size())) return std::nullopt;  // the result would not be the last part
    return parts_;
  }

 private:
  int choice() {
    const int condition = either();
    if (!take("?")) return condition;
    const int yes = choice();
    if (!take(":")) return fail();
    const int no = choice();
    return apply(Op::where, condition, yes, no);
  }
  int either() {
    int left = both();
    while (take("||")) {
      const int l = truth(left), r = truth(both());
      left = apply(Op::logical_or, l, r);
    }
    return left;
  }
  int both() {
    int left = equality();
    while (take("&&")) {
      const int l = truth(left), r = truth(equality());
      left = apply(Op::logical_and, l, r);
    }
    return left;
  }
  int equality() { return level({{{"==", Op::eq}, {"!=", Op::ne}}}, &Parser::relation); }
  int relation() { return level({{{"<=", Op::le}, {">=", Op::ge}, {"<", Op::lt}, {">", Op::gt}}}, &Parser::sum); }
  int sum() { return level({{{"+", Op::add}, {"-", Op::sub}}}, &Parser::product); }
  int product() { return level({{{"*", Op::mul}, {"/", Op::div}}}, &Parser::prefixed); }

  // Operators of one precedence, which group from the left.
  int level(std::array<BinaryToken, 4> tokens, int (Parser::*next)()) {
    int left = (this->*next)();
    for (bool more = true; more && !failed_;) {
      more = false;
      for (const BinaryToken& token : tokens) {
        if (token.text.empty() || !take(token.text)) continue;
        left = apply(token.op, left, (this->*next)());
        more = true;
        break;
      }
    }
    return left;
  }

  int prefixed() {
    if (take("-")) return apply(Op::neg, prefixed());
    if (take("!")) return apply(Op::logical_not, prefixed());
    return primary();
  }

  int primary() {
    if (take("(")) {
      const int inner = choice();
      return take(")") ? inner : fail();
    }
    skip_blanks();
    if (at_ == text_.size()) return fail();
    if (std::isdigit(static_cast<unsigned char>(text_[at_]))) return number();
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    if (word == "a" || word == "b" || word == "c")
      return add({.kind = ScalarPart::Kind::operand, .operand = word[0] - 'a'});
    return call(word);
  }

  int number() {
    std::string_view rest = text_.substr(at_);
    const std::optional<double> value = take_number<double>(rest);
    if (!value) return fail();
    at_ = text_.size() - rest.size();
    take("f");
    return constant(*value);
  }

  int call(std::string_view function) {
    if (function.empty() || !take("(")) return fail();
    const int argument = choice();
    if (!take(")")) return fail();
    if (function == "log2") return apply(Op::mul, apply(Op::log, argument), constant(1 / std::log(2.0)));
    if (function == "log10") return apply(Op::mul, apply(Op::log, argument), constant(1 / std::log(10.0)));
    if (function == "sigmoid") return apply(Op::sigmoid, argument);
    const auto known = functions().find(function);
    return known == functions().end() ? fail() : apply(known->second, argument);
  }

  // Logical operators take numbers for true where they are not 0.
  int truth(int part) {
    if (failed_ || part < 0) return fail();
    const ScalarPart& p = parts_[static_cast<size_t>(part)];
    if (p.kind == ScalarPart::Kind::apply && is_truth(p.op)) return part;
    return apply(Op::ne, part, constant(0));
  }

  int constant(double number) { return add({.kind = ScalarPart::Kind::number, .number = number}); }
  int apply(Op op, int a, int b = -1, int c = -1) {
    return failed_ ? -1 : add({.kind = ScalarPart::Kind::apply, .op = op, .a = a, .b = b, .c = c});
  }
  int add(const ScalarPart& part) {
    parts_.push_back(part);
    return static_cast<int>(parts_.size()) - 1;
  }
  int fail() {
    failed_ = true;
    return -1;
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool failed_ = false;
  ScalarExpression parts_;
};

// By op: its expression, where all its parts have vector loops.
const std::array<std::optional<ScalarExpression>, kOpCount>& expressions() {
  static const auto kExpressions = [] {
    std::array<std::optional<ScalarExpression>, kOpCount> by_op;
    for (int i = 0; i < kOpCount; ++i) {
      const OpInfo& op = info(static_cast<Op>(i));
      if (op.scalar[0] == '\0' || has_vector_loop(op.op)) continue;
      std::optional<ScalarExpression>& e = by_op[static_cast<size_t>(i)];
      e = parse_scalar(op.scalar);
      if (!e) continue;
      for (const ScalarPart& part : *e) {
        if (part.kind == ScalarPart::Kind::apply && !has_vector_loop(part.op)) {
          e.reset();
          break;
        }
      }
      // A lone operand or number has no step of its own.
      if (e && e->back().kind != ScalarPart::Kind::apply) e.reset();
    }
    return by_op;
  }();
  return kExpressions;
}

}  // namespace

std::optional<ScalarExpression> parse_scalar(std::string_view text) { return Parser(text).run(); }

bool has_vector_loop(Op op) {
  const ChainTable& table = chain_table();
  const size_t i = static_cast<size_t>(op);
  return op == Op::where || table.unary[i].whole || table.binary[i][0][0].whole;
}

bool has_vector_expression(Op op) { return expressions()[static_cast<size_t>(op)].has_value(); }

TileProgram with_expressions(const TileProgram& program) {
  const auto in_f32 = [&](int v) {
    return v < 0 || register_type(program.values[static_cast<size_t>(v)].dtype) == Reg::f32;
  };
  const auto replaced = [&](const TileValue& v) {
    return v.kind == TileValue::Kind::op && has_vector_expression(v.op) && register_type(v.dtype) == Reg::f32 &&
           in_f32(v.a) && in_f32(v.b) && in_f32(v.c);
  };
  TileProgram result = program;
  result.values.clear();
  std::vector<int> moved;  // by the number of a value: its number in the result
  const auto where = [&](int v) { return v < 0 ? -1 : moved[static_cast<size_t>(v)]; };
  for (const TileValue& old : program.values) {
    TileValue v = old;
    v.a = where(v.a), v.b = where(v.b), v.c = where(v.c);
    if (!replaced(old)) {
      moved.push_back(result.add(v));
      continue;
    }
    const int operands[] = {v.a, v.b, v.c};
    std::vector<int> made;  // by part
    const auto part_value = [&](int part) { return part < 0 ? -1 : made[static_cast<size_t>(part)]; };
    for (const ScalarPart& part : *expressions()[static_cast<size_t>(v.op)]) {
      switch (part.kind) {
        case ScalarPart::Kind::operand: made.push_back(operands[part.operand]); break;
        case ScalarPart::Kind::number: made.push_back(result.constant(part.number, DType::f32)); break;
        case ScalarPart::Kind::apply:
          made.push_back(result.apply(part.op, is_truth(part.op) ? DType::boolean : DType::f32, part_value(part.a),
                                      part_value(part.b), part_value(part.c)));
          break;
      }
    }
    result.values.back().dtype = v.dtype;
    moved.push_back(made.back());
  }
  for (TileStore& s : result.stores) s.value = where(s.value);
  for (TileAccumulate& s : result.sums) s.value = where(s.value);
  return result;
}

}  // namespace freight::cpu
