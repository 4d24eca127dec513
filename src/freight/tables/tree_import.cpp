// See tree_import.h.
#include "freight/tables/tree_import.h"

#include <fstream>

#include "freight/base/strings.h"
#include "freight/io/file.h"
#include "freight/io/memory_need.h"
#include "freight/tables/imported_trees.h"
#include "freight/tables/lightgbm_text.h"
#include "freight/tables/treelite_json.h"
#include "freight/tables/xgboost_import.h"

namespace freight::tables {

namespace {

store::Bundle bundle_of(OtherForest forest, const std::string& path, const std::vector<std::string>& names) {
  store::Bundle bundle;
  bundle.classes = names_of_classes(forest.classes, names);
  bundle.columns = forest.columns;
  bundle.learner = forest.averaged ? "forest" : "gbdt";
  bundle.provenance["imported_from"] = path.substr(path.rfind('/') + 1);
  std::vector<const store::Tree*> trees;
  for (const GrownTree& grown : forest.trees) trees.push_back(&grown.tree);
  const Array seen = split_range(trees, forest.width());
  bundle.rows = std::make_shared<ImportedTrees>(std::move(forest));
  bundle.samples = store::sampled(*bundle.rows, bundle.columns, seen);
  return bundle;
}

store::Bundle imported_from(const std::string& path, const std::vector<std::string>& classes) {
  const io::Bytes bytes = io::read_file(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (begins_as_treelite(text)) return bundle_of(read_treelite(text, path), path, classes);
  if (!names_xgboost_file(path)) return bundle_of(read_lightgbm(text, path), path, classes);
  return import_xgboost(path, classes);
}

}  // namespace

bool names_trees(const std::string& path) {
  if (names_xgboost_file(path) || lower(path).ends_with(".txt")) return true;
  std::string begin(16, '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begins_as_lightgbm(begin);
}

store::Bundle import_trees(const std::string& path, const std::vector<std::string>& classes) {
  return io::reading(path, [&] { return imported_from(path, classes); });
}

}  // namespace freight::tables
