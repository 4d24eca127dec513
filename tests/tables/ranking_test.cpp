// Rankings: rows of a query are ranked among each other, by XGBoost's rank:ndcg and rank:pairwise. Held against the
// Python package, whose figures and predictions are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "freight/metrics/scores.h"
#include "freight/report/examine.h"
#include "freight/store/bundle.h"
#include "freight/tables/learners.h"
#include "freight/tables/row_parts.h"
#include "freight/tables/table.h"
#include "freight/tables/xgboost_learner.h"
#include "freight/train/leaderboard.h"
#include "freight/train/trainer.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;

class RankingTest : public TableRuns {
 protected:
  void SetUp() override {
    if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
    // 60 queries of 5 to 14 documents. Relevance grows with one column, within its query alone: the other column moves
    // both by the query.
    std::string csv = "query,match,age,words,relevance\n";
    for (int q = 0; q < 60; ++q) {
      for (int d = 0; d < 5 + q % 10; ++d) {
        const double match = (d * 37 + q * 11) % 101 / 10.0;
        const int relevance = std::min(4, static_cast<int>(match / 2.5) + ((d * 7 + q) % 9 == 0 ? 1 : 0));
        csv += cat("q", (q * 7) % 60, ",", match + q % 3, ",", (d * 53 + q * 29) % 97, ",", d % 2 ? "long" : "short",
                   ",", relevance, "\n");
      }
    }
    io::write_file_atomic(dir_ / "search.csv", std::string_view(csv));
    train::set_model(config_, "gbdt");
    config_.data = dir_ / "search.csv";
    config_.target = "relevance";
    config_.output_dir = dir_ / "run";
    config_.task = "ranking";
    config_.group_column = "query";
    config_.rounds = 20;
  }
  tables::RowData data() const {
    return read_table({.data = config_.data, .target = config_.target, .group_column = "query", .ranking = true});
  }
  void refused(ErrorKind kind, const std::vector<std::string>& parts,
               const std::function<void(train::Config&)>& change) {
    const train::Config before = config_;
    change(config_);
    expect_error(kind, parts, [&] { train::prepare(config_); });
    config_ = before;
  }
  int64_t count_of_rows() const {
    const std::string text = read_text(dir_ / "search.csv");
    return std::count(text.begin(), text.end(), '\n') - 1;
  }
  void write(const char* name, const std::string& text) { io::write_file_atomic(dir_ / name, std::string_view(text)); }
};

TEST_F(RankingTest, QueriesStayWholeInPartsFoldsAndOrder) {
  // Rows of two queries in turn: they are put together.
  std::string text = "query,a,relevance\n";
  for (int i = 0; i < 80; ++i) text += cat("q", i % 8, ",", i, ",", i % 3, "\n");
  write("mixed.csv", text);
  config_.data = dir_ / "mixed.csv";
  const tables::RowData rows = data();
  std::set<int64_t> sides[2];
  for (const store::Rows* part : {&rows.train, &rows.held_out}) {
    EXPECT_TRUE(part->ranked);
    std::set<int64_t>& seen = sides[part == &rows.held_out];
    const std::vector<int64_t> groups = part->groups->to_vector<int64_t>();
    for (size_t i = 0; i < groups.size(); ++i) {
      if (i > 0 && groups[i] == groups[i - 1]) continue;
      EXPECT_TRUE(seen.insert(groups[i]).second) << "query " << groups[i] << " stands apart";
    }
  }
  for (const int64_t query : sides[1]) EXPECT_EQ(sides[0].count(query), 0u);
  const std::vector<int64_t> fold_of = tables::folds_of(rows.train, 3, 1);
  for (int64_t fold = 0; fold < 3; ++fold) {
    const tables::RowData part = tables::with_fold_out(rows, fold_of, fold);
    EXPECT_TRUE(part.train.ranked && part.held_out.ranked);
    for (const int64_t g : part.held_out.groups->to_vector<int64_t>()) {
      const std::vector<int64_t> others = part.train.groups->to_vector<int64_t>();
      EXPECT_EQ(std::count(others.begin(), others.end(), g), 0);
    }
  }
}

