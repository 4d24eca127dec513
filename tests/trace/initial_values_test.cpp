// Initial values: the same bits whoever draws them, ahead of their first need by another thread or then.
#include "freight/trace/initial_values.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/ops/ops.h"
#include "freight/run/executable.h"
#include "freight/trace/compile.h"
#include "tests/support/error_of.h"

namespace freight {
namespace {

using freight::testing::message_of;

constexpr uint64_t kSeed = 7;

// One of each kind, larger than a piece, of odd sizes, and two of one name; zeros are large enough to be cleared ahead.
std::vector<Variable> one_of_each() {
  using Kind = Init::Kind;
  std::vector<Variable> all;
  const auto add = [&](const char* name, const Type& type, const Init& init) { all.emplace_back(name, type, init); };
  add("uniform", {DType::f32, {331, 401}}, {Kind::uniform, -1, 2});
  add("normal", {DType::f32, {70001}}, {Kind::normal, 0.5, 2});
  add("zeros", {DType::f32, {3, 1 << 20}}, {});
  add("cut", {DType::f32, {150001}}, {Kind::trunc_normal, 0, 0.02});
  add("twice", {DType::f32, {66000}}, {Kind::uniform, 0, 1});
  add("twice", {DType::f32, {66000}}, {Kind::uniform, 0, 1});
  add("orthogonal", {DType::f32, {40, 50}}, {Kind::orthogonal, 1.5});
  add("half", {DType::f16, {70003}}, {Kind::normal, 0, 1});
  add("sevens", {DType::i64, {70003}}, {Kind::constant, 7});
  add("padded", {DType::f32, {500, 301}}, {.kind = Kind::normal, .a = 0, .b = 1, .zero_row = 2});
  add("identity", {DType::f32, {64, 64, 3, 3}}, {.kind = Kind::uniform, .a = 0, .b = 1, .identity = true});
  add("gates", {DType::f32, {4 * 20}}, {Kind::uniform, -1, 1, -1, false, 100, 4, true});
  return all;
}

std::vector<std::shared_ptr<trace::VariableImpl>> impls_of(const std::vector<Variable>& variables) {
  std::vector<std::shared_ptr<trace::VariableImpl>> all;
  for (const Variable& v : variables) all.push_back(v.impl());
  return all;
}

std::vector<Array> values_of(const std::vector<Variable>& variables) {
  std::vector<Array> all;
  for (const Variable& v : variables) all.push_back(v.array());
  return all;
}

void expect_same(const std::vector<Array>& a, const std::vector<Array>& b, const std::vector<Variable>& names) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].bytes(), b[i].bytes());
    EXPECT_EQ(std::memcmp(a[i].raw(), b[i].raw(), a[i].bytes()), 0) << names[i].name();
  }
}

std::vector<Array> drawn_at_need() {
  seed(kSeed);
  const std::vector<Variable> variables = one_of_each();
  return values_of(variables);
}

TEST(InitialValuesTest, AreTheSameWhenAnotherThreadHasDrawnAllOrSomeOrNone) {
  const std::vector<Array> expected = drawn_at_need();
  for (const int microseconds : {0, 300, 1000000}) {
    seed(kSeed);
    const std::vector<Variable> variables = one_of_each();
    trace::DrawAhead ahead(impls_of(variables));
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    expect_same(expected, values_of(variables), variables);
  }
}

TEST(InitialValuesTest, AreTheSameInAnotherOrderOfNeed) {
  const std::vector<Array> expected = drawn_at_need();
  seed(kSeed);
  std::vector<Variable> variables = one_of_each();
  trace::DrawAhead ahead(impls_of(variables));
  std::vector<Array> values(variables.size());
  // From the last to the first, but for the two of one name, whose order counts.
  for (size_t i = variables.size(); i-- > 0;) {
    if (variables[i].name() != "twice") values[i] = variables[i].array();
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].name() == "twice") values[i] = variables[i].array();
  }
  expect_same(expected, values, variables);
}

TEST(InitialValuesTest, CountNothingThatNobodyAskedFor) {
  const std::vector<Array> expected = drawn_at_need();
  seed(kSeed);
  {
    const std::vector<Variable> given_up = one_of_each();
    trace::DrawAhead ahead(impls_of(given_up));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::vector<Variable> variables = one_of_each();
  expect_same(expected, values_of(variables), variables);
}

TEST(InitialValuesTest, AreNotDrawnAheadForWhatIsSetOrThereAlready) {
  seed(kSeed);
  const std::vector<Variable> variables = one_of_each();
  const Array before = variables[0].array().clone();
  trace::DrawAhead ahead(impls_of(variables));
  const Array given(DType::f32, variables[1].shape());
  variables[1].set(given);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(std::memcmp(variables[0].array().raw(), before.raw(), before.bytes()), 0);
  EXPECT_EQ(std::memcmp(variables[1].array().raw(), given.raw(), given.bytes()), 0);
}

TEST(InitialValuesTest, OneThreadDrawsNothingAhead) {
  const ThreadLimit one(1);
  const std::vector<Variable> variables = one_of_each();
  trace::DrawAhead ahead(impls_of(variables));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ahead.stop(), 0u);
}

TEST(InitialValuesTest, AreTheSameWhereTheirThreadHasWaitedForMeasurements) {
  const std::vector<Array> expected = drawn_at_need();
  seed(kSeed);
  const std::vector<Variable> variables = one_of_each();
  std::unique_ptr<trace::DrawAhead> ahead;
  {
    const BackgroundPause pause;
    ahead = std::make_unique<trace::DrawAhead>(impls_of(variables));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  expect_same(expected, values_of(variables), variables);
}

TEST(InitialValuesTest, OfACompiledFunctionAreDrawnBesideItsPlan) {
  const auto elements = [](bool compiled) {
    seed(kSeed);
    const Variable w("w", {DType::f32, {512, 513}}, {Init::Kind::normal, 0, 1});
    auto step = compile([&](const Tensor& x) { return matmul(x, w.value()); });
    if (compiled) step(ones({2, 512}));
    return w.array();
  };
  const Array ahead = elements(true), later = elements(false);
  EXPECT_EQ(std::memcmp(ahead.raw(), later.raw(), later.bytes()), 0);
}

TEST(VariableTest, AdoptsTheMemoryOfAnArrayThatNobodyElseUses) {
  const Variable fresh("fresh", {DType::f32, {3}}), made("made", {DType::f32, {3}}), apart("apart", {DType::f32, {3}});
  made.set(1);
  const Array given = Array::of<float>({1, 2, 3}, {3});
  fresh.adopt(given);
  EXPECT_EQ(fresh.array().raw(), given.raw());
  // A variable that has memory keeps it and gets the values; so does one that would lie where no kernel expects it.
  const Array other = Array::of<float>({4, 5, 6}, {3});
  const void* const before = made.array().raw();
  made.adopt(other);
  EXPECT_EQ(made.array().raw(), before);
  EXPECT_EQ(made.array().to_vector<float>(), (std::vector<float>{4, 5, 6}));
  const Array wide(DType::f32, {4});
  const Array shifted(DType::f32, {3}, Storage::borrow(wide.data<float>() + 1, 12, wide.storage()));
  apart.adopt(shifted);
  EXPECT_NE(apart.array().raw(), shifted.raw());
  EXPECT_NE(message_of([&] { fresh.adopt(wide); }).find("types differ"), std::string::npos);
}

}  // namespace
}  // namespace freight
