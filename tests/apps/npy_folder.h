// A folder of a test's own with npy files, for commands that read them.
#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "freight/io/npy.h"
#include "run_command.h"

namespace freight::test {

class NpyFolder : public testing::Test {
 protected:
  std::string npy(const std::string& name, const std::vector<double>& values, const Shape& shape) const {
    const std::string path = dir_ + "/" + name + ".npy";
    io::save_npy(path, Array::of(values, shape));
    return path;
  }
  const std::string dir_ = scratch_dir();
};

}  // namespace freight::test
