// See plan_devices.h.
#include "plan_devices.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/comm/join.h"
#include "freight/comm/launch_environment.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/store/precision.h"
#include "freight/trace/device.h"
#include "freight/train/rank_shares.h"
#include "ranks.h"
#include "text_table.h"

namespace freight::app {

namespace {

using Json = nlohmann::ordered_json;

// The training steps by which a device is measured.
train::TriedNet tried(const PlanInput& in, const train::Config& on_device) {
  const train::Config& c = on_device;
  const auto [x, y] = in.setup.batch_types(c.batch_size);
  const store::ComputeType compute = store::compute_type(c.precision, c.backend);
  return {.config = c,
          .make_model = in.setup.make_model,
          .inputs = x,
          .targets = y,
          .compile = {.backend = *trace::device_named(c.backend),
                      .deterministic = c.deterministic,
                      .recompute = parse_recompute(c.recompute),
                      .compute = compute.dtype,
                      .tf32 = compute.tf32}};
}

train::Config on(const PlanInput& in, const std::string& device) {
  train::Config c = in.setup.config;
  c.backend = device;
  return c;
}

// The seconds of a step of the whole batch on one device, with all cores of this machine for it.
double seconds_alone(const PlanInput& in, const std::string& device) {
  const train::Config c = on(in, device);
  return train::seconds_of_step(tried(in, c), c.shards > 0 ? c.shards : c.batch_size);
}

// Measures as one of the processes that run at the same time.
int measure_as_rank(const PlanInput& in, const DevicesRequest& r, const comm::Launch& launch) {
  job::Ranks ranks(comm::join_job(launch, {.timeout = 120, .transport = comm::Transport::shared_memory}));
  return with_others(&ranks, [&] {
    const train::Config c = on(in, r.names.at(static_cast<size_t>(launch.rank)));
    need_own_gpus(ranks, c.backend);
    const train::RankShares shares = train::measure_ranks(tried(in, c), c.backend, ranks);
    if (ranks.first()) std::printf("%s\n", train::to_json(shares).c_str());
    return 0;
  });
}

// Returns the output of the processes, or stores the number of the signal that ended them in `signal`.
Json measured_together(const DevicesRequest& r, const Args& args, int& signal) {
  const LogFolder logs("plan");
  Args words = {"plan"};
  words.insert(words.end(), args.begin(), args.end());
  const RanksRan ran =
      run_ranks_apart("plan", words, {.comm = "shared"}, static_cast<int64_t>(r.names.size()), logs.path());
  signal = ran.signal;
  return signal != 0 ? Json() : io::parse_json<Json>(ran.out, "rank 0");
}

std::string ms(double seconds) { return cat(fixed(seconds * 1e3, 1), " ms"); }

}  // namespace

int plan_devices(const PlanInput& in, const DevicesRequest& r, const Args& args) {
  const train::Config& c = in.setup.config;
  const comm::Launch launch = comm::read_launch_environment();
  if (launch.source == "freight" && launch.world == static_cast<int>(r.names.size())) {
    return measure_as_rank(in, r, launch);
  }
  const auto world = static_cast<int64_t>(r.names.size());
  need_shards("--devices", world, c.shards);
  need_part_for_each("--devices", {.devices = world,
                                   .parts = c.batch_size / c.grad_accum,
                                   .of = cat("a batch of ", c.batch_size,
                                             c.grad_accum > 1 ? cat(" in ", c.grad_accum, " parts") : "")});
  std::map<std::string, double> alone;
  for (const std::string& name : r.names) {
    if (!alone.contains(name)) alone[name] = seconds_alone(in, name);
  }
  int signal = 0;
  const Json found = measured_together(r, args, signal);
  if (signal != 0) return 128 + signal;
  const double together = found.at("predicted_step_seconds").get<double>();
  const auto best = std::min_element(alone.begin(), alone.end(), [](auto& a, auto& b) { return a.second < b.second; });
  double rates = 0;
  for (const std::string& name : r.names) rates += 1 / alone[name];
  if (r.json) {
    Json j = {{"model", c.model},
              {"batch_size", c.batch_size},
              {"devices", r.names},
              {"units", found["units"]},
              {"of", found["of"]},
              {"step_seconds", together},
              {"fastest_alone", best->first},
              {"worth_it", together < best->second}};
    for (const std::string& name : r.names) j["alone_seconds"].push_back(alone[name]);
    std::printf("%s\n", j.dump(2).c_str());
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < r.names.size(); ++i) {
    rows.push_back({r.names[i], ms(alone[r.names[i]]), cat(found["units"][i].get<int64_t>())});
  }
  std::printf("model     %s, a batch of %lld; steps were measured, on each device alone and on all at once\n\n%s\n",
              c.model.c_str(), static_cast<long long>(c.batch_size),
              text_table({"device", "a step alone", cat(found["of"].get<std::string>(), " together")}, rows).c_str());
  const double rate = static_cast<double>(c.batch_size) / together;
  std::printf("together  %s a step, %s %s/s: %s %% of the sum of the individual rates\n", ms(together).c_str(),
              with_commas(static_cast<int64_t>(rate)).c_str(), in.setup.unit,
              fixed(100 / (together * rates), 0).c_str());
  if (together < best->second) {
    std::printf("worth it  %s times as fast as %s alone\n", fixed(best->second / together, 2).c_str(),
                best->first.c_str());
  } else {
    std::printf("not worth it: %s alone takes %s; the others make a step slower\n", best->first.c_str(),
                ms(best->second).c_str());
  }
  return 0;
}

}  // namespace freight::app
