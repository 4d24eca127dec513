// The Python that has the packages of tests/requirements.txt, for tests against what others make of our files.
#pragma once
#include <string>

#include "freight/io/file.h"
#include "tests/support/folders.h"

namespace freight::testing {

// The interpreter, or "" where the packages could not be installed (the test then skips itself).
inline std::string peer_python() {
  const std::string python = binary_dir() + "/python/bin/python";
  return io::file_exists(binary_dir() + "/python/.complete") ? python : "";
}

}  // namespace freight::testing
