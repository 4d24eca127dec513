// `freight eval`: a stored model on a data set.
#include <cstdio>
#include <cstdlib>
#include <optional>

#include <nlohmann/json.hpp>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/catalog.h"
#include "freight/train/bundle.h"
#include "freight/train/evaluate.h"
#include "freight/train/signals.h"
#include "options.h"

namespace freight::app {

int eval_command(const Args& args) {
  std::string weights, data, data_dir, split = "test", device = "auto", on_bad_sample = "error";
  int64_t batch_size = 256, workers = -1;
  std::optional<double> val_split;
  std::optional<int64_t> seed;
  bool json = false;
  Options o("eval", "Measures a stored model on a data set.", "--weights MODEL.safetensors [options]");
  o.add("--weights", &weights, "the stored model", {.aliases = {"--pretrained"}});
  o.positional("weights", &weights, "the stored model", false);
  o.add("--data", &data, "a named set or a directory (default: what the model was trained on)",
        {.aliases = {"--data-path"}});
  o.add("--data-dir", &data_dir, "where named sets are looked for first", {.value = "DIR"});
  o.add("--split", &split, "which part; val differs from test where a folder has both",
        {.one_of = {"test", "val", "train"}});
  o.add("--val-split", &val_split, "share held out of a folder without val part (default: as in training)");
  o.add("--seed", &seed, "seed of that choice (default: as in training)", {.min = 0});
  o.add("--on-bad-sample", &on_bad_sample, "pictures that cannot be read: error stops, skip and report go on without",
        {.one_of = {"error", "skip", "report"}});
  o.add("-j,--workers", &workers, "data threads (-1: chosen)", {.min = -1, .aliases = {"--num-workers"}});
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
  const auto trained_with = [&](const char* key, const char* otherwise) {
    const auto it = bundle.provenance.find(key);
    return it == bundle.provenance.end() ? std::string(otherwise) : it->second;
  };
  data::PictureOptions pictures;
  pictures.val_split = val_split ? *val_split : std::atof(trained_with("val_split", "-1").c_str());
  pictures.split_seed = static_cast<uint64_t>(seed ? *seed : std::atoll(trained_with("seed", "0").c_str()));
  pictures.held_out = split == "test" ? data::HeldOut::test : data::HeldOut::validation;
  data::TrainTest sets = data::load(data, {.data_dir = data_dir, .pictures = pictures});
  data::Dataset& set = split == "train" ? sets.train : sets.test;
  train::adapt(set, bundle);
  train::EvaluationOptions options{.workers = static_cast<int>(workers), .bad = {}};
  int64_t left_out = 0;
  if (on_bad_sample != "error") {
    options.bad = {.on_bad = data::OnBad::skip, .report = [&](const data::BadPicture& bad) {
                     ++left_out;
                     std::fprintf(stderr, "warning: left out: %s: %s\n", bad.path.c_str(), bad.reason.c_str());
                   }};
  }
  train::Evaluator evaluator(bundle.model, {.backend = device == "auto" ? std::string() : device}, batch_size);
  const train::Evaluation e = evaluator.run(
      set, [](int64_t, int64_t) { return !signals::stop_requested(); }, options);
  if (signals::stop_requested()) return signals::exit_code();
  if (json) {
    nlohmann::ordered_json j = {{"data", data},   {"split", split},       {"count", e.count},       {"top1", nullptr},
                                {"loss", e.loss}, {"seconds", e.seconds}, {"bad_samples", left_out}};
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
