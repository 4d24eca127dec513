// The configuration of a training run: data, model, recipe. Defaults come from the data set's recipe (recipes/*.json);
// the command line and configuration files change single fields. Flags, keys and limits: config_fields.h.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/data/source.h"

namespace freight::train {

// A learning rate that is not given: networks take kRateOfNets, other learners their own (Learner::choose).
inline constexpr double kAutomaticRate = -1, kRateOfNets = 0.01;

// The data that a run reads.
struct DataConfig {
  std::string data = "digits";
  std::string data_dir;
  double val_split = -1;                // share that is held out; below 0 chooses
  std::string on_bad_sample = "error";  // error, skip, report
};

// The start of a run and the place of its results, whatever it trains.
struct JobConfig {
  std::string model;  // name or FILE.json
  std::string recipe = "default";
  std::string backend = "auto";    // auto, cpu, ref, cuda:N, opencl:N
  std::string precision = "fp32";  // store::precision_names()
  std::string output_dir;          // empty: runs/MODEL-DATA
  bool overwrite = false;
  std::string resume;  // "auto" or a path (find_checkpoint); empty: a new run
  int64_t workers = -1;
  int64_t seed = 0;
  bool deterministic = false;
};

// Settings of some networks and some models for tables. Each is refused unless the model lists its flag
// (need_flags_of).
struct CommonConfig {
  // auto, classes, values; counts, ranking for tables; multilabel for lists that networks are trained on
  std::string task = "auto";
  std::string metric = "auto";        // metrics::metric_names()
  int64_t early_stop = -1;            // below 0 a learner chooses; networks have none then
  double min_improvement = 0;         // of what early stopping follows: a smaller one counts as none
  std::string class_weight = "none";  // none, balanced, a JSON file or its content (train/class_weights.h)
  std::string weight_column;          // the name or number of a column
  int64_t folds = 0;                  // 0: none, or 5 where something is compared
  double threshold = 0;               // probability above which the second of two classes is predicted; 0 chooses
  std::string threshold_rule;         // "recall=0.95" chooses it so that the validation set reaches that; or empty
  std::string calibration = "none";   // none, temperature
};

// A network: its data as samples, its model, optimizer, schedule, memory and checkpoints.
struct NetworkConfig {
  int64_t num_classes = 0;  // of a named model; 0: the data's
  std::string input_size;   // "H" or "HxW": images are resized to it; empty: as they are
  std::string weights;      // start from these
  // Fine-tuning (finetune/rates.h).
  std::string freeze;  // PATTERN,...
  double head_lr = 0;  // 0: as the other layers
  double lr_layer_decay = 1;
  std::string lr_scale;                // PATTERN=FACTOR,...
  std::string feature_cache = "auto";  // keeps the results of frozen layers: auto, memory, disk, off
  std::string feature_cache_size = "8GiB";
  std::string loss = "auto";       // models::loss_names(); auto: the model's
  std::string sample_by = "none";  // none, class: samples of an epoch are drawn so that all classes are as frequent

  int64_t epochs = 1;
  int64_t max_steps = 0;  // 0: no limit
  int64_t batch_size = 64;
  int64_t grad_accum = 1;         // parts of a batch
  int64_t shards = 0;             // pieces of a batch, whose sums have the same bits on any number of devices; 0: off
  bool sync_batch_norm = false;   // BatchNorm takes statistics over the whole batch, whoever computes parts of it
  std::string optimizer = "sgd";  // optim::names()
  double lr = kAutomaticRate;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  bool decay_norm_bias = true;
  std::string lr_scheduler = "constant";  // constant, step, cosine, onecycle, plateau
  int64_t lr_step_size = 1;               // step: epochs between two cuts
  int64_t lr_patience = 3;                // plateau: evaluations without improvement before a cut
  double lr_gamma = 0.1;                  // step, plateau: factor of a cut
  double lr_warmup_epochs = 0;            // linear from 0
  double onecycle_pct_start = 0.3;        // onecycle: share of the steps on the way up
  double label_smoothing = 0;
  // These are for a named net for text (models::Options); 0: its own.
  int64_t layers = 0, width = 0;
  bool bidirectional = false;
  double dropout = 0;
  double clip_grad_norm = 0;
  std::string tta = "none";  // views of a sample in evaluation: none, flip, shift
  double model_ema = 0;      // decay of the weights' moving average; 0: off
  int64_t shift = 0;         // augmentation: random shift in pixels
  int64_t crop_padding = 0;
  bool flip = false;
  // Images in files: sides of samples, 0 chooses (data::ImageOptions).
  int64_t train_crop_size = 0, val_resize_size = 0, val_crop_size = 0;
  std::string orientation = "exif";
  std::string layout = "auto", value_range;  // of arrays
  bool random_crop = true;                   // of images in files; false: the crop of evaluation
  double crop_min_area = 0.08;               // least share of an image that a random crop takes
  int64_t augment_views = 0;                 // views of a sample that take turns; 0: each epoch has its own
  double color_jitter = 0;                   // strength for brightness, contrast and saturation
  double hue_jitter = 0;
  int64_t rand_augment = 0;  // operations
  int64_t rand_augment_magnitude = 9;
  double random_erase = 0;  // probability
  double mixup_alpha = 0, cutmix_alpha = 0;
  // Text: the columns of a file, and the tokenizer; empty and 0 choose.
  std::string text_column, label_column;
  std::string tokenizer = "auto";         // auto, word, bpe, char
  int64_t vocabulary = 0;                 // tokens at most (data::TokenizerOptions)
  int64_t min_count = 2;                  // of a word in the training part
  int64_t max_length = 0;                 // tokens per sample; 0: the model's, or 256
  std::string truncation_side = "right";  // the side at which a longer text is cut; left keeps its end

