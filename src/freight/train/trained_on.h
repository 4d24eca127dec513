// What a stored model says of the data that it was trained on, for those that measure it: eval, verify, report.
#pragma once
#include <string>

#include "freight/data/catalog.h"
#include "freight/train/bundle.h"

namespace freight::train {

struct TrainedOn {
  std::string data;        // a named set or a path; empty where the file does not say
  data::LoadOptions load;  // columns of a text file, share and seed of the held-out part
};
// From the provenance; what it lacks is left as LoadOptions has it. A stored model knows the name of its data alone;
// where they lie is in the config.json of the run that `path`, the model's file, is part of.
TrainedOn trained_on(const Bundle& bundle, const std::string& path);

}  // namespace freight::train
