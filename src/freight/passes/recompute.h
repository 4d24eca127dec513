// Which activations of a training step are computed again instead of kept; what is done: remat.cpp.
#pragma once
#include <cstdint>
#include <string>

namespace freight {

enum class Recompute : uint8_t {
  none,
  automatic,  // what memory traffic alone pays for: no contraction, convolution or attention runs twice
  all,        // anything
};

// "none", "auto" or "all".
Recompute parse_recompute(const std::string& word);

}  // namespace freight
