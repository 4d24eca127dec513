// Tests what a stored model says besides its predictions: what each column adds to them, how much it made of each, and
// itself as plain numbers, from which a reader of a few lines makes the same predictions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "freight/tables/xgboost_library.h"
#include "tests/support/files.h"
#include "tests/support/mixed_table.h"
#include "tests/tables/table_runs.h"

namespace freight::tables {
namespace {

using freight::testing::Told;

// Rows of every sort of cell: numbers, missing ones, words that are known, rare and unknown.
Array rows_for(const store::Bundle& bundle, int64_t n) {
  const auto width = static_cast<int64_t>(bundle.columns.size());
  Array rows(DType::f64, {n, width});
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      const store::Column& column = bundle.columns[static_cast<size_t>(c)];
      const int64_t k = i * 17 + c * 5;
      double v = column.name == "time" ? 1.7e9 + static_cast<double>(k % 97) : static_cast<double>(k % 113) * 0.1;
      if (column.words) v = static_cast<double>(k % (static_cast<int64_t>(column.levels.size()) + 1) - 1);
      rows.data<double>()[i * width + c] = k % 13 == 0 ? std::nan("") : v;
    }
  }
  return rows;
}

// The prediction that sums make, f32 as it is stored.
std::vector<double> answer_by_hand(store::RowLink link, std::vector<double> sums) {
  switch (link) {
    case store::RowLink::identity: return sums;
    case store::RowLink::exponential: return {std::exp(sums[0])};
    case store::RowLink::logistic: return {1 / (1 + std::exp(sums[0])), 1 / (1 + std::exp(-sums[0]))};
    case store::RowLink::softmax: break;
  }
  const double most = *std::max_element(sums.begin(), sums.end());
  double all = 0;
  for (double& s : sums) all += s = std::exp(s - most);
  for (double& s : sums) s /= all;
  return sums;
}

std::vector<double> sums_of(const store::ForestForm& form, const double* row) {
  std::vector<double> sums(form.bases.begin(), form.bases.end());
  for (const store::Tree& tree : form.trees) {
    size_t at = 0;
    while (tree.nodes[at].left >= 0) {
      const store::TreeNode& node = tree.nodes[at];
      const auto column = static_cast<size_t>(node.column);
      const double cell = row[column];
      const auto among = [&](const std::vector<int64_t>& levels) {
        return std::find(levels.begin(), levels.end(), static_cast<int64_t>(cell)) != levels.end();
      };
      bool left = node.missing_left;
      if (!std::isnan(cell) && node.words && cell >= 0 && !among(form.unknown[column])) left = !among(node.levels);
      if (!std::isnan(cell) && !node.words) left = static_cast<float>(cell - form.origins[column]) < node.value;
      at = static_cast<size_t>(left ? node.left : node.right);
    }
    sums[static_cast<size_t>(tree.group)] += static_cast<double>(tree.nodes[at].value);
  }
  return sums;
}

std::vector<double> sums_of(const store::LinearForm& form, const double* row) {
  const int64_t groups = form.intercepts.numel(), width = static_cast<int64_t>(form.terms.size());
  std::vector<double> sums(form.intercepts.data<double>(), form.intercepts.data<double>() + groups);
  for (int64_t t = 0; t < width; ++t) {
    const store::LinearForm::Term& term = form.terms[static_cast<size_t>(t)];
    const double cell = row[term.column];
    double raw = cell;
    if (term.level >= 0) raw = std::isnan(cell) ? cell : cell == static_cast<double>(term.level) ? 1 : 0;
    if (term.level == store::LinearForm::Term::kMissing) raw = std::isnan(cell) ? 1 : 0;
    if (std::isnan(raw) || (term.words && cell == store::kUnknownWord)) continue;
    for (int64_t k = 0; k < groups; ++k) {
      sums[static_cast<size_t>(k)] += form.weights.data<double>()[k * width + t] * (raw - term.mean) / term.scale;
    }
  }
  return sums;
}

struct Case {
  const char* model;
  Told told;
  const char* objective = "auto";
};

