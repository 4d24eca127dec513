// See precision.h.
#include "freight/store/precision.h"

#include "freight/backend/backend.h"
#include "freight/base/usage.h"
#include "freight/trace/tensor.h"

namespace freight::store {

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> kNames = {"fp32", "tf32", "bf16", "fp16"};
  return kNames;
}

ComputeType compute_type(const std::string& precision, const std::string& backend_name) {
  const std::vector<std::string>& names = precision_names();
  need_name("--precision", precision, names);
  ComputeType out;
  parse_dtype(precision, out.dtype);  // TF32 is not a type: values are f32
  if (precision == "fp32") return out;
  const std::string device = backend_name.empty() || backend_name == "auto" ? current_device() : backend_name;
  if (precision == "tf32") {
    out.tf32 = backend(device).has_tf32();
    if (!out.tf32) out.note = "no tf32 on this device: computing in f32";
    return out;
  }
  const std::string missing = backend(device).why_unsupported(out.dtype);
  if (!missing.empty())
    out = {DType::f32, false, cat("no ", precision, " on this device (", missing, "): computing in f32")};
  return out;
}

}  // namespace freight::store
