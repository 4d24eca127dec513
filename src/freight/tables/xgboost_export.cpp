// See xgboost_export.h.
#include "freight/tables/xgboost_export.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/tables/xgboost_import.h"

namespace freight::tables {

namespace {

using Json = nlohmann::json;

// The levels of a column by the number of their category, and those without one.
struct Levels {
  std::vector<int64_t> of_category, without;
};

std::vector<Levels> levels_of(const TreeColumns& columns) {
  std::vector<Levels> all(static_cast<size_t>(columns.count()));
  for (int64_t c = 0; c < columns.count(); ++c) {
    const std::vector<int32_t>& categories = columns.categories(c);
    Levels& to = all[static_cast<size_t>(c)];
    for (size_t level = 0; level < categories.size(); ++level) {
      (categories[level] < 0 ? to.without : to.of_category).push_back(static_cast<int64_t>(level));
    }
  }
  return all;
}

bool is_true(const Json& value) { return value.is_boolean() ? value.get<bool>() : value.get<int64_t>() != 0; }

// Splits send the categories that they list to the right.
void number_by_levels(Json& tree, const std::vector<Levels>& levels) {
  const Json old = tree.at("categories"), begin = tree.at("categories_segments"), size = tree.at("categories_sizes");
  const Json& nodes = tree.at("categories_nodes");
  Json all = Json::array(), begins = Json::array(), sizes = Json::array();
  for (size_t k = 0; k < nodes.size(); ++k) {
    const auto node = nodes[k].get<size_t>();
    const Levels& of = levels.at(tree.at("split_indices")[node].get<size_t>());
    std::vector<int64_t> right;
    for (size_t i = 0; i < size[k].get<size_t>(); ++i) {
      right.push_back(of.of_category.at(old[begin[k].get<size_t>() + i].get<size_t>()));
    }
    if (!is_true(tree.at("default_left")[node])) right.insert(right.end(), of.without.begin(), of.without.end());
    std::sort(right.begin(), right.end());
    begins.push_back(all.size());
    sizes.push_back(right.size());
    for (const int64_t level : right) all.push_back(level);
  }
  tree["categories"] = all;
  tree["categories_segments"] = begins;
  tree["categories_sizes"] = sizes;
  for (Json& threshold : tree.at("split_conditions")) {
    if (threshold.is_null()) threshold = 0.0;  // NaN of XGBoost 1.7 at a split by categories, which has no threshold
  }
}

std::string saved(const Xgboost& library, void* booster, const std::string& format) {
  const Array bytes = saved_booster(library, booster, format, "its own file");
  return {reinterpret_cast<const char*>(bytes.data<uint8_t>()), bytes.bytes()};
}

}  // namespace

std::string exported_trees(const Xgboost& library, void* booster, const TreeColumns& columns,
                           const std::vector<std::string>& names, const std::string& format) {
  const std::vector<Levels> levels = levels_of(columns);
  const bool grouped = std::any_of(levels.begin(), levels.end(), [](const Levels& l) { return !l.without.empty(); });
  std::string file = saved(library, booster, grouped ? "json" : "ubj");
  if (grouped) {
    Json document = io::parse_json<Json>(without_nan(file), "XGBoost's trees");
    for (Json& tree : document.at("learner").at("gradient_booster").at("model").at("trees")) {
      number_by_levels(tree, levels);
    }
    file = document.dump();
  }
  const XgboostHandle copy = booster_from(library, file, "a copy of its trees");
  const auto refused = [](const std::string& name) { return name.find_first_of("[]<") != std::string::npos; };
  if (std::none_of(names.begin(), names.end(), refused)) {
    std::vector<const char*> texts;
    for (const std::string& name : names) texts.push_back(name.c_str());
    library.check(library->XGBoosterSetStrFeatureInfo(copy.get(), "feature_name", texts.data(), texts.size()),
                  "the names of columns");
  }
  return saved(library, copy.get(), format);
}

}  // namespace freight::tables
