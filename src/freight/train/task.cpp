// Arrays and images as a Task; see task.h.
#include "freight/train/task.h"

#include <cmath>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"
#include "freight/data/finite.h"
#include "freight/data/image_list.h"
#include "freight/data/resample.h"
#include "freight/io/weights_file.h"
#include "freight/train/evaluate.h"
#include "freight/train/trained_on.h"

namespace freight::train {

bool is_spec_file(const std::string& model) {
  return ends_with(model, ".json") || ends_with(model, ".safetensors") || io::names_torch_file(model) ||
         model.find('/') != std::string::npos;
}

namespace {

data::LoadOptions load_options(const Config& c, const data::Source& source, const Own& own) {
  data::LoadOptions o{.data_dir = c.data_dir,
                      .images = {.train_crop = c.train_crop_size,
                                 .val_crop = c.val_crop_size,
                                 .val_resize = c.val_resize_size,
                                 .val_split = c.val_split,
                                 .split_seed = static_cast<uint64_t>(c.seed),
                                 .targets = target_options(c.task, c.label_column, c.group_column)},
                      .text = {}};
  io::parse_orientation(c.orientation, o.images.orientation);
  data::parse_layout(c.layout, o.arrays.asked.layout);
  if (!c.value_range.empty()) o.arrays.asked.range = data::parse_range(c.value_range, "--value-range");
  const auto spec_input = [&]() -> std::optional<Shape> {
    if (own.model) return own.model->input.shape;
    if (is_spec_file(c.model)) return models::from_spec_file(c.model).input.shape;
    return std::nullopt;
  };
  if (const auto asked = spec_input()) o.arrays.asked.input = *asked;
  if (c.train_crop_size > 0 || source.content() != data::Content::images) return o;
  Shape input;
  if (!c.input_size.empty()) {
    const Shape size = models::parse_size(c.input_size);
    if (size[0] != size[1]) {
      refuse_value("--input-size", c.input_size, "image files become squares, expected one number");
    }
    input = {3, size[0], size[1]};
  } else {
    input = spec_input().value_or(Shape{});
  }
  if (input.rank() == 3 && input[1] == input[2]) o.images.train_crop = input[1];
  return o;
}

// A program's own data set, as a reader would have given it: named, checked, its classes counted where they have no
// names.
data::TrainTest checked(data::TrainTest sets, const std::string& name) {
  const std::pair<data::Dataset*, const char*> parts[] = {{&sets.train, "train"}, {&sets.test, "test"}};
  int64_t largest = -1;
  for (const auto& [set, part] : parts) {
    set->name = name;
    set->split = part;
    const Array& y = set->labels;
    if (!y.defined() || y.dtype() != DType::i64) continue;
    for (int64_t i = 0; i < y.numel(); ++i) largest = std::max(largest, y.data<int64_t>()[i]);
  }
  for (const auto& [set, part] : parts) {
    const bool classes = set->labels.defined() && set->labels.dtype() == DType::i64;
    if (classes && set->classes.empty()) set->classes = data::numbered_classes(largest + 1);
    if (set == &sets.test && set->count() == 0) continue;  // nothing is held out
    set->validate(cat(name, ", ", part, " set, samples"), cat(name, ", ", part, " set, labels"));
  }
  if (sets.train.sample_shape() != sets.test.sample_shape() && !sets.train.files) {
    fail(ErrorKind::data, name, "the splits differ: samples of training are ", sets.train.sample_shape(),
         ", those of the test ", sets.test.sample_shape());
  }
  if (sets.train.classes != sets.test.classes) {
    fail(ErrorKind::data, name, "the splits differ: the classes of training are ", join(sets.train.classes, ", "),
         ", those of the test ", join(sets.test.classes, ", "));
  }
  return sets;
}

class SampleTask : public Task {
 public:
  SampleTask(const Config& config, const data::Source& source, data::BadSamples bad, const Own& own)
      : c_(config),
        bad_(std::move(bad)),
        own_model_(own.model),
        data_(source.in_memory() ? checked(source.load(), config.data)
                                 : source.load(load_options(config, source, own))) {
    const bool list = source.in_memory() || data_.train.files == nullptr || data::is_image_list(source.path()) ||
                      data::is_image_list(source.path() + "/train.csv");
    refuse_given({{"--label-column", !c_.label_column.empty() && !list}},
                 cat("is for lists: ", c_.data, " has a folder for each class"));
    refuse_given({{"--group-column", !c_.group_column.empty() && !data_.train.groups.defined()}},
                 cat("is for lists of images with such a column: ", c_.data, " is none"));
    need_task(c_, what_targets_are());
    data::leave_out_nonfinite(data_.test, bad_);
    if (data::leave_out_nonfinite(data_.train, bad_) && !data_.train.mean.empty()) {
      data_.train.compute_statistics();
      data_.test.mean = data_.train.mean;
      data_.test.std = data_.train.std;
    }
    if (own.pretrained) normalize_as(*own.pretrained);
    if (c_.input_size.empty() || data_.train.files) return;
    const Shape size = models::parse_size(c_.input_size);
    data_.train = data::resized(data_.train, size[0], size[1]);
    data_.test = data::resized(data_.test, size[0], size[1]);
  }

