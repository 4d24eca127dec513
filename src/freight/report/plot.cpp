// See plot.h. Coordinates are those of the viewBox; text is 12 units high.
#include "freight/report/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/strings.h"
#include "freight/report/markup.h"

namespace freight::report {

namespace {

constexpr double kPlotWidth = 440, kHeight = 270, kTop = 30, kBottom = 38, kLine = 14;
constexpr double kPlotCharacter = 6.8, kBold = 8;  // widths of a character in the wider of the usual fonts
constexpr size_t kBuckets = 400;                   // parts of a line that is decimated
constexpr size_t kMarks = 40;                      // lines with at most this many points mark each one

std::string at(double v) {  // formats a coordinate
  std::string text = fixed(v, 1);
  if (ends_with(text, ".0")) text.resize(text.size() - 2);
  return text;
}

struct DataRange {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void take(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return low > high; }
};

// Maps values to coordinates.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1;
  bool log = false;
  // Scales before subtracting: the difference of the largest numbers overflows a double.
  double operator()(double v) const {
    const auto place = [&](double value) {
      return log ? std::log(static_cast<long double>(value)) : static_cast<long double>(value);
    };
    const long double length = place(high) - place(low);
    const double share = length > 0 ? static_cast<double>((place(v) - place(low)) / length) : 0;
    return from + share * (to - from);
  }
  bool shows(double v) const { return std::isfinite(v) && (!log || v > 0); }
};

Axis x_axis(const Plot& plot) {
  DataRange r;
  const bool log = plot.x_scale == Plot::Scale::logarithmic;
  if (!log && plot.x_from_zero) r.take(0);
  for (const Series& s : plot.series) {
    for (const Point& p : s.points) r.take(p.x);
  }
  if (r.low == r.high) r.high = log ? 2 * r.low : r.low + 1;
  return {.low = r.low, .high = r.high, .log = log};
}

Axis y_axis(const Plot& plot) {
  DataRange r, positive;
  for (const Series& s : plot.series) {
    for (const Point& p : s.points) {
      if (!std::isfinite(p.y)) continue;
      r.take(p.y);
      if (p.y > 0) positive.take(p.y);
    }
  }
  using Scale = Plot::Scale;
  const bool wide = !positive.empty() && r.low > 0 && positive.high / positive.low >= 20;
  if (!positive.empty() && (plot.scale == Scale::logarithmic || (plot.scale == Scale::automatic && wide))) {
    using Limits = std::numeric_limits<double>;
    const double spread = std::max(std::log(positive.high) - std::log(positive.low), std::log(1.2));
    const double room = std::exp(0.06 * spread);
    return {.low = std::max(positive.low / room, Limits::denorm_min()),
            .high = std::min(positive.high * room, Limits::max()),
            .log = true};
  }
  const bool not_negative = r.low >= 0;
  if (plot.from_zero) r.take(0);
  if (plot.reach > 0) r.take(plot.reach);
  double room = 0.06 * r.high - 0.06 * r.low;
  if (room <= 0) room = r.high == 0 ? 1 : 0.1 * std::fabs(r.high);
  constexpr double kMost = std::numeric_limits<double>::max();
  Axis axis{.low = std::max(r.low - room, -kMost), .high = std::min(r.high + room, kMost)};
  if (not_negative) axis.low = std::max(axis.low, 0.0);
  if (plot.limit && r.high <= *plot.limit) axis.high = std::min(axis.high, *plot.limit);
  if (axis.low >= axis.high) axis.low = axis.high - std::max(std::fabs(axis.high), 1.0);
  return axis;
}

double text_width(const std::string& text, double character = kPlotCharacter) {
  const auto characters =
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; });
  return character * static_cast<double>(characters);
}

