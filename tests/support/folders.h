// The folders of the sources and of the build. Functions, since a path among the options of every test's compilation
// would keep clones in other folders from finding their objects in the compiler cache.
#pragma once
#include <string>

namespace freight {

std::string source_dir();
std::string binary_dir();

}  // namespace freight
