// Files of trees by LightGBM, and by scikit-learn through Treelite: they answer as their makers do, and what is not
// taken is said. tests/tables/other_makers/make.py made the files, and says which answers lie beside them.
#include "freight/tables/tree_import.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "freight/base/strings.h"
#include "freight/data/cells.h"
#include "freight/io/file.h"
#include "freight/store/table_rows.h"
#include "freight/tables/lightgbm_text.h"
#include "freight/tables/other_forest.h"
#include "freight/tables/treelite_json.h"
#include "tests/support/folders.h"
#include "tests/support/fuzz.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;

const std::vector<std::string> kLightgbmModels = {"binary",       "multiclass", "regression", "poisson",
                                                  "zero_missing", "no_missing", "rf",         "lambdarank"};
const std::vector<std::string> kTreeliteModels = {"forest_of_two", "forest_of_three", "forest_of_values",
                                                  "boosted_of_two", "boosted_of_three"};

std::string other_maker(const std::string& name) { return source_dir() + "/tests/tables/other_makers/" + name; }

// The rows of a CSV as the model takes them, and the numbers of the columns whose names are `letter` and a number.
struct Shown {
  Array rows;                                // f64 (N, columns)
  std::vector<std::vector<double>> numbers;  // by row
};
Shown shown(const std::string& csv, const store::Bundle& bundle, char letter) {
  std::vector<size_t> places;
  std::vector<int64_t> told;
  const data::Cells cells =
      data::read_cells(csv, {.kinds = [&](const data::TableHead& head) {
                         std::vector<data::CellKind> kinds(head.names.size(), data::CellKind::numbers);
                         for (const store::Column& c : bundle.columns) {
                           const auto at = std::find(head.names.begin(), head.names.end(), c.name) - head.names.begin();
                           places.push_back(static_cast<size_t>(at));
                           if (c.words) kinds[static_cast<size_t>(at)] = data::CellKind::words;
                         }
                         for (size_t i = 0; i < head.names.size(); ++i) {
                           const std::string& name = head.names[i];
                           if (name.size() == 2 && name[0] == letter) told.push_back(static_cast<int64_t>(i));
                         }
                         return kinds;
                       }});
  std::vector<int64_t> all(static_cast<size_t>(cells.rows()));
  std::iota(all.begin(), all.end(), 0);
  Shown out{.rows = store::TableRows(bundle.columns, cells, places).values(all), .numbers = {}};
  for (int64_t i = 0; i < cells.rows(); ++i) {
    out.numbers.emplace_back();
    for (const int64_t c : told)
      out.numbers.back().push_back(cells.columns[static_cast<size_t>(c)].numbers[static_cast<size_t>(i)]);
  }
  return out;
}

class TreeImport : public TableRuns {
 protected:
  // The file of another maker is refused once `what` in it is `by`.
  void expect_refused(const std::string& name, ErrorKind kind, const std::string& what, const std::string& by,
                      const std::vector<std::string>& parts) {
    std::string bad = io::read_text(other_maker(name));
    const size_t at = bad.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    bad.replace(at, what.size(), by);
    const std::string file = dir_ / ("bad" + name.substr(name.rfind('.')));
    io::write_file_atomic(file, std::string_view(bad));
    expect_error(kind, parts, [&] { import_trees(file, {}); });
  }
  // The answers of a model are those of the CSV beside it, also when it is stored.
  store::Bundle expect_answers(const std::string& file, const std::string& csv) {
    store::Bundle bundle = import_trees(file, {});
    const Shown rows = shown(csv, bundle, 'p');
    const Array got = bundle.rows->run(rows.rows);
    for (size_t i = 0; i < rows.numbers.size(); ++i) {
      for (size_t k = 0; k < rows.numbers[i].size(); ++k) {
        const auto told = static_cast<double>(got.data<float>()[i * rows.numbers[i].size() + k]),
                   need = rows.numbers[i][k];
        EXPECT_NEAR(told, need, 1e-7 * std::max(1.0, std::fabs(need))) << "row " << i << ", answer " << k;
      }
    }
    store::save_bundle(dir_ / "stored.safetensors", bundle);
    const store::Bundle stored = store::load_bundle(dir_ / "stored.safetensors");
    EXPECT_EQ(stored.rows->run(rows.rows).to_vector<float>(), got.to_vector<float>());
    EXPECT_EQ(stored.rows->lines(), bundle.rows->lines());
    EXPECT_TRUE(stored.samples.there());
    return bundle;
  }
};

