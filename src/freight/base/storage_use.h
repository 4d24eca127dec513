// How much memory Storage (base/array.h) has handed out: for tests that hold plans against what is really allocated.
#pragma once
#include <cstdint>

namespace freight {

// Bytes of all Storage that is alive, as asked for; borrowed memory does not count.
int64_t storage_bytes();

}  // namespace freight
