// See xgboost_import.h.
#include "freight/tables/xgboost_import.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <span>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/io/memory_need.h"
#include "freight/metrics/scores.h"
#include "freight/tables/ubjson_check.h"
#include "freight/tables/xgboost_model.h"

namespace freight::tables {

namespace {

using Json = nlohmann::json;

// No table has more columns, and no saved model more named categories.
constexpr int64_t kMostImportedColumns = 100'000, kMostImportedCategories = 4'000'000;

void check_imported_columns(int64_t columns, const std::string& path) {
  if (columns >= 1 && columns <= kMostImportedColumns) return;
  fail(ErrorKind::data, path, "its trees take ", columns, " columns, expected 1 to ", kMostImportedColumns);
}

void check_imported_categories(int64_t categories, const std::string& path) {
  if (categories <= kMostImportedCategories) return;
  fail(ErrorKind::data, path, "its columns have ", categories, " categories, expected at most ",
       kMostImportedCategories);
}

// Two rows that enclose the splits of each column: random rows between them reach all branches.
Array split_range(const std::vector<store::Tree>& trees, int64_t columns) {
  Array rows(DType::f64, {2, columns});
  std::vector<bool> seen(static_cast<size_t>(columns));
  for (const store::Tree& tree : trees) {
    for (const store::TreeNode& node : tree.nodes) {
      if (node.left < 0 || node.words || !std::isfinite(node.value)) continue;
      double* const at = rows.data<double>() + node.column;
      const bool first = !seen[static_cast<size_t>(node.column)];
      at[0] = first ? node.value - 1 : std::min(at[0], node.value - 1);
      at[columns] = first ? node.value + 1 : std::max(at[columns], node.value + 1);
      seen[static_cast<size_t>(node.column)] = true;
    }
  }
  return rows;
}

// The names of --class-names, else "0", "1", ...
std::vector<std::string> names_of_classes(int64_t classes, const std::vector<std::string>& names) {
  if (!names.empty())
    freight::need_count("--class-names", cat("names, for ", classes, " classes that the trees predict"), names.size(),
                        static_cast<size_t>(classes));
  if (!names.empty()) return names;
  std::vector<std::string> numbers;
  for (int64_t k = 0; k < classes; ++k) numbers.push_back(cat(k));
  return numbers;
}

// The names of a column's categories, by number.
using Categories = std::vector<std::string>;

int64_t number_in(const Json& text) { return parse_number<int64_t>(text.get_ref<const std::string&>()).value_or(0); }

}  // namespace

std::string without_nan(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!quoted && text.compare(i, 3, "NaN") == 0) {
      out += "null";
      i += 2;
      continue;
    }
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\\' && i + 1 < text.size()) out += text[i++];
    out += text[i];
  }
  return out;
}

