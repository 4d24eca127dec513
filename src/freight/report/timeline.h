// The order and the duration of steps, as bars in lanes: SVG text, drawn without a script. Every lane has a time
// axis of its own. Kinds of bars differ by their filling, not by colour, and wide ones carry their names.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace freight::report {

enum class Filling : uint8_t { dense, hatched, empty, crossed };

struct Bar {
  std::string label;  // "layer1.0.conv1 backward"
  double seconds = 0;
  Filling filling = Filling::dense;
};

struct Lane {
  std::string label;
  std::vector<Bar> bars = {};  // one behind the other
  int colour = 0;              // as in plots
  bool dashed = false;         // the frames of its bars: for what was not measured
};

// An <svg> element of 880 units width. Neighbours of equal name and filling are drawn as one bar; bars too narrow to be
// seen are gathered. Empty where no lane lasts.
std::string to_svg(const std::vector<Lane>& lanes, const std::string& title);
// A small bar for a legend.
std::string legend_bar(Filling filling);
// The rules that the classes of both need; the page defines the colours, as for plots.
const char* timeline_style();

}  // namespace freight::report