TEST_F(RankingTest, AStoredRankingIsMeasuredAnsweredAndReportedAlike) {
  for (const char* objective : {"auto", "pairwise"}) {
    config_.objective = objective;
    config_.output_dir = dir_ / objective;
    const train::Result r = run();
    EXPECT_EQ(r.metric_name, "ndcg");
    ASSERT_TRUE(r.test.metric);
    EXPECT_GT(*r.test.metric, 0.95) << objective;
    EXPECT_NEAR(r.test.loss, 1 - *r.test.metric, 1e-12);
    store::Bundle bundle = store::load_bundle(r.model_path);
    EXPECT_TRUE(bundle.rows->is_ranking());
    const auto& learner = dynamic_cast<const tables::RowLearner&>(train::learner_of(bundle));
    const train::Measurement m = learner.measure(store::load_bundle(r.model_path), r.model_path, {});
    ASSERT_FALSE(m.scores.empty());
    EXPECT_EQ(m.scores[0].name, "ndcg");
    EXPECT_NEAR(m.scores[0].value, *r.test.metric, 1e-12);
    // The same rows under another name are other data, all of which are measured.
    io::write_file_atomic(dir_ / "other.csv", std::string_view(read_text(dir_ / "search.csv") + "q0,1,2,long,0\n"));
    train::MeasureRequest other;
    other.data = dir_ / "other.csv";
    EXPECT_EQ(learner.rows_to_measure(bundle, r.model_path, other).rows.count(), count_of_rows() + 1);
    EXPECT_GT(learner.measure(store::load_bundle(r.model_path), r.model_path, other).scores[0].value, 0.95);
    const report::Examination e = report::examine(r.model_path, {});
    ASSERT_TRUE(e.table);
    EXPECT_NEAR(e.table->ranking.at(0).value, *r.test.metric, 1e-6);
    EXPECT_EQ(e.table->queries, 12);
    EXPECT_TRUE(e.table->worst.empty());
    const store::Importance& shuffled = e.table->importance.at(3);
    EXPECT_EQ(shuffled.measure, "permutation");
    EXPECT_EQ(std::max_element(shuffled.columns.begin(), shuffled.columns.end()) - shuffled.columns.begin(), 0);
    EXPECT_GT(shuffled.columns[0], 0.05);
  }
}

TEST_F(RankingTest, AnotherTableWithoutTheQueriesIsRefusedByTheirName) {
  const train::Result r = run();
  write("bare.csv", "match,age,words,relevance\n1,2,long,0\n2,3,short,1\n");
  train::MeasureRequest other;
  other.data = dir_ / "bare.csv";
  store::Bundle bundle = store::load_bundle(r.model_path);
  const train::Learner& learner = train::learner_of(bundle);
  expect_error(ErrorKind::usage, {"--group-column", "no column query"},
               [&] { learner.measure(std::move(bundle), r.model_path, other); });
}

TEST_F(RankingTest, ATestPartOfItsOwnIsRankedByItsOwnQueries) {
  write("test.csv", "relevance,query,match,age,words\n0,a,1,2,long\n4,b,9,1,short\n3,a,8,3,short\n0,b,0.5,7,long\n");
  config_.test = dir_ / "test.csv";
  const train::Result r = run();
  EXPECT_EQ(r.test.count, 4);
  EXPECT_EQ(*r.test.metric, 1);
}

TEST_F(RankingTest, FoldsAndTuningGoByNdcg) {
  config_.model = "auto";
  config_.lr = train::Config().lr;
  config_.rounds = 0;
  config_.tune = 2;
  config_.folds = 3;
  config_.metric = "ndcg@5";
  config_.time_budget = "60s";
  const train::Result r = run();
  ASSERT_TRUE(r.comparison);
  const train::Leaderboard board = train::leaderboard_in(r.comparison->json);
  EXPECT_EQ(board.metric, "ndcg@5");
  EXPECT_TRUE(board.higher);
  EXPECT_EQ(board.standings.front().learner, "gbdt");
  EXPECT_GT(board.standings.front().mean, 0.9);
}

