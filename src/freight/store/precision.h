// The meaning of --precision on a device: the type to compute in, how f32 is multiplied, and a line for the user where
// the device gains nothing from the one asked for and the run stays in f32.
#pragma once
#include <string>
#include <vector>

#include "freight/base/dtype.h"

namespace freight::store {

// "fp32", "tf32", "bf16", "fp16"; the values of the flag.
const std::vector<std::string>& precision_names();

struct ComputeType {
  DType dtype = DType::f32;
  bool tf32 = false;
  std::string note;  // "" where the wish is met
};
// `backend`: a name, or "" or "auto" for the default one. Throws Error(usage) for another word.
ComputeType compute_type(const std::string& precision, const std::string& backend);

}  // namespace freight::store
