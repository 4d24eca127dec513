// See config_fields.h.
#include "freight/train/config_fields.h"

#include <algorithm>
#include <cmath>

#include "freight/backend/backend.h"
#include "freight/base/duration.h"
#include "freight/base/error.h"
#include "freight/base/memory_size.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/metrics/decision.h"
#include "freight/metrics/scores.h"
#include "freight/models/models.h"
#include "freight/optim/create.h"
#include "freight/passes/options.h"
#include "freight/store/precision.h"
#include "freight/train/class_weights.h"
#include "freight/train/metric.h"

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
constexpr const char* kFinetune = "Fine-tuning (docs/fine-tuning.md)";
constexpr const char* kAugment = "Regularization and augmentation";
constexpr const char* kImages = "Image files and arrays (docs/data.md)";
constexpr const char* kText = "Text (docs/data.md)";
constexpr const char* kTables = "Tables (docs/tables.md)";
constexpr const char* kCommon = "Metrics, early stopping and classes (docs/imbalance.md)";
constexpr const char* kMachine = "Machine";
constexpr const char* kOutput = "Output";

Field changeable(Field f) {
  f.may_change = true;
  return f;
}

// clang-format off
std::vector<Field> make_fields() {
  static const std::string metric_names = cat(join(metrics::metric_names(), "|"), "|", kByLoss, "|", kByOwnMetric);
  std::vector<std::string> losses = models::loss_names();
  losses.insert(losses.begin(), "auto");
  return {
      {kData, "--data", "data", &C::data, "a built-in dataset (freight data list), a directory or a file", {}, {"--data-path"}},
      {kData, "--data-dir", "", &C::data_dir, "directory that is searched first for built-in datasets", {}, {}, "DIR"},
      {kData, "--model", "model", &C::model, "a built-in model (freight models list) or a spec FILE.json", {},
       {"-a", "--arch"}},
      {kData, "--num-classes", "num_classes", &C::num_classes, "classes of a built-in model (0: those of the data)",
       at_least(0), {"--classes"}},
      {kData, "--input-size", "input_size", &C::input_size,
       "resize images, and build the model, to H or HxW (default: unchanged)", {}, {}, "H|HxW"},
      changeable({kData, "--weights", "weights", &C::weights, "initial weights to fine-tune from (safetensors, .pth); a head of another size is replaced", {}, {"--pretrained"}}),
      changeable({kData, "--recipe", "recipe", &C::recipe, "the dataset's recipe with the defaults, or a recipe FILE.json"}),

      changeable({kLength, "--epochs", "epochs", &C::epochs, "passes over the training set", between(0, 1e9), {"--num-train-epochs"}}),
      changeable({kLength, "--max-steps", "max_steps", &C::max_steps, "stop after this many steps (0: no limit)", at_least(0)}),
      {kLength, "-b,--batch-size", "batch_size", &C::batch_size, "samples per step, over all devices", between(1, kMostSamples)},
      {kLength, "--grad-accum", "grad_accum", &C::grad_accum,
       "micro-batches per step whose gradients are accumulated: less memory", at_least(1),
       {"--gradient-accumulation-steps"}},
      {kLength, "--shards", "shards", &C::shards,
       "shards per batch; the model is then bitwise identical on any number of devices (0: off)",
       between(0, 1024)},
      {kLength, "--sync-batch-norm", "sync_batch_norm", &C::sync_batch_norm,
       "compute BatchNorm statistics over the whole batch, not per device or shard"},

      {kOptimizer, "--optimizer", "optimizer.name", &C::optimizer, "sgd, adam, adamw, lion, rmsprop, muon, adagrad or nadam",
       words(optim::names()), {"--opt"}},
      {kOptimizer, "--lr", "optimizer.lr", &C::lr, "learning rate; the peak for onecycle (-1: 0.01 for networks, 0.1 for gbdt)", at_least(-1),
       {"--learning-rate"}},
      {kOptimizer, "--momentum", "optimizer.momentum", &C::momentum, "momentum of sgd", from_below(0, 1)},
      {kOptimizer, "--nesterov", "optimizer.nesterov", &C::nesterov, "Nesterov's momentum"},
      {kOptimizer, "--weight-decay", "optimizer.weight_decay", &C::weight_decay, "weight decay", at_least(0), {"--wd"}},
      {kOptimizer, "--decay-norm-bias", "optimizer.decay_norm_bias", &C::decay_norm_bias,
       "apply weight decay to norm scales and biases too"},
      {kOptimizer, "--clip-grad-norm", "optimizer.clip_grad_norm", &C::clip_grad_norm,
       "scale gradients down to this global norm (0: off)", at_least(0)},
      {kOptimizer, "--loss", "loss", &C::loss,
       "loss of a network: cross_entropy, focal or bce for classes, bce for --task multilabel, mse, huber or mae for values "
       "(auto: the model's own)",
       words(losses), {"--criterion", "--loss-function"}},
      {kOptimizer, "--lr-scheduler", "schedule.name", &C::lr_scheduler,
       "constant, step, cosine, onecycle, or plateau, which decays where the validation figure does not improve",
       words({"constant", "step", "cosine", "onecycle", "plateau"}), {"--sched"}},
      {kOptimizer, "--lr-step-size", "schedule.step_size", &C::lr_step_size,
       "decay interval of the step schedule, in epochs", at_least(1)},
      {kOptimizer, "--lr-patience", "schedule.patience", &C::lr_patience,
       "evaluations without improvement before the plateau schedule decays (0: as 1)", at_least(0)},
      {kOptimizer, "--lr-gamma", "schedule.gamma", &C::lr_gamma, "decay factor of the step and plateau schedules", at_least(0)},
      {kOptimizer, "--lr-warmup-epochs", "schedule.warmup_epochs", &C::lr_warmup_epochs, "epochs of linear warm-up",
       at_least(0)},
      {kOptimizer, "--onecycle-pct-start", "schedule.pct_start", &C::onecycle_pct_start,
       "fraction of the steps in which the learning rate rises", between(0, 1)},

      {kFinetune, "--freeze", "finetune.freeze", &C::freeze,
       "layers that are not trained: 'conv1,layer[1-3].*', or backbone for all but the head; BatchNorm there uses its "
       "running statistics", {}, {}, "PATTERN,..."},
      {kFinetune, "--head-lr", "finetune.head_lr", &C::head_lr, "learning rate of the head, the last layer (0: --lr)", at_least(0)},
      {kFinetune, "--lr-layer-decay", "finetune.lr_layer_decay", &C::lr_layer_decay,
       "factor of the learning rate from each block to the one before it; the head has --lr (1: off)",
       {.min = 0, .max = 1, .above_min = true}, {"--layer-decay"}},
      {kFinetune, "--lr-scale", "finetune.lr_scale", &C::lr_scale,
       "factors of the learning rate of layers: 'layer4.*=0.3,conv1=0.1'", {}, {}, "PATTERN=X,..."},
      {kFinetune, "--feature-cache", "finetune.feature_cache", &C::feature_cache,
       "compute frozen layers once per sample and keep the results in memory, or in a file in TMPDIR (auto: where that "
       "is faster; off: never)", words({"auto", "memory", "disk", "off"})},
      {kFinetune, "--feature-cache-size", "finetune.feature_cache_size", &C::feature_cache_size,
       "limit for these results", {}, {}, "8GiB"},

      {kAugment, "--label-smoothing", "label_smoothing", &C::label_smoothing, "label smoothing", from_below(0, 1)},
      {kAugment, "--dropout", "dropout", &C::dropout,
       "dropout of a built-in text model (0: the model's own); a spec FILE.json sets its own", from_below(0, 1)},
      {kAugment, "--model-ema", "model_ema", &C::model_ema, "decay of the averaged weights, at most (1 + t) / (10 + t) (0: off)",
       from_below(0, 1)},
      {kAugment, "--tta", "tta", &C::tta,
       "test-time augmentation: flip averages over the image and its mirror image, shift also over shifts by a pixel",
       words({"none", "flip", "shift"})},
      {kAugment, "--shift", "augment.shift", &C::shift, "random shift in pixels", at_least(0)},
      {kAugment, "--crop-padding", "augment.crop_padding", &C::crop_padding,
       "random crop after padding by this many pixels", at_least(0)},
      {kAugment, "--flip", "augment.flip", &C::flip, "alternating horizontal flip: every other epoch, first at random"},
      {kAugment, "--color-jitter", "augment.color_jitter", &C::color_jitter,
       "random brightness, contrast and saturation, up to this strength", between(0, 10)},
      {kAugment, "--hue-jitter", "augment.hue_jitter", &C::hue_jitter,
       "random hue shift, up to this fraction of the hue circle", between(0, 0.5)},
      {kAugment, "--rand-augment", "augment.rand_augment", &C::rand_augment,
       "RandAugment operations per image (0: off, 2 is usual)", between(0, 14)},
      {kAugment, "--rand-augment-magnitude", "augment.rand_augment_magnitude", &C::rand_augment_magnitude,
       "strength of the RandAugment operations", between(0, 30)},
      {kAugment, "--augment-views", "augment.views", &C::augment_views,
       "augment each sample in this many fixed ways, which take turns by epoch (0: another way in every epoch)", between(0, 1000)},
      {kAugment, "--random-erase", "augment.random_erase", &C::random_erase, "probability that a rectangle is erased",
       between(0, 1)},
      {kAugment, "--mixup-alpha", "augment.mixup_alpha", &C::mixup_alpha,
       "mixup: blend images and labels by Beta(alpha, alpha) (0: off)", at_least(0)},
      {kAugment, "--cutmix-alpha", "augment.cutmix_alpha", &C::cutmix_alpha,
       "cutmix: exchange rectangles between images (0: off; with mixup: one of the two at random)", at_least(0)},

      {kImages, "--train-crop-size", "pictures.train_crop_size", &C::train_crop_size,
       "side of a training sample (0: 224, or that of the spec FILE.json)", at_least(0)},
      {kImages, "--val-resize-size", "pictures.val_resize_size", &C::val_resize_size,
       "shorter side before the evaluation crop (0: the crop * 256 / 224)", at_least(0)},
      {kImages, "--val-crop-size", "pictures.val_crop_size", &C::val_crop_size,
       "side of an evaluation sample (0: that of training)", at_least(0)},
      {kImages, "--orientation", "pictures.orientation", &C::orientation,
       "exif rotates photographs by their EXIF data; ignore uses the pixels unchanged", words({"exif", "ignore"})},
      {kImages, "--random-crop", "augment.random_crop", &C::random_crop,
       "train on random resized crops of image files, rather than on the crop of evaluation"},
      {kImages, "--crop-min-area", "augment.crop_min_area", &C::crop_min_area,
       "minimum fraction of an image's area that a random crop covers", {.min = 0, .max = 1, .above_min = true}},
      {kImages, "--val-split", "pictures.val_split", &C::val_split,
       "validation fraction of tables, and of image folders without a val folder; stratified (-1: 0.2)", from_below(-1, 1)},
      {kImages, "--on-bad-sample", "pictures.on_bad_sample", &C::on_bad_sample,
       "unreadable samples: error stops, skip ignores them, report also lists them in bad_samples.tsv", words({"error", "skip", "report"})},

      {kImages, "--layout", "arrays.layout", &C::layout,
       "layout of arrays: nchw, nhwc, nhw, or features, each sample unchanged (auto: inferred from the shape)",
       words({"auto", "nchw", "nhwc", "nhw", "features"})},
      {kImages, "--value-range", "arrays.value_range", &C::value_range,
       "value range of arrays, black to white, as 0:4095 (default: bytes, floats from 0 to 1, or plain numbers)", {}, {},
       "LOW:HIGH"},

      {kText, "--layers", "text.layers", &C::layers,
       "recurrent layers or blocks of a built-in text model (0: the model's own)", at_least(0)},
      {kText, "--width", "text.width", &C::width,
       "size of its embeddings and hidden states; for gpt_char a multiple of 64 (0: the model's own)", at_least(0)},
      {kText, "--bidirectional", "text.bidirectional", &C::bidirectional, "make a built-in recurrent model bidirectional"},
      {kText, "--text-column", "text.text_column", &C::text_column,
       "text column of a CSV, TSV or JSON lines file, by name or number", {}, {}, "NAME|N"},
      {kText, "--label-column", "text.label_column", &C::label_column,
       "label column of such a file or a list of images; NAME,NAME,... for --task regression and multilabel (for tables: "
       "--target)", {}, {}, "NAME|N"},
      {kText, "--tokenizer", "text.tokenizer", &C::tokenizer,
       "word, bpe or char (auto: word for documents, char for a corpus)", words({"auto", "word", "bpe", "char"})},
      {kText, "--vocabulary", "text.vocabulary", &C::vocabulary,
       "maximum vocabulary size (0: 30,000 words, 8,000 byte pairs, all characters)", at_least(0)},
      {kText, "--min-count", "text.min_count", &C::min_count, "minimum number of occurrences of a word of the vocabulary", at_least(1)},
      {kText, "--max-length", "text.max_length", &C::max_length,
       "maximum tokens per document or window (0: the spec's, or 256)", at_least(0)},
      {kText, "--truncation-side", "text.truncation_side", &C::truncation_side,
       "where a longer document is truncated; left keeps its end", words({"right", "left"})},

      {kTables, "--target", "tables.target", &C::target,
       "target column of a table, by name or number; the default model is then gbdt",
       {}, {}, "COL"},
      {kTables, "--test", "tables.test", &C::test,
       "test set: a file with the same columns; the validation set then only guides the training", {}, {}, "FILE"},
      {kTables, "--columns", "tables.columns", &C::columns,
       "column names of a file without a header: NAME,NAME,... or a file with one per line", {}, {}, "NAMES|FILE"},
      {kTables, "--header", "tables.header", &C::header,
       "whether the first row of a table has the column names (auto: inferred from its values)", words({"auto", "yes", "no"})},
      {kTables, "--drop", "tables.drop", &C::drop, "columns that are not used as features", {}, {}, "COL,..."},
      {kTables, "--types", "tables.types", &C::types,
       "column types that differ from the inferred ones: number, integer, category, yesno, datetime, text, constant or identifier",
       {}, {}, "COL=TYPE,..."},
      {kTables, "--task", "tables.task", &C::task,
       "classes or values (also classification or regression); counts or ranking for tables; multilabel for lists of images "
       "or texts, which are classes unless this says otherwise (auto: for tables inferred from the target)",
       {.one_of = {"auto", "classes", "values", "counts", "ranking", "multilabel"},
        .synonyms = {{"classification", "classes"}, {"regression", "values"}, {"count", "counts"}}}},
      {kTables, "--group-column", "tables.group_column", &C::group_column,
       "group (or query) column of tables and lists: rows of a group are split, and ranked, together; it is not a feature", {}, {}, "COL"},
      {kTables, "--split-by", "tables.split_by", &C::split_by,
       "split by time: validate on the last rows by this column of times or numbers, not on random rows", {}, {}, "COL"},

      {kTables, "--objective", "trees.objective", &C::objective,
       "regression: squarederror, absoluteerror, quantile, poisson or tweedie; ranking: ndcg or pairwise (auto: logistic or "
       "softprob for classification, squarederror for regression, ndcg for ranking)",
       words({"auto", "squarederror", "absoluteerror", "quantile", "poisson", "tweedie", "ndcg", "pairwise"})},
      {kTables, "--quantile", "trees.quantile", &C::quantile, "quantile that the objective quantile predicts",
       {.min = 0, .max = 1, .below_max = true, .above_min = true}},
      {kTables, "--tweedie-power", "trees.tweedie_power", &C::tweedie_power, "variance power of the objective tweedie",
       {.min = 1, .max = 2, .below_max = true, .above_min = true}},
      {kTables, "--rounds", "trees.rounds", &C::rounds, "maximum number of boosting rounds (0: 1000)", between(0, 1e6),
       {"--num-boost-round", "--n-estimators"}},
      {kTables, "--trees", "trees.count", &C::trees, "trees of a forest, per class (0: 100)", between(0, 1e6)},
      {kTables, "--max-depth", "trees.max_depth", &C::max_depth, "maximum depth of a tree (0: 6 for gbdt, 12 for forest)", between(0, 30)},
      {kTables, "--subsample", "trees.subsample", &C::subsample, "fraction of the rows sampled for each tree (0: 1 for gbdt, 0.8 for forest)",
       between(0, 1)},
      {kTables, "--colsample", "trees.colsample", &C::colsample,
       "fraction of the columns sampled for each tree of gbdt, or each split of forest (0: 1 for gbdt, 0.8 for forest)",
       between(0, 1), {"--colsample-bytree"}},
      {kTables, "--lambda", "tables.lambda", &C::lambda,
       "L2 regularization of coefficients and leaf values (-1: 0 for linear and poisson, 0.00001 for forest, 1 for others)", at_least(-1),
       {"--reg-lambda"}},
      {kTables, "--min-child-weight", "trees.min_child_weight", &C::min_child_weight,
       "minimum sum of second derivatives in a leaf; for squarederror, the minimum number of rows", at_least(0)},
      {kTables, "--monotone", "trees.monotone", &C::monotone,
       "monotone constraints: the prediction increases (1) or decreases (-1) with these columns", {}, {"--monotone-constraints"}, "COL=1|-1,..."},
      changeable({kTables, "--external-memory", "trees.external_memory", &C::external_memory,
       "keep rows in files of TMPDIR, for tables larger than memory (auto: where the table would not fit)",
       words({"auto", "on", "off"})}),
      {kTables, "--tune", "tables.tune", &C::tune, "number of hyperparameter settings of gbdt and forest to try; the best ones are kept", between(0, 1000)},
      {kTables, "--time-budget", "tables.time_budget", &C::time_budget,
       "time for comparing models and hyperparameters: 60s, 5m, 1h30m (default: 60s)", {}, {}, "TIME"},

      {kCommon, "--metric", "tables.metric", &C::metric,
       "metric for early stopping, model selection and the threshold (auto: log_loss for classification, rmse for regression, "
       "ndcg for ranking, or the objective's; for networks without early stopping top1); for networks also loss, and own: the program's metric; ndcg@K and map@K cover the first K "
       "rows of a query", {}, {}, metric_names.c_str()},
      changeable({kCommon, "--early-stop", "trees.early_stop", &C::early_stop,
       "early-stopping patience: evaluations of a network, rounds of trees or epochs of mlp without improvement on the "
       "validation set (0: off; -1: 20 for trees, 8 for mlp, off for networks)", at_least(-1),
       {"--patience", "--early-stopping", "--early-stopping-patience", "--early-stopping-rounds"}}),
      {kCommon, "--min-improvement", "min_improvement", &C::min_improvement,
       "least improvement that counts for early stopping and the plateau schedule", at_least(0),
       {"--min-delta", "--early-stopping-threshold"}},
      {kCommon, "--class-weight", "trees.class_weight", &C::class_weight,
       "weights of the classes in the training loss: balanced gives all classes the same total weight; a JSON file names "
       "them: {\"ham\": 1, \"spam\": 6}", {}, {}, "none|balanced|FILE"},
      {kCommon, "--sample-by", "sample_by", &C::sample_by,
       "class: draw the samples of an epoch so that all classes are equally frequent", words({"none", "class"})},
      {kCommon, "--weight-column", "tables.weight_column", &C::weight_column, "column with the sample weights", {}, {},
       "COL"},
      {kCommon, "--folds", "tables.folds", &C::folds,
       "cross-validation folds before the fit on all training rows (0: none; 5 for auto and --tune)", between(0, 100)},
      changeable({.group = kCommon, .names = "--threshold", .key = "tables.threshold", .member = &C::threshold,
       .help = "decision threshold for the second of two classes, or for each of several labels: a probability, or recall=0.95 "
               "or precision=0.9, which chooses it on the validation set (0: 0.5, or the best for --metric accuracy and f1)",
       .limits = from_below(0, 1), .value = "P|recall=R|precision=P", .rule = &C::threshold_rule}),
      changeable({kCommon, "--calibration", "calibration", &C::calibration,
       "temperature: scale a network's logits so that its probabilities fit the validation set; saved with the model",
       words({"none", "temperature"})}),

      changeable({kMachine, "--device", "device", &C::backend, "auto, cpu, ref, cuda:N or opencl:N"}),
      {kMachine, "--precision", "precision", &C::precision,
       "fp32, tf32, bf16 or fp16; weights and optimizer state stay f32 (docs/performance.md)", words(store::precision_names())},
      changeable({kMachine, "--xgboost", "", &C::xgboost, "the libxgboost.so that fits trees (docs/table-models.md lists where it is searched)",
       {}, {}, "PATH"}),
      changeable({kMachine, "-j,--workers", "workers", &C::workers, "data-loading threads (-1: chosen automatically)", at_least(-1), {"--num-workers"}}),
      {kMachine, "--seed", "seed", &C::seed, "random seed", at_least(0)},
      changeable({kMachine, "--recompute", "recompute", &C::recompute,
       "gradient checkpointing: recompute activations in the backward pass instead of keeping them: auto (the cheap ones) "
       "or all, where that saves memory",
       words(recompute_names())}),
      changeable({kMachine, "--offload", "offload", &C::offload,
       "offload to host memory: activations, as far as device memory requires; the optimizer state; all; or auto, "
       "which keeps, recomputes or offloads each activation, by cost (docs/plan.md)",
       words(offload_names())}),
      changeable({kMachine, "--device-data", "device_data", &C::device_data,
       "keep the training set in device memory and assemble batches there (auto: on a discrete device, if the set takes "
       "at most a quarter of its memory; docs/devices.md)",
       words({"auto", "yes", "no"})}),
      changeable({kMachine, "--steps-per-launch", "steps_per_launch", &C::steps_per_launch,
       "steps per launch with --device-data (0: 16)", at_least(0)}),
      changeable({kMachine, "--deterministic", "deterministic", &C::deterministic, "bitwise identical results on every run, for any number of threads"}),

      {kOutput, "-o,--output-dir", "", &C::output_dir, "output directory (default runs/MODEL-DATA)", {}, {"--out"}},
      {kOutput, "--overwrite", "", &C::overwrite, "replace the run in the output directory"},
      {kOutput, "--resume", "", &C::resume,
       "resume from a run or a checkpoint; auto: from the output directory if it has one", {}, {"--resume-from-checkpoint"}, "PATH"},
      changeable({.group = kOutput, .names = "--save-every", .key = "save_every", .member = &C::save_every,
       .help = "steps between checkpoints, or a time like 30s (0: each epoch)", .limits = at_least(0),
       .aliases = {"--save-steps"}, .seconds = &C::save_seconds}),
      changeable({kOutput, "--keep", "keep", &C::keep, "checkpoints to keep in addition to the best (0: all)", at_least(0),
       {"--save-total-limit"}}),
      changeable({kOutput, "--save-in-place", "save_in_place", &C::save_in_place,
       "write checkpoints synchronously, without a second copy of weights and optimizer state"}),
      changeable({kOutput, "--eval-every", "eval_every", &C::eval_every, "epochs between evaluations", at_least(1)}),
  };
}
// clang-format on

