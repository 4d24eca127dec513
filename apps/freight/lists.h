// Comma-separated lists on the command line.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace freight::app {

inline constexpr size_t kMostListed = 1024;  // of parts
// "cpu,opencl:0": parts without blanks around them. Throws Error(usage) naming the flag for an empty or repeated part,
// and for more than kMostListed.
std::vector<std::string> parse_list(const std::string& flag, const std::string& text);
inline constexpr int64_t kMostCount = 1'000'000;  // a number of parse_counts
// "1,2,4": whole numbers from 1 to kMostCount, rising. Throws Error(usage) naming the flag.
std::vector<int64_t> parse_counts(const std::string& flag, const std::string& text);

}  // namespace freight::app
