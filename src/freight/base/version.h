// The version of the library, as `freight --version` prints it.
#pragma once

namespace freight {

const char* version();  // "MAJOR.MINOR.PATCH"

}  // namespace freight
