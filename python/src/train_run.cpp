// Runs of the library's trainer on arrays of a program: fit, evaluate and predict, and models in files. A run is the
// command's: the step is traced once, calling Python's forward, and replayed without Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>

#include "freight/base/usage.h"
#include "freight/data/loader.h"
#include "freight/io/metrics.h"
#include "freight/job/signals.h"
#include "freight/metrics/scores.h"
#include "freight/models/models.h"
#include "freight/models/summary.h"
#include "freight/store/bundle.h"
#include "freight/store/precision.h"
#include "freight/trace/compile.h"
#include "freight/train/config_fields.h"
#include "freight/train/prepare.h"
#include "ranks.h"
#include "train.h"

namespace freight::python {

namespace {

using Clock = std::chrono::steady_clock;

// 0.999 of 99.9 percent, whose hundredth prints as 0.9990000000000001.
double fraction(double percent) { return std::round(percent * 1e10) / 1e12; }

// The keyword of a flag in Python: "batch_size" of "--batch-size".
std::string keyword_of(const std::string& flag) {
  std::string name = flag.substr(2);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void set_field(train::Config& config, const train::Field& f, const std::string& name, nb::handle value) {
  const auto refuse = [&](const char* expected) {
    raise<TypeError>("fit: ", name, ": expected ", expected, ", got ", nb::repr(value).c_str());
  };
  std::visit(
      [&](auto member) {
        using V = std::decay_t<decltype(config.*member)>;
        V& out = config.*member;
        if constexpr (std::is_same_v<V, bool>) {
          if (!PyBool_Check(value.ptr())) refuse("True or False");
          out = value.ptr() == Py_True;
        } else if constexpr (std::is_same_v<V, std::string>) {
          if (!nb::isinstance<nb::str>(value)) refuse("a string");
          out = f.meaning(text_of(value));
        } else {
          const Scalar s = scalar_of(value);
          if (s.kind != Scalar::Kind::integer && (std::is_same_v<V, int64_t> || s.kind != Scalar::Kind::floating))
            refuse(std::is_same_v<V, int64_t> ? "a whole number" : "a number");
          out = std::is_same_v<V, int64_t> ? static_cast<V>(s.integer) : static_cast<V>(s.value.real());
        }
      },
      static_cast<const train::Field::Pointer&>(f.member));
}

// The configuration of a run by keywords; those of the command's flags.
train::Config config_of(const nb::dict& settings) {
  train::Config config;
  std::vector<std::string> known;
  for (auto [key, value] : settings) {
    const std::string name = text_of(key);
    const train::Field* found = nullptr;
    known.clear();
    for (const train::Field& f : train::config_fields()) {
      known.push_back(keyword_of(f.flag()));
      if (known.back() == name) found = &f;
    }
    if (!found) refuse_unknown("fit", {.kind = "setting", .got = name, .known = known});
    set_field(config, *found, name, value);
  }
  return config;
}

std::optional<nb::object> given(const nb::dict& d, const char* key) {
  if (!d.contains(key)) return std::nullopt;
  nb::object o = d[key];
  if (o.is_none()) return std::nullopt;
  return o;
}

Array array_in(const nb::dict& d, const char* key) {
  return to_array(contiguous(host(array_of(nb::object(d[key]), key))));
}

template <class T>
std::vector<T> list_in(const nb::dict& d, const char* key) {
  const auto found = given(d, key);
  return found ? nb::cast<std::vector<T>>(*found) : std::vector<T>();
}

// A Python object that may be called and let go of on any thread.
std::shared_ptr<nb::object> shared(const nb::object& o) {
  return {new nb::object(o), [](nb::object* held) {
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

// A Python function of outputs and targets.
models::Objective::Function function_of(const nb::object& f, const char* what) {
  return [held = shared(f), what](const Tensor& outputs, const Tensor& targets) {
    const nb::gil_scoped_acquire lock;
    const nb::object y = (*held)(wrap(outputs), wrap(targets));
    return tensor_of(array_of(y, what));
  };
}

// Makes the model that a run trains or a file stores. `d` has "name", "input" (the shape of a sample), "dtype", and
// "loss" or functions.
models::Model model_of(const PyNode& node, const nb::dict& d) {
  models::Model model;
  model.net = node.module;
  model.name = nb::cast<std::string>(d["name"]);
  const auto dtype = given(d, "dtype");
  model.input = {dtype ? *dtype_of(*dtype) : DType::f32, freight::Shape(integers_of(nb::object(d["input"]), "input"))};
  const auto loss = nb::cast<std::string>(d["loss"]);
  if (!models::parse_loss(loss, model.loss)) refuse_name("loss", loss, models::loss_names());
  if (const auto f = given(d, "loss_function")) model.own.loss = function_of(*f, "loss");
  if (const auto f = given(d, "metric_function")) model.own.metric = function_of(*f, "metric");
  if (const auto f = given(d, "evaluated_function")) {
    model.own.evaluated = [held = shared(*f)]() -> std::optional<double> {
      const nb::gil_scoped_acquire lock;
      const nb::object found = (*held)();
      return found.is_none() ? std::nullopt : std::optional(nb::cast<double>(found));
    };
  }
  if (const auto notes = given(d, "notes")) model.notes = nb::cast<std::string>(*notes);
  if (const auto name = given(d, "metric_name")) {
    model.own.metric_name = nb::cast<std::string>(*name);
    model.own.higher_is_better = nb::cast<bool>(d["higher_is_better"]);
  } else {
    model.own.metric_name.clear();
  }
  if (const auto f = given(d, "observe_function")) {
    model.own.observe = [held = shared(*f)](const Tensor& outputs, const Tensor& targets) {
      const nb::gil_scoped_acquire lock;
      (*held)(wrap(outputs), wrap(targets));
    };
  }
  return model;
}

data::Dataset dataset_of(const nb::dict& d, const char* x, const char* y) {
  data::Dataset set;
  set.name = nb::cast<std::string>(d["data_name"]);
  set.images = array_in(d, x);
  set.labels = array_in(d, y);
  set.classes = list_in<std::string>(d, "classes");
  set.mean = list_in<float>(d, "mean");
  set.std = list_in<float>(d, "std");
  return set;
}

// Batches of arrays of any type, in the order in which a Loader has them.
class ArrayFeed : public data::Feed {
 public:
  ArrayFeed(Array x, Array y, const data::LoaderOptions& options)
      : x_(std::move(x)), y_(std::move(y)), size_(options.batch_size), order_(places(x_.shape()[0]), options) {}
  int64_t batches_per_epoch() const override { return order_.batches_per_epoch(); }
  int64_t count_per_epoch() const override {
    return order_.samples_per_epoch() * (data::at_places(y_) ? y_.numel() / y_.shape()[0] : 1);
  }
  void start(int64_t epoch, int64_t first_batch) override {
    rows_ = order_.order(epoch);
    at_ = first_batch;
  }
  data::FeedBatch* next() override {
    if (at_ >= batches_per_epoch()) return nullptr;
    const auto begin = static_cast<size_t>(at_++ * size_);
    const size_t end = std::min(begin + static_cast<size_t>(size_), rows_.size());
    const std::vector<int64_t> rows(rows_.begin() + static_cast<int64_t>(begin),
                                    rows_.begin() + static_cast<int64_t>(end));
    batch_ = {data::selected_rows(x_, rows), data::selected_rows(y_, rows)};
    batch_.count = data::counted(batch_.targets);
    return &batch_;
  }
  double wait_seconds() const override { return 0; }

 private:
  // A set of as many samples, of which the Loader gives the order.
  static data::Dataset places(int64_t count) {
    data::Dataset set;
    set.name = "arrays";
    set.images = Array(DType::u8, freight::Shape{count, 1});
    set.labels = Array(DType::f32, freight::Shape{count});
    return set;
  }

  Array x_, y_;
  int64_t size_, at_ = 0;
  data::Loader order_;
  std::vector<int64_t> rows_;
  data::FeedBatch batch_;
};

// Batches that Python makes: _Batches of freight/_fit.py.
class PythonFeed : public data::Feed {
 public:
  PythonFeed(std::shared_ptr<nb::object> batches, int64_t count, int64_t samples)
      : batches_(std::move(batches)), count_(count), samples_(samples) {}
  int64_t batches_per_epoch() const override { return count_; }
  int64_t count_per_epoch() const override { return samples_; }
  void start(int64_t epoch, int64_t first_batch) override {
    const nb::gil_scoped_acquire lock;
    batches_->attr("start")(epoch, first_batch);
  }
  data::FeedBatch* next() override {
    const auto began = Clock::now();
    const nb::gil_scoped_acquire lock;
    const nb::object found = batches_->attr("next")();
    waited_ += std::chrono::duration<double>(Clock::now() - began).count();
    if (found.is_none()) return nullptr;
    const auto d = nb::borrow<nb::dict>(found);
    batch_ = {array_in(d, "x"), array_in(d, "y")};
    batch_.count = data::counted(batch_.targets);
    return &batch_;
  }
  double wait_seconds() const override { return waited_; }

 private:
  std::shared_ptr<nb::object> batches_;
  int64_t count_, samples_;
  double waited_ = 0;
  data::FeedBatch batch_;
};

train::Feeds feeds_of(const nb::dict& d, int64_t seed) {
  const Array x = array_in(d, "x"), y = array_in(d, "y"), vx = array_in(d, "vx"), vy = array_in(d, "vy");
  train::Feeds feeds;
  feeds.name = nb::cast<std::string>(d["data_name"]);
  feeds.classes = list_in<std::string>(d, "classes");
  feeds.validation = true;
  // The first of given batches may be another one each time.
  if (!given(d, "batches")) feeds.fingerprint = data::hash_of(y.raw(), y.bytes(), data::hash_of(x.raw(), x.bytes(), 0));
  feeds.train = [x, y, seed, shuffle = nb::cast<bool>(d["shuffle"])](int64_t batch) {
    return std::make_unique<ArrayFeed>(x, y,
                                       data::LoaderOptions{.batch_size = batch,
                                                           .shuffle = shuffle,
                                                           .seed = static_cast<uint64_t>(seed),
                                                           .drop_last = x.shape()[0] >= batch,
                                                           .workers = 0});
  };
  if (const auto batches = given(d, "batches")) {
    feeds.train = [held = shared(*batches), n = nb::cast<int64_t>(batches->attr("count")),
                   samples = nb::cast<int64_t>(batches->attr("samples"))](int64_t) {
      return std::make_unique<PythonFeed>(held, n, samples);
    };
  }
  if (vx.shape()[0] == 0) return feeds;
  feeds.test = [vx, vy](int64_t batch) {
    return std::make_unique<ArrayFeed>(vx, vy, data::LoaderOptions{.batch_size = batch, .workers = 0});
  };
  return feeds;
}

nb::dict figures_of(const train::Evaluation& e) {
  nb::dict d;
  d["loss"] = e.loss;
  if (e.top1) d["accuracy"] = fraction(*e.top1);
  if (e.metric) d["metric"] = *e.metric;
  return d;
}

// Thrown through the run where a callback has raised; the Python exception waits in the observer.
struct Raised : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Hands reports on to Python, and stops the run where a callback raises or the user presses Ctrl-C. The run saves its
// state then, and the exception is raised again behind it.
class PyObserver : public train::Observer {
 public:
  PyObserver(nb::handle sink, nn::Module& net, const train::Config& config)
      : sink_(nb::borrow(sink)),
        net_(net),
        steps_(nb::cast<bool>(sink_.attr("wants_steps"))),
        averages_(config.model_ema > 0) {}

  void on_start(const train::RunSummary& s) override {
    const nb::gil_scoped_acquire lock;
    nb::dict d;
    d["steps"] = s.steps;
    d["epochs"] = s.epochs;
    d["parameters"] = s.parameters;
    d["device"] = s.device;
    d["output_dir"] = s.output_dir;
    d["notes"] = s.notes;
    d["warnings"] = s.warnings;
    tell([&] { sink_.attr("start")(d); });
    if (error_) throw Raised("a callback raised an exception");
  }
  bool wants_step() override {
    poll();
    return steps_ || ends() || lr_;
  }
  train::AfterStep on_step(const train::StepReport& r) override {
    if (steps_ && !error_) {
      const nb::gil_scoped_acquire lock;
      nb::dict d = train_figures(r);
      d["step"] = r.step;
      d["steps"] = r.steps;
      tell([&] { take(sink_.attr("step")(d)); });
    }
    return asked();
  }
  void on_checkpoint(const models::Model&) override {
    if (averages_) kept_ = nn::values_of(net_.state_dict());
  }
  void on_epoch(const train::EpochReport& e) override {
    const nb::gil_scoped_acquire lock;
    tell([&] { sink_.attr("gather")(); });  // of all ranks, also where one has an error to raise
    if (error_) return;
    nb::dict d = train_figures(e.train);
    d["seconds"] = e.seconds;
    d["best"] = e.best;
    if (e.test) d["validation"] = figures_of(*e.test);
    tell([&] { take(sink_.attr("epoch")(d)); });
  }
  train::AfterStep after_epoch() override { return asked(); }
  void on_evaluation_progress(int64_t, int64_t) override { poll(); }

  // To be called with the interpreter's lock, after the run.
  void raise_again() {
    for (const std::exception_ptr& e : {error_, signal_}) {
      if (e) std::rethrow_exception(e);
    }
  }
  // Gives the network the averages of its weights, where the run has some.
  void settle() {
    if (!kept_.empty()) net_.load_state_dict(kept_);
  }

 private:
  static nb::dict train_figures(const train::StepReport& r) {
    nb::dict d;
    d["epoch"] = r.epoch;
    d["epochs"] = r.epochs;
    d["total_step"] = r.total_step;
    d["loss"] = r.mean_loss;
    d["batch_loss"] = r.loss;
    d["lr"] = r.lr;
    d["samples_per_s"] = r.samples_per_s;
    if (r.top1) d["accuracy"] = fraction(*r.top1);
    if (r.metric) d["metric"] = *r.metric;
    return d;
  }
  bool ends() const { return stop_ || error_ || signal_; }
  train::AfterStep asked() { return {.stop = ends(), .lr = std::exchange(lr_, std::nullopt)}; }
  // Does what callbacks ask for, by what ends the run, True or an exception, and a learning rate; each may be None.
  void take(const nb::object& answers) {
    const nb::object end = answers[0], rate = answers[1];
    if (end.ptr() == Py_True) stop_ = true;
    if (PyFloat_Check(rate.ptr())) lr_ = PyFloat_AsDouble(rate.ptr());
    if (!PyExceptionInstance_Check(end.ptr())) return;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(end.ptr())), end.ptr());
    throw nb::python_error();
  }
  template <class F>
  void tell(F&& f) {
    try {
      f();
    } catch (nb::python_error&) {
      error_ = std::current_exception();
    }
  }
  // Ctrl-C ends the run behind the step, of which callbacks hear all the same.
  void poll() {
    const auto now = Clock::now();
    if (ends() || now - polled_ < std::chrono::milliseconds(50)) return;
    polled_ = now;
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() == 0) return;
    try {
      throw nb::python_error();
    } catch (nb::python_error&) {
      signal_ = std::current_exception();
    }
  }

  nb::object sink_;
  nn::Module& net_;
  bool steps_, averages_, stop_ = false;
  std::optional<double> lr_;
  std::exception_ptr error_, signal_;  // of a callback; of a signal
  Clock::time_point polled_ = Clock::now();
  std::vector<nn::NamedArray> kept_;
};

// Calls f without the interpreter's lock.
template <class F>
std::exception_ptr unlocked(F&& f) {
  std::exception_ptr failure;
  const nb::gil_scoped_release released;
  try {
    f();
  } catch (...) {
    failure = std::current_exception();
  }
  return failure;
}

// Images, or arrays in files, that the command reads too.
data::Source images_at(const train::Config& config) {
  data::Source source = train::source_of(config);
  source.need();
  const data::Content content = source.content();
  if (content != data::Content::images && content != data::Content::arrays)
    raise<ValueError>("fit: x: ", config.data,
                      " has texts or a table: expected images or arrays (.npy, .npz); others are for ",
                      "freight.train");
  return source;
}

// All ranks train with the same settings; the run directory is rank 0's.
void agree_on(train::Config& config, job::Ranks& ranks) {
  train::Config common = config;
  common.output_dir = common.backend = {};
  ranks.need_equal("the settings", train::to_json(common));
  config.output_dir = ranks.from_first(config.output_dir);
}

// The other ranks end with the reason, instead of waiting for this one.
void tell_others(const std::exception_ptr& failure) {
  job::Ranks* const ranks = current_ranks();
  if (!ranks) return;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    ranks->comm().abort(e.what());
  }
}

// How images become samples, for a model that is stored later.
nb::dict images_of(const store::Preprocessing& p) {
  nb::dict d;
  d["resize"] = p.resize;
  d["orientation"] = static_cast<int>(p.orientation);
  d["layout"] = static_cast<int>(p.arrays.layout);
  d["values"] = static_cast<int>(p.arrays.values);
  d["range"] = nb::make_tuple(p.arrays.range.low, p.arrays.range.high);
  return d;
}
void take_images(const nb::dict& d, store::Preprocessing& p) {
  p.resize = nb::cast<int64_t>(d["resize"]);
  p.orientation = static_cast<io::Orientation>(nb::cast<int>(d["orientation"]));
  p.arrays.layout = static_cast<decltype(p.arrays.layout)>(nb::cast<int>(d["layout"]));
  p.arrays.values = static_cast<decltype(p.arrays.values)>(nb::cast<int>(d["values"]));
  p.arrays.range.low = nb::cast<decltype(p.arrays.range.low)>(d["range"][0]);
  p.arrays.range.high = nb::cast<decltype(p.arrays.range.high)>(d["range"][1]);
}

// Trains; `request` has what model_of and dataset_of read, "settings" and "feeds" (whether arrays are handed over as
// they are).
nb::dict fit(const PyNode& node, const nb::dict& request, nb::handle sink) {
  const SeedKept seed_kept;
  train::Config config = config_of(nb::borrow<nb::dict>(request["settings"]));
  config.data = nb::cast<std::string>(request["data_name"]);
  train::PrepareOptions options;
  options.ranks = current_ranks();
  options.own.model = model_of(node, request);
  config.model = options.own.model->name;
  if (const auto optimizer = given(request, "optimizer")) options.own.optimizer = optimizer_of(*optimizer);
  if (nb::cast<bool>(request["feeds"])) {
    options.own.feeds = feeds_of(request, config.seed);
  } else if (const auto path = given(request, "path")) {
    config.data = nb::cast<std::string>(*path);
    options.source = images_at(config);
  } else {
    data::TrainTest sets{dataset_of(request, "x", "y"), dataset_of(request, "vx", "vy")};
    sets.test.validation = true;
    options.source = data::Source(std::move(sets));
  }
  PyObserver observer(sink, *node.module, config);
  train::Result result;
  store::Preprocessing prepared;
  std::vector<std::string> classes;
  const std::exception_ptr failure = unlocked([&] {
    if (options.ranks) agree_on(config, *options.ranks);
    options.recorded = !config.output_dir.empty();
    train::PreparedRun run = train::prepare(config, std::move(options));
    result = run.run(observer, {"freight.fit"});
    prepared = run.preprocessing();
    classes = run.class_names();
  });
  if (failure) tell_others(failure);
  observer.settle();
  observer.raise_again();
  if (failure) std::rethrow_exception(failure);
  nb::dict d;
  static const char* const kEnded[] = {"complete", "early", "nothing_left", "stopped", "stopped"};
  d["ended"] = kEnded[static_cast<size_t>(result.ended)];
  d["steps"] = result.steps;
  d["epochs"] = result.epochs;
  d["best_epoch"] = result.best_epoch;
  d["train_seconds"] = result.train_seconds;
  d["samples_per_second"] = result.samples_per_second;
  d["output_dir"] = result.output_dir;
  d["model_path"] = result.model_path;
  d["mean"] = prepared.mean;
  d["std"] = prepared.std;
  d["images"] = images_of(prepared);
  d["classes"] = classes;
  return d;
}

CompileOptions compile_options(const std::string& device, const std::string& precision) {
  const store::ComputeType compute = store::compute_type(precision, device);
  return {.backend = device == "auto" ? std::string() : device, .compute = compute.dtype, .tf32 = compute.tf32};
}

// A metric of the library, NaN where it is not defined. `outputs`: f32 (N, K), probabilities of `classes` or `labels`,
// or values.
double score(const std::string& name, nb::handle outputs, nb::handle targets, bool classes, bool labels) {
  const auto array = [](nb::handle h, const char* what) { return to_array(contiguous(host(array_of(h, what)))); };
  const Array y = array(outputs, "outputs"), t = array(targets, "targets");
  const auto count = static_cast<size_t>(y.shape()[1]);
  const metrics::Metric metric = metrics::metric_named(name, {.classes = classes ? count : 0, .labels = labels});
  return metrics::score_of(metric, y, t).value_or(std::nan(""));
}

nb::dict evaluate(const PyNode& node, const nb::dict& request, int64_t batch_size, const std::string& device,
                  const std::string& precision) {
  models::Model model = model_of(node, request);
  train::Evaluation found;
  const bool feeds = nb::cast<bool>(request["feeds"]);
  data::Dataset set = feeds ? data::Dataset() : dataset_of(request, "x", "y");
  const Array x = feeds ? array_in(request, "x") : Array(), y = feeds ? array_in(request, "y") : Array();
  const std::exception_ptr failure = unlocked([&] {
    if (!feeds && set.classification() && set.classes.empty()) set.classes = data::numbered_classes(model.classes());
    train::Evaluator evaluator(model, compile_options(device, precision), batch_size);
    if (feeds) {
      ArrayFeed feed(x, y, {.batch_size = batch_size, .workers = 0});
      found = evaluator.run(feed, "evaluate");
    } else {
      set.validate("evaluate: x", "evaluate: y");
      train::need_fit(model, set);
      found = evaluator.run(set);
    }
  });
  if (failure) std::rethrow_exception(failure);
  return figures_of(found);
}

// Writes a model for the command. A network whose layers are not all declared is traced, and has the text of
// freight/_stored.py beside it, where the request has one. Returns why the file has the weights alone, and why a graph
// cannot be trained; "" where that is not so.
nb::tuple save(const PyNode& node, const std::string& path, const nb::dict& request) {
  models::Model model = model_of(node, request);
  model.own = {};
  const bool layers = models::has_spec(model);
  std::string fault, untrained;
  const std::exception_ptr failure = unlocked([&] {
    if (layers) return models::check_spec(model);
    try {
      model = models::as_graph(model, &untrained);
      models::check_spec(model);
    } catch (const std::exception& e) {
      fault = e.what();
    }
  });
  if (failure) std::rethrow_exception(failure);
  std::map<std::string, std::string> metadata;
  if (const auto text = given(request, "module"); text && !layers)
    metadata["freight.module"] = nb::cast<std::string>(*text);
  if (!fault.empty()) {
    if (!model.notes.empty()) metadata[store::kNotes] = model.notes;
    store::save_weights(*node.module, path, metadata);
    return nb::make_tuple(fault, "");
  }
  store::Preprocessing preprocessing{
      .input = model.input.shape, .mean = list_in<float>(request, "mean"), .std = list_in<float>(request, "std")};
  if (const auto images = given(request, "images")) take_images(nb::cast<nb::dict>(*images), preprocessing);
  io::SafeTensors file = store::to_file({.model = model,
                                         .preprocessing = preprocessing,
                                         .classes = list_in<std::string>(request, "classes"),
                                         .provenance = {}});
  file.metadata.merge(metadata);
  io::save_safetensors(path, store::sealed(std::move(file)));
  return nb::make_tuple("", untrained);
}

// (node, what model_of reads) of a network in a bundle.
nb::tuple described(const store::Bundle& b) {
  nb::dict d;
  d["name"] = b.model.name;
  d["input"] = tuple_of(Shape(b.model.input.shape));
  d["dtype"] = dtype_object(b.model.input.dtype);
  d["loss"] = models::to_string(b.model.loss);
  d["classes"] = b.classes;
  d["mean"] = b.preprocessing.mean;
  d["std"] = b.preprocessing.std;
  d["images"] = images_of(b.preprocessing);
  return nb::make_tuple(PyNode{b.model.net}, d);
}

// A named network with new weights; 0 and an empty shape stand for its own settings.
nb::tuple create(const std::string& name, int64_t classes, const std::vector<int64_t>& input, int64_t vocabulary,
                 int64_t length) {
  store::Bundle b;
  b.model =
      models::create(name, {.classes = classes, .input = Shape(input), .vocabulary = vocabulary, .length = length});
  return described(b);
}

// Keywords of settings -> the aliases of each, as keywords.
nb::dict settings() {
  nb::dict d;
  for (const train::Field& f : train::config_fields()) {
    nb::list aliases;
    for (const std::string& alias : f.aliases) aliases.append(keyword_of(alias));
    d[keyword_of(f.flag()).c_str()] = aliases;
  }
  return d;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const models::Entry& e : models::registry()) names.push_back(e.name);
  return names;
}

}  // namespace

