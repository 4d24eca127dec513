// See trained_on.h. The other end is Trainer::bundle() in trainer.cpp.
#include "freight/train/trained_on.h"

#include <cstdlib>

namespace freight::train {

TrainedOn trained_on(const Bundle& bundle) {
  const auto said = [&](const char* key, const char* otherwise) {
    const auto it = bundle.provenance.find(key);
    return it == bundle.provenance.end() ? std::string(otherwise) : it->second;
  };
  TrainedOn on{.data = said("data", ""), .load = {}};
  on.load.images.val_split = on.load.text.val_split = std::atof(said("val_split", "-1").c_str());
  on.load.images.split_seed = on.load.text.split_seed = static_cast<uint64_t>(std::atoll(said("seed", "0").c_str()));
  on.load.text.text_column = said("text_column", "");
  on.load.text.label_column = said("label_column", "");
  return on;
}

}  // namespace freight::train
