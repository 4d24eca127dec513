// Nets as a learner: a Config becomes data, a net, its compiled step and the plan of it; and stored nets are measured.
#include <algorithm>
#include <filesystem>
#include <limits>

#include "freight/backend/backend.h"
#include "freight/base/cpu_info.h"
#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/base/version.h"
#include "freight/data/finite.h"
#include "freight/data/unicode.h"
#include "freight/finetune/layers.h"
#include "freight/io/file.h"
#include "freight/io/metrics.h"
#include "freight/job/state_shares.h"
#include "freight/models/loss.h"
#include "freight/models/summary.h"
#include "freight/run/plan.h"
#include "freight/store/precision.h"
#include "freight/trace/device.h"
#include "freight/trace/initial_values.h"
#include "freight/train/config_fields.h"
#include "freight/train/diverged.h"
#include "freight/train/learner.h"
#include "freight/train/loop_internal.h"
#include "freight/train/net_evaluation_internal.h"
#include "freight/train/net_weights_internal.h"
#include "freight/train/text.h"

namespace freight::train {

namespace {

constexpr int64_t kStepsPerLaunch = 16;  // each step costs the host a sixteenth of a launch

// A net may have more outputs than the data has classes: the rest is named by number.
std::vector<std::string> named_outputs(std::vector<std::string> names, const models::Model& model) {
  if (names.empty()) return names;
  for (auto i = static_cast<int64_t>(names.size()); i < model.classes(); ++i) {
    std::string name = cat(i);
    while (std::find(names.begin(), names.end(), name) != names.end()) name += "'";
    names.push_back(std::move(name));
  }
  return names;
}

CompileOptions compile_options(const Config& c, const store::ComputeType& compute) {
  return {.backend = c.backend == "auto" ? std::string() : c.backend,
          .deterministic = c.deterministic || c.shards > 0,  // evaluation, too: its figures lie in the stored model
          .recompute = parse_recompute(c.recompute),
          .compute = compute.dtype,
          .tf32 = compute.tf32};
}

// Returns the memory of the run's device; null where that computes in the host's.
std::shared_ptr<DeviceMemory> own_memory(const Config& c) {
  return backend(c.backend == "auto" ? current_device() : c.backend).memory();
}

// The configuration as records show it: with the names of a net or data of the program's own, and a learning rate.
Config completed(Config c, const Own& own) {
  const auto name = [](const std::string& given) { return given.empty() ? std::string("own") : base_name(given); };
  if (own.model) c.model = name(own.model->name);
  if (own.feeds) c.data = name(own.feeds->name);
  c.lr = learning_rate(c);
  return c;
}

// An own loss leaves nothing to guess: what else is reported, and what the stored model's outputs are.
void check_objective(const models::Model& model, const Type& targets, const Config& c) {
  const models::Objective& own = model.own;
  if (own.reports() && !io::is_metric_name(own.metric_name)) {
    fail(ErrorKind::usage, "Objective::metric_name",
         "expected letters, digits, '_', '-' and '.', and none of the names that metrics.jsonl has, got '",
         own.metric_name, "'");
  }
  if (!own.loss) return;
  refuse_given({{"--label-smoothing", c.label_smoothing > 0}}, "is for cross_entropy: the loss is the program's own");
  if (!models::has_accuracy(model)) return;
  const bool one_class = !is_floating(targets.dtype) && targets.shape.rank() == 1;
  if (one_class && model.output_type(1).shape.rank() == 2) return;
  fail(ErrorKind::usage, "train", "the network ", model.name, " has a custom loss, targets ", targets, " and outputs ",
       model.output_type(targets.shape[0]), ", which have no top1: set Objective::metric, or pass ",
       "Model::loss = Loss::mse that the outputs are values");
}

// Reports errors in the declaration of a program's own network before it is trained. One whose layers are not all
// declared is stored as a graph.
void check_own_net(NetRun& p) {
  const models::Model& model = p.net->model;
  if (models::has_spec(model)) return models::check_spec(model);
  if (!p.recorded) return;
  const std::string undeclared = "the network has layers that are not declared (nn::register_layer): ";
  std::string why, untrained;
  if (p.task->preprocessing().lengths.size() > 1) why = "texts have several lengths, and a graph has one";
  try {
    if (why.empty()) p.stored = models::as_graph(model, &untrained);
  } catch (const std::exception& e) {  // of Python, too
    why = e.what();
  }
  if (!untrained.empty()) untrained = ", and cannot be trained further without its class: " + untrained;
  p.notes.push_back(why.empty() ? cat(undeclared, "it is saved as a graph for samples ", model.input, untrained)
                                : cat(undeclared, "only its weights are saved, which store::load_weights restores; ",
                                      "eval, predict and serve cannot use them: ", why));
}

void read_data(NetRun& p, const data::Source& source, const Own& own) {
  data::BadSamples bad;
  if (p.config.on_bad_sample != "error") {
    bad = {.on_bad = data::OnBad::skip, .report = [&](const data::BadSample& b) { p.left_out.add(b); }};
  }
  p.task = make_task(p.config, source, bad, own);
  for (const std::string& name : p.task->classes()) {
    if (data::utf8_fault(name)) {
      fail(ErrorKind::data, p.config.data, "the class name ", name,
           " is not UTF-8, which a saved model requires: rename it");
    }
  }
}

// Host memory beside the device's may take the optimizer's states, so that there the weights alone count.
void refuse_too_large(const NetTraining& net, double device_memory) {
  const auto bytes = [](const std::vector<nn::NamedVariable>& variables) {
    double sum = 0;
    for (const nn::NamedVariable& v : variables) sum += static_cast<double>(v.variable.type().bytes());
    return sum;
  };
  const double weights = bytes(net.model.net->state_dict());
  const double averages = net.config.model_ema > 0 ? weights : 0;
  const double states = bytes(net.optimizer->states()) + averages;
  const auto device = own_memory(net.config);
  const double least = device ? weights : weights + states;
  const double free = device_memory > 0 ? device_memory
                      : device          ? static_cast<double>(device->free_bytes())
                                        : static_cast<double>(cpu_info().memory_available_bytes);
  if (least <= free) return;
  fail(ErrorKind::capacity, "train", "the run does not fit: needs more than ", human_bytes(least), " for the weights",
       device ? "" : " and the optimizer state", ", has ", human_bytes(free),
       " free; no batch size, accumulation or recomputation would fit");
}

// Has frozen layers computed once, where that applies.
void keep_features(NetRun& p, const CompileOptions& compile) {
  std::string note;
  p.task = FeatureTask::around(std::move(p.task), {.config = p.config, .model = p.net->model, .ranks = p.ranks}, note);
  if (!note.empty()) p.notes.push_back(note);
  p.features = dynamic_cast<FeatureTask*>(p.task.get());
  if (!p.features) return;
  p.features->plan(compile);
  p.net->train_rest(p.features->samples());
}

void need_same_data(const NetRun& p) {
  if (!p.start.checkpoint || p.start.checkpoint->fingerprint == p.fingerprint) return;
  fail(ErrorKind::checkpoint, p.config.data, "the training data is not that of ", p.start.checkpoint->dir,
       ": its fingerprint differs; --weights starts a new run from the weights");
}

RunLength length_of(const Config& c, int64_t steps_per_epoch) {
  RunLength length{.steps_per_epoch = steps_per_epoch};
  length.steps = c.epochs > 0 ? c.epochs * steps_per_epoch : c.max_steps;
  if (c.max_steps > 0) length.steps = std::min(length.steps, c.max_steps);
  length.epochs = (length.steps + steps_per_epoch - 1) / steps_per_epoch;
  return length;
}

// A part of the last batch is left out of each epoch, in another order each time. It is worth a line where it is many.
void note_left_out(NetRun& p) {
  constexpr int64_t kWorthALine = 10;  // percent of the samples
  const int64_t count = p.task->train_count(), used = p.length.steps_per_epoch * p.config.batch_size;
  if (p.net->model.language_model() || used >= count || 100 * (count - used) < kWorthALine * count) return;
  p.notes.push_back(cat(with_commas(count - used), " of ", with_commas(count), " samples are skipped in each epoch, ",
                        "others each time: batches of ", p.config.batch_size, " do not divide them (--batch-size)"));
}

// Decides whether the training set lies on the device.
void place_data(NetRun& p, double device_memory) {
  const Config& c = p.config;
  const bool asked = c.device_data == "yes";
  const auto memory = own_memory(c);
  if (p.sharding.shards > 0) {
    excludes({"--device-data yes", asked}, {p.ranks ? "several devices" : "--shards", true},
             p.ranks ? "each epoch shuffles the samples over the devices, so every device would keep all of them"
                     : "micro-batches come from the host");
    return;
  }
  if (c.device_data == "no" || (!asked && (!memory || c.grad_accum > 1 || c.offload != "none"))) return;
  std::string why;
  const std::optional<data::BatchRecipe> recipe = p.feed->recipe(why);
  if (asked && c.grad_accum > 1) why = cat("a batch is divided into ", c.grad_accum, " micro-batches (--grad-accum)");
  if (asked && !why.empty()) refuse_value("--device-data", "yes", cat("not with ", c.data, ": ", why));
  if (!recipe) return;
  auto data = std::make_unique<DeviceData>(*recipe);
  if (!asked) {
    const auto free = static_cast<double>(memory->free_bytes());
    if (4 * static_cast<double>(data->bytes()) > (device_memory > 0 ? std::min(device_memory, free) : free)) return;
  }
  p.data = std::move(data);
  p.block = c.steps_per_launch > 0 ? c.steps_per_launch : kStepsPerLaunch;
  p.notes.push_back(cat("the training set is on the device (", human_bytes(static_cast<double>(p.data->bytes())),
                        "), which makes its batches itself, ", p.block, " steps at a time"));
}

// Ranks evaluate in the same batches, also where the steps beside which they do it are not alike: of other devices, or
// with kernels that were measured to be the fastest on some ranks alone.
void plan_evaluation(NetRun& p) {
  const int64_t count = p.task->test_count();
  if (count == 0) return;  // a program that holds nothing out
  const auto types = [&](int64_t batch_size) { return p.task->test_types(batch_size); };
  p.net->plan_evaluation(count, types);
  if (!p.ranks) return;
  const std::vector<int64_t> all = p.ranks->gather(p.net->evaluation.batch);
  const int64_t least = *std::min_element(all.begin(), all.end());
  if (least < p.net->evaluation.batch) p.net->plan_evaluation(std::min(count, least), types);
}

// Throws Error(usage) that says why several processes cannot train a run, where they cannot.
void need_ranks(const NetRun& p) {
  const Config& c = p.config;
  const auto world = static_cast<int64_t>(p.ranks->world());
  need_part_for_each("--shards",
                     {.devices = world, .parts = p.sharding.shards, .of = cat(p.sharding.shards, " shards")});
  const bool by_devices = p.ranks->devices() && c.shards == 0;
  excludes({"--overlap yes", p.ranks->overlap() == job::Overlap::yes && !by_devices},
           {"--sync-batch-norm", c.sync_batch_norm}, "all shards end together");
  need_part_for_each("--batch-size", {.devices = world,
                                      .parts = c.batch_size / c.grad_accum,
                                      .of = cat("a batch of ", c.batch_size,
                                                c.grad_accum > 1 ? cat(" in ", c.grad_accum, " parts") : ""),
                                      .fix = "expected a sample for each"});
}

std::string device_name(const Config& c) { return *trace::device_named(c.backend); }

// Shares as they are given, or those of the run that goes on, where it had the same devices; else nothing.
std::optional<RankShares> known_shares(const NetRun& p, RankShares like) {
  const Config& c = p.config;
  const job::DeviceWeights& asked = p.ranks->asked();
  if (asked.kind == job::DeviceWeights::Kind::given) {
    like.units = job::dealt(like.of_shards ? c.shards : c.batch_size, asked.given, like.of_shards ? 1 : c.grad_accum);
    return like;
  }
  std::string before;
  if (p.ranks->first() && p.start.in_its_directory) {
    const std::string path = run_of(*p.start.checkpoint) + "/run.json";
    if (std::filesystem::exists(path)) before = io::read_text(path);
  }
  return shares_in(p.ranks->from_first(before), like);
}

// Decides who computes how much of each batch: all ranks alike, unless they are of several kinds or somebody asked.
void settle_shares(NetRun& p, const CompileOptions& compile) {
  using Kind = job::DeviceWeights::Kind;
  job::Ranks& ranks = *p.ranks;
  const Config& c = p.config;
  const std::string name = device_name(c);
  ranks.exchange_devices(name == "cpu" ? cpu_info().model : backend(name).description(), own_memory(c) != nullptr);
  ranks.need_equal("the arithmetic", to_string(compile.compute));
  if (ranks.devices() && c.sync_batch_norm && c.shards > 0) {
    p.notes.emplace_back(
        "gradients go through memory of the host, where shards wait for each other (--sync-batch-norm)");
  } else if (!ranks.note().empty()) {
    p.notes.push_back(ranks.note());
  }
  const Kind kind = ranks.asked().kind;
  if (kind == Kind::usual && !ranks.unlike()) return;
  const RankShares like{
      .devices = ranks.from_all(name), .units = {}, .of_shards = c.shards > 0, .batch_size = c.batch_size};
  p.shares = known_shares(p, like);
  if (!p.shares) {
    const auto [x, y] = p.task->batch_types();
    p.shares = measure_ranks({c, [&] { return p.task->make_model(); }, x, y, compile}, name, ranks);
    seed(static_cast<uint64_t>(c.seed));  // the trials drew
  }
  ranks.set_weights({p.shares->units.begin(), p.shares->units.end()});
  p.notes.push_back(p.shares->note());
  if (c.shards > 0 && ranks.unlike()) {
    p.notes.emplace_back("the devices are of several kinds: with shards the models agree up to rounding, not bitwise");
  }
  if (const std::string w = p.shares->warning(); !w.empty()) p.start.warnings.push_back(w);
}

void share_states(NetRun& p) {
  const std::vector<size_t> bytes = job::state_bytes(*p.net->optimizer);
  size_t all = 0;
  for (const size_t n : bytes) all += n;
  p.net->share_states(*p.ranks);
  const int world = p.ranks->world();
  p.notes.push_back(cat("the optimizer state is sharded over ", world,
                        " devices: ", human_bytes(static_cast<double>(job::largest_share(bytes, world))),
                        " on one at most, of ", human_bytes(static_cast<double>(all))));
}

// Begins to draw the weights, which the first step will need.
std::unique_ptr<trace::DrawAhead> draw_ahead(const NetTraining& net) {
  std::vector<std::shared_ptr<trace::VariableImpl>> variables;
  std::vector<nn::NamedVariable> all = net.model.net->state_dict();
  if (!net.shares) std::ranges::copy(net.optimizer->states(), std::back_inserter(all));
  for (const nn::NamedVariable& v : all) variables.push_back(v.variable.impl());
  return std::make_unique<trace::DrawAhead>(variables);
}

// A set that is smaller than a batch gives one batch, which is not full.
void need_batch_statistics(const NetRun& p) {
  Type x = p.net->inputs, y = p.net->targets;
  x.shape[0] = y.shape[0] = std::min(p.config.batch_size, p.task->train_count());
  p.net->step->need_batch_statistics(x, y);
}

std::unique_ptr<Prepared> prepare_net(const Config& config, PrepareOptions options) {
  auto prepared = std::make_unique<NetRun>();
  NetRun& p = *prepared;
  const double device_memory = options.device_memory;
  const bool refuse = options.refuse_too_large;
  const auto flag_is_given = options.flag_is_given;
  Own own = std::move(options.own);
  const data::Source source = std::move(options.source);
  begin(p, completed(config, own), std::move(options));
  Config& c = p.config;
  need_flags_of({.kind = FlagKind::network,
                 .name = "a network",
                 .flags = {"--task", "--metric", "--early-stop", "--min-improvement", "--class-weight", "--threshold",
                           "--calibration", "--folds", "--group-column"}},
                c, flag_is_given);
  const store::ComputeType compute = store::compute_type(c.precision, c.backend);
  p.precision_note = compute.note;
  seed(static_cast<uint64_t>(c.seed));
  const std::string weights = weights_file(p);
  own.pretrained = pretrained_preprocessing(p, weights);
  read_data(p, source, own);
  const CompileOptions compile = compile_options(c, compute);
  p.sharding = sharding_of(c, p.ranks);
  if (p.ranks) {
    need_ranks(p);
    settle_shares(p, compile);
  }
  p.net = std::make_unique<NetTraining>(c, p.task->make_model(), own.optimizer);
  check_objective(p.net->model, p.task->batch_types().second, c);
  if (own.model) check_own_net(p);
  if (p.ranks && p.ranks->shares_states()) share_states(p);
  if (refuse) refuse_too_large(*p.net, device_memory);
  set_weights(p, own, weights);
  recommend_recipe(p, source);
  keep_features(p, compile);
  p.class_names = named_outputs(p.task->classes(), p.net->model);
  if (c.folds > 0) {
    if (own.any()) fail(ErrorKind::usage, "--folds", "is for built-in networks and specs, not for a program's own");
    check_folds(p);
    p.notes.push_back(cat(c.folds,
                          " folds are trained first, each in a run of its own, whose network is in memory together "
                          "with that of this run"));
  }
  settle_evaluation(p);
  p.fingerprint = p.task->fingerprint();
  need_same_data(p);
  p.feed = p.task->train_feed(p.sharding.shards > 0 ? p.sharding.deal().pieces() : data::Share{});
  p.length = length_of(c, p.feed->batches_per_epoch());
  p.schedule = make_schedule(c, p.length.steps_per_epoch, p.length.steps);
  note_left_out(p);
  place_data(p, device_memory);
  // Batches that the device makes differ from the loader's by rounding: a resumed run must keep to what was chosen.
  if (c.deterministic && c.device_data == "auto" && own_memory(c)) c.device_data = p.data ? "yes" : "no";
  if (!p.start.checkpoint) p.weights = draw_ahead(*p.net);
  p.net->plan_step(p.task->batch_types(), compile, p.data.get(), p.ranks);
  need_batch_statistics(p);
  plan_evaluation(p);
  p.random_numbers = rng_state().array().clone();
  return prepared;
}

// Adds the metrics of the predictions with their intervals, and what depends on the threshold.
void add_scores(Measurement& out, const store::Bundle& bundle, const Predictions& predictions,
                const std::function<void(const std::string&)>& note) {
  constexpr int64_t kMostColumns = 100;  // values, such as pixels, or labels whose scores are worth a line each
  const int64_t outputs = bundle.model.classes();
  const bool many = outputs > kMostColumns;
  if (predictions.count() == 0 || (many && models::regresses(bundle.model.loss))) return;
  metrics::ScoreOptions options{.thresholds = bundle.thresholds(),
                                .first = metrics::read_metric(bundle.provenance).value_or(metrics::Metric())};
  if (bundle.multilabel() && many) options.draws = 0;  // intervals would take minutes
  if (!many) options.columns = bundle.multilabel() ? bundle.classes : bundle.targets;
  out.scores = metrics::scores_of(predictions.outputs, predictions.targets, options);
  for (const std::string& line : metrics::notes_on_scores(predictions.outputs, predictions.targets, options))
    note(line);
  constexpr double kRounding = 1e-3;
  for (const metrics::Score& s : out.scores) {
    if (s.name != "log_loss" || bundle.model.loss != models::Loss::cross_entropy) continue;
    if (s.value > (1 - kRounding) * out.figures.loss) continue;
    note(
        "log_loss is the same loss, of probabilities of at least 1e-38; loss is computed before they are rounded to 0");
  }
  if (!bundle.threshold) return;
  const auto accuracy = metrics::score_of({.name = "accuracy", .higher = true}, predictions.outputs,
                                          predictions.targets, bundle.threshold);
  if (accuracy) out.figures.top1 = 100 * *accuracy;
}

// The name of the evaluated part of the data. `set`: a data::Dataset or data::TextSet.
template <class Set>
std::string name_of_part(const Set& set, const MeasureRequest& r, bool decided) {
  if (r.split == "train") return r.split;
  if (set.validation || decided) return kValidationPart;
  return set.undivided ? "all" : "test";
}

// Evaluates a saved network of texts or of samples.
Measurement measure_net(store::Bundle bundle, const std::string& path, const MeasureRequest& r) {
  TrainedOn on = trained_on(bundle, path);
  Measurement out{.figures = {}, .data = data_to_measure(r.data, on, path)};

  data::LoadOptions& load = on.load;
  load.data_dir = r.data_dir;
  const data::BadSamples bad = bad_samples(r, on);
  load.text.bad = bad;
  if (r.val_split) load.images.val_split = load.text.val_split = *r.val_split;
  if (r.seed) load.images.split_seed = load.text.split_seed = static_cast<uint64_t>(*r.seed);
  if (r.text_column) load.text.text_column = *r.text_column;
  for (const auto& [flag, given] :
       {std::pair{"--target", r.target.has_value()}, {"--group-column", r.group_column.has_value()}}) {
    if (given) refuse_flag_of(flag, "table models", cat(path, " is a network"));
  }
  if (r.label_column) set_label_column(load, *r.label_column);
  load.images.held_out = r.split == "test" ? data::HeldOut::test : data::HeldOut::validation;
  load.text.held_out = load.images.held_out;
  TestViews views = TestViews::one;
  if (const std::string tta = r.tta.value_or(on.tta); !parse_test_views(tta, views)) {
    refuse_name("--tta", tta, {"none", "flip", "shift"});
  }
  const store::ComputeType compute = store::compute_type(on.precision, r.device);
  if (!compute.note.empty()) r.note(cat("the model was trained with --precision ", on.precision, ": ", compute.note));
  const CompileOptions compile = {.backend = r.device == "auto" ? std::string() : r.device,
                                  .deterministic = r.deterministic,
                                  .compute = compute.dtype,
                                  .tf32 = compute.tf32};
  const bool predictions = !bundle.model.language_model();
  Evaluator evaluator(bundle.model, compile, r.batch_size, views,
                      predictions ? Evaluator::Keep::predictions : Evaluator::Keep::figures);
  const bool text = bundle.preprocessing.text();
  const Measured measured =
      load_to_measure(on, out.data, load, text, r.val_split ? Division::divide : Division::as_fits);
  const auto note = [&](const std::string& said) {
    if (!said.empty()) r.note(said);
  };
  // A test set by which training chose the epoch or a threshold is no test set any more.
  const auto held_out = bundle.provenance.find("held_out");
  const bool decided = held_out != bundle.provenance.end() && held_out->second == kValidationPart;
  if (text) {
    const data::TextSet& set = measured.texts;
    note(set.train.note);
    if (r.split != "train") note(set.test.note);
    const data::TextPart& part = r.split == "train" ? set.train : set.test;
    out.unit = set.corpus() ? "tokens" : "documents";
    out.part = name_of_part(set, r, decided && cat(data::fingerprint(set.train)) == on.fingerprint);
    if (r.ranks) r.ranks->need_equal("data", cat(out.data, " ", data::fingerprint(part)));
    const auto feed = data::share_of(evaluation_feed(set, part, bundle, r.batch_size), share_of_batches(r.ranks));
    out.figures = evaluator.run(*feed, cat(out.data, ", ", out.part), r.poll, r.ranks);
    add_scores(out, bundle, evaluator.predictions(), note);
    return out;
  }
  data::Dataset set = r.split == "train" ? measured.samples.train : measured.samples.test;
  note(measured.samples.train.note);
  if (r.split != "train") note(set.note);
  out.part = name_of_part(set, r, decided && cat(measured.samples.train.fingerprint()) == on.fingerprint);
  data::leave_out_nonfinite(set, bad);
  if (r.ranks) r.ranks->need_equal("data", cat(out.data, " ", set.fingerprint()));
  adapt(set, bundle);
  if (set.images.defined()) {
    const std::string odd = data::range_warning(set.images, bundle.preprocessing.arrays);
    if (!odd.empty()) r.warn(cat(out.data, ": ", odd));
  }
  out.figures = evaluator.run(set, r.poll, {.workers = static_cast<int>(r.workers), .bad = bad, .ranks = r.ranks});
  add_scores(out, bundle, evaluator.predictions(), note);
  return out;
}

class NetLearner : public Learner {
 public:
  std::string name() const override { return store::kNet; }
  std::string doc() const override { return "networks: built-in (freight models list), or a spec FILE.json"; }
  bool fits_by_several() const override { return true; }
  std::unique_ptr<Prepared> prepare(const Config& config, PrepareOptions options) const override {
    return prepare_net(config, std::move(options));
  }
  Measurement measure(store::Bundle bundle, const std::string& path, const MeasureRequest& request) const override {
    return measure_net(std::move(bundle), path, request);
  }
  MeasuredRows rows_to_measure(const store::Bundle& bundle, const std::string& path,
                               const MeasureRequest&) const override {
    fail(ErrorKind::usage, path, "the network ", bundle.name(), " expects samples, not rows of named columns");
  }
};

}  // namespace

std::shared_ptr<const Learner> net_learner() { return std::make_shared<NetLearner>(); }

Planned NetRun::planned() const {
  Planned planned = net->planned();
  planned.train_count = task->train_count();
  planned.test_count = task->test_count();
  planned.data_bytes = data ? data->bytes() : 0;
  planned.kept_bytes = task->kept_bytes() + net->step->kept_bytes();
  planned.images_in_files = task->reads_image_files();
  planned.ranks = ranks ? ranks->world() : 1;
  planned.lengths = task->lengths();
  planned.writes = records();
  planned.drawn_bytes = weights ? weights->stop() : 0;
  return planned;
}

void NetRun::plan_within(const ArenaLimit& limit) {
  const Offload offload = parse_offload(config.offload);
  if (offload == Offload::none) {
    fail(ErrorKind::usage, "PreparedRun::plan_within", "the run does not offload, so that nothing can be limited: set ",
         "config.offload");
  }
  if (restored || record) {
    fail(ErrorKind::usage, "PreparedRun::plan_within", "the run has been restored or run with its plan: plan before");
  }
  CompileOptions options = net->compile;
  options.limit = limit;
  options.limit.offload = offload;
  net->plan_step(task->batch_types(), options, data.get(), ranks);
}

void NetRun::restore() {
  // A run that offloads, but was given no limit, is planned for that now: what is put back below are states of the
  // step, too, which planning again would make anew.
  if (net->compile.limit.offload != parse_offload(config.offload)) plan_within({});
  if (restored) return;
  restored = true;
  rng_state().set(random_numbers);
  if (!start.checkpoint) return;
  Checkpoint& from = *start.checkpoint;
  if (from.state->find("optimizer.skipped")) net->optimizer->keep_skipped();
  const std::vector<nn::NamedVariable> states =
      net->shares ? net->states_with(net->shares->to_be_filled()) : net->states();
  train::restore(from, net->model, states, stored.net ? &stored : nullptr);
  if (from.averaged) net->averages->swap();
  // For the weights load_weights has said so already.
  if (const std::string at = train::first_nonfinite(states); !at.empty()) {
    fail(ErrorKind::checkpoint, from.dir, at, ": training cannot continue from there; use an earlier checkpoint");
  }
  RunPosition& place = from.place;
  if (stores_best() && place.best_step > 0 && best_model(place.best_step).empty()) {
    notes.push_back(cat("the weights of the best epoch, step ", place.best_step, ", are not in ", run_of(from),
                        ": the best is looked for from here on"));
    place.best_score = -std::numeric_limits<double>::infinity();
    place.best_step = place.best_epoch = 0;
  }
  const bool complete = (place.step >= length.steps && place.closed) || stops_early(place);
  notes.push_back(complete ? cat("the run is complete: ", place.step, " steps were done in ", from.dir)
                           : cat("resumed from ", from.dir, ": weights, optimizer, random numbers; step ", place.step,
                                 ", epoch ", place.epoch,
                                 place.batch > 0 ? cat(", after ", place.batch, " of its batches") : ""));
}

RunSummary NetRun::summary() const {
  const TrainStep::Summary plan = net->step->summary(net->inputs, net->targets);
  RunSummary s = common_summary(*this);
  s.model = net->model.name;
  s.device = backend(plan.backend).description();
  s.parameters = finetune::count_parameters(*net->model.net);
  s.train_count = task->train_count();
  s.test_count = task->test_count();
  s.classes = static_cast<int64_t>(task->classes().size());
  s.multilabel = net->model.loss == models::Loss::multilabel;
  s.unit = task->unit();
  s.example = task->example();
  s.sample_set = task->sample_set();
  s.held_out = s.measured = evaluated_part();
  s.test_apart = task->test_apart();
  s.batch_size = config.batch_size;
  s.grad_accum = config.grad_accum;
  s.devices = ranks ? ranks->world() : 1;
  if (shares) s.parts = shares->text();
  s.shards = config.shards;
  s.epochs = length.epochs;
  s.steps = length.steps;
  s.metric_name = metric_name();
  s.flops_per_step = plan.flops;
  s.planned_bytes = planned_bytes > 0 ? planned_bytes : plan.arena_bytes;
  s.has_plans = true;
  if (!net->unused.empty())
    s.warnings.push_back(cat("the loss does not use, and training does not change: ", net->unused.names()));
  std::vector<std::string> on_data = task->notes();
  if (!precision_note.empty()) on_data.push_back(precision_note);
  s.notes.insert(s.notes.begin(), on_data.begin(), on_data.end());
  return s;
}

// The arena alone: what else a net takes is planned by plan/, which sees all of it.
Cost NetRun::cost() const {
  return {.bytes = static_cast<double>(net->step->summary(net->inputs, net->targets).arena_bytes)};
}

std::string NetRun::description() const {
  const models::Model& model = stored.net ? stored : net->model;
  return models::has_spec(model) ? models::to_spec(model)
                                 : models::to_json(models::summarize(model, config.batch_size));
}

store::Bundle NetRun::bundle(const RunPosition& place) const {
  store::Bundle b{net->model, task->preprocessing(), class_names,
                  provenance(config, fingerprint, place.step, place.test, evaluated_part())};
  if (stored.net) b.model.net = stored.net;
  b.threshold = thresholds.second;
  b.label_thresholds = thresholds.labels;
  b.targets = task->targets();
  if (config.task != Config().task) b.provenance["task"] = config.task;
  if (metric) metrics::write_metric(*metric, b.provenance);
  if ((stores_best() || decides()) && !task->test_apart()) b.provenance["held_out"] = kValidationPart;  // it decided
  return b;
}

std::string NetRun::evaluated_part() const {
  // Samples that decide when training ends, or what is stored, are no test set.
  return task->validates() || stores_best() || decides() ? kValidationPart : "test";
}

std::string NetRun::metric_name() const {
  if (metric) return metric->name;
  return net->model.own.reports() ? net->model.own.metric_name : std::string();
}

std::string NetRun::compute() const { return net->compile.tf32 ? "tf32" : to_string(net->compile.compute); }

bool NetRun::within_epoch() const {
  const RunPosition place = start.place();
  return place.batch > 0 && place.batch < length.steps_of(place.epoch);
}

NetRun::NetRun() = default;
NetRun::~NetRun() = default;

namespace {
std::string version_and_data(const NetRun& p) { return cat(version(), "; ", p.config.data, " ", p.fingerprint, ";"); }
std::string names_and_types(const std::vector<nn::NamedVariable>& values) {
  std::string all;
  for (const nn::NamedVariable& v : values) all += cat(v.name, " ", v.variable.type(), ", ");
  return all;
}
}  // namespace

// The others go on from what rank 0 begins with: weights, states, and the place in the run.
void NetRun::share_start() {
  const std::vector<nn::NamedVariable> values = common_values();
  ranks->need_equal("version and data", version_and_data(*this));
  ranks->need_equal("weights and states", names_and_types(values));
  ranks->broadcast(values);
  RunPosition place = start.place();
  ranks->broadcast(&place, sizeof place);
  if (!ranks->first()) start.received = place;
  if (net->shares && place.step > 0) net->shares->hand_out();
}

std::vector<nn::NamedVariable> NetRun::common_values() const {
  std::vector<nn::NamedVariable> values = net->model.net->state_dict();
  const std::vector<nn::NamedVariable> more = net->shares ? net->states_with(net->shares->common()) : net->states();
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

WholeStates NetRun::whole_states() const {
  WholeStates all{.kept = net->states()};
  if (net->shares && !net->shares->everywhere()) all.given = net->shares->gathered();
  for (nn::NamedArray& a : all.given) a.name = "optimizer." + a.name;
  return all;
}

std::string NetRun::first_nonfinite() const {
  const std::string mine = net->first_nonfinite();
  if (!net->shares || net->shares->everywhere()) return mine;
  for (const std::string& at : ranks->from_all(mine)) {
    if (!at.empty()) return at;
  }
  return {};
}

void NetRun::level_ranks() {
  if (ranks && ranks->unlike()) ranks->broadcast(common_values());
}

void NetRun::train(RunRecorder& to, Observer& observer) {
  const bool whole = config.folds == 0 || train_folds(*this, to, observer);
  if (ranks) share_start();
  loop = std::make_unique<Loop>(*this, to, observer);
  if (!whole) loop->stop();
  loop->run();
}

const Result& NetRun::result() const {
  static const Result kNone;
  return loop ? loop->result() : kNone;
}

}  // namespace freight::train