TEST_F(RankingTest, WhatDoesNotRankIsRefusedByName) {
  using C = train::Config;
  refused(ErrorKind::usage, {"--task", "ranking needs --group-column"}, [](C& c) { c.group_column = ""; });
  refused(ErrorKind::usage, {"--objective", "tweedie is for values", "ndcg or pairwise"},
          [](C& c) { c.objective = "tweedie"; });
  refused(ErrorKind::usage, {"--objective", "ndcg ranks rows", "--task values"}, [](C& c) {
    c.objective = "ndcg";
    c.task = "values";
  });
  refused(ErrorKind::usage, {"--metric", "auc is for two classes", "relevance labels", "ndcg"},
          [](C& c) { c.metric = "auc"; });
  for (const char* model : {"ridge", "forest", "baseline", "mlp"}) {
    refused(ErrorKind::usage, {"--task", model, "does not rank", "gbdt"}, [&](C& c) {
      c.rounds = 0;
      c.lr = C().lr;
      c.model = model;
    });
  }
  const auto with = [&](const std::string& row) {
    write("odd.csv", read_text(dir_ / "search.csv") + row);
    config_.data = dir_ / "odd.csv";
  };
  with("q1,1,2,long,-1\n");
  refused(ErrorKind::data, {"odd.csv:", "column relevance", "got -1", "relevance labels"}, [](C&) {});
  with("q1,1,2,long,1.5\n");
  refused(ErrorKind::data, {"odd.csv:", "got 1.5"}, [](C&) {});
  with("q1,1,2,long,32\n");
  refused(ErrorKind::data, {"odd.csv:", "got 32", "31"}, [](C&) {});
  with("q1,1,2,long,good\n");
  refused(ErrorKind::data, {"odd.csv", "contains categories", "relevance labels"}, [](C&) {});
  with(",1,2,long,1\n");
  refused(ErrorKind::data, {"odd.csv:", "column query", "is empty"}, [](C&) {});
  std::string weights = "query,a,w,relevance\n";
  for (int i = 0; i < 40; ++i) weights += cat(i / 4, ",", i % 5, ",", i == 39 ? 3 : 2, ",", i % 3, "\n");
  write("weights.csv", weights);
  refused(ErrorKind::data, {"weights.csv:41", "column w", "got 3 after 2", "whole queries"}, [&](C& c) {
    c.data = dir_ / "weights.csv";
    c.weight_column = "w";
  });
}

TEST_F(RankingTest, AQueryOfGreaterWeightIsRankedBetter) {
  // Even queries want what odd ones refuse: whichever weighs more is followed.
  for (const bool even : {true, false}) {
    std::string text = "query,a,w,relevance\n";
    for (int i = 0; i < 400; ++i) {
      const int query = i / 10, a = i * 7 % 10;
      text +=
          cat(query, ",", a, ",", (query % 2 == 0) == even ? 5 : 1, ",", query % 2 == 0 ? a / 4 : (9 - a) / 4, "\n");
    }
    write("two.csv", text);
    config_.data = dir_ / "two.csv";
    config_.weight_column = "w";
    config_.early_stop = 0;
    config_.output_dir = dir_ / (even ? "even" : "odd");
    const store::Bundle bundle = store::load_bundle(run().model_path);
    const Array predictions = bundle.rows->run(Array::of<double>({0, 9}, {2, 1}));
    EXPECT_EQ(predictions.data<float>()[1] > predictions.data<float>()[0], even);
  }
}

// Fits a ranking and writes its predictions and figures; with one argument it says where the package's library is.
constexpr const char* kRanker = R"(
import sys
import numpy as np
import xgboost as xgb
from xgboost.libpath import find_lib_path
if len(sys.argv) == 2:
    open(sys.argv[1], "w").write(find_lib_path()[0])
    sys.exit()
d = sys.argv[1] + "/"
kinds = open(d + "kinds").read().split()
_, first, qid = np.unique(np.fromfile(d + "q", "i8"), return_index=True, return_inverse=True)
rows = xgb.DMatrix(np.fromfile(d + "x", "f4").reshape(-1, len(kinds)), np.fromfile(d + "y", "f4"), feature_types=kinds,
                   qid=qid, weight=np.fromfile(d + "w", "f4")[first], enable_categorical=True)
trees = xgb.train({"objective": sys.argv[2], "tree_method": "hist", "eta": 0.1, "max_depth": 6, "nthread": 1,
                   "max_cat_to_onehot": 50}, rows, 20)
trees.predict(rows).tofile(d + "p")
# The figures of given predictions: trees of no round prediction what they begin with. map takes two relevances alone.
figures = []
rows.set_weight(np.ones(len(first)))
for labels, metrics in [(rows.get_label(), ["ndcg", "ndcg@10", "ndcg@3"]), (rows.get_label() > 2, ["map", "map@5"])]:
    rows.set_label(labels)
    rows.set_base_margin(np.fromfile(d + "s", "f4"))
    none = xgb.train({"objective": "rank:ndcg", "eval_metric": metrics, "base_score": 0.0}, rows, 0)
    figures += [f.split(":")[1] for f in none.eval(rows).split("\t")[1:]]
