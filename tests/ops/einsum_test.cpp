// The order in which einsum contracts many operands: values by sums over all letters, FLOPs by trying every order.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "freight/ir/infer.h"
#include "freight/ops/ops.h"
#include "freight/trace/compile.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

// The letters of each operand, and those of the result; every letter's extent.
struct Case {
  std::vector<std::string> operands;
  std::string result;
  std::map<char, int64_t> extents;

  std::string equation() const {
    std::string text;
    for (const std::string& o : operands) text += (text.empty() ? "" : ",") + o;
    return text + "->" + result;
  }
  Type type(size_t i, DType dtype) const {
    Shape shape;
    for (const char c : operands[i]) shape.push_back(extents.at(c));
    return {dtype, shape};
  }
};

Case case_of(const std::string& equation, const std::map<char, int64_t>& extents, int64_t others = 0) {
  Case c;
  const size_t arrow = equation.find("->");
  c.operands.emplace_back();
  for (const char letter : equation.substr(0, arrow)) {
    if (letter == ',') {
      c.operands.emplace_back();
    } else {
      c.operands.back() += letter;
      c.extents[letter] = extents.count(letter) ? extents.at(letter) : others;
    }
  }
  c.result = equation.substr(arrow + 2);
  return c;
}

// Small whole numbers, so that any order gives the same sum.
std::vector<Array> operands_of(const Case& c, DType dtype) {
  std::vector<Array> all;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const Array a(DType::f64, c.type(i, dtype).shape);
    for (int64_t k = 0; k < a.numel(); ++k) {
      a.data<double>()[k] = static_cast<double>((k * 7 + static_cast<int64_t>(i) * 3) % 5 - 2);
    }
    all.push_back(a.cast(dtype));
  }
  return all;
}

int64_t place_in(const std::string& axes, const std::map<char, int64_t>& at, const std::map<char, int64_t>& extents) {
  int64_t place = 0;
  for (const char c : axes) place = place * extents.at(c) + at.at(c);
  return place;
}

// The definition: a loop over all letters.
std::vector<double> by_definition(const Case& c, const std::vector<Array>& operands) {
  int64_t count = 1, size = 1;
  for (const auto& [letter, extent] : c.extents) count *= extent;
  for (const char letter : c.result) size *= c.extents.at(letter);
  std::vector<double> y(static_cast<size_t>(size));
  std::vector<Array> wide;
  for (const Array& a : operands) wide.push_back(a.cast(DType::f64));
  for (int64_t i = 0; i < count; ++i) {
    std::map<char, int64_t> at;
    int64_t rest = i;
    for (const auto& [letter, extent] : c.extents) {
      at[letter] = rest % extent;
      rest /= extent;
    }
    double product = 1;
    for (size_t k = 0; k < wide.size(); ++k) product *= wide[k].data<double>()[place_in(c.operands[k], at, c.extents)];
    y[static_cast<size_t>(place_in(c.result, at, c.extents))] += product;
  }
  return y;
}

// The least FLOPs over all orders of pairs, by recursion. Each term is the set of its letters.
double fewest_flops(const Case& c, const std::vector<std::set<char>>& terms) {
  if (terms.size() == 1) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t a = 0; a < terms.size(); ++a) {
    for (size_t b = a + 1; b < terms.size(); ++b) {
      std::set<char> wanted(c.result.begin(), c.result.end()), both = terms[a], product;
      both.insert(terms[b].begin(), terms[b].end());
      std::vector<std::set<char>> rest;
      for (size_t i = 0; i < terms.size(); ++i) {
        if (i == a || i == b) continue;
        wanted.insert(terms[i].begin(), terms[i].end());
        rest.push_back(terms[i]);
      }
      double flops = 1;
      for (const char letter : both) {
        flops *= static_cast<double>(c.extents.at(letter));
        if (wanted.count(letter)) product.insert(letter);
      }
      if (product.size() < both.size()) flops *= 2;
      rest.push_back(product);
      least = std::min(least, flops + fewest_flops(c, rest));
    }
  }
  return least;
}
double fewest_flops(const Case& c) {
  std::vector<std::set<char>> terms;
  for (const std::string& o : c.operands) terms.emplace_back(o.begin(), o.end());
  return fewest_flops(c, terms);
}