  // A named model takes what evaluation and prediction give it: with images, training may use another size.
  models::Model make_model() const override {
    const data::Dataset& set = deployed();
    const int64_t values = set.labels.numel() / set.count();  // per sample, of a set to regress
    const int64_t usual = set.classification() || set.multilabel() ? set.class_count() : values;
    refuse_other_flags();
    models::Model model;
    if (own_model_) {
      refuse_given({{"--num-classes", c_.num_classes > 0}}, "is for built-in networks: this one is custom");
      model = *own_model_;
    } else if (is_spec_file(c_.model)) {
      model = models::load(c_.model, {.classes = c_.num_classes});
    } else {
      model = models::create(c_.model,
                             {.classes = c_.num_classes > 0 ? c_.num_classes : usual, .input = set.sample_shape()});
    }
    set_loss(model, c_, data_.train.labels);
    if (c_.loss != Config().loss && !set.multilabel() && models::regresses(model.loss) == set.classification()) {
      fail(ErrorKind::usage, "--loss", "got ", c_.loss, ", the targets of ", c_.data, " are ",
           set.classification() ? "classes: expected cross_entropy, focal or bce"
                                : "values: expected mse, huber or mae");
    }
    need_fit(model, set);
    const bool classes = set.classification();
    refuse_given({{"--label-smoothing", !model.own.loss && !classes && c_.label_smoothing > 0}},
                 cat("needs class labels; the targets of ", c_.data, " are ", what_targets_are()));
    check_mix(model);
    refuse_given({{"--sample-by", c_.sample_by == "class" && !classes}},
                 cat("class needs class labels; the targets of ", c_.data, " are ", what_targets_are()));
    return model;
  }

  store::Preprocessing preprocessing() const override {
    store::Preprocessing p = store::preprocessing_of(deployed());
    io::parse_orientation(c_.orientation, p.orientation);  // of arrays, too: predictions may be of photographs
    return p;
  }
  std::vector<std::string> classes() const override { return data_.train.classes; }
  std::vector<std::string> targets() const override { return data_.train.targets; }