// "optimizer.lr" as /optimizer/lr.
Json::json_pointer pointer(const std::string& key) { return Json::json_pointer("/" + join(split(key, '.'), "/")); }

void set(Config& c, const Field& f, const Json& value, const std::string& source) {
  if (f.seconds) c.*f.seconds = 0;
  if (f.rule) (c.*f.rule).clear();
  if (f.rule && value.is_string()) {
    c.*f.rule = value.get<std::string>();
    c.*std::get<double Config::*>(f.member) = 0;
    return;
  }
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
          fail(ErrorKind::usage, source, f.key, ": expected ",
               std::is_same_v<T, bool>      ? "true or false"
               : std::is_same_v<T, int64_t> ? "a whole number"
               : std::is_same_v<T, double>  ? "a number"
                                            : "text",
               ", got ", excerpt(value.dump()));
        }
        c.*member = value.get<T>();
        if constexpr (std::is_same_v<T, std::string>) c.*member = f.meaning(c.*member);
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
    if (!found) refuse_unknown(source, {.kind = "key", .got = key, .known = keys});
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
  if (!f.limits.one_of.empty()) need_name(f.flag(), got, f.limits.one_of);
}

}  // namespace

std::string Field::flag() const {
  const std::string all = names;
  return all.substr(all.find("--"));
}

