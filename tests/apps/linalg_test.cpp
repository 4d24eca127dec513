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

TEST_F(LinalgCommand, SolvesByMixedPrecisionAndSaysHowOftenItRefined) {
  constexpr int64_t kSize = 30;
  std::vector<double> values(kSize * kSize), right(kSize);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i * i + 1));
  for (size_t i = 0; i < right.size(); ++i) right[i] = std::cos(static_cast<double>(i));
  const std::string a = npy("a", values, {kSize, kSize}), b = npy("b", right, {kSize}), x = dir_ + "/x.npy";
  const Json j = computed({"solve", a, b, "--method", "mixed", "-o", x});
  const Json direct = computed({"solve", a, b});
  EXPECT_LT(j.at("scaled_residual").get<double>(), 30);
  EXPECT_EQ(j.at("results")[1].at("name"), "iterations");
  EXPECT_GE(j.at("results")[1].at("values").get<double>(), 1);
  EXPECT_NEAR(j.at("condition").get<double>(), direct.at("condition").get<double>(),
              1e-6 * direct.at("condition").get<double>());
  EXPECT_EQ(io::load_npy(x).shape(), (Shape{kSize}));
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
                                 {{"solve", zero, b, "--method", "mixed"}, 3, "singular"},
                                 {{"solve", zero, b, "--method", "mixed", "--assume", "pos"}, 2, "gen or sym"},
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