  std::optional<data::LoaderOptions> loader_options(const data::Share& share) const override {
    return data::LoaderOptions{.batch_size = c_.batch_size,
                               .shuffle = true,
                               .by_class = c_.sample_by == "class",
                               .seed = static_cast<uint64_t>(c_.seed),
                               .drop_last = data_.train.count() >= c_.batch_size,
                               .workers = static_cast<int>(c_.workers),
                               .epochs = c_.epochs,
                               .augment = augment(),
                               .views = c_.augment_views,
                               .mix = mix(),
                               .bad = bad_,
                               .share = share};
  }
  std::unique_ptr<data::Feed> train_feed(const data::Share& share) const override {
    return data::loader_feed(data_.train, *loader_options(share));
  }
  std::unique_ptr<data::Feed> ordered_feed(int64_t batch_size) const override {
    data::LoaderOptions options = *loader_options({});
    options.batch_size = batch_size;
    options.shuffle = options.by_class = options.drop_last = false;
    options.mix = {};
    return data::loader_feed(data_.train, options);
  }
  bool reads_image_files() const override { return data_.train.files != nullptr; }
  std::unique_ptr<data::Feed> test_feed(int64_t batch_size, const data::Share& share) const override {
    return data::loader_feed(
        data_.test, {.batch_size = batch_size, .workers = static_cast<int>(c_.workers), .bad = bad_, .share = share});
  }
  std::unique_ptr<data::Feed> plain_feed() const override {
    if (data_.train.sample_shape().rank() != 3) return nullptr;
    return data::loader_feed(data_.train, {.batch_size = std::min<int64_t>(data_.train.count(), 64),
                                           .workers = static_cast<int>(c_.workers),
                                           .epochs = 1,
                                           .bad = bad_});
  }
  std::pair<Type, Type> batch_types() const override {
    Shape x = data_.train.sample_shape(), y = data_.train.labels.shape();
    x.insert(0, c_.batch_size);
    y[0] = c_.batch_size;
    Type labels{data_.train.labels.dtype(), y};
    if (mix().any()) labels = {DType::f32, {c_.batch_size, data_.train.class_count()}};
    return {{DType::f32, x}, labels};
  }
  std::pair<Type, Type> test_types(int64_t batch_size) const override {
    Shape x = data_.test.sample_shape(), y = data_.test.labels.shape();
    x.insert(0, batch_size);
    y[0] = batch_size;
    return {{DType::f32, x}, {data_.test.labels.dtype(), y}};
  }

  ClassCounts train_classes() const override { return counted(data_.train); }
  ClassCounts test_classes() const override { return counted(data_.test); }
  int64_t train_count() const override { return data_.train.count(); }
  int64_t test_count() const override { return data_.test.count(); }
  uint64_t fingerprint() const override { return data_.train.fingerprint(); }
  size_t kept_bytes() const override {
    size_t sum = 0;
    for (const data::Dataset* set : {&data_.train, &data_.test}) sum += set->files ? set->files->kept_bytes() : 0;
    if (c_.folds > 0 && data_.train.images.defined()) sum += data_.train.images.bytes() + data_.train.labels.bytes();
    return sum;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    for (const data::Dataset* set : {&data_.train, &data_.test}) {
      if (!set->note.empty()) notes.push_back(set->note);
    }
    for (const std::string& line : data::nothing_to_learn(data_.train)) notes.push_back(line);
    return notes;
  }
  bool test_apart() const override { return data_.test.test_apart; }
  bool validates() const override { return data_.test.validation; }
  const char* unit() const override { return preprocessing().pictures() ? "img" : "sample"; }
  std::string example() const override {
    if (!preprocessing().pictures()) return {};
    const data::Dataset& shown = data_.test.count() > 0 ? data_.test : data_.train;
    if (shown.files && !shown.files->paths.empty()) return shell_word(shown.files->paths[0]);
    return gray() ? "digits" : "photos/circle/00.png";
  }
  std::string sample_set() const override {
    if (!preprocessing().pictures() || data_.train.files) return {};
    return gray() ? "digits" : "photos";
  }

  Array fold_labels() const override { return data::fold_labels(data_.train.labels); }
  Array fold_groups() const override { return data_.train.groups; }
  data::Source divided(const std::vector<int64_t>& train, const std::vector<int64_t>& held_out) const override {
    data::TrainTest part{data_.train.selected(train), data_.train.selected(held_out)};
    if (part.train.files) {
      part.test.files = std::make_shared<data::ImageFiles>(part.test.files->paths, data_.test.files->geometry);
    } else if (!part.train.mean.empty()) {
      part.train.compute_statistics();
      part.test.mean = part.train.mean;
      part.test.std = part.train.std;
    }
    part.train.note.clear();
    part.test.note.clear();
    part.test.validation = true;
    return data::Source(std::move(part));
  }
  std::pair<std::string, std::vector<std::string>> sample_names() const override {
    if (data_.train.files) return {"path", data_.train.files->paths};
    return {"sample", data::numbered_classes(data_.train.count())};
  }