std::string mark(int color, double x, double y, double r) {
  switch (color % kColors) {
    case 0: return cat("<circle cx=\"", at(x), "\" cy=\"", at(y), "\" r=\"", at(r), "\"");
    case 1:
      return cat("<rect x=\"", at(x - r), "\" y=\"", at(y - r), "\" width=\"", at(2 * r), "\" height=\"", at(2 * r),
                 "\"");
    case 2:
      return cat("<path d=\"M", at(x), " ", at(y - 1.4 * r), "l", at(1.3 * r), " ", at(2.4 * r), "h", at(-2.6 * r),
                 "z\"");
    case 3:
      return cat("<path d=\"M", at(x), " ", at(y - 1.5 * r), "l", at(1.5 * r), " ", at(1.5 * r), "l", at(-1.5 * r), " ",
                 at(1.5 * r), "l", at(-1.5 * r), " ", at(-1.5 * r), "z\"");
    case 4:
      return cat("<path d=\"M", at(x), " ", at(y + 1.4 * r), "l", at(1.3 * r), " ", at(-2.4 * r), "h", at(-2.6 * r),
                 "z\"");
    default:
      return cat("<path d=\"M", at(x - r), " ", at(y - r), "l", at(2 * r), " ", at(2 * r), "m0 ", at(-2 * r), "l",
                 at(-2 * r), " ", at(2 * r), "\"");
  }
}

std::string classes(const Series& s) {
  constexpr const char* kStrokes[] = {"", " dashed", " marks"};
  return cat("s", s.color % kColors, kStrokes[static_cast<size_t>(s.stroke)]);
}

// The name of a line with its last value; empty for a line without a name, or that is not visible.
std::string end_label(const Series& s, const Axis& y) {
  const auto last = std::find_if(s.points.rbegin(), s.points.rend(), [&](const Point& p) { return y.shows(p.y); });
  if (s.label.empty() || last == s.points.rend()) return {};
  return s.value_at_end ? cat(s.label, " ", figure(last->y)) : s.label;
}

// A line with its marks, and the place where it ends.
class Line {
 public:
  Line(const Series& series, const Axis& x, const Axis& y, double top) : series_(series), x_(x), y_(y), top_(top) {}

  std::string draw() {
    const bool few = series_.points.size() <= kMarks;
    const std::vector<Point> points =
        series_.points.size() > 2 * kBuckets ? decimated(series_.points, x_.low, x_.high, kBuckets) : series_.points;
    std::string path, marks;
    size_t length = 0;  // points since the last interruption
    for (size_t i = 0; i < points.size(); ++i) {
      const Point& p = points[i];
      if (!y_.shows(p.y)) {
        length = 0;
        if (!std::isfinite(p.y)) marks += lost(p);
        continue;
      }
      const double px = x_(p.x), py = y_(p.y);
      path += cat(length == 0 ? "M" : "L", at(px), " ", at(py));
      const bool alone = length == 0 && (i + 1 == points.size() || !y_.shows(points[i + 1].y));
      if (few || alone || series_.stroke == Stroke::none) marks += dot(p, px, py);
      ++length;
      end_ = {px, py};
    }
    return cat("<g class=\"line ", classes(series_), "\"><path d=\"", path, "\"/>", marks, "</g>");
  }
  Point end() const { return end_; }
  std::string label() const { return end_label(series_, y_); }
  const Series& series() const { return series_; }

 private:
  std::string dot(const Point& p, double px, double py) const {
    return cat(mark(series_.color, px, py, series_.stroke == Stroke::dashed ? 1.6 : 2.4), "><title>",
               escaped(cat(series_.label, " ", figure(p.y), " at ", figure(p.x))), "</title>",
               series_.color % kColors == 0   ? "</circle>"
               : series_.color % kColors == 1 ? "</rect>"
                                              : "</path>");
  }
  // A cross for a value that is not finite.
  std::string lost(const Point& p) const {
    return cat("<path class=\"lost\" d=\"M", at(x_(p.x) - 3.5), " ", at(top_), "l7 7m0 -7l-7 7\"><title>",
               escaped(cat(series_.label, " NaN or Inf at ", figure(p.x))), "</title></path>");
  }
  const Series& series_;
  const Axis& x_;
  const Axis& y_;
  double top_;
  Point end_;
};

