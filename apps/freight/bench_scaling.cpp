// `freight bench scaling`: steps of training by 1, 2, 4 devices, and why more are not as many times as fast. The
// command starts the ranks, which are this command again; under another launcher (mpirun, srun, torchrun) it is one of
// them.
#include <cstdio>
#include <optional>

#include "bench_output.h"
#include "command.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/bench/scaling.h"
#include "freight/comm/join.h"
#include "freight/io/file.h"
#include "freight/optim/create.h"
#include "freight/plan/rates.h"
#include "freight/plan/subject.h"
#include "freight/store/precision.h"
#include "freight/train/learner.h"
#include "freight/train/signals.h"
#include "lists.h"
#include "options.h"
#include "ranks.h"

namespace freight::app {
namespace {

struct ScalingFlags : JobFlags {
  std::string world = "1,2,4";
  std::string data, data_dir, model, optimizer, device = "auto", precision = "fp32", overlap = "auto";
  std::string rates, scratch, out;
  int64_t batch = 0, shards = 0, workers = -1;
  double seconds = 3;
  bool deterministic = false, json = false;

  void declare(Options& o) {
    o.positional("data", &data, "a named set, a directory or a file (default: the built-in digits)", false);
    o.add("--world", &world, "numbers of devices, rising, each of which trains the same", {.value = "LIST"});
    o.add("--model", &model, "a named model or a spec FILE.json (default: the data set's)",
          {.aliases = {"-a", "--arch"}});
    o.add("-b,--batch-size", &batch, "samples per step, of all devices together (0: the data set's)",
          {.min = 0, .max = 1 << 24});
    o.add("--data-dir", &data_dir, "where named sets are looked for first", {.value = "DIR"});
    o.add("--optimizer", &optimizer, "of the training step (default: the data set's)", {.value = "NAME"});
    o.add("--shards", &shards, "pieces of a batch, whose sums have the same bits on any number of devices (0: off)",
          {.min = 0});
    o.add("--precision", &precision, "of the arithmetic: fp32, tf32, bf16 or fp16",
          {.one_of = store::precision_names()});
    o.add("--device", &device, "auto, cpu or ref, of which each rank is one");
    o.add("--deterministic", &deterministic, "fixed kernel choices, no measurement");
    o.add("-j,--workers", &workers, "data threads of each rank (-1: chosen)",
          {.min = -1, .aliases = {"--num-workers"}});
    o.add("--overlap", &overlap, "sums of gradients beside the backward half, as freight train has it",
          {.one_of = {"auto", "yes", "no"}});
    o.add("--seconds", &seconds, "time to measure each number for, after warm-up", {.min = 0.01, .max = 3600});
    o.add("--rates", &rates, "rates of this machine that freight calibrate -o wrote, for the predictions",
          {.value = "FILE"});
    o.add("--scratch", &scratch, "a folder for the runs, which are removed (default: the system's temporary one)",
          {.value = "DIR"});
    declare_job(o, *this);
    o.add("--json", &json, "print JSON");
    o.add("--out", &out, "write the JSON to a file, too", {.value = "FILE"});
  }
};

train::Config config_of(const ScalingFlags& f) {
  train::Config c = train::recipe(f.data.empty() ? train::Config{}.data : f.data, "default", f.data_dir);
  if (!f.data.empty()) c.data = f.data;
  c.data_dir = f.data_dir;
  if (!f.model.empty()) train::set_model(c, f.model);
  if (!f.optimizer.empty()) c.optimizer = f.optimizer;
  if (f.batch > 0) c.batch_size = f.batch;
  c.shards = f.shards;
  c.backend = f.device;
  c.precision = f.precision;
  c.deterministic = f.deterministic;
  c.workers = f.workers;
  train::need_net_model(c.model, "bench scaling");
  if (train::is_table(c)) fail(ErrorKind::usage, "bench scaling", c.data, " is a table: this times steps of nets");
  train::validate(c);
  return c;
}

// The run is stopped when enough was measured; it learns too little to diverge.
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
  c.save_in_place = true;  // between epochs, not beside the steps of the next
  c.keep = 1;
  c.output_dir = folder + "/run";
  return c;
}

// Sizes around that of the gradients, for the line of a sum's cost.
std::vector<int64_t> sizes_of(int64_t parameters) {
  constexpr int64_t kLeast = 1 << 12, kMost = 1 << 26;
  const int64_t all = std::clamp<int64_t>(parameters * 4, 4 * kLeast, kMost) / 16 * 16;
  return {kLeast, all / 2, all};
}

// Rates of this machine, for predictions; null where it is not calibrated.
std::optional<plan::Rates> rates_of(const ScalingFlags& f) {
  if (!f.rates.empty()) return plan::Rates::parse(io::read_text(f.rates), f.rates);
  plan::Rates own;
  return plan::own_rates(own) ? std::optional(std::move(own)) : std::nullopt;
}

// This process as one of the ranks of a job.
bench::ScalingPoint measure(const ScalingFlags& f, const Args& args, const train::Config& c,
                            const comm::Launch& launch) {
  constexpr double kSumSeconds = 0.1, kBesideSeconds = 0.3;  // for each size
  const LogFolder folder("bench-scaling", f.scratch);
  const train::Config run = measured_run(c, folder.path());
  if (launch.world == 1) return bench::time_training(train::prepare(run), nullptr, nullptr, f.seconds);
  auto timed = std::make_unique<bench::TimedComm>(comm::join_job(launch, f.job()));
  const bench::TimedComm* const comm = timed.get();
  train::Ranks ranks(std::move(timed), train::parse_overlap(f.overlap));
  return with_others(&ranks, [&] {
    ranks.need_equal("the arguments", join(args, " "));
    train::PreparedRun prepared = train::prepare(run, {.ranks = &ranks});
    const std::vector<int64_t> sizes = sizes_of(prepared.summary().parameters);
    const bench::CommCost cost = bench::time_all_reduce(ranks.comm(), sizes, kSumSeconds).cost;
    std::optional<plan::BesideCompute> beside;
    if (!ranks.from_first(rates_of(f) ? "predicted" : "").empty()) {
      beside = bench::time_beside_compute(ranks.comm(), cost, sizes, kBesideSeconds);
    }
    bench::ScalingPoint p = bench::time_training(std::move(prepared), &ranks, comm, f.seconds);
    p.cost = cost;
    p.beside = beside;
    return p;
  });
}

// Puts beside each point what freight plan --world says of it, by this machine's rates and the sums that the ranks
// measured.
void predict(bench::Scaling& s, const train::Config& c, const ScalingFlags& f, bool one_host) {
  const std::optional<plan::Rates> rates = rates_of(f);
  if (!rates) {
    s.why_not_predicted =
        "Nothing is predicted: freight calibrate measures this machine once, for freight plan --world.";
    return;
  }
  const plan::Subject subject = plan::make_subject(c);
  plan::DraftOptions options = plan::options_of(subject);
  for (bench::ScalingPoint& p : s.points) {
    options.batch = p.batch;
    options.ranks = p.devices;
    plan::Fleet fleet{.devices = p.devices};
    if (p.devices > 1) {
      fleet.measured = {.source = "bench scaling",
                        .one_host = one_host,
                        .sums = {{p.devices, p.cost.start, p.cost.per_byte, p.cost.worst, p.beside}}};
    }
    p.predicted =
        plan::estimate_here(plan::drafts(subject, options), &*rates, plan::RunLength::of(subject), nullptr, fleet)
            .step_seconds;
  }
}

int show(const bench::Scaling& s, const ScalingFlags& f) {
  write_output(f.out, f.out.empty() ? "" : bench::to_json(s) + "\n");
  for (const std::string& text : bench::warnings(s)) logging::warn(text);
  if (f.json) {
    std::printf("%s\n", bench::to_json(s).c_str());
    return 0;
  }
  std::printf("%s on %s, batch %lld%s, by ranks of %s (%s)\n\n", s.model.c_str(), s.data.c_str(),
              static_cast<long long>(s.batch), s.shards > 0 ? cat(" in ", s.shards, " shards").c_str() : "",
              s.machine.c_str(), s.engine.c_str());
  print(bench::figures_of(s));
  std::printf(
      "\nms of each step, the mean over the ranks: compute, sums of gradients, waiting for the slowest, data\n");
  for (const std::string& text : bench::findings(s)) std::printf("%s\n", text.c_str());
  return 0;
}

bench::Scaling scaling_of(const train::Config& c, const std::string& engine) {
  return {.machine = cat(cpu_info().model, ", ", cpu_info().cores, " processors"),
          .engine = engine,
          .model = c.model,
          .data = c.data,
          .processors = cpu_info().cores,
          .batch = c.batch_size,
          .shards = c.shards,
          .points = {}};
}

// Started by another launcher, or by this command: rank 0 prints what all measured.
int run_as_rank(const Options& o, const ScalingFlags& f, const Args& args, const train::Config& c,
                const comm::Launch& launch) {
  const std::vector<int64_t> worlds = parse_counts("--world", f.world);
  if (o.given("--world") && worlds != std::vector<int64_t>{launch.world}) {
    fail(ErrorKind::usage, "--world", "got ", f.world, ", but ", launch.source, " started ", launch.world,
         " ranks: leave it out");
  }
  need_parts("--world", launch.world, c);
  refuse_nccl(f);
  const bench::ScalingPoint p = measure(f, args, c, launch);
  if (signals::stop_requested()) return signals::exit_code();
  if (launch.rank != 0) return 0;
  if (launch.source == "freight") {
    std::printf("%s\n", bench::to_json(p).c_str());
    return 0;
  }
  bench::Scaling s = scaling_of(c, comm::to_string(comm::engine_for(launch, f.job())));
  s.points = {p};
  predict(s, c, f, launch.world == launch.local_world);
  return show(s, f);
}

}  // namespace

