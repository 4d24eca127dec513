// See predict_columns.h.
#include "predict_columns.h"

#include <algorithm>
#include <set>

#include "freight/base/strings.h"
#include "freight/base/usage.h"

namespace freight::app {

namespace {

constexpr const char *kPlace = "path", *kConfidence = "probability", *kNamelessTarget = "prediction";

using Of = CsvColumn::Of;

std::string target_of(const store::Bundle& bundle) {
  const auto at = bundle.provenance.find("target");
  return at == bundle.provenance.end() || at->second.empty() ? kNamelessTarget : at->second;
}

// The columns that identify a table's rows and are not features: identifiers, and the queries of a ranking.
std::vector<std::string> identifying(const store::Bundle& bundle) {
  std::vector<std::string> names;
  for (const store::IgnoredColumn& column : bundle.ignored_columns) {
    if (column.kind == "identifier" || (column.kind == "group" && bundle.rows->is_ranking()))
      names.push_back(column.name);
  }
  return names;
}

// The columns of a network with named values or several labels per sample; none for other networks, whose records are
// one class each.
std::vector<CsvColumn> columns_of_network(const store::Bundle& bundle) {
  std::vector<CsvColumn> columns;
  if (bundle.targets.empty() && !bundle.multilabel()) return columns;
  std::set<std::string> taken;
  const auto add = [&](Of of, std::string name, int64_t index) {
    if (taken.contains(name)) name = cat(of == Of::probability ? kConfidence : kNamelessTarget, ":", name);
    taken.insert(name);
    columns.push_back({.of = of, .name = name, .index = index});
  };
  add(Of::place, bundle.preprocessing.text() ? "text" : kPlace, 0);
  for (size_t i = 0; i < bundle.targets.size(); ++i) add(Of::value, bundle.targets[i], static_cast<int64_t>(i));
  if (!bundle.multilabel()) return columns;
  add(Of::labels, "labels", 0);
  for (size_t k = 0; k < bundle.classes.size(); ++k) add(Of::probability, bundle.classes[k], static_cast<int64_t>(k));
  return columns;
}

std::vector<CsvColumn> usual_columns(const store::Bundle& bundle, bool lines_of_classes) {
  if (bundle.net()) return columns_of_network(bundle);
  std::vector<CsvColumn> columns;
  for (const std::string& name : identifying(bundle)) {
    columns.push_back({.of = Of::input, .name = name, .index = static_cast<int64_t>(columns.size())});
  }
  if (columns.empty()) columns.push_back({.of = Of::place, .name = kPlace});
  columns.push_back({.of = Of::prediction, .name = target_of(bundle)});
  if (bundle.classes.empty()) return columns;
  if (lines_of_classes) {
    columns.push_back({.of = Of::confidence, .name = kConfidence});
    return columns;
  }
  std::set<std::string> taken;
  for (const CsvColumn& c : columns) taken.insert(c.name);
  for (size_t k = 0; k < bundle.classes.size(); ++k) {
    const std::string& name = bundle.classes[k];
    columns.push_back({.of = Of::probability,
                       .name = taken.contains(name) ? cat(kConfidence, ":", name) : name,
                       .index = static_cast<int64_t>(k)});
  }
  return columns;
}

}  // namespace

std::vector<CsvColumn> csv_columns(const store::Bundle& bundle, const CsvOptions& options) {
  const std::vector<CsvColumn> usual = usual_columns(bundle, options.lines_of_classes);
  if (options.names.empty()) return usual;
  std::vector<CsvColumn> columns;
  int64_t inputs = 0;
  for (const std::string& name : options.names) {
    const auto is_it = [&](const CsvColumn& c) { return c.name == name; };
    if (std::any_of(columns.begin(), columns.end(), is_it)) refuse_twice("--columns", "columns", name);
    const auto at = std::find_if(usual.begin(), usual.end(), is_it);
    CsvColumn column{.of = Of::input, .name = name};
    if (at != usual.end()) {
      column = *at;
    } else if (name == kPlace) {
      column.of = Of::place;
    } else if (name == kConfidence && !bundle.classes.empty()) {
      column.of = Of::confidence;
    }
    if (column.of == Of::input) column.index = inputs++;
    columns.push_back(std::move(column));
  }
  return columns;
}

std::vector<std::string> input_columns(const std::vector<CsvColumn>& columns) {
  std::vector<std::string> names;
  for (const CsvColumn& c : columns) {
    if (c.of == Of::input) names.push_back(c.name);
  }
  return names;
}

}  // namespace freight::app
