// Table models as ONNX files and under verification: ONNX Runtime predicts every row as `predict` does, whatever its
// cells, and what is stored is answered again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/deploy/onnx.h"
#include "freight/deploy/predictor.h"
#include "freight/deploy/verify.h"
#include "freight/tables/xgboost_library.h"
#include "onnx_runtime.h"
#include "tests/support/mixed_table.h"

namespace freight::deploy {
namespace {

using freight::testing::expect_error;
using freight::testing::peer_python;
using freight::testing::TemporaryDir;
using freight::testing::Told;

struct Case {
  const char* model;
  Told told;
  const char* objective = "auto";
};

constexpr Case kLinear[] = {
    {"linear", Told::value}, {"poisson", Told::count}, {"logistic", Told::two}, {"logistic", Told::three}};
constexpr Case kTrees[] = {{"gbdt", Told::two},
                           {"gbdt", Told::three},
                           {"gbdt", Told::value, "squarederror"},
                           {"gbdt", Told::count, "poisson"},
                           {"forest", Told::two}};

class RowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const Case& c : kLinear) cases_.push_back(c);
    try {
      tables::xgboost();
      cases_.insert(cases_.end(), std::begin(kTrees), std::end(kTrees));
    } catch (const Error&) {  // linear models are checked without it
    }
  }
  std::string trained(const Case& c) {
    const std::string csv = dir_ / cat(static_cast<int>(c.told), ".csv");
    freight::testing::write_mixed_table(csv, c.told);
    return freight::testing::trained_on_table(csv, c.model, dir_ / cat("run", runs_++), [&](train::Config& config) {
      config.objective = c.objective;
      if (std::string(c.model) == "gbdt") config.rounds = 20;
      if (std::string(c.model) == "forest") config.trees = 10;
    });
  }
  TemporaryDir dir_;
  std::vector<Case> cases_;
  int runs_ = 0;
};

// Cells as docs/deploy.md has them, written apart from the exporter's own code: times less what the file says.
Array features_by_hand(const Array& rows, const std::vector<store::Column>& columns, double time_origin) {
  Array out(DType::f32, rows.shape());
  const int64_t width = rows.shape()[1];
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const bool time = columns[static_cast<size_t>(i % width)].name == "time";
    out.data<float>()[i] = static_cast<float>(rows.data<double>()[i] - (time ? time_origin : 0));
  }
  return out;
}

TEST_F(RowsTest, OnnxRuntimeAnswersEveryRowAlike) {
  if (peer_python().empty()) GTEST_SKIP() << "no build/python";
  test::Runtime runtime;
  std::vector<Array> need;
  for (const Case& c : cases_) {
    const store::Bundle bundle = store::load_bundle(trained(c));
    const std::string file = runtime / cat(runs_, ".onnx");
    const OnnxSummary s = export_onnx(bundle, file);
    EXPECT_EQ(s.input, "features f32 (N, 4)");
    EXPECT_EQ(s.output, cat(bundle.rows->predicts_classes() ? "probabilities" : "values", " f32 (N, ",
                            bundle.rows->outputs(), ")"));
    ASSERT_EQ(s.notes.size(), 1u) << "times are told apart by what is subtracted";
    const double origin = std::stod(s.notes[0].substr(s.notes[0].rfind(' ')));
    EXPECT_NEAR(origin, 1.7e9, 100);
    // The stored rows, with missing cells and unknown words, and each word of the columns in turn.
    Array rows(DType::f64, {400, 4});
    for (int64_t i = 0; i < 400; ++i) {
      std::copy_n(bundle.samples.rows.data<double>() + i % 64 * 4, 4, rows.data<double>() + i * 4);
      for (int64_t k = 2; k < 4; ++k) {
        const auto words = static_cast<int64_t>(bundle.columns[static_cast<size_t>(k)].levels.size());
        if (i >= 64) rows.data<double>()[i * 4 + k] = static_cast<double>(i % (words + 1) - 1);
      }
    }
    runtime.add(file, features_by_hand(rows, bundle.columns, origin));
    need.push_back(bundle.rows->run(rows));
  }
  const std::vector<Array> got = runtime.results();
  ASSERT_EQ(got.size(), need.size());
  for (size_t m = 0; m < got.size(); ++m) {
    ASSERT_EQ(got[m].shape(), need[m].shape());
    double far = 0;
    for (int64_t i = 0; i < got[m].numel(); ++i) {
      const auto a = static_cast<double>(got[m].data<float>()[i]), b = static_cast<double>(need[m].data<float>()[i]);
      far = std::isnan(a) ? INFINITY : std::max(far, std::fabs(a - b) / std::max(1.0, std::fabs(b)));
    }
    EXPECT_LT(far, 1e-5) << cases_[m].model << " " << cases_[m].objective << " " << static_cast<int>(cases_[m].told);
  }
}

