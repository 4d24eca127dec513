// See trained_on.h.
#include "freight/train/trained_on.h"

#include <cstdlib>
#include <filesystem>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/io/file.h"
#include "freight/train/config_fields.h"

namespace freight::train {

namespace {
// The data of the run that a model's file lies in, RUN/model.safetensors or RUN/checkpoints/step-N/model.safetensors,
// if it has that name; else the name.
std::string local_path(const std::string& name, const std::string& model, std::string Config::*kept) {
  std::error_code error;
  std::filesystem::path dir = std::filesystem::canonical(model, error).parent_path();
  for (int up = 0; up <= 2 && !error && !name.empty(); ++up, dir = dir.parent_path()) {
    const std::string file = (dir / "config.json").string();
    if (!io::file_exists(file)) continue;
    Config c;
    try {
      set_from_json(c, io::read_text(file), file);
    } catch (const Error&) {
      break;  // damaged, or of another version
    }
    if (base_name(c.*kept) == name) return c.*kept;
  }
  return name;
}

data::LoadOptions with_undivided(data::LoadOptions load, data::Undivided undivided) {
  load.images.undivided = load.text.undivided = load.arrays.undivided = undivided;
  // Groups matter where samples are divided: other data need not have them.
  if (undivided == data::Undivided::whole) {
    load.images.targets.group_column.clear();
    load.text.targets.group_column.clear();
  }
  return load;
}

// True where two names mean one place; false where either is not to be found.
bool same_place(const data::Source& a, const std::string& b, const data::LoadOptions& load) {
  if (a.name() == b) return true;
  try {
    const std::string& at = a.path();
    const std::string other = data::Source(b, load).path();
    std::error_code ignored;
    return at == other || std::filesystem::equivalent(at, other, ignored);
  } catch (const Error&) {
    return false;
  }
}

uint64_t fingerprint_of(const data::TextSet& set) { return data::fingerprint(set.train); }
uint64_t fingerprint_of(const data::TrainTest& sets) { return sets.train.fingerprint(); }
bool is_undivided(const data::TextSet& set) { return set.undivided; }
bool is_undivided(const data::TrainTest& sets) { return sets.train.undivided; }

template <class F>
auto measured(const TrainedOn& on, const data::Source& data, const data::LoadOptions& load, Division division, F read) {
  const bool divide = division == Division::divide || same_place(data, on.data, load);
  auto set = (data.*read)(with_undivided(load, divide ? data::Undivided::divide : data::Undivided::whole));
  if (divide || !is_undivided(set) || on.fingerprint.empty()) return set;
  try {
    auto divided = (data.*read)(with_undivided(load, data::Undivided::divide));
    if (cat(fingerprint_of(divided)) == on.fingerprint) return divided;  // a copy, or moved
  } catch (const Error&) {  // too small to be divided: it was not trained on
  }
  return set;
}

}  // namespace

std::map<std::string, std::string> provenance(const Config& config, uint64_t fingerprint, int64_t steps,
                                              const Evaluation& evaluation, const std::string& part) {
  std::map<std::string, std::string> p{{"data", base_name(config.data)},
                                       {"data_fingerprint", cat(fingerprint)},
                                       {"steps", cat(steps)},
                                       {"seed", cat(config.seed)},
                                       {"val_split", cat(config.val_split)}};
  if (evaluation.count > 0) p[part + "_loss"] = cat(evaluation.loss);
  if (!config.text_column.empty()) p["text_column"] = config.text_column;
  if (!config.label_column.empty()) p["label_column"] = config.label_column;
  if (!config.group_column.empty()) p["group_column"] = config.group_column;
  // Default values are not written, so that files of earlier versions mean the same.
  const Config usual;
  if (config.tta != usual.tta) p["tta"] = config.tta;
  if (config.precision != usual.precision) p["precision"] = config.precision;
  if (config.on_bad_sample != usual.on_bad_sample) p["on_bad_sample"] = config.on_bad_sample;
  if (evaluation.top1) p[part + "_top1"] = fixed(*evaluation.top1, 2);
  return p;
}

namespace {
std::vector<std::string> target_columns(data::TargetKind kind, const std::string& label_column) {
  if (kind != data::TargetKind::classes) return data::column_names(label_column);
  return label_column.empty() ? std::vector<std::string>{} : std::vector{label_column};
}
}  // namespace

data::TargetOptions target_options(const std::string& task, const std::string& label_column,
                                   const std::string& group_column) {
  data::TargetOptions targets{.group_column = group_column};
  if (task == "values") targets.kind = data::TargetKind::values;
  if (task == "multilabel") targets.kind = data::TargetKind::labels;
  targets.columns = target_columns(targets.kind, label_column);
  return targets;
}

void set_label_column(data::LoadOptions& load, const std::string& label_column) {
  load.text.label_column = label_column;
  load.images.targets.columns = load.text.targets.columns = target_columns(load.images.targets.kind, label_column);
}

TrainedOn trained_on(const store::Bundle& bundle, const std::string& path) {
  const auto said = [&](const char* key, const char* otherwise) {
    const auto it = bundle.provenance.find(key);
    return it == bundle.provenance.end() ? std::string(otherwise) : it->second;
  };
  TrainedOn on{.data = local_path(said("data", ""), path, &Config::data),
               .load = {},
               .target = {},
               .test = {},
               .fingerprint = said("data_fingerprint", ""),
               .tta = said("tta", "none"),
               .precision = said("precision", "fp32"),
               .on_bad = said("on_bad_sample", "error") == "error" ? data::OnBad::error : data::OnBad::skip};
  on.load.images.val_split = on.load.text.val_split = parse_number<double>(said("val_split", "-1")).value_or(-1);
  on.load.images.split_seed = on.load.text.split_seed =
      static_cast<uint64_t>(parse_number<int64_t>(said("seed", "0")).value_or(0));
  const store::Preprocessing& p = bundle.preprocessing;
  on.load.arrays = {.asked = {.layout = data::Layout::automatic, .range = {}, .input = p.text() ? Shape{} : p.input},
                    .recorded = p.arrays,
                    .early = p.arrays.values == data::Values::unstated};
  on.load.text.text_column = said("text_column", "");
  on.load.text.label_column = said("label_column", "");
  on.load.images.targets = target_options(said("task", ""), on.load.text.label_column, said("group_column", ""));
  if (bundle.multilabel()) on.load.images.targets.labels = bundle.classes;
  on.load.text.targets = on.load.images.targets;
  on.test = local_path(said("test_data", ""), path, &Config::test);
  on.target = said("target", on.load.text.label_column.c_str());  // early files of tables say label_column
  return on;
}

std::string data_to_measure(const std::string& asked, const TrainedOn& on, const std::string& path) {
  if (!asked.empty()) return asked;
  if (on.data.empty()) {
    fail(ErrorKind::usage, "--data", "is missing, and ", path, " does not record its training data");
  }
  return on.data;
}

Measured load_to_measure(const TrainedOn& on, const std::string& data, const data::LoadOptions& load, bool text,
                         Division division) {
  const data::Source source(data, load);
  if (text) return {.samples = {}, .texts = measured(on, source, load, division, &data::Source::load_text)};
  return {.samples = measured(on, source, load, division, &data::Source::load), .texts = {}};
}

}  // namespace freight::train
