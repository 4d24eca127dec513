// `freight train`: a recipe, changed by flags, becomes a run. Progress goes to stderr, the result to stdout.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "command.h"
#include "config_options.h"
#include "device_list.h"
#include "dry_run.h"
#include "freight/backend/backend.h"
#include "freight/base/cpu_info.h"
#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/memory_size.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/job/signals.h"
#include "freight/plan/fitting.h"
#include "freight/report/card.h"
#include "freight/tables/rank_work.h"
#include "freight/trace/device.h"
#include "freight/train/class_weights.h"
#include "freight/train/config_fields.h"
#include "freight/train/learner.h"
#include "freight/train/run_dir.h"
#include "options.h"
#include "rank_log.h"
#include "ranks.h"
#include "resume_flags.h"
#include "shards_cost.h"
#include "train_terminal.h"

namespace freight::app {
namespace {

// The flags that are not part of the configuration.
struct TrainFlags {
  std::string fit = "refuse";
  std::string device_memory;  // "4GiB"; "": what is free
  bool choose_batch = false;
  bool json = false, progress = true;
  bool dry_run = false;
  RankFlags ranks;
};

// Declares all options; their defaults are the values in `c`.
void declare(Options& o, train::Config& c, TrainFlags& f) {
  o.positional("data", &c.data, "a built-in dataset (freight data list), a directory or a file", false);
  declare_config(o, c);
  declare(o, f.ranks);
  o.add("--overlap", &f.ranks.overlap,
        "overlap the gradient all-reduce with the backward pass; auto: where the plan predicts a gain",
        {.one_of = {"auto", "yes", "no"}});
  o.add("--device-weights", &f.ranks.weights,
        "fraction of the batch per device: 4,1, or auto, from measured steps (default: even; auto for mixed devices)",
        {.value = "LIST"});
  o.add("--shard-optimizer", &f.ranks.shard_optimizer,
        "shard the optimizer state over the devices (ZeRO stage 1): less memory, bitwise the same result");
  o.add("--elastic", &f.ranks.elastic,
        "restart the job on MIN to MAX of --devices when a process fails; from the last checkpoint; implies "
        "--resume auto --shards 8, and needs --output-dir",
        {.value = "MIN:MAX"});
  o.accept_word(
      "--batch-size", "auto", &f.choose_batch,
      "auto: the largest efficient one that leaves 32 steps to an epoch, but at least 16; tried with a real step");
  o.add("--json", &f.json, "print the result as one JSON line; with --dry-run the configuration");
  o.add("--progress", &f.progress, "show the progress line on stderr");
  o.group("Memory (docs/plan.md)");
  o.add("--fit", &f.fit,
        "refuse a run that does not fit in memory; auto applies the cheapest workaround; off does not check",
        {.one_of = {"refuse", "auto", "off"}});
  o.add("--device-memory", &f.device_memory, "limit for the run's device memory (default: what is free)",
        {.value = "4GiB", .aliases = {"--memory-limit"}});
  o.enable_config();
}

std::unique_ptr<Options> train_options(train::Config& c, TrainFlags& f) {
  auto o = std::make_unique<Options>(
      "train", "Trains a model on a dataset and saves it.", "[DATA] [options]",
      "Without arguments: convnet on the built-in digits; the recipe of DATA has defaults of its own.\n"
      "  freight train mnist --model lenet --epochs 5\n"
      "  freight train --data cifar10 --set optimizer.lr=0.05\n"
      "  freight train --data sst2 --model textcnn\n"
      "  freight train --data reviews.csv --text-column body --label-column stars\n"
      "  freight train housing.csv --target median_house_value");
  declare(*o, c, f);
  o->essentials({"data",        "--model",      "--weights", "--freeze",        "--recipe",  "--target", "--epochs",
                 "--max-steps", "--batch-size", "--lr",      "--optimizer",     "--metric",  "--device", "--devices",
                 "--precision", "--shards",     "--elastic", "--device-memory", "--fit",     "--seed",   "--output-dir",
                 "--overwrite", "--resume",     "--config",  "--print-config",  "--dry-run", "--help"});
  return o;
}

// The command that resumes a stopped run.
std::string resume_command(const std::string& run, const train::Config& config, const TrainFlags& flags) {
  Args more;
  if (!config.data_dir.empty()) more.insert(more.end(), {"--data-dir", config.data_dir});
  if (flags.fit != "refuse") more.insert(more.end(), {"--fit", flags.fit});
  if (!flags.device_memory.empty()) more.insert(more.end(), {"--device-memory", flags.device_memory});
  // Processes that only share the shards of one device were the command's own choice, which it makes again.
  const std::string source = comm::read_launch_environment().source;
  const bool one = flags.ranks.devices.empty() && (source.empty() || source == "freight");
  return resume_command(run, one ? RankFlags() : flags.ranks, more);
}

// The command line with all that follows from it.
struct Request {
  train::Config config;
  TrainFlags flags;
  std::optional<train::Found> found = {};
  std::unique_ptr<Options> options = {};
  data::Source source = {};  // the data, which are opened once
  bool done = false;         // help or the configuration was printed
};

// Opens the data of the configuration, unless they are open.
void open_data(Request& r, const train::Config& c) {
  if (!train::is_source_of(r.source, c)) r.source = train::source_of(c);
}

// The recipe determines the defaults, and the data set determines the recipe, so these two are read first.
Request read_request(const Args& args) {
  train::Config probe;
  Request r;
  {
    const auto first = train_options(probe, r.flags);
    first->peek(args);
    if (first->given("--resume") && probe.resume.empty()) {
      fail(ErrorKind::usage, "--resume", "expected the path of a run, or auto, got an empty value");
    }
  }
  open_data(r, probe);
  if (probe.resume.empty()) {
    r.config = train::recipe(r.source, probe.recipe);
    train::set_picture_sizes(r.config, probe);
  } else {
    r.found =
        found_to_resume(probe, r.source, r.config, [&](train::Config& c) { train_options(c, r.flags)->peek(args); });
  }
  r.flags = {};
  if (const std::string model = train::asked_model(probe, r.source); !model.empty()) {
    train::set_model(r.config, model, r.source);
  }
  return r;
}

// Sets what a run that may restart on fewer devices needs: sums that do not depend on the number of ranks.
void settle_elastic(Request& r) {
  train::Config& c = r.config;
  constexpr int64_t kShards = 8;
  if (r.found && r.found->checkpoint && c.shards == 0) {
    fail(ErrorKind::usage, "--elastic", "needs shards, and the run of ", r.found->checkpoint->dir,
         " started without them, which cannot change: resume without --elastic, or start over with it");
  }
  requires_flag({"--elastic", true}, {"--output-dir", !c.output_dir.empty()},
                "the folder of the run, whose last checkpoint a restart resumes from");
  if (!train::is_network(c, r.source)) refuse_flag_of("--elastic", "networks", cat("this run trains ", c.model));
  const GivenFlag others[] = {{"--fit auto", r.flags.fit == "auto"},
                              {"--batch-size auto", r.flags.choose_batch},
                              {"--shards 0", c.shards == 0 && r.options->given("--shards")}};
  for (const GivenFlag& other : others) excludes({"--elastic", true}, other);
  if (c.shards == 0) c.shards = std::min(kShards, c.batch_size);
}

// Applies the flags. The options point into the request: once it has moved, they must not parse again.
void parse_request(Request& r, const Args& args) {
  r.options = train_options(r.config, r.flags);
  r.done = r.options->parse(args) == Options::Outcome::done;
  if (r.done) return;
  open_data(r, r.config);
  excludes({"--batch-size auto", r.flags.choose_batch}, {"--resume", !r.config.resume.empty()},
           "a resumed run keeps its batch");
  if (r.found) check_resume(r.config, *r.found, *r.options);
  if (!r.flags.ranks.elastic.empty()) settle_elastic(r);
  train::validate(r.config);
  refuse_two_lists(r.flags.ranks, *r.options);
  r.flags.dry_run = r.options->dry_run();
}

// The memory that a run may use; with several ranks, each rank.
plan::FitOptions fit_options(const TrainFlags& flags, const train::Config& config, bool of_several) {
  using IfTooLarge = plan::FitOptions::IfTooLarge;
  plan::FitOptions fit = {.if_too_large = flags.fit == "off"    ? IfTooLarge::ignore
                                          : flags.fit == "auto" ? IfTooLarge::adapt
                                                                : IfTooLarge::refuse,
                          .device_memory = memory_size("--device-memory", flags.device_memory),
                          .choose_batch = flags.choose_batch};
  if (!of_several) return fit;
  const comm::Launch launch = comm::read_launch_environment();
  const bool parts = is_shard_process(flags.ranks, launch);  // the limit is for all of them
  if (!parts && fit.device_memory > 0) return fit;
  const auto memory = backend(*trace::device_named(config.backend)).memory();
  const double free =
      memory ? static_cast<double>(memory->free_bytes()) : static_cast<double>(cpu_info().memory_available_bytes);
  const int64_t sharers = parts ? launch.local_world : sharers_of(flags.ranks, config.backend, launch);
  fit.device_memory = (fit.device_memory > 0 ? fit.device_memory : free) / static_cast<double>(sharers);
  return fit;
}

// Compares the run with the available memory; empty if processes that share shards do not fit together, since one
// process may.
std::optional<plan::FittedRun> fit_run(Request& r, job::Ranks* ranks, Terminal& terminal) {
  try {
    return plan::prepare_fitting(
        r.config, fit_options(r.flags, r.config, ranks != nullptr),
        {.on_bad_sample = [&](const data::BadSample& bad) { terminal.on_bad_sample(bad.path, bad.reason); },
         .found = std::move(r.found),
         .source = r.source,
         .flag_is_given = [&](const std::string& flag) { return r.options->given_as_flag(flag); },
         .ranks = ranks},
        [&](const std::string& text) { terminal.say(cat("note    ", text)); });
  } catch (const Error& e) {
    const bool parts = is_shard_process(r.flags.ranks, comm::read_launch_environment());
    if (!parts || e.kind() != ErrorKind::capacity) throw;
    return std::nullopt;
  }
}

std::string device_of_rank(const Request& r, const RankFlags& flags, const comm::Launch& launch) {
  return train::is_network(r.config, r.source) ? device_of(flags, r.config.backend, launch)
                                               : table_device_of(flags, r.config.backend, launch);
}

// The flags among `args` that name plugins, as another command needs them.
std::string plugin_flags(const Args& args) {
  std::string flags;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--plugin" && i + 1 < args.size()) flags += cat(" --plugin ", shell_word(args[i + 1]));
    if (starts_with(args[i], "--plugin=")) flags += " " + shell_word(args[i]);
  }
  return flags;
}

// The model card, README.md. The run is complete, so that it does not fail without one.
void write_card_of(const std::string& run, Terminal& terminal) {
  try {
    report::write_run_card(run);
  } catch (const Error& e) {
    terminal.say(cat("warning: ", run, "/README.md was not written: ", e.what()));
  }
}

// Prepares and trains, alone or as the first of several ranks.
int train_as_first_rank(Request& r, const Args& args, job::Ranks* ranks, const ShardWork& work) {
  const TrainFlags& flags = r.flags;
  Terminal terminal({.quiet = r.options->quiet(), .progress = flags.progress});
  terminal.one_device = work.processes > 1;
  terminal.logs = !flags.dry_run;
  terminal.plugin_flags = plugin_flags(args);
  if (!r.config.data_dir.empty()) terminal.data_flags = cat(" --data-dir ", shell_word(r.config.data_dir));
  terminal.steps_done = job::StepCount::of_process();
  if (work.processes > 1 || !work.why_one.empty()) terminal.shards = to_string(r.config.shards, work);
  std::optional<plan::FittedRun> fits = fit_run(r, ranks, terminal);
  if (!fits) return kShardsDoNotFit;
  plan::FittedRun& fitted = *fits;
  terminal.offload = fitted.offload;
  terminal.outcome = fitted.outcome;
  terminal.resident_before = fitted.resident_before;
  terminal.device = fitted.device;
  terminal.free_before = fitted.free_before;
  if (flags.dry_run) {
    const int64_t devices = ranks ? 0 : device_count(flags.ranks, comm::read_launch_environment());
    say_run(fitted, devices, terminal, flags.json ? r.options->config_json() : "");
    return 0;
  }
  const train::Result result = fitted.run.run(terminal, args);
  r.config.output_dir = result.output_dir;
  if (ranks && !ranks->first()) return result.interrupted() ? signals::exit_code() : 0;
  const bool trained = result.samples_per_second > 0;  // false for a run that was already complete
  if (trained && fitted.run.has_plans()) terminal.compare(result.output_dir);
  if (!result.interrupted()) write_card_of(result.output_dir, terminal);
  if (flags.json) {
    terminal.print_json(result);
  } else {
    terminal.print(result, resume_command(result.output_dir, r.config, flags));
  }
  return result.interrupted() ? signals::exit_code() : 0;
}

// Trains as a rank other than 0. Rank 0 reads the data and says if it is a table.
int train_as_other_rank(train::Config& config, const TrainFlags& flags, const Args& args, job::Ranks& ranks,
                        bool of_rows) {
  if (of_rows) return tables::follow(config, ranks) ? signals::exit_code() : 0;
  RankLog log;
  plan::FitOptions fit = fit_options(flags, config, true);
  // The first of the processes that share shards decides whether they fit together.
  if (is_shard_process(flags.ranks, comm::read_launch_environment()))
    fit.if_too_large = plan::FitOptions::IfTooLarge::ignore;
  plan::FittedRun fitted = plan::prepare_fitting(config, fit, {.ranks = &ranks});
  const train::Result result = fitted.run.run(log, args);
  return result.interrupted() ? signals::exit_code() : 0;
}

int train_together(const Args& args, const RankFlags& flags, const comm::Launch& launch) {
  const std::unique_ptr<job::Ranks> ranks = join_ranks(flags, launch);
  if (!ranks) return signals::exit_code();
  return with_others(ranks.get(), [&] {
    ranks->need_equal("the arguments", join(args, " "));
    ranks->ask(job::parse_device_weights(flags.weights, launch.world));
    if (flags.shard_optimizer) ranks->share_states();
    Request r;
    if (ranks->first()) {
      r = read_request(args);
      parse_request(r, args);
      train::need_several(r.config, r.source);
    }
    if (ranks->first()) train::settle_class_weight(r.config);  // its file may lie on this host alone
    const std::string json = ranks->from_first(train::to_json(r.config));
    const bool of_rows =
        ranks->from_first(ranks->first() && !train::is_network(r.config, r.source) ? "rows" : "net") == "rows";
    if (ranks->first()) {
      r.config.backend = device_of_rank(r, flags, launch);
      if (!of_rows) share_devices(*ranks, r.config.backend, flags);  // XGBoost says what is wrong with its own
      const int code = train_as_first_rank(r, args, ranks.get(), shard_work(r.config, r.source, r.flags.ranks, launch));
      if (code == kShardsDoNotFit) ranks->comm().abort("the processes do not fit the memory together");
      return code;
    }
    train::Config probe;
    TrainFlags own;
    train_options(probe, own)->peek(args);
    train::Config config;
    train::set_from_json(config, json, "rank 0");
    config.data_dir = probe.data_dir;  // belongs to this machine, not to the configuration
    config.backend = of_rows ? table_device_of(flags, probe.backend, launch) : device_of(flags, config.backend, launch);
    if (!of_rows) share_devices(*ranks, config.backend, flags);
    return train_as_other_rank(config, own, args, *ranks, of_rows);
  });
}

// The folder of the run, for logs that exist before it. The lock of a resumed run is released: rank 0 takes it again.
std::string directory_of(Request& r) {
  if (r.found && r.found->checkpoint && r.config.output_dir.empty()) return train::run_of(*r.found->checkpoint);
  if (!r.config.output_dir.empty()) {
    if (!r.found) train::RunDir::check(r.config.output_dir, r.config.overwrite);
    return r.config.output_dir;
  }
  const std::string usual = train::usual_dir(r.config);
  return r.config.resume.empty() ? train::RunDir::free_name(usual) : usual;
}

int start_ranks(Request r, Args args, const std::string& dir, const ShardWork& work) {
  if (r.config.output_dir.empty()) args.insert(args.end(), {"--output-dir", dir});
  r.found.reset();
  const std::string logs = dir + "/" + train::RunDir::kRankLogs;
  // A run that failed before it began leaves nothing behind; files that existed before stay.
  const auto clear = [&] {
    std::error_code error;
    if (!train::RunDir::is_empty(dir)) return;
    std::filesystem::remove_all(logs, error);
    std::filesystem::remove(dir, error);
  };
  const auto saved = [&] { return train::is_network(r.config, r.source) && !train::checkpoints_of(dir).empty(); };
  try {
    const int code = run_ranks("train", args, r.flags.ranks, work.processes, logs, work.threads);
    if (code == static_cast<int>(ErrorKind::peer_lost) && saved()) {
      std::fprintf(stderr, "resume  %s\n", resume_command(dir, r.config, r.flags).c_str());
    }
    if (code != 0) clear();
    return code;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::peer_lost || !saved()) throw;
    fail(e.kind(), e.op(), e.message(), "; resume with: ", resume_command(dir, r.config, r.flags));
  }
}

