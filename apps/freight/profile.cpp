// `freight profile`: the plan of a training step, or of inference, one line per step with kernel, shapes and rates;
// next to its time the estimate of `freight plan` if the machine is calibrated. For a step that several devices share
// it shows rank 0's part, and the sums over the devices.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "command.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/bench/rank_profile.h"
#include "freight/bench/timing.h"
#include "freight/bench/workload.h"
#include "freight/io/json_library.h"
#include "freight/plan/floor.h"
#include "freight/plan/rates.h"
#include "freight/run/plan.h"
#include "freight/run/profile.h"
#include "model_source.h"
#include "ranks.h"
#include "text_table.h"

namespace freight::app {

using nlohmann::ordered_json;

namespace {

struct ProfileFlags {
  ModelSource source;
  RankFlags ranks;
  bool json = false, inference = false, text = false;
  double seconds = 2;
  int64_t top = 0;

  void declare(Options& o) {
    source.declare(o);
    source.declare_training(o);
    o.add("--inference", &inference, "inference (weights frozen, no loss) instead of the training step");
    o.add("--seconds", &seconds, "seconds to measure", {.min = 0});
    o.add("--top", &top, "only the N slowest steps", {.min = 0});
    o.add("--plan", &text, "print the plan's text form (layouts and addresses) and stop");
    o.add("--json", &json, "print JSON");
    freight::app::declare(o, ranks);
    o.add("--overlap", &ranks.overlap,
          "overlap the gradient all-reduce with the backward pass; auto: where the plan predicts a gain",
          {.one_of = {"auto", "yes", "no"}});
  }
  bench::Pass pass() const { return inference ? bench::Pass::inference : bench::Pass::training; }
};

// The work of every step of a replay.
std::vector<plan::Work> replayed_work(const Plan& plan) {
  const std::vector<plan::Work> all = plan::work_of(plan);
  std::vector<plan::Work> work;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!plan.steps()[i].once) work.push_back(all[i]);
  }
  return work;
}

// The milliseconds of these steps by this CPU's rates; empty without rates, and on other devices.
std::vector<double> planned_ms(const Plan& plan, const std::vector<plan::Work>& work) {
  plan::Rates rates;
  if (plan.options().backend != "cpu" || !plan::own_rates(rates)) return {};
  std::vector<double> ms;
  for (const plan::Work& w : work) ms.push_back(1e3 * rates.seconds(w));
  return ms;
}

// A plan that was measured, beside what the device reaches in one large product and in a copy.
struct MeasuredPlan {
  MeasuredPlan(const Plan& plan, const Profile& measured, double seconds)
      : profile(measured),
        work(replayed_work(plan)),
        planned(planned_ms(plan, work)),
        roofs(bench::measure_roofs(plan.options().backend, plan.options().compute, seconds)),
        floor(plan::floor_of(plan.source(), plan.options().compute)) {
    for (const StepProfile& s : measured.steps) moved += s.bytes;
  }
  double floor_ms() const { return 1e3 * floor.seconds(roofs.flops, roofs.bytes); }
  // The fraction of the device's rate that a step reaches: of products for products, of copies for other steps.
  double of_rate(size_t step) const {
    const StepProfile& s = profile.steps[step];
    return work[step].product() ? 1e9 * s.gflops_per_s / roofs.flops : 1e9 * s.gbytes_per_s / roofs.bytes;
  }

  const Profile& profile;
  std::vector<plan::Work> work;
  std::vector<double> planned;
  bench::Roofs roofs;
  plan::Floor floor;
  double moved = 0;  // bytes that the steps read and write
};

ordered_json to_json(const MeasuredPlan& m) {
  const Profile& p = m.profile;
  ordered_json steps = ordered_json::array();
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const StepProfile& s = p.steps[i];
    steps.push_back({{"name", s.description},
                     {"scope", s.scope},
                     {"op", s.op},
                     {"kernel", s.kernel},
                     {"ms", s.ms},
                     {"planned_ms", m.planned.empty() ? ordered_json() : ordered_json(m.planned[i])},
                     {"flops", s.flops},
                     {"bytes", s.bytes},
                     {"gflops_per_s", s.gflops_per_s},
                     {"gbytes_per_s", s.gbytes_per_s},
                     {"of_rate", m.of_rate(i)},
                     {"share", s.share}});
  }
  return {{"ms", p.total_ms},
          {"steps_ms", p.steps_ms},
          {"arena_bytes", p.arena_bytes},
          {"lower_bound_bytes", p.lower_bound_bytes},
          {"kept_bytes", p.kept_bytes},
          {"once_steps", p.once_steps},
          {"cache_hits", p.cache.hits},
          {"cache_misses", p.cache.misses},
          {"floor",
           {{"ms", m.floor_ms()},
            {"reached", m.floor_ms() / p.total_ms},
            {"flops", m.floor.flops},
            {"bytes", m.floor.bytes},
            {"moved_bytes", m.moved},
            {"flops_per_s", m.roofs.flops},
            {"bytes_per_s", m.roofs.bytes}}},
          {"steps", steps}};
}

