// A page of training samples as a run sees them: cropped, augmented and mixed images, and texts as their tokens.
#pragma once
#include <cstdint>
#include <string>

#include "freight/data/source.h"
#include "freight/train/config.h"

namespace freight::report {

struct PreviewOptions {
  int64_t epochs = 3;    // the first ones; in each other changes are drawn
  int64_t samples = 32;  // of each epoch, from its beginning
};
// `config`: of the run, with its recipe. Throws Error(usage) for data that are neither images nor texts.
std::string preview_page(const train::Config& config, const data::Source& source, const PreviewOptions& options = {});

}  // namespace freight::report