// Throws Error if this number of devices cannot train the run, also for --dry-run.
void check_devices(Request& r, int64_t count) {
  train::need_several(r.config, r.source);
  if (!train::is_network(r.config, r.source)) {
    refuse_nccl(r.flags.ranks);
    for (const char* const flag : {"--device-weights", "--shard-optimizer", "--overlap"}) {
      if (!r.options->given_as_flag(flag)) continue;
      refuse_flag_of(flag, "networks", cat("this run trains ", r.config.model));
    }
  }
  need_nccl(r.flags.ranks, r.config);
  for (int rank = static_cast<int>(count); rank-- > 0;) {
    train::Config of_rank = r.config;
    of_rank.backend = device_of_rank(r, r.flags.ranks, comm::Launch{.rank = rank, .world = static_cast<int>(count)});
    train::validate(of_rank);
    // A rank on another host reports it itself.
    if (r.flags.dry_run) backend(*trace::device_named(of_rank.backend));
    if (rank == 0) r.config.backend = of_rank.backend;
  }
  job::parse_device_weights(r.flags.ranks.weights, static_cast<int>(count));
  const bool counted = starts_with(r.config.backend, "cuda:") && !r.flags.ranks.devices.empty() &&
                       parse_device_list("--devices", r.flags.ranks.devices).count;
  excludes({cat("--devices ", r.flags.ranks.devices), counted}, {"--elastic", !r.flags.ranks.elastic.empty()},
           "it may leave out one of them: name them, as in cuda:0,cuda:1");
}

