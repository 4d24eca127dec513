// Weights by name in any format that Freight reads: a safetensors file, a file of PyTorch, or the index of a model
// whose weights are in several of them. The content says which, not the name.
#pragma once
#include <cstdint>
#include <string>

#include "freight/io/safetensors.h"

namespace freight::io {

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the limit of the reference implementation

// Throws Error(checkpoint) for damaged or refused content, Error(data) for files that are missing.
SafeTensors load_weights_file(const std::string& path);

// True if weights under this name are written as PyTorch writes them: .pth, .pt, .bin.
bool names_torch_file(const std::string& path);

}  // namespace freight::io
