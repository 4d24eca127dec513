// See plan_world.h.
#include "plan_world.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/bench/comm.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/job/state_shares.h"
#include "freight/plan/advice.h"
#include "lists.h"
#include "plan_text.h"
#include "ranks.h"
#include "text_table.h"

namespace freight::app {

namespace {

using Json = nlohmann::ordered_json;
using plan::Estimate;
using plan::Part;
using plan::Range;
using plan::StepPlan;

bool is_path(const std::string& text) { return ends_with(text, ".json") || text.find('/') != std::string::npos; }

plan::MeasuredSums measured_sums(const std::string& text, const std::string& path) {
  plan::MeasuredSums m{.source = path.substr(path.find_last_of('/') + 1), .sums = {}};
  for (const bench::CommTimes& t : bench::read_comm_times(text, path)) {
    if (t.world < 2) continue;
    m.sums.push_back({t.world, t.cost.start, t.cost.per_byte, t.cost.worst, t.beside});
    m.one_host = m.one_host && t.hosts == 1;
  }
  if (m.sums.empty()) {
    fail(ErrorKind::usage, "--link", path, " has times of one rank alone: freight bench comm --world 2,4 --json");
  }
  return m;
}

// Reads a file with a link, or with the output of `freight bench comm --json`.
void take_file(plan::Fleet& fleet, const std::string& path) {
  const std::string text = io::read_text(path);
  const Json j = io::parse_json<Json>(text, path);
  if (j.is_object() && j.contains("worlds")) {
    fleet.measured = measured_sums(text, path);
    return;
  }
  const std::vector<plan::Link> links = plan::parse_links(text, path);
  if (links.size() != 1) fail(ErrorKind::usage, "--link", path, " has ", links.size(), " links, expected one");
  (links[0].inside ? fleet.inside : fleet.between) = links[0];
}

// A batch that a number of devices of each kind share.
struct Share {
  int64_t devices = 1, batch = 0;   // `batch`: of each
  size_t bytes = 0, optimizer = 0;  // of each: all bytes, and those of the optimizer's state
  size_t sharded_bytes = 0;         // of the device with the most, if that state is sharded (train --shard-optimizer)
  std::vector<Estimate> estimates;
};

// The bytes of a rank with its part of the optimizer's state, in whole tensors.
size_t sharded_bytes(const StepPlan& d, int64_t devices) {
  const size_t all = std::accumulate(d.states.begin(), d.states.end(), size_t{0});
  return d.total() - all + job::largest_share(d.states, static_cast<int>(devices));
}

std::vector<Share> shares_of(const PlanInput& in, const WorldRequest& r) {
  plan::StepPlanOptions options = plan::options_of_run(in.setup);
  EstimateOptions how{.fleet = r.fleet, .samples = r.samples, .sort = r.sort, .rate_of_one = r.rate_of_one};
  requires_flag({"--rate-of-one", r.rate_of_one > 0}, {"--world 1,...", r.devices[0] == 1},
                "it is the rate of one device");
  std::vector<Share> all;
  std::vector<std::vector<StepPlan>> step_plans;
  step_plans.reserve(r.devices.size());
  for (const int64_t devices : r.devices) {
    options.batch = batch_of_each("--world", in, devices, r.batch_of_each);
    options.ranks = devices;
    const bool same = !all.empty() && all.back().batch == options.batch;
    step_plans.push_back(same ? step_plans.back() : plan::plan_steps(in.setup, options));
    StepPlan& d = step_plans.back()[0];
    if (same) {  // for as many samples, batches of each length differ
      d.options.ranks = devices;
      plan::add_lengths(d, in.setup);
    }
    how.fleet.devices = devices;
    how.batch = r.batch_of_each * devices;
    how.one = &step_plans[0];
    all.push_back({.devices = devices,
                   .batch = options.batch,
                   .bytes = d.total(),
                   .optimizer = d.part(Part::optimizer),
                   .sharded_bytes = sharded_bytes(d, devices),
                   .estimates = estimates(step_plans.back(), in, how, nullptr)});
  }
  return all;
}

// This machine is the first row of each table, under any name.
const Estimate* same_device(const Share& share, const Estimate& e, const Share& of) {
  if (&e == of.estimates.data()) return share.estimates.data();
  for (const Estimate& other : share.estimates) {
    if (other.device == e.device) return &other;
  }
  return nullptr;
}

// The rates of a number of devices divided by linear scaling from the first number; 0: not known.
Range efficiency(const Share& first, const Estimate& one, const Share& share, const Estimate& e) {
  if (!one.timed || !e.timed) return {};
  const double times = static_cast<double>(share.devices) / static_cast<double>(first.devices);
  return {e.samples_per_second.low / (one.samples_per_second.low * times),
          e.samples_per_second.high / (one.samples_per_second.high * times)};
}

std::string percent(const Range& r) {
  const double low = 100 * std::min(r.low, r.high), high = 100 * std::max(r.low, r.high);
  return fixed(low, 0) == fixed(high, 0) ? cat(fixed(low, 0), " %") : cat(fixed(low, 0), " - ", fixed(high, 0), " %");
}

Json json_of(const std::vector<Share>& world, const PlanInput& in) {
  Json j = {{"model", in.setup.config.model}, {"data", in.setup.data}, {"batch_size", in.setup.config.batch_size}};
  j["texts"] = json_of_texts(in.setup);
  for (const Share& s : world) {
    Json one = {{"devices", s.devices},
                {"batch_per_device", s.batch},
                {"memory",
                 {{"total_bytes", s.bytes},
                  {"optimizer_bytes", s.optimizer},
                  {"sharded_optimizer_total_bytes", s.sharded_bytes}}},
                {"estimates", Json::array()}};
    for (const Estimate& e : s.estimates) {
      Json estimate = freight::app::json_of(e, in.catalog);
      const Estimate* first = same_device(world[0], e, s);
      const Range of_linear = first ? efficiency(world[0], *first, s, e) : Range{};
      estimate["efficiency"] = of_linear.high > 0 ? Json(of_linear.middle()) : Json(nullptr);
      if (of_linear.high > 0) estimate["efficiency_range"] = {{"low", of_linear.low}, {"high", of_linear.high}};
      one["estimates"].push_back(std::move(estimate));
    }
    j["world"].push_back(std::move(one));
  }
  return j;
}

std::string rate_text(const std::vector<Share>& world, const Estimate& first, const Share& s) {
  const Estimate* e = same_device(s, first, world[0]);
  if (!e || !e->timed) return "-";
  if (!e->fits.value_or(true)) return "does not fit";
  const std::string text = range(e->samples_per_second);
  return &s == world.data() ? text : cat(text, ", ", fixed(100 * efficiency(world[0], first, s, *e).middle(), 0), " %");
}

// Prints the rate by the number of devices; returns the devices of the rows.
std::vector<const Estimate*> print_rates(const std::vector<Share>& world, int64_t top) {
  std::vector<std::string> heads{"device"};
  for (const Share& s : world) heads.push_back(cat(s.devices, s.devices == 1 ? " device" : " devices"));
  std::vector<std::vector<std::string>> rows{{"batch of each"}};
  for (const Share& s : world) rows[0].push_back(cat(s.batch));
  std::vector<const Estimate*> shown;
  size_t left_out = 0;
  for (const Estimate& first : world[0].estimates) {
    if (!first.timed) continue;
    if (top > 0 && rows.size() > static_cast<size_t>(top)) {
      ++left_out;
      continue;
    }
    shown.push_back(&first);
    std::vector<std::string> row{first.device};
    for (const Share& s : world) row.push_back(rate_text(world, first, s));
    rows.push_back(std::move(row));
  }
  std::fputs(text_table(heads, rows).c_str(), stdout);
  if (left_out > 0) std::printf("%zu more: --top 0\n", left_out);
  return shown;
}

// Prints the time of a step and of a run on several of one device, and why it is not less.
void print_device(const std::vector<Share>& world, const Estimate& first) {
  std::vector<const Estimate*> rows;
  EstimateColumn batches{.heading = "batch of each"}, of_linear{.heading = "efficiency"};
  std::vector<std::string> notes;
  for (const Share& s : world) {
    const Estimate* e = same_device(s, first, world[0]);
    if (!e || !e->timed) continue;
    rows.push_back(e);
    batches.cells.push_back(cat(s.batch));
    of_linear.cells.push_back(percent(efficiency(world[0], first, s, *e)));
    if (!e->beyond.empty()) notes.push_back(cat(s.devices, " devices: a band ", e->beyond));
  }
  std::printf("\n%s\n%s", first.device.c_str(),
              estimate_table(rows, {{Figure::devices},
                                    batches,
                                    {Figure::step},
                                    {Figure::all_summing},
                                    {Figure::summing},
                                    of_linear,
                                    {Figure::limit},
                                    {Figure::run_hours},
                                    {Figure::dollars}})
                  .c_str());
  for (const std::string& note : notes) std::printf("%s\n", note.c_str());
  const Estimate* last = same_device(world.back(), first, world[0]);
  if (last) std::printf("  %s\n", last->assumed.c_str());
}

void print_memory(const std::vector<Share>& world) {
  std::vector<std::vector<std::string>> rows;
  const auto text = [](size_t n) { return human_bytes(static_cast<double>(n)); };
  for (const Share& s : world) {
    rows.push_back({cat(s.devices), cat(s.batch), text(s.bytes), text(s.optimizer), text(s.sharded_bytes)});
  }
  std::printf(
      "\nmemory of each rank; with the optimizer state sharded over the ranks (train --shard-optimizer: ZeRO stage "
      "1)\n%s",
      text_table({"devices", "batch of each", "total", "of it optimizer", "total, sharded"}, rows).c_str());
}

}  // namespace

plan::Fleet FleetFlags::fleet(const plan::Catalog& catalog) const {
  plan::Fleet fleet{.per_machine = per_machine};
  if (link.empty()) return fleet;
  for (const std::string& part : parse_list("--link", link)) {
    if (is_path(part)) {
      take_file(fleet, part);
      continue;
    }
    const plan::Link l = catalog.link(part);
    (l.inside ? fleet.inside : fleet.between) = l;
  }
  return fleet;
}

void declare_links(Options& o, FleetFlags& f) {
  o.add("--link", &f.link,
        "interconnect of devices: nvlink or pcie inside a machine, 100gbit, 100gbit-rdma or a number of Gbit/s between "
        "machines, or a FILE (docs/plan.md, freight bench comm --json); two of them as nvlink,50gbit",
        {.value = "LINK"});
  const bool open = f.per_machine == plan::kAsOffered;
  o.add("--devices-per-machine", &f.per_machine, cat("devices per machine", open ? " (0: as offered)" : ""),
        {.min = open ? 0.0 : 1.0, .max = 1024});
}

void declare(Options& o, FleetFlags& f) {
  declare_links(o, f);
  o.add("--per-device-batch-size", &f.per_device_batch,
        "samples per step and device, instead of a global batch (0: global batch)", {.min = 0});
  o.add("--rate-of-one", &f.rate_of_one,
        "measured samples per second of one device; --world scales from it (0: predicted)", {.min = 0});
}

int64_t batch_of_each(const char* flag, const PlanInput& in, int64_t devices, int64_t per_device_batch) {
  need_shards(flag, devices, in.setup.config.shards);
  if (per_device_batch > 0) return per_device_batch;
  const int64_t batch = in.setup.config.batch_size;
  need_samples(flag, devices, batch);
  return (batch + devices - 1) / devices;
}

std::vector<Estimate> estimates(const std::vector<StepPlan>& step_plans, const PlanInput& in,
                                const EstimateOptions& options, const StepPlan* running) {
  plan::RunLength length = plan::RunLength::of(in.setup, options.samples);
  if (options.batch > 0 && length.steps_per_epoch > 0) {
    const double fewer = static_cast<double>(in.setup.config.batch_size) / static_cast<double>(options.batch);
    length.steps_per_epoch = std::max(1.0, length.steps_per_epoch * fewer);
  }
  plan::Fleet fleet = options.fleet;
  std::vector<Estimate> all;
  for (const plan::Device& d : in.catalog.devices) {
    if (options.one && options.rate_of_one > 0) fleet.pace = plan::pace_of(*options.one, d, options.rate_of_one);
    all.push_back(plan::estimate(step_plans, d, in.catalog, length, fleet, running));
  }
  sort_estimates(all, options.sort);
  all.insert(all.begin(),
             plan::estimate_here(step_plans, in.rates ? &*in.rates : nullptr, length, running, options.fleet));
  return all;
}

void print_world(const PlanInput& in, const WorldRequest& r) {
  const std::vector<Share> world = shares_of(in, r);
  if (r.json) {
    std::printf("%s\n", json_of(world, in).dump(2).c_str());
    return;
  }
  std::printf("model     %s, %s: %s/s, and the rate over that of %lld times as much\n%s\n",
              in.setup.config.model.c_str(),
              r.batch_of_each > 0 ? cat("batch ", r.batch_of_each, " on each device").c_str()
                                  : cat("batch ", in.setup.config.batch_size, " shared by the devices").c_str(),
              in.setup.unit, static_cast<long long>(world[0].devices), texts_line(in.setup).c_str());
  const std::vector<const Estimate*> shown = print_rates(world, r.top);
  // Shows this machine if it has times, and the first of the devices.
  for (size_t i = 0; i < shown.size() && i < 2; ++i) {
    print_device(world, *shown[i]);
    if (shown[i] != world[0].estimates.data()) break;
  }
  print_memory(world);
  std::printf(
      "\npredicted, not measured, from catalog/devices.json and catalog/links.json; the all-reduce overlaps with "
      "the\nbackward pass (docs/plan.md); another device in full: --on NAME\n");
}

}  // namespace freight::app