TEST_F(TreeImport, LightgbmsFilesAnswerAsLightgbmDoes) {
  for (const std::string& name : kLightgbmModels) {
    SCOPED_TRACE(name);
    const store::Bundle bundle = expect_answers(other_maker(name + ".txt"), other_maker(name + ".csv"));
    EXPECT_EQ(bundle.learner, name == "rf" ? "forest" : "gbdt");
    EXPECT_EQ(bundle.rows->ranks(), name == "lambdarank");
    ASSERT_EQ(bundle.columns.size(), 4u);
    EXPECT_EQ(bundle.columns[1].name, "many_zeros");
    EXPECT_EQ(bundle.columns[2].levels[0], "Berne") << "by pandas' names of the categories";
    EXPECT_EQ(bundle.columns[3].levels, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
    ASSERT_TRUE(bundle.columns[0].range.has_value());
    EXPECT_NEAR(bundle.columns[0].range->most, 2.83, 1e-12);
  }
}

TEST_F(TreeImport, LightgbmsFilesSayWhatEachColumnAddsAsLightgbmDoes) {
  for (const std::string& name : kLightgbmModels) {
    SCOPED_TRACE(name);
    const store::Bundle bundle = import_trees(other_maker(name + ".txt"), {});
    const Shown rows = shown(other_maker(name + ".csv"), bundle, 's');
    ASSERT_TRUE(bundle.rows->explains());
    const Array added = bundle.rows->contributions(rows.rows);
    // The log odds are LightGBM's sums times its sigmoid; of a forest it gives the sum over six trees, not their mean.
    const double unit = name == "binary" ? 1.7 : name == "rf" ? 1.0 / 6 : 1;
    const auto width = static_cast<size_t>(added.shape()[1] * added.shape()[2]);
    for (size_t i = 0; i < rows.numbers.size(); ++i) {
      ASSERT_LE(rows.numbers[i].size(), width);
      for (size_t k = 0; k < rows.numbers[i].size(); ++k) {
        EXPECT_NEAR(added.data<double>()[i * width + k], unit * rows.numbers[i][k], 1e-9) << "row " << i << ", " << k;
      }
    }
  }
}

TEST_F(TreeImport, TreelitesFilesAnswerAsScikitLearnDoes) {
  for (const std::string& name : kTreeliteModels) {
    SCOPED_TRACE(name);
    const store::Bundle bundle = expect_answers(other_maker(name + ".json"), other_maker(name + ".csv"));
    EXPECT_EQ(bundle.learner, name.starts_with("forest") ? "forest" : "gbdt");
    EXPECT_EQ(bundle.columns[2].name, "f2");
    const Array& rows = bundle.samples.rows;
    const Array added = bundle.rows->contributions(rows), told = bundle.rows->run(rows);
    const store::RowForm form = bundle.rows->form();
    const store::RowLink link = std::get<store::ForestForm>(form).link;
    for (int64_t i = 0; i < rows.shape()[0]; ++i) {
      std::vector<double> sums;
      for (int64_t g = 0; g < added.shape()[1]; ++g) {
        const double* const from = added.data<double>() + (i * added.shape()[1] + g) * 4;
        sums.push_back(from[0] + from[1] + from[2] + from[3]);
      }
      const std::vector<double> answer = store::answer_of(link, sums);
      ASSERT_EQ(static_cast<int64_t>(answer.size()), told.shape()[1]);
      for (size_t k = 0; k < answer.size(); ++k) {
        EXPECT_NEAR(answer[k], static_cast<double>(told.data<float>()[i * told.shape()[1] + static_cast<int64_t>(k)]),
                    1e-6);
      }
    }
  }
}

// By f32 both numbers would be the same.
TEST_F(TreeImport, NumbersAreComparedInF64) {
  std::string text = io::read_text(other_maker("regression.txt"));
  const auto at = text.find("threshold="), end = text.find('\n', at);
  const std::vector<std::string> all = split(text.substr(at + 10, end - at - 10), ' ');
  std::string changed = "threshold=0.1";
  for (size_t i = 1; i < all.size(); ++i) changed += " " + all[i];
  text.replace(at, end - at, changed);
  const OtherForest forest = read_lightgbm(text, "m.txt");
  const double next = std::nextafter(0.1, 1.0);
  EXPECT_EQ(forest.trees[0].tree.nodes[0].value, next) << "0.1 itself goes left";
  io::write_file_atomic(dir_ / "m.txt", std::string_view(text));
  const store::Bundle bundle = import_trees(dir_ / "m.txt", {});
  const auto column = static_cast<size_t>(forest.trees[0].tree.nodes[0].column);
  Array rows(DType::f64, {2, 4});
  std::fill_n(rows.data<double>(), 8, 1.0);
  rows.data<double>()[column] = 0.1;
  rows.data<double>()[4 + column] = next;
  const Array told = bundle.rows->run(rows);
  EXPECT_NE(told.data<float>()[0], told.data<float>()[1]);
}

TEST_F(TreeImport, WhatIsNotTakenOfLightgbmsIsSaid) {
  const auto refused = [&](ErrorKind kind, const std::string& what, const std::string& by,
                           const std::vector<std::string>& parts) {
    expect_refused("regression.txt", kind, what, by, parts);
  };
  refused(ErrorKind::usage, "objective=regression", "objective=cross_entropy",
          {"bad.txt", "cross_entropy", "need binary"});
  refused(ErrorKind::usage, "objective=regression", "objective=regression sqrt", {"square root"});
  refused(ErrorKind::usage, "is_linear=0", "is_linear=1", {"linear_tree"});
  refused(ErrorKind::data, "tree\n", "forest\n", {"bad.txt", "does not begin"});
  refused(ErrorKind::data, "end of trees", "end", {"end of trees"});
  refused(ErrorKind::data, "num_class=1", "num_class=3", {"3 classes"});
  refused(ErrorKind::data, "left_child=", "left_child=7 ", {"tree 0", "left_child", "need 6"});
  refused(ErrorKind::data, "left_child=-1", "left_child=0", {"tree 0", "node 0 has the child 0"});
  refused(ErrorKind::data, "left_child=-1", "left_child=-9", {"tree 0", "node 0 has a child that is none"});
  refused(ErrorKind::data, "split_feature=", "split_feature=9", {"tree 0", "split_feature: got"});
  refused(ErrorKind::data, "leaf_value=", "leaf_value=nan ", {"leaf_value: got 8"});
  refused(ErrorKind::data, "num_leaves=7", "num_leaves=70", {"tree 0", "split_gain", "need 69"});
  refused(ErrorKind::data, "num_leaves=7", "num_leaves=seven", {"num_leaves", "need a number"});
  refused(ErrorKind::data, "cat_boundaries=0", "cat_boundaries=3", {"cat_boundaries"});
  refused(ErrorKind::data, "feature_names=size", "feature_names=town", {"stands there twice"});
  refused(ErrorKind::data, "max_feature_idx=3", "max_feature_idx=4", {"got 4 names, need 5"});
  expect_error(ErrorKind::usage, {"--class-names", "got 3 names", "2 classes"}, [&] {
    import_trees(other_maker("binary.txt"), {"a", "b", "c"});
  });
}

TEST_F(TreeImport, WhatIsNotTakenOfTreelitesIsSaid) {
  const auto refused = [&](ErrorKind kind, const std::string& what, const std::string& by,
                           const std::vector<std::string>& parts) {
    expect_refused("forest_of_three.json", kind, what, by, parts);
  };
  refused(ErrorKind::usage, "\"threshold_type\":\"float64\"", "\"threshold_type\":\"float32\"", {"f32"});
  refused(ErrorKind::usage, "identity_multiclass", "multiclass_ova", {"kMultiClf", "multiclass_ova"});
  refused(ErrorKind::usage, "\"num_target\":1", "\"num_target\":2", {"several targets"});
  refused(ErrorKind::usage, "\"<=\"", "\"==\"", {"compares by", "=="});
  refused(ErrorKind::data, "\"left_child\":1", "\"left_child\":0", {"node 0 has the child 0"});
  refused(ErrorKind::data, "\"left_child\":1", "\"left_child\":900", {"node 0 has the child 900"});
  refused(ErrorKind::data, "\"node_id\":1", "\"node_id\":3", {"not numbered"});
  refused(ErrorKind::data, "\"num_class\":[3]", "\"num_class\":[4]", {"base_scores"});
  refused(ErrorKind::data, "\"split_feature_id\":", "\"split_feature_id\":7", {"reads column"});
  refused(ErrorKind::data, "\"base_scores\"", "\"base\"", {"is no sound model of Treelite's", "base_scores"});
  refused(ErrorKind::data, "}]}", "}]", {"is no sound model of Treelite's"});
}

TEST_F(TreeImport, StoredTreesThatAreDamagedAreRefused) {
  store::save_bundle(dir_ / "m.safetensors", import_trees(other_maker("multiclass.txt"), {}));
  const auto change = [&](const char* name, auto value, size_t at, const std::vector<std::string>& parts) {
    expect_damaged(
        dir_ / "m.safetensors",
        [&](io::SafeTensors& file) {
          for (auto& [key, array] : file.tensors) {
            if (key == name) array.template data<decltype(value)>()[at] = value;
          }
        },
        parts);
  };
  change("trees.children", int32_t{0}, 0, {"the trees are damaged", "tree 0: node 0 has the child 0"});
  change("trees.children", int32_t{1 << 20}, 1, {"node 0 has the child"});
  change("trees.children", int32_t{9}, 2, {"it reads column 9 of 4"});
  change("trees.numbers", std::nan(""), 0, {"trees.numbers holds numbers that are not finite"});
  change("trees.sizes", int64_t{1} << 40, 0, {"tree 0 has"});
  change("trees.sizes", int64_t{7}, 2, {"it adds to sum 7 of 3"});
  change("trees.flags", int32_t{1 << 30}, 1, {"too many categories"});
  change("trees.categories_of_words", int32_t{-1}, 0, {"the number of a category is -1"});
  // A root without children leaves the others to themselves, whose columns were believed.
  expect_damaged(dir_ / "m.safetensors",
                 [](io::SafeTensors& file) {
                   for (auto& [key, array] : file.tensors) {
                     if (key != "trees.children") continue;
                     auto* const children = array.data<int32_t>();
                     children[0] = children[1] = -1;
                     children[3 + 2] = 1 << 30;
                   }
                 },
                 {"tree 0: none leads to node 1"});
  expect_damaged(dir_ / "m.safetensors", [](io::SafeTensors& file) { file.metadata["trees"] = "{}"; },
                 {"metadata", "maker"});
}

// Files of a few bytes, or megabytes, that claimed gigabytes.
TEST_F(TreeImport, ColumnsWordsAndCopiesOfTreesAreLimited) {
  const std::string forest = io::read_text(other_maker("forest_of_values.json"));
  const auto with = [&](const std::string& text, const std::string& what, const std::string& by) {
    std::string changed = text;
    const size_t at = changed.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return changed.replace(at, what.size(), by);
  };
  const size_t at = forest.find("\"num_feature\":");
  const std::string said = forest.substr(at, forest.find(',', at) - at);
  const auto columns = [&](int64_t n) {
    return read_treelite(with(forest, said, cat("\"num_feature\":", n)), "f.json").width();
  };
  EXPECT_EQ(columns(99'999), 99'999);
  EXPECT_EQ(columns(100'000), 100'000);
  expect_error(ErrorKind::data, {"f.json", "100001 columns", "100000"}, [&] { columns(100'001); });

  const std::string text = io::read_text(other_maker("regression.txt"));
  expect_error(ErrorKind::data, {"f.txt", "max_feature_idx", "need 0 to 99999"},
               [&] { read_lightgbm(with(text, "max_feature_idx=", "max_feature_idx=10000"), "f.txt"); });
  EXPECT_NO_THROW(check_imported_words(3'999'999, "f"));
  EXPECT_NO_THROW(check_imported_words(4'000'000, "f"));
  expect_error(ErrorKind::data, {"f: ", "4000001 categories"}, [] { check_imported_words(4'000'001, "f"); });

  // Two leaves that tell 300,000 classes, and a split of as many categories: 700 GB of copies.
  constexpr int kMany = 300'000;
  std::string zeros = "0", numbers = "0", bases = "0.0";
  for (int i = 1; i < kMany; ++i) {
    zeros += ",0";
    bases += ",0.0";
    numbers += cat(",", i);
  }
  const std::string bomb = cat(
      R"({"threshold_type":"float64","leaf_output_type":"float64","num_feature":2,"task_type":"kMultiClf",)",
      R"("average_tree_output":true,"num_target":1,"num_class":[)", kMany, R"(],"class_id":[-1],"postprocessor":)",
      R"("identity_multiclass","base_scores":[)", bases, R"(],"trees":[{"nodes":[{"node_id":0,"split_feature_id":0,)",
      R"("default_left":true,"node_type":"categorical_test_node","category_list":[)", numbers,
      R"(],"category_list_right_child":true,"left_child":1,"right_child":2},{"node_id":1,"leaf_value":[)", zeros,
      R"(]},{"node_id":2,"leaf_value":[)", zeros, "]}]}]}");
  expect_error(ErrorKind::capacity, {"f.json", "one for each class", "of memory"},
               [&] { read_treelite(bomb, "f.json"); });
}

// What LightGBM answers at this moment, on trees and rows of their own.
TEST_F(TreeImport, AsLightgbmAnswersWhereItIsInstalled) {
  const std::string python = freight::testing::python_with("lightgbm,sklearn,treelite,pandas");
  if (python.empty()) GTEST_SKIP() << "no Python has the packages lightgbm, scikit-learn, treelite and pandas";
  ASSERT_EQ(std::system(cat(python, " ", other_maker("make.py"), " ", dir_.path(), " > /dev/null").c_str()), 0);
  for (const std::string& name : kLightgbmModels) {
    SCOPED_TRACE(name);
    expect_answers(dir_ / (name + ".txt"), dir_ / (name + ".csv"));
  }
  for (const std::string& name : kTreeliteModels) {
    SCOPED_TRACE(name);
    expect_answers(dir_ / (name + ".json"), dir_ / (name + ".csv"));
  }
}

TEST(FuzzTrees, LightgbmsText) {
  for (const std::string name : {"multiclass", "binary"}) {
    freight::testing::fuzz(io::read_text(other_maker(name + ".txt")), 60, 1500, [](io::ByteView b) {
      read_lightgbm({reinterpret_cast<const char*>(b.data()), b.size()}, "fuzzed");
    });
  }
}

TEST(FuzzTrees, TreelitesJson) {
  freight::testing::fuzz(io::read_text(other_maker("forest_of_three.json")), 61, 500, [](io::ByteView b) {
    read_treelite({reinterpret_cast<const char*>(b.data()), b.size()}, "fuzzed");
  });
}

}  // namespace
}  // namespace freight::tables
