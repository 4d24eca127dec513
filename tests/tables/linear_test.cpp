// Linear models of tables: coefficients and standard errors equal scikit-learn's (1.8, tol 1e-12, the same encoded
// matrix), degenerate tables have finite predictions, and the learners go the way of others.
#include "freight/tables/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/io/file.h"
#include "freight/tables/learners.h"
#include "freight/tables/row_parts.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;
using freight::testing::TemporaryDir;
using Doubles = std::vector<double>;

double rounded(double v) { return std::round(v * 1000) / 1000; }

// 60 rows of two numbers and a word; what is told depends on all of them and on something else.
struct Example {
  store::RowShape shape{
      .columns = {{.name = "a"}, {.name = "b"}, {.name = "c", .words = true, .levels = {"blue", "green", "red"}}},
      .classes = {}};
  store::Rows rows{Array(DType::f64, {60, 3}), Array(DType::f32, {60})};
  Doubles values;
  Example() {
    for (int i = 0; i < 60; ++i) {
      double* const cells = rows.values.array().data<double>() + i * 3;
      cells[0] = i * 37 % 61 / 10.0;
      cells[1] = rounded(std::sin(i * 1.0) * 3);
      cells[2] = i * 7 % 3;
      values.push_back(
          rounded(2 + 0.5 * cells[0] - 1.2 * cells[1] + (cells[2] == 2 ? 0.7 : 0) + rounded(std::cos(i * 3.0))));
      rows.labels.data<float>()[i] = static_cast<float>(values.back());
    }
  }
  template <class F>
  void tell(const F& of) {
    rows.labels = Array(DType::i64, {60});
    for (size_t i = 0; i < 60; ++i) rows.labels.data<int64_t>()[i] = of(values[i]);
  }
};

LinearFit fitted(store::RowLink link, const store::RowShape& shape, const store::Rows& rows, int64_t classes,
                 double lambda) {
  const Design design(shape, rows);
  return fit_linear(link, design, rows, classes, lambda, [](const LinearFit&, bool) { return true; });
}

void expect_near(const Array& got, const Doubles& need, double tolerance) {
  ASSERT_EQ(got.numel(), static_cast<int64_t>(need.size()));
  for (size_t i = 0; i < need.size(); ++i) EXPECT_NEAR(got.data<double>()[i], need[i], tolerance) << i;
}

TEST(LinearFits, LeastSquaresIsThatOfScikitLearnWithItsErrors) {
  const Example e;
  const LinearFit plain = fitted(store::RowLink::identity, e.shape, e.rows, 0, 0);
  expect_near(plain.intercepts, {3.6348000238339107}, 1e-10);
  expect_near(plain.weights, {0.843773555898, -2.542199103853, -0.073837477561, 0.708568395286}, 1e-10);
  expect_near(plain.errors, {0.092827813904, 0.092848031257, 0.092854238684, 0.227439082679, 0.227450367303}, 1e-10);
  EXPECT_EQ(plain.rank, 5);
  const LinearFit ridge = fitted(store::RowLink::identity, e.shape, e.rows, 0, 3);
  expect_near(ridge.intercepts, {3.6348000238339107}, 1e-10);
  expect_near(ridge.weights, {0.805779444919, -2.420681464179, -0.125131461601, 0.557068671812}, 1e-10);
}

TEST(LinearFits, ARowCountsAsOftenAsItsWeightSays) {
  Example e;
  e.tell([](double v) { return v > 3 ? 1 : 0; });
  store::Rows classes = e.rows;
  for (const store::RowLink link : {store::RowLink::identity, store::RowLink::logistic}) {
    const Example values;
    store::Rows rows = link == store::RowLink::logistic ? classes : values.rows;
    rows.weights = Array(DType::f32, {60});
    std::vector<int64_t> again;
    for (int64_t i = 0; i < 60; ++i) {
      rows.weights->data<float>()[i] = static_cast<float>(i % 3);
      for (int64_t k = 0; k < i % 3; ++k) again.push_back(i);
    }
    const store::Rows repeated = [&] {
      store::Rows out = tables::rows_at(rows, again);
      out.weights.reset();
      return out;
    }();
    const auto fit = [&](const store::Rows& of) { return fitted(link, e.shape, of, 2, 0.5); };
    const LinearFit weighted = fit(rows), often = fit(repeated),
                    plain = fit(link == store::RowLink::logistic ? classes : values.rows);
    expect_near(weighted.weights, often.weights.to_vector<double>(), 1e-9);
    expect_near(weighted.intercepts, often.intercepts.to_vector<double>(), 1e-9);
    expect_near(weighted.errors, often.errors.to_vector<double>(), 1e-9);
    EXPECT_GT(std::fabs(weighted.intercepts.data<double>()[0] - plain.intercepts.data<double>()[0]), 1e-3);
  }
}

