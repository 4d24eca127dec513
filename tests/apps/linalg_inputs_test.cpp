// `freight linalg` and matrices that have no answer: who is at fault, and the exit code.
#include <cmath>

#include <gtest/gtest.h>

#include "freight/base/strings.h"
#include "freight/io/npy.h"
#include "npy_folder.h"
#include "run_command.h"

namespace freight::test {
namespace {

class LinalgInputs : public NpyFolder {};

TEST_F(LinalgInputs, AreRefusedByMatrixPivotMinorAndShape) {
  const std::string singular = npy("singular", {4, 1, 1, 3, 1, 2, 2, 4}, {2, 2, 2});
  const std::string b = npy("b", {1, 1, 1, 1}, {2, 2, 1}), three = npy("three", {1, 2, 3}, {3});
  const std::string wide = npy("wide", {1, 2, 3, 4, 5, 6}, {2, 3}), good = npy("good", {2, 0, 0, 4}, {2, 2});
  const std::string five = npy("five", std::vector<double>(10, 1), {5, 2, 1});
  struct Row {
    std::vector<std::string> args;
    int code;
    std::vector<std::string> parts;
  };
  const std::vector<Row> rows = {
      {{"solve", singular, b}, 3, {"matrix (1) of f64[2,2,2]", "pivot 1"}},
      {{"solve", singular, b, "--assume", "sym"}, 3, {"matrix (1) of f64[2,2,2]", "pivot 1"}},
      {{"solve", singular, b, "--assume", "pos"}, 3, {"matrix (1) of f64[2,2,2]", "minor of order 2"}},
      {{"inv", singular}, 3, {"matrix (1) of f64[2,2,2]", "pivot 1"}},
      {{"cholesky", singular}, 3, {"matrix (1) of f64[2,2,2]", "minor of order 2"}},
      {{"cholesky", singular, "--upper"}, 3, {"minor of order 2"}},
      {{"solve", good, three}, 2, {"f64[2,2]", "f64[3]"}},
      {{"lstsq", good, three}, 2, {"f64[2,2]", "f64[3]"}},
      {{"solve", singular, five}, 2, {"f64[2,2,2]", "f64[5,2,1]"}}};
  for (const Row& row : rows) {
    std::vector<std::string> args = {"linalg"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, row.code) << row.args[0] << ": " << r.err;
    EXPECT_NE(r.err.find(row.args[0] + ": "), std::string::npos) << r.err;
    for (const std::string& part : row.parts) EXPECT_NE(r.err.find(part), std::string::npos) << part << ": " << r.err;
    EXPECT_NE(r.err.find("read from " + row.args[1]), std::string::npos) << r.err;
  }
  for (const char* op : {"cholesky", "eigh", "eig", "inv", "det"}) {
    const Ran r = run_freight({"linalg", op, wide});
    EXPECT_EQ(r.code, 2) << op << ": " << r.err;
    EXPECT_NE(r.err.find(cat(op, ": the matrix is not square: expected (..., N, N), got f64[2,3]; read from ", wide)),
              std::string::npos)
        << r.err;
  }
}

TEST_F(LinalgInputs, OptionsThatAnOperationHasNoUseForAreRefused) {
  const std::string x = npy("x", {2, 0, 0, 4}, {2, 2}), b = npy("b", {1, 1}, {2});
  const std::vector<std::vector<std::string>> rows = {
      {"inv", x, "--rcond", "1"}, {"lu", x, "--upper"}, {"det", x, "--assume", "sym"}, {"eig", x, "--no-reduced"}};
  for (std::vector<std::string> args : rows) {
    args.insert(args.begin(), "linalg");
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_NE(r.err.find("this is " + args[1]), std::string::npos) << r.err;
  }
}

TEST_F(LinalgInputs, ThatAreSingularToWorkingPrecisionAreToldBesideTheAnswer) {
  const std::string near = npy("near", {1, 1, 1, 1 + 0x1p-52}, {2, 2}), fine = npy("fine", {2, 1, 1, 4}, {2, 2});
  const std::string b = npy("b", {1, 1}, {2});
  const char* const told = "singular to working precision";
  EXPECT_NE(run_freight({"linalg", "solve", near, b}).out.find(told), std::string::npos);
  EXPECT_EQ(run_freight({"linalg", "solve", fine, b}).out.find(told), std::string::npos);
}

// The program ends by itself: a signal would be a code above 128.
TEST_F(LinalgInputs, WithNanInfinityOrNothingEnd) {
  const std::string none = npy("none", {}, {0, 0});
  for (const double value : {std::nan(""), HUGE_VAL}) {
    const std::string x = npy("x", {value, 1, 2, 1, 5, 3, 2, 3, 6}, {3, 3});
    for (const char* op : {"lu", "cholesky", "qr", "svd", "eigh", "eig", "inv", "pinv", "det", "rank", "cond"}) {
      const Ran r = run_freight({"linalg", op, x});
      EXPECT_TRUE(r.code == 0 || r.code == 3) << op << ": " << r.code << " " << r.err;
    }
  }
  for (const char* op : {"lu", "cholesky", "qr", "svd", "eigh", "eig", "inv", "pinv", "det", "rank"}) {
    const Ran r = run_freight({"linalg", op, none});
    EXPECT_EQ(r.code, 0) << op << ": " << r.err;
  }
}

}  // namespace
}  // namespace freight::test
