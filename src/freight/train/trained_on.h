// A stored model says on which data it was trained, for those that measure it: eval, verify, report.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "freight/data/catalog.h"
#include "freight/store/bundle.h"
#include "freight/train/config.h"
#include "freight/train/evaluate.h"

namespace freight::train {

// A run writes this into its models: the data's name and fingerprint, how far it went and what it reached.
std::map<std::string, std::string> provenance(const Config& config, uint64_t fingerprint, int64_t steps,
                                              const Evaluation& test);

struct TrainedOn {
  std::string data;         // a named set or a path; empty where the file does not say
  data::LoadOptions load;   // columns of a text file, share and seed of the held-out part
  std::string target;       // of a table: the target column
  std::string test;         // of a table: its test part, where that is a file of its own
  std::string fingerprint;  // of the training part; empty where the file does not say, as early ones
  // How training evaluated, for who measures as it did: views of a sample, the precision of the arithmetic, and whether
  // samples that cannot be read are left out.
  std::string tta = "none", precision = "fp32";
  data::OnBad on_bad = data::OnBad::error;
};
// From the provenance; what it lacks is left as LoadOptions has it. A stored model knows the name of its data alone;
// where they lie is in the config.json of the run that `path`, the model's file, is part of.
TrainedOn trained_on(const store::Bundle& bundle, const std::string& path);

// The data that are asked for, or those of training. Throws Error(usage) where neither is known; `path`: the model's
// file.
std::string data_to_measure(const std::string& asked, const TrainedOn& on, const std::string& path);

// The data to measure a model on. What it was trained on, at its place or as a copy, is divided as training did it;
// other data that has no part for the test is measured whole, which `divide` prevents.
struct Measured {
  data::TrainTest samples;  // of arrays and images
  data::TextSet texts;      // of text
};
enum class Division { as_fits, divide };
Measured load_to_measure(const TrainedOn& on, const std::string& data, const data::LoadOptions& load, bool text,
                         Division division);

}  // namespace freight::train
