// See plan_text.h.
#include "plan_text.h"

#include <algorithm>
#include <cstdio>

#include "freight/base/strings.h"
#include "freight/io/json_library.h"
#include "plan_options.h"
#include "text_table.h"

namespace freight::app {

using Json = nlohmann::ordered_json;
using plan::Estimate;
using plan::Range;

namespace {

// The key by which a table is sorted, ascending; rows without a figure come last.
double sort_key(const Estimate& e, const std::string& by) {
  constexpr double kLast = 1e300;
  const bool usable = e.timed && e.fits.value_or(true);
  if (by == "memory") return -e.memory_bytes;
  if (by == "batch") return -static_cast<double>(e.largest_batch);
  if (by == "dollars") return e.dollars && usable ? e.dollars->middle() : kLast;
  if (by == "energy") return e.watt_hours && usable ? e.watt_hours->middle() : kLast;
  return e.timed ? e.step_seconds.middle() * (usable ? 1 : 1e6) : kLast;
}

Json json_range(const Range& r) { return r.high > 0 ? Json{{"low", r.low}, {"high", r.high}} : Json(nullptr); }

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::string number(double v) {
  constexpr double kMostDigits = 1e15;
  if (v >= kMostDigits) return cat(v);
  if (v >= 1000) return with_commas(static_cast<int64_t>(v + 0.5));
  return fixed(v, v >= 100 ? 0 : v >= 10 ? 1 : v >= 0.1 ? 2 : 4);
}
std::string range(const plan::Range& r) { return r.high <= 0 ? "-" : cat(number(r.low), " - ", number(r.high)); }

std::string memory_table(const plan::StepPlan& d) {
  std::string out;
  const auto add = [&](const char* name, size_t n) {
    if (n == 0) return;
    const std::string bytes = human_bytes(static_cast<double>(n));
    char line[64];
    std::snprintf(line, sizeof line, "  %-16s %10s\n", name, bytes.c_str());
    out += line;
  };
  for (size_t i = 0; i < plan::kParts; ++i) {
    if (static_cast<plan::Part>(i) != plan::Part::host) add(to_string(static_cast<plan::Part>(i)), d.bytes[i]);
  }
  add("total", d.total());
  add("and host memory", d.part(plan::Part::host));
  out += cat("\nthe peak is at ", d.peak, "; largest live tensors at the peak\n");
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min<size_t>(d.live.size(), 8); ++i) {
    const plan::LiveTensor& h = d.live[i];
    rows.push_back({cat("  ", human_bytes(static_cast<double>(h.bytes))), to_string(h.part),
                    h.path.empty() ? "-" : h.path, h.what, to_string(h.type)});
  }
  return out + text_table({"  bytes", "kind", "layer", "op", "type"}, rows);
}

std::string texts_line(const plan::TrainingSetup& s) {
  if (s.assumes_full_length()) {
    return cat("texts     all of ", s.input.shape[0],
               " tokens, the full length: without data the lengths are unknown\n");
  }
  std::string shares;
  for (const plan::LengthShare& l : s.length_shares(s.config.batch_size)) {
    if (l.steps <= 0) continue;
    const double percent = 100 * l.steps;
    shares += cat(shares.empty() ? "" : ", ", fixed(percent, percent < 1 ? 1 : 0), " % of ", l.tokens);
  }
  if (shares.empty()) return {};
  return cat("texts     of the steps ", shares, " tokens: times are their mean, memory is that of ", s.input.shape[0],
             "\n");
}

Json json_of_texts(const plan::TrainingSetup& s) {
  Json lengths = Json::array();
  for (const plan::LengthShare& l : s.length_shares(s.config.batch_size)) {
    lengths.push_back({{"tokens", l.tokens}, {"share_of_steps", l.steps}, {"share_of_test", l.tested}});
  }
  if (s.assumes_full_length()) {
    lengths.push_back({{"tokens", s.input.shape[0]}, {"share_of_steps", 1}, {"share_of_test", 1}});
  }
  return lengths.empty() ? Json(nullptr) : Json{{"lengths", lengths}, {"assumed", s.assumes_full_length()}};
}

std::string fits_text(const Estimate& e) {
  if (!e.fits) return "?";
  if (*e.fits) return "yes";
  return e.means.empty() ? "no" : e.means;
}

std::string text_of(const plan::Offer& o) {
  const plan::Price& p = *o.price;
  return cat(o.machines > 1 ? cat(o.machines, " x ") : "", p.provider, " ", p.instance, " $", number(o.usd()), "/h",
             p.count > 1 ? cat(" for ", p.count * o.machines) : "", ", ", p.date);
}

void sort_estimates(std::vector<Estimate>& all, const std::string& by) {
  if (by == "name") {
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
    return;
  }
  std::stable_sort(all.begin(), all.end(),
                   [&](const auto& a, const auto& b) { return sort_key(a, by) < sort_key(b, by); });
}

namespace {

constexpr std::pair<Figure, const char*> kHeadings[] = {{Figure::device, "device"},
                                                        {Figure::devices, "devices"},
                                                        {Figure::total, "memory"},
                                                        {Figure::fits, "fits"},
                                                        {Figure::largest_batch, "largest batch"},
                                                        {Figure::rate, "samples/s"},
                                                        {Figure::step, "ms/step"},
                                                        {Figure::all_summing, "ms of all-reduce"},
                                                        {Figure::summing, "not hidden"},
                                                        {Figure::limit, "limited by"},
                                                        {Figure::epoch_hours, "h/epoch"},
                                                        {Figure::run_hours, "h/run"},
                                                        {Figure::run_seconds, "s/run"},
                                                        {Figure::dollars, "$/run"},
                                                        {Figure::watt_hours, "Wh/run"}};

std::string heading_of(const EstimateColumn& column) {
  if (!column.heading.empty()) return column.heading;
  for (const auto& [figure, heading] : kHeadings) {
    if (figure == column.figure) return heading;
  }
  return {};
}

std::string cell_of(const Estimate& e, Figure figure) {
  switch (figure) {
    case Figure::device: return e.device;
    case Figure::devices: return cat(e.devices);
    case Figure::total: return human_bytes(e.total_bytes);
    case Figure::fits: return fits_text(e);
    case Figure::largest_batch: return e.largest_batch > 0 ? with_commas(e.largest_batch) : "-";
    case Figure::rate: return e.timed ? range(e.samples_per_second) : "-";
    case Figure::step: return range(e.step_seconds * 1e3);
    case Figure::all_summing: return range(e.all_summing_seconds * 1e3);
    case Figure::summing: return range(e.summing_seconds * 1e3);
    case Figure::limit: return e.limit;
    case Figure::epoch_hours: return range(e.epoch_hours);
    case Figure::run_hours: return range(e.run_hours);
    case Figure::run_seconds: return range(e.run_hours * 3600);
    case Figure::dollars: return e.dollars ? range(*e.dollars) : "-";
    case Figure::watt_hours: return e.watt_hours ? range(*e.watt_hours) : "-";
    case Figure::given: break;
  }
  return {};
}

}  // namespace

std::string estimate_table(const std::vector<const Estimate*>& rows, const std::vector<EstimateColumn>& columns) {
  std::vector<std::string> header;
  for (const EstimateColumn& c : columns) header.push_back(heading_of(c));
  std::vector<std::vector<std::string>> lines(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const EstimateColumn& c : columns) {
      lines[i].push_back(c.figure == Figure::given ? c.cells[i] : cell_of(*rows[i], c.figure));
    }
  }
  return text_table(header, lines);
}

