// `freight linalg`: values, residuals, files and refusals.
#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "freight/io/npy.h"
#include "npy_folder.h"
#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

class LinalgCommand : public NpyFolder {};

Json computed(std::vector<std::string> args) {
  args.insert(args.begin(), "linalg");
  args.push_back("--json");
  const Ran r = run_freight(args);
  EXPECT_EQ(r.code, 0) << r.err;
  return r.code == 0 ? Json::parse(r.out) : Json();
}

TEST_F(LinalgCommand, SolvesAndSaysHowFarTheAnswerCanBeTrusted) {
  const std::string a = npy("a", {2, 1, 1, 3}, {2, 2}), b = npy("b", {3, 5}, {2});
  const std::string x = dir_ + "/x.npy";
  const Json j = computed({"solve", a, b, "-o", x});
  const Array found = io::load_npy(x);
  ASSERT_EQ(found.shape(), (Shape{2}));
  EXPECT_NEAR(found.data<double>()[0], 0.8, 1e-15);
  EXPECT_NEAR(found.data<double>()[1], 1.4, 1e-15);
  EXPECT_LT(j.at("scaled_residual").get<double>(), 30);
  EXPECT_NEAR(j.at("condition").get<double>(), 4 * 0.8, 1e-12);  // norms of columns: 4, and 4/5 of the inverse
  for (const char* kind : {"pos", "sym"}) {
    const Json same = computed({"solve", a, b, "--assume", kind});
    EXPECT_NEAR(same.at("results")[0].at("values")[0].get<double>(), 0.8, 1e-14) << kind;
  }
  // The triangles of [[2, 1], [1, 3]] are [[2, 1], [0, 3]] and [[2, 0], [1, 3]]; solved by hand.
  const std::pair<const char*, std::vector<double>> triangles[] = {{"upper_triangular", {2 / 3.0, 5 / 3.0}},
                                                                   {"lower_triangular", {1.5, 3.5 / 3}}};
  for (const auto& [kind, need] : triangles) {
    const Json one = computed({"solve", a, b, "--assume", kind});
    for (size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(one.at("results")[0].at("values")[i].get<double>(), need[i], 1e-14) << kind;
    EXPECT_LT(one.at("scaled_residual").get<double>(), 30) << kind;
  }
}

TEST_F(LinalgCommand, FactorsMultiplyToTheMatrix) {
  const std::string a = npy("square", {4, 1, 2, 1, 5, 3, 2, 3, 6}, {3, 3});
  const std::string tall = npy("tall", {1, 2, 3, 4, 5, 7, 7, 8, 9.5, 1, 0, 2}, {2, 3, 2});
  for (const char* op : {"lu", "cholesky", "qr", "svd", "eigh", "eig", "inv"}) {
    EXPECT_LT(computed({op, a}).at("scaled_residual").get<double>(), 30) << op;
  }
  for (const char* op : {"lu", "qr", "svd"}) {
    EXPECT_LT(computed({op, tall}).at("scaled_residual").get<double>(), 30) << op;
  }
  for (const char* op : {"qr", "svd"}) {
    EXPECT_LT(computed({op, tall, "--no-reduced"}).at("scaled_residual").get<double>(), 30) << op;
  }
  for (const char* op : {"cholesky", "eigh"}) {
    EXPECT_LT(computed({op, a, "--upper"}).at("scaled_residual").get<double>(), 30) << op;
  }
  EXPECT_NEAR(computed({"det", a}).at("results")[0].at("values").get<double>(), 70, 1e-12);
  EXPECT_EQ(computed({"rank", tall}).at("results")[0].at("values"), Json({2, 2}));
  const std::string file = dir_ + "/factors.npz";
  computed({"lu", a, "-o", file});
  EXPECT_EQ(io::load_npz(file).size(), 3u);
}

TEST_F(LinalgCommand, IntegersAreComputedInF64AndF32StaysF32) {
  const std::string path = dir_ + "/i.npy";
  io::save_npy(path, Array::of(std::vector<int32_t>{2, 0, 0, 4}, {2, 2}));
  EXPECT_EQ(computed({"inv", path}).at("results")[0].at("type"), "f64[2,2]");
  io::save_npy(path, Array::of(std::vector<float>{2, 0, 0, 4}, {2, 2}));
  EXPECT_EQ(computed({"inv", path}).at("results")[0].at("type"), "f32[2,2]");
}

// One right side of one axis for a batch of matrices: the solutions are vectors, and the residual is theirs.
TEST_F(LinalgCommand, SolvesABatchForOneVector) {
  const std::string b = npy("b", {2, 4}, {2});
  const std::string three = npy("three", {2, 0, 0, 4, 1, 1, 0, 1, 1, 0, 0, 1}, {3, 2, 2});
  const std::string two = npy("two", {3, 1, 1, 4, 1, 5, -2, 1}, {2, 2, 2});
  const Json j = computed({"solve", three, b});
  EXPECT_EQ(j.at("results")[0].at("values"), Json({1.0, 1.0, -2.0, 4.0, 2.0, 4.0}));
  EXPECT_EQ(j.at("scaled_residual"), 0);
  // That of the second matrix is 4, of which the estimate is seldom below a third; those of the others are 2 and 1.
  EXPECT_GT(j.at("condition").get<double>(), 2.5);
  EXPECT_LE(j.at("condition").get<double>(), 4 + 1e-12);
  EXPECT_LT(computed({"solve", two, b}).at("scaled_residual").get<double>(), 30);
  for (const char* kind : {"sym", "upper_triangular", "lower_triangular"}) {
    EXPECT_LT(computed({"solve", two, b, "--assume", kind}).at("scaled_residual").get<double>(), 30) << kind;
  }
  EXPECT_EQ(computed({"lstsq", three, b}).at("results")[2].at("values"), Json({2, 2, 2}));
}

// The residual of a small matrix counts beside that of a large one.
TEST_F(LinalgCommand, ResidualsAreThoseOfTheWorstMatrixOfABatch) {
  const std::string a = npy("a", {1, 2, 3, 4, 5, 6, 7, 8, 9, 1e200, 0, 0, 0, 1e200, 0, 0, 0, 1e200}, {2, 3, 3});
  const Json j = computed({"inv", a});
  EXPECT_GT(j.at("condition").get<double>(), 1e15);
  EXPECT_GT(j.at("scaled_residual").get<double>(), 0);
}

TEST_F(LinalgCommand, AnInverseOfASingularMatrixIsReported) {
  const char* const reported = "singular to working precision, no digit of the inverse need be right";
  const std::string near = npy("near", {1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}), fine = npy("fine", {2, 0, 0, 4}, {2, 2});
  EXPECT_NE(run_freight({"linalg", "inv", near}).out.find(reported), std::string::npos);
  const Ran r = run_freight({"linalg", "inv", fine});
  EXPECT_EQ(r.out.find("singular"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("condition about 2 in the 1-norm"), std::string::npos) << r.out;
}

// JSON has no infinities: they are words there, and the terminal shows the same.
TEST_F(LinalgCommand, NumbersThatAreNotFiniteAreTold) {
  const std::string large = npy("large", {1e200, 0, 0, 1e200}, {2, 2}), ones = npy("ones", {1, 1, 1, 1}, {2, 2});
  const std::string zeros = npy("zeros", {0, 0, 0, 0}, {2, 2});
  const auto values = [](const std::vector<std::string>& args, size_t i = 0) {
    return computed(args).at("results")[i].at("values");
  };
  EXPECT_EQ(values({"det", large}), "inf");
  EXPECT_EQ(values({"det", npy("negative", {-1e200, 0, 0, 1e200}, {2, 2})}), "-inf");
  EXPECT_EQ(values({"cond", zeros}), "inf");
  EXPECT_EQ(values({"det", zeros}, 2), "-inf");
  EXPECT_EQ(values({"cond", npy("batch", {0, 0, 0, 0, 2, 0, 0, 1}, {2, 2, 2})}), Json({"inf", 2.0}));
  const std::string text = run_freight({"linalg", "det", large}).out;
  EXPECT_NE(text.find("f64[]  inf\n"), std::string::npos) << text;
  // The least singular value of a matrix of ones is 0 but for rounding.
  const Json c = values({"cond", ones});
  EXPECT_TRUE(c == "inf" || c.get<double>() > 1e15) << c;
}

TEST_F(LinalgCommand, ResultsKeepTheirAxesAndWholeNumbersStayWhole) {
  const std::string one = npy("one", {4}, {1, 1}), good = npy("good", {2, 0, 0, 4}, {2, 2});
  EXPECT_EQ(computed({"inv", one}).at("results")[0].at("values"), Json::array({0.25}));
  EXPECT_EQ(computed({"det", one}).at("results")[0].at("values"), 4.0);
  const Json rank = computed({"rank", good}).at("results")[0].at("values");
  EXPECT_TRUE(rank.is_number_integer()) << rank;
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(computed({"rank", npy("batch", {4}, {1, 1, 1})}).at("results")[0].at("values").dump(), "[1]");
}

// More than 16 numbers are in the file, in JSON, or the table says how to get them.
TEST_F(LinalgCommand, LargeResultsAreNotDroppedSilently) {
  std::vector<double> values(25);
  for (size_t i = 0; i < 25; i += 6) values[i] = 2;
  const std::string a = npy("a", values, {5, 5});
  const std::string text = run_freight({"linalg", "inv", a}).out;
  EXPECT_NE(text.find("25 numbers, not shown: -o FILE.npy writes them"), std::string::npos) << text;
  EXPECT_NE(run_freight({"linalg", "lu", a}).out.find("-o FILE.npz writes them"), std::string::npos);
  EXPECT_EQ(computed({"inv", a}).at("results")[0].at("values").size(), 25u);
  EXPECT_FALSE(computed({"inv", a, "-o", dir_ + "/i.npy"}).at("results")[0].contains("values"));
}

// Plans run with subnormal numbers flushed to 0: no message says that such a pivot is exactly 0.
TEST_F(LinalgCommand, SubnormalPivotsAreNotCalledZero) {
  const std::string tiny = npy("tiny", {1, 0, 0, 1e-310}, {2, 2}), b = npy("b", {1, 1}, {2});
  for (const std::vector<std::string>& args : {std::vector<std::string>{"linalg", "inv", tiny},
                                               {"linalg", "solve", tiny, b},
                                               {"linalg", "solve", tiny, b, "--assume", "upper_triangular"}}) {
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 3) << r.err;
    EXPECT_NE(r.err.find("is 0, or below 2.2e-308 and counts as 0"), std::string::npos) << r.err;
  }
}

TEST_F(LinalgCommand, RefusesByName) {
  const std::string zero = npy("zero", {1, 2, 2, 4}, {2, 2}), wide = npy("wide", {1, 2, 3, 4, 5, 6}, {2, 3});
  const std::string b = npy("right", {1, 2}, {2}), out = dir_ + "/out.npy";
  const std::string negative = npy("negative", {1, 2, 2, 1}, {2, 2}), small = npy("small", {1e-300, 0, 0, 1}, {2, 2});
  const std::string holed = npy("holed", {1, 2, std::nan(""), 4}, {2, 2}), large = npy("large", {1e300, 1}, {2});
  const std::string endless = npy("endless", {1, -HUGE_VAL}, {2});
  struct Row {
    std::vector<std::string> args;
    int code;
    std::string part;
  };
  const std::vector<Row> rows = {{{"solve", zero, b}, 3, "singular"},
                                 {{"cholesky", negative}, 3, "positive definite"},
                                 {{"inv", holed}, 3, "holed.npy: element (1, 0) is nan: need finite numbers"},
                                 {{"solve", small, endless}, 3, "endless.npy: element (1) is -inf"},
                                 {{"solve", small, large}, 6, "solve: element (0) is inf of x f64[2]: need operands"},
                                 {{"inv", wide}, 2, "square"},
                                 {{"solve", wide, b}, 2, "square"},
                                 {{"solve", zero}, 2, "need two: A.npy B.npy"},
                                 {{"det", zero, b}, 2, "need one: A.npy"},
                                 {{"cubic", zero}, 2, "need one of solve, lstsq"},
                                 {{"lu", zero, "-o", out}, 2, "need a name that ends in .npz"},
                                 {{"inv", "/nowhere.npy"}, 3, "/nowhere.npy"},
                                 {{"inv", zero, "-o", zero}, 2, "--output"},
                                 {{"inv", zero, "--device", "nothing"}, 4, "nothing"}};
  for (const Row& row : rows) {
    std::vector<std::string> args = {"linalg"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, row.code) << row.args[0] << ": " << r.err;
    EXPECT_NE(r.err.find(row.part), std::string::npos) << r.err;
  }
}

}  // namespace
}  // namespace freight::test
