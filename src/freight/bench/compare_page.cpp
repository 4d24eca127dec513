// The page of a comparison. See output.h.
#include <algorithm>
#include <cmath>

#include "freight/bench/format_internal.h"
#include "freight/bench/output.h"
#include "freight/report/document.h"
#include "freight/report/markup.h"
#include "freight/report/timeline.h"

namespace freight::bench {

namespace {

using report::escaped;
using report::Plot;
using report::Series;
using report::Stroke;

constexpr size_t kLabel = 16;  // of a label at a line's end

Stroke stroke_of(const Curve& c) { return c.predicted ? Stroke::dashed : Stroke::solid; }

// A line per device: `value` of each point, without points where it is 0. Empty for fewer than `least` lines.
template <class F>
std::string over_batches(const Comparison& c, size_t least, Plot plot, F value) {
  plot.x_label = "batch size";
  plot.x_scale = Plot::Scale::logarithmic;
  for (size_t i = 0; i < c.curves.size(); ++i) {
    Series s{.label = report::shortened(c.curves[i].name, kLabel),
             .color = static_cast<int>(i),
             .stroke = stroke_of(c.curves[i])};
    for (const BatchPoint& p : c.curves[i].points) {
      const double v = p.known() ? value(c.curves[i], p) : 0;
      if (v > 0) s.points.push_back({static_cast<double>(p.batch), v});
    }
    if (!s.points.empty()) plot.series.push_back(std::move(s));
  }
  return plot.series.size() < least ? std::string() : report::chart(plot);
}

std::string legend(const Comparison& c) {
  std::string out = "<p class=\"legend\">";
  for (size_t i = 0; i < c.curves.size(); ++i) {
    const Curve& curve = c.curves[i];
    out += cat("<span>", report::legend_mark(static_cast<int>(i), stroke_of(curve)), " ", escaped(curve.name),
               curve.predicted ? ", predicted (dashed, hollow marks)" : ", measured", "</span> ");
  }
  return out + "</p>";
}

std::string curves(const Comparison& c) {
  const std::string base = c.curves[0].name;
  const auto fast = [&](Batches batches) {
    return [&c, batches](const Curve& curve, const BatchPoint& p) {
      return speed_up(c.curves[0], curve, p.batch, batches).value_or(0);
    };
  };
  std::string out = legend(c) + "<div class=\"charts\">";
  out += over_batches(c, 1,
                      {.title = "Throughput", .y_label = cat(c.unit, " per second"), .scale = Plot::Scale::logarithmic},
                      [](const Curve&, const BatchPoint& p) { return p.samples_per_second(); });
  out += over_batches(c, 1, {.title = "Time of a step", .y_label = "milliseconds", .scale = Plot::Scale::logarithmic},
                      [](const Curve&, const BatchPoint& p) { return p.seconds * 1e3; });
  out += over_batches(
      c, 2, {.title = cat("Times as fast as ", base, ", batches on the device"), .y_label = "times", .from_zero = true},
      fast(Batches::resident));
  out += over_batches(
      c, 2,
      {.title = cat("Times as fast as ", base, ", batches moved from the host"), .y_label = "times", .from_zero = true},
      fast(Batches::moved));
  out += over_batches(c, 1,
                      {.title = "Fraction of the dense peak",
                       .y_label = "%",
                       .scale = Plot::Scale::linear,
                       .from_zero = true,
                       .reach = 1},
                      [](const Curve& curve, const BatchPoint& p) { return 100 * utilization(curve, p); });
  return out + "</div>";
}

// Roofs as lines and layers as marks (Williams et al. 2009).
std::string roofline(const Comparison& c) {
  Plot plot{.title = cat("Roofline of a step at batch ", c.detail),
            .x_label = "FLOPs per byte",
            .y_label = "GFLOP/s",
            .scale = Plot::Scale::logarithmic,
            .x_scale = Plot::Scale::logarithmic};
  const std::vector<LayerRow> rows = layers_of(c);
  double low = 1, high = 10;
  std::vector<Series> marks(c.curves.size());
  for (size_t i = 0; i < c.curves.size(); ++i) {
    marks[i].color = static_cast<int>(i);
    marks[i].stroke = Stroke::none;
    for (const LayerRow& r : rows) {
      const LayerRow::On& on = r.on[i];
      if (on.seconds <= 0 || on.flops <= 0 || on.bytes <= 0) continue;
      marks[i].points.push_back({on.flops / on.bytes, on.flops / on.seconds * 1e-9});
      low = std::min(low, marks[i].points.back().x);
      high = std::max(high, marks[i].points.back().x);
    }
    std::sort(marks[i].points.begin(), marks[i].points.end(),
              [](const report::Point& a, const report::Point& b) { return a.x < b.x; });
  }
  for (const Curve& curve : c.curves) high = std::max(high, 2 * curve.roof_flops / std::max(curve.roof_bytes, 1.0));
  for (size_t i = 0; i < c.curves.size(); ++i) {
    const Curve& curve = c.curves[i];
    if (curve.step_times.empty() || curve.roof_bytes <= 0) continue;
    const double ridge = curve.roof_flops / curve.roof_bytes, top = curve.roof_flops * 1e-9;
    const auto at = [&](double x) { return report::Point{x, std::min(top, x * curve.roof_bytes * 1e-9)}; };
    Series roof{.label = report::shortened(curve.name, kLabel),
                .color = static_cast<int>(i),
                .stroke = stroke_of(curve),
                .value_at_end = false};
    roof.points = {at(low)};
    if (ridge > low && ridge < high) roof.points.push_back(at(ridge));
    roof.points.push_back(at(high));
    plot.series.push_back(std::move(roof));
    plot.series.push_back(std::move(marks[i]));
  }
  if (plot.series.empty()) return {};
  return cat(
      "<section><h2>Roofline</h2>", legend(c), "<div class=\"single\">", report::chart(plot),
      "</div><p class=\"muted\">Lines: what a device reaches at best, by memory on the slope and by arithmetic on "
      "the level part. Marks: layers, forward, backward and update together. A mark far under its roof waits for "
      "something else, the launch of kernels for instance; one above it works in cache.</p></section>");
}

std::string timeline(const Comparison& c) {
  std::vector<report::Lane> lanes;
  for (size_t i = 0; i < c.curves.size(); ++i) {
    const Curve& curve = c.curves[i];
    report::Lane lane{.label = cat(curve.name, curve.predicted ? " (predicted)" : ""),
                      .color = static_cast<int>(i),
                      .dashed = curve.predicted};
    for (const StepTime& p : curve.step_times) {
      constexpr report::Filling kFillings[] = {report::Filling::dense, report::Filling::hatched, report::Filling::empty,
                                               report::Filling::crossed};
      lane.bars.push_back({cat(layer_of(p.work), p.work.backward ? " \u2190" : ""), p.seconds,
                           kFillings[static_cast<size_t>(p.bound)]});
    }
    lanes.push_back(std::move(lane));
  }
  const std::string svg = report::to_svg(lanes, cat("The steps of the plan at batch ", c.detail));
  if (svg.empty()) return {};
  return cat("<section><h2>Timeline of a step at batch ", c.detail, "</h2><p class=\"legend\"><span>",
             report::legend_bar(report::Filling::dense), " bounded by compute</span> <span>",
             report::legend_bar(report::Filling::hatched), " by memory</span> <span>",
             report::legend_bar(report::Filling::empty), " by launch</span> <span>",
             report::legend_bar(report::Filling::crossed),
             " by copies to and from the host</span> <span>\u2190 backward or update</span></p><div class=\"scroll\" "
             "tabindex=\"0\">",
             svg, "</div><p class=\"muted\">Milliseconds; each device has an axis of its own.</p></section>");
}

std::string devices(const Comparison& c) {
  std::string out = "<div class=\"cards\">";
  for (size_t i = 0; i < c.curves.size(); ++i) {
    const Curve& curve = c.curves[i];
    const BatchPoint *one = curve.at(1), *best = curve.fastest();
    out += cat(
        "<section class=\"card\"><h2>", report::legend_mark(static_cast<int>(i), stroke_of(curve)), escaped(curve.name),
        "</h2><p class=\"outcome ", curve.predicted ? "open\">~ predicted" : "good\">measured", "</p>",
        report::definitions(
            {{"device", escaped(curve.description)},
             {"latency", one ? cat(milliseconds(one->seconds), " ms at batch 1") : ""},
             {"throughput", best ? cat(number(best->samples_per_second()), " ", c.unit, "/s at batch ", best->batch)
                                 : "none: no batch size could be run"},
             {"dense peak", cat(escaped(curve.peak), ": ", escaped(curve.peak_source))},
             {"used of it", best ? percent_of(utilization(curve, *best)) : ""},
             {"price", escaped(curve.price)},
             {"power", escaped(curve.power)},
             {"basis", escaped(curve.assumed)}}),
        "</section>");
  }
  return out + "</div>";
}

}  // namespace

std::string to_html(const Listing& l) {
  std::vector<report::Column> columns;
  for (size_t i = 0; i < l.header.size(); ++i) {
    columns.push_back({l.header[i], std::find(l.words.begin(), l.words.end(), i) == l.words.end()});
  }
  return report::data_table(columns, l.rows);
}

std::string to_html(const Comparison& c) {
  std::string out =
      cat("<h1>", escaped(c.model), " on ", c.curves.size(), c.curves.size() == 1 ? " device" : " devices",
          "</h1><p>Training step, ", escaped(c.precision), ", ", escaped(c.optimizer), ", ", with_commas(c.parameters),
          " parameters, one sample ", escaped(c.input), c.data.empty() ? "" : cat(", data ", escaped(c.data)), ".</p>",
          devices(c), "<section><h2>In short</h2><ul>");
  for (const std::string& f : findings(c)) out += cat("<li>", escaped(f), "</li>");
  out += cat("</ul></section><section><h2>Over batch sizes</h2>", curves(c), to_html(figures_of(c)),
             "<p class=\"muted\">Moved: the batch comes from the host's memory before each step and the loss goes back "
             "after it, nothing overlaps. ~: predicted; its speed-ups and rates are those of the middle of the range. "
             "-: not known.</p></section>",
             roofline(c), timeline(c));
  if (c.detail > 0) {
    out +=
        cat("<section><h2>Layers at batch ", c.detail, "</h2>", to_html(layer_listing(c, 60)),
            "<p class=\"muted\">Forward, backward and update of a layer together. Measured with a timer around each "
            "step of the plan; a device that works behind the host is waited for after each, so that the sum is more "
            "than a whole step takes.</p></section>");
  }
  return report::document(c.model + " compared - Freight", out);
}

}  // namespace freight::bench