std::vector<const Estimate*> shown_of(const std::vector<Estimate>& all, int64_t top) {
  const size_t shown = top == 0 ? all.size() : std::min(all.size(), static_cast<size_t>(top) + 1);
  std::vector<const Estimate*> rows;
  for (size_t i = 0; i < shown; ++i) rows.push_back(&all[i]);
  return rows;
}

Json json_of_run(const plan::TrainingSetup& s, const plan::StepPlan& d) {
  return {{"model", s.config.model},
          {"data", s.data},
          {"batch_size", s.config.batch_size},
          {"batch_per_device", d.options.batch},
          {"precision", s.config.precision},
          {"optimizer", s.config.optimizer},
          {"recompute", s.config.recompute},
          {"parameters", d.parameters},
          {"plan_steps", d.plan_steps},
          {"flops", d.flops},
          {"bytes_moved", d.moved},
          {"total_bytes", d.total()},
          {"texts", json_of_texts(s)}};
}

Json json_of(const Estimate& e, const plan::Catalog& catalog) {
  Json j = {{"device", e.device}, {"devices", e.devices}, {"total_bytes", e.total_bytes},    {"memory_bytes", nullptr},
            {"fits", nullptr},    {"means", e.means},     {"largest_batch", e.largest_batch}};
  if (e.memory_bytes > 0) j["memory_bytes"] = e.memory_bytes;
  if (e.fits) j["fits"] = *e.fits;
  j["step_seconds"] = json_range(e.step_seconds);
  j["samples_per_second"] = json_range(e.samples_per_second);
  j["data_seconds"] = json_range(e.data_seconds);
  if (e.devices > 1) {
    j["summing_seconds"] = json_range(e.summing_seconds);
    j["all_summing_seconds"] = json_range(e.all_summing_seconds);
    j["waiting_seconds"] = json_range(e.waiting_seconds);
    j["link"] = e.link;
    j["limit"] = e.limit;
    j["beyond"] = e.beyond.empty() ? Json(nullptr) : Json(e.beyond);
  }
  j["epoch_hours"] = json_range(e.epoch_hours);
  j["run_hours"] = json_range(e.run_hours);
  j["evaluation_hours"] = json_range(e.evaluation_hours);
  j["checkpoint_hours"] = json_range(e.checkpoint_hours);
  j["dollars"] = e.dollars ? json_range(*e.dollars) : Json(nullptr);
  j["watt_hours"] = e.watt_hours ? json_range(*e.watt_hours) : Json(nullptr);
  j["share"] = freight::app::json_of(e.shares);
  if (e.utilization > 0) j["utilisation_of_dense_peak"] = e.utilization;
  j["assumed"] = e.assumed;
  if (e.offer) {
    const plan::Price& p = *e.offer->price;
    j["price"] = {{"provider", p.provider}, {"instance", p.instance},        {"count", p.count},
                  {"usd_per_hour", p.usd},  {"machines", e.offer->machines}, {"date", p.date},
                  {"source", p.source}};
  }
  for (const plan::Device& d : catalog.devices) {
    if (d.name == e.device) {
      j["source"] = d.source;
      j["date"] = d.date;
    }
  }
  return j;
}

void print_csv(const std::vector<Estimate>& all) {
  std::printf(
      "device,fits,means,largest_batch,samples_per_s_low,samples_per_s_high,epoch_h_low,epoch_h_high,run_h_low,"
      "run_h_high,dollars_low,dollars_high,watt_h_low,watt_h_high,price,assumed\n");
  const auto span = [](const Range& r) { return r.high > 0 ? cat(r.low, ",", r.high) : std::string(","); };
  for (const Estimate& e : all) {
    std::printf("%s,%s,%s,%lld,%s,%s,%s,%s,%s,%s,%s\n", cell(e.device).c_str(), e.fits ? *e.fits ? "yes" : "no" : "",
                e.means.c_str(), static_cast<long long>(e.largest_batch), span(e.samples_per_second).c_str(),
                span(e.epoch_hours).c_str(), span(e.run_hours).c_str(), span(e.dollars.value_or(Range{})).c_str(),
                span(e.watt_hours.value_or(Range{})).c_str(), cell(e.offer ? text_of(*e.offer) : "").c_str(),
                cell(e.assumed).c_str());
  }
}

}  // namespace freight::app
