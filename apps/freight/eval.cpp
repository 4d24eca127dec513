// `freight eval`: a stored model on a data set.
#include <cstdio>
#include <optional>

#include <nlohmann/json.hpp>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/data/catalog.h"
#include "freight/data/finite.h"
#include "freight/store/bundle.h"
#include "freight/train/evaluate.h"
#include "freight/train/signals.h"
#include "freight/train/text.h"
#include "freight/train/trained_on.h"
#include "options.h"

namespace freight::app {

int eval_command(const Args& args) {
  std::string weights, data, data_dir, split = "test", tta = "none", device = "auto", on_bad_sample = "error";
  int64_t batch_size = 256, workers = -1;
  std::optional<double> val_split;
  std::optional<std::string> text_column, label_column;
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
  o.add("--text-column", &text_column, "of a text file (default: as in training)", {.value = "NAME|N"});
  o.add("--label-column", &label_column, "the same of the label", {.value = "NAME|N"});
  o.add("--on-bad-sample", &on_bad_sample, "samples that cannot be read: error stops, skip and report go on without",
        {.one_of = {"error", "skip", "report"}});
  o.add("--tta", &tta, "the mean over views of each image: flip adds its mirror image, shift also moves it by a pixel",
        {.one_of = {"none", "flip", "shift"}});
  o.add("-j,--workers", &workers, "data threads (-1: chosen)", {.min = -1, .aliases = {"--num-workers"}});
  o.add("-b,--batch-size", &batch_size, "samples per step", {.min = 1, .max = 1 << 24});
  o.add("--device", &device, "auto, cpu, ref, cuda:N or opencl:N");
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (weights.empty()) fail(ErrorKind::usage, "--weights", "is missing; see freight eval --help");
  signals::install();
  store::Bundle bundle = store::load_bundle(weights);
  train::TrainedOn trained_on = train::trained_on(bundle, weights);
  if (data.empty()) data = trained_on.data;
  if (data.empty())
    fail(ErrorKind::usage, "--data", "is missing, and ", weights, " does not say what it was trained on");
  int64_t left_out = 0;
  data::BadSamples bad;
  if (on_bad_sample != "error") {
    bad = {.on_bad = data::OnBad::skip, .report = [&](const data::BadSample& sample) {
             ++left_out;
             std::fprintf(stderr, "warning: left out: %s: %s\n", sample.path.c_str(), sample.reason.c_str());
           }};
  }
  data::LoadOptions& load = trained_on.load;
  load.data_dir = data_dir;
  load.text.bad = bad;
  if (val_split) load.images.val_split = load.text.val_split = *val_split;
  if (seed) load.images.split_seed = load.text.split_seed = static_cast<uint64_t>(*seed);
  if (text_column) load.text.text_column = *text_column;
  if (label_column) load.text.label_column = *label_column;
  load.images.held_out = split == "test" ? data::HeldOut::test : data::HeldOut::validation;
  load.text.held_out = load.images.held_out;
  const auto poll = [](int64_t, int64_t) { return !signals::stop_requested(); };
  train::TestViews views = train::TestViews::one;
  train::parse_test_views(tta, views);
  train::Evaluator evaluator(bundle.model, {.backend = device == "auto" ? std::string() : device}, batch_size, views);
  train::Evaluation e;
  const char* unit = "samples";
  const bool text = bundle.preprocessing.text();
  const train::Measured measured = train::load_to_measure(
      trained_on, data, load, text, val_split ? train::Division::divide : train::Division::as_fits);
  const auto note = [&](const std::string& said) {
    if (!said.empty() && !o.quiet()) std::fprintf(stderr, "note    %s\n", printable(said).c_str());
  };
  if (text) {
    const data::TextSet& set = measured.texts;
    note(set.train.note);
    if (split != "train") note(set.test.note);
    const data::TextPart& part = split == "train" ? set.train : set.test;
    unit = set.corpus() ? "tokens" : "documents";
    e = evaluator.run(*train::evaluation_feed(set, part, bundle, batch_size), cat(data, ", ", split), poll);
  } else {
    data::Dataset set = split == "train" ? measured.samples.train : measured.samples.test;
    note(measured.samples.train.note);
    if (split != "train") note(set.note);
    data::leave_out_nonfinite(set, bad);
    train::adapt(set, bundle);
    if (set.images.defined()) {
      const std::string odd = data::range_warning(set.images, bundle.preprocessing.arrays);
      if (!odd.empty()) std::fprintf(stderr, "warning: %s: %s\n", data.c_str(), odd.c_str());
    }
    e = evaluator.run(set, poll, {.workers = static_cast<int>(workers), .bad = bad});
  }
  if (signals::stop_requested()) return signals::exit_code();
  if (json) {
    nlohmann::ordered_json j = {{"data", data},   {"split", split},       {"count", e.count},       {"top1", nullptr},
                                {"loss", e.loss}, {"seconds", e.seconds}, {"bad_samples", left_out}};
    if (e.top1) j["top1"] = *e.top1;
    std::printf("%s\n", j.dump().c_str());
  } else {
    const std::string top1 = e.top1 ? cat("top1 ", fixed(*e.top1, 2), " %, ") : std::string();
    std::printf("%s %s: %sloss %.4f over %s %s (%.2f s)\n", data.c_str(), split.c_str(), top1.c_str(), e.loss,
                with_commas(e.count).c_str(), unit, e.seconds);
  }
  return 0;
}

}  // namespace freight::app