std::string Field::meaning(const std::string& word) const {
  for (const auto& [synonym, means] : limits.synonyms) {
    if (word == synonym) return means;
  }
  return word;
}

namespace {
bool has(const Trained& trained, const Field& f) {
  const FlagKind kind = f.member.kind;
  if (kind == FlagKind::data || kind == FlagKind::job || kind == trained.kind) return true;
  return std::find(trained.flags.begin(), trained.flags.end(), f.flag()) != trained.flags.end();
}
}  // namespace

void need_flags_of(const Trained& trained, const Config& c,
                   const std::function<bool(const std::string& flag)>& flag_is_given) {
  for (const Field& f : config_fields()) {
    if (has(trained, f)) continue;
    const std::string flag = f.flag();
    const bool usual = std::visit(
        [&](auto member) {
          return std::any_of(trained.usual.begin(), trained.usual.end(),
                             [&](const Config& u) { return c.*member == u.*member; });
        },
        f.member);
    if (usual && !(flag_is_given && flag_is_given(flag))) continue;
    const char* const of = f.member.kind == FlagKind::network  ? "networks"
                           : f.member.kind == FlagKind::trees  ? "tree models"
                           : trained.kind == FlagKind::network ? "table models"
                                                               : "other table models";
    const bool label = flag == "--label-column";
    refuse_flag_of(flag, of, cat("this run trains ", trained.name, label ? ": --target names the target column" : ""));
  }
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
    if (f.rule && !(c.*f.rule).empty()) out[pointer(f.key)] = c.*f.rule;
  }
  return out.dump(2);
}