TEST(LinearFits, LogisticRegressionIsThatOfScikitLearn) {
  Example e;
  Doubles sorted = e.values;
  std::sort(sorted.begin(), sorted.end());
  const double median = (sorted[29] + sorted[30]) / 2;
  e.tell([&](double v) { return v > median; });
  const LinearFit two = fitted(store::RowLink::logistic, e.shape, e.rows, 2, 1);
  expect_near(two.intercepts, {0.037159728328}, 1e-6);
  expect_near(two.weights, {0.369686987421, -2.777829603033, 0.497548183047, 0.198819183995}, 1e-6);
  EXPECT_GT(two.errors.data<double>()[0], 0);
  e.tell([](double v) { return v < 1.5 ? 0 : v < 5 ? 1 : 2; });
  const LinearFit three = fitted(store::RowLink::softmax, e.shape, e.rows, 3, 2);
  expect_near(three.intercepts, {-0.779689402175, 0.79357771033, -0.013888308154}, 1e-5);
  expect_near(three.weights,
              {-0.736430106572, 1.715168610385, 0.163915396211, -0.081198126576, 0.083692138672, 0.097404098298,
               0.202016543906, -0.194235756042, 0.6527379679, -1.812572708683, -0.365931940117, 0.275433882618},
              1e-5);
}

TEST(LinearFits, PoissonRegressionIsThatOfScikitLearn) {
  Example e;
  for (size_t i = 0; i < 60; ++i)
    e.rows.labels.data<float>()[i] = static_cast<float>(std::round(std::exp(e.values[i] / 4)));
  const LinearFit plain = fitted(store::RowLink::exponential, e.shape, e.rows, 0, 0);
  expect_near(plain.intercepts, {0.9378952796013678}, 1e-6);
  expect_near(plain.weights, {0.209356975842, -0.615325871885, 0.009039040471, 0.201347235759}, 1e-6);
  const LinearFit held = fitted(store::RowLink::exponential, e.shape, e.rows, 0, 2);
  expect_near(held.intercepts, {0.943436234788199}, 1e-6);
  expect_near(held.weights, {0.207069483216, -0.606871520715, 0.000830694085, 0.189190841917}, 1e-6);
  e.rows.labels.data<float>()[3] = -1;
  expect_error(ErrorKind::data, {"expected none below 0"},
               [&] { fitted(store::RowLink::exponential, e.shape, e.rows, 0, 0); });
}

TEST(LinearFits, ErrorsOfSoftmaxAreThoseOfTheLogisticFunctionForTwoClasses) {
  Example e;
  e.tell([](double v) { return v > 3; });
  const LinearFit one = fitted(store::RowLink::logistic, e.shape, e.rows, 2, 0),
                  both = fitted(store::RowLink::softmax, e.shape, e.rows, 2, 0);
  // Softmax halves the difference of two classes between them, and so its errors.
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(both.errors.data<double>()[5 + i], one.errors.data<double>()[i] / 2, 1e-6);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(both.weights.data<double>()[4 + i], one.weights.data<double>()[i] / 2, 1e-6);
}

TEST(LinearFits, ColumnsThatDependOnEachOtherHaveTheAnswerOfLeastNorm) {
  Example e;
  e.shape.columns.push_back({.name = "a again"});
  Array wide(DType::f64, {60, 4});
  for (int i = 0; i < 60; ++i) {
    std::copy_n(e.rows.values.array().data<double>() + i * 3, 3, wide.data<double>() + i * 4);
    wide.data<double>()[i * 4 + 3] = 2 * wide.data<double>()[i * 4];
  }
  e.rows.values = wide;
  const LinearFit twice = fitted(store::RowLink::identity, e.shape, e.rows, 0, 0);
  EXPECT_EQ(twice.rank, 5);
  EXPECT_NEAR(twice.weights.data<double>()[0], 0.843773555898 / 2, 1e-9);
  EXPECT_NEAR(twice.weights.data<double>()[4], 0.843773555898 / 2, 1e-9);
  for (int64_t i = 0; i < twice.errors.numel(); ++i) EXPECT_EQ(twice.errors.data<double>()[i], 0);
  e.tell([](double v) { return v > 3; });
  const LinearFit odds = fitted(store::RowLink::logistic, e.shape, e.rows, 2, 0);
  EXPECT_NEAR(odds.weights.data<double>()[0], odds.weights.data<double>()[4], 1e-6);
}

TEST(Designs, MissingCellsAndUnknownWordsCountAsTheMean) {
  const double nan = std::nan("");
  const store::RowShape shape{
      .columns = {{.name = "a"}, {.name = "c", .words = true, .levels = {"x", "y"}}, {.name = "k"}}, .classes = {}};
  Array rows(DType::f64, {4, 3});
  const Doubles cells = {1, 0, 5, 3, 1, 5, nan, 1, 5, 5, 1, 5};
  std::copy(cells.begin(), cells.end(), rows.data<double>());
  const Design design(shape, store::Rows{rows, Array(DType::f32, {4})});
  ASSERT_EQ(design.width(), 3);  // a, a is missing, c=y; k never changes
  EXPECT_EQ(name_of(design.terms()[1], shape.columns), "a is missing");
  EXPECT_EQ(name_of(design.terms()[2], shape.columns), "c=y");
  Doubles numbers(3);
  const Doubles missing = {nan, store::kUnknownWord, 5}, known = {-1, 0, 7};
  design.encode(missing.data(), numbers.data());
  EXPECT_EQ(numbers, (Doubles{0, 0.75, 0}));
  design.encode(known.data(), numbers.data());  // -1 is a number here, no unknown word
  EXPECT_NEAR(numbers[0], -4 / std::sqrt(8.0 / 3), 1e-12);
  EXPECT_EQ(numbers[1], -0.25);
  EXPECT_EQ(numbers[2], -0.75);
}

