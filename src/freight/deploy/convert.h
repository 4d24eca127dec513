// Weights from and for others: files of safetensors and of PyTorch with torchvision's names become stored models, and
// back.
#pragma once
#include <string>
#include <vector>

#include "freight/store/bundle.h"

namespace freight::deploy {

struct ImportOptions {
  std::vector<std::string> classes = {};  // names by class number; empty: none
  // Those of what the weights were trained on, per channel; empty: ImageNet's for nets of photographs, else none.
  std::vector<float> mean = {}, std = {};
  int64_t resize = -1;  // shorter side before the middle is cut out; 0: none; -1: the net's own, like 256 for 224
};

// A stored model of a net and the weights in `path`, which must have the net's names and shapes (a BatchNorm's
// num_batches_tracked is ignored). Throws Error(checkpoint) that lists missing, unexpected and misshapen tensors,
// Error(usage) for settings that do not fit the net, and for nets that read text: a tokenizer is no part of such files.
store::Bundle import_weights(models::Model model, const std::string& path, const ImportOptions& options);

// The weights alone, under the names that torchvision has: a file of PyTorch where its name says so
// (io::names_torch_file), else safetensors. Written whole or not at all.
void export_weights(const store::Bundle& bundle, const std::string& path);
// The same of the weights in a file, of a stored model or in another format. Throws Error(usage) where a learner of
// tables fitted them.
void export_weights(const std::string& in, const std::string& out);

}  // namespace freight::deploy
