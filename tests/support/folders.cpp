// See folders.h.
#include "tests/support/folders.h"

namespace freight {

std::string source_dir() { return FREIGHT_SOURCE_DIR; }
std::string binary_dir() { return FREIGHT_BINARY_DIR; }

}  // namespace freight
