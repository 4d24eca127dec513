// Which activations of a training step are computed again instead of kept; what is done: remat.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace freight {

enum class Recompute : uint8_t {
  none,
  automatic,  // what memory traffic alone pays for: no contraction, convolution or attention runs twice
  all,        // anything
};

// "none", "auto", "all".
const std::vector<std::string>& recompute_names();
// Throws Error(usage) for another word.
Recompute parse_recompute(const std::string& word);

}  // namespace freight
