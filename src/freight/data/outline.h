// Outline: what the files of a set of arrays or images say of its samples in their first bytes, before all of them are
// read. Whether a net fits the memory can be asked by it at once.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "freight/base/dtype.h"
#include "freight/base/shape.h"
#include "freight/data/catalog.h"

namespace freight::data {

struct Outline {
  Shape sample;         // as a net takes it: (C, H, W), or any
  int64_t classes = 0;  // 0: the targets are values
  Shape target;         // of one sample: () of classes and single values, (K) of K
};

// Nothing where the files do not say it at their beginning (an archive, pictures), or are wrong: then reading them
// tells why. Reads the targets of .npy files, where they are few bytes.
std::optional<Outline> outline(const std::string& path, const LoadOptions& options = {});

}  // namespace freight::data
