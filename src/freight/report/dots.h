// A dot plot: amounts as marks on a log scale, one row each, as SVG text without a script.
#pragma once
#include <string>
#include <vector>

namespace freight::report {

struct Dot {
  std::string label;
  double value = 0;     // above 0; others are skipped
  bool hollow = false;  // marks a second kind of amount, which the page explains
};

// An <svg> element 440 units wide; "" without any amount. `unit` is the label of the axis.
std::string to_svg(const std::vector<Dot>& dots, const std::string& title, const std::string& unit);

}  // namespace freight::report
