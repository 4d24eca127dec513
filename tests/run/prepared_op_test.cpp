// Prepared ops: the bits of a planned graph of one node, for every op of the table; threads; the bound of the cache.
#include <cstring>
#include <thread>

#include "freight/run/plan.h"
#include "freight/run/prepared_op.h"
#include "tests/ops/op_rows.h"
#include "tests/support/error_of.h"
#include "tests/support/run.h"

namespace freight::test {
namespace {

using freight::testing::message_of;

std::vector<Type> types_of(const std::vector<Array>& arrays) {
  std::vector<Type> types;
  for (const Array& a : arrays) types.push_back({a.dtype(), a.shape()});
  return types;
}

std::vector<Array> make(const std::vector<Type>& types) {
  std::vector<Array> arrays;
  for (const Type& t : types) arrays.emplace_back(t.dtype, t.shape);
  return arrays;
}

std::vector<Array> run_prepared(const OpRow& row, const std::vector<Array>& operands, const std::string& device) {
  const auto op = prepare(row.op, row.attrs, types_of(operands), device);
  std::vector<Array> results = make(op->results());
  op->run(operands, results);
  return results;
}

std::vector<Array> run_graph(const OpRow& row, const std::vector<Array>& operands, const std::string& device) {
  Graph g;
  std::vector<Value> in;
  for (const Type& t : types_of(operands)) in.push_back(g.add(Op::input, LeafAttrs{"x", t}, {})[0]);
  g.outputs = g.add(row.op, row.attrs, in);
  std::vector<Array> results = make(output_types(g, g.def(g.outputs[0])));
  Executable(plan_for(g, eager_options(device)), {}).run(operands, results);
  return results;
}

std::vector<Array> operands_of(const OpRow& row, uint64_t seed) {
  std::vector<Array> operands = inputs_of(row, graph_of(row), seed);
  if (row.op == Op::attention_grad) {  // it reads the results of its op
    const size_t own = operands.size() - (std::get<AttentionAttrs>(row.attrs).second ? 2 : 1);
    const auto end = operands.begin() + static_cast<std::ptrdiff_t>(own);
    const std::vector<Array> results = run_graph({Op::attention, row.attrs, {}}, {operands.begin(), end}, "ref");
    operands.insert(end, results.begin(), results.end());
  }
  return operands;
}

bool same_bits(const std::vector<Array>& a, const std::vector<Array>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Array& x, const Array& y) {
    return x.dtype() == y.dtype() && x.shape() == y.shape() && std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
  });
}

class Prepared : public ::testing::TestWithParam<std::string> {};

TEST_P(Prepared, EveryOpGivesTheBitsOfItsGraph) {
  for (const OpRow& row : op_rows()) {
    SCOPED_TRACE(to_string(row));
    for (const uint64_t seed : {1, 2}) {  // the second time from the cache
      const std::vector<Array> operands = operands_of(row, seed);
      EXPECT_TRUE(same_bits(run_prepared(row, operands, GetParam()), run_graph(row, operands, GetParam())));
    }
  }
}

TEST_P(Prepared, FourThreadsGetTheirOwnResults) {
  clear_prepared_ops();
  std::vector<const OpRow*> rows;
  for (const OpRow& row : op_rows()) {
    if (row.op == Op::add || row.op == Op::matmul || row.op == Op::argsort || row.op == Op::gelu) rows.push_back(&row);
  }
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (const OpRow* row : rows) {
        for (uint64_t i = 0; i < 5; ++i) {
          const std::vector<Array> operands = operands_of(*row, 10 * t + i);
          const std::vector<Array> need = run_graph(*row, operands, GetParam());
          wrong[t] += !same_bits(run_prepared(*row, operands, GetParam()), need);
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
  EXPECT_LE(prepared_op_stats().size, rows.size());  // threads that ask for the same share it
}

INSTANTIATE_TEST_SUITE_P(Backends, Prepared, ::testing::Values("ref", "cpu"));

TEST(PreparedOps, OpAttributesTypesAndDeviceTellThemApart) {
  clear_prepared_ops();
  const Type x{DType::f32, {2, 3}}, y{DType::f32, {3, 2}}, z{DType::f64, {2, 3}};
  const auto ask = [](Op op, const Attrs& attrs, const std::vector<Type>& in, const char* device) {
    return prepare(op, attrs, in, device);
  };
  const std::vector<std::shared_ptr<const PreparedOp>> all = {
      ask(Op::add, NoAttrs{}, {x, x}, "ref"),   ask(Op::sub, NoAttrs{}, {x, x}, "ref"),
      ask(Op::add, NoAttrs{}, {y, y}, "ref"),   ask(Op::add, NoAttrs{}, {z, z}, "ref"),
      ask(Op::add, NoAttrs{}, {x, x}, "cpu"),   ask(Op::sum, AxesAttrs{{0}}, {x}, "ref"),
      ask(Op::sum, AxesAttrs{{1}}, {x}, "ref"), ask(Op::sum, AxesAttrs{{0, 1}}, {x}, "ref"),
  };
  EXPECT_EQ(prepared_op_stats().size, all.size());
  EXPECT_EQ(ask(Op::add, NoAttrs{}, {x, x}, "ref"), all[0]);
  EXPECT_EQ(ask(Op::sum, AxesAttrs{{1}}, {x}, "ref"), all[6]);
  EXPECT_EQ(prepared_op_stats().size, all.size());
}

TEST(PreparedOps, TheCacheIsBoundedAndForgetsTheOldest) {
  clear_prepared_ops();
  const auto ask = [](int64_t n) {
    const Type t{DType::f32, {n}};
    return prepare(Op::neg, NoAttrs{}, std::vector<Type>{t}, "null");
  };
  const auto first = ask(1), second = ask(2);
  for (int64_t n = 3; n <= static_cast<int64_t>(kPreparedOps); ++n) ask(n);
  EXPECT_EQ(ask(1), first);  // has been used since
  for (int64_t n = 0; n < 5; ++n) ask(100000 + n);
  const PreparedOpStats stats = prepared_op_stats();
  EXPECT_EQ(stats.size, kPreparedOps);
  EXPECT_EQ(stats.evictions, 5);
  EXPECT_LE(stats.held_bytes, kPreparedBytes);
  EXPECT_EQ(ask(1), first);
  EXPECT_NE(ask(2), second);  // was forgotten, and is made again
  clear_prepared_ops();
}

TEST(PreparedOps, AFailureLeavesNothingInTheCache) {
  clear_prepared_ops();
  const std::vector<Type> unequal{{DType::f32, {2}}, {DType::f32, {3}}};
  EXPECT_NE(message_of([&] { prepare(Op::add, NoAttrs{}, unequal, "ref"); }), "no error");
  const std::vector<Type> one{{DType::f32, {2}}};
  EXPECT_NE(message_of([&] { prepare(Op::neg, NoAttrs{}, one, "abacus"); }).find("abacus"), std::string::npos);
  EXPECT_NE(message_of([&] { prepare(Op::state, LeafAttrs{"w", one[0]}, {}, "ref"); }).find("leaf"), std::string::npos);
  EXPECT_EQ(prepared_op_stats().size, 0U);
}

}  // namespace
}  // namespace freight::test
