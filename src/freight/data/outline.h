// Outline: the sample shape and the classes of a dataset of arrays or images, from the first bytes of its files, before
// it is read. With it a run can be checked against the memory at once.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "freight/base/dtype.h"
#include "freight/base/shape.h"
#include "freight/data/catalog.h"

namespace freight::data {

struct Outline {
  Shape sample;         // the shape that a network takes: (C, H, W), or any
  int64_t classes = 0;  // 0: regression
  Shape target;         // of one sample: () for classes and single values, (K) for K values
};

// Empty if the beginning of the files does not show it (an archive, image files), or the files are invalid: reading
// them then reports why. Targets in .npy files are read if they are few bytes.
std::optional<Outline> outline(const std::string& path, const LoadOptions& options = {});

}  // namespace freight::data
