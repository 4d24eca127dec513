// Models that tests of several devices train, and how far two of them are apart.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "freight/io/safetensors.h"
#include "run_command.h"
#include "tests/support/small_digits.h"

namespace freight::test {

// Runs on small digits in a folder of the test.
class DigitRuns : public ::testing::Test {
 protected:
  DigitRuns() : dir_(scratch_dir()) { write_small_digits(dir_); }
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  // Trains on a file or folder of the test's folder into `run`.
  Ran train(const std::string& data, const std::string& run, const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"train", path(data), "-o", path(run)};
    all.insert(all.end(), more.begin(), more.end());
    return run_freight(all);
  }
  std::string model(const std::string& run) const { return read_file(path(run) + "/model.safetensors"); }

  const std::string dir_;
};

// A spec with running statistics and draws: states that all ranks must have.
constexpr const char* kNormed = R"({"format": "freight-model-1", "name": "normed", "input": [1, 28, 28], "net": [
    {"type": "Conv2d", "out": 6, "kernel": 5, "stride": 2, "bias": false}, {"type": "BatchNorm2d"}, {"type": "ReLU"},
    {"type": "MaxPool2d", "kernel": 2}, {"type": "Flatten"}, {"type": "Dropout", "p": 0.2},
    {"type": "Linear", "out": 10}]})";

// The largest difference of any element, against the largest element of the tensor.
inline double difference(const io::SafeTensors& a, const io::SafeTensors& b) {
  double most = 0;
  EXPECT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].first, b.tensors[i].first);
    const std::vector<float> x = a.tensors[i].second.to_vector<float>(), y = b.tensors[i].second.to_vector<float>();
    double scale = 1e-6, apart = 0;
    for (size_t j = 0; j < x.size(); ++j) {
      scale = std::max(scale, std::fabs(static_cast<double>(x[j])));
      apart = std::max(apart, std::fabs(static_cast<double>(x[j]) - static_cast<double>(y[j])));
    }
    most = std::max(most, apart / scale);
  }
  return most;
}

}  // namespace freight::test
