// `freight eval`: a stored model on a data set.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/catalog.h"
#include "freight/data/resample.h"
#include "freight/train/bundle.h"
#include "freight/train/evaluate.h"
#include "freight/train/signals.h"
#include "options.h"

namespace freight::app {

int eval_command(const Args& args) {
  std::string weights, data, data_dir, split = "test", device = "auto";
  int64_t batch_size = 256;
  bool json = false;
  Options o("eval", "Measures a stored model on a data set.", "--weights MODEL.safetensors [options]");
  o.add("--weights", &weights, "the stored model", {.aliases = {"--pretrained"}});
  o.positional("weights", &weights, "the stored model", false);
  o.add("--data", &data, "a named set or a directory (default: what the model was trained on)",
        {.aliases = {"--data-path"}});
  o.add("--data-dir", &data_dir, "where named sets are looked for first", {.value = "DIR"});
  o.add("--split", &split, "which part", {.one_of = {"test", "train"}});
  o.add("-b,--batch-size", &batch_size, "samples per step", {.min = 1});
  o.add("--device", &device, "auto, cpu or ref");
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (weights.empty()) fail(ErrorKind::usage, "--weights", "is missing; see freight eval --help");
  signals::install();
  train::Bundle bundle = train::load_bundle(weights);
  if (data.empty()) data = bundle.provenance["data"];
  if (data.empty())
    fail(ErrorKind::usage, "--data", "is missing, and ", weights, " does not say what it was trained on");
  data::TrainTest sets = data::load(data, {.data_dir = data_dir});
  data::Dataset& set = split == "test" ? sets.test : sets.train;
  // A model that was trained on resized pictures (--input-size) is measured on them too.
  const Shape& input = bundle.preprocessing.input;
  const bool pictures = set.images.dtype() == DType::u8 && input.rank() == 3 && set.sample_shape().rank() == 3;
  if (pictures && set.sample_shape()[0] == input[0]) set = data::resized(set, input[1], input[2]);
  train::need_fit(bundle.model, set);
  // The model's own preprocessing, not that of this data.
  set.mean = bundle.preprocessing.mean;
  set.std = bundle.preprocessing.std;
  train::Evaluator evaluator(bundle.model, {.backend = device == "auto" ? std::string() : device}, batch_size);
  const train::Evaluation e = evaluator.run(set, [](int64_t, int64_t) { return !signals::stop_requested(); });
  if (signals::stop_requested()) return signals::exit_code();
  if (json) {
    nlohmann::ordered_json j = {{"data", data},    {"split", split}, {"count", e.count},
                                {"top1", nullptr}, {"loss", e.loss}, {"seconds", e.seconds}};
    if (e.top1) j["top1"] = *e.top1;
    std::printf("%s\n", j.dump().c_str());
  } else {
    const std::string top1 = e.top1 ? cat("top1 ", fixed(*e.top1, 2), " %, ") : std::string();
    std::printf("%s %s: %sloss %.4f over %s samples (%.2f s)\n", data.c_str(), split.c_str(), top1.c_str(), e.loss,
                with_commas(e.count).c_str(), e.seconds);
  }
  return 0;
}

}  // namespace freight::app
