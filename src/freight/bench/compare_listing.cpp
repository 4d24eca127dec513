// The tables, the JSON and the trace of a comparison. See output.h.
#include <algorithm>
#include <map>

#include "freight/bench/format_internal.h"
#include "freight/bench/output.h"
#include "freight/io/json_library.h"

namespace freight::bench {

namespace {

using Json = nlohmann::ordered_json;

Json known(double v) { return v > 0 ? Json(v) : Json(nullptr); }
Json known(const std::optional<double>& v) { return v ? Json(*v) : Json(nullptr); }

std::string dollars(const std::optional<EpochCost>& cost) {
  if (!cost || !cost->dollars) return "-";
  return fixed(*cost->dollars, *cost->dollars < 0.1 ? 5 : 2);
}
std::string watt_hours(const std::optional<EpochCost>& cost) {
  if (!cost || !cost->watt_hours) return "-";
  const plan::Range& w = *cost->watt_hours;
  return w.low < w.high ? cat(number(w.low), "-", number(w.high)) : number(w.high);
}
std::string times(const std::optional<double>& speed) { return speed ? number(*speed) : "-"; }

}  // namespace

Listing figures_of(const Comparison& c) {
  Listing out;
  out.header = {"batch",   "device",        "ms/step",  "ms, moved", cat(c.unit, "/s"), "GFLOP/s",
                "of peak", "times as fast", "so moved", "$/epoch",   "Wh/epoch"};
  out.words = {1};
  std::map<int64_t, int> batches;
  for (const Curve& curve : c.curves) {
    for (const BatchPoint& p : curve.points) batches[p.batch];
  }
  for (const auto& [batch, unused] : batches) {
    for (const Curve& curve : c.curves) {
      for (const BatchPoint& p : curve.points) {
        if (p.batch != batch) continue;
        const std::string name = curve.predicted ? "~ " + curve.name : curve.name;
        if (!p.known()) {
          out.rows.push_back({cat(batch, "  ", name, ": skipped, ", p.skipped)});
          continue;
        }
        const auto cost = epoch_cost(curve, p, c.samples);
        out.rows.push_back(
            {cat(batch), name,
             curve.predicted ? cat(milliseconds(p.range.low), "-", milliseconds(p.range.high))
                             : milliseconds(p.seconds),
             milliseconds(p.moved_seconds), number(p.samples_per_second()), number(p.flops / p.seconds * 1e-9),
             percent_of(utilization(curve, p)), times(speed_up(c.curves[0], curve, batch)),
             times(speed_up(c.curves[0], curve, batch, Batches::moved)), dollars(cost), watt_hours(cost)});
      }
    }
  }
  return out;
}

Listing layer_listing(const Comparison& c, size_t most) {
  std::vector<LayerRow> rows = layers_of(c);
  std::vector<double> totals(c.curves.size());
  for (const LayerRow& r : rows) {
    for (size_t i = 0; i < totals.size(); ++i) totals[i] += r.on[i].seconds;
  }
  // Sorted by the largest fraction that a layer has on any device.
  const auto share = [&](const LayerRow& r) {
    double largest = 0;
    for (size_t i = 0; i < totals.size(); ++i) {
      if (totals[i] > 0) largest = std::max(largest, r.on[i].seconds / totals[i]);
    }
    return largest;
  };
  Listing out;
  out.header = {"layer", "GFLOP", "FLOPs/byte"};
  out.words = {0};
  for (const Curve& curve : c.curves) {
    out.header.push_back(cat("ms ", curve.predicted ? "~ " : "", curve.name));
    out.words.push_back(out.header.size());
    out.header.emplace_back("bound");
  }
  std::vector<double> shares;
  for (const LayerRow& r : rows) shares.push_back(share(r));
  std::sort(shares.rbegin(), shares.rend());
  const double least = most == 0 || rows.size() <= most ? 0 : shares[most - 1];
  size_t left = 0;
  for (const LayerRow& r : rows) {
    if (share(r) < least) {
      ++left;
      continue;
    }
    const auto first = std::find_if(r.on.begin(), r.on.end(), [](const LayerRow::On& on) { return on.seconds > 0; });
    if (first == r.on.end()) continue;
    std::vector<std::string> row = {r.path, fixed(first->flops * 1e-9, first->flops < 1e8 ? 4 : 2),
                                    number(first->flops / std::max(first->bytes, 1.0))};
    for (const LayerRow::On& on : r.on) {
      row.push_back(milliseconds(on.seconds));
      row.emplace_back(on.seconds > 0 ? plan::to_string(on.bound) : "-");
    }
    out.rows.push_back(std::move(row));
  }
  if (left > 0) out.rows.push_back({cat(left, " more that take less")});
  return out;
}

std::string to_json(const Comparison& c) {
  Json j = {{"model", c.model},
            {"input", c.input},
            {"parameters", c.parameters},
            {"precision", c.precision},
            {"optimizer", c.optimizer},
            {"data", c.data},
            {"epoch_samples", known(c.samples)},
            {"detail_batch", c.detail},
            {"findings", findings(c)},
            {"devices", Json::array()}};
  const Curve& base = c.curves[0];
  for (const Curve& curve : c.curves) {
    Json d = {
        {"name", curve.name},
        {"description", curve.description},
        {"predicted", curve.predicted},
        {"assumed", curve.assumed},
        {"dense_peak_flops", curve.peak_flops},
        {"dense_peak", curve.peak},
        {"dense_peak_source", curve.peak_source},
        {"roof_flops", curve.roof_flops},
        {"roof_bytes_per_second", curve.roof_bytes},
        {"launch_seconds", curve.launch},
        {"usd_per_hour", known(curve.usd_per_hour)},
        {"price", curve.price},
        {"watts", curve.watts_high > 0 ? Json{{"low", curve.watts_low}, {"high", curve.watts_high}} : Json(nullptr)},
        {"points", Json::array()},
        {"layers", Json::array()}};
    for (const BatchPoint& p : curve.points) {
      if (!p.known()) {
        d["points"].push_back({{"batch_size", p.batch}, {"skipped", p.skipped}});
        continue;
      }
      const auto cost = epoch_cost(curve, p, c.samples);
      d["points"].push_back({{"batch_size", p.batch},
                             {"seconds", p.seconds},
                             {"seconds_low", p.range.low},
                             {"seconds_high", p.range.high},
                             {"seconds_moved", known(p.moved_seconds)},
                             {"samples_per_second", p.samples_per_second()},
                             {"flops", p.flops},
                             {"utilisation", utilization(curve, p)},
                             {"speed_up", known(speed_up(base, curve, p.batch))},
                             {"speed_up_moved", known(speed_up(base, curve, p.batch, Batches::moved))},
                             {"epoch_hours", cost ? Json(cost->hours) : Json(nullptr)},
                             {"epoch_dollars", cost ? known(cost->dollars) : Json(nullptr)},
                             {"epoch_watt_hours", cost && cost->watt_hours ? Json{{"low", cost->watt_hours->low},
                                                                                  {"high", cost->watt_hours->high}}
                                                                           : Json(nullptr)}});
    }
    if (&curve != &base) {
      for (const Batches batches : {Batches::resident, Batches::moved}) {
        constexpr const char* kKinds[] = {"always", "never", "at"};
        const auto x = crossover(base, curve, batches);
        d[batches == Batches::moved ? "crossover_moved" : "crossover"] =
            x ? Json{{"kind", kKinds[static_cast<size_t>(x->kind)]},
                     {"batch", known(x->batch)},
                     {"first_seen", x->first}}
              : Json(nullptr);
      }
    }
    j["devices"].push_back(std::move(d));
  }
  for (const LayerRow& r : layers_of(c)) {
    for (size_t i = 0; i < r.on.size(); ++i) {
      const LayerRow::On& on = r.on[i];
      if (on.seconds <= 0) continue;
      j["devices"][i]["layers"].push_back({{"path", r.path},
                                           {"seconds", on.seconds},
                                           {"flops", on.flops},
                                           {"bytes", on.bytes},
                                           {"bound", plan::to_string(on.bound)}});
    }
  }
  return j.dump(2);
}

std::string chrome_trace(const Comparison& c) {
  Json events = Json::array();
  for (size_t i = 0; i < c.curves.size(); ++i) {
    const Curve& curve = c.curves[i];
    if (curve.step_times.empty()) continue;
    const std::string name = cat(curve.name, curve.predicted ? " (predicted)" : "");
    events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", i}, {"args", {{"name", name}}}});
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", i},
                      {"tid", 0},
                      {"args", {{"name", cat(c.model, ", batch ", c.detail)}}}});
    double at = 0;
    for (const StepTime& p : curve.step_times) {
      if (p.seconds <= 0) continue;
      events.push_back(
          {{"name", cat(layer_of(p.work), " ", p.work.kind)},
           {"cat", p.work.backward ? "backward" : "forward"},
           {"ph", "X"},
           {"pid", i},
           {"tid", 0},
           {"ts", at * 1e6},
           {"dur", p.seconds * 1e6},
           {"args", {{"flops", p.work.flops}, {"bytes", p.work.bytes}, {"bound", plan::to_string(p.bound)}}}});
      at += p.seconds;
    }
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', true);
}

}  // namespace freight::bench