void print_steps(const MeasuredPlan& m, int64_t top) {
  const Profile& p = m.profile;
  std::vector<size_t> shown(p.steps.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  if (top > 0) {
    std::stable_sort(shown.begin(), shown.end(), [&](size_t a, size_t b) { return p.steps[a].ms > p.steps[b].ms; });
    shown.resize(std::min(shown.size(), static_cast<size_t>(top)));
  }
  std::vector<std::vector<std::string>> rows;
  for (const size_t i : shown) {
    const StepProfile& s = p.steps[i];
    rows.push_back({s.kernel, fixed(s.ms, 4), m.planned.empty() ? "" : fixed(m.planned[i], 4),
                    s.flops > 0 ? fixed(s.gflops_per_s, 1) : "", fixed(s.gbytes_per_s, 1), fixed(100 * m.of_rate(i), 0),
                    fixed(100 * s.share, 1), s.description});
  }
  std::fputs(text_table({"kernel", "ms", "planned", "GFLOP/s", "GB/s", "% of rate", "% of time", "step"}, rows).c_str(),
             stdout);
}

// "lenet batch 64: 31 steps, 1.234 ms (...)".
void print_sum(const std::string& title, const MeasuredPlan& m) {
  const Profile& p = m.profile;
  std::printf(
      "\n%s: %zu steps, %.3f ms (sum of steps %.3f ms), arena %s (lower bound %s), plan cache %lld hits "
      "%lld misses\n",
      title.c_str(), p.steps.size(), p.total_ms, p.steps_ms, human_bytes(static_cast<double>(p.arena_bytes)).c_str(),
      human_bytes(static_cast<double>(p.lower_bound_bytes)).c_str(), static_cast<long long>(p.cache.hits),
      static_cast<long long>(p.cache.misses));
  if (p.once_steps > 0) {
    std::printf("%zu steps ran once and stored %s of folded and packed weights\n", p.once_steps,
                human_bytes(static_cast<double>(p.kept_bytes)).c_str());
  }
  std::printf(
      "floor %.3f ms, of which the step reaches %.0f %%: %.2f GFLOP at %.0f GFLOP/s, %s at %.1f GB/s; the steps move "
      "%s\n",
      m.floor_ms(), 100 * m.floor_ms() / p.total_ms, 1e-9 * m.floor.flops, 1e-9 * m.roofs.flops,
      human_bytes(m.floor.bytes).c_str(), 1e-9 * m.roofs.bytes, human_bytes(m.moved).c_str());
}

int profile_alone(const ProfileFlags& f) {
  const bench::Workload w = f.source.workload(f.pass());
  if (f.text) {
    std::fputs(print(w.plan()).c_str(), stdout);
    return 0;
  }
  const Profile p = profile(w.executable(), w.inputs(), w.results(), f.seconds);
  const MeasuredPlan measured(w.plan(), p, f.seconds / 8);
  if (f.json) {
    ordered_json j = {{"model", w.model().name}, {"batch_size", f.source.batch_size}};
    j.update(to_json(measured));
    std::printf("%s\n", j.dump().c_str());
    return 0;
  }
  print_steps(measured, f.top);
  print_sum(cat(w.model().name, " batch ", f.source.batch_size), measured);
  return 0;
}

ordered_json to_json(const bench::RankProfile& p) {
  ordered_json sums = ordered_json::array(), waited = ordered_json::array();
  for (const bench::ProfiledSum& s : p.sums) {
    sums.push_back({{"bytes", s.bytes},
                    {"begin_ms", 1e3 * s.begin},
                    {"ms", 1e3 * s.seconds()},
                    {"hidden_ms", 1e3 * s.hidden},
                    {"waited_ms", 1e3 * s.waited()}});
  }
  for (const double seconds : p.waited) waited.push_back(1e3 * seconds);
  return {{"devices", p.devices},
          {"measured_steps", p.steps},
          {"step_ms", 1e3 * p.step},
          {"fastest", {{"step_ms", 1e3 * p.fastest}, {"computed_ms", 1e3 * p.computed}, {"sums", sums}}},
          {"waited_for_rank_ms", waited}};
}

// Prints the sums of the fastest step, and how long ranks wait for each other.
void print_sums(const bench::RankProfile& p) {
  const auto ms = [](double seconds) { return fixed(1e3 * seconds, 3); };
  std::vector<std::vector<std::string>> rows;
  double all = 0, hidden = 0;
  for (const bench::ProfiledSum& s : p.sums) {
    rows.push_back({"all_reduce", ms(s.seconds()), ms(s.hidden), ms(s.waited()),
                    s.seconds() > 0 ? fixed(s.bytes / s.seconds() * 1e-9, 2) : "", ms(s.begin),
                    cat("f32[", static_cast<int64_t>(s.bytes / 4), "], ", human_bytes(s.bytes))});
    all += s.seconds();
    hidden += s.hidden;
  }
  if (p.sums.empty()) {
    std::printf(
        "\na step on %lld devices takes %s ms on average; the devices reduce among themselves, without the host\n",
        static_cast<long long>(p.devices), ms(p.step).c_str());
    return;
  }
  std::printf("\n");
  std::fputs(text_table({"sum", "ms", "hidden", "waited", "GB/s", "begins", "gradients"}, rows).c_str(), stdout);
  std::printf(
      "\nthe fastest of %lld steps on %lld devices, as measured by rank 0: %s ms, computed after %s ms; the all-reduce "
      "takes %s ms, "
      "of which %s ms (%s %%) overlap with compute; a step takes %s ms on average\n",
      static_cast<long long>(p.steps), static_cast<long long>(p.devices), ms(p.fastest).c_str(), ms(p.computed).c_str(),
      ms(all).c_str(), ms(hidden).c_str(), fixed(all > 0 ? 100 * hidden / all : 0, 0).c_str(), ms(p.step).c_str());
  for (size_t r = 1; r < p.waited.size(); ++r) {
    std::printf("rank 0 waits %s ms of each step for rank %zu\n", ms(p.waited[r]).c_str(), r);
  }
}

int profile_as_rank(ProfileFlags& f, const Args& args, const comm::Launch& launch) {
  f.source.backend = device_of(f.ranks, f.source.backend, launch);
  const std::unique_ptr<job::Ranks> ranks = join_ranks(f.ranks, launch);
  return with_others(ranks.get(), [&] {
    ranks->need_equal("the arguments", join(args, " "));
    need_own_gpus(*ranks, f.source.backend);
    bench::RankWorkload w(f.source.load(), f.source.options(f.pass()), *ranks);
    if (f.text) {
      if (ranks->first()) std::fputs(print(*w.plan()).c_str(), stdout);
      return 0;
    }
    const bench::RankProfile p = w.profile(f.seconds);
    if (!ranks->first()) return 0;
    const MeasuredPlan measured(*w.plan(), p.plan, f.seconds / 8);
    if (f.json) {
      ordered_json j = {{"model", w.model().name}, {"batch_size", f.source.batch_size}};
      j.update(to_json(measured));
      j.update(to_json(p));
      std::printf("%s\n", j.dump().c_str());
      return 0;
    }
    print_steps(measured, f.top);
    print_sum(cat(w.model().name, " batch ", f.source.batch_size, ", rank 0's part"), measured);
    print_sums(p);
    return 0;
  });
}

}  // namespace