struct Spread {
  const char* name;
  double mean, deviation;
  bool subtracted;
};
constexpr Spread kSpreads[] = {
    {"tenth", 0.1, 1e-10, true}, {"thousandth", -0.001, 1e-9, true}, {"part", 5.3, 1e-9, true},
    {"near", 0.75, 1e-6, true},  {"time", 1700000000, 25, true},     {"tiny", 2e-20, 1e-29, true},
    {"fine", 0.5, 0.01, false},  {"pressure", 1013, 6, false},       {"small", 1e-12, 1e-12, false}};

TEST_F(RowsTest, AColumnOfAnySpreadIsExportedToLinearModels) {
  if (peer_python().empty()) GTEST_SKIP() << "no build/python";
  constexpr auto kWidth = static_cast<int64_t>(std::size(kSpreads));
  test::Runtime runtime;
  std::vector<Array> need;
  const std::pair<const char*, Told> models[] = {
      {"linear", Told::value}, {"ridge", Told::value}, {"logistic", Told::two}, {"poisson", Told::count}};
  for (const auto& [model, told] : models) {
    SCOPED_TRACE(model);
    std::string csv;
    for (const Spread& s : kSpreads) csv += cat(s.name, ",");
    csv += "y\n";
    Array rows(DType::f64, {200, kWidth});
    for (int64_t i = 0; i < 200; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < kWidth; ++c) {
        const Spread& s = kSpreads[c];
        const double z = static_cast<double>((i * (37 + 6 * c) + c) % 101 - 50) / 29;
        rows.data<double>()[i * kWidth + c] = s.mean + s.deviation * z;
        csv += cat(s.mean + s.deviation * z, ",");
        sum += z;
      }
      const double y = sum + static_cast<double>(i * 29 % 41 - 20) / 7;
      csv += told == Told::two ? (y > 0 ? "rose" : "daisy") : told == Told::count ? cat(y > 0 ? 1 + i % 3 : 0) : cat(y);
      csv += '\n';
    }
    const std::string table = dir_ / cat(model, ".csv"), file = runtime / cat(model, ".onnx");
    io::write_file_atomic(table, std::string_view(csv));
    const store::Bundle bundle =
        store::load_bundle(freight::testing::trained_on_table(table, model, dir_ / cat("spread", model)));
    std::vector<std::string> notes = export_onnx(bundle, file).notes;
    Array features(DType::f32, rows.shape());
    for (int64_t c = 0; c < kWidth; ++c) {
      const std::string start = cat("column ", kSpreads[c].name, ":");
      const auto note =
          std::find_if(notes.begin(), notes.end(), [&](const std::string& n) { return n.starts_with(start); });
      const double origin = note == notes.end() ? 0 : std::stod(note->substr(note->rfind(' ')));
      EXPECT_EQ(note != notes.end(), kSpreads[c].subtracted) << kSpreads[c].name;
      for (int64_t i = c; i < rows.numel(); i += kWidth) {
        features.data<float>()[i] = static_cast<float>(rows.data<double>()[i] - origin);
      }
    }
    runtime.add(file, features);
    need.push_back(bundle.rows->run(rows));
  }
  const std::vector<Array> got = runtime.results();
  ASSERT_EQ(got.size(), need.size());
  for (size_t m = 0; m < got.size(); ++m) {
    EXPECT_LT(test::relative_difference(got[m], need[m]), 1e-5) << models[m].first;
  }
}

