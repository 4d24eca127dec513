// Times of sums over processes: the fitted line, the listing, and what ranks measure together.
#include "freight/bench/comm.h"

#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "tests/support/error_of.h"

namespace freight::test {
namespace {

using bench::CommCost;
using bench::CommFigure;
using bench::CommTimes;

std::vector<CommFigure> on_line(double start, double per_byte) {
  std::vector<CommFigure> all;
  for (const int64_t bytes : {int64_t{1} << 10, int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 24}) {
    const double seconds = start + per_byte * static_cast<double>(bytes);
    all.push_back({.bytes = bytes, .median = seconds, .least = seconds, .runs = 10});
  }
  return all;
}

TEST(CommCost, FindsTheLineThatTimesLieOn) {
  const CommCost c = bench::fit_cost(on_line(3e-6, 2e-10));
  EXPECT_NEAR(c.start, 3e-6, 1e-12);
  EXPECT_NEAR(c.per_byte, 2e-10, 1e-16);
  EXPECT_LT(c.worst, 1e-6);
}

TEST(CommCost, CountsDeviationsRelatively) {
  std::vector<CommFigure> all = on_line(3e-6, 2e-10);
  all.back().median *= 1.2;  // in absolute numbers this is more than all the others together
  const CommCost c = bench::fit_cost(all);
  EXPECT_NEAR(c.start, 3e-6, 1e-6);
  EXPECT_GT(c.worst, 0.05);
  EXPECT_LT(c.worst, 0.2);
}

TEST(CommCost, HasNoNegativeTerms) {
  const CommCost falling = bench::fit_cost({{.bytes = 1000, .median = 2e-6}, {.bytes = 100000, .median = 1e-6}});
  EXPECT_EQ(falling.per_byte, 0);
  EXPECT_GT(falling.start, 1e-6);
  EXPECT_LT(falling.start, 2e-6);
  const CommCost steep = bench::fit_cost({{.bytes = 1000, .median = 1e-6}, {.bytes = 2000, .median = 4e-6}});
  EXPECT_EQ(steep.start, 0);
  EXPECT_GT(steep.per_byte, 1e-9);
  EXPECT_LT(steep.per_byte, 2e-9);
  const CommCost one = bench::fit_cost({{.bytes = 1000, .median = 1e-6}});
  EXPECT_EQ(one.start, 0);
  EXPECT_NEAR(one.per_byte, 1e-9, 1e-18);
  EXPECT_EQ(bench::fit_cost({}).per_byte, 0);
}

TEST(CommTimes, AreListedAndReadAgain) {
  CommTimes one = {.world = 1, .figures = {{.bytes = 1024, .median = 1e-8, .least = 1e-8, .runs = 5}}};
  CommTimes four = {.world = 4, .figures = on_line(2e-6, 1e-10)};
  four.cost = bench::fit_cost(four.figures);
  four.beside = plan::BesideCompute{
      .threads = 2, .products = 1.25, .rest = 1.5, .slowest = 1.0625, .sum = {2e-6, 0.5e-9}, .lost_per_byte = 0.25e-9};
  EXPECT_NEAR(bench::bus_rate(4, {.bytes = 1000, .median = 1e-6}), 1.5e9, 1);
  EXPECT_EQ(bench::bus_rate(1, one.figures[0]), 0);
  const bench::Listing listing = bench::figures_of({one, four});
  ASSERT_EQ(listing.rows.size(), 5u);
  EXPECT_EQ(listing.rows[0].back(), "-");
  EXPECT_EQ(listing.rows[1][1], "1,024");
  const std::vector<std::string> found = bench::findings({one, four});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], "4 ranks: an all-reduce takes 2.00 us + bytes / 10.00 GB/s, within 0 % of each median");
  EXPECT_EQ(found[1],
            "while all ranks compute: matmuls take 1.25 and other kernels 1.50 times as long as on one rank alone, the "
            "slowest rank's step 1.06 of the mean; an all-reduce takes 2.00 us + bytes / 2.00 GB/s, and costs 0.25 ms "
            "of computing "
            "for each MB");
  const std::vector<CommTimes> again =
      bench::read_comm_times(bench::to_json("box", "shared memory", {one, four}), "test");
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[1].world, 4);
  EXPECT_EQ(again[1].figures[3].bytes, four.figures[3].bytes);
  EXPECT_EQ(again[1].figures[3].median, four.figures[3].median);
  EXPECT_EQ(again[1].cost.per_byte, four.cost.per_byte);
  EXPECT_FALSE(again[0].beside);
  ASSERT_TRUE(again[1].beside);
  EXPECT_EQ(again[1].beside->threads, 2);
  EXPECT_EQ(again[1].beside->products, 1.25);
  EXPECT_EQ(again[1].beside->rest, 1.5);
  EXPECT_EQ(again[1].beside->slowest, 1.0625);
  EXPECT_EQ(again[1].beside->sum.start, 2e-6);
  EXPECT_EQ(again[1].beside->sum.per_byte, 0.5e-9);
  EXPECT_EQ(again[1].beside->lost_per_byte, 0.25e-9);
  for (const char* text : {"", "{", "[]", "{\"worlds\":3}", "{\"worlds\":[{\"world\":\"x\"}]}"}) {
    EXPECT_EQ(testing::error_of([&] { bench::read_comm_times(text, "there"); }).op(), "there") << text;
  }
  // What no machine measures is refused by its key, in words of our own.
  const std::string sound = bench::to_json("box", "shared memory", {four});
  for (const auto& [key, number] : {std::pair("world", "-5"),
                                    {"world", "1e300"},
                                    {"world", "0"},
                                    {"bytes", "-1"},
                                    {"seconds_per_byte", "-1"},
                                    {"start_seconds", "1e300"},
                                    {"runs", "1.5"},
                                    {"threads", "0"},
                                    {"products_slower", "-1"},
                                    {"rest_slower", "1e9"},
                                    {"lost_seconds_per_byte", "2"}}) {
    std::string bad = sound;
    const size_t at = bad.find(cat("\"", key, "\": ")) + std::string(key).size() + 4;
    bad.replace(at, bad.find_first_of(",\n}", at) - at, number);
    const std::string said = testing::error_of([&] { bench::read_comm_times(bad, "there"); }).what();
    EXPECT_NE(said.find(cat("there: \"", key, "\"")), std::string::npos) << said;
    EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
  }
}

