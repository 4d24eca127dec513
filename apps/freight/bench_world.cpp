// `freight bench compare --world`: training steps on 1, 2, 4 devices, and why the speedup is not linear. The command
// starts the ranks, which run it again; under another launcher (mpirun, srun, torchrun) it is one of them.
#include <cstdio>
#include <optional>

#include "bench_compare.h"
#include "bench_output.h"
#include "freight/base/cpu_info.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/bench/scaling.h"
#include "freight/comm/join.h"
#include "freight/io/file.h"
#include "freight/job/signals.h"
#include "freight/plan/rates.h"
#include "freight/plan/training_setup.h"
#include "freight/train/learner.h"
#include "lists.h"

namespace freight::app {
namespace {

constexpr double kSecondsOfWorld = 3;  // for each number of devices, unless --seconds is given

// The device of each rank.
std::string device_of_ranks(const CompareFlags& f) {
  if (f.devices.empty()) return "auto";
  if (f.devices == "all" || f.devices.find_first_of(",*") != std::string::npos ||
      f.devices.find_first_not_of("0123456789") == std::string::npos) {
    refuse_text("--devices", "one device with --world, as cpu or ref, for each rank", f.devices);
  }
  return f.devices;
}

train::Config config_of_world(const CompareFlags& f, const Options& o) {
  const data::Source source(f.data.empty() ? train::Config{}.data : f.data, {.data_dir = f.data_dir});
  train::Config c = train::recipe(source);
  if (!f.data.empty()) c.data = f.data;
  c.data_dir = f.data_dir;
  if (!f.model.empty()) train::set_model(c, f.model, source);
  if (!f.optimizer.empty()) c.optimizer = f.optimizer;
  if (const int64_t batch = one_batch(f, o); batch > 0) c.batch_size = batch;
  c.shards = f.shards;
  c.backend = device_of_ranks(f);
  c.precision = f.precision;
  c.deterministic = f.run.deterministic;
  c.workers = f.workers;
  train::need_net_model(c.model, "--world");
  if (train::is_table(c, source)) refuse_flag_of("--world", "networks", cat(c.data, " is a table"));
  train::validate(c);
  return c;
}

// The run is stopped when enough was measured; its learning rate is too small to diverge.
train::Config measured_run(train::Config c, const std::string& folder) {
  constexpr int64_t kManySteps = 1'000'000'000;
  c.epochs = 0;
  c.max_steps = kManySteps;
  c.eval_every = kManySteps;
  c.lr = 1e-6;
  c.lr_scheduler = "constant";
  c.lr_warmup_epochs = 0;
  c.save_every = 0;
  c.save_seconds = 0;
  c.save_in_place = true;  // between epochs, so that it does not overlap with the next epoch's steps
  c.keep = 1;
  c.output_dir = folder + "/run";
  return c;
}

// Sizes around that of the gradients, for the fitted line of a sum's cost.
std::vector<int64_t> sizes_of(int64_t parameters) {
  constexpr int64_t kLeast = 1 << 12, kMost = 1 << 26;
  const int64_t all = std::clamp<int64_t>(parameters * 4, 4 * kLeast, kMost) / 16 * 16;
  return {kLeast, all / 2, all};
}

// The rates of this machine, for predictions; null if it is not calibrated.
std::optional<plan::Rates> rates_of(const CompareFlags& f) {
  if (!f.rates.empty()) return plan::Rates::parse(io::read_text(f.rates), f.rates);
  plan::Rates own;
  return plan::own_rates(own) ? std::optional(std::move(own)) : std::nullopt;
}

// Measures as one of the ranks of a job.
bench::ScalingPoint measure(const CompareFlags& f, const Args& args, const train::Config& c,
                            const comm::Launch& launch) {
  constexpr double kSumSeconds = 0.1, kBesideSeconds = 0.3;  // for each size
  const LogFolder folder("bench-world", f.scratch);
  const train::Config run = measured_run(c, folder.path());
  if (launch.world == 1) return bench::time_training(train::prepare(run), nullptr, nullptr, f.run.seconds);
  auto timed = std::make_unique<bench::TimedComm>(comm::join_job(launch, f.job()));
  const bench::TimedComm* const comm = timed.get();
  job::Ranks ranks(std::move(timed), job::parse_overlap(f.overlap));
  return with_others(&ranks, [&] {
    ranks.need_equal("the arguments", join(args, " "));
    train::PreparedRun prepared = train::prepare(run, {.ranks = &ranks});
    const std::vector<int64_t> sizes = sizes_of(prepared.summary().parameters);
    const bench::CommCost cost = bench::time_all_reduce(ranks.comm(), sizes, kSumSeconds).cost;
    std::optional<plan::BesideCompute> beside;
    if (!ranks.from_first(rates_of(f) ? "predicted" : "").empty()) {
      beside = bench::time_beside_compute(ranks.comm(), cost, sizes, kBesideSeconds);
    }
    bench::ScalingPoint p = bench::time_training(std::move(prepared), &ranks, comm, f.run.seconds);
    p.cost = cost;
    p.beside = beside;
    return p;
  });
}

// Adds to each point the prediction of freight plan --world, by this machine's rates and the sums that the ranks
// measured.
void predict(bench::Scaling& s, const train::Config& c, const CompareFlags& f, bool one_host) {
  const std::optional<plan::Rates> rates = rates_of(f);
  if (!rates) {
    s.why_not_predicted =
        "Nothing is predicted: freight calibrate measures this machine once, for freight plan --world.";
    return;
  }
  const plan::TrainingSetup setup = plan::make_setup(c);
  plan::StepPlanOptions options = plan::options_of(setup);
  for (bench::ScalingPoint& p : s.points) {
    options.batch = p.batch;
    options.ranks = p.devices;
    plan::Fleet fleet{.devices = p.devices};
    if (p.devices > 1) {
      fleet.measured = {.source = "bench compare",
                        .one_host = one_host,
                        .sums = {{p.devices, p.cost.start, p.cost.per_byte, p.cost.worst, p.beside}}};
    }
    p.predicted =
        plan::estimate_here(plan::plan_steps(setup, options), &*rates, plan::RunLength::of(setup), nullptr, fleet)
            .step_seconds;
  }
}

int show(const bench::Scaling& s, const CompareFlags& f) {
  for (const std::string& text : bench::warnings(s)) logging::warn(text);
  if (print_json(f, bench::to_json(s))) return 0;
  std::printf("%s on %s, batch %lld%s, by ranks of %s (%s)\n\n", s.model.c_str(), s.data.c_str(),
              static_cast<long long>(s.batch), s.shards > 0 ? cat(" in ", s.shards, " shards").c_str() : "",
              s.machine.c_str(), s.transport.c_str());
  print(bench::figures_of(s));
  std::printf(
      "\nms of each step, the mean over the ranks: compute, gradient all-reduce, waiting for the slowest, data\n");
  for (const std::string& text : bench::findings(s)) std::printf("%s\n", text.c_str());
  return 0;
}

bench::Scaling scaling_of(const train::Config& c, const std::string& transport) {
  return {.machine = cat(cpu_info().model, ", ", cpu_info().cores, " cores"),
          .transport = transport,
          .model = c.model,
          .data = c.data,
          .processors = cpu_info().cores,
          .batch = c.batch_size,
          .shards = c.shards,
          .points = {}};
}

// Runs as a rank that another launcher or this command started: rank 0 prints what all measured.
int run_as_rank(const CompareFlags& f, const Args& args, const train::Config& c, const comm::Launch& launch) {
  if (!f.world.empty()) need_started("--world", f.world, launch);
  need_parts("--world", launch.world, c);
  refuse_nccl(f);
  const bench::ScalingPoint p = measure(f, args, c, launch);
  if (signals::stop_requested()) return signals::exit_code();
  if (launch.rank != 0) return 0;
  if (launch.source == "freight") {
    std::printf("%s\n", bench::to_json(p).c_str());
    return 0;
  }
  bench::Scaling s = scaling_of(c, comm::to_string(comm::transport_for(launch, f.job())));
  s.points = {p};
  predict(s, c, f, launch.world == launch.local_world);
  return show(s, f);
}

}  // namespace

int compare_worlds(const CompareFlags& flags, const Options& o, const Args& args) {
  CompareFlags f = flags;
  if (!o.given("--seconds")) f.run.seconds = kSecondsOfWorld;
  signals::install();
  const train::Config c = config_of_world(f, o);
  const comm::Launch launch = comm::read_launch_environment();
  if (!launch.source.empty()) return run_as_rank(f, args, c, launch);
  const std::vector<int64_t> worlds = parse_counts("--world", f.world);
  need_parts("--world", worlds.back(), c);
  rates_of(f);  // reports errors in them before anything is measured
  bench::Scaling s = scaling_of(c, comm::to_string(f.transport()));
  const LogFolder folder("bench-world", f.scratch);
  for (const int64_t world : worlds) {
    if (!o.quiet()) std::fprintf(stderr, "devices: %lld\n", static_cast<long long>(world));
    Args words = {"bench", "compare"};
    words.insert(words.end(), args.begin(), args.end());
    words.insert(words.end(), {"--world", cat(world), "--scratch", folder.path(), "--out=", "--quiet"});
    const Args job = f.words();
    words.insert(words.end(), job.begin(), job.end());
    const std::string logs = cat(folder.path(), "/ranks-", world);
    const RanksRan ran = run_ranks_apart("bench compare", words, f, world, logs);
    if (ran.signal != 0) return 128 + ran.signal;
    s.points.push_back(bench::read_point(ran.out, "rank 0"));
  }
  predict(s, c, f, true);
  return show(s, f);
}

}  // namespace freight::app
