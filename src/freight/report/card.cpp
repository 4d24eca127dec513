// See card.h. Fields of the head: huggingface.co/docs/hub/model-cards.
#include "freight/report/card.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <optional>

#include "freight/base/duration.h"
#include "freight/base/error.h"
#include "freight/base/listing.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/version.h"
#include "freight/data/catalog.h"
#include "freight/io/json_library.h"
#include "freight/store/weights_source.h"
#include "freight/train/learner.h"
#include "freight/train/run_dir.h"

namespace freight::report {

namespace {

struct Measured {
  std::string name;
  double value = 0;
  Interval interval = {};  // equal bounds: not known
};

// Text from files, escaped for a line of Markdown: it can neither end the line nor begin a tag.
std::string inline_text(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view("|*_`[]<>#\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// A string in YAML: every JSON string is one.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string entry_of(const store::Bundle& model, const std::string& key) {
  const auto it = model.provenance.find(key);
  return it == model.provenance.end() ? "" : it->second;
}

std::string task_of(const store::Bundle& model) {
  if (!model.net()) return model.classes.empty() ? "tabular-regression" : "tabular-classification";
  if (model.preprocessing.text()) {
    if (models::regresses(model.model.loss)) return "other";
    return model.model.language_model() ? "text-generation" : "text-classification";
  }
  if (model.preprocessing.pictures() && !model.classes.empty()) return "image-classification";
  return "other";
}

std::string name_of_data(const CardFacts& f) {
  return f.run && !f.run->data.empty() ? f.run->data : entry_of(*f.model, "data");
}

// The split on which the metrics were computed. What a network is evaluated on after each epoch is a validation set,
// unless it is the test set of a built-in dataset; a table says which it was.
std::string part_of(const CardFacts& f) {
  if (!f.model->net()) return entry_of(*f.model, "held_out") == "val" ? "validation" : "test";
  const data::CatalogEntry* const known = data::find_entry(name_of_data(f));
  bool apart = false;  // the data has a test set, and the run was evaluated on another
  for (const auto& [name, value] : f.run ? f.run->result : Facts()) apart = apart || starts_with(name, "val_");
  return known && known->test > 0 && !apart ? "test" : "validation";
}

std::vector<Measured> metrics_of(const CardFacts& f) {
  std::vector<Measured> all;
  for (const metrics::Score& s : f.scores) all.push_back({s.name, s.value, {s.low, s.high}});
  if (!all.empty()) return all;
  std::vector<std::pair<std::string, std::string>> figures;
  if (f.run) figures = f.run->result;
  if (figures.empty()) figures.assign(f.model->provenance.begin(), f.model->provenance.end());
  for (const auto& [name, text] : figures) {
    const std::optional<double> value = parse_number<double>(text);
    const size_t end = name.find('_');
    const std::string part = name.substr(0, end);
    if (!value || end == std::string::npos || (part != "test" && part != "val")) continue;
    if (name == "val_split") continue;
    const std::string metric = name.substr(end + 1);
    if (metric != "top1") {
      all.push_back({metric, *value});
      continue;
    }
    const double share = *value / 100;
    const int64_t count = f.run ? f.run->test_count : 0;
    all.insert(all.begin(), {"accuracy", share, count > 0 ? share_interval(share, count) : Interval{}});
  }
  return all;
}

std::string base_model(const CardFacts& f) {
  const std::string weights = f.run ? f.run->config_value("weights") : "";
  constexpr std::string_view kHub = "hf:";
  if (!starts_with(weights, kHub)) return "";
  const std::vector<std::string> parts = split(weights.substr(kHub.size()), '/');
  const std::string name = parts[0] + (parts.size() > 1 ? "/" + parts[1] : "");
  return name.substr(0, name.find('@'));
}

std::string head(const CardFacts& f, const std::string& title) {
  std::string text = "---\nlibrary_name: freight\n";
  const std::string task = task_of(*f.model), data = name_of_data(f), base = base_model(f);
  text += cat("pipeline_tag: ", task, "\n");
  if (!base.empty()) text += cat("base_model: ", quoted(base), "\n");
  text += cat("tags:\n- freight\n- ", quoted(f.model->name()), "\n");
  const std::vector<Measured> metrics = metrics_of(f);
  if (metrics.empty()) return text + "---\n";
  text += cat("model-index:\n- name: ", quoted(title), "\n  results:\n  - task:\n      type: ", task,
              "\n    dataset:\n      name: ", quoted(data), "\n      type: ", quoted(data),
              "\n      split: ", part_of(f), "\n    metrics:\n");
  for (const Measured& m : metrics) {
    text += cat("    - type: ", quoted(m.name),
                "\n      value: ", std::isfinite(m.value) ? significant(m.value, 4) : "null", "\n");
  }
  return text + "---\n";
}

constexpr size_t kMostNames = 20;

std::string about(const CardFacts& f) {
  const store::Bundle& m = *f.model;
  std::string text = cat("A ", m.net() ? "network" : "table model", ", `", m.name(), "`, with ",
                         with_commas(m.parameters()), " parameters");
  if (m.net()) text += cat(", for inputs of ", m.preprocessing.input);
  if (!m.classes.empty()) {
    constexpr size_t kMost = kMostNames;
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(m.classes.size(), kMost); ++i) names.push_back(inline_text(m.classes[i]));
    text +=
        cat(m.multilabel() ? ". It predicts any number of " : ". It predicts one of ", m.classes.size(),
            m.multilabel() ? " labels: " : " classes: ", join(names, ", "), m.classes.size() > kMost ? ", ..." : "");
  }
  if (const std::string above = store::thresholds_text(m); !above.empty()) {
    text += cat(m.multilabel() ? ". It predicts labels " : ". It predicts ", inline_text(above),
                m.multilabel() ? " (thresholds of their probabilities)" : " (a threshold of its probability)");
  }
  if (!m.targets.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : m.targets) names.push_back(inline_text(name));
    text += cat(". It predicts ", join_first(names, kMostNames));
  }
  return text + ".\n";
}

std::string data_section(const CardFacts& f) {
  std::string text = cat("\n## Data\n\n| | |\n|---|---|\n| name | ", inline_text(name_of_data(f)), " |\n");
  const std::string hash =
      f.run && !f.run->fingerprint.empty() ? f.run->fingerprint : entry_of(*f.model, "data_fingerprint");
  if (!hash.empty()) text += cat("| hash of the training set (XXH3) | ", hash, " |\n");
  if (f.run) {
    text += cat("| samples | ", with_commas(f.run->train_count), " for training, ", with_commas(f.run->test_count),
                " for ", part_of(f), " |\n");
    if (f.run->bad_samples > 0) text += cat("| skipped (unreadable) | ", f.run->bad_samples, " |\n");
  }
  if (const std::string target = entry_of(*f.model, "target"); !target.empty()) {
    text += cat("| target column | ", inline_text(target), " |\n");
  }
  return text;
}

std::string metrics_section(const CardFacts& f) {
  const std::vector<Measured> all = metrics_of(f);
  if (all.empty()) return "";
  std::string text = cat("\n## Metrics\n\n| metric (", part_of(f), " set) | value | 95 % interval |\n|---|---|---|\n");
  for (const Measured& m : all) {
    const bool known = m.interval.high > m.interval.low;
    text += cat("| ", m.name, " | ", significant(m.value, 4), " | ",
                known ? cat(significant(m.interval.low, 4), " to ", significant(m.interval.high, 4)) : std::string("-"),
                " |\n");
  }
  return text;
}

std::string planned_and_measured(const char* what, const std::string& planned, const std::string& measured) {
  if (planned.empty() && measured.empty()) return "";
  return cat("| ", what, " | ", planned.empty() ? "-" : planned, " | ", measured.empty() ? "-" : measured, " |\n");
}

std::string training_section(const CardFacts& f) {
  if (!f.run) return "";
  const RunRecord& r = *f.run;
  constexpr double kHour = 3600;
  const auto hours = [&](double seconds) {
    return seconds > 0 ? cat(significant(seconds / kHour, 4), " h") : std::string();
  };
  const auto watt_hours = [&](const char* name) {
    const double value = r.plan_figure(name);
    return value > 0 ? significant(value, 4) : std::string();
  };
  const auto bytes = [](double b) { return b > 0 ? human_bytes(b) : std::string(); };
  const double planned = r.plan_figure("planned_step_seconds") * static_cast<double>(r.steps);
  std::string text = "\n## Training\n\n| | planned | measured |\n|---|---|---|\n";
  text += planned_and_measured("time of the steps", hours(planned), hours(r.train_seconds));
  const std::string low = watt_hours("planned_watt_hours_low"), high = watt_hours("planned_watt_hours_high");
  text += planned_and_measured("energy of the CPUs", low.empty() ? "" : cat(low, " to ", high, " Wh"),
                               watt_hours("measured_watt_hours").empty() ? "not measured: no power counter can be read"
                                                                         : watt_hours("measured_watt_hours") + " Wh");
  text += planned_and_measured("memory", bytes(r.planned_bytes), bytes(r.measured_bytes));
  text += cat("\n", with_commas(r.steps), " steps on ", inline_text(r.device), ", ", r.compute, ", with Freight ",
              inline_text(r.version), ":\n\n    ", printable(r.command), "\n");
  return text;
}

std::string license_section(const CardFacts& f) {
  const std::string weights = f.run ? f.run->config_value("weights") : "";
  std::string text = "\n## License\n\nNot stated: add `license:` to the head of this file. ";
  if (weights.empty())
    return text + "The weights were trained from scratch; the terms of the data may apply to them.\n";
  const store::SourceTerms terms = store::terms_of(weights);
  return text + cat("The training started from `", printable(weights), "`, whose license ",
                    terms.license.empty() ? "is not known here" : cat("is ", inline_text(terms.license)),
                    terms.page.empty() ? "" : cat(" (", terms.page, ")"),
                    ". Its terms and those of the data may apply to these weights.\n");
}

std::string limits_section(const CardFacts& f) {
  const store::Bundle& m = *f.model;
  std::string text = "\n## Limits\n\n";
  if (!m.classes.empty() && !m.multilabel())
    text += "- Every input is assigned one of the classes above, even if it shows none of them.\n";
  if (part_of(f) == "validation" || m.net()) {
    text += cat("- The ", part_of(f),
                " set may have guided the training (the best epoch, early stopping, settings that "
                "were compared): the figures are optimistic then.\n");
  }
  text +=
      "- The figures apply to data like those it was evaluated on. Other sources, times and groups were not tested, "
      "nor were fairness and robustness.\n";
  constexpr int64_t kFew = 200;
  if (f.run && f.run->test_count > 0 && f.run->test_count < kFew) {
    text += cat("- It was evaluated on only ", f.run->test_count, " samples: the intervals are wide.\n");
  }
  if (m.preprocessing.text() && m.net())
    text += cat("- Texts are truncated to ", m.preprocessing.input[0], " tokens.\n");
  if (m.net() && !m.preprocessing.text() && m.preprocessing.input.rank() == 3) {
    text += cat("- Images are scaled to ", m.preprocessing.input[1], "x", m.preprocessing.input[2],
                " pixels: smaller details are lost.\n");
  }
  return text;
}

std::string use_section(const CardFacts& f) {
  if (!ends_with(f.file, ".safetensors")) return "";
  return cat("\n## Use\n\n```sh\nfreight predict ", shell_word(f.file), " FILE\nfreight serve ", shell_word(f.file),
             "\n```\n");
}

}  // namespace

