// base/python_packages: where libraries in Python packages are looked for, and in which order.
#include "freight/base/python_packages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "freight/base/library.h"
#include "tests/support/files.h"

namespace freight {
namespace {

namespace fs = std::filesystem;
using testing::ScopedEnvironment;

size_t position(const std::vector<std::string>& folders, const std::string& folder) {
  return static_cast<size_t>(std::find(folders.begin(), folders.end(), folder) - folders.begin());
}

class PythonPackages : public ::testing::Test {
 protected:
  ~PythonPackages() override { set_python_packages({}); }
};

TEST_F(PythonPackages, OfTheInterpreterComeBeforeThoseOfTheActiveEnvironment) {
  const ScopedEnvironment environment("VIRTUAL_ENV", "/venv");
  set_python_packages({"/interpreter/site-packages"});
  const std::vector<std::string> active = active_python_packages();
  EXPECT_EQ(position(active, "/interpreter/site-packages"), 0u);
  EXPECT_LT(position(active, "/venv/lib/python3*/site-packages"), active.size());
  const std::vector<std::string> others = other_python_packages();
  EXPECT_EQ(position(others, "/interpreter/site-packages"), others.size());
}

TEST_F(PythonPackages, FilesAreThoseOfTheFirstFolderFirstAndTheNewestVersionFirst) {
  const testing::TemporaryDir dir;
  for (const char* file : {"a/x.libs/liby-1.so", "a/x.libs/liby-2.so", "b/x.libs/liby-9.so", "b/x.libs/z.txt"}) {
    fs::create_directories(fs::path(dir / file).parent_path());
    std::ofstream(dir / file) << "x";
  }
  const std::vector<std::string> expected = {dir / "a/x.libs/liby-2.so", dir / "a/x.libs/liby-1.so",
                                             dir / "b/x.libs/liby-9.so"};
  EXPECT_EQ(files_in({dir / "a", dir / "missing", dir / "b"}, "x.libs/lib*.so"), expected);
}

TEST_F(PythonPackages, NvidiasLibrariesAreLookedForThere) {
  set_python_packages({"/interpreter/site-packages"});
  const Library none = find_library({"libnosuch.so.1"}, LibraryKind::toolkit);
  EXPECT_NE(none.why.find("/interpreter/site-packages/nvidia/*/lib"), std::string::npos) << none.why;
}

}  // namespace
}  // namespace freight
