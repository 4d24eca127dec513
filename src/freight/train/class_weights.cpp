// See class_weights.h.
#include "freight/train/class_weights.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/train/config.h"

namespace freight::train {

namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFlag = "--class-weight";

bool is_word(const std::string& setting) { return setting == "none" || setting == "balanced"; }
bool is_content(const std::string& setting) { return starts_with(setting, "{"); }

Json weights_in(const std::string& text, const std::string& source) {
  const Json j = io::parse_json<Json>(text, source);
  if (!j.is_object() || j.empty()) {
    fail(ErrorKind::usage, kFlag, source,
         ": expected a JSON object of classes and weights, as {\"ham\": 1, \"spam\": 6}");
  }
  bool any = false;
  for (const auto& [name, weight] : j.items()) {
    const bool sound = weight.is_number() && std::isfinite(weight.get<double>()) && weight.get<double>() >= 0;
    if (!sound) {
      fail(ErrorKind::usage, kFlag, source, ": class ", excerpt(name), ": expected a weight of at least 0, got ",
           excerpt(weight.dump()));
    }
    any = any || weight.get<double>() > 0;
  }
  if (!any) fail(ErrorKind::usage, kFlag, source, ": all weights are 0: nothing would be learned");
  return j;
}

}  // namespace

void check_class_weight(const std::string& setting) {
  if (is_word(setting)) return;
  if (is_content(setting)) {
    weights_in(setting, "class weights");
    return;
  }
  if (!io::file_exists(setting)) {
    fail(ErrorKind::usage, kFlag, "expected none, balanced or a JSON file, got ", excerpt(setting),
         ", which is no file", did_you_mean(setting, {"none", "balanced"}));
  }
}

void settle_class_weight(Config& config) {
  check_class_weight(config.class_weight);
  if (is_word(config.class_weight) || is_content(config.class_weight)) return;
  config.class_weight = weights_in(io::read_text(config.class_weight), config.class_weight).dump();
}

ClassCounts count_classes(const std::vector<std::string>& names, std::span<const int64_t> labels) {
  ClassCounts out{names, std::vector<double>(names.size())};
  for (const int64_t label : labels) ++out.counts[static_cast<size_t>(label)];
  return out;
}

std::vector<double> class_weights(const std::string& setting, const ClassCounts& classes) {
  if (setting == "none") return {};
  const size_t n = classes.names.size();
  std::vector<double> weights(n);
  if (setting == "balanced") {
    double all = 0;
    for (const double count : classes.counts) all += count;
    for (size_t c = 0; c < n; ++c) {
      weights[c] = classes.counts[c] > 0 ? all / (static_cast<double>(n) * classes.counts[c]) : 1;
    }
    return weights;
  }
  const Json j = weights_in(setting, "class weights");
  for (const auto& [name, weight] : j.items()) {
    const auto at = std::find(classes.names.begin(), classes.names.end(), name);
    if (at == classes.names.end()) {
      refuse_unknown(kFlag, {.kind = "class",
                             .got = name,
                             .known = classes.names,
                             .all = cat("; the data has ", join(classes.names, ", "))});
    }
    weights[static_cast<size_t>(at - classes.names.begin())] = weight.get<double>();
  }
  for (const std::string& name : classes.names) {
    if (j.contains(name)) continue;
    fail(ErrorKind::usage, kFlag, "has no weight for class ", excerpt(name), ": expected one for each of ",
         join(classes.names, ", "));
  }
  return weights;
}

std::vector<double> scaled_class_weights(const std::string& setting, const ClassCounts& classes) {
  std::vector<double> weights = class_weights(setting, classes);
  double samples = 0, weighted = 0;
  for (size_t c = 0; c < weights.size(); ++c) {
    samples += classes.counts[c];
    weighted += classes.counts[c] * weights[c];
  }
  if (!weights.empty() && weighted == 0) {
    fail(ErrorKind::usage, kFlag, "the weights of all classes that have training samples are 0");
  }
  for (double& w : weights) w *= samples / weighted;
  return weights;
}

}  // namespace freight::train
