// See advice.h.
#include "freight/plan/advice.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "freight/base/duration.h"
#include "freight/base/error.h"

namespace freight::plan {

namespace {

constexpr int64_t kFleets[] = {1, 2, 4, 8, 16, 32, 64};
// The devices of a machine, for a device that no provider offers.
constexpr int64_t kUsualMachine = 8;

Hardware hardware_of(const Device& d, int64_t devices) {
  if (d.kind == "cpu") return Hardware::processor;
  if (devices > 1) return Hardware::several;
  return d.memory_gib <= kModestGib ? Hardware::modest_gpu : Hardware::large_gpu;
}

// The cheapest machine with a device, by the number of devices that it has.
std::map<int64_t, const Price*> machines_of(const Device& d, const Catalog& catalog) {
  std::map<int64_t, const Price*> all;
  for (const Price& p : catalog.prices) {
    if (p.device != d.name || p.count < 1) continue;
    const Price*& cheapest = all[static_cast<int64_t>(p.count)];
    if (!cheapest || p.usd < cheapest->usd) cheapest = &p;
  }
  return all;
}

// Estimates a number of devices in machines of each offered size, since their connection depends on it; in machines of
// the fleet's size if that is fixed, or of the usual size if none is offered.
std::vector<Estimate> estimates_of(const Share& share, const Device& d, const Catalog& catalog, const RunLength& length,
                                   Fleet fleet) {
  fleet.devices = share.devices;
  const std::map<int64_t, const Price*> machines = machines_of(d, catalog);
  if (fleet.per_machine != kAsOffered || machines.empty()) {
    if (fleet.per_machine == kAsOffered) fleet.per_machine = kUsualMachine;
    return {estimate(share.step_plans, d, catalog, length, fleet)};
  }
  std::vector<Estimate> all;
  for (const auto& [size, price] : machines) {
    fleet.per_machine = size;
    Estimate e = estimate(share.step_plans, d, catalog, length, fleet);
    e.offer = Offer{price, std::ceil(static_cast<double>(share.devices) / static_cast<double>(size))};
    if (e.run_hours.high > 0) e.dollars = e.run_hours * e.offer->usd();
    all.push_back(std::move(e));
    if (size >= share.devices) break;  // one machine contains all devices, and so would larger ones
  }
  return all;
}

// All choices that can run it, with their times.
std::vector<Choice> candidates(const std::vector<Share>& shares, const Catalog& catalog, const RunLength& length,
                               const Fleet& fleet) {
  std::vector<Choice> all;
  for (const Share& share : shares) {
    for (const Device& d : catalog.devices) {
      if (share.devices > 1 && d.kind == "cpu") continue;
      for (Estimate& e : estimates_of(share, d, catalog, length, fleet)) {
        if (e.run_hours.high <= 0 || !e.fits.value_or(true)) continue;
        all.push_back({hardware_of(d, share.devices), std::move(e), false});
      }
    }
  }
  return all;
}

// Choices of several machines like this one.
std::vector<Choice> machines_like_this(const std::vector<Share>& shares, const Rates* rates, const RunLength& length,
                                       Fleet fleet) {
  std::vector<Choice> all;
  const bool of_hosts = fleet.measured ? !fleet.measured->one_host : fleet.between.has_value();
  if (!rates || !of_hosts) return all;
  for (const Share& share : shares) {
    if (share.devices == 1) continue;
    fleet.devices = share.devices;
    Choice c{Hardware::several, estimate_here(share.step_plans, rates, length, nullptr, fleet), false};
    if (c.estimate.run_hours.high > 0 && c.estimate.fits.value_or(true)) all.push_back(std::move(c));
  }
  return all;
}

bool in_time(const Choice& c, const Goal& w) { return c.hours() <= (w.deadline_hours > 0 ? w.deadline_hours : kNight); }
bool affordable(const Choice& c, const Goal& w) {
  return w.budget_usd <= 0 || (c.usd() >= 0 && c.usd() <= w.budget_usd);
}

bool cheaper(const Choice& a, const Choice& b) {
  if ((a.usd() < 0) != (b.usd() < 0)) return b.usd() < 0;
  return a.usd() != b.usd() ? a.usd() < b.usd() : a.hours() < b.hours();
}
bool faster(const Choice& a, const Choice& b) { return a.hours() < b.hours(); }

std::optional<Choice> least(const std::vector<Choice>& all, bool (*less)(const Choice&, const Choice&)) {
  const auto it = std::min_element(all.begin(), all.end(), less);
  return it == all.end() ? std::nullopt : std::optional<Choice>(*it);
}

template <class F>
std::vector<Choice> those(const std::vector<Choice>& all, F wanted) {
  std::vector<Choice> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), wanted);
  return some;
}