int train_on_devices(Request r, const Args& args, int64_t count) {
  const std::string dir = directory_of(r);
  return start_ranks(std::move(r), args, dir, {.processes = count, .threads = 0});
}

void print_shards_cost(const train::Config& config, const std::string& run) {
  const std::string cost = shards_cost(config, sharded_time(run));
  if (cost.empty()) return;
  std::fprintf(stderr, "shards  %s\n", cost.c_str());
  train::RunDir::add_to_log(run, cat("shards  ", cost));
}

int train_alone(Request& r, const Args& args, const ShardWork& work) {
  const int code = train_as_first_rank(r, args, nullptr, work);
  const bool compare = code == 0 && !r.flags.dry_run && r.config.shards > 0 && !r.options->quiet();
  if (compare) print_shards_cost(r.config, r.config.output_dir);
  return code;
}

// Trains by processes of which each computes some of the shards. Returns kShardsDoNotFit if they need too much memory
// together.
int train_by_processes(Request r, Args args, const ShardWork& work) {
  r.flags.ranks.comm = "shared";
  args.insert(args.end(), {"--comm", "shared"});  // FREIGHT_COMM is for devices
  const bool quiet = r.options->quiet();
  const train::Config config = r.config;
  const std::string dir = directory_of(r);
  const int code = start_ranks(std::move(r), args, dir, work);
  if (code == 0 && !quiet) print_shards_cost(config, dir);
  return code;
}