Interval share_interval(double share, int64_t count) {
  constexpr double kZ = 1.959964;  // of 95 %
  const auto n = static_cast<double>(count);
  const double middle = (share + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double half = kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n)) / (1 + kZ * kZ / n);
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

std::string model_card(const CardFacts& f) {
  const std::string data = name_of_data(f);
  const std::string title = cat(f.model->name(), data.empty() ? "" : " on " + data);
  return head(f, title) + train::RunDir::kCardMark + "\n\n# " + inline_text(title) + "\n\n" + about(f) +
         data_section(f) + metrics_section(f) + training_section(f) + license_section(f) + limits_section(f) +
         use_section(f);
}

bool write_card(const std::string& folder, const std::string& card) {
  const std::string path = cat(folder, "/", train::RunDir::kCard);
  if (io::file_exists(path) && !train::RunDir::has_card(folder)) return false;
  io::write_file_atomic(path, std::string_view(card));
  return true;
}

std::string card_of(const store::Bundle& model, const std::string& path, const std::string& file) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::optional<RunRecord> run;
  if (io::file_exists((parent / "run.json").string())) run = read_run(parent.empty() ? "." : parent.string());
  CardFacts facts{.model = &model, .run = run ? &*run : nullptr, .file = file};
  if (run && model.net()) facts.scores = run->scores;
  // Reading a larger table again takes more time and memory than its intervals are worth: `freight eval` has them.
  constexpr int64_t kMostValues = 5'000'000;
  const auto columns = static_cast<int64_t>(model.columns.size() + model.ignored_columns.size() + 1);
  if (run && !model.net() && (run->train_count + run->test_count) * columns <= kMostValues &&
      run->config_value("trees.external_memory") != "on") {
    try {
      facts.scores = train::learner_of(model).measure(model, path, {}).scores;
    } catch (const std::exception&) {  // data from a pipe, for example, are gone
    }
  }
  return model_card(facts);
}

bool write_run_card(const std::string& run) {
  const std::string path = run + "/model.safetensors";
  return write_card(run, card_of(store::load_bundle(path), path, "model.safetensors"));
}

}  // namespace freight::report