int bench_scaling_command(const Args& args) {
  ScalingFlags f;
  Options o(
      "bench scaling", "Times training by several devices, and says why more are not as many times as fast.",
      "[DATA] [options]",
      "Each number of devices trains DATA for some seconds, as freight train --devices does; ranks of one machine\n"
      "share its processors (OMP_NUM_THREADS=1 gives each rank one, whatever their number). What is lost against\n"
      "as many times the first rate is laid to shared processors, compute on smaller shares, sums of gradients,\n"
      "waiting for the slowest rank, and data. On a calibrated machine (freight calibrate) the times that\n"
      "freight plan --world predicts stand beside.\n"
      "  freight bench scaling --world 1,2\n"
      "  freight bench scaling cifar10 --model resnet20 -b 128 --world 1,2,4 --out scaling.json\n"
      "  torchrun --no-python --nproc-per-node 2 freight bench scaling --json");
  f.declare(o);
  if (o.parse(args) == Options::Outcome::done) return 0;
  signals::install();
  const train::Config c = config_of(f);
  const comm::Launch launch = comm::read_launch_environment();
  if (!launch.source.empty()) return run_as_rank(o, f, args, c, launch);
  const std::vector<int64_t> worlds = parse_counts("--world", f.world);
  need_parts("--world", worlds.back(), c);
  rates_of(f);  // what is wrong with them, or with --out, is told before all is measured
  need_writable(f.out);
  bench::Scaling s = scaling_of(c, comm::to_string(f.engine()));
  const LogFolder folder("bench-scaling", f.scratch);
  for (const int64_t world : worlds) {
    if (!o.quiet()) std::fprintf(stderr, "devices: %lld\n", static_cast<long long>(world));
    Args words = {"bench", "scaling"};
    words.insert(words.end(), args.begin(), args.end());
    words.insert(words.end(), {"--world", cat(world), "--scratch", folder.path(), "--out=", "--quiet"});
    const Args job = f.words();
    words.insert(words.end(), job.begin(), job.end());
    const std::string logs = cat(folder.path(), "/ranks-", world);
    const RanksRan ran = run_ranks_apart("bench scaling", words, f, world, logs);
    if (ran.signal != 0) return 128 + ran.signal;
    s.points.push_back(bench::read_point(ran.out, "rank 0"));
  }
  predict(s, c, f, true);
  return show(s, f);
}

}  // namespace freight::app