TEST_F(RowsTest, WhatIsStoredIsVerified) {
  for (const Case& c : cases_) {
    SCOPED_TRACE(cat(c.model, static_cast<int>(c.told)));
    const std::vector<Claim> claims = verify({}, store::load_bundle(trained(c)), {.python = peer_python()});
    ASSERT_EQ(claims.size(), 6u);
    for (const Claim& claim : claims) {
      const bool unchecked = claim.name == "onnx" && peer_python().empty();
      EXPECT_EQ(claim.state, unchecked ? Claim::State::unchecked : Claim::State::holds)
          << claim.name << " " << claim.difference << " " << claim.note;
    }
  }
}

TEST_F(RowsTest, AModelThatAnswersOtherwiseFails) {
  const std::string path = trained({"linear", Told::value});
  store::Bundle bundle = store::load_bundle(path);
  ASSERT_TRUE(bundle.samples.there());
  Array predictions(DType::f32, bundle.samples.predictions.shape());
  std::copy_n(bundle.samples.predictions.data<float>(), predictions.numel(), predictions.data<float>());
  predictions.data<float>()[5] *= 1.001f;
  bundle.samples.predictions = predictions;
  const std::vector<Claim> claims = verify({}, bundle, {});
  EXPECT_EQ(claims[0].name, "replay");
  EXPECT_EQ(claims[0].state, Claim::State::fails);
  EXPECT_EQ(claims[1].state, Claim::State::holds);
  bundle.samples = {};
  EXPECT_EQ(verify({}, bundle, {})[0].state, Claim::State::unchecked);
  expect_error(ErrorKind::usage, {"--data", "linear"}, [&] { verify({}, bundle, {.data = "digits"}); });
}

TEST_F(RowsTest, SamplesAreNobodysRowsAndTheSameEachTime) {
  const std::vector<store::Column> columns = {{.name = "a"}, {.name = "w", .words = true, .levels = {"x", "y"}}};
  const Array seen = Array::of<double>({3, 0, 7, 1, NAN, 0}, {3, 2});
  const Array rows = store::drawn_rows(columns, seen), again = store::drawn_rows(columns, seen);
  ASSERT_EQ(rows.shape(), (Shape{64, 2}));
  int64_t missing = 0, unknown = 0;
  for (int64_t i = 0; i < 64; ++i) {
    const double v = rows.data<double>()[2 * i], w = rows.data<double>()[2 * i + 1];
    EXPECT_TRUE(std::isnan(v) || (v >= 3 && v <= 7)) << v;
    EXPECT_TRUE(std::isnan(w) || w == -1 || w == 0 || w == 1) << w;
    missing += std::isnan(v) || std::isnan(w);
    unknown += w == -1;
    EXPECT_TRUE(v == again.data<double>()[2 * i] || std::isnan(v));
  }
  EXPECT_GT(missing, 0);
  EXPECT_GT(unknown, 0);
}

TEST_F(RowsTest, WhatHasNoFormIsRefusedByName) {
  const store::Bundle mean = store::load_bundle(trained({"baseline", Told::two}));
  expect_error(ErrorKind::usage, {"baseline", "no form"}, [&] { export_onnx(mean, dir_ / "m.onnx"); });
  const store::Bundle bundle = store::load_bundle(trained({"logistic", Told::two}));
  expect_error(ErrorKind::usage, {"preprocessing", "logistic"},
               [&] { export_onnx(bundle, dir_ / "m.onnx", {.preprocessing = true}); });
  expect_error(ErrorKind::usage, {"logits", "logistic"},
               [&] { export_onnx(bundle, dir_ / "m.onnx", {.softmax = false}); });
  EXPECT_FALSE(io::file_exists(dir_ / "m.onnx"));
}

}  // namespace
}  // namespace freight::deploy
