// The report of a model of a table: the part that each column has in its predictions.
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "freight/report/page.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"
#include "tests/support/mixed_table.h"
#include "tests/support/python.h"

namespace freight::report {
namespace {

using freight::testing::TemporaryDir;
using freight::testing::Told;
using Json = nlohmann::json;

class TableReport : public ::testing::Test {
 protected:
  ReportedRun reported(const char* model, Told told) {
    freight::testing::write_mixed_table(dir_ / "table.csv", told);
    freight::testing::trained_on_table(dir_ / "table.csv", model, dir_ / model);
    ReportedRun s{.run = read_run(dir_ / model)};
    s.examination = examine(s.run.model, {.examples = 5});
    return s;
  }
  // The page as a browser shows it; null where there is none.
  Json opened(const std::vector<ReportedRun>& runs) {
    io::write_file_atomic(dir_ / "page.html", std::string_view(to_html(runs)));
    const std::string python = freight::testing::peer_python(), out = dir_ / "out.json";
    if (python.empty()) return nullptr;
    const std::string command =
        cat(python, " ", source_dir(), "/tests/report/open_page.py ", dir_ / "page.html", " > ", out);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return Json::parse(freight::testing::read_text(out), nullptr, false);
  }
  TemporaryDir dir_;
};

TEST_F(TableReport, OfClassesShowsCurvesAndWhatColumnsAreWorth) {
  ReportedRun s = reported("logistic", Told::two);
  const Examination& e = *s.examination;
  ASSERT_EQ(e.curves.size(), 1u);
  EXPECT_EQ(e.curves[0].number, 1);
  EXPECT_GT(e.curves[0].curves.area, 0.9);
  EXPECT_FALSE(e.calibration.empty());
  EXPECT_TRUE(e.mistakes.empty()) << "rows have a table";
  ASSERT_TRUE(e.table);
  const TableExamination& t = *e.table;
  EXPECT_EQ(t.columns, (std::vector<std::string>{"x", "time", "colour", "street"}));
  ASSERT_EQ(t.importance.size(), 2u);
  EXPECT_EQ(t.importance[0].measure, "permutation");
  EXPECT_EQ(t.importance[1].measure, "mean |SHAP|");
  for (const store::Importance& i : t.importance) {
    EXPECT_GT(i.columns[0], i.columns[1]) << i.measure << ": x says more than the time";
    EXPECT_GT(i.columns[0], 0) << i.measure;
  }
  ASSERT_FALSE(t.dependence.empty());
  for (const PartialDependence& d : t.dependence) {
    if (d.column != 0) continue;
    EXPECT_EQ(d.outputs, (std::vector<std::string>{"rose"}));
    EXPECT_GT(d.predictions[0].back(), d.predictions[0].front() + 0.3) << "roses have a large x";
  }
  ASSERT_EQ(t.worst.size(), 5u);
  EXPECT_GE(t.worst[0].loss, t.worst[4].loss);
  EXPECT_EQ(t.worst[0].cells.size(), 4u);
  s.run.leaderboard = {.metric = "auc",
                       .standings = {{.learner = "gbdt", .settings = "--lr 0.05", .mean = 0.93}},
                       .left_out = {"mlp: <slow>"},
                       .seconds = 3};
  const Json page = opened({s});
  if (page.is_null()) GTEST_SKIP() << "no browser";
  const auto text = page["text"].get<std::string>();
  for (const char* part : {"Over all thresholds", "Feature importance", "Partial dependence", "Worst predictions", "F1",
                           "Leaderboard", "--lr 0.05", "mlp: <slow>", "expected calibration error"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page["scripts"], 0);
  const auto charts = page["charts"].get<std::vector<std::string>>();
  for (const char* title : {"ROC", "Precision and recall", "Calibration", "x"}) {
    EXPECT_NE(std::find(charts.begin(), charts.end(), title), charts.end()) << title;
  }
}

TEST_F(TableReport, OfValuesShowsResiduals) {
  const ReportedRun s = reported("linear", Told::value);
  const Examination& e = *s.examination;
  EXPECT_EQ(static_cast<int64_t>(e.residuals.size()), e.count);
  double squares = 0;
  for (const Residual& r : e.residuals)
    squares += std::pow(static_cast<double>(r.prediction) - static_cast<double>(r.target), 2);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(e.count)), e.outputs[0].root_mean_square, 1e-9);
  ASSERT_TRUE(e.table);
  EXPECT_TRUE(e.table->dependence[0].outputs[0].empty());
  const std::string html = to_html({s});
  for (const char* part : {"Residuals", "How often", "Partial dependence"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST_F(TableReport, AModelThatReadsNoColumnHasNoneThatCounts) {
  const ReportedRun s = reported("baseline", Told::three);
  EXPECT_TRUE(s.examination->table->dependence.empty());
  EXPECT_EQ(s.examination->curves.size(), 3u);
  EXPECT_NEAR(s.examination->curves[0].curves.area, 0.5, 1e-9);
}

}  // namespace
}  // namespace freight::report