double traced_flops(const Case& c, DType dtype) {
  const std::string equation = c.equation();
  auto f = compile([equation](const std::vector<Tensor>& in) { return einsum(equation, in); });
  const Graph& graph = f.graph(operands_of(c, dtype));
  double flops = 0;
  for (const Node& n : graph.nodes) flops += cost(graph, n).flops;
  return flops;
}

void expect_values(const Case& c, DType dtype) {
  const std::vector<Array> in = operands_of(c, dtype);
  const Array y = einsum(c.equation(), std::vector<Tensor>(in.begin(), in.end())).array();
  ASSERT_EQ(y.dtype(), dtype) << c.equation();
  const std::vector<double> right = by_definition(c, in);
  const Array wide = y.cast(DType::f64);
  ASSERT_EQ(static_cast<size_t>(wide.numel()), right.size()) << c.equation();
  for (size_t i = 0; i < right.size(); ++i) ASSERT_EQ(wide.data<double>()[i], right[i]) << c.equation() << " at " << i;
}

// Chains, a transform of four axes (quantum chemistry's, of opt_einsum's introduction), stars, rings, and letters that
// stay. Extents differ, so that orders do.
std::vector<Case> cases() {
  return {
      case_of("ij,jk,kl->il", {{'i', 9}, {'j', 2}, {'k', 8}, {'l', 3}}),
      case_of("ij,jk,kl,l->i", {}, 6),
      case_of("ea,fb,abcd,gc,hd->efgh", {}, 4),
      case_of("ij,jk,kl,lm,mn->in", {{'i', 7}, {'j', 2}, {'k', 9}, {'l', 3}, {'m', 8}, {'n', 2}}),
      case_of("bij,bjk,kl,bl->bi", {{'b', 3}}, 5),
      case_of("eb,cb,fb->cef", {{'b', 6}}, 3),
      case_of("ab,bc,ca->", {}, 5),
      case_of("ab,bcd,cef,dgf,ge->a", {}, 3),
      case_of("i,j,k,ijk->", {{'i', 4}, {'j', 3}, {'k', 5}}),
  };
}

TEST(EinsumOrder, HasTheFewestFlopsOfAllOrders) {
  for (const Case& c : cases()) EXPECT_EQ(traced_flops(c, DType::f64), fewest_flops(c)) << c.equation();
}

// opt_einsum's documentation: 8.000e+5 FLOPs at extents of 10, 5 operands.
TEST(EinsumOrder, OfAFourIndexTransformIsOptEinsums) {
  EXPECT_EQ(traced_flops(case_of("ea,fb,abcd,gc,hd->efgh", {}, 10), DType::f32), 8e5);
}

TEST(EinsumOrder, ChangesNoValue) {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::f64, DType::f32, DType::i32, DType::i64}) expect_values(c, dtype);
  }
}

TEST(EinsumOrder, OfIntegersAndFewOperandsIsPlannedToo) {
  const Case c = case_of("ij,jk,kl->il", {{'i', 9}, {'j', 2}, {'k', 8}, {'l', 3}});
  EXPECT_EQ(traced_flops(c, DType::i64), fewest_flops(c));
  const Case pair = case_of("ij,jk->ik", {{'i', 4}, {'j', 5}, {'k', 6}});
  EXPECT_EQ(traced_flops(pair, DType::f64), 2.0 * 4 * 5 * 6);
}