open(d + "figures", "w").write(" ".join(figures))
)";

// The package of Python with its own library: equal predictions and equal figures.
TEST_F(RankingTest, ThePythonPackageRanksAlike) {
  const std::string python = freight::testing::python_with("xgboost");
  if (python.empty()) GTEST_SKIP() << "no Python has the package xgboost";
  const std::string script = dir_ / "fit.py", tells = dir_ / "path.txt";
  const auto call = [&](const std::string& arguments) {
    return std::system(cat(python, " ", script, " ", arguments).c_str());
  };
  io::write_file_atomic(script, std::string_view(kRanker));
  ASSERT_EQ(call(tells), 0);
  config_.early_stop = 0;
  config_.deterministic = true;
  // The library of the package, and the one that is found without it: 1.7 of Debian where that is installed.
  for (const std::string& library : {read_text(tells), std::string()}) {
    config_.xgboost = library;
    for (const auto& [objective, weighed] :
         {std::pair<std::string, bool>("ndcg", false), {"pairwise", false}, {"ndcg", true}}) {
      config_.objective = objective;
      tables::RowData rows = data();
      Array weights(DType::f32, {rows.train.count()});
      for (int64_t i = 0; i < rows.train.count(); ++i) {
        weights.data<float>()[i] = weighed ? static_cast<float>(1 + rows.train.groups->data<int64_t>()[i] % 4) : 1.0f;
      }
      if (weighed) rows.train.weights = weights;
      const auto model =
          TreeLearner(TreeLearner::Kind::gbdt).fit(config_, rows, [](const tables::Round&) { return true; });
      const Array ours = model->run(rows.train.values.array());
      EXPECT_GT(*metrics::score_of({.name = "ndcg"}, ours, rows.train.truth()), 0.95) << objective;
      if (library.empty()) continue;  // the package fits by its own alone
      const TreeColumns columns(rows.shape.columns, rows.train);
      const auto put = [&](const char* name, const void* bytes, size_t size) {
        io::write_file_atomic(dir_ / name, std::string_view(static_cast<const char*>(bytes), size));
      };
      const Array features = columns.features(rows.train.values);
      put("x", features.raw(), features.bytes());
      put("y", rows.train.labels.raw(), rows.train.labels.bytes());
      put("w", weights.raw(), weights.bytes());
      put("q", rows.train.groups->raw(), rows.train.groups->bytes());
      std::string kinds;
      for (int64_t c = 0; c < columns.count(); ++c) kinds += columns.words(c) ? "c " : "q ";
      put("kinds", kinds.data(), kinds.size());
      // Predictions without equal ones, whose order XGBoost leaves to the file.
      Array clear(DType::f32, ours.shape());
      for (int64_t i = 0; i < ours.numel(); ++i) {
        clear.data<float>()[i] = ours.data<float>()[i] + static_cast<float>(i * 37 % 1009) * 1e-3f;
      }
      put("s", clear.raw(), clear.bytes());
      ASSERT_EQ(call(cat(dir_.path(), " rank:", objective)), 0);
      const std::string theirs = read_text(dir_ / "p");
      ASSERT_EQ(theirs.size(), static_cast<size_t>(rows.train.count()) * sizeof(float));
      for (int64_t i = 0; i < rows.train.count(); ++i) {
        ASSERT_NEAR(ours.data<float>()[i], reinterpret_cast<const float*>(theirs.data())[i], 1e-6f) << i;
      }
      store::Rows two = rows.train;
      two.labels = Array(DType::f32, rows.train.labels.shape());
      for (int64_t i = 0; i < two.count(); ++i) {
        two.labels.data<float>()[i] = rows.train.labels.data<float>()[i] > 2 ? 1.0f : 0.0f;
      }
      std::istringstream figures(read_text(dir_ / "figures"));
      for (const char* name : {"ndcg", "ndcg@10", "ndcg@3", "map", "map@5"}) {
        double figure = 0;
        ASSERT_TRUE(figures >> figure) << name;
        EXPECT_LT(figure, 0.999) << name << " of a perfect order would show nothing";
        EXPECT_NEAR(*metrics::score_of({.name = name}, clear, name[0] == 'm' ? two.truth() : rows.train.truth()),
                    figure, 1e-6)
            << name;
      }
    }
  }
}

}  // namespace
}  // namespace freight::tables
