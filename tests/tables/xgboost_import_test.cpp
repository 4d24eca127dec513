// XGBoost's own files as stored models: they predict as XGBoost does, and what is not supported is reported.
#include "freight/tables/xgboost_import.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "freight/data/cells.h"
#include "freight/io/json_library.h"
#include "freight/store/table_rows.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;
using Json = nlohmann::json;

class XgboostImport : public TableRuns {
 protected:
  void SetUp() override {
    if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
    config_.model = "gbdt";
    config_.rounds = 5;
    config_.early_stop = 0;
    std::string csv = "size,colour,kind\n" + rare_;
    for (int i = 0; i < 90; ++i) {
      const bool rose = (i % 3 == 1) != (i % 10 == 9);
      csv += cat(i % 7 == 3 ? std::string() : cat(0.1 * (i * 37 % 61)), ",",
                 i % 3 == 0   ? "blue"
                 : i % 3 == 1 ? "green"
                              : "red",
                 ",", rose ? "rose" : "daisy", "\n");
    }
    io::write_file_atomic(dir_ / "colours.csv", std::string_view(csv));
    config_.data = dir_ / "colours.csv";
  }
  // A run's trees as XGBoost's file of that form.
  std::string exported(const std::string& form) {
    config_.overwrite = true;
    bundle_ = store::load_bundle(run().model_path);
    const std::string path = dir_ / ("trees." + form);
    io::write_file_atomic(path, std::string_view(bundle_.rows->library_file(form, {"size", "colour"})));
    return path;
  }
  std::string rare_ = {};  // rows of a colour that has too few for a category
  store::Bundle bundle_;
};

TEST_F(XgboostImport, AFileAnswersAsTheModelThatWroteIt) {
  for (const std::string form : {"json", "ubj"}) {
    const store::Bundle got = import_xgboost(exported(form), {"daisy", "rose"});
    EXPECT_EQ(got.learner, "gbdt");
    EXPECT_EQ(got.classes, bundle_.classes);
    ASSERT_EQ(got.columns.size(), 2u);
    EXPECT_EQ(got.columns[1].levels[1], "1") << "green, as a category";
    const Array& rows = bundle_.samples.rows;
    EXPECT_EQ(got.rows->run(rows).to_vector<float>(), bundle_.rows->run(rows).to_vector<float>()) << form;
    store::save_bundle(dir_ / "got.safetensors", got);
    const store::Bundle stored = store::load_bundle(dir_ / "got.safetensors");
    EXPECT_EQ(stored.rows->run(rows).to_vector<float>(), got.rows->run(rows).to_vector<float>());
    EXPECT_TRUE(stored.samples.there());
  }
  config_.model = "forest";
  config_.rounds = 0;
  config_.early_stop = -1;
  config_.trees = 7;
  EXPECT_EQ(import_xgboost(exported("json"), {}).learner, "forest");
}

class XgboostExport : public XgboostImport {
 protected:
  XgboostExport() { rare_ = "1.5,brown,rose\n,brown,daisy\n0.3,brown,rose\n"; }
};

TEST_F(XgboostExport, NumbersCategoriesByTheLevelsOfTheirColumn) {
  config_.rounds = 20;
  for (const std::string form : {"json", "ubj"}) {
    const store::Bundle got = import_xgboost(exported(form), {"daisy", "rose"});
    const std::vector<std::string> levels = {"blue", "brown", "green", "red"};
    ASSERT_EQ(bundle_.columns[1].levels, levels);
    EXPECT_EQ(got.columns[0].name, "size");
    EXPECT_EQ(got.columns[1].name, "colour");
    Array rows(DType::f64, {80, 2}), numbers(DType::f64, {80, 2});
    const auto last = static_cast<double>(got.columns[1].levels.size() - 1);  // stands for all that always go left
    for (int64_t i = 0; i < 80; ++i) {
      const double size = i % 5 == 0 ? std::nan("") : 0.1 * static_cast<double>(i);
      const auto level = static_cast<double>(i % 4);
      rows.data<double>()[2 * i] = numbers.data<double>()[2 * i] = size;
      rows.data<double>()[2 * i + 1] = level;
      numbers.data<double>()[2 * i + 1] = std::min(level, last);
    }
    EXPECT_EQ(got.rows->run(numbers).to_vector<float>(), bundle_.rows->run(rows).to_vector<float>()) << form;
  }
}

