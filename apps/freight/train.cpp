// `freight train`: a recipe, changed by flags, becomes a run. Progress goes to stderr, the result to stdout.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/version.h"
#include "freight/train/progress.h"
#include "freight/train/signals.h"
#include "freight/train/trainer.h"
#include "options.h"

namespace freight::app {
namespace {

// Everything the command line says besides the configuration.
struct Flags {
  bool json = false, progress = true;
};

// All options, on top of what `c` holds.
void declare(Options& o, train::Config& c, Flags& f) {
  o.group("Data and model");
  o.positional("data", &c.data, "a named set (freight data list) or a directory", false);
  o.add("--data", &c.data, "a named set or a directory", {.key = "data", .aliases = {"--data-path"}});
  o.add("--data-dir", &c.data_dir, "where named sets are looked for first", {.value = "DIR"});
  o.add("--model", &c.model, "a named model (freight models list) or a spec FILE.json",
        {.key = "model", .aliases = {"-a", "--arch"}});
  o.add("--num-classes", &c.num_classes, "classes of a named model (0: those of the data)",
        {.key = "num_classes", .aliases = {"--classes"}});
  o.add("--input-size", &c.input_size, "resize pictures, and build the model, to H or HxW (default: as they are)",
        {.key = "input_size", .value = "H|HxW"});
  o.add("--weights", &c.weights, "start from these weights (safetensors)",
        {.key = "weights", .aliases = {"--pretrained"}});
  o.add("--recipe", &c.recipe, "the data set's recipe to start from", {.key = "recipe"});
  o.group("Length and batch");
  o.add("--epochs", &c.epochs, "passes over the training set", {.key = "epochs", .aliases = {"--num-train-epochs"}});
  o.add("--max-steps", &c.max_steps, "stop after this many steps (0: no limit)", {.key = "max_steps"});
  o.add("-b,--batch-size", &c.batch_size, "samples per step, over all devices", {.key = "batch_size"});
  o.group("Optimizer and schedule");
  o.add("--optimizer", &c.optimizer, "sgd, adam or adamw", {.key = "optimizer.name", .aliases = {"--opt"}});
  o.add("--lr", &c.lr, "learning rate; the peak for onecycle", {.key = "optimizer.lr", .aliases = {"--learning-rate"}});
  o.add("--momentum", &c.momentum, "momentum of sgd", {.key = "optimizer.momentum"});
  o.add("--nesterov", &c.nesterov, "Nesterov's momentum", {.key = "optimizer.nesterov"});
  o.add("--weight-decay", &c.weight_decay, "weight decay", {.key = "optimizer.weight_decay", .aliases = {"--wd"}});
  o.add("--decay-norm-bias", &c.decay_norm_bias, "weight decay for norm scales and biases too",
        {.key = "optimizer.decay_norm_bias"});
  o.add("--clip-grad-norm", &c.clip_grad_norm, "scale gradients down to this global norm (0: off)",
        {.key = "optimizer.clip_grad_norm"});
  o.add("--lr-scheduler", &c.lr_scheduler, "constant, step, cosine or onecycle",
        {.key = "schedule.name", .aliases = {"--sched"}});
  o.add("--lr-step-size", &c.lr_step_size, "epochs between two cuts of the step schedule",
        {.key = "schedule.step_size"});
  o.add("--lr-gamma", &c.lr_gamma, "factor of a cut", {.key = "schedule.gamma"});
  o.add("--lr-warmup-epochs", &c.lr_warmup_epochs, "epochs of linear warm-up", {.key = "schedule.warmup_epochs"});
  o.add("--onecycle-pct-start", &c.onecycle_pct_start, "share of the steps on the way up",
        {.key = "schedule.pct_start"});
  o.group("Regularisation and augmentation");
  o.add("--label-smoothing", &c.label_smoothing, "label smoothing", {.key = "label_smoothing"});
  o.add("--model-ema", &c.model_ema, "decay of the weights' moving average (0: off)", {.key = "model_ema"});
  o.add("--shift", &c.shift, "random shift in pixels", {.key = "augment.shift"});
  o.add("--crop-padding", &c.crop_padding, "random crop after padding by this many pixels",
        {.key = "augment.crop_padding"});
  o.add("--flip", &c.flip, "random horizontal flip", {.key = "augment.flip"});
  o.add("--color-jitter", &c.color_jitter, "random brightness, contrast and saturation, up to this strength",
        {.key = "augment.color_jitter", .min = 0, .max = 10});
  o.add("--hue-jitter", &c.hue_jitter, "random turn of the hue, up to this part of the circle",
        {.key = "augment.hue_jitter", .min = 0, .max = 0.5});
  o.add("--rand-augment", &c.rand_augment, "operations of RandAugment per picture (0: off, 2 is usual)",
        {.key = "augment.rand_augment", .min = 0, .max = 14});
  o.add("--rand-augment-magnitude", &c.rand_augment_magnitude, "their strength",
        {.key = "augment.rand_augment_magnitude", .min = 0, .max = 30});
  o.add("--random-erase", &c.random_erase, "probability that a rectangle is erased",
        {.key = "augment.random_erase", .min = 0, .max = 1});
  o.add("--mixup-alpha", &c.mixup_alpha, "mixup: pictures and labels blend by Beta(alpha, alpha) (0: off)",
        {.key = "augment.mixup_alpha", .min = 0});
  o.add("--cutmix-alpha", &c.cutmix_alpha, "cutmix: rectangles change places (0: off; with mixup: one of the two)",
        {.key = "augment.cutmix_alpha", .min = 0});
  o.group("Pictures in files (docs/data.md)");
  o.add("--train-crop-size", &c.train_crop_size, "side of a training sample (0: 224, or as the spec FILE.json says)",
        {.key = "pictures.train_crop_size", .min = 0});
  o.add("--val-resize-size", &c.val_resize_size, "shorter side before evaluation cuts (0: the crop * 256 / 224)",
        {.key = "pictures.val_resize_size", .min = 0});
  o.add("--val-crop-size", &c.val_crop_size, "side of an evaluation sample (0: that of training)",
        {.key = "pictures.val_crop_size", .min = 0});
  o.add("--crop-min-area", &c.crop_min_area, "least share of a picture that a random crop takes",
        {.key = "augment.crop_min_area", .max = 1});
  o.add("--val-split", &c.val_split, "share of each class held out where there is no val part (-1: 0.2)",
        {.key = "pictures.val_split"});
  o.add("--on-bad-sample", &c.on_bad_sample, "error stops; skip leaves it out; report also lists it in bad_samples.tsv",
        {.key = "pictures.on_bad_sample"});
  o.group("Machine");
  o.add("--device", &c.backend, "auto, cpu or ref", {.key = "device"});
  o.add("--precision", &c.precision, "fp32", {.key = "precision"});
  o.add("-j,--workers", &c.workers, "data threads (-1: chosen)", {.key = "workers", .aliases = {"--num-workers"}});
  o.add("--seed", &c.seed, "seed of everything random", {.key = "seed", .min = 0});
  o.add("--deterministic", &c.deterministic, "equal bits on every run", {.key = "deterministic"});
  o.group("Output");
  o.add("-o,--output-dir", &c.output_dir, "directory of the run (default runs/MODEL-DATA)", {.aliases = {"--out"}});
  o.add("--overwrite", &c.overwrite, "replace the run in the output directory");
  o.add("--save-every", &c.save_every, "steps between checkpoints (0: each epoch)",
        {.key = "save_every", .aliases = {"--save-steps"}});
  o.add("--keep", &c.keep, "checkpoints kept besides the best (0: all)",
        {.key = "keep", .aliases = {"--save-total-limit"}});
  o.add("--eval-every", &c.eval_every, "epochs between evaluations", {.key = "eval_every", .min = 1});
  o.add("--json", &f.json, "print the result as one JSON line");
  o.add("--progress", &f.progress, "the progress line on stderr");
  o.enable_config();
}

// Shows a run on the terminal.
class Terminal : public train::Observer {
 public:
  Terminal(const Flags& flags, bool quiet)
      : quiet_(quiet), progress_(flags.progress && !quiet ? Progress::Mode::automatic : Progress::Mode::off) {}