// Places the labels next to the ends of their lines without overlap.
std::string end_labels(const std::vector<Line>& lines, double x, double top, double bottom) {
  struct Label {
    const Line* line;
    double y;
  };
  std::vector<Label> labels;
  for (const Line& line : lines) {
    if (!line.label().empty()) labels.push_back({&line, line.end().y});
  }
  const auto room = static_cast<size_t>((bottom - top) / kLine) + 1;
  std::stable_sort(labels.begin(), labels.end(),
                   [](const Label& a, const Label& b) { return a.line->series().stroke < b.line->series().stroke; });
  if (labels.size() > room) labels.resize(room);
  std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.y < b.y; });
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i].y = std::max(labels[i].y, i == 0 ? top : labels[i - 1].y + kLine);
  }
  double lowest = bottom;
  for (size_t i = labels.size(); i-- > 0; lowest = labels[i].y - kLine) labels[i].y = std::min(labels[i].y, lowest);
  std::string out;
  for (const Label& l : labels) {
    const Point end = l.line->end();
    if (std::fabs(l.y - end.y) > 5 || x - end.x > 12) {
      out += cat("<path class=\"leader\" d=\"M", at(end.x + 4), " ", at(end.y), "L", at(x - 2), " ", at(l.y), "\"/>");
    }
    out += cat("<text class=\"end s", l.line->series().color % kColors, "\" x=\"", at(x), "\" y=\"", at(l.y + 4), "\">",
               escaped(l.line->label()), "</text>");
  }
  return out;
}

std::string text(const char* what, double x, double y, const std::string& content) {
  return cat("<text class=\"", what, "\" x=\"", at(x), "\" y=\"", at(y), "\">", escaped(content), "</text>");
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  const double raw = (high - low) / std::max(count, 1);
  if (!(raw > 0) || !std::isfinite(raw)) return {low};
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double m : {1.0, 2.0, 5.0}) {
    if (m * power >= raw * 0.999) {
      step = m * power;
      break;
    }
  }
  std::vector<double> all;
  const double first = std::ceil(low / step - 1e-9);
  const auto shown = [&](double v) { return std::isfinite(v) && v <= high + 1e-9 * step; };
  for (double k = first; shown(k * step) && all.size() < 100; ++k) all.push_back(k * step);
  return all;
}

std::vector<double> log_ticks(double low, double high) {
  const int first = static_cast<int>(std::floor(std::log10(low))), last = static_cast<int>(std::ceil(std::log10(high)));
  const int apart = std::max(1, (last - first) / 6);
  const bool finer = last - first <= 3;
  std::vector<double> all;
  for (int e = first; e <= last; e += apart) {
    for (const double m : {1.0, 2.0, 5.0}) {
      const double v = m * std::pow(10.0, e);
      if ((m == 1 || finer) && v >= low && v <= high) all.push_back(v);
    }
  }
  return all;
}

std::string tick_text(double v, double step) {
  if (v == 0) return "0";
  const double size = std::max(std::fabs(v), step);
  if (size < 1e-4 || size >= 1e12) return figure(v);
  constexpr std::pair<double, const char*> kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
  for (const auto& [unit, name] : kUnits) {
    if (size < (unit == 1e3 ? 1e4 : unit)) continue;
    return cat(figure(std::round(v / step) * step / unit), name);
  }
  return fixed(v, static_cast<int>(std::clamp(std::ceil(-std::log10(step) - 1e-9), 0.0, 8.0)));
}

std::vector<Point> decimated(const std::vector<Point>& points, double low, double high, size_t buckets) {
  std::vector<Point> out;
  const auto bucket = [&](const Point& p) {
    const long double length = static_cast<long double>(high) - low;
    const auto share = length > 0 ? static_cast<double>((p.x - static_cast<long double>(low)) / length) : 0.0;
    return static_cast<size_t>(std::clamp(share * static_cast<double>(buckets), 0.0, static_cast<double>(buckets - 1)));
  };
  for (size_t first = 0, next = 0; first < points.size(); first = next) {
    const Point *least = nullptr, *greatest = nullptr;
    for (next = first; next < points.size() && bucket(points[next]) == bucket(points[first]); ++next) {
      const Point& p = points[next];
      if (!std::isfinite(p.y)) continue;
      if (!least || p.y < least->y) least = &p;
      if (!greatest || p.y > greatest->y) greatest = &p;
    }
    if (!least) {
      out.push_back(points[first]);
      continue;
    }
    out.push_back(*std::min(least, greatest));  // the earlier of the two, which point into one array
    if (least != greatest) out.push_back(*std::max(least, greatest));
  }
  return out;
}

bool drawable(const Plot& plot) {
  return std::any_of(plot.series.begin(), plot.series.end(), [](const Series& s) {
    return std::any_of(s.points.begin(), s.points.end(), [](const Point& p) { return std::isfinite(p.y); });
  });
}

