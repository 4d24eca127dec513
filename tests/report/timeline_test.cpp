// Timelines, rows of dots, and what plots draw on log scales: structure, read from the SVG.
#include "freight/report/timeline.h"

#include <gtest/gtest.h>

#include "freight/base/strings.h"
#include "freight/report/document.h"
#include "freight/report/dots.h"
#include "tests/support/text.h"

namespace freight::report {
namespace {

using freight::testing::count_of;

// The numbers of an attribute of all elements of a class.
std::vector<double> numbers(const std::string& svg, const std::string& element, const std::string& attribute) {
  std::vector<double> all;
  for (size_t at = svg.find(element); at != std::string::npos; at = svg.find(element, at + 1)) {
    all.push_back(std::atof(svg.c_str() + svg.find(" " + attribute + "=\"", at) + attribute.size() + 3));
  }
  return all;
}

TEST(Timeline, BarsFollowEachOtherAndFillTheLane) {
  const std::string svg =
      to_svg({{.label = "cpu <1>",
               .bars = {{"a", 0.001, Filling::dense}, {"b", 0.002, Filling::hatched}, {"c", 0.001, Filling::empty}}}},
             "a step");
  EXPECT_EQ(svg.find("<1>"), std::string::npos);
  EXPECT_NE(svg.find("4 ms"), std::string::npos);
  const std::vector<double> x = numbers(svg, "<rect", "x"), width = numbers(svg, "<rect", "width");
  ASSERT_EQ(x.size(), 3u);
  EXPECT_EQ(x, (std::vector<double>{0, 220, 660}));
  EXPECT_EQ(width, (std::vector<double>{220, 440, 220}));
  for (const char* filling : {"class=\"dense\"", "class=\"hatched\"", "class=\"empty\""}) {
    EXPECT_EQ(count_of(svg, filling), 1u) << filling;
  }
}

TEST(Timeline, NeighborsOfOneNameAreOneBarAndShortOnesAreGathered) {
  Lane lane{.label = "d", .bars = {{"a", 1, Filling::dense}, {"a", 1, Filling::dense}, {"a", 1, Filling::hatched}}};
  EXPECT_EQ(count_of(to_svg({lane}, "t"), "<rect"), 2u);
  lane.bars = {{"long", 1, Filling::dense}};
  for (int i = 0; i < 10000; ++i) lane.bars.push_back({cat("short", i), 1e-4, Filling::empty});
  const std::string svg = to_svg({lane}, "t");
  EXPECT_LT(count_of(svg, "<rect"), 600u);
  EXPECT_NE(svg.find("short steps"), std::string::npos);
  const std::vector<double> width = numbers(svg, "<rect", "width");
  double sum = 0;
  for (const double w : width) sum += w;
  EXPECT_NEAR(sum, 880, 3);  // nothing is lost
}

TEST(Timeline, LanesThatWereNotMeasuredAreDashedAndEmptyOnesLeftOut) {
  const Lane bar{.label = "x", .bars = {{"a", 1, Filling::dense}}, .color = 1, .dashed = true};
  const std::string svg = to_svg({bar, {.label = "nothing"}}, "t");
  EXPECT_NE(svg.find("class=\"lane s1 dashed\""), std::string::npos);
  EXPECT_EQ(svg.find("nothing"), std::string::npos);
  EXPECT_EQ(to_svg(std::vector<Lane>{{.label = "nothing"}}, "t"), "");
}

TEST(Dots, LieOnALogScaleAndHollowOnesAreSquares) {
  const std::string svg = to_svg(std::vector<Dot>{{"a", 1}, {"b", 4}, {"c", 16, true}, {"none", 0}}, "t", "ms");
  const std::vector<double> x = numbers(svg, "<circle", "cx");
  ASSERT_EQ(x.size(), 2u);
  const double square = numbers(svg, "<rect", "x")[0] + 3.5;
  EXPECT_NEAR(x[1] - x[0], square - x[1], 0.2);  // equal ratios, equal distances
  EXPECT_EQ(svg.find("none"), std::string::npos);
  EXPECT_EQ(to_svg(std::vector<Dot>{{"none", 0}}, "t", "ms"), "");
}

TEST(PlotOfLogarithms, PutsEqualRatiosAtEqualDistances) {
  const Plot plot{.title = "t",
                  .x_label = "batch",
                  .y_label = "y",
                  .series = {{.label = "a", .points = {{1, 1}, {8, 2}, {64, 3}}}},
                  .x_scale = Plot::Scale::logarithmic};
  const std::string svg = to_svg(plot);
  const std::vector<double> x = numbers(svg, "<circle", "cx");
  ASSERT_EQ(x.size(), 3u);
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.2);
  EXPECT_NE(svg.find("batch, log scale"), std::string::npos);
}

TEST(PlotOfMarks, DrawsNoLine) {
  Plot plot{.title = "t", .x_label = "x", .y_label = "y"};
  plot.series = {{.label = {}, .points = {{1, 1}, {2, 2}}, .color = 5, .stroke = Stroke::none}};
  const std::string svg = to_svg(plot);
  EXPECT_NE(svg.find("class=\"line s5 marks\""), std::string::npos);
  EXPECT_NE(std::string(plot_style()).find(".marks>path:first-child{stroke:none}"), std::string::npos);
  const auto mark_of = [](int colour) {  // without the names of colors
    const std::string key = legend_mark(colour);
    return key.substr(key.find("M1 6H23"));
  };
  for (int i = 0; i < kColors; ++i) {
    for (int k = 0; k < i; ++k) EXPECT_NE(mark_of(i), mark_of(k)) << i << " and " << k;
  }
}

TEST(DataTable, EscapesCellsAndSpreadsNotes) {
  const std::string html = data_table({{"a<b", false}, {"n", true}}, {{"x&y", "1"}, {"a note"}});
  EXPECT_NE(html.find("a&lt;b"), std::string::npos);
  EXPECT_NE(html.find("<th scope=\"row\">x&amp;y</th><td class=\"number\">1</td>"), std::string::npos);
  EXPECT_NE(html.find("colspan=\"2\">a note"), std::string::npos);
}

}  // namespace
}  // namespace freight::report
