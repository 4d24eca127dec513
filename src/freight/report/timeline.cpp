// See timeline.h. Coordinates are those of the viewBox; text is 12 units high.
#include "freight/report/timeline.h"

#include <algorithm>

#include "freight/base/strings.h"
#include "freight/report/markup.h"
#include "freight/report/plot.h"

namespace freight::report {

namespace {

constexpr double kTimelineWidth = 880, kBar = 30, kLane = 84;  // a lane consists of its name, bars and axis
constexpr double kLeast = 1.5;                                 // narrower bars are combined
constexpr double kTimelineCharacter = 6.8;

double total(const Lane& lane) {
  double sum = 0;
  for (const Bar& b : lane.bars) sum += b.seconds;
  return sum;
}

// The bars that are wide enough to be seen. `least`: the seconds of the narrowest one.
std::vector<Bar> visible(const std::vector<Bar>& bars, double least) {
  std::vector<Bar> joined, out;
  for (const Bar& b : bars) {
    const bool same = !joined.empty() && joined.back().label == b.label && joined.back().filling == b.filling;
    if (same) {
      joined.back().seconds += b.seconds;
    } else {
      joined.push_back(b);
    }
  }
  int gathered = 0;  // number of bars that were combined in out.back()
  for (const Bar& b : joined) {
    if (gathered > 0 && out.back().seconds < least && b.seconds < least) {
      Bar& last = out.back();
      if (b.seconds > last.seconds) last.filling = b.filling;
      last.seconds += b.seconds;
      last.label = cat(++gathered, " short steps, the last of them ", b.label);
      continue;
    }
    out.push_back(b);
    gathered = 1;
  }
  return out;
}

std::string milliseconds(double seconds) { return figure(seconds * 1e3) + " ms"; }

const char* class_of(Filling f) {
  constexpr const char* kClass[] = {"dense", "hatched", "empty", "crossed"};
  return kClass[static_cast<size_t>(f)];
}

bool patterned(Filling f) { return f == Filling::hatched || f == Filling::crossed; }

// The attribute that refers to the pattern of a filling in a color; "" for fillings without one.
std::string fill_of(Filling f, int color) {
  return patterned(f) ? cat(" fill=\"url(#", class_of(f), "-", color, ")\"") : "";
}

// The pattern itself, whose color is its own, not that of the element it fills.
std::string pattern_of(Filling f, int color) {
  return cat(
      "<pattern id=\"", class_of(f), "-", color, "\" class=\"s", color,
      "\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path d=\"M0 0V6",
      f == Filling::crossed ? "M0 0H6" : "", "\" stroke=\"currentColor\" stroke-width=\"2\"/></pattern>");
}

std::string drawn(const Lane& lane, double top) {
  const double sum = total(lane);
  std::string out = cat("<g class=\"lane s", lane.color % kColors, lane.dashed ? " dashed" : "",
                        "\"><text class=\"name\" x=\"0\" y=\"", fixed(top + 13, 1), "\">", escaped(lane.label), ", ",
                        milliseconds(sum), "</text>");
  const double y = top + 20;
  double at = 0;
  for (const Bar& b : visible(lane.bars, sum * kLeast / kTimelineWidth)) {
    const double x = at / sum * kTimelineWidth, width = b.seconds / sum * kTimelineWidth;
    at += b.seconds;
    out += cat("<g><rect class=\"", class_of(b.filling), "\" x=\"", fixed(x, 2), "\" y=\"", fixed(y, 1), "\" width=\"",
               fixed(width, 2), "\" height=\"", fixed(kBar, 0), "\"", fill_of(b.filling, lane.color % kColors),
               "><title>", escaped(b.label), ", ", milliseconds(b.seconds), "</title></rect>");
    const auto room = static_cast<size_t>(std::max(0.0, (width - 6) / kTimelineCharacter));
    if (room >= 8 || b.label.size() <= room) {
      const std::string text = b.label.size() <= room ? b.label : shortened(b.label, room - 3);
      out += cat("<text class=\"bar\" x=\"", fixed(x + width / 2, 1), "\" y=\"", fixed(y + 19, 1), "\">", escaped(text),
                 "</text>");
    }
    out += "</g>";
  }
  const std::vector<double> all = ticks(0, sum * 1e3, 8);
  for (const double v : all) {
    const double x = v / (sum * 1e3) * kTimelineWidth;
    const char* anchor = x < 20 ? "start" : x > kTimelineWidth - 24 ? "end" : "middle";
    out += cat("<path class=\"axis\" d=\"M", fixed(x, 1), " ", fixed(y + kBar, 1), "v4\"/><text class=\"tick\" x=\"",
               fixed(x, 1), "\" y=\"", fixed(y + kBar + 16, 1), "\" text-anchor=\"", anchor, "\">",
               tick_text(v, all.size() > 1 ? all[1] - all[0] : v), "</text>");
  }
  return out + "</g>";
}

}  // namespace

std::string to_svg(const std::vector<Lane>& lanes, const std::string& title) {
  std::string body, patterns;
  double top = 0;
  for (const Lane& lane : lanes) {
    if (!(total(lane) > 0)) continue;
    for (const Filling f : {Filling::hatched, Filling::crossed}) patterns += pattern_of(f, lane.color % kColors);
    body += drawn(lane, top);
    top += kLane;
  }
  if (body.empty()) return {};
  return cat("<svg class=\"timeline\" viewBox=\"0 0 ", fixed(kTimelineWidth, 0), " ", fixed(top, 0),
             "\" role=\"img\" aria-label=\"", escaped(title), "\"><title>", escaped(title), "</title><defs>", patterns,
             "</defs>", body, "</svg>");
}

std::string legend_bar(Filling filling) {
  return cat("<svg class=\"timeline key s0\" viewBox=\"0 0 24 12\" aria-hidden=\"true\"><defs>",
             patterned(filling) ? pattern_of(filling, 0) : "", "</defs><rect class=\"", class_of(filling),
             "\" x=\"1\" y=\"1\" width=\"22\" height=\"10\"", fill_of(filling, 0), "/></svg>");
}

const char* timeline_style() {
  return R"(svg.timeline{display:block;min-width:640px;width:100%;height:auto;font-size:12px}
svg.timeline.key{display:inline-block;min-width:0;width:28px;height:14px;vertical-align:-2px}
svg.timeline text{fill:var(--ink)}
svg.timeline .name{font-weight:600}
svg.timeline .tick{fill:var(--muted)}
svg.timeline .axis{stroke:var(--muted);fill:none}
svg.timeline .bar{text-anchor:middle;font-size:11px;stroke:var(--paper);stroke-width:3px;paint-order:stroke}
svg.timeline rect{stroke:currentColor;stroke-width:1}
svg.timeline .dashed rect{stroke-dasharray:3 2}
svg.timeline .dense{fill:currentColor;fill-opacity:.45}
svg.timeline .empty{fill:var(--paper)}
)";
}

}  // namespace freight::report
