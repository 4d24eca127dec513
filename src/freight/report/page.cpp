// See page.h.
#include "freight/report/page.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "freight/base/strings.h"
#include "freight/report/document.h"
#include "freight/report/markup.h"
#include "freight/report/page_internal.h"

namespace freight::report {

namespace {

constexpr size_t kRows = 200;  // rows per run in the table of metrics below the charts

std::string duration_text(double seconds) {
  if (!(seconds > 0) || seconds > 1e11) return {};
  if (seconds < 100) return cat(fixed(seconds, 1), " s");
  const auto s = static_cast<int64_t>(seconds);
  return s < 3600 ? cat(s / 60, " min ", s % 60, " s") : cat(s / 3600, " h ", s % 3600 / 60, " min");
}

// The end of a run in one line, with a sign that is readable without color.
struct Outcome {
  const char* kind;  // CSS class: good, open, bad
  std::string text;
};
Outcome outcome(const RunRecord& run) {
  if (run.status == "complete") return {"good", "\u2713 complete"};
  if (run.status == "interrupted") return {"open", cat("\u25d1 interrupted, exit code ", run.exit_code)};
  if (run.status == "failed") return {"bad", cat("\u2717 failed, exit code ", run.exit_code)};
  if (run.status == "running") return {"open", "\u2026 running, or killed before it recorded its end"};
  return {"open", run.status.empty() ? "outcome unknown" : "? " + run.status};
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::string model_text(const RunRecord& run) {
  const std::string &asked = run.config_value("model"), chosen = run.leaderboard.best();
  return chosen.empty() ? asked : cat(chosen, ", the best of those compared", asked == "auto" ? " (--model auto)" : "");
}

std::string heading(const std::vector<ReportedRun>& runs, size_t i) {
  const std::string name = escaped(file_name(runs[i].run.path));
  return runs.size() == 1 ? name : cat(run_letter(i), ": ", name);
}

std::string metrics_text(const io::Metrics& m) {
  std::string out = m.top1 ? cat("top-1 ", fixed(*m.top1, 2), " %, ") : std::string();
  if (m.loss) out += cat("loss ", figure(*m.loss));
  return cat(out, " (", escaped(m.split), ", step ", with_commas(m.step), ")");
}

// The memory at the run's end; for a run that has not ended, the planned memory of its rows.
std::string memory_text(const RunRecord& run) {
  double planned = run.planned_bytes;
  for (const io::Metrics& m : run.rows) {
    if (run.planned_bytes <= 0) planned = std::max(planned, static_cast<double>(m.mem_bytes.value_or(0)));
  }
  if (planned <= 0) return {};
  return cat("planned ", human_bytes(planned),
             run.measured_bytes > 0 ? cat(", measured ", human_bytes(run.measured_bytes)) : "");
}

std::string card(const std::vector<ReportedRun>& runs, size_t i) {
  const ReportedRun& s = runs[i];
  const RunRecord& run = s.run;
  const Outcome o = outcome(run);
  const io::Metrics* best = run.best();
  const io::Metrics* last = nullptr;
  for (const io::Metrics& m : run.rows) {
    if (m.split != "train") last = &m;
  }
  const int64_t steps = run.rows.empty() ? run.steps : std::max(run.steps, run.rows.back().step);
  const Facts facts = {
      {"best", best ? metrics_text(*best) : ""},
      {"last", last ? metrics_text(*last) : ""},
      {"model", escaped(model_text(run))},
      {"parameters", s.examination ? with_commas(s.examination->parameters) : ""},
      {"data", cat(escaped(run.data), run.train_count > 0 ? cat(": ", with_commas(run.train_count), " train, ",
                                                                with_commas(run.test_count), " for validation")
                                                          : "")},
      {"steps", with_commas(steps)},
      {"training time", duration_text(run.train_seconds)},
      {"memory", memory_text(run)},
      {"skipped", run.bad_samples > 0 ? cat(run.bad_samples, " samples that cannot be read") : ""},
      {"ended", run.status == "running" ? "" : date_text(run.time)},
  };
  std::string out =
      cat("<section class=\"card\"><h2>", runs.size() > 1 ? legend_mark(static_cast<int>(i)) : "", heading(runs, i),
          "</h2><p class=\"outcome ", o.kind, "\">", escaped(o.text), "</p>", definitions(facts));
  for (const std::string& note : run.notes) out += cat("<p class=\"note\">", escaped(note), "</p>");
  return out + "</section>";
}

std::string cell(const std::optional<double>& v, int decimals = -1) {
  if (!v) return "<td class=\"number\"></td>";
  return cat("<td class=\"number\">", decimals < 0 || !std::isfinite(*v) ? figure(*v) : fixed(*v, decimals), "</td>");
}

// All rows of metrics, or evenly spread ones.
std::string rows_table(const std::vector<ReportedRun>& runs, size_t number) {
  const RunRecord& run = runs[number].run;
  if (run.rows.empty()) return {};
  const size_t n = run.rows.size(), shown = std::min(n, kRows);
  std::string out = cat("<details><summary>Figures of ", heading(runs, number), ": ",
                        shown < n ? cat(shown, " of ", with_commas(static_cast<int64_t>(n)), " rows, evenly spread")
                                  : cat(n, n == 1 ? " row" : " rows"),
                        "</summary><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
  for (const char* name :
       {"step", "epoch", "part", "loss", "top-1, %", "learning rate", "samples/s", "data, s", "step, s"}) {
    out += cat("<th scope=\"col\" class=\"number\">", name, "</th>");
  }
  out += "</tr></thead><tbody>";
  for (size_t k = 0; k < shown; ++k) {
    const io::Metrics& m = run.rows[shown < 2 ? 0 : k * (n - 1) / (shown - 1)];
    out +=
        cat("<tr><td class=\"number\">", m.step, "</td>", cell(m.epoch), "<td>", escaped(m.split), "</td>",
            cell(m.loss), cell(m.top1, 2), cell(m.lr), cell(m.samples_per_s), cell(m.data_s), cell(m.step_s), "</tr>");
  }
  return out + "</tbody></table></div></details>";
}

std::string shown_value(const std::string& value) {
  return value.empty() ? "<span class=\"none\">-</span>" : escaped(shortened(value, 200));
}

// All keys of all runs, in the order of their files.
std::vector<std::string> keys_of(const std::vector<ReportedRun>& runs) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const ReportedRun& s : runs) {
    for (const auto& [key, value] : s.run.config) {
      if (seen.insert(key).second) keys.push_back(key);
    }
  }
  return keys;
}

bool differs(const std::vector<ReportedRun>& runs, const std::string& key) {
  return std::any_of(runs.begin(), runs.end(), [&](const ReportedRun& s) {
    return s.run.config_value(key) != runs.front().run.config_value(key);
  });
}

std::string config_table(const std::vector<ReportedRun>& runs, const std::vector<std::string>& keys) {
  std::string out =
      "<div class=\"scroll\" tabindex=\"0\"><table class=\"config\"><thead><tr><th scope=\"col\">setting</th>";
  for (size_t i = 0; i < runs.size(); ++i) {
    out += cat("<th scope=\"col\">", runs.size() == 1 ? "value" : heading(runs, i), "</th>");
  }
  out += "</tr></thead><tbody>";
  for (const std::string& key : keys) {
    const bool different = differs(runs, key);
    out += cat("<tr", different ? " class=\"differs\"" : "", "><th scope=\"row\">", escaped(key),
               different ? " <span title=\"differs\">\u2260</span>" : "", "</th>");
    for (const ReportedRun& s : runs) out += cat("<td>", shown_value(s.run.config_value(key)), "</td>");
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string configuration(const std::vector<ReportedRun>& runs) {
  const std::vector<std::string> keys = keys_of(runs);
  if (keys.empty()) return {};
  std::string out = "<section><h2>Configuration</h2>";
  if (runs.size() > 1) {
    std::vector<std::string> different;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(different),
                 [&](const std::string& key) { return differs(runs, key); });
    out += different.empty() ? "<p>The runs have the same configuration.</p>"
                             : "<h3>What differs</h3>" + config_table(runs, different);
  }
  return out + "<details><summary>All settings</summary>" + config_table(runs, keys) + "</details></section>";
}

std::string provenance(const std::vector<ReportedRun>& runs, size_t i) {
  const RunRecord& run = runs[i].run;
  const auto code = [](const std::string& text) {
    return text.empty() ? text : cat("<code>", escaped(shortened(text, 2000)), "</code>");
  };
  Facts facts = {{"directory", code(run.path)},         {"command", code(run.command)},
                 {"freight", escaped(run.version)},     {"machine", escaped(run.host)},
                 {"device", escaped(run.device)},       {"threads", run.threads > 0 ? cat(run.threads) : ""},
                 {"computed in", escaped(run.compute)}, {"data fingerprint", code(run.fingerprint)},
                 {"model file", code(run.model)}};
  if (runs[i].examination) {
    for (const auto& [name, value] : runs[i].examination->provenance) {
      facts.emplace_back("model: " + name, escaped(shortened(value, 200)));
    }
  }
  std::string out = cat("<section><h3>", heading(runs, i), "</h3>", definitions(facts));
  if (!run.spec.empty()) {
    out += cat("<details><summary>Model spec</summary><pre tabindex=\"0\">", escaped(run.spec), "</pre></details>");
  }
  return out + "</section>";
}

std::string examinations(const std::vector<ReportedRun>& runs) {
  std::string out;
  for (size_t i = 0; i < runs.size(); ++i) {
    const ReportedRun& s = runs[i];
    if (!s.examination && s.not_examined.empty()) continue;
    out += cat("<section><h2>Predictions", runs.size() > 1 ? cat(" of ", heading(runs, i)) : "", "</h2>");
    out += s.examination
               ? examination_section(*s.examination)
               : cat("<p class=\"note\">The model was not evaluated on its validation data: ", escaped(s.not_examined),
                     "</p>");
    out += "</section>";
  }
  return out;
}

// The reason why the curves of these runs are not comparable; "" if they are.
std::string comparison_note(const std::vector<ReportedRun>& runs) {
  const RunRecord& first = runs.front().run;
  const bool other = std::any_of(runs.begin(), runs.end(), [&](const ReportedRun& s) {
    return first.fingerprint.empty() ? s.run.data != first.data : s.run.fingerprint != first.fingerprint;
  });
  return other ? "<p class=\"note\">These runs were trained on different data: their losses and accuracies do not "
                 "compare.</p>"
               : "";
}

}  // namespace

std::string run_letter(size_t number) {
  return number < 26 ? std::string(1, static_cast<char>('A' + number)) : cat(number + 1);
}

std::string to_html(const std::vector<ReportedRun>& runs) {
  std::vector<std::string> names;
  for (const ReportedRun& s : runs) {
    const std::string chosen = s.run.leaderboard.best();
    names.push_back(cat(file_name(s.run.path), chosen.empty() ? "" : cat(" (", chosen, ")")));
  }
  const std::string chosen = runs.front().run.leaderboard.best();
  std::string out = cat("<h1>",
                        runs.size() == 1 ? cat("Training run", chosen.empty() ? "" : cat(": ", escaped(chosen)))
                                         : cat(runs.size(), " training runs"),
                        "</h1>\n<div class=\"cards\">");
  for (size_t i = 0; i < runs.size(); ++i) out += card(runs, i);
  out += cat("</div>\n", comparison_note(runs));
  if (const std::string curves = charts(runs); !curves.empty()) {
    out +=
        "<section><h2>Curves</h2><p class=\"muted\">Solid lines: validation data. Dashed lines: training, the mean "
        "over "
        "an epoch while the weights change. A cross at the upper edge: a value that is NaN or infinite.</p>" +
        curves;
    for (size_t i = 0; i < runs.size(); ++i) out += rows_table(runs, i);
    out += "</section>\n";
  }
  for (size_t i = 0; i < runs.size(); ++i)
    out += timeline_section(runs[i].run.timeline, runs.size() > 1 ? " of " + heading(runs, i) : "");
  for (const ReportedRun& s : runs) out += leaderboard_section(s.run.leaderboard);
  out += cat(examinations(runs), "\n", configuration(runs), "\n<section><h2>Machine and provenance</h2>");
  for (size_t i = 0; i < runs.size(); ++i) out += provenance(runs, i);
  return document(join(names, ", ") + " - Freight report", out + "</section>\n");
}

}  // namespace freight::report
