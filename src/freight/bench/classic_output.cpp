// The tables, the JSON and the page of the study. See output.h.
#include <algorithm>

#include "freight/bench/format_internal.h"
#include "freight/bench/output.h"
#include "freight/io/json_library.h"
#include "freight/report/document.h"
#include "freight/report/dots.h"
#include "freight/report/markup.h"

namespace freight::bench {

namespace {

using Json = nlohmann::ordered_json;
using report::escaped;

std::string with_threads(const std::string& device, int threads) {
  return threads == 0 ? device : cat(device, ", ", threads, threads == 1 ? " thread" : " threads");
}

std::vector<const StepResult*> results_of(const Study& s, const StudyNet& net) {
  std::vector<const StepResult*> all;
  for (const StepResult& r : s.steps) {
    if (r.net == net.name) all.push_back(&r);
  }
  return all;
}

// Published figures are shown only next to measurements with the same batch size.
bool comparable(const Study& s, const StudyNet& net) {
  const auto all = results_of(s, net);
  return std::all_of(all.begin(), all.end(), [&](const StepResult* r) { return r->batch == net.batch; });
}

const StudyTraining& training_of(const Study& s, const std::string& name) {
  const auto it =
      std::find_if(s.trainings.begin(), s.trainings.end(), [&](const StudyTraining& t) { return t.name == name; });
  return *it;
}

std::string charts(const Study& s) {
  std::string out;
  for (const StudyNet& net : s.nets) {
    const auto results = results_of(s, net);
    if (results.empty()) continue;
    std::vector<report::Dot> dots;
    for (const StepResult* r : results) {
      dots.push_back({with_threads(r->device, r->threads) + " (here)", r->seconds * 1e3});
    }
    for (const Published& p : s.published) {
      if (p.net == net.name && comparable(s, net))
        dots.push_back({cat(p.device, ", ", p.software), p.seconds * 1e3, true});
    }
    const std::string title = cat(net.title, ", batch ", results[0]->batch);
    const std::string svg = report::to_svg(dots, title, "milliseconds per step");
    if (svg.empty()) continue;
    out += cat("<figure class=\"chart\"><figcaption>", escaped(title), "</figcaption>", svg, "</figure>");
  }
  return out.empty() ? out : cat("<div class=\"charts\">", out, "</div>");
}

// Speedups over one thread, by the number of threads; empty if only one number was measured.
std::string scaling(const Study& s) {
  report::Plot plot{.title = "Threads of the CPU: times as fast as with one",
                    .x_label = "threads",
                    .y_label = "times",
                    .scale = report::Plot::Scale::linear,
                    .from_zero = true};
  for (size_t i = 0; i < s.nets.size(); ++i) {
    double one = 0;
    report::Series line{.label = s.nets[i].title, .color = static_cast<int>(i)};
    for (const StepResult* r : results_of(s, s.nets[i])) {
      if (r->threads == 1) one = r->seconds;
      if (r->threads > 0 && one > 0 && r->seconds > 0) {
        line.points.push_back({static_cast<double>(r->threads), one / r->seconds});
      }
    }
    if (line.points.size() > 1) plot.series.push_back(std::move(line));
  }
  return plot.series.empty() ? std::string() : cat("<div class=\"single\">", report::chart(plot), "</div>");
}

}  // namespace

Listing steps_of(const Study& s) {
  Listing out;
  out.header = {"net", "device", "software", "batch", "ms/step", "samples/s", "GFLOP/s"};
  out.words = {0, 1, 2};
  for (const StudyNet& net : s.nets) {
    const auto results = results_of(s, net);
    if (results.empty()) continue;
    for (const StepResult* r : results) {
      const std::string device = with_threads(r->device, r->threads);
      if (r->seconds <= 0) {
        out.rows.push_back({cat(net.title, "  ", device, ": skipped, ", r->skipped)});
        continue;
      }
      out.rows.push_back({net.title, device, "Freight, here", cat(r->batch), milliseconds(r->seconds),
                          number(static_cast<double>(r->batch) / r->seconds), number(r->flops / r->seconds * 1e-9)});
    }
    if (!comparable(s, net)) {
      out.rows.push_back({cat(net.title, "  published figures are for batch ", net.batch)});
      continue;
    }
    for (const Published& p : s.published) {
      if (p.net != net.name) continue;
      out.rows.push_back({net.title, p.device, p.software, cat(net.batch), milliseconds(p.seconds),
                          number(static_cast<double>(net.batch) / p.seconds), "-"});
    }
  }
  return out;
}

Listing trainings_of(const Study& s) {
  Listing out;
  out.header = {"training", "data", "device", "steps", "top-1, %", "s in all", "s training", "samples/s"};
  out.words = {0, 1, 2};
  for (const TrainingResult& r : s.runs) {
    const StudyTraining& t = training_of(s, r.name);
    const std::string device = with_threads(r.device, r.threads);
    if (!r.skipped.empty()) {
      out.rows.push_back({cat(t.title, "  ", device, ": skipped, ", r.skipped)});
      continue;
    }
    out.rows.push_back({t.title, t.data, device, with_commas(r.steps), fixed(r.top1, 2), number(r.seconds),
                        number(r.train_seconds), number(r.samples_per_second)});
  }
  return out;
}

std::string to_json(const Study& s) {
  Json j = {
      {"about", s.about},          {"date", s.date},        {"machine", s.machine},      {"sources", Json::object()},
      {"devices", Json::object()}, {"nets", Json::array()}, {"trainings", Json::array()}};
  for (const auto& [key, what] : s.sources) j["sources"][key] = what;
  for (const auto& [name, what] : s.devices) j["devices"][name] = what;
  for (const StudyNet& net : s.nets) {
    const auto results = results_of(s, net);
    if (results.empty()) continue;
    Json n = {{"name", net.name},
              {"title", net.title},
              {"what", net.what},
              {"assumed", net.assumed},
              {"source", net.source},
              {"parameters", net.parameters},
              {"published_batch_size", net.batch},
              {"measured", Json::array()},
              {"published", Json::array()}};
    for (const StepResult* r : results) {
      Json m = {{"device", r->device},
                {"threads", r->threads > 0 ? Json(r->threads) : Json(nullptr)},
                {"batch_size", r->batch}};
      if (r->seconds > 0) {
        m["seconds"] = r->seconds;
        m["flops"] = r->flops;
      } else {
        m["skipped"] = r->skipped;
      }
      n["measured"].push_back(std::move(m));
    }
    for (const Published& p : s.published) {
      if (p.net != net.name) continue;
      n["published"].push_back(
          {{"device", p.device}, {"software", p.software}, {"seconds", p.seconds}, {"source", p.source}});
    }
    j["nets"].push_back(std::move(n));
  }
  for (const TrainingResult& r : s.runs) {
    Json t = {{"name", r.name}, {"device", r.device}, {"threads", r.threads > 0 ? Json(r.threads) : Json(nullptr)}};
    if (r.skipped.empty()) {
      t["seconds"] = r.seconds;
      t["train_seconds"] = r.train_seconds;
      t["samples_per_second"] = r.samples_per_second;
      t["top1"] = r.top1;
      t["steps"] = r.steps;
    } else {
      t["skipped"] = r.skipped;
    }
    j["trainings"].push_back(std::move(t));
  }
  return j.dump(2);
}

std::string to_html(const Study& s) {
  std::string out = cat("<h1>The study of 2017, on this machine</h1><p>", escaped(s.about), "</p>");
  std::vector<std::pair<std::string, std::string>> facts = {{"machine", escaped(s.machine)}};
  for (const auto& [name, what] : s.devices) facts.emplace_back(name, escaped(what));
  out += report::definitions(facts);
  if (!s.steps.empty()) {
    out +=
        cat("<section><h2>Training steps</h2><p class=\"legend\"><span>\u25cf measured here</span> <span>\u25a1 "
            "published by others, dashed</span></p>",
            charts(s), scaling(s), to_html(steps_of(s)),
            "<p class=\"muted\">Here: f32, SGD with momentum, the batch comes from the host's memory before each step "
            "and the loss goes back. The figures of others are from other machines, years and software.</p></section>");
  }
  if (!s.runs.empty()) {
    out += cat("<section><h2>From data to a saved model</h2>", to_html(trainings_of(s)),
               "<p class=\"muted\">In all: reading the data, planning, training, evaluation, storing.</p></section>");
  }
  out += "<section><h2>Networks and sources</h2>";
  std::vector<std::vector<std::string>> rows;
  for (const StudyNet& net : s.nets) {
    rows.push_back({net.title, net.what, net.assumed.empty() ? "-" : net.assumed, with_commas(net.parameters)});
  }
  out += report::data_table({{"net", false}, {"what", false}, {"assumed here", false}, {"parameters", true}}, rows);
  std::vector<std::pair<std::string, std::string>> sources;
  for (const auto& [key, what] : s.sources) sources.emplace_back(key, escaped(what));
  return report::document(
      "Classic benchmarks - Freight",
      cat(out, report::definitions(sources), "<p class=\"muted\">Gathered ", escaped(s.date), ".</p></section>"));
}

}  // namespace freight::bench
