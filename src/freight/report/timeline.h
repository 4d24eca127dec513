// The order and duration of steps as bars in lanes: SVG text without a script. Every lane has its own time axis. Kinds
// of bars differ by their filling, not by color, and wide bars carry their names.
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
  std::vector<Bar> bars = {};  // one after the other
  int color = 0;               // as in plots
  bool dashed = false;         // dashed frames: for times that were not measured
};

// An <svg> element 880 units wide. Neighboring bars of equal name and filling are drawn as one; bars too narrow to be
// seen are combined. Empty if all lanes are.
std::string to_svg(const std::vector<Lane>& lanes, const std::string& title);
// A small bar for a legend.
std::string legend_bar(Filling filling);
// The style rules of both; the page defines the colors, as for plots.
const char* timeline_style();

}  // namespace freight::report
