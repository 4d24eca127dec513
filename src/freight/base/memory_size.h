// Sizes of memory on the command line.
#pragma once
#include <string>

namespace freight {

// Bytes of "4GiB", "512 MiB", or "4", which are GiB; 0 for "". Throws Error(usage) naming the flag for anything else.
double memory_size(const std::string& flag, const std::string& text);

}  // namespace freight
