// See config_fields.h.
#include "freight/train/config_fields.h"

#include <algorithm>
#include <cmath>

#include "freight/backend/backend.h"
#include "freight/base/duration.h"
#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/optim/create.h"
#include "freight/passes/options.h"
#include "freight/store/precision.h"
#include "freight/train/scores.h"

namespace freight::train {

namespace {

using Json = nlohmann::ordered_json;
using C = Config;

constexpr double kMostSamples = 1 << 24;  // of a batch

Limits at_least(double min) { return {.min = min}; }
Limits between(double min, double max) { return {.min = min, .max = max}; }
// min <= x < max
Limits from_below(double min, double max) { return {.min = min, .max = max, .below_max = true}; }
Limits words(std::vector<std::string> one_of) { return {.one_of = std::move(one_of)}; }

constexpr const char* kData = "Data and model";
constexpr const char* kLength = "Length and batch";
constexpr const char* kOptimizer = "Optimizer and schedule";
constexpr const char* kAugment = "Regularisation and augmentation";
constexpr const char* kImages = "Pictures in files (docs/data.md)";
constexpr const char* kText = "Text (docs/data.md)";
constexpr const char* kTables = "Tables (docs/tables.md)";
constexpr const char* kMachine = "Machine";
constexpr const char* kOutput = "Output";

Field changeable(Field f) {
  f.may_change = true;
  return f;
}

// clang-format off
std::vector<Field> make_fields() {
  static const std::string metrics = join(metric_names(), "|");
  return {
      {kData, "--data", "data", &C::data, "a named set, a directory or a file", {}, {"--data-path"}},
      {kData, "--data-dir", "", &C::data_dir, "where named sets are looked for first", {}, {}, "DIR"},
      {kData, "--model", "model", &C::model, "a named model or learner (freight models list), or a spec FILE.json", {},
       {"-a", "--arch"}},
      {kData, "--num-classes", "num_classes", &C::num_classes, "classes of a named model (0: those of the data)",
       at_least(0), {"--classes"}},
      {kData, "--input-size", "input_size", &C::input_size,
       "resize pictures, and build the model, to H or HxW (default: as they are)", {}, {}, "H|HxW"},
      changeable({kData, "--weights", "weights", &C::weights, "start from these weights (safetensors)", {}, {"--pretrained"}}),
      changeable({kData, "--recipe", "recipe", &C::recipe, "the data set's recipe to start from, or a recipe FILE.json"}),

      changeable({kLength, "--epochs", "epochs", &C::epochs, "passes over the training set", between(0, 1e9), {"--num-train-epochs"}}),
      changeable({kLength, "--max-steps", "max_steps", &C::max_steps, "stop after this many steps (0: no limit)", at_least(0)}),
      {kLength, "-b,--batch-size", "batch_size", &C::batch_size, "samples per step, over all devices", between(1, kMostSamples)},
      {kLength, "--grad-accum", "grad_accum", &C::grad_accum,
       "cut each step's batch into this many parts whose gradients are added: less memory", at_least(1),
       {"--gradient-accumulation-steps"}},
      {kLength, "--shards", "shards", &C::shards,
       "cut each batch into this many shards, which give the same model to the bit on any number of devices (0: off)",
       between(0, 1024)},
      {kLength, "--sync-batch-norm", "sync_batch_norm", &C::sync_batch_norm,
       "BatchNorm takes its statistics over the whole batch, not over the part of a device or a shard"},

      {kOptimizer, "--optimizer", "optimizer.name", &C::optimizer, "sgd, adam, adamw, lion or muon",
       words(optim::names()), {"--opt"}},
      {kOptimizer, "--lr", "optimizer.lr", &C::lr, "learning rate; the peak for onecycle (-1: 0.01 of nets, 0.1 of gbdt)", at_least(-1),
       {"--learning-rate"}},
      {kOptimizer, "--momentum", "optimizer.momentum", &C::momentum, "momentum of sgd", from_below(0, 1)},
      {kOptimizer, "--nesterov", "optimizer.nesterov", &C::nesterov, "Nesterov's momentum"},
      {kOptimizer, "--weight-decay", "optimizer.weight_decay", &C::weight_decay, "weight decay", at_least(0), {"--wd"}},
      {kOptimizer, "--decay-norm-bias", "optimizer.decay_norm_bias", &C::decay_norm_bias,
       "weight decay for norm scales and biases too"},
      {kOptimizer, "--clip-grad-norm", "optimizer.clip_grad_norm", &C::clip_grad_norm,
       "scale gradients down to this global norm (0: off)", at_least(0)},
      {kOptimizer, "--lr-scheduler", "schedule.name", &C::lr_scheduler, "constant, step, cosine or onecycle",
       words({"constant", "step", "cosine", "onecycle"}), {"--sched"}},
      {kOptimizer, "--lr-step-size", "schedule.step_size", &C::lr_step_size,
       "epochs between two cuts of the step schedule", at_least(1)},
      {kOptimizer, "--lr-gamma", "schedule.gamma", &C::lr_gamma, "factor of a cut", at_least(0)},
      {kOptimizer, "--lr-warmup-epochs", "schedule.warmup_epochs", &C::lr_warmup_epochs, "epochs of linear warm-up",
       at_least(0)},
      {kOptimizer, "--onecycle-pct-start", "schedule.pct_start", &C::onecycle_pct_start,
       "share of the steps on the way up", between(0, 1)},

      {kAugment, "--label-smoothing", "label_smoothing", &C::label_smoothing, "label smoothing", from_below(0, 1)},
      {kAugment, "--dropout", "dropout", &C::dropout,
       "of a named net for text (0: none, or what the net is defined with); a spec FILE.json says its own", from_below(0, 1)},
      {kAugment, "--model-ema", "model_ema", &C::model_ema, "decay of the weights' moving average (0: off)",
       from_below(0, 1)},
      {kAugment, "--tta", "tta", &C::tta,
       "evaluate on the mean over views of each image: flip adds its mirror image, shift also moves it by a pixel",
       words({"none", "flip", "shift"})},
      {kAugment, "--shift", "augment.shift", &C::shift, "random shift in pixels", at_least(0)},
      {kAugment, "--crop-padding", "augment.crop_padding", &C::crop_padding,
       "random crop after padding by this many pixels", at_least(0)},
      {kAugment, "--flip", "augment.flip", &C::flip, "mirror each picture every other epoch, the first time by chance"},
      {kAugment, "--color-jitter", "augment.color_jitter", &C::color_jitter,
       "random brightness, contrast and saturation, up to this strength", between(0, 10)},
      {kAugment, "--hue-jitter", "augment.hue_jitter", &C::hue_jitter,
       "random turn of the hue, up to this part of the circle", between(0, 0.5)},
      {kAugment, "--rand-augment", "augment.rand_augment", &C::rand_augment,
       "operations of RandAugment per picture (0: off, 2 is usual)", between(0, 14)},
      {kAugment, "--rand-augment-magnitude", "augment.rand_augment_magnitude", &C::rand_augment_magnitude,
       "their strength", between(0, 30)},
      {kAugment, "--random-erase", "augment.random_erase", &C::random_erase, "probability that a rectangle is erased",
       between(0, 1)},
      {kAugment, "--mixup-alpha", "augment.mixup_alpha", &C::mixup_alpha,
       "mixup: pictures and labels blend by Beta(alpha, alpha) (0: off)", at_least(0)},
      {kAugment, "--cutmix-alpha", "augment.cutmix_alpha", &C::cutmix_alpha,
       "cutmix: rectangles change places (0: off; with mixup: one of the two)", at_least(0)},

      {kImages, "--train-crop-size", "pictures.train_crop_size", &C::train_crop_size,
       "side of a training sample (0: 224, or as the spec FILE.json says)", at_least(0)},
      {kImages, "--val-resize-size", "pictures.val_resize_size", &C::val_resize_size,
       "shorter side before evaluation cuts (0: the crop * 256 / 224)", at_least(0)},
      {kImages, "--val-crop-size", "pictures.val_crop_size", &C::val_crop_size,
       "side of an evaluation sample (0: that of training)", at_least(0)},
      {kImages, "--orientation", "pictures.orientation", &C::orientation,
       "exif turns photographs as their EXIF data say; ignore takes the pixels as they lie", words({"exif", "ignore"})},
      {kImages, "--crop-min-area", "augment.crop_min_area", &C::crop_min_area,
       "least share of a picture that a random crop takes", {.min = 0, .max = 1, .above_min = true}},
      {kImages, "--val-split", "pictures.val_split", &C::val_split,
       "of tables, and of pictures in folders: share of each class held out where there is no val part (-1: 0.2)", from_below(-1, 1)},
      {kImages, "--on-bad-sample", "pictures.on_bad_sample", &C::on_bad_sample,
       "error stops; skip leaves it out; report also lists it in bad_samples.tsv", words({"error", "skip", "report"})},

      {kImages, "--layout", "arrays.layout", &C::layout,
       "how arrays lie: nchw, nhwc, nhw, or features, each sample as it stands (auto: told by their shape)",
       words({"auto", "nchw", "nhwc", "nhw", "features"})},
      {kImages, "--value-range", "arrays.value_range", &C::value_range,
       "values of arrays that are black and white, as 0:4095 (default: bytes, floats from 0 to 1, or plain numbers)", {}, {},
       "LOW:HIGH"},

      {kText, "--layers", "text.layers", &C::layers,
       "recurrent layers or blocks of a named net for text (0: its own number)", at_least(0)},
      {kText, "--width", "text.width", &C::width,
       "of its vectors and hidden states; of gpt_char a multiple of 64 (0: its own)", at_least(0)},
      {kText, "--bidirectional", "text.bidirectional", &C::bidirectional, "a named recurrent net reads both ways"},
      {kText, "--text-column", "text.text_column", &C::text_column,
       "of a CSV, TSV or JSON lines file: name or number of the text", {}, {}, "NAME|N"},
      {kText, "--label-column", "text.label_column", &C::label_column, "the same of the label (of a table: --target)", {}, {}, "NAME|N"},
      {kText, "--tokenizer", "text.tokenizer", &C::tokenizer,
       "word, bpe or char (auto: word for documents, char for a corpus)", words({"auto", "word", "bpe", "char"})},
      {kText, "--vocabulary", "text.vocabulary", &C::vocabulary,
       "tokens at most (0: 30,000 words, 8,000 byte pairs, all characters)", at_least(0)},
      {kText, "--min-count", "text.min_count", &C::min_count, "how often a word must occur to be one", at_least(1)},
      {kText, "--max-length", "text.max_length", &C::max_length,
       "tokens per document or window (0: the spec's, or 256)", at_least(0)},
      {kText, "--truncation-side", "text.truncation_side", &C::truncation_side,
       "where a longer document is cut off; left keeps its end", words({"right", "left"})},

      {kTables, "--target", "tables.target", &C::target,
       "the column that is told from the others, by name or number: the file is a table then, and the model gbdt unless said",
       {}, {}, "COL"},
      {kTables, "--test", "tables.test", &C::test,
       "a file of the same columns that is the test part; what is held out of the data then only guides the training", {}, {}, "FILE"},
      {kTables, "--columns", "tables.columns", &C::columns,
       "names of the columns of a file without a header: NAME,NAME,... or a file with one in each line", {}, {}, "NAMES|FILE"},
      {kTables, "--header", "tables.header", &C::header,
       "whether the first row of a table names its columns (auto: told by its cells)", words({"auto", "yes", "no"})},
      {kTables, "--drop", "tables.drop", &C::drop, "columns that are not learnt from", {}, {}, "COL,..."},
      {kTables, "--types", "tables.types", &C::types,
       "kinds of columns that are not as their cells look: number, integer, category, yesno, datetime, text, constant or identifier",
       {}, {}, "COL=KIND,..."},
      {kTables, "--task", "tables.task", &C::task, "what the target holds: classes, values, counts or, of a ranking, relevances (auto: told by its cells)",
       words({"auto", "classes", "values", "counts", "ranking"})},
      {kTables, "--weight-column", "tables.weight_column", &C::weight_column, "a row counts as often as this column says", {}, {}, "COL"},
      {kTables, "--group-column", "tables.group_column", &C::group_column,
       "rows with one cell in this column are held out together, and ranked among each other; it is not learnt from", {}, {}, "COL"},
      {kTables, "--split-by", "tables.split_by", &C::split_by,
       "hold out the last rows by this column of times or numbers, not rows by chance", {}, {}, "COL"},

      {kTables, "--objective", "trees.objective", &C::objective,
       "of values: squarederror, absoluteerror, quantile, poisson or tweedie; of rankings ndcg or pairwise (auto: classes by logistic "
       "or softprob, values by squarederror, rankings by ndcg)",
       words({"auto", "squarederror", "absoluteerror", "quantile", "poisson", "tweedie", "ndcg", "pairwise"})},
      {kTables, "--quantile", "trees.quantile", &C::quantile, "which quantile the objective of this name tells",
       {.min = 0, .max = 1, .below_max = true, .above_min = true}},
      {kTables, "--tweedie-power", "trees.tweedie_power", &C::tweedie_power, "power of the variance of tweedie",
       {.min = 1, .max = 2, .below_max = true, .above_min = true}},
      {kTables, "--rounds", "trees.rounds", &C::rounds, "rounds of boosting at most (0: 1000)", between(0, 1e6),
       {"--num-boost-round", "--n-estimators"}},
      {kTables, "--early-stop", "trees.early_stop", &C::early_stop,
       "end after so many rounds, or epochs of mlp, without a better loss of rows that are not fitted, and keep the best "
       "(0: off; -1: 20, of mlp 8)", at_least(-1),
       {"--early-stopping-rounds"}},
      {kTables, "--trees", "trees.count", &C::trees, "trees of a forest, for each class (0: 100)", between(0, 1e6)},
      {kTables, "--max-depth", "trees.max_depth", &C::max_depth, "levels of a tree (0: 6 of gbdt, 12 of forest)", between(0, 30)},
      {kTables, "--subsample", "trees.subsample", &C::subsample, "share of the rows that a tree sees (0: 1 of gbdt, 0.8 of forest)",
       between(0, 1)},
      {kTables, "--colsample", "trees.colsample", &C::colsample,
       "share of the columns that a tree of gbdt, or a split of forest, may choose from (0: 1 of gbdt, 0.8 of forest)",
       between(0, 1), {"--colsample-bytree"}},
      {kTables, "--lambda", "tables.lambda", &C::lambda,
       "L2 on coefficients and on the values of leaves (-1: 0 of linear and poisson, 0.00001 of forest, 1 of others)", at_least(-1),
       {"--reg-lambda"}},
      {kTables, "--min-child-weight", "trees.min_child_weight", &C::min_child_weight,
       "least sum of second derivatives in a leaf; for squarederror, least number of rows", at_least(0)},
      {kTables, "--monotone", "trees.monotone", &C::monotone,
       "the answer rises (1) or falls (-1) with these columns of numbers", {}, {"--monotone-constraints"}, "COL=1|-1,..."},
      {kTables, "--class-weight", "trees.class_weight", &C::class_weight, "balanced: each class weighs as much as any other",
       words({"none", "balanced"})},
      changeable({kTables, "--external-memory", "trees.external_memory", &C::external_memory,
       "rows lie in files of TMPDIR, for tables larger than the memory (auto: where the table would not fit)",
       words({"auto", "on", "off"})}),
      {kTables, "--metric", "tables.metric", &C::metric,
       "early stopping, comparisons and the threshold go by it, and it is printed first (auto: log_loss of classes, rmse of values, "
       "ndcg of rankings, or the objective's); ndcg@K and map@K are of the first K rows of a query", {}, {}, metrics.c_str()},
      {kTables, "--folds", "tables.folds", &C::folds,
       "fit and measure in so many parts of the training rows before the fit on all of them (0: none; 5 of auto and --tune)", between(0, 100)},
      {kTables, "--tune", "tables.tune", &C::tune, "further settings of gbdt and forest to try; the best ones are kept", between(0, 1000)},
      {kTables, "--time-budget", "tables.time_budget", &C::time_budget,
       "for comparing learners and settings: 60s, 5m, 1h30m (default: 60s)", {}, {}, "TIME"},
      {kTables, "--threshold", "tables.threshold", &C::threshold,
       "the second of two classes is told above this probability (0: 0.5, or the best for --metric accuracy and f1)", from_below(0, 1)},

      changeable({kMachine, "--device", "device", &C::backend, "auto, cpu, ref, cuda:N or opencl:N"}),
      {kMachine, "--precision", "precision", &C::precision,
       "of the arithmetic: fp32, tf32, bf16 or fp16 (docs/performance.md); weights and moments stay f32", words(store::precision_names())},
      changeable({kMachine, "--xgboost", "", &C::xgboost, "the libxgboost.so that fits trees (docs/table-models.md says where one is looked for)",
       {}, {}, "PATH"}),
      changeable({kMachine, "-j,--workers", "workers", &C::workers, "data threads (-1: chosen)", at_least(-1), {"--num-workers"}}),
      {kMachine, "--seed", "seed", &C::seed, "seed of everything random", at_least(0)},
      changeable({kMachine, "--recompute", "recompute", &C::recompute,
       "activations computed again in the backward half instead of kept: auto (the cheap ones) or all, where that saves "
       "memory",
       words(recompute_names())}),
      changeable({kMachine, "--offload", "offload", &C::offload,
       "to host memory: activations, as far as the device's memory asks for it; the optimizer's state; all; or auto, "
       "which keeps, computes again or offloads each activation, by cost (docs/plan.md)",
       words(offload_names())}),
      changeable({kMachine, "--device-data", "device_data", &C::device_data,
       "the training set lies on the device, whose steps make their batches themselves (auto: a device with memory of "
       "its own, a set in memory that takes a quarter of it at most; docs/devices.md)",
       words({"auto", "yes", "no"})}),
      changeable({kMachine, "--steps-per-launch", "steps_per_launch", &C::steps_per_launch,
       "steps that such a device is given at a time (0: 16)", at_least(0)}),
      changeable({kMachine, "--deterministic", "deterministic", &C::deterministic, "equal bits on every run, for any number of threads"}),

      {kOutput, "-o,--output-dir", "", &C::output_dir, "directory of the run (default runs/MODEL-DATA)", {}, {"--out"}},
      {kOutput, "--overwrite", "", &C::overwrite, "replace the run in the output directory"},
      {kOutput, "--resume", "", &C::resume,
       "go on from a checkpoint: the path of a run or of one of its checkpoints, or auto, that of the output directory "
       "if there is one", {}, {"--resume-from-checkpoint"}, "PATH"},
      changeable({.group = kOutput, .names = "--save-every", .key = "save_every", .member = &C::save_every,
       .help = "steps between checkpoints, or a time like 30s (0: each epoch)", .limits = at_least(0),
       .aliases = {"--save-steps"}, .seconds = &C::save_seconds}),
      changeable({kOutput, "--keep", "keep", &C::keep, "checkpoints kept besides the best (0: all)", at_least(0),
       {"--save-total-limit"}}),
      changeable({kOutput, "--save-in-place", "save_in_place", &C::save_in_place,
       "write checkpoints while the run waits, without the copy of weights and optimizer that saves the wait"}),
      changeable({kOutput, "--eval-every", "eval_every", &C::eval_every, "epochs between evaluations", at_least(1)}),
  };
}
// clang-format on

// "optimizer.lr" as /optimizer/lr.
Json::json_pointer pointer(const std::string& key) { return Json::json_pointer("/" + join(split(key, '.'), "/")); }

void set(Config& c, const Field& f, const Json& value, const std::string& source) {
  if (f.seconds) c.*f.seconds = 0;
  if (f.seconds && value.is_string()) {
    c.*f.seconds = parse_seconds(f.flag(), value.get<std::string>());
    c.*std::get<int64_t Config::*>(f.member) = 0;
    return;
  }
  std::visit(
      [&](auto member) {
        using T = std::remove_cvref_t<decltype(c.*member)>;
        const bool fits = std::is_same_v<T, bool>      ? value.is_boolean()
                          : std::is_same_v<T, int64_t> ? value.is_number_integer()
                          : std::is_same_v<T, double>  ? value.is_number()
                                                       : value.is_string();
        const bool large = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
        if (!fits || (std::is_same_v<T, int64_t> && large)) {
          fail(ErrorKind::usage, source, f.key, ": got ", excerpt(value.dump()), ", need ",
               std::is_same_v<T, bool>      ? "true or false"
               : std::is_same_v<T, int64_t> ? "a whole number"
               : std::is_same_v<T, double>  ? "a number"
                                            : "text");
        }
        c.*member = value.get<T>();
      },
      f.member);
}

void set_all(Config& c, const Json& node, const std::string& prefix, const std::string& source) {
  for (const auto& [name, value] : node.items()) {
    const std::string key = prefix + name;
    if (value.is_object() && !value.empty()) {
      set_all(c, value, key + ".", source);
      continue;
    }
    std::vector<std::string> keys;
    const Field* found = nullptr;
    for (const Field& f : config_fields()) {
      if (!*f.key) continue;
      keys.emplace_back(f.key);
      if (key == f.key) found = &f;
    }
    if (!found) {
      const std::string near = nearest(key, keys);
      fail(ErrorKind::usage, source, "unknown key '", excerpt(key), "'",
           near.empty() ? "" : cat("; did you mean ", near, "?"));
    }
    set(c, *found, value, source);
  }
}

// Counts beyond are typing errors, and products of two of them leave 64 bits. A seed is no count.
constexpr double kLargestCount = 0x1p40;

void check_number(const Field& f, double v, bool count) {
  Limits l = f.limits;
  if (count && std::isinf(l.max)) l.max = kLargestCount;
  if (!std::isfinite(v)) fail(ErrorKind::usage, f.flag(), "must be a finite number: got ", v);
  const bool low = l.above_min ? v <= l.min : v < l.min, high = l.below_max ? v >= l.max : v > l.max;
  if (!low && !high) return;
  const std::string lower = cat(l.above_min ? "above " : "at least ", l.min),
                    upper = cat(l.below_max ? "below " : "at most ", l.max);
  fail(ErrorKind::usage, f.flag(), "must be ",
       std::isinf(l.max)   ? lower
       : std::isinf(l.min) ? upper
                           : cat(lower, " and ", upper),
       ": got ", v);
}

void check_word(const Field& f, const std::string& got) {
  const std::vector<std::string>& known = f.limits.one_of;
  if (known.empty()) return;
  for (const std::string& k : known) {
    if (k == got) return;
  }
  const std::string near = nearest(got, known);
  fail(ErrorKind::usage, f.flag(), "unknown value: got ", got, ", need one of ", join(known, ", "),
       near.empty() ? "" : cat("; did you mean ", near, "?"));
}

}  // namespace

std::string Field::flag() const {
  const std::string all = names;
  return all.substr(all.find("--"));
}

bool for_tables(const Field& field) {
  return std::string_view(field.group) == kTables || field.member == Field::Member(&Config::xgboost);
}

const std::vector<Field>& config_fields() {
  static const std::vector<Field> kFields = make_fields();
  return kFields;
}

std::string to_json(const Config& c) {
  Json out;
  for (const Field& f : config_fields()) {
    if (!*f.key) continue;
    std::visit([&](auto member) { out[pointer(f.key)] = c.*member; }, f.member);
    if (f.seconds && c.*f.seconds > 0) out[pointer(f.key)] = cat(c.*f.seconds, "s");
  }
  return out.dump(2);
}

void set_from_json(Config& c, const std::string& text, const std::string& source) {
  const auto document = io::parse_json<Json>(text, source);
  if (!document.is_object()) fail(ErrorKind::usage, source, "a configuration must be a JSON object");
  set_all(c, document, "", source);
}

void set_flags(Config& c, const std::vector<std::string>& flags) {
  for (size_t i = 0; i < flags.size(); ++i) {
    const std::vector<Field>& fields = config_fields();
    const auto f = std::find_if(fields.begin(), fields.end(), [&](const Field& one) { return one.flag() == flags[i]; });
    if (f == fields.end()) fail(ErrorKind::usage, flags[i], "no setting of a training run has this flag");
    if (const auto* flag = std::get_if<bool Config::*>(&f->member)) {
      c.** flag = true;
      continue;
    }
    if (++i == flags.size()) fail(ErrorKind::usage, f->flag(), "needs a value");
    if (const auto* text = std::get_if<std::string Config::*>(&f->member)) {
      c.** text = flags[i];
    } else {
      set(c, *f, io::try_parse_json<Json>(flags[i]).value_or(Json(flags[i])), f->flag());
    }
  }
}

std::string base_name(const std::string& name_or_path) {
  std::string path = name_or_path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

void validate(const Config& c) {
  if (!c.backend.empty() && c.backend != "auto") need_backend_name(c.backend);
  for (const Field& f : config_fields()) {
    std::visit(
        [&](auto member) {
          using T = std::remove_cvref_t<decltype(c.*member)>;
          if constexpr (std::is_same_v<T, std::string>) {
            check_word(f, c.*member);
          } else if constexpr (!std::is_same_v<T, bool>) {
            check_number(f, static_cast<double>(c.*member),
                         std::is_same_v<T, int64_t> && f.member != Field::Member(&Config::seed));
          }
        },
        f.member);
  }
  if (!std::isfinite(c.save_seconds) || c.save_seconds < 0) {
    fail(ErrorKind::usage, "--save-every", "must be a time of at least 0 s: got ", c.save_seconds, " s");
  }
  check_metric_name(c.metric);
  if (c.lr < 0 && c.lr != kAutomaticRate) fail(ErrorKind::usage, "--lr", "must be at least 0, or -1: got ", c.lr);
  if (c.folds == 1) fail(ErrorKind::usage, "--folds", "got 1: one fold leaves nothing to fit, need 2 at least");
  if (!c.time_budget.empty()) parse_seconds("--time-budget", c.time_budget);
  if (c.lambda < 0 && c.lambda != -1) fail(ErrorKind::usage, "--lambda", "must be at least 0, or -1: got ", c.lambda);
  if (c.grad_accum > c.batch_size) {
    fail(ErrorKind::usage, "--grad-accum", "a batch of ", c.batch_size, " has no ", c.grad_accum, " parts");
  }
  if (c.shards > c.batch_size) {
    fail(ErrorKind::usage, "--shards", "a batch of ", c.batch_size, " has no ", c.shards, " shards");
  }
  if (c.shards > 0 && c.grad_accum > 1) {
    fail(ErrorKind::usage, "--grad-accum", "does not go with --shards, whose shards are parts of the batch already");
  }
  if (c.sync_batch_norm && c.grad_accum > 1) {
    fail(ErrorKind::usage, "--sync-batch-norm", "does not go with --grad-accum: it needs the whole batch at once");
  }
  if (c.epochs == 0 && c.max_steps == 0) {
    fail(ErrorKind::usage, "--epochs", "nothing to do: got 0 epochs and no --max-steps");
  }
}

}  // namespace freight::train