std::string name_of(const Choice& c) {
  return c.estimate.devices > 1 ? cat(c.estimate.devices, " x ", c.estimate.device) : c.estimate.device;
}
std::string dollars(double usd) { return cat("$", fixed(usd, usd < 10 ? 2 : 0)); }

// Computes by how much the goal is missed: the choice closest in time, the one closest in price, and combinations.
void tell_miss(Advice& a, const std::vector<Choice>& all, const Goal& w) {
  const auto timely = those(all, [&](const Choice& c) { return in_time(c, w); });
  const auto paid = those(all, [&](const Choice& c) { return affordable(c, w); });
  const double deadline = w.deadline_hours > 0 ? w.deadline_hours : kNight;
  if (const auto c = least(timely, cheaper); c && c->usd() >= 0) {
    a.over_usd = c->usd() - w.budget_usd;
    a.miss += cat("Within ", hours_text(deadline), " the cheapest, ", name_of(*c), ", costs ", dollars(c->usd()), ": ",
                  dollars(a.over_usd), " more than the budget of ", dollars(w.budget_usd), ". ");
  }
  if (const auto c = least(paid, faster)) {
    a.late_hours = c->hours() - deadline;
    a.miss += cat(w.budget_usd > 0 ? cat("For ", dollars(w.budget_usd), " the fastest, ") : "The fastest, ",
                  name_of(*c), ", takes ", hours_text(c->hours()), ": ", hours_text(a.late_hours),
                  " more than the deadline of ", hours_text(deadline), ". ");
  } else if (const auto cheap = least(all, cheaper); cheap && cheap->usd() >= 0) {
    a.over_usd = cheap->usd() - w.budget_usd;
    a.miss += cat("The cheapest of all, ", name_of(*cheap), ", costs ", dollars(cheap->usd()), ": ",
                  dollars(a.over_usd), " more than the budget of ", dollars(w.budget_usd), ". ");
  }
  if (!a.miss.empty()) a.miss.pop_back();
}

// Chooses among all that can run it: the least hardware that meets the goal, and of that the cheapest.
Advice chosen(const std::vector<Choice>& all, const Goal& w) {
  Advice a;
  const auto good = those(all, [&](const Choice& c) { return in_time(c, w) && affordable(c, w); });
  a.cheapest = least(good.empty() ? all : good, cheaper);
  a.fastest = least(good.empty() ? all : good, faster);
  if (good.empty()) {
    tell_miss(a, all, w);
    return a;
  }
  const Hardware lowest = std::min_element(good.begin(), good.end(), [](const Choice& x, const Choice& y) {
                            return x.hardware < y.hardware;
                          })->hardware;
  a.answer = least(those(good, [&](const Choice& c) { return c.hardware == lowest; }), cheaper);
  return a;
}

// Lists the choices with the answer's device, or else the fastest choice's, by number, each in the cheapest machines.
void tell_devices(Advice& a, const std::vector<Choice>& all) {
  const std::optional<Choice>& of = a.answer ? a.answer : a.fastest;
  if (!of) return;
  std::map<int64_t, Choice> by;
  for (const Choice& c : all) {
    if (c.estimate.device != of->estimate.device) continue;
    const auto [at, fresh] = by.try_emplace(c.estimate.devices, c);
    if (!fresh && cheaper(c, at->second)) at->second = c;
  }
  by.insert_or_assign(of->estimate.devices, *of);
  for (auto& [devices, choice] : by) a.by_devices.push_back(std::move(choice));
}

