// The arithmetic of a comparison; compare_run.cpp has what is run. See compare.h.
#include "freight/bench/compare.h"

#include <algorithm>
#include <cmath>

#include "freight/base/strings.h"
#include "freight/bench/format_internal.h"

namespace freight::bench {

namespace {

double seconds_at(const BatchPoint& p, Batches batches) {
  return batches == Batches::moved ? p.moved_seconds : p.seconds;
}

std::string percent(double share) { return fixed(100 * share, 0) + " %"; }

}  // namespace

double BatchPoint::samples_per_second() const { return known() ? static_cast<double>(batch) / seconds : 0; }

const BatchPoint* Curve::at(int64_t batch) const {
  for (const BatchPoint& p : points) {
    if (p.batch == batch && p.known()) return &p;
  }
  return nullptr;
}

const BatchPoint* Curve::fastest() const {
  const BatchPoint* best = nullptr;
  for (const BatchPoint& p : points) {
    if (p.known() && (!best || p.samples_per_second() > best->samples_per_second())) best = &p;
  }
  return best;
}

std::optional<double> speed_up(const Curve& base, const Curve& other, int64_t batch, Batches batches) {
  const BatchPoint *a = base.at(batch), *b = other.at(batch);
  if (!a || !b || seconds_at(*a, batches) <= 0 || seconds_at(*b, batches) <= 0) return {};
  return seconds_at(*a, batches) / seconds_at(*b, batches);
}

std::optional<Crossover> crossover(const Curve& base, const Curve& other, Batches batches) {
  std::vector<std::pair<int64_t, double>> ratios;  // batch size and speedup
  for (const BatchPoint& p : base.points) {
    if (const auto r = speed_up(base, other, p.batch, batches)) ratios.emplace_back(p.batch, *r);
  }
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  size_t first = ratios.size();  // from here on it is faster
  while (first > 0 && ratios[first - 1].second > 1) --first;
  Crossover c;
  if (first == ratios.size()) return c;
  c.first = ratios[first].first;
  if (first == 0) {
    c.kind = Crossover::Kind::always;
    c.batch = static_cast<double>(c.first);
    return c;
  }
  c.kind = Crossover::Kind::at;
  const double x0 = std::log(static_cast<double>(ratios[first - 1].first)), y0 = std::log(ratios[first - 1].second);
  const double x1 = std::log(static_cast<double>(c.first)), y1 = std::log(ratios[first].second);
  c.batch = std::exp(x0 + (x1 - x0) * -y0 / (y1 - y0));
  return c;
}

std::optional<EpochCost> epoch_cost(const Curve& curve, const BatchPoint& p, double samples) {
  if (samples <= 0 || !p.known()) return {};
  const double steps = std::max(1.0, std::floor(samples / static_cast<double>(p.batch)));
  EpochCost c;
  c.hours = steps * (p.moved_seconds > 0 ? p.moved_seconds : p.seconds) / 3600;
  if (curve.usd_per_hour > 0) c.dollars = c.hours * curve.usd_per_hour;
  if (curve.watts_high > 0) c.watt_hours = plan::Range{c.hours * curve.watts_low, c.hours * curve.watts_high};
  return c;
}

double utilization(const Curve& curve, const BatchPoint& p) {
  return p.known() && curve.peak_flops > 0 ? p.flops / p.seconds / curve.peak_flops : 0;
}

std::string layer_of(const plan::Work& work) {
  return work.path.empty() || work.path == "optimizer" ? "(loss and updates)" : work.path;
}

std::vector<LayerRow> layers_of(const Comparison& c) {
  std::vector<LayerRow> rows;
  std::map<std::string, size_t> number_of;
  std::vector<std::vector<plan::ByBound>> bounds;
  for (size_t device = 0; device < c.curves.size(); ++device) {
    for (const StepTime& p : c.curves[device].step_times) {
      const std::string path = layer_of(p.work);
      const auto [it, fresh] = number_of.try_emplace(path, rows.size());
      if (fresh) {
        rows.push_back({path, std::vector<LayerRow::On>(c.curves.size())});
        bounds.emplace_back(c.curves.size());
      }
      LayerRow::On& on = rows[it->second].on[device];
      on.seconds += p.seconds;
      on.flops += p.work.flops;
      on.bytes += p.work.bytes;
      plan::ByBound& by = bounds[it->second][device];
      by[p.bound] += p.seconds;
      on.bound = by.largest();
    }
  }
  return rows;
}

namespace {

std::string crossing(const Curve& base, const Curve& other, Batches batches) {
  const auto x = crossover(base, other, batches);
  if (!x) return {};
  const std::string when = batches == Batches::moved ? " once batches are moved to the device and results back" : "";
  const auto both = [&](int64_t batch) {
    const auto s = speed_up(base, other, batch, batches);
    return s ? cat(number(*s), " times as fast at batch ", batch) : std::string();
  };
  int64_t smallest = 0, largest = 0;
  for (const BatchPoint& p : base.points) {
    if (!speed_up(base, other, p.batch, batches)) continue;
    if (smallest == 0) smallest = p.batch;
    largest = p.batch;
  }
  const std::string ends = smallest == largest ? both(largest) : cat(both(smallest), ", ", both(largest));
  const char* verb = other.predicted ? " is predicted to be" : " is";
  switch (x->kind) {
    case Crossover::Kind::always:
      return cat(other.name, verb, " faster than ", base.name, " from batch ", smallest, " on", when, ": ", ends, ".");
    case Crossover::Kind::never:
      return cat(other.name, verb, " not faster than ", base.name, " up to batch ", largest, when, ": ", ends, ".");
    default:
      return cat(other.name, verb, " faster than ", base.name, " from a batch of about ", number(x->batch), " on", when,
                 " (the first one seen is ", x->first, "): ", ends, ".");
  }
}

}  // namespace

std::vector<std::string> findings(const Comparison& c) {
  std::vector<std::string> out;
  for (const Curve& curve : c.curves) {
    const BatchPoint* best = curve.fastest();
    if (!best) continue;
    const BatchPoint* one = curve.at(1);
    std::string text = cat(curve.name, curve.predicted ? " (predicted): " : ": ");
    if (one) text += cat("latency at batch 1 ", milliseconds(one->seconds), " ms; ");
    text += cat("most at batch ", best->batch, ", ", number(best->samples_per_second()), " ", c.unit, "/s, ",
                percent_of(utilization(curve, *best)), " of ", curve.peak, ".");
    out.push_back(text);
  }
  for (size_t i = 1; i < c.curves.size(); ++i) {
    const Curve &base = c.curves[0], &other = c.curves[i];
    const std::string still = crossing(base, other, Batches::resident);
    if (!still.empty()) out.push_back(still);
    const std::string moved = crossing(base, other, Batches::moved);
    if (!moved.empty()) out.push_back(moved);
  }
  for (const Curve& curve : c.curves) {
    plan::ByBound by;
    for (const StepTime& p : curve.step_times) by[p.bound] += p.seconds;
    if (by.sum() <= 0) continue;
    const plan::ByBound shares = by.shares();
    const double copies = shares[plan::Bound::transfer];
    out.push_back(cat("At batch ", c.detail, " the time on ", curve.name, " is ", percent(shares[plan::Bound::compute]),
                      " in steps bounded by compute, ", percent(shares[plan::Bound::memory]), " by memory, ",
                      percent(shares[plan::Bound::launch]), " by the launch of kernels",
                      copies > 0 ? cat(", ", percent(copies), " by copies to and from the host") : "", "."));
  }
  for (const Curve& curve : c.curves) {
    const BatchPoint* best = curve.fastest();
    const auto cost = best ? epoch_cost(curve, *best, c.samples) : std::nullopt;
    if (!cost) continue;
    std::string text =
        cat("An epoch of ", with_commas(std::llround(c.samples)), " ", c.unit, " on ", curve.name, " at batch ",
            best->batch, " takes ", cost->hours < 0.1 ? number(cost->hours * 3600) + " s" : number(cost->hours) + " h");
    if (cost->dollars) text += cat(", $", fixed(*cost->dollars, *cost->dollars < 0.1 ? 5 : 2), " (", curve.price, ")");
    if (cost->watt_hours) {
      const plan::Range& w = *cost->watt_hours;
      text += cat(", ", w.low < w.high ? cat(number(w.low), " to ", number(w.high)) : number(w.high), " Wh (",
                  curve.power, ")");
    }
    out.push_back(text + ".");
  }
  return out;
}

}  // namespace freight::bench
