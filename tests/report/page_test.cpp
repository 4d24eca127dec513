// A report as its readers meet it: from the directory of a run to the page in a real browser; and the event files in
// TensorBoard's own reader.
#include "freight/report/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "freight/train/trainer.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"
#include "tests/support/python.h"
#include "tests/support/small_digits.h"

namespace freight::report {
namespace {

using freight::testing::expect_error;
using freight::testing::peer_python;
using freight::testing::read_text;
using freight::testing::TemporaryDir;
using Json = nlohmann::json;

struct Quiet : train::Observer {};

// One small run for all tests: 640 digits, two epochs, stopped after the first and gone on with.
class Report : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TemporaryDir;
    test::write_small_digits(dir_->path());
    train::Config c = train::recipe(dir_->path());
    train::set_model(c, "mlp");
    c.output_dir = *dir_ / "run";
    c.batch_size = 64;
    c.max_steps = 10;
    Quiet quiet;
    train::train(c, quiet);
    io::MetricsWriter(c.output_dir).write({.step = 15, .epoch = 2, .loss = 77});  // lost when the run was killed
    c.resume = "auto";
    c.max_steps = 20;
    train::train(c, quiet, {}, {"--model", "it's <mlp>"});
  }
  static void TearDownTestSuite() { delete dir_; }

  static std::string run() { return *dir_ / "run"; }
  // What tests/report/NAME.py prints of a file or directory.
  static Json python(const std::string& name, const std::string& path) {
    const std::string out = *dir_ / "out.json";
    const std::string command = cat(peer_python(), " ", source_dir(), "/tests/report/", name, " ", path, " > ", out);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return Json::parse(read_text(out), nullptr, false);
  }
  static Json opened(const std::vector<ReportedRun>& runs) {
    io::write_file_atomic(*dir_ / "page.html", std::string_view(to_html(runs)));
    return python("open_page.py", *dir_ / "page.html");
  }

  static TemporaryDir* dir_;
};
TemporaryDir* Report::dir_ = nullptr;

TEST_F(Report, TensorBoardReadsWhatMetricsJsonlHolds) {
  if (peer_python().empty()) GTEST_SKIP() << "no build/python";
  const Json tags = python("tensorboard_scalars.py", run());
  std::map<std::string, std::vector<std::pair<int64_t, double>>> expected;
  for (const std::string& line : split(read_text(run() + "/metrics.jsonl"), '\n')) {
    if (line.empty()) continue;
    const Json row = Json::parse(line);
    for (const auto& [key, value] : row.items()) {
      if (!value.is_number() || key == "step" || key == "epoch" || key == "time") continue;
      expected[cat(key, "/", row["split"].get<std::string>())].emplace_back(row["step"], value.get<double>());
    }
  }
  ASSERT_EQ(tags.size(), expected.size());
  EXPECT_EQ(expected.at("loss/train").size(), 2u);
  for (const auto& [tag, points] : expected) {
    ASSERT_TRUE(tags.contains(tag)) << tag;
    ASSERT_EQ(tags[tag].size(), points.size()) << tag;
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(tags[tag][i][0], points[i].first) << tag;
      EXPECT_EQ(tags[tag][i][1].get<float>(), static_cast<float>(points[i].second)) << tag;
    }
  }
}

TEST_F(Report, OfARunShowsItsCurvesConfusionsAndMistakes) {
  ReportedRun s{.run = read_run(run())};
  EXPECT_TRUE(s.run.notes.empty());
  EXPECT_EQ(s.run.status, "complete");
  EXPECT_EQ(s.run.command, "freight train --model 'it'\\''s <mlp>'");
  ASSERT_TRUE(s.run.best());
  s.examination = examine(s.run.model, {.examples = 5});
  EXPECT_EQ(s.examination->count, 150);
  EXPECT_NEAR(100.0 * static_cast<double>(s.examination->right()) / 150, *s.run.rows_of("test").back()->top1, 1e-4);
  ASSERT_EQ(s.examination->mistakes.size(), 5u);
  for (const Mistake& m : s.examination->mistakes) {
    EXPECT_NE(m.truth, m.predicted);
    EXPECT_GE(m.certainty, m.truth_probability);
    EXPECT_EQ(m.image.shape(), (Shape{1, 28, 28}));
  }
  EXPECT_GE(s.examination->mistakes[0].certainty, s.examination->mistakes[4].certainty);
  if (peer_python().empty()) GTEST_SKIP() << "no build/python";
  const Json page = opened({s});
  EXPECT_EQ(page["overflow"], Json::array());
  EXPECT_EQ(page["console"], Json::array());
  EXPECT_EQ(page["charts"], Json({"Loss", "Accuracy", "Learning rate", "Throughput", "Waiting for data", "ROC",
                                  "Precision and recall", "Calibration"}));
  EXPECT_EQ(page["pictures"], 5);
  EXPECT_EQ(page["images"], 5);
  EXPECT_EQ(page["cells"], 10);
  EXPECT_EQ(page["scripts"], 0);
  EXPECT_EQ(page["outcomes"], Json({"\u2713 complete"}));
}