 private:
  std::string what_targets_are() const {
    return data_.train.classification() ? "classes" : data_.train.multilabel() ? "labels" : "values";
  }
  static ClassCounts counted(const data::Dataset& set) {
    if (!set.classification()) return {};
    return count_classes(set.classes, {set.labels.data<int64_t>(), static_cast<size_t>(set.labels.numel())});
  }
  void normalize_as(const store::Preprocessing& pretrained) {
    const Shape sample = data_.train.sample_shape();
    if (sample.rank() != 3 || static_cast<int64_t>(pretrained.mean.size()) != sample[0]) return;
    for (data::Dataset* set : {&data_.train, &data_.test}) {
      set->mean = pretrained.mean;
      set->std = pretrained.std;
    }
  }
  bool gray() const { return data_.train.sample_shape().rank() < 3 || data_.train.sample_shape()[0] == 1; }
  void refuse_other_flags() const {
    refuse_given({{"--dropout", c_.dropout > 0},
                  {"--layers", c_.layers > 0},
                  {"--width", c_.width > 0},
                  {"--bidirectional", c_.bidirectional},
                  {"--text-column", !c_.text_column.empty()},
                  {"--label-column", !c_.label_column.empty() && !data_.train.files},
                  {"--tokenizer", c_.tokenizer != Config().tokenizer},
                  {"--vocabulary", c_.vocabulary > 0},
                  {"--max-length", c_.max_length > 0}},
                 cat("is for networks that read text: ", c_.data, " is not text"));
    if (data_.train.meaning.values == data::Values::unstated) {
      refuse_given({{"--layout", c_.layout != Config().layout}, {"--value-range", !c_.value_range.empty()}},
                   cat("is for arrays in .npy and .npz files: ", c_.data, " is none"));
    }
    if (data_.train.files) return;
    refuse_given({{"--train-crop-size", c_.train_crop_size > 0},
                  {"--val-crop-size", c_.val_crop_size > 0},
                  {"--val-resize-size", c_.val_resize_size > 0}},
                 cat("is for image files: ", c_.data, " is in memory and uses --input-size"));
    refuse_given({{"--val-split", c_.val_split >= 0}},
                 cat("is for image files and for text: of ", c_.data, " the split is fixed"));
  }
  // The part whose samples are what evaluation and prediction see: images may be trained on in another size.
  const data::Dataset& deployed() const { return data_.train.files ? data_.test : data_.train; }

  data::Mix mix() const { return {.mixup_alpha = c_.mixup_alpha, .cutmix_alpha = c_.cutmix_alpha}; }

  void check_mix(const models::Model& model) const {
    if (!mix().any()) return;
    if (model.own.loss) {
      fail(ErrorKind::usage, "--mixup-alpha", "mixed labels are for cross_entropy: the loss is the program's own");
    }
    const char* flag = mix().mixup_alpha > 0 ? "--mixup-alpha" : "--cutmix-alpha";
    if (!data_.train.classification()) {
      fail(ErrorKind::usage, flag, "needs class labels; the targets of ", c_.data, " are ", what_targets_are());
    }
    if (model.classes() != data_.train.class_count()) {
      fail(ErrorKind::usage, flag, "model ", model.name, " gives ", model.classes(), " classes, mixed labels have the ",
           data_.train.class_count(), " of ", c_.data);
    }
  }

  data::Augment augment() const {
    return {.shift = static_cast<int>(c_.shift),
            .crop_padding = static_cast<int>(c_.crop_padding),
            .random_crop = data_.train.files && c_.random_crop,
            .crop = {.min_area = c_.crop_min_area},
            .flip = c_.flip,
            .color_jitter = {c_.color_jitter, c_.color_jitter, c_.color_jitter, c_.hue_jitter},
            .rand_augment = static_cast<int>(c_.rand_augment),
            .rand_augment_magnitude = static_cast<int>(c_.rand_augment_magnitude),
            .random_erase = c_.random_erase};
  }

