// See dots.h.
#include "freight/report/dots.h"

#include <algorithm>
#include <cmath>

#include "freight/base/strings.h"
#include "freight/report/markup.h"
#include "freight/report/plot.h"

namespace freight::report {

namespace {

constexpr double kDotsWidth = 440, kRow = 18, kAxis = 40, kLabel = 226, kValue = 52;
constexpr double kTickRoom = 38;
constexpr size_t kCharacters = 40;  // of a label

}  // namespace

std::string to_svg(const std::vector<Dot>& dots, const std::string& title, const std::string& unit) {
  double low = 0, high = 0;
  size_t rows = 0;
  for (const Dot& d : dots) {
    if (!(d.value > 0) || !std::isfinite(d.value)) continue;
    low = rows == 0 ? d.value : std::min(low, d.value);
    high = std::max(high, d.value);
    ++rows;
  }
  if (rows == 0) return {};
  // The scale begins at the power of two below the minimum and ends at the one above the maximum.
  low = std::exp2(std::floor(std::log2(low) - 0.1));
  high = std::exp2(std::ceil(std::log2(high) + 0.1));
  const auto x = [&](double v) {
    return kLabel + std::log(v / low) / std::log(high / low) * (kDotsWidth - kLabel - kValue);
  };
  const double bottom = static_cast<double>(rows) * kRow + 4;
  std::string out = cat("<svg class=\"plot\" viewBox=\"0 0 ", fixed(kDotsWidth, 0), " ", fixed(bottom + kAxis, 0),
                        "\" role=\"img\" aria-label=\"", escaped(title), "\"><title>", escaped(title), "</title>");
  const std::vector<double> marks = log_ticks(low, high);
  double last = 0;
  for (const double v : marks) {
    if (x(v) < last + kTickRoom) continue;
    last = x(v);
    out += cat("<path class=\"grid\" d=\"M", fixed(x(v), 1), " 0V", fixed(bottom, 1), "\"/><text class=\"tick x\" x=\"",
               fixed(x(v), 1), "\" y=\"", fixed(bottom + 14, 1), "\">", tick_text(v, v), "</text>");
  }
  out += cat("<text class=\"name x\" x=\"", fixed((kLabel + kDotsWidth - kValue) / 2, 1), "\" y=\"",
             fixed(bottom + 32, 1), "\">", escaped(unit), ", log scale</text>");
  double y = 0;
  for (const Dot& d : dots) {
    if (!(d.value > 0) || !std::isfinite(d.value)) continue;
    y += kRow;
    const std::string shown = figure(d.value);
    out += cat("<g class=\"line s0", d.hollow ? " dashed" : "", "\"><path d=\"M", fixed(x(low), 1), " ",
               fixed(y - 4, 1), "H", fixed(x(d.value), 1), "\"/>");
    out += d.hollow ? cat("<rect x=\"", fixed(x(d.value) - 3.5, 1), "\" y=\"", fixed(y - 7.5, 1),
                          "\" width=\"7\" height=\"7\"/>")
                    : cat("<circle cx=\"", fixed(x(d.value), 1), "\" cy=\"", fixed(y - 4, 1), "\" r=\"4.5\"/>");
    out += cat("</g><text class=\"label\" x=\"0\" y=\"", fixed(y, 1), "\"><title>", escaped(d.label), "</title>",
               escaped(d.label.size() > kCharacters ? shortened(d.label, kCharacters - 2) : d.label),
               "</text><text x=\"", fixed(x(d.value) + 8, 1), "\" y=\"", fixed(y, 1), "\">", shown, "</text>");
  }
  return out + "</svg>";
}

}  // namespace freight::report
