// Eager programs in which an op fails: what changes, who hears of it, what is computed again. On a backend that refuses
// one op, when it is prepared or when it runs, and counts what it runs.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "freight/backend/backend.h"
#include "freight/base/error.h"
#include "freight/ops/ops.h"
#include "freight/run/prepared_op.h"
#include "freight/trace/variable.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

using freight::testing::message_of;
using Floats = std::vector<float>;

// The reference kernels, but `erf` fails and `tanh` has no kernel.
class FailingBackend final : public Backend {
 public:
  static std::map<Op, int>& runs() {
    static std::map<Op, int> counts;
    return counts;
  }
  std::string name() const override { return "failing"; }
  std::string description() const override { return "reference kernels, of which two fail"; }
  bool has_kernel(const Graph& graph, const Node& node) const override {
    return backend("ref").has_kernel(graph, node);
  }
  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    if (spec.node->op == Op::tanh) fail(ErrorKind::device, "tanh", "no kernel for it here");
    return std::make_unique<Counted>(spec.node->op, backend("ref").prepare(spec));
  }

 private:
  class Counted final : public Kernel {
   public:
    Counted(Op op, std::unique_ptr<Kernel> kernel) : op_(op), kernel_(std::move(kernel)) {}
    void run(void* const* operands) override {
      ++runs()[op_];
      if (op_ == Op::erf) fail(ErrorKind::runtime, "erf", "out of order");
      kernel_->run(operands);
    }
    std::string name() const override { return kernel_->name(); }
    size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }

   private:
    Op op_;
    std::unique_ptr<Kernel> kernel_;
  };
};

const char* failing_backend() {
  static const bool registered = [] {
    register_backend(std::make_unique<FailingBackend>());
    return true;
  }();
  return registered ? "failing" : "";
}

class FailureTest : public ::testing::Test {
 protected:
  const DeviceScope on_{failing_backend()};
  void SetUp() override { FailingBackend::runs().clear(); }
  void TearDown() override {
    message_of([] { eval(); });
  }
  static Variable variable(const char* name, double value) {
    return {name, {DType::f32, {2}}, {Init::Kind::constant, value, 0}};
  }
};

const char* const kErf = "out of order";
bool tells(const std::string& message, const std::string& what) { return message.find(what) != std::string::npos; }

TEST_F(FailureTest, OnlyWhatDependsOnTheFailingOpThrowsAgain) {
  const Tensor x = Tensor::of<float>({1, 2}, {2});
  const Tensor before = square(x), bad = erf(before), after = bad + 1, beside = x * 3, product = beside * bad;
  EXPECT_TRUE(tells(message_of([] { eval(); }), kErf));
  const auto runs = FailingBackend::runs();
  EXPECT_EQ(before.to_vector<float>(), (Floats{1, 4}));
  EXPECT_EQ(beside.to_vector<float>(), (Floats{3, 6}));
  for (const Tensor& t : {bad, after, product}) {
    const std::string first = message_of([&] { t.array(); });
    EXPECT_TRUE(tells(first, kErf)) << first;
    EXPECT_TRUE(tells(first, "failure_test.cpp")) << first;
    EXPECT_EQ(message_of([&] { t.array(); }), first);
    EXPECT_EQ(message_of([&] { (t * 2).array(); }), first);
  }
  EXPECT_EQ((before + beside).to_vector<float>(), (Floats{4, 10}));
  EXPECT_EQ(FailingBackend::runs().at(Op::erf), runs.at(Op::erf));
  EXPECT_EQ(FailingBackend::runs().at(Op::square), runs.at(Op::square));
}

TEST_F(FailureTest, AnOpThatThePlanIsRefusedForHarmsNobodyElse) {
  const Tensor x = Tensor::of<float>({1, 2}, {2});
  const Tensor good = x * 2 - 1, bad = tanh(good);
  EXPECT_TRUE(tells(message_of([&] { bad.array(); }), "no kernel"));
  EXPECT_EQ(good.to_vector<float>(), (Floats{1, 3}));
  EXPECT_TRUE(tells(message_of([&] { bad.array(); }), "no kernel"));
}