namespace {

void numbers_of_nulls(Json& document) {
  for (Json& tree : document.at("learner").at("gradient_booster").at("model").at("trees")) {
    for (const char* name : {"base_weights", "loss_changes", "split_conditions", "sum_hessian"}) {
      for (Json& value : tree.at(name)) {
        if (value.is_null()) value = std::nan("");
      }
    }
  }
}

Json imported_document(const std::string& bytes, const std::string& path) {
  const std::span<const uint8_t> view(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const bool binary = lower(path).ends_with(".ubj");
  if (const std::string fault = binary ? ubjson_fault(view) : ""; !fault.empty()) fail(ErrorKind::data, path, fault);
  Json document =
      binary ? io::parse_ubjson(view, path, ErrorKind::data) : Json::parse(without_nan(bytes), nullptr, false);
  if (document.is_object() && document.contains("learner")) return document;
  fail(ErrorKind::data, path, "is not an XGBoost model: expected what its save_model writes as .json or .ubj");
}

// Names are stored as consecutive bytes; numbers as they are, without offsets.
Categories named_categories(const Json& encoded, const std::string& path) {
  Categories words;
  const Json ends = encoded.value("offsets", Json::array());
  const Json& values = encoded.at("values");
  size_t last = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto end = ends[i].get<size_t>();
    if (end < last || end > values.size()) {
      fail(ErrorKind::data, path,
           "is not an XGBoost model: the offsets of its categories do not ascend to their bytes");
    }
    std::string word;
    for (size_t at = last; at < end; ++at) word += static_cast<char>(values[at].get<int>());
    if (i > 0) words.push_back(std::move(word));
    last = end;
  }
  for (size_t i = 0; ends.empty() && i < values.size(); ++i) words.push_back(values[i].dump());
  return words;
}

// The number of categories of each column whose categories have no names: each is called by its number. XGBoost stores
// only those that a split sends right: one more than the largest of these stands for all that always go left; larger
// ones count as missing.
std::vector<int64_t> numbers_of_categories(const std::vector<store::Tree>& trees, int64_t columns) {
  std::vector<int64_t> count(static_cast<size_t>(columns), 1);
  for (const store::Tree& tree : trees) {
    for (const store::TreeNode& node : tree.nodes) {
      if (node.left < 0) continue;
      int64_t& most = count[static_cast<size_t>(node.column)];
      for (const int64_t level : node.levels) most = std::max(most, level + 2);
    }
  }
  return count;
}
Categories numbered_categories(int64_t count) {
  Categories words;
  for (int64_t i = 0; i < count; ++i) words.push_back(cat(i));
  return words;
}

// The columns of a saved model: their names and sorted categories, and XGBoost's number of each category.
struct ImportedColumns {
  std::vector<store::Column> columns;
  std::vector<int32_t> categories;
};
ImportedColumns columns_of(const Json& learner, int64_t count, const std::vector<store::Tree>& trees,
                           const std::string& path) {
  ImportedColumns out;
  const std::vector<int64_t> numbers = numbers_of_categories(trees, count);
  const auto list = [&](const char* name) { return learner.value(name, std::vector<std::string>()); };
  const std::vector<std::string> names = list("feature_names"), kinds = list("feature_types");
  const Json& model = learner.at("gradient_booster").at("model");
  int64_t total = 0;
  for (int64_t c = 0; c < count; ++c) {
    const auto i = static_cast<size_t>(c);
    store::Column column{.name = i < names.size() ? names[i] : cat("f", c)};
    column.words = i < kinds.size() && kinds[i] == "c";
    if (column.words) {
      Categories words;
      if (const auto cats = model.find("cats"); cats != model.end() && i < cats->at("enc").size()) {
        words = named_categories(cats->at("enc")[i], path);
      }
      if (words.empty() && numbers[i] <= kMostImportedCategories) words = numbered_categories(numbers[i]);
      total += words.empty() ? numbers[i] : static_cast<int64_t>(words.size());
      check_imported_categories(total, path);
      std::vector<int32_t> order(words.size());
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(),
                [&](int32_t a, int32_t b) { return words[static_cast<size_t>(a)] < words[static_cast<size_t>(b)]; });
      for (const int32_t category : order) column.levels.push_back(words[static_cast<size_t>(category)]);
      out.categories.insert(out.categories.end(), order.begin(), order.end());
    }
    out.columns.push_back(std::move(column));
  }
  return out;
}

int64_t classes_of_objective(const std::string& objective, int64_t classes, const std::string& path) {
  const int64_t classes_of_file = objective == "binary:logistic" ? 2 : objective == "multi:softprob" ? classes : 0;
  const std::vector<std::string> may = objectives_of_trees(classes_of_file);
  if (std::find(may.begin(), may.end(), objective) != may.end()) return classes_of_file;
  fail(ErrorKind::usage, path, "the objective ", excerpt(objective), " is not supported",
       classes == 2 ? " of 2 classes" : "",
       ": expected binary:logistic, multi:softprob or multi:softmax of 3 or more classes, ", join(may, ", "));
}

// The file in XGBoost's own form, after our own reader has checked it.
Array bytes_by_xgboost(const Xgboost& library, const std::string& file, const std::string& objective,
                       const TreeFitRecord& record, const std::string& path) {
  XgboostHandle booster = booster_from(library, file, path);
  if (record.rounds < record.fitted) booster = first_rounds(library, booster.get(), record.rounds);
  library.check(library->XGBoosterSetParam(booster.get(), "objective", objective.c_str()), "the objective");
  return saved_booster(library, booster.get(), "ubj", path);
}

std::string version_of(const Json& document) {
  std::vector<std::string> parts;
  for (const Json& part : document.at("version")) parts.push_back(cat(part.get<int64_t>()));
  return join(parts, ".");
}

