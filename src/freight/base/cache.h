// Files that processes keep for each other: measured choices, rates, compiled kernels. What lies there is not trusted
// to be a file: it is read only where it is a regular one of a sound size, and no link is followed. A cache that cannot
// be used costs time, never an error.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace freight {

// The path of a file of the cache, "" where there is no cache.
std::string cache_path(const std::string& name);
inline constexpr size_t kMaxCacheFile = size_t{64} << 20;
// The content; "" for what is no regular file, is longer than `most`, or cannot be read.
std::string read_cache(const std::string& path, size_t most = kMaxCacheFile);
// Adds at the end, at once. False where that is not possible.
bool append_cache(const std::string& path, std::string_view text, size_t most = kMaxCacheFile);
// Whole or not at all.
bool write_cache(const std::string& path, std::string_view bytes);

}  // namespace freight
