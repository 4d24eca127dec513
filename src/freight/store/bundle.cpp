// See bundle.h. Metadata keys: format, classes, provenance; for networks spec, preprocessing and, if weights are tied,
// ties, a list of lists of paths, temperature if it is not 1, and targets, a list of values with name, mean and
// deviation; for other learners learner and columns; threshold for both,
// a number, or of several labels a list; xxh3_128. All values but those of format, learner and xxh3_128 are JSON texts.
#include "freight/store/bundle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "freight/base/error.h"
#include "freight/base/finite.h"
#include "freight/base/listing.h"
#include "freight/base/printable.h"
#include "freight/base/version.h"
#include "freight/io/digest.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/io/memory_need.h"
#include "freight/io/safetensors.h"
#include "freight/io/weights_file.h"
#include "freight/models/weight_names.h"
#include "freight/nn/graph_module.h"
#include "freight/store/bundle_check_internal.h"

namespace freight::store {

using nlohmann::json;

namespace {

constexpr const char* kFormat = "freight-bundle-1";
constexpr const char* kSeal = "xxh3_128";                     // of all other contents; not in early files
constexpr const char* kLearner = "learner";                   // not in files of networks
constexpr const char* kIgnoredColumns = "ignored_columns";    // of other learners, if there are any
constexpr const char* kColumns = "columns";                   // of other learners
constexpr const char* kOrderNames[] = {"ymd", "dmy", "mdy"};  // by data::DateOrder
constexpr const char* kTemperature = "temperature";           // of networks whose probabilities are scaled
constexpr const char* kTargets = "targets";                   // of networks whose values have names or a scale
constexpr const char* kThreshold = "threshold";               // of models with two classes or several labels
constexpr const char* kTies = "ties";                         // of networks with several paths to one variable

[[noreturn]] void damaged(const std::string& path, const std::string& what) { fail(ErrorKind::checkpoint, path, what); }

const std::string& entry(const io::SafeTensors& file, const std::string& path, const char* key) {
  const auto it = file.metadata.find(key);
  if (it == file.metadata.end()) {
    damaged(path,
            cat("no '", key, "' in the metadata: not a Freight model (weights alone load with --weights and --model; ",
                "freight models convert ", path, " OUT.safetensors --model NAME makes a model of them)"));
  }
  return it->second;
}

// The hash covers names and values of the metadata, and the tensors in the order of their names, not of the file.
std::string seal_of(const io::SafeTensors& file) {
  std::vector<io::ByteView> pieces;
  const auto add = [&](const void* p, size_t size) { pieces.emplace_back(static_cast<const uint8_t*>(p), size); };
  for (const auto& [key, value] : file.metadata) {
    if (key == kSeal) continue;
    for (const std::string* text : {&key, &value}) add(text->c_str(), text->size() + 1);
  }
  std::map<std::string_view, const Array*> tensors;
  for (const auto& [name, array] : file.tensors) tensors[name] = &array;
  for (const auto& [name, array] : tensors) {
    add(name.data(), name.size());
    add(array->raw(), array->bytes());
  }
  const std::string parts = join(io::part_hashes(pieces).parts, "");
  return io::xxh3_128({reinterpret_cast<const uint8_t*>(parts.data()), parts.size()});
}

std::vector<std::string> known_learners() {
  std::vector<std::string> names = row_learners();
  names.insert(names.begin(), kNet);
  return names;
}

std::vector<nn::NamedArray> arrays(const io::SafeTensors& file) {
  std::vector<nn::NamedArray> all;
  for (const auto& [name, array] : file.tensors) {
    if (name != kTokenizer) all.push_back({name, array});
  }
  return all;
}

// Without what a network stored as a graph reads besides its weights: the network itself has that in its forward.
std::vector<nn::NamedArray> arrays_for(const nn::Module& net, const io::SafeTensors& file) {
  std::vector<nn::NamedArray> all = arrays(file);
  std::set<std::string> own;
  for (const nn::NamedVariable& v : net.state_dict()) own.insert(v.name);
  std::erase_if(all, [&](const auto& e) { return e.name.starts_with(nn::kReadByForward) && !own.contains(e.name); });
  return all;
}

void need_same(const data::Tokenizer& tokens, const io::SafeTensors& file, const std::string& path) {
  const Array* stored = file.find(kTokenizer);
  const Array own = tokens.stored();
  if (!stored || (stored->bytes() == own.bytes() && std::memcmp(stored->raw(), own.raw(), own.bytes()) == 0)) return;
  fail(ErrorKind::checkpoint, path,
       "the weights were trained with a different vocabulary: the vocabulary is built from the training texts; weights "
       "of "
       "a text model require the data, split and tokenizer that they were trained with");
}

void load_tokenizer(Preprocessing& p, const json& j, const io::SafeTensors& file, const std::string& path) {
  const auto tensor =
      std::find_if(file.tensors.begin(), file.tensors.end(), [](const auto& t) { return t.first == kTokenizer; });
  if (tensor == file.tensors.end() || tensor->second.dtype() != DType::u8) {
    damaged(path, cat("the tokenizer is missing: no tensor ", kTokenizer, " of u8"));
  }
  data::TokenizerKind kind{};
  if (const auto name = j.at("tokenizer").get<std::string>(); !data::parse_tokenizer_kind(name, kind)) {
    damaged(path, cat("unknown tokenizer: expected word, bpe or char, got ", name));
  }
  const Array& bytes = tensor->second;
  p.tokenizer = data::load_tokenizer(kind, {bytes.data<uint8_t>(), bytes.bytes()}, path);
}

// Loads the tokenizer and the lengths of batches; the vocabulary must be the one that the weights were trained with.
void load_text(Preprocessing& p, const json& j, const io::SafeTensors& file, const models::Model& model,
               const std::string& path) {
  load_tokenizer(p, j, file, path);
  const auto stored = j.at("vocabulary").get<int64_t>();
  const int64_t rows = model.vocabulary(), size = p.tokenizer->size();
  if (size != stored || (rows > 0 && size > rows)) {
    damaged(path, cat("the vocabulary does not match the weights: it has ", size,
                      " tokens, the weights were trained with ", stored, " and have ", rows, " rows"));
  }
  p.lengths = j.at("lengths").get<std::vector<int64_t>>();
  p.keep = j.value("truncation_side", "right") == "left" ? data::Keep::end : data::Keep::start;  // not in early files
  if (!model.reads_tokens() || p.lengths.empty() || p.lengths.front() < 1 || p.lengths.back() != model.input.shape[0] ||
      std::adjacent_find(p.lengths.begin(), p.lengths.end(), std::greater_equal<>()) != p.lengths.end()) {
    damaged(path, cat("the batch lengths must ascend to that of the model's samples, ", model.input.shape));
  }
}

// Early files declare only pixels as such.
data::ArrayMeaning meaning_from(const json& j, const std::string& path) {
  data::ArrayMeaning m;
  const std::string values = j.value("values", j.value("pixels", false) ? "bytes" : "unstated");
  const std::string layout = j.value("layout", "auto");
  if (!data::parse_values(values, m.values)) damaged(path, cat("preprocessing: unknown values: got ", values));
  if (!data::parse_layout(layout, m.layout)) damaged(path, cat("preprocessing: unknown layout: got ", layout));
  const auto range = j.value("value_range", std::vector<double>{0, 1});
  if (range.size() != 2 || !(range[0] <= range[1]) || (m.values == data::Values::scaled && range[0] == range[1])) {
    damaged(path, "preprocessing: value_range must be two numbers in ascending order");
  }
  m.range = m.values == data::Values::bytes ? data::kBytes : data::ValueRange{range[0], range[1]};
  return m;
}

}  // namespace

Preprocessing preprocessing_of(const data::Dataset& set) {
  const bool bytes = set.files || set.images.dtype() == DType::u8;
  return {
      .input = set.sample_shape(),
      .mean = set.mean,
      .std = set.std,
      .resize = set.files ? set.files->geometry.resize : 0,
      .orientation = set.files ? set.files->geometry.orientation : io::Orientation::exif,
      .arrays =
          bytes ? data::ArrayMeaning{.layout = set.meaning.layout, .values = data::Values::bytes, .range = data::kBytes}
                : set.meaning};
}

data::ImageGeometry Preprocessing::geometry() const {
  return {.channels = input[0], .rows = input[1], .columns = input[2], .resize = resize, .orientation = orientation};
}

namespace {

void write_weights(const nn::Module& net, io::SafeTensors& file) {
  for (const nn::NamedVariable& v : net.state_dict()) file.tensors.emplace_back(v.name, v.variable.array());
}

void write_targets(const Bundle& bundle, io::SafeTensors& file) {
  const models::TargetScale& scale = bundle.model.target_scale;
  json targets = json::array();
  for (size_t i = 0; i < std::max(bundle.targets.size(), scale.mean.size()); ++i) {
    json target = json::object();
    if (!bundle.targets.empty()) target["name"] = bundle.targets.at(i);
    if (scale.any()) {
      target["mean"] = scale.mean.at(i);
      target["deviation"] = scale.deviation.at(i);
    }
    targets.push_back(std::move(target));
  }
  file.metadata[kTargets] = targets.dump();
}

void write_net(const Bundle& bundle, io::SafeTensors& file) {
  write_weights(*bundle.model.net, file);
  json preprocessing = {
      {"input", bundle.preprocessing.input.vector()},
      {"mean", bundle.preprocessing.mean},
      {"std", bundle.preprocessing.std},
      {"resize", bundle.preprocessing.resize},
      {"orientation", io::to_string(bundle.preprocessing.orientation)},
      {"layout", data::to_string(bundle.preprocessing.arrays.layout)},
      {"values", data::to_string(bundle.preprocessing.arrays.values)},
      {"value_range", {bundle.preprocessing.arrays.range.low, bundle.preprocessing.arrays.range.high}}};
  if (const auto& tokenizer = bundle.preprocessing.tokenizer) {
    preprocessing["tokenizer"] = to_string(tokenizer->kind());
    preprocessing["vocabulary"] = tokenizer->size();
    preprocessing["lengths"] = bundle.preprocessing.lengths;
    preprocessing["truncation_side"] = bundle.preprocessing.keep == data::Keep::start ? "right" : "left";
    file.tensors.emplace_back(kTokenizer, tokenizer->stored());
  }
  if (!bundle.targets.empty() || bundle.model.target_scale.any()) write_targets(bundle, file);
  if (bundle.model.temperature != 1) file.metadata[kTemperature] = json(bundle.model.temperature).dump();
  if (models::has_spec(bundle.model)) file.metadata["spec"] = models::to_spec(bundle.model);
  if (const auto ties = nn::ties_of(bundle.model.net->state_dict()); !ties.empty()) {
    file.metadata[kTies] = json(ties).dump();
  }
  file.metadata[kPreprocessing] = preprocessing.dump();
}

// Writes the columns; the learner writes everything else.
void write_rows(const Bundle& bundle, io::SafeTensors& file) {
  json columns = json::array();
  for (const Column& c : bundle.columns) {
    json j = {{"name", c.name}, {"kind", c.words ? "categories" : "numbers"}};
    if (c.words) j["levels"] = c.levels;
    if (c.form != CellForm::number) j["form"] = to_string(c.form);
    if (!c.source.empty()) j["source"] = c.source;
    if (c.date()) j["order"] = kOrderNames[static_cast<size_t>(c.order)];
    if (c.range) j["range"] = {c.range->least, c.range->most};
    if (c.style.decimal != '.') j["decimal"] = std::string(1, c.style.decimal);
    if (c.style.group != 0) j["group"] = std::string(1, c.style.group);
    if (c.complete) j["complete"] = true;
    columns.push_back(std::move(j));
  }
  bundle.rows->write(file);
  write_samples(bundle.samples, file);
  file.metadata[kLearner] = bundle.learner;
  file.metadata[kColumns] = columns.dump();
  if (bundle.ignored_columns.empty()) return;
  json ignored = json::array();
  for (const IgnoredColumn& s : bundle.ignored_columns) ignored.push_back({{"name", s.name}, {"kind", s.kind}});
  file.metadata[kIgnoredColumns] = ignored.dump();
}

}  // namespace

io::SafeTensors to_file(const Bundle& bundle) {
  io::SafeTensors file;
  json provenance = bundle.provenance;
  provenance["freight"] = version();
  file.metadata = {{"format", kFormat}, {"classes", json(bundle.classes).dump()}, {"provenance", provenance.dump()}};
  if (!bundle.model.notes.empty()) file.metadata[kNotes] = bundle.model.notes;
  if (bundle.threshold) file.metadata[kThreshold] = json(*bundle.threshold).dump();
  if (!bundle.label_thresholds.empty()) file.metadata[kThreshold] = json(bundle.label_thresholds).dump();
  if (bundle.net()) {
    write_net(bundle, file);
  } else {
    write_rows(bundle, file);
  }
  return file;
}

std::string thresholds_text(const Bundle& bundle) {
  constexpr size_t kMost = 8;
  const auto above = [&](size_t c, double threshold) {
    return cat(c < bundle.classes.size() ? bundle.classes[c] : cat("class ", c), " above ", fixed(threshold, 4));
  };
  if (bundle.threshold) return above(1, *bundle.threshold);
  std::vector<std::string> all;
  for (size_t c = 0; c < bundle.label_thresholds.size(); ++c) all.push_back(above(c, bundle.label_thresholds[c]));
  return join_first(all, kMost);
}

io::SafeTensors sealed(io::SafeTensors file) {
  file.metadata[kSeal] = seal_of(file);
  return file;
}

void save_bundle(const std::string& path, const Bundle& bundle) {
  if (bundle.net()) models::check_spec(bundle.model);
  io::save_safetensors(path, sealed(to_file(bundle)));
}

io::SafeTensors load_sealed(const std::string& path) {
  if (const std::string model = path + "/model.safetensors"; io::file_exists(model)) {
    fail(ErrorKind::usage, path, "is the directory of a run, expected its model: ", model);
  }
  io::SafeTensors file = io::load_weights_file(path);
  const auto seal = file.metadata.find(kSeal);
  if (seal == file.metadata.end()) return file;
  if (const std::string now = seal_of(file); now != seal->second) {
    damaged(
        path,
        cat("the content differs from what was saved: its XXH3 is ", now, ", expected ", seal->second,
            ", according to the metadata; fetch the file again, or, if another program changed it on purpose, remove ",
            kSeal, " out of the metadata"));
  }
  return file;
}

Bundle load_bundle(const std::string& path) {
  return io::reading(path, [&] { return from_file(load_sealed(path), path); });
}

namespace {

json document_in(const io::SafeTensors& file, const std::string& path, const char* key) {
  return io::parse_json<json>(entry(file, path, key), cat(path, ": metadata ", key), ErrorKind::checkpoint);
}

Preprocessing preprocessing_in(const json& j, const std::string& path) {
  Preprocessing p;
  for (const int64_t extent : j.at("input").get<std::vector<int64_t>>()) {
    if (p.input.rank() == Shape::kMaxRank) {
      damaged(path, cat("preprocessing makes samples of more than ", Shape::kMaxRank, " axes"));
    }
    p.input.push_back(extent);
  }
  p.mean = j.at("mean").get<std::vector<float>>();
  p.std = j.at("std").get<std::vector<float>>();
  p.resize = j.value("resize", int64_t{0});
  // Early files have no orientation: their models used the pixels of images unrotated.
  const std::string orientation = j.value("orientation", "ignore");
  if (!io::parse_orientation(orientation, p.orientation)) {
    damaged(path, cat("preprocessing: unknown orientation: expected exif or ignore, got ", orientation));
  }
  p.arrays = meaning_from(j, path);
  return p;
}

void read_common(const io::SafeTensors& file, const std::string& path, Bundle& b) {
  b.classes = document_in(file, path, "classes").get<std::vector<std::string>>();
  const json provenance = document_in(file, path, "provenance");
  for (const auto& [key, value] : provenance.items()) {
    if (!value.is_string() && !value.is_number()) {
      damaged(path, cat("provenance: ", excerpt(key), ": expected a text, got ", excerpt(value.dump())));
    }
    b.provenance[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  if (!file.metadata.contains(kThreshold)) return;
  const json threshold = document_in(file, path, kThreshold);
  const bool of_labels = threshold.is_array();
  if (of_labels) {
    b.label_thresholds = threshold.get<std::vector<double>>();
  } else {
    b.threshold = threshold.get<double>();
  }
  const auto between = [](double p) { return p > 0 && p < 1; };
  const bool fit = of_labels ? b.label_thresholds.size() == b.classes.size() &&
                                   std::all_of(b.label_thresholds.begin(), b.label_thresholds.end(), between)
                             : b.classes.size() == 2 && between(*b.threshold);
  if (fit) return;
  damaged(path, cat("threshold: expected one above 0 and below 1 for ", of_labels ? "each label" : "two classes",
                    ", got ", excerpt(threshold.dump()), " for ", b.classes.size()));
}

// The temperature of a network's probabilities; 1 for files without one.
double temperature_in(const io::SafeTensors& file, const std::string& path) {
  if (!file.metadata.contains(kTemperature)) return 1;
  const auto temperature = document_in(file, path, kTemperature).get<double>();
  if (!(temperature > 0) || !std::isfinite(temperature)) {
    damaged(path, cat("temperature: expected one above 0, got ", temperature));
  }
  return temperature;
}

void read_targets(const io::SafeTensors& file, const std::string& path, Bundle& b) {
  if (!file.metadata.contains(kTargets)) return;
  models::TargetScale scale;
  const json targets = document_in(file, path, kTargets);
  if (!targets.is_array()) damaged(path, "targets: expected a list");
  for (const json& target : targets) {
    if (target.contains("name")) b.targets.push_back(target.at("name").get<std::string>());
    if (!target.contains("mean")) continue;
    scale.mean.push_back(target.at("mean").get<float>());
    scale.deviation.push_back(target.at("deviation").get<float>());
    if (!std::isfinite(scale.mean.back()) || !(scale.deviation.back() > 0) || !std::isfinite(scale.deviation.back())) {
      damaged(path, "targets: expected a finite mean and a standard deviation above 0");
    }
  }
  const auto values = static_cast<size_t>(b.model.classes());
  for (const size_t n : {b.targets.size(), scale.mean.size()}) {
    if (n > 0 && n != values) damaged(path, cat("targets: it has ", n, ", the model returns ", values, " values"));
  }
  b.model.target_scale = std::move(scale);
}

void read_net(const io::SafeTensors& file, const std::string& path, const json& preprocessing, bool adopt, Bundle& b) {
  if (!file.metadata.contains("spec")) {
    damaged(path,
            "it contains the weights of a network without a spec form: the program with its class reads them by "
            "store::load_weights; declare the layers (nn::register_layer) and save it again to make it a model");
  }
  try {
    b.model = models::from_spec(entry(file, path, "spec"), path);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::checkpoint) throw;
    damaged(path, cat("the saved spec cannot be built: ", e.what()));
  }
  check_said(b, path);
  try {
    b.model.temperature = temperature_in(file, path);
    read_targets(file, path, b);
    if (preprocessing.contains("tokenizer")) load_text(b.preprocessing, preprocessing, file, b.model, path);
    if (file.metadata.contains(kTies)) {
      const auto ties = document_in(file, path, kTies).get<std::vector<std::vector<std::string>>>();
      nn::tie(b.model.net->state_dict(), ties, path);
    }
  } catch (const json::exception& e) {
    damaged(path, cat("metadata is damaged: ", io::json_fault(e)));
  }
  b.model.net->load_state_dict(arrays(file), nn::LoadOptions{.source = path, .adopt = adopt});
  need_finite(*b.model.net, path);
}

void read_style(const json& j, const std::string& path, Column& c) {
  const std::string decimal = j.value("decimal", "."), group = j.value("group", "");
  if ((decimal != "." && decimal != ",") || group.size() > 1 ||
      std::string_view(",.' ").find(group) == std::string_view::npos || group == decimal)
    damaged(path, cat("columns: ", excerpt(c.name), ": no style of numbers has the decimal mark '", excerpt(decimal),
                      "' and '", excerpt(group), "' between thousands"));
  c.style = {decimal[0], group.empty() ? '\0' : group[0]};
}

// Reads the form of values in a column of numbers; a file without it has plain numbers.
void read_form(const json& j, const std::string& path, Column& c) {
  const std::string form = j.value("form", to_string(CellForm::number));
  c.form = CellForm::number;
  while (to_string(c.form) != form) {
    if (c.form == CellForm::seconds) damaged(path, cat("columns: ", excerpt(c.name), ": unknown form ", excerpt(form)));
    c.form = static_cast<CellForm>(static_cast<int>(c.form) + 1);
  }
  c.source = j.value("source", "");
  if (c.date()) {
    const auto order = j.at("order").get<std::string>();
    const auto* const at = std::find(std::begin(kOrderNames), std::end(kOrderNames), order);
    if (at == std::end(kOrderNames))
      damaged(path, cat("columns: ", excerpt(c.name), ": unknown order ", excerpt(order)));
    c.order = static_cast<data::DateOrder>(at - std::begin(kOrderNames));
  }
  read_style(j, path, c);
  if (!j.contains("range")) return;
  const auto range = j.at("range").get<std::vector<double>>();
  if (range.size() != 2 || range[0] > range[1])
    damaged(path, cat("columns: ", excerpt(c.name), ": a range is two numbers"));
  c.range = {range[0], range[1]};
}

std::vector<IgnoredColumn> ignored_columns_in(const json& list) {
  std::vector<IgnoredColumn> all;
  for (const json& j : list) all.push_back({j.at("name").get<std::string>(), j.at("kind").get<std::string>()});
  return all;
}

std::vector<Column> columns_in(const json& list, const std::string& path) {
  std::vector<Column> columns;
  std::set<std::string> names;
  std::map<std::string, bool> texts_of;  // by source, whose values are either all texts or all numbers
  for (const json& j : list) {
    const auto kind = j.at("kind").get<std::string>();
    if (kind != "categories" && kind != "numbers") {
      damaged(path, cat("columns: unknown kind: expected categories or numbers, got ", excerpt(kind)));
    }
    Column c{.name = j.at("name").get<std::string>(), .words = kind == "categories"};
    if (c.words) c.levels = j.at("levels").get<std::vector<std::string>>();
    if (!c.words) read_form(j, path, c);
    c.complete = j.value("complete", false);
    const bool rise = std::adjacent_find(c.levels.begin(), c.levels.end(), std::greater_equal<>()) == c.levels.end();
    if (c.name.empty() || !names.insert(c.name).second || !rise) {
      damaged(path, cat("columns: ", excerpt(c.name), ": expected different names, and categories in ascending order"));
    }
    if (texts_of.emplace(c.source_name(), c.takes_texts()).first->second != c.takes_texts()) {
      damaged(path, cat("columns: ", excerpt(c.source_name()), " is read as numbers and as categories"));
    }
    columns.push_back(std::move(c));
  }
  if (columns.empty()) damaged(path, "columns: there are none");
  return columns;
}

void read_rows(const io::SafeTensors& file, const std::string& path, Bundle& b) {
  const RowReader read = row_reader(b.learner);
  if (!read) {
    fail(ErrorKind::checkpoint, path, "it was fitted by ", excerpt(b.learner),
         ", which this program does not have: it has ", join(known_learners(), ", "));
  }
  for (const auto& [name, array] : file.tensors) {
    if (!is_floating(array.dtype()) || count_nonfinite(array) == 0) continue;
    damaged(path, cat("tensor ", name, " contains NaN or infinity; train again"));
  }
  b.columns = columns_in(document_in(file, path, kColumns), path);
  if (file.metadata.contains(kIgnoredColumns))
    b.ignored_columns = ignored_columns_in(document_in(file, path, kIgnoredColumns));
  b.rows = read(file, path, {b.columns, b.classes, b.ignored_columns});
  check_rows(b, path);
  b.samples = read_samples(file, path, b.columns, b.rows->outputs());
}

Bundle bundle_in(const io::SafeTensors& file, const std::string& path, bool adopt) {
  if (const std::string& format = entry(file, path, "format"); format != kFormat) {
    damaged(path, cat("unknown format: expected ", kFormat, ", got ", excerpt(format)));
  }
  Bundle b;
  if (const auto learner = file.metadata.find(kLearner); learner != file.metadata.end()) b.learner = learner->second;
  const bool net = b.learner == kNet;
  json preprocessing;
  try {
    if (net) {
      preprocessing = document_in(file, path, kPreprocessing);
      b.preprocessing = preprocessing_in(preprocessing, path);
    }
    read_common(file, path, b);
    if (!net) read_rows(file, path, b);
  } catch (const json::exception& e) {
    damaged(path, cat("metadata is damaged: ", io::json_fault(e)));
  }
  if (net) read_net(file, path, preprocessing, adopt, b);
  return b;
}

}  // namespace

Bundle from_file(const io::SafeTensors& file, const std::string& path) { return bundle_in(file, path, false); }
Bundle from_file(io::SafeTensors&& file, const std::string& path) {
  const io::SafeTensors given = std::move(file);
  return bundle_in(given, path, true);
}

void need_net(const Bundle& bundle, const std::string& path, const std::string& what) {
  if (bundle.net()) return;
  fail(ErrorKind::usage, path, "the model was fitted by ", bundle.learner, ": ", what,
       " is for networks only; eval, predict, serve, report and models show accept every model");
}

Bundle load_net(const std::string& path, const std::string& what) {
  Bundle b = load_bundle(path);
  need_net(b, path, what);
  return b;
}

void load_weights(models::Model& model, const std::string& path, const data::Tokenizer* tokens) {
  load_weights(*model.net, path, tokens);
}

std::vector<nn::NamedArray> read_weights(const nn::Module& net, const std::string& path,
                                         const data::Tokenizer* tokens) {
  const io::SafeTensors file = load_sealed(path);
  if (const auto learner = file.metadata.find(kLearner); learner != file.metadata.end() && learner->second != kNet) {
    fail(ErrorKind::checkpoint, path, "it was fitted by ", excerpt(learner->second),
         ": it contains no weights of a network");
  }
  if (tokens) need_same(*tokens, file, path);
  std::vector<nn::NamedArray> entries = models::with_own_names(net, arrays_for(net, file));
  std::map<std::string, Variable::Role> roles;
  for (const nn::NamedVariable& v : net.state_dict()) roles.emplace(v.name, v.variable.role());
  for (const nn::NamedArray& e : entries) {
    const auto role = roles.find(e.name);
    need_finite(e, role == roles.end() ? Variable::Role::parameter : role->second, path);
  }
  return entries;
}

std::optional<Preprocessing> preprocessing_in(const io::SafeTensors& file, const std::string& path) {
  if (!file.metadata.contains(kPreprocessing)) return std::nullopt;
  try {
    const json j = document_in(file, path, kPreprocessing);
    Preprocessing p = preprocessing_in(j, path);
    if (j.contains("tokenizer")) load_tokenizer(p, j, file, path);
    return p;
  } catch (const json::exception& e) {
    damaged(path, cat("metadata is damaged: ", io::json_fault(e)));
  }
}

void load_weights(nn::Module& net, const std::string& path, const data::Tokenizer* tokens) {
  net.load_state_dict(read_weights(net, path, tokens), nn::LoadOptions{.source = path, .adopt = true});
}

void load_weights(models::Model& model, const io::SafeTensors& file, const std::string& path) {
  model.net->load_state_dict(arrays_for(*model.net, file), path);
}

void save_weights(const models::Model& model, const std::string& path) { save_weights(*model.net, path); }

void save_weights(const nn::Module& net, const std::string& path, const std::map<std::string, std::string>& metadata) {
  io::SafeTensors file;
  file.metadata = metadata;
  write_weights(net, file);
  io::save_safetensors(path, sealed(std::move(file)));
}

}  // namespace freight::store
