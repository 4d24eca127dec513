// Line charts as SVG text, drawn without a script: axes with round ticks, log scales where they help, labels at the
// lines' ends, a title that screen readers speak. Colours and fonts are classes (plot_style), so that a page can be
// light or dark; lines differ by dashes and marks too. Knows nothing of runs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace freight::report {

struct Point {
  double x = 0, y = 0;  // a y that is not finite interrupts the line and is marked at the upper edge
};

enum class Stroke : uint8_t { solid, dashed, none };  // none: marks alone
inline constexpr int kColours = 6;                    // classes s0 to s5, each with a mark of its own

struct Series {
  std::string label = {};          // at the line's end; dashed lines lose theirs first where there is no room
  std::vector<Point> points = {};  // x rises and is finite, and is above 0 on a log scale
  int colour = 0;                  // from 0; beyond kColours they repeat
  Stroke stroke = Stroke::solid;
  bool value_at_end = true;  // behind the label: that of the last point
};

struct Plot {
  enum class Scale : uint8_t { automatic, linear, logarithmic };  // automatic: by the spread of positive values
  std::string title = {}, x_label = {}, y_label = {};
  std::vector<Series> series = {};
  Scale scale = Scale::automatic;    // of the y axis
  Scale x_scale = Scale::linear;     // automatic is linear
  bool x_from_zero = true;           // a linear x axis begins at 0
  bool from_zero = false;            // the y axis begins at 0
  double reach = 0;                  // the y axis goes up to this at least
  std::optional<double> limit = {};  // which the y axis does not exceed, where no value does
};

// True where any point can be drawn.
bool drawable(const Plot& plot);
// An <svg> element that takes the width it is given; its own coordinates are 440 wide and 270 high. Empty for a plot
// that is not drawable.
std::string to_svg(const Plot& plot);
// The rules that to_svg's classes need. The page defines the colours: --ink, --muted, --rule, --paper, --s0 to --s5.
const char* plot_style();
// The mark of a colour on its line in a small <svg>, for a legend.
std::string legend_mark(int colour, Stroke stroke = Stroke::solid);

// About `count` round numbers (1, 2 or 5 times a power of ten) within [low, high].
std::vector<double> ticks(double low, double high, int count);
// The same for a log scale: powers of ten, with 2 and 5 times them where those are few. 0 < low < high.
std::vector<double> log_ticks(double low, double high);
// "0.05", "12k", "1e-06"; `step` is the distance to the next tick and decides the digits.
std::string tick_text(double v, double step);
// At most about 2 points for each of `buckets` equal parts of [low, high]: the least and the greatest, in their order.
// A part without finite values leaves one point, which interrupts the line.
std::vector<Point> decimated(const std::vector<Point>& points, double low, double high, size_t buckets);

}  // namespace freight::report
