// The file of the study, and its measurements. See classic.h.
#include "freight/bench/classic.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "freight/backend/backend.h"
#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/bench/capacity_internal.h"
#include "freight/bench/study_file_internal.h"
#include "freight/bench/timing.h"
#include "freight/bench/workload.h"
#include "freight/data/catalog.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/run/plan.h"
#include "freight/train/trainer.h"

namespace freight::bench {

namespace {

using Json = nlohmann::ordered_json;

// Reads the fields of an entry; errors name the file, the list and the entry.
class Entry {
 public:
  Entry(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) wrong("is not an object");
  }
  std::string optional_text(const char* key) const { return json_.contains(key) ? text(key) : std::string(); }
  std::string text(const char* key) const {
    if (!json_.contains(key) || !json_[key].is_string()) wrong(cat("needs a text '", key, "'"));
    return json_[key].get<std::string>();
  }
  double above_zero(const char* key) const {
    if (!json_.contains(key) || !json_[key].is_number() || !(json_[key].get<double>() > 0)) {
      wrong(cat("needs a number '", key, "' above 0"));
    }
    return json_[key].get<double>();
  }
  [[noreturn]] void wrong(const std::string& what) const { fail(ErrorKind::usage, where_, what); }

 private:
  const Json& json_;
  std::string where_;
};

StudyNet net_of(const Json& j, const Entry& e) {
  StudyNet n{.name = e.text("name"),
             .title = e.text("title"),
             .what = e.text("what"),
             .assumed = e.optional_text("assumed"),
             .source = e.text("source"),
             .spec = j.contains("spec") ? j["spec"].dump() : std::string(),
             .model = e.optional_text("model"),
             .batch = static_cast<int64_t>(e.above_zero("batch")),
             .parameters = static_cast<int64_t>(e.above_zero("parameters"))};
  if (n.spec.empty() == n.model.empty()) e.wrong("needs either 'spec' or 'model'");
  return n;
}

Study parse(const Json& j, const std::string& source) {
  const Entry file(j, source);
  if (file.text("format") != "freight-study-1") file.wrong("is not of the format freight-study-1");
  Study s;
  s.about = file.text("about");
  s.date = file.text("date");
  const auto list = [&](const char* key) {
    if (!j.contains(key) || !j[key].is_array()) file.wrong(cat("needs a list '", key, "'"));
    return j[key];
  };
  if (!j.contains("sources") || !j["sources"].is_object()) file.wrong("needs 'sources'");
  for (const auto& [key, what] : j["sources"].items()) s.sources.emplace_back(key, what.get<std::string>());
  const auto known_source = [&](const std::string& key, const Entry& e) {
    const bool known = std::any_of(s.sources.begin(), s.sources.end(), [&](const auto& k) { return k.first == key; });
    if (!known) e.wrong(cat("names a source that is not there: '", key, "'"));
  };
  for (const Json& n : list("nets")) {
    const Entry e(n, cat(source, ", network ", s.nets.size() + 1));
    s.nets.push_back(net_of(n, e));
    known_source(s.nets.back().source, e);
  }
  size_t number = 0;
  for (const Json& p : list("published")) {
    const Entry e(p, cat(source, ", published ", ++number));
    const Published row{{}, e.text("device"), e.text("software"), e.text("source")};
    known_source(row.source, e);
    if (!p.contains("seconds") || !p["seconds"].is_object()) e.wrong("needs 'seconds' by network");
    for (const auto& item : p["seconds"].items()) {
      const std::string& net = item.key();
      const bool known = std::any_of(s.nets.begin(), s.nets.end(), [&](const StudyNet& n) { return n.name == net; });
      if (!known) e.wrong(cat("names a network that is not there: '", net, "'"));
      Published one = row;
      one.net = net;
      one.seconds = Entry(p["seconds"], cat(source, ", published ", number)).above_zero(net.c_str());
      s.published.push_back(std::move(one));
    }
  }
  for (const Json& t : list("trainings")) {
    const Entry e(t, cat(source, ", training ", s.trainings.size() + 1));
    s.trainings.push_back({e.text("name"), e.text("title"), e.text("data"), e.text("recipe")});
  }
  return s;
}

// The FLOPs per second of a large matmul on a device, measured once.
double product_rate(const std::string& device) {
  static std::map<std::string, double> known;
  const auto [it, fresh] = known.try_emplace(device, 0);
  if (fresh) it->second = measure_roofs(device, DType::f32, 0.2).flops;
  return it->second;
}

int threads_of(const std::string& device) { return device == "cpu" ? thread_count() : 0; }

}  // namespace

models::Model StudyNet::make() const { return model.empty() ? models::from_spec(spec, name) : models::load(model); }

std::vector<std::string> Study::names() const {
  std::vector<std::string> all;
  for (const StudyNet& n : nets) all.push_back(n.name);
  for (const StudyTraining& t : trainings) all.push_back(t.name);
  return all;
}

Study load_study() { return parse_study(study_file(), "catalog/study.json"); }

Study parse_study(const std::string& text, const std::string& source) {
  return parse(io::parse_json<Json>(text, source), source);
}

StepResult measure_step(const StudyNet& net, const std::string& device, const ClassicOptions& o) {
  StepResult r{.net = net.name, .device = device, .threads = threads_of(device)};
  r.batch = o.batch > 0 ? o.batch : net.batch;
  try {
    plan::TrainingSetup setup;
    setup.config.optimizer = "sgd";
    setup.config.batch_size = r.batch;
    setup.make_model = [&net] { return net.make(); };
    const models::Model model = net.make();
    setup.input = model.input;
    setup.target = model.language_model() ? model.input : Type{DType::i64, {}};
    const plan::StepPlan step_plan = plan::plan_step(setup, plan::options_of(setup));
    r.skipped = lacks_memory(step_plan, device);
    if (!r.skipped.empty()) return r;
    const double expected = step_plan.flops / product_rate(device);
    if (expected > o.most_seconds) {
      r.skipped = cat("a step would take ", fixed(expected, 0), " s at the rate of a large product");
      return r;
    }
    const Workload w(net.make(), {.batch = r.batch, .compile = {.backend = device}});
    r.flops = w.plan().total_cost().flops;
    r.seconds = time_steps(w, o.seconds, Batches::moved, 1).median;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::capacity && e.kind() != ErrorKind::device) throw;
    r.skipped = e.what();
  }
  return r;
}

TrainingResult measure_training(const StudyTraining& training, const std::string& device, const ClassicOptions& o) {
  TrainingResult r{.name = training.name, .device = device, .threads = threads_of(device)};
  const data::Source source(training.data, {.data_dir = o.data_dir});
  try {
    source.need();
  } catch (const Error& e) {
    r.skipped = e.what();
    return r;
  }
  const io::ScratchDir scratch;
  train::Config c = train::recipe(source, training.recipe);
  c.data = training.data;
  c.data_dir = o.data_dir;
  c.backend = device;
  c.output_dir = scratch.path() + "/run";
  c.max_steps = o.most_steps;
  struct Silent : train::Observer {
  } silent;
  try {
    const auto start = std::chrono::steady_clock::now();
    const train::Result done = train::train(c, silent, {.source = source});
    r.seconds = seconds_since(start);
    r.train_seconds = done.train_seconds;
    r.samples_per_second = done.samples_per_second;
    r.top1 = done.test.top1.value_or(0);
    r.steps = done.steps;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::capacity && e.kind() != ErrorKind::device) throw;
    r.skipped = e.what();
  }
  return r;
}

}  // namespace freight::bench