TEST_F(FailureTest, WhoAsksForAnInnocentTensorHearsNothingWhereNothingIsLost) {
  const Tensor x = Tensor::of<float>({1, 2}, {2});
  const Tensor good = x + 1, bad = erf(x);
  EXPECT_EQ(good.to_vector<float>(), (Floats{2, 3}));
  EXPECT_TRUE(tells(message_of([&] { bad.array(); }), kErf));
}

TEST_F(FailureTest, AFailedRunChangesNoVariableAndAsksNobodyToRepeatIt) {
  const Variable a = variable("a", 1), b = variable("b", 2);
  const Tensor old = a + 0, next = a + b;
  a.assign(next);
  b.assign(erf(b.value()));
  EXPECT_TRUE(tells(message_of([&] { old.array(); }), kErf));  // an assignment is lost: whoever runs it is told
  EXPECT_EQ(a.array().to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(b.array().to_vector<float>(), (Floats{2, 2}));
  EXPECT_EQ(old.to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(next.to_vector<float>(), (Floats{3, 3}));
  a.assign(a + 1);
  EXPECT_EQ(a.array().to_vector<float>(), (Floats{2, 2}));  // once
}

TEST_F(FailureTest, ValuesThatVariablesHadSurviveAFailedRun) {
  const Variable a = variable("a", 1);
  const Tensor held = a.value();
  eval();
  a.assign(a + 1);
  const Tensor bad = erf(a.value());
  EXPECT_TRUE(tells(message_of([] { eval(); }), kErf));
  EXPECT_EQ(grad(sum(square(held * a)), {a})[0].to_vector<float>(), (Floats{4, 4}));  // both are the present value
  a.set(5);
  EXPECT_EQ(held.to_vector<float>(), (Floats{1, 1}));
  EXPECT_TRUE(tells(message_of([&] { bad.array(); }), kErf));
}

TEST_F(FailureTest, GradientsThroughInnocentTensorsOfAFailedRun) {
  const Variable w = variable("w", 3);
  const Tensor x = Tensor::of<float>({1, 2}, {2});
  const Tensor y = square(x * w), bad = erf(y);
  EXPECT_TRUE(tells(message_of([] { eval(); }), kErf));
  EXPECT_EQ(grad(sum(y), {w})[0].to_vector<float>(), (Floats{6, 24}));
  EXPECT_TRUE(tells(message_of([&] { grad(sum(bad), {w}); }), kErf));
}

TEST_F(FailureTest, NoNumberIsDrawnTwice) {
  seed(7);
  const Tensor first = random_uniform({4}), bad = erf(first);
  EXPECT_TRUE(tells(message_of([] { eval(); }), kErf));
  const Floats drawn = first.to_vector<float>(), next = random_uniform({4}).to_vector<float>();
  EXPECT_NE(drawn, next);
  seed(7);
  EXPECT_EQ(random_uniform({4}).to_vector<float>(), drawn);
  EXPECT_EQ(random_uniform({4}).to_vector<float>(), next);
}

TEST_F(FailureTest, AThreadIsToldWhichAssignmentsAnotherOneLost) {
  const Variable a = variable("a", 1);
  a.assign(a + 1);
  const Tensor bad = erf(a.value());
  std::string told;
  std::thread other([&] { told = message_of([&] { bad.array(); }); });
  other.join();
  EXPECT_TRUE(tells(told, kErf));
  EXPECT_TRUE(tells(message_of([&] { a.array(); }), kErf));
  EXPECT_EQ(a.array().to_vector<float>(), (Floats{1, 1}));
}

TEST_F(FailureTest, AnOpAloneRunsAsAPreparedOp) {
  const Tensor x = Tensor::of<float>({1, 2}, {2}), y = Tensor::of<float>({3, 5}, {2});
  (x - y).array();
  const PreparedOpStats before = prepared_op_stats();
  EXPECT_EQ((y - x).to_vector<float>(), (Floats{2, 3}));
  EXPECT_EQ(prepared_op_stats().hits, before.hits + 1);
  EXPECT_EQ((x - x).to_vector<float>(), (Floats{0, 0}));  // one leaf for two operands: a graph
  const Tensor product = x * y, more = product - x;
  EXPECT_EQ(more.to_vector<float>(), (Floats{2, 8}));
  EXPECT_EQ(prepared_op_stats().hits, before.hits + 1);
}

}  // namespace
}  // namespace freight
