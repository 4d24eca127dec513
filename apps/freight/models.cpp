// `freight models list|show|convert|get`: the built-in models, and the parts of a model (convert.cpp, models_get.cpp).
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/models/summary.h"
#include "freight/train/learner.h"
#include "model_source.h"
#include "options.h"
#include "text_table.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;

int list_command(const Args& args) {
  bool json = false;
  Options o("models list", "Lists the models known by name.");
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const models::Entry& e : models::registry()) {
    const int64_t parameters = models::create(e.name).net->parameter_count();
    list.push_back({{"name", e.name},
                    {"description", e.description},
                    {"input", e.input.vector()},
                    {"classes", e.classes},
                    {"parameters", parameters}});
    rows.push_back({e.name, to_string(e.input), std::to_string(e.classes), with_commas(parameters), e.description});
  }
  if (json) {
    std::printf("%s\n", list.dump(2).c_str());
  } else {
    std::fputs(text_table({"name", "input", "classes", "parameters", "what"}, rows).c_str(), stdout);
    std::printf("\nmodels for tables (docs/tables.md)\n");
    for (const train::Learner* learner : train::learners()) {
      if (learner->name() != store::kNet) std::printf("%-10s %s\n", learner->name().c_str(), learner->doc().c_str());
    }
  }
  return 0;
}

// The "feature importance", the most important features first.
std::string importance_text(const store::Bundle& bundle, const std::vector<store::Importance>& importance) {
  constexpr size_t kMost = 30;
  std::vector<std::string> heads = {"feature importance"};
  for (const store::Importance& measure : importance) heads.push_back(measure.measure);
  std::vector<size_t> order(bundle.columns.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const std::vector<double>& first = importance[0].columns;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return first[a] > first[b]; });
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(order.size(), kMost); ++i) {
    std::vector<std::string> row = {bundle.columns[order[i]].name};
    for (const store::Importance& measure : importance) {
      row.push_back(significant(measure.columns[order[i]], 4));
    }
    rows.push_back(std::move(row));
  }
  std::string text = text_table(heads, rows);
  if (order.size() > kMost) text += cat("... and ", order.size() - kMost, " weaker ones\n");
  return text;
}

// A table model has columns instead of layers.
int show_rows(const store::Bundle& bundle, const std::string& path, bool spec, bool json) {
  if (spec) store::need_net(bundle, path, "--spec");
  Json j = {{"learner", bundle.learner},
            {"parameters", bundle.parameters()},
            {"classes", bundle.classes},
            {"columns", Json::array()},
            {"model", bundle.rows->lines()}};
  std::vector<std::vector<std::string>> rows;
  for (const store::Column& c : bundle.columns) {
    const std::string numbers = c.form == store::CellForm::number ? "numbers" : store::to_string(c.form);
    const std::string range = c.range ? cat(", ", c.range->least, " to ", c.range->most) : std::string();
    const std::string source = c.source.empty() ? std::string() : cat(" of ", c.source);
    const std::string kind = c.words ? cat(c.levels.size(), " categories") : cat(numbers, source, range);
    j["columns"].push_back({{"name", c.name}, {"kind", c.words ? "categories" : "numbers"}});
    Json& column = j["columns"].back();
    if (c.words) column["levels"] = c.levels;
    if (c.form != store::CellForm::number) column["form"] = store::to_string(c.form);
    if (!c.source.empty()) column["source"] = c.source;
    if (c.range) column["range"] = {c.range->least, c.range->most};
    rows.push_back({c.name, kind});
  }
  const std::vector<store::Importance> importance = bundle.rows->importance();
  for (const store::Importance& measure : importance) {
    Json& of = j["importance"][measure.measure];
    for (size_t i = 0; i < bundle.columns.size(); ++i) of[bundle.columns[i].name] = measure.columns[i];
  }
  for (const store::IgnoredColumn& s : bundle.ignored_columns) {
    j["ignored_columns"].push_back({{"name", s.name}, {"kind", s.kind}});
    rows.push_back({s.name, cat("ignored (", s.kind, ")")});
  }
  if (json) {
    std::printf("%s\n", j.dump().c_str());
    return 0;
  }
  std::printf("%s: %s parameters, returns %s\n", bundle.learner.c_str(), with_commas(bundle.parameters()).c_str(),
              bundle.rows->is_ranking() ? "a value to rank by"
              : bundle.classes.empty()  ? "a value"
                                        : join(bundle.classes, ", ").c_str());
  for (const std::string& line : bundle.rows->lines()) std::printf("%s\n", line.c_str());
  std::fputs(text_table({"column", "kind"}, rows).c_str(), stdout);
  if (!importance.empty()) std::printf("\n%s", importance_text(bundle, importance).c_str());
  return 0;
}

int show_command(const Args& args) {
  std::string name;
  int64_t batch_size = 1;
  ModelSize size;
  bool json = false, spec = false;
  Options o("models show", "Shows the layers of a model with shapes, parameters and FLOPs (forward).",
            "MODEL [options]",
            "  freight models show lenet --spec > mine.json    a spec file to change and train with --model mine.json");
  o.positional("model", &name, "a built-in model (freight models list), a spec FILE.json or a saved model", true);
  o.add("-b,--batch-size", &batch_size, "samples per step, in shapes and FLOPs", {.min = 1, .max = 1 << 24});
  size.declare(o);
  o.add("--spec", &spec, "print the spec file and nothing else");
  o.add("--json", &json, "print JSON: parameters, flops, layers, spec");
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (ends_with(name, ".safetensors")) {
    const store::Bundle bundle = store::load_bundle(name);
    if (!bundle.net()) return show_rows(bundle, name, spec, json);
  }
  const models::Model model = load_model(name, size.options());
  if (spec) {
    std::fputs(models::to_spec(model, models::SpecSizes::required).c_str(), stdout);
    return 0;
  }
  const models::Summary summary = models::summarize(model, batch_size);
  if (!json) {
    std::fputs(models::to_text(summary).c_str(), stdout);
    return 0;
  }
  auto j = io::parse_json<Json>(models::to_json(summary), model.name);
  j["classes"] = model.classes();
  j["spec"] = io::parse_json<Json>(models::to_spec(model), model.name);
  std::printf("%s\n", j.dump().c_str());
  return 0;
}

}  // namespace

int models_command(const Args& args) {
  return dispatch(
      {"freight models",
       "Models: the ones known by name, and the layers of any.",
       {
           {"list", "the models known by name", list_command},
           {"get", "download trained weights: torchvision's, Hugging Face's, or by address", models_get_command},
           {"convert", "convert weights (safetensors, .pth) to a saved model, and back", models_convert_command},
           {"show", "layers, shapes, parameters and FLOPs of one model, or its spec", show_command},
       }},
      args);
}

}  // namespace freight::app