  Config c_;
  data::BadSamples bad_;
  std::optional<models::Model> own_model_;
  data::TrainTest data_;
};

}  // namespace

GivenFlags image_flags(const Config& c) {
  return {{"--input-size", !c.input_size.empty()},
          {"--layout", c.layout != Config().layout},
          {"--value-range", !c.value_range.empty()},
          {"--mixup-alpha", c.mixup_alpha > 0},
          {"--cutmix-alpha", c.cutmix_alpha > 0},
          {"--train-crop-size", c.train_crop_size > 0},
          {"--val-crop-size", c.val_crop_size > 0},
          {"--val-resize-size", c.val_resize_size > 0},
          {"--flip", c.flip},
          {"--no-random-crop", !c.random_crop},
          {"--augment-views", c.augment_views > 0},
          {"--shift", c.shift > 0},
          {"--crop-padding", c.crop_padding > 0},
          {"--color-jitter", c.color_jitter > 0},
          {"--hue-jitter", c.hue_jitter > 0},
          {"--rand-augment", c.rand_augment > 0},
          {"--random-erase", c.random_erase > 0}};
}

namespace {
// Mean and standard deviation of each column of the targets, f32 (N) or (N, K); a constant one keeps its unit.
models::TargetScale scale_of(const Array& targets) {
  const int64_t n = targets.shape()[0], k = targets.numel() / n;
  const float* const y = targets.data<float>();
  models::TargetScale scale;
  for (int64_t c = 0; c < k; ++c) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(y[i * k + c]);
    const double mean = sum / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) squares += std::pow(static_cast<double>(y[i * k + c]) - mean, 2);
    const auto deviation = static_cast<float>(std::sqrt(squares / static_cast<double>(n)));
    scale.mean.push_back(static_cast<float>(mean));
    scale.deviation.push_back(deviation > 0 && std::isfinite(deviation) ? deviation : 1.0f);
  }
  return scale;
}
}  // namespace

void need_task(const Config& c, const std::string& what) {
  if (c.task == "counts" || c.task == "ranking") {
    refuse_value("--task", c.task, "it is for table models; networks have classification, regression and multilabel");
  }
  const std::string asked = c.task == "multilabel" ? "labels" : c.task;
  if (asked == what || (asked == Config().task && what != "labels")) return;
  if (what == "labels")
    fail(ErrorKind::usage, "--task", "is ", c.task, ", the samples of ", c.data, " have several labels each");
  fail(ErrorKind::usage, "--task", "is ", c.task, ", the targets of ", c.data, " are ", what,
       asked == "labels" ? ": expected a list of images or texts with the labels of each" : "");
}

void set_loss(models::Model& model, const Config& config, const Array& targets) {
  const bool labels = config.task == "multilabel", values = config.task == "values";
  if ((labels || values) && (model.own.loss || model.language_model())) {
    fail(ErrorKind::usage, "--task", config.task, " is for networks with a loss of that kind: this one ",
         model.own.loss ? "has a loss of its own" : "is a language model");
  }
  if (labels) {
    const bool fits = config.loss == Config().loss || config.loss == "bce" || config.loss == "multilabel";
    if (!fits) refuse_value("--loss", config.loss, "--task multilabel has bce, per label");
    model.loss = models::Loss::multilabel;
    return;
  }
  if (values) {
    model.target_scale = scale_of(targets);
    if (config.loss == Config().loss && !models::regresses(model.loss)) model.loss = models::Loss::mse;
  }
  if (config.loss == Config().loss) return;
  if (model.own.loss) fail(ErrorKind::usage, "--loss", "is for networks without a loss of their own: this one has one");
  models::Loss loss{};
  models::parse_loss(config.loss, loss);  // validate() has refused other words
  if (loss == model.loss) return;
  if (model.language_model()) {
    refuse_value("--loss", config.loss, "language models have cross_entropy");
  }
  model.loss = loss;
}

void refuse_given(const GivenFlags& flags, const std::string& why) {
  for (const auto& [flag, given] : flags) {
    if (given) fail(ErrorKind::usage, flag, why);
  }
}

std::unique_ptr<Task> make_task(const Config& config, const data::Source& source, const data::BadSamples& bad,
                                const Own& own) {
  if (own.feeds) return make_feed_task(config, own);
  const data::Content content = source.content();
  if (content == data::Content::documents || content == data::Content::corpus) {
    return make_text_task(config, source, bad, own);
  }
  return std::make_unique<SampleTask>(config, source, bad, own);
}

}  // namespace freight::train
