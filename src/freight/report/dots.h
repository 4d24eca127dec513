// Amounts beside each other as marks on one log scale, a row each: SVG text, drawn without a script.
#pragma once
#include <string>
#include <vector>

namespace freight::report {

struct Dot {
  std::string label;
  double value = 0;     // above 0; others are left out
  bool hollow = false;  // of another kind than the filled ones, as the page says
};

// An <svg> element of 440 units width; "" without any amount. `unit` stands under the axis.
std::string to_svg(const std::vector<Dot>& dots, const std::string& title, const std::string& unit);

}  // namespace freight::report
