// ONNX Runtime, through the Python of tests/requirements.txt.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "freight/io/npy.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"
#include "tests/support/python.h"

namespace freight::test {

// Runs ONNX files over inputs, all in one Python: starting it costs more than the nets.
class Runtime {
 public:
  std::string operator/(const std::string& name) const { return dir_ / name; }
  std::string path() const { return dir_.path(); }
  // The result is that of number `add` of `results`.
  void add(const std::string& model, const Array& input) {
    const std::string stem = dir_ / std::to_string(count_++);
    io::save_npy(stem + "in.npy", input);
    command_ += cat(" '", model, "' ", stem, "in.npy ", stem, "out.npy");
  }
  std::vector<Array> results() const {
    const std::string log = dir_ / "log";
    const std::string script = source_dir() + "/tests/deploy/run_onnx.py";
    const int status =
        std::system(cat("'", testing::peer_python(), "' '", script, "'", command_, " > ", log, " 2>&1").c_str());
    EXPECT_EQ(status, 0) << testing::read_text(log);
    std::vector<Array> out;
    for (int i = 0; status == 0 && i < count_; ++i) {
      const std::string file = dir_ / cat(i, "out.npy");
      out.push_back(io::parse_npy(io::read_file(file), file));
    }
    return out;
  }

 private:
  // Hundreds of megabytes that nobody keeps: in memory where that is possible.
  testing::ScopedEnvironment where_{"TMPDIR", std::filesystem::exists("/dev/shm") ? "/dev/shm" : env::get("TMPDIR")};
  testing::TemporaryDir dir_;
  std::string command_;
  int count_ = 0;
};

// Largest difference over the largest magnitude.
inline double relative_difference(const Array& a, const Array& b) {
  EXPECT_EQ(to_string(a.shape()), to_string(b.shape()));
  if (a.shape() != b.shape()) return INFINITY;
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0, difference = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(y[i]));
    difference = std::max(difference, std::abs(x[i] - y[i]));
    if (!(std::abs(x[i]) < 1e30)) return INFINITY;
  }
  return difference / largest;
}

}  // namespace freight::test
