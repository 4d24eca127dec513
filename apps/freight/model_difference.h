// The first difference between two saved models.
#pragma once
#include <optional>
#include <string>

namespace freight::app {

struct ModelDifference {
  std::string at;             // "net.0.weight[3,0,1,1]", or another part that differs: "metadata freight.model"
  std::string first, second;  // the two values, exactly
};
// Null if the files have the same bytes. Tensors are compared by their bytes, in the order of the first file. Throws
// the errors of io::load_safetensors.
std::optional<ModelDifference> difference_of(const std::string& first, const std::string& second);

}  // namespace freight::app