// The reason why a run needs one process: a flag that several processes do not support yet.
std::string needs_one_process(const TrainFlags& flags) {
  if (flags.choose_batch) return "--batch-size auto supports only one";
  return flags.fit == "auto" ? "--fit auto supports only one" : "";
}

// --elastic implies --resume auto: a restart resumes from the last checkpoint, and so does starting the command again.
Args with_implied(Args args) {
  train::Config probe;
  TrainFlags flags;
  train_options(probe, flags)->peek(args);
  if (!flags.ranks.elastic.empty() && probe.resume.empty()) args.insert(args.end(), {"--resume", "auto"});
  return args;
}

}  // namespace

int train_command(const Args& given) {
  signals::install();
  const Args args = with_implied(given);
  const comm::Launch launch = comm::read_launch_environment();
  if (launch.world > 1) {
    train::Config probe;
    TrainFlags flags;
    const std::unique_ptr<Options> options = train_options(probe, flags);
    options->peek(args);
    device_count(flags.ranks, launch);
    need_elastic(flags.ranks, launch, launch.world);
    if (!options->only_prints()) {
      begin_rank_log(launch);
      return train_together(args, flags.ranks, launch);
    }
    if (launch.rank > 0) return 0;  // rank 0 prints it alone, without joining the others
  }
  Request r = read_request(args);
  parse_request(r, args);
  if (r.done) return 0;
  const int64_t devices = device_count(r.flags.ranks, launch);
  need_elastic(r.flags.ranks, launch, devices);
  if (!r.flags.ranks.elastic.empty()) need_parts("--devices", devices, r.config);
  if (devices > 1) check_devices(r, devices);
  const bool supervised = !r.flags.ranks.elastic.empty() && launch.source.empty();
  if ((devices > 1 || supervised) && !r.flags.dry_run) return train_on_devices(std::move(r), args, devices);
  requires_flag({"--device-weights", !r.flags.ranks.weights.empty()}, {"--devices", devices > 1},
                "it is for several devices");
  r.config.backend = device_of_rank(r, r.flags.ranks, comm::Launch{});
  ShardWork work = shard_work(r.config, r.source, r.flags.ranks, launch, needs_one_process(r.flags));
  if (work.processes < 2 || r.flags.dry_run) return train_alone(r, args, work);
  const int code = train_by_processes(std::move(r), args, work);
  if (code != kShardsDoNotFit) return code;
  Request again = read_request(args);
  parse_request(again, args);
  const std::string why = cat(work.processes, " do not fit the memory");
  return train_alone(again, args, shard_work(again.config, again.source, again.flags.ranks, launch, why));
}

}  // namespace freight::app