class Predictions : public ::testing::Test {
 protected:
  store::Bundle trained(const Case& c) {
    const std::string csv = dir_ / "table.csv";
    freight::testing::write_mixed_table(csv, c.told);
    return store::load_bundle(
        freight::testing::trained_on_table(csv, c.model, dir_ / cat("run", ++runs_), [&](train::Config& config) {
          config.objective = c.objective;
          if (std::string(c.model) == "gbdt") config.rounds = 15;
          if (std::string(c.model) == "forest") config.trees = 8;
        }));
  }
  // The margin of each row by its form, its prediction, and what the columns add.
  void check(const Case& c) {
    SCOPED_TRACE(cat(c.model, " ", c.objective, " ", static_cast<int>(c.told)));
    const store::Bundle bundle = trained(c);
    ASSERT_TRUE(bundle.rows->explains());
    const Array rows = rows_for(bundle, 300);
    const auto width = static_cast<int64_t>(bundle.columns.size());
    const Array got = bundle.rows->run(rows), added = bundle.rows->contributions(rows);
    const store::RowForm form = bundle.rows->form();
    const auto* forest = std::get_if<store::ForestForm>(&form);
    const auto* linear = std::get_if<store::LinearForm>(&form);
    ASSERT_TRUE(forest || linear);
    const int64_t groups = added.shape()[1];
    ASSERT_EQ(added.shape(), (Shape{300, c.told == Told::three ? 3 : 1, width + 1}));
    double far = 0, apart = 0;
    for (int64_t i = 0; i < 300; ++i) {
      const double* row = rows.data<double>() + i * width;
      const std::vector<double> sums = forest ? sums_of(*forest, row) : sums_of(*linear, row);
      const std::vector<double> prediction = answer_by_hand(forest ? forest->link : linear->link, sums);
      ASSERT_EQ(static_cast<int64_t>(prediction.size()), bundle.rows->outputs());
      for (size_t k = 0; k < prediction.size(); ++k) {
        const auto y = static_cast<double>(got.data<float>()[i * bundle.rows->outputs() + static_cast<int64_t>(k)]);
        far = std::max(far, std::fabs(y - prediction[k]) / std::max(1.0, std::fabs(y)));
      }
      for (int64_t g = 0; g < groups; ++g) {
        const double* parts = added.data<double>() + (i * groups + g) * (width + 1);
        const double sum = std::accumulate(parts, parts + width + 1, 0.0), margin = sums[static_cast<size_t>(g)];
        apart = std::max(apart, std::fabs(sum - margin) / std::max(1.0, std::fabs(margin)));
      }
    }
    EXPECT_LT(far, 2e-6);
    EXPECT_LT(apart, linear ? 1e-12 : 5e-6) << "what columns add is not the margin";
  }

  freight::testing::TemporaryDir dir_;
  int runs_ = 0;
};

TEST_F(Predictions, OfLinearModelsAreSumsOfWhatColumnsAdd) {
  for (const Case& c : {Case{"linear", Told::value}, Case{"ridge", Told::value}, Case{"poisson", Told::count},
                        Case{"logistic", Told::two}, Case{"logistic", Told::three}}) {
    check(c);
  }
}

TEST_F(Predictions, OfTreesAreSumsOfWhatColumnsAdd) {
  if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
  for (const Case& c : {Case{"gbdt", Told::two}, Case{"gbdt", Told::three}, Case{"gbdt", Told::value, "squarederror"},
                        Case{"gbdt", Told::count, "poisson"}, Case{"gbdt", Told::value, "absoluteerror"},
                        Case{"gbdt", Told::count, "tweedie"}, Case{"forest", Told::two}, Case{"forest", Told::three}}) {
    check(c);
  }
}

TEST_F(Predictions, TreesSayHowMuchTheyMadeOfEachColumnAndAreWrittenAsXgboostsOwn) {
  if (const std::string why = no_xgboost(); !why.empty()) GTEST_SKIP() << why;
  const store::Bundle bundle = trained({"gbdt", Told::two});
  const std::vector<store::Importance> all = bundle.rows->importance();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].measure, "gain");
  EXPECT_EQ(all[2].measure, "splits");
  const std::vector<double>& gain = all[0].columns;
  ASSERT_EQ(gain.size(), 4u);
  EXPECT_GT(*std::min_element(gain.begin(), gain.end()), 0);
  EXPECT_EQ(bundle.rows->library(), "xgboost");
  std::vector<std::string> names;
  for (const store::Column& c : bundle.columns) names.push_back(c.name);
  // XGBoost 1.7 writes NaN for the threshold of a split by categories, which is no JSON to others.
  EXPECT_NE(bundle.rows->library_file("json", names).find("\"binary:logistic\""), std::string::npos);
  const std::string ubj = bundle.rows->library_file("ubj", names);
  const nlohmann::json learner = nlohmann::json::from_ubjson(ubj.begin(), ubj.end())["learner"];
  EXPECT_EQ(learner["objective"]["name"], "binary:logistic");
  EXPECT_EQ(learner["feature_names"], names);
}

TEST_F(Predictions, AModelThatCannotSaySoRefuses) {
  const store::Bundle bundle = trained({"baseline", Told::two});
  EXPECT_FALSE(bundle.rows->explains());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(bundle.rows->form()));
  freight::testing::expect_error(ErrorKind::usage, {"contributions"},
                                 [&] { bundle.rows->contributions(rows_for(bundle, 1)); });
  freight::testing::expect_error(ErrorKind::usage, {"library_file"}, [&] { bundle.rows->library_file("json", {}); });
}

}  // namespace
}  // namespace freight::tables
