// Line charts as SVG text without a script: axes with round ticks, log scales where they help, labels at the ends of
// lines, and a title for screen readers. Colors and fonts are classes (plot_style), so that a page can be light or
// dark; lines also differ by dashes and marks. Knows nothing of runs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace freight::report {

struct Point {
  double x = 0, y = 0;  // a y that is not finite interrupts the line and is marked at the upper edge
};

enum class Stroke : uint8_t { solid, dashed, none };  // none: marks only
inline constexpr int kColors = 6;                     // classes s0 to s5, each with its own mark

struct Series {
  std::string label = {};          // at the line's end; dashed lines lose their labels first if there is no space
  std::vector<Point> points = {};  // x ascends and is finite, and above 0 on a log scale
  int color = 0;                   // from 0; from kColors on they repeat
  Stroke stroke = Stroke::solid;
  bool value_at_end = true;  // adds the last point's value to the label
};

struct Plot {
  enum class Scale : uint8_t { automatic, linear, logarithmic };  // automatic: by the range of positive values
  std::string title = {}, x_label = {}, y_label = {};
  std::vector<Series> series = {};
  Scale scale = Scale::automatic;    // of the y axis
  Scale x_scale = Scale::linear;     // automatic is linear
  bool x_from_zero = true;           // a linear x axis begins at 0
  bool from_zero = false;            // the y axis begins at 0
  double reach = 0;                  // the y axis reaches at least this value
  std::optional<double> limit = {};  // the y axis does not exceed this value unless a point does
};

// True if any point can be drawn.
bool drawable(const Plot& plot);
// An <svg> element that scales to the available width; its own coordinates are 440 wide and 270 high. Empty for a plot
// that is not drawable.
std::string to_svg(const Plot& plot);
// The style rules of to_svg's classes. The page defines the colors: --ink, --muted, --rule, --paper, --s0 to --s5.
const char* plot_style();
// A small <svg> with the mark of a color on its line, for a legend.
std::string legend_mark(int color, Stroke stroke = Stroke::solid);

// About `count` round numbers (1, 2 or 5 times a power of ten) within [low, high].
std::vector<double> ticks(double low, double high, int count);
// Ticks of a log scale: powers of ten, also times 2 and 5 if these are few. 0 < low < high.
std::vector<double> log_ticks(double low, double high);
// The text of a tick: "0.05", "12k", "1e-06"; `step`, the distance to the next tick, determines the digits.
std::string tick_text(double v, double step);
// At most about 2 points for each of `buckets` equal parts of [low, high]: the minimum and the maximum, in their order.
// A part without finite values keeps one point, which interrupts the line.
std::vector<Point> decimated(const std::vector<Point>& points, double low, double high, size_t buckets);

}  // namespace freight::report