  std::string recompute = "none";    // recompute_names()
  std::string offload = "none";      // offload_names()
  std::string device_data = "auto";  // keeps the training set on the device: auto, yes, no
  int64_t steps_per_launch = 0;      // with it on the device; 0 chooses
  int64_t save_every = 0;            // steps; 0: each epoch
  double save_seconds = 0;           // between checkpoints, where save_every is a time; 0: it is none
  int64_t keep = 3;
  bool save_in_place = false;
  int64_t eval_every = 1;  // epochs; the last is always evaluated
};

// A model of a table: the target column, the reading and division of the table, and the comparison of models
// (docs/tables.md, tables/selection.cpp). Every learner of tables has these.
struct TableConfig {
  std::string target;                  // empty chooses
  std::string test;                    // a file that is the test part
  std::string columns, drop, types;    // names of a file without a header; COL,...; COL=KIND,...
  std::string header = "auto";         // yes: the first row names the columns; auto, yes, no
  std::string group_column, split_by;  // a column of times, by which the last rows are held out
  int64_t tune = 0;                    // further settings that are tried
  std::string time_budget;             // "60s", "5m"; empty: 60 s where something is compared
  double fit_seconds = 0;              // a fit in rounds ends after these, set where several share a time; 0: no limit
};

// Trees and linear models on tables; a learner chooses what is 0, below 0 or auto, and says which of these it has
// (RowLearner::flags).
struct TreeConfig {
  std::string objective = "auto";
  int64_t rounds = 0, trees = 0, max_depth = 0;
  double subsample = 0, colsample = 0;  // shares of the rows and columns that a tree sees
  double lambda = -1;                   // L2 on coefficients or the values of leaves
  double min_child_weight = 1;
  double quantile = 0.5, tweedie_power = 1.5;  // of the objectives of these names
  std::string monotone;                        // COLUMN=1,COLUMN=-1
  std::string external_memory = "auto";        // on: rows are kept on disk; auto, on, off
  std::string xgboost;                         // path of the library
};

// A run: its data, its job, and what it trains, a network or a model of a table. The type that has a setting says what
// its flag is of (Field::kind).
struct Config : DataConfig, JobConfig, CommonConfig, NetworkConfig, TableConfig, TreeConfig {
  // These are defined in recipe.cpp: made inline, the copies of ninety fields took seconds of a build.
  Config();
  Config(const Config& other);
  Config(Config&& other) noexcept;
  Config& operator=(const Config& other);
  Config& operator=(Config&& other) noexcept;
  ~Config();
};

// The recipe for a data set: "default", another name that the set has ("fast"), or a recipe FILE.json of the user's.
// Throws Error(usage) that lists the names.
Config recipe(const data::Source& source, const std::string& name = "default");
// Opens the data that a configuration names. Whoever prepares a run opens them once and hands the source on.
data::Source source_of(const Config& config);
// True of the data of the configuration, once they are open.
bool is_source_of(const data::Source& source, const Config& config);
// Takes a model. What a recipe says of its own model's net (layers, width, directions, dropout) does not hold for
// another, and its learning rate is one of nets: a learner of tables chooses its own.
void set_model(Config& config, const std::string& model, const data::Source& source);
void set_model(Config& config, const std::string& model);  // the same of data that are not open
// Drops a recipe's image sizes that do not go with the requested ones: sizes that are not given follow from those that
// are (docs/data.md). `asked`: the flags alone, without a recipe.
void set_picture_sizes(Config& config, const Config& asked);
std::vector<std::string> recipe_names(const data::Source& source);
// Throws Error(usage) naming the field for values that cannot work (batch 0, learning rate NaN, unknown optimizer).
void validate(const Config& config);

// The last part of what may be a path: "digits" and "/home/me/digits/" give "digits".
std::string base_name(const std::string& name_or_path);

}  // namespace freight::train
