// `freight eval`: evaluates a saved model on a data set.
#include <cmath>
#include <cstdio>
#include <memory>

#include "command.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/store/bundle.h"
#include "freight/train/learner.h"
#include "options.h"
#include "ranks.h"
#include "train_result.h"

namespace freight::app {

namespace {

train::Measurement measure(const Args& args, const std::string& weights, const train::MeasureRequest& request) {
  return with_others(request.ranks, [&] {
    if (request.ranks) need_same_question(*request.ranks, args, weights);
    store::Bundle bundle = store::load_bundle(weights);
    const train::Learner& learner = train::learner_of(bundle);
    if (request.ranks && !bundle.net()) {
      refuse_flag_of("--devices", "networks", cat(weights, " is a table model"));
    }
    return learner.measure(std::move(bundle), weights, request);
  });
}

void print(const train::Measurement& measured, const std::string& split, int64_t left_out, bool json) {
  const train::Evaluation& e = measured.figures;
  const std::string& data = measured.data;
  const bool tokens = measured.unit == std::string("tokens");  // for a language model
  const std::string part = measured.part.empty() ? split : measured.part;
  if (json) {
    nlohmann::ordered_json j = {{"data", data},   {"split", part},        {"count", e.count},       {"top1", nullptr},
                                {"loss", e.loss}, {"seconds", e.seconds}, {"bad_samples", left_out}};
    if (e.top1) j["top1"] = *e.top1;
    if (tokens) {
      j["perplexity"] = std::exp(e.loss);
      j["tokens"] = e.count;
    }
    for (const metrics::Score& s : measured.scores) {
      if (!j.contains(s.name)) j[s.name] = s.value;  // beside loss and top1
      j["scores"][s.name] = {{"value", s.value}, {"low", nullptr}, {"high", nullptr}};
      if (s.interval != metrics::Score::Interval::known) continue;
      j["scores"][s.name]["low"] = s.low;
      j["scores"][s.name]["high"] = s.high;
    }
    std::printf("%s\n", j.dump().c_str());
  } else {
    const std::string top1 = e.top1 ? cat("top1 ", fixed(*e.top1, 2), " %, ") : std::string();
    const std::string perplexity = tokens ? cat("perplexity ", fixed(std::exp(e.loss), 4), ", ") : std::string();
    const std::string what = part == "all" ? data : cat(data, " ", part == "train" ? part : name_of_set(part));
    std::printf("%s: %s%sloss %.4f over %s %s (%.2f s)\n", what.c_str(), perplexity.c_str(), top1.c_str(), e.loss,
                with_commas(e.count).c_str(), measured.unit, e.seconds);
    for (const metrics::Score& s : measured.scores) {
      std::printf("%-17s %.6g  %s\n", s.name.c_str(), s.value, metrics::interval_text(s).c_str());
    }
  }
}

}  // namespace

int eval_command(const Args& args) {
  std::string weights;
  std::optional<std::string> on_bad_sample;
  train::MeasureRequest request;
  bool json = false;
  Options o("eval", "Evaluates a saved model on a dataset.", "--weights MODEL.safetensors [options]");
  o.add("--weights", &weights, "the saved model", {.aliases = {"--pretrained"}});
  o.positional("weights", &weights, "the saved model", false);
  o.add("--data", &request.data, "a built-in dataset, a directory or a file (default: what the model was trained on)",
        {.aliases = {"--data-path"}});
  o.add("--data-dir", &request.data_dir, "directory that is searched first for built-in datasets", {.value = "DIR"});
  o.add("--split", &request.split, "split to evaluate; val differs from test where a folder has both",
        {.one_of = {"test", "val", "train"}});
  o.add("--val-split", &request.val_split,
        "validation fraction of a folder without a val folder (default: as in training)");
  o.add("--seed", &request.seed, "seed of that split (default: as in training)", {.min = 0});
  o.add("--text-column", &request.text_column, "text column of a text file (default: as in training)",
        {.value = "NAME|N"});
  o.add("--label-column", &request.label_column, "label column of a text file (default: as in training)",
        {.value = "NAME|N"});
  o.add("--target", &request.target, "target column of a table (default: as in training)", {.value = "COL"});
  o.add("--group-column", &request.group_column, "ranking: the query column (default: as in training)",
        {.value = "COL"});
  o.add("--on-bad-sample", &on_bad_sample,
        "unreadable samples: error stops, skip and report ignore them (default: as in training)",
        {.one_of = {"error", "skip", "report"}});
  o.add(
      "--tta", &request.tta,
      "test-time augmentation: flip averages with the mirror image, shift also over shifts by a pixel (default: as in "
      "training)",
      {.one_of = {"none", "flip", "shift"}});
  o.add("-j,--workers", &request.workers, "data-loading threads (-1: chosen automatically)",
        {.min = -1, .aliases = {"--num-workers"}});
  o.add("-b,--batch-size", &request.batch_size, "samples per step", {.min = 1, .max = 1 << 24});
  o.add("--device", &request.device, "auto, cpu, ref, cuda:N or opencl:N");
  o.add("--deterministic", &request.deterministic, "fixed kernel choices, no measurement; always so with --devices");
  o.add("--json", &json, "print JSON");
  RankFlags flags;
  declare(o, flags);
  o.essentials({"weights", "--data", "--split", "--val-split", "--target", "--on-bad-sample", "--tta", "--workers",
                "--batch-size", "--device", "--devices", "--json", "--help"});
  if (o.parse(args) == Options::Outcome::done) return 0;
  need_given("--weights", !weights.empty(), "eval");
  signals::install();
  const comm::Launch launch = comm::read_launch_environment();
  const int64_t devices = device_count(flags, launch);
  if (devices > 1 && launch.world == 1) {
    need_alike(flags, "whose figures are those of one");
    device_of(flags, request.device, 0);
    return run_ranks("eval", args, flags, devices);
  }
  request.device = device_of(flags, request.device, launch.rank);
  request.deterministic = request.deterministic || launch.world > 1 || !flags.devices.empty();
  refuse_nccl(flags);
  const std::unique_ptr<job::Ranks> ranks = launch.world > 1 ? join_ranks(flags, launch) : nullptr;
  if (launch.world > 1 && !ranks) return signals::exit_code();
  request.ranks = ranks.get();
  int64_t left_out = 0;
  if (on_bad_sample) request.on_bad = *on_bad_sample == "error" ? data::OnBad::error : data::OnBad::skip;
  request.left_out = [&](const data::BadSample& sample) {
    ++left_out;
    std::fprintf(stderr, "warning: skipped: %s: %s\n", printable(sample.path).c_str(),
                 printable(sample.reason).c_str());
  };
  request.note = [&](const std::string& said) {
    if (!o.quiet() && launch.rank == 0) std::fprintf(stderr, "note    %s\n", printable(said).c_str());
  };
  request.warn = [&](const std::string& said) {
    if (launch.rank == 0) std::fprintf(stderr, "warning: %s\n", printable(said).c_str());
  };
  request.poll = [](int64_t, int64_t) { return !signals::stop_requested(); };
  const train::Measurement measured = measure(args, weights, request);
  if (signals::stop_requested()) return signals::exit_code();
  if (launch.rank == 0) print(measured, request.split, left_out, json);
  return 0;
}

}  // namespace freight::app
