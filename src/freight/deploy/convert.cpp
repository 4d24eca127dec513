// See convert.h.
#include "freight/deploy/convert.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/io/memory_need.h"
#include "freight/io/torch_file.h"
#include "freight/io/weights_file.h"

namespace freight::deploy {

namespace {

// Means and deviations of ImageNet's pixels, as torchvision's weights were trained with.
const std::vector<float> kMean{0.485f, 0.456f, 0.406f}, kStd{0.229f, 0.224f, 0.225f};

// The entry of a named model that is made for photographs, in color; else null.
const models::Entry* entry_of_photographs(const models::Model& model) {
  const auto& all = models::registry();
  const auto it = std::find_if(all.begin(), all.end(),
                               [&](const models::Entry& e) { return e.name == model.name && e.resize > 0; });
  const bool color = model.input.shape.rank() == 3 && model.input.shape[0] == 3;
  return color && it != all.end() ? &*it : nullptr;
}

}  // namespace

store::Bundle import_weights(models::Model model, const std::string& path, const ImportOptions& options) {
  if (model.reads_tokens()) {
    fail(ErrorKind::usage, "convert", "model ", model.name,
         " reads text: weights without their tokenizer are not a complete model");
  }
  store::Bundle b;
  store::Preprocessing& p = b.preprocessing;
  p.input = model.input.shape;
  p.mean = options.mean;
  p.std = options.std;
  const models::Entry* const photographs = entry_of_photographs(model);
  if (photographs && p.mean.empty() && p.std.empty()) {
    p.mean = kMean;
    p.std = kStd;
  }
  if (p.mean.size() != p.std.size() || (!p.mean.empty() && static_cast<int64_t>(p.mean.size()) != p.input[0])) {
    fail(ErrorKind::usage, "convert", "expected one each for the ", p.input[0], " channels of ", model.name, ", got ",
         p.mean.size(), " means and ", p.std.size(), " standard deviations");
  }
  for (const float m : p.mean) {
    if (!std::isfinite(m)) fail(ErrorKind::usage, "convert", "a mean must be a finite number: got ", m);
  }
  for (const float s : p.std) {
    need_positive("convert", "standard deviation", s);
  }
  if (photographs) p.arrays = {.layout = data::Layout::automatic, .values = data::Values::bytes, .range = data::kBytes};
  p.resize = std::max<int64_t>(options.resize, 0);
  if (photographs && options.resize < 0) {
    p.resize = std::max(p.input[1], p.input[2]) * photographs->resize / photographs->input[1];
  }
  if (p.resize != 0 && (p.input.rank() != 3 || p.resize < std::max(p.input[1], p.input[2]))) {
    fail(ErrorKind::usage, "convert", "cannot resize to ", p.resize, " and then cut out ", p.input);
  }
  const int64_t outputs = model.classes();
  if (!options.classes.empty() && static_cast<int64_t>(options.classes.size()) != outputs) {
    fail(ErrorKind::usage, "convert", "got ", options.classes.size(), " class names, ", model.name, " predicts ",
         outputs, " classes");
  }
  store::load_weights(model, path);
  b.model = std::move(model);
  b.classes = options.classes;
  b.provenance = {{"weights", std::filesystem::path(path).filename().string()}};
  return b;
}

namespace {

void write_weights(io::SafeTensors file, const std::string& path) {
  if (io::names_torch_file(path)) return io::save_torch_file(path, file);
  file.metadata = {{"format", "pt"}};  // what PyTorch's users write there
  io::save_safetensors(path, file);
}

}  // namespace

void export_weights(const store::Bundle& bundle, const std::string& path) {
  io::SafeTensors file;
  for (const nn::NamedVariable& v : bundle.model.net->state_dict()) {
    file.tensors.emplace_back(v.name, v.variable.array());
  }
  write_weights(std::move(file), path);
}

void export_weights(const std::string& in, const std::string& out) {
  io::SafeTensors file = store::load_sealed(in);
  const bool model = file.metadata.contains("spec") || file.metadata.contains("learner");  // as store::to_file writes
  if (!model) return write_weights(std::move(file), out);
  const store::Bundle bundle = io::reading(in, [&] { return store::from_file(file, in); });
  store::need_net(bundle, in, "freight models convert");
  export_weights(bundle, out);
}

}  // namespace freight::deploy
