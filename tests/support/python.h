// The Python that has the packages of tests/requirements.txt, for tests against what others make of our files.
#pragma once
#include <string>

#include "freight/io/file.h"

namespace freight::testing {

// The interpreter, or "" where the packages could not be installed (the test then skips itself).
inline std::string peer_python() {
  const std::string python = std::string(FREIGHT_BINARY_DIR) + "/python/bin/python";
  return io::file_exists(std::string(FREIGHT_BINARY_DIR) + "/python/.complete") ? python : "";
}

}  // namespace freight::testing
