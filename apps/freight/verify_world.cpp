// See verify_world.h. Each number of devices trains by the command `freight train`, as a user would, in a folder that
// is removed.
#include "verify_world.h"

#include <cstdio>
#include <optional>

#include "config_options.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/comm/launch_environment.h"
#include "freight/io/digest.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/trace/device.h"
#include "freight/train/config_fields.h"
#include "freight/train/learner.h"
#include "lists.h"
#include "model_difference.h"
#include "options.h"
#include "ranks.h"

namespace freight::app {

namespace {

constexpr int64_t kContractShards = 8, kContractSteps = 20;

struct WorldFlags : JobFlags {
  std::string world;
  bool json = false;
};

std::unique_ptr<Options> world_options(train::Config& c, WorldFlags& f) {
  auto o = std::make_unique<Options>(
      "verify", "Checks on this machine that several devices train the same model, byte for byte.",
      "DATA|RUN --world 1,2,4 [options]",
      "Trains DATA, or with the configuration of a RUN, with each of these numbers of devices, in a folder that is\n"
      "removed, and compares the saved models with the first: a line for each number. Exits with 9 if one\n"
      "differs. Accepts the flags of freight train. By default it makes 20 steps with --shards 8, which is "
      "the\n"
      "contract; --shards 0 shows the result without it. freight verify MODEL checks a saved model: freight verify "
      "--help.\n"
      "  freight verify digits --world 1,2,4\n"
      "  freight verify cifar10 --model resnet20 --world 1,2,4,8 --max-steps 50 --optimizer adamw\n"
      "  freight verify runs/convnet-digits --world 1,2");
  o->positional("data", &c.data, "a built-in dataset, a directory or a file; or the directory of a run", false);
  o->add("--world", &f.world, "numbers of devices, ascending; each trains the same model", {.value = "LIST"});
  declare_config(*o, c);
  o->group("Several devices (docs/several-devices.md)");
  declare_job(*o, f);
  o->add("--json", &f.json, "print JSON");
  o->enable_config();
  o->essentials({"data", "--world", "--model", "--recipe", "--epochs", "--max-steps", "--batch-size", "--shards",
                 "--optimizer", "--comm", "--json", "--config", "--help"});
  return o;
}

// The parsed command line.
struct Asked {
  train::Config config;
  WorldFlags flags = {};
  std::vector<int64_t> world = {};
  bool done = false;  // help or the configuration was printed
};

bool is_run(const std::string& path) {
  return !path.empty() && io::file_exists(path + "/run.json") && io::file_exists(path + "/config.json");
}

Asked read_asked(const Args& args) {
  train::Config probe;
  Asked a;
  world_options(probe, a.flags)->peek(args);
  const bool run = is_run(probe.data);
  if (run) {
    train::set_from_json(a.config, io::read_text(probe.data + "/config.json"), probe.data + "/config.json");
  } else {
    const data::Source source = train::source_of(probe);
    a.config = train::recipe(source, probe.recipe);
    if (const std::string model = train::asked_model(probe, source); !model.empty()) {
      train::set_model(a.config, model, source);
    }
    train::set_picture_sizes(a.config, probe);
  }
  const std::string data = a.config.data;
  a.flags = {};
  const auto o = world_options(a.config, a.flags);
  a.done = o->parse(args) == Options::Outcome::done;
  if (a.done) return a;
  train::Config& c = a.config;
  if (run && c.data == probe.data) c.data = data;
  for (const char* flag : {"--output-dir", "--resume", "--overwrite"}) {
    excludes({flag, o->given_as_flag(flag)}, {"--world", true}, "its runs are new and are removed");
  }
  if (!o->given("--max-steps")) c.max_steps = kContractSteps;
  need_at_least("--max-steps", "steps that each trains", static_cast<double>(c.max_steps), 1);
  if (!o->given("--shards") && c.shards == 0) c.shards = kContractShards;
  a.world = parse_counts("--world", a.flags.world);
  return a;
}

// Reports errors before the first of them trains.
void check(const Asked& a) {
  const train::Config& c = a.config;
  if (a.world.size() < 2) {
    refuse_text("--world", "two numbers to compare, like 1,2", a.flags.world);
  }
  need_parts("--world", a.world.back(), c);
  train::need_net_model(c.model, "verify --world");
  if (train::is_table(c, train::source_of(c))) refuse_flag_of("--world", "networks", cat(c.data, " is a table"));
  train::validate(c);
  if (const comm::Launch launch = comm::read_launch_environment(); !launch.source.empty()) {
    fail(ErrorKind::usage, "--world", "starts its processes itself, and was started by ", launch.source);
  }
}

// A number of devices and the model that they saved.
struct Trained {
  int64_t devices = 1;
  double step_seconds = 0;                         // 0: it made too few steps to measure
  std::string fingerprint;                         // XXH3 of the file
  std::optional<ModelDifference> difference = {};  // to the first model
};

std::string counted_devices(int64_t n) { return cat(n, n == 1 ? " device" : " devices"); }

// "2 devices    3.91 ms a step  model 3f2a...  equal".
std::string line_of(const Trained& t, int64_t first) {
  std::string text = counted_devices(t.devices);
  text.resize(std::max<size_t>(text.size(), 10), ' ');
  std::string time = t.step_seconds > 0 ? fixed(t.step_seconds * 1e3, 2) : "-";
  time.insert(0, time.size() < 9 ? 9 - time.size() : 0, ' ');
  text += cat(time, " ms a step  model ", t.fingerprint);
  if (t.devices == first) return text;
  if (!t.difference) return text + "  equal";
  const ModelDifference& d = *t.difference;
  return cat(text, "  DIFFERS first at ", d.at, ": ", d.second, " by ", counted_devices(t.devices), ", ", d.first,
             " by ", first);
}

nlohmann::ordered_json json_of(const Asked& a, const std::vector<Trained>& all, bool passed) {
  nlohmann::ordered_json j = {
      {"data", a.config.data},     {"model", a.config.model},     {"batch_size", a.config.batch_size},
      {"shards", a.config.shards}, {"steps", a.config.max_steps}, {"passed", passed}};
  for (const Trained& t : all) {
    nlohmann::ordered_json one = {
        {"devices", t.devices}, {"step_seconds", nullptr}, {"xxh3_128", t.fingerprint}, {"equal", !t.difference}};
    if (t.step_seconds > 0) one["step_seconds"] = t.step_seconds;
    if (t.difference) {
      one["difference"] = {{"at", t.difference->at}, {"first", t.difference->first}, {"here", t.difference->second}};
    }
    j["worlds"].push_back(std::move(one));
  }
  return j;
}

// Null if a signal arrived, which is stored in `signal`.
std::optional<Trained> train_by(int64_t devices, const Asked& a, const std::string& folder, int& signal) {
  const std::string run = cat(folder, "/by-", devices);
  Args words = {"train", "--config", folder + "/config.json", "--quiet", "--devices", cat(devices), "-o", run};
  if (!a.config.data_dir.empty()) words.insert(words.end(), {"--data-dir", a.config.data_dir});
  const Args job = a.flags.words();
  words.insert(words.end(), job.begin(), job.end());
  signal = run_ranks_apart("verify", words, a.flags, devices, cat(folder, "/ranks-", devices)).signal;
  if (signal != 0) return std::nullopt;
  const auto j = io::read_json<nlohmann::json>(run + "/run.json");
  const std::string model = run + "/model.safetensors";
  Trained t{.devices = devices, .fingerprint = io::xxh3_128(io::read_file(model))};
  if (j.contains("plan")) t.step_seconds = j["plan"].value("measured_step_seconds", 0.0);
  t.difference = difference_of(cat(folder, "/by-", a.world[0], "/model.safetensors"), model);
  return t;
}

}  // namespace

int verify_world(const Args& args) {
  Asked a = read_asked(args);
  if (a.done) return 0;
  check(a);
  signals::install();
  train::Config& c = a.config;
  c.epochs = 0;  // the number of steps decides, however many epochs these are
  // The last epoch is always evaluated, and its figures are saved.
  c.eval_every = std::max(c.eval_every, c.max_steps);
  const LogFolder folder("verify");
  io::write_file_atomic(folder.path() + "/config.json", std::string_view(train::to_json(c)));
  if (!a.flags.json) {
    std::printf("%s, %s: %s of batch %lld%s on %s\n", c.data.c_str(), c.model.c_str(),
                cat(c.max_steps, c.max_steps == 1 ? " step" : " steps").c_str(), static_cast<long long>(c.batch_size),
                c.shards > 0 ? cat(" in ", c.shards, " shards").c_str() : ", not in shards,",
                trace::device_named(c.backend)->c_str());
  }
  std::vector<Trained> all;
  std::vector<std::string> others;
  for (const int64_t devices : a.world) {
    int signal = 0;
    const std::optional<Trained> t = train_by(devices, a, folder.path(), signal);
    if (!t) return 128 + signal;
    if (t->difference) others.push_back(cat(devices));
    if (!a.flags.json) std::printf("%s\n", line_of(*t, a.world[0]).c_str());
    std::fflush(stdout);
    all.push_back(*t);
  }
  if (a.flags.json) std::printf("%s\n", json_of(a, all, others.empty()).dump(2).c_str());
  if (others.empty()) return 0;
  fail(ErrorKind::verification, "verify", "the model of ", counted_devices(a.world[0]), " differs from that of ",
       join(others, ", "), c.shards == 0 ? ": --shards 8 makes them the same" : "");
}

}  // namespace freight::app