void set_from_json(Config& c, const std::string& text, const std::string& source) {
  const auto document = io::parse_json<Json>(text, source);
  if (!document.is_object()) fail(ErrorKind::usage, source, "a configuration must be a JSON object");
  set_all(c, document, "", source);
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
  need_at_least("--save-every", "seconds", c.save_seconds, 0);
  memory_size("--feature-cache-size", c.feature_cache_size);
  if (c.metric != kByLoss && c.metric != kByOwnMetric) metrics::check_metric_name(c.metric);
  check_class_weight(c.class_weight);
  if (!c.threshold_rule.empty()) metrics::parse_threshold_rule(c.threshold_rule);
  for (const auto& [flag, v] : {std::pair{"--lr", c.lr}, {"--lambda", c.lambda}}) {
    if (v < 0 && v != kAutomaticRate) fail(ErrorKind::usage, flag, "must be at least 0, or -1: got ", v);
  }
  if (c.folds == 1) refuse_value("--folds", "1", "one fold leaves nothing to fit, expected at least 2");
  if (!c.time_budget.empty()) parse_seconds("--time-budget", c.time_budget);
  for (const auto& [flag, parts] : {std::pair{"--grad-accum", c.grad_accum}, {"--shards", c.shards}}) {
    if (parts <= c.batch_size) continue;
    fail(ErrorKind::usage, flag, "a batch of ", c.batch_size, " has no ", parts, flag[2] == 'g' ? " parts" : " shards");
  }
  excludes({"--grad-accum", c.grad_accum > 1}, {"--shards", c.shards > 0}, "these divide the batch already");
  excludes({"--sync-batch-norm", c.sync_batch_norm}, {"--grad-accum", c.grad_accum > 1},
           "it needs the whole batch at once");
  if (c.epochs == 0 && c.max_steps == 0) {
    fail(ErrorKind::usage, "--epochs", "nothing to do: got 0 epochs and no --max-steps");
  }
}

}  // namespace freight::train