int profile_command(const Args& args) {
  ProfileFlags f;
  Options o("profile", "Prints one line per step of a model's plan, with times and rates.", "[options]",
            "With --devices N processes share each batch as in freight train: the plan is that of rank 0,\n"
            "and the gradient all-reduce is listed with its overlap with compute.\n"
            "  freight profile --model lenet -b 64 --devices 2 --overlap yes");
  f.declare(o);
  o.essentials({"--model", "--batch-size", "--input-size", "--device", "--devices", "--precision", "--recompute",
                "--offload", "--device-memory", "--inference", "--seconds", "--top", "--plan", "--json", "--help"});
  if (o.parse(args) == Options::Outcome::done) return 0;
  const comm::Launch launch = comm::read_launch_environment();
  const int64_t devices = device_count(f.ranks, launch);
  refuse_two_lists(f.ranks, o);
  if (devices == 1 && launch.world == 1) {
    f.source.backend = device_of(f.ranks, f.source.backend, launch);
    return profile_alone(f);
  }
  excludes({"--inference", f.inference}, {"--devices", true}, "one device computes it");
  train::Config shared;
  shared.batch_size = f.source.batch_size;
  need_parts("--devices", devices, shared);
  if (launch.world == 1) return run_ranks("profile", args, f.ranks, devices);
  return profile_as_rank(f, args, launch);
}

}  // namespace freight::app