TEST_F(Report, NothingThatAFileHoldsRunsOrBreaksThePage) {
  const std::string evil = "<img src=x onerror=\"window.broken=1\"><script>window.broken=1</script>";
  const std::string wide(300, 'W');
  ReportedRun s{.run = read_run(run())};
  s.run.path = "/tmp/" + evil;
  s.run.status = evil;
  s.run.host = wide;
  s.run.device = evil;
  s.run.command = wide + evil;
  s.run.config.emplace_back(evil, wide);
  s.run.spec = "</pre>" + evil;
  for (io::Metrics& row : s.run.rows) {
    if (row.split != "train") row.split = "te\"st";
  }
  s.run.rows.back().loss = std::nan("");
  Examination e;
  e.data = evil;
  e.text = true;
  e.count = e.held_out = 7;
  e.classes = {evil, wide, "\xff\xfe \xe2\x80\xae", "' onclick='"};
  e.predicted = {{{0, 0}, 3}, {{1, 0}, 2}, {{2, 3}, 1}, {{3, 1}, 1}};
  e.mistakes.push_back(
      {.sample = 3, .truth = 1, .predicted = 0, .certainty = 0.9, .text = "</blockquote>" + evil + wide});
  e.provenance = {{evil, wide}};
  s.examination = e;
  ReportedRun other = s;
  other.examination.reset();
  other.not_examined = "cannot find " + evil + wide;
  other.run.config[0].second = evil;
  if (peer_python().empty()) GTEST_SKIP() << "no build/python";
  const Json page = opened({s, other});
  EXPECT_EQ(page["overflow"], Json::array());
  EXPECT_EQ(page["console"], Json::array());
  EXPECT_EQ(page["broken"], 0);
  EXPECT_EQ(page["scripts"], 0);
  EXPECT_EQ(page["images"], 0);
  EXPECT_GE(page["lost"].get<int>(), 2);
  ASSERT_EQ(page["quotes"].size(), 1u);
  EXPECT_EQ(page["quotes"][0], "</blockquote>" + evil + wide);
  EXPECT_FALSE(page["differs"].empty());
}

TEST_F(Report, OfMoreClassesThanATableHoldsIsAMap) {
  Examination e;
  e.count = e.held_out = 300;
  for (int i = 0; i < 100; ++i) {
    e.classes.push_back(cat("class ", i));
    e.predicted[{i, i}] = 2;
    e.predicted[{i, (i + 1) % 100}] = 1;
  }
  ReportedRun s{.run = read_run(run())};
  s.examination = e;
  const std::string html = to_html({s});
  EXPECT_NE(html.find("Most frequent errors"), std::string::npos);
  EXPECT_NE(html.find("class 7 predicted as class 8: 1"), std::string::npos);
  EXPECT_NE(html.find("The other 80 classes"), std::string::npos);
  EXPECT_EQ(html.find("class=\"confusion\""), std::string::npos);
}

