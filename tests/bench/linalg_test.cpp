// Times of linear algebra: what is run, and what is made of the figures. No time is held to a value.
#include "freight/bench/linalg.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.h"

namespace freight::bench {
namespace {

using freight::testing::expect_error;
using Json = nlohmann::json;

const LinalgProgress kGo = [](const std::string&) { return true; };

LinalgOptions small(std::vector<std::string> devices) {
  return {.extents = {3, 8}, .batch = 2, .devices = std::move(devices), .threads = 1, .seconds = 0.003};
}

TEST(LinalgTimes, HaveEveryOpTypeExtentAndDevice) {
  std::vector<std::string> heard;
  const LinalgTimes t = time_linalg(small({"cpu", "ref"}), [&](const std::string& what) {
    heard.push_back(what);
    return true;
  });
  ASSERT_EQ(t.figures.size(), 2u * 2 * 2 * 7);
  EXPECT_EQ(heard.front(), "cpu, product f64, n 3");
  EXPECT_EQ(t.threads, 1);
  for (const LinalgFigure& f : t.figures) {
    EXPECT_GT(f.seconds, 0) << f.op << " " << f.skipped;
    EXPECT_GT(f.product_rate, 0) << f.op;
  }
}

TEST(LinalgTimes, CountTheFlopsOfTheBatch) {
  LinalgOptions o = small({"cpu"});
  o.ops = {"lu", "cholesky"};
  o.dtypes = {DType::f64};
  const LinalgTimes t = time_linalg(o, kGo);
  ASSERT_EQ(t.figures.size(), 6u);
  EXPECT_DOUBLE_EQ(t.figures[3].flops, 2 * 2 * 8 * 8 * 8);  // the product of n = 8
  EXPECT_NEAR(t.figures[4].flops, 2 * 2.0 / 3 * 8 * 8 * 8, 1e-9);
  EXPECT_NEAR(t.figures[5].flops, 2 * 1.0 / 3 * 8 * 8 * 8, 1e-9);
}

TEST(LinalgTimes, LeaveOutWhatWouldTakeTooLong) {
  LinalgOptions o = small({"cpu"});
  o.ops = {"lu"};
  o.dtypes = {DType::f32};
  o.most_seconds = 1e-12;
  const LinalgTimes t = time_linalg(o, kGo);
  ASSERT_EQ(t.figures.size(), 4u);
  EXPECT_GT(t.figures[1].seconds, 0);
  EXPECT_EQ(t.figures[3].seconds, 0);
  EXPECT_NE(t.figures[3].skipped.find("--most-seconds"), std::string::npos);
  EXPECT_EQ(figures_of(t).rows[3].size(), 1u);  // a note
}

TEST(LinalgTimes, StopWhereTheyAreAskedTo) {
  int asked = 0;
  const LinalgTimes t = time_linalg(small({"cpu"}), [&](const std::string&) { return ++asked < 3; });
  EXPECT_EQ(t.figures.size(), 2u);
}

TEST(LinalgTimes, RefuseWhatIsNotThereBeforeAnythingIsRun) {
  const LinalgProgress none = [](const std::string&) -> bool { throw std::logic_error("something was run"); };
  LinalgOptions o = small({"cpu"});
  o.ops = {"lu", "inverse"};
  expect_error(ErrorKind::usage, {"inverse", "cholesky"}, [&] { time_linalg(o, none); });
  o.ops = {"product"};
  expect_error(ErrorKind::usage, {"product is always measured"}, [&] { time_linalg(o, none); });
  expect_error(ErrorKind::device, {"77"}, [&] { time_linalg(small({"cpu", "opencl:77"}), none); });
}

// Seconds by extent, on the CPU and on another device.
LinalgTimes given(const std::vector<std::array<double, 3>>& rows) {
  LinalgTimes t;
  for (const size_t device : {1, 2}) {
    for (const auto& row : rows) {
      LinalgFigure f{.op = "lu", .device = device == 1 ? "cpu" : "cuda:0", .n = static_cast<int64_t>(row[0])};
      f.seconds = row[device];
      t.figures.push_back(f);
    }
  }
  return t;
}

TEST(LinalgTimes, SayFromWhichExtentOnADeviceWins) {
  const auto from = [](const LinalgTimes& t) { return wins_from(t, "cpu", "cuda:0", "lu", DType::f64); };
  EXPECT_EQ(from(given({{100, 1, 2}, {200, 4, 3}, {400, 9, 5}})), 200);
  EXPECT_EQ(from(given({{100, 1, 0.5}, {200, 4, 3}})), 100);
  EXPECT_EQ(from(given({{100, 1, 0.5}, {200, 3, 4}})), std::nullopt);  // and loses behind it
  EXPECT_EQ(from(given({{100, 1, 0.5}, {200, 3, 4}, {400, 9, 8}})), 400);
  EXPECT_EQ(from(given({{100, 1, 2}, {200, 0, 3}, {400, 0, 5}})), std::nullopt);  // not measured on the CPU
  EXPECT_EQ(wins_from(given({{100, 2, 1}}), "cpu", "cuda:0", "lu", DType::f32), std::nullopt);
  const std::vector<std::string> told = findings(given({{100, 1, 2}, {200, 4, 3}}));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0], "lu f64: cuda:0 is faster than cpu from n = 200 on");
  EXPECT_EQ(Json::parse(to_json(given({{100, 1, 2}, {200, 4, 3}}))).at("wins")[0].at("faster_from_n"), 200);
}

}  // namespace
}  // namespace freight::bench
