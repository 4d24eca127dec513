// The first place at which two stored models differ.
#pragma once
#include <optional>
#include <string>

namespace freight::app {

struct ModelDifference {
  std::string at;             // "net.0.weight[3,0,1,1]", or what else differs: "metadata freight.model"
  std::string first, second;  // what stands there, exactly
};
// Null where the files have the same bytes. Tensors are compared by their bytes, in the order of the first file.
// Throws what io::load_safetensors throws.
std::optional<ModelDifference> difference_of(const std::string& first, const std::string& second);

}  // namespace freight::app