TEST_F(Report, ARunThatWasKilledIsReadAsFarAsItGoes) {
  const std::string dir = *dir_ / "killed";
  std::filesystem::create_directories(dir);
  const std::string rows = read_text(run() + "/metrics.jsonl");
  io::write_file_atomic(dir + "/metrics.jsonl", std::string_view(rows).substr(0, rows.size() - 20));
  RunRecord r = read_run(dir);
  EXPECT_EQ(r.rows.size(), 3u);
  EXPECT_EQ(r.model, "");
  const std::string notes = join(r.notes, "\n");
  EXPECT_NE(notes.find("1 line of metrics.jsonl is not a row of metrics and was skipped: line 4"), std::string::npos)
      << notes;
  EXPECT_NE(notes.find("run.json is missing"), std::string::npos) << notes;
  io::write_file_atomic(dir + "/run.json", std::string_view("[1"));
  io::write_file_atomic(dir + "/config.json", std::string_view("{\"a\": {\"b\": [1, \"x\"]}, \"threads\": 1e300}"));
  io::write_file_atomic(dir + "/model.json", std::string_view("{\"net\": tor"));  // shown as it is, it was no spec
  r = read_run(dir + "/");
  EXPECT_NE(join(r.notes, "\n").find("model.json is damaged"), std::string::npos);
  EXPECT_EQ(r.spec, "");
  EXPECT_NE(join(r.notes, "\n").find("run.json is damaged"), std::string::npos);
  EXPECT_EQ(r.config_value("a.b"), "[1,\"x\"]");
  EXPECT_NE(to_html({{.run = r}}).find("outcome unknown"), std::string::npos);
}

TEST_F(Report, OfSeveralDevicesShowsWhenAStepComputesAndSums) {
  const std::string dir = *dir_ / "devices";
  std::filesystem::create_directories(dir);
  const auto with = [&](const std::string& sums) {
    const std::string text =
        cat(R"({"timeline": {"ranks": 2, "computed_s": 0.03, "step_s": 0.05, "sums": )", sums, "}}");
    io::write_file_atomic(dir + "/run.json", std::string_view(text));
    return to_html({{.run = read_run(dir)}});
  };
  const std::string page = with(R"([{"begin_s": 0.02, "end_s": 0.04, "bytes": 1048576}])");
  EXPECT_NE(page.find("A step over 2 devices"), std::string::npos);
  EXPECT_NE(
      page.find(
          "The fastest step: 50.00 ms, of which the gradient all-reduce takes 20.00 ms, 10.00 ms of them overlapped"),
      std::string::npos);
  EXPECT_NE(page.find("waits for all-reduce, 10 ms"), std::string::npos);
  EXPECT_NE(page.find("1.0 MiB, 20 ms"), std::string::npos);
  // Times that cannot be are not drawn.
  for (const char* sums : {R"([{"begin_s": 0.02, "end_s": 0.01, "bytes": 1}])", R"([{"begin_s": 0.02, "end_s": 9}])",
                           R"([{"begin_s": -1, "end_s": 0.01}])", R"([7])", "{}"}) {
    EXPECT_EQ(with(sums).find("A step over"), std::string::npos) << sums;
  }
}

TEST_F(Report, ARunThatGoesOnIsShownByItsBestModelNotByTheFinalOneOfBefore) {
  const std::string dir = *dir_ / "goes-on";
  std::filesystem::create_directories(dir + "/best");
  for (const char* name : {"/model.safetensors", "/best/model.safetensors", "/metrics.jsonl"}) {
    io::write_file_atomic(dir + name, std::string_view(""));
  }
  for (const auto& [status, model] :
       {std::pair("running", "/best/model.safetensors"), {"complete", "/model.safetensors"}}) {
    io::write_file_atomic(dir + "/run.json", std::string_view(Json({{"status", status}}).dump()));
    EXPECT_EQ(read_run(dir).model, dir + model);
  }
}

TEST_F(Report, WhatIsNoRunIsNamed) {
  expect_error(ErrorKind::data, {"nowhere", "no such directory"}, [] { read_run("/nowhere"); });
  expect_error(ErrorKind::data, {dir_->path(), "run.json"}, [] { read_run(dir_->path()); });
  expect_error(ErrorKind::data, {"run.json", "is a file"}, [] { read_run(run() + "/run.json"); });
}

TEST_F(Report, AModelWithoutItsDataIsAnError) {
  expect_error(ErrorKind::data, {"nowhere"}, [] { examine(run() + "/model.safetensors", {.data = "nowhere"}); });
  expect_error(ErrorKind::runtime, {"stopped"},
               [] { examine(run() + "/model.safetensors", {}, [](int64_t, int64_t) { return false; }); });
  const Examination some = examine(run() + "/model.safetensors", {.samples = 10});
  EXPECT_EQ(some.count, 10);
  EXPECT_EQ(some.held_out, 150);
}

}  // namespace
}  // namespace freight::report
