// How much memory Storage (base/array.h) takes: for plans, and for tests that hold plans against what is allocated.
#pragma once
#include <cstddef>
#include <cstdint>

namespace freight {

// Bytes of the host's memory that a block of so many takes: a large one fills whole pages of the system's large size.
size_t block_bytes(size_t bytes);

// Bytes of all Storage that is alive, as asked for; borrowed memory does not count.
int64_t storage_bytes();

}  // namespace freight