  void on_start(const train::Start& s) override {
    if (quiet_) return;
    say(cat("freight ", version(), " on ", s.device));
    say(cat("data    ", s.data, ": ", with_commas(s.train_count), " train, ", with_commas(s.test_count), " test, ",
            s.classes > 0 ? cat(s.classes, " classes") : "values to regress"));
    say(cat("model   ", s.model, ": ", with_commas(s.parameters), " parameters, ", fixed(s.flops_per_step * 1e-9, 2),
            " GFLOP per step, planned peak ", human_bytes(static_cast<double>(s.planned_bytes))));
    say(cat("batch   ", s.batch_size, " = 1 device x ", s.batch_size, ", ", with_commas(s.steps), " steps, ", s.epochs,
            s.epochs == 1 ? " epoch, seed " : " epochs, seed ", s.seed));
    for (const std::string& note : s.notes) say(cat("note    ", note));
    say(cat("output  ", s.output_dir));
  }
  bool wants_step() override { return progress_.due(); }
  void on_step(const train::StepReport& r) override {
    progress_.update(progress_text({.epoch = r.epoch,
                                    .epochs = r.epochs,
                                    .step = r.step,
                                    .steps = r.steps,
                                    .loss = r.loss,
                                    .mean_loss = r.mean_loss,
                                    .top1 = r.top1,
                                    .lr = r.lr,
                                    .samples_per_s = r.samples_per_s,
                                    .data_percent = r.data_percent,
                                    .eta_s = r.eta_s}));
  }
  void on_evaluation_progress(int64_t done, int64_t total) override {
    if (progress_.due()) progress_.update(cat("evaluating  ", with_commas(done), "/", with_commas(total)));
  }
  void on_bad_sample(const std::string& path, const std::string& reason) override {
    say(cat("warning: left out: ", path, ": ", reason));
  }
  void on_epoch(const train::EpochReport& e) override {
    const train::StepReport& r = e.train;
    std::string text = cat("epoch ", r.epoch, "/", r.epochs, "  loss ", fixed(r.mean_loss, 4));
    if (r.top1) text += cat("  top1 ", fixed(*r.top1, 2));
    if (e.test) text += cat("  test loss ", fixed(e.test->loss, 4));
    if (e.test && e.test->top1) text += cat("  test top1 ", fixed(*e.test->top1, 2));
    text += cat("  ", with_commas(static_cast<int64_t>(r.samples_per_s)), " img/s  data ", fixed(r.data_percent, 0),
                "%  ", fixed(e.seconds, 1), " s", e.best ? "  * best" : "");
    if (!quiet_) say(text);
    if (r.data_percent > 20 && !quiet_)
      say(cat("warning: ", fixed(r.data_percent, 0), "% of the time went into waiting for data; try --workers"));
  }