void bind_runs(nb::module_& m) {
  nb::class_<io::MetricsWriter>(m, "MetricsWriter")
      .def(nb::init<const std::string&>())
      .def("write", [](io::MetricsWriter& w, int64_t step, int64_t epoch, const std::string& split,
                       const std::string& name, double value) {
        w.write(
            {.step = step, .epoch = static_cast<double>(epoch), .split = split, .metric_name = name, .metric = value});
      });
  bind_datasets(m);
  m.def("settings", settings);
  m.def("fit", fit);
  m.def("with_seed",
        [](uint64_t value, const nb::callable& make) {  // what make() returns, apart from the program's draws
          const SeedKept seed_kept;
          seed(value);
          return make();
        });
  m.def("evaluate", evaluate);
  m.def("precision_note", [](const std::string& precision, const std::string& device) {
    return store::compute_type(precision, device).note;
  });
  m.def("score", score);
  m.def("save_model", save);
  m.def("load_model", [](const std::string& path) { return described(store::load_net(path, "load as a module")); });
  m.def("create_model", create);
  m.def("model_names", model_names);
  m.def("higher_is_better", metrics::higher_is_better);
  m.def("metric_names", metrics::metric_names);
  m.def("hold_termination", signals::hold_termination);
  m.def("release_termination", signals::release_termination);
  m.def("save_weights", [](const PyNode& node, const std::string& path) { store::save_weights(*node.module, path); });
  m.def("load_weights", [](const PyNode& node, const std::string& path) { store::load_weights(*node.module, path); });
  m.def("output_shape", [](const PyNode& node, const nb::dict& request) {
    return tuple_of(Shape(model_of(node, request).output_type(1).shape));
  });
  m.def("model_summary", [](const PyNode& node, const nb::dict& request) {
    return models::to_text(models::summarize(model_of(node, request)));
  });
}

}  // namespace freight::python