// The metric of an objective with a parameter, by which the model is then measured; empty for others.
std::optional<metrics::Metric> metric_of(const Json& objective) {
  const auto number = [&](const char* part, const char* name) {
    std::string text = objective.at(part).at(name).get<std::string>();
    std::erase_if(text, [](char c) { return c == '[' || c == ']'; });
    std::string_view first = text;
    return take_number<double>(first).value_or(0);
  };
  const auto name = objective.at("name").get<std::string>();
  if (name == "reg:quantileerror" && objective.contains("quantile_loss_param")) {
    return metrics::Metric{.name = "quantile_loss", .quantile = number("quantile_loss_param", "quantile_alpha")};
  }
  if (name == "reg:tweedie" && objective.contains("tweedie_regression_param")) {
    return metrics::Metric{.name = "tweedie_deviance",
                           .tweedie_power = number("tweedie_regression_param", "tweedie_variance_power")};
  }
  return std::nullopt;
}

store::Bundle imported(const std::string& file, const std::string& path, const std::vector<std::string>& names) {
  Json document = imported_document(file, path);
  Json& learner = document.at("learner");
  const Json& booster = learner.at("gradient_booster");
  if (booster.at("name") != "gbtree") {
    fail(ErrorKind::usage, path, "a model of the booster ", excerpt(booster.at("name").dump()),
         " is not supported: expected gbtree");
  }
  Json& objective = learner.at("objective").at("name");
  if (objective == "multi:softmax") objective = "multi:softprob";  // they have the same sums
  numbers_of_nulls(document);
  const Json& shape = learner.at("learner_model_param");
  const int64_t columns = number_in(shape.at("num_feature")),
                groups = std::max<int64_t>(number_in(shape.at("num_class")), 1);
  check_imported_columns(columns, path);
  if (number_in(shape.value("num_target", Json("1"))) > 1) {
    fail(ErrorKind::usage, path, "a model of several targets or quantiles is not supported: expected one");
  }
  const int64_t classes = classes_of_objective(objective.get<std::string>(), groups, path);
  const std::vector<uint8_t> looked_through = Json::to_ubjson(document);
  const ReadTrees read = read_trees(looked_through, path, columns, groups);
  const TreeFacts& facts = read.facts;
  const std::vector<store::Tree>& trees = read.trees;
  ImportedColumns said = columns_of(learner, columns, trees, path);

  store::Bundle bundle;
  bundle.classes = names_of_classes(classes, names);
  const int64_t parallel =
      number_in(booster.at("model").at("gbtree_model_param").value("num_parallel_tree", Json("1")));
  const int64_t rounds = facts.trees / std::max<int64_t>(groups * parallel, 1);
  // Early stopping notes its best round, up to which XGBoost's estimators predict.
  const int64_t best = number_in(learner.value("attributes", Json::object()).value("best_iteration", Json("-1"))) + 1;
  TreeFitRecord record{.learner = parallel > 1 && rounds == 1 ? "forest" : "gbdt",
                       .version = version_of(document),
                       .rounds = best > 0 ? std::min(best, rounds) : rounds,
                       .fitted = rounds};
  io::SafeTensors words;
  const auto count = static_cast<int64_t>(said.categories.size());
  words.tensors.emplace_back(kTreeCategories, Array::of(said.categories, {count}));
  const Xgboost& library = xgboost();
  bundle.learner = record.learner;
  bundle.rows =
      std::make_shared<XgboostModel>(library, bytes_by_xgboost(library, file, facts.objective, record, path),
                                     TreeColumns(said.columns, words, path), classes, std::move(record), path);
  bundle.provenance["imported_from"] = path.substr(path.rfind('/') + 1);
  if (const auto metric = metric_of(learner.at("objective"))) metrics::write_metric(*metric, bundle.provenance);
  bundle.columns = std::move(said.columns);
  bundle.samples = store::sampled(*bundle.rows, bundle.columns, split_range(trees, columns));
  return bundle;
}

}  // namespace

bool names_xgboost_file(const std::string& path) {
  return lower(path).ends_with(".json") || lower(path).ends_with(".ubj");
}

store::Bundle import_xgboost(const std::string& path, const std::vector<std::string>& classes) {
  return io::reading(path, [&] {
    const io::Bytes bytes = io::read_file(path);
    try {
      return imported({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, classes);
    } catch (const Json::exception& e) {
      fail(ErrorKind::data, path, "is not an XGBoost model: ", io::json_fault(e));
    }
  });
}

}  // namespace freight::tables