 private:
  void say(const std::string& text) {
    if (progress_.mode() == Progress::Mode::off) {
      std::fprintf(stderr, "%s\n", text.c_str());
    } else {
      progress_.line(text);
    }
  }
  bool quiet_;
  Progress progress_;
};

void print_result(const train::Result& r, const Flags& flags) {
  if (flags.json) {
    nlohmann::ordered_json j = {{"test_top1", nullptr},
                                {"test_loss", r.test.loss},
                                {"train_loss", r.train_loss},
                                {"steps", r.steps},
                                {"epochs", r.epochs},
                                {"train_seconds", r.train_seconds},
                                {"total_seconds", r.total_seconds},
                                {"samples_per_second", r.samples_per_second},
                                {"parameters", r.parameters},
                                {"model", r.model_path},
                                {"output_dir", r.output_dir},
                                {"interrupted", r.interrupted},
                                {"bad_samples", r.bad_samples.size()}};
    if (r.test.top1) j["test_top1"] = *r.test.top1;
    std::printf("%s\n", j.dump().c_str());
    return;
  }
  if (r.interrupted) {
    std::printf("stopped after %s steps; the weights so far are in %s\n", with_commas(r.steps).c_str(),
                r.model_path.c_str());
    return;
  }
  if (!r.bad_samples.empty()) {
    std::printf("left out %zu pictures that cannot be read; freight data verify lists all\n", r.bad_samples.size());
  }
  const std::string effort = cat(with_commas(r.steps), " steps in ", fixed(r.train_seconds, 1), " s, ",
                                 with_commas(static_cast<int64_t>(r.samples_per_second)), " samples/s");
  if (r.test.top1) {
    std::printf("test accuracy %.2f %%  (loss %.4f, %s)\n", *r.test.top1, r.test.loss, effort.c_str());
  } else {
    std::printf("test loss %.6g  (%s)\n", r.test.loss, effort.c_str());
  }
  std::printf("model   %s\n", r.model_path.c_str());
  std::printf("try     freight eval --weights %s\n", r.model_path.c_str());
  std::printf("        freight predict %s %s\n", r.model_path.c_str(), r.test.top1 ? "IMAGE.png" : "SAMPLE.npy");
}

}  // namespace

int train_command(const Args& args) {
  // The recipe decides the defaults, and the data set decides the recipe: read those two first.
  train::Config probe;
  Flags flags;
  const auto options = [](train::Config& c, Flags& f) {
    auto o = std::make_unique<Options>("train", "Trains a model on a data set and stores it.", "[DATA] [options]",
                                       "Without arguments: trains convnet on the built-in digits.\n"
                                       "  freight train mnist --model lenet --epochs 5\n"
                                       "  freight train --data cifar10 --set optimizer.lr=0.05\n"
                                       "  freight train --data FOLDER --train-crop-size 128");
    declare(*o, c, f);
    return o;
  };
  {
    const auto first = options(probe, flags);
    first->peek(args);
  }
  train::Config config = train::recipe(probe.data, probe.recipe, probe.data_dir);
  flags = {};
  const auto o = options(config, flags);
  if (o->parse(args) == Options::Outcome::done) return 0;
  if (!o->given("--model") && config.model.empty()) config.model = "convnet";
  train::validate(config);
  if (o->dry_run()) {
    std::printf("%s\n", o->config_json().c_str());
    return 0;
  }
  signals::install();
  Terminal terminal(flags, o->quiet());
  const train::Result result = train::train(config, terminal, args);
  print_result(result, flags);
  return result.interrupted ? signals::exit_code() : 0;
}

}  // namespace freight::app
