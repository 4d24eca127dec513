// The meaning of --precision on a device: the type to compute in, how f32 is multiplied, and a line for the user if the
// device gains nothing from the requested precision, so that the run stays in f32.
#pragma once
#include <string>
#include <vector>

#include "freight/base/dtype.h"

namespace freight::store {

// The values of the flag: "fp32", "tf32", "bf16", "fp16".
const std::vector<std::string>& precision_names();

struct ComputeType {
  DType dtype = DType::f32;
  bool tf32 = false;
  std::string note;  // "" if the device has the requested precision
};
// `backend`: a name, or "" or "auto" for the default. Throws Error(usage) for an unknown precision.
ComputeType compute_type(const std::string& precision, const std::string& backend);

}  // namespace freight::store
