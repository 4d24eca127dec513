// The parts of a report that know nothing of runs: escaping, ticks, decimation, charts.
#include "freight/report/plot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "freight/report/markup.h"
#include "tests/support/files.h"
#include "tests/support/text.h"

namespace freight::report {
namespace {

using freight::testing::bytes_of;
using freight::testing::count_of;

const double kNan = std::nan("");

TEST(Markup, WhatCouldEndATextOrAnAttributeIsEscaped) {
  EXPECT_EQ(escaped("<b a=\"1\" c='2'>&</b>"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;&lt;/b&gt;");
  EXPECT_EQ(escaped("\xc3\xa9t\xc3\xa9 \xe5\xa5\xbd\n\t"), "\xc3\xa9t\xc3\xa9 \xe5\xa5\xbd\n\t");
}

TEST(Markup, BytesThatAreNoTextAndMarksOfDirectionAreReplaced) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(escaped("a\xff\xfe<"), "a" + bad + bad + "&lt;");
  EXPECT_EQ(escaped(std::string("a\0b\x1b", 4)), "a" + bad + "b" + bad);
  EXPECT_EQ(escaped("\xe2\x80\xae"
                    "txt"),
            bad + "txt");                     // right-to-left override
  EXPECT_EQ(escaped("\xe5\xa5"), bad + bad);  // cut off
}

TEST(Markup, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(shortened("\xc3\xa9\xc3\xa9\xc3\xa9", 2), "\xc3\xa9\xc3\xa9...");
  EXPECT_EQ(shortened("ab", 2), "ab");
}

TEST(Markup, Base64IsThatOfTheRfc) {
  const std::pair<const char*, const char*> rows[] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
                                                      {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : rows) EXPECT_EQ(base64(bytes_of(plain)), coded);
}

TEST(Ticks, AreRoundNumbersWithinTheRange) {
  EXPECT_EQ(ticks(0, 100, 5), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(ticks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(ticks(3, 3, 5), (std::vector<double>{3}));
  EXPECT_EQ(log_ticks(0.5, 30), (std::vector<double>{0.5, 1, 2, 5, 10, 20}));
  for (const double v : log_ticks(1e-9, 1e6)) EXPECT_NEAR(std::log10(v), std::round(std::log10(v)), 1e-9);
}

TEST(Ticks, AreWrittenShort) {
  EXPECT_EQ(tick_text(0.05, 0.05), "0.05");
  EXPECT_EQ(tick_text(0.1 + 0.2, 0.1), "0.3");
  EXPECT_EQ(tick_text(20000, 10000), "20k");
  EXPECT_EQ(tick_text(1.5e6, 5e5), "1.5M");
  EXPECT_EQ(tick_text(2000, 500), "2000");
  EXPECT_EQ(tick_text(1e-6, 1e-6), "1e-06");
  EXPECT_EQ(tick_text(0, 5), "0");
}

TEST(Decimation, KeepsTheExtremesInTheirOrder) {
  std::vector<Point> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), std::sin(i * 0.001)});
  points[54321].y = 50;
  points[54322].y = -50;
  const std::vector<Point> out = decimated(points, 0, 99999, 300);
  EXPECT_LE(out.size(), 600u);
  double least = 0, greatest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (i > 0) {
      EXPECT_GT(out[i].x, out[i - 1].x);
    }
    least = std::min(least, out[i].y);
    greatest = std::max(greatest, out[i].y);
  }
  EXPECT_EQ(least, -50);
  EXPECT_EQ(greatest, 50);
}

TEST(Decimation, LeavesAGapWhereNothingIsFinite) {
  std::vector<Point> points;
  for (int i = 0; i < 1000; ++i) points.push_back({static_cast<double>(i), i >= 400 && i < 600 ? kNan : 1.0});
  size_t gaps = 0;
  for (const Point& p : decimated(points, 0, 999, 10)) gaps += std::isnan(p.y);
  EXPECT_GE(gaps, 1u);
}

TEST(Plot, AValueThatIsNotFiniteInterruptsTheLineAndIsMarked) {
  const Plot plot{.title = "Loss",
                  .x_label = "step",
                  .y_label = "loss",
                  .series = {{.label = "test", .points = {{1, 3}, {2, 2}, {3, kNan}, {4, 1}, {5, INFINITY}}}}};
  const std::string svg = to_svg(plot);
  EXPECT_EQ(count_of(svg, "class=\"lost\""), 2u);
  const size_t line = svg.find("<g class=\"line");
  const std::string path = svg.substr(line, svg.find("/>", line) - line);
  EXPECT_EQ(count_of(path, "M"), 2u);
  EXPECT_EQ(count_of(path, "L"), 1u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_NE(svg.find(">test 1</text>"), std::string::npos) << "the label has the last value that is a number";
}

TEST(Plot, OnePointIsDrawnAsAMark) {
  const std::string svg = to_svg({.title = "t", .x_label = "x", .y_label = "y", .series = {{.points = {{5, 2}}}}});
  EXPECT_EQ(count_of(svg, "<circle"), 1u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Plot, WithoutAnyNumberThereIsNone) {
  const Plot plot{.title = "t", .x_label = "x", .y_label = "y", .series = {{.points = {{1, kNan}}}, {}}};
  EXPECT_FALSE(drawable(plot));
  EXPECT_EQ(to_svg(plot), "");
}

TEST(Plot, PositiveValuesThatSpreadWideGetALogScale) {
  Plot plot{.title = "t", .x_label = "x", .y_label = "loss", .series = {{.points = {{1, 2}, {2, 0.02}}}}};
  EXPECT_NE(to_svg(plot).find("log scale"), std::string::npos);
  plot.series[0].points.push_back({3, 0});
  EXPECT_EQ(to_svg(plot).find("log scale"), std::string::npos);
}

TEST(Plot, AVeryLongLineStaysSmall) {
  Plot plot{.title = "t", .x_label = "x", .y_label = "y", .series = {{.label = "a"}}};
  for (int i = 0; i < 100000; ++i) plot.series[0].points.push_back({static_cast<double>(i), i % 7 * 0.1});
  EXPECT_LT(to_svg(plot).size(), 30000u);
}

// A loss of 1e308 gave coordinates that were no numbers.
TEST(Plot, TheLargestAndTheLeastNumbersHaveAPlace) {
  const std::vector<double> kValues[] = {{1, 1e308, 5e-324}, {1, 1e300},       {-1.7e308, 1.7e308}, {1.7e308},
                                         {1.7e308, 1.7e308}, {5e-324, 1e-323}, {-1e308, 0, 1}};
  for (const auto& values : kValues) {
    for (const bool turned : {false, true}) {
      Plot plot{.title = "t", .x_label = "x", .y_label = "y", .series = {{.label = "a"}}};
      for (size_t i = 0; i < values.size(); ++i) {
        const auto number = static_cast<double>(i + 1);
        plot.series[0].points.push_back(turned ? Point{values[i], number} : Point{number, values[i]});
      }
      const std::string svg = to_svg(plot);
      EXPECT_NE(svg, "");
      for (const char* bad : {"nan", "\"inf", "-inf", " inf"}) EXPECT_EQ(svg.find(bad), std::string::npos) << svg;
    }
  }
}

TEST(Plot, LabelsOfManyLinesDoNotOverlap) {
  Plot plot{.title = "t", .x_label = "x", .y_label = "y"};
  for (int i = 0; i < 40; ++i) {
    plot.series.push_back({.label = cat("<", i, ">"),
                           .points = {{0, 1}, {1, 1 + i * 1e-3}},
                           .color = i,
                           .stroke = i % 2 ? Stroke::dashed : Stroke::solid});
  }
  const std::string svg = to_svg(plot);
  EXPECT_EQ(svg.find("<0>"), std::string::npos);
  std::vector<double> heights;
  for (size_t at = svg.find("class=\"end"); at != std::string::npos; at = svg.find("class=\"end", at + 1)) {
    heights.push_back(std::atof(svg.c_str() + svg.find(" y=\"", at) + 4));
  }
  EXPECT_GE(heights.size(), 10u);
  for (size_t i = 1; i < heights.size(); ++i) EXPECT_GE(heights[i] - heights[i - 1], 13.9);
}

}  // namespace
}  // namespace freight::report