TEST_F(XgboostImport, WhatIsNotTakenIsSaid) {
  config_.drop = "colour";  // or XGBoost up to 2 would write NaN, which the parser of this test does not take
  const std::string path = exported("json");
  const Json good = Json::parse(io::read_text(path));
  const auto refused = [&](ErrorKind kind, const std::vector<std::string>& parts, const auto& change) {
    Json bad = good;
    change(bad);
    io::write_file_atomic(path, std::string_view(bad.dump()));
    expect_error(kind, parts, [&] { import_xgboost(path, {}); });
  };
  refused(ErrorKind::usage, {"dart", "expected gbtree"},
          [](Json& j) { j["learner"]["gradient_booster"]["name"] = "dart"; });
  refused(ErrorKind::usage, {"rank:map", "expected binary:logistic", "reg:squarederror"},
          [](Json& j) { j["learner"]["objective"]["name"] = "rank:map"; });
  // Names that share their bytes would be any number of long ones.
  refused(ErrorKind::data, {"is not an XGBoost model", "the offsets of its categories do not ascend"}, [](Json& j) {
    j["learner"]["feature_types"] = Json::array({"c"});
    const Json names = {{"offsets", {0, 2, 1}}, {"values", {97, 98}}};
    j["learner"]["gradient_booster"]["model"]["cats"] = {{"enc", Json::array({names})}};
  });
  refused(ErrorKind::data, {"is not an XGBoost model"}, [](Json& j) { j.erase("learner"); });
  refused(ErrorKind::data, {"is not an XGBoost model", "objective"}, [](Json& j) { j["learner"].erase("objective"); });
  refused(ErrorKind::checkpoint, {"damaged", "child"},
          [](Json& j) { j["learner"]["gradient_booster"]["model"]["trees"][0]["left_children"][0] = 100; });
  // Files of a few bytes that claim many columns or categories.
  refused(ErrorKind::data, {"100001 columns", "expected 1 to 100000"},
          [](Json& j) { j["learner"]["learner_model_param"]["num_feature"] = "100001"; });
  refused(ErrorKind::data, {"4000001 categories", "expected at most 4000000"}, [](Json& j) {
    j["learner"]["feature_types"] = Json::array({"c"});
    Json& tree = j["learner"]["gradient_booster"]["model"]["trees"][0];
    tree["split_type"][0] = 1;
    tree["categories"] = {3'999'999};
    tree["categories_nodes"] = tree["categories_segments"] = {0};
    tree["categories_sizes"] = {1};
  });
  io::write_file_atomic(path, std::string_view(good.dump()));
  expect_error(ErrorKind::usage, {"--class-names", "got 3 names", "2 classes"}, [&] {
    import_xgboost(path, {"a", "b", "c"});
  });
  io::write_file_atomic(dir_ / "text.json", std::string_view("no json"));
  expect_error(ErrorKind::data, {"text.json", "save_model"}, [&] { import_xgboost(dir_ / "text.json", {}); });
}

// Twelve towns, whose categories stand in another order than their names, and rounds that early stopping does not keep.
TEST_F(XgboostImport, WordsOfTheFileAreTheColumns) {
  const std::string python = freight::testing::python_with("pandas,xgboost");
  if (python.empty()) GTEST_SKIP() << "no Python has the packages pandas and xgboost";
  const std::string script = dir_ / "fit.py";
  io::write_file_atomic(script, std::string_view(R"(
import sys
import numpy as np, pandas as pd, xgboost as xgb
from xgboost.libpath import find_lib_path
d = sys.argv[1] + "/"
random = np.random.default_rng(3)
towns = [f"town {i}" for i in range(12)][::-1]
rows = pd.DataFrame({"size": random.normal(size=600), "town": pd.Categorical(random.choice(towns, 600), categories=towns)})
rows.loc[::17, "size"] = np.nan
told = rows["town"].cat.codes % 3 + (rows["size"] > 0.5)
trees = xgb.XGBClassifier(n_estimators=40, max_depth=4, enable_categorical=True, objective="multi:softmax", n_jobs=1, early_stopping_rounds=2)
trees.fit(rows, told, eval_set=[(rows, random.permutation(told))], verbose=False)
trees.save_model(d + "trees.json")
rows.to_csv(d + "rows.csv", index=False)
rounds, booster = (0, trees.best_iteration + 1), trees.get_booster()
assert rounds[1] < booster.num_boosted_rounds()
booster.set_param({"objective": "multi:softprob"})
booster.predict(xgb.DMatrix(rows, enable_categorical=True), iteration_range=rounds).astype("f4").tofile(d + "p")
open(d + "library", "w").write(find_lib_path()[0])
open(d + "named", "w").write(str(int(tuple(map(int, xgb.__version__.split(".")[:2])) >= (3, 1))))
)"));
  ASSERT_EQ(std::system(cat(python, " ", script, " ", dir_.path()).c_str()), 0);
  if (io::read_text(dir_ / "named") == "0") GTEST_SKIP() << "this XGBoost does not store words";
  const freight::testing::ScopedEnvironment library("FREIGHT_XGBOOST", io::read_text(dir_ / "library"));
  const store::Bundle got = import_xgboost(dir_ / "trees.json", {});
  EXPECT_EQ(got.columns[0].name, "size");
  EXPECT_EQ(got.columns[1].levels[1], "town 1");
  EXPECT_EQ(got.columns[1].levels[2], "town 10");
  EXPECT_EQ(got.classes, (std::vector<std::string>{"0", "1", "2", "3"}));
  const data::Cells cells =
      data::read_cells(dir_ / "rows.csv", {.kinds = [](const data::TableHead&) {
                         return std::vector<data::CellKind>{data::CellKind::numbers, data::CellKind::words};
                       }});
  std::vector<uint32_t> all(600);
  std::iota(all.begin(), all.end(), 0);
  store::save_bundle(dir_ / "got.safetensors", got);
  const std::string theirs = io::read_text(dir_ / "p");
  ASSERT_EQ(theirs.size(), 600 * 4 * sizeof(float));
  for (const store::Bundle& model : {got, store::load_bundle(dir_ / "got.safetensors")}) {
    const Array told = model.rows->run(store::TableRows(model.columns, cells, {0, 1}).values(all));
    for (int64_t i = 0; i < told.numel(); ++i) {
      ASSERT_NEAR(told.data<float>()[i], reinterpret_cast<const float*>(theirs.data())[i], 1e-6f) << i;
    }
  }
}

}  // namespace
}  // namespace freight::tables