TEST(EinsumOrder, SumsWhatOneOperandAloneHasFirst) {
  const Case c = case_of("ijx,jk,yk->i", {{'x', 3}, {'y', 2}}, 4);
  for (const DType dtype : {DType::f64, DType::i32}) expect_values(c, dtype);
  const double sums = 4 * 4 * 3 + 2 * 4;
  EXPECT_EQ(traced_flops(c, DType::f64), sums + fewest_flops(case_of("ij,jk,k->i", {}, 4)));
}

TEST(EinsumOrder, TakesRepeatedLettersAndExtentsOfNothing) {
  const Tensor a = Tensor::of<double>({{1, 2}, {3, 4}}), b = Tensor::of<double>({{5, 6}, {7, 8}});
  EXPECT_EQ(einsum("ii,ij,j->i", {a, b, Tensor::of<double>({1, 10})}).to_vector<double>(),
            (std::vector<double>{65, 348}));  // numpy.einsum
  EXPECT_EQ(einsum("ij,jk,kl->il", {a, zeros({2, 0}, DType::f64), zeros({0, 2}, DType::f64)}).to_vector<double>(),
            (std::vector<double>(4, 0)));
}

// numpy.einsum("ij,jk,kl,li->jl", *[numpy.arange(4).reshape(2, 2) + n for n in range(4)])
TEST(EinsumOrder, HasNumpysValues) {
  std::vector<Tensor> in;
  for (int n = 0; n < 4; ++n) in.push_back(reshape(arange(4), {2, 2}) + n);
  EXPECT_EQ(cast(einsum("ij,jk,kl,li->jl", in), DType::f64).to_vector<double>(),
            (std::vector<double>{80, 156, 330, 667}));
}

// Ten operands: beyond the exact search. A chain of matrices with a vector at its end is cheap from the end alone.
TEST(EinsumOrder, OfManyOperandsIsThatOfAChainsCheapEnd) {
  Case c = case_of("ab,bc,cd,de,ef,fg,gh,hi,ij,j->a", {}, 3);
  for (const DType dtype : {DType::f64, DType::i64}) expect_values(c, dtype);
  EXPECT_EQ(traced_flops(c, DType::f64), 9 * 2 * 3 * 3);
}

// Orders that would make more than eight axes at once are left out.
TEST(EinsumOrder, NeverMakesMoreAxesThanThereMayBe) {
  const Case c = case_of("abc,def,ghi,adg,beh,cfi->", {}, 2);
  expect_values(c, DType::f64);
  const Case outer = case_of("a,b,c,d,e,f,g,h,abcdefgh->", {}, 2);
  expect_values(outer, DType::f64);
}

TEST(EinsumOrder, RefusesExtentsThatDifferByOperand) {
  const std::string told = testing::message_of([] {
    einsum("ij,jk,kl->il", {ones({2, 3}), ones({3, 4}), ones({5, 2})});
  });
  for (const char* part : {"letter 'k' has sizes 4 and 5", "f32[3,4]", "f32[5,2]"}) {
    EXPECT_NE(told.find(part), std::string::npos) << told;
  }
}

// numpy.einsum of numpy.arange(...).reshape(...)
TEST(Einsum, EllipsesAreAxesThatBroadcast) {
  const auto range = [](const Shape& s) {
    return reshape(cast(arange(static_cast<double>(s.numel())), DType::f64), s);
  };
  const auto values = [](const Tensor& t) { return cast(t, DType::f64).to_vector<double>(); };
  const Tensor a = range({2, 1, 2, 3}), b = range({3, 3, 2}), v = range({3});
  const Tensor product = einsum("...ij,...jk->...ik", {a, b});
  EXPECT_EQ(product.shape(), (Shape{2, 3, 2, 2}));
  EXPECT_EQ(values(product), values(matmul(a, b)));
  EXPECT_EQ(values(einsum("...ij,...jk", {a, b})), values(product));
  EXPECT_EQ(values(einsum("i...->...", {range({2, 3})})), (std::vector<double>{3, 5, 7}));
  EXPECT_EQ(values(einsum("... i, i", {range({2, 3}), v})), (std::vector<double>{5, 14}));
  EXPECT_EQ(values(einsum("...,...", {range({2, 3}), v})), (std::vector<double>{0, 1, 4, 0, 4, 10}));
  EXPECT_EQ(values(einsum("...ii->...", {range({2, 2, 2})})), (std::vector<double>{3, 11}));
  EXPECT_EQ(values(einsum("ij...->ji...", {range({1, 2})})), (std::vector<double>{0, 1}));
  const Tensor da = grad(sum(einsum("...ij,...jk->...ik", {a, b})), {a})[0];
  EXPECT_EQ(da.shape(), a.shape());
  EXPECT_EQ(values(da)[0], 1 + 13 + 25);  // sums of the first rows of b's three matrices
}

