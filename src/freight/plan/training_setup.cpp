// See training_setup.h.
#include "freight/plan/training_setup.h"

#include <memory>

#include "freight/base/parse_number.h"
#include "freight/base/usage.h"
#include "freight/data/catalog.h"
#include "freight/data/outline.h"
#include "freight/io/weights_file.h"
#include "freight/store/weights_source.h"
#include "freight/train/feature_task.h"

namespace freight::plan {

namespace {

// Samples with more rows than this are taken for photographs, which are not stored in arrays.
constexpr int64_t kPhotograph = 96;

// The type of a batch's targets, as far as the model determines it.
Type target_of(const models::Model& model) {
  if (model.language_model()) return model.input;
  if (models::regresses(model.loss)) return {DType::f32, {model.classes()}};
  if (model.loss == models::Loss::multilabel) return {DType::u8, {model.classes()}};
  return {DType::i64, {}};
}

TrainingSetup of_model(const train::Config& config, const models::Options& options) {
  TrainingSetup s{.config = config,
                  .make_model = [name = config.model, options] { return models::load(name, options); },
                  .input = {},
                  .target = {},
                  .data = {},
                  .notes = {}};
  const models::Model model = s.make_model();
  s.input = model.input;
  s.target = target_of(model);
  const Shape& in = s.input.shape;
  const bool pictures = in.rank() == 3 && (in[0] == 1 || in[0] == 3);
  s.unit = model.language_model() ? "win" : model.reads_tokens() ? "doc" : pictures ? "img" : "sample";
  // Networks for photographs are assumed to read them from files.
  s.images_in_files = s.input.shape.rank() == 3 && s.input.shape[1] >= kPhotograph;
  return s;
}

models::Options options_of(const train::Config& c, const Shape& input) {
  models::Options o{.classes = c.num_classes,
                    .input = input,
                    .layers = c.layers,
                    .width = c.width,
                    .bidirectional = c.bidirectional,
                    .dropout = c.dropout};
  if (!c.input_size.empty()) o.size = models::parse_size(c.input_size);
  if (input.rank() == 1) {
    o.input = {};
    o.length = input[0];
  }
  if (c.max_length > 0) o.length = c.max_length;
  return o;
}

// A built-in data set of images in arrays, whose shape the catalog knows even if it was not downloaded.
const data::CatalogEntry* known_arrays(const train::Config& c, const data::Source& source) {
  const data::CatalogEntry* e = source.entry();
  if (!e || e->text || e->shape.empty() || e->classes == 0 || e->shape.find('x') == std::string::npos) return nullptr;
  const bool spec = c.model.find('/') != std::string::npos || ends_with(c.model, ".json");
  return spec || e->shape.find('-') != std::string::npos ? nullptr : e;
}

// Mixed training samples have a fraction of every class as their label; test samples never do.
void mix_labels(TrainingSetup& s, int64_t classes) {
  if (s.config.mixup_alpha <= 0 && s.config.cutmix_alpha <= 0) return;
  s.tested = {s.input, s.target};
  s.target = {DType::f32, {classes}};
}

Type without_batch_axis(const Type& t) { return {t.dtype, Shape(t.shape.begin() + 1, t.shape.end())}; }

TrainingSetup of_entry(const train::Config& config, const data::CatalogEntry& e) {
  models::Options o = options_of(config, parse_input_shape(e.shape));
  if (o.classes == 0) o.classes = e.classes;
  TrainingSetup s = of_model(config, o);
  s.data = e.name;
  s.images_in_files = false;
  s.train_count = e.train;
  s.test_count = e.test;
  mix_labels(s, e.classes);
  return s;
}

TrainingSetup of_outline(const train::Config& c, const data::Outline& o) {
  models::Options options{.classes = c.num_classes, .input = o.sample};
  if (options.classes == 0) options.classes = o.classes > 0 ? o.classes : o.target.numel();
  if (!c.input_size.empty() && o.sample.rank() == 3) {
    const Shape size = models::parse_size(c.input_size);
    options.input = {o.sample[0], size[0], size[1]};
  }
  TrainingSetup s{.config = c,
                  .make_model = [name = c.model, options] { return models::create(name, options); },
                  .input = {DType::f32, options.input},
                  .target = {o.classes > 0 ? DType::i64 : DType::f32, o.target},
                  .data = c.data,
                  .notes = {}};
  mix_labels(s, o.classes);
  return s;
}

// The data of a run, with the network that its frozen layers are of.
struct Opened {
  train::Config config;
  std::unique_ptr<train::Task> task = {};
  std::unique_ptr<train::NetTraining> net = {};  // for features
};

// Texts have the vocabulary of the weights that the run starts from. Weights that would be downloaded have none.
train::Own own_of(const train::Config& c) {
  train::Own own;
  if (!c.weights.empty() && !store::names_weights_source(c.weights)) {
    own.pretrained = store::preprocessing_in(io::load_weights_file(store::weights_path(c.weights)), c.weights);
  }
  return own;
}

TrainingSetup of_opened(const std::shared_ptr<Opened>& opened, const data::Source& source) {
  const train::Task* const task = opened->task.get();
  const auto [x, y] = task->batch_types();
  TrainingSetup s;
  s.config = opened->config;
  s.make_model = [opened] { return opened->task->make_model(); };
  s.input = without_batch_axis(x);
  s.target = without_batch_axis(y);
  s.train_count = task->train_count();
  s.test_count = task->test_count();
  s.data = s.config.data;
  s.unit = task->unit();
  s.notes = task->notes();
  const auto [test_x, test_y] = task->test_types(1);
  s.tested = {without_batch_axis(test_x), without_batch_axis(test_y)};
  s.kept_bytes = task->kept_bytes();
  s.lengths = task->lengths();
  s.images_in_files = source.content() == data::Content::images;
  if (std::string(s.unit) == "tok") {  // a step counts windows
    s.unit = "win";
    s.train_count /= s.input.shape[0];
    s.test_count /= s.input.shape[0];
  }
  return s;
}

// Puts features in place of samples where the run does. A line says what becomes of frozen layers.
TrainingSetup of_task(const train::Config& config, const data::Source& source) {
  const auto opened = std::make_shared<Opened>(Opened{.config = config});
  opened->task = train::make_task(opened->config, source, {}, own_of(config));
  TrainingSetup s = of_opened(opened, source);
  if (config.freeze.empty()) return s;
  opened->net = std::make_unique<train::NetTraining>(opened->config, s.make_model());
  std::string note;
  opened->task = train::FeatureTask::around(
      std::move(opened->task), {.config = opened->config, .model = opened->net->model, .runs = false}, note);
  s.frozen = {opened->net->frozen, note};
  auto* const features = dynamic_cast<train::FeatureTask*>(opened->task.get());
  if (!features) return s;
  CompileOptions options{.backend = "cpu", .deterministic = true};
  parse_dtype(config.precision, options.compute);
  features->plan(options);
  TrainingSetup cached = of_opened(opened, source);
  cached.frozen = s.frozen;
  cached.images_in_files = false;
  cached.features = features->samples();
  cached.uncached = std::make_shared<TrainingSetup>(std::move(s));
  return cached;
}

}  // namespace

std::pair<Type, Type> TrainingSetup::batch_types(int64_t batch, int64_t tokens) const {
  Type x = input, y = target;
  if (tokens > 0) x.shape = {tokens};
  x.shape.insert(0, batch);
  y.shape.insert(0, batch);
  return {x, y};
}

std::pair<Type, Type> TrainingSetup::test_types(int64_t batch) const {
  auto [x, y] = tested ? *tested : std::pair(input, target);
  x.shape.insert(0, batch);
  y.shape.insert(0, batch);
  return {x, y};
}

std::vector<LengthShare> TrainingSetup::length_shares(int64_t batch) const {
  std::vector<LengthShare> all;
  double steps = 0, tests = 0;
  for (size_t i = 0; i < lengths.train.size(); ++i) {
    const data::LengthCount &train = lengths.train[i], &test = lengths.test[i];
    if (train.documents + test.documents == 0) continue;
    const int64_t batches = data::batches_of(train.documents, {.batch_size = batch, .drop_last = true});
    all.push_back({train.length, static_cast<double>(batches), static_cast<double>(test.documents)});
    steps += all.back().steps;
    tests += all.back().tested;
  }
  if (steps <= 0) return {};
  for (LengthShare& s : all) {
    s.steps /= steps;
    s.tested = tests > 0 ? s.tested / tests : 0;
  }
  return all;
}

TrainingSetup make_setup(const train::Config& config, const Shape& input, data::Source source) {
  if (config.data.empty()) {
    TrainingSetup s = of_model(config, options_of(config, input));
    if (config.freeze.empty()) return s;
    s.frozen = {train::NetTraining(config, s.make_model()).frozen,
                "the frozen layers are planned as if computed in every epoch: whether they are depends on the data"};
    return s;
  }
  excludes({"--input-shape", !input.empty()}, {"--data", true}, "it replaces data");
  if (!source) source = train::source_of(config);
  const data::CatalogEntry* entry = known_arrays(config, source);
  return entry && config.freeze.empty() ? of_entry(config, *entry) : of_task(config, source);
}

std::optional<TrainingSetup> setup_before_data(const train::Config& c, const data::Source& source) {
  if (const data::CatalogEntry* entry = known_arrays(c, source)) return of_entry(c, *entry);
  const data::Content content = source.content();
  if (content != data::Content::arrays && content != data::Content::images) return std::nullopt;
  if (train::is_spec_file(c.model)) {
    TrainingSetup s = of_model(c, {.classes = c.num_classes});
    if (s.make_model().reads_tokens()) return std::nullopt;  // the length of a batch depends on the data
    mix_labels(s, s.make_model().classes());
    return s;
  }
  data::LoadOptions options;
  data::parse_layout(c.layout, options.arrays.asked.layout);
  const std::optional<data::Outline> o = data::outline(source.path(), options);
  return o ? std::optional(of_outline(c, *o)) : std::nullopt;
}

Shape parse_input_shape(const std::string& text) {
  Shape shape;
  for (const std::string& part : split(text, 'x')) {
    const int64_t n = parse_number<int64_t>(part).value_or(0);
    if (n < 1 || n > 1'000'000) {
      refuse_text("--input-shape", "whole numbers like 3x224x224, or the tokens of a text", text);
    }
    shape.insert(shape.rank(), n);
  }
  return shape;
}

}  // namespace freight::plan