class LinearRuns : public ::testing::Test {
 protected:
  LinearRuns() {
    register_learners();
    const Example e;
    std::string csv = "a,b,colour,y\n";
    for (size_t i = 0; i < 60; ++i) {
      const double* const cells = e.rows.values.array().data<double>() + i * 3;
      csv += cat(cells[0], ",", cells[1], ",", e.shape.columns[2].levels[static_cast<size_t>(cells[2])], ",",
                 e.values[i], "\n");
    }
    io::write_file_atomic(dir_ / "values.csv", std::string_view(csv));
    config_.data = dir_ / "values.csv";
    config_.output_dir = dir_ / "run";
  }
  train::Result run(const std::string& model) {
    train::Observer silent;
    config_.model = model;
    config_.overwrite = true;
    return train::train(config_, silent, {}, {"train"});
  }
  TemporaryDir dir_;
  train::Config config_;
};

TEST_F(LinearRuns, ARunIsBetterThanTheBaselineAndItsFileAnswersAlike) {
  const double baseline = run("baseline").test.loss;
  const train::Result result = run("linear");
  EXPECT_LT(result.test.loss, baseline / 4);
  const store::Bundle bundle = store::load_bundle(result.model_path);
  ASSERT_TRUE(bundle.rows);
  const train::MeasuredRows held = train::learner_of(bundle).rows_to_measure(bundle, result.model_path, {});
  EXPECT_NEAR(tables::evaluate(*bundle.rows, held.rows).loss, result.test.loss, 1e-12);
  const std::vector<std::string> lines = bundle.rows->lines();
  ASSERT_GE(lines.size(), 3u);
  EXPECT_NE(lines[1].find("b  -1.19"), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find(" +- "), std::string::npos) << lines[1];
  EXPECT_LE(lines[1].size(), std::string("b  -1.19000 +- 0.000123456").size()) << "six digits each: " << lines[1];
}

TEST_F(LinearRuns, ALearnerOfClassesRefusesValuesAndTheOtherWayRound) {
  expect_error(ErrorKind::usage, {"expected linear, ridge or poisson"}, [&] { run("logistic"); });
  config_.target = "colour";
  expect_error(ErrorKind::data, {"column colour contains categories, the model is for regression"},
               [&] { run("ridge"); });
  EXPECT_GT(run("logistic").test.count, 0);
}

TEST_F(LinearRuns, FewWholeNumbersAreValuesToALearnerOfValues) {
  std::string csv = "a,goals\n";
  for (int i = 0; i < 60; ++i) csv += cat(i % 7, ",", i % 7 / 2, "\n");
  io::write_file_atomic(dir_ / "goals.csv", std::string_view(csv));
  config_.data = dir_ / "goals.csv";
  const double baseline = run("baseline").test.loss;
  EXPECT_TRUE(store::load_bundle(run("poisson").model_path).classes.empty());
  EXPECT_LT(run("linear").test.loss, baseline);
}

TEST_F(LinearRuns, ADamagedFileIsRefused) {
  const std::string path = run("ridge").model_path;
  const store::Bundle bundle = store::load_bundle(path);
  io::SafeTensors good;
  bundle.rows->write(good);
  const store::RowShape shape{.columns = bundle.columns, .classes = {}};
  EXPECT_TRUE(read_linear(good, "m", shape));
  for (size_t i = 0; i < good.tensors.size(); ++i) {
    io::SafeTensors bad = good;
    bad.tensors.erase(bad.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    expect_error(ErrorKind::checkpoint, {good.tensors[i].first}, [&] { read_linear(bad, "m", shape); });
    bad = good;
    bad.tensors[i].second = Array(DType::f32, {2});
    expect_error(ErrorKind::checkpoint, {good.tensors[i].first}, [&] { read_linear(bad, "m", shape); });
  }
  io::SafeTensors bad = good;
  bad.metadata["linear.link"] = "probit";
  expect_error(ErrorKind::checkpoint, {"linear.link"}, [&] { read_linear(bad, "m", shape); });
  bad = good;
  bad.metadata["linear.link"] = "softmax";
  expect_error(ErrorKind::checkpoint, {"does not predict 0 classes"}, [&] { read_linear(bad, "m", shape); });
  for (const int64_t column : {-1, 3}) {
    bad = good;
    for (auto& [name, tensor] : bad.tensors) {
      if (name != "linear.terms") continue;
      tensor = tensor.clone();
      tensor.data<int64_t>()[0] = column;
    }
    expect_error(ErrorKind::checkpoint, {"is of no column"}, [&] { read_linear(bad, "m", shape); });
  }
}

}  // namespace
}  // namespace freight::tables