// As in NumPy: an extent of 1 stands for as many as another operand has.
TEST(Einsum, LettersOfExtentOneBroadcast) {
  const auto range = [](const Shape& s) { return reshape(cast(arange(s.numel()), DType::f64) + 1, s); };
  struct Row {
    const char* equation;
    std::vector<Shape> shapes, full;  // the second: what they broadcast to
  };
  const Row rows[] = {{"ij,jk->ik", {{2, 1}, {3, 4}}, {{2, 3}, {3, 4}}},
                      {"ij,ij->ij", {{1, 3}, {2, 1}}, {{2, 3}, {2, 3}}},
                      {"bij,bjk->bik", {{1, 2, 3}, {4, 3, 2}}, {{4, 2, 3}, {4, 3, 2}}},
                      {"i,i->", {{1}, {5}}, {{5}, {5}}},
                      {"ij,jk,kl->il", {{2, 3}, {1, 4}, {4, 1}}, {{2, 3}, {3, 4}, {4, 1}}},
                      {"i,j->ij", {{1}, {1}}, {{1}, {1}}}};
  for (const Row& row : rows) {
    std::vector<Tensor> in, full;
    for (size_t i = 0; i < row.shapes.size(); ++i) {
      in.push_back(range(row.shapes[i]));
      full.push_back(broadcast_to(in.back(), row.full[i]));
    }
    const Tensor y = einsum(row.equation, in), need = einsum(row.equation, full);
    EXPECT_EQ(y.shape(), need.shape()) << row.equation;
    EXPECT_EQ(y.to_vector<double>(), need.to_vector<double>()) << row.equation;
    const std::vector<Tensor> g = grad(sum(y), in), same = grad(sum(need), in);
    for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(g[i].to_vector<double>(), same[i].to_vector<double>()) << i;
  }
}

TEST(Einsum, EllipsesThatDoNotFitAreRefused) {
  const Tensor a = ones({2, 3, 4}), b = ones({5, 4, 2});
  const std::pair<const char*, const char*> rows[] = {{"...ij,...jk->...ik", "an axis of ... has sizes 2 and 5"},
                                                      {"...abcd,...jk->...", "needs rank 4 or more: got f32[2,3,4]"},
                                                      {"...ij,...jk->ik", "needs ... for the axes"},
                                                      {"..ij,...jk->ik", "holds '.'"},
                                                      {"7ij,...jk->ik", "holds '7'"}};
  for (const auto& [equation, part] : rows) {
    const std::string told = testing::message_of([&, text = equation] { einsum(text, {a, b}); });
    EXPECT_NE(told.find(part), std::string::npos) << equation << ": " << told;
  }
}

TEST(EinsumOrder, HasGradients) {
  const Tensor a = Tensor::of<double>({{1, 2}, {3, 4}}), b = Tensor::of<double>({{5, 6}, {7, 8}});
  const Tensor v = Tensor::of<double>({1, -1});
  const Tensor da = grad(einsum("ij,jk,k->", {a, b, v}), {a})[0];  // each row: b v
  EXPECT_EQ(da.to_vector<double>(), (std::vector<double>{-1, -1, -1, -1}));
}

}  // namespace
}  // namespace freight