std::string to_svg(const Plot& plot) {
  if (!drawable(plot)) return {};
  Axis x = x_axis(plot), y = y_axis(plot);
  std::vector<double> y_ticks = y.log ? log_ticks(y.low, y.high) : ticks(y.low, y.high, 5);
  if (y_ticks.size() < 2) y_ticks = ticks(y.low, y.high, 4);
  const auto y_text = [&](size_t i) {
    const double step = y.log || y_ticks.size() < 2 ? std::fabs(y_ticks[i]) : y_ticks[1] - y_ticks[0];
    return tick_text(y_ticks[i], step);
  };
  double left = 20, right = 20;
  for (size_t i = 0; i < y_ticks.size(); ++i) left = std::max(left, text_width(y_text(i)) + 12);
  for (const Series& s : plot.series) right = std::max(right, text_width(end_label(s, y), kBold) + 9);
  const double bottom = kHeight - kBottom, end = kPlotWidth - std::min(right, 190.0);
  x.from = left, x.to = end;
  y.from = bottom, y.to = kTop;

  std::string out =
      cat("<svg class=\"plot\" viewBox=\"0 0 ", at(kPlotWidth), " ", at(kHeight), "\" role=\"img\" aria-label=\"",
          escaped(plot.title), "\"><title>", escaped(plot.title), "</title>");
  for (size_t i = 0; i < y_ticks.size(); ++i) {
    const double py = y(y_ticks[i]);
    out += cat("<path class=\"grid\" d=\"M", at(left), " ", at(py), "H", at(end), "\"/>",
               text("tick y", left - 6, py + 4, y_text(i)));
  }
  const std::vector<double> x_ticks = x.log ? log_ticks(x.low, x.high) : ticks(x.low, x.high, 5);
  for (const double v : x_ticks) {
    const double step = x.log || x_ticks.size() < 2 ? std::fabs(v) : x_ticks[1] - x_ticks[0];
    out += cat("<path class=\"axis\" d=\"M", at(x(v)), " ", at(bottom), "v4\"/>",
               text("tick x", x(v), bottom + 17, tick_text(v, step)));
  }
  out += cat("<path class=\"axis\" d=\"M", at(left), " ", at(bottom), "H", at(end), "\"/>");
  out += text("name", 0, 12, cat(plot.y_label, y.log ? ", log scale" : ""));
  out += text("name x", (left + end) / 2, kHeight - 4, cat(plot.x_label, x.log ? ", log scale" : ""));
  std::vector<Line> lines;
  for (const Series& s : plot.series) lines.emplace_back(s, x, y, kTop - 8);
  for (Line& line : lines) out += line.draw();
  return out + end_labels(lines, end + 7, kTop, bottom) + "</svg>";
}

const char* plot_style() {
  return R"(svg.plot{display:block;width:100%;height:auto;font-size:12px}
svg.plot text{fill:var(--ink)}
svg.plot .label{font-size:11px}
svg.plot .tick,svg.plot .name{fill:var(--muted)}
svg.plot .tick.x,svg.plot .name.x{text-anchor:middle}
svg.plot .tick.y{text-anchor:end}
svg.plot .grid{stroke:var(--rule);fill:none}
svg.plot .axis{stroke:var(--muted);fill:none}
svg.plot .leader{stroke:var(--muted);stroke-width:.8;stroke-dasharray:1 2;fill:none}
svg .line{stroke:currentColor;fill:currentColor}
svg .line>path:first-child{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
svg .line.dashed>path:first-child{stroke-width:1.4;stroke-dasharray:5 3}
svg .line.dashed>:not(:first-child){fill:var(--paper)}
svg .line.marks>path:first-child{stroke:none}
svg .line.marks>:not(:first-child){fill-opacity:.45}
svg .line .lost{stroke:var(--bad);stroke-width:2;fill:none}
svg.plot text.end{fill:currentColor;font-weight:600}
.s0{color:var(--s0)}.s1{color:var(--s1)}.s2{color:var(--s2)}.s3{color:var(--s3)}.s4{color:var(--s4)}.s5{color:var(--s5)}
)";
}

std::string legend_mark(int color, Stroke stroke) {
  return cat("<svg class=\"key s", color % kColors, "\" viewBox=\"0 0 24 12\" aria-hidden=\"true\"><g class=\"line ",
             classes({.color = color, .stroke = stroke}), "\"><path d=\"M1 6H23\"/>", mark(color, 12, 6, 3.4),
             "/></g></svg>");
}

}  // namespace freight::report