// Below each limit, at it, and one above.
TEST(CommTimes, AreReadUpToTheirLimits) {
  const std::string sound = bench::to_json("box", "shared memory", {{.world = 4, .figures = on_line(2e-6, 1e-10)}});
  const auto with = [&](const std::string& key, const std::string& number) {
    std::string text = sound;
    const size_t at = text.find(cat("\"", key, "\": ")) + key.size() + 4;
    return text.replace(at, text.find_first_of(",\n}", at) - at, number);
  };
  const struct {
    const char* key;
    std::vector<const char*> taken;
    const char* refused;
  } kFigures[] = {{"world", {"1048575", "1048576"}, "1048577"},
                  {"bytes", {"1125899906842623", "1125899906842624"}, "1125899906842625"},
                  {"seconds", {"999999", "1e6"}, "1000001"}};
  for (const auto& [key, taken, refused] : kFigures) {
    for (const char* number : taken) EXPECT_EQ(bench::read_comm_times(with(key, number), "there").size(), 1u) << number;
    const std::string said = testing::error_of([&, key = key, refused = refused] {
                               bench::read_comm_times(with(key, refused), "there");
                             }).what();
    EXPECT_NE(said.find(cat("there: \"", key, "\"")), std::string::npos) << said;
  }
}

TEST(CommTimes, AreTheSameOnAllRanks) {
  const std::vector<std::string> reports = reports_of(2, [](comm::Comm& c) -> std::string {
    const CommTimes t = bench::time_all_reduce(c, {4, 4096, 1 << 20}, 0.01);
    if (t.world != 2 || t.figures.size() != 3) return "has other figures";
    std::string text;
    for (const CommFigure& f : t.figures) {
      if (f.least <= 0 || f.least > f.median || f.runs < 5) return cat("got ", f.least, " ", f.median, " ", f.runs);
      text += cat(f.bytes, " ", f.median, " ", f.least, " ", f.runs, ";");
    }
    return text;
  });
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_EQ(reports[0].substr(0, 2), "4 ") << reports[0];
}

}  // namespace
}  // namespace freight::test
