// The build passes the version of the project in.
#include "freight/base/version.h"

namespace freight {

const char* version() { return FREIGHT_VERSION; }

}  // namespace freight
