// See trained_on.h. The other end is Trainer::bundle() in trainer.cpp.
#include "freight/train/trained_on.h"

#include <cstdlib>
#include <filesystem>

#include "freight/base/error.h"
#include "freight/io/file.h"
#include "freight/train/config_fields.h"

namespace freight::train {

namespace {
// The data of the run that a model's file lies in, RUN/model.safetensors or RUN/checkpoints/step-N/model.safetensors,
// if it has that name; else the name.
std::string local_path(const std::string& name, const std::string& model) {
  std::error_code error;
  std::filesystem::path dir = std::filesystem::canonical(model, error).parent_path();
  for (int up = 0; up <= 2 && !error && !name.empty(); ++up, dir = dir.parent_path()) {
    const std::string file = (dir / "config.json").string();
    if (!io::file_exists(file)) continue;
    Config c;
    try {
      set_from_json(c, io::read_text(file), file);
    } catch (const Error&) {
      break;  // damaged, or of another version
    }
    if (base_name(c.data) == name) return c.data;
  }
  return name;
}
}  // namespace

TrainedOn trained_on(const Bundle& bundle, const std::string& path) {
  const auto said = [&](const char* key, const char* otherwise) {
    const auto it = bundle.provenance.find(key);
    return it == bundle.provenance.end() ? std::string(otherwise) : it->second;
  };
  TrainedOn on{.data = local_path(said("data", ""), path), .load = {}};
  on.load.images.val_split = on.load.text.val_split = std::atof(said("val_split", "-1").c_str());
  on.load.images.split_seed = on.load.text.split_seed = static_cast<uint64_t>(std::atoll(said("seed", "0").c_str()));
  on.load.text.text_column = said("text_column", "");
  on.load.text.label_column = said("label_column", "");
  return on;
}

}  // namespace freight::train