void tell_several(Advice& a) {
  const Estimate& e = a.answer->estimate;
  const double share = efficiency(a, *a.answer);
  if (e.devices == 1 || share <= 0) return;
  const auto machines = e.offer ? static_cast<int64_t>(e.offer->machines) : 1;
  a.reasons.push_back(cat(e.devices, " of them", machines > 1 ? cat(" in ", machines, " machines") : "", " train ",
                          fixed(share * static_cast<double>(e.devices), 1), " times as fast as one, ",
                          fixed(100 * share, 0), " % of linear; a step is limited by ", e.limit, "."));
}

void tell_here(Advice& a) {
  if (!a.here || a.answer->here) return;
  a.reasons.push_back(cat("This machine would take ", hours_text(a.here->hours()), ", ",
                          fixed(a.here->hours() / a.answer->hours(), 1), " times as long."));
}

void tell_reasons(Advice& a, const Share& whole, const std::vector<Choice>& all, const Catalog& catalog) {
  const StepPlan& d = whole.step_plans[0];
  const Choice& c = *a.answer;
  const Estimate& e = c.estimate;
  a.reasons.push_back(cat("A step does ", fixed(d.flops / d.moved, 1), " FLOPs per byte that it moves and needs ",
                          human_bytes(static_cast<double>(d.total())), "."));
  if (!c.here) {
    constexpr const char* kWords[kBounds] = {"arithmetic", "memory", "starting kernels", "copies to and from the host"};
    const Bound most = e.shares.largest();
    a.reasons.push_back(cat("On ", name_of(c), " ", fixed(100 * e.shares[most], 0), " % of it is bound by ",
                            kWords[static_cast<size_t>(most)], "."));
  }
  if (e.data_seconds.high >= e.step_seconds.high) {
    a.reasons.push_back("Reading or sending the data is the bottleneck: a faster device would wait.");
  }
  tell_several(a);
  tell_here(a);
  // Explains why less hardware is not sufficient.
  size_t small = 0;
  for (const Device& m : catalog.devices) {
    if (hardware_of(m, 1) != Hardware::modest_gpu) continue;
    const bool fits = std::any_of(all.begin(), all.end(), [&](const Choice& x) {
      return x.estimate.devices == 1 && x.estimate.device == m.name;
    });
    small += fits ? 0 : 1;
  }
  if (small > 0 && c.hardware > Hardware::modest_gpu) {
    a.reasons.push_back(cat("On ", small, " of the small GPUs it does not fit unchanged."));
  }
}

void tell_changes(Advice& a, const std::vector<Choice>& all, const Goal& w) {
  const Choice& c = *a.answer;
  // Finds the deadline that less hardware would meet.
  const auto less = those(all, [&](const Choice& x) { return x.hardware < c.hardware && affordable(x, w); });
  if (const auto slow = least(less, faster)) {
    a.changes.push_back(cat("With a deadline of ", hours_text(slow->hours()), " ", name_of(*slow), " would do (",
                            to_string(slow->hardware), ")."));
  }
  const auto quick = those(all, [&](const Choice& x) { return x.hours() < 0.7 * c.hours() && affordable(x, w); });
  if (const auto next = least(quick, cheaper)) {
    a.changes.push_back(cat("With a deadline below ", hours_text(c.hours()), ": ", name_of(*next), ", ",
                            hours_text(next->hours()), next->usd() >= 0 ? cat(", ", dollars(next->usd())) : "", "."));
  }
  if (c.estimate.shares[Bound::launch] > 0.3 && !c.here) {
    a.changes.push_back(cat("A larger batch costs little time here: ", fixed(100 * c.estimate.shares[Bound::launch], 0),
                            " % of a step starts kernels."));
  }
}

}  // namespace

double efficiency(const Advice& advice, const Choice& choice) {
  if (advice.by_devices.empty() || advice.by_devices[0].estimate.devices != 1) return 0;
  const double one = advice.by_devices[0].estimate.samples_per_second.middle();
  return choice.estimate.samples_per_second.middle() / (one * static_cast<double>(choice.estimate.devices));
}

const char* to_string(Hardware h) {
  constexpr const char* kNames[] = {"stay on the CPU", "one small GPU",
                                    "a workstation or a cloud instance, one large GPU", "several GPUs or a cluster"};
  return kNames[static_cast<size_t>(h)];
}

