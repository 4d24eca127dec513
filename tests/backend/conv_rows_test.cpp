// Convolutions over rows that are cut into pieces (conv_rows.h) give what the loops of the reference give.
#include <gtest/gtest.h>

#include "freight/base/error.h"
#include "freight/ir/builder.h"
#include "tests/support/arrays.h"
#include "tests/support/error_of.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

struct RowCase {
  int64_t n, c, o, w, kernel, stride, low, high, dilation, groups;
};

// Rows of 70,000 pixels and more are cut; among the cases are steps that leave pixels unseen, padding on one side
// alone, windows wider than a piece, and padding wider than windows.
constexpr RowCase kRows[] = {
    {1, 2, 3, 70001, 3, 1, 1, 1, 1, 1},      {2, 4, 4, 70003, 3, 2, 1, 0, 1, 2},
    {1, 2, 2, 131072, 1, 3, 0, 0, 1, 1},     {2, 3, 2, 66001, 5, 3, 0, 7, 4, 1},
    {1, 16, 16, 70001, 4, 2, 3, 3, 1, 16},   {1, 2, 2, 80001, 2, 1, 9, 40000, 1, 1},
    {1, 1, 2, 140001, 2, 7, 2, 2, 40000, 1}, {1, 8, 16, 99999, 3, 1, 2, 2, 2, 1},
    {3, 2, 2, 66000, 2, 5, 1, 3, 1, 1},
};

Graph graph_of(const RowCase& p, Op op, DType dtype) {
  Graph g;
  Builder b(g);
  const int64_t ow = (p.w + p.low + p.high - p.dilation * (p.kernel - 1) - 1) / p.stride + 1;
  const Shape x{p.n, p.c, p.w}, w{p.o, p.c / p.groups, p.kernel}, y{p.n, p.o, ow};
  ConvAttrs a{{p.stride}, {p.low}, {p.high}, {p.dilation}, p.groups, {}, {}};
  if (op == Op::conv_grad_input) a.shape = x;
  if (op == Op::conv_grad_weight) a.shape = w;
  const auto in = [&](const Shape& s) { return b.one(Op::input, LeafAttrs{"x", {dtype, s}}, {}); };
  const Value first = in(op == Op::conv_grad_input ? y : x), second = in(op == Op::conv_grad_weight ? y : w);
  g.outputs = {b.one(op, a, {first, second})};
  return g;
}

TEST(ConvRows, ThoseThatAreCutAreAsThoseThatAreNot) {
  for (const RowCase& p : kRows) {
    for (const Op op : {Op::conv, Op::conv_grad_input, Op::conv_grad_weight}) {
      SCOPED_TRACE(cat(name(op), " of ", p.n, "x", p.c, "x", p.w, " kernel ", p.kernel, " stride ", p.stride));
      const Graph g = graph_of(p, op, DType::f32);
      std::vector<Array> in;
      for (const Value v : g.leaves(Op::input)) in.push_back(random_array({g.type(v), Fill::normal}, 3 + in.size()));
      EXPECT_TRUE(close(run_planned("cpu", g, in)[0], run_planned("ref", g, in)[0], 1e-4));
    }
  }
}

// The code that oneDNN makes for them would take gigabytes.
TEST(ConvRows, ThoseOfPlanesAreRefusedBeyondAMillionPixels) {
  Graph g;
  Builder b(g);
  const auto in = [&](const Shape& s) { return b.one(Op::input, LeafAttrs{"x", {DType::f32, s}}, {}); };
  const Shape one{1, 1};
  g.outputs = {
      b.one(Op::conv, ConvAttrs{one, one, one, {2, 2}, 1, {}, {}}, {in({1, 2, 4, 1048577}), in({2, 2, 3, 3})})};
  const std::string message = freight::testing::message_of([&] { plan_for(g, {.backend = "cpu"}); });
  EXPECT_NE(message.find("too long for a convolution over two axes"), std::string::npos) << message;
  EXPECT_NE(message.find("expected at most 1048576"), std::string::npos) << message;
}

}  // namespace
}  // namespace freight::test