std::vector<Share> shares(const TrainingSetup& setup, const StepPlanOptions& options) {
  std::vector<int64_t> devices;
  std::vector<StepPlanOptions> each;
  for (const int64_t n : kFleets) {
    StepPlanOptions o = options;
    o.batch = (options.batch + n - 1) / n;
    o.ranks = n;
    o.parts = std::min(options.parts, o.batch);
    if (n > options.batch || (!each.empty() && each.back().batch == o.batch)) break;
    o.whole_run = options.whole_run;
    devices.push_back(n);
    each.push_back(o);
  }
  if (each.size() == 1) {  // for a batch of one the formula needs a second size
    StepPlanOptions o = options;
    o.batch = 2 * options.batch;
    each.push_back(o);
  }
  std::vector<StepPlan> made = plan_steps(setup, each);
  for (StepPlan& d : made) add_lengths(d, setup);
  std::vector<Share> all;
  for (size_t i = 0; i < devices.size(); ++i) {
    all.push_back({devices[i], {made[i], made[i + 1 < made.size() ? i + 1 : i - 1]}});
  }
  return all;
}

Advice advise(const std::vector<Share>& shares, const Catalog& catalog, const Rates* rates, const RunLength& length,
              const Goal& w, const Fleet& fleet) {
  FREIGHT_CHECK(length.steps_per_epoch > 0 && length.epochs > 0, "advice needs the length of the run");
  std::vector<Choice> all = candidates(shares, catalog, length, fleet);
  for (Choice& c : machines_like_this(shares, rates, length, fleet)) all.push_back(std::move(c));
  Choice here{Hardware::processor, estimate_here(shares[0].step_plans, rates, length), true};
  const bool counts = here.estimate.timed && here.estimate.fits.value_or(true);
  if (counts) all.push_back(here);
  if (all.empty()) {
    fail(ErrorKind::usage, "advise", "no device of the catalog fits this run: expected ",
         human_bytes(static_cast<double>(shares[0].step_plans[0].total())),
         "; try a smaller --batch-size or --recompute all");
  }
  Advice a = chosen(all, w);
  tell_devices(a, all);
  if (counts) a.here = std::move(here);
  if (!a.answer) return a;
  tell_reasons(a, shares[0], all, catalog);
  tell_changes(a, all, w);
  return a;
}

Advice advise_trees(const std::vector<Estimate>& estimates, const Catalog& catalog, const Goal& w) {
  FREIGHT_CHECK(!estimates.empty(), "advice on trees needs an estimate of this machine");
  const Choice here{Hardware::processor, estimates[0], true};
  const bool fits = here.estimate.fits.value_or(true);
  std::vector<Choice> all;
  if (fits) all.push_back(here);
  for (size_t i = 1; i < estimates.size(); ++i) {
    const Estimate& e = estimates[i];
    if (e.timed && e.fits.value_or(true)) all.push_back({hardware_of(catalog.device(e.device), 1), e, false});
  }
  if (all.empty()) {
    fail(ErrorKind::usage, "advise", "neither this machine nor a GPU of the catalog fits this table: ",
         "--external-memory on fits it from the disk");
  }
  Advice a = chosen(all, w);
  if (fits) {
    a.here = here;
  } else {
    a.changes.emplace_back(
        "The table does not fit in this machine's memory: --external-memory on keeps it on disk, which takes "
        "longer.");
  }
  if (!a.answer) return a;
  tell_here(a);
  tell_changes(a, all, w);
  return a;
}

double parse_hours(const std::string& flag, const std::string& text) {
  constexpr double kSecondsPerHour = 3600;
  return parse_seconds(flag, text) / kSecondsPerHour;
}

std::string hours_text(double h) {
  if (h < 1.0 / 60) return cat(fixed(h * 3600, h < 1.0 / 360 ? 1 : 0), " s");
  if (h < 1.5) return cat(fixed(h * 60, h < 0.1 ? 1 : 0), " min");
  if (h < 72) return cat(fixed(h, h < 10 ? 1 : 0), " h");
  return cat(fixed(h / 24, h < 240 ? 1 : 0), " days");
}

}  // namespace freight::plan
